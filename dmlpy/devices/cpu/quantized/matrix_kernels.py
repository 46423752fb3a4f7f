"""The compiled product of matrices of bytes, and the packing of B in panels of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte, set_word, word_at
from dmlpy.devices.cpu.quantized.byte_product_kernels import byte_sums, copy_bytes, quad_product, row_interleaving, widen_quads
from dmlpy.devices.cpu.quantized.matrix import ByteMatrixParameters, BytePackingParameters
from dmlpy.devices.cpu.quantized.products import Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, row_results, row_terms_at, run_writer
from dmlpy.devices.cpu.simd import integer_at, set_integer
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_NO_BIAS = -(1 << 31)
"""The bits of -0, which keeps the sign of a zero that it is added to."""


def build_packing(isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of the packing of B, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    vectors = isa.block[1]
    width, size = vectors * isa.lanes, isa.lanes * 4
    interleave, add = row_interleaving(), byte_sums(vectors, isa)

    @jit
    def pack(p: BytePackingParameters, tile: Any, state: Any) -> Any:
        entry, first = tile // p.panels, tile % p.panels * width
        source = p.b + entry // p.batch * p.b_outer + entry % p.batch * p.b_batch + first * p.b_column
        panel, columns = p.packed + tile * p.quads * vectors * size, min(width, p.columns - first)
        for quad in range(p.quads):
            to, rows = panel + quad * vectors * size, min(4, p.terms - quad * 4)
            interleave(source + quad * 4 * p.b_row, p.b_row, rows, p.b_column, columns, p.b_flip, to)
            for column in range(columns, width):
                set_word(to + column * 4, 0)
        add(vectors, p.quads, vectors * size, 1, p.offsets, panel, p.sums + tile * vectors * size)
        return state

    return share_tiles(BytePackingParameters, pack)


@jit
def _copy_row(p: ByteMatrixParameters, source: Any, target: Any) -> Any:
    """Copies a row of A as signed bytes, with zeros for missing terms; returns its sum."""
    if p.a_column == 1:
        copy_bytes(source, target, p.terms, p.a_flip)
    else:
        for term in range(p.terms):
            set_byte(target + term, byte_at(source + term * p.a_column) ^ (p.a_flip & 255))
    for term in range(p.terms, p.quads * 4):
        set_byte(target + term, 0)
    total = 0
    for quad in range(p.quads):
        four = word_at(target + quad * 4) ^ 0x80808080  # unsigned again, so that bytes are separate
        total += (four & 255) + (four >> 8 & 255) + (four >> 16 & 255) + (four >> 24 & 255) - 512
    return total


def _rows_copy(isa: ByteIsa) -> Any:
    """The kernel `copy_rows(p, a, first_row, rows, seconds, target)`, which copies rows of A, and writes their second terms."""
    quad_bytes, widens = isa.factor_bytes, isa.factor_bytes > 4

    @jit
    def copy_rows(p: ByteMatrixParameters, a: Any, first_row: Any, rows: Any, seconds: Any, target: Any) -> None:
        for row in range(rows):
            at = target + row * p.quads * quad_bytes
            quads = at + p.quads * (quad_bytes - 4)
            total = _copy_row(p, a + row * p.a_row, quads)
            if widens:
                widen_quads(quads, at, p.quads)
            r = row_terms_at(p.row_terms + (first_row + row) * ROW_SIZE)
            set_integer(seconds + row * 8, r.second - total)

    return copy_rows


def _row_writer(output: Output, isa: ByteIsa) -> Any:
    """The kernel `write_row` of `build_product`."""
    (block, vectors), lanes = isa.block, isa.lanes
    width, finish, write, has_bias = vectors * lanes, row_results(output, False, isa), run_writer(output), output is Output.FLOAT32

    @jit
    def write_row(
        p: ByteMatrixParameters, row: Any, second: Any, total: Any, terms: Any, column: Any, scratch: Any, bias: Any, output: Any
    ) -> None:
        """Writes the results of a row and a panel."""
        columns, results, biases = min(width, p.columns - column), scratch + block * width * 4, scratch + (block + 1) * width * 4
        if has_bias and p.bias != 0:
            at = bias + row * p.bias_row + column * p.bias_column
            if p.bias_column == 4 and columns == width:
                biases = at
            else:
                for number in range(columns):
                    set_word(biases + number * 4, word_at(at + number * p.bias_column))
        finish(p, p.row_terms + row * ROW_SIZE, second, total, terms, (columns + lanes - 1) // lanes, biases, results)
        write(results, output + row * p.output_row + column * p.output_element, columns, p.output_element)

    return write_row


def build_product(output: Output, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a product, to be compiled.

    Args:
        output: what becomes of the sums.
        isa: the instruction set that it is compiled for.
    """
    block, vectors = isa.block
    width, size, lanes = vectors * isa.lanes, isa.lanes * 4, isa.lanes
    multiply, single = quad_product(block, vectors, False, isa), quad_product(1, vectors, False, isa)
    write_row, copy_rows, quad_bytes = _row_writer(output, isa), _rows_copy(isa), isa.factor_bytes

    @jit
    def begin(p: ByteMatrixParameters, thread: Any) -> Any:
        """Returns the thread's scratch and that no chunk of rows is in it."""
        sums = own_scratch(p, thread)
        for column in range(width):
            set_word(sums + ((block + 1) * width + column) * 4, _NO_BIAS)
        return sums, -1

    @jit
    def multiply_tile(p: ByteMatrixParameters, tile: Any, state: Any) -> Any:
        sums, seconds = state[0], state[0] + (block + 2) * width * 4
        rows_of_a, pitch = seconds + p.chunk_rows * 8, p.quads * quad_bytes
        panel_split, chunk = tile % p.panel_splits, tile // p.panel_splits
        entry, first_row = chunk // p.row_chunks, chunk % p.row_chunks * p.chunk_rows
        outer, inner, rows = entry // p.batch, entry % p.batch, min(p.chunk_rows, p.rows - first_row)
        if state[1] != chunk:
            copy_rows(p, p.a + outer * p.a_outer + inner * p.a_batch + first_row * p.a_row, first_row, rows, seconds, rows_of_a)
        b, of_columns = p.b + outer * p.b_outer + inner * p.b_batch, p.column_first + outer * p.sums_outer + inner * p.sums_batch
        y = p.output + outer * p.output_outer + inner * p.output_batch
        bias = p.bias + outer * p.bias_outer + inner * p.bias_batch
        for panel in range(p.panels * panel_split // p.panel_splits, p.panels * (panel_split + 1) // p.panel_splits):
            column = panel * width
            count = (min(width, p.columns - column) + lanes - 1) // lanes
            terms = of_columns + column * 4, p.column_second + column * 4, p.column_factor + column * 4, p.column_scale + column * 8
            row = 0
            while row < rows:
                left = rows - row
                matrix, of_panel = rows_of_a + row * pitch, b + panel * p.b_panel
                if left >= block:
                    multiply(count, p.quads, vectors * size, 1, p.offsets, of_panel, matrix, pitch, sums)
                    left = block
                else:
                    single(count, p.quads, vectors * size, 1, p.offsets, of_panel, matrix, pitch, sums)
                    left = 1
                for each in range(row, row + left):
                    total, second = sums + (each - row) * vectors * size, integer_at(seconds + each * 8)
                    write_row(p, first_row + each, second, total, terms, column, sums, bias, y)
                row += left
        return sums, chunk

    return share_tiles(ByteMatrixParameters, multiply_tile, begin)
