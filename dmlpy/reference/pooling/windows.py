"""The definitions of the pooling operators, on whole arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragePoolingGradDesc
from dmlpy.operators.pooling.lp import LPPooling1Desc, LPPoolingDesc
from dmlpy.operators.pooling.maximum import MaxPooling1Desc, MaxPooling2Desc, MaxPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
from dmlpy.reference.norms import lp_norm
from dmlpy.reference.registry import Array, Inputs, Results, defines
from dmlpy.reference.windows import Along, gathered, outer, part_along, spread_over_windows, sums_of_windows, windows

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    means = sums_of_windows(x, along)
    means /= _divisors(along, include_padding, x.dtype)
    return means


def _divisors(along: Sequence[Along], include_padding: bool, dtype: np.dtype[Any]) -> Array:
    """The number of elements of each window, [*positions]."""
    counted = [window.padded if include_padding else window.inside for window in along]
    return outer([np.sum(taps, axis=0) for taps in counted]).astype(dtype)


@defines(AveragePoolingDesc, AveragePooling1Desc)
def _average_pooling(desc: AveragePoolingDesc | AveragePooling1Desc, inputs: Inputs) -> Array:
    return mean_of_windows(desc, inputs["input_tensor"], desc.include_padding)


@defines(AveragePoolingGradDesc)
def _average_pooling_grad(desc: AveragePoolingGradDesc, inputs: Inputs) -> Array:
    gradient, along = inputs["input_gradient_tensor"], _windows(desc)
    return spread_over_windows(gradient / _divisors(along, desc.include_padding, gradient.dtype), along)


@defines(LPPoolingDesc, LPPooling1Desc)
def _lp_pooling(desc: LPPoolingDesc | LPPooling1Desc, inputs: Inputs) -> Array:
    along = _windows(desc)
    axes = _window_axes(along)
    return lp_norm(gathered(inputs["input_tensor"], along), desc.p, axes).squeeze(axes)


def _largest_values(x: Array, along: Sequence[Along]) -> Array:
    """The largest element of each window, [batch, channels, *positions]; any if it has none. NaN counts as the largest."""
    for axis, window in enumerate(along):
        # Dimension by dimension: the largest of a window is the largest of its rows' largest.
        every, at = x, 2 + axis
        x = np.asarray(np.take(every, window.held[0], axis=at))
        for positions, elements in window.views[1:]:
            part = x[part_along(at, positions)]
            np.maximum(part, every[part_along(at, elements)], out=part)
    return x


def _largest(x: Array, along: Sequence[Along]) -> tuple[Array, Array]:
    """The largest element of each window, and the index in the whole of x of the first that is as large: any if it has none."""
    spatial = x.shape[2:]
    numbers = np.broadcast_to(np.arange(prod(spatial)).reshape(spatial), x.shape)
    for axis, window in reversed([*enumerate(along)]):  # the last index counts fastest: among equals the first has the lowest of each
        every, every_number, at = x, numbers, 2 + axis
        x, numbers = (np.take(values, window.held[0], axis=at) for values in (every, every_number))
        for positions, elements in window.views[1:]:
            part, other = x[part_along(at, positions)], every[part_along(at, elements)]
            larger = other > part
            if x.dtype.kind == "f":
                larger |= np.isnan(other) & ~np.isnan(part)
            np.copyto(part, other, where=larger)
            np.copyto(numbers[part_along(at, positions)], every_number[part_along(at, elements)], where=larger)
    images = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(spatial))
    return x, numbers + images * prod(spatial)


def _are_empty(along: Sequence[Along]) -> Array:
    """Whether a window has no element of the tensor, [*positions]."""
    return np.equal(outer([np.sum(window.inside, axis=0) for window in along]), 0)


@defines(MaxPoolingDesc, MaxPooling1Desc, MaxPooling2Desc)
def _max_pooling(desc: PoolingDesc, inputs: Inputs) -> Results:
    x, along = inputs["input_tensor"], _windows(desc)
    results: dict[str, Array] = {}
    if getattr(desc, "output_indices_tensor", None) is None:
        results["output_tensor"] = _largest_values(x, along)
    else:
        results["output_tensor"], results["output_indices_tensor"] = _largest(x, along)
        results["output_indices_tensor"][..., _are_empty(along)] = 0
    results["output_tensor"][..., _are_empty(along)] = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return results


@defines(MaxPoolingGradDesc)
def _max_pooling_grad(desc: MaxPoolingGradDesc, inputs: Inputs) -> Array:
    x, gradient, along = inputs["input_tensor"], inputs["input_gradient_tensor"], _windows(desc)
    _, indices = _largest(x, along)
    full = ~_are_empty(along)
    result = np.zeros(x.size, gradient.dtype)
    np.add.at(result, indices[..., full], gradient[..., full])
    return result.reshape(x.shape)


@defines(MaxUnpoolingDesc)
def _max_unpooling(desc: MaxUnpoolingDesc, inputs: Inputs) -> Array:
    x, indices = inputs["input_tensor"], inputs["indices_tensor"]
    result = np.zeros(prod(desc.output_tensor.sizes), x.dtype)
    inside = indices < result.size
    result[indices[inside].astype(np.intp)] = x[inside]
    return result.reshape(desc.output_tensor.sizes)
