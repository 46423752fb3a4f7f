"""The compiled plan of the gradients of RNN, LSTM and GRU: the backward recurrence over a block of steps, then products over all of them.

The gates' gradients of a block are a matrix with a row for each step that a sample takes. x and h[t-1] are such matrices already, so
the gradients of the weights and x take a product each. Blocks are summed in the order of the time loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import ACQUIRE, PRODUCT, Kernel
from dmlpy.devices.cpu.launches import FUSED_LAUNCH, Task
from dmlpy.devices.cpu.matrix.blocked import VECTORS, load_products, scratch_bytes
from dmlpy.devices.cpu.recurrent.gradient_products import GATES_PADDING, BlockRows, GateColumns, RowProducts, product_shapes
from dmlpy.devices.cpu.recurrent.packing import (
    ADDRESSES,
    CLEARING,
    PACKING,
    ROWS,
    ActiveRows,
    PackedMatrix,
    bind_packing,
    is_packable,
    selects,
)
from dmlpy.devices.cpu.recurrent.parameters import (
    RESERVE_LAYOUT,
    GradientParameters,
    ReserveRows,
    constants_of,
    copied,
    count_gradient_stages,
    names_of,
)
from dmlpy.devices.cpu.recurrent.schedule import (
    CONCURRENT_TASK,
    are_concurrent,
    concurrent_task,
    described_options,
    described_order,
    has_second_stage,
    make_launch,
    recurrence_steal_timeout,
    step_threads,
    tile_groups,
    tile_size,
)
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, arrays_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.launches import HostCall, Work
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

GRADIENT_TIME_LOOP = Kernel("dmlpy.devices.cpu.recurrent.kernels:build_gradient_time_loop", 5, returns=True)
"""The backward recurrence of all cells, which calls the stages of one."""
GRADIENT_STEP = Kernel("dmlpy.devices.cpu.recurrent.gradient_kernels:build_gradient_step", 6)
"""The stage of a cell's step: its kind, whether it resets first, its activations' names, and the instruction set."""
RESET_STEP = Kernel("dmlpy.devices.cpu.recurrent.gradient_kernels:build_reset_step", 6)
"""The second stage of the step of a GRU that resets first: its activations' names, and the instruction set."""
PROJECTION_STEP = Kernel("dmlpy.devices.cpu.recurrent.gradient_kernels:build_projection_step", 6)
"""The first stage of the step of an LSTM with a projection: the instruction set."""
PROJECTED_STEP = Kernel("dmlpy.devices.cpu.recurrent.gradient_kernels:build_projected_step", 6)
"""Its second stage: its activations' names, and the instruction set."""

_ALIGNMENT = 64
_BLOCK_ROWS = 2048
"""Rows (steps times batch) that one block's products sum over, at most, unless one step has more."""


class _Round(NamedTuple):
    """The work of a direction on a block of steps.

    Attributes:
        before: launches that precede the time loop.
        packing: the packing of the first block's weights.
        parameters: the parameters of the time loop.
        stages: its stages.
        sums: the products after it.
        after: the work after those.
    """

    before: Sequence[Work]
    packing: Sequence[Work]
    parameters: Array
    stages: int
    sums: Sequence[Task]
    after: Sequence[HostCall]


class _Direction(NamedTuple):
    """The work of a direction: before the first block, on the blocks, and after the last one."""

    begin: Sequence[HostCall]
    rounds: Sequence[_Round]
    end: Sequence[HostCall]


class GradientPlan(PlanWithoutConstants):
    """The gradient of RNN, LSTM or GRU by compiled time loops.

    Args:
        desc: a checked desc.
    """

    reserve_layout = RESERVE_LAYOUT

    def __init__(self, desc: RecurrentGradDesc) -> None:
        self._desc, self._sizes, self._cell, self._tensors = desc, desc.geometry, desc.cell, desc.tensors()
        sizes, self._isa = self._sizes, host_isa()
        self._columns = GateColumns.of(self._cell, sizes.hidden_size)
        self._blocks, self._entry_blocks = (-(-units // self._isa.lanes) for units in (sizes.hidden_size, sizes.state_size))
        self._threads = step_threads(sizes, self._blocks)
        # This does not depend on the threads: panels of one block sum a single sample in another order.
        self._panel = VECTORS if min(self._blocks, self._entry_blocks) > 1 else 1
        self._panels, self._entry_panels = (-(-blocks // self._panel) for blocks in (self._blocks, self._entry_blocks))
        self._selects = selects(self._tensors)
        blocks = -(-sizes.seq_length * sizes.batch_size // _BLOCK_ROWS)
        self._block_steps = -(-sizes.seq_length // min(blocks, sizes.seq_length))
        # With dropout of x a block's input gradient is a sum of several products, whose order must not depend on the threads.
        in_any_order = self._block_steps == sizes.seq_length or "input_dropout_tensor" not in self._tensors
        self._concurrent = in_any_order and are_concurrent(sizes, self._threads)
        self._product_threads = max(available_threads(), 2 if self._concurrent else self._threads)
        if self._concurrent:
            self._threads = 1
        self._groups = tile_groups(sizes, self._blocks, self._threads, self._isa)
        self._scratch = Layout(self._scratch_arrays(), _ALIGNMENT)
        self.temporary_size = self._scratch.size * (2 if self._concurrent else 1)

    def load(self) -> None:
        for direction in range(self._sizes.num_directions):
            self._addresses(direction)
        GRADIENT_TIME_LOOP()
        FUSED_LAUNCH()
        if self._concurrent:
            CONCURRENT_TASK()
        PACKING(self._isa)
        if self._selects:
            ROWS()
            ADDRESSES()
            CLEARING(self._isa)
        for transposed in (False, True):
            load_products(transposed=transposed)

    def _addresses(self, direction: int) -> dict[str, int]:
        """The compiled functions of a direction's time loop, by the names of its parameters."""
        cell, isa, names = self._cell, self._isa, names_of(self._desc.activations_of(direction))
        products = {"product": PRODUCT.address(self._panel, False, isa), "narrow_product": PRODUCT.address(1, False, isa)}
        addresses = products | {"acquire": ACQUIRE.address()}
        if cell.projection:
            return addresses | {"step_stage": PROJECTION_STEP.address(isa), "second_stage": PROJECTED_STEP.address(names, isa)}
        addresses["step_stage"] = GRADIENT_STEP.address(cell.kind, cell.resets_first, names, isa)
        return addresses | ({"second_stage": RESET_STEP.address(names, isa)} if cell.resets_first else {})

    def describe(self) -> str:
        sizes = self._sizes
        names = ("input", "weight", "recurrence", "bias", "projection")
        products = [name for name in names if f"{name}_gradient_tensor" in self._tensors]
        summed = f"gradients of {', '.join(products)}: products of" if products else "no product over"
        order = described_order(self._threads, concurrent=self._concurrent)
        return "\n".join(
            [
                f"LLVM, float32 arithmetic; {sizes.num_directions} direction(s), {order}",
                f"step: blocks of {self._isa.lanes} units, {self._panel} at a time, of up to "
                f"{self._isa.columns(self._panel)} samples in registers, {self._blocks} block(s)",
                f"{summed} {self._block_steps} of {sizes.seq_length} steps at a time",
                *(["samples that skip steps: those that take most first, only the steps that are taken"] if self._selects else []),
                *described_options(self._cell, sizes, self._tensors),
            ]
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes, strides and types."""
        directions = [
            self._direction(direction, arrays, scratch) for direction, scratch in enumerate(self._scratch_of_directions(temporary))
        ]
        together = [directions] if self._concurrent else [[direction] for direction in directions]
        work: list[Work] = []
        for group in together:
            for direction in group:
                work += direction.begin
            for rounds in zip(*(direction.rounds for direction in group), strict=True):
                work += self._rounds(rounds)
            for direction in group:
                work += direction.end
        return make_launch(work, ignores=True)

    def _rounds(self, rounds: Sequence[_Round]) -> list[Work]:
        """The work on a block of each direction."""
        time_loop = GRADIENT_TIME_LOOP.address()
        work: list[Work] = []
        for each in rounds:
            work += each.before
        for each in rounds:
            work += each.packing
        if self._concurrent:
            work.append(concurrent_task(time_loop, [each.parameters for each in rounds]))
        else:
            tiles = prod(self._groups)
            work += [Task(time_loop, each.parameters.ctypes.data, each.stages, tiles, self._threads, True, each) for each in rounds]
        for each in rounds:
            work += each.sums
        for each in rounds:
            work += each.after
        return work

    def _scratch_of_directions(self, temporary: int) -> list[Arrays]:
        """The scratch of each direction: its own where they run at the same time, but for what their products share."""
        count = self._sizes.num_directions
        if not self._concurrent:
            return [self._scratch.arrays_at(temporary)] * count
        scratches = [self._scratch.arrays_at(temporary + direction * self._scratch.size) for direction in range(count)]
        shared = {name: array for name, array in scratches[0].items() if name in ("products", "all_input_gradients")}
        return [scratch | shared for scratch in scratches]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, lanes, blocks, cell = self._sizes, self._isa.lanes, self._blocks, self._cell
        batch, hidden, entries, rows = sizes.batch_size, sizes.hidden_size, sizes.state_size, self._block_steps * sizes.batch_size
        panels, entry_panels, width = self._panels, self._entry_panels, self._panel * lanes
        sums = max(tile_size(sizes, count, self._groups) for count in (panels, entry_panels))
        if "state_dropout_tensor" in self._tensors:
            sums += tile_size(sizes, 1, self._groups)  # a gate's product
        shapes: dict[str, tuple[int, ...]] = {
            "recurrence": (entry_panels, (len(self._columns.of_state[1]) - cell.resets_first) * hidden, width),
            "zeros": (width,),
            "carry": (self._entry_blocks, batch, lanes),
            "gates": (rows, self._columns.gates * hidden + entries * cell.projection + GATES_PADDING),
            "scratch": (self._threads, sums, width),
        }
        if cell.has_memory:
            shapes["memory_carry"] = (blocks, batch, lanes)
        if cell.peephole:
            shapes["peephole"] = (blocks, 3, lanes)
        if cell.resets_first:
            shapes |= {"candidate": (panels, hidden, width), "operand": (rows, hidden)}
        if cell.projection:
            shapes["projection"] = (panels, entries, width)
        upstream = self._tensors.get("output_sequence_gradient_tensor")
        if upstream is not None and not (upstream.data_type.numpy == np.float32 and upstream.element_strides[-1] == 1):
            shapes["upstream"] = (self._block_steps, batch, entries)
        shapes |= product_shapes(self._desc, self._columns, self._block_steps)
        floats = [(name, shape, np.dtype(np.float32)) for name, shape in shapes.items()]
        products = ("products", (scratch_bytes(self._product_threads),), np.dtype(np.uint8))
        samples = [("samples", (rows,), np.dtype(np.int64))] if any("dropout" in name for name in shapes) else []
        return [*floats, products, *samples, *ActiveRows.scratch(sizes.seq_length, batch, self._tensors)]

    # the work of a direction

    def _direction(self, direction: int, arrays: Arrays, scratch: Arrays) -> _Direction:
        sizes, block = self._sizes, self._block_steps
        backward = direction == 1 or self._desc.direction is RecurrentDirection.BACKWARD
        rows = ActiveRows(sizes.seq_length, sizes.batch_size, arrays, backward, scratch)
        reserve = ReserveRows.of(self._desc, arrays["reserve_tensor"])
        pack, (begin, end) = self._packing(direction, arrays, scratch), self._states(direction, arrays, scratch, rows)
        fixed = self._parameters(direction, backward, scratch, rows, reserve)
        products = RowProducts(self._desc, self._columns, direction, backward, reserve, arrays, scratch, rows, self._product_threads)
        upstream = arrays.get("output_sequence_gradient_tensor")
        starts = range(0, sizes.seq_length, block)
        rounds: list[_Round] = []
        for place, start in enumerate(starts if backward else reversed(starts)):
            stop = min(start + block, sizes.seq_length)
            parameters = copied(fixed)
            copies: list[Work] = []
            parameters["steps"], parameters["time"] = stop - start, start
            if upstream is not None:
                given = upstream[start:stop, direction]
                if "upstream" in scratch:
                    copies.append(partial(np.copyto, scratch["upstream"][: stop - start], given))
                    given = scratch["upstream"]
                parameters["upstream"] = given.ctypes.data - start * given.strides[0]
                parameters["upstream_step"], parameters["upstream_row"] = given.strides[:2]
            stages = count_gradient_stages(stop - start, two=has_second_stage(self._cell))
            adds = self._comes_second(direction, place, len(starts))
            before, sums, after = products.bound(BlockRows(start, stop), first=place == 0, adds=adds)
            rounds.append(_Round([*copies, *before], [pack] * (place == 0), parameters, stages, sums, after))
        return _Direction([rows.update, begin], rounds, [end, products.give])

    def _comes_second(self, direction: int, place: int, blocks: int) -> bool:
        """Whether the other direction comes before this one to the block at a place in this one's order, which is the other's reversed."""
        if self._concurrent:
            return 2 * place + direction >= blocks
        return direction == 1

    def _packing(self, direction: int, arrays: Arrays, scratch: Arrays) -> Work:
        """Copies R, and peepholes and the projection, to blocks of units."""
        sizes, hidden, waiting = self._sizes, self._sizes.hidden_size, self._cell.resets_first
        by_gate = arrays["recurrence_tensor"][0, direction].reshape(sizes.gates, hidden, sizes.state_size)
        gates = self._columns.of_state[1]
        pieces: list[tuple[Array, Array]] = []
        for at, gate in enumerate(gates[: len(gates) - waiting]):
            pieces += self._panels_of(scratch["recurrence"], slice(at * hidden, (at + 1) * hidden), by_gate[gate])
        if waiting:
            pieces += self._panels_of(scratch["candidate"], slice(None), by_gate[gates[-1]])
        if "projection" in scratch:
            pieces += self._panels_of(scratch["projection"], slice(None), arrays["projection_tensor"][0, direction])
        if "peephole" in scratch:
            pieces.append((scratch["peephole"], arrays["peephole_tensor"][0, 0, direction].reshape(3, hidden)))
        if all(is_packable(matrix) for _, matrix in pieces):
            return bind_packing([PackedMatrix(matrix, target) for target, matrix in pieces], self._isa)
        copies: list[tuple[Array, Array | float]] = []
        for target, matrix in pieces:
            width = target.shape[-1]
            whole, left = divmod(matrix.shape[1], width)
            if left:
                copies += [(target[whole], 0.0), (target[whole, :, :left], matrix[:, whole * width :])]
            copies.append((target[:whole].swapaxes(0, 1), matrix[:, : whole * width].reshape(len(matrix), whole, width)))

        def pack() -> None:
            for target, source in copies:
                target[...] = source

        return pack

    def _panels_of(self, target: Array, terms: slice, matrix: Array) -> list[tuple[Array, Array]]:
        """A matrix [terms, units] in panels: the whole ones of target[panel, terms, width], and a last one of one block, which is narrower.

        Args:
            target: the panels, of all terms.
            terms: those of the matrix.
            matrix: the matrix.

        Returns:
            Targets [panels, terms, width] and their sources [terms, units].
        """
        lanes, (count, rows, width) = self._isa.lanes, target.shape
        whole = -(-matrix.shape[1] // lanes) * lanes // width
        panels = [(target[:whole, terms], matrix[:, : whole * width])] if whole else []
        if whole < count:
            narrow = target[whole].reshape(-1)[: rows * lanes].reshape(1, rows, lanes)
            panels.append((narrow[:, terms], matrix[:, whole * width :]))
        return panels

    def _states(self, direction: int, arrays: Arrays, scratch: Arrays, rows: ActiveRows) -> tuple[HostCall, HostCall]:
        """The gradients of the final states and dropout's multipliers, before the time loop, and those of the initial states, after it."""
        order, lanes = rows.order if self._selects else slice(None), self._isa.lanes
        names = {"carry": ("output_single", "hidden_init"), "memory_carry": ("output_cell_single", "cell_mem_init")}
        units = {"carry": self._sizes.state_size, "memory_carry": self._sizes.hidden_size}
        begins: list[tuple[Array, int, Array | None]] = []
        ends: list[tuple[Array, Array]] = []
        for carry, (single, initial) in names.items():
            if carry not in scratch:
                continue
            upstream, target = arrays.get(f"{single}_gradient_tensor"), arrays.get(f"{initial}_gradient_tensor")
            begins.append((scratch[carry], units[carry], None if upstream is None else upstream[0, direction]))
            if target is not None:
                ends.append((target[0, direction], scratch[carry]))
        copies: list[tuple[Array, Array | float]] = [(scratch["zeros"], 0.0)]
        for name, (_, gates) in (("input", self._columns.of_input), ("state", self._columns.of_state)):
            if f"{name}_dropout" in scratch:
                given, copy = arrays[f"{name}_dropout_tensor"][direction], scratch[f"{name}_dropout"]
                copies += [(copy[at, :, : given.shape[2]], given[gate]) for at, gate in enumerate(gates)]

        def begin() -> None:
            for target, source in copies:
                target[...] = source
            for carry, count, upstream in begins:
                carry[...] = 0.0
                if upstream is not None:
                    (whole, left), given = divmod(count, lanes), upstream[order]
                    carry[:whole].swapaxes(0, 1)[...] = given[:, : whole * lanes].reshape(len(given), whole, -1) if whole else 0.0
                    if left:
                        carry[whole, :, :left] = given[:, whole * lanes :]

        def end() -> None:
            for target, carry in ends:
                target[order] = carry.swapaxes(0, 1).reshape(len(target), -1)[:, : target.shape[1]]

        return begin, end

    def _parameters(self, direction: int, backward: bool, scratch: Arrays, rows: ActiveRows, reserve: ReserveRows) -> Array:
        """The parameters that all blocks share."""
        sizes, before, after = self._sizes, int(backward), int(not backward)
        values: dict[str, Any] = {
            "batch": sizes.batch_size,
            "hidden": sizes.hidden_size,
            "entries": sizes.state_size,
            "blocks": self._blocks,
            "entry_blocks": self._entry_blocks,
            "backward": backward,
            "couple": self._cell.couple_input_forget,
            "clip": self._cell.clip or 0.0,
            "constants": constants_of(self._desc.activations_of(direction)),
            "saved": reserve.saved[direction].ctypes.data,
            "saved_values": self._cell.saved,
            "hidden_before": reserve.hidden[direction, before:].ctypes.data,
            "gates_row": scratch["gates"].strides[0],
            "state_gradient": self._columns.gates * sizes.hidden_size * FLOAT_BYTES,
            "terms": scratch["recurrence"].shape[1],
            "panel": self._panel,
            "columns": self._isa.columns(self._panel),
            "block_groups": self._groups[0],
            "sample_groups": self._groups[1],
            "steal_timeout": recurrence_steal_timeout(sizes, self._groups, 0, self._isa),
            "scratch_size": scratch["scratch"].strides[0],
        }
        values |= self._addresses(direction)
        if reserve.memory is not None:
            values["memory_before"] = reserve.memory[direction, before:].ctypes.data
            values["memory_after"] = reserve.memory[direction, after:].ctypes.data
        for name in ("recurrence", "candidate", "projection", "zeros", "carry", "memory_carry", "gates", "scratch", "operand", "peephole"):
            if name in scratch:
                values[name] = scratch[name].ctypes.data
        if "state_dropout" in scratch:
            multipliers = scratch["state_dropout"]
            values |= {"state_dropout": multipliers.ctypes.data, "dropout_row": multipliers.strides[1]}
            if self._cell.resets_first:
                values["candidate_dropout"] = multipliers[-1].ctypes.data
        values |= {"order": rows.order.ctypes.data, "bases": rows.bases.ctypes.data}
        if rows.skips is not None:
            values["skips"] = rows.skips.ctypes.data
        return GradientParameters.make(values)
