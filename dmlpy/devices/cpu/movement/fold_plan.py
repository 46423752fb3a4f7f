"""The plan of FOLD: zeros, to which the elements of all columns are added, one element of the window after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import Program
from dmlpy.devices.cpu.movement.copies import fill_of, window_parts
from dmlpy.devices.cpu.movement.plan import CopyPlan, Elements
from dmlpy.devices.plan import PlanWithoutConstants, in_order
from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc

if TYPE_CHECKING:
    from dmlpy.devices.plan import Launch, Pointers
    from dmlpy.operators.movement.blocks import FoldDesc


class FoldPlan(PlanWithoutConstants):
    """Sums of columns in an image.

    Args:
        desc: a checked desc of FLOAT32.
    """

    def __init__(self, desc: FoldDesc) -> None:
        columns, image = Elements.of("input_tensor", desc.input_tensor), Elements.of("output_tensor", desc.output_tensor)
        self._zeros = CopyPlan([fill_of(image, 0)])
        self._sums = [(_sum(part, sums), part.offset, sums.offset) for part, sums in window_parts(desc, columns, image)]
        self.temporary_size = max((plan.temporary_size for plan, _, _ in self._sums), default=0)

    def load(self) -> None:
        for plan in (self._zeros, *(plan for plan, _, _ in self._sums)):
            plan.load()

    def describe(self) -> str:
        sums = f"{len(self._sums)} sums, the first: {self._sums[0][0].describe()}" if self._sums else "no sums"
        return f"zeros: {self._zeros.describe()}\n{sums}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work = [self._zeros.bind(tensors, temporary, None)]
        for plan, of_part, of_sums in self._sums:
            sums = tensors["output_tensor"] + of_sums
            work.append(plan.bind({"part": tensors["input_tensor"] + of_part, "before": sums, "sums": sums}, temporary, None))
        return in_order(work)


def _sum(part: Elements, sums: Elements) -> ElementwisePlan:
    """The program that adds some elements of the columns to those of the image."""
    of_part, of_sums = _tensor(part), _tensor(sums)
    program = Program([of_sums, of_part])
    add = ElementWiseAddDesc(a_tensor=of_sums, b_tensor=of_part, output_tensor=of_sums)
    program.add_operator(add, {"a_tensor": 0, "b_tensor": 1})
    return ElementwisePlan(program, [("before", of_sums), ("part", of_part)], ("sums", of_sums))


def _tensor(elements: Elements) -> TensorDesc:
    size = elements.dtype.itemsize
    return TensorDesc(data_type="FLOAT32", sizes=elements.shape, strides=[step // size for step in elements.strides])
