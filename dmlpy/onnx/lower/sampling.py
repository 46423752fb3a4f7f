"""GridSample: GATHER_ND1 of the elements around each place of the grid, weighed and added up."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.lower import lowers

if TYPE_CHECKING:
    from dmlpy.onnx.nodes import Node
    from dmlpy.x.expressions import Expression

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
_CUBIC = -0.75
"""The parameter of the cubic."""


@lowers("GridSample")
def grid_sample(node: Node) -> Expression:
    """GATHER_ND1 of 1, 2 or 4 elements along each dimension, and sums of their products with weights."""
    sizes, places = node.sizes(0), node.sizes(1)[1:-1]
    spatial, count = sizes[2:], prod(places)
    mode = _MODES.get(node.attribute("mode", "linear"))
    padding, align = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    if mode is None:
        raise node.unsupported("mode", *_MODES)
    if padding not in ("zeros", "border", "reflection"):
        raise node.unsupported("padding_mode", "zeros", "border", "reflection")
    grid = _wide(node.x(1)).reshape(sizes[0], count, len(spatial))
    data = node.x(0).reshape(*sizes[:2], prod(spatial)).transpose(0, 2, 1).packed()
    axes = []
    for axis, size in enumerate(spatial):
        own = grid[:, :, len(spatial) - 1 - axis].reshape(sizes[0], count, 1) + 1.0
        place = own * ((size - 1) / 2) if align else own * (size / 2) - 0.5
        place = x.round(place) if mode == "nearest" else place
        axes.append(_taps(_inside(place, size, padding, align), mode))
    total: Expression | None = None
    for taps in product(*axes):
        index: Expression | None = None
        weight: Expression | None = None
        for (place, factor), size in zip(taps, spatial, strict=True):
            kept = _inside(place, size, padding, align)
            if padding == "zeros":
                present = x.logical_equals(kept, x.clip(kept, min=0.0, max=size - 1.0), output_data_type="UINT8")
                own_factor = x.cast(present, output_data_type="FLOAT32")
                factor = own_factor if factor is None else x.multiply(factor, own_factor)
            step = x.cast(x.clip(kept, min=0.0, max=size - 1.0), output_data_type="UINT32")
            index = step if index is None else x.add(x.multiply(index, _number(step, size)), step)
            if factor is not None:
                weight = factor if weight is None else x.multiply(weight, factor)
        assert index is not None
        picked = x.gather_nd1(
            data, index.reshape(sizes[0], count, 1), input_dimension_count=3, indices_dimension_count=3, batch_dimension_count=1
        )
        found = _wide(picked)
        found = found if weight is None else x.multiply(found, weight)
        total = found if total is None else x.add(total, found)
    assert total is not None
    return total.transpose(0, 2, 1).reshape(*sizes[:2], *places)


def _inside(place: Expression, size: int, padding: str, align: bool) -> Expression:
    """Places as the padding moves them: to the border, or mirrored at it; with zeros they stay."""
    if padding == "border":
        return x.clip(place, min=0.0, max=size - 1.0)
    if padding == "zeros":
        return place
    first, length = (0.0, size - 1.0) if align else (-0.5, float(size))
    if not length:
        return x.clip(place, min=0.0, max=0.0)
    folded = x.modulus_floor(x.abs(place - first), _number(place, 2 * length))
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


def _number(like: Expression, value: float) -> Expression:
    return x.fill_value_constant(value_data_type=like.data_type, value=value, output_sizes=[1] * len(like.sizes))


def _wide(tensor: Expression) -> Expression:
    return tensor if tensor.data_type.name == "FLOAT32" else x.cast(tensor, output_data_type="FLOAT32")
