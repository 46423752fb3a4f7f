"""The mistakes of a first hour, each with what its message must say: the place that is wrong and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import eager, x
from dmlpy.inspection.explain import explain
from dmlpy.keras import Dense, Sequential
from dmlpy.messages.naming import plural, with_article
from tests.support.tensors import tensor

SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
GATED = [SIGMOID, TANH, TANH]


def lstm(rows: int = 16, **members: Any) -> Any:
    """A layer of 4 units, with as many rows of weights as given."""
    given: dict[str, Any] = {
        "input_tensor": tensor(1, 5, 2, 3),
        "weight_tensor": tensor(1, 1, rows, 3),
        "recurrence_tensor": tensor(1, 1, rows, 4),
        "activation_descs": GATED,
        "direction": "FORWARD",
    }
    return dml.LSTMDesc(**given | members)


def gru(rows: int) -> Any:
    layer = dml.GRUDesc(
        input_tensor=tensor(1, 5, 2, 3),
        weight_tensor=tensor(1, 1, rows, 3),
        recurrence_tensor=tensor(1, 1, rows, 4),
        activation_descs=[SIGMOID, TANH],
        direction="FORWARD",
    )
    return layer.with_outputs()


def compiled(value: Any) -> Any:
    return dml.compile(value)


def ones(*sizes: int) -> Any:
    return np.ones(sizes, np.float32)


def convolution(image: tuple[int, ...] = (1, 3, 8, 8), **members: Any) -> Any:
    plain: dict[str, Any] = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "start_padding": [0, 0],
        "end_padding": [0, 0],
        "output_padding": [0, 0],
    }
    return dml.ConvolutionDesc(input_tensor=tensor(*image), filter_tensor=tensor(2, 3, 3, 3), **plain | members).with_outputs()


FLOAT_OF_PYTORCH: Any = type("dtype", (), {"__module__": "torch", "__repr__": lambda self: "torch.float32"})()


PATH_OF_BYTES: Any = type("DirEntry", (), {"__fspath__": lambda entry: b"model.onnx"})()
"""An entry of a folder that was listed by a name in bytes."""
TABLE: Any = type("DataFrame", (), {"__array__": lambda table, *_, **__: ones(2, 3)})()
"""What NumPy makes an array of, and has no memory to share, as pandas' tables."""
A, B = ones(2, 3), ones(3, 4)
GEMM: Any = dml.compile(dml.GEMMDesc(a_tensor=tensor(2, 3), b_tensor=tensor(3, 4)).with_outputs(), "numpy")
OWNING: Any = dml.compile(GEMM.desc.replace(b_tensor=tensor(3, 4).replace(flags="OWNED_BY_DML")), "numpy")
JOINED: Any = dml.compile(dml.JoinDesc(input_tensors=[tensor(2, 3)] * 2, axis=0).with_outputs(), "numpy")
BYTE: Any = dml.compile(dml.ElementWiseIdentityDesc(input_tensor=dml.TensorDesc(data_type="INT8", sizes=[1])).with_outputs(), "numpy")
GRAPH: Any = dml.compile(x.graph(x.activation_relu(x.input("x", [2, 3]))), "numpy")

JOIN: Any = eager.join


def checked(make: Callable[[], Any]) -> Callable[[], Any]:
    """Raises what the check of a desc finds."""

    def run() -> Any:
        desc = make()
        raise dml.DescError(desc.c_name, dml.check(desc))

    return run


def assign() -> None:
    TANH.input_tensor = None


ROWS_OF_AN_LSTM = ["2 problems", "weight_tensor.sizes[2] is 4, expected 4*hidden_size = 16", "recurrence_tensor.sizes[2] is 4"]
TWICE = tensor(1, 1, 2, 4)
WRONG: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # sizes: what the plain ones say outweighs what multiples say
    "an RNN's weights in an LSTM": (checked(lambda: lstm(4, output_single_tensor=TWICE)), ROWS_OF_AN_LSTM),
    "the same, its outputs inferred": (checked(lambda: lstm(4).with_outputs()), ROWS_OF_AN_LSTM),
    "the same, with an RNN's bias": (
        checked(lambda: lstm(4, bias_tensor=tensor(1, 1, 1, 8)).with_outputs()),
        [
            "3 problems",
            "weight_tensor.sizes[2] is 4, expected 4*hidden_size = 16",
            "bias_tensor.sizes[3] is 8, expected 8*hidden_size = 32",
        ],
    ),
    "an LSTM's weights in a GRU": (checked(lambda: gru(16)), ["weight_tensor.sizes[2] is 16, expected 3*hidden_size = 12"]),
    "matrices exchanged": (
        checked(lambda: lstm(weight_tensor=tensor(1, 1, 16, 4), recurrence_tensor=tensor(1, 1, 16, 3)).with_outputs()),
        ["remedy: weight_tensor and recurrence_tensor are exchanged"],
    ),
    "Keras's matrices": (
        checked(lambda: lstm(weight_tensor=tensor(1, 1, 3, 16), recurrence_tensor=tensor(1, 1, 4, 16)).with_outputs()),
        [
            "if it is transposed, as Keras's are, it is sizes [1, 1, 16, 3], strides [48, 48, 1, 16]; the gates have to be i, o, f, c",
            "it is sizes [1, 1, 16, 4], strides [64, 64, 1, 16]",
        ],
    ),
    "a wrong state": (
        checked(lambda: lstm(16, hidden_init_tensor=tensor(1, 1, 2, 5)).with_outputs()),
        ["1 problem\n", "hidden_init_tensor.sizes[3] is 5, expected hidden_size = 4"],
    ),
    "batch first": (
        checked(lambda: lstm(input_tensor=tensor(2, 5, 3))),
        ["1, steps, batch, input size", "2 samples of 5 steps are sizes [1, 5, 2, 3], strides [30, 3, 15, 1]", "2 steps of 5 samples are"],
    ),
    "a sample without a batch": (checked(lambda: lstm(input_tensor=tensor(1, 5, 3))), ["5 steps of one sample are sizes [1, 5, 1, 3]"]),
    "weights as PyTorch has them": (lambda: eager.gemm(ones(2, 3), ones(5, 3)), ["b_tensor.sizes[0] is 5", "trans_b TRANSPOSE fits"]),
    "the left side transposed": (lambda: eager.gemm(ones(3, 2), ones(3, 5)), ["trans_a TRANSPOSE fits"]),
    "factors that never fit": (lambda: eager.gemm(ones(3, 2), ones(4, 5)), ["1 problem\n", "b_tensor.sizes[0] is 4, expected k = 2"]),
    "expressions that do not fit": (lambda: x.input("a", [2, 3]) @ x.input("b", [4, 5]), ["sizes that [2, 3] can be multiplied by"]),
    # attributes
    "more than there are": (
        lambda: eager.top_k1(ones(2, 8), axis=1, k=9),
        ["1 problem\n", "k is 9, expected at most sizes[1] = 8", "axis is 1"],
    ),
    "the same as a desc": (lambda: dml.TopK1Desc(input_tensor=tensor(2, 8), axis=1, k=9).with_outputs(), ["k is 9, expected at most"]),
    "a filter larger than the image": (lambda: convolution((1, 3, 2, 2)), ["filter_tensor.sizes[2] is 3, expected at most 2"]),
    "one stride": (lambda: convolution(strides=2), ["strides is 2, expected a sequence of integers", "like [2, 2]"]),
    "the level of a file": (lambda: dml.lowest_level("model.onnx"), ["expected an operator's desc", "dmlpy.onnx.load(path)"]),
    "one type for all": (lambda: GEMM.desc.with_outputs(data_types="FLOAT16"), ["data_types is 'FLOAT16'", "{'output_tensor': ...}"]),
    "a count of dimensions": (lambda: dml.TensorDesc.of(ones(3), dimension_count="4"), ["dimension_count is '4', expected an integer"]),
    "a dump by its number": (lambda: dml.load_serialized(3), ["source is 3, expected a path or bytes"]),
    "activations of Keras": (lambda: Dense(3, activation=["relu"]), ["is ['relu'], expected an activation desc of one tensor"]),
    "sizes in C++'s braces": (
        lambda: dml.TensorDesc(data_type="FLOAT32", sizes={1, 3, 2}),
        ["{1, 2, 3}", "remedy: write it in brackets"],
    ),
    "activations in C++'s braces": (lambda: lstm(activation_descs={dml.ActivationTanhDesc()}), ["expected a sequence of activation descs"]),
    "axes in C++'s braces": (
        lambda: eager.reduce(ones(2, 3), function="SUM", axes={1, 0}),
        ["axes is {0, 1}", "remedy: write it in brackets"],
    ),
    "one axis": (lambda: eager.reduce(ones(2, 3), function="SUM", axes=1), ["remedy: write [1]"]),
    "largest": (lambda: eager.top_k1(ones(2, 8), axis=1, k=1, axis_direction="LARGEST"), ["did you mean DECREASING?"]),
    "mean": (lambda: eager.reduce(ones(2, 3), function="mean", axes=[1]), ["did you mean AVERAGE?"]),
    "bilinear": (lambda: eager.resample(ones(1, 1, 2, 2), interpolation_mode="bilinear", scales=[1, 1, 2, 2]), ["did you mean LINEAR?"]),
    "T": (lambda: eager.gemm(ones(2, 3), ones(5, 3), trans_b="T"), ["did you mean TRANSPOSE?"]),
    "a size as a list": (
        lambda: eager.upsample_2d(ones(1, 1, 2, 2), scale_size=[2, 2], interpolation_mode="LINEAR"),
        ["dmlpy.Size2D(width=2, height=2)"],
    ),
    "a size whose order is unknown": (
        lambda: eager.upsample_2d(ones(1, 1, 2, 2), scale_size=[2, 3], interpolation_mode="LINEAR"),
        ["dmlpy.Size2D(width=..., height=...)"],
    ),
    "a named activation": (lambda: lstm(activation_descs=["tanh"]), ["write ActivationTanhDesc()"]),
    "an activation's class": (lambda: lstm(activation_descs=[dml.ActivationTanhDesc]), ["call the class, ActivationTanhDesc()"]),
    "a cast without a type": (lambda: dml.CastDesc(input_tensor=tensor(2)), ["pass its desc: TensorDesc(data_type=..., sizes=...)"]),
    "an assignment": (assign, ["descs are immutable", "desc.replace(input_tensor=None)"]),
    # types
    "ONNX's FLOAT": (lambda: dml.TensorDesc(data_type="FLOAT", sizes=[1]), ["did you mean FLOAT32?"]),
    "double": (lambda: dml.TensorDesc(data_type="double", sizes=[1]), ["did you mean FLOAT64?"]),
    "PyTorch's type": (lambda: dml.TensorDesc(data_type=FLOAT_OF_PYTORCH, sizes=[1]), ["did you mean FLOAT32?"]),
    "half": (lambda: dml.TensorDesc(data_type="half", sizes=[1]), ["did you mean FLOAT16?"]),
    # choices
    "True for a transpose": (lambda: eager.gemm(ones(2, 3), ones(2, 4), trans_a=True), ["remedy: write 'TRANSPOSE'"]),
    "False for no flags": (lambda: dml.TensorDesc(data_type="FLOAT32", sizes=[1], flags=False), ["remedy: write 'NONE'"]),
    "a choice left out": (
        lambda: eager.lstm(ones(1, 5, 2, 3), ones(1, 1, 16, 3), ones(1, 1, 16, 4), activation_descs=GATED),
        ["direction is missing, expected one of FORWARD, BACKWARD, BIDIRECTIONAL: the member is required"],
    ),
    "a named fused function": (lambda: eager.gemm(ones(2, 3), ones(3, 4), fused_activation="relu"), [": write ActivationReluDesc()  ["]),
    # arrays
    "a list in a call": (lambda: GEMM(a_tensor=[[1.0]], b_tensor=B), ["remedy: make it an array: numpy.asarray(..., numpy.float32)"]),
    "a table in a call": (lambda: GEMM(a_tensor=TABLE, b_tensor=B), ["make it an array: numpy.asarray(..., numpy.float32)"]),
    "a table described": (lambda: eager.activation_relu(TABLE), ["remedy: make it an array: numpy.asarray(..., numpy.float32)"]),
    "a list described": (lambda: dml.TensorDesc.of([1.0]), ["remedy: make it an array: numpy.asarray(..., numpy.float32)"]),
    "bytes in another order": (lambda: eager.activation_relu(np.ones(3, ">f4")), ["remedy: swap its bytes: array.astype(array.dtype"]),
    # the cause, and not that sizes cannot be inferred
    "an axis from behind": (
        lambda: eager.reduce(ones(2, 3), function="SUM", axes=[-1]),
        ["1 problem\n", "axes[0] is -1, expected a dimension, 0 to 1", "remedy: 1 counts from the front"],
    ),
    "no steps": (
        lambda: eager.convolution(ones(1, 1, 8, 8), ones(1, 1, 3, 3), strides=[0, 1]),
        ["1 problem\n", "strides[0] is 0, expected at least 1"],
    ),
    "sizes that are free": (
        lambda: eager.resample(ones(1, 1, 4, 4), scales=[1, 1, 2, 2], interpolation_mode="LINEAR"),
        ["remedy: pass its sizes: output_sizes=[...]"],
    ),
    "parts of unknown sizes": (
        lambda: eager.split(A, axis=1),
        ["remedy: pass the sizes of the parts along the axis: output_axis_sizes=[...]"],
    ),
    "no operand": (lambda: eager.activation_relu(None), ["1 problem\n", "input_tensor is missing, expected a tensor"]),
    # bind
    "tensors as keywords of bind": (
        lambda: GEMM.bind(a_tensor=A, b_tensor=B, output_tensor=ones(2, 4)),
        [
            "DML_GEMM_OPERATOR_DESC.bind: 1 problem\n",
            "call is bind(a_tensor=..., b_tensor=..., output_tensor=...), expected bind(inputs, outputs, temporary, persistent)",
            'remedy: bind({"a_tensor": ..., "b_tensor": ...}, {"output_tensor": ...})',
        ],
    ),
    "inputs without outputs": (lambda: GRAPH.bind({"x": A}), ["call is bind(inputs), ", 'remedy: bind({"x": ...}, {"output": ...})']),
    "one argument too many": (lambda: GEMM.bind([A, B, None], [ones(2, 4)], None, None, 3), ["persistent, one more), expected bind("]),
    "bind of packed constants": (
        lambda: OWNING.prepare(b_tensor=B).bind(a_tensor=A),
        ["expected bind(inputs, outputs, temporary)  [", 'remedy: bind({"a_tensor": ...}, {"output_tensor": ...})'],
    ),
    "bind of a prepared graph": (lambda: GRAPH.prepare().bind(x=A), ['remedy: bind({"x": ...}, {"output": ...})']),
    "an array for all inputs": (lambda: GEMM.bind(A, [ones(2, 4)]), ["1 problem\n", "inputs is an array of float32 [2, 3]"]),
    "an array for a graph's inputs": (lambda: GRAPH.bind(A, [A]), ["1 problem\n", "inputs is an array of float32 [2, 3]"]),
    "the function's name of an operand": (lambda: GEMM(a=A, b_tensor=B), ["remedy: did you mean a_tensor?"]),
    "constants that are none": (lambda: GEMM.prepare(b=B), ["expected nothing: it has no constant inputs"]),
    "an input that is no constant": (
        lambda: GEMM.prepare(b_tensor=B),
        ["1 problem\n", "b_tensor is an input", "or compile a desc whose tensor has the flag OWNED_BY_DML, which makes it constant"],
    ),
    "too many arrays of a list": (
        lambda: JOINED(input_tensors=[A, A, A]),
        ["1 problem\n", "input_tensors has 3 arrays, expected 2, one for each"],
    ),
    "one array of a list": (
        lambda: JOINED(input_tensors=A),
        ["1 problem\n", "input_tensors is of type ndarray, expected a list of 2", "remedy: input_tensors=[...]"],
    ),
    "no outputs of a list": (lambda: JOINED.bind([A, A], []), ["outputs is an empty list, expected 1,"]),
    "a buffer without a byte": (
        lambda: BYTE(input_tensor=dml.Buffer(64, 0)),
        ["a buffer of 0 bytes, expected at least 1 byte  [", "spans 1 byte\n"],
    ),
    "an array for the definition": (lambda: dml.reference(GEMM.desc, A), ["1 problem\n", "inputs is an array of float32 [2, 3]"]),
    # what is compiled
    "a builder to compile": (lambda: compiled(dml.GraphBuilder()), ["remedy: build it: builder.build()"]),
    "an operator to compile": (lambda: compiled(GEMM), ["remedy: it is compiled; its desc is op.desc"]),
    "a compiled graph to compile": (lambda: compiled(GRAPH), ["remedy: it is compiled; its graph is compiled.graph"]),
    "an expression to compile": (lambda: compiled(x.input("x", [2])), ["remedy: make a graph of it: expression.graph()"]),
    "a model to compile": (lambda: compiled(Sequential(device="numpy")), ["remedy: make a graph of it: model.to_graph()"]),
    "a file of ONNX to compile": (lambda: compiled("model.onnx"), ["remedy: read it first: dmlpy.onnx.load(path).compile(device)"]),
    "a path of ONNX to compile": (lambda: compiled(Path("model.onnx")), ["remedy: read it first: dmlpy.onnx.load(path).compile(device)"]),
    "a path of bytes to compile": (lambda: compiled(PATH_OF_BYTES), ["1 problem\n", "expected an operator's desc"]),
    "a file of JSON to check": (lambda: dml.check("desc.json"), ["remedy: read the file's text with OperatorDesc.from_json"]),
    "text of JSON to check": (lambda: dml.check('{"Type": 1}'), ["remedy: read it with OperatorDesc.from_json, or Graph"]),
    # comparisons
    "one device to compare": (
        lambda: dml.compare(GRAPH.graph, {"x": A}, "cpu"),
        ["devices has 1 device, expected two", 'remedy: name two, such as devices=["cpu", "reference"]'],
    ),
    "a compiled graph to compare": (
        lambda: dml.compare(GRAPH, {"x": A}, ["cpu", "numpy"]),
        ["remedy: pass the graph that was compiled: compiled.graph"],
    ),
    "flags that are none": (lambda: dml.compare(GRAPH.graph, {"x": A}, ["cpu", "numpy"], flags="HALF"), ["flags is 'HALF', expected one"]),
    # operators by other names
    "no operator at all": (lambda: dml.explain(dml.Graph), ["expected an operator's name, its desc, or its class"]),
    "RELU": (lambda: dml.OperatorDesc.from_dict({"Type": "DML_OPERATOR_RELU"}), ["did you mean DML_OPERATOR_ACTIVATION_RELU?"]),
    "concat": (lambda: explain("concat"), ["did you mean JOIN?"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_its_place_and_its_remedy(name: str) -> None:
    run, told = WRONG[name]
    with pytest.raises(dml.DmlError) as caught:
        run()
    for text in told:
        assert text in f"{caught.value}\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OWNING.prepare(B), "op.prepare(b_tensor=...); 1 value without a name"),
        (lambda: GEMM.bind([A, B, None], [ones(2, 4)]).rebind(A), "dispatch.rebind(a_tensor=..., b_tensor=..., output_tensor=...); "),
        (lambda: JOIN(A, A, axis=0), "pass it a list: join([a, b], ...)"),
        (lambda: eager.reduce(A, "SUM"), "attributes are given by name, function=..., axes=..."),
    ],
    ids=["prepare", "rebind", "operands of a list", "an attribute"],
)
def test_values_without_a_name_are_told_their_names(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


def test_an_error_within_bind_is_not_taken_for_a_wrong_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise TypeError("of another kind")

    monkeypatch.setattr(type(GEMM), "_bind", broken)
    with pytest.raises(TypeError, match="of another kind"):
        GEMM.bind([A, B, None], [ones(2, 4)])


def test_a_desc_and_its_class_are_explained_as_its_name_is() -> None:
    named = dml.explain("GEMM")
    assert dml.explain(dml.GEMMDesc) == named == dml.explain(GEMM.desc)
    lines = str(named).splitlines()
    assert lines[0] == "The product of two matrices, for each entry of a batch."
    assert any(line.split()[:3] == ["a_tensor", "ATensor", "input"] for line in lines)


def test_a_tensor_that_cannot_be_prints_no_bytes() -> None:
    assert str(dml.TensorDesc(data_type="FLOAT32", sizes=[1, -1, 3])) == "FLOAT32 [1, -1, 3] (invalid)"


@pytest.mark.parametrize("call", [dml.check, dml.compile, dml.reference], ids=lambda call: call.__name__)
def test_a_class_without_its_members_is_told_to_be_given_them(call: Callable[[Any], Any]) -> None:
    with pytest.raises(dml.DescError, match=re.escape("remedy: pass its members: GEMMDesc(a_tensor=..., b_tensor=..., ...)")):
        call(dml.GEMMDesc)


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        *(
            ("int", "an int"),
            ("list", "a list"),
            ("ndarray", "an ndarray"),
            ("nan", "a nan"),
            ("LSTM", "an LSTM"),
            ("GRU", "a GRU"),
            ("RNN", "an RNN"),
            ("UINT8", "a UINT8"),
        ),
        *(("object", "an object"), ("user", "a user"), ("Embedding", "an Embedding"), ("Sequential", "a Sequential")),
    ],
)
def test_articles(name: str, spoken: str) -> None:
    assert with_article(name) == spoken


@pytest.mark.parametrize(("noun", "several"), [("part", "parts"), ("entry", "entries"), ("process", "processes")])
def test_plurals(noun: str, several: str) -> None:
    assert (plural(1, noun), plural(2, noun)) == (f"1 {noun}", f"2 {several}")
