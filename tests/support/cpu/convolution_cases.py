"""Convolutions of many kinds for the device `cpu`: what is fused, and rows in any layout."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from tests.support.operators.layout_runs import Array, tensor

RELU, SOFTPLUS = dml.ActivationReluDesc(), dml.ActivationSoftplusDesc(steepness=1.5)
CLIP = dml.ElementWiseClipDesc(min=-0.5, max=1.5)
SCALED = dml.ElementWiseClipDesc(min=-0.5, max=1.5, scale_bias=dml.ScaleBias(scale=2.0, bias=0.25))

ANY = 2**32 - 1
"""A stride of a single position, or a dilation of a single tap: no step of that length is made."""

# input, filter, strides, dilations, start padding, end padding, output padding, groups, direction
LAYOUTS: dict[str, tuple[Any, ...]] = {
    "padding": ((2, 5, 11, 19), (9, 5, 3, 3), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), 1, "FORWARD"),
    "strides, groups": ((1, 6, 17, 40), (6, 3, 3, 2), (2, 2), (1, 2), (2, 1), (1, 0), (0, 0), 2, "FORWARD"),
    "one element": ((2, 19, 9, 8), (10, 19, 1, 1), (1, 1), (1, 1), (0, 0), (1, 0), (0, 0), 1, "FORWARD"),
    "one position": ((2, 37, 1, 1), (10, 37, 1, 1), (1, 1), (1, 1), *[(0, 0)] * 3, 1, "FORWARD"),
    "one window, any strides": ((2, 5, 4, 19), (9, 5, 4, 19), (ANY, ANY), (1, 1), *[(0, 0)] * 3, 1, "FORWARD"),
    "one column of taps, any dilation": ((1, 6, 7, 9), (6, 1, 3, 1), (1, 2), (2, ANY), *[(0, 0)] * 3, 6, "FORWARD"),
    "along one row": ((1, 3, 70), (5, 3, 4), (1,), (3,), (5,), (2,), (0,), 1, "FORWARD"),
    "depth": ((2, 4, 5, 6, 7), (10, 2, 3, 2, 3), (2, 1, 1), (2, 2, 1), (2, 1, 1), (1, 1, 3), (0, 0, 0), 2, "FORWARD"),
    "many filters": ((2, 5, 11, 9), (37, 5, 3, 3), (1, 1), (1, 2), (2, 1), (0, 3), (0, 0), 1, "FORWARD"),
    "many filters, inside": ((2, 6, 11, 12), (80, 3, 3, 2), (2, 3), (2, 1), (0, 0), (0, 0), (0, 0), 2, "FORWARD"),
    "many filters, along one row": ((2, 9, 70), (31, 9, 4), (2,), (3,), (0,), (0,), (0,), 1, "FORWARD"),
    "many filters, depth": ((1, 4, 5, 6, 7), (50, 2, 2, 2, 3), (2, 1, 1), (1, 2, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0), 2, "FORWARD"),
    "many filters, slices inside": ((2, 3, 6, 5, 6), (40, 3, 2, 3, 2), (2, 1, 1), (2, 1, 1), *[(0, 0, 0)] * 3, 1, "FORWARD"),
    "windows beyond rows": ((2, 5, 4, 6), (9, 5, 3, 3), (1, 1), (9, 5), (9, 5), (9, 5), (0, 0), 1, "FORWARD"),
    "windows beyond rows, many filters": ((2, 5, 4, 9), (37, 5, 3, 4), (1, 2), (9, 7), (9, 3), (9, 12), (0, 0), 1, "FORWARD"),
    "windows beyond rows, depthwise": ((2, 5, 7, 7), (5, 1, 3, 3), (1, 1), (9, 4), (9, 4), (9, 4), (0, 0), 5, "FORWARD"),
    "depthwise": ((2, 6, 17, 23), (6, 1, 3, 3), (1, 2), (1, 1), (1, 0), (1, 1), (0, 0), 6, "FORWARD"),
    "windows beyond slices": ((1, 3, 2, 3, 4), (4, 3, 3, 2, 2), (1, 1, 1), (5, 1, 6), (5, 0, 3), (5, 1, 3), (0, 0, 0), 1, "FORWARD"),
    "windows around the image": ((1, 2, 3, 3), (2, 2, 2, 2), (1, 1), (20, 20), (10, 10), (10, 10), (0, 0), 1, "FORWARD"),
    "transposed": ((2, 5, 7, 9), (5, 9, 4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0), 1, "BACKWARD"),
    "transposed, output padding": ((1, 6, 7, 9), (6, 3, 3, 3), (2, 2), (1, 1), (1, 0), (1, 2), (1, 0), 2, "BACKWARD"),
    "transposed, dilations": ((1, 4, 6, 11), (4, 1, 3, 3), (2, 3), (4, 2), (5, 0), (0, 1), (0, 2), 4, "BACKWARD"),
    "transposed, strides beyond the window": ((1, 3, 5, 6), (3, 4, 2, 1), (3, 2), (1, 1), (0, 0), (0, 0), (2, 1), 1, "BACKWARD"),
    "transposed, many filters": ((2, 5, 7, 9), (5, 33, 4, 3), (2, 3), (1, 1), (1, 1), (1, 2), (1, 0), 1, "BACKWARD"),
    "transposed, many filters, cut off": ((2, 5, 12, 13), (5, 33, 2, 3), (1, 1), (1, 1), (3, 4), (2, 2), (0, 0), 1, "BACKWARD"),
    "transposed, one position, any strides": ((2, 5, 6, 1), (5, 9, 1, 4), (2, ANY), (ANY, 1), *[(0, 0)] * 3, 1, "BACKWARD"),
    "transposed, depth": ((1, 3, 4, 3, 5), (3, 4, 3, 2, 3), (2, 1, 2), (1, 1, 1), (1, 0, 1), (1, 0, 1), (1, 0, 0), 1, "BACKWARD"),
}


def laid_out(name: str, given: dict[str, Array], **members: Any) -> dml.ConvolutionDesc:
    """A row of `LAYOUTS` over packed tensors."""
    _, _, strides, dilations, starts, ends, output_padding, groups, direction = LAYOUTS[name]
    return dml.ConvolutionDesc(
        **{place: tensor(array) for place, array in given.items()},
        strides=strides,
        dilations=dilations,
        start_padding=starts,
        end_padding=ends,
        output_padding=output_padding,
        group_count=groups,
        direction=direction,
        **members,
    ).with_outputs()


def channels_last(own: dml.TensorDesc) -> dml.TensorDesc:
    """Channels last, with a gap behind each row."""
    _, channels, *spatial = own.sizes
    strides, step = [0] * len(spatial), channels
    for axis in reversed(range(len(spatial))):
        strides[axis] = step
        step = step * spatial[axis] + 1
    return own.replace(strides=(step, 1, *strides))
