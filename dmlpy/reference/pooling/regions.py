"""The definitions of the poolings of regions of interest, on whole arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import InterpolationMode, ReduceFunction
from dmlpy.operators.pooling.roi import ForwardRegionsDesc, PlacedRegionsDesc, ROIAlignGradDesc, ROIPoolingDesc
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.operators.pooling.roi import RegionsDesc


_FARTHEST = 2**31
"""Coordinates beyond it lie outside every image."""


@defines(ROIPoolingDesc)
def roi_pooling(desc: ROIPoolingDesc, inputs: Inputs) -> Array:
    """The maximum of each part of each region; 0 where a part has no pixel of the image."""
    images, regions = inputs["input_tensor"], inputs["roi_tensor"].reshape(-1, 5)
    height, width = images.shape[2:]
    batches = _whole(regions[:, 0]).clip(0, len(images) - 1)
    sizes = desc.pooled_size.height, desc.pooled_size.width
    result = np.zeros((len(regions), *sizes, images.shape[1]), images.dtype)
    # A pixel's channels are adjacent here: long rows of numbers are compared at a time.
    pixels = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    for region, (left, top, right, bottom) in enumerate(_whole(regions[:, 1:] * desc.spatial_scale).tolist()):
        columns = [*_parts(left, right, sizes[1], width)]
        first, end = columns[0].start, columns[-1].stop
        for row, part in enumerate(_parts(top, bottom, sizes[0], height)):
            if part.start < part.stop and first < end:
                line = pixels[batches[region], part, first:end].max(axis=0)
                for column, span in enumerate(columns):
                    if span.start < span.stop:
                        line[span.start - first : span.stop - first].max(axis=0, out=result[region, row, column])
    return result.transpose(0, 3, 1, 2)


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
    """The samples of regions along one axis, [regions, samples].

    Attributes:
        owners: the output element of each, the same in all regions.
        lower: the pixel before each, or nearest to it.
        upper: the pixel after it.
        shares: how much the upper pixel counts; the lower one counts for the rest.
        inside: which ones are inside the image or, as in ONNX, no more than a pixel off it. The others are not samples of the image.
        moving: whether what is read changes with the place: not of nearest pixels, nor off the outermost ones.
        fractions: where each lies between the corners of the region, from 0 to 1.
        per_output: how many samples an output element has.
        complete: whether all samples are here, in order; otherwise those missing are outside.
    """

    owners: Array
    lower: Array
    upper: Array
    shares: Array
    inside: Array
    moving: Array
    fractions: Array
    per_output: int
    complete: bool

    @classmethod
    def of(cls, desc: RegionsDesc, corners: Array, outputs: int, size: int) -> Samples:
        """Places them.

        Args:
            desc: a checked desc.
            corners: of regions with the same number of samples along the axis, scaled: [regions, 2].
            outputs: output elements.
            size: of the image.
        """
        start, extent = corners[:, :1], corners[:, 1:] - corners[:, :1]
        per_output = _sample_count(desc, float(extent[0, 0]), outputs)
        numbers, places, fractions = _placed(desc, start, extent, outputs * per_output, size)
        inside = (places >= -1) & (places <= size)  # NaN is not
        places = np.where(inside, places, 0)
        if desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
            lower = upper = np.clip(np.ceil(places - 0.5), 0, size - 1).astype(np.int64)
            shares, moving = np.zeros(places.shape), np.zeros(places.shape, bool)
        else:
            moving = (places >= 0) & (places < size - 1)
            places = np.clip(places, 0, size - 1)
            lower = np.floor(places).astype(np.int64)
            upper, shares = np.minimum(lower + 1, size - 1), places - lower
        complete = len(numbers) == outputs * per_output
        return cls(numbers // per_output, lower, upper, shares, inside, moving, fractions, per_output, complete)

    def of_region(self) -> Samples:
        """The samples of the only region that are inside the image, in vectors."""
        (kept,) = self.inside
        names = ("lower", "upper", "shares", "inside", "moving", "fractions")
        arrays: dict[str, Any] = {name: getattr(self, name)[0, kept] for name in names}
        return replace(self, owners=self.owners[kept], **arrays, complete=False)


def _sample_count(desc: RegionsDesc, extent: float, outputs: int) -> int:
    """Samples of an output element along an axis: one for each pixel, within the bounds, and no less than one."""
    least, most = max(desc.minimum_samples_per_output, 1), max(desc.maximum_samples_per_output, 1)
    pixels = abs(extent) / outputs
    if pixels != pixels:
        return least
    return min(max(ceil(min(pixels, most)), least), most)


_MOST_PLACED = 1 << 10
"""Samples of a region along an axis that are all placed; of more only those near the image, which may be few of very many."""


def _placed(desc: RegionsDesc, start: Array, extent: Array, count: int, size: int) -> tuple[Array, Array, Array]:
    """The samples' values; those outside the image may be left out if they are many. There is one region then.

    Returns:
        Their numbers, their coordinates, and where they lie between the corners, from 0 to 1.
    """
    aligned = isinstance(desc, PlacedRegionsDesc) and desc.align_regions_to_corners
    before, after = (desc.input_pixel_offset, desc.output_pixel_offset) if isinstance(desc, PlacedRegionsDesc) else (0.5, -0.5)
    # Aligned to the corners, the only sample is in the middle.
    shift, divisor = ((0.0, count - 1) if count > 1 else (-0.5, 1)) if aligned else (after, count)
    first, end = 0, count
    if count > _MOST_PLACED:
        step, origin = float(extent[0, 0]) / divisor, float(start[0, 0])
        if not isfinite(step) or not isfinite(origin):
            end = 0
        elif step:
            ends = sorted((place + before - origin) / step + shift for place in (-1, size))
            first, end = (min(max(bound, 0), count) for bound in (floor(ends[0]) - 1, ceil(ends[1]) + 2))
    numbers = np.arange(first, end)
    # The product comes first: of whole numbers it is exact, which the rounding to a nearest pixel needs.
    places = (numbers - shift) * extent / divisor + start - before
    return numbers, places, np.broadcast_to((numbers - shift) / divisor, places.shape)


_MOST_VALUES = 1 << 20
"""Values of samples that are computed at a time."""


@defines(ForwardRegionsDesc)
def _align_regions(desc: ForwardRegionsDesc, inputs: Inputs) -> Array:
    images: Array = inputs["input_tensor"]
    batches = np.minimum(inputs["batch_indices_tensor"].reshape(-1), len(images) - 1).astype(np.int64)
    regions = inputs["roi_tensor"].reshape(-1, 4).astype(np.float64) * _spatial_scales(desc)
    sizes, outside = desc.output_tensor.sizes[2:], images.dtype.type(desc.out_of_bounds_input_value)
    result = np.empty((len(regions), images.shape[1], *sizes), images.dtype)
    # A pixel's channels are adjacent here: they are read together.
    pixels = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    for numbers in _alike(desc, regions, sizes, images.shape[1]):
        rows = Samples.of(desc, regions[numbers][:, 1::2], sizes[0], images.shape[2])
        columns = Samples.of(desc, regions[numbers][:, ::2], sizes[1], images.shape[3])
        values = _interpolated(pixels, batches[numbers], rows, columns)
        result[numbers] = _reduced(desc.reduction_function, values, rows, columns, sizes, outside).transpose(0, 3, 1, 2)
    return result


def _alike(desc: RegionsDesc, regions: Array, sizes: Sequence[int], channels: int) -> Iterator[Array]:
    """The numbers of regions that have as many samples along both axes, some at a time: one where they are many."""
    extents = regions[:, [3, 2]] - regions[:, [1, 0]]
    groups: dict[tuple[int, int], list[int]] = {}
    for number, (height, width) in enumerate(extents.tolist()):
        counts = _sample_count(desc, height, sizes[0]), _sample_count(desc, width, sizes[1])
        groups.setdefault(counts, []).append(number)
    for counts, numbers in groups.items():
        samples = [size * count for size, count in zip(sizes, counts, strict=True)]
        step = 1 if max(samples) > _MOST_PLACED else max(1, _MOST_VALUES // (prod(samples) * channels))
        for first in range(0, len(numbers), step):
            yield np.array(numbers[first : first + step])


def _spatial_scales(desc: RegionsDesc) -> Array:
    """The factor of each of a region's corners."""
    return np.array([desc.spatial_scale_x, desc.spatial_scale_y] * 2)


def _interpolated(pixels: Array, batches: Array, rows: Samples, columns: Samples) -> Array:
    """The images at each sample, [regions, rows, columns, channels].

    Args:
        pixels: the images, [batch, height, width, channels].
        batches: the image of each region.
        rows: the samples along the height.
        columns: those along the width.
    """
    _, height, width, channels = pixels.shape
    flat = pixels.reshape(-1, channels)

    def along(row: Array) -> Array:
        lines = (batches[:, np.newaxis] * height + row)[:, :, np.newaxis] * width
        left: Array
        right: Array
        left, right = (flat.take(lines + column[:, np.newaxis], axis=0) for column in (columns.lower, columns.upper))
        return _blended(left, right, across)

    across = columns.shares.astype(pixels.dtype)[:, np.newaxis, :, np.newaxis]
    down = rows.shares.astype(pixels.dtype)[:, :, np.newaxis, np.newaxis]
    return _blended(along(rows.lower), along(rows.upper), down)


def _blended(first: Array, second: Array, shares: Array) -> Array:
    """Both by their shares, in the memory of the first. The second counts for nothing where it has no share, even if it is infinite."""
    first *= 1 - shares
    second *= shares
    np.copyto(second, 0, where=shares == 0)
    first += second
    return first


def _reduced(function: ReduceFunction, values: Array, rows: Samples, columns: Samples, sizes: Any, outside: Any) -> Array:
    """The mean or the maximum of the samples of each output element, [regions, *sizes, channels].

    Those outside the image have one value.
    """
    total, largest = np.float64(rows.per_output) * columns.per_output, function is ReduceFunction.MAX
    inside = rows.inside[:, :, np.newaxis] & columns.inside[:, np.newaxis]
    if not inside.all():
        values[~inside] = -np.inf if largest else 0
    counts = _of_outputs(np.add, inside.astype(np.int64)[..., np.newaxis], rows, columns, sizes)
    others = total - counts
    reduced = _of_outputs(np.maximum if largest else np.add, values, rows, columns, sizes)
    if largest:
        return np.where(others > 0, np.maximum(reduced, outside), reduced)
    if others.any():
        reduced += np.where(others > 0, others.astype(values.dtype) * outside, np.zeros((), values.dtype))
    reduced /= values.dtype.type(total)
    return reduced


def _of_outputs(function: np.ufunc, values: Array, rows: Samples, columns: Samples, sizes: Any) -> Array:
    """The sums or maxima over the samples of each output element, [regions, *sizes, channels]."""
    if rows.complete and columns.complete:
        parts = values.reshape(len(values), sizes[0], rows.per_output, sizes[1], columns.per_output, values.shape[-1])
        result: Array = function.reduce(function.reduce(parts, axis=4), axis=2)
        return result
    least = 0 if function is np.add else -np.inf
    result = np.full((len(values), *sizes, values.shape[-1]), least, values.dtype)
    place: Any = (slice(None), rows.owners[:, np.newaxis], columns.owners)
    function.at(result, place, values)
    return result


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
        rows = Samples.of(desc, np.array([[top, bottom]]), incoming.shape[2], described.sizes[2]).of_region()
        columns = Samples.of(desc, np.array([[left, right]]), incoming.shape[3], described.sizes[3]).of_region()
        image = None if images is None else images[batch]
        gradient = _gradient_of_samples(desc, incoming[number], image, rows, columns)
        down, across = rows.shares.astype(gradient.dtype)[:, np.newaxis], columns.shares.astype(gradient.dtype)
        for row, share in ((rows.lower, 1 - down), (rows.upper, down)):
            for column, part in ((columns.lower, 1 - across), (columns.upper, across)):
                place: Any = (slice(None), row[:, np.newaxis], column)
                np.add.at(
                    of_images[batch],
                    place,
                    np.where((share == 0) | (part == 0), gradient.dtype.type(0), gradient * share * part),
                )
        if desc.output_roi_gradient_tensor is not None:
            of_regions[number] = _gradient_of_corners(gradient, images[batch], rows, columns) * scales
    return {"output_gradient_tensor": of_images, "output_roi_gradient_tensor": of_regions.reshape(desc.roi_tensor.sizes)}


def _gradient_of_samples(desc: ROIAlignGradDesc, incoming: Array, image: Array | None, rows: Samples, columns: Samples) -> Array:
    """The gradient of each sample inside the image, [channels, rows, columns]: its share of the mean, or all if it is the first largest.

    Where samples outside are larger than all others, being 0, nothing is passed on.
    """
    owners: Any = (slice(None), rows.owners[:, np.newaxis], columns.owners)
    total = np.float64(rows.per_output) * columns.per_output
    if desc.reduction_function is not ReduceFunction.MAX:
        shares: Array = incoming[owners] / incoming.dtype.type(total)
        return shares
    assert image is not None  # the check asks for it
    values = _values(image, rows, columns)
    numbers = np.broadcast_to(np.arange(values[0].size).reshape(values.shape[1:]), values.shape)
    largest = np.full(incoming.shape, -np.inf, values.dtype)
    np.maximum.at(largest, owners, values)
    counts = np.bincount(rows.owners, minlength=incoming.shape[1])[:, np.newaxis] * np.bincount(columns.owners, minlength=incoming.shape[2])
    largest = np.where(total > counts, np.maximum(largest, 0), largest)[owners]
    matches = (values == largest) | (np.isnan(values) & np.isnan(largest))
    first = np.full(incoming.shape, values[0].size)
    np.minimum.at(first, owners, np.where(matches, numbers, values[0].size))
    return np.where(numbers == first[owners], incoming[owners], np.zeros((), incoming.dtype))


def _values(image: Array, rows: Samples, columns: Samples) -> Array:
    """An image at each sample of a region, [channels, rows, columns]."""
    one, other = (
        replace(axis, lower=axis.lower[np.newaxis], upper=axis.upper[np.newaxis], shares=axis.shares[np.newaxis])
        for axis in (rows, columns)
    )
    pixels = np.ascontiguousarray(image.transpose(1, 2, 0)[np.newaxis])
    values: Array = _interpolated(pixels, np.zeros(1, np.int64), one, other)[0]
    return values.transpose(2, 0, 1)


def _gradient_of_corners(gradient: Array, image: Array, rows: Samples, columns: Samples) -> Array:
    """The gradient of a region's scaled corners: a sample moves with either of them by its distance from the other."""

    def at(row: Array, column: Array) -> Array:
        corner: Array = image[:, row[:, np.newaxis], column]
        return corner

    down, across = rows.shares.astype(image.dtype)[:, np.newaxis], columns.shares.astype(image.dtype)
    above, below = (at(row, columns.upper) - at(row, columns.lower) for row in (rows.lower, rows.upper))
    horizontal = np.where(columns.moving, above * (1 - down) + below * down, 0)
    before, behind = (at(rows.upper, column) - at(rows.lower, column) for column in (columns.lower, columns.upper))
    vertical = np.where(rows.moving[:, np.newaxis], before * (1 - across) + behind * across, 0)
    of_columns, of_rows = np.sum(gradient * horizontal, axis=(0, 1)), np.sum(gradient * vertical, axis=(0, 2))
    sums = [np.sum(of_columns * (1 - columns.fractions)), np.sum(of_rows * (1 - rows.fractions))]
    return np.array([*sums, np.sum(of_columns * columns.fractions), np.sum(of_rows * rows.fractions)])
