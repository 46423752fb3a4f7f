"""The terms of rows and columns of a product of bytes, from scales and zero points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_double, set_word, word_at
from dmlpy.devices.cpu.quantized.products import TermParameters
from dmlpy.devices.cpu.quantized.result_kernels import (
    FITTING,
    LARGEST_FACTOR,
    LEAST_FACTOR,
    ROUNDING_BITS,
    ROW_SIZE,
    row_terms_at,
    wrapped,
)
from dmlpy.devices.cpu.simd import float_at, set_float, set_integer, struct_view

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


@jit
def _zero_at(address: Any, is_signed: Any, shift: Any) -> Any:
    """A zero point, moved like the bytes that it belongs to."""
    value = 0
    if address != 0:
        value = byte_at(address)
        if is_signed != 0 and value > 127:
            value -= 256
    return value + shift


@jit
def _scale_at(address: Any) -> Any:
    return 1.0 if address == 0 else float(float_at(address))


@jit
def _factor_of(scale: Any) -> Any:
    """A product of scales, or NaN if it has less than the precision of float32."""
    return scale if LEAST_FACTOR <= abs(scale) <= LARGEST_FACTOR else float("nan")


@jit
def _entry_of(address: Any, step: Any, number: Any) -> Any:
    """The address of a row's or column's scale or zero point; 0 if there is none."""
    return address + step * number if address != 0 else 0


@jit
def _scales_of_row(p: TermParameters, row: Any) -> Any:
    """The scales of a row, and their product as a factor."""
    scale, second_scale = _scale_at(_entry_of(p.left_scale, p.left_scale_step, row)), 1.0
    if p.of_filters != 0:
        scale, second_scale = _scale_at(p.right_scale), scale
    output_scale = _scale_at(_entry_of(p.output_scale, p.output_scale_step, row))
    return scale, second_scale, output_scale, _factor_of(scale * second_scale / output_scale)


@jit
def _zeros_of_row(p: TermParameters, row: Any) -> Any:
    """The zero points of a row and of its results."""
    left = _zero_at(_entry_of(p.left_zero, p.left_zero_step, row), p.left_signed, p.left_shift)
    return left, _zero_at(_entry_of(p.output_zero, p.output_zero_step, row), p.output_signed, 0)


@jit
def _compute_columns(p: TermParameters) -> None:
    """Writes the terms of all columns."""
    for column in range(p.columns):
        right, scale = 0, 1.0
        if p.of_filters != 0:
            set_word(p.column_first + 4 * column, 1)
        elif column < p.valid_columns:
            right = _zero_at(_entry_of(p.right_zero, p.right_zero_step, column), p.right_signed, p.right_shift)
            scale = _scale_at(_entry_of(p.right_scale, p.right_scale_step, column))
        set_word(p.column_second + 4 * column, right)
        set_float(p.column_factor + 4 * column, _factor_of(scale))
        set_double(p.column_scale + 8 * column, scale)


def build_terms() -> TaskBody:
    """Builds the task that computes the terms of rows and columns from scales and zero points, to be compiled."""
    parameters_at, nan = struct_view(TermParameters), float("nan")

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, uses_second = parameters_at(parameters), 0
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        row_terms, sums, terms, biases, bias_step, of_filters = p.row_terms, p.sums, p.terms, p.bias, p.bias_step, p.of_filters != 0
        right = _zero_at(p.right_zero, p.right_signed, p.right_shift) if of_filters else 0
        offset, fitting = 0 if p.output_signed != 0 else 128, 65025 * terms  # a product of differences is at most 255 * 255
        tables, tables_step = p.tables, p.tables_step
        scales_vary, zeros_vary = p.left_scale_step | p.output_scale_step != 0, p.left_zero_step | p.output_zero_step != 0
        (scale, second_scale, output_scale, factor), (left, zero_point) = _scales_of_row(p, 0), _zeros_of_row(p, 0)
        for row in range(p.rows):
            r = row_terms_at(row_terms + row * ROW_SIZE)
            if zeros_vary:
                left, zero_point = _zeros_of_row(p, row)
            if scales_vary:
                scale, second_scale, output_scale, factor = _scales_of_row(p, row)
            first, second, of_row, bias, added = -left, terms * left, factor, 0, 0
            if of_filters:
                first, second = terms * right * left - right * word_at(sums + 4 * row), -left
                uses_second |= left
            if biases != 0:
                bias = word_at(biases + bias_step * row)
                if abs(bias) + fitting < 0x7FFFFFFF:
                    first, bias, added = first + bias, 0, bias
                else:
                    of_row = nan
            r.first, r.second, r.zero_point, r.factor, r.bias = wrapped(first), second, zero_point, of_row, float(bias)
            r.scale, r.second_scale, r.output_scale = scale, second_scale, output_scale
            fits = abs(of_row) * (fitting + abs(added)) < FITTING
            r.fitting_factor = np.float32(of_row if fits else nan)  # type: ignore[assignment]  # a float to type checkers
            r.table = tables + tables_step * row - (row_terms + row * ROW_SIZE) if tables != 0 else 0
            r.rounded_zero = ROUNDING_BITS - (zero_point - offset)
        if of_filters:
            set_integer(p.uses_second, uses_second)
        _compute_columns(p)

    return compute
