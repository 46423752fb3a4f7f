"""ONNX's rules for windows and margins that DirectML's descs do not cover: convolutions, poolings, Col2Im, which adds windows up, Pad."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.nodes.ranks import are_known, other_size_problems
from dmlpy.onnx.nodes.windows import compute_windows, output_padding_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.onnx.nodes.node import Node


_POOLINGS = frozenset({"AveragePool", "LpPool", "MaxPool"})
"""Operators of which ONNX and ONNX Runtime count positions without a check: a window that is larger by less than a stride has one."""


def pooling_problems(node: Node) -> Iterator[Problem]:
    """Pads that hold whole windows, and windows that are larger than the image."""
    window = node.attribute("kernel_shape") or []
    pads = node.attribute("pads") or [0] * 2 * len(window)
    if len(pads) != 2 * len(window):
        yield Problem("onnx.invalid", "pads", plural(len(pads), "number"), f"{2 * len(window)}, a start and an end for each axis")
    elif any(pad >= size for place, size in enumerate(window) for pad in (pads[place], pads[place + len(window)])):
        yield Problem("onnx.invalid", "pads", listed(pads), f"less than the window, {listed(window)}")
    elif are_known(node, 0) and node.rank(0) == len(window) + 2:
        yield from _window_problems(node, window)


def convolution_problems(node: Node) -> Iterator[Problem]:
    """Windows of the weights' sizes that fit between the pads, and a bias for each output channel."""
    weights = 3 if node.op_type == "QLinearConv" else 1
    yield from _pad_problems(node)
    if are_known(node, 0, weights) and node.rank(0) == node.rank(weights) > 2:
        window = node.sizes(weights)[2:]
        if tuple(stated := node.attribute("kernel_shape") or window) != window:
            expected = f"{listed(window)}, the last of the weights' sizes {listed(node.sizes(weights))}"
            yield Problem("onnx.invalid", "kernel_shape", listed(stated), expected)
            return
        yield from [*_window_problems(node, window)] or (_offset_problems(node, window) if node.op_type == "DeformConv" else ())
    if node.op_type in ("Conv", "DeformConv") and are_known(node, 1):
        bias = 2 if node.op_type == "Conv" else 3
        yield from other_size_problems(
            node, bias, node.sizes(1)[:1], f"one for each of the first of the weights' sizes {listed(node.sizes(1))}"
        )


def _offset_problems(node: Node, window: tuple[int, ...]) -> Iterator[Problem]:
    """Offsets of a DeformConv and their factors: for each element of each group's window at each position."""
    positions = [axis.positions for axis in compute_windows(node, node.sizes(0)[2:], window).axes]
    samples = node.attribute("offset_group", 1) * prod(window)
    for index, count in ((2, samples * len(window)), (4, samples)):
        meaning = f"{samples} {'places' if index == 2 else 'factors'} for each of {listed(positions)} windows"
        yield from other_size_problems(node, index, (node.sizes(0)[0], count, *positions), meaning)


def _pad_problems(node: Node) -> Iterator[Problem]:
    """Pads as well as the attribute that computes them: ONNX allows one of the two. Poolings of ONNX Runtime ignore the pads."""
    mode, pads = node.attribute("auto_pad", "NOTSET"), node.attribute("pads") or ()
    if any(pads) and (mode.startswith("SAME") or (mode == "VALID" and node.op_type == "ConvTranspose")):
        yield Problem("onnx.invalid", "pads", listed(pads), f"no pads where auto_pad is {mode}")


def _window_problems(node: Node, lengths: Sequence[int]) -> Iterator[Problem]:
    """A window must not be larger than the padded dimension; one of a pooling, not by more than a stride, with `ceil_mode` by less."""
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        return
    windows = compute_windows(node, node.sizes(0)[2:], lengths)
    is_pooling, is_ceil, fits = node.op_type in _POOLINGS, node.attribute("ceil_mode", 0), True
    for axis, window in enumerate(windows.axes, 2 - windows.added):
        positions, least = (window.rounded_up, int(is_ceil)) if is_pooling else (window.positions, 1)
        if positions < least:
            expected = f"at least {window.extent} along axis {axis} with the pads, which the window spans"
            yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)
            fits = False
    if is_pooling and fits and node.value(0).is_empty and all(window.rounded_up > 0 for window in windows.axes):
        yield from _empty_image_problems(node)


def _empty_image_problems(node: Node) -> Iterator[Problem]:
    """An image without elements has none to pool, whatever its pads; ONNX Runtime refuses it. A convolution of pads alone is its bias."""
    sizes = node.sizes(0)
    if 0 in sizes[2:] and sizes[0]:
        yield Problem("onnx.invalid", node.input_label(0), listed(sizes), "elements along each dimension that windows slide over")


def transposed_problems(node: Node) -> Iterator[Problem]:
    """What a ConvTranspose cuts off or adds, beyond what its windows have."""
    shape = node.attribute("output_shape")
    yield from _pad_problems(node)
    if shape is not None and (not shape or min(shape) < 1):
        yield Problem("onnx.invalid", "output_shape", listed(shape), "numbers of 1 or more")
    elif shape and are_known(node, 0) and len(shape) != node.rank(0) - 2:
        yield Problem("onnx.invalid", "output_shape", plural(len(shape), "number"), f"{node.rank(0) - 2}: batch and channels are not in it")
    elif are_known(node, 0, 1) and node.rank(0) == node.rank(1) > 2:
        yield from _transposed_weight_problems(node) or output_padding_problems(node)


def _transposed_weight_problems(node: Node) -> list[Problem]:
    """Weights [C, M / group, *window] of other channels or windows than the image and the attribute have, and other biases."""
    channels, weights = node.sizes(0)[1], node.sizes(1)
    stated = node.attribute("kernel_shape") or weights[2:]
    if weights[0] != channels:
        expected = f"{channels} as first size, the channels of {listed(node.sizes(0))}"
        return [Problem("onnx.invalid", node.input_label(1), listed(weights), expected)]
    if tuple(stated) != weights[2:]:
        expected = f"{listed(weights[2:])}, the last of the weights' sizes {listed(weights)}"
        return [Problem("onnx.invalid", "kernel_shape", listed(stated), expected)]
    if 0 in stated:
        return [Problem("onnx.invalid", node.input_label(1), listed(weights), "windows of 1 or more along each axis")]
    meaning = f"one for each of the {node.attribute('group', 1)} groups of {weights[1]} channels"
    return [*other_size_problems(node, 2, (weights[1] * node.attribute("group", 1),), meaning)]


def column_problems(node: Node) -> Iterator[Problem]:
    """The blocks of a Col2Im: as many elements, and as many places in the image, as its input has."""
    image, block = (node.integers(index) if node.has(index) and node.value(index).array is not None else None for index in (1, 2))
    if image is None or block is None or not are_known(node, 0):
        return
    for index, given in ((1, image), (2, block)):
        if min(given, default=0) < 1:
            yield Problem("onnx.invalid", node.input_label(index), listed(given), "sizes of 1 or more")
            return
    if len(block) != len(image):
        yield Problem("onnx.invalid", "block_shape", plural(len(block), "number"), f"{len(image)}, for an image {listed(image)}")
        return
    windows = compute_windows(node, image, block)
    places = [window.positions for window in windows.axes[windows.added :]]
    sizes = node.sizes(0)
    if min(places) < 1:
        yield Problem("onnx.invalid", node.input_label(2), listed(block), f"blocks that fit into the image {listed(image)} with its pads")
    elif len(sizes) != 3 or sizes[1] % prod(block) or sizes[2] != prod(places):
        expected = f"[N, C * {prod(block)}, {prod(places)}]: blocks {listed(block)} at {listed(places)} places of the image {listed(image)}"
        yield Problem("onnx.invalid", node.input_label(0), listed(sizes), expected)


def padding_problems(node: Node) -> Iterator[Problem]:
    """Two pads for each axis, which leave elements of it; where they reflect, less than its size."""
    known = node.value(1).array is not None if node.has(1) else node.attribute("pads") is not None
    if not known or not are_known(node, 0):
        return
    if node.has(3) and node.value(3).array is None:
        return
    rank = node.rank(0)
    pads = node.integers(1, "pads", ()) or ()
    axes = [node.axis(axis, rank) for axis in (node.integers(3) or ())] if node.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        yield Problem("onnx.invalid", "pads", plural(len(pads), "number"), f"{2 * len(axes)}, a start and an end for each axis")
        return
    for place, axis in enumerate(axes):
        both, size, where = (pads[place], pads[place + len(axes)]), node.sizes(0)[axis], f"axis {axis} of {listed(node.sizes(0))}"
        if sum(both) < -size:
            yield Problem("onnx.invalid", "pads", f"{both[0]} and {both[1]}", f"at least {-size} together: {where}")
        elif (mode := node.attribute("mode", "constant")) == "reflect" and max(both) > max(0, size - 1):
            yield Problem("onnx.invalid", "pads", str(max(both)), f"at most {size - 1}: {where} is reflected")
        elif mode != "constant" and not size and max(both) > 0:
            yield Problem("onnx.invalid", "pads", str(max(both)), f"at most 0: {where} has no element to repeat")
