"""Small ONNX models for tests, and ONNX's own cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str] | None],
    outputs: Sequence[str],
    *,
    opset: int = 21,
    types: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    domains: Mapping[str, int] | None = None,
) -> ModelProto:
    """A model of some nodes.

    Args:
        nodes: the nodes.
        inputs: the sizes of the inputs by name, with symbols for those that are open; None for an unknown rank.
        outputs: the names of the outputs.
        opset: the version of ONNX's operators.
        types: the element types of inputs that are not FLOAT, and of outputs that the file declares, by name.
        constants: initializers by name.
        domains: versions of other domains.
    """
    known = types or {}

    def described(name: str, sizes: Sequence[int | str] | None) -> Any:
        return helper.make_tensor_value_info(name, known.get(name, TensorProto.FLOAT), sizes)

    graph = helper.make_graph(
        list(nodes),
        "small",
        [described(name, sizes) for name, sizes in inputs.items()],
        [described(name, None) if name in known else helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, version) for name, version in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports)
