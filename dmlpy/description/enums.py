"""The enumerations of directml.h: members, numbers and all accepted spellings.

A member is named like in directml.h without the prefix (`DML_TENSOR_DATA_TYPE_FLOAT32` is `DataType.FLOAT32`) and has
the header's number. Wherever a member is expected, its name is accepted too: short or with the prefix, in any case.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, cached_property, lru_cache, reduce
from operator import or_
from typing import Any, Self

import numpy as np


class SpellingError(ValueError):
    """Raised for a spelling that no member of an enumeration, or flag, has.

    Attributes:
        prefix: the header's prefix of the names that the text lists.
    """

    def __init__(self, kind: type[DmlEnum | DmlFlags], more: str = "") -> None:
        super().__init__(f"expected one of {', '.join(kind.spellings())}{more}")
        self.prefix = kind.prefix()


class _OfHeader:
    """The base of the header's enumerations and flags, whose names have a prefix."""

    def __init_subclass__(cls, prefix: str = "") -> None:
        cls._c_prefix = prefix  # type: ignore[attr-defined]

    @classmethod
    def prefix(cls) -> str:
        """The prefix of every member's name in the header."""
        return cls._c_prefix  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def type_name(cls) -> str:
        """The enumeration's name in directml.h: its members' prefix, except that flags are named in the plural."""
        name = cls.prefix().removesuffix("_")
        return name + "S" if name.endswith("_FLAG") else name


class DmlEnum(_OfHeader, enum.IntEnum):
    """An enumeration of directml.h. `str()` gives the short name, `c_name` the name in the header."""

    @property
    def c_name(self) -> str:
        """The member's name in directml.h."""
        return self.prefix() + str(self)

    @classmethod
    def spellings(cls) -> list[str]:
        """The short names that users may write, in the header's order."""
        return [str(member) for member in cls if member.name not in ("UNKNOWN", "INVALID")]

    @classmethod
    @cache
    def _named(cls) -> dict[str, Self]:
        """The members by their short names in upper case."""
        return {str(member).upper(): member for member in reversed(cls)}

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Parses a member, a name (short or long, in any case) or the header's number.

        Raises:
            SpellingError: the message lists the names.
        """
        try:
            if isinstance(value, cls):
                return value
            if isinstance(value, str):
                return cls._named()[value.strip().upper().removeprefix(cls.prefix())]
            elif isinstance(value, int | np.integer) and not isinstance(value, bool | enum.Enum):
                return cls(int(value))
        except Exception:  # no such member, or a caller's object whose methods raise anything
            pass
        raise SpellingError(cls)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class DmlFlags(_OfHeader, enum.IntFlag, boundary=enum.STRICT):
    """Flags of directml.h, combined by `|`. `str()` gives the short names, `A|B`."""

    @property
    def c_name(self) -> str:
        """The names in directml.h, as C combines them."""
        return "|".join(self.prefix() + name for name in str(self).split("|"))

    @classmethod
    def spellings(cls) -> list[str]:
        """The short names that users may write, in the header's order."""
        return list(cls.__members__)

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Parses flags, a name (short or long, in any case), several names joined by `|`, a number, or a sequence of these.

        Raises:
            SpellingError: the message lists the names.
        """
        try:
            if isinstance(value, list | tuple | set | frozenset):
                return cls._all(map(cls._one, value))  # of which none is a sequence: they could be within each other without end
            return cls._one(value)
        except Exception:  # no such flags, or a caller's object whose methods raise anything
            raise SpellingError(cls, ", or several of them") from None

    @classmethod
    def _one(cls, value: Any) -> Self:
        """Parses a value that is not a sequence; its errors have no message."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            names = (name.strip().upper().removeprefix(cls.prefix()) for name in value.split("|"))
            return cls._all(cls[name] for name in names)
        if isinstance(value, int | np.integer) and not isinstance(value, bool | enum.Enum) and value >= 0:
            return cls(int(value))
        raise TypeError

    @classmethod
    def _all(cls, flags: Iterable[Self]) -> Self:
        return reduce(or_, flags, cls(0))

    def __str__(self) -> str:
        return self.name or ""

    def __repr__(self) -> str:
        return " | ".join(f"{type(self).__name__}.{name}" for name in str(self).split("|"))


class DataType(DmlEnum, prefix="DML_TENSOR_DATA_TYPE_"):
    """DML_TENSOR_DATA_TYPE: the type of a tensor's elements.

    BFLOAT16 is dmlpy's own: no feature level of DirectML has it (`dmlpy.description.bfloat16`).
    """

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
    # DirectML has no such type. Its numbers count up from 0, and ONNX's of this type is 16: none of theirs is so large.
    BFLOAT16 = 0x10000

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Parses as every enumeration does, and also accepts NumPy's types (`numpy.float32`, `numpy.dtype("f4")`).

        Raises:
            ValueError: the message lists the names.
        """
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            with suppress(TypeError):
                return cls(cls.of(value))
        return super().parse(value)

    @cached_property
    def bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN. Two elements of a 4-bit type share a byte."""
        digits = re.search(r"\d+$", self.name)
        return int(digits[0]) if digits else 0

    @cached_property
    def introduced(self) -> FeatureLevel | None:
        """The feature level that introduced the type; None for UNKNOWN and BFLOAT16, which no level has."""
        if self in (DataType.UNKNOWN, DataType.BFLOAT16):
            return None
        if self.bits == 4:
            return FeatureLevel.FL_6_3
        return FeatureLevel.FL_3_0 if self.bits == 64 else FeatureLevel.FL_1_0

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the same elements.

        Raises:
            TypeError: NumPy has none (UNKNOWN and the 4-bit types).
            ModuleNotFoundError: that of BFLOAT16 is in the package ml_dtypes, which is not installed.
        """
        if self.bits < 8:
            raise TypeError(f"NumPy has no type for {self}")
        if self is DataType.BFLOAT16:
            from dmlpy.description.bfloat16_numbers import numpy_type

            return numpy_type()
        return np.dtype(self.name.lower())

    @cached_property
    def unpacked(self) -> np.dtype[Any]:
        """The NumPy type of single elements: `numpy`, and for a 4-bit type a byte each, int8 or uint8.

        Raises:
            TypeError: NumPy has none (UNKNOWN).
        """
        return np.dtype(self.name.lower().replace("4", "8")) if self.bits == 4 else self.numpy

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type."""
        return (0, 2**self.bits - 1) if self.name.startswith("UINT") else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    @classmethod
    def of(cls, dtype: Any) -> DataType:
        """The type of the elements of a NumPy dtype.

        Raises:
            TypeError: DirectML has no such type (bool, complex, big-endian, ...).
        """
        return _type_of(np.dtype(dtype))


@lru_cache(64)
def _type_of(dtype: np.dtype[Any]) -> DataType:
    """See `DataType.of`: NumPy assembles the name of a type each time that it is asked for."""
    name = dtype.name.upper()
    # Other libraries use these names too: ml_dtypes stores each int4 in a whole byte.
    if name in DataType.__members__ and dtype.isnative and DataType[name].bits == 8 * dtype.itemsize:
        return DataType[name]
    raise TypeError(f"DirectML has no tensor type for NumPy's {dtype!s}")


class TensorType(DmlEnum, prefix="DML_TENSOR_TYPE_"):
    """DML_TENSOR_TYPE: only buffers exist."""

    INVALID = 0
    BUFFER = 1


class TensorFlags(DmlEnum, prefix="DML_TENSOR_FLAG_"):
    """DML_TENSOR_FLAGS: OWNED_BY_DML hands an input's memory to the operator at initialisation."""

    NONE = 0
    OWNED_BY_DML = 1


class ExecutionFlags(DmlFlags, prefix="DML_EXECUTION_FLAG_"):
    """DML_EXECUTION_FLAGS: the liberties and restrictions of an operator at execution.

    ALLOW_HALF_PRECISION_COMPUTATION lets a GPU round the factors of FLOAT32 matrix products and convolutions to TF32 (10 bits of
    mantissa), and the device `cpu` those of products to BFLOAT16 (7 bits); sums stay FLOAT32, and without the flag no product is
    rounded. DISABLE_META_COMMANDS and DESCRIPTORS_VOLATILE have no effect: there are no kernels of drivers, and every dispatch has its
    memory fixed.
    """

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class ReduceFunction(DmlEnum, prefix="DML_REDUCE_FUNCTION_"):
    """DML_REDUCE_FUNCTION: the function that reduces a group of elements to one value."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class MatrixTransform(DmlEnum, prefix="DML_MATRIX_TRANSFORM_"):
    """DML_MATRIX_TRANSFORM: whether a matrix is transposed before the multiplication."""

    NONE = 0
    TRANSPOSE = 1


class ConvolutionMode(DmlEnum, prefix="DML_CONVOLUTION_MODE_"):
    """DML_CONVOLUTION_MODE: CONVOLUTION flips the filter; CROSS_CORRELATION, which neural networks call convolution, does not."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(DmlEnum, prefix="DML_CONVOLUTION_DIRECTION_"):
    """DML_CONVOLUTION_DIRECTION: BACKWARD is the transposed convolution, the gradient for the input."""

    FORWARD = 0
    BACKWARD = 1


class PaddingMode(DmlEnum, prefix="DML_PADDING_MODE_"):
    """DML_PADDING_MODE: the values that padding holds; WRAP exists from feature level 6_4 on."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class InterpolationMode(DmlEnum, prefix="DML_INTERPOLATION_MODE_"):
    """DML_INTERPOLATION_MODE: the method of interpolating between samples."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class RecurrentDirection(DmlEnum, prefix="DML_RECURRENT_NETWORK_DIRECTION_"):
    """DML_RECURRENT_NETWORK_DIRECTION: the order in which the steps of a sequence are processed."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2

    @property
    def count(self) -> int:
        """The number of directions: 2 for BIDIRECTIONAL (forward first), else 1."""
        return 2 if self is RecurrentDirection.BIDIRECTIONAL else 1


class RoundingMode(DmlEnum, prefix="DML_ROUNDING_MODE_"):
    """DML_ROUNDING_MODE: TOWARD_INFINITY rounds to nearest with halves away from zero, despite its name."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


class IsInfinityMode(DmlEnum, prefix="DML_IS_INFINITY_MODE_"):
    """DML_IS_INFINITY_MODE: the infinities that are detected."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class AxisDirection(DmlEnum, prefix="DML_AXIS_DIRECTION_"):
    """DML_AXIS_DIRECTION: the order in which an axis is traversed; of equal values the first one in that order wins."""

    INCREASING = 0
    DECREASING = 1


class DepthSpaceOrder(DmlEnum, prefix="DML_DEPTH_SPACE_ORDER_"):
    """DML_DEPTH_SPACE_ORDER: the layout of blocks in the channels."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class RandomGeneratorType(DmlEnum, prefix="DML_RANDOM_GENERATOR_TYPE_"):
    """DML_RANDOM_GENERATOR_TYPE: the generator of random bits."""

    PHILOX_4X32_10 = 0


class MultiheadAttentionMaskType(DmlEnum, prefix="DML_MULTIHEAD_ATTENTION_MASK_TYPE_"):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE: the content of the mask tensor."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


class QuantizationType(DmlEnum, prefix="DML_QUANTIZATION_TYPE_"):
    """DML_QUANTIZATION_TYPE: the tensors that parametrize the quantization."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class Feature(DmlEnum, prefix="DML_FEATURE_"):
    """DML_FEATURE: the features that `check_feature_support` can query."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1


class GraphNodeType(DmlEnum, prefix="DML_GRAPH_NODE_TYPE_"):
    """DML_GRAPH_NODE_TYPE: the kind of a graph's node; CONSTANT exists from feature level 6_2 on."""

    INVALID = 0
    OPERATOR = 1
    CONSTANT = 2


class GraphEdgeType(DmlEnum, prefix="DML_GRAPH_EDGE_TYPE_"):
    """DML_GRAPH_EDGE_TYPE: the ends of a graph's edge: a graph input and a node, a node and a graph output, or two nodes."""

    INVALID = 0
    INPUT = 1
    OUTPUT = 2
    INTERMEDIATE = 3


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
    """The first layer's treatment of its input: a matrix product, none, or none where the sizes allow it."""

    LINEAR_INPUT = 0
    SKIP_INPUT = 1
    AUTO_SELECT = 2


class RnnDirection(CudnnEnum):
    """Whether each layer also processes the sequence backward."""

    UNIDIRECTIONAL = 0
    BIDIRECTIONAL = 1

    @property
    def count(self) -> int:
        """The number of directions of a layer."""
        return 2 if self is RnnDirection.BIDIRECTIONAL else 1


class DataFormat(DmlEnum):
    """The order of a tensor's sizes, as TensorFlow names it: N batch, D depth, H height, W width, C channels."""

    NHWC = 0
    NCHW = 1
    NDHWC = 2
    NCDHW = 3


class FeatureLevel(DmlEnum, prefix="DML_FEATURE_LEVEL_"):
    """DML_FEATURE_LEVEL: the features of a version of DirectML; each level includes all lower ones. `str()` gives `5_0`."""

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
        """Parses as every enumeration does, and also accepts `"5.0"`."""
        if isinstance(value, str):
            value = str.strip(value).upper().replace(".", "_").removeprefix("FL_")
        return super().parse(value)

    @property
    def directml_version(self) -> str:
        """The first release of DirectML that has this level."""
        return _DIRECTML_VERSIONS[self]

    @property
    def windows_version(self) -> str:
        """The first version of Windows that ships a DirectML of exactly this level; empty if only the redistributable package has it."""
        return _WINDOWS_VERSIONS.get(self.name, "")

    def __str__(self) -> str:
        return self.name.removeprefix("FL_")


def at_level(level: FeatureLevel | None) -> str:
    """A feature level in words: `at feature level 6_4`, or that there is none."""
    return "without a feature level" if level is None else f"at feature level {level}"


_DIRECTML_VERSIONS = dict(
    zip(
        FeatureLevel,
        (f"1.{minor}.0" for minor in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 15)),
        strict=True,
    )
)


_WINDOWS_VERSIONS = {
    "FL_1_0": "Windows 10 1903",
    "FL_2_0": "Windows 10 2004",
    "FL_4_0": "Windows 11 21H2",
    "FL_5_0": "Windows 11 22H2",
}
