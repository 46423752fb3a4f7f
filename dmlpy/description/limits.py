"""The limits of attributes: their lengths, ranges, choices and axes, as `Limits` declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType, DmlEnum, FeatureLevel
from dmlpy.description.markers import AttributeField, Limits
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.description.sizes import Sizes
    from dmlpy.description.structs import Struct


def limit_problems(desc: Struct, attribute: AttributeField, known: Sizes, level: FeatureLevel) -> Iterator[Problem]:
    """Yields the problems of one attribute that its `Limits` define.

    Args:
        desc: the desc.
        attribute: its attribute.
        known: the size symbols of the desc.
        level: the feature level.
    """
    limits, name, value = attribute.limits, attribute.name, getattr(desc, attribute.name)
    if value is None:
        return
    entries = [(f"{name}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, tuple) else [(name, value)]
    expected_count = known[limits.length] if isinstance(limits.length, str) and limits.length in known else limits.length
    if isinstance(expected_count, int) and isinstance(value, tuple) and len(value) != expected_count:
        why = (known.why(limits.length),) if isinstance(limits.length, str) else ()
        yield Problem("attribute.length", name, plural(len(value), "entry"), str(expected_count), why)
    for path, item in entries:
        yield from _entry_problems(limits, path, item, known, level)
    if limits.or_unknown and value is DataType.UNKNOWN:
        return
    if limits.type_of is not None and (tensor := getattr(desc, limits.type_of)) is not None and value is not tensor.data_type:
        why = (f"{limits.type_of} has elements of type {tensor.data_type}",)
        yield Problem("attribute.type", name, str(value), str(tensor.data_type), why)


def _entry_problems(limits: Limits, path: str, value: Any, known: Sizes, level: FeatureLevel) -> Iterator[Problem]:
    count = f"len({limits.axis_of})"
    if limits.axis_of is not None and count in known and not 0 <= value < known[count]:
        remedy = f"{value + known[count]} counts from the front" if -known[count] <= value < 0 else None
        yield Problem("attribute.axis", path, str(value), f"a dimension, 0 to {known[count] - 1}", (known.why(count),), remedy)
    if (limits.least is not None and not value >= limits.least) or (limits.most is not None and not value <= limits.most):
        bounds = Limits(least=limits.least, most=limits.most).text()
        yield Problem("attribute.range", path, str(value), bounds)
    if limits.nonzero and value == 0:
        yield Problem("attribute.range", path, str(value), "any number but 0")
    if limits.one_of and value not in limits.one_of:
        yield Problem("attribute.choice", path, str(value), " or ".join(map(str, limits.one_of)))
    if isinstance(value, DmlEnum) and limits.since.get(value.name, level) > level:
        since = limits.since[value.name]
        yield Problem(
            "attribute.level", path, str(value), f"another value at feature level {level}", remedy=f"feature level {since} has it"
        )
