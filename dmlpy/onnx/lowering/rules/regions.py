"""Regions of interest: averages and maxima of samples within boxes."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import number
from dmlpy.onnx.lowering.rules.sampling import as_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_ROUNDING = 2.0**-22
"""More than adding 1 to a place in FLOAT rounds by, relative to the place."""
_FLOAT64_ROUNDING = 2.0**-51
"""The same in FLOAT64."""
_MOST_SAMPLES = (1 << 32) - 1
"""No limit: an output has as many samples as its part of the region has pixels."""


@lowers("RoiAlign")
def region(node: Node) -> Expression:
    """ROI_ALIGN1 of averages. Maxima are those of single pixels by their weights, which DirectML does not have: GATHER_ND1 and REDUCE."""
    mode = node.attribute("mode", "avg")
    if mode not in ("avg", "max"):
        raise node.invalid("mode", "'avg'", "'max'")
    # Before opset 16 boxes were not moved by half a pixel.
    moved = node.attribute("coordinate_transformation_mode", "output_half_pixel" if node.opset < 16 else "half_pixel") == "half_pixel"
    if mode == "max":
        return _largest(node, moved=moved)
    samples = node.attribute("sampling_ratio", 0)
    count, sizes = node.sizes(1)[0], node.sizes(0)
    height, width = node.attribute("output_height", 1), node.attribute("output_width", 1)
    scale = node.attribute("spatial_scale", 1.0)
    boxes = node.x(1)
    if not moved:
        boxes, scale = _widen(node), 1.0
    aligned = x.roi_align1(
        node.x(0),
        boxes.with_leading_ones(4),
        x.cast(node.x(2), output_data_type="UINT32").with_leading_ones(4),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        spatial_scale_x=scale,
        spatial_scale_y=scale,
        input_pixel_offset=0.5 if moved else 0.0,
        output_pixel_offset=-0.5,
        minimum_samples_per_output=samples or 1,
        maximum_samples_per_output=samples or _MOST_SAMPLES,
        align_regions_to_corners=False,
        output_sizes=[count, sizes[1], height, width],
    )
    if samples or not moved:
        return aligned
    corners = boxes.with_leading_ones(4)
    sides = corners[:, :, :, 2:] - corners[:, :, :, :2]
    empty = x.logical_less_than_or_equal(x.reduce(sides, function="MIN", axes=[3]), number(sides, 0.0), output_data_type="UINT8")
    return x.if_(empty.reshape(count, 1, 1, 1), number(aligned, 0.0), aligned)  # no sample, while DirectML takes one


def _widen(node: Node) -> Expression:
    """Boxes in the image's pixels, at least one pixel wide and high: by a last bit less, so that one sample does not become two."""
    boxes = as_float32(node.x(1).with_leading_ones(4)) * node.attribute("spatial_scale", 1.0)
    start, end = boxes[:, :, :, :2], boxes[:, :, :, 2:]
    rounding = _FLOAT64_ROUNDING if node.wide else _ROUNDING
    widened = x.join([start, x.max(end, start + 1.0 - x.abs(start) * rounding)], axis=3)
    return widened if node.data_type(1) is widened.data_type else x.cast(widened, output_data_type=node.data_type(1))


def _largest(node: Node, *, moved: bool) -> Expression:
    """The largest product of a pixel and its weight among all samples of each output."""
    count, (batch, channels, *spatial) = node.sizes(1)[0], node.sizes(0)
    outputs = [node.attribute("output_height", 1), node.attribute("output_width", 1)]
    places, present = _sample(node, outputs, moved=moved)
    axes = [_corners(axis_places, size) for axis_places, size in zip(places, spatial, strict=True)]
    first, second = (axis_places.sizes[-1] for axis_places in places)
    data = node.x(0).reshape(batch, channels, prod(spatial)).transpose(0, 2, 1).packed()
    images = x.cast(node.x(2), output_data_type="UINT32").reshape(count, 1, 1).broadcast(count, first, second)
    largest: Expression | None = None
    for (row, above), (column, left) in product(*axes):
        # Pixel indices are integers: FLOAT32 could not represent those of large images exactly.
        whole, part = (
            x.cast(tensor, output_data_type="UINT32") for tensor in (row.reshape(count, first, 1), column.reshape(count, 1, second))
        )
        place = x.add(x.multiply(whole, number(whole, spatial[1])), part)
        tuples = x.join([tensor.reshape(1, count, first * second, 1) for tensor in (images, place)], axis=3)
        picked = x.gather_nd(
            data.with_leading_ones(4), tuples.reshape(1, 1, count * first * second, 2), input_dimension_count=3, indices_dimension_count=2
        )
        weight = x.multiply(above.reshape(count, first, 1), left.reshape(count, 1, second)).reshape(count * first * second, 1)
        result = x.multiply(as_float32(picked).reshape(-1, channels), weight)
        largest = result if largest is None else x.max(largest, result)
    assert largest is not None
    parts = largest.reshape(count, outputs[0], first // outputs[0], outputs[1], second // outputs[1], channels)
    result = x.reduce(parts, function="MAX", axes=[2, 4]).reshape(count, *outputs, channels).transpose(0, 3, 1, 2)
    if present is not None:
        result = x.if_(node.constant("present", present).reshape(count, 1, 1, 1), result, number(result, 0.0))
    return result


def _sample(node: Node, outputs: Sequence[int], *, moved: bool) -> tuple[list[Expression], Array | None]:
    """The places of the samples of each box along both dimensions, [boxes, outputs * samples], and which boxes have any: None for all.

    Without a `sampling_ratio` the size of a box determines how many it has: then boxes must be known, and those with fewer samples than
    the largest repeat their last one, which does not change the maximum.
    """
    samples, scale = node.attribute("sampling_ratio", 0), node.attribute("spatial_scale", 1.0)
    offset, least, count = (0.5, -np.inf, node.sizes(1)[0]) if moved else (0.0, 1.0, node.sizes(1)[0])
    coordinates: list[Expression] = []
    if samples > 0:
        boxes = as_float32(node.x(1)) * scale - offset
        for axis, places in enumerate(outputs):
            start, end = boxes[:, 1 - axis].reshape(count, 1), boxes[:, 3 - axis].reshape(count, 1)
            length = end - start if moved else x.max(end - start, number(end, least))
            node.reserve_elements(places, samples)
            steps = (np.arange(places * samples) + 0.5) / (places * samples)
            coordinates.append(x.add(start, x.multiply(length, node.constant(f"steps{axis}", steps).reshape(1, -1))))
        return coordinates, None
    dtype = np.dtype(np.float64 if node.wide else np.float32)
    known = node.array(1).astype(dtype) * dtype.type(scale) - dtype.type(offset)
    present = np.ones(count, np.uint8)
    for axis, places in enumerate(outputs):
        start, step = known[:, 1 - axis], np.maximum(known[:, 3 - axis] - known[:, 1 - axis], least).astype(dtype) / places
        counts = np.ceil(step).astype(np.int64)
        present[counts < 1] = 0
        counts = counts.clip(1)[:, None]
        node.reserve_elements(count, places, int(counts.max()))
        parts = (np.minimum(np.arange(counts.max()), counts - 1) + 0.5) / counts
        whole = start[:, None, None] + step[:, None, None] * (np.arange(places)[:, None] + parts[:, None, :])
        coordinates.append(node.constant(f"places{axis}", whole.reshape(count, -1)))
    return coordinates, None if present.all() else present


def _corners(place: Expression, size: int) -> list[tuple[Expression, Expression]]:
    """The two elements around places along one dimension, with their weights: no weight to what is more than 1 outside."""
    inside = x.logical_and(
        x.logical_greater_than_or_equal(place, number(place, -1.0), output_data_type="UINT8"),
        x.logical_less_than_or_equal(place, number(place, float(size)), output_data_type="UINT8"),
    )
    kept = x.cast(inside, output_data_type="FLOAT32")
    within = x.clip(place, min=0.0, max=size - 1.0)
    before = x.floor(within)
    ratio = within - before
    after = x.clip(before + 1.0, min=0.0, max=size - 1.0)
    return [(before, x.multiply(kept, 1.0 - ratio)), (after, x.multiply(kept, ratio))]
