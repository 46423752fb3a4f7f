"""The compiled normalization of rows by their norms, which are summed in double precision: no power of a float leaves its range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of
from dmlpy.devices.cpu.reduction.sum_kernels import for_each_unit_in_place
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, simd_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.reduction.plan import GroupParameters
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_lp_normalization(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a normalization, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, write, one, size = load_store.load, load_store.store, load_store.load_one, load_store.size
    divide, all_of = simd.divide, simd.all_of
    sum_of_squares, sum_of_magnitudes = (_sum(magnitudes, stored, isa) for magnitudes in (False, True))

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        count, magnitudes = p.entry_size, p.magnitudes
        whole, total = count // lanes * lanes, 0.0
        if whole > 0:
            total = sum_of_magnitudes(x, whole) if magnitudes != 0 else sum_of_squares(x, whole)
        for at in range(whole, count):
            value = abs(np.float64(one(x + at * size)))
            total += value if magnitudes != 0 else value * value
        norm = np.float32(total if magnitudes != 0 else math.sqrt(total))
        least = np.float32(p.epsilon)
        divisor = all_of(least if norm < least else norm)  # NaN stays NaN
        for at in range(0, count, lanes):
            write(y + at * size, divide(read(x + at * size, count - at), divisor), count - at)

    return for_each_unit_in_place(unit, stored, isa)


def _sum(magnitudes: bool, stored: Storage, isa: Isa) -> Any:
    """The intrinsic `add_up(address, count)`: the sum of magnitudes or squares of whole vectors, at least one, in double precision."""
    access, lanes = ir_load_store_of(stored, isa), isa.lanes
    double = ir.DoubleType()
    doubles = ir.VectorType(double, lanes)

    @intrinsic
    def add_up(address: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            address, count = arguments
            zeros = ir.Constant(doubles, [0.0] * lanes)
            loop = Loop(builder, [ADDRESS(0), zeros])
            at, total = loop.values
            value = builder.fpext(access.load(builder, builder.add(address, builder.mul(at, ADDRESS(access.size)))), doubles)
            if magnitudes:
                negative = builder.fcmp_ordered("<", value, zeros)
                value = builder.select(negative, builder.fneg(value), value)
            else:
                value = builder.fmul(value, value)
            total, following = builder.fadd(total, value), builder.add(at, ADDRESS(lanes))
            loop.repeat_while(builder.icmp_signed("<", following, count), [following, total])
            found = builder.extract_element(total, INDEX(0))
            for lane in range(1, lanes):
                found = builder.fadd(found, builder.extract_element(total, INDEX(lane)))
            return found

        return types.float64(types.int64, types.int64), generate

    return add_up
