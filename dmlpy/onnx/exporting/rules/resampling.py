"""Resampling: Resize if it reads the same elements with the same weights, else Gather and products with constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.description.enums import AxisDirection, InterpolationMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.reference.taps import Taps, coordinates, linear, settled, single, stretched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@dataclass(frozen=True)
class Sampling:
    """The sample positions of a desc.

    Attributes:
        nearest: whether to take the nearest element, else the two adjacent ones with weights.
        rounding: ONNX's `nearest_mode`.
        scales: the factor of each dimension.
        offsets: the pixel offsets of input and output for each dimension.
        antialiased: whether downsampled dimensions average all elements.
    """

    nearest: bool
    rounding: str
    scales: tuple[float, ...]
    offsets: tuple[tuple[float, float], ...]
    antialiased: bool

    @classmethod
    def of(cls, desc: Any, rank: int) -> Sampling:
        """The sampling of a desc."""
        size = getattr(desc, "scale_size", None)
        scales = desc.scales if size is None else [*[1.0] * (rank - 2), size.height, size.width]
        rounding = "round_prefer_ceil"
        if (direction := getattr(desc, "rounding_direction", None)) is not None:
            rounding = "ceil" if direction is AxisDirection.INCREASING else "floor"
        halves = ([0.5] * rank, [-0.5] * rank)
        placed = (getattr(desc, "input_pixel_offsets", halves[0]), getattr(desc, "output_pixel_offsets", halves[1]))
        nearest = desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR
        antialiased = bool(getattr(desc, "antialiased", False)) and not nearest
        return cls(nearest, rounding, tuple(scales), tuple(zip(*placed, strict=True)), antialiased)

    def taps(self, axis: int, size: int, output_size: int) -> Taps:
        """The input elements and weights of each output element along an axis."""
        scale, (before, behind) = self.scales[axis], self.offsets[axis]
        places = coordinates(output_size, scale, before, behind)
        if self.nearest:
            return single(_ROUNDINGS[self.rounding](settled(places, before)), size)
        radius = float(np.abs(1 / np.float64(scale))) if scale else 0.0
        return stretched(places, size, radius) if self.antialiased and radius > 1 else linear(places, size)

    def coordinates(self, sizes: Sequence[int], output_sizes: Sequence[int]) -> str | None:
        """The `coordinate_transformation_mode` of a Resize to these sizes; None if no mode has these sample positions.

        With fractional scales the nearest element depends on how coordinates are rounded, and ONNX Runtime interpolates in the last two
        dimensions only.
        """
        rows = [*zip(sizes, output_sizes, self.scales, self.offsets, strict=True)]
        resized = [axis for axis, (size, output_size, _, _) in enumerate(rows) if size != output_size]
        if self.antialiased or not all(isclose(scale, output_size / size, rel_tol=1e-6) for size, output_size, scale, _ in rows):
            return None
        if any(sum(offset) for size, output_size, _, offset in rows if size == output_size):
            return None
        if self.nearest and any(size % output_size and output_size % size for size, output_size, _, _ in rows):
            return None
        if not self.nearest and any(axis < len(rows) - 2 for axis in resized):
            return None
        return _TRANSFORMATIONS.get(frozenset(self.offsets[axis] for axis in resized))


_TRANSFORMATIONS = {frozenset({(0.5, -0.5)}): "half_pixel", frozenset({(0.0, 0.0)}): "asymmetric"}
_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
}


@exports("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3", "UPSAMPLE_2D", wide=True)
def resample(node: Node) -> Value:
    """Resize to the output's sizes; else axis by axis."""
    x, sizes, wanted = node.x("input_tensor"), node.sizes("input_tensor"), node.sizes("output_tensor")
    sampling = Sampling.of(node.desc, len(sizes))
    mode = sampling.coordinates(sizes, wanted)
    if mode is not None and (sampling.nearest or x.is_float):
        how = {"mode": "nearest", "nearest_mode": sampling.rounding} if sampling.nearest else {"mode": "linear"}
        return node.add("Resize", x, None, None, node.writer.integers(wanted), coordinate_transformation_mode=mode, **how)
    resampled = x if sampling.nearest or x.is_float else x.cast(TensorProto.FLOAT)
    for axis, (size, output_size) in enumerate(zip(sizes, wanted, strict=True)):
        taps = sampling.taps(axis, size, output_size)
        if sampling.nearest:
            resampled = _chosen(resampled, taps.inputs, axis, size)
        else:
            resampled = _weigh(resampled, _weights(taps, output_size, size), axis, [*wanted[:axis], *sizes[axis:]])
    return resampled if resampled.element == x.element else resampled.apply("Round").cast(x.element)


def _chosen(x: Value, places: Any, axis: int, size: int) -> Value:
    return x if np.array_equal(places, np.arange(size)) else x.take(places, axis)


def _weights(taps: Taps, rows: int, columns: int) -> np.ndarray[Any, Any]:
    matrix = np.zeros((rows, columns))
    np.add.at(matrix, (taps.outputs, taps.inputs), taps.weights)
    return matrix


def _weigh(x: Value, weights: np.ndarray[Any, Any], axis: int, sizes: Sequence[int]) -> Value:
    """The product with weights [output, input] along an axis of a value of these sizes."""
    if weights.shape[0] == weights.shape[1] and np.array_equal(weights, np.eye(len(weights))):
        return x
    matrix = x.writer.constant(weights.astype(dtype_of(x.element)))
    columns = x.reshape([prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :])])
    return matrix.apply("MatMul", columns).reshape([*sizes[:axis], len(weights), *sizes[axis + 1 :]])


@exports("RESAMPLE_GRAD", "RESAMPLE_GRAD1", wide=True)
def resample_gradient(node: Node) -> Value:
    """Products with the transposed weights, axis by axis."""
    gradient, sizes = node.x("input_gradient_tensor"), node.sizes("input_gradient_tensor")
    wanted = node.sizes("output_gradient_tensor")
    sampling = Sampling.of(node.desc, len(sizes))
    for axis, (size, output_size) in enumerate(zip(sizes, wanted, strict=True)):
        weights = _weights(sampling.taps(axis, output_size, size), size, output_size)
        gradient = _weigh(gradient, weights.T, axis, [*wanted[:axis], *sizes[axis:]])
    return gradient


@exports("VALUE_SCALE_2D", wide=True)
def value_scale(node: Node) -> Value:
    """Mul and Add of a constant for each channel."""
    x = node.x("input_tensor")
    bias = node.writer.constant(np.asarray(node.desc.bias, dtype_of(x.element)).reshape(-1, 1, 1))
    return x * node.number("scale") + bias
