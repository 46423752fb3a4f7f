"""Notebook views of operators and of bound memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.tables import Table, paragraph_html

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.memory.binding import BoundTensor


def bound_table(name: str, bound: Iterable[BoundTensor]) -> Table:
    """A table with one row per bound tensor: place, direction and layout."""
    rows = ((item.name, "output" if item.output else "input", item.desc.summary()) for item in bound)
    return Table(name, ("tensor", "direction", "memory"), tuple(rows))


def operator_html(desc: OperatorDesc, text: str) -> str:
    """The desc's table, with text about its compiled operator, such as the plan, below it."""
    return desc.table().to_html() + paragraph_html(text)
