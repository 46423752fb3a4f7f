"""Mistakes in an operator's desc: its sample with one member changed, and the resulting message. Everything here is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, DmlEnum, FeatureLevel, TensorFlags
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc
from dmlpy.description.value_structs import Size2D
from dmlpy.inspection.samples import sample, source
from dmlpy.messages.problems import DescError, Problem, lay_out
from dmlpy.operators.activation import ActivationLinearDesc, ActivationSoftmax1Desc, ActivationSoftmaxDesc
from dmlpy.validation.checking import LATEST, check

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SHOWN = 8
"""The most mistakes on an operator's page."""
_USUAL = ("size.equal", "type.support", "type.equal", "dims.support", "tensor.missing", "attribute.length", "attribute.range", "flag.owned")
"""The codes that most descs can break, the most common first."""

SHOWN_BY = {
    **dict.fromkeys(("dims.range", "dims.support", "field.form", "flag.output", "flag.owned"), "GRU"),
    **dict.fromkeys(("size.equal", "size.range", "stride.broadcast", "type.equal", "type.support"), "GRU"),
    **{"attribute.length": "FOLD", "attribute.range": "FOLD", "dims.equal": "CAST", "tensor.missing": "GEMM", "attribute.axis": "JOIN"},
    **{"attribute.choice": "QUANTIZE", "attribute.type": "PADDING1", "stride.reserve": "GRU_GRAD"},
}
"""The codes of descs that are neither rules nor have an example, each with an operator whose sample can be changed to give it.

To search all operators for a code takes seconds.
"""

_OTHER_TYPES = (DataType.FLOAT16, DataType.FLOAT32, DataType.INT8, DataType.UINT32, DataType.INT64)


@dataclass(frozen=True)
class Mistake:
    """A wrong desc and its message.

    Attributes:
        code: the code of the problem that it is an example of.
        statement: the Python expression that checks it, in terms of the valid `desc`.
        message: the error as printed.
        problem_count: all problems that it has.
    """

    code: str
    statement: str
    message: str
    problem_count: int


@cache
def mistakes(kind: type[OperatorDesc]) -> dict[str, Mistake]:
    """The changes of an operator's sample that break the fewest other rules, by code.

    The sample is checked at the highest feature level, and at the operator's first one as far as its rules concern lower levels only.
    """
    found = _mistakes_at(kind, LATEST)
    if kind.rules().keys() - found.keys() and not kind.is_extension:
        earlier = _mistakes_at(kind, kind.introduced())
        found |= {code: mistake for code, mistake in earlier.items() if code not in found and code in kind.rules()}
    return found


def _mistakes_at(kind: type[OperatorDesc], level: FeatureLevel) -> dict[str, Mistake]:
    desc = sample(kind)
    found: dict[str, Mistake] = {}
    for changes in _changes(desc):
        problems = _problems(desc, changes, level)
        for code in {problem.code for problem in problems}:
            if code not in found or len(problems) < found[code].problem_count:
                changed = f"desc.replace({', '.join(f'{name}={source(value)}' for name, value in changes.items())})"
                at = "" if level is LATEST else f', feature_level="{level}"'
                found[code] = Mistake(code, f"dml.check({changed}{at})", lay_out(desc.c_name, problems), len(problems))
    return found


def shown(kind: type[OperatorDesc], found: dict[str, Mistake]) -> list[Mistake]:
    """The mistakes for an operator's page: first those against the rules that it adds, then the usual ones."""
    own = [name for name in kind.rules() if name in found]
    usual = [code for code in _USUAL if code in found]
    return [found[code] for code in [*own, *usual][: max(len(own), MOST_SHOWN)]]


def _problems(desc: OperatorDesc, changes: dict[str, Any], level: FeatureLevel) -> list[Problem]:
    try:
        return check(desc.replace(**changes), level)
    except DescError as error:
        return list(error.problems)


def _changes(desc: OperatorDesc) -> Iterator[dict[str, Any]]:
    """Other values of one member each, right and wrong ones; then all outputs omitted."""
    for name in type(desc).model_fields:
        yield from ({name: value} for value in _alternatives(desc, name))
    yield {field.name: None for field in desc.outputs() if getattr(desc, field.name) is not None}


def _alternatives(desc: OperatorDesc, name: str) -> Iterator[Any]:
    """Other values of a member, right and wrong ones."""
    value = getattr(desc, name)
    markers = {field.name: field for field in desc.tensor_fields()}
    if name in markers and isinstance(value, TensorDesc):
        yield from _tensors(value)
    elif name in markers and isinstance(value, tuple):
        yield from ((), value[:-1], (*value, value[0]))
        yield from ((*value[:-1], other) for other in _tensors(value[-1]) if other is not None)
    elif isinstance(value, tuple):
        yield from _tuples(value)
    else:
        yield from _scalars(value, type(value))
    if value is not None:
        yield None


def _tensors(tensor: TensorDesc) -> Iterator[TensorDesc | None]:
    sizes = tensor.sizes
    for axis in reversed(range(len(sizes))):
        for size in (sizes[axis] + 1, 2 * sizes[axis], 1):
            if size != sizes[axis]:
                yield tensor.replace(sizes=(*sizes[:axis], size, *sizes[axis + 1 :]))
    for other in (sizes[1:], (1, *sizes), (1,) * (MAX_DIMENSION_COUNT + 1 - len(sizes)) + sizes, (*sizes[:-1], 0)):
        if other:
            yield tensor.replace(sizes=other)
    yield from (tensor.replace(data_type=other) for other in _OTHER_TYPES if other is not tensor.data_type)
    yield tensor.replace(flags=TensorFlags.OWNED_BY_DML)
    yield tensor.replace(strides=(0,) * len(sizes))
    yield None


def _scalars(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, OperatorDesc):
        yield from (ActivationSoftmaxDesc(), ActivationSoftmax1Desc(axes=(9,)), ActivationLinearDesc(alpha="nan", beta=0))
    elif isinstance(value, Size2D):
        yield from (Size2D(width=0, height=value.height), Size2D(width=2**31, height=2**31))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, DmlEnum):
        yield from (member for member in kind if member is not value)  # type: ignore[attr-defined]
    elif isinstance(value, int):
        yield from (value + 1, value + 2, 2 * value, 0, 1, 7, 1000, -1)
    elif isinstance(value, float):
        yield from (-1.0, 0.0, 1.0, 2.0, float("nan"), float("inf"))


def _tuples(value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield ()
    yield value[:-1]
    yield (*value, *value[-1:])
    for index in (0, -1) if value else ():
        item = value[index]
        for other in _scalars(item, type(item)):
            changed = list(value)
            changed[index] = other
            yield tuple(changed)
