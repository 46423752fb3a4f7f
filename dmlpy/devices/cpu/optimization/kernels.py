"""The compiled step of Adam on contiguous tensors: the operations of its definition in their order, a vector at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.optimization.plan import AdamParameters
from dmlpy.devices.cpu.simd import float_at, simd_of
from dmlpy.devices.cpu.simd_math import SimdMath
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody


def _functions(isa: Isa) -> tuple[Any, Any]:
    """The intrinsics of a moment, `mean(moment, decay, value, rest)`, and of new parameters, `moved(parameters, first, second, ...)`."""
    simd = simd_of(isa)

    @intrinsic
    def mean(moment: Any, decay: Any, value: Any, rest: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            moment, decay, value, rest = arguments
            return builder.fadd(builder.fmul(decay, moment), builder.fmul(rest, value))

        return simd.kind(*[simd.kind] * 4), generate

    @intrinsic
    def moved(parameters: Any, first: Any, second: Any, rate: Any, epsilon: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            parameters, first, second, rate, epsilon = arguments
            divisor = builder.fadd(SimdMath(builder, simd).square_root(second), epsilon)
            return builder.fsub(parameters, builder.fdiv(builder.fmul(rate, first), divisor))

        return simd.kind(*[simd.kind] * 5), generate

    return mean, moved


def build_adam(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a step, to be compiled.

    Args:
        stored: the type of tensors in memory.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, write, size, all_of, multiply = load_store.load, load_store.store, load_store.size, simd.all_of, simd.multiply
    mean, moved = _functions(isa)

    @jit
    def update(p: AdamParameters, begin: Any, end: Any, state: Any) -> None:
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        x, m, v, g, y, first, second = p.x, p.first, p.second, p.gradient, p.y, p.new_first, p.new_second
        decay, rest, square_decay, square_rest = all_of(p.beta1), all_of(p.rest1), all_of(p.beta2), all_of(p.rest2)
        rate, epsilon = all_of(float_at(p.rate)), all_of(p.epsilon)
        for at in range(begin, end, lanes):
            place, left = at * size, end - at
            gradient = read(g + place, left)
            new_first = mean(read(m + place, left), decay, gradient, rest)
            new_second = mean(read(v + place, left), square_decay, multiply(gradient, gradient), square_rest)
            value = moved(read(x + place, left), new_first, new_second, rate, epsilon)
            write(y + place, value, left)
            write(first + place, new_first, left)
            write(second + place, new_second, left)

    return share_units(AdamParameters, update)
