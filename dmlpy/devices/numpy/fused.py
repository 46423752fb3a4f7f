"""The functions that other operators fuse, on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.descs import FusableDesc
from dmlpy.devices.numpy.activation.formulas import evaluate
from dmlpy.operators.activation import ActivationDesc, ActivationSoftmax1Desc, ActivationSoftmaxDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

Array = np.ndarray[Any, np.dtype[Any]]


def fused(function: FusableDesc | None, x: Array) -> Array:
    """A fused function of an operator's result, in the result's own type; the result itself if nothing is fused."""
    if function is None:
        return x
    if isinstance(function, ElementWiseClipDesc):
        return _clip(function, x)
    if isinstance(function, ActivationSoftmaxDesc):
        return softmax(x, (-1,))
    if isinstance(function, ActivationSoftmax1Desc):
        return softmax(x, tuple(set(function.axes)))
    assert isinstance(function, ActivationDesc), "the check lets nothing else be fused"
    return evaluate(function, x)


def _clip(desc: ElementWiseClipDesc, x: Array) -> Array:
    if desc.scale_bias is not None:
        x = x * desc.scale_bias.scale + desc.scale_bias.bias
    clipped: Array = np.minimum(np.maximum(x, desc.min), desc.max)
    return clipped


def softmax(x: Array, axis: tuple[int, ...]) -> Array:
    """exp(x) as shares of its sum along the axes; the largest element is subtracted first, so nothing overflows."""
    powers: Array = np.exp(x - np.max(x, axis=axis, keepdims=True))
    shares: Array = powers / np.sum(powers, axis=axis, keepdims=True)
    return shares
