"""Convolutions and poolings of single planes in strips: their parameters, their division into items, and the form of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.convolution.layout import steps_of
from dmlpy.devices.cpu.jit import Function, Kernel, make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Pair
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry
    from dmlpy.devices.plan import Pointers


OperationName = Literal["convolution", "max", "average"]


@dataclass(frozen=True)
class Strip:
    """What a kernel of strips is compiled for.

    Attributes:
        operation: what is made of a window's elements.
        height: rows of the window.
        width: its columns.
        new_rows: rows that a window sees and the one above it does not: all, or as many as the step down.
        stride_x: the step to the next window of a row, 1 or 2.
    """

    operation: OperationName
    height: int
    width: int
    new_rows: int
    stride_x: int

    @property
    def above(self) -> int:
        """The windows above a window that see rows of it."""
        return -(-self.height // self.new_rows) - 1


_INTEGERS = (
    *("ticket", "done", "items", "parts", "tiles", "channels"),
    *("height", "width", "out_height", "out_width", "rows", "stride_y", "pad_y", "pad_x"),
    *("input", "input_image", "input_channel", "input_row"),
    *("output", "output_image", "output_channel", "output_row"),
    *("weights", "coefficients", "row_counts", "column_counts"),
)
DEPTHWISE_PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("low", "high"))])
"""What strips read: numbers, addresses, and distances in bytes. The elements of a row lie side by side.

The first two are the state of `thread_pool_kernels`. An item is a share of `parts`, each a tile of `rows` rows of positions of a plane,
which has `tiles` of them; an image has `channels` planes. A convolution has float32 `weights` [channels, taps] and `coefficients`
[channels, 3]: its result is clip((sum - first) * second + third, low, high). An average is the sum divided by `row_counts` and
`column_counts`, float32 for each row and column of positions, the latter a whole number of vectors.
"""


STRIPS = Kernel("dmlpy.devices.cpu.convolution.depthwise_kernels:strips_of", 5)
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


_MOST_TAPS = 7
"""Taps of the window in each dimension: of more the weights pass through the registers as often as by `Tiles`."""


class DepthwiseStrips:
    """The items of a depthwise convolution over two dimensions, each of some planes.

    Attributes:
        block: filters of a block.
        blocks: blocks of filters in a group.
        channels: channels of a group.
        taps: taps of the window.
        is_matrix: whether it is one product of matrices.
        items: the number of items.
        scratch_size: bytes of scratch for a thread.

    Args:
        planes: the planes.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    block = blocks = channels = 1
    is_matrix = False
    scratch_size = 0

    def __init__(self, planes: Planes, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        self._strips = Strips("convolution", planes, tensors, threads, isa)
        self.taps, self.items = prod(planes.window), self._strips.items

    @classmethod
    def of(cls, geometry: Geometry, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> DepthwiseStrips | None:
        """The strips of a convolution; None if it is not depthwise, is transposed, or its tensors or window are not those of strips."""
        planes = _planes_of(geometry)
        if planes is None or not planes.are_strips(tensors, _MOST_TAPS, isa):
            return None
        return cls(planes, tensors, threads, isa)

    def is_dense(self, most: int) -> bool:
        """Whether what is read is at most so many times as large as what the taps meet: nothing else is read."""
        return True

    def describe(self) -> str:
        return f"{self._strips.describe()}\nsums in registers: {self.taps} tap(s) of one filter"

    @property
    def kernel(self) -> Function:
        """The compiled share of the work."""
        return self._strips.kernel()

    def load(self) -> None:
        """Compiles the kernel, or reads it from disk."""
        self._strips.kernel()

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Array:
        """What the kernel reads, with the values of some fields: of the packed constants and the limits."""
        return make_struct(DEPTHWISE_PARAMETERS, {**self._strips.values(tensors), **others})


def _planes_of(geometry: Geometry) -> Planes | None:
    """The planes of a convolution, or None if its windows reach more than one of them, are dilated, or slide over the output."""
    depth = geometry.spatial[0], geometry.out[0], geometry.taps[0], geometry.starts[0]
    dilated = any(taps > 1 and dilation != 1 for taps, dilation in zip(geometry.taps, geometry.dilations, strict=True))
    if geometry.backward or (geometry.channels, geometry.filters) != (1, 1) or depth != (1, 1, 1, 0) or dilated:
        return None
    spatial, out, window, strides, starts = (
        (own[1], own[2]) for own in (geometry.spatial, geometry.out, geometry.taps, geometry.strides, geometry.starts)
    )
    return Planes(geometry.batch, geometry.groups, spatial, out, window, strides, starts)
