"""Calls in which NumPy ignores floating-point errors: results are what IEEE 754 says, without warnings."""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.plan import Launch

T = TypeVar("T")

_WITHOUT_WARNINGS = Context()
"""A context in which NumPy ignores floating-point errors. Entering a copy of it takes a fraction of the time of `np.errstate`."""
_WITHOUT_WARNINGS.run(np.seterr, all="ignore")


def without_warnings(work: Callable[[], T]) -> T:
    """Calls a function, on any thread and within others that are called this way, and returns its result."""
    return _WITHOUT_WARNINGS.copy().run(work)  # a context can be entered only once at a time


def in_order(calls: Sequence[Callable[[], object]], *, ignores: bool = True) -> Launch:
    """Calls in order as one launch, in which NumPy ignores floating-point errors unless `ignores` is false."""

    def run() -> None:
        for call in calls:
            call()

    return (lambda stream: without_warnings(run)) if ignores else (lambda stream: run())
