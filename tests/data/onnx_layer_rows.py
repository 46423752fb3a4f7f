"""Products of matrices: DirectML's operator, ONNX's, the members of dmlpy's desc, and what ONNX takes in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_operators import case, normal  # type: ignore[import-not-found, unused-ignore]


def matrices() -> None:
    for trans_a, trans_b, with_c, alpha, beta, options in (
        (0, 0, False, 1.0, 0.0, {}),
        (1, 0, True, 0.5, 2.0, {}),
        (0, 1, True, -1.25, 0.75, {}),
        (1, 1, True, 1.0, 1.0, {"fused": "Relu"}),
    ):
        a, b = normal("left", *((7, 3) if trans_a else (3, 7))), normal("right", *((5, 7) if trans_b else (7, 5)))
        c = np.broadcast_to(normal("C", 1, 5), (3, 5))
        inputs = {"a_tensor": a, "b_tensor": b, **({"c_tensor": c} if with_c else {})}
        kinds = {f"trans_{name}": "TRANSPOSE" if yes else "NONE" for name, yes in (("a", trans_a), ("b", trans_b))}
        both: dict[str, Any] = {"alpha": alpha, "beta": beta}
        case("GEMM", "Gemm", inputs, {**kinds, **both}, transA=trans_a, transB=trans_b, **both, **options)
    batched = {"a_tensor": normal("batch a", 2, 3, 4, 5), "b_tensor": normal("batch b", 2, 3, 5, 2)}
    case("GEMM", "MatMul", batched)


ROWS = (matrices,)
