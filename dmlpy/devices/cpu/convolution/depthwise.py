"""Row blocks of planes, which depthwise convolutions and poolings share: parameters and tiles. `DepthwiseTiling` is a convolution's."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dmlpy.devices.cpu.convolution.layout import PLAIN, Epilogue, byte_strides
from dmlpy.devices.cpu.isa import storage_of
from dmlpy.devices.cpu.jit import Function, Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Float32, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import tiles_for
from dmlpy.devices.plan import PlanPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Pair
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Geometry
    from dmlpy.devices.plan import Pointers


OperationName = Literal["convolution", "max", "average"]


@dataclass(frozen=True)
class Window:
    """The choices that a kernel of row blocks is compiled for.

    Attributes:
        operation: the reduction of a window's elements.
        height: rows of the window.
        width: its columns.
        new_rows: rows that a window reads but the window above it does not: all, or the vertical stride.
        stride_x: the step to the next window of a row, 1 or 2.
        planes: of how many planes a vector has positions: 2 if a row of positions takes half of it at most.
        epilogue: a convolution's.
    """

    operation: OperationName
    height: int
    width: int
    new_rows: int
    stride_x: int
    planes: int = 1
    epilogue: Epilogue = PLAIN

    @property
    def windows_above(self) -> int:
        """The number of windows above that share rows with a window."""
        return -(-self.height // self.new_rows) - 1


class RowBlockParameters(UnitParameters):
    """The parameters of the row-block kernel. The elements of a row are contiguous; units are the row blocks of all planes, or of pairs.

    A convolution's result is clip((sum - first) * second + third, low, high), with a channel's three `coefficients`.
    """

    planes: Count = field("planes of all images")
    row_blocks_per_plane: Count = field("row blocks of a plane")
    channels: Count = field("planes of an image")
    height: Count = field("rows of the input's planes")
    width: Count = field("columns of the input's planes")
    out_height: Count = field("rows of positions of a plane")
    out_width: Count = field("positions of a row")
    rows: Count = field("rows of positions of a row block")
    stride_y: Count = field("rows from a position of the window to the next below")
    pad_y: Count = field("rows of padding above a plane")
    pad_x: Count = field("columns of padding left of a plane")
    input: Address = field("the input")
    input_image: Bytes = field("from an image of the input to the next")
    input_channel: Bytes = field("from a plane of the input to the next")
    input_row: Bytes = field("from a row of the input to the next")
    output: Address = field("the output")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a plane of the output to the next")
    output_row: Bytes = field("from a row of the output to the next")
    weights: Address = field("a convolution's weights, float32 [channels, taps]")
    coefficients: Address = field("a convolution's coefficients, float32 [channels, 3]")
    row_counts: Address = field("an average's divisors of rows of positions, float32")
    column_counts: Address = field("an average's divisors of columns of positions, float32, a whole number of vectors")
    added: Address = field("what a convolution's epilogue adds to `output`, in the same layout")
    low: Float32 = field("the lower bound of a convolution's results")
    high: Float32 = field("the upper bound of a convolution's results")
    alpha: Float32 = field("the slope of the epilogue's line")
    beta: Float32 = field("the value of that line at 0")


ROW_BLOCKS = Kernel("dmlpy.devices.cpu.convolution.depthwise_kernels:build_row_blocks", 5)
"""The row blocks: their window, the type of tensors, and the instruction set."""

_WORK_PER_TILE = 1 << 20
"""Taps of all positions that make a tile worthwhile: some 20 microseconds."""
_ROW_BLOCK_BYTES = 1 << 14
"""Bytes of a row block's input, at most: neighbouring columns read the same cache lines, and the next block is prefetched meanwhile."""
_MIN_ROWS = 8
"""Rows of positions of a row block, at least, where a plane has them: each reads rows that the one above it reads, too."""
_MAX_COLUMNS = 1 << 30
"""Columns are numbered in 32 bits."""


class Planes(NamedTuple):
    """Windows that slide over planes independently.

    Attributes:
        images: the number of images.
        channels: planes of an image.
        spatial: sizes of a plane.
        out: positions of the window.
        window: sizes of the window, which is not dilated.
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

    def fit_row_blocks(self, tensors: Mapping[str, TensorDesc], most: int, isa: Isa) -> bool:
        """Whether these tensors can be computed in row blocks, with windows of at most `most` taps in each dimension.

        `most` is at most a vector's lanes: with a stride of 2, the taps of a row read no more than three vectors then. Where a vector has
        four lanes, loads of some of them are not one instruction.
        """
        images = (tensors["input_tensor"], tensors["output_tensor"])
        contiguous = all(byte_strides(tensor)[4] == tensor.data_type.numpy.itemsize for tensor in images)
        fits = max(self.window) <= most and self.strides[1] <= 2
        return isa.lanes > 4 and contiguous and fits and self.spatial[1] + self.out[1] * self.strides[1] <= _MAX_COLUMNS


class RowBlocks(PlanPart):
    """The row blocks of planes: some rows of positions of a plane each. A tile is some row blocks.

    Attributes:
        tiles: the number of tiles.

    Args:
        operation: the reduction of a window's elements.
        planes: the planes.
        tensors: the descs by name.
        threads: the number of threads.
        isa: the instruction set that the kernel is compiled for.
        epilogue: a convolution's.
    """

    def __init__(
        self,
        operation: OperationName,
        planes: Planes,
        tensors: Mapping[str, TensorDesc],
        threads: int,
        isa: Isa,
        epilogue: Epilogue = PLAIN,
    ) -> None:
        self._planes, self._tensors = planes, tensors
        new_rows = min(planes.strides[0], planes.window[0])
        count = planes.images * planes.channels
        # With a stride of 2, taps are the odd and even lanes of vectors, of one plane.
        halves = count > 1 and planes.strides[1] == 1 and planes.out[1] <= isa.lanes // 2
        window = Window(operation, *planes.window, new_rows, planes.strides[1], 1 + halves, epilogue)
        self._choices = window, storage_of(tensors["input_tensor"].data_type), isa
        units, read = ceil(count / window.planes), window.planes * planes.out[0] * window.new_rows * planes.spatial[1]
        wanted = max(tiles_for(threads), planes.taps // _WORK_PER_TILE)
        per_plane = max(ceil(wanted / units), ceil(read * tensors["input_tensor"].data_type.numpy.itemsize / _ROW_BLOCK_BYTES))
        self._rows = ceil(planes.out[0] / min(per_plane, max(1, planes.out[0] // _MIN_ROWS)))
        self._per_plane = ceil(planes.out[0] / self._rows)
        self._total = units * self._per_plane
        self.tiles = min(wanted, self._total)

    def kernel(self) -> Function:
        """The compiled kernel."""
        return ROW_BLOCKS(*self._choices)

    def describe(self) -> str:
        window, _, isa = self._choices
        positions = f"{isa.lanes} positions" if window.planes == 1 else f"{isa.lanes // window.planes} positions of {window.planes} planes"
        return f"row blocks of {self._rows} row(s), vectorized over {positions}, input read in place"

    def values(self, tensors: Pointers) -> dict[str, Any]:
        """The kernel's parameters by name, but for those of the operation."""
        planes, (source, target) = self._planes, (byte_strides(self._tensors[name]) for name in ("input_tensor", "output_tensor"))
        return {
            "tiles": self.tiles,
            "units": self._total,
            "planes": planes.images * planes.channels,
            "row_blocks_per_plane": self._per_plane,
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


_MAX_TAPS = 7
"""Taps of the window in each dimension: with more, weights are loaded to registers as often as by `PositionTiling`."""


class DepthwiseTiling(PlanPart):
    """The tiles of a depthwise convolution over two dimensions, each of some planes.

    Attributes:
        block: filters of a block.
        blocks: blocks of filters in a group.
        channels: channels of a group.
        taps: taps of the window.
        is_matrix: whether it is one product of matrices.
        tiles: the number of tiles.
        scratch_size: bytes of scratch for a thread.
        offset: bytes from the output's first element to what is computed.

    Args:
        planes: the planes.
        tensors: the descs by name.
        threads: the number of threads.
        isa: the instruction set that the kernel is compiled for.
        epilogue: what is computed of the sums.
    """

    block = blocks = channels = 1
    is_matrix = False
    scratch_size = offset = 0

    def __init__(self, planes: Planes, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa, epilogue: Epilogue = PLAIN) -> None:
        self._row_blocks = RowBlocks("convolution", planes, tensors, threads, isa, epilogue)
        self.taps, self.tiles = prod(planes.window), self._row_blocks.tiles

    @classmethod
    def of(
        cls, geometry: Geometry, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa, epilogue: Epilogue = PLAIN
    ) -> DepthwiseTiling | None:
        """The tiling of a convolution; None if it is not depthwise, is transposed, or has tensors or a window without row blocks."""
        planes = _find_planes(geometry)
        if planes is None or not planes.fit_row_blocks(tensors, _MAX_TAPS, isa):
            return None
        return cls(planes, tensors, threads, isa, epilogue)

    def is_dense(self, most: int) -> bool:
        """Whether at most `most` times as many elements are copied as the windows read: nothing is copied."""
        return True

    def describe(self) -> str:
        return f"{self._row_blocks.describe()}\nsums in registers: {self.taps} tap(s) of one filter"

    @property
    def kernel(self) -> Function:
        """The compiled kernel."""
        return self._row_blocks.kernel()

    def load(self) -> None:
        """Compiles the kernel, or reads it from disk."""
        self._row_blocks.kernel()

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Parameters:
        """The kernel's parameters; `others` are those of the packed constants and the limits."""
        return RowBlockParameters.bound({**self._row_blocks.values(tensors), **others})


def _find_planes(geometry: Geometry) -> Planes | None:
    """The planes of a convolution, or None if its windows reach more than one of them or are dilated, or if it is transposed."""
    depth = geometry.spatial[0], geometry.out[0], geometry.taps[0], geometry.starts[0]
    dilated = any(taps > 1 and dilation != 1 for taps, dilation in zip(geometry.taps, geometry.dilations, strict=True))
    if geometry.backward or (geometry.channels, geometry.filters) != (1, 1) or depth != (1, 1, 1, 0) or dilated:
        return None
    spatial, out, window, strides, starts = (
        (sizes[1], sizes[2]) for sizes in (geometry.spatial, geometry.out, geometry.taps, geometry.strides, geometry.starts)
    )
    return Planes(geometry.batch, geometry.groups, spatial, out, window, strides, starts)
