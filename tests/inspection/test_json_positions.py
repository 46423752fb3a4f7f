"""Lines and columns of the values in JSON texts, held to texts whose writer noted where it put them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.dxdispatch import load
from dmlpy.dxdispatch import text as model_text
from dmlpy.messages.json_nesting import NestingError, decoded, nesting
from dmlpy.messages.json_positions import Position, Positions
from tests.support.dxdispatch.models import rnn_model, write

Location = tuple[str | int, ...]
GAPS = ["", "", "", " ", "\n", "\t\r\n  ", "/* a { comment */", "// an [ open one\n", '/* "quoted" */ ']
WORDS = ["a", "Sizes", "é😀", "x.y", "a[0]", 'quo"te', "back\\slash", "// no comment", "", "DataType"]


class Writer:
    """Writes random JSON with blanks and comments between the tokens, and notes where values and keys begin."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.text = ""
        self.values: dict[Location, int] = {}
        self.keys: dict[Location, int] = {}

    def gap(self) -> None:
        self.text += self.chance.choice(GAPS)

    def put(self, token: str) -> None:
        self.text += token
        self.gap()

    def value(self, location: Location, depth: int) -> None:
        self.values[location] = len(self.text)
        kind = self.chance.choice(["object", "array", "scalar"]) if depth else "scalar"
        if not location:
            kind = "object"
        if kind == "scalar":
            self.put(json.dumps(self.chance.choice([0, -1.5e300, True, None, "]", 'a "quoted" {', "\\", 12345678901234567890])))
            return
        self.put("{" if kind == "object" else "[")
        count = self.chance.randrange(5)
        names: list[Any] = self.chance.sample(WORDS, count) if kind == "object" else list(range(count))
        for name in names:
            if kind == "object":
                self.keys[*location, name] = len(self.text)
                self.put(json.dumps(name, ensure_ascii=self.chance.random() < 0.5))
                self.put(":")
            self.value((*location, name), depth - 1)
            if name is not names[-1] or self.chance.random() < 0.3:
                self.put(",")
        self.put("}" if kind == "object" else "]")


def place(text: str, offset: int) -> Position:
    before = text[:offset].split("\n")
    return Position(len(before), len(before[-1]) + 1)


def test_every_value_is_found_where_it_was_written() -> None:
    checked = 0
    for seed in range(150):
        writer = Writer(seed)
        writer.gap()
        writer.value((), 4)
        writer.text += " anything } at all"
        document = model_text.parse(writer.text)
        for location, offset in writer.values.items():
            assert document.positions.of(location) == place(writer.text, offset), (seed, location)
            checked += 1
        for location, offset in writer.keys.items():
            found = document.positions.of(location[:-1], location[-1] or "?", key=True)
            assert location[-1] == "" or found == place(writer.text, offset), (seed, location)
    assert checked > 2000


TEXT = """{
  "desc": {"inputTensor": {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [1, 2, 3]}}},
  "type": "A",
  "FusedActivation": {"Type": "B", "Desc": {"Type": "C", "Alpha": 1}},
  "a.b[0]": 1,
  "bindings": {"InputTensor": {"name": "x"}},
  "Nodes": [{"Type": "OPERATOR", "Desc": {"Operator": {"Type": "D", "Desc": {"Axis": 7}}, "Name": "n"}}]
}
"""


PATHS: list[tuple[Location, str, dict[str, bool], str]] = [
    ((), "", {}, "{\n"),
    ((), "input_tensor", {}, '{"Type": "BUFFER"'),
    ((), "input_tensor.sizes", {}, "[1, 2, 3]"),
    ((), "input_tensor.sizes[2]", {}, "3]"),
    ((), "InputTensor.Sizes[1]", {}, "2, 3]"),
    ((), "input_tensor.data_type", {}, '"FLOAT32"'),
    ((), "input_tensor.data_type", {"key": True}, '"DataType"'),
    # The nearest that exists: the tensor's object, the array, the whole.
    ((), "input_tensor.strides[0]", {}, '{"Type": "BUFFER"'),
    ((), "input_tensor.strides", {"key": True}, '{"Type": "BUFFER"'),
    ((), "input_tensor.sizes[3]", {}, "[1, 2, 3]"),
    ((), "input_tensor.sizes[1].x", {}, "2, 3]"),
    ((), "weight_tensor", {}, "{\n"),
    ((), "bind point X of dispatchable 'y'", {}, "{\n"),
    (("desc",), "InputTensor", {}, '{"Type": "BUFFER"'),
    (("absent", "more"), "x", {}, "{\n"),
    # What is nested in Desc is its holder's; where both have a member the one inside is the struct's.
    ((), "fused_activation.alpha", {}, "1}}"),
    ((), "fused_activation.type", {}, '"C"'),
    ((), "fused_activation.type", {"outer": True}, '"B"'),
    ((), "type", {"outer": True}, '"A"'),
    ((), "nodes[0].axis", {}, "7}}"),
    ((), "nodes[0].name", {}, '"n"'),
    ((), "nodes[0].weight_tensor", {}, '{"Type": "OPERATOR"'),
    ((), "a.b[0]", {"key": True}, '"a.b[0]"'),
    # One value stands for an array of one.
    ((), "bindings.InputTensor[0].name", {}, '"x"'),
]


def test_paths_of_problems() -> None:
    positions, lines = Positions(TEXT), TEXT.splitlines(keepends=True)
    wrong = []
    for location, path, options, wanted in PATHS:
        at = positions.of(location, path, **options)
        found = "".join(lines[at.line - 1 :])[at.column - 1 :]
        if not found.startswith(wanted):
            wrong.append(f"{location} {path}: {found[:20]!r}, expected {wanted!r}")
    assert not wrong, "\n".join(wrong)


def test_repeated_keys_are_found_in_the_order_of_the_text() -> None:
    text = '{"a": {"b": 1,\n "b": {"c": 2, "c": 3}},\n "d": [{"e": 1, "e": 2, "e": 3}],\n "a": 4}'
    document = model_text.parse(text)
    (finding,) = document.findings()
    assert [problem.path for problem in finding.problems] == ["'b'", "'c'", "'e'", "'e'", "'a'"]
    lines = text.splitlines()
    assert [lines[at.line - 1][at.column] for at in finding.positions] == list("bceea")
    assert finding.positions == (Position(2, 2), Position(2, 16), Position(3, 17), Position(3, 25), Position(4, 2))


def test_repeated_keys_are_distinguished_from_strings_and_other_objects_keys() -> None:
    text = r"""{"a": "{\"a\": 1, \"a\":", "b": {"a": [{"a": 1}, {"a": "a"}, "a", "a"]}, "\u0061": {}, "c\"}": 1, "c\"}": 2} "c": 3"""
    (finding,) = model_text.parse(text).findings()
    assert [problem.path for problem in finding.problems] == ["'a'", "'c\"}'"]
    assert [text[at.column - 1 :][:6] for at in finding.positions] == [r'"\u006', r'"c\"}"']


def test_a_valid_file_costs_no_positions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Positions, text: str) -> None:
        raise AssertionError("positions of a file without problems")

    monkeypatch.setattr(Positions, "__init__", never)
    assert load(write(tmp_path, rnn_model())).warnings == ()


def test_a_long_text_is_scanned_along_the_path_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"first": [0.5] * 100_000, "second": {"deep": {"Sizes": list(range(1000))}}, "third": [1] * 100_000})
    positions = Positions(text)
    visited = []
    visit = Positions._visit

    def visiting(self: Positions, start: int) -> Any:
        visited.append(text[start : start + 8])
        return visit(self, start)

    monkeypatch.setattr(Positions, "_visit", visiting)
    for index in range(0, 1000, 7):
        at = positions.of(("second",), f"deep.sizes[{index}]")
        assert text[at.column - 1 :].startswith(f"{index}")
    assert visited == ['{"first"', '{"deep":', '{"Sizes"', "[0, 1, 2"], "each once"


def test_nesting_is_counted_up_to_a_limit() -> None:
    data: Any = 1
    for depth in range(1, 6):
        assert nesting(data, 64) == depth - 1
        data = [0, data] if depth % 2 else {"a": 0, "b": data}
    assert nesting(data, 3) == 4


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[" * 4 + "]" * 4, None),
        ('[{"a": [{}, [1]]}, [], [[]]]', None),
        ('["[[[[[", {"{{{\\"{{": "\\\\"}]', None),
        ("[" * 5 + "]" * 5, NestingError),
        ('{"a": [{"b": [{}]}]}', NestingError),
        ("[" * 5 + "x", NestingError),
        ("[" * 5 + "9" * 5000, NestingError),
        ("[" * 100_000, NestingError),
        ("[" * 100_000 + "]" * 100_000, NestingError),
        ("[" * 4 + "x", json.JSONDecodeError),
        ("[x" + "[" * 5, json.JSONDecodeError),
        ('["[[[[[', json.JSONDecodeError),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else getattr(value, "__name__", "fits"),
)
def test_the_limit_of_nesting_is_that_of_no_decoder(text: str, error: type[ValueError] | None) -> None:
    """How deep Python's json reads is another thing in each version: a text that is not JSON is too deep where it is before its error."""
    if error is None:
        assert decoded(text, 4) == json.loads(text)
        return
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the next line says which)
        decoded(text, 4)
    assert type(caught.value) is error


@pytest.mark.parametrize("text", ["[" * 65 + "]" * 65, "[" * 65, "[" * 100_000, '{"a": // deep\n' + "[" * 2000])
def test_text_of_a_desc_is_not_nested_deeper_than_files(text: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        dml.GEMMDesc.from_json(text)
    assert [problem.code for problem in caught.value.problems] == ["json.depth"]
