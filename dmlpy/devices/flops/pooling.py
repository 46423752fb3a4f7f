"""The operations of pooling; windows count whole."""

from __future__ import annotations

from math import prod
from typing import Any

from dmlpy.devices.flops import elements, flops
from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import NormPoolingDesc
from dmlpy.operators.pooling.maximum import IndexedPoolingDesc, MaxPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
from dmlpy.operators.pooling.roi import RegionsDesc, ROIPoolingDesc


def _window(desc: Any) -> int:
    return int(prod(desc.window_size))


@flops(AveragePoolingDesc, AveragePooling1Desc)
def average(desc: Any) -> int:
    """n - 1 additions and a division for a window of n."""
    return elements(desc) * _window(desc)


@flops(NormPoolingDesc)
def norm(desc: Any) -> int:
    """n powers, n - 1 additions and a root."""
    return 2 * elements(desc) * _window(desc)


@flops(MaxPoolingDesc, IndexedPoolingDesc)
def maximum(desc: Any) -> int:
    """n - 1 comparisons."""
    return elements(desc) * (_window(desc) - 1)


@flops(AveragePoolingGradDesc)
def average_gradient(desc: Any) -> int:
    """A division, and an addition to each element of the window."""
    return int(desc.input_gradient_tensor.element_count) * (1 + _window(desc))


@flops(MaxPoolingGradDesc)
def maximum_gradient(desc: Any) -> int:
    """n - 1 comparisons, and an addition to the largest element."""
    return int(desc.input_gradient_tensor.element_count) * _window(desc)


@flops(MaxUnpoolingDesc)
def unpooling(desc: MaxUnpoolingDesc) -> int:
    return 0


@flops(RegionsDesc, ROIPoolingDesc)
def of_regions(desc: RegionsDesc | ROIPoolingDesc) -> None:
    """How many samples there are depends on the regions."""
