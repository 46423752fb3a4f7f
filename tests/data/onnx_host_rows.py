"""Nodes that no DirectML operator expresses, and that ONNX's reference implementation does not run as ONNX Runtime does."""

from __future__ import annotations

import numpy as np
from onnx_node_rows import node  # type: ignore[import-not-found, unused-ignore]
from onnx_operators import I32, I64, whole  # type: ignore[import-not-found, unused-ignore]


def integer_reductions() -> None:
    for operator in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        for kind in (I32, I64):
            x = whole("integer reduction", -6, 9, 3, 4, 5, dtype=kind)
            node(operator, [x, np.array([1], I64)], domain="", opset=18, known=[1], keepdims=0)
            node(operator, [x, np.array([0, 2], I64)], domain="", opset=18, known=[1])
            node(operator, [x * kind(2**27), np.array([-1], I64)], domain="", opset=18, known=[1])
            node(operator, [x], domain="", opset=18)


ROWS = (integer_reductions,)
