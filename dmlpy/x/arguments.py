"""Arguments that the functions of `dmlpy.x` and `dmlpy.eager` do not have, and those that are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.foreign_names import member_remedy
from dmlpy.messages.argument_names import ArgumentNames
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Sequence

_REMEDIES = {
    "dtype": "cast the operands: results have their type",
    "keepdims": "leave it out: reduced axes are kept, with size 1",
    "keepdim": "leave it out: reduced axes are kept, with size 1",
}
"""Remedies for arguments of other libraries' functions, where an operator has nothing like them."""


class OperatorArguments(ArgumentNames):
    """Other libraries' names for the members of operators, and for what no operator has.

    Args:
        more: remedies for names that mean no argument, besides those of operators.
    """

    def __init__(self, **more: str) -> None:
        super().__init__("function", {}, _REMEDIES | more, place=caller_location)

    def remedy(self, name: str, known: Sequence[str]) -> str | None:
        return member_remedy(name, known) or super().remedy(name, known)


refuse_others = OperatorArguments().refuse_others
