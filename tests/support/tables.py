"""Tests of many small rows as one item: pytest and its workers take longer to set up and report an item than such a row takes.

    @table("operator", facts.operators())
    def test_it_has_a_name(operator: str) -> None: ...

runs as with `pytest.mark.parametrize`, but in one item, which tries all rows and names each that fails. Rows that need fixtures of their
own, take long, or have marks are for `parametrize`. `pytest --row TEXT` takes the rows whose labels contain a text.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.support.row_ids import row_id

Ids = Iterable[object] | Callable[[Any], object] | None


class Choice:
    """What a run takes of each table.

    Attributes:
        only_first: the first row alone, as quick runs do of other tests.
        containing: the option `--row`: a part of the labels of the rows that are taken.
    """

    only_first = False
    containing = ""


def _label(names: Sequence[str], values: Sequence[Any], number: int) -> str:
    """A row's name in a failure: what pytest calls it where it is short, or its number."""
    plain = str | int | float | bool | None
    return "-".join(
        str(value) if isinstance(value, plain) else str(row_id(value) or getattr(value, "__name__", f"{name}{number}"))
        for name, value in zip(names, values, strict=True)
    )


def _rows(names: Sequence[str], rows: Iterable[Any], ids: Ids, several: bool) -> list[tuple[str, tuple[Any, ...]]]:
    """The rows with their labels.

    Raises:
        ValueError: a row has marks, or there is none.
    """
    labelled: dict[str, tuple[Any, ...]] = {}
    given = None if ids is None or callable(ids) else [str(label) for label in ids]
    for number, row in enumerate(rows):
        label: object = given[number] if given else None
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError(f"row {number} has marks, which a row of a table cannot have: use pytest.mark.parametrize")
            values, label = tuple(row.values), row.id or label
        else:
            values = tuple(row) if several else (row,)
        if callable(ids) and label is None:
            label = "-".join(str(ids(value)) for value in values)
        text = str(label or _label(names, values, number))
        labelled[f"{text} (row {number})" if text in labelled else text] = values
    if not labelled:
        raise ValueError("a table needs rows")
    return list(labelled.items())


def table(names: str | Sequence[str], rows: Iterable[Any], *, ids: Ids = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test with each row in turn, as one item.

    Args:
        names: those of the parameters, as `pytest.mark.parametrize` takes them.
        rows: a value each, or a tuple of values where several are named.
        ids: labels of the rows, or what gives the label of a value.

    Raises:
        ValueError: as the decorator is made; and of the test an ExceptionGroup with what each row that fails has raised.
    """
    several = not isinstance(names, str) or "," in names
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labelled = _rows(named, rows, ids, several)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: dict[str, Exception] = {}
            taken = [row for row in labelled[: 1 if Choice.only_first else None] if Choice.containing in row[0]]
            if not taken:
                pytest.skip(f"no label contains {Choice.containing!r}")
            for label, values in taken:
                try:
                    test(**fixtures, **dict(zip(named, values, strict=True)))
                except Exception as error:
                    failures[label] = error
                except pytest.fail.Exception as failed:  # no Exception, and so none that a group can hold
                    failures[label] = AssertionError(str(failed)).with_traceback(failed.__traceback__)
            for label, failure in failures.items():
                failure.add_note(f"row: {label}")
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(taken)} rows: {', '.join(failures)}", list(failures.values()))

        kept = [parameter for name, parameter in signature.parameters.items() if name not in named]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
