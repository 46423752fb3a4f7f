"""The compiled step of gated recurrent units and its gradient: products with the weights in place, then the gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.matrix.kernels import panel_copy
from dmlpy.devices.cpu.product_kernels import row_products
from dmlpy.devices.cpu.recurrent.block_cell import BLOCK_TERMS, StepGradientParameters, StepParameters
from dmlpy.devices.cpu.recurrent.cell_kernels import activation
from dmlpy.devices.cpu.simd import simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_step(width: int, stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of a step, to be compiled.

    Args:
        width: the vectors of a panel of weights.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, floats = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa)
    load, store, all_of, lanes, size = simd.load, simd.store, simd.all_of, isa.lanes, simd.size
    multiply, multiply_add, subtract, scaled = simd.product_in_place(width), simd.multiply_add, simd.subtract, simd.multiply
    read, write, element, put = load_store.load, load_store.store, load_store.size, floats.store
    sigmoid, tanh = activation("sigmoid", 0, isa), activation("tanh", 0, isa)
    copy, copy_panel = row_copy(stored, isa), panel_copy(width, stored, isa)
    most, panel_columns, row_size = isa.columns(width), width * lanes, width * size

    @jit
    def panel_of(p: StepParameters, weights: Any, weights_row: Any, bias: Any, columns: Any, several: Any, scratch: Any) -> Any:
        """Writes a panel's biases to the scratch; returns the address of the panel's weights and the distance of their rows.

        They are copied if several groups of samples read them, if they are not float32, and if columns are missing.
        """
        copy_panel(bias, 0, 1, columns, scratch)
        if stored == "float32" and not several and columns == panel_columns:
            return weights, weights_row
        panel = scratch + (1 + most) * row_size
        copy_panel(weights, weights_row, p.inputs + p.units, columns, panel)
        return panel, row_size

    @jit
    def save(p: StepParameters, gate: Any, sample: Any, unit: Any, total: Any, left: Any) -> None:
        """Writes r or u of some units."""
        value = sigmoid(p, total)
        store(p.gates + sample * p.gates_row + gate * (p.gates_row // 2) + unit * FLOAT_BYTES, value)
        output, output_row = (p.u, p.u_row) if gate == 1 else (p.r, p.r_row)
        if output != 0:
            write(output + sample * output_row + unit * element, value, left)

    @jit
    def reset(p: StepParameters, row: Any, target: Any) -> None:
        """Multiplies a sample's state by r."""
        source, gates = p.h_prev + row * p.h_prev_row, p.gates + row * p.gates_row
        for unit in range(0, p.units, lanes):
            value = scaled(read(source + unit * element, p.units - unit), load(gates + unit * FLOAT_BYTES))
            put(target + unit * FLOAT_BYTES, value, p.units - unit)

    @jit
    def finish(p: StepParameters, sample: Any, unit: Any, total: Any, left: Any) -> None:
        """Writes c and h of some units."""
        c = tanh(p, total)
        if p.c != 0:
            write(p.c + sample * p.c_row + unit * element, c, left)
        if p.h != 0:
            u = load(p.gates + sample * p.gates_row + p.gates_row // 2 + unit * FLOAT_BYTES)
            taken = scaled(subtract(all_of(np.float32(1.0)), u), c)
            h = multiply_add(u, read(p.h_prev + sample * p.h_prev_row + unit * element, left), taken)
            write(p.h + sample * p.h_row + unit * element, h, left)

    parameters_at = struct_view(StepParameters)

    def step(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        scratch = p.scratch + thread * p.scratch_size
        sums, terms = scratch + row_size, p.inputs + p.units
        joined_h = p.joined + p.inputs * FLOAT_BYTES
        groups = (p.batch + most - 1) // most
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            # Parts begin at whole groups, so a sample's sums do not depend on the number of threads.
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


_MOST_IN_PLACE = 4
"""Samples for which weights are not copied: for more of them they are read from the first-level cache."""


def build_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of the gradient, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, floats = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa)
    load, store, all_of, lanes = simd.load, simd.store, simd.all_of, isa.lanes
    add, subtract, multiply, multiply_add = simd.add, simd.subtract, simd.multiply, simd.multiply_add
    read, write, element, put = load_store.load, load_store.store, load_store.size, floats.store
    products, block_row, one = row_products(isa), BLOCK_TERMS * FLOAT_BYTES, np.float32(1.0)

    @jit
    def begin(p: StepGradientParameters, row: Any) -> None:
        """Computes a sample's d_c_bar and d_u_bar."""
        store(p.gates_bar + row * p.gates_bar_row + 2 * p.units * FLOAT_BYTES, all_of(np.float32(0.0)))
        for unit in range(0, p.units, lanes):
            place, left = unit * element, p.units - unit
            u, c = read(p.u + row * p.u_row + place, left), read(p.c + row * p.c_row + place, left)
            h_prev = read(p.h_prev + row * p.h_prev_row + place, left)
            of_candidate = multiply(read(p.d_h + row * p.d_h_row + place, left), subtract(all_of(one), u))
            slope = multiply(subtract(all_of(one), c), add(all_of(one), c))  # 1 - c * c would lose digits where c is near 1
            d_c_bar = multiply(of_candidate, slope)
            d_u_bar = multiply(multiply(of_candidate, subtract(h_prev, c)), u)
            store(p.candidate_bar + row * p.candidate_bar_row + unit * FLOAT_BYTES, d_c_bar)
            put(p.gates_bar + row * p.gates_bar_row + (p.units + unit) * FLOAT_BYTES, d_u_bar, left)
            if p.d_c_bar != 0:
                write(p.d_c_bar + row * p.d_c_bar_row + place, d_c_bar, left)
            if p.d_r_bar_u_bar != 0:
                write(p.d_r_bar_u_bar + row * p.d_r_bar_u_bar_row + p.units * element + place, d_u_bar, left)

    @jit
    def copy(source: Any, source_row: Any, rows: Any, terms: Any, target: Any) -> None:
        """Copies a block of weights to floats, with zeros up to a whole vector."""
        for row in range(rows):
            for term in range(0, terms, lanes):
                store(target + row * block_row + term * FLOAT_BYTES, read(source + row * source_row + term * element, terms - term))

    @jit
    def pass_on(p: StepGradientParameters, row: Any, of_state: Any, entry: Any, left: Any, total: Any) -> None:
        """Saves some entries of d_x2, or of d_h_prevr, from which d_r_bar follows."""
        of_state_at = (p.inputs + lanes - 1) // lanes * lanes
        store(p.from_candidate + row * p.from_candidate_row + (entry + of_state * of_state_at) * FLOAT_BYTES, total)
        if of_state != 0:
            r, h_prev = read(p.r + row * p.r_row + entry * element, left), read(p.h_prev + row * p.h_prev_row + entry * element, left)
            d_r_bar = multiply(multiply(multiply(total, h_prev), r), subtract(all_of(one), r))
            put(p.gates_bar + row * p.gates_bar_row + entry * FLOAT_BYTES, d_r_bar, left)
            if p.d_r_bar_u_bar != 0:
                write(p.d_r_bar_u_bar + row * p.d_r_bar_u_bar_row + entry * element, d_r_bar, left)

    @jit
    def finish(p: StepGradientParameters, row: Any, of_state: Any, entry: Any, left: Any, total: Any) -> None:
        """Writes some entries of d_x or d_h_prev."""
        of_state_at, place = (p.inputs + lanes - 1) // lanes * lanes, entry * element
        of_candidate = load(p.from_candidate + row * p.from_candidate_row + (entry + of_state * of_state_at) * FLOAT_BYTES)
        if of_state == 0:
            write(p.d_x + row * p.d_x_row + place, add(total, of_candidate), left)
        else:
            passed = multiply(read(p.d_h + row * p.d_h_row + place, left), read(p.u + row * p.u_row + place, left))
            passed = multiply_add(of_candidate, read(p.r + row * p.r_row + place, left), passed)
            write(p.d_h_prev + row * p.d_h_prev_row + place, add(total, passed), left)

    @jit
    def block_of(p: StepGradientParameters, gates: Any, of_state: Any, entry: Any, left: Any, first: Any, last: Any, scratch: Any) -> None:
        """The products of some rows of weights with some samples' gradients, and the results that follow from them."""
        if gates != 0:
            weights, weights_row, terms, factors, factors_row = p.w_ru, p.w_ru_row, 2 * p.units, p.gates_bar, p.gates_bar_row
        else:
            weights, weights_row, terms, factors, factors_row = p.w_c, p.w_c_row, p.units, p.candidate_bar, p.candidate_bar_row
        weights += (of_state * p.inputs + entry) * weights_row
        in_place = stored == "float32" and last - first <= _MOST_IN_PLACE and left >= lanes
        for term in range(0, terms, BLOCK_TERMS):
            count = min(BLOCK_TERMS, terms - term)
            if not in_place:
                copy(weights + term * element, weights_row, min(left, lanes), count, scratch)
            for row in range(first, last):
                gradients = factors + row * factors_row + term * FLOAT_BYTES
                if in_place:
                    total = products(weights + term * FLOAT_BYTES, weights_row, count, gradients)
                else:
                    total = products(scratch, block_row, (count + lanes - 1) // lanes * lanes, gradients)
                if term > 0:
                    total = add(load(p.sums + row * p.sums_row), total)
                if count < terms - term:
                    store(p.sums + row * p.sums_row, total)
                elif gates != 0:
                    finish(p, row, of_state, entry, left, total)
                else:
                    pass_on(p, row, of_state, entry, left, total)

    parameters_at = struct_view(StepGradientParameters)

    def gradient(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        scratch = p.scratch + thread * p.scratch_size
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            first, last = p.batch * tile // p.tiles, p.batch * (tile + 1) // p.tiles
            for row in range(first, last):
                begin(p, row)
            wanted = p.d_x | p.d_h_prev | p.d_r_bar_u_bar
            for part in range(4):
                gates, of_state = part // 2, part % 2
                output = p.d_x if of_state == 0 else wanted if gates == 0 else p.d_h_prev
                if output != 0:
                    entries = p.units if of_state != 0 else p.inputs
                    for entry in range(0, entries, lanes):
                        block_of(p, gates, of_state, entry, entries - entry, first, last, scratch)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return gradient
