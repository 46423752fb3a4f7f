"""Values that members store unchanged: a struct of such values needs no reader and no validator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel

from dmlpy.description.coercion import MAX_BITS, MAX_ENTRIES
from dmlpy.description.symbolic_sizes import SymbolicSize

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Test: TypeAlias = Callable[[Any], bool]


def plain_test(info: FieldInfo, tensor: type | None) -> Test:
    """A function that returns whether a member stores a value unchanged; other values go through the readers.

    Args:
        info: the member.
        tensor: the class of tensors' descs, which are stored unchanged; None for a struct without tensors.
    """
    test = _test(info.annotation, tensor)
    if test is None:
        return lambda value: False
    if any(isinstance(mark, AfterValidator) for mark in info.metadata):
        return lambda value: value is None or (bool(value) and test(value))  # an empty value may have another meaning
    return test


def _test(annotation: Any, tensor: type | None) -> Test | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _union_test(arguments, tensor)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _entries_test(_test(arguments[0], tensor))
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if isinstance(annotation, type) and (annotation is tensor or issubclass(annotation, Enum)):
        return lambda value: type(value) is annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return lambda value: isinstance(value, annotation)  # a struct, which is valid: it was checked when it was made
    return None


def _union_test(kinds: Sequence[Any], tensor: type | None) -> Test | None:
    """The test of a value of one of some types; None alone passes if only its type has a test."""
    tests = [_test(kind, tensor) for kind in kinds if kind is not NoneType]
    known = [test for test in tests if test is not None]
    if len(known) < len(tests):
        return (lambda value: value is None) if NoneType in kinds else None
    if len(known) > 1:
        return lambda value: (value is None and NoneType in kinds) or any(test(value) for test in known)
    [inner] = known
    return lambda value: value is None or inner(value)


def _entries_test(test: Test | None) -> Test | None:
    if test is None:
        return None
    return lambda value: type(value) is tuple and len(value) <= MAX_ENTRIES and all(map(test, value))


def _is_integer(value: Any) -> bool:
    return (type(value) is int and value.bit_length() <= MAX_BITS) or (type(value) is SymbolicSize and isinstance(value, int))


def _is_float(value: Any) -> bool:
    return (type(value) is float and value == value) or (type(value) is SymbolicSize and isinstance(value, float))  # one object for NaN


_SCALARS: dict[Any, Test] = {
    Any: lambda value: True,
    bool: lambda value: type(value) is bool,
    bytes: lambda value: type(value) is bytes,
    float: _is_float,
    int: _is_integer,
    str: lambda value: type(value) is str,
}
