"""The sizes that Resize and Upsample give, and the scales that these come to; with symbolic sizes as formulas of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.symbolic_sizes import applied, example_size, is_close, is_symbolic

if TYPE_CHECKING:
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
        found = [_scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]
        return [size for size, _ in found], [scale for _, scale in found]
    rank = len(sizes)
    named = [node.axis(axis, rank) for axis in node.attribute("axes") or range(rank)]
    outputs, factors = [*sizes], list[float | None]([1.0] * rank)
    if node.has(3) and (wanted := node.integers(3)):
        for axis, size in zip(named, wanted, strict=True):
            outputs[axis], factors[axis] = size, _ratio(size, sizes[axis])
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


def _scaled(size: int, scale: float) -> tuple[int, float]:
    """The elements of a result, and the scale: the ratio of the sizes, where it is that but for FLOAT's rounding.

    The product is rounded to FLOAT before it is cut off, so that 10 elements by 0.7 are 7 (ONNX Runtime 1.32.0).
    """
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
