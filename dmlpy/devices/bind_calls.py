"""The error for a call of `bind` that does not fit its signature, such as one with tensors as keywords."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from dmlpy.messages.problems import BindError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Method = TypeVar("Method", bound="Callable[..., Any]")
_MOST_SHOWN = 4


class BoundNames(NamedTuple):
    """The tensors that `bind` takes.

    Attributes:
        subject: the name of the operator or graph.
        inputs: the names of the inputs.
        outputs: the names of the outputs.
    """

    subject: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Bindable(Protocol):
    """What has a method `bind`."""

    def _bound_names(self) -> BoundNames: ...


def with_call_errors(bind: Method) -> Method:
    """Wraps `bind` so that arguments that it does not take raise a `BindError` with the tensors' names.

    The signature is kept, so that type checkers find the mistake as well.
    """
    parameters = [*signature(bind).parameters][1:]

    @wraps(bind)
    def called(self: Bindable, *arguments: Any, **options: Any) -> Any:
        try:
            return bind(self, *arguments, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # raised within `bind`
                raise
        raise _call_error(self._bound_names(), parameters, arguments, options)

    return called  # type: ignore[return-value]


def _call_error(names: BoundNames, parameters: Sequence[str], arguments: Sequence[object], options: Iterable[str]) -> BindError:
    """The error for these arguments, which are not those that `bind` takes."""
    unnamed = [*parameters[: len(arguments)], *["one more"] * (len(arguments) - len(parameters))]
    found = ", ".join([*unnamed, *(f"{name}=..." for name in options)])
    why = ("inputs and outputs are mappings of names to memory, or lists in the struct's order",)
    remedy = f"bind({_mapping(names.inputs)}, {_mapping(names.outputs)})"
    expected = f"bind({', '.join(parameters)})"
    return BindError(f"{names.subject}.bind", [Problem("bind.form", "call", f"bind({found})", expected, why, remedy)])


def _mapping(names: Sequence[str]) -> str:
    shown = [f'"{name}": ...' for name in names[:_MOST_SHOWN]] + ["..."] * (len(names) > _MOST_SHOWN)
    return f"{{{', '.join(shown)}}}"
