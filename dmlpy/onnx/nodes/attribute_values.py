"""Attributes of few values: words, flags and permutations. They are compared with those that ONNX defines, whatever is known of the inputs.

Every row is of an attribute whose other values ONNX Runtime refuses, mostly when it loads the model, or does not read, as `stash_type`.
Some it takes empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem
from dmlpy.onnx.nodes.node import NotLowered
from dmlpy.onnx.nodes.recurrent_activations import parse_activations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node

_FLAG = (0, 1)
_COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
    "tf_half_pixel_for_nn",  # opsets from 13 on lack it, but tf2onnx writes it and ONNX Runtime takes it there, too
)
_RECURRENT = ("RNN", "GRU", "LSTM")
_PRECISIONS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
"""The types that attributes ask to compute in."""
_STASHED = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""The types of means and deviations; outputs have no FLOAT16, which ONNX Runtime takes where they are left out."""
_ALLOWED: dict[str, dict[str, tuple[Any, ...]]] = {
    "Attention": {
        "qk_matmul_output_mode": (0, 1, 2, 3),
        "softmax_precision": _PRECISIONS,
    },
    **{operator: {"exclusive": _FLAG, "reverse": _FLAG} for operator in ("CumProd", "CumSum")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    **{operator: {"direction": ("forward", "reverse", "bidirectional"), "layout": _FLAG} for operator in _RECURRENT},
    "Gelu": {"approximate": ("none", "tanh")},
    "GridSample": {"padding_mode": ("zeros", "border", "reflection")},
    "LayerNormalization": {"stash_type": _STASHED},
    "Multinomial": {"dtype": (TensorProto.INT32, TensorProto.INT64)},
    "MaxPool": {"storage_order": _FLAG},
    "Mod": {"fmod": _FLAG},
    "QuantizeLinear": {"precision": (0, *_PRECISIONS)},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "coordinate_transformation_mode": _COORDINATES,
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
    "RMSNormalization": {"stash_type": _PRECISIONS},
    "ReverseSequence": {"batch_axis": _FLAG, "time_axis": _FLAG},
    "TensorScatter": {"mode": ("linear", "circular")},
}
"""The values of attributes, by operator."""
_PADDING = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
"""The values of `auto_pad`, the same for all operators."""
_SAMPLES_BY_RANK = 20
"""The opset from which on GridSample takes images of any rank, whose modes are no longer called bilinear and bicubic."""


def value_problems(node: Node) -> Iterator[Problem]:
    """Attributes of other values than ONNX defines."""
    words = {"auto_pad": _PADDING, **_ALLOWED.get(node.op_type, {})}
    if node.op_type == "GridSample":
        words["mode"] = ("linear", "nearest", "cubic") if node.opset >= _SAMPLES_BY_RANK else ("bilinear", "nearest", "bicubic")
    wrong = [(name, allowed) for name, allowed in words.items() if node.attribute(name) not in (None, *allowed)]
    for name, allowed in wrong:
        yield Problem("onnx.invalid", name, repr(node.attribute(name)), f"one of {listed(allowed)}")
    if node.op_type in _RECURRENT and not wrong:
        yield from _recurrent_problems(node)
    order = node.attribute("perm")
    if order is not None:
        count = len(order) or (node.rank(0) if node.has(0) and node.value(0).sizes is not None else 0)
        if sorted(order) != list(range(count)):
            yield Problem("onnx.invalid", "perm", listed(order), f"each of 0 to {count - 1} once")


def _recurrent_problems(node: Node) -> Iterator[Problem]:
    """Activations, and a clip of 0 or less: ONNX Runtime takes it for RNN alone, where a negative one clips nothing."""
    if "activations" in node.attributes:
        try:
            parse_activations(node, node.op_type, 2 if node.attribute("direction") == "bidirectional" else 1)
        except NotLowered as reason:
            yield from reason.problems
    clip = node.attribute("clip")
    if clip is not None and node.op_type != "RNN" and not clip > 0:
        yield Problem("onnx.invalid", "clip", str(clip), "a number above 0; without one, nothing is clipped")
