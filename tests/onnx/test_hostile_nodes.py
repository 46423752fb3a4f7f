"""Nodes whose attributes and known inputs contradict each other: each is reported by name, and ONNX's C++ code does not see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, TensorProto, defs, shape_inference
from onnx.helper import make_node, make_tensor_value_info

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.domains import definitions, host_operators
from dmlpy.onnx.lowering import functions, node_lowering
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.nodes import inference_guard
from dmlpy.onnx.nodes.error_policy import ErrorPolicy
from tests.support.onnx.models import model

Array = np.ndarray[Any, Any]
FREE = frozenset(
    {
        *("exclusive", "fmod", "is_test", "layout", "reverse", "spatial", "storage_order"),
        *("dtype", "output_datatype", "output_dtype", "precision", "qk_matmul_output_mode", "softmax_precision", "stash_type", "to"),
        *(
            "consumed_inputs",
            "end",
            "ignore_index",
            "k",
            "left_window_size",
            "maxsplit",
            "p",
            "right_window_size",
            "sampling_ratio",
            "seed",
        ),
        *("pool_int64s", "shape", "start", "value_int", "value_ints", "weights", "activation_alpha", "activation_beta", "value_floats"),
        *("directions", "scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"),
    }
)
"""Names of numbers that ONNX's inference does not index with: flags, types, bounds that it clips or compares; Scan's have a rule."""


def body(inputs: dict[str, tuple[int, list[int]]], outputs: list[str]) -> GraphProto:
    """A body that gives what it is given."""
    made = GraphProto(name="body")
    made.input.extend(make_tensor_value_info(name, element, sizes) for name, (element, sizes) in inputs.items())
    for name, own in zip(outputs, inputs, strict=False):
        made.node.append(make_node("Identity", [own], [name]))
        made.output.append(make_tensor_value_info(name, *inputs[own]))
    return made


LOOP = body({"i": (TensorProto.INT64, []), "c": (TensorProto.BOOL, []), "s": (TensorProto.FLOAT, [2])}, ["n", "go", "t"])
del LOOP.output[0]
BRANCH = body({}, [])
BRANCH.node.append(make_node("Constant", [], ["k"], value_float=1.0))
BRANCH.output.append(make_tensor_value_info("k", TensorProto.FLOAT, []))
STEP = body({"s": (TensorProto.FLOAT, [2]), "r": (TensorProto.FLOAT, [2])}, ["t", "row"])


@dataclass(frozen=True)
class Row:
    """A node that nothing runs.

    Attributes:
        operator: its operator.
        inputs: its inputs in order: sizes of FLOAT inputs of the model, or known arrays; None for one that is left out.
        told: the text of the message.
        attributes: its attributes.
        opset: the version of ONNX.
        outputs: the number of its outputs.
    """

    operator: str
    inputs: tuple[list[int] | Array | None, ...]
    told: str
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1

    def model(self) -> ModelProto:
        names = [f"x{index}" if given is not None else "" for index, given in enumerate(self.inputs)]
        pairs = list(zip(names, self.inputs, strict=True))
        outputs = [f"y{index}" for index in range(self.outputs)]
        node = make_node(self.operator, names, outputs, name="the node", **self.attributes)
        sizes = {name: given for name, given in pairs if isinstance(given, list)}
        arrays = {name: given for name, given in pairs if isinstance(given, np.ndarray)}
        made = model([node], sizes, outputs, opset=self.opset, constants=arrays)
        for output in made.graph.output:
            output.ClearField("type")
        return made


def integers(*values: Any) -> Array:
    return np.asarray(values, np.int64)


def scan(message: str, inputs: int = 2, **attributes: Any) -> Row:
    return Row("Scan", tuple([[2], [3, 2], [3, 2]][:inputs]), message, {"body": STEP, "num_scan_inputs": 1} | attributes, outputs=2)


def split(message: str, *lengths: Any, scalar: bool = False, size: int = 6) -> Row:
    given = np.asarray(lengths[0] if scalar else lengths, np.int64)
    return Row("SplitToSequence", ([size], given), message)


EMPTY = np.zeros(0, np.int64)
ROWS = {
    "If, condition of no elements": Row(
        "If", (np.zeros(0, np.bool_),), "'cond' is bool [0], expected one element", {"then_branch": BRANCH, "else_branch": BRANCH}
    ),
    "Loop, count of no elements": Row("Loop", (EMPTY, None, [2]), "'M' is int64 [0], expected one element", {"body": LOOP}),
    "Loop, count NaN": Row("Loop", (np.asarray(np.nan), None, [2]), "'M' is float64 [], expected a tensor of [int64]", {"body": LOOP}),
    "Loop, count of text": Row(
        "Loop", (np.asarray("many", object), None, [2]), "'M' is string [], expected a tensor of [int64]", {"body": LOOP}
    ),
    "Loop, condition of no elements": Row(
        "Loop", (None, np.zeros(0, np.bool_), [2]), "'cond' is bool [0], expected one element", {"body": LOOP}
    ),
    "Scan of no inputs": scan("num_scan_inputs is 0, expected 1 or more", num_scan_inputs=0),
    "Scan of -1 inputs": scan("num_scan_inputs is -1, expected 1 or more", num_scan_inputs=-1),
    "Scan of too many inputs": scan("num_scan_inputs is 5, expected 1 to 2, the inputs", num_scan_inputs=5),
    "Scan of 2**62 inputs": scan("num_scan_inputs is 4611686018427387904, expected 1 to 2", num_scan_inputs=2**62),
    "Scan, axes of inputs": scan("scan_input_axes has 2 numbers, expected 1, one for each scanned input", scan_input_axes=[0, 0]),
    "Scan, axes of outputs": scan("scan_output_axes has 3 numbers, expected 1, one for each scanned output", scan_output_axes=[0, 0, 0]),
    "Scan, directions of inputs": scan("scan_input_directions has 2 numbers, expected 1", scan_input_directions=[0, 1]),
    "Scan, directions of outputs": scan("scan_output_directions has 2 numbers, expected 1", scan_output_directions=[0, 1]),
    "Scan, directions": scan("scan_input_directions is [7], expected 0 or 1 each", scan_input_directions=[7]),
    "SplitToSequence of 2**39": Row("SplitToSequence", ([2**39],), "549755813888 parts, expected at most 4096"),
    "SplitToSequence by 0": split("'split' is 0, expected a length of 1 or more", 0, scalar=True),
    "SplitToSequence by nothing": split("'split' is [], expected one dimension, lengths of 0 or more that make 6"),
    "SplitToSequence by two dimensions": split("'split' is int64 [1, 2], expected one dimension", [3, 3]),
    "SplitToSequence by other lengths": split("'split' is [4, 3], expected one dimension, lengths of 0 or more that make 6", 4, 3),
    "SplitToSequence by less than nothing": split("'split' is [7, -1]", 7, -1),
    "Reshape to nothing of huge sizes": Row("ConstantOfShape", (integers(0, 2**62, 2**62),), "less than 2**63 bytes"),
    "ConstantOfShape of 100 sizes": Row("ConstantOfShape", (integers(*[0] * 100),), "100 dimensions, expected at most 64"),
    "a shape of more numbers than there are axes": Row(
        "Reshape", ([2], np.ones(129, np.int64)), "'shape' has 129 numbers, expected at most 128"
    ),
    "Resize to 2**40": Row("Resize", ([1, 1], None, None, integers(1, 2**40)), "at most 4294967295 elements", {"mode": "linear"}),
    "TopK of more than there is": Row("TopK", ([0], integers(2**31)), "K is 2147483648, expected 0 to 0", outputs=2),
    "SequenceMap of a tensor": Row(
        "SequenceMap",
        ([2],),
        "'input_sequence' is float32 [2], expected a sequence",
        {"body": body({"a": (TensorProto.FLOAT, [2])}, ["b"])},
    ),
    "an axis": Row("LayerNormalization", ([2, 3], np.ones(3, np.float32)), "axis is 5, expected -2 to 1", {"axis": 5}),
    "an axis of an old version": Row("Softmax", ([2, 3],), "axis is -4, expected -2 to 1", {"axis": -4}, opset=11),
    "an axis behind the last": Row("Flatten", ([2, 3],), "axis is 3, expected -2 to 2", {"axis": 3}),
    "axes": Row("ReduceMax", ([2, 3],), "axes is -3, expected -2 to 1", {"axes": [0, -3]}, opset=13),
    "known axes": Row("ReduceMax", ([2, 3], integers(2)), "'axes' is 2, expected -2 to 1"),
    "axes twice": Row("Unsqueeze", ([2, 3], integers(1, -3)), "'axes' is [1, -3], expected each axis once"),
    "strides": Row("Conv", ([1, 2, 5, 5], [2, 2, 3, 3]), "strides has 1 number, expected 2: the 4 dimensions but two", {"strides": [1]}),
    "strides of 0": Row("MaxPool", ([1, 2, 5],), "strides is [0], expected numbers of 1 or more", {"kernel_shape": [2], "strides": [0]}),
    "pads": Row(
        "Conv", ([1, 2, 5, 5], [2, 2, 3, 3]), "pads has 3 numbers, expected 4: a start and an end for each axis", {"pads": [1, 1, 1]}
    ),
    "no groups": Row("Conv", ([1, 2, 5], [2, 2, 3]), "group is 0, expected 1 or more", {"group": 0}),
    "no heads": Row("Attention", ([1, 2, 4],) * 3, "q_num_heads is 0, expected 1 or more", {"q_num_heads": 0, "kv_num_heads": 1}, opset=23),
    "parts and outputs": Row("Split", ([6],), "num_outputs is 2, expected 3, the outputs", {"num_outputs": 2}, outputs=3),
    "a permutation": Row("Transpose", ([2, 3],), "perm has 3 numbers, expected 2: one for each axis", {"perm": [0, 1, 2]}),
    "bounds": Row("Slice", ([4, 4], integers(0, 0), integers(1)), "starts is 2 starts, 1 ends, expected as many of each other"),
    "a step of 0": Row("Slice", ([4], integers(0), integers(1), integers(0), integers(0)), "steps is [0], expected steps other than 0"),
    "an equation of other letters": Row(
        "Einsum", ([2, 3], [3, 4]), "equation is 'i*', expected letters and at most one '...'", {"equation": "i*,jk->ik"}
    ),
    "an equation of two ellipses": Row("Einsum", ([2, 3],), "equation is '......', expected letters", {"equation": "......->..."}),
    "an equation of more terms": Row("Einsum", ([2, 3],), "equation is 'ij,->ij', expected 1 terms", {"equation": "ij,->ij"}),
    "an equation with a new letter": Row(
        "Einsum", ([2, 3],), "equation is 'ik', expected each letter once, and only", {"equation": "ij->ik"}
    ),
    "n-grams at no place": Row(
        "TfIdfVectorizer",
        (integers(1, 2),),
        "ngram_indexes is [-1], expected numbers of 0 or more",
        {
            "max_gram_length": 1,
            "max_skip_count": 0,
            "min_gram_length": 1,
            "mode": "TF",
            "ngram_counts": [0],
            "ngram_indexes": [-1],
            "pool_int64s": [1],
        },
    ),
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators of nodes that ONNX's inference and its definitions were given."""
    found: list[str] = []
    infer, builds = shape_inference.infer_node_outputs, inference_guard.allows_definition

    def inferred(schema: Any, node: Any, *args: Any, **named: Any) -> Any:
        found.append(node.op_type)
        return infer(schema, node, *args, **named)

    def built(node: Any) -> bool:
        if passes := builds(node):
            found.append(node.op_type)
        return passes

    monkeypatch.setattr(shape_inference, "infer_node_outputs", inferred)
    monkeypatch.setattr(inference_guard, "allows_definition", built)
    return found


def reasons(proto: ModelProto) -> str:
    """Why a node of a model is not run, by whatever way the model is refused."""
    try:
        found = onnx.load(proto)
        found.report()
        return "\n".join(str(problem.under(record.name)) for record in found.interpretation().records for problem in record.problems)
    except dml.DmlError as error:
        return str(error)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_node_that_contradicts_itself_is_reported_and_not_shown_to_onnx(row: Row, seen: list[str]) -> None:
    told = reasons(row.model())
    assert "the node" in told
    assert row.told in told
    late = row.operator in ("SplitToSequence", "ConstantOfShape", "Resize", "TopK")  # their sizes do not contradict anything
    assert late or row.operator not in seen


def test_a_shape_of_many_numbers_that_nobody_knows_is_refused(seen: list[str]) -> None:
    node = make_node("Expand", ["x", "shape"], ["y"], name="the node")
    built = model([node], {"x": [2], "shape": [2**20]}, ["y"], types={"shape": TensorProto.INT64})
    assert "'shape' has 1048576 numbers, expected at most 128" in reasons(built)
    assert seen == []


def test_patterns_are_not_tried_before_the_model_runs() -> None:
    row = Row("RegexFullMatch", (np.asarray(["text"], object),), "", {"pattern": "a+"})
    (record,) = onnx.load(row.model()).interpretation().records
    assert record.where == "host"


def test_names_of_numbers_are_listed() -> None:
    known = inference_guard.AXES | inference_guard.COUNTS | inference_guard.NATURAL | inference_guard.FLAGS
    known |= inference_guard.SPATIAL.keys() | inference_guard.LISTS
    named = {
        name
        for schema in defs.get_all_schemas_with_history()
        if schema.domain in inference_guard.DOMAINS
        for name, declared in schema.attributes.items()
        if declared.type.name in ("INT", "INTS", "FLOATS")  # type: ignore[attr-defined]
    }
    assert named - known - FREE == set()
    assert known & FREE == set()


def test_names_may_be_taken_many_times() -> None:
    """Each name that would be free is an initializer's."""
    names = ["A/t"]
    for _ in range(1400):
        names.append(f"{names[-1]}_1")
    made = Lowering(onnx.load(Row("Relu", ([2],), "").model()).loaded, dml.FeatureLevel.FL_6_4)
    for name in names:
        made.unique_name(name)
    assert made.unique_name("A/t") == f"{names[-1]}_1"


ERRORS = [IndexError("out of range"), TypeError(""), ValueError("wrong"), KeyError("k"), ZeroDivisionError(), AttributeError("a")]


def failing(error: Exception) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


PLACES = {
    "lowering": (node_lowering, "find_rule"),
    "rules": (inference_guard, "attribute_problems"),
    "definition": (functions, "expand_function"),
}


@pytest.mark.parametrize("error", [*ERRORS, RecursionError(), OverflowError(), MemoryError()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("module", "name"), PLACES.values(), ids=PLACES.keys())
def test_what_nobody_foresaw_names_the_node(
    error: Exception, module: Any, name: str, untrusted_models: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("HardSwish", ([2],), "") if name == "expand_function" else Row("LeakyRelu", ([2],), "", {"alpha": 0.5})
    if name == "lowering":
        monkeypatch.setattr(node_lowering, "find_rule", lambda *_: failing(error))
    else:
        monkeypatch.setattr(module, name, failing(error))
    if name == "expand_function":
        monkeypatch.setattr("dmlpy.onnx.lowering.model_lowering.find_rule", lambda *_: None)
        monkeypatch.setattr(node_lowering, "find_rule", lambda *_: None)
    told = reasons(row.model())
    assert "the node" in told
    assert row.operator in told
    assert "memory" in told if isinstance(error, MemoryError) else type(error).__name__ in told
    assert name == "expand_function" or "alpha = 0.5" in told


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_mistakes_in_dmlpy_are_not_hidden_from_its_tests(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lowering, "find_rule", lambda *_: failing(error))
    with pytest.raises(type(error)):
        onnx.load(Row("Relu", ([2],), "").model()).report()


DOMAIN_FUNCTIONS: dict[str, tuple[dict[Any, Any], Any, tuple[list[int], ...]]] = {
    "CDist": (definitions._DEFINITIONS, "CDist", ([2, 3], [4, 3])),
    "Inverse": (host_operators._OPERATORS, ("com.microsoft", "Inverse"), ([2, 2],)),
}
"""For a node of com.microsoft: the registry of its function, its key there, and the sizes of its inputs."""


@pytest.mark.parametrize("operator", DOMAIN_FUNCTIONS)
@pytest.mark.parametrize("is_trusted", [True, False])
def test_functions_of_other_domains_hide_no_mistakes_from_tests(operator: str, is_trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host_operators.find_host_operator("", "")  # imports the functions, which would replace the one below
    registry, key, sizes = DOMAIN_FUNCTIONS[operator]
    fails = failing(LookupError("a mistake"))
    own = fails if operator == "CDist" else host_operators.HostOperator(fails, lambda node: [(None, None)])
    monkeypatch.setitem(registry, key, own)
    monkeypatch.setattr(ErrorPolicy, "propagate_unexpected", is_trusted)
    arrays = {f"x{index}": np.eye(*size, dtype=np.float32) for index, size in enumerate(sizes)}
    node = make_node(operator, [*arrays], ["y"], name="the node", domain="com.microsoft")
    built = model([node], {name: array.shape for name, array in arrays.items()}, ["y"], domains={"com.microsoft": 1})
    with pytest.raises(LookupError if is_trusted else dml.DmlError, match="a mistake"):
        onnx.load(built).compile("numpy")(arrays)


def test_a_loop_that_fails_while_it_runs_names_its_node(untrusted_models: None, monkeypatch: pytest.MonkeyPatch) -> None:
    built = model(
        [make_node("Loop", ["m", "", "x"], ["y"], name="the node", body=LOOP)], {"m": [], "x": [2]}, ["y"], types={"m": TensorProto.INT64}
    )
    compiled = onnx.load(built).compile("numpy")
    monkeypatch.setattr("dmlpy.onnx.runtime.loops.LoopRun._run_loop", failing(IndexError("list index out of range")))
    with pytest.raises(dml.DeviceError, match="the node is attributes or inputs that Loop does not allow: IndexError"):
        compiled({"m": np.asarray(2, np.int64), "x": np.ones(2, np.float32)})


@pytest.mark.parametrize("sizes", [{"x": [0, 2**40, 2**40]}, {"batch": 2**62, "more": 2**62}], ids=["whole", "symbols"])
def test_given_sizes_are_those_of_arrays(sizes: dict[str, Any]) -> None:
    built = model([make_node("Relu", ["x"], ["y"])], {"x": [0, "batch", "more"]}, ["y"])
    with pytest.raises(dml.DescError, match="less than 2\\*\\*63 bytes"):
        onnx.load(built, sizes=sizes)
