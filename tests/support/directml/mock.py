"""The mock library, compiled by g++, and the functions that decide for it: dmlpy's check and reference in the place of DirectML's."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import dmlpy as dml
from dmlpy.conformance.com import S_OK
from dmlpy.conformance.layout import OperatorStruct
from dmlpy.conformance.libraries import Libraries
from dmlpy.conformance.values import from_bytes, to_bytes
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.emulation.compiler import compile_program
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import c_member
from dmlpy.messages.problems import only_errors
from tests.support.directml.declarations import declarations

HERE = Path(__file__).parent
BEHAVIOUR = "DMLPY_TEST_DIRECTML_BEHAVIOUR"
"""The environment variable that holds the mock's behaviour as JSON: the keys of `DEFAULTS`."""
DEFAULTS: Mapping[str, Any] = {
    "max_level": "6_4",
    "warp": True,
    "debug_layer": False,
    "old": False,
    "refuses": [],
    "accepts": [],
    "crashes": [],
    "hangs": [],
    "wrong_results": [],
    "removes": [],
}
"""The highest level; whether there is a software adapter, a debug layer, no DMLCreateDevice1. The lists hold parts of descs' JSON, like
`operator("RNN")`: such descs are refused, accepted, end the process, never get an answer, give other results, or remove the device when
they run."""


def operator(name: str) -> str:
    """The part of an operator's JSON that only it has."""
    return f'"Type":"DML_OPERATOR_{name}"'


class Settings(ctypes.Structure):
    """What `mock_set` takes."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("judge", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p)),
        ("compute", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)),
        ("max_level", ctypes.c_int32),
        ("has_warp", ctypes.c_int32),
        ("has_debug_layer", ctypes.c_int32),
    ]


@cache
def library() -> ctypes.CDLL:
    """The compiled library."""
    parts = [declarations(), *((HERE / name).read_text("utf-8") for name in ("describe.h", "mock.cpp"))]
    found = ctypes.CDLL(str(compile_program("\n".join(parts), ("-std=c++20", "-O0", "-shared", "-fPIC", "-Wall"))))
    found.mock_describe.argtypes, found.mock_describe.restype = (ctypes.c_void_p,), ctypes.c_char_p
    found.mock_violations.restype, found.mock_live_objects.restype = ctypes.c_char_p, ctypes.c_int64
    found.mock_size_of.argtypes, found.mock_size_of.restype = (ctypes.c_int,), ctypes.c_size_t
    return found


def described(struct: OperatorStruct) -> dict[str, Any]:
    """The members of a DML_OPERATOR_DESC as the C++ compiler finds them."""
    found: dict[str, Any] = json.loads(library().mock_describe(ctypes.addressof(struct)))
    return found


def desc_of(found: dict[str, Any]) -> dml.OperatorDesc:
    """The desc of the members that C++ found: the 8 bytes of a DML_SCALAR_UNION are a number of their companion's type."""
    kind = OPERATORS[found["Type"]]
    members = dict(found["Desc"])
    for name, companion in kind.scalars.items():
        spelled, of = (c_member(each) for each in (name, companion))
        told = members.get(of)
        number = told["DataType"] if isinstance(told, dict) else told or dml.DataType.FLOAT32
        members[spelled] = np.frombuffer(bytes(members[spelled]["Bytes"]), dml.DataType(number).unpacked)[0].item()
    return kind.from_dict({"Type": found["Type"], "Desc": members})


class Behaviour:
    """What the mock does where DirectML would decide; `violations` and live objects are read from the library."""

    def __init__(self, **changes: Any) -> None:
        self.options = {**DEFAULTS, **changes}
        self.level = dml.FeatureLevel.parse(self.options["max_level"])
        functions = dict(Settings._fields_)
        self._kept = functions["judge"](self._judge), functions["compute"](self._compute)
        self.settings = Settings(*self._kept, self.level, self.options["warp"], self.options["debug_layer"])

    def _is_listed(self, option: str, text: bytes) -> bool:
        return any(part.encode() in text for part in self.options[option])

    def _judge(self, text: bytes) -> int:
        if self._is_listed("crashes", text):
            os.abort()
        if self._is_listed("hangs", text):
            time.sleep(3600)
        if self._is_listed("refuses", text):
            return HResult.E_INVALIDARG
        if self._is_listed("accepts", text):
            return S_OK
        try:
            problems = dml.check(desc_of(json.loads(text)), self.level)
        except dml.DescError:
            return HResult.E_INVALIDARG
        return HResult.E_INVALIDARG if only_errors(problems) else S_OK

    def _compute(self, text: bytes, inputs: int, outputs: int) -> int:
        if self._is_listed("removes", text):
            return HResult.DXGI_ERROR_DEVICE_REMOVED
        desc = desc_of(json.loads(text))
        given = {}
        for slot, address in zip(desc.input_slots(), _addresses(inputs, len(desc.input_slots())), strict=True):
            if slot.tensor is not None:
                given[slot.place] = from_bytes(slot.tensor, ctypes.string_at(address, slot.tensor.extent_in_bytes))
        results = dml.reference(desc, given).as_dict()
        for slot, address in zip(desc.output_slots(), _addresses(outputs, len(desc.output_slots())), strict=True):
            if slot.tensor is not None:
                value = results[slot.field.name]
                value = value if slot.index is None else value[slot.index]
                if self._is_listed("wrong_results", text):
                    value = value + 1
                ctypes.memmove(address, to_bytes(slot.tensor, value), slot.tensor.extent_in_bytes)
        return S_OK

    def libraries(self) -> Libraries:
        """The mock in the place of Windows' libraries, with this behaviour."""
        mock = library()
        mock.mock_set(ctypes.byref(self.settings))
        known: Any = Without(mock, "DMLCreateDevice1") if self.options["old"] else mock
        return Libraries(known, known, known, "mock.dll", "1.2.3.4", "Linux")


class Without:
    """A library without one of its functions."""

    def __init__(self, found: ctypes.CDLL, name: str) -> None:
        self._library, self._name = found, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._library, name)


def _addresses(array: int, count: int) -> list[int]:
    return [item or 0 for item in (ctypes.c_void_p * count).from_address(array)] if count else []


def take_violations() -> str:
    """What real interfaces would not allow, since the last call."""
    found: bytes = library().mock_violations()
    library().mock_reset()
    return found.decode()


_running: list[Behaviour] = []


def libraries(dll: Path | None) -> Libraries:
    """What `DMLPY_TEST_DIRECTML` names; the behaviour is that of the environment."""
    _running.append(Behaviour(**json.loads(os.environ.get(BEHAVIOUR, "{}"))))
    return _running[-1].libraries()
