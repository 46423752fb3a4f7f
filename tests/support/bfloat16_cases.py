"""Operators with tensors of BFLOAT16: their samples, and random numbers for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import dmlpy as dml
from dmlpy.description.bfloat16 import with_bfloat16
from dmlpy.description.enums import DataType
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.support.random_inputs import random_inputs

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Array = np.ndarray[Any, Any]


def takes_both(desc: dml.OperatorDesc, types: Any) -> bool:
    """Whether a tensor of a type variable, or of a set of types, may be of FLOAT32 and of FLOAT16."""
    allowed = desc.support[-1].types[types] if isinstance(types, str) else types
    return with_bfloat16(allowed) != allowed


def of_bfloat16(desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """A desc with BFLOAT16 in the place of FLOAT32 where tensors may be of FLOAT16, too; None if none may."""
    members: dict[str, Any] = {}
    changed = False

    def other(tensor: dml.TensorDesc) -> dml.TensorDesc:
        nonlocal changed
        if tensor.data_type is not DataType.FLOAT32:
            return tensor
        changed = True
        return tensor.replace(data_type="BFLOAT16")

    for field in desc.tensor_fields():
        given = getattr(desc, field.name)
        if given is not None and takes_both(desc, desc.type_variable(field)):
            members[field.name] = tuple(map(other, given)) if field.listed else other(given)
    for name in type(desc).attribute_names():
        if getattr(desc, name) is DataType.FLOAT32:
            members[name] = "BFLOAT16"
    return desc.replace(**members) if changed else None


def samples(family: str) -> dict[str, dml.OperatorDesc]:
    """The sample of each operator of a family that may have tensors of BFLOAT16, by its short name."""
    kinds = [kind for kind in OPERATORS.values() if kind.family() == family and not kind.combines_bits]
    found = {kind.short_name(): of_bfloat16(sample(kind)) for kind in kinds}
    return {name: desc for name, desc in found.items() if desc is not None}


def inputs_of(desc: dml.OperatorDesc, wide: dml.OperatorDesc, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random inputs of a desc, and the same numbers for that of FLOAT32."""
    given, same = dict[str, Any](), dict[str, Any]()
    for name, arrays in random_inputs(np.random.default_rng(seed), wide).items():
        listed = isinstance(arrays, list)
        tensors = getattr(desc, name)
        pairs = list(zip(arrays, tensors, strict=True)) if listed else [(arrays, tensors)]
        own = [array.astype(BFLOAT16) if tensor.data_type is DataType.BFLOAT16 else array for array, tensor in pairs]
        other = [array.astype(np.float32) if array.dtype == BFLOAT16 else array for array in own]
        given[name], same[name] = (own, other) if listed else (own[0], other[0])
    return given, same
