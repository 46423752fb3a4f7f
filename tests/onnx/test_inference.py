"""Sizes that ONNX's inference does not find are those of ONNX, not of the four dimensions of a tensor of DirectML."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, shape_inference
from onnx.helper import make_node

from dmlpy import onnx
from dmlpy.onnx.lowering import shape_inference as own_inference
from tests.support.onnx.models import model

ROWS: list[tuple[str, int, list[tuple[int, ...]], dict[str, Any], tuple[int, ...]]] = [
    *((operator, 12, [(3, 4), (4,)], {}, (3, 4)) for operator in ("GreaterOrEqual", "LessOrEqual")),
    *((operator, opset, [(), (2,)], {}, (2,)) for operator in ("GreaterOrEqual", "LessOrEqual") for opset in (12, 15, 16)),
    ("GreaterOrEqual", 13, [(), ()], {}, ()),
    ("LessOrEqual", 12, [(1, 2, 1, 3, 1), (3, 2)], {}, (1, 2, 1, 3, 2)),
    ("Transpose", 13, [()], {}, ()),
    ("Transpose", 21, [(2, 3, 4)], {"perm": [2, 0, 1]}, (4, 2, 3)),
    ("MeanVarianceNormalization", 9, [(2, 3, 4)], {"axes": [0, 2]}, (2, 3, 4)),
    ("MeanVarianceNormalization", 13, [(2, 3)], {"axes": [1]}, (2, 3)),
    ("Relu", 1, [(3,)], {}, (3,)),
    ("Add", 6, [(2, 3, 4), (3,)], {"broadcast": 1, "axis": 1}, (2, 3, 4)),
    ("Sum", 1, [(3,), (3,)], {}, (3,)),
    ("Concat", 1, [(2, 2), (2, 3)], {"axis": 1}, (2, 5)),
    *(("Slice", opset, [(4, 5, 6)], {"starts": [1, 0], "ends": [2**31, -1], "axes": [1, 0]}, (3, 4, 6)) for opset in (1, 9)),
]
"""Operator, opset, sizes of the inputs, attributes, sizes of the output (ONNX Runtime 1.32.0 where it has the version)."""


@pytest.mark.parametrize(("operator", "opset", "sizes", "attributes", "expected"), ROWS)
def test_sizes_are_those_of_onnx(
    operator: str, opset: int, sizes: list[tuple[int, ...]], attributes: dict[str, Any], expected: tuple[int, ...]
) -> None:
    names = [f"x{index}" for index in range(len(sizes))]
    types = {"y": TensorProto.BOOL} if operator.endswith("OrEqual") else {}
    nodes = [make_node(operator, names, ["y"], **attributes)]
    built = model(nodes, dict(zip(names, sizes, strict=True)), ["y"], opset=opset, types=types)
    loaded = onnx.load(built)
    assert loaded.outputs["y"].sizes == expected
    rng = np.random.default_rng(0)
    found = loaded.compile("numpy")({name: rng.standard_normal(own).astype(np.float32) for name, own in zip(names, sizes, strict=True)})
    assert found["y"].shape == expected


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("opset", [10, 13, 19])
def test_an_empty_batch_is_resized_as_another(opset: int, batch: int) -> None:
    """The product of 10 and 0.7 is 7, as FLOAT rounds it; ONNX's inference gives 6, which is that of no result."""
    scales = np.float32([1, 1, 0.7])
    names = ["x", "scales"] if opset < 11 else ["x", "", "scales"]
    proto = model([make_node("Resize", names, ["y"])], {"x": ["n", 2, 10]}, ["y"], opset=opset, constants={"scales": scales})
    assert onnx.load(proto).compile("numpy")({"x": np.ones((batch, 2, 10), np.float32)})["y"].shape == (batch, 2, 7)


@pytest.mark.parametrize(("before", "after"), [((0, 1, 2, 2), (0, 1, 4, 3)), ((1, 0, 2, 2), (1, 0, 3, 2)), ((1, 1, 0, 2), (1, 1, 0, 3))])
@pytest.mark.parametrize("is_known", [True, False])
def test_what_has_no_elements_is_resized_if_it_stays_so(before: tuple[int, ...], after: tuple[int, ...], is_known: bool) -> None:
    sizes = np.asarray(after, np.int64)
    inputs, known = ({"x": before}, {"sizes": sizes}) if is_known else ({"x": before, "sizes": sizes.shape}, {})
    node = make_node("Resize", ["x", "", "", "sizes"], ["y"])
    proto = model([node], inputs, ["y"], opset=19, types={"sizes": TensorProto.INT64}, constants=known)
    given = {"x": np.empty(before, np.float32)} | ({} if is_known else {"sizes": sizes})
    assert onnx.load(proto).compile("numpy")(given)["y"].shape == after


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, np.int64])
@pytest.mark.parametrize("axis", [-1, 0])
def test_depths_of_all_types_add_one_dimension(dtype: Any, axis: int) -> None:
    node = make_node("OneHot", ["at", "depth", "values"], ["y"], axis=axis)
    constants = {"depth": np.asarray(4, dtype), "values": np.float32([2, 5])}
    proto = model([node], {"at": [2]}, ["y"], opset=13, types={"at": TensorProto.INT64}, constants=constants)
    found = onnx.load(proto).compile("numpy")({"at": np.array([1, 3])})["y"]
    expected = np.float32([[2, 5, 2, 2], [2, 2, 2, 5]])
    np.testing.assert_array_equal(found, expected if axis else expected.T)


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_an_entry_by_all_indices_is_a_scalar(opset: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = make_node("GatherND", ["x", "at"], ["y"])
    loaded = onnx.load(model([node], {"x": [2, 3]}, ["y"], opset=opset, constants={"at": np.asarray([1, 2])}))
    found = loaded.compile("numpy")({"x": x})["y"]
    assert found.shape == ()
    assert found == 5


@pytest.mark.parametrize(("operator", "sizes", "axis"), [("Add", (3,), 1), ("Mul", (2, 3), 0), ("Sub", (4,), None), ("Div", (3, 4), 1)])
def test_axes_before_opset_7_say_what_the_second_tensor_stands_for(operator: str, sizes: tuple[int, ...], axis: int | None) -> None:
    """By the text of opset 6: axis 1 of (2, 3, 4, 5) and (3, 4) leaves 5 to be repeated. ONNX Runtime 1.32.0 has no such version."""
    rng = np.random.default_rng(2)
    a, b = rng.uniform(1, 2, (2, 3, 4)).astype(np.float32), rng.uniform(1, 2, sizes).astype(np.float32)
    node = make_node(operator, ["a", "b"], ["y"], broadcast=1, **({} if axis is None else {"axis": axis}))
    found = onnx.load(model([node], {"a": a.shape, "b": sizes}, ["y"], opset=6)).compile("numpy")({"a": a, "b": b})["y"]
    start = 3 - len(sizes) if axis is None else axis
    wide = b.astype(np.float64).reshape(*sizes, *[1] * (3 - start - len(sizes)))
    function = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide}[operator]
    np.testing.assert_allclose(found, function(a.astype(np.float64), wide), rtol=1e-6)


def test_a_node_of_unknown_sizes_is_not_given_four_dimensions() -> None:
    """ONNX's inference refuses two dimensions of lengths, and then says nothing of the outputs."""
    node = make_node("Split", ["x", "lengths"], ["y", "z"])
    loaded = onnx.load(model([node], {"x": [2, 3]}, ["y", "z"], opset=13, constants={"lengths": np.asarray([[1, 1]])}))
    (record,) = loaded.interpretation().records
    assert record.where == "host"
    assert record.problems[0].headline().startswith("output 0 is of unknown dimensions, expected sizes that follow")


def test_nodes_that_differ_by_names_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What inference reads keeps them apart: attributes, sizes and the elements of shapes, but not of weights."""
    inferred: list[str] = []
    infer = shape_inference.infer_node_outputs

    def counted(schema: Any, node: Any, *arguments: Any, **more: Any) -> Any:
        inferred.append(node.output[0])
        return infer(schema, node, *arguments, **more)

    monkeypatch.setattr(shape_inference, "infer_node_outputs", counted)
    monkeypatch.setattr(own_inference, "_INFERRED", {})
    constants = {"p": np.array([6, 2]), "q": np.array([4, 3]), "w": np.ones((3, 3), np.float32), "v": np.zeros((3, 3), np.float32)}
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"]),
        make_node("MatMul", ["a", "v"], ["b"]),  # other weights
        make_node("Reshape", ["b", "p"], ["c"]),
        make_node("Reshape", ["b", "q"], ["d"]),  # another shape
        make_node("Transpose", ["d"], ["e"], perm=[1, 0]),
        make_node("Transpose", ["d"], ["f"], perm=[0, 1]),  # another attribute
        make_node("Transpose", ["c"], ["g"], perm=[1, 0]),  # other sizes
        make_node("Transpose", ["d"], ["h"], perm=[1, 0]),
    ]
    records = onnx.load(model(nodes, {"x": [4, 3]}, ["e", "f", "g", "h"], constants=constants)).interpretation().records
    assert inferred == ["a", "c", "d", "e", "f", "g"]
    sizes = [record.outputs[0].sizes for record in records]
    assert sizes == [(4, 3), (4, 3), (6, 2), (4, 3), (3, 4), (4, 3), (2, 6), (3, 4)]
