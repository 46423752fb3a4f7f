"""The operators that create tensors of constants on CUDA: steps of the element engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.common.element_engine import ElementsPlan, Elementwise, View, absent, computed_type, indices, numbers
from dmlpy.devices.cuda.common.element_types import ELEMENT_TYPES
from dmlpy.devices.cuda.common.functors import Functor
from dmlpy.devices.cuda.movement.copies import FILE, fill
from dmlpy.reference.conversion import of_float, of_scalar

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.generation import DiagonalMatrix1Desc, DiagonalMatrixDesc, FillValueConstantDesc, FillValueSequenceDesc


def fill_value_constant_plan(desc: FillValueConstantDesc, target: Target) -> ElementsPlan:
    output = desc.output_tensor
    value = of_scalar(desc.value, desc.value_data_type).item()
    return ElementsPlan([Elementwise(fill(output, value), output.sizes, View.of("output_tensor", output))], target.library)


def fill_value_sequence_plan(desc: FillValueSequenceDesc, target: Target) -> ElementsPlan:
    """Floating point in double precision, so that each element is rounded once."""
    output, dtype = desc.output_tensor, desc.value_data_type.numpy
    computed = "float64" if dtype.kind == "f" else dtype.name
    members = tuple(
        (name, computed, of_scalar(value, desc.value_data_type).item())
        for name, value in (("start", desc.value_start), ("delta", desc.value_delta))
    )
    functor = Functor(FILE, f"movement::Sequence<{ELEMENT_TYPES[computed]}>", members)
    return ElementsPlan([Elementwise(functor, output.sizes, View.of("output_tensor", output), [numbers(output.sizes)])], target.library)


def diagonal_matrix_plan(desc: DiagonalMatrixDesc, target: Target) -> ElementsPlan:
    output = desc.output_tensor
    value = of_float(desc.value, output.data_type).item()
    return ElementsPlan([_diagonals(output, value, desc.offset, desc.offset + 1, None)], target.library)


def diagonal_matrix1_plan(desc: DiagonalMatrix1Desc, target: Target) -> ElementsPlan:
    assert desc.output_tensor is not None
    value = of_scalar(desc.value, desc.value_data_type).item()
    step = _diagonals(desc.output_tensor, value, desc.diagonal_fill_begin, desc.diagonal_fill_end, desc.input_tensor)
    return ElementsPlan([step], target.library)


def _diagonals(output: TensorDesc, value: float | int, begin: int, end: int, others: TensorDesc | None) -> Elementwise:
    """The value on some diagonals, and else the elements of another tensor, or 0."""
    count = len(output.sizes)
    stored = computed_type(output.data_type.numpy).name
    members = (("value", stored, value), ("begin", "int64", begin), ("end", "int64", end))
    functor = Functor(FILE, f"movement::Diagonal<{ELEMENT_TYPES[stored]}>", members)
    other = absent(count) if others is None else View.of("input_tensor", others)
    inputs = [indices(count - 2, count), indices(count - 1, count), other]
    return Elementwise(functor, output.sizes, View.of("output_tensor", output), inputs)
