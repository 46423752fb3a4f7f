"""The GPU cases by importance, so that a benchmark that runs out of time has measured what matters most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.bench.operators import suite
from dmlpy.bench.operators.shape import LargeShape, large_shape
from dmlpy.bench.shapes import SHAPES
from dmlpy.bench.work import Case
from dmlpy.messages.naming import nearest
from dmlpy.messages.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIRST_LAYERS = (
    "lstm-128-b1-t512 FLOAT32 forward",
    "lstm-256-b64-t150 FLOAT16 forward",
    "lstm-256-b64-t150 FLOAT32 forward",
    "rnn-1760-b16-t50 FLOAT16 forward",
    "lstm-256-b64-t150 FLOAT16 training",
    "batchnorm-32x512x28x28-nhwc FLOAT16 training",
    "lstm-512x2-b32-t100 FLOAT16 forward",
    "rnn-1760-b16-t50 FLOAT32 forward",
    "lstm-2048-1024x3-b32-t100 FLOAT16 forward",
    "gru-512-b32-t1375 FLOAT32 forward",
)
"""A layer of each kind and bottleneck: inter-block exchange, the L2 cache, products; the two whose references take longest come last."""
FIRST_AT_ONCE = 6
"""The number of them that precede the operators."""


def order_by_priority(cases: Iterable[Case]) -> list[Case]:
    """The cases by importance: the first layers, the operators in FLOAT16, other layers, the operators in FLOAT32, all others."""
    unordered = list(cases)
    first = [case for name in FIRST_LAYERS for case in unordered if case.name == name]
    operators = [case for case in unordered if isinstance(case.shape, LargeShape)]
    half, float_ = ([case for case in operators if case.dtype == dtype] for dtype in ("FLOAT16", "FLOAT32"))
    leading = [*first[:FIRST_AT_ONCE], *half, *first[FIRST_AT_ONCE:], *float_]
    return [*leading, *(case for case in unordered if case not in leading)]


def every_case() -> Iterator[Case]:
    """All cases of layers and of the operators of `suite`."""
    for shape in (*SHAPES.values(), *map(large_shape, suite.CASES)):
        for dtype in shape.dtypes:
            for which in shape.passes:
                yield Case(shape, dtype, which)


def case_of(name: str) -> Case:
    """A case by its name: a shape's key, its type and its pass.

    Raises:
        DmlError: there is no such case.
    """
    cases_by_name = {case.name: case for case in every_case()}
    if name not in cases_by_name:
        near = nearest(name, cases_by_name)
        hint = f"did you mean {near!r}?" if near else f"such as {FIRST_LAYERS[0]!r}"
        raise DmlError(f"{name!r} is not a case, which is a shape's key, its type and its pass; {hint}")
    return cases_by_name[name]
