"""The compiled matrix product of few rows or columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.matrix.few_plan import FewRowsParameters
from dmlpy.devices.cpu.reduction.kernels import horizontal_sum
from dmlpy.devices.cpu.simd import float_at, set_float, simd_of, struct_view

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO = np.float32(0.0)


def build_few_rows(isa: Isa) -> TaskBody:
    """Builds the product, to be compiled. It runs on one thread.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, sum_of = simd_of(isa), load_store_of("float32", isa), horizontal_sum(isa)
    all_of, multiply_add, scaled, at_most, at_least = simd.all_of, simd.multiply_add, simd.multiply, simd.at_most, simd.at_least
    read, write, lanes = load_store.load, load_store.store, isa.lanes
    parameters_at = struct_view(FewRowsParameters)

    @jit
    def write_vector(p: FewRowsParameters, sums: Any, c: Any, output: Any, left: Any) -> None:
        """Writes the results of a vector of sums, or of its first ones."""
        value = scaled(all_of(p.alpha), sums)
        if c != 0:
            value = multiply_add(all_of(p.beta), all_of(float_at(c)) if p.c_column == 0 else read(c, left), value)
        write(output, at_least(at_most(value, all_of(p.high)), all_of(p.low)), left)

    @jit
    def by_columns(p: FewRowsParameters, a: Any, b: Any, c: Any, output: Any) -> None:
        """A row of results whose columns are contiguous in B: two vectors of them at a time."""
        for column in range(0, p.columns, 2 * lanes):
            left = p.columns - column
            first, second = all_of(_ZERO), all_of(_ZERO)
            for term in range(p.terms):
                factor, at = all_of(float_at(a + term * FLOAT_BYTES)), b + term * p.b_term + column * FLOAT_BYTES
                first = multiply_add(factor, read(at, left), first)
                if left > lanes:
                    second = multiply_add(factor, read(at + lanes * FLOAT_BYTES, left - lanes), second)
            added, to = c + column * p.c_column if c != 0 else 0, output + column * FLOAT_BYTES
            write_vector(p, first, added, to, left)
            if left > lanes:
                write_vector(p, second, added + lanes * p.c_column if c != 0 else 0, to + lanes * FLOAT_BYTES, left - lanes)

    @jit
    def by_terms(p: FewRowsParameters, a: Any, b: Any, c: Any, output: Any) -> None:
        """A row of results whose terms are contiguous in B."""
        for column in range(p.columns):
            sums, factors = all_of(_ZERO), b + column * p.b_column
            for term in range(0, p.terms, lanes):
                left = p.terms - term
                sums = multiply_add(read(a + term * FLOAT_BYTES, left), read(factors + term * FLOAT_BYTES, left), sums)
            value = p.alpha * sum_of(sums)
            if c != 0:
                value += p.beta * float_at(c + column * p.c_column)
            value = p.high if value > p.high else value
            set_float(output + column * FLOAT_BYTES, p.low if value < p.low else value)

    def few_rows(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for outer in range(p.outer):
            for entry in range(p.batch):
                b = p.b + outer * p.b_outer + entry * p.b_batch
                for row in range(p.rows):
                    a = p.a + outer * p.a_outer + entry * p.a_batch + row * p.a_row
                    c = p.c + outer * p.c_outer + entry * p.c_batch + row * p.c_row if p.c != 0 else 0
                    output = p.output + outer * p.output_outer + entry * p.output_batch + row * p.output_row
                    if p.b_column == FLOAT_BYTES:
                        by_columns(p, a, b, c, output)
                    else:
                        by_terms(p, a, b, c, output)

    return few_rows
