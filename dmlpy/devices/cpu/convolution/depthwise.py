"""`Strips`: how the windows of planes are divided into items of strips, and what their kernel is told."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.convolution.steps import steps_of
from dmlpy.devices.cpu.convolution.strip_parameters import Strip
from dmlpy.devices.cpu.jit import Function, Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Pair
    from dmlpy.devices.cpu.convolution.strip_parameters import OperationName
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.plan import Pointers

STRIPS = Kernel("dmlpy.devices.cpu.convolution.strip_kernels:strips_of", 5)
"""The strips: their window, whether tensors are of FLOAT16, and the instruction set."""

_WORK_OF_AN_ITEM = 1 << 20
"""Taps of all positions that are worth an item: some 20 microseconds."""
_TILE = 1 << 14
"""Bytes of a tile, at most: its strips read the same cache lines at their edges, and it is there with the tile that comes next."""
_FEWEST_ROWS = 8
"""Rows of positions of a tile, at least, where a plane has them: each begins with rows that the one above it reads, too."""
_MOST_COLUMNS = 1 << 30
"""Columns are numbered in 32 bits."""


@dataclass(frozen=True)
class Planes:
    """Windows that slide over planes, each by itself.

    Attributes:
        images: the number of images.
        channels: planes of an image.
        spatial: sizes of a plane.
        out: positions of the window.
        window: sizes of the window, whose taps are neighbours.
        strides: steps from one position of the window to the next.
        starts: padding before the first element.
    """

    images: int
    channels: int
    spatial: Pair
    out: Pair
    window: Pair
    strides: Pair
    starts: Pair

    @property
    def taps(self) -> int:
        """Taps of all positions."""
        return self.images * self.channels * prod(self.out) * prod(self.window)

    def are_strips(self, tensors: Mapping[str, TensorDesc], most: int, isa: Isa) -> bool:
        """Whether windows of at most `most` taps in each dimension go in strips over these tensors.

        `most` is at most a vector's lanes: with a stride of 2, the taps of a row see no more than three vectors then. Where a vector has
        four lanes, loads of some of them are not one instruction.
        """
        ends = (tensors["input_tensor"], tensors["output_tensor"])
        side_by_side = all(steps_of(tensor)[4] == tensor.data_type.numpy.itemsize for tensor in ends)
        fits = max(self.window) <= most and self.strides[1] <= 2
        return isa.lanes > 4 and side_by_side and fits and self.spatial[1] + self.out[1] * self.strides[1] <= _MOST_COLUMNS


class Strips:
    """The items of planes, each of which is some tiles: rows of positions of a plane.

    Attributes:
        items: the number of items.

    Args:
        operation: what is made of a window's elements, as `Strip` names it.
        planes: the planes.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    def __init__(self, operation: OperationName, planes: Planes, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        self._planes, self._tensors = planes, tensors
        strip = Strip(operation, *planes.window, new_rows=min(planes.strides[0], planes.window[0]), stride_x=planes.strides[1])
        self._choices = strip, tensors["input_tensor"].data_type is DataType.FLOAT16, isa
        count, read = planes.images * planes.channels, planes.out[0] * strip.new_rows * planes.spatial[1]
        wanted = max(threads, planes.taps // _WORK_OF_AN_ITEM)
        tiles = max(ceil(wanted / count), ceil(read * tensors["input_tensor"].data_type.numpy.itemsize / _TILE))
        self._rows = ceil(planes.out[0] / min(tiles, max(1, planes.out[0] // _FEWEST_ROWS)))
        self._tiles = ceil(planes.out[0] / self._rows)
        self._parts = count * self._tiles
        self.items = min(wanted, self._parts)

    def kernel(self) -> Function:
        """The function that a launch runs."""
        return STRIPS(*self._choices)

    def describe(self) -> str:
        return f"strips of {self._choices[2].lanes} positions, each down {self._rows} row(s) of a plane, input read in place"

    def values(self, tensors: Pointers) -> dict[str, Any]:
        """The kernel's parameters by name, but for those of the operation."""
        planes, (source, target) = self._planes, (steps_of(self._tensors[name]) for name in ("input_tensor", "output_tensor"))
        return {
            "items": self.items,
            "parts": self._parts,
            "tiles": self._tiles,
            "channels": planes.channels,
            **dict(zip(("height", "width"), planes.spatial, strict=True)),
            **dict(zip(("out_height", "out_width"), planes.out, strict=True)),
            "rows": self._rows,
            "stride_y": planes.strides[0],
            **dict(zip(("pad_y", "pad_x"), planes.starts, strict=True)),
            "input": tensors["input_tensor"],
            **dict(zip(("input_image", "input_channel", "input_row"), (*source[:2], source[3]), strict=True)),
            "output": tensors["output_tensor"],
            **dict(zip(("output_image", "output_channel", "output_row"), (*target[:2], target[3]), strict=True)),
        }
