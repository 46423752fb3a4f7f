"""Resize and Upsample: ONNX's rules, the sizes that they give, and the scales that these come to; symbolic sizes as formulas of them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.symbolic_sizes import applied, example_size, is_close, is_symbolic
from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.nodes.node import NotLowered, unknown_sizes_problem
from dmlpy.onnx.nodes.ranks import are_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.onnx.nodes.node import Node

_EXACT = 1 << 20
"""Products below it, of sizes and of the numerators of scales, and ratios of these are the same with and without FLOAT's rounding."""


def resized(node: Node) -> tuple[list[int], list[float | None]]:
    """The sizes of the result, and the scale along each dimension: None for the ratio of symbolic sizes that differs between them.

    Raises:
        NotLowered: an attribute is wrong, or an input is not known before the model runs.
    """
    sizes = node.sizes(0)
    if node.op_type == "Upsample" or node.opset < 11:
        scales = node.attribute("scales") or [float(scale) for scale in np.ravel(node.array(1))]
        scaled = [_scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]
        return [size for size, _ in scaled], [scale for _, scale in scaled]
    rank = len(sizes)
    named = [node.axis(axis, rank) for axis in node.attribute("axes") or range(rank)]
    outputs, factors = [*sizes], list[float | None]([1.0] * rank)
    if node.has(3) and node.has(2) and not are_known(node, 2):  # they contradict the sizes if there are any
        raise NotLowered([unknown_sizes_problem(node.input_label(2), node.value(2))])
    if node.has(3) and (wanted := node.integers(3)):
        for axis, size in zip(named, wanted, strict=True):
            outputs[axis], factors[axis] = size, _ratio(size, sizes[axis]) if is_symbolic(sizes[axis]) or sizes[axis] else 1.0
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [outputs[axis] / sizes[axis] if (known := factors[axis]) is None else known for axis in named]
            common = (min if policy == "not_larger" else max)(ratios)
            for axis in named:
                outputs[axis], factors[axis] = int(common * sizes[axis] + 0.5), common
    else:
        for axis, scale in zip(named, np.ravel(node.array(2)), strict=True):
            outputs[axis], factors[axis] = _scaled(sizes[axis], float(scale))
    return outputs, factors


def resize_problems(node: Node) -> Iterator[Problem]:
    """Scales, sizes and regions that are not one for each axis, and attributes that mean nothing."""
    place = 1 if node.op_type == "Upsample" or node.opset < 11 else 2
    scales = node.value(place).array if node.has(place) else None
    given = node.attribute("scales") or () if scales is None else scales.ravel().tolist()
    if any(not scale > 0 for scale in given):
        yield Problem("onnx.invalid", "scales" if scales is None else node.input_label(place), listed(given), "numbers above 0")
    yield from _interpolation_problems(node)
    if place > 1 and (problem := _source_problem(node)) is not None:
        yield problem
        return
    if not node.has(0) or (sizes := node.value(0).sizes) is None:
        return
    if node.has(3) and node.value(0).is_empty and _has_grown(node, sizes):
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), "elements along each dimension that is resized")
        return
    count = len(node.attribute("axes") or sizes)
    by_region = node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    first = 1 if by_region and node.opset >= 11 else place
    for index in range(first, len(node.inputs)):
        wanted, each = (2 * count, "a start and an end") if index < place else (count, "one")
        if are_known(node, index) and prod(node.sizes(index)) not in ((0, wanted) if place > 1 else (wanted,)):
            yield Problem(
                "onnx.invalid", node.input_label(index), plural(prod(node.sizes(index)), "number"), f"{wanted}, {each} for each axis"
            )


def _has_grown(node: Node, sizes: Sequence[Any]) -> bool:
    """Whether a dimension without elements is resized to some; as an empty batch that stays so, it is none to resize."""
    named = [sizes[node.axis(axis, len(sizes))] for axis in node.attribute("axes") or range(len(sizes))]
    wanted = node.integers(3) if node.value(3).array is not None else None
    return wanted is not None and any(size == 0 and new != 0 for size, new in zip(named, wanted, strict=False))


def _source_problem(node: Node) -> Problem | None:
    """A Resize with scales as well as sizes, or with neither."""
    scales, sizes = (node.value(index) if node.has(index) else None for index in (2, 3))
    has_scales, has_sizes = scales is not None and not scales.is_empty, sizes is not None
    if has_scales and has_sizes and scales is not None and scales.is_static:
        return Problem("onnx.invalid", node.input_label(2), "as well as input 3 'sizes'", "one of the two")
    if not has_scales and (sizes is None or sizes.is_empty):
        return Problem("onnx.invalid", node.input_label(2), "without elements, as is input 3 'sizes'", "one of the two")
    return None


def _interpolation_problems(node: Node) -> Iterator[Problem]:
    """Attributes of a Resize that mean nothing for its mode, or without sizes."""
    if node.attribute("antialias", 0) and node.attribute("mode") == "nearest":
        yield Problem("onnx.invalid", "antialias", "1", "0 where mode is nearest, or mode linear or cubic")
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and not (node.has(3) and not node.value(3).is_empty):
        yield Problem("onnx.invalid", "keep_aspect_ratio_policy", policy, "stretch without input 3 'sizes'")


def _scaled(size: int, scale: float) -> tuple[int, float]:
    """The elements of a result, and the scale: the ratio of the sizes, where it is that but for FLOAT's rounding.

    The product is rounded to FLOAT before it is cut off, so that 10 elements by 0.7 are 7 (ONNX Runtime 1.32.0).
    """
    if not is_symbolic(size) and not size:
        return 0, scale
    if is_symbolic(size) and scale > 0:
        more, less = float(np.float32(scale)).as_integer_ratio()
        if more * less < _EXACT and size * (more * less) < _EXACT:
            return size * more // less, scale
    output = applied(lambda number: int(np.float32(scale) * np.float32(number)), size)
    return output, output / size if is_close(output / size, scale, rel_tol=2**-23) else scale


def _ratio(output: int, size: int) -> float | None:
    """The ratio of sizes; of symbolic ones it is the same for all where one is a multiple of the other, else None."""
    if is_symbolic(output) or is_symbolic(size):
        one, other = example_size(output), example_size(size)
        if other and one >= other and output == one // other * size:
            return float(one // other)
        if one and other > one and size == other // one * output:
            return 1 / (other // one)
        return None
    return output / size
