"""`flops_of`: the arithmetic operations of an operator's formula, on any device.

Operators with products of matrices, filters or attention count two operations for each of their multiplications, and nothing else.
Elsewhere each addition, multiplication, division, comparison and function of an element counts one; operations done once for a group of
elements, such as the root of a variance, are left out. Moving, gathering and generating elements is not arithmetic. Windows count whole,
with their padding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.description.class_registry import ClassRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc

_MOVES = ("movement", "indexing", "generation")
"""The families without arithmetic, except for attached descs."""

flops: ClassRegistry[Callable[[Any], int | None]] = ClassRegistry("dmlpy.devices.flops")
"""`@flops(GEMMDesc)` attaches a function that counts the operations of a checked desc."""

Count = TypeVar("Count", bound="Callable[[Any], int | None]")
_of_products = set[Any]()


def of_products(count: Count) -> Count:
    """Marks a function that counts the operations of products of matrices, filters or attention."""
    _of_products.add(count)
    return count


def flops_of_products(desc: OperatorDesc) -> int:
    """The operations of a checked desc if they are those of products; else 0."""
    count = flops.find(type(desc))
    return (count(desc) or 0) if count is not None and count in _of_products else 0


def flops_of(desc: OperatorDesc) -> int | None:
    """The operations of a checked desc; None where their number depends on data."""
    count = flops.find(type(desc))
    if count is not None:
        return count(desc)
    return 0 if type(desc).family() in _MOVES else None


def elements(desc: OperatorDesc) -> int:
    """The elements of a desc's first output."""
    return next(slot.tensor.element_count for slot in desc.output_slots() if slot.tensor is not None)
