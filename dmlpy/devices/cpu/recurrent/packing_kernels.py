"""Kernels that arrange operands: they pack matrices in blocks of units, find the steps that each sample takes, and clear the other rows.

Those of rows run between two launches, when caches are cold: a dozen equivalent NumPy calls take a tenth of a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import load_store_of, transposed_tile
from dmlpy.devices.cpu.recurrent.parameters import BLANK, REPEATS, PackedMatrixParameters, PackingParameters
from dmlpy.devices.cpu.simd import integer_at, set_integer, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa


def build_packing(isa: Isa) -> Callable[..., int]:
    """The packing of some matrices, a part of a launch of one stage, to be compiled. Two threads with the same tile write the same values.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, transpose, lanes = simd_of(isa), transposed_tile(isa), isa.lanes
    load, load_some, store, size = simd.load, simd.load_some, simd.store, simd.size
    parameters_at, matrix_at, matrix_size = (
        struct_view(PackingParameters),
        struct_view(PackedMatrixParameters),
        PackedMatrixParameters.dtype.itemsize,
    )

    def pack(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p, stage = parameters_at(parameters), stage + 1
        tile = acquire(p, sync, thread, threads, stage, p.tiles, NOTHING)
        while tile >= 0:
            matrix, block = matrix_at(p.matrices + tile // p.blocks * matrix_size), tile % p.blocks
            width = matrix.vectors * lanes
            units, target = min(width, matrix.units - block * width), matrix.target + block * matrix.target_block
            if units > 0 and matrix.transposed != 0:
                source = matrix.source + block * lanes * matrix.source_row
                for term in range(0, matrix.terms, lanes):
                    count = min(lanes, matrix.terms - term)
                    for gate in range(matrix.gates):
                        at = source + gate * matrix.source_gate + term * FLOAT_BYTES
                        to = target + (term * matrix.gates + gate) * size
                        transpose(at, matrix.source_row, units, count, to, matrix.gates * size)
            elif units > 0:  # it may have fewer blocks than another matrix
                source = matrix.source + block * width * FLOAT_BYTES
                for _ in range(matrix.terms):
                    for first in range(0, width, lanes):
                        at, left = source + first * FLOAT_BYTES, units - first
                        store(target, load(at) if left >= lanes else load_some(at, left))
                        target += size
                    source += matrix.source_row
            if commit(sync, threads, stage, tile):
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, p.tiles, tile)
        return stage

    return pack


_BYTES = 8
"""Bytes of an integer."""


@jit
def _takes(taken: Any, lengths: Any, batch: Any, time: Any, sample: Any) -> Any:
    """Whether a sample takes a step: 0 or 1."""
    if lengths != 0 and time >= integer_at(lengths + _BYTES * sample):
        return 0
    return integer_at(taken + _BYTES * (time * batch + sample)) if taken != 0 else 1


@jit
def _sort(steps: Any, batch: Any, counts: Any, places: Any, order: Any) -> None:
    """Sorts the samples by descending count, 0 to `steps`; the sort is stable."""
    for count in range(steps + 1):
        set_integer(places + _BYTES * count, 0)
    for sample in range(batch):
        place = places + _BYTES * integer_at(counts + _BYTES * sample)
        set_integer(place, integer_at(place) + 1)
    before = 0
    for count in range(steps, -1, -1):
        place = places + _BYTES * count
        first, before = before, before + integer_at(place)
        set_integer(place, first)
    for sample in range(batch):
        place = places + _BYTES * integer_at(counts + _BYTES * sample)
        set_integer(order + _BYTES * integer_at(place), sample)
        set_integer(place, integer_at(place) + 1)


@jit
def _write_skips(steps: Any, batch: Any, backward: Any, taken: Any, lengths: Any) -> None:
    """Replaces the mask's entry of each step by 0, REPEATS or BLANK."""
    for sample in range(batch):
        begun = False
        for step in range(steps):
            time = steps - 1 - step if backward != 0 else step
            ended = lengths != 0 and time >= integer_at(lengths + _BYTES * sample)
            takes = _takes(taken, lengths, batch, time, sample) != 0
            begun = begun or takes
            skip = 0 if takes else REPEATS if begun and not ended else BLANK
            set_integer(taken + _BYTES * (time * batch + sample), skip)


def build_rows() -> Callable[..., None]:
    """Finds the rows of all steps, to be compiled.

    It is find(steps, batch, backward, lengths, taken, counts, order, bases, rows), addresses of int64 but for the first three: `lengths`
    [B], 0 where all are T; `taken` [T, B], whether the mask lets a sample take a step, 0 without a mask: there the skips are written;
    `counts` is room for [B]. The others are `packing.ActiveRows`'s.
    """

    def find(steps: Any, batch: Any, backward: Any, lengths: Any, taken: Any, counts: Any, order: Any, bases: Any, rows: Any) -> None:
        for sample in range(batch):
            count = 0
            for time in range(steps):
                count += _takes(taken, lengths, batch, time, sample)
            set_integer(counts + _BYTES * sample, count)
        _sort(steps, batch, counts, bases, order)
        total = 0
        for time in range(steps):
            set_integer(bases + _BYTES * time, total)
            active = 0
            for row in range(batch):
                sample = integer_at(order + _BYTES * row)
                set_integer(rows + _BYTES * (total + row), time * batch + sample)
                if _takes(taken, lengths, batch, time, sample) != 0:
                    active = row + 1
            total += active
        set_integer(bases + _BYTES * steps, total)
        if taken != 0:
            _write_skips(steps, batch, backward, taken, lengths)

    return find


def build_addresses() -> Callable[..., None]:
    """Finds the addresses of rows, to be compiled.

    It is find(rows, count, batch, start, step, sample, addresses): `rows` is the address of the rows' numbers t * batch + b, or 0 for all
    in order, `start` that of the tensor, in which steps are `step` bytes apart and samples `sample`.
    """

    def find(rows: Any, count: Any, batch: Any, start: Any, step: Any, sample: Any, addresses: Any) -> None:
        for row in range(count):
            number = integer_at(rows + _BYTES * row) if rows != 0 else row
            set_integer(addresses + _BYTES * row, start + number // batch * step + number % batch * sample)

    return find


def build_clearing(isa: Isa) -> Callable[..., None]:
    """Writes zeros to the rows of samples that do not take a step, to be compiled.

    It is clear(batch, order, bases, skips, time, steps, start, step, sample, columns): `order`, `bases` and `skips`, or 0, are the
    addresses of `packing.ActiveRows`'s, `time` is the first of the steps, and `start` the address of its rows of floats.

    Args:
        isa: the instruction set that it is compiled for.
    """
    all_of, write, lanes = simd_of(isa).all_of, load_store_of("float32", isa).store, isa.lanes

    def clear(
        batch: Any, order: Any, bases: Any, skips: Any, time: Any, steps: Any, start: Any, step: Any, sample: Any, columns: Any
    ) -> None:
        zeros = all_of(np.float32(0.0))
        for at in range(time, time + steps):
            active = integer_at(bases + _BYTES * (at + 1)) - integer_at(bases + _BYTES * at)
            for row in range(batch):
                number = integer_at(order + _BYTES * row)
                if row < active and (skips == 0 or integer_at(skips + _BYTES * (at * batch + number)) == 0):
                    continue
                target = start + (at - time) * step + number * sample
                for column in range(0, columns, lanes):
                    write(target + column * FLOAT_BYTES, zeros, columns - column)

    return clear
