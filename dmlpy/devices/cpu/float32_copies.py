"""Products and means to FLOAT16 that have no kernels of their own, such as those with most fused functions, on copies in FLOAT32.

The fused function reads the sums before they are rounded, as the definition does, and writes the rounded results.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.elementwise.plan import ElementwisePlan
from dmlpy.devices.cpu.elementwise.program import Program, why_function_untranslated
from dmlpy.devices.cpu.movement.plan import CONVERSIONS
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.cpu.tensor_copies import TensorCopiesPlan, copy_of, dense
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc

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


class Float32CopyPlan(TensorCopiesPlan):
    """A product or a pooling of FLOAT16 by the plan of the same one of FLOAT32.

    Args:
        desc: a checked desc whose output is of FLOAT16; all inputs are, or some are integers, which stay as they are.
    """

    def __init__(self, desc: Any) -> None:
        tensors = {place: tensor for place, tensor in desc.tensors().items() if tensor.data_type is DataType.FLOAT16}
        wide = {place: dense(tensor).replace(data_type=DataType.FLOAT32) for place, tensor in tensors.items()}
        function = getattr(desc, "fused_activation", None)
        inner = best_plan(desc.replace(**wide, **({} if function is None else {"fused_activation": None})))
        super().__init__(inner, desc, wide, partial(copy_of, kernel=CONVERSIONS), partial(_epilogue_of, function))

    def describe(self) -> str:
        return "\n".join(
            [
                f"{', '.join(self._inputs)}: copied to float32",
                self._inner.describe(),
                f"results, rounded once: {self._outputs[_OUTPUT].describe()}",
            ]
        )


def _epilogue_of(function: Any, sums: TensorDesc, output: TensorDesc) -> ElementwisePlan:
    """The program that computes the fused function of the sums, or rounds them."""
    function = function or ElementWiseIdentityDesc(input_tensor=sums, output_tensor=output)
    program = Program([sums])
    program.add_operator(function.replace(input_tensor=sums, output_tensor=output), {"input_tensor": 0})
    return ElementwisePlan(program, [("source", sums)], ("target", output))
