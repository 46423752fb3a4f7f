"""The plan of convolutions of bytes."""

from __future__ import annotations

from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.cpu.quantized.plane_tiling import DEPTHWISE_PLANES, PlaneTiling
from dmlpy.devices.cpu.quantized.products import (
    FLIP,
    TERMS,
    host_byte_isa,
    is_signed,
    limits_of,
    output_of,
    term_addresses,
    term_arrays,
    term_operands,
    terms_launch,
)
from dmlpy.devices.cpu.quantized.tiling import (
    CONVOLUTION,
    DEPTHWISE,
    DEPTHWISE_VECTORS,
    ByteGeometry,
    ChannelTiling,
    RowTiling,
)
from dmlpy.devices.cpu.structs import ALIGNMENT
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.graphs.lookup_table_desc import ENTRIES
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order, packing_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from dmlpy.devices.cpu.quantized.lookup_table import LookupTablePlan
    from dmlpy.operators.quantized.products import QuantizedConvolvingDesc

_WORK_OF_A_THREAD = 1 << 23
"""Multiplications that are worth waking another thread for."""
_OPERANDS = {
    "left_zero": "filter_zero_point_tensor",
    "right_zero": "input_zero_point_tensor",
    "left_scale": "filter_scale_tensor",
    "right_scale": "input_scale_tensor",
    "output_scale": "output_scale_tensor",
    "output_zero": "output_zero_point_tensor",
    "bias": "bias_tensor",
}
"""The places of scales, zero points and bias, by their fields of `TermParameters`."""
_MOST_REGISTERS = 6
"""Registers of factors and orders of a window, beside which others are left."""


class ByteConvolutionPlan(Plan):
    """A convolution of 8 bits by a compiled kernel.

    Args:
        desc: a checked desc.
        table: the plan of the tables, one or one for each filter, in which results are looked up.
    """

    constants: tuple[str, ...] = ("filter_tensor",)

    def __init__(self, desc: QuantizedConvolvingDesc, table: LookupTablePlan | None = None) -> None:
        self._desc, self._tensors, self._isa, self._table = desc, desc.tensors(), host_byte_isa(), table
        self._geometry = geometry = ByteGeometry.of(desc)
        output = self._tensors["output_tensor"]
        self._threads = Threads.of(available_threads(), geometry.work, _WORK_OF_A_THREAD)
        kind, looks_up = output_of(output.data_type), table is not None
        planes = PlaneTiling.of(geometry, output.data_type.numpy.itemsize, self._threads.most, self._isa)
        self._tiling: PlaneTiling | ChannelTiling | RowTiling
        if planes is not None:
            self._tiling = planes
            self._kernel: tuple[Any, ...] = (DEPTHWISE_PLANES, kind, planes.quads, planes.orders, looks_up, self._isa)
        elif geometry.is_depthwise:
            self._tiling = RowTiling(geometry, self._threads.most, self._isa)
            self._kernel = (DEPTHWISE, kind, geometry.strides[1], looks_up, self._isa)
        else:
            self._tiling = ChannelTiling(geometry, self._threads.most, self._isa)
            self._kernel = (CONVOLUTION, kind, looks_up, self._isa)
        self._filters = geometry.groups * geometry.filters
        if table is not None:
            self.constants = (*self.constants, *table.constants)
        self._columns = max(self._isa.block[1], DEPTHWISE_VECTORS) * self._isa.lanes
        self._packs_terms = False
        self._set_memory()

    def _set_memory(self) -> None:
        """The layouts of packed constants and of terms, and the sizes."""
        packed: list[tuple[str, Sequence[int], np.dtype[Any]]] = [
            ("weights", self._tiling.weights, np.dtype(np.int8)),
            ("ones", self._tiling.ones, np.dtype(np.int8)),
            ("sums", (self._filters,), np.dtype(np.int32)),
            ("tables", (0 if self._table is None else self._table.persistent_size,), np.dtype(np.uint8)),
        ]
        terms: list[tuple[str, Sequence[int], np.dtype[Any]]] = [
            *term_arrays(self._filters + self._isa.block[0] - 1, self._columns),  # whole blocks are read
            ("column first", (self._columns,), np.dtype(np.int32)),
            ("uses second", (1,), np.dtype(np.int64)),
        ]
        if self._packs_terms:
            packed += [*terms, ("input zero", (1,), np.dtype(np.uint8))]
            terms = []
        self._packed, self._terms_of = Layout(packed, ALIGNMENT), Layout(terms, ALIGNMENT)
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._terms_of.size + self._threads.most * self._tiling.scratch_size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def with_static_inputs(self, places: Collection[str]) -> ByteConvolutionPlan:
        operands = tuple(place for place in _OPERANDS.values() if place in self._tensors)
        if self._packs_terms or not {*self.constants, *operands} <= set(places):
            return self
        plan = copy(self)
        plan._packs_terms, plan.constants = True, (*self.constants, *operands)
        plan._set_memory()
        return plan

    @property
    def has_registers_left(self) -> bool:
        """Whether results are looked up without moving factors and orders of bytes out of registers."""
        return not isinstance(self._tiling, PlaneTiling) or self._tiling.quads + self._tiling.orders <= _MOST_REGISTERS

    def load(self) -> None:
        kernel, *choices = self._kernel
        _ = kernel(*choices), TERMS()
        if self._table is not None:
            self._table.load()

    def describe(self) -> str:
        return "\n".join(
            [
                f"compiled by LLVM, sums of 32 bits by {self._isa.dot} on {self._threads}; {self._tiling.tiles} tile(s)",
                self._tiling.describe(),
                f"filter_tensor: packed as signed bytes{', with scales, zero points and bias' if self._packs_terms else ''}",
                *([] if self._table is None else [f"results are looked up: {self._table.tables_said}"]),
            ]
        )

    @property
    def packing(self) -> Hashable:
        packed = ["filter_tensor", *(place for place in _OPERANDS.values() if self._packs_terms and place in self._tensors)]
        types = (self._tensors["input_tensor"].data_type, self._tensors["output_tensor"].data_type)
        of_filters = packing_of(self._desc, packed, self._packed), types
        return of_filters if self._table is None else (of_filters, self._table.packing)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        desc, packed, geometry = self._desc.filter_tensor, self._packed.arrays_at(persistent), self._geometry
        filters = array_at(constants["filter_tensor"], desc.sizes, desc.data_type.numpy, desc.element_strides)

        def launch(stream: int) -> None:
            signed = filters if is_signed(desc) else (filters ^ 0x80).view(np.int8)
            signed = signed.reshape(geometry.groups, geometry.filters, geometry.channels, *geometry.taps)
            packed["sums"][:] = signed.sum((2, 3, 4), np.int32).reshape(-1)
            self._tiling.pack(signed, packed["weights"], packed["ones"])

        work: list[Launch] = [launch]
        addresses = self._packed.pointers(persistent)
        if self._table is not None:
            work.append(self._table.pack(constants, addresses["tables"]))
        if self._packs_terms:
            if "input_zero_point_tensor" in self._tensors:
                work.append(_byte_copy(constants["input_zero_point_tensor"], packed["input zero"]))
            work.append(terms_launch(self._term_values(constants, addresses, addresses)))
        return in_order(work)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self.pack(tensors, address))
        packed = terms = self._packed.pointers(address)
        if not self._packs_terms:
            terms = self._terms_of.pointers(temporary)
            work.append(terms_launch(self._term_values(tensors, terms, packed)))
        values: dict[str, Any] = {
            **term_addresses(terms),
            "column_first": terms["column first"],
            "uses_second": terms["uses second"],
            **limits_of(self._tensors["output_tensor"].data_type),
            "scratch": temporary + self._terms_of.size,
            "scratch_size": self._tiling.scratch_size,
            "input": tensors["input_tensor"],
            "output": tensors["output_tensor"],
            "input_flip": FLIP if is_signed(self._desc.input_tensor) else 0,
            "weights": packed["weights"],
        }
        if "input_zero_point_tensor" in self._tensors:
            values["input_zero"] = packed["input zero"] if self._packs_terms else tensors["input_zero_point_tensor"]
        kernel, *choices = self._kernel
        work.append(TaskLaunch.of(kernel(*choices), self._tiling.parameters(values, packed["ones"]), self._threads))
        return in_order(work)

    def _term_values(self, tensors: Pointers, terms: Mapping[str, int], packed: Mapping[str, int]) -> dict[str, Any]:
        """The values of `TermParameters`. The factors of filters are the left operand."""
        geometry = self._geometry
        values: dict[str, Any] = {
            "rows": self._filters,
            "columns": self._columns,
            "terms": geometry.channels * prod(geometry.taps),
            "of_filters": 1,
            "sums": packed["sums"],
            "left_signed": is_signed(self._desc.filter_tensor),
            "left_shift": 0 if is_signed(self._desc.filter_tensor) else -128,
            "right_signed": is_signed(self._desc.input_tensor),
            "right_shift": 128 if is_signed(self._desc.input_tensor) else 0,
            "output_signed": is_signed(self._tensors["output_tensor"]),
            **term_addresses(terms),
            "column_first": terms["column first"],
            "uses_second": terms["uses second"],
        }
        if self._table is not None:
            values |= {"tables": packed["tables"], "tables_step": ENTRIES if self._table.tables > 1 else 0}
        return values | term_operands(_OPERANDS, self._tensors, tensors)


def _byte_copy(source: int, target: np.ndarray[Any, Any]) -> Launch:
    """The launch that copies a byte."""

    def launch(stream: int) -> None:
        target[:] = array_at(source, (1,), np.dtype(np.uint8), (1,))

    return launch
