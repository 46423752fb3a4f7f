"""Nodes whose sizes are known only when the model runs give what they give with sizes that are known before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.lowering import host_evaluation
from dmlpy.onnx.lowering.model_lowering import SingleNodeLowering
from dmlpy.onnx.runtime import compiled_program, deferred_nodes
from tests.support.onnx.hidden_sizes import WAYS, array_type, hidden, is_hidable
from tests.support.onnx.models import model
from tests.support.onnx.node_cases import node_cases, spread, stored
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
RANDOM = ("test_bernoulli", "test_training_dropout")
"""Cases of random numbers, which are other ones in each run."""


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


@cache
def cases() -> list[str]:
    """The smallest and the largest passing case of each operator."""
    return [name for names in spread().values() for name in names if not name.startswith(RANDOM)]


@pytest.mark.parametrize("way", WAYS)
def test_no_result_depends_on_when_sizes_are_known(way: str) -> None:
    own = node_cases(quick=True)
    names = cases()[[*WAYS].index(way) :: 3 * len(WAYS)]  # all cases in all ways are a slow test
    found = {name: hidden(own[name], way) for name in names if is_hidable(own[name], way)}
    assert len(found) > 15
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("way", WAYS)
def test_no_result_depends_on_when_sizes_are_known_on_cuda(cuda_device: dml.Device, way: str) -> None:
    names = [
        name for name in ("test_relu", "test_gather_0", "test_softmax_axis_1", "test_gemm_all_attributes") if name in node_cases(quick=True)
    ]
    assert {name: wrong for name in names if (wrong := hidden(node_cases(quick=True)[name], way, cuda_device))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_no_result_of_any_case_depends_on_when_sizes_are_known(way: str) -> None:
    others = stored()["others"]
    known = {name for name, (status, _) in others.items() if status in ("wrong", "error", "nowhere")}
    found = {
        name: wrong
        for name, case in node_cases().items()
        if is_hidable(case, way) and name not in known and not name.startswith(RANDOM) and (wrong := hidden(case, way))
    }
    assert found == {}


# What a node is compiled for


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets an entry whenever nodes are compiled."""
    made: list[str] = []
    compiled = deferred_nodes.DeferredNodes._compile

    def noted(self: Any, *given: Any) -> Any:
        made.append(self._name)
        return compiled(self, *given)

    monkeypatch.setattr(deferred_nodes.DeferredNodes, "_compile", noted)
    return made


def recurrent(operator: str, gates: int, **attributes: Any) -> tuple[onnx.Model, dict[str, Array], dict[str, Array]]:
    """A layer behind a Compress that keeps some samples: the model, its inputs, its weights."""
    weights = {"w": normal(1, gates * 4, 3), "r": normal(1, gates * 4, 4), "b": normal(1, gates * 8), "one": np.asarray(1, np.int64)}
    nodes = [
        make_node("Compress", ["x", "keep"], ["kept"], axis=1),
        make_node("Compress", ["lengths", "keep"], ["own"], axis=0),
        make_node(operator, ["kept", "w", "r", "b", "own"], ["y", "h"], name="layer", hidden_size=4, **attributes),
    ]
    types = {"keep": TensorProto.BOOL, "lengths": TensorProto.INT32}
    proto = model(nodes, {"x": [5, 4, 3], "keep": [4], "lengths": [4]}, ["y", "h"], types=types, constants=weights)
    given = {"x": normal(5, 4, 3), "keep": np.asarray([True, False, True, True]), "lengths": np.asarray([5, 1, 2, 4], np.int32)}
    return onnx.load(proto), given, weights


@pytest.mark.parametrize(
    ("operator", "gates", "attributes"),
    [
        ("RNN", 1, {"clip": 0.3}),
        ("GRU", 3, {"activations": ["HardSigmoid", "Relu"]}),
        ("GRU", 3, {"linear_before_reset": 1, "direction": "reverse"}),
        ("LSTM", 4, {"input_forget": 1}),
        ("LSTM", 4, {"clip": 0.2, "activations": ["Sigmoid", "Softsign", "Tanh"]}),
    ],
)
def test_a_recurrent_layer_over_chosen_samples(operator: str, gates: int, attributes: dict[str, Any]) -> None:
    found, given, weights = recurrent(operator, gates, **attributes)
    chosen = {"x": given["x"][:, given["keep"]], "own": given["lengths"][given["keep"]]}
    node = make_node(operator, ["x", "w", "r", "b", "own"], ["y", "h"], hidden_size=4, **attributes)
    types = {"own": TensorProto.INT32}
    known = onnx.load(model([node], {name: array.shape for name, array in chosen.items()}, ["y", "h"], types=types, constants=weights))
    expected = known.compile("numpy")(chosen)
    assert found.report().nodes[-1].where == "deferred"
    for device in ("numpy", "cpu"):
        results = found.compile(device)(given)
        for name, array in expected.items():
            assert_close(results[name], array, np.float32, terms=16, what=f"{name} on {device}")
    assert np.all(expected["y"][2:, :, 1] == 0), "lengths count"


def test_nodes_are_compiled_once_for_the_sizes_that_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compilations(monkeypatch)
    nodes = [make_node("Compress", ["x", "keep"], ["kept"], axis=0), make_node("Softmax", ["kept"], ["y"], axis=0)]
    run = onnx.load(model(nodes, {"x": [6], "keep": [6]}, ["y"], types={"keep": TensorProto.BOOL})).compile("numpy")
    counts = []
    for mask in ("110000", "001100", "111000", "100001"):
        x, keep = normal(6), np.array([char == "1" for char in mask])
        kept = np.exp(x[keep].astype(np.float64))
        assert_close(run({"x": x, "keep": keep})["y"], kept / kept.sum(), np.float32)
        counts.append(len(made))
    assert counts[0] == counts[1] < counts[2] == counts[3]


@pytest.mark.parametrize(("sizes", "most"), [((2, 3), 0), (("rows", "columns"), 1)], ids=["known", "open"])
def test_nodes_that_stay_on_the_host_are_not_compiled_one_by_one(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int | str, ...], most: int
) -> None:
    """Else each would be compiled within the run of the one before it: a chain of 200 exceeded Python's depth of calls."""
    made = compilations(monkeypatch)
    nodes = [make_node("Sub", [f"v{step}", "one"], [f"v{step + 1}"]) for step in range(9)]
    types = dict.fromkeys(("v0", "v9"), TensorProto.DOUBLE)
    run = onnx.load(model(nodes, {"v0": sizes}, ["v9"], types=types, constants={"one": np.ones(1)})).compile("numpy")
    x = RNG.standard_normal((2, 3))
    np.testing.assert_allclose(run({"v0": x})["v9"], x - 9, rtol=1e-14)
    assert len(made) <= most


def test_elements_that_decide_sizes_are_looked_at_in_each_run() -> None:
    nodes = [
        make_node("Add", ["sizes", "nothing"], ["wanted"]),
        make_node("Reshape", ["x", "wanted"], ["y"]),
        make_node("Neg", ["y"], ["z"]),
    ]
    types = dict.fromkeys(("sizes", "nothing"), TensorProto.INT64)
    built = model(nodes, {"x": [6], "sizes": ["rank"], "nothing": [1]}, ["z"], types=types)
    run = onnx.load(built).compile("numpy")
    x = normal(6)
    for sizes in ((2, 3), (3, 2), (1, 6), (2, 3), (6,), (2, -1)):
        found = run({"x": x, "sizes": np.asarray(sizes, np.int64), "nothing": np.zeros(1, np.int64)})["z"]
        np.testing.assert_array_equal(found, -x.reshape(sizes))


def test_threads_share_deferred_nodes() -> None:
    nodes = [make_node("Compress", ["x", "keep"], ["kept"], axis=0), make_node("ReduceSum", ["kept"], ["y"], keepdims=0)]
    run = onnx.load(model(nodes, {"x": [8], "keep": [8]}, ["y"], types={"keep": TensorProto.BOOL})).compile("numpy")
    given = [(np.abs(normal(8)), np.arange(8) <= seed % 8) for seed in range(64)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda pair: run({"x": pair[0], "keep": pair[1]})["y"], given))
    for (x, keep), y in zip(given, found, strict=True):
        assert_close(y, x[keep].sum(dtype=np.float64), np.float32, terms=8)


@pytest.mark.parametrize("sizes", [(0, 1, 2, 2), (1, 2, 0, 3)], ids=str)
def test_scales_of_a_run_may_resize_nothing(sizes: tuple[int, ...]) -> None:
    proto = model([make_node("Resize", ["x", "", "scales"], ["y"])], {"x": sizes, "scales": [4]}, ["y"])
    found = onnx.load(proto).compile("numpy")(x=np.empty(sizes, np.float32), scales=np.array([1, 1, 2, 3], np.float32))
    assert found["y"].shape == (*sizes[:2], 2 * sizes[2], 3 * sizes[3])


@pytest.mark.parametrize("sizes", [(0, 1, 2, 2), (1, 0, 2, 2)], ids=str)
@pytest.mark.parametrize("given", [(), ("shape",)], ids=["from the windows", "of a run"])
def test_nothing_may_be_unpooled(sizes: tuple[int, ...], given: Sequence[str]) -> None:
    node = make_node("MaxUnpool", ["x", "indices", *given], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    types = {"indices": TensorProto.INT64, "shape": TensorProto.INT64}
    proto = model([node], {"x": sizes, "indices": sizes, **dict.fromkeys(given, (4,))}, ["y"], types=types)
    read = {"x": np.empty(sizes, np.float32), "indices": np.empty(sizes, np.int64), **dict.fromkeys(given, np.array([*sizes[:2], 4, 4]))}
    assert onnx.load(proto).compile("numpy")(read)["y"].shape == (*sizes[:2], 4, 4)


def test_nothing_may_be_left() -> None:
    nodes = [
        make_node("Compress", ["x", "keep"], ["kept"], axis=0),
        make_node("Conv", ["kept", "w"], ["y"]),
        make_node("Relu", ["y"], ["z"]),
    ]
    built = model(nodes, {"x": [2, 3, 5, 5], "keep": [2]}, ["z"], types={"keep": TensorProto.BOOL}, constants={"w": normal(4, 3, 3, 3)})
    run = onnx.load(built).compile("numpy")
    for keep, count in ((np.zeros(2, np.bool_), 0), (np.array([False, True]), 1)):
        assert run({"x": normal(2, 3, 5, 5), "keep": keep})["z"].shape == (count, 4, 3, 3)


# Loops


def looped(turns: str, body_nodes: list[Any], states: dict[str, list[Any]], outputs: list[str]) -> Any:
    """A Loop over states, with one row for each turn."""
    inner = make_graph(
        body_nodes,
        "turn",
        [
            make_tensor_value_info("i", TensorProto.INT64, []),
            make_tensor_value_info("go", TensorProto.BOOL, []),
            *(make_tensor_value_info(f"{name}_in", TensorProto.FLOAT, sizes) for name, sizes in states.items()),
        ],
        [
            make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            *(make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*(f"{name}_out" for name in states), "row")),
        ],
    )
    return make_node("Loop", [turns, "", *states], outputs, name="loop", body=inner)


@pytest.mark.parametrize("turns", [0, 1, 3, 7])
def test_a_state_may_grow_from_turn_to_turn(turns: int, any_device: dml.Device) -> None:
    nodes = [
        make_node("Concat", ["s_in", "x"], ["s_out"], axis=0),
        make_node("ReduceMean", ["s_out"], ["row"], axes=[0], keepdims=0),
        make_node("Identity", ["go"], ["goes_on"]),
    ]
    loop = looped("n", nodes, {"s": ["rows", 3]}, ["last", "means"])
    built = model([loop], {"n": [], "s": [1, 3], "x": [2, 3]}, ["last", "means"], types={"n": TensorProto.INT64}, opset=13)
    start, x = normal(1, 3), normal(2, 3)
    found = onnx.load(built).compile(any_device)({"n": np.asarray(turns, np.int64), "s": start, "x": x})
    grown = [np.concatenate([start, *[x] * count]) for count in range(turns + 1)]
    assert_close(found["last"], grown[-1], np.float32)
    assert found["means"].shape[0] == turns
    for row, rows in zip(found["means"], grown[1:], strict=True):
        assert_close(row, rows.mean(0, dtype=np.float64), np.float32, terms=16)


def test_the_body_of_a_loop_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compilations(monkeypatch)
    nodes = [make_node("Tanh", ["s_in"], ["s_out"]), make_node("Identity", ["s_out"], ["row"]), make_node("Identity", ["go"], ["goes_on"])]
    loop = looped("n", nodes, {"s": [4]}, ["y", "rows"])
    run = onnx.load(model([loop], {"n": [], "s": [4]}, ["y", "rows"], types={"n": TensorProto.INT64})).compile("numpy")
    counts = []
    for turns in (2, 50, 9):
        expected = x = normal(4)
        for _ in range(turns):
            expected = np.tanh(expected)
        found = run({"n": np.asarray(turns, np.int64), "s": x})
        assert_close(found["y"], expected, np.float32, terms=turns)
        assert found["rows"].shape == (turns, 4)
        counts.append(len(made))
    assert counts[0] == counts[1] == counts[2]


COUNTED = {
    # What a body makes of the number of the iteration in "at": its first node, and the row that it adds for an iteration.
    "a slice": ([make_node("Slice", ["x", "at", "next", "first"], ["part"])], lambda x, step: x[step]),
    "a range": (
        [make_node("Range", ["i", "end", "one"], ["numbers"]), make_node("Gather", ["x", "numbers"], ["part"])],
        lambda x, step: x[step : step + 2].sum(0),
    ),
    "an operator that is slow on the host": (
        [make_node("TopK", ["x", "next"], ["some", "places"], axis=0, largest=1), make_node("Clip", ["some", "", ""], ["part"])],
        lambda x, step: np.sort(x, 0)[::-1][: step + 1].sum(0),
    ),
}


@pytest.mark.parametrize(("case", "most"), [("a slice", 8), ("a range", 8), ("an operator that is slow on the host", 20)])
def test_a_node_of_changing_elements_runs_on_the_host(monkeypatch: pytest.MonkeyPatch, case: str, most: int) -> None:
    """A body whose nodes need the number of the iteration is compiled for the first ones; with others, a quick node computes alone."""
    made = compilations(monkeypatch)
    own, row = COUNTED[case]
    nodes = [
        make_node("Unsqueeze", ["i", "first"], ["at"]),
        make_node("Add", ["at", "ones"], ["next"]),
        make_node("Add", ["i", "two"], ["end"]),
        *own,
        make_node("ReduceSum", ["part", "first"], ["added"], keepdims=0),
        make_node("Add", ["s_in", "added"], ["s_out"]),
        make_node("Identity", ["added"], ["row"]),
        make_node("Identity", ["go"], ["goes_on"]),
    ]
    constants = {"first": np.array([0]), "ones": np.array([1]), "one": np.array(1), "two": np.array(2)}
    loop = looped("n", nodes, {"s": [3]}, ["y", "rows"])
    shapes: dict[str, list[int]] = {"n": [], "s": [3], "x": [40, 3]}
    built = model([loop], shapes, ["y", "rows"], types={"n": TensorProto.INT64}, constants=constants, opset=13)
    x, start = normal(40, 3), normal(3)
    run = onnx.load(built).compile("numpy")
    for turns in (13, 17):
        found = run({"n": np.asarray(turns, np.int64), "s": start, "x": x})
        rows = np.stack([row(x.astype(np.float64), step) for step in range(turns)])
        assert_close(found["rows"], rows, np.float32, terms=turns)
        assert_close(found["y"], start + rows.sum(0), np.float32, terms=2 * turns)
    assert len(made) <= most


@pytest.mark.parametrize(("field", "wrong"), [("n", np.empty(0, np.int64)), ("n", np.asarray([1, 2], np.int64))])
def test_a_count_of_turns_is_one_number(field: str, wrong: Array) -> None:
    nodes = [
        make_node("Identity", ["s_in"], ["s_out"]),
        make_node("Identity", ["s_in"], ["row"]),
        make_node("Identity", ["go"], ["goes_on"]),
    ]
    built = model([looped("n", nodes, {"s": [2]}, ["y", "rows"])], {"n": ["k"], "s": [2]}, ["y"], types={"n": TensorProto.INT64})
    with pytest.raises(dml.DmlError, match=r"loop(.|\n)*'M'(.|\n)*one element"):
        onnx.load(built).compile("numpy")({field: wrong, "s": normal(2)})


# The host


@pytest.mark.parametrize(
    ("operator", "given", "attributes"),
    [
        ("LSTM", {"x": (3, 2, 3), "w": (1, 16, 3), "r": (1, 16, 4)}, {"hidden_size": 4, "input_forget": 1}),
        ("LRN", {"x": (2, 5, 3, 3)}, {"size": 3, "alpha": 0.3}),
        ("LpNormalization", {"x": (4, 5)}, {"p": 1}),
        ("Softmax", {"x": (4, 5)}, {"axis": 0}),
        ("Conv", {"x": (1, 3, 6, 6), "w": (2, 3, 3, 3)}, {"strides": [2, 2]}),
    ],
)
def test_float64_is_computed_in_float64(operator: str, given: dict[str, tuple[int, ...]], attributes: dict[str, Any]) -> None:
    arrays = {name: RNG.standard_normal(sizes) for name, sizes in given.items()}
    node = make_node(operator, list(arrays), ["y"], **attributes)
    results = []
    for element, dtype in ((TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT, np.float32)):
        types = dict.fromkeys((*arrays, "y"), element)
        run = onnx.load(model([node], given, ["y"], types=types)).compile("numpy")
        results.append(run({name: array.astype(dtype) for name, array in arrays.items()})["y"])
    assert results[0].dtype == np.float64
    assert np.any(results[0].astype(np.float32) != results[0]), "more digits than FLOAT32 has"
    assert_close(results[1], results[0], np.float32, terms=64)


def test_boxes_are_suppressed_without_thresholds() -> None:
    boxes = np.asarray([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3], [0.5, 0, 1.5, 1]]], np.float32)
    scores = np.asarray([[[0.5, 0.9, 0.1, 0.7]]], np.float32)
    node = make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])
    types = {"y": TensorProto.INT64}
    built = model([node], {"boxes": [1, 4, 4], "scores": [1, 1, 4]}, ["y"], types=types, constants={"most": np.asarray([3])})
    found = onnx.load(built).compile("numpy")({"boxes": boxes, "scores": scores})["y"]
    np.testing.assert_array_equal(found, [[0, 0, 1], [0, 0, 2]])  # as ONNX Runtime 1.32.0 has it: any overlap suppresses


@pytest.mark.parametrize("operator", ["GRU", "LRN", "LpNormalization"])
def test_the_host_runs_nothing_whose_values_were_not_compared(operator: str) -> None:
    assert not host_evaluation.is_supported(operator, 21, "")
    shapes: dict[str, list[int]] = {"x": [3, 2, 3], "w": [1, 12, 3], "r": [1, 12, 4]} if operator == "GRU" else {"x": [2, 3, 4, 4]}
    attributes = {"GRU": {"hidden_size": 4}, "LRN": {"size": 3}, "LpNormalization": {}}[operator]
    types = dict.fromkeys((*shapes, "y"), TensorProto.BFLOAT16)
    node = make_node(operator, list(shapes), ["y"], **attributes)
    built = onnx.load(model([node], dict(shapes), ["y"], types=types, opset=22))
    given = {name: normal(*sizes).astype(ml_dtypes.bfloat16) for name, sizes in shapes.items()}
    below, latest = (built.compile("numpy", level)(given)["y"].view(np.uint16) for level in ("6_3", "6_4"))  # by the definitions
    np.testing.assert_array_equal(below, latest)
    assert [record.where for record in built.report("6_3").nodes] == ["host"]


@pytest.mark.parametrize("kind", ["E4M3FN", "E5M2"])
def test_a_cast_like_a_known_tensor_preserves_its_attributes(kind: str) -> None:
    """Without saturation, what is out of range is NaN or infinite."""
    assert hidden(node_cases(quick=True)[f"test_castlike_no_saturate_FLOAT_to_FLOAT8{kind}"], "initializers") == ""


def test_what_the_host_refuses_is_reported_with_its_inputs() -> None:
    nodes = [make_node("Cast", ["a"], ["y"], name="parse", to=TensorProto.INT32)]
    built = model(nodes, {"a": ["n"]}, ["y"], types={"a": TensorProto.STRING, "y": TensorProto.INT32})
    with pytest.raises(dml.DeviceError, match=r"parse has failed with ValueError") as caught:
        onnx.load(built).compile("numpy")({"a": np.array(["1", "v"], object)})
    assert "inputs: 'a' object [2]" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_condition_longer_than_the_data_keeps_no_more(dtype: Any) -> None:
    x = normal(3, 2).astype(dtype)
    for known in (True, False):
        keep = np.array([True, False, True, True, True])
        types = {"x": array_type(x), "y": array_type(x), "keep": TensorProto.BOOL}
        built = model(
            [make_node("Compress", ["x", "keep"], ["y"], name="kept", axis=0)],
            {"x": [3, 2]} if known else {"x": [3, 2], "keep": [5]},
            ["y"],
            types=types,
            constants={"keep": keep} if known else {},
        )
        given = {"x": x} if known else {"x": x, "keep": keep}
        np.testing.assert_array_equal(onnx.load(built).compile("numpy")(given)["y"], x[[0, 2]])


@pytest.mark.parametrize("way", ["known", "given"])
@pytest.mark.parametrize(("saturate", "small", "large"), [(1, 2.0**-127, 2.0**127), (0, np.nan, np.nan)])
def test_exponents_saturate_as_onnx_runtime_has_it(way: str, saturate: int, small: float, large: float) -> None:
    """ONNX's reference implementation makes NaN of infinity and 2**-126 of 1e-40; ONNX Runtime 1.32.0 gives the values of ONNX's table."""
    nodes = [
        make_node("Cast", ["x"], ["z"], to=TensorProto.FLOAT8E8M0, saturate=saturate),
        make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.array([np.inf, np.nan, 3, 1, 0, 1e-40, 2.0**-127], np.float32)
    loaded = onnx.load(model(nodes, {"x": [7]}, ["y"], opset=25), constants={"x": x} if way == "known" else {})
    found = loaded.compile("numpy")({} if way == "known" else {"x": x})["y"]
    np.testing.assert_array_equal(found, np.array([large, np.nan, 4, 1, small, small, 2.0**-127], np.float32))


@pytest.mark.parametrize("way", ["given", "known"])
def test_float64_tensors_may_have_no_elements(way: str) -> None:
    """A node is FLOAT32 for the lowering, its inputs without elements too, and its results are FLOAT64 whether they are known or not."""
    x, rows = RNG.standard_normal((3, 2)), np.empty((0, 2))
    nodes = [
        make_node("ScatterND", ["x", "places", "rows"], ["scattered"]),
        make_node("Transpose", ["rows"], ["columns"]),
        make_node("Gemm", ["columns", "rows", "c"], ["product"]),
    ]
    constants = {"places": np.empty((0, 1), np.int64), "c": np.array([1.5, -2.0])}
    arrays = {"x": x, "rows": rows}
    types = dict.fromkeys((*arrays, "scattered", "product"), TensorProto.DOUBLE)
    built = model(nodes, {"x": [3, 2], "rows": [0, 2]}, ["scattered", "product"], types=types, constants=constants)
    found = onnx.load(built, constants=arrays if way == "known" else {}).compile("numpy")({} if way == "known" else arrays)
    for name, expected in {"scattered": x, "product": np.tile(constants["c"], (2, 1))}.items():
        assert found[name].dtype == np.float64
        np.testing.assert_array_equal(found[name], expected)


def logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def tanh_gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


OF_FLOAT64: list[tuple[str, dict[str, Any], Callable[[Array], Array]]] = [
    ("Gelu", {"approximate": "tanh"}, tanh_gelu),
    ("FastGelu", {"domain": "com.microsoft"}, tanh_gelu),
    ("QuickGelu", {"domain": "com.microsoft"}, lambda x: x * logistic(np.float64(np.float32(1.702)) * x)),
    ("HardSwish", {}, lambda x: x * np.clip(np.float64(np.float32(1 / 6)) * x + 0.5, 0, 1)),
    ("Elu", {"alpha": 0.1}, lambda x: np.where(x < 0, np.float64(np.float32(0.1)) * np.expm1(x), x)),
    ("Selu", {}, lambda x: np.float64(np.float32(1.0507009873554805)) * np.where(x > 0, x, np.float32(1.6732632423543772) * np.expm1(x))),
]


@pytest.mark.parametrize(("operator", "attributes", "formula"), OF_FLOAT64, ids=[row[0] for row in OF_FLOAT64])
def test_constants_of_formulas_have_all_digits(operator: str, attributes: dict[str, Any], formula: Callable[[Array], Array]) -> None:
    """Attributes are 32-bit floats; numbers in a formula are not."""
    x = RNG.standard_normal((2, 3, 4, 5))
    types = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    found = onnx.load(model([make_node(operator, ["x"], ["y"], **attributes)], {"x": [2, 3, 4, 5]}, ["y"], types=types)).compile("numpy")
    np.testing.assert_allclose(found({"x": x})["y"], formula(x), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("operator", ["Gelu", "HardSwish", "Mish", "MeanVarianceNormalization"])
def test_constants_of_float64_are_computed_in_float64(operator: str) -> None:
    x = RNG.standard_normal((2, 3, 4, 5))
    built = model([make_node(operator, ["x"], ["y"])], {"x": [2, 3, 4, 5]}, ["y"], types={"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE})
    late = onnx.load(built).compile("numpy")({"x": x})["y"]
    ahead = onnx.load(built, constants={"x": x}).compile("numpy")({})["y"]
    np.testing.assert_allclose(ahead, late, rtol=1e-14, atol=1e-14)


def test_a_node_of_float64_is_lowered_once_for_its_sizes_and_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its floats are; for other integers again, and for many integers each time."""
    made: list[Any] = []
    lowered = SingleNodeLowering.program

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return lowered(*arguments, **options)

    monkeypatch.setattr(SingleNodeLowering, "program", counted)
    types = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE, "powers": TensorProto.INT64}
    compiled = onnx.load(model([make_node("Pow", ["x", "powers"], ["y"])], {"x": ["n", "m"], "powers": ["m"]}, ["y"], types=types))
    run = compiled.compile("numpy")
    some, many = np.array([3, 1]), np.arange(65) % 5
    for size, powers, lowerings in (
        *((2, some, 1), (2, some, 0), (3, some, 1), (3, some[::-1], 1), (2, some, 0)),
        *((2, many, 1), (2, many, 1)),
    ):
        made.clear()
        x = RNG.uniform(0.5, 2, (size, len(powers)))
        np.testing.assert_allclose(run({"x": x, "powers": powers})["y"], x**powers, rtol=1e-13)
        assert len(made) == lowerings


def test_a_long_chain_of_unknown_sizes_is_compiled_a_few_nodes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each node within the run of the one before it, which exceeds Python's stack for 170 nodes; here at most 3 and then at most 2."""
    depths: list[int] = []
    prepare = compiled_program._HostRun.__init__

    def recorded(run: Any, part: Any, context: Any, **options: Any) -> None:
        depths.append(context.depth)
        prepare(run, part, context, **options)

    monkeypatch.setattr(compiled_program, "_MOST_NESTED", 3)
    monkeypatch.setattr(compiled_program, "_TOGETHER", 2)
    monkeypatch.setattr(compiled_program._HostRun, "__init__", recorded)
    count = 24
    chain = [make_node("Unique", [f"v{place}"], [f"v{place + 1}"]) for place in range(count)]
    nodes = [make_node("Compress", ["x", "keep"], ["v0"], axis=0), *chain, make_node("Sub", [f"v{count}", "v1"], ["y"])]
    compiled = onnx.load(model(nodes, {"x": ["n"], "keep": ["n"]}, ["y", "v5"], types={"keep": TensorProto.BOOL})).compile("numpy")
    for _ in range(2):
        found = compiled({"x": np.array([3, -1, 2, 3, 7], np.float32), "keep": np.array([1, 1, 1, 1, 0], bool)})
        np.testing.assert_array_equal(found["y"], np.zeros(3))
        np.testing.assert_array_equal(found["v5"], [-1, 2, 3])
        monkeypatch.setattr(deferred_nodes.DeferredNodes, "_compile", None)  # a second run finds all that the first one compiled
    assert 3 < max(depths) <= 5
