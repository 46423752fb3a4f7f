"""Pooling of windows and of whole images; unpooling."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.windows import Windows, compute_windows, unpooled_sizes

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.operators.windows import Window
    from dmlpy.x.expressions import Expression


@lowers("AveragePool")
def average(node: Node) -> Expression:
    """AVERAGE_POOLING, with dilations AVERAGE_POOLING1.

    Windows cut off at the end by `ceil_mode` count no elements there, so that a padding that counts becomes one of PADDING before.
    """
    windows = _pooling(node)
    data, counts = windows.add_dimensions(node.x(0)), bool(node.attribute("count_include_pad", 0))
    fitted = fit_windows(node, windows)
    if counts and fitted.end != windows.end:
        data = x.padding(data, start_padding=[0, 0, *windows.start], end_padding=[0, 0, *windows.end])
        pairs = zip(windows.axes, fitted.axes, strict=True)
        inside = [replace(window, size=window.padded, start=0, end=whole.end - window.end) for window, whole in pairs]
        fitted, counts = Windows(tuple(inside), windows.added), False
    if max(fitted.dilations) > 1:
        return windows.remove_dimensions(
            x.average_pooling1(data, **window_members(fitted), dilations=fitted.dilations, include_padding=counts)
        )
    return windows.remove_dimensions(x.average_pooling(data, **window_members(fitted), include_padding=counts))


@lowers("LpPool")
def norm(node: Node) -> Expression:
    """LP_POOLING, with dilations LP_POOLING1."""
    fitted = fit_windows(node, windows := _pooling(node))
    p = node.attribute("p", 2)
    if max(fitted.dilations) > 1:
        return windows.remove_dimensions(
            x.lp_pooling1(windows.add_dimensions(node.x(0)), **window_members(fitted), dilations=fitted.dilations, p=p)
        )
    return windows.remove_dimensions(x.lp_pooling(windows.add_dimensions(node.x(0)), **window_members(fitted), p=p))


@lowers("MaxPool")
def maximum(node: Node) -> tuple[Expression, ...]:
    """MAX_POOLING; with dilations or indices MAX_POOLING2. Indices by column are computed from those by row."""
    fitted = fit_windows(node, windows := _pooling(node))
    data = windows.add_dimensions(node.x(0))
    if not node.wants(1) and max(fitted.dilations) == 1:
        return (windows.remove_dimensions(x.max_pooling(data, **window_members(fitted))),)
    pooled = x.max_pooling2(data, **window_members(fitted), dilations=fitted.dilations, output_indices_data_type="UINT32")
    if not node.wants(1):
        return (windows.remove_dimensions(pooled.values),)
    indices = _by_column(pooled.indices, data.sizes[2:]) if node.attribute("storage_order", 0) else pooled.indices
    return windows.remove_dimensions(pooled.values), windows.remove_dimensions(indices)


def _by_column(indices: Expression, spatial: tuple[int, ...]) -> Expression:
    """Indices into [N, C, *spatial] with the first spatial dimension fastest."""

    def number(value: int) -> Expression:
        return x.fill_value_constant(value_data_type="UINT32", value=value, output_sizes=[1] * len(indices.sizes))

    rest = x.modulus_floor(indices, number(prod(spatial)))
    total, step = x.subtract(indices, rest), prod(spatial)
    for axis in range(len(spatial)):
        behind = prod(spatial[axis + 1 :])
        weight = prod(spatial[:axis])
        step = behind
        total = x.add(total, x.multiply(x.divide(rest, number(behind)), number(weight)))
        rest = x.modulus_floor(rest, number(step))
    return total


_MOST_SPATIAL = 3
"""The most dimensions that a window of DirectML has."""


@lowers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole(node: Node) -> Expression:
    """AVERAGE_POOLING, MAX_POOLING or LP_POOLING with a window as large as the image."""
    sizes = node.sizes(0)
    image = sizes[2:] if len(sizes[2:]) <= _MOST_SPATIAL else (prod(sizes[2:]),)
    data = node.x(0).reshape(*sizes[:2], *[1] * max(0, 2 - len(image)), *image)
    window = {"window_size": data.sizes[2:]}
    if node.op_type == "GlobalMaxPool":
        return x.max_pooling(data, **window)
    if node.op_type == "GlobalLpPool":
        return x.lp_pooling(data, **window, p=node.attribute("p", 2))
    return x.average_pooling(data, **window, include_padding=False)


@lowers("MaxUnpool")
def lower_unpooling(node: Node) -> Expression:
    """MAX_UNPOOLING. The indices count the elements of the result, so that dimensions but the last are one for the operator."""
    sizes, wanted = node.sizes(0), unpooled_sizes(node)  # first: asks for what only a run has, with which nothing needs no operator
    data, indices = node.x(0), x.cast(node.x(1), output_data_type="UINT32")
    return x.max_unpooling(
        data.reshape(*sizes[:2], prod(sizes[2:-1]), sizes[-1]),
        indices.reshape(*sizes[:2], prod(sizes[2:-1]), sizes[-1]),
        output_sizes=[*wanted[:2], prod(wanted[2:-1]), wanted[-1]],
    ).reshape(*wanted)


@lowers("MaxRoiPool")
def region_maximum(node: Node) -> Expression:
    """ROI_POOLING."""
    height, width = node.attribute("pooled_shape")
    regions = node.x(1).with_leading_ones(4)
    scale = node.attribute("spatial_scale", 1.0)
    return x.roi_pooling(node.x(0), regions, spatial_scale=scale, pooled_size={"Width": width, "Height": height})


def _pooling(node: Node) -> Windows:
    return compute_windows(node, node.sizes(0)[2:], node.attribute("kernel_shape"))


def fit_windows(node: Node, windows: Windows) -> Windows:
    """The windows with the padding at the end that makes as many positions as ONNX's output has.

    The number of positions is cut off, so that it is rounded up below 0: a window that reaches over less than a stride beyond a dimension
    has one there.
    """
    is_up = bool(node.attribute("ceil_mode", 0))
    axes = tuple(_rounded_up(window) if is_up or window.padded < window.extent else window for window in windows.axes)
    return Windows(axes, windows.added)


def _rounded_up(window: Window) -> Window:
    positions = window.rounded_up_within
    if positions == window.positions:
        return window
    return replace(window, end=(positions - 1) * window.stride + window.extent - window.size - window.start)


def window_members(windows: Windows) -> dict[str, Any]:
    """The window attributes of every pooling."""
    return {"window_size": windows.lengths, "strides": windows.strides, "start_padding": windows.start, "end_padding": windows.end}
