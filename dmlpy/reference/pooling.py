"""What the pooling operators compute, on whole arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import LPPooling1Desc, LPPoolingDesc
from dmlpy.operators.pooling.maximum import MaxPooling1Desc, MaxPooling2Desc, MaxPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
from dmlpy.operators.pooling.roi import ROIPoolingDesc
from dmlpy.reference.norms import lp_norm
from dmlpy.reference.registry import Array, Inputs, Results, defines
from dmlpy.reference.windows import Along, gathered, outer, spread, taken, windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.operators.pooling.windows import PoolingDesc


def _windows(desc: PoolingDesc) -> tuple[Along, ...]:
    """The windows along each spatial dimension of the tensors that the desc names."""
    slid, positioned = desc.tensors()[desc.slid_over], desc.tensors()[desc.positioned]
    return windows(desc, slid.sizes[2:], desc.window_size, positioned.sizes[2:])


def _window_axes(along: Sequence[Along]) -> tuple[int, ...]:
    return tuple(range(2, 2 + len(along)))


def mean_of_windows(desc: PoolingDesc, x: Array, include_padding: bool) -> Array:
    """The mean of each window's elements, in which padding counts as 0."""
    along = _windows(desc)
    means: Array = np.sum(gathered(x, along), axis=_window_axes(along)) / _divisors(along, include_padding, x.dtype)
    return means


def _divisors(along: Sequence[Along], include_padding: bool, dtype: np.dtype[Any]) -> Array:
    """How many elements each window has, [*positions]."""
    counted = [window.padded if include_padding else window.inside for window in along]
    return outer([np.sum(taps, axis=0) for taps in counted]).astype(dtype)


@defines(AveragePoolingDesc, AveragePooling1Desc)
def _average_pooling(desc: AveragePoolingDesc | AveragePooling1Desc, inputs: Inputs) -> Array:
    return mean_of_windows(desc, inputs["input_tensor"], desc.include_padding)


@defines(AveragePoolingGradDesc)
def _average_pooling_grad(desc: AveragePoolingGradDesc, inputs: Inputs) -> Array:
    gradient, along = inputs["input_gradient_tensor"], _windows(desc)
    shares = gradient / _divisors(along, desc.include_padding, gradient.dtype)
    taps = tuple(len(window.at) for window in along)
    every_tap = np.broadcast_to(np.expand_dims(shares, _window_axes(along)), (*shares.shape[:2], *taps, *shares.shape[2:]))
    return spread(every_tap, along)


@defines(LPPoolingDesc, LPPooling1Desc)
def _lp_pooling(desc: LPPoolingDesc | LPPooling1Desc, inputs: Inputs) -> Array:
    along = _windows(desc)
    axes = _window_axes(along)
    return lp_norm(gathered(inputs["input_tensor"], along), desc.p, axes).squeeze(axes)


def _largest(desc: PoolingDesc, x: Array) -> tuple[Array, Array, Array]:
    """The largest element of each window, its index in the whole of x, and which windows have none, [*positions]."""
    along = _windows(desc)
    held = [window.held for window in along]
    empty = outer([np.sum(window.inside, axis=0) for window in along]) == 0
    batch, channels, *spatial = x.shape
    # Taps in the order of their indices, as one axis: the first of the largest has the lowest.
    taps = taken(x, held).reshape(batch, channels, -1, *empty.shape)
    winner = np.argmax(taps, axis=2, keepdims=True)
    values = np.take_along_axis(taps, winner, axis=2).squeeze(2)
    numbers = taken(np.arange(prod(spatial)).reshape(1, 1, *spatial), held).reshape(1, 1, -1, *empty.shape)
    within = np.take_along_axis(numbers, winner, axis=2).squeeze(2)
    images = np.arange(batch * channels).reshape(batch, channels, *[1] * len(spatial))
    return values, within + images * prod(spatial), empty


@defines(MaxPoolingDesc, MaxPooling1Desc, MaxPooling2Desc)
def _max_pooling(desc: PoolingDesc, inputs: Inputs) -> Results:
    x = inputs["input_tensor"]
    values, indices, empty = _largest(desc, x)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    values[..., empty] = least
    indices[..., empty] = 0
    return {"output_tensor": values, "output_indices_tensor": indices}


@defines(MaxPoolingGradDesc)
def _max_pooling_grad(desc: MaxPoolingGradDesc, inputs: Inputs) -> Array:
    x, gradient = inputs["input_tensor"], inputs["input_gradient_tensor"]
    _, indices, empty = _largest(desc, x)
    result = np.zeros(x.size, gradient.dtype)
    np.add.at(result, indices[..., ~empty], gradient[..., ~empty])
    return result.reshape(x.shape)


@defines(MaxUnpoolingDesc)
def _max_unpooling(desc: MaxUnpoolingDesc, inputs: Inputs) -> Array:
    x, indices = inputs["input_tensor"], inputs["indices_tensor"]
    result = np.zeros(prod(desc.output_tensor.sizes), x.dtype)
    inside = indices < result.size
    result[indices[inside].astype(np.intp)] = x[inside]
    return result.reshape(desc.output_tensor.sizes)


# regions of interest


_FARTHEST = 2**31
"""Coordinates beyond are outside of every image."""


@defines(ROIPoolingDesc)
def roi_pooling(desc: ROIPoolingDesc, inputs: Inputs) -> Array:
    """The maximum of each part of each region; 0 where a part has no pixel of the image."""
    images, regions = inputs["input_tensor"], inputs["roi_tensor"].reshape(-1, 5)
    height, width = images.shape[2:]
    batches = _whole(regions[:, 0]).clip(0, len(images) - 1)
    result = np.zeros((len(regions), images.shape[1], desc.pooled_size.height, desc.pooled_size.width), images.dtype)
    for region, (left, top, right, bottom) in enumerate(_whole(regions[:, 1:] * desc.spatial_scale).tolist()):
        image = images[batches[region]]
        rows = [*_parts(top, bottom, desc.pooled_size.height, height)]
        for column, columns in enumerate(_parts(left, right, desc.pooled_size.width, width)):
            for row, part in enumerate(rows):
                pixels = image[:, part, columns]
                if pixels.size:
                    result[region, :, row, column] = pixels.max(axis=(1, 2))
    return result


def _whole(x: Array) -> Array:
    """The nearest whole numbers, halves away from 0."""
    near = np.clip(np.nan_to_num(x), -_FARTHEST, _FARTHEST).astype(np.float64)
    nearest: Array = np.copysign(np.floor(np.abs(near) + 0.5), near)
    return nearest.astype(np.int64)


def _parts(first: int, last: int, count: int, size: int) -> Iterator[slice]:
    """The pixels of each part of a region along one axis, of those inside the image."""
    extent = max(last - first + 1, 1)
    for part in range(count):
        start, end = first + part * extent // count, first - (-(part + 1) * extent // count)
        yield slice(min(max(start, 0), size), min(max(end, 0), size))
