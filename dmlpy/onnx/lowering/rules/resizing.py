"""Resize and Upsample: RESAMPLE where it places and weighs as ONNX does, else a product with the weights of each axis, which are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.support import BYTES
from dmlpy.description.symbolic_sizes import NoTemplateError, example_size, is_close, is_symbolic
from dmlpy.onnx.loading.elements import FLOATS
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.resizing import resized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_FLOORED = {"floor": 0.5, "round_prefer_ceil": 0.0}
"""The rounding that RESAMPLE1 has: halves up, of coordinates from which this is taken off."""
_DIRECTED = {"floor": ("DECREASING", 0.0), "ceil": ("INCREASING", 0.0), "round_prefer_floor": ("INCREASING", 0.5)}
"""The roundings of RESAMPLE2, of coordinates from which a number is taken off."""


_MOST_SIZED_BYTES = 1 << 20
"""The most bytes of an array that is computed for each set of sizes: a larger one counts towards the model's limits."""


@dataclass(frozen=True)
class Axis:
    """How one dimension is resized: output element o lies at `slope` * o + `offset` of the input.

    Attributes:
        place: which dimension.
        size: the elements of the input.
        output: the elements of the output.
        ratio: how much larger the result is; None for the ratio of the sizes.
        placing: slope and offset, given the elements of input and output, and the scale.
    """

    place: int
    size: int
    output: int
    ratio: float | None = 1.0
    placing: Callable[[int, int, float], tuple[float, float]] = lambda size, output, scale: (1.0, 0.0)

    @property
    def scale(self) -> float:
        """How much larger the result is."""
        return self.output / self.size if self.ratio is None else self.ratio

    @property
    def is_smaller(self) -> bool:
        """Whether the result is smaller."""
        return self.output < self.size if self.ratio is None else self.ratio < 1

    @cached_property
    def _placed(self) -> tuple[float, float]:
        return self.placing(self.size, self.output, self.scale)

    @property
    def slope(self) -> float:
        """The step in the input from one output element to the next."""
        return self._placed[0]

    @property
    def offset(self) -> float:
        """The coordinate of the first output element in the input."""
        return self._placed[1]

    @property
    def coordinates(self) -> Array:
        """The coordinates of the output elements in the input."""
        return np.arange(self.output, dtype=np.float64) * self.slope + self.offset


@dataclass(frozen=True)
class Filter:
    """How values between elements are found.

    Attributes:
        mode: `nearest`, `linear` or `cubic`.
        rounding: which element is the nearest.
        antialias: whether all input elements that an output element covers count where the result is smaller.
        exclude_outside: whether places outside the input have no weight; else they repeat the edge.
        cubic_coeff: the parameter of the cubic.
    """

    mode: str
    rounding: str = "floor"
    antialias: bool = False
    exclude_outside: bool = False
    cubic_coeff: float = -0.75


@lowers("Upsample")
@lowers("Resize", since=10)
def lower_upsample(node: Node) -> Expression:
    """RESAMPLE1 without pixel offsets; the nearest element is the one before, or the one behind where the result is smaller."""
    outputs, scales = resized(node)  # asks for elements that only a run has, with which a result of no elements needs no operator
    data = node.x(0)
    mode = {"bilinear": "linear"}.get(node.attribute("mode", "nearest"), node.attribute("mode", "nearest"))
    if mode not in ("nearest", "linear"):
        raise node.invalid("mode", "nearest", "linear")
    axes = [Axis(place, data.sizes[place], outputs[place], scale, _upsampled) for place, scale in enumerate(scales)]
    if mode == "nearest":
        for axis in axes:
            if axis.is_smaller:
                data = _gather(node, data, axis, Filter(mode, "ceil"))
                axes[axis.place] = Axis(axis.place, axis.output, axis.output)
    return _resize(node, data, axes, Filter(mode))


@lowers("Resize", since=11)
def resize(node: Node) -> Expression:
    """RESAMPLE1 or RESAMPLE2, antialiased RESAMPLE3; cubics and what leaves out the outside are GEMM with known weights of each axis."""
    axes = _axes(node)  # first, as above
    data = node.x(0)
    chosen = Filter(
        node.attribute("mode", "nearest"),
        node.attribute("nearest_mode", "round_prefer_floor"),
        bool(node.attribute("antialias", 0)),
        bool(node.attribute("exclude_outside", 0)),
        node.attribute("cubic_coeff_a", -0.75),
    )
    resized = _resize(node, data, axes, chosen)
    if node.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return resized
    node.reserve_elements(*(axis.output for axis in axes))
    inside = np.ones([axis.output for axis in axes], np.uint8)
    for axis in axes:
        inside_axis = (axis.coordinates >= 0) & (axis.coordinates <= axis.size - 1)
        inside &= inside_axis.reshape([-1 if place == axis.place else 1 for place in range(len(axes))])
    if inside.all():
        return resized
    value = x.fill_value_constant(
        value_data_type=resized.data_type, value=node.attribute("extrapolation_value", 0.0), output_sizes=[1] * len(axes)
    )
    return x.if_(node.constant("inside", inside), resized, value)


def _axes(node: Node) -> list[Axis]:
    """The dimensions from sizes, scales, region and policy."""
    sizes = node.sizes(0)
    rank = len(sizes)
    named = [node.axis(axis, rank) for axis in node.attribute("axes") or range(rank)]
    outputs, scales = resized(node)
    if any(output < 1 for output in outputs):
        raise node.refusal("onnx.empty", "sizes", str(outputs), "at least one element along each dimension: no tensor is empty")
    region = [0.0] * rank + [1.0] * rank
    if node.has(1) and node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        given = [float(number) for number in np.ravel(node.array(1))]
        for index, axis in enumerate(named):
            region[axis], region[axis + rank] = given[index], given[index + len(named)]
    return [
        Axis(place, sizes[place], outputs[place], scales[place], partial(_place, node, bounds))
        for place, bounds in enumerate(zip(region[:rank], region[rank:], strict=True))
    ]


def _upsampled(size: int, output: int, scale: float) -> tuple[float, float]:
    """Slope and offset of the coordinates of Upsample."""
    return 1 / scale, 0.0


def _place(node: Node, bounds: tuple[float, float], size: int, output: int, scale: float) -> tuple[float, float]:
    """Slope and offset of the coordinates in one dimension.

    Where the length of the result counts, it is that of whole elements, as in ONNX Runtime 1.32.0 and PyTorch 2.13.0, whose exporters write
    Resize by scales; ONNX's reference implementation and two of its node tests take scale times size, though no such result exists.
    """
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and output > 1):
        return 1 / scale, 0.5 / scale - 0.5
    if mode == "pytorch_half_pixel":
        return 0.0, 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "tf_half_pixel_for_nn":
        return 1 / scale, 0.5 / scale
    if mode == "align_corners":
        return (0.0 if output == 1 else 1.0 if output == size else (size - 1) / (output - 1)), 0.0
    if mode == "half_pixel_symmetric":
        return 1 / scale, size / 2 * (1 - output / (scale * size)) + 0.5 / scale - 0.5
    start, length = bounds[0] * (size - 1), (bounds[1] - bounds[0]) * (size - 1)  # tf_crop_and_resize
    return (0.0, start + length / 2) if output == 1 else (length / (output - 1), start)


def _resize(node: Node, data: Expression, axes: list[Axis], chosen: Filter) -> Expression:
    active = [axis for axis in axes if axis.size != axis.output or not is_close(axis.slope, 1.0) or abs(axis.offset) > 1e-9]
    sizes = [axis.output for axis in axes]
    if not active:
        return data
    merged = _merge(active, data.sizes)
    smaller = any(axis.is_smaller for axis in active)
    direct = chosen.mode != "cubic" and not chosen.exclude_outside and len(merged) <= 4 and data.data_type in FLOATS | BYTES
    if chosen.antialias and smaller:
        # RESAMPLE3 stretches its filter by the step of the coordinates, ONNX by the scale, which is another one for these.
        has_scales = node.attribute("coordinate_transformation_mode") not in ("align_corners", "tf_crop_and_resize")
        has_scales = has_scales and all(axis.slope for axis in active)
        direct = direct and has_scales and node.level >= FeatureLevel.FL_6_4 and chosen.mode == "linear"
    if chosen.mode == "nearest" and chosen.rounding not in _FLOORED:
        direct = direct and node.level >= FeatureLevel.FL_5_1  # older levels lack RESAMPLE2
    if direct:
        return _resample(data.reshape(*[axis.size for axis in merged]).with_leading_ones(4), merged, chosen, smaller).reshape(*sizes)
    if chosen.mode == "nearest":
        for axis in active:
            data = _gather(node, data, axis, chosen)
        return data
    resized = data if data.data_type in FLOATS else x.cast(data, output_data_type="FLOAT32")
    for axis in active:
        resized = _weigh(node, resized, axis, chosen)
    if data.data_type in FLOATS:
        return resized
    # Bytes are rounded as by RESAMPLE; ONNX Runtime rounds what is antialiased, and cuts the fraction of other integers off.
    rounded = data.data_type in BYTES or chosen.antialias
    return x.cast(x.floor(resized + 0.5) if rounded else resized, output_data_type=data.data_type)


def _merge(active: list[Axis], sizes: tuple[int, ...]) -> list[Axis]:
    """The dimensions with those that stay as they are merged with their neighbours."""
    by_place = {axis.place: axis for axis in active}
    merged: list[Axis] = []
    for place, size in enumerate(sizes):
        if place in by_place:
            merged.append(by_place[place])
        elif merged and merged[-1].place not in by_place:
            merged[-1] = Axis(-1, merged[-1].size * size, merged[-1].output * size)
        elif size > 1:
            merged.append(Axis(-1, size, size))
    return merged


def _resample(data: Expression, axes: list[Axis], chosen: Filter, smaller: bool) -> Expression:
    """The data, of four dimensions, by an operator of the RESAMPLE family."""
    ones = [Axis(-1, 1, 1)] * (4 - len(axes))
    whole = [*ones, *axes]
    shift, direction = 0.0, None
    if chosen.mode == "nearest":
        direction, shift = _DIRECTED.get(chosen.rounding, (None, 0.0))
        if chosen.rounding in _FLOORED:
            direction, shift = None, _FLOORED[chosen.rounding]
    members: dict[str, Any] = {
        "interpolation_mode": "NEAREST_NEIGHBOR" if chosen.mode == "nearest" else "LINEAR",
        "scales": [1 / axis.slope if axis.slope else 1.0 for axis in whole],
        "input_pixel_offsets": [_offsets(axis)[0] + (shift if axis.place >= 0 else 0.0) for axis in whole],
        "output_pixel_offsets": [_offsets(axis)[1] for axis in whole],
        "output_sizes": [axis.output for axis in whole],
    }
    if chosen.antialias and smaller:
        return x.resample3(data, **members, antialiased=True)
    if direction is not None:
        return x.resample2(data, **members, rounding_direction=direction)
    return x.resample1(data, **members)


def _offsets(axis: Axis) -> tuple[float, float]:
    """The pixel offsets of input and output that place an axis: halves where these are meant, so that no rounding moves them."""
    if axis.slope and is_close(axis.offset, 0.5 * axis.slope - 0.5, abs_tol=1e-12):
        return 0.5, -0.5
    return -axis.offset, 0.0


def _gather(node: Node, data: Expression, axis: Axis, chosen: Filter) -> Expression:
    """The nearest elements along one axis."""
    node.reserve_elements(axis.output)
    indices = _sized(axis, partial(_nearest, chosen=chosen), axis.output)
    before, behind = data.sizes[: axis.place], data.sizes[axis.place + 1 :]
    rows = node.constant(f"indices_{axis.place}", indices).with_leading_ones(4)
    gathered = x.gather(data.reshape(1, prod(before), axis.size, prod(behind)), rows, axis=2, index_dimensions=1)
    return gathered.reshape(*before, axis.output, *behind)


def _nearest(axis: Axis, chosen: Filter) -> Array:
    """The nearest element of the input for each output element."""
    places = axis.coordinates.round(9)  # ties and whole numbers are not missed by a last bit
    rounded = {"floor": np.floor(places), "ceil": np.ceil(places), "round_prefer_ceil": np.floor(places + 0.5)}
    return rounded.get(chosen.rounding, np.ceil(places - 0.5)).clip(0, axis.size - 1).astype(np.uint32)


def _sized(axis: Axis, function: Callable[[Axis], Array], *sizes: int) -> Any:
    """The result of a function of an axis: an array of these sizes, of symbolic sizes one for all of them."""
    if not (is_symbolic(axis.size) or is_symbolic(axis.output)):
        return function(axis)

    def compute(values: Sequence[int]) -> Array:
        size, output = (values[number.place] if is_symbolic(number) else number for number in (axis.size, axis.output))
        if size * output * np.dtype(np.float32).itemsize > _MOST_SIZED_BYTES:
            raise NoTemplateError
        return function(replace(axis, size=size, output=output))

    example = function(replace(axis, size=example_size(axis.size), output=example_size(axis.output)))
    return SizedArray(example, sizes, compute, (number.place for number in (axis.size, axis.output) if is_symbolic(number)))


def _weigh(node: Node, data: Expression, axis: Axis, chosen: Filter) -> Expression:
    """The product with the weights of one axis, in FLOAT32."""
    wide = data if data.data_type is DataType.FLOAT32 else x.cast(data, output_data_type="FLOAT32")
    before, behind = data.sizes[: axis.place], data.sizes[axis.place + 1 :]
    node.reserve_elements(axis.output, axis.size)
    dtype = np.float64 if node.wide else np.float32
    if prod(behind) == 1:
        matrix = _sized(axis, lambda sized_axis: _weights(sized_axis, chosen).T.astype(dtype), axis.size, axis.output)
        weighted = wide.reshape(-1, axis.size) @ node.constant(f"weights_{axis.place}", matrix)
    else:
        matrix = _sized(axis, lambda sized_axis: _weights(sized_axis, chosen).astype(dtype), axis.output, axis.size)
        weighted = node.constant(f"weights_{axis.place}", matrix) @ wide.reshape(prod(before), axis.size, prod(behind))
    return weighted.reshape(*before, axis.output, *behind)


def _weights(axis: Axis, chosen: Filter) -> Array:
    """The weights of each input element for each output element, [output, size]."""
    reach = 2 if chosen.mode == "cubic" else 1
    squeeze = min(axis.scale, 1.0) if chosen.antialias else 1.0
    places = axis.coordinates[:, None]
    taps = np.floor(places) + np.arange(-int(reach / squeeze), int(reach / squeeze) + 2)
    weights = _kernel((taps - places) * squeeze, chosen)
    if chosen.exclude_outside:
        weights = np.where((taps < 0) | (taps >= axis.size), 0.0, weights)
    weights /= weights.sum(1, keepdims=True)
    matrix = np.zeros((axis.output, axis.size))
    rows = np.broadcast_to(np.arange(axis.output)[:, None], taps.shape)
    np.add.at(matrix, (rows, taps.clip(0, axis.size - 1).astype(np.int64)), weights)
    return matrix


def _kernel(distance: Array, chosen: Filter) -> Array:
    """The weight of an element by its distance."""
    near = np.abs(distance)
    if chosen.mode == "linear":
        return np.asarray(np.maximum(1 - near, 0.0))
    a = chosen.cubic_coeff
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    outer = ((near - 5) * near + 8) * near * a - 4 * a
    return np.asarray(np.where(near <= 1, inner, np.where(near < 2, outer, 0.0)))
