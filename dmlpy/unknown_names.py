"""The message for a name that `dmlpy` does not have: it names the one that is meant."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dmlpy.description.foreign_names import operator_remedy
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.naming import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def unknown_attribute(name: str, public: Sequence[str]) -> str:
    """The text of an AttributeError of `dmlpy`.

    Args:
        name: the unknown name.
        public: the names that there are.
    """
    if name.startswith("_"):
        return f"module 'dmlpy' has no attribute {name!r}"
    if (
        name.isidentifier() and find_spec(f"dmlpy.{name}") is not None
    ):  # `from dmlpy import x` asks for the attribute first; a search would import all operators
        return f"dmlpy.{name} is a module that is not imported: import dmlpy.{name}"
    hint = _c_name(name) or _operator(name) or did_you_mean(name, public, "dmlpy.{}".format)
    return f"dmlpy has no name {name!r}{f': {hint}' if hint else ''}"


def _c_name(name: str) -> str | None:
    """The remedy for a name of directml.h."""
    if not name.startswith(("DML_", "DMLPY_")):
        return None
    from dmlpy.directml.names import NAMES

    kind = NAMES.get(name)
    alternative = f"dmlpy.{kind.__name__}, or " if isinstance(kind, type) else ""
    return f"did you mean {alternative}dmlpy.directml.{name}?" if name in NAMES else None


def _operator(name: str) -> str | None:
    """The remedy for an operator's name: its class, and its function where the name is written like one."""
    kinds = {kind.short_name(): kind for kind in OPERATORS.values()}

    def show(short: str) -> str:
        class_name = f"dmlpy.{kinds[short].__name__}"
        return f"dmlpy.eager.{_function(short)}, which runs it, or {class_name}" if name.islower() else class_name

    return operator_remedy(name, kinds, show, spelled_alike=False)


def _function(short: str) -> str:
    return short.removeprefix("ELEMENT_WISE_").lower()
