"""Rules that export DirectML's operators to ONNX, by family. `@exports` registers them; `rule_of` finds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

Results: TypeAlias = "Value | Mapping[str, Value]"
"""Returns the described output, or outputs by place, in the described sizes; other types are cast to the described one."""


@dataclass(frozen=True)
class Rule:
    """How an operator is exported.

    Attributes:
        write: writes the nodes.
        wide: whether to compute FLOAT16 and BFLOAT16 in FLOAT32, since several nodes would round several times.
    """

    write: Callable[[Node], Results]
    wide: bool


_RULES: dict[str, Rule] = {}

UNSAID: Mapping[str, str] = {
    "RANDOM_GENERATOR": "ONNX's random operators have a seed but no state, and none is Philox",
    "ROI_ALIGN_GRAD": "ONNX has no gradient of RoiAlign",
}
"""The operators of DirectML that ONNX cannot express, each with the reason."""

BEYOND = "an operator that DirectML lacks: a training form with a reserve, or one of TensorFlow's"
"""The reason for operators that only dmlpy has."""


def exports(*names: str, wide: bool = False) -> Callable[[Callable[[Node], Results]], Callable[[Node], Results]]:
    """Registers a rule for operators by their short names."""

    def register(write: Callable[[Node], Results]) -> Callable[[Node], Results]:
        for name in names:
            assert name not in _RULES, f"{name} has two rules"
            _RULES[name] = Rule(write, wide)
        return write

    return register


@cache
def rules() -> Mapping[str, Rule]:
    """The rules of all families, by the operators' short names."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return _RULES
