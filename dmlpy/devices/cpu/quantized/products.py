"""Shared by the plans of products of bytes and their kernels: instructions, the terms of rows and columns, and the limits of 32-bit sums.

A sum over terms k of (left[k] - left zero point) * (right[k] - right zero point) is the sum of left[k] * right[k], plus a product for the
row (the left operand) and one for the column. All of it is computed modulo 2^32, so it is exact where the result fits in 32 bits.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.isa import Isa, host_processor, isa_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, Flag, Float32, Float64, KernelStruct, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.plan import Launch, Pointers


class Dot(StrEnum):
    """How four products are added to each sum of a vector."""

    VPDPBUSD = "vpdpbusd"
    """One instruction, which wraps around and never saturates: AVX512-VNNI and AVX-VNNI."""
    VPMADDWD = "vpmaddwd"
    """Bytes are widened to 16 bits and multiplied in pairs: SSE2, AVX2, AVX512BW. vpmaddubsw would save the widening, but it saturates: two
    products of bytes need 17 bits."""
    PORTABLE = "portable"
    """Multiplications of 32 bits, on any processor."""


@dataclass(frozen=True)
class ByteIsa:
    """The properties of a processor that kernels of bytes depend on.

    Attributes:
        lanes: 32-bit integers in a register, each the place of a sum or of four bytes.
        registers: the number of registers.
        dot: how products are summed.
        moves_bytes: whether it takes the bytes of a register of 512 bits from any places of another, and moves some of them side by side.
    """

    lanes: int
    registers: int
    dot: Dot
    moves_bytes: bool = False

    @property
    def floats(self) -> Isa:
        """The instruction set of floats with registers of the same size."""
        return Isa(self.lanes, self.registers)

    @property
    def shuffles_bytes(self) -> bool:
        """Whether it takes the bytes of parts of 16 of a whole register from any places within those parts: AVX2, AVX512BW."""
        return self.dot is not Dot.PORTABLE and self.lanes > 4

    @property
    def block(self) -> tuple[int, int]:
        """The rows and vectors of sums that are in registers at once; widened factors and products take registers, too."""
        if self.registers == 32:
            return (6, 4) if self.moves_bytes else (8, 3)
        return (4, 3) if self.dot is Dot.VPDPBUSD else (4, 2)

    @property
    def factor_bytes(self) -> int:
        """The bytes of a packed quad of a filter of several channels: without an instruction for bytes, they are widened once."""
        return 8 if self.dot is Dot.VPMADDWD else 4


def byte_isa_of(features: Mapping[str, bool], machine: str) -> ByteIsa:
    """The instruction set of a processor with these LLVM features."""
    if machine not in ("x86_64", "amd64"):
        isa = isa_of(features, machine)
        return ByteIsa(isa.lanes, isa.registers, Dot.PORTABLE)
    has_bytes = features.get("avx512bw") and features.get("avx512vl")
    if has_bytes:
        moves_bytes = bool(features.get("avx512vbmi") and features.get("avx512vbmi2"))
        return ByteIsa(16, 32, Dot.VPDPBUSD if features.get("avx512vnni") else Dot.VPMADDWD, moves_bytes)
    if features.get("avx2"):
        return ByteIsa(8, 16, Dot.VPDPBUSD if features.get("avxvnni") else Dot.VPMADDWD)
    return ByteIsa(4, 16, Dot.VPMADDWD)


@cache
def host_byte_isa() -> ByteIsa:
    """The instruction set of this machine."""
    return byte_isa_of(host_processor().features, platform.machine().lower())


class Output(StrEnum):
    """The type of the results that are computed from sums."""

    INT32 = "int32"
    FLOAT32 = "float32"
    BYTES = "bytes"


class RowTerms(KernelStruct):
    """The terms that are combined with the sums of a row, or of a filter.

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
    table: Bytes = field("from these terms to the table in which results are looked up, if they are: terms may be copied with their tables")
    rounded_zero: Count = field("the bits of `result_kernels.ROUNDING` less the zero point of results as signed bytes")
    fitting_factor: Float32 = field("`factor`; NaN also if a product of it and a sum may reach `result_kernels.FITTING`")


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
    tables: Address = field("the tables of rows in which results are looked up; 0 for none")
    tables_step: Bytes = field("from a row's table to the next")
    row_terms: Address = field("the `RowTerms` of each row")
    column_first: Address = field("the columns' first terms, written for filters only")
    column_second: Address = field("the columns' second terms")
    column_factor: Address = field("the columns' factors")
    column_scale: Address = field("the columns' scales")
    uses_second: Address = field("an integer: whether a second term of a row is not 0")


class ResultParameters(CountedParameters):
    """The parameters of the results of both kernels of products."""

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


REGISTER = 64
"""Bytes of a register of processors that move bytes within it."""
MOST_TERMS = 2**31 // 255**2
"""Terms of a sum that is sure to fit in 32 bits."""
BYTES = (DataType.UINT8, DataType.INT8)
FLIP = 0x80808080
"""Changes the highest bit of each byte of a quad: signed bytes become unsigned ones that are larger by 128, and the reverse."""
TERMS = Kernel("dmlpy.devices.cpu.quantized.term_kernels:build_terms", 5)
"""The terms of rows and columns."""


def term_arrays(rows: int, columns: int) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """The arrays that `TERMS` writes."""
    return [
        ("rows", (rows,), RowTerms.dtype),
        ("column second", (columns,), np.dtype(np.int32)),
        ("column factor", (columns,), np.dtype(np.float32)),
        ("column scale", (columns,), np.dtype(np.float64)),
    ]


def term_addresses(terms: Mapping[str, int]) -> dict[str, int]:
    """The fields of `TermParameters` and `ResultParameters` with the arrays of `term_arrays`, given their addresses."""
    fields = {"row_terms": "rows", "column_second": "column second", "column_factor": "column factor", "column_scale": "column scale"}
    return {field: terms[name] for field, name in fields.items()}


def term_operands(places: Mapping[str, str], described: Mapping[str, TensorDesc], tensors: Pointers) -> dict[str, Any]:
    """The fields of `TermParameters` with the scales, zero points and bias that there are, by the places of their tensors."""
    operands: dict[str, Any] = {}
    for name, place in places.items():
        if place in described:
            operands |= {name: tensors[place], f"{name}_step": step_of(described[place])}
    return operands


def terms_launch(values: Mapping[str, Any]) -> Launch:
    """The launch that computes the terms, with the values of `TermParameters`."""
    return TaskLaunch.of(TERMS(), TermParameters.bound({**values, "tiles": 1}), 1)


def step_of(tensor: TensorDesc) -> int:
    """The bytes from an element of a scale or zero point to the next one; 0 for a single one."""
    if tensor.element_count == 1:
        return 0
    (stride,) = (stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1)
    return stride * tensor.data_type.numpy.itemsize


def output_of(data_type: DataType) -> Output:
    """The `Output` of a tensor's type."""
    return {DataType.INT32: Output.INT32, DataType.FLOAT32: Output.FLOAT32}.get(data_type, Output.BYTES)


def is_signed(tensor: TensorDesc) -> bool:
    """Whether a tensor's bytes are signed."""
    return tensor.data_type is DataType.INT8


def limits_of(data_type: DataType) -> dict[str, int]:
    """The least and the largest result of a type, for `ResultParameters`."""
    low, high = data_type.limits if data_type in BYTES else (0, 0)
    return {"low": int(low), "high": int(high)}
