"""Scales, zero points and biases of convolutions that never change are combined once, as the filters are packed."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
from dmlpy.graphs import GraphBuilder
from tests.support.cpu.byte_convolutions import convolution_of
from tests.support.operators.layout_runs import Array
from tests.support.tensors import tensor

NAMES = ("a window", "groups", "depthwise", "small planes")
PACKED = "with scales, zero points and bias"


def graph_of(name: str, bound: Collection[str] = (), *, looks_up: bool = False) -> tuple[dml.Graph, dict[str, Array]]:
    """A convolution whose tensors are all owned but its input and `bound`, and perhaps a function of its results."""
    desc, given = convolution_of(name, ("int8", "int8"), np.random.default_rng(3), output="uint8")
    builder, owned = GraphBuilder("net"), {"flags": "OWNED_BY_DML"}
    inputs: dict[str, Any] = {
        place: builder.input(place, array_desc if place in ("input_tensor", *bound) else array_desc.replace(**owned))
        for place, array_desc in desc.tensors().items()
        if place != "output_tensor"
    }
    attributes = {field: getattr(desc, field) for field in type(desc).attribute_names()}
    y = builder.add(type(desc), **inputs, **attributes, output_tensor=desc.tensors()["output_tensor"])
    if looks_up:
        sizes = y.tensor.sizes
        given |= {"scale": np.float32(0.05).reshape(1, 1, 1, 1), "zero": np.array(90, np.uint8).reshape(1, 1, 1, 1)}
        constants = {
            f"{place}_tensor": builder.input(key, tensor(*sizes, data_type=dtype, strides=[0] * 4, **owned))
            for place, key, dtype in (("scale", "scale", "FLOAT32"), ("zero_point", "zero", "UINT8"))
        }
        number = builder.add(dml.ElementWiseDequantizeLinearDesc, input_tensor=y, **constants, output_tensor=tensor(*sizes))
        number = builder.add(dml.ActivationHardSwishDesc, input_tensor=number, output_tensor=tensor(*sizes))
        output = tensor(*sizes, data_type="UINT8")
        y = builder.add(dml.ElementWiseQuantizeLinearDesc, input_tensor=number, **constants, output_tensor=output)
        given |= {key: np.broadcast_to(given[key], sizes) for key in ("scale", "zero")}
    builder.output("y", y)
    return builder.build(), given


def results_of(compiled: dml.CompiledGraph, given: dict[str, Array]) -> tuple[Array, Array]:
    """Those of a prepared graph, and of one that a pickle of it holds: its memory lies elsewhere."""
    prepared = compiled.prepare(**{name: given[name] for name in compiled.prepared_inputs})
    bound = {name: array for name, array in given.items() if name not in compiled.prepared_inputs}
    again = pickle.loads(pickle.dumps(prepared))
    return prepared(**bound).y, again(**bound).y


@pytest.mark.parametrize("looks_up", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_terms_are_packed(name: str, looks_up: bool) -> None:
    graph, given = graph_of(name, looks_up=looks_up)
    compiled, apart = dml.compile(graph, "cpu"), dml.compile(graph, "numpy")
    assert PACKED in compiled.plan
    assert [type(step.operator._plan) for step in compiled._program.steps][:1] == [ByteConvolutionPlan]
    wanted = apart(**given).y
    for found in (*results_of(compiled, given), compiled(**given).y):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bound", ["input_scale_tensor", "input_zero_point_tensor", "bias_tensor", "filter_tensor"])
def test_terms_of_what_changes_are_computed_in_each_dispatch(bound: str) -> None:
    graph, given = graph_of("a window", [bound])
    compiled = dml.compile(graph, "cpu")
    assert PACKED not in compiled.plan
    np.testing.assert_array_equal(compiled(**given).y, dml.compile(graph, "numpy")(**given).y)


def test_an_operator_by_itself_prepares_its_filters_alone() -> None:
    desc, _ = convolution_of("a window", ("int8", "int8"), np.random.default_rng(3), output="uint8")
    assert dml.compile(desc, "cpu").prepared_inputs == ("filter_tensor",)
