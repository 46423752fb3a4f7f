"""The compiled running sums and products along rows and of neighbouring columns at once. Those of integers wrap around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import loaded_floats, store_floats
from dmlpy.devices.cpu.reduction.kernels import following, place_of
from dmlpy.devices.cpu.reduction.plan import COLUMN_VECTORS, GroupParameters, Layout, running_vectors
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, Loop
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_running(multiplies: bool, layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums, or products in double precision, of floats, to be compiled.

    Args:
        multiplies: whether they are products.
        layout: the layout of the entries, which have one axis.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    return _in_place(layout, _Floats(stored, multiplies), isa, running_vectors(multiplies=multiplies))


def build_running_integers(multiplies: bool, layout: Layout, width: int, isa: Isa) -> TaskBody:
    """Builds a thread's part of running sums or products of integers, to be compiled.

    Args:
        multiplies: whether they are products.
        layout: the layout of the entries, which have one axis.
        width: bytes of an element.
        isa: the instruction set that it is compiled for.
    """
    return _in_place(layout, _Integers(width, multiplies), isa, COLUMN_VECTORS)


class _Integers:
    """Integers that are added or multiplied.

    Attributes:
        width: the bytes of an element.
        first: the results before the first element, and what is joined with it.
    """

    def __init__(self, width: int, multiplies: bool) -> None:
        self.width, self._multiplies = width, multiplies
        self.first: tuple[float, float] = (int(multiplies),) * 2

    def kind(self, lanes: int) -> Any:
        """LLVM's type of a vector of results."""
        return ir.VectorType(ir.IntType(8 * self.width), lanes)

    def load(self, builder: Any, address: Any, lanes: int) -> Any:
        """The elements at an address as such a vector."""
        return builder.load(builder.inttoptr(address, self.kind(lanes).as_pointer()), align=self.width)

    def store(self, builder: Any, value: Any, address: Any) -> None:
        """Stores results."""
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=self.width)

    def join(self, builder: Any, total: Any, value: Any) -> Any:
        """The following results."""
        return (builder.mul if self._multiplies else builder.add)(total, value)


class _Floats(_Integers):
    """Floats of a type that are added in float32, or multiplied in float64."""

    def __init__(self, stored: Storage, multiplies: bool) -> None:
        super().__init__(FLOAT_BYTES if stored == "float32" else FLOAT_BYTES // 2, multiplies)
        self._stored = stored
        self.first = (1.0, 1.0) if multiplies else (0.0, -0.0)  # the first float stays as it is, -0 too

    def kind(self, lanes: int) -> Any:
        return ir.VectorType(ir.DoubleType() if self._multiplies else FLOAT, lanes)

    def load(self, builder: Any, address: Any, lanes: int) -> Any:
        value = loaded_floats(self._stored, builder, address, lanes)
        return builder.fpext(value, self.kind(lanes)) if self._multiplies else value

    def store(self, builder: Any, value: Any, address: Any) -> None:
        floats = builder.fptrunc(value, ir.VectorType(FLOAT, value.type.count)) if self._multiplies else value
        store_floats(self._stored, builder, floats, address)

    def join(self, builder: Any, total: Any, value: Any) -> Any:
        return (builder.fmul if self._multiplies else builder.fadd)(total, value)


def _in_place(layout: Layout, elements: _Integers, isa: Isa, vectors: int) -> TaskBody:
    """A thread's part of running sums or products on the tensors as they are, of some vectors of columns at once."""
    lanes, wide, is_row, width = isa.lanes, vectors * isa.lanes, layout == "rows", elements.width
    of_one, of_vector, of_vectors = (_running(elements, count) for count in (1, lanes, wide))

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


def _running(elements: _Integers, lanes: int) -> Any:
    """The intrinsic `running(x, x_step, y, y_step, count, exclusive)` of vectors of elements, at least one, some bytes apart."""
    before, nothing = (ir.Constant(elements.kind(lanes), [value] * lanes) for value in elements.first)

    @intrinsic
    def running(x: Any, x_step: Any, y: Any, y_step: Any, count: Any, exclusive: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            x, x_step, y, y_step, count, exclusive = arguments
            excludes = builder.icmp_signed("!=", exclusive, ADDRESS(0))
            loop = Loop(builder, [x, y, count, builder.select(excludes, before, nothing)])
            source, target, left, total = loop.values
            following = elements.join(builder, total, elements.load(builder, source, lanes))
            elements.store(builder, builder.select(excludes, total, following), target)
            left = builder.sub(left, ADDRESS(1))
            another = [builder.add(source, x_step), builder.add(target, y_step), left, following]
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), another)

        return types.void(*[types.int64] * 6), generate

    return running
