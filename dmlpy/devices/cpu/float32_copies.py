"""Products and means to FLOAT16 that have no kernels of their own, such as those with most fused functions, on copies in FLOAT32.

The fused function reads the sums before they are rounded, as the definition does, and writes the rounded results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import Program, why_function_untranslated
from dmlpy.devices.cpu.movement.plan import CONVERSIONS, Copy, CopyPlan, Elements
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.plan import Layout, Plan, in_order
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.plan import Launch, Pointers

_ALIGNMENT = 64
_OUTPUT = "output_tensor"


def float32_copy_plan(desc: Any) -> Float32CopyPlan | str:
    """The plan of a checked product of FLOAT16, or the reason why there is none.

    Args:
        desc: a GEMM or a convolution with a `fused_activation`, or None.
    """
    types = {tensor.data_type for tensor in desc.tensors().values()}
    if types != {DataType.FLOAT16}:
        return "compiled products with another activation than RELU or CLIP have tensors of FLOAT32, or of FLOAT16"
    if desc.fused_activation is not None and (reason := why_function_untranslated(desc.fused_activation)):
        return reason
    return Float32CopyPlan(desc)


class Float32CopyPlan(Plan):
    """A product or a pooling of FLOAT16 by the plan of the same one of FLOAT32.

    Args:
        desc: a checked desc whose output is of FLOAT16; all inputs are, or some are integers, which stay as they are.
    """

    def __init__(self, desc: Any) -> None:
        tensors: Mapping[str, TensorDesc] = {
            place: tensor for place, tensor in desc.tensors().items() if tensor.data_type is DataType.FLOAT16
        }
        wide = {place: _widened(tensor) for place, tensor in tensors.items()}
        self._function = getattr(desc, "fused_activation", None)
        self._product = best_plan(desc.replace(**wide, **({} if self._function is None else {"fused_activation": None})))
        self._kept = tuple(place for place in desc.tensors() if place not in tensors)
        self.constants = self._product.constants
        self.persistent_size = self._product.persistent_size
        self._epilogue = self._epilogue_of(desc, wide[_OUTPUT])
        self._conversions = {place: _conversion(place, described, wide[place]) for place, described in tensors.items() if place != _OUTPUT}
        kind = np.dtype(np.float32)
        order = sorted(wide, key=lambda place: place in self.constants)  # the constants are not there in prepared launches
        sizes = [(place, (wide[place].span,), kind) for place in order]
        prepared = Layout([each for each in sizes if each[0] not in self.constants], _ALIGNMENT)
        self._own, epilogue = Layout(sizes, _ALIGNMENT), self._epilogue.temporary_size
        self._prepared_own_size = prepared.size
        self.prepared_temporary_size = prepared.size + max(self._product.prepared_temporary_size, epilogue)
        self.temporary_size = self._own.size + max(self._product.temporary_size, epilogue)

    def _epilogue_of(self, desc: Any, sums: TensorDesc) -> ElementwisePlan:
        """The program that computes the fused function of the sums, or rounds them."""
        function = self._function or ElementWiseIdentityDesc(input_tensor=sums, output_tensor=desc.output_tensor)
        program = Program([sums])
        program.add_operator(function.replace(input_tensor=sums, output_tensor=desc.output_tensor), {"input_tensor": 0})
        return ElementwisePlan(program, [("input_tensor", sums)], (_OUTPUT, desc.output_tensor))

    def load(self) -> None:
        for plan in (self._product, self._epilogue, *self._conversions.values()):
            plan.load()

    def describe(self) -> str:
        return "\n".join(
            [
                f"{', '.join(self._conversions)}: copied to float32",
                self._product.describe(),
                f"results, rounded once: {self._epilogue.describe()}",
            ]
        )

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        memory = {place: np.empty(self._own.arrays[place][1], np.float32) for place in self.constants if place in self._conversions}
        work = [self._convert(place, constants[place], array.ctypes.data) for place, array in memory.items()]
        converted = {place: array.ctypes.data for place, array in memory.items()}
        packed = in_order([*work, self._product.pack({**constants, **converted}, persistent)])

        def launch(stream: int) -> None:
            _ = memory  # the packing reads it
            packed(stream)

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        wide = self._own.pointers(temporary)
        if persistent is not None:
            wide = {place: address for place, address in wide.items() if place not in self.constants}
        scratch = temporary + (self._own.size if persistent is None else self._prepared_own_size)
        work = [self._convert(place, tensors[place], address) for place, address in wide.items() if place != _OUTPUT]
        kept = {place: tensors[place] for place in self._kept if place in tensors}
        work.append(self._product.bind({**kept, **wide}, scratch, persistent))
        work.append(self._epilogue.bind({"input_tensor": wide[_OUTPUT], _OUTPUT: tensors[_OUTPUT]}, scratch, None))
        return in_order(work)

    def _convert(self, place: str, source: int, target: int) -> Launch:
        return self._conversions[place].bind({"source": source, "target": target}, 0, None)


def _widened(tensor: TensorDesc) -> TensorDesc:
    """A packed FLOAT32 tensor that repeats its elements where a tensor does."""
    kept = [1 if step == 0 else size for size, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
    strides = [0 if step == 0 else packed for step, packed in zip(tensor.element_strides, packed_strides(kept), strict=True)]
    return TensorDesc(data_type=DataType.FLOAT32, sizes=tensor.sizes, strides=strides)


def _conversion(place: str, tensor: TensorDesc, wide: TensorDesc) -> CopyPlan:
    """The conversion of a tensor, each of whose elements is converted once."""
    index = tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.element_strides)
    return CopyPlan([Copy(Elements.of("target", wide)[index], Elements.of("source", tensor)[index])], CONVERSIONS)
