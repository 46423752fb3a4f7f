"""Errors of expressions, and of scripts for pydirectml."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy.pydirectml as pydirectml
from dmlpy import x
from dmlpy.docs.error_examples.example import shows

a = x.input("a", [2, 3])
ones = np.ones((2, 3), np.float32)


@shows("bind.bytes")
def bind_bytes() -> Any:
    device = pydirectml.Device(use_gpu=False)
    graph = pydirectml.GraphBuilder(device)
    image = pydirectml.input_tensor(graph, 0, pydirectml.TensorDesc(pydirectml.TensorDataType.FLOAT32, [1, 1, 2, 4]))
    y = pydirectml.activation_relu(image)
    model = graph.build(pydirectml.ExecutionFlags.NONE, [y])
    device.compute(model, [pydirectml.Binding(image, ones)], [y])


@shows("expression.bool")
def expression_bool() -> Any:
    return 1 if a > 0 else 0


@shows("expression.index")
def expression_index() -> Any:
    return a[:, 3]


@shows("expression.inputs")
def expression_inputs() -> Any:
    return x.graph(a + 1, inputs=[x.input("b", [2, 3])])


@shows("expression.number")
def expression_number() -> Any:
    return x.cast(a, output_data_type="INT32") / 0.5


@shows("expression.operand")
def expression_operand() -> Any:
    return x.activation_relu([1.0, 2.0])


@shows("expression.sizes")
def expression_sizes() -> Any:
    return a + x.input("b", [2])
