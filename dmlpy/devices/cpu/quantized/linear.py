"""The plans of element-wise operators between numbers and bytes: quantization and its inverse, and operators of two quantized tensors."""

from __future__ import annotations

from enum import StrEnum
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.products import host_byte_isa, is_signed
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, FixedArray, Flag, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import BoundAddress, Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc


class Element(StrEnum):
    """The function of an element-wise kernel."""

    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MAX = "max"
    MIN = "min"
    SUBTRACT_FROM = "subtract from"
    DIVIDE_INTO = "divide into"

    @property
    def has_y(self) -> bool:
        """Whether it has two operands."""
        return self not in (Element.QUANTIZE, Element.DEQUANTIZE)

    @property
    def exchanged(self) -> Element:
        """The same function with its operands in the other order."""
        return _WITH_EXCHANGED_OPERANDS.get(self, self)


_WITH_EXCHANGED_OPERANDS = {Element.SUBTRACT: Element.SUBTRACT_FROM, Element.DIVIDE: Element.DIVIDE_INTO}


class ElementsParameters(UnitParameters):
    """The parameters of an element-wise operator. A run is the elements along the innermost axis, and is divided into pieces.

    Units are the pieces of all runs. Tensors are the output, both operands, their scales and that of the output, their zero points and that
    of the output. Of one operand the first scale and zero point count, also where they are the output's.
    """

    pieces: Count = field("pieces of a run")
    piece: Count = field("elements of a piece")
    count: Count = field("elements of a run")
    axes: Count = field("axes around the innermost one")
    sizes: Address = field("their sizes, the innermost first")
    strides: Address = field("bytes from one entry to the next, [tensor][axis]")
    inner: Address = field("bytes from an element of a run to the next, for each tensor")
    bases: Address = field("the first element of each tensor")
    has_y: Flag = field("whether there is a second operand")
    repeats_y: Flag = field("whether a run has one element of the second operand, which is repeated in scratch")
    x_flip: Count = field("128 if the first operand's bytes, or its zero points, are signed")
    y_flip: Count = field("the same for the second operand")
    output_flip: Count = field("the same for the output")
    low: Count = field("the least quantized result")
    high: Count = field("the largest quantized result")
    scratch: Address = field("for each thread a piece of the second operand, if it is repeated")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class DynamicParameters(CountedParameters):
    """The parameters of the quantization with the range of the input."""

    count: Count = field("elements")
    input: Address = field("the input, contiguous")
    output: Address = field("the output, contiguous")
    scale: Address = field("the scale")
    zero_point: Address = field("the zero point")
    low: Count = field("the least result")
    high: Count = field("the largest result")
    flip: Count = field("128 if the results are signed")
    scratch: Address = field("three vectors")
    scratch_size: Bytes = field("bytes of them")


ELEMENTS = Kernel("dmlpy.devices.cpu.quantized.linear_kernels:build_elements", 5)
"""The element-wise operators: which one, and the instruction set."""
DYNAMIC = Kernel("dmlpy.devices.cpu.quantized.linear_kernels:build_dynamic", 5)
"""The quantization with the range of the input: the instruction set."""
_PIECE = 8192
_WORK_OF_A_THREAD = 1 << 17
"""Elements that are worth waking another thread for."""
_IMPLIED = np.array([0, 8, 128], np.uint8)
"""The zero points that no tensor gives: of signed integers, and of unsigned ones of 4 and 8 bits."""


class ElementsPlan(PlanWithoutConstants):
    """An element-wise operator by the compiled kernel.

    Args:
        operation: what it computes.
        tensors: the tensors as `ElementsParameters` has them, by role: the name and the desc of each that there is, with sizes and strides
            along the axes of `sizes`.
        sizes: the sizes of the elements.
        zero_point: the zero point where no tensor gives one, 0 or 128.
    """

    def __init__(
        self,
        operation: Element,
        tensors: Mapping[str, tuple[str, TensorDesc, Sequence[int]]],
        sizes: Sequence[int],
        zero_point: int = 0,
    ) -> None:
        self._operation, self._isa = operation, host_byte_isa()
        roles = [role for role in _ROLES if role in tensors]
        axes = list(merged(sizes, [tensors[role][2] for role in roles]))
        inner = axes.pop() if axes else None
        if operation.has_y and _repeats("x", roles, inner):  # the kernel repeats the second one
            tensors = {_EXCHANGED.get(role, role): tensor for role, tensor in tensors.items()}
            roles = [_EXCHANGED.get(role, role) for role in roles]
            self._operation = operation.exchanged
        self._tensors, self._repeats_y = tensors, _repeats("y", roles, inner)
        self._count = 1 if inner is None else inner.size
        steps = np.zeros((len(_ROLES), 1 + len(axes)), np.int64)
        for at, role in enumerate(roles):
            place, size = _ROLES.index(role), tensors[role][1].data_type.numpy.itemsize
            steps[place, 0] = 0 if inner is None else inner.strides[at] * size
            steps[place, 1:] = [axis.strides[at] * size for axis in reversed(axes)]
        # Without an inner axis there is one element, side by side with itself.
        for role, size in (("output", 4 if operation is Element.DEQUANTIZE else 1), ("x", 4 if operation is Element.QUANTIZE else 1)):
            if inner is None:
                steps[_ROLES.index(role), 0] = size
        self._sizes = np.array([axis.size for axis in reversed(axes)], np.int64)
        self._inner, self._strides = np.ascontiguousarray(steps[:, 0]), np.ascontiguousarray(steps[:, 1:])
        self._pieces = ceil(self._count / _PIECE)
        self._units = self._pieces * prod(axis.size for axis in axes)
        self._threads = Threads.of(available_threads(), prod(sizes), _WORK_OF_A_THREAD)
        self._tiles = min(self._units, self._threads.tiles())
        self.temporary_size = self._threads.most * _PIECE if self._repeats_y else 0
        self._fixed = {"sizes": FixedArray(self._sizes), "strides": FixedArray(self._strides), "inner": FixedArray(self._inner)}
        self._implied = BoundAddress(_IMPLIED.ctypes.data + _IMPLIED.tolist().index(zero_point), None)  # stays where it is

    def load(self) -> None:
        _ = ELEMENTS(self._operation, self._isa)

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on {self._threads}; vectors of {self._isa.lanes} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = [tensors[self._tensors[role][0]] if role in self._tensors else self._implied for role in _ROLES]
        signed = {role: 128 if is_signed(desc) else 0 for role, (_, desc, _) in self._tensors.items()}
        output = self._tensors["output"][1].data_type
        low, high = output.limits if output.bits == 8 else (0, 0)
        of_x = signed["output"] if self._operation is Element.QUANTIZE else signed["x"]
        parameters = ElementsParameters.bound(
            {
                "tiles": self._tiles,
                "units": self._units,
                "pieces": self._pieces,
                "piece": _PIECE,
                "count": self._count,
                "axes": len(self._sizes),
                **self._fixed,
                "bases": places,
                "has_y": "y" in self._tensors,
                "repeats_y": self._repeats_y,
                "x_flip": of_x,
                "y_flip": signed.get("y", 0),
                "output_flip": signed["output"],
                "low": int(low),
                "high": int(high),
                "scratch": temporary,
                "scratch_size": _PIECE,
            }
        )
        return TaskLaunch.of(ELEMENTS(self._operation, self._isa), parameters, self._threads)


_ROLES = ("output", "x", "y", "x scale", "y scale", "output scale", "x zero", "y zero", "output zero")
_EXCHANGED = {f"{one}{part}": f"{other}{part}" for one, other in (("x", "y"), ("y", "x")) for part in ("", " scale", " zero")}


def _repeats(role: str, roles: Sequence[str], run: Axis | None) -> bool:
    """Whether a run has one element of an operand, if there is that operand."""
    return run is not None and role in roles and run.strides[roles.index(role)] == 0


class DynamicPlan(PlanWithoutConstants):
    """The quantization of a contiguous tensor of FLOAT32 with its range.

    Args:
        tensors: the descs by name.
    """

    def __init__(self, tensors: Mapping[str, TensorDesc]) -> None:
        self._tensors, self._isa = tensors, host_byte_isa()
        self.temporary_size = 3 * self._isa.lanes * FLOAT_BYTES

    def load(self) -> None:
        _ = DYNAMIC(self._isa)

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on 1 thread; vectors of {self._isa.lanes} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        output = self._tensors["output_tensor"]
        low, high = output.data_type.limits
        values: dict[str, Any] = {
            "tiles": 1,
            "count": output.element_count,
            "input": tensors["input_tensor"],
            "output": tensors["output_tensor"],
            "scale": tensors["output_scale_tensor"],
            "zero_point": tensors["output_zero_point_tensor"],
            "low": int(low),
            "high": int(high),
            "flip": 128 if is_signed(output) else 0,
            "scratch": temporary,
            "scratch_size": self.temporary_size,
        }
        return TaskLaunch.of(DYNAMIC(self._isa), DynamicParameters.bound(values), 1)
