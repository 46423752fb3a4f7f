"""Structs that plans fill and compiled kernels read: each field has a unit and a line of documentation.

    class Copy(KernelStruct):
        source: Address = field("the first element")
        row: Bytes = field("from a row to the next")
        rows: Count = field("how many there are")

The class has the structured type (`dtype`), makes filled structs (`make`), and gives its fields' names to type checkers: a kernel that
views memory as a `Copy` (`simd.struct_view`) has `p: Copy`. A field that is not set is 0, the null address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from dmlpy.devices.cpu.jit import make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, np.dtype[Any]]

Address: TypeAlias = int
"""An address in memory; 0 for none."""
Bytes: TypeAlias = int
"""A distance or size in bytes."""
Count: TypeAlias = int
"""A number of things, or the number of one."""
Flag: TypeAlias = int
"""0 is false."""
Float32: TypeAlias = float
Float64: TypeAlias = float

_TYPES = {
    "Address": np.int64,
    "Bytes": np.int64,
    "Count": np.int64,
    "Flag": np.int64,
    "Float32": np.float32,
    "Float64": np.float64,
}


class _Field(NamedTuple):
    text: str
    values: int


def field(text: str, *, count: int = 0) -> Any:
    """A field of a `KernelStruct`.

    Args:
        text: its documentation.
        count: the number of values of an array; 0 for a single value.
    """
    return _Field(text, count)


class KernelStruct:
    """A struct of parameters. Fields of a base class come first.

    Attributes:
        dtype: the structured type.
        texts: the fields' documentation, by name.
    """

    dtype: ClassVar[np.dtype[np.void]] = np.dtype([])
    texts: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        kinds = [(name, _TYPES[cls.__annotations__[name]], *([(value.values,)] if value.values else [])) for name, value in own.items()]
        cls.dtype = np.dtype([*((name, cls.dtype[name]) for name in cls.dtype.names or ()), *kinds])
        cls.texts = cls.texts | {name: value.text for name, value in own.items()}
        for name in own:
            delattr(cls, name)

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Array:
        """A struct in an array of its own, with the values of some fields and zeros in the others."""
        return make_struct(cls.dtype, values)


class StagedParameters(KernelStruct):
    """The parameters of `thread_pool_kernels.acquire`."""

    acquire: Address = field("what `thread_pool_kernels.build_acquire` gives")
    steal_timeout: Count = field("nanoseconds that a thread waits before it computes a tile again that another has acquired")


class CountedParameters(KernelStruct):
    """The state that `thread_pool_kernels.first_tile` and `next_tile` read and write."""

    ticket: Count = field("the launch's epoch and the next tile")
    done: Count = field("how many tiles are done")
    tiles: Count = field("how many tiles there are")
