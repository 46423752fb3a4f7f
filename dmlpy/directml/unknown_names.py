"""The message for a name that `dmlpy.directml` does not have: it names the one that is meant."""

from __future__ import annotations

from dmlpy.description.foreign_names import operator_remedy
from dmlpy.description.registry import OPERATORS
from dmlpy.directml.names import NAMES
from dmlpy.messages.naming import did_you_mean

_WITH_COUNTERPARTS = ("DMLCreate", "IDML", "DML_CREATE_DEVICE", "DML_BINDING_", "DML_BUFFER_ARRAY_BINDING")
"""Prefixes of the names of interfaces, functions and their arguments."""


def unknown_name(name: str) -> str:
    """Returns the message of an AttributeError of `dmlpy.directml`."""
    if name in ("DMLCreateDevice", "DMLCreateDevice1"):
        hint: str | None = "dmlpy.device(name) returns a device, and dmlpy.compile takes it or its name"
    elif name.startswith(_WITH_COUNTERPARTS):
        hint = "the page From DirectML has the counterparts of interfaces and functions"
    else:
        hint = _operator(name) or did_you_mean(name, NAMES, "dmlpy.directml.{}".format)
    return f"dmlpy.directml has no name {name!r}{f': {hint}' if hint else ''}"


def _operator(name: str) -> str | None:
    """The remedy for an operator's type or struct by another name: `DML_OPERATOR_RELU`, `DML_RELU_OPERATOR_DESC`."""
    if not (name.startswith("DML_OPERATOR_") or name.endswith("_OPERATOR_DESC")):
        return None
    kinds = {kind.short_name(): kind for kind in OPERATORS.values() if not kind.is_extension}

    def show(short: str) -> str:
        return f"dmlpy.directml.{kinds[short].c_name if name.endswith('_OPERATOR_DESC') else kinds[short].type_name}"

    return operator_remedy(name, kinds, show, spelled_alike=False)
