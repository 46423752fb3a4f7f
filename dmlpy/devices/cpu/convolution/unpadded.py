"""A transposed convolution in NumPy, tap by tap: only elements of the image are multiplied, never its padding.

The compiled kernels also multiply zeros around the image, for input elements that do not exist. That changes a result only if a weight is
infinite or NaN, since its product with 0 is NaN. Such weights are rare, so this form need not be fast.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.numpy.convolution.geometry import tensor_array
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Phase
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, Index
    from dmlpy.devices.plan import Launch, Pointers


def reads_padding(phase: Phase, geometry: Geometry) -> bool:
    """Whether a window of the phase reads padding."""
    along = zip(phase.starts, phase.out, phase.strides, phase.window, phase.dilations, geometry.spatial, strict=True)
    return not phase.is_empty and any(
        start > 0 or (out - 1) * stride + (taps - 1) * dilation - start >= size for start, out, stride, taps, dilation, size in along
    )


def is_finite(weights: Array) -> bool:
    """Whether all of them are finite."""
    return bool(np.isfinite(weights.max()) and np.isfinite(weights.min()))


class ForWeights:
    """A launch that depends on the packed weights, which may change between launches.

    Args:
        finite: an array of one element: whether all weights are finite.
        usual: the launch if they are.
        other: the launch if they are not.
    """

    def __init__(self, finite: Array, usual: Launch, other: Launch) -> None:
        self._finite, self._usual, self._other = finite, usual, other

    def __call__(self, stream: int) -> None:
        (self._usual if self._finite[0] else self._other)(stream)


def convolve_unpadded(
    geometry: Geometry,
    phase: Phase,
    tensors: Mapping[str, TensorDesc],
    pointers: Pointers,
    weights: Array,
    coefficients: Array,
    low: float,
    high: float,
) -> None:
    """Computes a phase.

    Args:
        geometry: the convolution.
        phase: the phase.
        tensors: the descs by name.
        pointers: their addresses.
        weights: the packed weights [group, block, channel, tap, filter of the block]; taps along the depth may count as channels.
        coefficients: centre, factor and bias, [group, 3, filter].
        low: the lower bound of the results.
        high: the upper one.
    """
    x, y = (tensor_array(tensors[name], pointers[name], geometry.groups) for name in ("input_tensor", "output_tensor"))
    along = zip(phase.output_start, phase.output_strides, phase.out, strict=True)
    places: Index = (..., *(slice(first, first + (count - 1) * step + 1, step) for first, step, count in along))
    results = y[places]
    taps = list(product(*map(range, phase.window)))
    groups, blocks, *_, block = weights.shape
    by_tap = weights.reshape(groups, blocks, -1, max(1, len(taps)), block).transpose(3, 0, 2, 1, 4)
    by_tap = by_tap.reshape(*by_tap.shape[:3], blocks * block)[..., : geometry.filters]
    sums = np.zeros(results.shape, COMPUTE)
    with np.errstate(all="ignore"):
        for tap, own in zip(taps, by_tap, strict=False):  # an empty phase has weights, which are 0, and no taps
            positions, elements = _inside(phase, geometry, tap)
            sums[positions] += np.einsum("gcf,bgczyx->bgfzyx", own, x[elements].astype(COMPUTE))
        centre, factor, bias = (coefficients[np.newaxis, :, row, :, np.newaxis, np.newaxis, np.newaxis] for row in range(3))
        np.copyto(results, np.clip((sums - centre) * factor + bias, COMPUTE.type(low), COMPUTE.type(high)), casting="same_kind")


def _inside(phase: Phase, geometry: Geometry, tap: Sequence[int]) -> tuple[Index, Index]:
    """The positions of the window at which a tap is an element of the image, and these elements, along each dimension."""
    positions, elements = [], []
    along = zip(phase.starts, phase.out, phase.strides, phase.dilations, geometry.spatial, tap, strict=True)
    for start, out, stride, dilation, size, own in along:
        begin = own * dilation - start
        first = min(out, max(0, -(begin // stride)))
        last = max(first, min(out, -((begin - size) // stride)))
        positions.append(slice(first, last))
        elements.append(slice(begin + first * stride, begin + (last - 1) * stride + 1, stride) if last > first else slice(0, 0))
    return (..., *positions), (..., *elements)
