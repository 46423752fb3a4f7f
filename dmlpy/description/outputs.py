"""`Outputs`: the outputs of one call of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.naming import c_member

if TYPE_CHECKING:
    from dmlpy.messages.tables import Table


class Outputs:
    """The outputs of one call, by field name in either spelling; iterates over them in the struct's order.

    An array of tensors is a tuple of arrays.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        for field, value in values.items():
            if name in (field, c_member(field)):
                return value
        raise AttributeError(f"no output {name!r}: the desc describes {', '.join(values)}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def as_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def _repr_html_(self) -> str:
        return _table(self._values).to_html()

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self._values)})"


_SHOWN = 4
"""The number of values that are shown of an array."""


def _table(outputs: Mapping[str, Any]) -> Table:
    """A table with one row per array: name, type, sizes, and the first values if it is in host memory."""
    from dmlpy.messages.tables import Table

    rows: list[tuple[str, ...]] = []
    for name, value in outputs.items():
        places = enumerate(value) if isinstance(value, tuple) else [(None, value)]
        rows += [_row(name if index is None else f"{name}[{index}]", item) for index, item in places]
    return Table("Outputs", ("name", "type", "sizes", "values"), tuple(rows))


def _row(name: str, value: Any) -> tuple[str, ...]:
    array = getattr(value, "array", value)  # a reserve holds one
    found = [str(getattr(array, member, "")) for member in ("dtype", "shape")]
    if array is not value:
        return name, *found, "a reserve"
    if not isinstance(array, np.ndarray):
        return name, *found, f"of type {type(array).__name__}"
    shown = [f"{item:.6g}" if array.dtype.kind == "f" else str(item) for item in array.flat[:_SHOWN]]
    return name, *found, ", ".join([*shown, *(["..."] if array.size > _SHOWN else [])])
