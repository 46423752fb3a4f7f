"""Operators that move blocks of an image: into its channels and back, into columns and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Spelled, Uint, Uints
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DepthSpaceOrder, FeatureLevel
from dmlpy.description.markers import In, Limits, Out, Slot, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Derived, Explained, Sizes, Term, UnboundSymbolError, parse
from dmlpy.description.support import ALL_BUT_4_BITS, FLOATS, FLOATS_INTEGERS_TO_32, SupportRow
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.operators.windows import SlidingDesc

FROM_2_1 = (SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32), SupportRow("5_0", dims=4, T=ALL_BUT_4_BITS))
FROM_1_0 = (SupportRow("1_0", dims=4, T=FLOATS), *FROM_2_1)

INPUT_IMAGE = "batch_count input_channel_count input_height input_width"
OUTPUT_IMAGE = "batch_count output_channel_count output_height output_width"


class BlockSizeDesc(OperatorDesc):
    """The base of operators that move square blocks between an image and its channels."""

    in_blocks: ClassVar[Mapping[str, int]] = {}
    """The sizes of the input that are cut into blocks, each with the power of the block size that divides it."""

    input_tensor: Annotated[TensorDesc, In(INPUT_IMAGE)]
    """The image before the blocks are moved."""

    output_tensor: Annotated[TensorDesc | None, Out(OUTPUT_IMAGE, required=True)] = None
    """The image after the blocks are moved."""

    block_size: Annotated[Uint, Limits(least=1)]
    """The side of a square block."""

    def _times(self, symbols: Sizes, symbol: str, power: int = 1) -> Explained:
        """A size of the input, multiplied by a power of the block size.

        Raises:
            UnboundSymbolError: the block size makes no sense: Limits or `whole_blocks` report it.
        """
        self._check_block_size(symbols)
        names, factors = [symbol, *["block_size"] * power], [symbols[symbol], *[self.block_size] * power]
        return Explained(symbols[symbol] * self.block_size**power, f"{' * '.join(names)} = {' * '.join(map(str, factors))}")

    def _divided(self, symbols: Sizes, symbol: str) -> Explained:
        """A size of the input divided into blocks; raises as `_times`, and where it is not a whole number of them."""
        self._check_block_size(symbols)
        power, size = self.in_blocks[symbol], symbols[symbol]
        if size % self.block_size**power:
            raise UnboundSymbolError(symbol)
        return Explained(
            size // self.block_size**power, f"{symbol} / {_raised('block_size', power)} = {size} / {_raised(self.block_size, power)}"
        )

    def _check_block_size(self, symbols: Sizes) -> None:
        sizes = self.in_blocks.items()
        if not 1 <= self.block_size <= MAX_SIZE or any(self.block_size**power > symbols[symbol] for symbol, power in sizes):
            raise UnboundSymbolError("block_size")

    @rule("sizes that are cut into blocks are multiples of the block size")
    def whole_blocks(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        axes = [term.symbol for term in parse(INPUT_IMAGE)]
        for symbol, power in self.in_blocks.items() if 1 <= self.block_size <= MAX_SIZE else ():
            size, divisor = symbols[symbol], self.block_size**power
            if divisor > size:
                divides = "that divides" if power == 1 else "whose square divides"
                yield Violation("block_size", str(self.block_size), f"a number {divides} {size}", (symbols.why(symbol),))
            elif size % divisor:
                why = (f"{_raised('block_size', power)} is {_raised(self.block_size, power)}",)
                yield Violation(f"input_tensor.sizes[{axes.index(symbol)}]", str(size), f"a multiple of {divisor}", why)


def _raised(base: object, power: int) -> str:
    """The text of a power."""
    return f"{base}" if power == 1 else f"{base}^{power}"


class DepthToSpaceBaseDesc(BlockSizeDesc):
    """The base of DEPTH_TO_SPACE and DEPTH_TO_SPACE1."""

    in_blocks = {"input_channel_count": 2}

    @derived("input_channel_count / (block_size * block_size)")
    def output_channel_count(self, symbols: Sizes) -> Derived:
        return self._divided(symbols, "input_channel_count")

    @derived("input_height * block_size")
    def output_height(self, symbols: Sizes) -> Derived:
        return self._times(symbols, "input_height")

    @derived("input_width * block_size")
    def output_width(self, symbols: Sizes) -> Derived:
        return self._times(symbols, "input_width")


class DepthToSpaceDesc(DepthToSpaceBaseDesc, dml="DEPTH_TO_SPACE"):
    """DML_DEPTH_TO_SPACE_OPERATOR_DESC: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH.

    The same as DEPTH_TO_SPACE1 with the order DEPTH_COLUMN_ROW.
    """

    formula = "output[n, c, h * B + by, w * B + bx] = input[n, (by * B + bx) * C + c, h, w], B = block_size, C = output_channel_count"
    support = FROM_1_0


class DepthToSpace1Desc(DepthToSpaceBaseDesc, dml="DEPTH_TO_SPACE1"):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH1."""

    formula = "output[n, c, h * B + by, w * B + bx] = input[n, k, h, w], B = block_size, k by order"
    support = FROM_2_1

    order: Spelled[DepthSpaceOrder]
    """How the input's channels are counted: k = (by * B + bx) * C + c for DEPTH_COLUMN_ROW, (c * B + by) * B + bx for COLUMN_ROW_DEPTH."""


class SpaceToDepthBaseDesc(BlockSizeDesc):
    """The base of SPACE_TO_DEPTH and SPACE_TO_DEPTH1."""

    in_blocks = {"input_height": 1, "input_width": 1}

    @derived("input_channel_count * block_size * block_size")
    def output_channel_count(self, symbols: Sizes) -> Derived:
        return self._times(symbols, "input_channel_count", 2)

    @derived("input_height / block_size")
    def output_height(self, symbols: Sizes) -> Derived:
        return self._divided(symbols, "input_height")

    @derived("input_width / block_size")
    def output_width(self, symbols: Sizes) -> Derived:
        return self._divided(symbols, "input_width")


class SpaceToDepthDesc(SpaceToDepthBaseDesc, dml="SPACE_TO_DEPTH"):
    """DML_SPACE_TO_DEPTH_OPERATOR_DESC: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE.

    The same as SPACE_TO_DEPTH1 with the order DEPTH_COLUMN_ROW.
    """

    formula = "output[n, (by * B + bx) * C + c, h, w] = input[n, c, h * B + by, w * B + bx], B = block_size, C = input_channel_count"
    support = FROM_1_0


class SpaceToDepth1Desc(SpaceToDepthBaseDesc, dml="SPACE_TO_DEPTH1"):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE1."""

    formula = "output[n, k, h, w] = input[n, c, h * B + by, w * B + bx], B = block_size, k by order"
    support = FROM_2_1

    order: Spelled[DepthSpaceOrder]
    """How the output's channels are counted: k = (by * B + bx) * C + c for DEPTH_COLUMN_ROW, (c * B + by) * B + bx for COLUMN_ROW_DEPTH."""


class ColumnsDesc(SlidingDesc):
    """The base of FOLD and UNFOLD: an image, and columns that each hold one of its sliding blocks."""

    c_counts = {"DimensionCount": ("window_sizes", "strides", "dilations", "start_padding", "end_padding")}
    # The reference's table of types is empty; these are those of its examples, and their half.
    support = (SupportRow("6_4", dims=(3, 8), T=FLOATS),)

    window_sizes: Annotated[Uints, Limits(length="dimension_count", least=1), After()]
    """The elements of a block along each spatial dimension."""

    dilations: Annotated[Uints, Limits(length="dimension_count", least=1), After("strides")]
    """The steps from one element of a block to the next along each spatial dimension."""

    @cached_property
    def rank(self) -> int:
        return min(super().rank, MAX_DIMENSION_COUNT)  # longer arrays are reported one by one

    def window_lengths(self, symbols: Sizes) -> Sequence[int]:
        return self.window_sizes

    def window_place(self, axis: int) -> str:
        return f"window_sizes[{axis}]"

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        if slot.field.name == self.positioned and dimension_count > 3:
            # The documentation also gives the columns as many dimensions as the image, with leading ones.
            return (Term(1),) * (dimension_count - 3) + slot.field.marker.terms
        return super().aligned(slot, dimension_count)

    @derived("channel_count * the product of window_sizes")
    def column_size(self, symbols: Sizes) -> Derived:
        factors = [symbols["channel_count"], *(window.length for window in self.windows(symbols))]
        return Explained(math.prod(factors), " * ".join(map(str, factors)))

    @derived("the product of (spatial + start_padding + end_padding - (1 + (window_sizes - 1) * dilations)) // strides + 1")
    def block_count(self, symbols: Sizes) -> Derived:
        windows = self.windows(symbols)
        if any(window.positions < 1 for window in windows):
            raise UnboundSymbolError("window_sizes")  # `window_fits` reports it
        return Explained(math.prod(window.positions for window in windows), " * ".join(f"({window.formula()})" for window in windows))

    def _channels_agree(self, slid: int, positioned: int) -> bool:
        return False  # columns have no separate channels


class FoldDesc(ColumnsDesc, dml="FOLD"):
    """DML_FOLD_OPERATOR_DESC: sums sliding blocks, one per column, into an image. The transpose of UNFOLD.

    Columns count the blocks' positions in row-major order; a column's elements count channels, then places in the block, also in that
    order. What falls outside the image is dropped. No member but the output determines the image's sizes. The reference names no element
    types: FLOAT32 and FLOAT16 are taken. Columns may have leading dimensions of 1.
    """

    formula = "output[n, c, position * strides + w * dilations - start_padding] += input[n, (c, w), position]"
    ranked = ("output_tensor",)
    slid_over = "output_tensor"
    positioned = "input_tensor"

    input_tensor: Annotated[TensorDesc, In("batch_count column_size block_count"), After()]
    """The columns, each a block of all channels."""

    output_tensor: Annotated[TensorDesc, Out("batch_count channel_count *spatial")]
    """The image, of 1 to 6 spatial dimensions."""


class UnfoldDesc(ColumnsDesc, dml="UNFOLD"):
    """DML_UNFOLD_OPERATOR_DESC: copies sliding blocks of an image into columns. The transpose of FOLD.

    Columns count the blocks' positions in row-major order; a column's elements count channels, then places in the block, also in that
    order. Outside the image there are zeros. The reference names no element types: FLOAT32 and FLOAT16 are taken. Columns may have
    leading dimensions of 1.
    """

    formula = "output[n, (c, w), position] = input[n, c, position * strides + w * dilations - start_padding]"
    ranked = ("input_tensor",)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count *spatial"), After()]
    """The image, of 1 to 6 spatial dimensions."""

    output_tensor: Annotated[TensorDesc | None, Out("batch_count column_size block_count", required=True)] = None
    """The columns, each a block of all channels."""
