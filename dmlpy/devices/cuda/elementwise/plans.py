"""The plans of element-wise operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.descs import OperatorDesc
from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.elementwise import arithmetic, logic, math, ranges

if TYPE_CHECKING:
    from collections.abc import Iterator


def _operators() -> Iterator[type[OperatorDesc]]:
    """The operators that the family's modules define."""
    for module in (arithmetic, logic, math, ranges):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, OperatorDesc) and kind.__module__ == module.__name__ and kind.type_name:
                yield kind


attach_plan("dmlpy.devices.cuda.elementwise.plan:elementwise_plan", *_operators(), derived=False)
