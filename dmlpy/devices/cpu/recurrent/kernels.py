"""The stages of a recurrence (see `devices.cpu.thread_pool_kernels`): a chunk's input products, and the steps of RNN, LSTM and GRU.

Units form blocks of as many as a vector has lanes. A block's weights are packed contiguously, with all gates of the block adjacent,
so the sums of some samples' gates stay in registers over all terms, and the cell's step reads the first-level cache. With dropout
each gate has its own factors, and the gates are summed one after the other. A step is a stage, or two if a GRU's reset gate comes
before the product, or if h is projected; a tile is some blocks of some samples. A thread sums the gates in private memory, and then,
if it commits the tile, writes the states. It begins the next step with the weights that are still in its core's cache.

Each stage is a separate function, run_stage(parameters, thread, threads, sync, stage, low, step): `stage` is its number, `low`
the first time of the chunk, and instead of `step` the input products get the number of the chunk's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.product_kernels import call_gate_products
from dmlpy.devices.cpu.recurrent.cell_kernels import (
    gru_candidate_kernel,
    gru_gates_kernel,
    gru_kernel,
    lstm_kernel,
    pass_kernels,
    projection_kernel,
    rnn_kernel,
    skip_of,
)
from dmlpy.devices.cpu.recurrent.parameters import STATES, GradientParameters, LayerParameters
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import integer_at, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, own_scratch, publish

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.recurrent.parameters import TimeLoopParameters

Stage = Callable[..., None]


@jit
def count_tiles(p: TimeLoopParameters, blocks: Any) -> Any:
    """The tiles of a stage over this many blocks."""
    return min(p.block_groups, blocks) * p.sample_groups


@jit
def tile_bounds(p: TimeLoopParameters, blocks: Any, tile: Any) -> Any:
    """The first block of a tile and the one past its last; the first row of the samples and the one past the last."""
    groups = min(p.block_groups, blocks)
    group, samples = tile % groups, tile // groups
    first, last = p.batch * samples // p.sample_groups, p.batch * (samples + 1) // p.sample_groups
    return blocks * group // groups, blocks * (group + 1) // groups, first, last


def _dropped_kernel(gates: int, stored: Storage, isa: Isa) -> Any:
    """Writes a row of x with each gate's dropout: drop(p, source, sample, target)."""
    simd, read, element, lanes = simd_of(isa), load_store_of(stored, isa).load, load_store_of(stored, isa).size, isa.lanes
    load, store, multiply = simd.load, simd.store, simd.multiply

    @jit
    def drop(p: LayerParameters, source: Any, sample: Any, target: Any) -> None:
        of_sample = p.input_dropout + sample * p.gathered_row
        for entry in range(0, p.inputs, lanes):
            x = read(source + entry * element, p.inputs - entry)
            for gate in range(gates):
                at = gate * p.input_gate + entry * FLOAT_BYTES
                store(target + at, multiply(x, load(of_sample + at)))

    return drop


@jit
def _are_contiguous(p: LayerParameters, first: Any, rows: Any) -> Any:
    """Whether some rows of the input are contiguous and in order."""
    start, count = integer_at(p.rows + 8 * first), 0
    while count < rows and integer_at(p.rows + 8 * (first + count)) == start + count:
        count += 1
    return count == rows


def build_input_products(gates: int, stored: Storage, isa: Isa) -> Stage:
    """The stage of a chunk's input products, biases included: a tile is a block of units.

    Rows that are not contiguous, are no floats of 4 bytes, or have dropout, are first copied by each thread for all its blocks.

    Args:
        gates: the number of gates.
        stored: the type of the input's elements.
        isa: the instruction set that it is compiled for.
    """
    simd, part = simd_of(isa), gates * simd_of(isa).size
    load, store, size, parameters_at = simd.load, simd.store, simd.size, struct_view(LayerParameters)
    copy, drop, in_floats = row_copy(stored, isa), _dropped_kernel(gates, stored, isa), stored == "float32"

    @jit
    def gather(p: LayerParameters, first: Any, rows: Any, target: Any) -> None:
        for row in range(first, first + rows):
            number = integer_at(p.rows + 8 * row) if p.rows != 0 else row
            if p.input_dropout != 0:
                drop(p, p.input + number * p.input_row, number % p.batch, target)
            else:
                copy(p.input + number * p.input_row, target, p.inputs)
            target += p.gathered_row

    def products(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, low: Any, count: Any) -> None:
        p = parameters_at(parameters)
        before = integer_at(p.bases + 8 * low)
        rows = integer_at(p.bases + 8 * (low + count)) - before
        factors, factors_row, gathered = p.input + before * p.input_row, p.input_row, p.gathered == 0
        if in_floats and not gathered and p.input_dropout == 0 and _are_contiguous(p, before, rows):
            factors, gathered = p.input + integer_at(p.rows + 8 * before) * p.input_row, True
        block = acquire(p, sync, thread, threads, stage, p.blocks, NOTHING)
        while block >= 0:
            if not gathered:
                factors, factors_row, gathered = p.gathered + thread * p.gathered_size, p.gathered_row, True
                gather(p, before, rows, factors)
            matrix, bias, parts = p.weights + block * p.inputs * part, p.bias + block * part, p.parts + block * p.chunk * p.batch * part
            sums = parts if threads == 1 else own_scratch(p, thread)
            call_gate_products(p.input_product, (rows, matrix, p.inputs, factors, factors_row, p.input_gate, bias, 0, sums))
            if commit(sync, threads, stage, block):
                if threads > 1:
                    for at in range(0, rows * part, size):
                        store(parts + at, load(sums + at))
                publish(sync, threads, stage, block)
            block = acquire(p, sync, thread, threads, stage, p.blocks, block)

    return products


def build_step(kind: Cell, resets_first: bool, functions: tuple[str, ...], stored: Storage, isa: Isa) -> Stage:
    """The stage of a step, or the first of two: for a GRU that resets first, that of its gates; with a projection, that of the cell.

    Args:
        kind: the cell.
        resets_first: whether a GRU's last product depends on the reset gate.
        functions: names of its activations (see `cell_kernels.activation`): f, then g, then h.
        stored: the type of the output's elements.
        isa: the instruction set that it is compiled for.
    """
    size, parameters_at = simd_of(isa).size, struct_view(LayerParameters)
    gates, resets_last = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], kind == "GRU" and not resets_first
    makes = {"RNN": rnn_kernel, "LSTM": lstm_kernel, "GRU": gru_kernel}
    _, pass_cell = pass_kernels(stored, isa)
    part, pass_by = gates * size, _pass_nothing if resets_first else pass_cell
    unit = gru_gates_kernel(functions, isa) if resets_first else makes[kind](functions, stored, isa)
    over_samples = _over_samples(gates - resets_first, part, unit, pass_by, isa)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, low: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, row, old, new = _place_of(p, low, step)
        parts, parts_block = p.parts + row * part, p.chunk * p.batch * part
        start, start_block, start_row = (p.hidden_bias, part, 0) if resets_last else (parts, parts_block, part)
        factors = (p.entries, old + p.state_gate, p.state_row, p.state_gate)
        given = (p.step_product, p.blocks, p.recurrence, start, start_block, start_row)
        over_samples(p, thread, threads, sync, stage, time, parts, given, factors, old, new)

    return run_stage


def build_candidate(functions: tuple[str, ...], stored: Storage, isa: Isa) -> Stage:
    """The second stage of a step of a GRU that resets first. The arguments are `build_step`'s."""
    size, parameters_at, (_, pass_cell) = simd_of(isa).size, struct_view(LayerParameters), pass_kernels(stored, isa)
    part, over_samples = 3 * size, _over_samples(1, 3 * size, gru_candidate_kernel(functions, stored, isa), pass_cell, isa)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, low: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, row, old, new = _place_of(p, low, step)
        parts, parts_block = p.parts + row * part, p.chunk * p.batch * part
        factors = (p.hidden, p.reset, p.memory_row, 0)
        given = (p.second_product, p.blocks, p.candidate, parts + 2 * size, parts_block, part)
        over_samples(p, thread, threads, sync, stage, time, parts, given, factors, old, new)

    return run_stage


def build_projection(stored: Storage, isa: Isa) -> Stage:
    """The second stage of a step of an LSTM with a projection, which computes h.

    Args:
        stored: the type of the output's elements.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, (pass_state, _) = struct_view(LayerParameters), pass_kernels(stored, isa)
    over_samples = _over_samples(1, 0, projection_kernel(stored, isa), pass_state, isa)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, low: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, _, old, new = _place_of(p, low, step)
        factors = (p.hidden, p.cell_output, p.memory_row, 0)
        given = (p.second_product, p.entry_blocks, p.projection, p.zeros, 0, 0)
        over_samples(p, thread, threads, sync, stage, time, 0, given, factors, old, new)

    return run_stage


@jit
def _pass_nothing(p: LayerParameters, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
    """The first stage of a skipped step if the second one carries the states."""


@jit
def _place_of(p: LayerParameters, low: Any, step: Any) -> Any:
    """The time of a step, its first row among those of the chunk, and the states before and after it."""
    time = p.time + (p.steps - 1 - step if p.backward != 0 else step)
    row = integer_at(p.bases + 8 * time) - integer_at(p.bases + 8 * low)
    place = p.turn + step
    return time, row, p.state + place % STATES * p.state_size, p.state + (place + 1) % STATES * p.state_size


def _over_samples(gates: int, part: int, unit: Any, pass_by: Any, isa: Isa) -> Any:
    """Makes a stage of a step: the products of some gates with the factors' rows, then `unit` for each sample.

    Args:
        gates: the number of gates.
        part: bytes of a sample's input parts.
        unit: the kernel.
        pass_by: the kernel for a sample that skips the step.
        isa: the instruction set that it is compiled for.
    """
    row_size = gates * simd_of(isa).size

    @jit
    def step(
        p: LayerParameters,
        thread: Any,
        threads: Any,
        sync: Any,
        stage: Any,
        time: Any,
        parts: Any,
        given: Any,
        factors: Any,
        old: Any,
        new: Any,
    ) -> None:
        product, blocks, matrix, start, start_block, start_row = given
        terms, factors_at, factors_row, factors_gate = factors
        active = integer_at(p.bases + 8 * time + 8) - integer_at(p.bases + 8 * time)
        scratch, block_size, parts_block = own_scratch(p, thread), terms * row_size, p.chunk * p.batch * part
        tiles = count_tiles(p, blocks)
        tile = acquire(p, sync, thread, threads, stage, tiles, NOTHING)
        while tile >= 0:
            first_block, last_block, first_row, last_row = tile_bounds(p, blocks, tile)
            rows, sums = max(0, min(last_row, active) - first_row), scratch
            for turn in range(first_block, last_block):
                block = turn if stage & 1 != 0 else first_block + last_block - 1 - turn
                of_block, of_rows = matrix + block * block_size, factors_at + first_row * factors_row
                begin = start + block * start_block + first_row * start_row
                given_rows = (rows, of_block, terms, of_rows, factors_row, factors_gate, begin, start_row, sums)
                call_gate_products(product, given_rows)
                sums += rows * row_size
            if commit(sync, threads, stage, tile):
                sums = scratch
                for turn in range(first_block, last_block):
                    block = turn if stage & 1 != 0 else first_block + last_block - 1 - turn
                    for row in range(first_row, last_row):
                        if row < active and skip_of(p, time, integer_at(p.order + 8 * row)) == 0:
                            of_row = parts + block * parts_block + row * part
                            unit(p, time, block, row, of_row, sums + (row - first_row) * row_size, old, new)
                        else:
                            pass_by(p, time, block, row, old, new)
                    sums += rows * row_size
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, tiles, tile)

    return step


_call, _call_gradient = indirect_call(7), indirect_call(6)


def build_time_loop() -> Callable[..., int]:
    """The time loop, to be compiled: a thread's part of the steps that its parameters describe."""
    parameters_at = struct_view(LayerParameters)

    def time_loop(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p = parameters_at(parameters)
        for begin in range(0, p.steps, p.chunk):
            count = min(p.chunk, p.steps - begin)
            low = p.time + (p.steps - begin - count if p.backward != 0 else begin)
            stage += 1
            _call(p.input_stage, (parameters, thread, threads, sync, stage, low, count))
            for step in range(begin, begin + count):
                stage += 1
                _call(p.step_stage, (parameters, thread, threads, sync, stage, low, step))
                if p.second_stage != 0:
                    stage += 1
                    _call(p.second_stage, (parameters, thread, threads, sync, stage, low, step))
        return stage

    return time_loop


def build_gradient_time_loop() -> Callable[..., int]:
    """The backward recurrence, to be compiled."""
    parameters_at = struct_view(GradientParameters)

    def time_loop(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p = parameters_at(parameters)
        for step in range(p.steps + 1):
            stage += 1
            _call_gradient(p.step_stage, (parameters, thread, threads, sync, stage, step))
            if p.second_stage != 0 and step < p.steps:
                stage += 1
                _call_gradient(p.second_stage, (parameters, thread, threads, sync, stage, step))
        return stage

    return time_loop
