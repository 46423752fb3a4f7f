"""If, Loop, Scan and sequences: unrolled where their course is known, on the host where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.runtime.compile_context import CompileContext
from tests.support.onnx.models import Array, model

X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)


def body(
    nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str], types: Mapping[str, int], sizes: Sequence[int] = (3, 4)
) -> GraphProto:
    """A body whose inputs and outputs are FLOAT tensors of some sizes, or scalars of the types given."""

    def described(name: str) -> Any:
        return helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), [] if name in types else sizes)

    return helper.make_graph(list(nodes), "body", [described(name) for name in inputs], [described(name) for name in outputs])


def power_body(condition: Sequence[NodeProto]) -> GraphProto:
    """`s = s * 2 + x`, with x from around the loop; gives s and each -s."""
    nodes = [
        *condition,
        make_node("Constant", [], ["two"], value_float=2.0),
        make_node("Mul", ["s_in", "two"], ["doubled"]),
        make_node("Add", ["doubled", "x"], ["s_out"]),
        make_node("Neg", ["s_out"], ["row"]),
    ]
    scalars = {"i": TensorProto.INT64, "c_in": TensorProto.BOOL, "c_out": TensorProto.BOOL}
    return body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out", "row"], scalars)


GOES_ON = [make_node("Identity", ["c_in"], ["c_out"])]
STOPS = [make_node("Constant", [], ["most"], value_int=2), make_node("Less", ["i", "most"], ["c_out"])]
DATA = [
    make_node("ReduceMax", ["s_in"], ["largest"], keepdims=0),
    make_node("Constant", [], ["limit"], value_float=20.0),
    make_node("Less", ["largest", "limit"], ["c_out"]),
]


def loop_model(
    condition: Sequence[NodeProto], count: int | None, goes_on: bool | None = None, limits: onnx.Limits | None = None
) -> onnx.Model:
    """A loop behind a node, so that what it captures has a maker."""
    constants = {"count": np.int64(count)} if count is not None else {}
    constants |= {"goes_on": np.bool_(goes_on)} if goes_on is not None else {}
    given = ["count" if count is not None else "", "goes_on" if goes_on is not None else "", "start"]
    nodes = [make_node("Abs", ["a"], ["x"]), make_node("Loop", given, ["last", "rows"], name="loop", body=power_body(condition))]
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return onnx.load(model(nodes, {"a": [3, 4], "start": [3, 4]}, ["last", "rows"], constants=arrays), limits=limits)


def loop_results(steps: int) -> tuple[Array, Array]:
    """What the loop of `power_body` gives after some steps from zeros."""
    state, rows = np.zeros_like(X), []
    for _ in range(steps):
        state = state * 2 + np.abs(X)
        rows.append(-state)
    return state, np.stack(rows) if rows else np.zeros((0, 3, 4), np.float32)


def data_steps(most: int) -> int:
    """How many steps the loop of DATA takes."""
    state, step = np.zeros_like(X), 0
    goes_on = True
    while goes_on and step < most:
        goes_on = float(state.max()) < 20
        state, step = state * 2 + np.abs(X), step + 1
    return step


@pytest.mark.parametrize(
    ("condition", "count", "goes_on", "steps", "where"),
    [
        pytest.param(GOES_ON, 5, None, 5, "directml", id="counted"),
        pytest.param(GOES_ON, 5, True, 5, "directml", id="counted-while"),
        pytest.param(STOPS, None, None, 3, "directml", id="stops"),
        pytest.param(STOPS, 2, True, 2, "directml", id="stops-earlier"),
        pytest.param(GOES_ON, 0, None, 0, "directml", id="never"),
        pytest.param(GOES_ON, 3, False, 0, "directml", id="not-begun"),
        pytest.param(DATA, 9, None, data_steps(9), "host", id="by-data"),
    ],
)
def test_a_loop_runs_as_often_as_it_should(
    condition: list[NodeProto], count: int | None, goes_on: bool | None, steps: int, where: str
) -> None:
    found = loop_model(condition, count, goes_on)
    last, rows = loop_results(steps)
    result = found.compile("numpy")({"a": X, "start": np.zeros_like(X)})
    np.testing.assert_allclose(result["last"], last, rtol=1e-5)
    np.testing.assert_allclose(result["rows"], rows, rtol=1e-5)
    assert result["rows"].shape == rows.shape
    multiplied = [record for record in found.interpretation().records if record.op_type == "Mul"]
    assert len(multiplied) == (steps if where == "directml" else 0)
    assert all(record.where == "directml" for record in multiplied)


def test_a_loop_that_is_not_unrolled_leaves_no_trace() -> None:
    records = loop_model(DATA, 9).interpretation().records
    assert [(record.name, record.where) for record in records] == [("Abs_0", "directml"), ("loop", "deferred")]
    assert records[1].problems[0].code == "onnx.constant_input"
    (stage,) = [stage for index, stage in loop_model(DATA, 9).interpretation().stages.items() if index == 0]
    assert [*stage.results] == ["x"]


def test_what_iterations_share_is_held_once() -> None:
    (graph,) = loop_model(GOES_ON, 4).graphs
    assert graph.input_names is not None
    assert [name for name in graph.input_names if "two" in name] == ["loop/two"]


@pytest.mark.parametrize(
    ("limits", "where"), [({"unrolled": 15}, "deferred"), ({"characters": 170}, "deferred"), ({"unrolled": 24}, "directml")]
)
def test_a_loop_without_room_runs_step_by_step(limits: dict[str, int], where: str) -> None:
    found = loop_model(GOES_ON, 4, limits=onnx.Limits(**limits))
    records = found.interpretation().records
    if where == "deferred":
        (record,) = (record for record in records if record.op_type == "Loop")
        assert (record.where, record.problems[0].code) == ("deferred", "onnx.unroll")
        assert "limit 'unrolled' of dmlpy.onnx.Limits" in record.problems[0].why[0]
    else:
        assert records[-1].op_type == "Concat"
    result = found.compile("numpy")({"a": X, "start": np.zeros_like(X)})
    for name, expected in zip(("last", "rows"), loop_results(4), strict=True):
        np.testing.assert_allclose(result[name], expected, rtol=1e-5)


def test_loops_share_what_may_be_unrolled() -> None:
    nodes = [make_node("Loop", ["n", "", f"v{step}"], [f"v{step + 1}"], body=relu_body()) for step in range(4)]
    built = model(nodes, {"v0": [2]}, ["v4"], constants={"n": np.asarray(10)})
    records = onnx.load(built, limits=onnx.Limits(unrolled=25)).interpretation().records
    assert [record.op_type for record in records] == [*["Relu"] * 20, "Loop", "Loop"]
    result = onnx.load(built, limits=onnx.Limits(unrolled=25)).compile("numpy")({"v0": X[0, :2]})
    np.testing.assert_array_equal(result["v4"], np.maximum(X[0, :2], 0))


@pytest.mark.parametrize(("unrolled", "where"), [(36, "deferred"), (37, "directml")])
def test_operators_of_unrolled_nodes_are_counted(unrolled: int, where: str) -> None:
    body = relu_body()
    body.node[0].CopyFrom(make_node("Mean", [body.node[0].input[0]] * 3, [body.node[0].output[0]]))
    loop = make_node("Loop", ["n", "", "x"], ["y"], body=body)
    built = onnx.load(model([loop], {"x": [2]}, ["y"], constants={"n": np.asarray(10)}), limits=onnx.Limits(unrolled=unrolled))
    records = built.interpretation().records
    assert {record.where for record in records} == {where}
    assert {len(record.operators) for record in records} == ({4} if where == "directml" else {0})
    np.testing.assert_allclose(built.compile("numpy")({"x": X[0, :2]})["y"], X[0, :2], rtol=1e-5)


def test_loops_of_thousands_of_iterations_run() -> None:
    nodes = [make_node("Loop", ["n", "", "v0"], ["y"], body=relu_body("Neg"))]
    result = onnx.load(model(nodes, {"v0": [2]}, ["y"], constants={"n": np.asarray(4001)})).compile("numpy")({"v0": X[0, :2]})
    np.testing.assert_array_equal(result["y"], -X[0, :2])


ROWS = {
    "differences": [make_node("Sub", ["x", "row"], ["y"])],
    "distances": [make_node("Sub", ["x", "row"], ["d"]), make_node("ReduceSumSquare", ["d"], ["y"], axes=[1], keepdims=0)],
    "not zero": [
        make_node("Add", ["s", "row"], ["sum"]),
        make_node("NonZero", ["sum"], ["places"]),
        make_node("Transpose", ["places"], ["each"]),
        make_node("GatherND", ["sum", "each"], ["y"]),
    ],
}
"""Bodies of scans whose nodes run on the host or wait for sizes: by their type, or by the elements."""


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize(("name", "length"), [("differences", 1200), ("distances", 150), ("not zero", 200)])
def test_long_scans_on_the_host_run_step_by_step(name: str, length: int, is_open: bool) -> None:
    """Unrolled, they were compiled node by node, each within the run of the one before it, beyond Python's depth of calls."""
    has_state = name == "not zero"
    element = TensorProto.FLOAT if has_state else TensorProto.DOUBLE
    given = [helper.make_tensor_value_info(item, element, None) for item in ("s", "row")[not has_state :]]
    inner = helper.make_graph(ROWS[name], "body", given, [helper.make_tensor_value_info("y", element, None)])
    rng = np.random.default_rng(5)
    x: Array = rng.standard_normal((5, 4))
    rows: Array = rng.standard_normal((length, 4))
    if has_state:
        x, rows = np.arange(-length, length, 20).astype(np.float32), np.ones((length, 1), np.float32)
        expected = x[x >= 0] + length  # the negative ones are 0 once
    else:
        expected = x - rows[:, None] if name == "differences" else ((x - rows[:, None]) ** 2).sum(2)
    scan = make_node("Scan", [*["x"] * has_state, "rows"], ["y"], body=inner, num_scan_inputs=1)
    sizes = ["n", "m"][: x.ndim] if is_open else x.shape
    types = {"x": element, "y": element}
    found = onnx.load(model([scan], {"x": sizes}, ["y"], opset=13, types=types, constants={"rows": rows}))
    (record,) = found.interpretation().records
    assert (record.where, record.problems[0].code) == ("deferred", "onnx.unroll")
    np.testing.assert_allclose(found.compile("numpy")({"x": x})["y"], expected, rtol=1e-12)


@pytest.mark.parametrize("turns", [4, None], ids=["unrolled", "turn by turn"])
def test_an_output_of_the_counter_has_a_number_of_each_iteration(turns: int | None) -> None:
    """By the text of Loop. ONNX Runtime 1.32.0 has the last number in every row."""
    of_turn = body([make_node("Relu", ["s_in"], ["s_out"])], ["i", "c_in", "s_in"], ["c_in", "s_out", "i"], {"i": 7, "c_in": 9}, [2])
    nodes = [make_node("Loop", ["n", "", "v0"], ["y", "rows"], body=of_turn)]
    constants = {"n": np.asarray(turns)} if turns else {}
    inputs = {"v0": [2]} | ({} if turns else {"n": []})
    types = {"n": TensorProto.INT64, "rows": TensorProto.INT64}
    compiled = onnx.load(model(nodes, inputs, ["y", "rows"], constants=constants, types=types)).compile("numpy")
    result = compiled({"v0": X[0, :2]} | ({} if turns else {"n": np.asarray(4)}))
    assert result["rows"].ravel().tolist() == [0, 1, 2, 3]


def relu_body(op_type: str = "Relu") -> GraphProto:
    """One node for each turn."""
    return body([make_node(op_type, ["s_in"], ["s_out"])], ["i", "c_in", "s_in"], ["c_in", "s_out"], {"i": 7, "c_in": 9}, [2])


def test_branches_within_a_loop_are_chosen_by_its_counter() -> None:
    branches = {
        name: body([make_node(operator, ["s_in"], ["chosen"])], [], ["chosen"], {})
        for name, operator in (("then_branch", "Neg"), ("else_branch", "Exp"))
    }
    nodes = [
        make_node("Identity", ["c_in"], ["c_out"]),
        make_node("Constant", [], ["one"], value_int=1),
        make_node("Equal", ["i", "one"], ["is_one"]),
        make_node("If", ["is_one"], ["s_out"], **branches),
    ]
    scalars = {"i": TensorProto.INT64, "c_in": TensorProto.BOOL, "c_out": TensorProto.BOOL}
    loop = make_node("Loop", ["count", "", "x"], ["y"], name="loop", body=body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out"], scalars))
    found = onnx.load(model([loop], {"x": [3, 4]}, ["y"], constants={"count": np.asarray(3, np.int64)}))
    np.testing.assert_allclose(found.compile("numpy")({"x": X})["y"], np.exp(-np.exp(X)), rtol=1e-5)
    assert {record.where for record in found.interpretation().records} == {"directml", "folded"}


def test_bodies_on_the_host_read_what_is_around_them_by_its_name() -> None:
    """The branch within the loop reads a value of its iteration, and has a value of its own of the same name as one around it."""
    then = body([make_node("Add", ["doubled", "x"], ["chosen"])], [], ["chosen"], {})
    otherwise = body(
        [make_node("Neg", ["doubled"], ["loop/0/doubled"]), make_node("Abs", ["loop/0/doubled"], ["chosen"])], [], ["chosen"], {}
    )
    nodes = [
        make_node("Identity", ["c_in"], ["c_out"]),
        make_node("Add", ["s_in", "s_in"], ["doubled"]),
        make_node("If", ["choice"], ["branch"], then_branch=then, else_branch=otherwise),
        make_node("Sub", ["branch", "doubled"], ["s_out"]),
    ]
    scalars = {"i": TensorProto.INT64, "c_in": TensorProto.BOOL, "c_out": TensorProto.BOOL}
    loop = make_node("Loop", ["count", "", "x"], ["y"], name="loop", body=body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out"], scalars))
    built = model(
        [loop], {"x": [3, 4], "choice": []}, ["y"], types={"choice": TensorProto.BOOL}, constants={"count": np.asarray(2, np.int64)}
    )
    compiled = onnx.load(built).compile("numpy")
    for choice in (True, False):
        expected = X
        for _ in range(2):
            expected = X if choice else np.abs(2 * expected) - 2 * expected
        np.testing.assert_allclose(compiled({"x": X, "choice": np.asarray(choice)})["y"], expected, rtol=1e-5, atol=1e-6)


def test_bodies_on_the_host_have_their_external_data(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(X, "w")
    (tmp_path / "weights").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights")
    branches = {
        name: body([make_node(kind, ["x", "w"], ["z"])], [], ["z"], {}) for name, kind in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    for branch in branches.values():
        branch.initializer.append(weights)
    built = model([make_node("If", ["choice"], ["y"], **branches)], {"x": [3, 4], "choice": []}, ["y"], types={"choice": TensorProto.BOOL})
    (tmp_path / "model.onnx").write_bytes(built.SerializeToString())
    compiled = onnx.load(tmp_path / "model.onnx").compile("numpy")
    for choice, expected in ((True, 2 * X), (False, X * X)):
        np.testing.assert_array_equal(compiled({"x": X, "choice": np.asarray(choice)})["y"], expected)


@pytest.mark.parametrize("opset", [8, 9, 21])
def test_a_scan_is_unrolled(opset: int) -> None:
    """`s = s + a * b` over rows of a and rows or columns of b; the states backwards or in another dimension where the opset can."""
    nodes = [
        make_node("Mul", ["a", "b"], ["product"]),
        make_node("Add", ["s_in", "product"], ["s_out"]),
        make_node("Neg", ["s_out"], ["row"]),
    ]
    inner = body(nodes, ["s_in", "a", "b"], ["s_out", "row"], {}, [4])
    rng = np.random.default_rng(2)
    if opset == 8:
        given = {"s": rng.standard_normal((2, 4)), "p": rng.standard_normal((2, 3, 4)), "q": rng.standard_normal((2, 3, 4))}
        node = make_node("Scan", ["", "s", "p", "q"], ["last", "rows"], body=inner, num_scan_inputs=2, directions=[0, 1])
        last = given["s"] + (given["p"] * given["q"][:, ::-1]).sum(1)
        rows = -(given["s"][:, None] + np.cumsum(given["p"] * given["q"][:, ::-1], 1))
    else:
        given = {"s": rng.standard_normal(4), "p": rng.standard_normal((3, 4)), "q": rng.standard_normal((4, 3))}
        attributes = {"scan_input_axes": [0, -1], "scan_input_directions": [0, 1], "scan_output_axes": [1], "scan_output_directions": [1]}
        node = make_node("Scan", ["s", "p", "q"], ["last", "rows"], body=inner, num_scan_inputs=2, **attributes)
        products = given["p"] * given["q"].T[::-1]
        last = given["s"] + products.sum(0)
        rows = -(given["s"] + np.cumsum(products, 0))[::-1].T
    arrays = {name: array.astype(np.float32) for name, array in given.items()}
    found = onnx.load(model([node], {name: array.shape for name, array in arrays.items()}, ["last", "rows"], opset=opset))
    result = found.compile("numpy")(arrays)
    np.testing.assert_allclose(result["last"], last, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result["rows"], rows, rtol=1e-4, atol=1e-5)
    assert all(record.op_type != "Scan" for record in found.interpretation().records)


def test_a_loop_without_iterations_gives_rows_of_the_sizes_that_one_would_give() -> None:
    """Its body declares none; ONNX Runtime 1.32.0 takes them from its inference, and tells no fewer dimensions where that knows them."""
    nodes = [
        *GOES_ON,
        make_node("Concat", ["s_in", "x"], ["s_out"], axis=1),
        make_node("ReduceMax", ["s_out"], ["row"], axes=[0], keepdims=0),
    ]
    inner = body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out", "row"], {"i": TensorProto.INT64, "c_in": 9, "c_out": 9})
    for item in (*inner.input[2:], *inner.output[1:]):
        item.type.tensor_type.ClearField("shape")
    loop = make_node("Loop", ["turns", "", "x"], ["last", "rows"], body=inner)
    types = {"turns": TensorProto.INT64}
    compiled = onnx.load(model([loop], {"x": ["n", 4], "turns": []}, ["last", "rows"], opset=17, types=types)).compile("numpy")
    for turns, sizes in ((0, (0, 8)), (1, (1, 8))):
        result = compiled({"x": X, "turns": np.asarray(turns)})
        assert result["rows"].shape == sizes
        assert result["rows"].dtype == np.float32
        assert result["last"].shape == (3, 4 + 4 * turns)


def test_a_loop_of_no_iterations_infers_its_rows_once_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.9 ms a call, where the model does not say how long they are."""
    inferred, infer = [], CompileContext.infer_values

    def counted(*given: Any) -> Any:
        inferred.append(given[-1])
        return infer(*given)

    monkeypatch.setattr(CompileContext, "infer_values", counted)
    nodes = [*GOES_ON, make_node("Concat", ["s_in", "x"], ["s_out"], axis=0), make_node("Neg", ["s_out"], ["row"])]
    inner = body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out", "row"], {"i": TensorProto.INT64, "c_in": 9, "c_out": 9}, ["m"])
    loop = make_node("Loop", ["turns", "", "x"], ["last", "rows"], body=inner)
    compiled = onnx.load(model([loop], {"x": ["n"], "turns": []}, ["last", "rows"], types={"turns": TensorProto.INT64})).compile("numpy")
    for size in (2, 3, 2, 3, 2):
        assert compiled({"x": X[0, :size], "turns": np.asarray(0)})["rows"].shape == (0, 2 * size)
    assert len(inferred) == 2


def test_rows_of_a_loop_are_of_the_same_sizes() -> None:
    nodes = [*GOES_ON, make_node("Concat", ["s_in", "s_in"], ["s_out"], axis=0), make_node("Neg", ["s_out"], ["row"])]
    inner = body(nodes, ["i", "c_in", "s_in"], ["c_out", "s_out", "row"], {"i": TensorProto.INT64, "c_in": 9, "c_out": 9}, ["m"])
    loop = make_node("Loop", ["turns", "", "x"], ["last", "rows"], body=inner, name="doubling")
    compiled = onnx.load(model([loop], {"x": ["n"], "turns": []}, ["last", "rows"], types={"turns": TensorProto.INT64})).compile("numpy")
    with pytest.raises(dml.DmlError, match=r"row' of its body is of sizes \[\[4\], \[8\]\], expected of the same sizes in each"):
        compiled({"x": X[0, :2], "turns": np.asarray(2)})


def test_a_scan_of_opset_8_ends_each_sequence_by_itself() -> None:
    """What lies behind its end is 0, as in ONNX Runtime 1.32.0."""
    nodes = [make_node("Add", ["s_in", "a"], ["s_out"]), make_node("Neg", ["s_out"], ["row"])]
    inner = body(nodes, ["s_in", "a"], ["s_out", "row"], {}, [4])
    node = make_node("Scan", ["lens", "s", "a"], ["last", "rows"], body=inner, num_scan_inputs=1)
    inputs: dict[str, Sequence[int | str]] = {"lens": [2], "s": [2, 4], "a": [2, 3, 4]}
    compiled = onnx.load(model([node], inputs, ["last", "rows"], opset=8, types={"lens": TensorProto.INT64})).compile("numpy")
    start, steps = X[:2], np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)
    result = compiled({"lens": np.array([1, 3]), "s": start, "a": steps})
    sums = start[:, None] + np.cumsum(steps, 1)
    np.testing.assert_allclose(result["last"], [sums[0, 0], sums[1, 2]], rtol=1e-5)
    np.testing.assert_allclose(result["rows"], -np.stack([sums[0] * [[1], [0], [0]], sums[1]]), rtol=1e-5)
    with pytest.raises(dml.DmlError, match=r"input 0 'sequence_lens' is \[0, 4\], expected 2 numbers from 1 to 3"):
        compiled({"lens": np.array([0, 4]), "s": start, "a": steps})


ONE, TWO = X[:1], X[1:3]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([make_node("SequenceAt", ["s", "last"], ["y"])], np.abs(TWO)),
        ([make_node("ConcatFromSequence", ["s"], ["y"], axis=0)], np.abs(X[:3])),
        (
            [make_node("SequenceInsert", ["s", "x", "zero"], ["t"]), make_node("ConcatFromSequence", ["t"], ["y"], axis=0)],
            np.r_[X, np.abs(X)],
        ),
        ([make_node("SequenceInsert", ["s", "x"], ["t"]), make_node("SequenceAt", ["t", "last"], ["y"])], X),
        ([make_node("SequenceErase", ["s", "zero"], ["t"]), make_node("SequenceAt", ["t", "zero"], ["y"])], np.abs(TWO)),
        ([make_node("SequenceLength", ["s"], ["y"])], np.asarray(2)),
        ([make_node("SplitToSequence", ["x", "two"], ["t"]), make_node("SequenceAt", ["t", "last"], ["y"])], X[2:]),
        (
            [
                make_node("SplitToSequence", ["x"], ["t"], keepdims=0, axis=1),
                make_node("ConcatFromSequence", ["t"], ["y"], axis=0, new_axis=1),
            ],
            X.T,
        ),
        ([make_node("Optional", ["x"], ["o"]), make_node("OptionalGetElement", ["o"], ["t"]), make_node("Neg", ["t"], ["y"])], -X),
        ([make_node("SequenceEmpty", [], ["t"]), make_node("SequenceLength", ["t"], ["y"])], np.asarray(0)),
    ],
)
def test_sequences_of_known_tensors_need_no_host(nodes: list[NodeProto], expected: Array) -> None:
    split = [
        make_node("Abs", ["x"], ["b"]),
        make_node("Split", ["b", "lengths"], ["one", "other"], axis=0),
        make_node("SequenceConstruct", ["one", "other"], ["s"]),
    ]
    constants = {name: np.asarray(value, np.int64) for name, value in {"zero": 0, "two": 2, "last": -1, "lengths": [1, 2]}.items()}
    types = {"y": TensorProto.INT64} if expected.dtype == np.int64 else {}
    found = onnx.load(model([*split, *nodes], {"x": [3, 4]}, ["y"], constants=constants, types=types))
    np.testing.assert_array_equal(found.compile("numpy")({"x": X})["y"], expected)
    assert not any("Sequence" in record.op_type or "Optional" in record.op_type for record in found.interpretation().records)


def test_a_sequence_may_be_an_output() -> None:
    nodes = [make_node("Neg", ["x"], ["a"]), make_node("SequenceConstruct", ["a", "x"], ["s"])]
    built = model(nodes, {"x": [3, 4]}, ["s"])
    built.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None)))
    found = onnx.load(built).compile("numpy")({"x": X})["s"]
    assert isinstance(found, list)
    np.testing.assert_array_equal(found, [-X, X])


def test_a_definition_that_wants_known_inputs_names_those_of_its_node() -> None:
    nodes = [make_node("Identity", ["size"], ["n"]), make_node("HannWindow", ["n"], ["y"], name="window")]
    record = onnx.load(model(nodes, {"size": []}, ["y"], types={"size": TensorProto.INT64})).interpretation().records[-1]
    assert (record.name, record.op_type, record.where) == ("window", "HannWindow", "deferred")
    assert record.problems[0].code == "onnx.constant_input"
    assert record.problems[0].path == "input 0 'size'"
