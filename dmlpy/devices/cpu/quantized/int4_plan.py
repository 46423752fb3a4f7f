"""Unpacks tensors of 4-bit elements to a byte for each, and quantizes with such copies and with copies in FLOAT32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.movement.plan import CONVERSIONS, CopyPlan
from dmlpy.devices.cpu.structs import Address, Count, UnitParameters, field
from dmlpy.devices.cpu.tensor_copies import TensorCopiesPlan, copy_of, dense
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import PlanWithoutConstants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.plan import Launch, Plan, Pointers

UNPACKING = Kernel("dmlpy.devices.cpu.quantized.int4_kernels:build_unpacking", 5)
"""Bytes of 4-bit elements: whether these are signed, and the instruction set."""
UNIT = 1 << 12
"""Bytes of a unit, at most."""
_UNITS_OF_A_THREAD = 1 << 6
"""Units that are worth waking another thread for."""
_COPIED_TYPES = {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8, DataType.FLOAT16: DataType.FLOAT32}
"""The types that are copied, and those of the copies."""


class UnpackingParameters(UnitParameters):
    """The parameters of the kernel. A tile is some of the units, which are parts of the source."""

    count: Count = field("elements")
    source: Address = field("the elements, two to a byte, the first in its low half")
    target: Address = field("the elements, a byte each")


class UnpackingPlan(PlanWithoutConstants):
    """Elements of 4 bits, as they lie in memory, to a byte each.

    Args:
        tensor: the tensor of 4-bit elements.
    """

    temporary_size = 0

    def __init__(self, tensor: TensorDesc) -> None:
        self._count, self._signed = tensor.span, tensor.data_type is DataType.INT4
        units = -(-self._count // (2 * UNIT))
        self._shares = WorkShares(units, Threads.of(available_threads(), units, _UNITS_OF_A_THREAD))

    def _kernel(self) -> Function:
        return UNPACKING(self._signed, host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._count} elements of 4 bits unpacked"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {**self._shares.values, "count": self._count, **tensors}
        return TaskLaunch.of(self._kernel(), UnpackingParameters.bound(values), self._shares.threads)


def widened(desc: OperatorDesc) -> dict[str, TensorDesc]:
    """The tensors of a desc that are copied, by place, as the copies: floats without gaps, and bytes in the layout of 4-bit elements."""
    widened_tensors: dict[str, TensorDesc] = {}
    for place, tensor in desc.tensors().items():
        if tensor.data_type in _COPIED_TYPES:
            copied = tensor if tensor.data_type.bits == 4 else dense(tensor)
            widened_tensors[place] = TensorDesc(data_type=_COPIED_TYPES[tensor.data_type], sizes=copied.sizes, strides=copied.strides)
    return widened_tensors


class WidenedPlan(TensorCopiesPlan):
    """A quantization that reads copies of 4-bit elements in bytes and of FLOAT16 in FLOAT32, and rounds its results to FLOAT16.

    Args:
        inner: the plan of the copies.
        desc: the checked desc.
        copied: what `widened` gives for it.
    """

    def __init__(self, inner: Plan, desc: OperatorDesc, copied: Mapping[str, TensorDesc]) -> None:
        super().__init__(inner, desc, copied, _widening)

    def describe(self) -> str:
        return f"{self._inner.describe()}\ncopied to bytes or float32: {', '.join([*self._inputs, *self._outputs])}"


def _widening(source: TensorDesc, target: TensorDesc) -> UnpackingPlan | CopyPlan:
    return UnpackingPlan(source) if source.data_type.bits == 4 else copy_of(source, target, CONVERSIONS)
