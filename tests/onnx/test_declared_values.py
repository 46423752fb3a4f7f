"""Sizes and types that a model's file declares for outputs and other values, against those that its nodes make.

ONNX Runtime refuses wrong types, warns of wrong sizes, and runs with those that the nodes make.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info
from typer.testing import CliRunner

import dmlpy as dml
from dmlpy import onnx
from dmlpy.cli.main import app

Declared = tuple[int, list[Any] | None]
RIGHT: Declared = (TensorProto.FLOAT, [2, 3])
SIZES: list[tuple[str, Declared, Declared, str | None]] = [
    ("right", RIGHT, RIGHT, None),
    ("no sizes", (TensorProto.FLOAT, None), (TensorProto.FLOAT, None), None),
    ("open sizes", (TensorProto.FLOAT, ["n", -1]), (TensorProto.FLOAT, [None, 3]), None),
    ("an output of another size", RIGHT, (TensorProto.FLOAT, [2, 5]), "declared size of 'y' is [2, 5], expected [2, 3]"),
    ("an output of another rank", RIGHT, (TensorProto.FLOAT, [6]), "declared size of 'y' is [6], expected [2, 3]"),
    ("an open and a wrong one", RIGHT, (TensorProto.FLOAT, ["n", 4]), "declared size of 'y' is [n, 4], expected [2, 3]"),
    ("another value of another size", (TensorProto.FLOAT, [2, 7]), RIGHT, "declared size of 't' is [2, 7], expected [2, 3]"),
]
TYPES = {
    "output": (RIGHT, (TensorProto.INT64, [2, 3]), "Neg_1.declared type of 'y' is int64, expected float32"),
    "another value": ((TensorProto.FLOAT16, None), RIGHT, "Relu_0.declared type of 't' is float16, expected float32"),
}
SEQUENCE, TENSOR = helper.make_tensor_sequence_value_info, make_tensor_value_info
SEQUENCES: dict[str, tuple[str, ValueInfoProto, str | None]] = {
    "right": ("SequenceConstruct", SEQUENCE("y", TensorProto.FLOAT, [2, 5]), None),
    "of integers": ("SequenceConstruct", SEQUENCE("y", TensorProto.INT64, None), "is sequence of int64, expected sequence of float32"),
    "a tensor": ("SequenceConstruct", TENSOR("y", TensorProto.FLOAT, None), "is float32, expected sequence of float32"),
    "of a tensor": ("Relu", SEQUENCE("y", TensorProto.FLOAT, None), "is sequence of float32, expected float32"),
    "an optional": (
        "Optional",
        helper.make_value_info("y", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None))),
        "is optional of int64, expected optional of float32",
    ),
}
W = np.ones(3, np.float32)


def declaring(between: Declared, output: Declared, rows: int | str = 2) -> ModelProto:
    graph = helper.make_graph(
        [make_node("Relu", ["x"], ["t"]), make_node("Neg", ["t"], ["y"])],
        "small",
        [make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3])],
        [make_tensor_value_info("y", *output)],
        value_info=[make_tensor_value_info("t", *between)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("between", "output", "text"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_wrong_sizes_are_told_and_the_model_runs(between: Declared, output: Declared, text: str | None) -> None:
    loaded = onnx.load(declaring(between, output))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = loaded.compile("numpy")
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(compiled(x=x)["y"], -np.maximum(x, 0))
    for like in ("dmlpy", "onnxruntime"):
        report = loaded.report(like=like)
        assert all(node.where == "directml" for node in report.nodes)
        assert [problem.code for problem in report.contradicted] == ["onnx.declared"] * (text is not None)
        assert ("\ndeclared " in str(report)) == (text is not None)
        assert text is None or text in str(report)
    assert len(caught) == (text is not None)
    assert text is None or text in str(caught[0].message)


def test_wrong_sizes_of_a_model_with_open_ones_are_reported() -> None:
    """The sizes that are known before it runs, whatever sizes the report tries."""
    report = onnx.load(declaring(RIGHT, (TensorProto.FLOAT, [7, 4]), rows="n")).report()
    assert [problem.found for problem in report.contradicted] == ["[7, 4]"]
    assert not onnx.load(declaring((TensorProto.FLOAT, [7, 3]), (TensorProto.FLOAT, [7, 3]), rows="n")).report().contradicted


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_and_optionals_have_types_too(name: str) -> None:
    operator, output, text = SEQUENCES[name]
    graph = helper.make_graph([make_node(operator, ["x"], ["y"])], "small", [TENSOR("x", TensorProto.FLOAT, [2, 3])], [output])
    problems = [str(problem) for problem in onnx.load(helper.make_model(graph)).interpretation().problems]
    assert [f"declared type of 'y' {text}" in problem for problem in problems] == [True] * (text is not None), problems


@pytest.mark.parametrize(
    ("declared", "kept", "text"),
    [
        ((TensorProto.FLOAT, [5]), True, "w is [3], expected [5], the sizes of the input of its name"),
        ((TensorProto.FLOAT, [1, 3]), True, "w is [3], expected [1, 3]"),
        ((TensorProto.INT64, ["n"]), True, "w is float32, expected int64, the type of the input of its name"),
        ((TensorProto.FLOAT, ["n"]), True, None),
        ((TensorProto.INT64, [7]), False, None),
    ],
    ids=str,
)
def test_constants_have_the_sizes_of_their_inputs_alone(declared: Declared, kept: bool, text: str | None) -> None:
    """As in ONNX Runtime, which does not read what else a file declares of a constant."""
    described = TENSOR("w", *declared)
    x, y = (TENSOR(name, *RIGHT) for name in "xy")
    inputs, others = ([x, described], []) if kept else ([x], [described])
    graph = helper.make_graph(
        [make_node("Add", ["x", "w"], ["y"])], "small", inputs, [y], [numpy_helper.from_array(W, "w")], value_info=others
    )
    if text is None:
        assert not onnx.load(helper.make_model(graph)).report().contradicted
    else:
        with pytest.raises(dml.DescError, match=re.escape(text)):
            onnx.load(helper.make_model(graph))


def test_a_warning_names_the_first_few_of_many() -> None:
    """Tools that change the sizes of inputs leave all others as they were."""
    nodes = [make_node("Relu", [f"t{index}"], [f"t{index + 1}"]) for index in range(9)]
    between = [TENSOR(f"t{index}", TensorProto.FLOAT, [1, 3]) for index in range(9)]
    graph = helper.make_graph(nodes, "small", [TENSOR("t0", *RIGHT)], [TENSOR("t9", *RIGHT)], value_info=between)
    with pytest.warns(UserWarning, match="small: the file is wrong, and the model runs: .*'t3' is .*, which the nodes make; 5 more$"):
        onnx.load(helper.make_model(graph)).compile("numpy")


@pytest.mark.parametrize("where", TYPES)
def test_wrong_types_are_refused(where: str) -> None:
    between, output, text = TYPES[where]
    loaded = onnx.load(declaring(between, output))
    with pytest.raises(dml.CompileError) as caught:
        loaded.compile("numpy")
    assert text in str(caught.value)
    assert [node.where for node in loaded.report().nodes].count("invalid") == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", [("check",), ("onnx", "check", "--format", "github"), ("onnx", "run"), ("run",)], ids=" ".join)
def test_commands_warn(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "wrong.onnx"
    path.write_bytes(declaring(RIGHT, (TensorProto.FLOAT, [2, 5])).SerializeToString())
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    inputs = ["--input", f"x={tmp_path / 'x.npy'}"] if command == ("onnx", "run") else []
    options = [] if "check" in command else ["--device", "numpy", *inputs]
    found = CliRunner().invoke(app, [*command, str(path), *options])
    assert found.exit_code == 0, found.output
    assert "declared size of 'y' is [2, 5], expected [2, 3]" in found.output
    assert "warning" in found.output
    assert "UserWarning" not in found.output


FLOATS: Declared = (TensorProto.FLOAT, [2])
INTEGERS: Declared = (TensorProto.INT64, [2])
COUNT: Declared = (TensorProto.INT64, [])
GOES_ON: Declared = (TensorProto.BOOL, [])


def a_body(
    nodes: list[NodeProto], inputs: dict[str, Declared], outputs: dict[str, Declared], between: dict[str, Declared] | None = None
) -> GraphProto:
    def described(values: dict[str, Declared]) -> list[ValueInfoProto]:
        return [TENSOR(name, *value) for name, value in values.items()]

    return helper.make_graph(nodes, "body", described(inputs), described(outputs), value_info=described(between or {}))


def a_choice(
    then: Declared = FLOATS, other: Declared = FLOATS, between: Declared = FLOATS, nodes: tuple[NodeProto, ...] = (), operator: str = "Relu"
) -> NodeProto:
    first = a_body([make_node("Neg", ["x"], ["t"]), make_node(operator, ["t"], ["p"], name="own")], {}, {"p": then}, {"t": between})
    second = a_body([*nodes, make_node("Cast", ["x"], ["q"], to=other[0])], {}, {"q": other})
    return make_node("If", ["flag"], ["y"], name="choice", then_branch=first, else_branch=second)


def a_loop(count: Declared = COUNT, state: Declared = FLOATS, made: Declared = FLOATS, row: Declared = FLOATS, to: int = 1) -> NodeProto:
    nodes = [make_node("Relu", ["s"], ["r"]), make_node("Cast", ["r"], ["z"], to=to), make_node("Neg", ["x"], ["w"])]
    body = a_body(
        [make_node("Identity", ["c"], ["d"]), *nodes], {"i": count, "c": GOES_ON, "s": state}, {"d": GOES_ON, "z": made, "w": row}
    )
    return make_node("Loop", ["count", "", "x"], ["y", "rows"], name="turns", body=body)


def a_scan(state: Declared = FLOATS, scanned: Declared = FLOATS, made: Declared = FLOATS, row: Declared = FLOATS) -> NodeProto:
    nodes = [make_node("Add", ["s", "part"], ["z"]), make_node("Neg", ["z"], ["w"])]
    body = a_body(nodes, {"s": state, "part": scanned}, {"z": made, "w": row})
    return make_node("Scan", ["x", "parts"], ["y", "rows"], name="steps", body=body, num_scan_inputs=1)


BODIES: dict[str, tuple[NodeProto, str | None]] = {
    "a choice": (a_choice(), None),
    "a branch's output": (a_choice(then=INTEGERS), "choice.then_branch: declared type of 'p' is int64, expected float32, which the nodes"),
    "a branch's value": (a_choice(between=INTEGERS), "choice.then_branch: declared type of 't' is int64, expected float32"),
    "branches of two types": (a_choice(other=INTEGERS), "else_branch: declared type of 'q' is int64, expected float32, which output 'p'"),
    "a branch's wrong node": (
        a_choice(operator="Not"),
        "then_branch: own.input 0 'X' is float32 of unknown rank, expected a",
    ),
    "a body in a branch": (
        a_choice(nodes=(a_loop(row=INTEGERS),)),
        "choice.else_branch: turns.body: declared type of 'w' is int64, expected float32",
    ),
    "a loop": (a_loop(), None),
    "a loop's count": (
        a_loop(count=(TensorProto.INT32, [])),
        "turns.body: declared type of 'i' is int32, expected int64, which Loop",
    ),
    "a loop's state": (a_loop(state=INTEGERS), "turns.body: declared type of 's' is int64, expected float32, which Loop gives"),
    "a loop's result": (a_loop(made=INTEGERS), "turns.body: declared type of 'z' is int64, expected float32, which the nodes make"),
    "a state of another type": (a_loop(made=INTEGERS, to=7), "'z' is int64, expected float32, which Loop gives the next iteration"),
    "a loop's rows": (a_loop(row=INTEGERS), "turns.body: declared type of 'w' is int64"),
    "a scan": (a_scan(), None),
    "a scan's state": (a_scan(state=INTEGERS), "steps.body: declared type of 's' is int64, expected float32, which Scan gives"),
    "a scan's part": (a_scan(scanned=INTEGERS), "steps.body: declared type of 'part' is int64, expected float32, which Scan gives"),
    "a scan's result": (a_scan(made=INTEGERS), "steps.body: declared type of 'z' is int64, expected float32, which the nodes make"),
    "a scan's rows": (a_scan(row=INTEGERS), "steps.body: declared type of 'w' is int64, expected float32, which the nodes make"),
}


@pytest.mark.parametrize("is_known", [True, False], ids=["unrolled", "compiled once"])
@pytest.mark.parametrize("name", BODIES)
def test_types_in_bodies_are_compared(name: str, is_known: bool) -> None:
    node, text = BODIES[name]
    given = {"flag": np.array(True), "count": np.array(2), "x": np.ones(2, np.float32), "parts": np.ones((3, 2), np.float32)}
    held = {key: given.pop(key) for key in ("flag", "count")} if is_known else {}
    inputs = [TENSOR(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for key, array in given.items()]
    inputs[-1] = inputs[-1] if is_known else TENSOR("parts", TensorProto.FLOAT, ["steps", 2])
    constants = [numpy_helper.from_array(array, key) for key, array in held.items()]
    graph = helper.make_graph([node], "small", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    loaded = onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    if text is None:
        assert loaded.compile("numpy")(given)["y"].shape == (2,)
    else:
        with pytest.raises(dml.CompileError, match=re.escape(text)):
            loaded.compile("numpy")(given)
