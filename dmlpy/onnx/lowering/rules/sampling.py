"""GridSample and DeformConv: GATHER_ND1 of the elements around each place, weighed and added up; AffineGrid, which makes places."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import number
from dmlpy.onnx.nodes.windows import compute_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
_CUBIC = -0.75
"""The parameter of the cubic."""


@lowers("GridSample")
def grid_sample(node: Node) -> Expression:
    """GATHER_ND1 of 1, 2 or 4 elements along each dimension, and sums of their products with weights."""
    sizes, places = node.sizes(0), node.sizes(1)[1:-1]
    spatial, count = sizes[2:], prod(places)
    mode = _MODES[node.attribute("mode")]
    padding, align = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    grid = as_float32(node.x(1)).reshape(sizes[0], count, len(spatial))
    data = node.x(0).reshape(*sizes[:2], prod(spatial)).transpose(0, 2, 1).packed()
    axes = []
    for axis, size in enumerate(spatial):
        coordinate = grid[:, :, len(spatial) - 1 - axis].reshape(sizes[0], count, 1) + 1.0
        place = coordinate * ((size - 1) / 2) if align else coordinate * (size / 2) - 0.5
        place = x.round(place) if mode == "nearest" else place
        # A cubic looks at the border's elements by where the place is, not by where the border is.
        stays = mode == "cubic" and padding == "border"
        axes.append(_taps(place if stays else _inside(place, size, padding, align), mode))
    return _sample(data, axes, spatial, padding, align).transpose(0, 2, 1).reshape(*sizes[:2], *places)


@lowers("AffineGrid")
def affine_grid(node: Node) -> Expression:
    """GEMM of the matrices with the places of an image's elements. ONNX's own definition fails for one matrix, and for one element."""
    spatial = [int(size) for size in np.ravel(node.array(1))[2:]]
    align, rank = bool(node.attribute("align_corners", 0)), len(spatial)
    node.reserve_elements(rank + 1, prod(spatial))
    along = [_places(size, align) for size in spatial]
    grid = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(spatial)]).reshape(rank + 1, -1)
    rows = node.x(0).reshape(node.sizes(0)[0] * rank, rank + 1) @ node.constant("places", grid, node.data_type(0))
    return rows.reshape(node.sizes(0)[0], rank, *spatial).transpose(0, *range(2, 2 + rank), 1)


def _places(size: int, align: bool) -> Array:
    """The coordinates of a dimension's elements, -1 to 1. If corners are aligned, a single element lies at 1, as in ONNX Runtime."""
    if align:
        return np.linspace(-1, 1, size) if size > 1 else np.ones(1)
    return (2 * np.arange(size) + 1) / size - 1


@lowers("DeformConv")
def lower_deformable_convolution(node: Node) -> Expression:
    """GATHER_ND1 of the elements around each place that an element of the kernel is moved to, and GEMM of them with the kernel."""
    (batch, channels, *spatial), (outer, inner, *kernel) = node.sizes(0), node.sizes(1)
    groups, offset_groups = node.attribute("group", 1), node.attribute("offset_group", 1)
    whole = compute_windows(node, spatial, node.attribute("kernel_shape") or kernel)
    windows = whole.axes[whole.added :]
    places, taps, rank = [window.positions for window in windows], prod(kernel), len(spatial)
    rows, count = batch * offset_groups, taps * prod(places)
    moves = as_float32(node.x(2)).reshape(rows, taps, rank, prod(places))
    data = node.x(0).reshape(rows, channels // offset_groups, prod(spatial)).transpose(0, 2, 1).packed()
    node.reserve_elements(rank, count)
    axes = []
    for axis, window in enumerate(windows):
        # Where each element of the kernel lies at each position if nothing moves it.
        inside = np.arange(window.length) * window.dilation - window.start
        starts = np.arange(window.positions) * window.stride
        of_taps = inside.reshape(-1, *[1] * (rank - 1 - axis)) + np.zeros(kernel)
        along = starts.reshape(-1, *[1] * (rank - 1 - axis)) + np.zeros(places)
        still = node.constant(f"places{axis}", np.add.outer(of_taps.ravel(), along.ravel()))
        place = x.add(moves[:, :, axis].reshape(rows, taps, prod(places)), still.reshape(1, taps, prod(places)))
        axes.append(_taps(place.reshape(rows, count, 1), "linear"))
    sampled = _sample(data, axes, spatial, "zeros", align=True)
    if node.has(4):
        sampled = x.multiply(sampled, as_float32(node.x(4)).reshape(rows, count, 1))
    columns = sampled.transpose(0, 2, 1).reshape(batch, groups, inner * taps, prod(places))
    if columns.data_type is not node.data_type(0):
        columns = x.cast(columns, output_data_type=node.data_type(0))
    weights = node.x(1).reshape(1, groups, outer // groups, inner * taps)
    result = (weights @ columns).reshape(batch, outer, prod(places))
    if node.has(3):
        result = x.add(result, node.x(3).reshape(1, outer, 1))
    return result.reshape(batch, outer, *places)


def _sample(
    data: Expression, axes: Sequence[Sequence[tuple[Expression, Expression | None]]], spatial: Sequence[int], padding: str, align: bool
) -> Expression:
    """Sums of the elements around places, by their weights.

    Args:
        data: [rows, elements of the spatial dimensions, channels].
        axes: for each spatial dimension, the elements around the places as [rows, places, 1], with their weights.
        spatial: the spatial sizes.
        padding: what is outside: `zeros`, `border` or `reflection`.
        align: whether reflection is about the centers of the outermost elements.

    Returns:
        FLOAT32 [rows, places, channels].
    """
    kept = [[_index(place, factor, size, padding, align) for place, factor in taps] for taps, size in zip(axes, spatial, strict=True)]
    total: Expression | None = None
    for taps in product(*kept):
        index: Expression | None = None
        weight: Expression | None = None
        for (step, factor), size in zip(taps, spatial, strict=True):
            index = step if index is None else x.add(x.multiply(index, number(step, size)), step)
            if factor is not None:
                weight = factor if weight is None else x.multiply(weight, factor)
        assert index is not None
        picked = x.gather_nd1(data, index, input_dimension_count=3, indices_dimension_count=3, batch_dimension_count=1)
        corner = as_float32(picked)
        corner = corner if weight is None else x.multiply(corner, weight)
        total = corner if total is None else x.add(total, corner)
    assert total is not None
    return total


def _index(place: Expression, factor: Expression | None, size: int, padding: str, align: bool) -> tuple[Expression, Expression | None]:
    """The indices of places along a dimension, and their weights, which are 0 outside where that counts as 0."""
    kept = _inside(place, size, padding, align)
    clipped = x.clip(kept, min=0.0, max=size - 1.0)
    if padding == "zeros":
        own_factor = x.cast(x.logical_equals(kept, clipped, output_data_type="UINT8"), output_data_type="FLOAT32")
        factor = own_factor if factor is None else x.multiply(factor, own_factor)
    return x.cast(clipped, output_data_type="UINT32"), factor


def _inside(place: Expression, size: int, padding: str, align: bool) -> Expression:
    """Places as the padding moves them: to the border, or mirrored at it; with zeros they stay."""
    if padding == "border":
        return x.clip(place, min=0.0, max=size - 1.0)
    if padding == "zeros":
        return place
    first, length = (0.0, size - 1.0) if align else (-0.5, size * 1.0)
    if not length:
        return x.clip(place, min=0.0, max=0.0)
    folded = x.modulus_floor(x.abs(place - first), number(place, 2 * length))
    return x.min(folded, 2 * length - folded) + first


def _taps(place: Expression, mode: str) -> list[tuple[Expression, Expression | None]]:
    """The elements around places along one dimension, with their weights."""
    if mode == "nearest":
        return [(place, None)]
    before = x.floor(place)
    ratio = x.subtract(place, before)
    if mode == "linear":
        return [(before, 1.0 - ratio), (before + 1.0, ratio)]
    return [(before + float(step), _cubic(x.abs(ratio - float(step)), near=step in (0, 1))) for step in (-1, 0, 1, 2)]


def _cubic(distance: Expression, *, near: bool) -> Expression:
    """The weight of an element by its distance: at most 1 where `near`, else 1 to 2."""
    a = _CUBIC
    if near:
        return x.multiply(x.multiply(distance * (a + 2) - (a + 3), distance), distance) + 1.0
    return x.multiply(x.multiply(distance - 5.0, distance) + 8.0, distance) * a - 4 * a


def as_float32(tensor: Expression) -> Expression:
    """The tensor as FLOAT32: places are computed so, whatever the elements are."""
    return tensor if tensor.data_type.name == "FLOAT32" else x.cast(tensor, output_data_type="FLOAT32")
