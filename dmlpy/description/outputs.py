"""`Outputs`: what one call of an operator gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dmlpy.description.naming import c_member


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

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self._values)})"
