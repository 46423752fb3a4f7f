"""Refuses arguments that a function does not have, and names those that are meant."""

from __future__ import annotations

from functools import wraps
from inspect import CO_VARARGS, unwrap
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

MakeT = TypeVar("MakeT", bound="Callable[..., Any]")


def _too_many(subject: str, code: CodeType, count: int) -> str:
    """The message of a call with more positional arguments than the function has."""
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    first, by_name = names[: len(names) - code.co_kwonlyargcount], names[len(names) - code.co_kwonlyargcount :]
    count -= code.co_argcount - len(first)
    others = f"; by name: {', '.join(by_name)}" if by_name else ""
    return f"{subject} takes {', '.join(first) or 'nothing'} by position, but {count} values were passed{others}"


class ArgumentNames:
    """Other libraries' names for the arguments of some functions.

    Args:
        of: what messages call one of the functions: `layer`, `function`.
        meanings: the arguments that a name may mean; the first one that a function has is proposed.
        remedies: the remedies for names that mean no argument.
        prefix: what precedes the name of a function in messages.
        place: gives what follows it, such as the caller's line.
    """

    def __init__(
        self,
        of: str,
        meanings: Mapping[str, tuple[str, ...]],
        remedies: Mapping[str, str],
        prefix: str = "",
        place: Callable[[], str] = str,
    ) -> None:
        self._of = of
        self._meanings = meanings
        self._remedies = remedies
        self._prefix = prefix
        self._place = place

    def refuse_others(self, make: MakeT) -> MakeT:
        """Makes a function, or a constructor, raise DescError for arguments that it does not have; its signature stays."""
        code = unwrap(make).__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        accepted, known = frozenset(names), tuple(name for name in names if name != "self")
        has_more = bool(code.co_flags & CO_VARARGS)
        subject = self._prefix + make.__qualname__.removesuffix(".__init__")

        @wraps(make)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not accepted.issuperset(kwargs):
                place = " ".join(filter(None, (subject, self._place())))
                raise DescError(place, [self.problem(name, known) for name in kwargs if name not in accepted])
            if len(args) > code.co_argcount and not has_more:
                raise TypeError(_too_many(" ".join(filter(None, (subject, self._place()))), code, len(args)))
            return make(*args, **kwargs)

        return cast("MakeT", checked)

    def problem(self, name: str, known: Sequence[str]) -> Problem:
        """The problem of an argument that a function of these arguments does not have."""
        expected = f"one of {', '.join(known)}" if known else "no argument"
        return Problem("field.unknown", name, f"not an argument of this {self._of}", expected, (), self.remedy(name, known))

    def remedy(self, name: str, known: Sequence[str]) -> str | None:
        """The remedy for an argument that a function of these arguments does not have."""
        suggestion = next((f"did you mean {argument}?" for argument in self._meanings.get(name, ()) if argument in known), None)
        return suggestion or self._remedies.get(name) or did_you_mean(name, known)
