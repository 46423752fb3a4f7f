"""The definitions of operators: `@defines(ElementWiseAddDesc)` attaches a function, and the most derived class wins.

The functions for the structs of `dmlpy.operators.elementwise` are in `dmlpy.reference.elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.class_registry import ClassRegistry

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = Mapping[str, Any]
"""Inputs by field name: arrays of the described sizes, a tuple of them for an array of tensors, None for an absent tensor."""
Results = Array | Mapping[str, Any]
"""The output, or the outputs by field name; an array of tensors is a tuple of arrays."""

Definition = Callable[[Any, Inputs], Results]
"""The definition of an operator, on whole arrays.

It takes a checked desc and the inputs. Floating-point inputs have the type of the arithmetic, float32 or float64; integers have the
described type. Outputs may be broadcastable to the described sizes, have any type that converts to the described one (floating point is
rounded, integers wrap around), and include some that the desc leaves out. Inputs are not written; an output may be one of them, or a view.
Callers suppress floating-point warnings (`numpy.errstate`).
"""

defines: ClassRegistry[Definition] = ClassRegistry("dmlpy.reference")
"""`@defines(ElementWiseAddDesc)` makes a function the definition of an operator, and of those that derive from it."""


def definition(kind: type[OperatorDesc]) -> Definition | None:
    """The function that defines an operator, or None."""
    return defines.find(kind)


def why_undefined(desc: OperatorDesc) -> str | None:
    """The reason why a checked desc has no definition, or None if it has one."""
    return None if definition(type(desc)) is not None else f"{desc.type_name} has no definition"
