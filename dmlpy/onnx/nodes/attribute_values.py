"""Attributes of few values: words, flags and permutations. They are compared with those that ONNX defines, whatever is known of the inputs.

Every row is of an attribute whose other values ONNX Runtime refuses, mostly when it loads the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node

_FLAG = (0, 1)
_COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
    "tf_half_pixel_for_nn",  # opsets from 13 on lack it, but tf2onnx writes it and ONNX Runtime takes it there, too
)
_ALLOWED: dict[str, dict[str, tuple[Any, ...]]] = {
    **{operator: {"exclusive": _FLAG, "reverse": _FLAG} for operator in ("CumProd", "CumSum")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Gelu": {"approximate": ("none", "tanh")},
    "MaxPool": {"storage_order": _FLAG},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "coordinate_transformation_mode": _COORDINATES,
    },
    "TensorScatter": {"mode": ("linear", "circular")},
}
"""The values of attributes, by operator."""
_PADDING = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
"""The values of `auto_pad`, the same for all operators."""


def value_problems(node: Node) -> Iterator[Problem]:
    """Attributes of other values than ONNX defines."""
    for name, allowed in {"auto_pad": _PADDING, **_ALLOWED.get(node.op_type, {})}.items():
        given = node.attribute(name)
        if given is not None and given not in allowed:
            yield Problem("onnx.invalid", name, repr(given), f"one of {listed(allowed)}")
    order = node.attribute("perm")
    if order is not None:
        count = len(order) or (node.rank(0) if node.has(0) and node.value(0).sizes is not None else 0)
        if sorted(order) != list(range(count)):
            yield Problem("onnx.invalid", "perm", listed(order), f"each of 0 to {count - 1} once")
