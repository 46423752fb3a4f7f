"""The message for a function that `dmlpy.x` or `dmlpy.eager` does not have: it names the one that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.other_names import operator_remedy
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.naming import did_you_mean
from dmlpy.x.signatures import function_name

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_function(module: str, name: str, others: Sequence[str] = ()) -> str:
    """What an AttributeError says.

    Args:
        module: the module's name behind `dmlpy.`.
        name: the unknown name.
        others: its names besides the operators' functions.
    """
    functions = {kind.short_name(): f"{module}.{function_name(kind)}" for kind in OPERATORS.values()}
    hint = (
        operator_remedy(name, functions, functions.__getitem__, spelled_alike=False)
        or did_you_mean(name, others, f"{module}.{{}}".format)
        or operator_remedy(name, functions, functions.__getitem__)
    )
    return f"dmlpy.{module} has no function {name!r}{f': {hint}' if hint else ''}"
