"""Bound memory as a table, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.devices.binding import Bound


def bound_table(name: str, bound: Iterable[Bound]) -> Table:
    """A table with one row per bound tensor: place, direction and layout."""
    rows = ((item.name, "output" if item.output else "input", item.desc.summary()) for item in bound)
    return Table(name, ("tensor", "direction", "memory"), tuple(rows))
