"""Graphs as ONNX models: ONNX's reference implementation, or ONNX Runtime where it is installed, gives what dmlpy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import checker
from onnx.reference import ReferenceEvaluator

import dmlpy as dml
from dmlpy import onnx, x
from dmlpy.onnx.exporting import RULES
from tests.support.tolerance import assert_close

RANDOM = np.random.default_rng(0)
POSITIVE = {"ELEMENT_WISE_LOG", "ELEMENT_WISE_POW", "ELEMENT_WISE_SQRT", "ELEMENT_WISE_RECIP", "ELEMENT_WISE_DIVIDE"}


def others(graph: dml.Graph, inputs: dict[str, Any]) -> dict[str, Any]:
    """What another program gives for the exported graph."""
    model = onnx.export(graph)
    checker.check_model(model, full_check=True)
    names = [item.name for item in model.graph.output]
    try:
        import onnxruntime
    except ImportError:
        return dict(zip(names, ReferenceEvaluator(model).run(None, inputs), strict=True))
    model.ir_version = min(model.ir_version, 10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(None, inputs), strict=True))


def agree(graph: dml.Graph, **inputs: Any) -> None:
    """dmlpy and another program give the same."""
    found = others(graph, inputs)
    for name, array in dml.compile(graph, "numpy")(**inputs).as_dict().items():
        assert_close(found[name], array, np.float32, terms=100, what=name)


@pytest.mark.parametrize("name", sorted(name for name in RULES if name.startswith(("ELEMENT_WISE", "ACTIVATION"))))
def test_an_operator_is_said_by_onnx(name: str) -> None:
    function = getattr(x, name.removeprefix("ELEMENT_WISE_").lower())
    data = RANDOM.uniform(0.1, 0.9, (1, 2, 3, 4)).astype(np.float32) - (0 if name in POSITIVE else 0.5)
    other = RANDOM.uniform(0.1, 0.9, (2, 1, 4)).astype(np.float32)
    first, second = x.input("a", data.shape), x.input("b", other.shape)
    if name in {f"ELEMENT_WISE_{pair}" for pair in ("ADD", "DIVIDE", "MAX", "MIN", "MULTIPLY", "POW", "SUBTRACT")}:
        agree(function(first, second).graph(), a=data, b=other)
    elif "SOFTMAX" in name:
        agree(function(first, axes=[2]).graph(), a=data)
    else:
        agree(function(first).graph(), a=data)


def test_a_network_is_said_by_onnx() -> None:
    data, weights = x.input("data", [5, 8]), x.input("weights", [6, 8])
    product = x.gemm(data, weights, trans_b="TRANSPOSE", alpha=0.5)
    joined = x.join([x.activation_relu(product), product], axis=1)
    mean = x.reduce(joined, function="AVERAGE", axes=[1])
    result = x.activation_softmax1((joined - mean) * 0.3, axes=[1])
    arrays = {name: RANDOM.standard_normal(sizes).astype(np.float32) for name, sizes in {"data": (5, 8), "weights": (6, 8)}.items()}
    agree(result.graph(), **arrays)


def test_an_imported_model_goes_back() -> None:
    data = x.input("data", [2, 3])
    model = onnx.export((x.exp(data) + 1).graph())
    array = RANDOM.standard_normal((2, 3)).astype(np.float32)
    (result,) = onnx.load(model).compile("numpy")({"data": array}).values()
    assert_close(result, np.exp(array) + 1, np.float32)


def test_what_onnx_does_not_say_is_named() -> None:
    data = x.input("data", [1, 1, 4, 4])
    with pytest.raises(dml.CompileError, match=r"nodes\[0\] is CUMULATIVE_SUMMATION"):
        onnx.export(x.cumulative_summation(data, axis=3).graph())
    with pytest.raises(dml.CompileError, match="a view that repeats or reshapes"):
        onnx.export(x.exp(data.transpose(0, 1, 3, 2)).graph())
