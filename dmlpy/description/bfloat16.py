"""BFLOAT16, the element type that DirectML lacks: which operators take it.

An operator takes it where it takes both FLOAT32 and FLOAT16. Elements are converted to FLOAT32 as they are read, and results rounded once
as they are written, ties to even; NaN stays NaN. So every device computes what it would compute in FLOAT32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.bfloat16_numbers import rounded
from dmlpy.description.enums import DataType

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.support import TypeSet
    from dmlpy.description.tensors import TensorDesc

WHY_NO_LEVEL = "DirectML has no BFLOAT16 at any feature level"
_OF_FLOATS = frozenset({DataType.FLOAT32, DataType.FLOAT16})


def with_bfloat16(types: TypeSet) -> TypeSet:
    """The types that an operator takes where no feature level limits it to DirectML's."""
    return types | {DataType.BFLOAT16} if types >= _OF_FLOATS else types


def _as_it_is(tensor: TensorDesc) -> TensorDesc:
    return tensor


def in_other_type(desc: OperatorDesc, data_type: DataType, lay_out: Callable[[TensorDesc], TensorDesc] = _as_it_is) -> OperatorDesc:
    """A checked desc with another type in the place of BFLOAT16, whose numbers in attributes are rounded to BFLOAT16.

    Args:
        desc: the desc.
        data_type: the other type.
        lay_out: gives the layout of each tensor that was of BFLOAT16.
    """

    def other(tensor: TensorDesc) -> TensorDesc:
        return tensor if tensor.data_type is not DataType.BFLOAT16 else lay_out(tensor).replace(data_type=data_type)

    members: dict[str, Any] = {}
    for field in desc.tensor_fields():
        given = getattr(desc, field.name)
        if given is not None:
            members[field.name] = tuple(map(other, given)) if field.listed else other(given)
    for name in type(desc).attribute_names():
        if getattr(desc, name) is DataType.BFLOAT16:
            members[name] = data_type
    for name, companion in desc.scalars.items():
        typed = getattr(desc, companion)
        if getattr(typed, "data_type", typed) is DataType.BFLOAT16:
            members[name] = rounded(getattr(desc, name))
    return desc.replace(**members)
