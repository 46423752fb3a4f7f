"""The plan of operators on bytes that are computed in FLOAT32, between two conversions."""

from __future__ import annotations

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.quantized.linear import Element, ElementsPlan
from dmlpy.devices.cpu.structs import aligned
from dmlpy.devices.plan import BoundAddress, Launch, Plan, PlanWithoutConstants, Pointers, in_order

_ONE = np.ones(1, np.float32)
"""The scale of the conversions."""


class ByteFloatsPlan(PlanWithoutConstants):
    """A plan of floats for tensors of bytes: the input is converted before, and the output back, rounded to the nearest integers.

    Args:
        plan: the plan of the same operator on `floats_of` both tensors.
        source: the input of bytes.
        target: the output of bytes.
    """

    def __init__(self, plan: Plan, source: TensorDesc, target: TensorDesc) -> None:
        self._plan = plan
        self._sizes = [aligned(4 * tensor.element_count) for tensor in (source, target)]
        self._widening = _conversion(Element.DEQUANTIZE, source, floats_of(source))
        self._narrowing = _conversion(Element.QUANTIZE, floats_of(target), target)
        self.temporary_size = sum(self._sizes) + plan.temporary_size

    def load(self) -> None:
        for plan in (self._widening, self._plan, self._narrowing):
            plan.load()

    def describe(self) -> str:
        return f"{self._plan.describe()}\nbytes are converted to FLOAT32 before, and back behind"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        wide, narrow = temporary, temporary + self._sizes[0]
        scale = BoundAddress(_ONE.ctypes.data, None)
        return in_order(
            [
                self._widening.bind({"input": tensors["input_tensor"], "output": wide, "scale": scale}, 0, None),
                self._plan.bind({**tensors, "input_tensor": wide, "output_tensor": narrow}, temporary + sum(self._sizes), None),
                self._narrowing.bind({"input": narrow, "output": tensors["output_tensor"], "scale": scale}, 0, None),
            ]
        )


def floats_of(tensor: TensorDesc) -> TensorDesc:
    """The packed tensor of FLOAT32 of the same sizes."""
    return TensorDesc(data_type=DataType.FLOAT32, sizes=tensor.sizes)


def _conversion(operation: Element, source: TensorDesc, target: TensorDesc) -> ElementsPlan:
    one = TensorDesc(data_type=DataType.FLOAT32, sizes=(1,))
    tensors = {
        "output": ("output", target, target.element_strides),
        "x": ("input", source, source.element_strides),
        "x scale": ("scale", one, (0,) * len(source.sizes)),
    }
    return ElementsPlan(operation, tensors, source.sizes)
