"""The compiled matrix products of packed panels and of small matrices, and the packing of B in panels of columns or pairs of BFLOAT16."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import binding, ir

from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.lane_kernels import horizontal_sum
from dmlpy.devices.cpu.load_store import load_store_of, row_copy, transposed_tile
from dmlpy.devices.cpu.matrix.blocked import VECTORS
from dmlpy.devices.cpu.matrix.plan import PairParameters, PanelPackingParameters, ProductParameters, SmallProductParameters
from dmlpy.devices.cpu.product_kernels import row_products
from dmlpy.devices.cpu.simd import INDEX, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO = np.float32(0.0)
_HALF_BITS = 16


@cache
def panel_copy(width: int, stored: Storage, isa: Isa) -> Any:
    """The kernel `copy(source, source_row, rows, columns, target)`.

    It copies the first columns of some rows one after the other, as floats, with zeros for a panel's missing columns.

    Args:
        width: the vectors of a panel.
        stored: the type of the source's elements; panels are of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    store, read, lanes, size = simd.store, load_store.load, isa.lanes, simd.size
    vector_size = lanes * load_store.size

    @jit
    def copy(source: Any, source_row: Any, rows: Any, columns: Any, target: Any) -> None:
        for _ in range(rows):
            for vector in range(width):
                store(target + vector * size, read(source + vector * vector_size, columns - vector * lanes))
            source += source_row
            target += width * size

    return copy


def build_packing(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the packing, to be compiled.

    Args:
        stored: the type of the matrix's elements; panels are of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    lanes, size, element = isa.lanes, simd_of(isa).size, load_store_of(stored, isa).size
    copy, transpose = panel_copy(VECTORS, stored, isa), transposed_tile(isa, stored=stored)
    row_size = VECTORS * size

    @jit
    def pack(p: PanelPackingParameters, tile: Any, scratch: Any) -> Any:
        entry, first = tile // p.panels, tile % p.panels * VECTORS * lanes
        outer, inner = entry // p.batch, entry % p.batch
        source = p.b + outer * p.b_outer + inner * p.b_batch
        target = p.packed + outer * p.packed_outer + inner * p.packed_batch + tile % p.panels * p.panel_size
        columns = min(VECTORS * lanes, p.columns - first)
        if p.transposed == 0:
            copy(source + first * element, p.b_row, p.terms, columns, target)
        else:
            source += first * p.b_row
            for term in range(0, p.terms, lanes):
                for vector in range(VECTORS):
                    first_row = vector * lanes if vector * lanes < columns else 0  # of those that exist
                    at, to = source + first_row * p.b_row + term * element, target + term * row_size + vector * size
                    transpose(at, p.b_row, columns - vector * lanes, min(lanes, p.terms - term), to, row_size)
        return scratch

    return share_tiles(PanelPackingParameters, pack)


@cache
def _result_writer(stored: Storage, isa: Isa) -> Any:
    """The kernel `write(p, sums, c, output, left)`, which writes the results of a vector of sums, or of its first ones.

    The parameters are those of either product; `c` is the address of what is added, 0 for nothing.
    """
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    read, write, one, all_of, scaled = load_store.load, load_store.store, load_store.load_one, simd.all_of, simd.multiply
    multiply_add, at_most, at_least = simd.multiply_add, simd.at_most, simd.at_least

    @jit
    def write_vector(p: Any, sums: Any, c: Any, output: Any, left: Any) -> None:
        value = scaled(all_of(p.alpha), sums)
        if c != 0:
            value = multiply_add(all_of(p.beta), all_of(one(c)) if p.c_column == 0 else read(c, left), value)
        write(output, at_most(at_least(value, all_of(p.low)), all_of(p.high)), left)

    return write_vector


def _rows_writer(stored: Storage, isa: Isa) -> Any:
    """The kernel `write_rows(p, sums, c, output, rows, columns)`, which writes the results of some rows of a panel."""
    write_vector, load, lanes, element = _result_writer(stored, isa), simd_of(isa).load, isa.lanes, load_store_of(stored, isa).size
    row_size = VECTORS * simd_of(isa).size

    @jit
    def write_rows(p: ProductParameters, sums: Any, c: Any, output: Any, rows: Any, columns: Any) -> None:
        for row in range(rows):
            for column in range(0, columns, lanes):
                added = c + row * p.c_row + column * p.c_column if p.c != 0 else 0
                at = sums + row * row_size + column * FLOAT_BYTES
                write_vector(p, load(at), added, output + row * p.output_row + column * element, columns - column)

    return write_rows


def build_product(stored: Storage, pairs: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of a matrix product, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        pairs: whether terms of A and B are pairs of BFLOAT16, with the size of a FLOAT32, whatever the tensors have.
        isa: the instruction set that it is compiled for.
    """
    simd, write_rows, copy = simd_of(isa), _rows_writer(stored, isa), row_copy(stored, isa)
    store, all_of, lanes, size, element = simd.store, simd.all_of, isa.lanes, simd.size, load_store_of(stored, isa).size
    multiply, most = simd.product_in_place(VECTORS, add_pairs if pairs else None), isa.columns(VECTORS)
    width, row_size, copies = VECTORS * lanes, VECTORS * size, stored != "float32" and not pairs

    @jit
    def begin(p: ProductParameters, thread: Any) -> Any:
        """Returns the thread's scratch, which begins with a row of zeros."""
        zeros = own_scratch(p, thread)
        for vector in range(VECTORS):
            store(zeros + vector * size, all_of(_ZERO))
        return zeros

    @jit
    def multiply_tile(p: ProductParameters, tile: Any, zeros: Any) -> Any:
        sums, floats = zeros + row_size, zeros + (1 + most) * row_size
        row_split, rest = tile % p.row_splits, tile // p.row_splits
        panel_split, entry = rest % p.panel_splits, rest // p.panel_splits
        outer, inner = entry // p.batch, entry % p.batch
        a = p.a + outer * p.a_outer + inner * p.a_batch
        b = p.b + outer * p.b_outer + inner * p.b_batch
        c = p.c + outer * p.c_outer + inner * p.c_batch
        output = p.output + outer * p.output_outer + inner * p.output_batch
        # Splits of rows begin at whole groups, so a row's sum does not depend on the number of threads.
        groups = (p.rows + most - 1) // most
        first_group, last_group = groups * row_split // p.row_splits, groups * (row_split + 1) // p.row_splits
        first_panel, last_panel = p.panels * panel_split // p.panel_splits, p.panels * (panel_split + 1) // p.panel_splits
        for begin_group in range(first_group, last_group, p.copied_groups):
            end_group = min(begin_group + p.copied_groups, last_group)
            begin_row, factor_row = p.rows * begin_group // groups, p.a_row
            factors = a + begin_row * factor_row
            if copies:
                for number in range(p.rows * end_group // groups - begin_row):
                    copy(factors + number * factor_row, floats + number * p.terms * FLOAT_BYTES, p.terms)
                factors, factor_row = floats, p.terms * FLOAT_BYTES
            for panel in range(first_panel, last_panel):
                column = panel * width
                for group in range(begin_group, end_group):
                    row = p.rows * group // groups
                    rows, of_rows = p.rows * (group + 1) // groups - row, factors + (row - begin_row) * factor_row
                    multiply(rows, b + panel * p.panel_size, p.panel_row, p.terms, of_rows, factor_row, zeros, 0, sums)
                    added, to = c + row * p.c_row + column * p.c_column, output + row * p.output_row + column * element
                    write_rows(p, sums, added, to, rows, min(width, p.columns - column))
        return zeros

    return share_tiles(ProductParameters, multiply_tile, begin)


def add_pairs(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Adds both products of the pairs of each lane to its sum, by AVX512-BF16. Pairs are held in vectors of floats."""
    words = ir.VectorType(INDEX, z.type.count)
    kind = ir.FunctionType(z.type, [z.type, words, words])
    # LLVM's intrinsic takes vectors of bfloat, a type that llvmlite does not have; inline assembly needs the parser.
    binding.initialize_native_asmparser()
    code = ir.InlineAsm(kind, "vdpbf16ps $3, $2, $0", "=v,0,v,v")
    return builder.call(code, [z, builder.bitcast(x, words), builder.bitcast(y, words)])


@cache
def _pairs(isa: Isa, *, neighbours: bool) -> Any:
    """The intrinsic `pairs(x, y)`: floats rounded to BFLOAT16 by AVX512-BF16, ties to even, two in a lane.

    Args:
        isa: the instruction set that it is compiled for.
        neighbours: whether lane n has the floats 2 * n and 2 * n + 1 of x and y, one behind the other; else it has x[n] and y[n].
    """
    simd, words = simd_of(isa), ir.VectorType(INDEX, isa.lanes)
    halves = ir.VectorType(ir.IntType(_HALF_BITS), 2 * isa.lanes)
    order = ir.Constant(ir.VectorType(INDEX, 2 * isa.lanes), [lane + isa.lanes * second for lane in range(isa.lanes) for second in (0, 1)])

    @intrinsic
    def pairs(x: Any, y: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            binding.initialize_native_asmparser()
            code = ir.InlineAsm(ir.FunctionType(words, [simd.llvm_type] * 2), "vcvtne2ps2bf16 $1, $2, $0", "=v,v,v")
            both = builder.call(code, arguments)
            if not neighbours:
                both = builder.bitcast(both, halves)
                both = builder.shuffle_vector(both, both, order)
            return builder.bitcast(both, simd.llvm_type)

        return simd.kind(simd.kind, simd.kind), generate

    return pairs


def build_pairs(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a conversion of elements of a type, to be compiled."""
    load_store, lanes, all_of = load_store_of(stored, isa), isa.lanes, simd_of(isa).all_of
    read, write, size = load_store.load, load_store_of("float32", isa).store, load_store.size
    pairs, pairs_of_row = _pairs(isa, neighbours=False), _pairs(isa, neighbours=True)

    @jit
    def vector_at(address: Any, count: Any) -> Any:
        """The next floats of a row, with zeros behind its end."""
        return read(address, count) if count > 0 else all_of(0.0)

    @jit
    def convert_row(source: Any, terms: Any, target: Any, columns: Any) -> None:
        """Converts pairs of neighbours in a row."""
        whole = terms // (2 * lanes) * lanes
        for column in range(0, whole, lanes):
            at = source + 2 * column * size
            write(target + column * FLOAT_BYTES, pairs_of_row(read(at, lanes), read(at + lanes * size, lanes)), lanes)
        if whole < columns:
            at, count = source + 2 * whole * size, terms - 2 * whole
            last = pairs_of_row(vector_at(at, count), vector_at(at + lanes * size, count - lanes))
            write(target + whole * FLOAT_BYTES, last, columns - whole)

    @jit
    def convert_rows(source: Any, second: Any, target: Any, columns: Any) -> None:
        """Converts pairs of elements of two rows; with `second` = 0 of one row and zeros."""
        whole = columns // lanes * lanes if second != 0 else 0
        for column in range(0, whole, lanes):
            at = source + column * size
            write(target + column * FLOAT_BYTES, pairs(read(at, lanes), read(at + second, lanes)), lanes)
        for column in range(whole, columns, lanes):
            at, left = source + column * size, columns - column
            high = vector_at(at + second, left if second != 0 else 0)
            write(target + column * FLOAT_BYTES, pairs(vector_at(at, left), high), left)

    @jit
    def convert(p: PairParameters, tile: Any, scratch: Any) -> Any:
        rows, row_size = (p.entries + p.joined - 1) // p.joined * p.rows, p.columns * FLOAT_BYTES
        first, last = rows * tile // p.tiles, rows * (tile + 1) // p.tiles
        row, count, source, target, next_entries = 0, 0, p.source, p.target, first
        for number in range(first, last):
            if number == next_entries:  # divisions take longer than a short row
                entry, row = number // p.rows * p.joined, number % p.rows
                count = min(p.joined, p.entries - entry)
                source = p.source + entry // p.batch * p.source_outer + entry % p.batch * p.source_inner + row * p.source_row
                target = p.target + (entry * p.rows + row) * row_size
                next_entries = number + p.rows - row
            for joined in range(count):
                of_entry, to = source + joined * p.source_inner, target + joined * p.rows * row_size
                if p.second == 0:
                    convert_row(of_entry, p.terms, to, p.columns)
                else:
                    convert_rows(of_entry, p.second if 2 * row + 1 < p.terms else 0, to, p.columns)
            row, source, target = row + 1, source + p.source_row, target + row_size
        return scratch

    return share_tiles(PairParameters, convert)


@cache
def _row_by_columns(stored: Storage, isa: Isa) -> Any:
    """The kernel `multiply(p, a, b, c, output)`: a row of results whose columns are contiguous in B, four vectors of them at a time."""
    simd, load_store, write_vector, lanes = simd_of(isa), load_store_of(stored, isa), _result_writer(stored, isa), isa.lanes
    read, one, element, all_of, multiply_add = load_store.load, load_store.load_one, load_store.size, simd.all_of, simd.multiply_add
    size = lanes * element

    @jit
    def multiply(p: SmallProductParameters, a: Any, b: Any, c: Any, output: Any) -> None:
        b_term, step, whole = p.b_term, p.c_column * lanes, p.columns // (4 * lanes) * (4 * lanes)
        for column in range(0, whole, 4 * lanes):
            first, second, third, fourth = all_of(_ZERO), all_of(_ZERO), all_of(_ZERO), all_of(_ZERO)
            at = b + column * element
            for term in range(p.terms):
                factor = all_of(one(a + term * element))
                first, second = multiply_add(factor, read(at, lanes), first), multiply_add(factor, read(at + size, lanes), second)
                third = multiply_add(factor, read(at + 2 * size, lanes), third)
                fourth = multiply_add(factor, read(at + 3 * size, lanes), fourth)
                at += b_term
            added, to = c + column * p.c_column, output + column * element
            write_vector(p, first, added if c != 0 else 0, to, lanes)
            write_vector(p, second, added + step if c != 0 else 0, to + size, lanes)
            write_vector(p, third, added + 2 * step if c != 0 else 0, to + 2 * size, lanes)
            write_vector(p, fourth, added + 3 * step if c != 0 else 0, to + 3 * size, lanes)
        for column in range(whole, p.columns, lanes):
            sums, at, left = all_of(_ZERO), b + column * element, p.columns - column
            for term in range(p.terms):
                sums = multiply_add(all_of(one(a + term * element)), read(at + term * b_term, left), sums)
            write_vector(p, sums, c + column * p.c_column if c != 0 else 0, output + column * element, left)

    return multiply


@cache
def _row_by_terms(stored: Storage, isa: Isa) -> Any:
    """The kernel `multiply(p, a, b, c, output)`: a row of results whose terms are contiguous in B, a vector of them at a time."""
    simd, load_store, write_vector, lanes = simd_of(isa), load_store_of(stored, isa), _result_writer(stored, isa), isa.lanes
    read, one, set_one, element = load_store.load, load_store.load_one, load_store.store_one, load_store.size
    all_of, multiply_add, sum_of, multiply_rows = simd.all_of, simd.multiply_add, horizontal_sum(isa), row_products(isa, stored)

    @jit
    def multiply(p: SmallProductParameters, a: Any, b: Any, c: Any, output: Any) -> None:
        whole = p.columns // lanes * lanes
        for column in range(0, whole, lanes):
            sums = multiply_rows(b + column * p.b_column, p.b_column, p.terms, a)
            write_vector(p, sums, c + column * p.c_column if c != 0 else 0, output + column * element, lanes)
        for column in range(whole, p.columns):
            sums, factors = all_of(_ZERO), b + column * p.b_column
            for term in range(0, p.terms, lanes):
                left = p.terms - term
                sums = multiply_add(read(a + term * element, left), read(factors + term * element, left), sums)
            value = p.alpha * sum_of(sums)
            if c != 0:
                value += p.beta * one(c + column * p.c_column)
            value = p.low if value <= p.low else value
            set_one(output + column * element, p.high if value >= p.high else value)

    return multiply


def build_small_product(stored: Storage, isa: Isa) -> TaskBody:
    """Builds the product, to be compiled. It runs on one thread.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    by_columns, by_terms = _row_by_columns(stored, isa), _row_by_terms(stored, isa)
    parameters_at, element = struct_view(SmallProductParameters), load_store_of(stored, isa).size

    def small_product(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for outer in range(p.outer):
            for entry in range(p.batch):
                b = p.b + outer * p.b_outer + entry * p.b_batch
                for row in range(p.rows):
                    a = p.a + outer * p.a_outer + entry * p.a_batch + row * p.a_row
                    c = p.c + outer * p.c_outer + entry * p.c_batch + row * p.c_row if p.c != 0 else 0
                    output = p.output + outer * p.output_outer + entry * p.output_batch + row * p.output_row
                    if p.b_column == element:
                        by_columns(p, a, b, c, output)
                    else:
                        by_terms(p, a, b, c, output)

    return small_product
