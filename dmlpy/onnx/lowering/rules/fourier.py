"""Fourier transforms: short ones as products with matrices of sines and cosines, long ones by shorter ones."""

from __future__ import annotations

from math import prod
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.graphs.views import restride
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.mixed_radix import FourierTransform, is_faster

if TYPE_CHECKING:
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("DFT", since=17)
def transform_by_attribute(node: Node) -> Expression:
    """GEMM with a matrix, or several with smaller ones; the axis is an attribute."""
    return _transform(node, node.attribute("axis", 1))


@lowers("DFT", since=20)
def transform(node: Node) -> Expression:
    """The same; the axis is an input that must be known."""
    return _transform(node, int(np.ravel(node.array(2))[0]) if node.has(2) else -2)


@lowers("STFT")
def frames(node: Node) -> Expression:
    """CONVOLUTION of the signal with a matrix: its windows are the frames. A window function scales the matrix, known or computed.

    Long frames are windows that overlap in memory, and are transformed by shorter transforms.
    """
    batch, length, *rest = node.sizes(0)
    components = rest[0] if rest else 1
    step = int(np.ravel(node.array(1))[0])
    if node.has(3):
        count = int(np.ravel(node.array(3))[0])
    elif node.has(2):
        count = index(node.sizes(2)[0])
    else:
        raise node.refusal("onnx.missing", node.input_label(3), "left out, like the window", "one of both: the length of a frame")
    if step < 1 or not 1 <= count <= length:
        expected = f"steps of at least 1, and 1 to {length} samples in a frame"
        raise node.refusal("onnx.invalid", "", f"frames of {count} samples, {step} apart", expected)
    bins = count // 2 + 1 if node.attribute("onesided", 1) else count
    signal = node.x(0).reshape(batch, length, components)
    if is_faster(count, count, bins):
        return _frames_by_factors(node, signal, step, count, bins)
    # As the filters of a convolution, one for each part of a bin.
    matrix = _forward(count, count, bins, components).transpose(2, 3, 0, 1).reshape(2 * bins, components, 1, count)
    window = node.value(2) if node.has(2) else None
    if window is not None and window.array is not None:
        matrix = matrix * window.array.astype(np.float64)
    filters = node.constant("matrix", matrix, node.data_type(0))
    if window is not None and window.array is None:
        filters = x.multiply(filters, node.x(2).reshape(1, 1, 1, count).broadcast(*filters.sizes))
    spectra = x.convolution(signal.transpose(0, 2, 1).reshape(batch, components, 1, length), filters, strides=[1, step])
    return spectra.reshape(batch, 2 * bins, spectra.sizes[-1]).transpose(0, 2, 1)


def _frames_by_factors(node: Node, signal: Expression, step: int, count: int, bins: int) -> Expression:
    """The spectra of windows of [batch, length, components], which are views that overlap."""
    batch, length, _ = signal.sizes
    sizes = [batch, (length - count) // step + 1, count]
    frames = []
    for part in _parts(signal):
        outer, inner = part.tensor.element_strides
        frame = part.viewed(restride(part.tensor, sizes, [outer, inner * step, inner]))
        if node.has(2):
            window = node.x(2).reshape(1, 1, count)
            if window.data_type is not frame.data_type:
                window = x.cast(window, output_data_type=frame.data_type)
            frame = x.multiply(frame, window.broadcast(*sizes))
        frames.append(frame.reshape(sizes[0] * sizes[1], count))
    found = _by_factors(node, frames, count, bins, inverse=False)
    return found.reshape(*sizes[:2], bins, 2)


def _transform(node: Node, given: int) -> Expression:
    sizes = node.sizes(0)
    axis, components = node.axis(given, len(sizes)), sizes[-1]
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if axis == len(sizes) - 1 or components not in (1, 2):
        expected = "an axis before the last one, whose 1 or 2 elements are the parts of a number"
        raise node.refusal("onnx.invalid", "axis", f"{given} of sizes {list(sizes)}", expected)
    default = 2 * (sizes[axis] - 1) if inverse and onesided else sizes[axis]
    length = index(int(np.ravel(node.array(1))[0]) if node.has(1) else default)
    if length < 1:
        raise node.refusal("onnx.invalid", node.input_label(1), str(length), "at least 1")
    # Samples past the length are cut off; zeros padded to the input need no rows of the matrix.
    used = index(min(sizes[axis], length // 2 + 1 if inverse and onesided else length))
    data = node.x(0).slice([0] * len(sizes), [used if place == axis else size for place, size in enumerate(sizes)])
    order = [*(place for place in range(len(sizes) - 1) if place != axis), axis, len(sizes) - 1]
    rows = prod(data.sizes) // (used * components)
    signal = data.transpose(*order).reshape(rows, used, components)
    bins = length // 2 + 1 if onesided and not inverse else length
    if is_faster(used, length, bins):
        parts = _parts(signal)
        if inverse and onesided:
            weights = node.constant("weights", _mirrored(used, length)).reshape(1, used).broadcast(rows, used)
            parts = [x.multiply(part, weights) for part in parts]
        results = _by_factors(node, parts, length, bins, 1 if inverse and onesided else 2, inverse=inverse)
    else:
        results = _by_matrix(node, signal, length, inverse=inverse, onesided=onesided)
    moved = [sizes[place] for place in order[:-2]]
    return results.reshape(*moved, *results.sizes[1:]).transpose(*np.argsort(order).tolist())


def _parts(signal: Expression) -> list[Expression]:
    """The real and the imaginary parts of [rows, samples, components]: FLOAT32 of FLOAT16, which each shorter transform would round."""
    rows, samples, components = signal.sizes
    if signal.data_type is DataType.FLOAT16:
        signal = x.cast(signal, output_data_type=DataType.FLOAT32)
    return [signal.slice([0, 0, place], [rows, samples, 1]).reshape(rows, samples) for place in range(components)]


def _by_factors(node: Node, parts: list[Expression], length: int, bins: int, targets: int = 2, *, inverse: bool) -> Expression:
    """The transforms of parts as [rows, bins, targets], by shorter ones."""
    found = FourierTransform(node, inverse).parts(parts, length, bins, targets)
    columns = [part.reshape(*part.sizes, 1) for part in found]
    joined = columns[0] if targets == 1 else x.join(columns, axis=2)
    given = node.data_type(0)
    return joined if joined.data_type is given else x.cast(joined, output_data_type=given)


def _by_matrix(node: Node, signal: Expression, length: int, *, inverse: bool, onesided: bool) -> Expression:
    """The transform of [rows, samples, components]: a product."""
    rows, used, components = signal.sizes
    if inverse and onesided:
        matrix = _hermitian(used, length, components)
    else:
        matrix = _forward(used, length, length // 2 + 1 if onesided else length, components)
        if inverse:
            matrix = _conjugate(matrix) / length
    columns = matrix.transpose(1, 0, 2, 3).reshape(used * components, -1)
    product = signal.reshape(rows, used * components) @ node.constant("matrix", columns, node.data_type(0))
    return product.reshape(rows, matrix.shape[2], matrix.shape[3])


def _forward(used: int, length: int, bins: int, components: int) -> Array:
    """The transform as [components, samples, bins, 2]: the contribution of each component of a sample to both components of each bin."""
    cosine, sine = _waves(used, length, bins)
    parts = [np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)]
    return np.stack(parts[:components])


def _conjugate(matrix: Array) -> Array:
    """The same with negated sines."""
    signs = np.array([[1, -1], [-1, 1]], np.float64)[: len(matrix)]
    return np.asarray(matrix * signs[:, None, None, :])


def _hermitian(used: int, length: int, components: int) -> Array:
    """The inverse transform of the first half of a spectrum, whose other half mirrors it, as [components, bins, samples, 1]."""
    cosine, sine = _waves(used, length, length)
    twice = _mirrored(used, length)[:, None]
    return np.stack([cosine * twice, -sine * twice][:components])[..., None] / length


def _mirrored(used: int, length: int) -> Array:
    """How often each bin of the first half of a spectrum is in the whole one."""
    times = np.full(used, 2.0)
    times[0] = 1
    if length % 2 == 0:
        times[length // 2 :] = 1  # the middle has no mirror image
    return times


def _waves(rows: int, length: int, columns: int) -> tuple[Array, Array]:
    """Cosines and sines of 2π · row · column / length."""
    # The product is reduced modulo the length, since the angle of a large product would lose digits.
    turns = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)) % length
    angles = 2 * np.pi * np.arange(length) / length
    return np.cos(angles)[turns], np.sin(angles)[turns]
