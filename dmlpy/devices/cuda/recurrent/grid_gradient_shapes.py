"""The shapes of the gradients of the strategy `persistent_grid` that fit a device: see `grid_shapes`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT
from dmlpy.devices.cuda.kernels import ALIGNMENT
from dmlpy.devices.cuda.recurrent.gradient_tables import HALF
from dmlpy.devices.cuda.recurrent.grid_shapes import GIVEN_UP_BYTES, ROW_WARPS, Facts, GridShape, in_protocol, in_protocols, stays_in_l2
from dmlpy.devices.cuda.recurrent.products import (
    PRODUCT_THREADS,
    PRODUCT_WARPS,
    Fma,
    Product,
    TensorCores,
    divide_up,
    loaded_samples,
    loads_of,
    whole_pieces,
)
from dmlpy.devices.plan import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.devices.cuda.recurrent.model import Protocol
    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

FMA_UNITS = (8, 16, 32, 64, 96, 128)
"""Hidden units that a block may own if its products use multiply-add."""
TENSOR_CORE_UNITS = (16, 32, 48, 64, 96, 128)
"""The same on tensor cores, whose tiles have 16 rows."""

MOST_PAIRS = 4
"""Pairs of unit and sample that a thread has in a pass, at most: the values that the step saved for each are in registers."""

EXCHANGED = ("sums", "reset")
"""The values that blocks exchange for the products of a step, as the kernel's parameters name them."""


def grid_gradient_shapes(desc: RecurrentGradDesc, limits: Limits, *, tf32: bool) -> list[GridShape]:
    """The shapes of a checked desc that fit the device and are worth estimating; arguments as of `grid_shapes`."""
    facts = Facts.of(desc)
    return [] if facts.refusal else list(dict.fromkeys(_all_shapes(facts, limits, tf32)))


def _all_shapes(facts: Facts, limits: Limits, tf32: bool) -> Iterator[GridShape]:
    on_tensor_cores = facts.on_tensor_cores(tf32)
    for units in TENSOR_CORE_UNITS if on_tensor_cores else FMA_UNITS:
        unit_groups = divide_up(facts.hidden_size, units)
        most_batch_groups = limits.multiprocessors // (unit_groups * facts.directions)
        # Blocks that run alone wait for no other, so there may be more of them than can be resident.
        if unit_groups == 1 or most_batch_groups:
            fewest = divide_up(facts.batch_size, max(1, most_batch_groups))
            for pass_samples in (8, 16, 32) if on_tensor_cores else (1, 2, 4, 8):
                # The fewest samples that the number of blocks allows, or those rounded up to whole passes, with fewer blocks.
                for samples in (fewest, divide_up(fewest, pass_samples) * pass_samples):
                    if pass_samples < 2 * samples or (on_tensor_cores and pass_samples == 8):
                        for row_warps in ROW_WARPS if on_tensor_cores else (1,):
                            shape = _shape(facts, limits, units, min(samples, facts.batch_size), pass_samples, tf32, row_warps)
                            yield from in_protocols(shape, partial(_can_exchange_data, facts, limits))
        if unit_groups == 1:
            break


def grid_gradient_shape(
    desc: RecurrentGradDesc,
    limits: Limits,
    units: int,
    samples: int,
    pass_samples: int,
    *,
    tf32: bool,
    row_warps: int = 1,
    protocol: Protocol = "flags",
    most_registers: int | None = None,
) -> GridShape | None:
    """The shape whose blocks have this many units and samples, or None if it does not fit; arguments as of `grid_shape`.

    `units` is a multiple of 16 with tensor cores, else of 8; without `most_registers` they follow from the thread's other registers.
    """
    facts = Facts.of(desc)
    shape = _shape(facts, limits, units, samples, pass_samples, tf32, row_warps, most_registers)
    return in_protocol(shape, protocol, partial(_can_exchange_data, facts, limits))


def _shape(
    facts: Facts,
    limits: Limits,
    units: int,
    samples: int,
    pass_samples: int,
    tf32: bool,
    row_warps: int,
    most_registers: int | None = None,
) -> GridShape | None:
    """Divides as `grid_gradient_shape` does; blocks that are not alone use flags."""
    cell, data_type = facts.cell, facts.data_type
    unit_groups, pairs = divide_up(facts.hidden_size, units), divide_up(units * pass_samples, PRODUCT_THREADS)
    if pairs > MOST_PAIRS:
        return None
    loads = loads_of(min(samples, pass_samples) * facts.gates * facts.hidden_size * data_type.itemsize)
    first: Product
    if facts.on_tensor_cores(tf32):
        first = _tensor_cores(data_type, units, samples, pass_samples, row_warps, loads)
    else:
        first = _fma(units, pass_samples, loads)
    alone = unit_groups == 1
    registers = resident_registers(first, pairs, alone=alone, resets_first=cell.resets_first) if most_registers is None else most_registers
    products: list[Product] = []
    for gates in product_gates(facts):
        steps = max(0, min(first.steps(unit_groups * gates * units), registers // (4 * first.tiles)))
        registers -= 4 * first.tiles * steps
        products.append(first.with_registers(steps))
    shape = GridShape.of(facts, units, samples, products)
    shape = replace(shape, shared_bytes=sum(_shared_pieces(facts, shape)))
    together = shape.alone or shape.blocks <= limits.multiprocessors
    own_bytes = GIVEN_UP_BYTES if shape.cooperative else 0
    return shape if together and shape.shared_bytes + own_bytes <= limits.shared_memory_per_block else None


def product_gates(facts: Facts) -> tuple[int, ...]:
    """The number of gates in each product of a step: all in one, or z and r and then h for a GRU that resets first."""
    return (facts.gates - 1, 1) if facts.cell.resets_first else (facts.gates,)


def _fma(units: int, samples: int, loads: int) -> Fma:
    row_lanes = next((lanes for lanes in (8, 16) if units <= 4 * lanes), 32)
    return Fma(tiles=units // row_lanes, register_steps=0, samples=samples, loads=loads, row_lanes=row_lanes)


def _tensor_cores(data_type: np.dtype[Any], units: int, samples: int, pass_samples: int, row_warps: int, loads: int) -> TensorCores:
    """Products on tensor cores with `row_warps` warps on different rows, or the largest smaller number that divides the tiles evenly."""
    tiles = units // 16
    row_warps = next(warps for warps in (8, 4, 2, 1) if warps <= row_warps and tiles % warps == 0)
    return TensorCores(data_type, tiles // row_warps, row_warps, 0, pass_samples, loads, loaded_samples(samples, pass_samples))


def resident_registers(product: Product, pairs: int, *, alone: bool, resets_first: bool) -> int:
    """The registers of a thread available for R, for all products of a step. The figures come from the reports of all compilers.

    Args:
        product: the first of a step.
        pairs: the pairs of unit and sample that a thread has in a pass.
        alone: whether its block runs alone, without exchange.
        resets_first: whether there is a second product.
    """
    if isinstance(product, Fma):
        more_sums = max(0, product.tiles * product.samples - 8)
        most = 132 - more_sums if alone else 108 - more_sums - 32 * resets_first
    else:
        sums = product.tiles * product.samples // 2
        if product.data_type == FLOAT:
            most = (168 if alone else 152) - 2 * max(0, sums - 8) - 16 * resets_first
            if 1 < product.tiles < 6 and not alone:  # a step of R less: blocks that exchange data need its registers
                most -= 4 * product.tiles
        elif alone:
            most = 144 - 4 * (sums - 4) - 24 * resets_first - 8 * max(0, pairs - 2)
        else:  # the scales of halves also need registers
            most = 100 - 11 * (sums - 4) // 2 - 40 * resets_first
            if product.data_type == HALF and sums == 4 and product.row_warps > 1:  # a step of R less, for compute capability 7.5
                most -= 4
    return max(0, most - 24 * max(0, pairs - 2))


def exchanged_operands(facts: Facts, shape: GridShape) -> Iterator[tuple[Product, int, int, int]]:
    """For each product of a step: the product, its depth, the parts of the depth with a scale, and the elements of a pass's operand."""
    for product, gates in zip(shape.products, product_gates(facts), strict=True):
        part = gates * shape.units
        depth = shape.unit_groups * part
        parts = divide_up(product.padded_depth(depth), part) if facts.data_type == HALF else 0
        yield product, depth, parts, shape.pass_samples * product.row(depth, shape.protocol)


def whole_parts(facts: Facts, shape: GridShape) -> bool:
    """Whether no warp's run of a product's depth begins or ends within the part of one block, which has one scale; true without scales."""
    parts = [(product, gates * shape.units) for product, gates in zip(shape.products, product_gates(facts), strict=True)]
    runs = [(product.steps(shape.unit_groups * part) * product.step_depth, part) for product, part in parts]
    return facts.data_type != HALF or all(run % part == 0 for run, part in runs)


def _shared_pieces(facts: Facts, shape: GridShape) -> Iterator[int]:
    """Bytes of each part of shared memory that a block of `persistent_grid` uses."""
    slots = shape.passes * shape.pass_samples * shape.units
    yield (1 + facts.cell.has_memory) * whole_pieces(slots * FLOAT.itemsize)
    yield facts.cell.has_memory * whole_pieces(shape.units * 4 * FLOAT.itemsize)
    operands = list(exchanged_operands(facts, shape))
    if not shape.alone:
        yield max(product.staged_bytes(depth) for product, depth, _, _ in operands)
    for product, depth, parts, operand in operands:
        yield product.shared_bytes(depth)
        if parts and shape.units > 16:
            yield whole_pieces(shape.units * shape.pass_samples // 16 * FLOAT.itemsize)
        if shape.alone:
            yield whole_pieces(shape.passes * operand * facts.data_type.itemsize)
            yield whole_pieces(shape.passes * parts * shape.pass_samples * FLOAT.itemsize)
        elif parts:
            part = depth // shape.unit_groups
            fetched = (product.steps(depth) * product.step_depth - 1) // part + 2
            yield whole_pieces(PRODUCT_WARPS * fetched * shape.pass_samples * FLOAT.itemsize)


# what blocks exchange


def _can_exchange_data(facts: Facts, limits: Limits, shape: GridShape) -> bool:
    """Returns whether the blocks of a shape can exchange data without flags: the L2 cache must hold the exchanged data of all steps."""
    return stays_in_l2(limits, exchange_gradient_layout(facts, replace(shape, protocol="data")).size)


def exchange_gradient_layout(facts: Facts, shape: GridShape) -> Layout:
    """The layout of the data that blocks exchange; empty for a block that is alone."""
    if shape.alone:
        return Layout([], ALIGNMENT)
    groups = shape.directions * shape.batch_groups
    arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [("expired", (1,), np.dtype(np.uint32))]
    if shape.protocol == "flags":
        arrays.append(("flags", (groups, shape.unit_groups), np.dtype(np.uint32)))
        turns = 1 if facts.cell.resets_first else 2
    else:
        turns = facts.seq_length
    for name, (_, _, parts, operand) in zip(EXCHANGED, exchanged_operands(facts, shape), strict=False):
        arrays.append((f"{name} operand", (groups, turns, shape.passes, operand), facts.data_type))
        arrays.append((f"{name} inverse", (groups, turns, shape.passes, parts, shape.pass_samples), FLOAT))
    return Layout(arrays, ALIGNMENT)
