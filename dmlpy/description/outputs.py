"""`Outputs`: the outputs of one call of an operator."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import c_member, did_you_mean

if TYPE_CHECKING:
    from dmlpy.messages.tables import Table


class Outputs:
    """The outputs of one call, by field name in either spelling: `y.output_tensor` or `y["output_tensor"]`.

    Iterates over the arrays in the struct's order; an array of tensors is a tuple of arrays.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        for field, value in values.items():
            if name in (field, c_member(field)):
                return value
        raise AttributeError(_unknown(name, values), name=name, obj=self)

    def __getitem__(self, name: str) -> Any:
        for field, value in self._values.items():
            if name in (field, c_member(field)):
                return value
        raise KeyError(_unknown(name, self._values))

    def keys(self) -> KeysView[str]:
        """The names of the outputs, so that `dict(y)` is possible."""
        return self._values.keys()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def as_dict(self) -> dict[str, Any]:
        """The arrays by name; changing the dict changes nothing here."""
        return dict(self._values)

    def _repr_html_(self) -> str:
        return _table(self._values).to_html()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return _table(self._values).to_text()


def _unknown(name: object, values: Mapping[str, Any]) -> str:
    hint = did_you_mean(name, values) if len(values) > 1 else None
    if name in ("items", "values", "get"):
        hint = f"as_dict().{name}(...) is a dict's"
    return f"no output {brief(name)}: the desc describes {', '.join(values)}{f'; {hint}' if hint else ''}"


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
    layout = [str(getattr(array, member, "")) for member in ("dtype", "shape")]
    if array is not value:
        return name, *layout, "a reserve"
    if not isinstance(array, np.ndarray):
        return name, *layout, f"of type {type(array).__name__}"
    shown = [f"{item:.6g}" if array.dtype.kind == "f" else str(item) for item in array.flat[:_SHOWN]]
    return name, *layout, ", ".join([*shown, *(["..."] if array.size > _SHOWN else [])])
