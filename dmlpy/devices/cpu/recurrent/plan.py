"""The compiled plan of a recurrent layer or its training form: packed constants, memory layout, and the parameters of each time loop."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import ACQUIRE, GATE_PRODUCTS, Kernel
from dmlpy.devices.cpu.launches import FUSED_LAUNCH, Task
from dmlpy.devices.cpu.recurrent.packing import PACKING, ROWS, ActiveRows, Constants, has_contiguous_rows, selects
from dmlpy.devices.cpu.recurrent.parameters import (
    RESERVE_LAYOUT,
    STATES,
    LayerParameters,
    ReserveRows,
    constants_of,
    copied,
    count_stages,
    names_of,
)
from dmlpy.devices.cpu.recurrent.schedule import (
    CONCURRENT_TASK,
    Copy,
    Direction,
    Span,
    are_concurrent,
    copy,
    described_options,
    described_order,
    has_second_stage,
    make_launch,
    recurrence_steal_timeout,
    schedule_concurrently,
    schedule_in_turn,
    step_threads,
    tile_groups,
    tile_size,
)
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, arrays_of, packing_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.isa import Storage
    from dmlpy.devices.cpu.launches import HostCall, Work
    from dmlpy.operators.recurrent.gradient import ReserveDesc
    from dmlpy.operators.recurrent.layer import RecurrentDesc

TIME_LOOP = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_time_loop", 5, returns=True)
"""The time loop of all cells, which calls the stages of one."""
INPUT_PRODUCTS = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_input_products", 7)
"""The stage of a chunk's input products: the number of gates, the input's type, and the instruction set."""
STEP = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_step", 7)
"""The stage of a cell's step: its kind, whether it resets first, its activations' names, the output's type, and the instruction set."""
CANDIDATE = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_candidate", 7)
"""The second stage of the step of a GRU that resets first: its activations' names, the output's type, and the instruction set."""
PROJECTION = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_projection", 7)
"""The second stage of the step of an LSTM with a projection: the output's type, and the instruction set."""

_ALIGNMENT = 64
_CHUNK_ROWS = 128
"""Rows of the input that share a product: enough that the weights are rarely read from memory, few enough to stay in a core's cache."""

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


def _in_place(stored: Storage) -> str:
    """The words of a plan's description for a tensor whose rows kernels read, or write, where they are."""
    return "in place" if stored == "float32" else f"in place, of {stored}"


class RecurrentPlan(Plan):
    """RNN, LSTM or GRU by a compiled time loop, or the training form of one. Arithmetic and states are float32.

    Args:
        desc: a checked desc.
    """

    reserve_layout = RESERVE_LAYOUT
    leaves_packed = True

    def __init__(self, desc: RecurrentDesc) -> None:
        self._desc, self._sizes, self._cell, self._tensors = desc, desc.geometry, desc.cell, desc.tensors()
        sizes, self._isa = self._sizes, host_isa()
        self._blocks, self._entry_blocks = (-(-units // self._isa.lanes) for units in (sizes.hidden_size, sizes.state_size))
        # The gates that read h, which with dropout have copies of their own.
        self._state_gates = sizes.gates - self._cell.resets_first if "state_dropout_tensor" in self._tensors else 0
        self._threads = step_threads(sizes, self._blocks)
        self._concurrent = are_concurrent(sizes, self._threads)
        if self._concurrent:
            self._threads = 1
        self._groups = tile_groups(sizes, self._blocks, self._threads, self._isa)
        self._chunk = min(max(1, _CHUNK_ROWS // sizes.batch_size), sizes.seq_length)
        output = self._tensors.get("output_sequence_tensor")
        self._input_row = self._row_of_input(self._tensors["input_tensor"])
        self._writes_output_directly = output is None or has_contiguous_rows(output)
        self._read = "float32" if self._input_row is None else storage_of(self._tensors["input_tensor"].data_type)
        self._written = storage_of(output.data_type) if output is not None and self._writes_output_directly else "float32"
        self._constants = Constants(desc, self._isa)
        self._packed = Layout(self._constants.arrays(), _ALIGNMENT)
        self._scratch = Layout(self._scratch_arrays(), _ALIGNMENT)
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._scratch.size * (2 if self._concurrent else 1)
        self.temporary_size = self.persistent_size + self.prepared_temporary_size

    def load(self) -> None:
        for direction in range(self._sizes.num_directions):
            self._addresses(direction)
        TIME_LOOP()
        FUSED_LAUNCH()
        if self._concurrent:
            CONCURRENT_TASK()
        PACKING(self._isa)
        if self._selects:
            ROWS()

    def describe(self) -> str:
        lanes, fused = self._isa.lanes, self._constants.fused_gates["recurrence"]
        separate = f", {fused} at a time" if fused < self._sizes.gates else ""
        summed = f"{self._sizes.gates} gate(s){separate}, of up to {self._isa.columns(fused)} samples"
        reading = "copied to float32 a chunk at a time" if self._input_row is None else _in_place(self._read)
        writing = _in_place(self._written) if self._writes_output_directly else "copied from float32 a chunk at a time"
        order = described_order(self._threads, concurrent=self._concurrent)
        return "\n".join(
            [
                f"LLVM, float32 arithmetic; {self._sizes.num_directions} direction(s), {order}",
                f"input product: {self._chunk} of {self._sizes.seq_length} steps at a time, input {reading}, output {writing}",
                f"step: blocks of {lanes} units, {summed} in registers, {self._blocks} block(s)",
                *(["samples that skip steps: those that take most first, only the steps that are taken"] if self._selects else []),
                *described_options(self._cell, self._sizes, self._tensors),
            ]
        )

    @property
    def _selects(self) -> bool:
        return selects(self._tensors)

    @property
    def packing(self) -> Hashable:
        return packing_of(self._desc, self.constants, self._packed)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        copy_others, parts = self._constants.bound(arrays_of(self._tensors, constants), self._packed.arrays_at(persistent))
        return make_launch([copy_others, *parts])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes, strides and types."""
        work: list[Work] = []
        packing: list[Task] = []
        if persistent is None:
            copy_others, packing = self._constants.bound(arrays, self._packed.arrays_at(temporary))
            work.append(copy_others)
            persistent, temporary = temporary, temporary + self.persistent_size
        packed, directions = self._packed.arrays_at(persistent), list[Direction]()
        for direction in range(self._sizes.num_directions):
            scratch = temporary + (direction * self._scratch.size if self._concurrent else 0)
            directions.append(self._direction(direction, arrays, packed, self._scratch.arrays_at(scratch)))
        if self._concurrent:
            work += schedule_concurrently(TIME_LOOP.address(), directions, packing)
        else:
            tiles = max(self._blocks, prod(self._groups))
            work += schedule_in_turn(TIME_LOOP.address(), directions, packing, self._threads, tiles)
        # FLOAT16 results may overflow, and dropout may multiply an infinite state.
        computes = self._tensors["input_tensor"].data_type.numpy != np.float32 or self._state_gates
        return make_launch(work, ignores=bool(computes))

    # layout

    def _row_of_input(self, tensor: TensorDesc) -> int | None:
        """The bytes from one sample's row to the next, over all steps, if they are constant."""
        _, step, row, _ = tensor.element_strides
        batch, steps = self._sizes.batch_size, self._sizes.seq_length
        if batch == 1:
            row = step
        regular = has_contiguous_rows(tensor) and (batch == 1 or steps == 1 or step == batch * row)
        return tensor.data_type.numpy.itemsize * row if regular else None

    def _addresses(self, direction: int) -> dict[str, int]:
        """The compiled functions of a direction's time loop, by the names of its parameters."""
        cell, isa, names = self._cell, self._isa, names_of(self._desc.activations_of(direction))
        gates = self._sizes.gates
        fused = self._constants.fused_gates
        products = {"input": (gates, fused["weights"]), "step": (gates - cell.resets_first, fused["recurrence"])}
        addresses = {
            "acquire": ACQUIRE.address(),
            "input_stage": INPUT_PRODUCTS.address(gates, self._read, isa),
            "step_stage": STEP.address(cell.kind, cell.resets_first, names, self._written, isa),
        }
        if has_second_stage(cell):
            choice = self._written, isa
            addresses["second_stage"] = CANDIDATE.address(names, *choice) if cell.resets_first else PROJECTION.address(*choice)
            products["second"] = (1, 1)
        return addresses | {f"{name}_product": GATE_PRODUCTS.address(*choices, isa) for name, choices in products.items()}

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, lanes, cell = self._sizes, self._isa.lanes, self._cell
        batch, units, entries = sizes.batch_size, self._blocks * lanes, self._entry_blocks * lanes
        rows = self._chunk * batch
        sums = sizes.gates * max(tile_size(sizes, self._blocks, self._groups), rows if self._threads > 1 else 0)
        shapes: dict[str, tuple[int, ...]] = {
            "state": (STATES, batch, 1 + self._state_gates, entries),
            "parts": (self._blocks, rows, sizes.gates, lanes),
            "scratch": (self._threads, max(sums, tile_size(sizes, self._entry_blocks, self._groups)), lanes),
        }
        if cell.has_memory:
            shapes["memory"] = (batch, units)
        if cell.resets_first:
            shapes["update"] = shapes["reset"] = (batch, units)
        if cell.projection:
            shapes |= {"cell_output": (batch, units), "zeros": (lanes,)}
        if self._input_row is None:
            shapes["input"] = (self._chunk, batch, sizes.input_size)
        if not self._writes_output_directly:
            shapes["output"] = (self._chunk, batch, sizes.state_size)
        if "input_dropout_tensor" in self._tensors:
            shapes["input_dropout"] = (batch, sizes.gates, -(-sizes.input_size // lanes) * lanes)
            shapes["gathered"] = (self._threads, rows, prod(shapes["input_dropout"][1:]))
        elif self._selects or self._read != "float32":
            shapes["gathered"] = (self._threads, rows, sizes.input_size)
        if self._state_gates:
            shapes["state_dropout"] = (batch, self._state_gates, entries)
            if cell.resets_first:
                shapes["candidate_dropout"] = (batch, units)
        floats = [(name, shape, np.dtype(np.float32)) for name, shape in shapes.items()]
        return [*floats, *ActiveRows.scratch(sizes.seq_length, batch, self._tensors)]

    # time loops

    def _direction(self, direction: int, arrays: Arrays, packed: Arrays, scratch: Arrays) -> Direction:
        """The work of one direction: initial states, all spans, final states."""
        sizes, x, y = self._sizes, arrays["input_tensor"][0], arrays.get("output_sequence_tensor")
        steps = sizes.seq_length
        backward = direction == 1 or self._desc.direction is RecurrentDirection.BACKWARD
        rows = ActiveRows(steps, sizes.batch_size, arrays, backward, scratch)
        reserve = None
        if "reserve_tensor" in arrays:
            reserve = ReserveRows.of(cast("ReserveDesc", self._desc), arrays["reserve_tensor"])
        begin, end = self._states(direction, backward, arrays, scratch, rows, reserve)
        fixed = self._parameters(direction, backward, packed, scratch, rows, reserve)
        staged = self._input_row is None or not self._writes_output_directly
        spans: list[Span] = []
        for start in range(0, steps, self._chunk if staged else steps):
            count = min(self._chunk, steps - start) if staged else steps
            low = steps - start - count if backward else start
            before: list[Copy] = []
            after: list[Copy] = []
            given, results = x[low : low + count], None if y is None else y[low : low + count, direction]
            if self._input_row is None:
                before.append((scratch["input"][:count], given))
                given = scratch["input"]
            if results is not None and not self._writes_output_directly:
                after.append((results, scratch["output"][:count]))
                results = scratch["output"]
            parameters = copied(fixed)
            # Addresses are those of time 0, even if it is outside the memory.
            parameters["input"] = given.ctypes.data - low * sizes.batch_size * fixed["input_row"]
            if results is not None:
                parameters["output"] = results.ctypes.data - low * results.strides[0]
                parameters["output_step"], parameters["output_row"] = results.strides[:2]
            parameters["steps"], parameters["time"], parameters["turn"], parameters["backward"] = count, low, start % STATES, backward
            stages = count_stages(count, self._chunk, two=has_second_stage(self._cell))
            spans.append(Span(before, parameters, stages, after))

        def first() -> None:
            rows.update()
            begin()

        return Direction(first, spans, end)

    def _states(
        self, direction: int, backward: bool, arrays: Arrays, scratch: Arrays, rows: ActiveRows, reserve: ReserveRows | None
    ) -> tuple[HostCall, HostCall]:
        """The work before and after a time loop: its states' rows are copied from the order of the samples and back."""
        sizes, order, selective = self._sizes, rows.order, self._selects
        steps, entries, hidden = sizes.seq_length, sizes.state_size, sizes.hidden_size
        h = scratch["state"][..., :entries]  # [STATES, B, 1 + gates, S]: each state, then its copies with dropout for the gates
        states = {"hidden_init_tensor": h[0, :, 0]}
        finals = {"output_single_tensor": h[steps % STATES, :, 0]}
        slots = {"hidden_init_tensor": None if reserve is None else reserve.hidden}
        if self._cell.has_memory:
            states["cell_mem_init_tensor"] = finals["output_cell_single_tensor"] = scratch["memory"][:, :hidden]
            slots["cell_mem_init_tensor"] = None if reserve is None else reserve.memory
        first = steps if backward else 0
        initial = [(state, arrays[name][0, direction] if name in arrays else None) for name, state in states.items()]
        saved: list[Copy] = [(scratch["zeros"], 0.0)] if "zeros" in scratch else []
        for name, slot in slots.items():
            if slot is not None:
                saved.append((slot[direction, first], arrays[name][0, direction] if name in arrays else 0.0))
        results = [(arrays[name][0, direction], state) for name, state in finals.items() if name in arrays]
        saved += self._dropout(direction, arrays, scratch)
        multipliers = scratch["state_dropout"][..., :entries] if self._state_gates else None

        def begin() -> None:
            for target, source in initial:
                target[...] = 0.0 if source is None else source[order] if selective else source
            copy(saved)
            if multipliers is not None:
                np.multiply(h[0, :, :1], multipliers[order] if selective else multipliers, h[0, :, 1:])

        def end() -> None:
            for target, source in results:
                target[order if selective else slice(None)] = source

        return begin, end

    def _dropout(self, direction: int, arrays: Arrays, scratch: Arrays) -> list[Copy]:
        """The copies that arrange the multipliers of x and h by sample."""
        sizes, copies = self._sizes, list[Copy]()
        if "input_dropout_tensor" in arrays:
            multipliers = arrays["input_dropout_tensor"][direction].swapaxes(0, 1)
            copies.append((scratch["input_dropout"][..., : sizes.input_size], multipliers))
        if "state_dropout_tensor" in arrays:
            multipliers = arrays["state_dropout_tensor"][direction].swapaxes(0, 1)
            copies.append((scratch["state_dropout"][..., : sizes.state_size], multipliers[:, : self._state_gates]))
            if self._cell.resets_first:
                copies.append((scratch["candidate_dropout"][..., : sizes.hidden_size], multipliers[:, -1]))
        return copies

    def _parameters(
        self, direction: int, backward: bool, packed: Arrays, scratch: Arrays, rows: ActiveRows, reserve: ReserveRows | None
    ) -> Array:
        """The parameters that all spans share: sizes, options, addresses."""
        sizes = self._sizes
        values: dict[str, Any] = {
            "batch": sizes.batch_size,
            "inputs": sizes.input_size,
            "hidden": sizes.hidden_size,
            "entries": sizes.state_size,
            "blocks": self._blocks,
            "entry_blocks": self._entry_blocks,
            "block_groups": self._groups[0],
            "sample_groups": self._groups[1],
            "steal_timeout": recurrence_steal_timeout(sizes, self._groups, self._chunk * sizes.batch_size, self._isa),
            "chunk": self._chunk,
            "input_row": sizes.input_size * FLOAT_BYTES if self._input_row is None else self._input_row,
            "couple": self._cell.couple_input_forget,
            "clip": self._cell.clip or 0.0,
            "state_size": scratch["state"].strides[0],
            "state_row": scratch["state"].strides[1],
            "state_gate": scratch["state"].strides[2] if self._state_gates else 0,
            "state_gates": self._state_gates,
            "memory_row": self._blocks * self._isa.lanes * FLOAT_BYTES,
            "scratch_size": scratch["scratch"].strides[0],
            "constants": constants_of(self._desc.activations_of(direction)),
        }
        values |= self._addresses(direction)
        values |= {name: array[direction].ctypes.data for name, array in packed.items()}
        values |= {name: array.ctypes.data for name, array in scratch.items() if name not in ("input", "output")}
        values |= {"order": rows.order.ctypes.data, "bases": rows.bases.ctypes.data}
        if "gathered" in scratch:
            values["gathered_size"], values["gathered_row"] = scratch["gathered"].strides[:2]
        if "input_dropout" in scratch:
            values["input_gate"] = scratch["input_dropout"].strides[1]
        if reserve is not None:
            after = 0 if backward else 1
            values |= {"saved": reserve.saved[direction].ctypes.data, "saved_values": self._cell.saved}
            values["saved_hidden"] = reserve.hidden[direction, after:].ctypes.data
            if reserve.memory is not None:
                values["saved_memory"] = reserve.memory[direction, after:].ctypes.data
        return LayerParameters.make(values)
