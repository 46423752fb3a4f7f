"""The compiled products of floats, in double precision: parts of a product may leave the range of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.lane_kernels import combined_lanes
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of
from dmlpy.devices.cpu.reduction.kernels import for_each_unit_in_place
from dmlpy.devices.cpu.reduction.plan import REDUCED_VECTORS
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, Loop

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.reduction.plan import GroupParameters, Layout
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_product(layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of products, to be compiled.

    Args:
        layout: the layout of the entries.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    size = load_store_of(stored, isa).size
    if layout == "rows":
        return for_each_unit_in_place(_product_of_row(stored, isa), size, isa)
    return for_each_unit_in_place(_products_of_columns(stored, isa), size, isa, REDUCED_VECTORS)


def _product_of_row(stored: Storage, isa: Isa) -> Any:
    load_store, lanes, of_vectors = load_store_of(stored, isa), isa.lanes, _of_vectors(stored, isa)
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        whole, total = p.entry_size // lanes * lanes, 1.0
        for outer in range(p.outer_size):
            row = x + outer * p.x_outer
            if whole > 0:
                total *= of_vectors(row, whole // lanes)
            for at in range(whole, p.entry_size):
                total *= np.float64(one(row + at * size))
        set_one(y, np.float32(total))

    return unit


def _products_of_columns(stored: Storage, isa: Isa) -> Any:
    lanes, size, of_some, of_vectors = isa.lanes, load_store_of(stored, isa).size, _of_columns(stored, isa, 1), _of_columns(stored, isa)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        outer, outer_step, entries, step = p.outer_size, p.x_outer, p.entry_size, p.x_entry
        if left >= REDUCED_VECTORS * lanes:
            of_vectors(x, outer_step, outer, step, entries, y, lanes)
        else:
            for at in range(0, left, lanes):
                of_some(x + at * size, outer_step, outer, step, entries, y + at * size, min(left - at, lanes))

    return unit


def _of_columns(stored: Storage, isa: Isa, vectors: int = REDUCED_VECTORS) -> Any:
    """The intrinsic `of_columns(x, outer_step, outer, step, entries, y, count)` of neighbouring columns, whose entries have two axes.

    `count` is the number of columns where they are those of one vector.
    """
    load_store, lanes = ir_load_store_of(stored, isa), isa.lanes
    wide, narrow = (ir.VectorType(kind, lanes) for kind in (ir.DoubleType(), FLOAT))

    @intrinsic
    def of_columns(x: Any, outer_step: Any, outer: Any, step: Any, entries: Any, y: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            x, outer_step, outer, step, entries, y, count = arguments

            def places(of: Any) -> list[Any]:
                return [builder.add(of, ADDRESS(vector * lanes * load_store.size)) for vector in range(vectors)]

            def load(place: Any) -> Any:
                return load_store.load(builder, place) if vectors > 1 else load_store.load_first(builder, place, count)

            outside = Loop(builder, [x, outer, *[ir.Constant(wide, [1.0] * lanes)] * vectors])
            begin, rows, *products = outside.values
            loop = Loop(builder, [begin, entries, *products])
            place, left, *products = loop.values
            factors = [builder.fpext(load(at), wide) for at in places(place)]
            products = [builder.fmul(*pair) for pair in zip(products, factors, strict=True)]
            left = builder.sub(left, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(place, step), left, *products])
            rows = builder.sub(rows, ADDRESS(1))
            outside.repeat_while(builder.icmp_signed(">", rows, ADDRESS(0)), [builder.add(begin, outer_step), rows, *products])
            for product, at in zip(products, places(y), strict=True):
                result = builder.fptrunc(product, narrow)
                if vectors > 1:
                    load_store.store(builder, result, at)
                else:
                    load_store.store_first(builder, result, at, count)

        return types.void(*[types.int64] * 7), generate

    return of_columns


def _of_vectors(stored: Storage, isa: Isa) -> Any:
    """The intrinsic `of_vectors(address, count)`: the product of all lanes of so many vectors, at least one."""
    load_store, lanes, double = ir_load_store_of(stored, isa), isa.lanes, ir.DoubleType()
    wide = ir.VectorType(double, lanes)

    @intrinsic
    def of_vectors(address: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            loop = Loop(builder, [*arguments, ir.Constant(wide, [1.0] * lanes)])
            place, left, product = loop.values
            product = builder.fmul(product, builder.fpext(load_store.load(builder, place), wide))
            left = builder.sub(left, ADDRESS(1))
            loop.repeat_while(
                builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(place, ADDRESS(lanes * load_store.size)), left, product]
            )
            return combined_lanes(builder, product, lambda builder, x, y: builder.fmul(x, y))

        return types.float64(*[types.int64] * 2), generate

    return of_vectors
