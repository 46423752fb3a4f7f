"""The structs of kernels' parameters: how fields lie, and that the recurrent kernels read every field that is declared."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dmlpy.devices.cpu.recurrent import block_cell, parameters
from dmlpy.devices.cpu.structs import Address, Count, CountedParameters, Float32, Float64, KernelStruct, StagedParameters, field
from tests.support.folders import ROOT


class Base(KernelStruct):
    source: Address = field("the first element")


class Derived(Base):
    rows: Count = field("how many there are")
    scale: Float32 = field("a factor")
    clip: Float64 = field("a bound")
    constants: Float32 = field("what a function has", count=3)


def structs() -> list[type[KernelStruct]]:
    found = [each for module in (parameters, block_cell) for each in vars(module).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, KernelStruct) and each not in (KernelStruct, StagedParameters, CountedParameters)]


def test_fields_lie_in_their_order_behind_those_of_the_base() -> None:
    expected = [("source", np.int64), ("rows", np.int64), ("scale", np.float32), ("clip", np.float64), ("constants", np.float32, (3,))]
    assert Derived.dtype == np.dtype(expected)
    assert Base.dtype == np.dtype(expected[:1])
    assert list(Derived.texts) == list(Derived.dtype.names or ())
    assert Derived.texts["rows"] == "how many there are"
    assert Derived.texts["source"] == "the first element"


def test_values_that_are_not_given_are_zero() -> None:
    (found,) = Derived.make({"rows": 5, "constants": [1, 2, 3]})
    assert found.item() == (0, 5, 0.0, 0.0, pytest.approx([1, 2, 3]))


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="wide"):
        Derived.make({"wide": 1})


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
def test_every_field_is_described_and_read(struct: type[KernelStruct]) -> None:
    """Kernels read fields by their names; a field that none of them reads is not needed."""
    folder: Path = ROOT / "dmlpy/devices/cpu"
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in [*folder.glob("recurrent/*kernels.py"), folder / "thread_pool_kernels.py"]
    )
    read = set(re.findall(r"\b(?:p|matrix)\.(\w+)\b", sources)) | {"ticket", "done", "constants"}
    assert [name for name in struct.dtype.names or () if name not in read] == []
    assert all(text.strip() for text in struct.texts.values())
