"""The plan of MAX_POOLING of 8 bits: bytes become FLOAT32, which holds them exactly, are pooled, and become bytes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.quantized.linear import Element, ElementsPlan
from dmlpy.devices.plan import BoundAddress, Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from dmlpy.devices.plan import Plan
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc

_ALIGNMENT = 64
_ONE = np.ones(1, np.float32)
"""The scale of both conversions."""


def of_floats(desc: ForwardPoolingDesc) -> ForwardPoolingDesc:
    """The same pooling of packed tensors of FLOAT32."""
    assert desc.output_tensor is not None  # guaranteed by the check
    return desc.replace(input_tensor=_floats(desc.input_tensor), output_tensor=_floats(desc.output_tensor))


def _floats(tensor: TensorDesc) -> TensorDesc:
    return TensorDesc(data_type=DataType.FLOAT32, sizes=tensor.sizes)


class BytePoolingPlan(PlanWithoutConstants):
    """A pooling of bytes as one of floats between two conversions.

    Args:
        desc: a checked desc of UINT8 or INT8, without indices.
        pooling: the plan of the same pooling of FLOAT32.
    """

    def __init__(self, desc: ForwardPoolingDesc, pooling: Plan) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._pooling = pooling
        self._sizes = [-(-4 * tensor.element_count // _ALIGNMENT) * _ALIGNMENT for tensor in (desc.input_tensor, desc.output_tensor)]
        self._widening = _conversion(Element.DEQUANTIZE, desc.input_tensor, _floats(desc.input_tensor))
        self._narrowing = _conversion(Element.QUANTIZE, _floats(desc.output_tensor), desc.output_tensor)
        self.temporary_size = sum(self._sizes) + pooling.temporary_size

    def load(self) -> None:
        for plan in (self._widening, self._pooling, self._narrowing):
            plan.load()

    def describe(self) -> str:
        return f"{self._pooling.describe()}\nbytes are converted to FLOAT32 before, and back behind"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        wide, narrow = temporary, temporary + self._sizes[0]
        scale = BoundAddress(_ONE.ctypes.data, None)
        return in_order(
            [
                self._widening.bind({"input": tensors["input_tensor"], "output": wide, "scale": scale}, 0, None),
                self._pooling.bind({"input_tensor": wide, "output_tensor": narrow}, temporary + sum(self._sizes), None),
                self._narrowing.bind({"input": narrow, "output": tensors["output_tensor"], "scale": scale}, 0, None),
            ]
        )


def _conversion(operation: Element, source: TensorDesc, target: TensorDesc) -> ElementsPlan:
    one = TensorDesc(data_type=DataType.FLOAT32, sizes=(1,))
    tensors = {
        "output": ("output", target, target.element_strides),
        "x": ("input", source, source.element_strides),
        "x scale": ("scale", one, (0,) * len(source.sizes)),
    }
    return ElementsPlan(operation, tensors, source.sizes)
