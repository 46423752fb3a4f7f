"""The C structs of descs, read by a C++ compiler that laid them out from `tests/facts`."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.conformance.cases import cases, operator_classes
from dmlpy.conformance.layout import operator_struct, struct_of
from dmlpy.conformance.operator_numbers import OPERATOR_NUMBERS
from dmlpy.description.descs import OperatorDesc
from dmlpy.inspection.samples import sample
from tests.support.descs import facts_reader as facts
from tests.support.directml import mock
from tests.support.tools import require

KINDS = {kind.short_name(): kind for kind in operator_classes()}


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    require("g++")


def test_numbers_of_operators() -> None:
    fact = facts.enums()["enums"]["DML_OPERATOR_TYPE"]
    expected = {name: value for name, value in fact["values"].items() if value}
    for alias, name in fact["aliases"].items():
        expected[alias] = expected.pop(name)
    assert expected == OPERATOR_NUMBERS


def test_sizes_of_structs() -> None:
    expected = {kind.c_name: mock.library().mock_size_of(OPERATOR_NUMBERS[kind.type_name]) for kind in KINDS.values()}
    assert {kind.c_name: ctypes.sizeof(struct_of(kind)) for kind in KINDS.values()} == expected


def enum_number(value: str) -> int | None:
    """The number of an enumeration's member in the facts, of its full name."""
    return next((fact["values"][value] for fact in facts.enums()["enums"].values() if value in fact.get("values", ())), None)


def rounded(value: Any) -> Any:
    """A number as a 32-bit float holds it, in nine digits, as C++ writes it."""
    return float(f"{struct.unpack('<f', struct.pack('<f', value))[0]:.9g}")


def tensor_members(tensor: dml.TensorDesc) -> dict[str, Any]:
    expected = {
        "DataType": int(tensor.data_type),
        "Flags": int(tensor.flags),
        "DimensionCount": len(tensor.sizes),
        "Sizes": list(tensor.sizes),
        "TotalTensorSizeInBytes": tensor.size_in_bytes,
        "GuaranteedBaseOffsetAlignment": tensor.guaranteed_base_offset_alignment,
    }
    return expected if tensor.strides is None else expected | {"Strides": list(tensor.strides)}


def member(desc: OperatorDesc, field: dict[str, Any], value: Any) -> Any:
    """What C++ should find for a member of a type of the facts."""
    kind = field["type"]
    if kind == "SCALAR_UNION":
        companion = getattr(desc, desc.scalars[facts.python_name(field["name"])])
        data_type = companion if isinstance(companion, dml.DataType) else companion.data_type
        data_type = dml.DataType.FLOAT32 if data_type is dml.DataType.UNKNOWN else data_type
        stored = data_type.unpacked.type(value).tobytes()
        return {"Bytes": list(stored.ljust(8, b"\0"))}
    if value is None:
        return None
    if kind == "TENSOR_DESC":
        return tensor_members(value)
    if kind == "TENSOR_DESC_ARRAY":
        return [tensor_members(tensor) for tensor in value]
    if kind == "OPERATOR_DESC":
        return expected_of(value)
    if kind == "OPERATOR_DESC_ARRAY":
        return [expected_of(item) for item in value]
    if kind == "SCALE_BIAS":
        return {"Scale": rounded(value.scale), "Bias": rounded(value.bias)}
    if kind == "SIZE_2D":
        return {"Width": value.width, "Height": value.height}
    if kind == "FLOAT":
        return rounded(value)
    if kind == "FLOAT_ARRAY":
        return [rounded(item) for item in value]
    if kind.endswith("_ARRAY"):
        return list(value)
    named = getattr(value, "c_name", None)
    return int(value) if named is None else enum_number(named)


def expected_of(desc: OperatorDesc) -> dict[str, Any]:
    """The members that C++ should find, in the facts' order and spelling."""
    found: dict[str, Any] = {}
    fields = facts.fields(desc.type_name)
    for name, field in fields.items():
        if "count_of" in field:
            found[name] = len(getattr(desc, facts.python_member(desc.type_name, facts.counted_by(field)[0])) or ())
        else:
            found[name] = member(desc, field, getattr(desc, facts.python_member(desc.type_name, name)))
    return {"Type": desc.type_name, "Desc": {name: value for name, value in found.items() if value is not None}}


def comparable(value: Any) -> Any:
    """JSON data in which NaN and infinities are texts."""
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value


def differing(descs: list[OperatorDesc]) -> list[tuple[Any, Any]]:
    pairs = ((mock.described(operator_struct(desc)), comparable(expected_of(desc))) for desc in descs)
    return [pair for pair in pairs if pair[0] != pair[1]]


def test_every_sample_arrives_as_written() -> None:
    assert differing([sample(kind) for kind in KINDS.values()]) == []


@pytest.mark.parametrize("name", ["GRU", "PADDING1", "DIAGONAL_MATRIX1", "CONVOLUTION", "QUANTIZE"])
def test_descs_arrive_as_written(name: str) -> None:
    descs = cases(KINDS[name])
    assert len(descs) > 50
    assert differing(descs[::6]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_all_descs_arrive_as_written(name: str) -> None:
    assert differing(cases(KINDS[name])) == []
    assert all(mock.desc_of(mock.described(operator_struct(desc))).type_name == desc.type_name for desc in cases(KINDS[name])[:3])
