"""Rules that lower ONNX's operators, by family. `@lowers` registers them; `find_rule` finds them, by the table in `rule_modules`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from dmlpy.onnx.lowering.rule_modules import RULE_MODULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

LoweredOutputs: TypeAlias = "Expression | tuple[Expression | None, ...]"
"""The outputs of a node. Their elements are ONNX's, in the same order; the caller views them with ONNX's sizes."""
LoweringRule: TypeAlias = "Callable[[Node], LoweredOutputs]"

_LOWERINGS: dict[tuple[str, str], dict[int, LoweringRule]] = {}
_MAY_BE_EMPTY: dict[tuple[str, str], tuple[int, ...]] = {}


def lowers(*op_types: str, since: int = 1, domain: str = "", may_be_empty: tuple[int, ...] = ()) -> Callable[[LoweringRule], LoweringRule]:
    """Registers a function for operators of ONNX.

    Args:
        *op_types: the operators' names.
        since: the first opset whose form of the operator the function supports; it applies until a function with a later one.
        domain: the domain of the operators.
        may_be_empty: optional inputs that count as omitted if they have no elements, such as those of past steps in the first step.
    """

    def register(function: LoweringRule) -> LoweringRule:
        for op_type in op_types:
            versions = _LOWERINGS.setdefault((domain, op_type), {})
            assert since not in versions, f"{op_type} since {since} is lowered twice"
            versions[since] = function
            _MAY_BE_EMPTY[domain, op_type] = may_be_empty
        return function

    return register


def find_rule(op_type: str, opset: int, domain: str = "") -> LoweringRule | None:
    """The function that lowers an opset's form of an operator; None if there is none."""
    for module in RULE_MODULES.get((domain, op_type), ()):
        _import_rules(module)
    versions = _LOWERINGS.get((domain, op_type), {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


def may_be_empty(op_type: str, domain: str = "") -> tuple[int, ...]:
    """The optional inputs of an operator that count as omitted if they have no elements."""
    return _MAY_BE_EMPTY.get((domain, op_type), ())


def lowered_operators() -> list[tuple[str, str]]:
    """Domain and name of every operator that is lowered."""
    return sorted(RULE_MODULES)


@cache
def _import_rules(module: str) -> None:
    import_module(f"{__name__}.{module}")
