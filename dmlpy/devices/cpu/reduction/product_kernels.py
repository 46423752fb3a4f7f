"""The compiled products of rows of floats, in double precision: parts of a product may leave the range of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of
from dmlpy.devices.cpu.reduction.kernels import for_each_unit_in_place
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.reduction.plan import GroupParameters
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_product(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of products of rows, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
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

    return for_each_unit_in_place(unit, size, isa)


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
            half = lanes // 2
            while half:
                order = ir.Constant(ir.VectorType(INDEX, lanes), [(lane + half) % lanes for lane in range(lanes)])
                product = builder.fmul(product, builder.shuffle_vector(product, product, order))
                half //= 2
            return builder.extract_element(product, INDEX(0))

        return types.float64(*[types.int64] * 2), generate

    return of_vectors
