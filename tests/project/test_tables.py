"""Tables of rows in one item (tests/support/tables.py): every row runs, and each that fails is named."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.row_ids import row_id
from tests.support.tables import Choice, table


def test_every_row_that_fails_is_named_with_what_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choice, "only_first", False)  # as in other than quick runs
    seen: list[object] = []

    @table(("name", "value"), [("one", 1), ("two", 2), pytest.param("three", 3, id="third"), ("four", 4)])
    def check(name: str, value: int, shared: list[object]) -> None:
        shared.append(name)
        if value == 3:
            pytest.fail("it is odd")
        assert value != 2, "it is even"

    with pytest.raises(ExceptionGroup) as caught:
        check(shared=seen)
    assert seen == ["one", "two", "three", "four"]
    assert caught.value.message == "2 of 4 rows: two-2, third"
    even, odd = caught.value.exceptions
    assert (str(odd), odd.__notes__) == ("it is odd", ["row: third"])
    assert (str(even).splitlines()[0], even.__notes__) == ("it is even", ["row: two-2"])
    assert list(inspect.signature(check).parameters) == ["shared"], "pytest looks for fixtures of the other names only"


@table("value", [0, 1])
@table("other", [2, 3], ids=str)
def test_tables_may_be_stacked_and_take_fixtures(value: int, other: int, request: pytest.FixtureRequest) -> None:
    assert value < 2 <= other
    assert request.node.name == "test_tables_may_be_stacked_and_take_fixtures"


def test_a_row_that_is_skipped_skips_the_test() -> None:
    @table("value", [1])
    def check(value: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match="not here"):
        check()


@pytest.mark.parametrize(("name", "given", "taken"), [("only_first", True, [1]), ("containing", "2", [2, 12])])
def test_a_quick_run_takes_the_first_row_and_others_those_that_are_asked_for(
    name: str, given: Any, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    check = table("value", [1, 2, 12, 3])(lambda value: seen.append(value))
    monkeypatch.setattr(Choice, name, given)
    check()
    assert seen == taken


def test_a_table_without_such_a_row_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choice, "containing", "4")
    with pytest.raises(pytest.skip.Exception, match="no label contains '4'"):
        table("value", [1, 2])(lambda value: None)()


def test_rows_with_marks_and_empty_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has marks"):
        table("value", [1, pytest.param(2, marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match="needs rows"):
        table("value", [])


def test_rows_of_equal_labels_all_run_and_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choice, "only_first", False)

    @table("sizes", [[2, 3], (2, 3)])
    def check(sizes: object) -> None:
        raise ValueError(sizes)

    with pytest.raises(ExceptionGroup, match=r"2 of 2 rows: 2x3, 2x3 \(row 1\)"):
        check()


@dataclass
class _Options:
    sizes: tuple[int, ...]
    steps: int = 1
    weights: Any = None


class _Hostile(dict[str, int]):
    def items(self) -> Any:
        raise OSError


@table(
    ("value", "expected"),
    [
        ((2, 3, 4), "2x3x4"),
        ([7], "[7]"),
        ((), "none"),
        ({}, "default"),
        ({"optional": ("bias_tensor", "h0"), "axis": 1}, "optional=(bias,h0),axis=1"),
        ({"a", "b"}, "a+b"),
        ((np.dtype("float16"), np.int64(3), dml.DataType.INT8), "float16,3,INT8"),
        (dml.TensorDesc(data_type="FLOAT16", sizes=[2, 3]), "FLOAT16 2x3"),
        (_Options((1, 2)), "sizes=1x2"),
        (_Options((1, 2), 3), "sizes=1x2,steps=3"),
        (_Options((1, 2), weights=0.5), "sizes=1x2,weights=0.5"),
        # pytest names these, or numbers them:
        ("text", None),
        (3, None),
        (np.zeros(2), None),
        (_Options((1, 2), weights=np.zeros(2)), None),
        ((lambda: 0,), None),
        (list("a" * 60), None),
        (("a\0",), None),
        (_Hostile(a=1), None),
    ],
)
def test_rows_are_named_by_what_they_hold(value: object, expected: str | None) -> None:
    assert row_id(value) == expected
