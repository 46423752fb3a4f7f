"""Makes the functions of `dmlpy.eager` from the operators' classes."""

from __future__ import annotations

import inspect
from collections import namedtuple
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dmlpy.eager.calls import EagerOperator
from dmlpy.x.generation import documentation, is_several, parameters
from dmlpy.x.signatures import argument_name, function_name, output_name, tuple_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dmlpy.description.descs import OperatorDesc

DEVICE_TEXT = "Where it runs: a device or its name. If absent, where the first operand is; an operator without operands runs on the CPU."


def make_function(kind: type[OperatorDesc]) -> Callable[..., Any]:
    """The function of an operator."""
    wrap: Callable[[list[Any]], Any] = itemgetter(0)
    name = function_name(kind)
    if is_several(kind):
        outputs = namedtuple(tuple_name(kind), [output_name(kind, field) for field in kind.outputs()], module="dmlpy.eager")  # type: ignore[misc]
        wrap = outputs._make
    elif kind.outputs()[0].listed:
        wrap = tuple
    operands = {argument_name(field): field for field in kind.inputs()}
    ordered = sorted(operands, key=lambda argument: operands[argument].optional)
    call = EagerOperator(kind, {argument: operands[argument].name for argument in ordered}, wrap)

    def function(*given: Any, device: Any = None, **others: Any) -> Any:
        return call(given, others, device)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "dmlpy.eager"
    arguments, before, returns = documentation(kind).partition("\n\nReturns:")
    function.__doc__ = f"{arguments}\n    device: {DEVICE_TEXT}{before}{returns}"
    function.__signature__ = inspect.Signature([*_parameters(kind)])  # type: ignore[attr-defined]
    return function


def _parameters(kind: type[OperatorDesc]) -> Iterator[inspect.Parameter]:
    operands, others = parameters(kind)
    for items, form in ((operands, inspect.Parameter.POSITIONAL_OR_KEYWORD), (others, inspect.Parameter.KEYWORD_ONLY)):
        for name, annotation, default, _ in items:
            known = kind.model_fields.get(name)
            value = inspect.Parameter.empty if not default else None if default == "None" or known is None else known.default
            yield inspect.Parameter(name, form, default=value, annotation=annotation.replace("Expression | Array", "Array"))
    yield inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Device | str | None")
