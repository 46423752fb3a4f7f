"""Every function of `dmlpy.x` makes its operator: the desc that the constructor would make, and the results that it has alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import x
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from dmlpy.x import generation
from dmlpy.x.signatures import function_name, tuple_name
from tests.support.descs.expression_calls import call_of, inputs_of
from tests.support.operators.operator_types import of_all_types
from tests.support.operators.random_inputs import random_inputs
from tests.support.tables import table

KINDS = {kind.short_name(): kind for kind in OPERATORS.values() if not kind.is_extension}


def test_every_operator_has_a_function() -> None:
    assert len(KINDS) == 177
    functions = {function_name(kind) for kind in KINDS.values()}
    assert len(functions) == 177
    assert functions <= {*x.__all__}
    assert {name for name in x.__all__ if inspect.isfunction(getattr(x, name))} - functions == {
        "compile", "constant", "graph", "input", "name_scope", "operator", "tensor_policy",
    }  # fmt: skip


@table("name", KINDS)
def test_a_function_makes_the_desc_of_its_operator(name: str) -> None:
    for desc in of_all_types(KINDS[name]):
        function, operands, others = call_of(desc)
        graph = x.graph(function(*operands, **others))
        assert graph.check() == []
        (node,) = graph.nodes
        assert isinstance(node, dml.OperatorNode)
        assert node.operator == desc


@table("name", KINDS)
def test_a_function_gives_the_results_of_its_operator(name: str) -> None:
    desc = sample(KINDS[name])
    values = random_inputs(np.random.default_rng(11), desc)
    function, operands, others = call_of(desc)
    found = x.compile(function(*operands, **others), "numpy")(**inputs_of(desc, values))
    expected = dml.compile(desc, "numpy")(**values)
    results = [item for value in expected for item in (value if isinstance(value, tuple) else (value,))]
    assert len(found) == len(results)
    for own, wanted in zip(found, results, strict=True):
        np.testing.assert_array_equal(own, wanted, strict=True)


@table("name", KINDS)
def test_a_function_documents_every_argument(name: str) -> None:
    function = getattr(x, function_name(KINDS[name]))
    text = inspect.getdoc(function) or ""
    assert text.startswith(f"{name}: ")
    arguments = text.partition("Args:")[2].partition("Returns:")[0]
    for parameter in inspect.signature(function).parameters.values():
        assert f"\n    {parameter.name}: " in arguments
        assert parameter.annotation is not inspect.Parameter.empty
    assert len(text.partition("Returns:")[2].partition("Raises:")[0].strip()) > 10


def test_several_outputs_are_a_named_tuple() -> None:
    several = [kind for kind in KINDS.values() if generation.is_several(kind)]
    assert len(several) > 15
    for kind in several:
        assert len(getattr(x, tuple_name(kind))._fields) == len(kind.outputs())
    assert x.GRUOutputs._fields == ("sequence", "single")
    assert x.MaxPooling2Outputs._fields == ("values", "indices")
    assert x.TopK1Outputs._fields == ("value", "index")


def test_the_generated_modules_are_those_of_the_families() -> None:
    folder = Path(str(x.__file__)).with_name("functions")
    assert {path.stem for path in folder.glob("*.py")} == {"__init__", *generation.modules()}


# Members that a call leaves out.

IMAGE = (1, 2, 9, 8)


def made(expression: Any) -> Any:
    """The desc of an expression's node."""
    (node,) = expression.graph().nodes
    return node.operator


def image(*sizes: int) -> Any:
    return x.input("image", sizes or IMAGE)


def test_a_convolution_has_directmlx_defaults() -> None:
    desc = made(x.convolution(image(), x.input("filters", [4, 2, 3, 3])))
    assert (desc.strides, desc.dilations, desc.start_padding, desc.end_padding, desc.output_padding) == ((1, 1), (1, 1), *[(0, 0)] * 3)
    assert (desc.mode.name, desc.direction.name, desc.group_count, desc.output_tensor.sizes) == (
        "CROSS_CORRELATION", "FORWARD", 1, (1, 4, 7, 6),
    )  # fmt: skip
    backward = x.convolution(image(), x.input("filters", [2, 4, 3, 3]), direction="BACKWARD", strides=[2, 2], output_sizes=[1, 4, 20, 18])
    assert made(backward).output_tensor.sizes == (1, 4, 20, 18)


DEFAULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "pooling": (
        lambda: x.max_pooling2(image(), window_size=[2, 2]).values,
        {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)},
    ),
    "volumes": (lambda: x.lp_pooling1(image(1, 2, 5, 6, 7), window_size=[2, 2, 2], p=2), {"dilations": (1, 1, 1)}),
    "reduction": (lambda: x.reduce(image(), function="SUM"), {"axes": (0, 1, 2, 3)}),
    "slices": (
        lambda: x.slice1(image(), input_window_offsets=[0, 1, 0, 0], input_window_sizes=[1, 1, 4, 4]),
        {"input_window_strides": (1, 1, 1, 1)},
    ),
    "clipping of integers": (
        lambda: x.clip1(x.input("image", IMAGE, "INT32"), min=0, max=5),
        {"min_max_data_type": dml.DataType.INT32},
    ),
    "resampling": (
        lambda: x.resample1(image(), interpolation_mode="LINEAR", output_sizes=[1, 2, 18, 4]),
        {"scales": (1, 1, 2, 0.5), "input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4},
    ),
    "the gradient of resampling": (
        lambda: x.resample_grad(image(), interpolation_mode="LINEAR", output_sizes=[1, 2, 3, 4]),
        {"scales": (1, 1, 3, 2)},
    ),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_members_that_are_left_out_have_defaults(name: str) -> None:
    call, expected = DEFAULTS[name]
    desc = made(call())
    assert {member: getattr(desc, member) for member in expected} == expected


TYPES: dict[str, tuple[Any, str]] = {
    "comparisons": (lambda: x.logical_equals(image(), image()), "UINT8"),
    "comparisons, told": (lambda: x.logical_equals(image(), image(), output_data_type="UINT32"), "UINT32"),
    "counts of bits": (lambda: x.bit_count(x.input("image", IMAGE, "UINT32")), "UINT8"),
    "indices": (lambda: x.argmax(image(), axes=[1]), "UINT32"),
    "indices, told": (lambda: x.argmax(image(), axes=[1], output_data_type="INT64"), "INT64"),
    "indices of a reduction": (lambda: x.reduce(image(), function="ARGMAX", output_data_type="INT32"), "INT32"),
    "a cast": (lambda: x.cast(image(), output_data_type=np.float16), "FLOAT16"),
    "quantization by the zero point": (
        lambda: x.quantize_linear(image(), np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.int8)),
        "INT8",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_outputs_follow_or_are_given(name: str) -> None:
    call, expected = TYPES[name]
    assert call().data_type.name == expected


def test_outputs_that_nobody_reads_are_left_null_or_become_outputs() -> None:
    pooled = x.max_pooling2(image(), window_size=[2, 2])
    assert made(pooled.values).output_indices_tensor is None
    assert list(x.graph(pooled).output_names) == ["values", "indices"]
    graph = x.top_k1(image(), axis=3, k=2).index.graph()
    assert graph.output_names == ("output", "top_k1.output_value_tensor")
    assert graph.check() == []


def test_operators_that_directml_lacks_are_made_by_their_class() -> None:
    desc = sample(OPERATORS["DMLPY_OPERATOR_GRU_BLOCK_CELL"])
    values = random_inputs(np.random.default_rng(1), desc)
    bare = desc.replace(**{field.name: None for field in desc.outputs() if not type(desc).model_fields[field.name].is_required()})
    operands = {field.name: x.input(field.name, getattr(desc, field.name)) for field in desc.inputs()}
    for form in (type(desc), bare):
        attributes = {} if form is bare else {name: getattr(desc, name) for name in desc.attribute_names()}
        outputs = x.operator(form, **operands, **attributes)
        found = x.compile(outputs, "numpy")(**values)
        for own, wanted in zip(found, dml.compile(desc.with_outputs(), "numpy")(**values), strict=True):
            np.testing.assert_array_equal(own, wanted)


def test_a_whole_desc_retains_its_outputs_and_requires_all_its_inputs() -> None:
    nhwc = dml.TensorDesc(data_type="FLOAT32", sizes=IMAGE, strides=[144, 1, 16, 2])
    plain = nhwc.replace(strides=None)
    desc = dml.ElementWiseAddDesc(a_tensor=plain, b_tensor=plain, output_tensor=nhwc)
    (total,) = x.operator(desc, a_tensor=image(), b_tensor=image())
    assert total.tensor == nhwc
    with pytest.raises(dml.DescError, match="b_tensor is described, but not given"):
        x.operator(desc, a_tensor=image())


def test_a_constant_is_the_array_as_it_was() -> None:
    array = np.ones(3, np.float32)
    y = x.input("a", [3]) * array
    array[...] = 7
    np.testing.assert_array_equal(y.compile("numpy")(a=np.arange(3, dtype=np.float32)).output, np.arange(3))


WRONG_NAMES: dict[str, tuple[Callable[[Any], Any], str, str | None]] = {
    "alphas": (lambda a: x.gemm(a, a, alphas=2), "gemm", "alpha"),
    "TransA": (lambda a: x.gemm(a, a, TransA=True), "gemm", "trans_a"),
    "a_tensor": (lambda a: x.gemm(a_tensor=a, b=a), "gemm", "a"),
    "input_tensors": (lambda a: x.join(input_tensors=[a], axis=0), "join", "inputs"),
    "axis": (lambda a: x.activation_softmax1(a, axis=1), "activation_softmax1", "axes"),
    "self": (lambda a: x.activation_relu(a, **{"self": 1}), "activation_relu", None),
    "padding": (lambda a: x.convolution(a, a, padding=[1]), "convolution", "start_padding and end_padding"),
    "dtype": (lambda a: x.input("b", [2], dtype="FLOAT16"), "input", "data_type"),
    "devise": (lambda a: x.compile(a, devise="numpy"), "compile", "device"),
}
"""Arguments that functions do not have, with the function and the argument that is meant."""


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_an_argument_that_a_function_lacks_is_answered_with_the_one_that_is_meant(name: str) -> None:
    call, function, meant = WRONG_NAMES[name]
    with pytest.raises(dml.DescError) as caught:
        call(x.input("a", [2, 2]))
    (problem,) = caught.value.problems
    remedy = meant and f"did you mean {meant}?"
    assert (problem.code, problem.path, problem.remedy) == ("field.unknown", name, remedy)
    assert re.match(rf"{function} at .*test_functions\.py:\d+: 1 problem", str(caught.value))
