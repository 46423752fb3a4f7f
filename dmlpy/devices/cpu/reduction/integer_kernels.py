"""The compiled running sums of integers, which wrap around: along rows, or of a vector of neighbouring columns at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.reduction.plan import GroupParameters, Layout
from dmlpy.devices.cpu.simd import ADDRESS, Loop
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_running_integer_sum(layout: Layout, width: int, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums of integers, to be compiled.

    Args:
        layout: the layout of the entries, which have one axis.
        width: bytes of an element.
        isa: the instruction set that it is compiled for.
    """
    lanes, sum_one, sum_vector = isa.lanes, _running_sum(width, 1), _running_sum(width, isa.lanes)
    is_row = layout == "rows"

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, own: Any) -> None:
        # In variables: what is written might be the parameters, for all that LLVM knows.
        count, exclusive, x_step, y_step = p.entry_size, p.exclusive, width if is_row else p.x_entry, width if is_row else p.y_entry
        x_first, y_first = 0, 0
        if p.backward != 0:
            x_first, y_first = (count - 1) * x_step, (count - 1) * y_step
            x_step, y_step = -x_step, -y_step
        for number in range(first, last):
            group, column = number // p.columns, number % p.columns
            group, group1 = group // p.group_size, group % p.group_size
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * lanes * width + x_first
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * lanes * width + y_first
            left = p.inner - column * lanes
            if is_row:
                sum_one(x, x_step, y, y_step, count, exclusive)
            elif left >= lanes:
                sum_vector(x, x_step, y, y_step, count, exclusive)
            else:
                for lane in range(left):
                    sum_one(x + lane * width, x_step, y + lane * width, y_step, count, exclusive)

    return share_units(GroupParameters, run_units)


def _running_sum(width: int, lanes: int) -> Any:
    """The intrinsic `running_sum(x, x_step, y, y_step, count, exclusive)` of vectors of integers, at least one, some bytes apart."""

    @intrinsic
    def running_sum(x: Any, x_step: Any, y: Any, y_step: Any, count: Any, exclusive: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            x, x_step, y, y_step, count, exclusive = arguments
            kind = ir.VectorType(ir.IntType(8 * width), lanes)
            excludes = builder.icmp_signed("!=", exclusive, ADDRESS(0))
            loop = Loop(builder, [x, y, count, ir.Constant(kind, [0] * lanes)])
            source, target, left, total = loop.values
            following = builder.add(total, builder.load(builder.inttoptr(source, kind.as_pointer()), align=width))
            found = builder.select(excludes, total, following)
            builder.store(found, builder.inttoptr(target, kind.as_pointer()), align=width)
            left = builder.sub(left, ADDRESS(1))
            another = [builder.add(source, x_step), builder.add(target, y_step), left, following]
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), another)

        return types.void(*[types.int64] * 6), generate

    return running_sum
