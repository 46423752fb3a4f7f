"""Single operators by ONNX's reference implementation in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]


def onnx_results(
    operator: str, inputs: list[Array], outputs: int = 1, *, domain: str = "", version: int = 21, **attributes: Any
) -> list[Array]:
    """The outputs of one ONNX operator."""
    names, results = [f"x{index}" for index in range(len(inputs))], [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(own.dtype), own.shape)
        for name, own in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], operator, given, [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)])
    found: list[Array] = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    return found
