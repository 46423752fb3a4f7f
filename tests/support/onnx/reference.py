"""Single operators by ONNX's reference implementation in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from tests.support.tools import require

Array = np.ndarray[Any, Any]


def onnx_outputs(
    operator: str, inputs: Sequence[Array | None], outputs: int = 1, *, domain: str = "", opset: int = 22, **attributes: Any
) -> list[Array]:
    """The outputs of one ONNX operator; None stands for an input that is left out."""
    require("onnx")
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    given = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(name, element_type(array.dtype), array.shape) for name, array in given.items()]
    graph = helper.make_graph([node], operator, infos, [helper.make_empty_tensor_value_info(name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])
    return cast("list[Array]", ReferenceEvaluator(model).run(None, given))


def element_type(dtype: DTypeLike) -> int:
    """What ONNX calls a type of NumPy."""
    require("onnx")
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
