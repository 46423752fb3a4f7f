"""Shared by the plan of a convolution and its kernels: phases, strides in bytes, the input tile, and the kernels' parameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.structs import Address, Bytes, CodeAddress, Count, CountedParameters, FixedArray, Flag, Float32, KernelStruct, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.numpy.convolution.geometry import Array, Box, Geometry, Sizes


class Phase(NamedTuple):
    """An ordinary convolution, in three spatial dimensions.

    Attributes:
        output_start: the output's element at the first position of the window.
        output_strides: elements of the output from a position to the next.
        out: positions of the window.
        taps: the taps of the filter in the window, in ascending order of the input elements that they read.
        window: their number in each dimension.
        strides: elements of the input from a position to the next one.
        dilations: elements of the input from a tap to the next one.
        starts: padding before the first element of the input; a negative one cuts elements off.
    """

    output_start: Sizes
    output_strides: Sizes
    out: Sizes
    taps: Box
    window: Sizes
    strides: Sizes
    dilations: Sizes
    starts: Sizes

    @property
    def is_empty(self) -> bool:
        """Whether no tap contributes to these elements."""
        return prod(self.window) == 0


Dimension = tuple[int, int, int, slice, int, int, int, int]
"""A phase's attributes in one dimension, in their order."""


WORTH_DIVIDING = 1 << 24
"""Multiplications of a convolution that is divided by the taps that reach the image: each part is a launch of its own."""
_MOST_PACKED = 1 << 26
"""Bytes of the filters of all parts, at most: each part has its own copy of the taps that it needs."""


def split_into_phases(geometry: Geometry) -> list[Phase]:
    """The phases of a convolution: one if it is not transposed, without dilated taps that read padding alone.

    Positions of large dilated windows of which many taps read padding are phases of their own, for each set of taps that reach the image.
    """
    sizes = list(zip(geometry.out, geometry.taps, geometry.strides, geometry.dilations, geometry.starts, strict=True))
    if geometry.backward:
        parts = [_split_dimension(*size) for size in sizes]
    else:
        divides = geometry.filters > 1 and geometry.multiplications >= WORTH_DIVIDING
        parts = [reaching_parts(*size, spatial, divides=divides) for size, spatial in zip(sizes, geometry.spatial, strict=True)]
        terms = prod(sum(taps for *_, taps, _, _, _ in each) for each in parts)
        if terms * geometry.groups * geometry.filters * geometry.channels * FLOAT_BYTES > _MOST_PACKED:
            parts = [reaching_parts(*size, spatial, divides=False) for size, spatial in zip(sizes, geometry.spatial, strict=True)]
    phases: list[Phase] = []
    for dimensions in product(*parts):
        first, steps, out, taps, window, strides, dilations, starts = zip(*dimensions, strict=True)
        phases.append(Phase(first, steps, out, taps, window, strides, dilations, starts))
    return phases


def reaching_parts(out: int, taps: int, stride: int, dilation: int, start: int, size: int, *, divides: bool) -> list[Dimension]:
    """The positions of one dimension by the taps that read the input there: one part, unless `divides` and it saves a fifth of the terms.

    Only dilated windows are so large that it pays: those of atrous pyramids reach beyond small images.
    """
    whole = (0, 1, out, slice(None), taps, stride, dilation, start)
    if dilation <= 1:
        return [whole]
    ranges = [reaching_positions(out, stride, tap * dilation - start, size) for tap in range(taps)]
    reaching = [tap for tap, (first, last) in enumerate(ranges) if first < last]
    if not reaching:
        return [whole]
    reaching = [*range(reaching[0], reaching[-1] + 1)]  # strides may be so large that one between them reads nothing
    if divides:
        bounds = sorted({0, out, *(bound for tap in reaching for bound in ranges[tap])})
        parts = [
            (low, high, [tap for tap in reaching if ranges[tap][0] <= low and high <= ranges[tap][1]]) for low, high in pairwise(bounds)
        ]
        kept = sum((high - low) * len(taken) for low, high, taken in parts)
        packed = sum(len(taken) for _, _, taken in parts)
        if all(taken for *_, taken in parts) and 5 * kept <= 4 * out * len(reaching) and packed < 3 * taps:
            return [_part(low, high, taken, stride, dilation, start) for low, high, taken in parts]
    return [_part(0, out, reaching, stride, dilation, start) if len(reaching) < taps else whole]


def _part(low: int, high: int, taps: Sequence[int], stride: int, dilation: int, start: int) -> Dimension:
    """Positions from `low` to before `high`, with consecutive taps."""
    first, count = taps[0], len(taps)
    before = start - first * dilation - low * stride
    return low, 1, high - low, slice(first, first + count), count, stride, dilation if count > 1 else 1, before


def reaching_positions(out: int, stride: int, offset: int, size: int) -> tuple[int, int]:
    """The first position at which a tap reads the input, and the one after the last; `offset` is where it reads at position 0."""
    first = min(out, max(0, -(offset // stride)))
    return first, max(first, min(out, -((offset - size) // stride)))


def _split_dimension(out: int, taps: int, stride: int, dilation: int, start: int) -> list[Dimension]:
    """The phases of a transposed convolution in one dimension; the filter is reversed."""
    phases: list[Dimension] = []
    common = gcd(stride, dilation)
    for remainder in range(stride):
        first = (remainder - start) % stride
        if first >= out:
            continue
        count = -(-(out - first) // stride)
        reaching = [tap for tap in range(taps) if tap * dilation % stride == remainder]
        if reaching:
            chosen = slice(taps - 1 - reaching[-1], taps - reaching[0], stride // common)
            padding = (reaching[-1] * dilation - first - start) // stride
            phases.append((first, stride, count, chosen, len(reaching), 1, dilation // common, padding))
        else:
            phases.append((first, stride, count, slice(0), 0, 1, 1, 0))
    return phases


_GATES = {None: "", "silu": "x sigmoid(x)", "swish": "SWISH", "hard_silu": "x HARD_SIGMOID(x)", "hard_swish": "HARD_SWISH"}


@dataclass(frozen=True)
class Epilogue:
    """The function that kernels apply to the sums, with its coefficients.

    Attributes:
        gate: the function, as `EpilogueConvolutionDesc` names it.
        adds: whether a tensor is added before.
        clips: whether results are clipped. Most gates are not followed by a clip, which takes a tenth of their time.
    """

    gate: str | None = None
    adds: bool = False
    clips: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether results are only clipped."""
        return self.gate is None and not self.adds

    def describe(self) -> str:
        """The computation, in words."""
        parts = ["a tensor is added"] * self.adds + [_GATES[self.gate]]
        return f"epilogue in float32: {', then '.join(part for part in parts if part)}"


PLAIN = Epilogue()
"""The epilogue that clips."""


class GatherParameters(KernelStruct):
    """The parameters of the gathering of an input tile: see `input_tile_gather`."""

    channels: Count = field("planes of the tile: channels of the image, each with the slices of all taps along the depth")
    depth: Count = field("slices of the image")
    height: Count = field("rows of the image")
    width: Count = field("columns of the image")
    depth_taps: Count = field("taps of the window along the depth")
    dilation_z: Count = field("slices from a tap along the depth to the next")
    stride_y: Count = field("rows from a position of the window to the next below")
    stride_x: Count = field("columns from a position of the window to the next")
    pad_y: Count = field("rows of padding above the image")
    pad_x: Count = field("columns of padding left of the image")
    subplane_rows: Count = field("rows of a subplane")
    run_rows: Count = field("rows of a subplane that are copied before some of the image are left out")
    left_out_rows: Count = field("rows of the image that are left out after them")
    pitch: Count = field("elements from a row of a subplane to the next")
    plane: Bytes = field("from a plane of the tile to the next")
    input_channel: Bytes = field("from a channel of the image to the next")
    input_slice: Bytes = field("from a slice of the image to the next")
    input_row: Bytes = field("from a row of the image to the next")
    input_element: Bytes = field("from an element of a row to the next")
    padding: Float32 = field("the value outside of the image")


Pair = tuple[int, int]
"""A number for y, and one for x."""


@dataclass(frozen=True)
class InputTileLayout:
    """The layout of an input tile: a copy of what the windows of some rows of positions read, with its padding.

    It has a subplane for each pair of y and x modulo the strides (space to depth), so what a tap reads for the positions of a
    row is contiguous. Rows of the image between those that two taps read are left out, where the strides along y are 1.

    Attributes:
        rows: rows of positions.
        columns: positions in a row.
        taps: sizes of the window.
        strides: steps from one position of the window to the next.
        dilations: steps from one tap to the next.
    """

    rows: int
    columns: int
    taps: Pair
    strides: Pair
    dilations: Pair

    @property
    def pitch(self) -> int:
        """Elements from a row of a subplane to the next one."""
        return self.columns + (self.taps[1] - 1) * self.dilations[1] // self.strides[1]

    @property
    def subplane_rows(self) -> int:
        """Rows of a subplane."""
        return self.taps[0] * self.rows if self.left_out_rows else self.rows + self.extra_rows

    @property
    def extra_rows(self) -> int:
        """Rows that a window reads beyond the first one, and those between them."""
        return (self.taps[0] - 1) * self.dilations[0] // self.strides[0]

    @property
    def left_out_rows(self) -> int:
        """Rows of the image that no tap reads between the rows that one tap reads and those of the next."""
        return max(0, self.dilations[0] - self.rows) if self.strides[0] == 1 < self.taps[0] else 0

    @property
    def run_rows(self) -> int:
        """Rows of a subplane that follow each other in the image, at the strides along y."""
        return self.rows if self.left_out_rows else self.subplane_rows

    def most_rows(self, size: int) -> int:
        """The most rows of positions whose input tile has at most `size` rows, or 1."""
        between = min(self.dilations[0] - 1, size // self.taps[0]) if self.strides[0] == 1 < self.taps[0] else 1
        return max(1, size - self.extra_rows, between)

    @property
    def plane(self) -> int:
        """Bytes of a channel."""
        return self.strides[0] * self.strides[1] * self.subplane_rows * self.pitch * FLOAT_BYTES

    def offsets(self) -> FixedArray:
        """For each tap the bytes from a position to the element that it reads."""
        numbers = *self.taps, *self.strides, self.dilations[0] - self.left_out_rows, self.dilations[1], self.pitch, self.subplane_rows
        return FixedArray(SizedArray.mapped_from(numbers, _offsets, (self.taps[0] * self.taps[1],)))


def _offsets(numbers: Array) -> Array:
    """`InputTileLayout.offsets`, given taps, strides, steps from a tap to the next in the tile, the pitch and the rows of a subplane."""
    height, width, down, right, over, along, pitch, subplane_rows = numbers.tolist()
    rows = [at // down * pitch + at % down * right * subplane_rows * pitch for at in (tap * over for tap in range(height))]
    columns = [at // right + at % right * subplane_rows * pitch for at in (tap * along for tap in range(width))]
    return np.add.outer(np.array(rows, np.int64), np.array(columns, np.int64)).ravel() * FLOAT_BYTES  # few: NumPy would take longer


class ConvolutionParameters(CountedParameters):
    """The parameters that both kernels of a convolution read.

    A tile is some rows of positions in a slice of an image and a group, for one split of the blocks of filters. The result for a filter is
    clip((sum - first) * second + third, low, high), with its three `coefficients`.
    """

    filter_splits: Count = field("splits of the blocks of filters")
    row_splits: Count = field("splits of the rows of a slice")
    groups: Count = field("groups of the convolution")
    filters: Count = field("filters of a group")
    blocks: Count = field("blocks of filters of a group")
    out_depth: Count = field("slices of positions of an image")
    out_height: Count = field("rows of positions of a slice")
    positions: Count = field("positions of a slice, if its last row may be shorter than the others")
    rows: Count = field("rows of positions of a tile")
    copies: Flag = field("whether an input tile is copied, rather than read in place")
    gather: CodeAddress = field("the kernel that copies an input tile")
    gather_parameters: Address = field("the `GatherParameters` of that kernel")
    stride_z: Count = field("slices of the input from a slice of positions to the next")
    pad_z: Count = field("slices of padding before the input")
    input: Address = field("what the first tap reads for the first position; if input tiles are copied, the first element")
    input_image: Bytes = field("from an image of the input to the next")
    input_group: Bytes = field("from a group's channels of the input to the next group's")
    slice_step: Bytes = field("from what a slice of positions reads in place to what the next one reads")
    row_step: Bytes = field("from what a row of positions reads to what the next one reads")
    weights: Address = field("the packed filters")
    coefficients: Address = field("the epilogue's coefficients [groups, 3, filters]")
    output: Address = field("the first element of the phase in the output")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a channel of the output to the next")
    output_slice: Bytes = field("from a slice of positions to the next")
    output_row: Bytes = field("from a row of positions to the next")
    output_element: Bytes = field("from a position of a row to the next")
    scratch: Address = field("the scratch of all threads")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    input_tile: Bytes = field("the offset of the input tile in a thread's scratch")
    added: Address = field("what the epilogue adds to `output`, in the same layout")
    low: Float32 = field("the lower bound of the results")
    high: Float32 = field("the upper bound of the results")
    alpha: Float32 = field("the slope of the epilogue's line")
    beta: Float32 = field("the value of that line at 0")


class PositionParameters(ConvolutionParameters):
    """The parameters of the convolution that is vectorized over positions.

    Weights are [groups, blocks, channels, taps, filters of a block].
    """

    channels: Count = field("channels of a group, each with the slices of all taps along the depth")
    taps: Count = field("taps of the window in a slice")
    out_width: Count = field("positions of a row")
    pitch: Count = field("positions from the beginning of a row to the next row's")
    plane: Bytes = field("from a channel to the next, in the input tile or in the input")
    offsets: Address = field("for each tap the bytes from a position to what it reads, int64 [taps]")


class ChannelParameters(ConvolutionParameters):
    """The parameters of the convolution that is vectorized over output channels.

    Weights are [groups, blocks, terms, vectors, lanes]. A thread's scratch begins with a row of zeros.
    """

    columns: Count = field("positions of a row")
    stride_y: Count = field("rows of the input tile from a row of positions to the next")
    column_step: Bytes = field("from what a position reads to what the next one of its row reads")
    run_rows: Count = field("rows whose positions all lie `output_element` apart in the output")
    term_offsets: Address = field("where a position reads the terms of a chunk, in bytes, int64 [chunk_terms]")
    terms: Count = field("terms of a sum")
    chunk_terms: Count = field("terms of a chunk, at most")
    chunk_step: Bytes = field("from the input of a chunk's terms to the next chunk's")
    vectors: Count = field("vectors of filters of a block")
    max_columns: Count = field("positions of a product, at most")
    product: CodeAddress = field("the kernel of `build_product`")
    epilogue_tile: Bytes = field("the offset of the epilogue's tile in a thread's scratch")
    sums: Bytes = field("the offset of the sums of a block in a thread's scratch")


ByteStrides = tuple[int, int, int, int, int]
"""Bytes from an image of a tensor to the next, from a channel, and along three spatial dimensions."""


def byte_strides(tensor: TensorDesc) -> ByteStrides:
    """A tensor's strides in bytes; a row of one element counts as contiguous."""
    size = tensor.data_type.numpy.itemsize
    outer, inner, *along = (stride * size for stride in tensor.element_strides)
    depth, height, width = (0,) * (3 - len(along)) + tuple(along)
    return outer, inner, depth, height, size if tensor.sizes[-1] == 1 else width
