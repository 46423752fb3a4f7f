"""The compiled running sums, and products of integers, along rows and of neighbouring columns at once. Those of integers wrap around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.reduction.kernels import following, for_each_unit, place_of
from dmlpy.devices.cpu.reduction.plan import COLUMN_VECTORS, GroupParameters, Layout
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, Loop
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_running_sum(layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums, to be compiled.

    Args:
        layout: the layout of the entries, which have one axis.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    if stored == "float32":
        return _in_place(layout, FLOAT, isa)
    sum_entries = _running(FLOAT, False, 1 if layout == "rows" else isa.lanes)

    @jit
    def unit(
        p: GroupParameters, x: Any, x_outer: Any, x_entry: Any, y: Any, y_outer: Any, y_entry: Any, group: Any, group1: Any, left: Any
    ) -> None:
        if p.backward != 0:
            last = p.entry_size - 1
            sum_entries(x + last * x_entry, -x_entry, y + last * y_entry, -y_entry, p.entry_size, p.exclusive)
        else:
            sum_entries(x, x_entry, y, y_entry, p.entry_size, p.exclusive)

    return for_each_unit(unit, layout, stored, isa)


def build_running_integers(multiplies: bool, layout: Layout, width: int, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums or products of integers, to be compiled.

    Args:
        multiplies: whether they are products.
        layout: the layout of the entries, which have one axis.
        width: bytes of an element.
        isa: the instruction set that it is compiled for.
    """
    return _in_place(layout, ir.IntType(8 * width), isa, multiplies=multiplies)


def _in_place(layout: Layout, kind: Any, isa: Isa, *, multiplies: bool = False) -> TaskBody:
    """A thread's part of running sums or products on the tensors as they are, whose elements have LLVM's type `kind`."""
    lanes, wide, is_row = isa.lanes, COLUMN_VECTORS * isa.lanes, layout == "rows"
    width, (of_one, of_vector, of_vectors) = _width_of(kind), (_running(kind, multiplies, count) for count in (1, lanes, wide))

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, scratch: Any) -> None:
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        count, exclusive, x_step, y_step = p.entry_size, p.exclusive, width if is_row else p.x_entry, width if is_row else p.y_entry
        x_first, y_first = 0, 0
        if p.backward != 0:
            x_first, y_first = (count - 1) * x_step, (count - 1) * y_step
            x_step, y_step = -x_step, -y_step
        group, group1, column = place_of(p, first)
        for _ in range(first, last):
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * wide * width + x_first
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * wide * width + y_first
            left = p.inner - column * wide
            if is_row:
                of_one(x, x_step, y, y_step, count, exclusive)
            elif left >= wide:
                of_vectors(x, x_step, y, y_step, count, exclusive)
            else:
                while left >= lanes:
                    of_vector(x, x_step, y, y_step, count, exclusive)
                    x, y, left = x + lanes * width, y + lanes * width, left - lanes
                for lane in range(left):
                    of_one(x + lane * width, x_step, y + lane * width, y_step, count, exclusive)
            group, group1, column = following(p, group, group1, column)

    return share_units(GroupParameters, run_units)


def _width_of(kind: Any) -> int:
    """The bytes of an element of a type of LLVM."""
    return FLOAT_BYTES if kind == FLOAT else int(kind.width) // 8


def _running(kind: Any, multiplies: bool, lanes: int) -> Any:
    """The intrinsic `running(x, x_step, y, y_step, count, exclusive)` of vectors of elements, at least one, some bytes apart."""
    vector, width = ir.VectorType(kind, lanes), _width_of(kind)
    # The first float stays as it is, -0 too.
    starts = (0.0, -0.0) if kind == FLOAT else (int(multiplies),) * 2
    before, nothing = (ir.Constant(vector, [value] * lanes) for value in starts)

    @intrinsic
    def running(x: Any, x_step: Any, y: Any, y_step: Any, count: Any, exclusive: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            x, x_step, y, y_step, count, exclusive = arguments
            excludes = builder.icmp_signed("!=", exclusive, ADDRESS(0))
            loop = Loop(builder, [x, y, count, builder.select(excludes, before, nothing)])
            source, target, left, total = loop.values
            value = builder.load(builder.inttoptr(source, vector.as_pointer()), align=width)
            join = builder.fadd if kind == FLOAT else builder.mul if multiplies else builder.add
            following = join(total, value)
            result = builder.select(excludes, total, following)
            builder.store(result, builder.inttoptr(target, vector.as_pointer()), align=width)
            left = builder.sub(left, ADDRESS(1))
            another = [builder.add(source, x_step), builder.add(target, y_step), left, following]
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), another)

        return types.void(*[types.int64] * 6), generate

    return running
