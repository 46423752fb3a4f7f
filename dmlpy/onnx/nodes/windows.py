"""Windows that slide over spatial dimensions, as ONNX's convolutions and poolings describe them, and those that Slice takes."""

from __future__ import annotations

from operator import gt
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.operators.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


class Windows(NamedTuple):
    """The windows of a node, one for each spatial dimension of DirectML's tensors: at least two.

    Attributes:
        axes: the windows; those that were added in front have one element.
        added: how many were added.
    """

    axes: tuple[Window, ...]
    added: int

    @property
    def strides(self) -> list[int]:
        return [window.stride for window in self.axes]

    @property
    def dilations(self) -> list[int]:
        return [window.dilation for window in self.axes]

    @property
    def start(self) -> list[int]:
        return [window.start for window in self.axes]

    @property
    def end(self) -> list[int]:
        return [window.end for window in self.axes]

    @property
    def lengths(self) -> list[int]:
        return [window.length for window in self.axes]

    def members(self, node: Node) -> dict[str, Any]:
        """The attributes of every forward convolution for windows and groups."""
        windows = {"strides": self.strides, "dilations": self.dilations, "start_padding": self.start, "end_padding": self.end}
        return windows | {"group_count": node.attribute("group", 1)}

    def add_dimensions(self, tensor: Expression) -> Expression:
        """A tensor [a, b, *spatial] with the spatial dimensions that were added."""
        return tensor.reshape(*tensor.sizes[:2], *[1] * self.added, *tensor.sizes[2:])

    def remove_dimensions(self, tensor: Expression) -> Expression:
        """A tensor [a, b, *spatial] without the spatial dimensions that were added."""
        return tensor.reshape(*tensor.sizes[:2], *tensor.sizes[2 + self.added :])


def compute_windows(node: Node, sizes: Sequence[int], lengths: Sequence[int]) -> Windows:
    """The windows of a convolution or a pooling.

    Args:
        node: the node; its attributes are those of ONNX's convolutions and poolings.
        sizes: the spatial sizes of the tensor that they slide over.
        lengths: the elements of the windows.
    """
    rank = len(sizes)
    strides = node.attribute("strides") or [1] * rank
    dilations = node.attribute("dilations") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)
    mode = node.attribute("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.invalid("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    for name, given, wanted in (("strides", strides, rank), ("dilations", dilations, rank), ("pads", pads, 2 * rank)):
        if len(given) != wanted:
            raise node.refusal("onnx.invalid", name, plural(len(given), "number"), f"{wanted}, for {rank} spatial dimensions")
    windows = []
    for axis, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
        start, end = (pads[axis], pads[axis + rank]) if mode == "NOTSET" else (0, 0)
        window = Window(size, start, end, length, dilations[axis], strides[axis])
        if mode.startswith("SAME"):
            total = window.padding_for(-(-size // window.stride))
            less = total // 2
            start, end = (less, total - less) if mode == "SAME_UPPER" else (total - less, less)
            window = Window(size, start, end, length, window.dilation, window.stride)
        windows.append(window)
    added = max(0, 2 - rank)
    return Windows((Window(1, 0, 0, 1, 1, 1),) * added + tuple(windows), added)


class TransposedWindows(NamedTuple):
    """The windows of a ConvTranspose, which slide over its result, with one entry for each of ONNX's spatial dimensions.

    Attributes:
        windows: the windows, as DirectML's tensors have them.
        start: what is cut off in front.
        end: what is cut off behind.
        extra: what is added behind.
        sizes: the spatial sizes of the result.
    """

    windows: Windows
    start: list[int]
    end: list[int]
    extra: list[int]
    sizes: list[int]


def compute_transposed_windows(node: Node) -> TransposedWindows:
    """The windows of a ConvTranspose. An `output_shape` larger than the windows cover becomes output padding.

    With SAME_UPPER or SAME_LOWER the result has as many elements as steps, or those that the windows cover where these are fewer: so say
    ONNX's inference and ONNX Runtime.
    """
    spatial = node.sizes(0)[2:]
    rank = len(spatial)
    windows = compute_windows(node, spatial, node.attribute("kernel_shape") or node.sizes(1)[2:])
    axes = windows.axes[windows.added :]
    extra = node.attribute("output_padding") or [0] * rank
    full = [(window.size - 1) * window.stride + window.extent + more for window, more in zip(axes, extra, strict=True)]
    start, end = windows.start[windows.added :], windows.end[windows.added :]
    mode = node.attribute("auto_pad", "NOTSET")
    shape = node.attribute("output_shape")
    if shape or mode.startswith("SAME"):
        wanted = shape or [min(most, window.size * window.stride) for most, window in zip(full, axes, strict=True)]
        cut = [most - size for most, size in zip(full, wanted, strict=True)]
        extra = [more + max(0, -less) for more, less in zip(extra, cut, strict=True)]
        halves = [(max(0, less) // 2, max(0, less) - max(0, less) // 2) for less in cut]
        start, end = ([half[side] for half in halves] for side in ((0, 1) if mode == "SAME_UPPER" else (1, 0)))
        full = [size + max(0, less) for size, less in zip(wanted, cut, strict=True)]
    sizes = [most - before - behind for most, before, behind in zip(full, start, end, strict=True)]
    return TransposedWindows(windows, start, end, extra, sizes)


def output_padding_problems(node: Node) -> Iterator[Problem]:
    """`output_padding` not below stride or dilation, as ONNX says; `output_shape` that needs one; pads that cut off more than there is."""
    transposed = compute_transposed_windows(node)
    if any(size < 0 for size in transposed.sizes):  # not their least: open sizes are compared with 0 alone
        full = [size + before + behind for size, before, behind in zip(transposed.sizes, transposed.start, transposed.end, strict=True)]
        yield Problem(
            "onnx.invalid", "pads", listed([*transposed.start, *transposed.end]), f"pads within the {listed(full)} elements of the windows"
        )
        return
    most = [max(window.stride, window.dilation) - 1 for window in transposed.windows.axes[transposed.windows.added :]]
    given = node.attribute("output_padding") or [0] * len(most)
    rule = "output_padding is less than the stride or the dilation"
    if any(map(gt, given, most)):
        yield Problem("onnx.invalid", "output_padding", str([*given]), f"at most {most}", (rule,))
    elif any(map(gt, transposed.extra, most)):
        largest = [size - more + least for size, more, least in zip(transposed.sizes, transposed.extra, most, strict=True)]
        why = ("what lies behind the windows is output padding", rule)
        yield Problem("onnx.invalid", "output_shape", str(transposed.sizes), f"at most {largest}", why)


def transposed_sizes(node: Node) -> tuple[int, ...]:
    """The sizes of a ConvTranspose's result."""
    return (node.sizes(0)[0], node.sizes(1)[1] * node.attribute("group", 1), *compute_transposed_windows(node).sizes)


def cropped_sizes(node: Node) -> tuple[int, ...]:
    """The sizes of the part of images `[N, C, H, W]` that Crop takes; these may be wrong where its borders are."""
    count, channels, height, width = node.sizes(0)
    left, top, right, bottom = (int(size) for size in node.required("border"))
    rows, columns = (int(size) for size in node.attribute("scale") or (height - top - bottom, width - left - right))
    return count, channels, rows, columns


def unpooled_sizes(node: Node) -> list[int]:
    """The sizes of a MaxUnpool's output, in which its indices count: `output_shape`, or what windows, strides and pads determine."""
    if (stated := node.integers(2)) is not None:
        return [*stated]
    sizes, lengths = node.sizes(0), node.attribute("kernel_shape")
    rank = len(lengths)
    strides = node.attribute("strides") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)
    lengths_of_output = ((size - 1) * strides[axis] - pads[axis] - pads[axis + rank] + lengths[axis] for axis, size in enumerate(sizes[2:]))
    return [*sizes[:2], *lengths_of_output]


_TO_THE_END = (2**31 - 1, 2**63 - 1)
"""Ends of Slice that mean all elements that are left, in either direction: exporters write them where they do not know the size."""


def sliced_window(start: int, end: int, step: int, size: int) -> slice:
    """The elements that Slice takes along an axis, as Python's slice.

    Backward, a start before the first element is that element, and the largest INT32 or INT64 as end goes on to the first element, as in
    ONNX Runtime; Python's slice takes nothing then.
    """
    if step > 0:
        return slice(start, end, step)
    return slice(max(start + size, 0) if start < 0 else start, None if end in _TO_THE_END else end, step)
