"""The plan of a normalization whose groups are not contiguous, such as that of channels of images: it normalizes a copy."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.movement.elements import Elements
from dmlpy.devices.cpu.movement.plan import Copy, CopyPlan
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Collection

    from dmlpy.devices.plan import Plan

_ALIGNMENT = 64


def packed_desc(desc: Any, reduced: Collection[int], with_output: bool) -> Any:
    """The desc with a packed input, in which the entries of a group are contiguous.

    Args:
        desc: a checked desc.
        reduced: the dimensions of a group.
        with_output: whether the output has the same layout.
    """
    sizes = desc.input_tensor.sizes
    strides, step = [0] * len(sizes), 1
    for axis in [*sorted(reduced, reverse=True), *(axis for axis in reversed(range(len(sizes))) if axis not in reduced)]:
        strides[axis], step = step, step * sizes[axis]
    tensor = TensorDesc(data_type=desc.input_tensor.data_type, sizes=sizes, strides=strides)
    return desc.replace(input_tensor=tensor, **({"output_tensor": tensor} if with_output else {}))


class PackedPlan(PlanWithoutConstants):
    """A copy of the input, its normalization, and where the output's groups are not contiguous, too, a copy of the results.

    Args:
        desc: a checked desc.
        packed: what `packed_desc` gives for it.
        inner: the plan of that desc.
        copies_output: whether the results are copied.
    """

    def __init__(self, desc: Any, packed: Any, inner: Plan, copies_output: bool) -> None:
        self._inner, self._copies_output, tensor = inner, copies_output, packed.input_tensor
        self._packing = _copy(desc.input_tensor, tensor)
        self._unpacking = _copy(tensor, desc.output_tensor) if copies_output else None
        self._size = -(-prod(tensor.sizes) * tensor.data_type.numpy.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.temporary_size = self._size + inner.temporary_size

    def load(self) -> None:
        for plan in (self._packing, self._inner):
            plan.load()

    def describe(self) -> str:
        what = "input and results are" if self._copies_output else "the input is"
        return f"{self._inner.describe()}\n{what} copied, so that the entries of a group are contiguous"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        own = {"input_tensor": temporary, "output_tensor": temporary if self._copies_output else tensors["output_tensor"]}
        work = [
            self._packing.bind({"source": tensors["input_tensor"], "target": temporary}, 0, None),
            self._inner.bind({**tensors, **own}, temporary + self._size, None),
        ]
        if self._unpacking is not None:
            work.append(self._unpacking.bind({"source": temporary, "target": tensors["output_tensor"]}, 0, None))
        return in_order(work)


def _copy(source: TensorDesc, target: TensorDesc) -> CopyPlan:
    return CopyPlan([Copy(Elements.of("target", target), Elements.of("source", source))])
