"""The names and parameters of the functions of `dmlpy.x`, from the operators' classes."""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import TensorField

_OUTPUT_NAMES = {
    ("MAX_POOLING1", "output_tensor"): "values",
    ("MAX_POOLING2", "output_tensor"): "values",
    ("RANDOM_GENERATOR", "output_tensor"): "values",
}
"""Fields of named tuples that DirectMLX calls otherwise than the rule below."""
_SIZED_AT_WILL = {"CONVOLUTION", "DIAGONAL_MATRIX1", "ROI_ALIGN_GRAD"}
"""Operators with a size that the inputs leave open, though the struct's output can be inferred."""


def function_name(kind: type[OperatorDesc]) -> str:
    """An operator's function: its short name in lower case, without ELEMENT_WISE_; `if_` since `if` is a keyword."""
    name = kind.short_name().removeprefix("ELEMENT_WISE_").lower()
    return f"{name}_" if iskeyword(name) else name


def argument_name(field: TensorField) -> str:
    """An input's argument: `input` of `input_tensor`, `inputs` of `input_tensors`."""
    return f"{field.name.removesuffix('_tensors')}s" if field.listed else field.name.removesuffix("_tensor")


def output_name(kind: type[OperatorDesc], field: TensorField) -> str:
    """An output's field in the named tuple: `sequence` of `output_sequence_tensor`."""
    short = field.name.removesuffix("_tensor").removeprefix("output_")
    return _OUTPUT_NAMES.get((kind.short_name(), field.name), short)


def tuple_name(kind: type[OperatorDesc]) -> str:
    """The class of an operator's outputs, where there are several: `LSTMOutputs`."""
    return f"{kind.__name__.removesuffix('Desc')}Outputs"


def shares_sizes(kind: type[OperatorDesc], field: TensorField) -> bool:
    """Whether an input of an element-wise operator or an activation has the output's sizes, as others have, so that it is broadcast."""
    alike = [other for other in kind.inputs() if other.marker.pattern == kind.outputs()[0].marker.pattern]
    return kind.short_name().startswith(("ELEMENT_WISE_", "ACTIVATION_")) and len(alike) > 1 and field in alike


def takes_sizes(kind: type[OperatorDesc]) -> str:
    """Whether the function takes `output_sizes`: `required`, `optional`, or empty."""
    name, first = kind.short_name(), kind.outputs()[0]
    if name in _SIZED_AT_WILL or name.startswith("RESAMPLE"):
        return "optional"
    return "required" if kind.model_fields[first.name].is_required() and name not in ("CAST", "SPLIT", "ONE_HOT") else ""


def typed_outputs(kind: type[OperatorDesc]) -> list[TensorField]:
    """The outputs whose data type the inputs do not determine, so that the function takes it."""
    outputs = []
    typed_by_attributes = {item.limits.type_of for item in kind.attribute_fields()}
    for field in kind.outputs():
        variable = field.marker.types
        allowed = kind.support[-1].types[variable] if isinstance(variable, str) else variable
        fed = any(other.marker.types == variable and not other.optional for other in kind.inputs()) if isinstance(variable, str) else False
        if (not fed and len(allowed) > 1 and field.name not in typed_by_attributes) or kind.short_name() == "REDUCE":
            outputs.append(field)
    return outputs
