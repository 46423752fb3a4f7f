"""Stored data is laid out so that a case, a run, a matrix's row or a wrong desc is a line; what makes a file anew does the same."""

from __future__ import annotations

import json
import random
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from dmlpy.bench import predictions
from dmlpy.bench.records import Record
from dmlpy.messages.json_text import WIDTH, lay_out
from dmlpy.x import stubs
from tests.support.folders import DATA, ROOT
from tests.support.generators import relation_layout, stored_data
from tests.support.tables import table

RECORDS = sorted({*(ROOT / "dmlpy" / "bench" / "records").glob("*.json"), DATA / "bench_record.json"} - {predictions.PREDICTIONS})
EXCEPT = ["tests/data/models/*"]
"""Files written by hand, whose layout is part of a test."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@table("path", stored_data.stored_files(), ids=name)
def test_every_stored_file_is_laid_out(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == stored_data.lay_out_file(path), "run: python -m tests.support.generators.stored_data"


def test_no_file_of_stored_data_is_left_out() -> None:
    found = [path for folder in ("tests/facts", "tests/data", "dmlpy/bench/records") for path in (ROOT / folder).rglob("*.json")]
    assert len(found) > 180
    left_out = {*found} - {*stored_data.stored_files()}
    assert [name(path) for path in left_out if not any(path.relative_to(ROOT).match(pattern) for pattern in EXCEPT)] == []


@pytest.mark.parametrize("pattern", [*stored_data.ROW_DEPTHS, stored_data.RELATIONS])
def test_every_pattern_matches_a_file(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


@pytest.mark.parametrize("path", RECORDS, ids=name)
def test_a_record_that_is_saved_again_stays_as_it_is(path: Path, tmp_path: Path) -> None:
    record = Record.load(path)
    record.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    text = path.read_text(encoding="utf-8")
    assert "null" not in text
    assert text.count("\n") < len(record.runs) + 100


def test_predictions_that_are_written_again_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = predictions.Predictions.load(predictions.PREDICTIONS)
    before = predictions.PREDICTIONS.read_text(encoding="utf-8")
    again = tmp_path / "predictions.json"
    again.write_text(before, encoding="utf-8")
    monkeypatch.setattr(predictions, "PREDICTIONS", again)
    monkeypatch.setattr(predictions, "predict", lambda: recorded.models[-1].predictions)
    assert predictions.main([]) == 0
    written = predictions.Predictions.load(again).models[-1].date
    assert with_last_date(again.read_text(encoding="utf-8"), written) == with_last_date(before, recorded.models[-1].date)


def with_last_date(text: str, date: str) -> str:
    """The text with another word for the last place of a date; earlier models may be of the same day."""
    first, found, last = text.rpartition(f'"{date}"')
    assert found
    return f'{first}"DATE"{last}'


def test_a_file_without_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=r"tests/other\.json"):
        stored_data.text(ROOT / "tests" / "other.json", {})


# --- generated files ----------------------------------------------------------------------------------------------------------


def is_generated(path: Path) -> bool:
    """Whether .gitattributes marks a file as generated: the last matching line decides."""
    lines = [line.split() for line in (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    found = [attributes for pattern, *attributes in lines if fnmatch(name(path) if "/" in pattern else path.name, pattern)]
    marks = [attribute for attributes in found for attribute in attributes if attribute.endswith("linguist-generated")]
    return marks[-1:] == ["linguist-generated"]


def test_generated_files_are_marked_for_reviews() -> None:
    made_by_hand = {ROOT / "tests/data/bench_record.json", ROOT / "tests/data/pronounce.json"}
    stored = {path for path in stored_data.stored_files() if "facts" not in path.parts} - made_by_hand
    generated = [*stubs.texts(), *(ROOT / "schemas").iterdir(), *stored]
    assert len(generated) > 220
    assert [name(path) for path in generated if not is_generated(path)] == []


def test_files_written_by_hand_are_shown_in_reviews() -> None:
    written = stubs.texts()
    by_hand = [path for folder in ("dmlpy", "tests") for path in (ROOT / folder).rglob("*.py") if path not in written]
    by_hand += [*(ROOT / "tests/facts").rglob("*.*"), *(ROOT / "tests/data/models").iterdir(), DATA / "README.md"]
    assert len(by_hand) > 1000
    assert [name(path) for path in by_hand if is_generated(path)] == []


# --- relations ----------------------------------------------------------------------------------------------------------------

RELATION = """\
# Of a file.

[A]
constraints = ["one"]  # kept
wrong = [
  {rule='one', change = { X = "FLOAT32 1" }, at = [
   "X"] },
# Of the second.
    { rule = "one", of = 1, remove = ["Y"], change = { Low = -1e-9, N = [1, 2], Deep = { Is = true, Not = {} } }, at = ["AVeryLongName1",
      "AVeryLongName2", "AVeryLongName3", "AVeryLongName4"] }
]

[[A.valid]]
about = "as  it is"
"""
LAID_OUT = """\
# Of a file.

[A]
constraints = ["one"]  # kept
wrong = [
    { rule = "one", change = { X = "FLOAT32 1" }, at = ["X"] },
    # Of the second.
    { rule = "one", of = 1, remove = ["Y"], change = { Low = -1e-09, N = [1, 2], Deep = { Is = true, Not = {} } }, at = [
        "AVeryLongName1", "AVeryLongName2", "AVeryLongName3", "AVeryLongName4"] },
]

[[A.valid]]
about = "as  it is"
"""


def test_wrong_descs_are_rows_and_comments_are_preserved() -> None:
    assert relation_layout.lay_out(RELATION) == LAID_OUT
    assert tomllib.loads(LAID_OUT) == tomllib.loads(RELATION)
    assert relation_layout.lay_out(LAID_OUT) == LAID_OUT


def test_a_comment_inside_a_wrong_desc_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        relation_layout.lay_out('wrong = [\n{ rule = "one", at = [\n# lost\n"X"] },\n]\n')


def test_all_wrong_descs_are_rows() -> None:
    """A wrong desc in a table of its own would be read, and escape the layout."""
    assert [path.name for path in ROOT.glob(stored_data.RELATIONS) if ".wrong" in path.read_text(encoding="utf-8")] == []


# --- the layout ---------------------------------------------------------------------------------------------------------------

LONG = "x" * 70
LAYOUTS: dict[str, tuple[Any, int | None, str]] = {
    "what fits stands on a line": ({"a": [1, 2], "b": {}}, None, '{"a": [1, 2], "b": {}}\n'),
    "members": ({"a": [LONG], "b": LONG}, None, f'{{\n  "a": ["{LONG}"],\n  "b": "{LONG}"\n}}\n'),
    "texts": ([LONG, LONG], None, f'[\n  "{LONG}",\n  "{LONG}"\n]\n'),
    "numbers fill lines": ([7] * 50, None, "[\n  " + "7, " * 45 + "7,\n  7, 7, 7, 7\n]\n"),
    "rows of an array": (
        {"sizes": [1, 2, 3], "note": LONG + LONG, "values": [1, 2, 3, 4, 5, 6]},
        None,
        f'{{\n  "sizes": [1, 2, 3],\n  "note": "{LONG}{LONG}",\n  "values": [\n    1, 2, 3,\n    4, 5, 6\n  ]\n}}\n',
    ),
    "a vector is a row": (
        {"sizes": [3], "note": LONG + LONG, "values": [1, 2, 3]},
        None,
        f'{{\n  "sizes": [3],\n  "note": "{LONG}{LONG}",\n  "values": [1, 2, 3]\n}}\n',
    ),
    "a row of a table is a line": (
        {"rows": [{"a": LONG, "b": LONG}, {"a": 1}]},
        2,
        f'{{\n  "rows": [\n    {{"a": "{LONG}", "b": "{LONG}"}},\n    {{"a": 1}}\n  ]\n}}\n',
    ),
    "numbers that JSON does not have": ([float("nan"), -float("inf")], None, "[NaN, -Infinity]\n"),
    "letters beyond ASCII stay": ("é", None, '"é"\n'),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts(case: str) -> None:
    value, row_depth, text = LAYOUTS[case]
    assert lay_out(value, row_depth=row_depth) == text


@pytest.mark.parametrize("length", range(WIDTH - 16, WIDTH + 2))
def test_a_line_has_room_for_its_comma(length: int) -> None:
    value = [["y" * (length - 10), 1], [1, 2]]
    assert max(map(len, lay_out(value).splitlines())) <= WIDTH or length > WIDTH - 5


def test_nothing_but_the_layout_changes() -> None:
    chance = random.Random(5)

    def value(depth: int) -> Any:
        kind = chance.randrange(6 if depth else 4)
        if kind == 4:
            return [value(depth - 1) for _ in range(chance.randrange(12))]
        if kind == 5:
            return {f"{LONG[: chance.randrange(9)]}{index}": value(depth - 1) for index in range(chance.randrange(9))}
        return [chance.random(), chance.randrange(10**6), chance.choice([None, True, False]), 'a "text",\n[{'][kind]

    widest = 0
    for row_depth in (None, 0, 1, 2):
        for _ in range(100):
            made = value(5)
            text = lay_out(made, row_depth=row_depth)
            assert json.dumps(json.loads(text)) == json.dumps(made)
            assert lay_out(json.loads(text), row_depth=row_depth) == text
            widest = max(widest, *map(len, text.splitlines())) if row_depth is None else widest
    assert 120 < widest <= WIDTH


def test_what_json_has_no_number_for_is_left_out_of_a_record(tmp_path: Path) -> None:
    record = Record.load(DATA / "bench_record.json")
    record.runs[0].relative_error = float("nan")
    record.save(tmp_path / "record.json")
    assert "NaN" not in (tmp_path / "record.json").read_text(encoding="utf-8")
    assert Record.load(tmp_path / "record.json").runs[0].relative_error is None
