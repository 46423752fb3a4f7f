"""Shared by the plans of products of bytes and their kernels: the terms of rows and columns, and the kernels' parameters.

A sum over terms k of (left[k] - left zero point) * (right[k] - right zero point) is the sum of left[k] * right[k], plus a product for the
row (the left operand) and one for the column. All of it is computed modulo 2^32, so it is exact where the result fits in 32 bits.
"""

from __future__ import annotations

from enum import StrEnum

from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, Flag, Float64, KernelStruct, field


class Output(StrEnum):
    """What becomes of sums."""

    INT32 = "int32"
    FLOAT32 = "float32"
    BYTES = "bytes"


class RowTerms(KernelStruct):
    """What sums of a row, or of a filter, are combined with.

    The result is ((sum + first * column's first + second * column's second + bias) * scale * second_scale * column's scale / output_scale)
    in float64. `factor` times the column's factor is about the product of the scales.
    """

    first: Count = field("the factor of the column's first term")
    second: Count = field("the factor of the column's second term; products of bytes whose left rows are packed at run time set it")
    zero_point: Count = field("the zero point of the results")
    factor: Float64 = field("the product of scales as a float32; NaN if results cannot be computed in float32")
    bias: Float64 = field("what is added to sums in float64")
    scale: Float64 = field("the first scale")
    second_scale: Float64 = field("the second scale")
    output_scale: Float64 = field("the scale of the results")


class TermParameters(CountedParameters):
    """The parameters of `build_terms`: scales and zero points become the terms of rows and columns."""

    rows: Count = field("rows, or filters")
    columns: Count = field("columns, with those that pad the last panel")
    valid_columns: Count = field("columns that have scales")
    terms: Count = field("terms of a sum")
    of_filters: Flag = field("whether rows are filters, whose sums are known; else columns have sums")
    sums: Address = field("the sums of each filter's factors, or of each column's bytes, 32-bit integers")
    left_zero: Address = field("the zero point of rows, a byte; 0 for none")
    left_zero_step: Bytes = field("from a row's zero point to the next")
    left_shift: Count = field("how far left bytes were moved")
    left_signed: Flag = field("whether the left zero points are signed")
    right_zero: Address = field("the zero point of columns, a byte; 0 for none")
    right_zero_step: Bytes = field("from a column's zero point to the next")
    right_shift: Count = field("how far right bytes were moved")
    right_signed: Flag = field("whether the right zero points are signed")
    left_scale: Address = field("scales of rows; 0 for none")
    left_scale_step: Bytes = field("from a row's scale to the next")
    right_scale: Address = field("scales of columns; 0 for none")
    right_scale_step: Bytes = field("from a column's scale to the next")
    output_scale: Address = field("scales of the results; 0 for none")
    output_scale_step: Bytes = field("from a row's output scale to the next")
    output_zero: Address = field("zero points of the results; 0 for none")
    output_zero_step: Bytes = field("from a row's output zero point to the next")
    output_signed: Flag = field("whether the results are signed")
    bias: Address = field("the bias of each filter, 32-bit integers; 0 for none")
    bias_step: Bytes = field("from a bias to the next")
    row_terms: Address = field("the `RowTerms` of each row")
    column_first: Address = field("the columns' first terms, written for filters only")
    column_second: Address = field("the columns' second terms")
    column_factor: Address = field("the columns' factors")
    column_scale: Address = field("the columns' scales")
    uses_second: Address = field("an integer: whether a second term of a row is not 0")


class ResultParameters(CountedParameters):
    """What both kernels of products need for their results."""

    row_terms: Address = field("the `RowTerms` of each row")
    column_first: Address = field("the columns' first terms")
    column_second: Address = field("the columns' second terms")
    column_factor: Address = field("the columns' factors")
    column_scale: Address = field("the columns' scales")
    low: Count = field("the least result")
    high: Count = field("the largest result")
    output: Address = field("the first element of the output")
    output_element: Bytes = field("from a result of a row to the next")
    scratch: Address = field("the scratch of all threads")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    offsets: Address = field("for each tap the bytes from a position to what it reads, int64")


class ByteMatrixParameters(ResultParameters):
    """The parameters of a product of matrices. A tile is a chunk of rows and a split of the panels, for an entry of the batch."""

    rows: Count = field("rows of A")
    terms: Count = field("columns of A")
    quads: Count = field("quads of a row")
    columns: Count = field("columns of B")
    panels: Count = field("panels of columns")
    row_chunks: Count = field("chunks of rows")
    panel_splits: Count = field("splits of the panels")
    chunk_rows: Count = field("rows of a chunk, at most")
    batch: Count = field("entries along the inner dimension of the batch")
    a: Address = field("A")
    a_outer: Bytes = field("from an entry of A along the outer dimension of the batch to the next")
    a_batch: Bytes = field("from an entry of A along the inner dimension to the next")
    a_row: Bytes = field("from a row of A to the next")
    a_column: Bytes = field("from a column of A to the next")
    a_flip: Count = field("what makes the bytes of A signed")
    b: Address = field("the packed panels")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_panel: Bytes = field("from a panel to the next")
    sums_outer: Bytes = field("from the columns' first terms of an entry along the outer dimension to the next")
    sums_batch: Bytes = field("from the columns' first terms of an entry along the inner dimension to the next")
    bias: Address = field("what is added to the results, float32; 0 for none")
    bias_outer: Bytes = field("from an entry of the bias along the outer dimension of the batch to the next")
    bias_batch: Bytes = field("from an entry of the bias along the inner dimension to the next")
    bias_row: Bytes = field("from a row of the bias to the next")
    bias_column: Bytes = field("from a column of the bias to the next")
    output_outer: Bytes = field("from an entry of the output along the outer dimension of the batch to the next")
    output_batch: Bytes = field("from an entry of the output along the inner dimension to the next")
    output_row: Bytes = field("from a row of the output to the next")


class BytePackingParameters(CountedParameters):
    """The parameters of the packing of B. A tile is a panel of an entry of the batch."""

    terms: Count = field("rows of B")
    quads: Count = field("quads of a column")
    columns: Count = field("columns of B")
    panels: Count = field("panels of an entry")
    batch: Count = field("entries along the inner dimension of the batch")
    b: Address = field("B")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_row: Bytes = field("from a row of B to the next")
    b_column: Bytes = field("from a column of B to the next")
    b_flip: Count = field("what makes the bytes of B unsigned")
    packed: Address = field("the panels [entries, panels, quads, vectors, lanes]")
    sums: Address = field("the sums of each column's bytes [entries, panels, vectors, lanes]")
    offsets: Address = field("an int64 of 0")


class ByteWindowParameters(ResultParameters):
    """What both kernels of convolutions need."""

    row_splits: Count = field("splits of the rows of an image")
    groups: Count = field("groups of the convolution")
    filters: Count = field("filters of a group")
    rows: Count = field("rows of positions of a tile")
    out_height: Count = field("rows of positions of an image")
    out_width: Count = field("positions of a row")
    height: Count = field("rows of an image")
    width: Count = field("columns of an image")
    stride_y: Count = field("rows from a position of the window to the next below")
    pad_y: Count = field("rows of padding above the image")
    pad_x: Count = field("columns of padding left of the image")
    input: Address = field("the image")
    input_image: Bytes = field("from an image to the next")
    input_channel: Bytes = field("from a channel to the next")
    input_row: Bytes = field("from a row to the next")
    input_element: Bytes = field("from an element of a row to the next")
    input_flip: Count = field("what makes the input's bytes unsigned")
    input_zero: Address = field("the zero point of the input, a byte; 0 for none")
    weights: Address = field("the packed filters")
    uses_second: Address = field("an integer: whether sums of the input's bytes are needed")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a channel of the output to the next")
    output_row: Bytes = field("from a row of positions to the next")


class ByteConvolutionParameters(ByteWindowParameters):
    """The parameters of a convolution. A tile is some rows of positions of an image and a group, for one split of the filters' blocks.

    Filters are [groups, blocks, quads, taps, filters of a block, 4].
    """

    filter_splits: Count = field("splits of the blocks of filters")
    blocks: Count = field("blocks of filters of a group")
    channels: Count = field("input channels of a group")
    quads: Count = field("quads of a group's channels")
    taps: Count = field("taps of the window")
    positions: Count = field("positions of an image if its last row may be shorter than the others, else 0")
    stride_x: Count = field("columns from a position of the window to the next")
    subplane_rows: Count = field("rows of a subplane")
    pitch: Count = field("quads from a row of a subplane to the next")
    plane: Bytes = field("from a quad of channels to the next")
    input_tile: Bytes = field("the offset of the input tile in a thread's scratch")


class DepthwiseByteParameters(ByteWindowParameters):
    """The parameters of a convolution whose groups have one input channel. A tile is some units: rows of an image and a filter.

    A thread has rows of two images, of which one is copied while the other is multiplied.

    Filters are [groups, filters, rows of taps, quads, 4].
    """

    units: Count = field("units of all tiles")
    tile_size: Bytes = field("the size of the rows of an image that a unit reads, with what vectors read behind them")
    taps_y: Count = field("rows of taps of the window")
    quads: Count = field("quads of a row of taps")
    ones: Address = field("a filter of ones")
    tile_rows: Count = field("rows of the image that a tile's windows read")
    pitch: Bytes = field("from a row of the tile to the next")
    row_step: Bytes = field("from a row of taps to the next")
    joins_rows: Flag = field("whether the positions of all rows of a tile are computed as those of one row, `pitch` apart")


class DepthwisePlaneParameters(ResultParameters):
    """The parameters of a convolution of small planes that are read in place. A tile is some units: a plane and a filter.

    Filters are as in `DepthwiseByteParameters`. A thread's scratch has the sums of vectors of positions, those of the input's bytes, and
    room for a plane.
    """

    units: Count = field("units of all tiles")
    groups: Count = field("planes of an image")
    filters: Count = field("filters of a plane")
    positions: Count = field("positions of a plane, at least a vector")
    vectors: Count = field("vectors of positions, of which the last may begin within the one before")
    quads: Count = field("quads of taps of a window")
    windows: Address = field("the `WINDOW`s [vectors, quads]")
    plane: Bytes = field("the size of a plane")
    reach: Bytes = field("from the beginning of a plane to the end of its last window")
    input: Address = field("the first plane")
    input_size: Bytes = field("from the first byte of the first plane to the end of the last one")
    input_image: Bytes = field("from an image to the next")
    input_channel: Bytes = field("from a plane to the next")
    input_flip: Count = field("what makes the input's bytes unsigned")
    input_zero: Address = field("the zero point of the input, a byte; 0 for none")
    weights: Address = field("the packed filters")
    ones: Address = field("a filter of ones")
    uses_second: Address = field("an integer: whether sums of the input's bytes are needed")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a plane of the output to the next")
