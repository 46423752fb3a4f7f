"""Enumerations: every accepted spelling, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.enums import DmlEnum
from tests.support.tables import table

ENUMS = [dml.DataType, dml.TensorType, dml.TensorFlags, dml.RecurrentDirection, dml.FeatureLevel]
MEMBERS = [(kind, member) for kind in ENUMS for member in kind]


@table(("kind", "member"), MEMBERS, ids=lambda item: str(item))
def test_every_spelling_gives_the_member(kind: type[DmlEnum], member: DmlEnum) -> None:
    short = str(member)
    spellings: list[Any] = [member, short, short.lower(), short.title(), f" {short} ", member.c_name, member.c_name.lower()]
    spellings += [int(member), np.uint32(member), np.int64(member)]
    for spelling in spellings:
        assert kind.parse(spelling) is member
    assert member.c_name == kind.prefix() + short
    assert repr(member) == f"{kind.__name__}.{member.name}"
    assert pickle.loads(pickle.dumps(member)) is member


@pytest.mark.parametrize("kind", ENUMS)
@pytest.mark.parametrize("value", [None, True, False, 1.0, "", "NO_SUCH", -1, 2**40, [], object(), np.float32(1), b"NONE"])
def test_anything_else_is_refused_with_the_names(kind: type[DmlEnum], value: Any) -> None:
    with pytest.raises(ValueError, match=f"expected one of .*{kind.spellings()[-1]}"):
        kind.parse(value)


def test_members_of_other_enumerations_are_refused() -> None:
    with pytest.raises(ValueError, match="FORWARD"):
        dml.RecurrentDirection.parse(dml.TensorFlags.NONE)


def test_names_that_say_nothing_are_not_offered() -> None:
    assert "UNKNOWN" not in dml.DataType.spellings()
    assert dml.TensorType.spellings() == ["BUFFER"]
    assert dml.FeatureLevel.spellings()[:3] == ["1_0", "2_0", "2_1"]


@pytest.mark.parametrize("spelling", ["5_0", "5.0", "FL_5_0", "DML_FEATURE_LEVEL_5_0", "dml_feature_level_5_0", 0x5000])
def test_feature_levels_have_more_spellings(spelling: str | int) -> None:
    assert dml.FeatureLevel.parse(spelling) is dml.FeatureLevel.FL_5_0


def test_feature_levels_are_ordered() -> None:
    assert sorted(dml.FeatureLevel) == list(dml.FeatureLevel)
    assert [str(level) for level in dml.FeatureLevel] == sorted(str(level) for level in dml.FeatureLevel)


@pytest.mark.parametrize("member", [item for item in dml.DataType if item.bits >= 8], ids=str)
def test_data_types_and_numpy_types_are_one_to_one(member: dml.DataType) -> None:
    assert dml.DataType.of(member.numpy) is member
    assert dml.DataType.of(np.zeros(1, member.numpy).dtype) is member
    assert dml.DataType.of(member.name.lower()) is member
    for spelled in (member.numpy, member.numpy.type):
        assert dml.TensorDesc(data_type=spelled, sizes=[1]).data_type is member
    assert member.numpy.itemsize * 8 == member.bits
    if member.bits > 8:
        with pytest.raises(TypeError, match="no tensor type"):
            dml.DataType.of(member.numpy.newbyteorder())


@pytest.mark.parametrize("dtype", [bool, complex, "U4", "S4", object, "datetime64[s]", [("a", "f4")], np.longdouble])
def test_numpy_types_that_directml_lacks(dtype: Any) -> None:
    with pytest.raises(TypeError, match="DirectML has no tensor type"):
        dml.DataType.of(dtype)


def test_types_of_the_same_name_but_another_size() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match="no tensor type"):
        dml.DataType.of(ml_dtypes.int4)  # a byte each, where DirectML's two share one


def test_directions_count_their_passes() -> None:
    assert [direction.count for direction in dml.RecurrentDirection] == [1, 1, 2]
