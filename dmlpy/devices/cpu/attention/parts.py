"""The operands of attention as strided tensors [batch, heads, positions, size], and the steps that plans of other operators make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import Code, Program
from dmlpy.devices.cpu.movement.elements import Elements
from dmlpy.devices.cpu.movement.plan import CONVERSIONS, COPIES, Copy, CopyPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.plan import Launch, Plan, Pointers

_LAYERS = {
    "query": (("stacked_query_key_tensor", 0), ("stacked_query_key_value_tensor", 0)),
    "key": (("stacked_query_key_tensor", 1), ("stacked_key_value_tensor", 0), ("stacked_query_key_value_tensor", 1)),
    "value": (("stacked_key_value_tensor", 1), ("stacked_query_key_value_tensor", 2)),
}
"""The stacked tensors that may hold an operand, and its index among what they hold."""


@dataclass(frozen=True)
class Operand:
    """A tensor in memory of the caller or in scratch.

    Attributes:
        place: the place of the memory.
        offset: the bytes from the memory's first one to the first element.
        tensor: the sizes and strides.
    """

    place: str
    offset: int
    tensor: TensorDesc

    def part(self, *ranges: tuple[int, int]) -> Operand:
        """The entries of the first dimensions from a first one on, so many of them: (first, count) for each."""
        sizes, strides = list(self.tensor.sizes), self.tensor.element_strides
        offset = 0
        for axis, (first, count) in enumerate(ranges):
            sizes[axis] = count
            offset += first * strides[axis]
        return Operand(self.place, self.offset + offset * self._size, _tensor(self.tensor.data_type, sizes, strides))

    def divided(self, axis: int, sizes: tuple[int, int]) -> Operand:
        """The operand with a dimension as two."""
        step, strides, whole = self.tensor.element_strides[axis], list(self.tensor.element_strides), list(self.tensor.sizes)
        whole[axis : axis + 1], strides[axis : axis + 1] = sizes, (step * sizes[1], step)
        return Operand(self.place, self.offset, _tensor(self.tensor.data_type, whole, strides))

    def repeated(self, sizes: Sequence[int]) -> Operand:
        """The operand with its dimensions of size 1 repeated to sizes."""
        strides = [
            step if own == size else 0 for own, size, step in zip(self.tensor.sizes, sizes, self.tensor.element_strides, strict=True)
        ]
        return Operand(self.place, self.offset, _tensor(self.tensor.data_type, sizes, strides))

    @property
    def _size(self) -> int:
        return self.tensor.data_type.numpy.itemsize


def _tensor(data_type: DataType, sizes: Sequence[int], strides: Sequence[int]) -> TensorDesc:
    return TensorDesc(data_type=data_type, sizes=tuple(sizes), strides=tuple(strides))


def packed(place: str, sizes: Sequence[int]) -> Operand:
    """A packed FLOAT32 tensor."""
    return Operand(place, 0, TensorDesc(data_type=DataType.FLOAT32, sizes=tuple(sizes)))


def without_leading(place: str, tensor: TensorDesc, count: int) -> Operand:
    """A tensor of the caller without leading dimensions of size 1, so that it has `count`; missing ones are added."""
    missing = (1,) * (count - len(tensor.sizes))
    sizes, strides = (*missing, *tensor.sizes)[-count:], (*(0 for _ in missing), *tensor.element_strides)[-count:]
    return Operand(place, 0, _tensor(tensor.data_type, sizes, strides))


def heads_of(place: str, tensor: TensorDesc, heads: int) -> Operand:
    """A tensor [batch, positions, heads * size] as [batch, heads, positions, size]."""
    whole = without_leading(place, tensor, 3).divided(2, (heads, tensor.sizes[-1] // heads))
    (batch, positions, _, size), (step, row, head, element) = whole.tensor.sizes, whole.tensor.element_strides
    return Operand(place, 0, _tensor(tensor.data_type, (batch, heads, positions, size), (step, head, row, element)))


def operand_of(desc: Any, name: str, heads: int) -> Operand | None:
    """The new query, key or value of a desc as [batch, heads, positions, size]; None if the past holds them all."""
    own = getattr(desc, f"{name}_tensor")
    if own is not None:
        return heads_of(f"{name}_tensor", own, heads)
    for place, layer in _LAYERS[name]:
        stacked = getattr(desc, place)
        if stacked is not None:
            batch, positions, count, _, size = stacked.sizes
            step, row, head, of_layer, element = stacked.element_strides
            tensor = _tensor(stacked.data_type, (batch, count, positions, size), (step, head, row, element))
            return Operand(place, layer * of_layer * stacked.data_type.numpy.itemsize, tensor)
    return None


@dataclass(frozen=True)
class Step:
    """The work of a plan on operands.

    Attributes:
        plan: the plan.
        operands: the operand at each of its places.
    """

    plan: Plan
    operands: Mapping[str, Operand]

    def bind(self, memories: Pointers, scratch: int) -> Launch:
        """Binds the work, given the address of each operand's memory."""
        pointers = {place: memories[operand.place] + operand.offset for place, operand in self.operands.items()}
        return self.plan.bind(pointers, scratch, None)


def copied(source: Operand, target: Operand) -> Step:
    """The copy of an operand to another, converted if their types differ."""
    copy = Copy(Elements.of("target", target.tensor), Elements.of("source", source.tensor))
    kernel = COPIES if source.tensor.data_type is target.tensor.data_type else CONVERSIONS
    return Step(CopyPlan([copy], kernel), {"target": target, "source": source})


def added(x: Operand, y: Operand, target: Operand) -> Step:
    """The sum of two operands, the second of which is repeated."""
    y = y.repeated(target.tensor.sizes)
    program = Program([x.tensor, y.tensor])
    program.add(Code.ADD, 0, 1)
    plan = ElementwisePlan(program, [("x", x.tensor), ("y", y.tensor)], ("target", target.tensor))
    return Step(plan, {"x": x, "y": y, "target": target})
