"""The definitions of the convolutions, on whole arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import ConvolutionMode
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.reference.fused import fused
from dmlpy.reference.registry import Array, Inputs, defines
from dmlpy.reference.windows import Along, gathered, spread, windows

if TYPE_CHECKING:
    from collections.abc import Sequence


def cross_correlation(x: Array, filters: Array, groups: int, along: Sequence[Along]) -> Array:
    """Sums over each position of the window, as a matrix product for each batch entry and group of channels.

    Args:
        x: [batch, input_channels, *spatial].
        filters: [output_channels, input_channels / groups, *window].
        groups: the number of groups.
        along: the window, sliding over x.
    """
    if filters.shape[1] == 1 and groups > 1:
        return _by_channel(x, filters, groups, along)
    batch, filter_count = x.shape[0], filters.shape[0]
    positions = [window.at.shape[1] for window in along]
    rows = filters.reshape(groups, filter_count // groups, -1)
    sums = np.empty((batch, groups, rows.shape[1], prod(positions)), np.result_type(x, filters))
    for entry in range(batch):  # the elements at all taps of one entry at a time are in memory
        np.matmul(rows, gathered(x[entry : entry + 1], along).reshape(groups, -1, prod(positions)), out=sums[entry])
    return sums.reshape(batch, filter_count, *positions)


def _by_channel(x: Array, filters: Array, groups: int, along: Sequence[Along]) -> Array:
    """`cross_correlation` for groups of one channel: a product with each tap, since sums of few terms make slow matrix products."""
    batch, positions = x.shape[0], [window.at.shape[1] for window in along]
    each, ones = x[:, :, np.newaxis], (1,) * len(along)
    weights = filters.reshape(groups, -1, *filters.shape[2:])
    sums = np.zeros((batch, *weights.shape[:2], *positions), np.result_type(x, filters))
    seen = np.empty((batch, groups, 1, *positions), x.dtype)
    for taps in np.ndindex(*filters.shape[2:]):
        views = [window.views[tap] for window, tap in zip(along, taps, strict=True)]
        places, elements = ((slice(None),) * 3 + parts for parts in zip(*views, strict=True))
        seen.fill(0)  # the padding
        seen[places] = each[elements]
        sums += seen * weights[:, :, *taps].reshape(*weights.shape[:2], *ones)
    return sums.reshape(batch, -1, *positions)


def _transposed(x: Array, filters: Array, groups: int, along: Sequence[Along]) -> Array:
    """The adjoint of `cross_correlation`: the window slides over the result, and its positions are those of x.

    Filters are [input_channels, output_channels / groups, *window].
    """
    batch, channels, *spatial = x.shape
    rows = filters.reshape(groups, channels // groups, -1).swapaxes(-1, -2)
    products = np.matmul(rows, x.reshape(batch, groups, channels // groups, -1))
    return spread(products.reshape(batch, groups * filters.shape[1], *filters.shape[2:], *spatial), along)


@defines(ConvolutionDesc, derived=False)
def _convolution(desc: ConvolutionDesc, inputs: Inputs) -> Array:
    x, filters, bias = inputs["input_tensor"], inputs["filter_tensor"], inputs["bias_tensor"]
    if desc.mode is ConvolutionMode.CONVOLUTION:
        filters = np.flip(filters, tuple(range(2, filters.ndim)))
    assert desc.output_tensor is not None  # guaranteed by the check
    out, lengths = desc.output_tensor.sizes[2:], filters.shape[2:]
    if desc.backward:
        result = _transposed(x, filters, desc.group_count, windows(desc, out, lengths, x.shape[2:]))
    else:
        result = cross_correlation(x, filters, desc.group_count, windows(desc, x.shape[2:], lengths, out))
    return fused(desc.fused_activation, result if bias is None else result + bias)
