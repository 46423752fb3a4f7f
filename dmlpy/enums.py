"""The enumerations of directml.h: members, numbers and every accepted spelling.

A member is named like in directml.h without the prefix (`DML_TENSOR_DATA_TYPE_FLOAT32` is `DataType.FLOAT32`) and has
the header's number. Wherever a member is expected, its name is accepted too: short or with the prefix, in any case.
"""

from __future__ import annotations

import enum
import re
from functools import cached_property
from typing import Any, Self

import numpy as np


class DmlEnum(enum.IntEnum):
    """An enumeration of directml.h. `str()` gives the short name, `c_name` the name in the header."""

    def __init_subclass__(cls, prefix: str = "") -> None:
        cls._c_prefix = prefix  # type: ignore[attr-defined]

    @classmethod
    def prefix(cls) -> str:
        """What the header puts before every member's name."""
        return cls._c_prefix  # type: ignore[attr-defined, no-any-return]

    @property
    def c_name(self) -> str:
        """The member's name in directml.h."""
        return self.prefix() + str(self)

    @classmethod
    def spellings(cls) -> list[str]:
        """The short names that users may write, in the header's order."""
        return [str(member) for member in cls if member.name not in ("UNKNOWN", "INVALID")]

    @classmethod
    def parse(cls, value: Any) -> Self:
        """The member that a member, a name (short or long, any case) or the header's number stands for.

        Raises:
            ValueError: the text says which names exist.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            name = value.strip().upper().removeprefix(cls.prefix())
            for member in cls:
                if str(member).upper() == name:
                    return member
        elif isinstance(value, int | np.integer) and not isinstance(value, bool | enum.Enum):
            try:
                return cls(int(value))
            except ValueError:
                pass
        raise ValueError(f"expected one of {', '.join(cls.spellings())}")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class DataType(DmlEnum, prefix="DML_TENSOR_DATA_TYPE_"):
    """DML_TENSOR_DATA_TYPE: the type of a tensor's elements."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @cached_property
    def bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN. Two elements of a 4-bit type share a byte."""
        digits = re.search(r"\d+$", self.name)
        return int(digits[0]) if digits else 0

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the same elements.

        Raises:
            TypeError: NumPy has none (UNKNOWN and the 4-bit types).
        """
        if self.bits < 8:
            raise TypeError(f"NumPy has no type for {self}")
        return np.dtype(self.name.lower())

    @classmethod
    def of(cls, dtype: Any) -> DataType:
        """The type of a NumPy dtype's elements.

        Raises:
            TypeError: DirectML has no such type (bool, complex, bfloat16, big-endian, ...).
        """
        dtype = np.dtype(dtype)
        name = dtype.name.upper()
        # Other libraries' types bear these names too: ml_dtypes keeps an int4 in a byte of its own.
        if name in cls.__members__ and dtype.isnative and cls[name].bits == 8 * dtype.itemsize:
            return cls[name]
        raise TypeError(f"DirectML has no tensor type for NumPy's {dtype!s}")


class TensorType(DmlEnum, prefix="DML_TENSOR_TYPE_"):
    """DML_TENSOR_TYPE: only buffers exist."""

    INVALID = 0
    BUFFER = 1


class TensorFlags(DmlEnum, prefix="DML_TENSOR_FLAG_"):
    """DML_TENSOR_FLAGS: OWNED_BY_DML hands an input's memory to the operator at initialisation."""

    NONE = 0
    OWNED_BY_DML = 1


class RecurrentDirection(DmlEnum, prefix="DML_RECURRENT_NETWORK_DIRECTION_"):
    """DML_RECURRENT_NETWORK_DIRECTION: the order in which the steps of a sequence are walked."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2

    @property
    def count(self) -> int:
        """How many walks there are: 2 for BIDIRECTIONAL (forward first), else 1."""
        return 2 if self is RecurrentDirection.BIDIRECTIONAL else 1


class CudnnEnum(DmlEnum):
    """An attribute of TensorFlow's CudnnRNN operators: `str()` and `c_name` give the text that they take."""

    @property
    def c_name(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.name.lower()


class RnnMode(CudnnEnum):
    """The cell of a stacked network."""

    RNN_RELU = 0
    RNN_TANH = 1
    LSTM = 2
    GRU = 3


class RnnInputMode(CudnnEnum):
    """What the first layer does with its input: a matrix product, nothing, or nothing where the sizes allow it."""

    LINEAR_INPUT = 0
    SKIP_INPUT = 1
    AUTO_SELECT = 2


class RnnDirection(CudnnEnum):
    """Whether each layer has a second walk from the end."""

    UNIDIRECTIONAL = 0
    BIDIRECTIONAL = 1

    @property
    def count(self) -> int:
        """How many walks a layer has."""
        return 2 if self is RnnDirection.BIDIRECTIONAL else 1


class DataFormat(DmlEnum):
    """The order of a tensor's sizes, as TensorFlow names it: N batch, D depth, H height, W width, C channels."""

    NHWC = 0
    NCHW = 1
    NDHWC = 2
    NCDHW = 3


class FeatureLevel(DmlEnum, prefix="DML_FEATURE_LEVEL_"):
    """DML_FEATURE_LEVEL: what a version of DirectML offers; each level contains all lower ones. `str()` gives `5_0`."""

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Also takes `"5.0"` and the member names."""
        if isinstance(value, str):
            value = value.strip().upper().replace(".", "_").removeprefix("FL_")
        return super().parse(value)

    @property
    def directml_version(self) -> str:
        """The first release of DirectML that has this level."""
        return _DIRECTML_VERSIONS[self]

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")


_DIRECTML_VERSIONS = dict(
    zip(
        FeatureLevel,
        (f"1.{minor}.0" for minor in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 15)),
        strict=True,
    )
)


class HResult(enum.IntEnum):
    """The COM results that DirectML answers with, for code that speaks its language."""

    E_INVALIDARG = 0x80070057
    E_OUTOFMEMORY = 0x8007000E
    E_NOTIMPL = 0x80004001
    DXGI_ERROR_UNSUPPORTED = 0x887A0004
    DXGI_ERROR_DEVICE_REMOVED = 0x887A0005
