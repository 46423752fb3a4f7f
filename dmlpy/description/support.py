"""The element types and dimension counts that an operator accepts, by feature level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.messages.naming import alternatives

TypeSet = frozenset[DataType]


def types(*names: str) -> TypeSet:
    """Builds a set of element types from their short names."""
    return frozenset(DataType[name] for name in names)


FLOATS = types("FLOAT32", "FLOAT16")
FLOAT32 = types("FLOAT32")
UINT8 = types("UINT8")
UINT32 = types("UINT32")
UINT64 = types("UINT64")
INT8 = types("INT8")
INT32 = types("INT32")
BYTES = types("UINT8", "INT8")
UNSIGNED_TO_32 = types("UINT32", "UINT16", "UINT8")
UNSIGNED_TO_64 = UNSIGNED_TO_32 | UINT64
SIGNED_TO_32 = types("INT32", "INT16", "INT8")
SIGNED_TO_64 = SIGNED_TO_32 | types("INT64")
INTEGERS_TO_32 = SIGNED_TO_32 | UNSIGNED_TO_32
INTEGERS_TO_64 = SIGNED_TO_64 | UNSIGNED_TO_64
INTEGERS_OF_32 = types("INT32", "UINT32")
INTEGERS_32_AND_64 = types("INT64", "INT32", "UINT64", "UINT32")
UNSIGNED_32_AND_64 = UINT32 | UINT64
FLOATS_BYTES = FLOATS | BYTES
FLOATS_INTEGERS_OF_32 = FLOATS | INTEGERS_OF_32
FLOATS_INTEGERS_32_AND_64 = FLOATS | INTEGERS_32_AND_64
FLOATS_SIGNED_TO_32 = FLOATS | SIGNED_TO_32
FLOATS_SIGNED_TO_64 = FLOATS | SIGNED_TO_64
FLOATS_INTEGERS_TO_32 = FLOATS | INTEGERS_TO_32
FLOATS_INTEGERS_TO_64 = FLOATS | INTEGERS_TO_64
ALL_BUT_4_BITS = FLOATS_INTEGERS_TO_64 | types("FLOAT64")
INT4_TYPES = types("UINT4", "INT4")


def show(types: TypeSet) -> str:
    """Formats the types in the header's order: `FLOAT32 or FLOAT16`."""
    return alternatives(sorted(types))


def show_span(dims: tuple[int, int]) -> str:
    """Formats the fewest and the most dimensions: `4`, `2 to 4`."""
    least, most = dims
    return str(least) if least == most else f"{least} to {most}"


def show_dims(dims: tuple[int, int]) -> str:
    """Formats the dimension counts with the noun: `1 dimension`, `2 to 4 dimensions`."""
    return f"{show_span(dims)} dimension{'' if dims == (1, 1) else 's'}"


@dataclass(frozen=True, init=False)
class SupportRow:
    """One row of a support table: it applies from `level` on, until a row of a higher level replaces it.

    Attributes:
        level: the feature level that brought the row.
        dims: least and most dimensions of every tensor that `dims_of` does not name.
        types: element types by type variable (`T`), of the tensors whose marker names no types.
        dims_of: least and most dimensions of single tensors, by field.
        when: the values of an attribute for which the row holds, by attribute; empty if it holds for all. Rows of equal `when` replace
            each other.
    """

    level: FeatureLevel
    dims: tuple[int, int]
    types: dict[str, TypeSet] = field(hash=False)
    dims_of: dict[str, tuple[int, int]] = field(hash=False)
    when: dict[str, tuple[Any, ...]] = field(hash=False)

    def __init__(
        self,
        level: str,
        *,
        dims: int | tuple[int, int],
        dims_of: Mapping[str, int | tuple[int, int]] | None = None,
        when: Mapping[str, tuple[Any, ...]] | None = None,
        **types: TypeSet,
    ) -> None:
        object.__setattr__(self, "level", FeatureLevel.parse(level))
        object.__setattr__(self, "dims", _span(dims))
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "dims_of", {name: _span(dims_of_tensor) for name, dims_of_tensor in (dims_of or {}).items()})
        object.__setattr__(self, "when", dict(when or {}))

    def dims_for(self, name: str) -> tuple[int, int]:
        """The fewest and the most dimensions of a tensor field."""
        return self.dims_of.get(name, self.dims)

    def types_for(self, types: TypeSet | str) -> TypeSet:
        """The element types of a marker's `types`, which are a set or the name of a type variable."""
        return self.types[types] if isinstance(types, str) else types

    def applies_to(self, desc: Any) -> bool:
        """Returns whether the row applies to a desc with these attributes."""
        return all(getattr(desc, name) in values for name, values in self.when.items())


def _span(dims: int | tuple[int, int]) -> tuple[int, int]:
    return (dims, dims) if isinstance(dims, int) else dims


def row_at(support: Iterable[SupportRow], level: FeatureLevel) -> SupportRow:
    """The row that applies at a level; below the lowest level, the first row."""
    ordered = sorted(support, key=lambda row: row.level)
    return next((row for row in reversed(ordered) if row.level <= level), ordered[0])


def level_for(support: Iterable[SupportRow], above: FeatureLevel, accepts: Callable[[SupportRow], bool]) -> FeatureLevel | None:
    """The lowest level above the given one whose row satisfies a predicate."""
    return next((row.level for row in sorted(support, key=lambda row: row.level) if row.level > above and accepts(row)), None)
