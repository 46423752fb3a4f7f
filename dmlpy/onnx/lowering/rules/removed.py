"""Operators of the first versions of ONNX, which opset 10 lacks: exporters for Windows ML wrote them, and ONNX Runtime still runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.messages.naming import plural
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four
from dmlpy.onnx.nodes.windows import cropped_sizes

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_IMAGE = 4
"""The dimensions of a batch of images."""


@lowers("Affine")
def affine(node: Node) -> Expression:
    """ACTIVATION_LINEAR."""
    return x.activation_linear(*in_four(node.x(0)), alpha=node.attribute("alpha", 1.0), beta=node.attribute("beta", 0.0))


@lowers("Scale")
def scale(node: Node) -> Expression:
    """ACTIVATION_LINEAR without an offset."""
    return x.activation_linear(*in_four(node.x(0)), alpha=node.attribute("scale", 1.0), beta=0.0)


@lowers("ParametricSoftplus", "ScaledTanh")
def parametric(node: Node) -> Expression:
    """ACTIVATION_PARAMETRIC_SOFTPLUS, ACTIVATION_SCALED_TANH."""
    function = x.activation_scaled_tanh if node.op_type == "ScaledTanh" else x.activation_parametric_softplus
    return function(*in_four(node.x(0)), alpha=node.required("alpha"), beta=node.required("beta"))


@lowers("ImageScaler")
def image_scaler(node: Node) -> Expression:
    """VALUE_SCALE_2D of 1 or 3 channels; of others a product and a sum."""
    sizes, bias = _image_sizes(node), [*node.required("bias")]
    if len(bias) != sizes[1]:
        raise node.refusal("onnx.invalid", "bias", plural(len(bias), "number"), f"{sizes[1]}, one for each channel")
    factor = node.attribute("scale", 1.0)
    if sizes[1] in (1, 3):
        return x.value_scale_2d(node.x(0), scale=factor, bias=bias)
    offsets = node.constant("bias", np.reshape(bias, (1, -1, 1, 1)), node.data_type(0))
    return x.add(node.x(0) * factor, offsets.broadcast(*sizes))


@lowers("Crop")
def crop(node: Node) -> Expression:
    """A view, or SLICE1: without the borders left, top, right and bottom, or `scale` elements from the first two on."""
    sizes, (left, top, right, bottom) = _image_sizes(node), _border(node)
    *_, height, width = cropped_sizes(node)
    if min(left, top) < 0 or not 0 < height <= sizes[2] - top or not 0 < width <= sizes[3] - left:
        found = f"{[left, top, right, bottom]}, which leaves {height} by {width}"
        raise node.refusal("onnx.invalid", "border", found, f"a part of the {sizes[2]} by {sizes[3]} elements")
    return node.x(0)[:, :, top : top + height, left : left + width]


def _border(node: Node) -> tuple[int, int, int, int]:
    border = [int(size) for size in node.required("border")]
    if len(border) != _IMAGE:
        raise node.refusal("onnx.invalid", "border", plural(len(border), "number"), "4: left, top, right and bottom")
    left, top, right, bottom = border
    return left, top, right, bottom


def _image_sizes(node: Node) -> tuple[int, ...]:
    if node.rank(0) != _IMAGE:
        raise node.refusal("onnx.invalid", node.input_label(0), str([*node.sizes(0)]), "4 dimensions: a batch of images")
    return node.sizes(0)
