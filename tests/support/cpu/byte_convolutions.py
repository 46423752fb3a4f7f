"""Convolutions of bytes, with operands that are hard to multiply and to round."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.layout_runs import Array, tensor

# channels, filters, sizes, window, strides, dilations, start and end padding, groups
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "pointwise, several rows of positions": (9, 19, (23, 29), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1),
    "pointwise, one position": (11, 7, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1),
    "pointwise, one position of groups": (12, 8, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 2),
    "pointwise with strides": (4, 8, (9, 41), (1, 1), (2, 2), (1, 1), (0, 0), (0, 0), 1),
    "a window": (5, 11, (12, 37), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1),
    "strides of 2": (3, 8, (15, 70), (3, 3), (2, 2), (1, 1), (1, 1), (0, 1), 1),
    "strides of 3, dilated": (6, 9, (17, 20), (2, 3), (3, 3), (2, 2), (0, 2), (1, 0), 1),
    "groups": (12, 9, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 3),
    "depthwise": (5, 5, (9, 75), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 5),
    "depthwise with strides": (3, 6, (14, 70), (5, 5), (2, 2), (1, 1), (2, 1), (1, 2), 3),
    "depthwise, dilated rows": (2, 2, (9, 9), (3, 1), (1, 1), (2, 1), (2, 0), (2, 0), 2),
    "depthwise, dilated columns": (3, 3, (5, 19), (1, 3), (1, 1), (1, 2), (0, 2), (0, 2), 3),
    "small planes": (6, 6, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 6),
    "small planes with strides": (3, 6, (18, 17), (3, 3), (2, 2), (1, 1), (0, 1), (1, 1), 3),
    "small planes, dilated": (4, 4, (12, 11), (5, 5), (1, 1), (2, 1), (4, 2), (4, 2), 4),
    "small planes, pointwise": (2, 4, (25, 27), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 2),
    "planes of short rows with strides": (3, 3, (13, 14), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 3),
    "planes of very short rows": (2, 4, (11, 7), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 2),
    "planes with columns behind the last window": (3, 3, (21, 40), (3, 7), (2, 3), (2, 1), (1, 2), (0, 0), 3),
    "padding alone": (2, 3, (2, 2), (2, 2), (2, 2), (1, 1), (3, 3), (3, 3), 1),
    "dilations larger than tiles": (9, 7, (14, 13), (3, 3), (1, 1), (12, 11), (12, 11), (12, 11), 1),
    "dilations with strides": (4, 6, (19, 21), (3, 3), (2, 2), (8, 7), (8, 7), (8, 6), 1),
    "dilated columns": (3, 5, (6, 20), (1, 3), (1, 3), (1, 9), (0, 9), (0, 9), 1),
    "windows before the image": (3, 4, (2, 1), (2, 3), (7, 1), (9, 9), (14, 9), (0, 9), 1),
    "strides past what a tap between others reads": (3, 5, (2, 13), (3, 3), (3, 1), (2, 1), (9, 1), (5, 1), 1),
    "dilations beyond the image": (10, 4, (6, 7), (3, 3), (1, 1), (9, 8), (9, 8), (9, 8), 2),
}


def extreme(rng: np.random.Generator, dtype: str, *sizes: int) -> Array:
    """Bytes, a third of them the least or the largest of the type: sums of pairs of their products need 17 bits."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max + 1, sizes)
    return np.where(rng.random(sizes) < 1 / 3, rng.choice([limits.min, limits.max], sizes), found).astype(dtype)


def scale(rng: np.random.Generator, *sizes: int) -> Array:
    return (2.0 ** rng.integers(-9, -3, sizes)).astype(np.float32)  # powers of two make many ties


def convolution_of(
    name: str, types: tuple[str, str], rng: np.random.Generator, *, output: str = "", wide: bool = False
) -> tuple[dml.OperatorDesc, dict[str, Array]]:
    """A convolution: of integers, or quantized again as `output`; with `wide`, biases near the limits of 32 bits."""
    channels, filters, sizes, window, strides, dilations, start, end, groups = CONVOLUTIONS[name]
    given = {"input_tensor": extreme(rng, types[0], 2, channels, *sizes)}
    given["filter_tensor"] = extreme(rng, types[1], filters, channels // groups, *window)
    given["input_zero_point_tensor"] = extreme(rng, types[0], 1, 1, 1, 1)
    each = (1, filters, 1, 1)
    given["filter_zero_point_tensor"] = extreme(rng, types[1], *each) * rng.integers(0, 2, each).astype(types[1])
    own = {"strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end, "group_count": groups}
    plain = {field: tensor(array) for field, array in given.items()}
    desc = dml.ConvolutionIntegerDesc(**plain, **own).with_outputs()
    if not output:
        return desc, given
    assert desc.output_tensor is not None
    given |= {"input_scale_tensor": scale(rng, 1, 1, 1, 1), "filter_scale_tensor": scale(rng, *each)}
    given |= {"output_scale_tensor": scale(rng, 1, 1, 1, 1) * 300, "output_zero_point_tensor": extreme(rng, output, 1, 1, 1, 1)}
    given["bias_tensor"] = rng.integers(-9999, 9999, each).astype(np.int32)
    if wide:
        given["bias_tensor"][0, ::2] = np.array([2**31 - 1, -(2**31)] * filters, np.int32)[: (filters + 1) // 2, None, None]
        given["output_scale_tensor"][...] = 2.0**15
    tensors = {field: tensor(array) for field, array in given.items()}
    described = dml.TensorDesc(data_type=output.upper(), sizes=desc.output_tensor.sizes)
    return dml.QuantizedLinearConvolutionDesc(**tensors, **own, output_tensor=described), given
