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
from dmlpy.devices.cpu.simd import simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_step(width: int, stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of a step, to be compiled.

    Args:
        width: the vectors of a panel of weights.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, copy = simd_of(isa), row_copy(stored, isa)
    element, most, panel_columns, row_size = load_store_of(stored, isa).size, isa.columns(width), width * isa.lanes, width * simd.size
    multiply, panel_of = simd.product_in_place(width), _panel_kernel(width, stored, isa)
    reset, finish_sums = _reset_kernel(stored, isa), _sums_kernel(width, stored, isa)

    @jit
    def multiply_gate(p: StepParameters, gate: Any, first_group: Any, last_group: Any, groups: Any, scratch: Any) -> None:
        """Computes a gate of some groups of samples, panel by panel."""
        weights, weights_row, biases = (p.w_c, p.w_c_row, p.b_c) if gate == 2 else (p.w_ru, p.w_ru_row, p.b_ru)
        sums, several = scratch + row_size, last_group - first_group > 1
        for column in range(0, p.units, panel_columns):
            columns, at = min(panel_columns, p.units - column), (gate % 2 * p.units + column) * element
            matrix, matrix_row = panel_of(p, weights + at, weights_row, biases + at, columns, several, scratch)
            for group in range(first_group, last_group):
                row, end = p.batch * group // groups, p.batch * (group + 1) // groups
                factors = p.joined + row * p.joined_row
                multiply(end - row, matrix, matrix_row, p.inputs + p.units, factors, p.joined_row, scratch, 0, sums)
                finish_sums(p, gate, row, end, column, columns, sums)

    @jit
    def run(p: StepParameters, tile: Any, scratch: Any) -> Any:
        joined_h, groups = p.joined + p.inputs * FLOAT_BYTES, (p.batch + most - 1) // most
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
            multiply_gate(p, gate, first_group, last_group, groups, scratch)
        return scratch

    return share_tiles(StepParameters, run, own_scratch)


def _panel_kernel(width: int, stored: Storage, isa: Isa) -> Any:
    """Prepares a panel of weights: panel_of(p, weights, weights_row, bias, columns, several, scratch)."""
    copy_panel, row_size, most = panel_copy(width, stored, isa), width * simd_of(isa).size, isa.columns(width)

    @jit
    def panel_of(p: StepParameters, weights: Any, weights_row: Any, bias: Any, columns: Any, several: Any, scratch: Any) -> Any:
        """Writes a panel's biases to the scratch; returns the address of the panel's weights and the distance of their rows.

        They are copied if several groups of samples read them, if they are not float32, and if columns are missing.
        """
        copy_panel(bias, 0, 1, columns, scratch)
        if stored == "float32" and not several and columns == width * isa.lanes:
            return weights, weights_row
        panel = scratch + (1 + most) * row_size
        copy_panel(weights, weights_row, p.inputs + p.units, columns, panel)
        return panel, row_size

    return panel_of


def _reset_kernel(stored: Storage, isa: Isa) -> Any:
    """Multiplies a sample's state by r: reset(p, row, target)."""
    simd, load_store, put = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa).store
    load, scaled, read, element, lanes = simd.load, simd.multiply, load_store.load, load_store.size, isa.lanes

    @jit
    def reset(p: StepParameters, row: Any, target: Any) -> None:
        source, gates = p.h_prev + row * p.h_prev_row, p.gates + row * p.gates_row
        for unit in range(0, p.units, lanes):
            value = scaled(read(source + unit * element, p.units - unit), load(gates + unit * FLOAT_BYTES))
            put(target + unit * FLOAT_BYTES, value, p.units - unit)

    return reset


def _sums_kernel(width: int, stored: Storage, isa: Isa) -> Any:
    """Writes the results of a panel's sums of some samples: finish_sums(p, gate, row, end, column, columns, sums)."""
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    load, store, all_of, lanes, row_size = simd.load, simd.store, simd.all_of, isa.lanes, width * simd.size
    multiply_add, subtract, scaled = simd.multiply_add, simd.subtract, simd.multiply
    read, write, element = load_store.load, load_store.store, load_store.size
    sigmoid, tanh = activation("sigmoid", 0, isa), activation("tanh", 0, isa)

    @jit
    def save(p: StepParameters, gate: Any, sample: Any, unit: Any, total: Any, left: Any) -> None:
        """Writes r or u of some units."""
        value = sigmoid(p, total)
        store(p.gates + sample * p.gates_row + gate * (p.gates_row // 2) + unit * FLOAT_BYTES, value)
        output, output_row = (p.u, p.u_row) if gate == 1 else (p.r, p.r_row)
        if output != 0:
            write(output + sample * output_row + unit * element, value, left)

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

    @jit
    def finish_sums(p: StepParameters, gate: Any, row: Any, end: Any, column: Any, columns: Any, sums: Any) -> None:
        for sample in range(row, end):
            of_sample = sums + (sample - row) * row_size
            for entry in range(0, columns, lanes):
                total, left = load(of_sample + entry * FLOAT_BYTES), columns - entry
                if gate == 2:
                    finish(p, sample, column + entry, total, left)
                else:
                    save(p, gate, sample, column + entry, total, left)

    return finish_sums


_MOST_IN_PLACE = 4
"""Samples for which weights are not copied: for more of them they are read from the first-level cache."""


def build_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of the gradient, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    begin, block_of, lanes = _begin_kernel(stored, isa), _block_kernel(stored, isa), isa.lanes

    @jit
    def run(p: StepGradientParameters, tile: Any, scratch: Any) -> Any:
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
        return scratch

    return share_tiles(StepGradientParameters, run, own_scratch)


def _begin_kernel(stored: Storage, isa: Isa) -> Any:
    """Computes a sample's d_c_bar and d_u_bar: begin(p, row)."""
    simd, load_store, put = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa).store
    store, all_of, add, subtract, multiply = simd.store, simd.all_of, simd.add, simd.subtract, simd.multiply
    read, write, element, lanes, one = load_store.load, load_store.store, load_store.size, isa.lanes, np.float32(1.0)

    @jit
    def begin(p: StepGradientParameters, row: Any) -> None:
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

    return begin


def _block_kernel(stored: Storage, isa: Isa) -> Any:
    """The products of some rows of weights with some samples' gradients, and the results that follow from them.

    It is block_of(p, gates, of_state, entry, left, first, last, scratch).
    """
    simd, load_store, (pass_on, finish) = simd_of(isa), load_store_of(stored, isa), _gradient_results(stored, isa)
    load, store, add, read, element, lanes = simd.load, simd.store, simd.add, load_store.load, load_store.size, isa.lanes
    products, block_row = row_products(isa), BLOCK_TERMS * FLOAT_BYTES

    @jit
    def copy(source: Any, source_row: Any, rows: Any, terms: Any, target: Any) -> None:
        """Copies a block of weights to floats, with zeros up to a whole vector."""
        for row in range(rows):
            for term in range(0, terms, lanes):
                store(target + row * block_row + term * FLOAT_BYTES, read(source + row * source_row + term * element, terms - term))

    @jit
    def block_of(p: StepGradientParameters, gates: Any, of_state: Any, entry: Any, left: Any, first: Any, last: Any, scratch: Any) -> None:
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

    return block_of


def _gradient_results(stored: Storage, isa: Isa) -> tuple[Any, Any]:
    """The results that follow from a product with w_c and with w_ru: pass_on and finish, (p, row, of_state, entry, left, total) both."""
    simd, load_store, put = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa).store
    load, store, all_of, lanes, one = simd.load, simd.store, simd.all_of, isa.lanes, np.float32(1.0)
    add, subtract, multiply, multiply_add = simd.add, simd.subtract, simd.multiply, simd.multiply_add
    read, write, element = load_store.load, load_store.store, load_store.size

    @jit
    def place_of(p: StepGradientParameters, row: Any, of_state: Any, entry: Any) -> Any:
        """The address of some entries of d_x2 or d_h_prevr."""
        of_state_at = (p.inputs + lanes - 1) // lanes * lanes
        return p.from_candidate + row * p.from_candidate_row + (entry + of_state * of_state_at) * FLOAT_BYTES

    @jit
    def pass_on(p: StepGradientParameters, row: Any, of_state: Any, entry: Any, left: Any, total: Any) -> None:
        """Saves some entries of d_x2, or of d_h_prevr, from which d_r_bar follows."""
        store(place_of(p, row, of_state, entry), total)
        if of_state != 0:
            r, h_prev = read(p.r + row * p.r_row + entry * element, left), read(p.h_prev + row * p.h_prev_row + entry * element, left)
            d_r_bar = multiply(multiply(multiply(total, h_prev), r), subtract(all_of(one), r))
            put(p.gates_bar + row * p.gates_bar_row + entry * FLOAT_BYTES, d_r_bar, left)
            if p.d_r_bar_u_bar != 0:
                write(p.d_r_bar_u_bar + row * p.d_r_bar_u_bar_row + entry * element, d_r_bar, left)

    @jit
    def finish(p: StepGradientParameters, row: Any, of_state: Any, entry: Any, left: Any, total: Any) -> None:
        """Writes some entries of d_x or d_h_prev."""
        of_candidate, place = load(place_of(p, row, of_state, entry)), entry * element
        if of_state == 0:
            write(p.d_x + row * p.d_x_row + place, add(total, of_candidate), left)
        else:
            passed = multiply(read(p.d_h + row * p.d_h_row + place, left), read(p.u + row * p.u_row + place, left))
            passed = multiply_add(of_candidate, read(p.r + row * p.r_row + place, left), passed)
            write(p.d_h_prev + row * p.d_h_prev_row + place, add(total, passed), left)

    return pass_on, finish
