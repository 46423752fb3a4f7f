"""An operator's sample with each of the data types that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import dmlpy as dml
from dmlpy.description.enums import DataType
from dmlpy.description.markers import TensorField
from dmlpy.inspection.samples import sample
from dmlpy.operators.quantized.linear import QuantizationDesc

_MOST = 24
"""Products of types up to so many are taken whole."""


def of_all_types(kind: type[dml.OperatorDesc]) -> Iterator[dml.OperatorDesc]:
    """Valid descs of an operator, in which each type of each of its type symbols occurs."""
    base, row = sample(kind), kind.support[-1]
    choices: dict[Any, list[DataType]] = {symbol: _types(allowed) for symbol, allowed in row.types.items()}
    own = [field.marker.types for field in kind.tensor_fields() if not (isinstance(field.marker.types, str) or _like_others(base, field))]
    choices |= {allowed: _types(allowed) for allowed in own if not isinstance(allowed, str)}
    for chosen in _combinations(choices):
        desc = _typed(base, chosen)
        if desc is not None and not dml.check(desc):
            yield desc


def _like_others(base: dml.OperatorDesc, field: TensorField) -> bool:
    """Whether a member's tensors have the types of others: scales those of the numbers, zero points those of the integers."""
    return field.listed and isinstance(base, QuantizationDesc)


def _types(allowed: Any) -> list[DataType]:
    return sorted(allowed)


def _combinations(choices: Mapping[Any, list[DataType]]) -> Iterator[dict[Any, DataType]]:
    """All combinations, or where these are many such that each type occurs with one of its kind and with another."""
    if prod(map(len, choices.values())) <= _MOST:
        for types in product(*choices.values()):
            yield dict(zip(choices, types, strict=True))
        return
    for step in (0, 3):
        for turn in range(max(map(len, choices.values()))):
            yield {symbol: types[(turn + step * at) % len(types)] for at, (symbol, types) in enumerate(choices.items())}


def _typed(base: dml.OperatorDesc, chosen: Mapping[Any, DataType]) -> dml.OperatorDesc | None:
    """The desc with these types, by symbol or by the set that a tensor's type is of."""
    members: dict[str, Any] = {}
    for field in base.tensor_fields():
        given = getattr(base, field.name)
        if given is not None and not _like_others(base, field):
            data_type = chosen[field.marker.types]
            own = [
                dml.TensorDesc(data_type=data_type, sizes=item.sizes, strides=item.strides) for item in (given if field.listed else [given])
            ]
            members[field.name] = own if field.listed else own[0]
    if isinstance(base, QuantizationDesc):
        like = zip(base.quantization_tensors, base.typed_like, strict=False)
        members["quantization_tensors"] = [item.replace(data_type=members[name].data_type) for item, name in like]
    for name, type_member in base.scalars.items():
        data_type = chosen["T"]
        value = getattr(base, name)
        members |= {type_member: data_type, name: value if data_type.numpy.kind == "f" else abs(round(value))}
    try:
        return base.replace(**members)
    except dml.DescError:
        return None
