"""Windows that slide over spatial dimensions, as ONNX's convolutions and poolings describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.operators.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@dataclass(frozen=True)
class Windows:
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
        """What every forward convolution says of its windows and groups."""
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
            raise node.refusal("onnx.invalid", name, f"{len(given)} numbers", f"{wanted}, for {rank} spatial dimensions")
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
