"""Runs of a compiled model whose sizes recur: their results, their memory, and the Python that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from dmlpy import onnx
from dmlpy.messages.problems import BindError
from dmlpy.onnx.runtime import loop_iterations
from dmlpy.onnx.runtime.bound_runs import BoundRuns
from dmlpy.onnx.runtime.loop_iterations import LoopIterations
from tests.support.onnx.models import model
from tests.support.structure.python_calls import python_calls

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(4)
HOSTS = pytest.mark.parametrize("device", ["numpy", "cpu"])
T = TensorProto
Node = helper.make_node


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes, np.float32)


MANY: dict[str, int] = {"b": T.BOOL, "n": T.INT64, "s": T.FLOAT, "not_b": T.BOOL, "count": T.INT64, "scalar": T.FLOAT, "known": T.FLOAT}
"""Of each kind: Booleans, wide integers, scalars, an output that is an input, one that is known, and one that is given twice."""


def many_kinds() -> Any:
    nodes = [
        Node("Not", ["b"], ["not_b"]),
        Node("Add", ["n", "n"], ["count"]),
        Node("Mul", ["s", "s"], ["scalar"]),
        Node("Add", ["x", "s"], ["y"]),
        Node("Relu", ["y"], ["z"]),
        Node("Identity", ["c"], ["known"]),
        Node("Identity", ["x"], ["same"]),
    ]
    outputs = ["not_b", "count", "scalar", "y", "z", "known", "same"]
    return model(nodes, {"x": [3, "t"], "b": ["t"], "n": [2], "s": []}, outputs, types=MANY, constants={"c": normal(2, 2)})


def given(steps: int) -> dict[str, Array]:
    return {"x": normal(3, steps), "b": RNG.integers(0, 2, steps) > 0, "n": RNG.integers(-9, 9, 2), "s": np.array(normal())}


def check(found: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    y = inputs["x"] + inputs["s"]
    expected = {"not_b": ~inputs["b"], "count": 2 * inputs["n"], "scalar": inputs["s"] ** 2, "y": y, "z": y.clip(0), "same": inputs["x"]}
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (np.asarray(array).dtype, np.shape(array)), name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def is_bound(compiled: Any) -> bool:
    return any(isinstance(item, BoundRuns) for item, _ in compiled._cache._items.values())


@HOSTS
@pytest.mark.parametrize("steps", [5, 20_000], ids=["copied", "bound anew"])
def test_values_of_each_kind(device: str, steps: int) -> None:
    """What a run returned stays as it is, and may be written; strided inputs are read in place."""
    compiled = onnx.load(many_kinds()).compile(device)
    runs = [given(steps) for _ in range(6)]
    runs[4]["x"] = np.repeat(runs[4]["x"], 2, axis=1)[:, ::2]
    kept = [{name: array.copy() for name, array in own.items()} for own in runs]
    found = [compiled(own) for own in runs]
    assert is_bound(compiled)
    for own, inputs in zip(found, kept, strict=True):
        check(own, inputs)
        for array in own.values():
            array[...] = 0
    for own, inputs in zip(runs, kept, strict=True):
        for name, array in own.items():
            np.testing.assert_array_equal(array, inputs[name])
    assert compiled(runs[0])["known"].all()


@HOSTS
def test_inputs_that_do_not_fit_are_refused_as_before(device: str) -> None:
    compiled = onnx.load(many_kinds()).compile(device)
    right = given(5)
    for _ in range(4):
        check(compiled(right), right)
    wrong: dict[str, dict[str, Any]] = {
        "x is float64, expected float32": {"x": right["x"].astype(np.float64)},
        "x is >f4, expected float32": {"x": right["x"].astype(">f4")},
        r"of sizes \[2, 5\]": {"x": right["x"][:2]},
        "no input of the model": {"q": right["x"]},
    }
    for text, members in wrong.items():
        with pytest.raises(BindError, match=text):
            compiled(right | members)
    with pytest.raises(BindError, match="not given"):
        compiled({name: array for name, array in right.items() if name != "s"})
    check(compiled(right), right)


@HOSTS
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("units", [3, 9000], ids=["copied", "bound anew"])
def test_states_of_a_loop(device: str, steps: int, units: int) -> None:
    """Each iteration has the same sizes; what an earlier one gave is not written again."""
    body = helper.make_graph(
        [
            Node("Add", ["h", "w"], ["h2"]),
            Node("Mul", ["h2", "h2"], ["row"]),
            Node("Identity", ["go"], ["go2"]),
            Node("Identity", ["c"], ["fixed"]),
            Node("Identity", ["h"], ["before"]),
        ],
        "body",
        [helper.make_tensor_value_info(*each) for each in (("i", T.INT64, []), ("go", T.BOOL, []), ("h", T.FLOAT, [units]))],
        [
            helper.make_tensor_value_info(*each)
            for each in (
                ("go2", T.BOOL, []),
                ("h2", T.FLOAT, [units]),
                ("row", T.FLOAT, [units]),
                ("fixed", T.FLOAT, [2]),
                ("before", T.FLOAT, [units]),
            )
        ],
    )
    nodes = [Node("Loop", ["n", "", "h0"], ["h", "rows", "all_fixed", "all_before"], body=body)]
    types, constants = {"n": T.INT64}, {"c": normal(2)}
    case = model(nodes, {"n": [], "h0": [units], "w": [units]}, ["h", "rows", "all_fixed", "all_before"], types=types, constants=constants)
    compiled = onnx.load(case).compile(device)
    for _ in range(3):
        h, w = normal(units), normal(units)
        found = compiled(n=np.array(steps), h0=h, w=w)
        rows = []
        for _ in range(steps):
            rows.append(h)
            h = h + w
        np.testing.assert_array_equal(found["h"], h)
        np.testing.assert_array_equal(found["all_before"], rows)
        np.testing.assert_array_equal(found["rows"], np.square([*rows[1:], h]))
        np.testing.assert_array_equal(found["all_fixed"], [constants["c"]] * steps)
    assert is_bound(compiled)


@HOSTS
def test_scanned_items(device: str) -> None:
    body = helper.make_graph(
        [Node("Add", ["state", "item"], ["next"]), Node("Identity", ["next"], ["row"])],
        "body",
        [helper.make_tensor_value_info(name, T.FLOAT, []) for name in ("state", "item")],
        [helper.make_tensor_value_info(name, T.FLOAT, []) for name in ("next", "row")],
    )
    nodes = [Node("Scan", ["s", "x"], ["last", "rows"], body=body, num_scan_inputs=1)]
    compiled = onnx.load(model(nodes, {"s": [], "x": ["t"]}, ["last", "rows"])).compile(device)
    for steps in (9, 9, 4):
        x = RNG.integers(-9, 9, steps).astype(np.float32)
        found = compiled(s=np.float32(2), x=x)
        np.testing.assert_array_equal(found["rows"], 2 + np.cumsum(x))
        np.testing.assert_array_equal(found["last"], 2 + x.sum())


@HOSTS
def test_scanned_items_of_hidden_number(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, and columns from the last on; of two outputs one is in columns, the last first. They run in place."""
    in_place = []
    run = LoopIterations.run

    def counting(iterations: LoopIterations, *arguments: Any) -> Any:
        assert (iterations._runner is not None) == (device == "cpu")
        ran = run(iterations, *arguments)
        in_place.append(ran.iterations)
        return ran

    monkeypatch.setattr(LoopIterations, "run", counting)
    monkeypatch.setattr(loop_iterations, "_FIRST_ITERATIONS", 2)
    body = helper.make_graph(
        [Node("Add", ["state", "item"], ["sum"]), Node("Sub", ["sum", "column"], ["next"]), Node("Mul", ["next", "item"], ["row"])],
        "body",
        [helper.make_tensor_value_info(name, T.FLOAT, [2]) for name in ("state", "item", "column")],
        [helper.make_tensor_value_info(name, T.FLOAT, [2]) for name in ("next", "row", "sum")],
    )
    given = ["hidden x", "hidden y"]
    hiding = [Node("Compress", [name, "keep"], [hidden], axis=axis) for axis, (name, hidden) in enumerate(zip("xy", given, strict=True))]
    scan = Node(
        "Scan", ["s", *given], ["last", "rows", "sums"], body=body, num_scan_inputs=2, scan_input_axes=[0, 1],
        scan_input_directions=[0, 1], scan_output_axes=[0, 1], scan_output_directions=[0, 1],
    )  # fmt: skip
    sizes = {"s": [2], "x": ["t", 2], "y": [2, "t"], "keep": ["t"]}
    case = model([*hiding, scan], sizes, ["last", "rows", "sums"], types={"keep": T.BOOL})
    compiled = onnx.load(case).compile(device)
    for steps in (9, 9, 4):
        state, x, y = normal(2), normal(steps, 2), normal(2, steps)
        found = compiled(s=state, x=x, y=y, keep=np.ones(steps, np.bool_))
        rows, sums = [], []
        for step in range(steps):
            sums.append(state + x[step])
            state = sums[-1] - y[:, steps - 1 - step]
            rows.append(state * x[step])
        np.testing.assert_array_equal(found["rows"], rows)
        np.testing.assert_array_equal(found["sums"], np.stack(sums[::-1], 1))
        np.testing.assert_array_equal(found["last"], state)
    assert in_place == [7, 9, 2]


def info(names: str, element: int = T.FLOAT, sizes: Sequence[int | str] = (2,)) -> list[Any]:
    return [helper.make_tensor_value_info(name, element, sizes) for name in names.split()]


@dataclass(frozen=True)
class Body:
    """The body of a loop of two states a and b [2].

    Attributes:
        nodes: its nodes, which read i, go, a, b, and w of the model.
        following: the states for the next iteration.
        row: what each iteration gives.
        step: the same with NumPy: the states and the row, by the iteration's number, the states and w.
        last: the iteration that ends the loop.
        in_place: whether nothing but copies lies between the launches of iterations.
    """

    nodes: Sequence[Any]
    following: str
    row: str
    step: Callable[[int, Array, Array, Array], tuple[Array, Array, Array]]
    last: int = 99
    in_place: bool = True

    def graph(self) -> Any:
        own = [Node("Cast", ["i"], ["turn"], to=T.FLOAT), Node("Less", ["i", "end"], ["goes_on"]), *self.nodes]
        inputs = [*info("i", T.INT64, ()), *info("go", T.BOOL, ()), *info("a b")]
        known = [helper.make_tensor("end", T.INT64, [], [self.last])]
        return helper.make_graph(own, "body", inputs, [*info("goes_on", T.BOOL, ()), *info(f"{self.following} {self.row}")], known)


ADDED = [Node("Add", ["a", "w"], ["c"]), Node("Mul", ["c", "turn"], ["d"])]
BODIES = {
    "both computed": Body(ADDED, "c d", "d", lambda i, a, b, w: (a + w, (a + w) * i, (a + w) * i)),
    "a state is an output of an earlier iteration": Body(
        [*ADDED, Node("Sub", ["b", "c"], ["e"])], "c e", "d", lambda i, a, b, w: (a + w, b - (a + w), (a + w) * i)
    ),
    "a state that stays": Body([*ADDED, Node("Identity", ["b"], ["e"])], "c e", "d", lambda i, a, b, w: (a + w, b, (a + w) * i)),
    "a state given on": Body([*ADDED, Node("Identity", ["a"], ["e"])], "c d", "e", lambda i, a, b, w: (a + w, (a + w) * i, a)),
    "a state handed to the other": Body(ADDED, "c a", "d", lambda i, a, b, w: (a + w, a, (a + w) * i), in_place=False),
    "a state that stays as it is": Body(ADDED, "c b", "d", lambda i, a, b, w: (a + w, b, (a + w) * i)),
    "a row that is a state": Body(ADDED, "c d", "a", lambda i, a, b, w: (a + w, (a + w) * i, a)),
    "states that change places": Body(ADDED, "b a", "d", lambda i, a, b, w: (b, a, (a + w) * i), in_place=False),
    "states that change places as copies": Body(
        [*ADDED, Node("Identity", ["a"], ["e"]), Node("Identity", ["b"], ["f"])], "f e", "d", lambda i, a, b, w: (b, a, (a + w) * i)
    ),
    "the counter ends it": Body(ADDED, "c d", "d", lambda i, a, b, w: (a + w, (a + w) * i, (a + w) * i), last=5),
    "what is around it": Body([*ADDED, Node("Identity", ["w"], ["e"])], "c e", "e", lambda i, a, b, w: (a + w, w, w)),
}


@HOSTS
@pytest.mark.parametrize("name", BODIES)
def test_iterations_in_place(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third iteration on, memory stays in place, with the results of single iterations; on `cpu` no Python runs between them."""
    body, counted = BODIES[name], 0
    run = LoopIterations.run

    def counting(iterations: LoopIterations, *arguments: Any) -> Any:
        nonlocal counted
        assert (iterations._runner is not None) == (device == "cpu")
        ran = run(iterations, *arguments)
        counted += ran.iterations
        return ran

    monkeypatch.setattr(loop_iterations, "_FIRST_ITERATIONS", 2)  # so that there are several series of iterations
    monkeypatch.setattr(LoopIterations, "run", counting)
    nodes = [Node("Loop", ["n", "", "a0", "b0"], ["a_n", "b_n", "rows"], body=body.graph())]
    case = model(nodes, {"n": [], "a0": [2], "b0": [2], "w": [2]}, ["a_n", "b_n", "rows"], types={"n": T.INT64})
    compiled = onnx.load(case).compile(device)
    for repetition in range(2):
        a, b, w = normal(2), normal(2), normal(2)
        given, rows, counted = {"n": np.array(9), "a0": a, "b0": b, "w": w}, [], 0
        found = compiled(given)
        iterations = min(9, body.last + 1)
        for i in range(iterations):
            a, b, row = body.step(i, a, b, w)
            rows.append(row)
        for output, right in (("a_n", a), ("b_n", b), ("rows", rows)):
            np.testing.assert_array_equal(found[output], right, err_msg=output)
        assert counted == (0 if not body.in_place else iterations if repetition else iterations - 2)


@HOSTS
def test_rows_of_strings(device: str) -> None:
    """Each row refers to the strings that it has, which a copy of bytes would not count: their number of references is as before."""
    text = "one" + device
    known = [helper.make_tensor("text", T.STRING, [1], [text.encode()])]
    inputs = [*info("i", T.INT64, ()), *info("go", T.BOOL, ()), *info("a")]
    nodes = [Node("Add", ["a", "a"], ["b"]), Node("Identity", ["go"], ["goes_on"])]
    body = helper.make_graph(nodes, "body", inputs, [*info("goes_on", T.BOOL, ()), *info("b"), *info("text", T.STRING, (1,))], known)
    case = model(
        [Node("Loop", ["n", "", "x"], ["y", "rows"], body=body)], {"n": [], "x": [2]}, ["y", "rows"], types={"n": T.INT64, "rows": T.STRING}
    )
    compiled = onnx.load(case).compile(device)
    given = {"n": np.array(9), "x": normal(2)}
    found = compiled(given)["rows"]
    counts = []
    for _ in range(3):
        found = compiled(given)["rows"]
        assert found.tolist() == [[text]] * 9
        counts.append(sys.getrefcount(found[0, 0]))
    assert counts == [counts[0]] * 3
    assert counts[0] > 9


def test_little_python_runs_in_a_recurring_run() -> None:
    """As much for a model of many compiled nodes as for one of a single node."""
    pytest.importorskip("llvmlite")
    counted = []
    for nodes in (1, 60):
        names = [f"v{node}" for node in range(nodes + 1)]
        chain = [Node("Softmax", [x], [y], axis=-1) for x, y in pairwise(names)]
        compiled = onnx.load(model(chain, {"v0": ["n", 8]}, [names[-1]])).compile("cpu")
        inputs = {"v0": normal(4, 8)}
        for _ in range(4):
            compiled(inputs)

        def call(compiled: Any = compiled, inputs: Any = inputs) -> None:
            compiled(inputs)

        counted.append(python_calls(call))
    assert counted[0] == counted[1]
    assert counted[0] <= 60
