"""`dmlpy.onnx.Limits`: what a model takes before it runs is refused or left to its runs, and reported by the limit's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.helper import make_function, make_node, make_opsetid, make_sparse_tensor, make_tensor

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.loading import message_count, tensors
from dmlpy.onnx.lowering import host_evaluation, model_lowering
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.nodes.costs import cost_of
from dmlpy.onnx.nodes.node import Node
from tests.support.onnx.models import model
from tests.support.onnx.mutants import bases

ONES = np.ones((20, 30), np.float32)


def relus(count: int) -> ModelProto:
    names = ["x", *(f"v{index}" for index in range(1, count)), "y"]
    return model([make_node("Relu", [names[index]], [names[index + 1]]) for index in range(count)], {"x": [2, 3]}, ["y"])


def cropped() -> ModelProto:
    return model([make_node("CenterCropPad", ["x", "s"], ["y"])], {"x": [2, 3]}, ["y"], constants={"s": np.array([2, 2])}, opset=18)


def with_sparse() -> ModelProto:
    built = model([make_node("Identity", ["s"], ["y"])], {}, ["y"])
    built.graph.sparse_initializer.append(make_sparse_tensor(make_tensor("s", 1, [1], [5.0]), make_tensor("i", 7, [1], [1]), [100]))
    return built


def with_function() -> ModelProto:
    nodes = [make_node("f", [f"v{index}"], [f"v{index + 1}"], domain="own") for index in range(4)]
    built = model(nodes, {"v0": [2]}, ["v4"], domains={"own": 1})
    weights = make_node("Constant", [], ["w"], value=make_tensor("w", TensorProto.UINT8, [1000], bytes(1000), raw=True))
    built.functions.append(make_function("own", "f", ["a"], ["b"], [weights, make_node("Relu", ["a"], ["b"])], [make_opsetid("", 21)]))
    return built


REFUSED: list[tuple[str, dict[str, int], Callable[[], ModelProto], str]] = [
    ("nodes", {"nodes": 9}, lambda: relus(10), "graph has 10 nodes"),
    ("nodes", {"nodes": 2}, cropped, "node 3"),  # ONNX defines it by other operators
    ("nodes", {"nodes": 20}, lambda: model([make_node("Sum", ["x"] * 399, ["y"])], {"x": [2]}, ["y"]), "1 node and 402 values"),
    (
        "nodes",
        {"nodes": 20},
        lambda: model([make_node("Relu", ["x0"], ["y"])], {f"x{i}": [2] for i in range(400)}, ["y"]),
        "1 node and 403 values",
    ),
    ("bytes", {"bytes": 3999}, with_function, "bytes in all places where they are called"),
    ("bytes", {"bytes": 399}, with_sparse, "400 bytes with their zeros"),
    ("characters", {"characters": 20}, lambda: relus(10), "characters of names"),
    ("messages", {"messages": 20}, lambda: relus(10), "21 messages or more"),
]


@pytest.mark.parametrize("given", [1000, {"nodes": 1000}])
def test_limits_are_limits(given: Any) -> None:
    with pytest.raises(dml.DescError, match=r"limits is .*1000.*, expected dmlpy\.onnx\.Limits"):
        onnx.load(relus(2), limits=given)


@pytest.mark.parametrize(("limit", "given", "make", "found"), REFUSED, ids=[f"{row[0]} {row[3]}" for row in REFUSED])
def test_what_cannot_wait_is_refused(limit: str, given: dict[str, int], make: Callable[[], ModelProto], found: str) -> None:
    data = make().SerializeToString()
    with pytest.raises(dml.DescError) as caught:
        onnx.load(data, limits=onnx.Limits(**given)).report()
    (problem,) = caught.value.problems
    assert (problem.code, problem.why) == ("onnx.limit", (f"limit {limit!r} of dmlpy.onnx.Limits",))
    assert found in problem.headline()
    assert problem.remedy is not None
    assert f"limits=dmlpy.onnx.Limits({limit}=...)" in problem.remedy
    assert f"at most {given[limit]} " in problem.expected
    onnx.load(data, limits=onnx.Limits(**{limit: 10**6})).report()


@pytest.mark.parametrize("limits", [{"elements": 10}, {"bytes": 10}], ids=str)
def test_constants_without_room_are_computed_by_the_run(limits: dict[str, int]) -> None:
    nodes = [make_node("Neg", ["w"], ["a"]), make_node("Transpose", ["a"], ["b"]), make_node("Add", ["b", "x"], ["y"])]
    built = model(nodes, {"x": [30, 20]}, ["y"], constants={"w": ONES})
    usual, tight = onnx.load(built), onnx.load(built, limits=onnx.Limits(**limits))
    assert [record.where for record in usual.interpretation().records] == ["folded", "folded", "directml"]
    assert [record.where for record in tight.interpretation().records] == ["directml"] * 3
    given = {"x": np.random.default_rng(3).standard_normal((30, 20)).astype(np.float32)}
    np.testing.assert_array_equal(tight.compile("numpy")(given)["y"], usual.compile("numpy")(given)["y"])


def test_small_constants_fit_next_to_large_ones() -> None:
    nodes = [make_node("Neg", ["w"], ["a"]), make_node("Shape", ["w"], ["s"]), make_node("Expand", ["x", "s"], ["y"])]
    records = (
        onnx.load(model(nodes, {"x": [1, 1]}, ["a", "y"], constants={"w": ONES}), limits=onnx.Limits(bytes=500)).interpretation().records
    )
    assert [record.where for record in records] == ["directml", "folded", "directml"]


def test_arrays_that_lowerings_make_are_counted() -> None:
    node = make_node("Resize", ["x", "", "", "s"], ["y"], mode="cubic", coordinate_transformation_mode="asymmetric")
    built = model([node], {"x": [1, 1, 50, 50]}, ["y"], constants={"s": np.array([1, 1, 200, 200])})
    (record,) = onnx.load(built).interpretation().records
    assert record.where == "directml"
    (record,) = onnx.load(built, limits=onnx.Limits(bytes=50_000)).interpretation().records
    assert [problem.code for problem in record.problems] == ["onnx.limit"]
    assert "10000 numbers" in record.problems[0].found


def test_limits_hold_for_sizes_that_follow_from_others() -> None:
    node, scales = make_node("Resize", ["x", "", "s"], ["y"], mode="cubic"), np.array([1, 1, 2, 2], np.float32)
    built = model([node], {"x": [1, 1, "a", 4]}, ["y"], constants={"s": scales})
    compiled = onnx.load(built, limits=onnx.Limits(bytes=200_000)).compile("numpy")
    for size in (5, 7, 9, 40):
        assert compiled(x=np.ones((1, 1, size, 4), np.float32))["y"].shape == (1, 1, 2 * size, 8)
    with pytest.raises(dml.CompileError, match="80000 numbers"):
        compiled(x=np.ones((1, 1, 200, 4), np.float32))


def test_steps_that_become_operators_are_counted() -> None:
    node = make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, clip=1.0)
    built = model([node], {"x": [30, 1, 2]}, ["y"], constants={"w": np.ones((1, 2, 2), np.float32), "r": np.ones((1, 2, 2), np.float32)})
    (record,) = onnx.load(built, limits=onnx.Limits(nodes=31)).interpretation().records
    assert record.where == "directml"
    (record,) = onnx.load(built, limits=onnx.Limits(nodes=30)).interpretation().records
    assert (record.problems[0].code, record.problems[0].found) == ("onnx.limit", "30 steps")


def test_sequences_that_hold_all_before_are_counted() -> None:
    nodes = [make_node("SequenceConstruct", ["x"], ["v0"])]
    nodes += [make_node("SequenceInsert", [f"v{index}", "x"], [f"v{index + 1}"]) for index in range(9)]
    nodes.append(make_node("ConcatFromSequence", ["v9"], ["y"], axis=0))
    tight = onnx.load(model(nodes, {"x": [2]}, ["y"]), limits=onnx.Limits(bytes=8 * (2 + 3 + 4)))
    left = [record for record in tight.interpretation().records if record.op_type == "SequenceInsert"]
    assert len(left) == 6
    assert left[0].problems[0].code == "onnx.limit"
    np.testing.assert_array_equal(tight.compile("numpy")({"x": np.array([1, 2], np.float32)})["y"], [1, 2] * 10)


def _outside(folder: Path, names: list[str], offset: int = 0) -> ModelProto:
    (folder / "weights.bin").write_bytes(np.arange(100, dtype=np.float32).tobytes())
    built = model([make_node("Add", [names[0], names[1]], ["y"])], {}, ["y"])
    for place, name in enumerate(names):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[50], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": "weights.bin", "offset": str(offset * place)}.items():
            tensor.external_data.add(key=key, value=value)
        tensor.external_data.add(key="length", value="200")
        built.graph.initializer.append(tensor)
    return built


@pytest.mark.parametrize(("offset", "reads"), [(0, 1), (4, 2)])
def test_external_data_is_read_once_and_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, reads: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_outside(tmp_path, ["a", "b", "unread"], offset).SerializeToString())
    seen: list[str] = []
    array_of = tensors.array_of

    def watched(tensor: TensorProto, folder: Path | None) -> Any:
        seen.append(tensor.name)
        return array_of(tensor, folder)

    monkeypatch.setattr(tensors, "array_of", watched)
    found = onnx.load(path)
    assert seen == []
    found.report()
    assert seen == ["a", "b"][:reads]
    np.testing.assert_array_equal(found.compile("numpy")({})["y"], 2 * np.arange(50) + offset // 4)


def test_holes_are_no_stored_bytes(tmp_path: Path) -> None:
    with (tmp_path / "weights.bin").open("wb") as file:
        file.write(bytes(1 << 16))
        file.truncate(1 << 24)
    assert tensors.stored_bytes(tmp_path / "weights.bin") in (1 << 16, 1 << 24)  # the latter where the system does not report it
    assert tensors.stored_bytes(tmp_path / "missing.bin") == 0


@pytest.mark.parametrize("data", bases())
def test_messages_are_counted_before_they_are_parsed(data: bytes) -> None:
    proto = ModelProto()
    proto.ParseFromString(data)

    def count(message: Any) -> int:
        found = 1
        for item, value in message.ListFields():
            if item.message_type is not None:
                found += sum(map(count, value)) if hasattr(value, "__len__") else count(value)
        return found

    exact = count(proto) - 1
    assert exact <= message_count.count_messages(data, 10**6) <= 2 * exact
    assert message_count.count_messages(data, 5) == 6


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x3a\xff\xff\xff\xff\x0f", b"\x0b\x0b\x0c", b"\x3a\x02\x0a" * 200], ids=repr)
def test_what_is_no_protobuf_is_not_counted_for_ever(data: bytes) -> None:
    assert message_count.count_messages(data, 100) <= 101


def test_texts_are_held_one_by_one() -> None:
    stored = make_tensor("t", TensorProto.STRING, [2, 2], [b"a" * 1000, b"", "é".encode(), b"b"])
    found = tensors.array_of(stored, None)
    assert (found.dtype, found.tolist()) == (np.dtype(object), [["a" * 1000, ""], ["é", "b"]])
    nodes = [make_node("Constant", [], ["y"], value=stored), make_node("Constant", [], ["z"], value_strings=["a", "bc"])]
    result = onnx.load(model(nodes, {}, ["y", "z"])).compile("numpy")({})
    assert (result["y"].tolist(), result["z"].tolist()) == ([["a" * 1000, ""], ["é", "b"]], ["a", "bc"])


def texts(op_type: str, **attributes: Any) -> ModelProto:
    built = model([make_node(op_type, ["t"], ["y"], **attributes)], {}, ["y"], opset=20)
    built.graph.initializer.append(make_tensor("t", TensorProto.STRING, [1], [b"ab"]))
    return built


def large(node: NodeProto, **arrays: Any) -> ModelProto:
    return model([node], {}, ["y"], constants=arrays, opset=21)


NOT_AHEAD: dict[str, Callable[[], ModelProto]] = {
    "a pattern": lambda: texts("RegexFullMatch", pattern="a.*"),
    "words": lambda: texts("StringNormalizer", case_change_action="LOWER"),
    "an image": lambda: large(make_node("ImageDecoder", ["a"], ["y"]), a=np.zeros(9, np.uint8)),
    "boxes": lambda: large(
        make_node("NonMaxSuppression", ["a", "b"], ["y"]), a=np.ones((1, 900, 4), np.float32), b=np.ones((1, 1, 900), np.float32)
    ),
    "a large determinant": lambda: large(make_node("Det", ["a"], ["y"]), a=np.ones((60, 60), np.float32)),
    "samples of a region": lambda: large(
        make_node("RoiAlign", ["a", "b", "c"], ["y"], sampling_ratio=10**6),
        a=np.ones((1, 1, 9, 9), np.float32),
        b=np.ones((1, 4), np.float32),
        c=np.zeros(1, np.int64),
    ),
    "padding": lambda: large(
        make_node("Conv", ["a", "b"], ["y"], pads=[9**6] * 4, strides=[9**6] * 2),
        a=np.ones((1, 1, 9, 9), np.float32),
        b=np.ones((1, 1, 3, 3), np.float32),
    ),
}


@pytest.mark.parametrize("make", NOT_AHEAD.values(), ids=NOT_AHEAD)
def test_what_may_cost_much_is_left_to_the_run(make: Callable[[], ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []

    def counted(*given: object) -> None:
        ran.append(given)

    monkeypatch.setattr(host_evaluation, "evaluate_node", counted)
    monkeypatch.setattr(model_lowering, "evaluate_program", counted)
    (record,) = onnx.load(make()).interpretation().records
    assert record.where != "folded"
    assert ran == []


WRONG = [{"nodes": -1}, {"unrolled": None}, {"bytes": 1.5}, {"characters": "many"}, {"messages": True}]


@pytest.mark.parametrize("given", WRONG, ids=json.dumps)
def test_limits_are_numbers(given: dict[str, Any]) -> None:
    with pytest.raises(dml.DescError, match=rf"onnx.Limits.*\n.*{next(iter(given))} is .*expected a number of 0 or more"):
        onnx.Limits(**given)


COSTS: list[tuple[NodeProto, dict[str, Any], float, float]] = [
    (make_node("Add", ["a", "b"], ["y"]), {"a": np.ones((50, 1)), "b": np.ones((1, 40))}, 2090, 16_000),
    (make_node("MatMul", ["a", "b"], ["y"]), {"a": np.ones((50, 7)), "b": np.ones((7, 40))}, 100_000, 16_000),
    (make_node("StringConcat", ["a", "a"], ["y"]), {"a": np.array(["abc", "d"], object)}, 6 * (64 + 24), 6 * (64 + 24)),
    (make_node("Det", ["a"], ["y"]), {"a": np.ones((3, 3))}, 64 * 100, 8),
    (make_node("NonZero", ["a"], ["y"]), {"a": np.ones((3, 4))}, 12 + 24, 192),
]


@pytest.mark.parametrize(("proto", "arrays", "elements", "held"), COSTS, ids=[row[0].op_type for row in COSTS])
def test_costs_are_reported_before_anything_is_computed(
    proto: NodeProto, arrays: dict[str, Any], elements: float, held: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, float]] = []
    placed = Lowering._lower_node

    def watched(self: Lowering, node: Node, *rest: Any) -> Any:
        seen.append(cost_of(node))
        return placed(self, node, *rest)

    monkeypatch.setattr(Lowering, "_lower_node", watched)
    built = model([proto], {}, ["y"], opset=20)
    built.graph.initializer.extend(_stored(name, array) for name, array in arrays.items())
    onnx.load(built, limits=onnx.Limits(elements=0)).interpretation()
    assert seen == [(elements, held)]


def _stored(name: str, array: Any) -> TensorProto:
    if array.dtype == object:
        return make_tensor(name, TensorProto.STRING, array.shape, [text.encode() for text in array.ravel()])
    return helper.make_tensor(name, TensorProto.DOUBLE, array.shape, array.ravel())
