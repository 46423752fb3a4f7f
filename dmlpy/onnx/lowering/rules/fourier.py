"""Fourier transforms as products with matrices of sines and cosines."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers

if TYPE_CHECKING:
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_MOST = 1 << 24
"""The most elements of a matrix: beyond, it takes 64 MiB or more, and an FFT is preferable."""


@lowers("DFT", since=17)
def transform_by_attribute(node: Node) -> Expression:
    """GEMM with a matrix; the axis is an attribute."""
    return _transform(node, node.attribute("axis", 1))


@lowers("DFT", since=20)
def transform(node: Node) -> Expression:
    """GEMM with a matrix; the axis is an input that must be known."""
    return _transform(node, int(np.ravel(node.array(2))[0]) if node.has(2) else -2)


@lowers("STFT")
def frames(node: Node) -> Expression:
    """CONVOLUTION of the signal with a matrix: its windows are the frames. A window function scales the matrix, known or computed."""
    batch, length, *rest = node.sizes(0)
    components = rest[0] if rest else 1
    step = int(np.ravel(node.array(1))[0])
    if node.has(3):
        count = int(np.ravel(node.array(3))[0])
    elif node.has(2):
        count = node.sizes(2)[0]
    else:
        raise node.refusal("onnx.missing", node.input_label(3), "left out, like the window", "one of both: the length of a frame")
    if step < 1 or not 1 <= count <= length:
        expected = f"steps of at least 1, and 1 to {length} samples in a frame"
        raise node.refusal("onnx.invalid", "", f"frames of {count} samples, {step} apart", expected)
    bins = count // 2 + 1 if node.attribute("onesided", 1) else count
    # As the filters of a convolution, one for each part of a bin.
    matrix = _forward(node, count, count, bins, components).transpose(2, 3, 0, 1).reshape(2 * bins, components, 1, count)
    window = node.value(2) if node.has(2) else None
    if window is not None and window.array is not None:
        matrix = matrix * window.array.astype(np.float64)
    filters = node.constant("matrix", matrix, node.data_type(0))
    if window is not None and window.array is None:
        filters = x.multiply(filters, node.x(2).reshape(1, 1, 1, count).broadcast(*filters.sizes))
    signal = node.x(0).reshape(batch, length, components).transpose(0, 2, 1).reshape(batch, components, 1, length)
    spectra = x.convolution(signal, filters, strides=[1, step])
    return spectra.reshape(batch, 2 * bins, spectra.sizes[-1]).transpose(0, 2, 1)


def _transform(node: Node, given: int) -> Expression:
    sizes = node.sizes(0)
    axis, components = node.axis(given, len(sizes)), sizes[-1]
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if axis == len(sizes) - 1 or components not in (1, 2):
        expected = "an axis before the last one, whose 1 or 2 elements are the parts of a number"
        raise node.refusal("onnx.invalid", "axis", f"{given} of sizes {list(sizes)}", expected)
    default = 2 * (sizes[axis] - 1) if inverse and onesided else sizes[axis]
    length = int(np.ravel(node.array(1))[0]) if node.has(1) else default
    if length < 1:
        raise node.refusal("onnx.invalid", node.input_label(1), str(length), "at least 1")
    # Samples past the length are cut off; zeros padded to the input need no rows of the matrix.
    used = min(sizes[axis], length // 2 + 1 if inverse and onesided else length)
    if inverse and onesided:
        matrix = _hermitian(node, used, length, components)
    else:
        matrix = _forward(node, used, length, length // 2 + 1 if onesided else length, components)
        if inverse:
            matrix = _conjugate(matrix) / length
    data = node.x(0).slice([0] * len(sizes), [used if place == axis else size for place, size in enumerate(sizes)])
    order = [*(place for place in range(len(sizes) - 1) if place != axis), axis, len(sizes) - 1]
    rows = prod(data.sizes) // (used * components)
    columns = matrix.transpose(1, 0, 2, 3).reshape(used * components, -1)
    product = data.transpose(*order).reshape(rows, used * components) @ node.constant("matrix", columns, node.data_type(0))
    moved = [sizes[place] for place in order[:-2]]
    return product.reshape(*moved, matrix.shape[2], matrix.shape[3]).transpose(*np.argsort(order).tolist())


def _forward(node: Node, used: int, length: int, bins: int, components: int) -> Array:
    """The transform as [components, samples, bins, 2]: the contribution of each component of a sample to both components of each bin."""
    cosine, sine = _waves(node, used, length, bins, 2 * components)
    parts = [np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)]
    return np.stack(parts[:components])


def _conjugate(matrix: Array) -> Array:
    """The same with negated sines."""
    signs = np.array([[1, -1], [-1, 1]], np.float64)[: len(matrix)]
    return np.asarray(matrix * signs[:, None, None, :])


def _hermitian(node: Node, used: int, length: int, components: int) -> Array:
    """The inverse transform of the first half of a spectrum, whose other half mirrors it, as [components, bins, samples, 1]."""
    cosine, sine = _waves(node, used, length, length, components)
    twice = np.full((used, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[length // 2 :] = 1  # the middle has no mirror image
    return np.stack([cosine * twice, -sine * twice][:components])[..., None] / length


def _waves(node: Node, rows: int, length: int, columns: int, factor: int) -> tuple[Array, Array]:
    """Cosines and sines of 2π · row · column / length; the matrix has `factor` times as many elements."""
    if rows * columns * factor > _MOST:
        found = f"{length} samples"
        raise node.refusal("onnx.size", "", found, f"a transform whose matrix has at most {_MOST} numbers, not {rows * columns * factor}")
    # The product is reduced modulo the length, since the angle of a large product would lose digits.
    turns = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)) % length
    angles = 2 * np.pi * np.arange(length) / length
    return np.cos(angles)[turns], np.sin(angles)[turns]
