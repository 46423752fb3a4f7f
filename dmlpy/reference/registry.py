"""Which function defines what an operator computes: `@defines(ElementWiseAddDesc)` attaches it, and the most derived class wins.

A family's module, `dmlpy.reference.elementwise` for the structs of `dmlpy.operators.elementwise`, is imported when one of its operators is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

from dmlpy.descs import OperatorDesc

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = Mapping[str, Any]
"""Inputs by field name: arrays of the described sizes, a tuple of them for an array of tensors, None for an absent tensor."""
Results = Array | Mapping[str, Any]
"""The output, or the outputs by field name; an array of tensors is a tuple of arrays."""

Definition = Callable[[Any, Inputs], Results]
"""What an operator computes, on whole arrays.

It takes a checked desc and the inputs. Floating-point inputs have the type of the arithmetic, float32 or float64; integers have the
described type. Outputs may be broadcastable to the described sizes, have any type that converts to the described one (floating point is
rounded, integers wrap around), and include some that the desc leaves out. Inputs are not written; an output may be one of them, or a view.
Callers suppress floating-point warnings (`numpy.errstate`).
"""

Undocumented = Callable[[Any], str | None]
"""Takes a checked desc; gives the first part whose semantics nobody has documented, or None."""

_Function = TypeVar("_Function", bound=Definition)
_definitions: dict[type[OperatorDesc], tuple[Definition, Undocumented | None]] = {}
_OPERATORS, _REFERENCE = "dmlpy.operators.", "dmlpy.reference."


def defines(*kinds: type[OperatorDesc], undocumented: Undocumented | None = None) -> Callable[[_Function], _Function]:
    """Attaches a function to operators' classes, whose subclasses inherit it.

    Args:
        kinds: the classes.
        undocumented: finds what DirectML leaves undocumented in a desc: such a desc has no definition.
    """

    def attach(function: _Function) -> _Function:
        _definitions.update(dict.fromkeys(kinds, (function, undocumented)))
        return function

    return attach


def definition(kind: type[OperatorDesc]) -> Definition | None:
    """The function that defines an operator, or None."""
    found = _found(kind)
    return None if found is None else found[0]


def why_undefined(desc: OperatorDesc) -> str | None:
    """Why nothing defines what a checked desc computes, or None if something does."""
    found = _found(type(desc))
    if found is None:
        return f"{desc.type_name} has no definition"
    for place, tensor in desc.tensors().items():
        if tensor.data_type.bits < 8:
            return f"{place} has {tensor.data_type} elements, for which NumPy has no type"
    undocumented = None if found[1] is None else found[1](desc)
    return None if undocumented is None else f"the semantics of {undocumented} are undocumented"


def _found(kind: type[OperatorDesc]) -> tuple[Definition, Undocumented | None] | None:
    for base in kind.__mro__:
        _import_family(base.__module__)
        if base in _definitions:
            return _definitions[base]
    return None


@cache
def _import_family(module: str) -> None:
    """Imports the definitions for the structs of a module of `dmlpy.operators`, where there are any."""
    family, is_operators, path = module.partition(_OPERATORS)
    name = _REFERENCE + path.partition(".")[0]
    if is_operators and not family and find_spec(name) is not None:
        import_module(name)
