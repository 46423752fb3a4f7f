"""The compiled step of gated recurrent units: products with the weights as they lie, the gates applied to the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.matrix.kernels import panel_copy
from dmlpy.devices.cpu.recurrent.block_cell_parameters import STEP_PARAMETERS
from dmlpy.devices.cpu.recurrent.functions import activation
from dmlpy.devices.cpu.simd import jit, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_step(width: int, halves: bool, isa: Isa) -> TaskBody:
    """A thread's part of a step, to be compiled.

    Args:
        width: the vectors of a panel of weights.
        halves: whether the tensors are FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, floats = simd_of(isa), load_store_of(halves, isa), load_store_of(False, isa)
    load, store, all_of, lanes, size = simd.load, simd.store, simd.all_of, isa.lanes, simd.size
    multiply, multiply_add, subtract, scaled = simd.product_in_place(width), simd.multiply_add, simd.subtract, simd.multiply
    read, write, element, put = load_store.load, load_store.store, load_store.size, floats.store
    sigmoid, tanh = activation("sigmoid", 0, isa), activation("tanh", 0, isa)
    copy, copy_panel = row_copy(halves, isa), panel_copy(width, halves, isa)
    most, panel_columns, row_size = isa.columns(width), width * lanes, width * size

    @jit
    def panel_of(p: Any, weights: Any, weights_row: Any, bias: Any, columns: Any, several: Any, scratch: Any) -> Any:
        """Leaves a panel's biases in the scratch; returns where the panel's weights are, and the distance of their rows.

        They are copied where several groups of samples read them, where they are no floats, and where columns are missing.
        """
        copy_panel(bias, 0, 1, columns, scratch)
        if not halves and not several and columns == panel_columns:
            return weights, weights_row
        panel = scratch + (1 + most) * row_size
        copy_panel(weights, weights_row, p.inputs + p.units, columns, panel)
        return panel, row_size

    @jit
    def save(p: Any, gate: Any, sample: Any, unit: Any, total: Any, left: Any) -> None:
        """Writes r or u of some units."""
        value = sigmoid(p, total)
        store(p.gates + sample * p.gates_row + gate * (p.gates_row // 2) + unit * FLOAT_BYTES, value)
        output, output_row = (p.u, p.u_row) if gate == 1 else (p.r, p.r_row)
        if output != 0:
            write(output + sample * output_row + unit * element, value, left)

    @jit
    def reset(p: Any, row: Any, target: Any) -> None:
        """Multiplies a sample's state by r."""
        source, gates = p.h_prev + row * p.h_prev_row, p.gates + row * p.gates_row
        for unit in range(0, p.units, lanes):
            value = scaled(read(source + unit * element, p.units - unit), load(gates + unit * FLOAT_BYTES))
            put(target + unit * FLOAT_BYTES, value, p.units - unit)

    @jit
    def finish(p: Any, sample: Any, unit: Any, total: Any, left: Any) -> None:
        """Writes c and h of some units."""
        c = tanh(p, total)
        if p.c != 0:
            write(p.c + sample * p.c_row + unit * element, c, left)
        if p.h != 0:
            u = load(p.gates + sample * p.gates_row + p.gates_row // 2 + unit * FLOAT_BYTES)
            taken = scaled(subtract(all_of(np.float32(1.0)), u), c)
            h = multiply_add(u, read(p.h_prev + sample * p.h_prev_row + unit * element, left), taken)
            write(p.h + sample * p.h_row + unit * element, h, left)

    parameters_at = struct_view(STEP_PARAMETERS)

    def step(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        scratch = p.scratch + thread * p.scratch_size
        sums, terms = scratch + row_size, p.inputs + p.units
        joined_h = p.joined + p.inputs * FLOAT_BYTES
        groups = (p.batch + most - 1) // most
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            # Parts begin at whole groups, so each sample is summed alike on however many threads.
            first_group, last_group = groups * tile // p.tiles, groups * (tile + 1) // p.tiles
            first, last = p.batch * first_group // groups, p.batch * last_group // groups
            for row in range(first, last):
                copy(p.x + row * p.x_row, p.joined + row * p.joined_row, p.inputs)
                copy(p.h_prev + row * p.h_prev_row, joined_h + row * p.joined_row, p.units)
            for gate in range(3):
                if p.wanted >> gate & 1 == 0:
                    continue
                if gate == 2:
                    for row in range(first, last):
                        reset(p, row, joined_h + row * p.joined_row)
                weights, weights_row, biases = (p.w_c, p.w_c_row, p.b_c) if gate == 2 else (p.w_ru, p.w_ru_row, p.b_ru)
                for column in range(0, p.units, panel_columns):
                    columns, at = min(panel_columns, p.units - column), (gate % 2 * p.units + column) * element
                    several = last_group - first_group > 1
                    matrix, matrix_row = panel_of(p, weights + at, weights_row, biases + at, columns, several, scratch)
                    for group in range(first_group, last_group):
                        row, end = p.batch * group // groups, p.batch * (group + 1) // groups
                        factors = p.joined + row * p.joined_row
                        multiply(end - row, matrix, matrix_row, terms, factors, p.joined_row, scratch, 0, sums)
                        for sample in range(row, end):
                            of_sample = sums + (sample - row) * row_size
                            for entry in range(0, columns, lanes):
                                total, left = load(of_sample + entry * FLOAT_BYTES), columns - entry
                                if gate == 2:
                                    finish(p, sample, column + entry, total, left)
                                else:
                                    save(p, gate, sample, column + entry, total, left)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return step
