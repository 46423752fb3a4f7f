"""Graphs exported to ONNX, and what other programs give for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from onnx import ModelProto, checker
from onnx.reference import ReferenceEvaluator

import dmlpy as dml
from dmlpy import onnx
from dmlpy.graphs import Graph, GraphBuilder
from tests.support.tolerance import assert_close

Arrays = dict[str, np.ndarray[Any, Any]]


def name_of(place: str) -> str:
    """The name of the graph's input or output that stands for a tensor: `input_tensors_0` for `input_tensors[0]`."""
    return place.replace("[", "_").replace("]", "")


def graph_of(desc: dml.OperatorDesc) -> Graph:
    """A graph of one operator, whose tensors are inputs and outputs."""
    g, members = GraphBuilder(), {name: getattr(desc, name) for name in desc.attribute_names()}
    for slot in desc.slots():
        if slot.tensor is None:
            continue
        value = slot.tensor if slot.field.marker.output else g.input(name_of(slot.place), slot.tensor)
        if slot.index is None:
            members[slot.field.name] = value
        else:
            members.setdefault(slot.field.name, []).append(value)
    made = g.add(type(desc), **members)
    outputs = [slot.place for slot in desc.output_slots() if slot.tensor is not None]
    for place, value in zip(outputs, made if isinstance(made, tuple) else (made,), strict=True):
        g.output(name_of(place), value)
    return g.build()


def bound_inputs(desc: dml.OperatorDesc, arrays: Mapping[str, Any]) -> Arrays:
    """An operator's inputs by field, by the names of `graph_of`."""
    found: Arrays = {}
    for slot in desc.input_slots():
        if slot.tensor is not None:
            given = arrays[slot.field.name] if slot.index is None else arrays[slot.field.name][slot.index]
            found[name_of(slot.place)] = laid_out(np.asarray(given), slot.tensor)
    return found


def laid_out(array: np.ndarray[Any, Any], tensor: dml.TensorDesc) -> np.ndarray[Any, Any]:
    """An array's elements in a tensor's layout; where that repeats elements, the last ones."""
    held = np.zeros(tensor.span, array.dtype)
    placed = as_strided(held, tensor.sizes, tensor.numpy_strides())
    placed[...] = array
    return placed


def checked(graph: Graph) -> ModelProto:
    """The exported model, after ONNX's checker with the inference of all shapes."""
    model = onnx.export(graph)
    checker.check_model(model, full_check=True)
    return model


def by_reference(model: ModelProto, inputs: Arrays) -> Arrays:
    """What ONNX's reference implementation gives."""
    names = [item.name for item in model.graph.output]
    with np.errstate(all="ignore"):
        return dict(zip(names, ReferenceEvaluator(model).run(None, inputs), strict=True))


def by_onnx_runtime(model: ModelProto, inputs: Arrays) -> Arrays | None:
    """What ONNX Runtime gives on the CPU; None if it has no kernel for a node's types."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its optimizer refuses valid models: int8 that is dequantized and then transposed. As it is written, the model is the oracle, too.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    return dict(zip([item.name for item in model.graph.output], session.run(None, inputs), strict=True))


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any], what: str, *, terms: int = 100) -> None:
    """The same names, sizes, types and numbers."""
    assert set(found) == set(expected)
    for name, array in expected.items():
        own = np.asarray(found[name])
        assert (own.shape, own.dtype) == (array.shape, array.dtype), f"{what}: {name}"
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # of NaNs that signal
                assert_close(own, array, array.dtype, terms=terms, what=f"{what}: {name}")
        else:
            np.testing.assert_array_equal(own, array, err_msg=f"{what}: {name}")
