"""Messages about a desc or a file are bounded, however long its names, numbers and lists are, and take time that grows with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.description.coercion import brief
from dmlpy.dxdispatch.checker import check_file
from dmlpy.messages.naming import listed, nearest
from dmlpy.messages.problems import MAX_PROBLEMS, MAX_REPORTED, Problem, lay_out, truncate
from dmlpy.messages.tables import MAX_ROWS, Table
from tests.support.dxdispatch.models import Data, rnn_model, write
from tests.support.pairwise import first_few

MAX_TEXT = 100_000


def relu(**tensor: Any) -> Any:
    return dml.ActivationReluDesc(input_tensor={"DataType": "FLOAT32", **tensor}, output_tensor={"DataType": "FLOAT32", "Sizes": [1]})


LONG: dict[str, Any] = {
    "500 large sizes": lambda: relu(Sizes=[2**32 - 1] * 500),
    "20,000 large sizes": lambda: relu(Sizes=[2**32 - 1] * 20_000),
    "a million sizes of 1": lambda: relu(Sizes=[1] * 10**6),
    "a million strides": lambda: relu(Sizes=[1, 2], Strides=[1] * 10**6),
    "a million entries": lambda: dml.TileDesc(input_tensor=relu(Sizes=[1]).input_tensor, repeats=[2**32] * 10**6),
    "many tensors": lambda: dml.JoinDesc(input_tensors=[relu(Sizes=[1, 9 + index]).input_tensor for index in range(5000)], axis=7),
}


@pytest.mark.parametrize("name", LONG)
def test_problems_of_descs_with_long_members_are_short(name: str) -> None:
    desc = LONG[name]()
    began = time.process_time()
    problems = dml.check(desc)
    assert problems
    texts = [str(desc), desc._repr_html_(), lay_out("desc", problems), *(str(tensor) for tensor in list(desc.tensors().values())[:3])]
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(desc, "numpy")
    texts += [str(caught.value), caught.value._repr_html_()]
    assert max(map(len, texts)) < MAX_TEXT
    assert time.process_time() - began < 5


def test_a_check_stops_where_the_other_rules_mean_nothing() -> None:
    problems = dml.check(relu(Sizes=[0] * 100, Strides=[-1] * 7))
    assert [problem.code for problem in problems if problem.field == "input_tensor"] == ["dims.range"]
    codes = [problem.code for problem in dml.check(dml.TileDesc(input_tensor=relu(Sizes=[1]).input_tensor, repeats=[0] * 5000))]
    assert codes.count("attribute.length") == 1
    assert "attribute.range" not in codes


def test_texts_of_problems_are_clipped() -> None:
    problem = Problem("code", "p" * 10**6, "f" * 10**6, "e" * 10**6, ("w" * 10**6, "short"), "r" * 10**6)
    assert len(str(problem)) < 11_000
    assert "... (1000000 characters)" in problem.found
    assert problem.why[1] == "short"
    short = Problem("code", "path", "found", "expected", ("why",), "remedy")
    assert (short.path, short.found, short.expected, short.why, short.remedy) == ("path", "found", "expected", ("why",), "remedy")


def test_problems_after_the_last_reported_one_are_not_looked_for() -> None:
    def endless() -> Any:
        number = 0
        while True:
            yield Problem("code", f"p{number}", "found", "expected")
            number += 1

    found = list(truncate(endless()))
    assert [problem.path for problem in found] == [f"p{number}" for number in range(MAX_REPORTED + 1)]
    assert found[-1].found == "found, and more of this kind follow"
    text = lay_out("desc", list(truncate(endless(), MAX_PROBLEMS)))
    assert text.endswith(f"and {MAX_PROBLEMS + 1 - MAX_REPORTED} more")


def test_tables_show_their_first_rows_and_the_broken_ones() -> None:
    table = Table("t", ("a", "b"), tuple((f"row{index}", "c" * 5000) for index in range(10**5)), frozenset({3, 70_000, 90_000}))
    for text in (table.to_text(), table.to_html()):
        assert all(name in text for name in ("row0", "row3", "row70000", "row90000", f"... {10**5 - MAX_ROWS + 1} more"))
        assert "row80000" not in text
        assert "c" * 1001 not in text.replace("\n", "")
    small = Table("t", ("a",), (("x",), ("y",)), frozenset({1}))
    assert "more" not in small.to_text()


def test_lists_and_values_are_shown_from_their_beginnings() -> None:
    assert listed([1, 2]) == "[1, 2]"
    assert listed(range(10**6)) == f"[{', '.join(map(str, range(16)))}, ... {10**6 - 16} more]"
    began = time.process_time()
    huge: list[Any] = [["x" * 10**7] * 10**6] * 10**6
    for _ in range(1000):
        assert brief(huge).startswith("[['xxx")
    assert time.process_time() - began < 1
    values: list[Any] = [[1, 2], (1,), (), {}, {"b": 1, "a": [2.5, None]}, "a'b", b"c", 1.5, {1}, [(), {}]]
    for value in values:
        assert brief(value) == repr(value)
    loop: list[Any] = []
    loop.append(loop)
    assert len(brief(loop)) == 80


def test_names_are_compared_with_few_others_and_none_that_is_long() -> None:
    began = time.process_time()
    assert nearest("x" * 10**6, ["x" * 10**6]) is None
    assert nearest("resourec", [*("y" * 10**6 for _ in range(100)), "resource"]) == "resource"
    for _ in range(20):
        nearest("resourec7", (f"resource{index}" for index in range(10**6)))
    assert time.process_time() - began < 2


def wrong_names() -> Data:
    many = rnn_model()
    many["resources"] |= {f"resource{index}": {"initialValues": "deferred"} for index in range(1000)}
    many["commands"] += [{"type": "print", "resource": f"resourec{index}"} for index in range(1000)]
    return many


START = '{"resources": {}, "dispatchables": {}, "commands": [], '
FILES: dict[str, Callable[[], Data | str]] = {
    "wrong names": wrong_names,
    "repeated keys": lambda: START + ",".join(['"a": 1'] * 500_000) + "}",
    "unknown members": lambda: '{"Type": "ACTIVATION_RELU", ' + ",".join(f'"a{index}": 1' for index in range(9000)) + "}",
    "very many members": lambda: '{"Type": "ACTIVATION_RELU", ' + ",".join(f'"a{index}": 1' for index in range(270_000)) + "}",
    "a long key": lambda: json.dumps({"Type": "RELU", "a" * 10**6: 1}),
    "very many objects": lambda: '{"resources": {"a": {"initialValues": [' + ",".join(["{}"] * 400_000) + "]}}}",
    "many dispatchables": lambda: {"resources": {}, "dispatchables": {f"d{i}": {"type": "GRU", "desc": {"a": {}}} for i in range(30_000)}},
    "many problems": lambda: {"resources": {f"r{index}": 0 for index in range(50_000)}, "dispatchables": {}, "commands": []},
    "many resources": lambda: {"resources": {f"r{index}": {"initialValues": "deferred"} for index in range(110_000)}, "commands": []},
    "unreadable tensors": lambda: {"Type": "JOIN", "Desc": {"InputTensors": [0] * 500_000, "Axis": 0}},
    "unreadable nodes": lambda: {"Nodes": [0] * 500_000},
    "unreadable names": lambda: {"Nodes": [], "InputNames": [0] * 500_000},
}


CODES = {
    "wrong names": "command.name",
    "repeated keys": "json.duplicate",
    "unknown members": "field.unknown",
    "very many members": "field.unknown",
    "a long key": "json.key",
    "very many objects": "json.parts",
    "many dispatchables": "file.parts",
    "many problems": "field.form",
    "many resources": "file.parts",
    "unreadable tensors": "field.form",
    "unreadable nodes": "field.form",
    "unreadable names": "field.form",
}


@pytest.mark.parametrize("name", CODES)
def test_files_with_very_much_wrong_are_answered_soon(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, FILES[name]())
    began = time.process_time()
    report = check_file(path)
    text = report.text()
    assert time.process_time() - began < 4
    assert CODES[name] in {problem.code for finding in report.findings for problem in finding.problems}
    assert 0 < report.problem_count <= MAX_PROBLEMS + MAX_REPORTED + 1
    assert len(text) < 10 * MAX_TEXT


@pytest.mark.parametrize("count", first_few([4000, 20_000], 1))
def test_descs_of_many_tensors_are_checked(tmp_path: Path, count: int) -> None:
    tensors: list[Data] = [{"DataType": "FLOAT32", "Sizes": [1, index % 7 + 1]} for index in range(count)]
    joined = {"DataType": "FLOAT32", "Sizes": [1, sum(tensor["Sizes"][1] for tensor in tensors)]}
    path = write(tmp_path, {"Type": "JOIN", "Desc": {"InputTensors": tensors, "OutputTensor": joined, "Axis": 1}})
    began = time.process_time()
    assert check_file(path).findings == ()
    assert time.process_time() - began < count / 1000
