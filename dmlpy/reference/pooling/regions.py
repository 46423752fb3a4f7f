"""What the poolings of regions of interest compute, on whole arrays, region by region."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import InterpolationMode, ReduceFunction
from dmlpy.operators.pooling.roi import ForwardRegionsDesc, PlacedRegionsDesc, ROIAlignGradDesc, ROIPoolingDesc
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.operators.pooling.roi import RegionsDesc


_FARTHEST = 2**31
"""Coordinates beyond it lie outside every image."""


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
    """Rounds to the nearest whole numbers, halves away from 0."""
    near = np.clip(np.nan_to_num(x), -_FARTHEST, _FARTHEST).astype(np.float64)
    nearest: Array = np.copysign(np.floor(np.abs(near) + 0.5), near)
    return nearest.astype(np.int64)


def _parts(first: int, last: int, count: int, size: int) -> Iterator[slice]:
    """The pixels of each part of a region along one axis, clipped to the image."""
    extent = max(last - first + 1, 1)
    for part in range(count):
        start, end = first + part * extent // count, first - (-(part + 1) * extent // count)
        yield slice(min(max(start, 0), size), min(max(end, 0), size))


@dataclass(frozen=True)
class Samples:
    """The samples of a region along one axis that are inside the image, in order.

    Attributes:
        owners: the output element of each.
        lower: the pixel before each, or nearest to it.
        upper: the pixel after it.
        shares: how much the upper pixel counts; the lower one counts for the rest.
        moving: whether what is read changes with the place: not of nearest pixels, nor off the outermost ones.
        fractions: where each lies between the corners of the region, from 0 to 1.
        per_output: how many samples an output element has, with those outside.
    """

    owners: Array
    lower: Array
    upper: Array
    shares: Array
    moving: Array
    fractions: Array
    per_output: int

    @classmethod
    def of(cls, desc: RegionsDesc, corners: tuple[float, float], outputs: int, size: int) -> Samples:
        """Places them.

        Args:
            desc: a checked desc.
            corners: of the region along the axis, scaled.
            outputs: output elements.
            size: of the image.
        """
        start, extent = corners[0], corners[1] - corners[0]
        per_output = _sample_count(desc, extent, outputs)
        numbers, places, fractions = _inside(desc, start, extent, outputs * per_output, size)
        if desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
            lower = upper = np.clip(np.ceil(places - 0.5), 0, size - 1).astype(np.int64)
            shares, moving = np.zeros(places.size), np.zeros(places.size, bool)
        else:
            moving = (places >= 0) & (places < size - 1)
            places = np.clip(places, 0, size - 1)
            lower = np.floor(places).astype(np.int64)
            upper, shares = np.minimum(lower + 1, size - 1), places - lower
        return cls(numbers // per_output, lower, upper, shares, moving, fractions, per_output)


def _sample_count(desc: RegionsDesc, extent: float, outputs: int) -> int:
    """Samples of an output element along an axis: one for each pixel, within the bounds, and no less than one."""
    least, most = max(desc.minimum_samples_per_output, 1), max(desc.maximum_samples_per_output, 1)
    pixels = abs(extent) / outputs
    if pixels != pixels:
        return least
    return min(max(ceil(min(pixels, most)), least), most)


def _inside(desc: RegionsDesc, start: float, extent: float, count: int, size: int) -> tuple[Array, Array, Array]:
    """What those of so many samples have that are inside the image or, as in ONNX, no more than a pixel off it.

    Returns:
        Their numbers, their coordinates, and where they lie between the corners, from 0 to 1.
    """
    aligned = isinstance(desc, PlacedRegionsDesc) and desc.align_regions_to_corners
    before, after = (desc.input_pixel_offset, desc.output_pixel_offset) if isinstance(desc, PlacedRegionsDesc) else (0.5, -0.5)
    # Aligned to the corners, the only sample is in the middle.
    shift, divisor = ((0.0, count - 1) if count > 1 else (-0.5, 1)) if aligned else (after, count)
    first, end = 0, count
    step = extent / divisor
    if not isfinite(step) or not isfinite(start):
        end = 0
    elif step:
        ends = sorted((place + before - start) / step + shift for place in (-1, size))
        first, end = (min(max(bound, 0), count) for bound in (floor(ends[0]) - 1, ceil(ends[1]) + 2))
    numbers = np.arange(first, end)
    # The product comes first: of whole numbers it is exact, which the rounding to a nearest pixel needs.
    places = (numbers - shift) * extent / divisor + start - before
    inside = (places >= -1) & (places <= size)
    return numbers[inside], places[inside], (numbers[inside] - shift) / divisor


@defines(ForwardRegionsDesc)
def _align_regions(desc: ForwardRegionsDesc, inputs: Inputs) -> Array:
    images, batches = inputs["input_tensor"], inputs["batch_indices_tensor"].reshape(-1)
    regions = inputs["roi_tensor"].reshape(-1, 4).astype(np.float64) * _spatial_scales(desc)
    outputs, outside = desc.output_tensor.sizes[2:], images.dtype.type(desc.out_of_bounds_input_value)
    result = np.empty((len(regions), images.shape[1], *outputs), images.dtype)
    for number, (left, top, right, bottom) in enumerate(regions.tolist()):
        image = images[min(int(batches[number]), len(images) - 1)]
        rows = Samples.of(desc, (top, bottom), outputs[0], image.shape[1])
        columns = Samples.of(desc, (left, right), outputs[1], image.shape[2])
        result[number] = _reduced(desc.reduction_function, _interpolated(image, rows, columns), rows, columns, outputs, outside)
    return result


def _spatial_scales(desc: RegionsDesc) -> Array:
    """The factor of each of a region's corners."""
    return np.array([desc.spatial_scale_x, desc.spatial_scale_y] * 2)


def _interpolated(image: Array, rows: Samples, columns: Samples) -> Array:
    """The image at each sample, [channels, rows, columns]."""

    def along(row: Array) -> Array:
        left, right = (image[:, row[:, np.newaxis], column] for column in (columns.lower, columns.upper))
        found: Array = left * (1 - across) + right * across
        return found

    across = columns.shares.astype(image.dtype)
    down = rows.shares.astype(image.dtype)[:, np.newaxis]
    values: Array = along(rows.lower) * (1 - down) + along(rows.upper) * down
    return values


def _reduced(function: ReduceFunction, values: Array, rows: Samples, columns: Samples, sizes: Any, outside: Any) -> Array:
    """The mean or the maximum of the samples of each output element, [channels, *sizes]; those outside the image have one value."""
    total = np.float64(rows.per_output) * columns.per_output
    inside = np.bincount(rows.owners, minlength=sizes[0])[:, np.newaxis] * np.bincount(columns.owners, minlength=sizes[1])
    others = total - inside
    owners: Any = (slice(None), rows.owners[:, np.newaxis], columns.owners)
    if function is ReduceFunction.MAX:
        largest = np.full((len(values), *sizes), -np.inf, values.dtype)
        np.maximum.at(largest, owners, values)
        return np.where(others > 0, np.maximum(largest, outside), largest)
    sums = np.zeros((len(values), *sizes), values.dtype)
    np.add.at(sums, owners, values)
    rest = np.where(others > 0, others.astype(values.dtype) * outside, np.zeros((), values.dtype))
    means: Array = (sums + rest) / values.dtype.type(total)
    return means


@defines(ROIAlignGradDesc)
def _align_regions_gradient(desc: ROIAlignGradDesc, inputs: Inputs) -> dict[str, Array]:
    images, incoming = inputs["input_tensor"], inputs["input_gradient_tensor"]
    described = desc.input_tensor if desc.output_gradient_tensor is None else desc.output_gradient_tensor
    assert described is not None  # the check asks for one of them
    batches, scales = inputs["batch_indices_tensor"].reshape(-1), _spatial_scales(desc)
    regions = inputs["roi_tensor"].reshape(-1, 4).astype(np.float64) * scales
    of_images, of_regions = np.zeros(described.sizes, incoming.dtype), np.zeros((len(regions), 4), incoming.dtype)
    for number, (left, top, right, bottom) in enumerate(regions.tolist()):
        batch = min(int(batches[number]), described.sizes[0] - 1)
        rows = Samples.of(desc, (top, bottom), incoming.shape[2], described.sizes[2])
        columns = Samples.of(desc, (left, right), incoming.shape[3], described.sizes[3])
        image = None if images is None else images[batch]
        gradient = _gradient_of_samples(desc, incoming[number], image, rows, columns)
        down, across = rows.shares.astype(gradient.dtype)[:, np.newaxis], columns.shares.astype(gradient.dtype)
        for row, share in ((rows.lower, 1 - down), (rows.upper, down)):
            for column, own in ((columns.lower, 1 - across), (columns.upper, across)):
                place: Any = (slice(None), row[:, np.newaxis], column)
                np.add.at(of_images[batch], place, gradient * share * own)
        if desc.output_roi_gradient_tensor is not None:
            of_regions[number] = _gradient_of_corners(gradient, images[batch], rows, columns) * scales
    return {"output_gradient_tensor": of_images, "output_roi_gradient_tensor": of_regions.reshape(desc.roi_tensor.sizes)}


def _gradient_of_samples(desc: ROIAlignGradDesc, incoming: Array, image: Array | None, rows: Samples, columns: Samples) -> Array:
    """What each sample inside the image passes on, [channels, rows, columns]: its share of the mean, or all if it is the first largest.

    Where samples outside are larger than all others, being 0, nothing is passed on.
    """
    owners: Any = (slice(None), rows.owners[:, np.newaxis], columns.owners)
    total = np.float64(rows.per_output) * columns.per_output
    if desc.reduction_function is not ReduceFunction.MAX:
        shares: Array = incoming[owners] / incoming.dtype.type(total)
        return shares
    assert image is not None  # the check asks for it
    values = _interpolated(image, rows, columns)
    sizes = incoming.shape[1:]
    largest = _reduced(ReduceFunction.MAX, values, rows, columns, sizes, values.dtype.type(0))[owners]
    numbers = np.broadcast_to(np.arange(values[0].size).reshape(values.shape[1:]), values.shape)
    matches = (values == largest) | (np.isnan(values) & np.isnan(largest))
    first = np.full(incoming.shape, values[0].size)
    np.minimum.at(first, owners, np.where(matches, numbers, values[0].size))
    return np.where(numbers == first[owners], incoming[owners], np.zeros((), incoming.dtype))


def _gradient_of_corners(gradient: Array, image: Array, rows: Samples, columns: Samples) -> Array:
    """The gradient of a region's scaled corners: a sample moves with either of them by its distance from the other."""

    def at(row: Array, column: Array) -> Array:
        found: Array = image[:, row[:, np.newaxis], column]
        return found

    down, across = rows.shares.astype(image.dtype)[:, np.newaxis], columns.shares.astype(image.dtype)
    above, below = (at(row, columns.upper) - at(row, columns.lower) for row in (rows.lower, rows.upper))
    horizontal = np.where(columns.moving, above * (1 - down) + below * down, 0)
    before, behind = (at(rows.upper, column) - at(rows.lower, column) for column in (columns.lower, columns.upper))
    vertical = np.where(rows.moving[:, np.newaxis], before * (1 - across) + behind * across, 0)
    of_columns, of_rows = np.sum(gradient * horizontal, axis=(0, 1)), np.sum(gradient * vertical, axis=(0, 2))
    sums = [np.sum(of_columns * (1 - columns.fractions)), np.sum(of_rows * (1 - rows.fractions))]
    return np.array([*sums, np.sum(of_columns * columns.fractions), np.sum(of_rows * rows.fractions)])
