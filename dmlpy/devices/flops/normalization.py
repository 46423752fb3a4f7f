"""The operations of normalizations, for each element of the input."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import elements, flops
from dmlpy.operators.normalization.batch import (
    BatchNormalizationDesc,
    BatchNormalizationGradDesc,
    BatchNormalizationTrainingDesc,
    BatchNormalizationTrainingGradDesc,
)
from dmlpy.operators.normalization.fused_batch import FusedBatchNormGradV3Desc, FusedBatchNormV3Desc
from dmlpy.operators.normalization.local_response import LocalResponseDesc, LocalResponseNormalizationGradDesc
from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.operators.normalization.mean_variance import ScaledDesc

_MEAN, _VARIANCE, _QUOTIENT = 1, 3, 1
"""An addition; a difference, its square and an addition; the difference over the root."""


def _affine(desc: Any) -> int:
    """The operations on a normalized element: a scale, a bias and a fused activation."""
    members = ("scale_tensor", "bias_tensor", "fused_activation")
    return sum(getattr(desc, member, None) is not None for member in members)


@flops(ScaledDesc)
def mean_variance(desc: Any) -> int:
    uses_mean = getattr(desc, "use_mean", True)
    uses_variance = getattr(desc, "use_variance", getattr(desc, "normalize_variance", True))
    if uses_mean and uses_variance:
        operations = _MEAN + _VARIANCE + _QUOTIENT
    elif uses_variance:  # a square, an addition, a quotient
        operations = 3
    else:
        operations = 2 * uses_mean
    return elements(desc) * (operations + _affine(desc))


@flops(BatchNormalizationDesc)
def inference(desc: Any) -> int:
    """A difference and a quotient, then the scale and the bias."""
    return elements(desc) * (2 + _affine(desc))


@flops(BatchNormalizationTrainingDesc)
def training(desc: Any) -> int:
    return elements(desc) * (_MEAN + _VARIANCE + _QUOTIENT + _affine(desc))


@flops(FusedBatchNormV3Desc)
def fused(desc: Any) -> int:
    return elements(desc) * (2 + (_MEAN + _VARIANCE + _QUOTIENT if desc.is_training else 2))


@flops(BatchNormalizationGradDesc)
def constant_gradient(desc: Any) -> int:
    """A product for dx; a difference, a product and a sum for the scale's; a sum for the bias's."""
    return 5 * elements(desc)


@flops(BatchNormalizationTrainingGradDesc)
def training_gradient(desc: Any) -> int:
    """The operations of the two sums, and for dx two differences and two products besides the centred input."""
    return 8 * elements(desc)


@flops(FusedBatchNormGradV3Desc)
def fused_gradient(desc: Any) -> int:
    return (8 if desc.is_training else 5) * int(desc.x.element_count)


@flops(LPNormalizationDesc)
def lp(desc: Any) -> int:
    """A magnitude or a square, an addition, a quotient."""
    return 3 * elements(desc)


def _window(desc: Any) -> int:
    return int(desc.local_size) ** (1 if desc.cross_channel else 2)


@flops(LocalResponseDesc)
def local_response(desc: Any) -> int:
    """A square, the additions of the window, factor and bias, a power and a quotient."""
    return elements(desc) * (1 + (_window(desc) - 1) + 2 + 2)


@flops(LocalResponseNormalizationGradDesc)
def local_response_gradient(desc: Any) -> int:
    """d as in the forward operator; d^beta; dy / d^beta, times x and over d; the window's additions, times two factors; a difference."""
    return elements(desc) * ((1 + (_window(desc) - 1) + 2) + 1 + 3 + (_window(desc) - 1) + 2 + 1)
