"""The compiled plans of DIAGONAL_MATRIX, DIAGONAL_MATRIX1, FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.movement.plans import copy_plan
from dmlpy.devices.cpu.plans import on_copies, plan
from dmlpy.operators.generation import DiagonalMatrix1Desc, DiagonalMatrixDesc, FillValueConstantDesc, FillValueSequenceDesc

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.generation.plan import BandsPlan, SequencePlan
    from dmlpy.devices.cpu.movement.plan import CopyPlan


def _refusal(*tensors: TensorDesc | None) -> str | None:
    """Why there is no compiled form for these tensors; None if there is one."""
    present = [tensor for tensor in tensors if tensor is not None]
    if any(tensor.data_type.bits == 4 for tensor in present):
        return "compiled matrices have elements of whole bytes"
    return None if all(tensor.is_packed for tensor in present) else "compiled generation needs packed tensors"


@plan(DiagonalMatrixDesc)
@on_copies()
def diagonal_plan(desc: DiagonalMatrixDesc) -> BandsPlan | str:
    from dmlpy.devices.cpu.generation.plan import BandsPlan
    from dmlpy.reference.conversion import of_float

    value = of_float(desc.value, desc.output_tensor.data_type)
    return _refusal(desc.output_tensor) or BandsPlan(desc.output_tensor, False, value, [(desc.offset, desc.offset + 1)])


@plan(DiagonalMatrix1Desc)
@on_copies()
def band_plan(desc: DiagonalMatrix1Desc) -> BandsPlan | str:
    from dmlpy.devices.cpu.generation.plan import BandsPlan
    from dmlpy.reference.conversion import of_scalar

    output, begin, end = desc.output_tensor, desc.diagonal_fill_begin, desc.diagonal_fill_end
    assert output is not None  # guaranteed by the check
    if refusal := _refusal(desc.input_tensor, output):
        return refusal
    # The other way round, all is filled but what is between them.
    bands = [(begin, end)] if begin <= end else [(begin, output.sizes[-1]), (-output.sizes[-2], end)]
    return BandsPlan(output, desc.input_tensor is not None, of_scalar(desc.value, desc.value_data_type), bands)


@plan(FillValueConstantDesc)
def constant_plan(desc: FillValueConstantDesc) -> CopyPlan | str:
    return copy_plan(desc, "constant_copies")


@plan(FillValueSequenceDesc)
@on_copies()
def sequence_plan(desc: FillValueSequenceDesc) -> SequencePlan | str:
    from dmlpy.devices.cpu.generation.plan import SequencePlan
    from dmlpy.reference.conversion import of_scalar

    output, kind = desc.output_tensor, desc.value_data_type
    if output.data_type not in (DataType.FLOAT16, DataType.FLOAT32):
        return "of the sequences those of FLOAT16 and FLOAT32 have a compiled form"
    start, delta = (float(of_scalar(value, kind)) for value in (desc.value_start, desc.value_delta))
    return _refusal(output) or SequencePlan(output, start, delta)
