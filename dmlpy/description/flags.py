"""Arguments that are True or False: other values are refused, since an array has no truth value and the text "no" is true.

Flags of functions may be 1 or 0, as those of descs. Options of recurrent layers, losses and their graphs may not: a number there is in
another parameter's place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any, TypeVar, cast

import numpy as np

from dmlpy.description.coercion import brief, is_flag
from dmlpy.messages.problems import DescError, Problem

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_FLAGS = (bool, "bool", bool | None, "bool | None")
"""How parameters that are flags are annotated."""


def flag_problems(**flags: Any) -> list[Problem]:
    """A problem for each argument, by name, that is neither True nor False, nor 1 or 0."""
    return [_problem(name, value) for name, value in flags.items() if not is_flag(value)]


def option_problems(**options: Any) -> list[Problem]:
    """A problem for each option of a layer, a loss or a model's graph, by name, that is neither True nor False."""
    return [_problem(name, value) for name, value in options.items() if not isinstance(value, bool | np.bool_)]


def _problem(name: str, value: Any) -> Problem:
    return Problem("field.form", name, brief(value), "True or False")


def is_set(flag: Any) -> bool:
    """Whether an argument is True or 1; where it is no flag, `flag_problems` says so."""
    return is_flag(flag) and bool(flag)


def check_flags(function: FunctionT) -> FunctionT:
    """Makes a function raise DescError for each parameter annotated as `bool` that is passed another value; its signature stays.

    A parameter annotated as `bool | None` may be None as well.
    """
    code, annotations = unwrap(function).__code__, unwrap(function).__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    places = {name: place for place, name in enumerate(names) if annotations.get(name) in _FLAGS}
    optional = {name for name in places if annotations[name] not in (bool, "bool")}
    assert places, f"{function.__qualname__} has no flags"
    subject = function.__qualname__.removesuffix(".__init__").removesuffix(".__call__")

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        passed = {name: args[place] if place < len(args) else kwargs.get(name, False) for name, place in places.items()}
        if problems := flag_problems(**{name: value for name, value in passed.items() if value is not None or name not in optional}):
            raise DescError(subject, problems)
        return function(*args, **kwargs)

    return cast("FunctionT", checked)
