"""Caches the descs of the last calls: networks repeat their layers, and each desc costs an inference and a check."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.enums import DmlEnum
from dmlpy.description.structs import Struct
from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.description.value_structs import ScaleBias
from dmlpy.messages.problems import DescError
from dmlpy.validation.checking import keep_validity
from dmlpy.x.policies import TensorPolicy, current_policy

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.messages.problems import Problem
    from dmlpy.x.producers import TensorRef

_MAX_CACHED = 512
"""The most descs that are cached."""
_MAX_ENTRIES = 64
"""The operands of a call, or the entries of a list among its members, up to which its desc is cached."""
_MAX_DEPTH = 3
"""The lists and dicts within each other up to which a desc is cached: no member of an operator has more."""


class DescBuild:
    """A function that creates a desc. All instances are equal, so that descs are found by their tokens alone."""

    def __init__(self, make: Callable[[], OperatorDesc]) -> None:
        self.make = make

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescBuild)

    def __hash__(self) -> int:
        return 0


class _Refusal(NamedTuple):
    """The message of a `DescError`."""

    subject: str
    problems: tuple[Problem, ...]


@lru_cache(_MAX_CACHED)
def _build(token: Hashable, build: DescBuild) -> OperatorDesc | _Refusal:
    try:
        return build.make()
    except DescError as error:
        return _Refusal(error.subject, error.problems)  # the error itself holds the operands in its traceback


def cached_desc(token: Hashable, build: DescBuild) -> OperatorDesc:
    """The desc of a call with this token: one that was made for an equal one, or what `build` makes.

    Raises:
        DescError: the build for an equal token raised it.
    """
    try:
        built = _build(token, build)
    finally:
        build.make = _done  # it holds the operands, which may be large arrays
    if isinstance(built, _Refusal):
        raise DescError(built.subject, built.problems)
    return built


def scaled_desc(desc: OperatorDesc, scale: float, bias: float) -> OperatorDesc:
    """A checked desc with another `scale_bias`, which no rule concerns: one that was made for an equal one, or a new one."""
    return _scaled(desc, scale.hex(), bias.hex())  # -0.0 and 0.0 differ


@lru_cache(_MAX_CACHED)
def _scaled(desc: OperatorDesc, scale: str, bias: str) -> OperatorDesc:
    scaled = desc.replace(scale_bias=ScaleBias(scale=float.fromhex(scale), bias=float.fromhex(bias)))
    keep_validity(desc, scaled)
    return scaled


def _done() -> OperatorDesc:
    raise AssertionError("the build of a cached desc is done")


def token_of(operator: Any, refs: Mapping[str, TensorRef], given: Mapping[str, Any]) -> Hashable | None:
    """The key of a call's desc; None for a call whose desc is not cached.

    Args:
        operator: what the call names: a class, a short name or a desc.
        refs: the operands by place.
        given: the other arguments.
    """
    if len(refs) > _MAX_ENTRIES or are_symbolic() or current_policy() is not TensorPolicy.default:
        return None  # a policy of the caller's may decide by anything
    try:
        return (
            operator,
            tuple((place, ref.tensor) for place, ref in refs.items()),
            tuple((name, value_token(given[name])) for name in given),
        )
    except UncacheableError:
        return None


class UncacheableError(Exception):
    """Raised for a value whose equality is unknown."""


def value_token(value: Any, depth: int = 0) -> Hashable:
    """A value distinguished from equal ones of other types: 1, 1.0 and True are not the same argument, nor are 0.0 and -0.0.

    Raises:
        UncacheableError: the value's equality is unknown, or it is long.
    """
    kind = type(value)
    if kind in (int, str, bool, NoneType, type) or isinstance(value, DmlEnum | Struct | np.dtype):
        return kind, value
    if kind is float:
        return kind, value.hex()
    if depth == _MAX_DEPTH:
        raise UncacheableError
    if isinstance(value, Sequence) and kind in (list, tuple) and len(value) <= _MAX_ENTRIES:
        return kind, tuple(value_token(item, depth + 1) for item in value)
    if kind is dict and len(value) <= _MAX_ENTRIES:
        return kind, tuple((value_token(key, depth + 1), value_token(item, depth + 1)) for key, item in value.items())
    raise UncacheableError
