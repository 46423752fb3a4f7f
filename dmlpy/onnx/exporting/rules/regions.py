"""Poolings of regions of interest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.description.enums import InterpolationMode, ReduceFunction
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_ANY = 2**16
"""The most samples of an output element; no image needs more."""


@exports("ROI_ALIGN", "ROI_ALIGN1", wide=True)
def roi_align(node: Node) -> Value:
    """RoiAlign with half-pixel offsets: other offsets shift the regions, and the value outside the image is added by its weight."""
    desc, outputs = node.desc, node.sizes("output_tensor")[2:]
    fewest, most = desc.minimum_samples_per_output, desc.maximum_samples_per_output
    fixed = max(fewest, 1) == max(most, 1)
    before, after = getattr(desc, "input_pixel_offset", 0.5), getattr(desc, "output_pixel_offset", -0.5)
    aligned = getattr(desc, "align_regions_to_corners", False)
    for field, value, holds, expected in (
        ("reduction_function", desc.reduction_function, desc.reduction_function is ReduceFunction.AVERAGE,
         "AVERAGE: RoiAlign's max is the largest of the weighted pixels, not of the samples"),
        ("interpolation_mode", desc.interpolation_mode, desc.interpolation_mode is InterpolationMode.LINEAR,
         "LINEAR: RoiAlign reads between pixels"),
        ("maximum_samples_per_output", most, fixed or (fewest <= 1 and most >= _ANY),
         f"minimum_samples_per_output, or a least of 1 and at least {_ANY}: RoiAlign has no bounds"),
        ("output_pixel_offset", after, fixed or aligned or after == -0.5, "-0.5 where the regions tell the number of samples"),
        ("align_regions_to_corners", aligned, fixed or not aligned, "False where the regions tell the number of samples"),
    ):  # fmt: skip
        if not holds:
            raise node.rejection(field, value, expected)
    samples = max(fewest, 1) if fixed else 0
    *_, count, _ = node.sizes("roi_tensor")
    regions = node.x("roi_tensor").reshape([count, 4])
    scales = np.array([desc.spatial_scale_x, desc.spatial_scale_y] * 2, dtype_of(regions.element))
    regions = regions * node.writer.constant(scales)
    if (before, after, aligned) != (0.5, -0.5, False):
        regions = _move(node, regions, [size * max(samples, 1) for size in outputs], before, after, aligned=aligned)
    batches = node.vector("batch_indices_tensor").cast(TensorProto.INT64).at_most(node.sizes("input_tensor")[0] - 1)

    def aligned_to(x: Value) -> Value:
        return x.apply(
            "RoiAlign",
            regions,
            batches,
            mode="avg",
            coordinate_transformation_mode="half_pixel",
            output_height=outputs[0],
            output_width=outputs[1],
            sampling_ratio=samples,
            spatial_scale=1.0,
        )

    x = node.x("input_tensor")
    pooled = aligned_to(x)
    outside = node.number("out_of_bounds_input_value")
    if outside == 0:
        return pooled
    batch, _, height, width = node.sizes("input_tensor")
    inside = aligned_to(node.writer.constant(np.ones((batch, 1, height, width), dtype_of(x.element))))
    return pooled + (1.0 - inside) * outside


def _move(node: Node, regions: Value, samples: list[int], before: float, after: float, *, aligned: bool) -> Value:
    """Shifts regions so that half-pixel sampling reads the positions that the desc's offsets define.

    Sample s of n lies at (s - shift) * extent / divisor + start - before, and in RoiAlign at (s + 0.5) * extent / n + start - 0.5.
    """
    height, width = samples
    counts = np.array([width, height], np.float64)
    alone = counts == 1
    shift = np.where(alone, -0.5, 0.0) if aligned else np.full(2, after)
    divisor = np.where(alone, 1.0, counts - 1) if aligned else counts
    start, end = regions.part([0], [2], [1]), regions.part([2], [4], [1])

    def constant(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Value:
        return node.writer.constant(numbers.astype(dtype_of(regions.element)))

    step = (end - start) / constant(divisor)
    first = start - step * constant(shift + 0.5) + (0.5 - before)
    return node.add("Concat", first, first + step * constant(counts), axis=1)


@exports("ROI_POOLING")
def roi_pooling(node: Node) -> Value:
    """MaxRoiPool."""
    *_, count, _ = node.sizes("roi_tensor")
    pooled = [node.desc.pooled_size.height, node.desc.pooled_size.width]
    regions = node.x("roi_tensor").reshape([count, 5])
    # Batch indices are rounded and clamped, which ONNX does not define.
    batches = (regions.part([0], [1], [1]) + 0.5).apply("Floor").at_least(0).at_most(node.sizes("input_tensor")[0] - 1)
    regions = node.add("Concat", batches, regions.part([1], [5], [1]), axis=1)
    return node.x("input_tensor").apply("MaxRoiPool", regions, pooled_shape=pooled, spatial_scale=node.desc.spatial_scale)
