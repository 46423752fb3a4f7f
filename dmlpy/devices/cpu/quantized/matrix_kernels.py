"""The compiled product of matrices of bytes, and the packing of B in panels of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.quantized.byte_product_kernels import (
    byte_at,
    byte_sums,
    copy_bytes,
    quad_at,
    quad_product,
    row_interleaving,
    set_byte,
    set_quad,
)
from dmlpy.devices.cpu.quantized.matrix import ByteMatrixParameters, BytePackingParameters
from dmlpy.devices.cpu.quantized.products import Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, row_results, row_terms_at, run_writer
from dmlpy.devices.cpu.simd import integer_at, set_integer, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

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
    interleave, add, parameters_at = row_interleaving(), byte_sums(vectors, isa), struct_view(BytePackingParameters)

    def pack(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            entry, first = tile // p.panels, tile % p.panels * width
            source = p.b + entry // p.batch * p.b_outer + entry % p.batch * p.b_batch + first * p.b_column
            panel, columns = p.packed + tile * p.quads * vectors * size, min(width, p.columns - first)
            for quad in range(p.quads):
                to, rows = panel + quad * vectors * size, min(4, p.terms - quad * 4)
                interleave(source + quad * 4 * p.b_row, p.b_row, rows, p.b_column, columns, p.b_flip, to)
                for column in range(columns, width):
                    set_quad(to + column * 4, 0)
            add(vectors, p.quads, vectors * size, 1, p.offsets, panel, p.sums + tile * vectors * size)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return pack


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
        four = quad_at(target + quad * 4) ^ 0x80808080  # unsigned again, so that bytes are separate
        total += (four & 255) + (four >> 8 & 255) + (four >> 16 & 255) + (four >> 24 & 255) - 512
    return total


def build_product(output: Output, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a product, to be compiled.

    Args:
        output: what becomes of the sums.
        isa: the instruction set that it is compiled for.
    """
    block, vectors = isa.block
    width, size, lanes = vectors * isa.lanes, isa.lanes * 4, isa.lanes
    multiply, single, finish, write = (
        quad_product(block, vectors, False, isa),
        quad_product(1, vectors, False, isa),
        row_results(output, False, isa),
        run_writer(output),
    )
    has_bias = output is Output.FLOAT32
    parameters_at = struct_view(ByteMatrixParameters)

    def product(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        sums = p.scratch + thread * p.scratch_size
        results, biases = sums + block * width * 4, sums + (block + 1) * width * 4
        seconds = sums + (block + 2) * width * 4
        rows_of_a, pitch = seconds + p.chunk_rows * 8, p.quads * 4
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        packed = -1
        if tile < p.tiles:
            for column in range(width):
                set_quad(biases + column * 4, _NO_BIAS)
        while tile < p.tiles:
            panel_split, chunk = tile % p.panel_splits, tile // p.panel_splits
            entry, first_row = chunk // p.row_chunks, chunk % p.row_chunks * p.chunk_rows
            outer, inner, rows = entry // p.batch, entry % p.batch, min(p.chunk_rows, p.rows - first_row)
            if packed != chunk:
                packed, a = chunk, p.a + outer * p.a_outer + inner * p.a_batch + first_row * p.a_row
                for row in range(rows):
                    total = _copy_row(p, a + row * p.a_row, rows_of_a + row * pitch)
                    r = row_terms_at(p.row_terms + (first_row + row) * ROW_SIZE)
                    set_integer(seconds + row * 8, r.second - total)
            b, of_columns = p.b + outer * p.b_outer + inner * p.b_batch, p.column_first + outer * p.sums_outer + inner * p.sums_batch
            y = p.output + outer * p.output_outer + inner * p.output_batch
            bias = p.bias + outer * p.bias_outer + inner * p.bias_batch
            for panel in range(p.panels * panel_split // p.panel_splits, p.panels * (panel_split + 1) // p.panel_splits):
                column = panel * width
                columns = min(width, p.columns - column)
                count = (columns + lanes - 1) // lanes
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
                        place = first_row + each
                        if has_bias and p.bias != 0:
                            at = bias + place * p.bias_row + column * p.bias_column
                            for number in range(columns):
                                set_quad(biases + number * 4, quad_at(at + number * p.bias_column))
                        of_row, second = p.row_terms + place * ROW_SIZE, integer_at(seconds + each * 8)
                        finish(p, of_row, second, sums + (each - row) * vectors * size, terms, count, biases, results)
                        write(results, y + place * p.output_row + column * p.output_element, columns, p.output_element)
                    row += left
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return product
