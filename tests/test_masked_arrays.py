"""NumPy's masked arrays are refused wherever arrays are taken: a mask would be lost without a word."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlpy as dml
import dmlpy.onnx
from dmlpy import eager, keras, nn
from dmlpy.description.arrays import refuse_mask
from dmlpy.graphs import GraphBuilder

MASKED = np.ma.masked_array(np.ones((2, 3), np.float32), mask=[[1, 0, 0], [0, 0, 0]])


def model() -> Any:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network() -> Any:
    return keras.Sequential([keras.Dense(2, input_dim=3)])


def export() -> Any:
    graph = GraphBuilder()
    graph.output("y", graph.add(dml.ActivationReluDesc, input_tensor=graph.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3]))))
    return dmlpy.onnx.export(graph.build(), {"x": MASKED})


CALLS: dict[str, Callable[[], Any]] = {
    "an eager operator": lambda: eager.activation_relu(MASKED),
    "a tensor desc": lambda: dml.TensorDesc.of(MASKED),
    "an ONNX model": lambda: dmlpy.onnx.load(model()).compile("numpy")(x=MASKED),
    "a constant of an ONNX model": lambda: dmlpy.onnx.load(model(), constants={"x": MASKED}),
    "a constant of an exported graph": export,
    "predict of Keras": lambda: network().predict(MASKED),
    "a function": lambda: nn.rnn(MASKED[:, None], np.ones((4, 3), np.float32), np.ones((4, 4), np.float32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_is_not_lost(name: str) -> None:
    with pytest.raises(dml.DmlError, match=r"masked"):
        CALLS[name]()


def test_an_array_is_read_while_another_thread_imports_the_module_of_masked_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    refuse_mask(np.zeros(2))
