"""The plan of functions of bytes: all results are computed once, by the plans of the operators, and looked up."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import merged
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.cpu.quantized.products import host_byte_isa
from dmlpy.devices.cpu.structs import Address, Count, FixedArray, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.graphs.lookup_table_desc import ENTRIES
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, Plan, Pointers, in_order
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.axes import Axis
    from dmlpy.devices.graphs.lookup_table_desc import LookupTableDesc

LOOKUPS = Kernel("dmlpy.devices.cpu.quantized.lookup_table_kernels:build_lookups", 5)
"""The lookups: whether bytes choose rows of the table, and the instruction set."""
SHORTEST_RUN = 32
"""Elements that share one of several tables, side by side, from which a table is worth its memory."""
LEAST_OF_ROWS = 1 << 14
"""Elements from which a table of 256 rows, 64 KiB, is worth its memory."""
_PIECE = 8192
_WORK_OF_A_THREAD = 1 << 18
"""Elements that are worth waking another thread for."""
_WORK_OF_A_RUN = 1 << 8
"""Elements that take the time in which a run's table is loaded."""
_ALIGNMENT = 64


class LookupParameters(UnitParameters):
    """The parameters of the lookups. A run is the elements side by side that share a table; units are the pieces of all runs."""

    pieces: Count = field("pieces of a run")
    piece: Count = field("elements of a piece")
    count: Count = field("elements of a run")
    axes: Count = field("axes of runs")
    steps: Address = field(
        "the axes, innermost first, int64 [axes, 4]: runs, and bytes from one to the next of input, output, and tables or rows"
    )
    input: Address = field("the input")
    output: Address = field("the output")
    tables: Address = field("the tables")
    rows: Address = field("the bytes that choose a row of the table, if they do")


def lookup_plan(desc: LookupTableDesc) -> LookupTablePlan | str:
    operators = desc.table_operators()
    if operators is None:
        return "each element along the last dimension would have a table of its own"
    sizes, varying, rows = desc.output_tensor.sizes, desc.table_axes, desc.row_tensor
    of_tables, tables = [0] * len(sizes), 1
    for axis in reversed(varying):
        of_tables[axis] = tables * ENTRIES
        tables *= sizes[axis]
    if rows is not None:
        of_tables, tables = list(rows.element_strides), ENTRIES
        if desc.output_tensor.element_count < LEAST_OF_ROWS:
            return f"fewer than {LEAST_OF_ROWS} elements are not worth a table of {ENTRIES} rows"
    *outer, inner = merged(sizes, [desc.input_tensor.element_strides, desc.output_tensor.element_strides, of_tables])
    if inner.strides != (1, 1, 0):
        return "elements that share a table are not side by side"
    if tables > 1 and inner.size < SHORTEST_RUN:
        return f"fewer than {SHORTEST_RUN} elements share a table"
    return LookupTablePlan(desc, operators, outer, inner.size, tables)


class LookupTablePlan(Plan):
    """A function of bytes, as a table of its 256 results for each entry of the constants.

    Args:
        desc: a checked desc.
        operators: its operators on each byte, for each table.
        outer: the axes around runs; the tensors are the input, the output and the tables, or the bytes that choose one.
        count: the elements of a run.
        tables: the number of tables, or of rows of one.

    Attributes:
        tables: that number.
    """

    def __init__(self, desc: LookupTableDesc, operators: Sequence[OperatorDesc], outer: Sequence[Axis], count: int, tables: int) -> None:
        self._nodes, self._operators = desc.nodes, operators
        self._plans = [best_plan(operator) for operator in operators]
        self._count, self.tables, self._kernel = count, tables, (desc.row_tensor is not None, host_byte_isa())
        self.constants = tuple(f"constant_tensors[{number}]" for number in range(len(desc.constant_tensors)))
        self.persistent_size = tables * ENTRIES
        self.temporary_size, self.prepared_temporary_size = self.persistent_size, 0
        self._axes = len(outer)
        self._steps = FixedArray.of_rows([(axis.size, *axis.strides) for axis in reversed(outer)])
        self._pieces = -(-count // _PIECE)
        self._units = self._pieces * prod(axis.size for axis in outer)
        work = desc.output_tensor.element_count + (self._units * _WORK_OF_A_RUN if tables > 1 else 0)
        self._threads = Threads.of(available_threads(), work, _WORK_OF_A_THREAD)
        self._tiles = min(self._units, self._threads.tiles())

    def load(self) -> None:
        _ = LOOKUPS(*self._kernel)
        for plan in self._plans:
            plan.load()

    def describe(self) -> str:
        return f"compiled by LLVM, lookups on {self._threads}; {self.tables_said}"

    @property
    def tables_said(self) -> str:
        """The number of tables, and what they hold."""
        tables = f"a table for each of {self.tables} bytes" if self._kernel[0] else plural(self.tables, "table")
        names = " - ".join(type(operator).short_name() for operator in self._operators)
        return f"{tables} of {ENTRIES} bytes hold all results of {names}"

    @property
    def packing(self) -> Hashable:
        return tuple((operator, node.reads) for operator, node in zip(self._operators, self._nodes, strict=True))

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        def compute(stream: int) -> None:
            # Which byte is at a place of the input is that place in its table.
            memory = [np.tile(np.arange(ENTRIES, dtype=np.uint8), self.tables)]
            addresses = [memory[0].ctypes.data, *(constants[name] for name in self.constants)]
            if self._kernel[0]:
                addresses.append(addresses[0])
            for node, operator, plan in zip(self._nodes, self._operators, self._plans, strict=True):
                (output,) = (slot for slot in operator.output_slots() if slot.tensor is not None)
                assert output.tensor is not None  # it was just found
                is_last = node is self._nodes[-1]
                blocks = [_block(size) for size in (0 if is_last else output.tensor.size_in_bytes, plan.temporary_size)]
                memory += [block for block, _ in blocks]
                (_, result), (_, scratch) = blocks
                tensors = {place: addresses[number] for place, number in node.reads}
                addresses.append(persistent if is_last else result)
                plan.bind({**tensors, output.place: addresses[-1]}, scratch, None)(stream)

        return compute

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        parameters = LookupParameters.bound(
            {
                "tiles": self._tiles,
                "units": self._units,
                "pieces": self._pieces,
                "piece": _PIECE,
                "count": self._count,
                "axes": self._axes,
                "steps": self._steps,
                "input": tensors["input_tensor"],
                "output": tensors["output_tensor"],
                "tables": temporary if persistent is None else persistent,
                "rows": tensors.get("row_tensor", 0),
            }
        )
        launch = TaskLaunch.of(LOOKUPS(*self._kernel), parameters, self._threads)
        return launch if persistent is not None else in_order([self.pack(tensors, temporary), launch])


def _block(size: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], int]:
    """Memory, and the first aligned address in it."""
    block = np.empty(size + _ALIGNMENT, np.uint8)
    return block, block.ctypes.data + -block.ctypes.data % _ALIGNMENT
