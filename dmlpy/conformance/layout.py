"""The C structs of directml.h for descs, in the layout of 64-bit Windows: members in the order of the classes, pointers to what they hold.

The alignment rules of C are those of ctypes, and the types used here (no `long`, no bit field) have the same size on 64-bit Windows and
Linux. The tests compare every member with structs that a C++ compiler lays out from `tests/facts`.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

from dmlpy.conformance.operator_numbers import OPERATOR_NUMBERS
from dmlpy.description.coercion import Signed, brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, DmlEnum, TensorType
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.messages.naming import c_member
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INT, UINT, UINT64, FLOAT, BOOL = ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_float, ctypes.c_int32
ENUM = ctypes.c_int32
_RANGES = {INT: (-(2**31), 2**31 - 1), UINT: (0, 2**32 - 1), UINT64: (0, 2**64 - 1)}

Fields = list[tuple[str, Any]]


class OperatorStruct(ctypes.Structure):
    """DML_OPERATOR_DESC. One that `operator_struct` made keeps all memory alive that it points to."""

    _fields_: ClassVar[Fields] = [("Type", ENUM), ("Desc", ctypes.c_void_p)]
    kept: list[Any]


class TensorStruct(ctypes.Structure):
    """DML_TENSOR_DESC."""

    _fields_: ClassVar[Fields] = [("Type", ENUM), ("Desc", ctypes.c_void_p)]


class BufferTensorStruct(ctypes.Structure):
    """DML_BUFFER_TENSOR_DESC."""

    _fields_: ClassVar[Fields] = [
        ("DataType", ENUM),
        ("Flags", ENUM),
        ("DimensionCount", UINT),
        ("Sizes", ctypes.c_void_p),
        ("Strides", ctypes.c_void_p),
        ("TotalTensorSizeInBytes", UINT64),
        ("GuaranteedBaseOffsetAlignment", UINT),
    ]


class ScaleBiasStruct(ctypes.Structure):
    """DML_SCALE_BIAS."""

    _fields_: ClassVar[Fields] = [("Scale", FLOAT), ("Bias", FLOAT)]


class Size2DStruct(ctypes.Structure):
    """DML_SIZE_2D."""

    _fields_: ClassVar[Fields] = [("Width", UINT), ("Height", UINT)]


def operator_struct(desc: OperatorDesc) -> OperatorStruct:
    """The DML_OPERATOR_DESC of a desc, with everything that it points to.

    Raises:
        DescError: DirectML lacks the operator, or the C structs cannot hold the desc: a number is out of range, or arrays with a common
            count differ in length.
    """
    if desc.type_name not in OPERATOR_NUMBERS:
        raise DescError(desc.c_name, [Problem("operator.unknown", "type", desc.type_name, "an operator of directml.h")])
    writer = _Writer(desc.c_name)
    struct = writer.operator(desc, "")
    if writer.problems:
        raise DescError(desc.c_name, writer.problems)
    struct.kept = writer.kept
    return struct


@cache
def struct_of(kind: type[OperatorDesc]) -> type[ctypes.Structure]:
    """The C struct of an operator's class: `DML_RNN_OPERATOR_DESC`."""
    return type(kind.c_name, (ctypes.Structure,), {"_fields_": list(_c_fields(kind))})


def _c_fields(kind: type[OperatorDesc]) -> Iterator[tuple[str, Any]]:
    counts = kind.counts_before()
    for name in kind.model_fields:
        if name in counts:
            yield counts[name], UINT
        yield c_member(name), _c_type(kind, name)


def _c_type(kind: type[OperatorDesc], name: str) -> Any:
    """The C type of a member; every pointer is a `c_void_p`."""
    if name in kind.scalars:
        return UINT64  # DML_SCALAR_UNION: 8 bytes, aligned as its largest member
    annotation = kind.model_fields[name].annotation
    if get_origin(annotation) is tuple or type(None) in get_args(annotation) or annotation is TensorDesc:
        return ctypes.c_void_p
    assert isinstance(annotation, type), f"{kind.__name__}.{name} has no C type"
    if issubclass(annotation, Size2D):
        return Size2DStruct
    if issubclass(annotation, DmlEnum):
        return ENUM
    return {bool: BOOL, float: FLOAT, int: _integer(kind, name)}[annotation]


def _integer(kind: type[OperatorDesc], name: str) -> Any:
    return INT if any(isinstance(mark, Signed) for mark in kind.model_fields[name].metadata) else UINT


class _Writer:
    """Writes a desc into C structs.

    Attributes:
        problems: the members that the structs cannot hold.
        kept: the memory that pointers lead to.
    """

    def __init__(self, struct_name: str) -> None:
        self.struct_name = struct_name
        self.problems: list[Problem] = []
        self.kept: list[Any] = []

    def operator(self, desc: OperatorDesc, place: str) -> OperatorStruct:
        members = struct_of(type(desc))()
        self._counts(desc, members, place)
        for name in type(desc).model_fields:
            setattr(members, c_member(name), self._member(desc, name, f"{place}{name}"))
        return OperatorStruct(OPERATOR_NUMBERS[desc.type_name], self._address(members))

    def _counts(self, desc: OperatorDesc, members: ctypes.Structure, place: str) -> None:
        lengths: dict[str, dict[str, int]] = {}
        for name, count in desc.counted_members().items():
            lengths.setdefault(count, {})[name] = len(getattr(desc, name) or ())
        for count, counted in lengths.items():
            if len(set(counted.values())) > 1:
                actual = ", ".join(f"{name} has {length}" for name, length in counted.items())
                self._problem("count.length", f"{place}{next(iter(counted))}", actual, f"one length, which {count} holds")
            setattr(members, count, next(iter(counted.values())))

    def _member(self, desc: OperatorDesc, name: str, place: str) -> Any:
        value = getattr(desc, name)
        if value is None:
            return None
        if name in desc.scalars:
            return self._scalar(value, self._scalar_type(desc, name), place)
        if isinstance(value, TensorDesc):
            return self._address(self._tensor(value, place))
        if isinstance(value, OperatorDesc):
            return self._address(self.operator(value, f"{place}."))
        if isinstance(value, ScaleBias):
            return self._address(ScaleBiasStruct(self._float(value.scale, place), self._float(value.bias, place)))
        if isinstance(value, Size2D):
            return Size2DStruct(self._number(UINT, value.width, place), self._number(UINT, value.height, place))
        if isinstance(value, tuple):
            return self._entries(value, _integer(type(desc), name), place)
        if isinstance(value, float):
            return self._float(value, place)
        return int(value) if isinstance(value, bool | DmlEnum) else self._number(_integer(type(desc), name), value, place)

    def _entries(self, values: Sequence[Any], integer: Any, place: str) -> int | None:
        """The address of an array; null if it is empty."""
        if not values:
            return None
        first = values[0]
        if isinstance(first, TensorDesc):
            tensors = [self._tensor(value, f"{place}[{index}]") for index, value in enumerate(values)]
            return self._address((TensorStruct * len(values))(*tensors))
        if isinstance(first, OperatorDesc):
            operators = [self.operator(value, f"{place}[{index}].") for index, value in enumerate(values)]
            return self._address((OperatorStruct * len(values))(*operators))
        if isinstance(first, float):
            return self._address((FLOAT * len(values))(*(self._float(value, place) for value in values)))
        return self._numbers(integer, values, place)

    def _tensor(self, tensor: TensorDesc, place: str) -> TensorStruct:
        if tensor.strides is not None and len(tensor.strides) != len(tensor.sizes):
            actual = f"sizes has {len(tensor.sizes)}, strides has {len(tensor.strides)}"
            self._problem("count.length", f"{place}.strides", actual, "one length, which DimensionCount holds")
        members = BufferTensorStruct(
            tensor.data_type,
            tensor.flags,
            len(tensor.sizes),
            self._numbers(UINT, tensor.sizes, f"{place}.sizes"),
            None if tensor.strides is None else self._numbers(UINT, tensor.strides, f"{place}.strides"),
            self._number(UINT64, tensor.size_in_bytes, f"{place}.total_tensor_size_in_bytes"),
            self._number(UINT, tensor.guaranteed_base_offset_alignment, f"{place}.guaranteed_base_offset_alignment"),
        )
        return TensorStruct(TensorType.BUFFER, self._address(members))

    def _numbers(self, kind: Any, values: Sequence[int], place: str) -> int:
        return self._address((kind * len(values))(*(self._number(kind, value, f"{place}[{at}]") for at, value in enumerate(values))))

    def _number(self, kind: Any, value: int, place: str) -> int:
        least, most = _RANGES[kind]
        if least <= value <= most:
            return value
        self._problem("field.form", place, brief(value), f"{least} to {most}")
        return 0

    def _float(self, value: float, place: str) -> float:
        try:
            struct.pack("<f", value)
        except OverflowError:
            self._problem("field.form", place, brief(value), "a 32-bit float")
            return 0.0
        return value

    def _scalar(self, value: float, data_type: DataType, place: str) -> int:
        """The 8 bytes of a DML_SCALAR_UNION as a number: the value in the element type, then zeros."""
        dtype = (DataType.FLOAT32 if data_type is DataType.UNKNOWN else data_type).unpacked
        try:
            if dtype.kind == "f":
                packed = struct.pack(f"<{dtype.char}", value)
            elif isinstance(value, float) and not value.is_integer():
                raise ValueError("a fraction")  # NaN and infinities among them
            else:
                packed = int(value).to_bytes(dtype.itemsize, "little", signed=dtype.kind == "i")
        except (OverflowError, ValueError):
            self._problem("field.form", place, brief(value), f"a number of type {data_type}")
            return 0
        return int.from_bytes(packed, "little")

    @staticmethod
    def _scalar_type(desc: OperatorDesc, name: str) -> DataType:
        """The element type of a DML_SCALAR_UNION: an attribute, or the type of a tensor."""
        companion = getattr(desc, desc.scalars[name])
        if isinstance(companion, DataType):
            return companion
        return companion.data_type if isinstance(companion, TensorDesc) else DataType.UNKNOWN

    def _address(self, memory: Any) -> int:
        self.kept.append(memory)
        return ctypes.addressof(memory)

    def _problem(self, code: str, place: str, actual: str, expected: str) -> None:
        self.problems.append(Problem(code, place, actual, expected, ("the C struct cannot hold it",)))
