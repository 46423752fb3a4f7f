"""A name that `dmlpy` does not have is answered with the one that is meant, however it is spelled and whichever library it comes from."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import directml, onnx, x
from dmlpy.inspection.explain import explain
from dmlpy.inspection.samples import sample
from dmlpy.keras import Sequential
from dmlpy.messages.foreign_members import HINTS
from dmlpy.unknown_names import unknown_attribute
from tests.support.tools import missing, require

MISSING = {"onnx": "onnx", "dask": r"dask\S*", "torch": "torch", "thinc": r"(thinc\S*|catalogue)"}

ATTRIBUTES = {
    "ReluDesc": "did you mean dmlpy.ActivationReluDesc?",
    "GemmDesc": "did you mean dmlpy.GEMMDesc?",
    "LstmDesc": "did you mean dmlpy.LSTMDesc?",
    "LSTM": "did you mean dmlpy.LSTMDesc?",
    "AddDesc": "did you mean dmlpy.ElementWiseAddDesc?",
    "ConvDesc": "did you mean dmlpy.ConvolutionDesc? it has 1 to 3 dimensions, forward or transposed",
    "ScatterElementsDesc": "did you mean dmlpy.ScatterDesc? it writes entries by index",
    "tensordesc": "did you mean dmlpy.TensorDesc?",
    "compil": "did you mean dmlpy.compile?",
    "gemm": "did you mean dmlpy.eager.gemm, which runs it, or dmlpy.GEMMDesc?",
    "matmul": "did you mean dmlpy.eager.gemm, which runs it, or dmlpy.GEMMDesc? it is the matrix product",
    "DML_LSTM_OPERATOR_DESC": "did you mean dmlpy.LSTMDesc, or dmlpy.directml.DML_LSTM_OPERATOR_DESC?",
    "DML_TENSOR_FLAG_OWNED_BY_DML": "did you mean dmlpy.directml.DML_TENSOR_FLAG_OWNED_BY_DML?",
}

OPERATORS = {
    "concat": "JOIN",
    "batchnorm": "BATCH_NORMALIZATION",
    "Conv": "CONVOLUTION",
    "conv2d": "CONVOLUTION",
    "DML_OPERATOR_SCATTER_ELEMENTS": "SCATTER",
    "matmul": "GEMM",
    "layernorm": "MEAN_VARIANCE_NORMALIZATION1",
    "dense": "GEMM",
    "sum": "REDUCE",
    "DML_OPERATOR_RELU": "ACTIVATION_RELU",
    "RELUU": "ACTIVATION_RELU",
    "tanh": "ACTIVATION_TANH or ELEMENT_WISE_TANH",
    "resize": "RESAMPLE2",
}


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("dmlpy.nn", "LSTM", ": did you mean dmlpy.nn.lstm?"),
        ("dmlpy.nn", "Linear", ": dir(dmlpy.nn) lists its names"),
        ("dmlpy.nn", "layers", ""),
        ("dmlpy.pydirectml", "activation_softmax", ": did you mean dmlpy.pydirectml.activation_soft_max?"),
        ("dmlpy.pydirectml", "_private", ""),
        ("dmlpy.thinc", "Lstm", ": did you mean dmlpy.thinc.LSTM?"),
        ("dmlpy.torch", "LSTMM", ": did you mean dmlpy.torch.LSTM?"),
    ],
)
def test_an_unknown_attribute_of_a_module(module: str, name: str, message: str) -> None:
    if module in ("dmlpy.thinc", "dmlpy.torch"):
        require(module.removeprefix("dmlpy."))
    with pytest.raises(AttributeError, match=re.escape(f"module {module!r} has no attribute {name!r}{message}") + "$"):
        import_module(module).__getattr__(name)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_unknown_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"^dmlpy has no name '{name}': {re.escape(ATTRIBUTES[name])}$"):
        getattr(dml, name)


@pytest.mark.parametrize("name", ["__wrapped__", "_private", "qqqqqq", "qqqqqq.qqqqqq"])
def test_a_name_like_no_other_gets_no_hint(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dml, name)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_by_the_names_of_other_libraries(name: str) -> None:
    with pytest.raises(dml.DescError, match=rf"remedy: did you mean {OPERATORS[name]}\?"):
        explain(name)


def test_a_module_that_is_not_imported() -> None:
    assert unknown_attribute("comparison", dml.__all__) == "dmlpy.comparison is a module that is not imported: import dmlpy.comparison"


@pytest.mark.parametrize(
    ("name", "message"), [("reshape", "other sizes"), ("transpose", "strides in another order"), ("expand", "stride of 0")]
)
def test_views_are_no_operators(name: str, message: str) -> None:
    with pytest.raises(dml.DescError, match=rf"remedy: it needs no operator: .*{message}"):
        explain(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("DML_TENSOR_DATA_TYPE_FLOAT31", ": did you mean dmlpy.directml.DML_TENSOR_DATA_TYPE_FLOAT32?"),
        ("DMLCreateDevice", ": dmlpy.device(name) returns a device, and dmlpy.compile takes it or its name"),
        ("IDMLDevice1", ": the page From DirectML has the counterparts"),
        ("DML_BINDING_TABLE_DESC", ": the page From DirectML has the counterparts"),
        ("DML_CREATE_DEVICE_FLAG_DEBUG", ": the page From DirectML has the counterparts"),
        ("DML_RELU_OPERATOR_DESC", ": did you mean dmlpy.directml.DML_ACTIVATION_RELU_OPERATOR_DESC?"),
        ("DML_OPERATOR_ADD", ": did you mean dmlpy.directml.DML_OPERATOR_ELEMENT_WISE_ADD?"),
        ("DML_OPERATOR_LAYER_NORM", ": did you mean dmlpy.directml.DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1? its axes"),
        ("DML_GEM_OPERATOR_DESC", ": did you mean dmlpy.directml.DML_GEMM_OPERATOR_DESC?"),
    ],
)
def test_names_of_the_header(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"dmlpy.directml has no name {name!r}{hint}")):
        getattr(directml, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Reinterpret", r"expression\.reshape\(\.\.\.\) has other sizes"),
        ("reinterpret", r"expression\.reshape\(\.\.\.\) has other sizes"),
        ("FusedActivation", "pass fused_activation="),
        ("ConvolutionBuilder", r"did you mean x\.convolution\?"),
        ("TensorDesc", r"did you mean dmlpy\.TensorDesc\?"),
        ("Size2D", r"did you mean dmlpy\.Size2D\?"),
        ("Convolution", r"did you mean x\.convolution\?$"),
        ("lstm_training", r"did you mean x\.operator\(dmlpy\.LSTMTrainingDesc, \.\.\.\)\?$"),
    ],
)
def test_names_of_directmlx(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"^dmlpy\.x has no function '{name}': {hint}"):
        getattr(x, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("InferenceSession", "dmlpy.onnx.load(path).compile(device) in its place"),
        ("loads", "did you mean dmlpy.onnx.load?"),
        ("optimizer3", "expected one of "),
    ],
)
def test_names_of_onnx(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"dmlpy.onnx has no name {name!r}: {hint}")):
        getattr(onnx, name)


TENSOR = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
RELU = dml.ActivationReluDesc(input_tensor=TENSOR, output_tensor=TENSOR)


def instances() -> dict[str, object]:
    """An object of each class that answers for names of others, and what hints call it."""
    arrays = [np.zeros((2, 3), np.float32)], [np.zeros((2, 3), np.float32)]
    builder = dml.GraphBuilder()
    builder.output("y", builder.add(RELU, input_tensor=builder.input("x", TENSOR)))
    op, graph = dml.compile(RELU, "numpy"), dml.compile(builder.build(), "numpy")
    error = dml.DescError("a desc")
    expression, network = x.input("x", [2, 3]), Sequential(device="numpy")
    found: list[object] = [op.device, op, op.prepare(), op.bind(*arrays), graph, graph.prepare(), graph.bind(*arrays), builder, error]
    by_class = {kind.__name__: own for own in (*found, expression, network) for kind in type(own).__mro__ if kind.__name__ in HINTS}
    if missing("onnx") is None:
        model = onnx.load(onnx.export(x.activation_relu(expression).graph()).SerializeToString())
        by_class |= {"Model": model, "CompiledModel": model.compile("numpy")}
    return by_class


@pytest.mark.parametrize("kind", HINTS)
def test_members_of_other_libraries_are_answered_with_what_there_is(kind: str) -> None:
    if kind in ("Model", "CompiledModel"):
        require("onnx")
    own = instances()[kind]
    for name, hint in HINTS[kind].items():
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': {re.escape(hint)}$") as caught:
            getattr(own, name)
        assert caught.value.name == name
        assert caught.value.obj is own
        assert not hasattr(own, name)
        assert name not in dir(own)
        for subject, member in re.findall(r"(dmlpy(?:\.onnx|\.x|\.CompiledOperator)?|\w+)\.([a-z_A-Z]\w*)", hint):
            owner = {"dmlpy": dml, "dmlpy.onnx": onnx, "dmlpy.x": x, "dmlpy.CompiledOperator": dml.CompiledOperator}.get(subject)
            if owner is None and subject in ("device", "op", "prepared", "dispatch", "compiled", "builder", "expression", "model", "error"):
                owner = own
            if owner is not None and (owner is not onnx or missing("onnx") is None):
                assert hasattr(owner, member), hint


@pytest.mark.parametrize(
    ("own", "name", "hint"),
    [
        (RELU, "run", "compile it first: dmlpy.compile(..., device)"),
        (x.activation_relu(x.input("x", [2])).graph(), "execute", "compile it first: dmlpy.compile(..., device)"),
        (TENSOR, "ndim", "len(tensor.sizes)"),
        (TENSOR, "run", "it has [data_type, sizes"),
        (sample(dml.GRUDesc), "gradient", "describe the operator by GRUTrainingDesc, which has it"),
        (sample(dml.ConvolutionDesc), "gradient", "it has [input_tensor, "),
        (sample(dml.GRUBlockCellDesc), "gradient", "GRUBlockCellGradDesc describes it"),
    ],
)
def test_members_that_structs_lack(own: object, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute {name!r}: {hint}")):
        getattr(own, name)


def test_an_output_that_is_not_described() -> None:
    op = dml.compile(dml.TopKDesc(input_tensor=TENSOR, axis=1, k=2).with_outputs(), "numpy")
    found = op(input_tensor=np.zeros((2, 3), np.float32))
    for read in (lambda: found.output_indexes, lambda: found["output_indexes"]):
        with pytest.raises(
            (AttributeError, KeyError), match=r"output_value_tensor, output_index_tensor; did you mean output_index_tensor\?"
        ):
            read()


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    code = """import sys
for package, use in ("onnx", "from dmlpy import onnx; onnx.load"), *((name, f"import dmlpy.{name}") for name in ("dask", "torch", "thinc")):
    sys.modules[package] = None
    try:
        exec(use)
    except ModuleNotFoundError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = [rf"dmlpy\.{name} needs the package {package}: pip install 'dmlpy\[{name}\]'" for name, package in MISSING.items()]
    assert re.fullmatch("\n".join(told), found.stdout.strip())
