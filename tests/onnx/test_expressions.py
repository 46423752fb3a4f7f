"""Regular expressions of models: Python's `re` runs those whose time grows with the text alone, google-re2 all others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.domains import expressions
from tests.support.onnx.models import Array, model

TEXTS = np.array(["foo bar, b-a", "aab é", ""], object)
ALTERNATIVES = [(r"(a|b)+c?", [True, False, True]), (r"\w+@(yahoo|gmail)\.com", [False, False, False]), ("(?i)ABA", [True, False, False])]


def texts_model(operator: str, domain: str, **attributes: Any) -> onnx.Model:
    node = helper.make_node(operator, ["x"], ["y"], name="texts", domain=domain, **attributes)
    types = {"x": TensorProto.STRING, "y": TensorProto.BOOL if not domain else TensorProto.STRING}
    return onnx.load(model([node], {"x": (3,)}, ["y"], types=types, domains={"com.microsoft": 1}))


def matches(pattern: str, texts: Array) -> list[bool]:
    found = texts_model("RegexFullMatch", "", pattern=pattern).compile("numpy")({"x": texts})["y"]
    assert found.dtype == np.bool_
    return [bool(matched) for matched in found]


def tokens(**attributes: Any) -> Any:
    own = {"mark": 0, "mincharnum": 1, "pad_value": "#"} | attributes
    return texts_model("Tokenizer", "com.microsoft", **own).compile("numpy")({"x": TEXTS})["y"].tolist()


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_module", lambda: None)


@pytest.fixture
def without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where Python's `re` compiles an expression of a model."""
    pytest.importorskip("re2")
    compiles = re.compile

    def fails(pattern: Any, flags: int = 0) -> Any:
        assert pattern not in [given for given, _ in ALTERNATIVES]
        return compiles(pattern, flags)

    monkeypatch.setattr(re, "compile", fails)


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        ("[a-c]*", ["abc", "", "abx"], [True, True, False]),
        (r"\d{3}-\d+", ["123-4", "12-4", "123-"], [True, False, False]),
        (r"\w\s\W?", ["a ", "a\t-", "é "], [True, True, False]),
        ("", ["", "a", "\n"], [True, False, False]),
        ("a.", ["ab", "a\n", "a"], [True, False, False]),
        (r"[-\s][^]a][]-]", ["-b]", " \n-", "+b]"], [True, True, False]),
        (r"[\d\s-]\_", ["-_", "7_", "._"], [True, True, False]),
    ],
)
def test_texts_match_expressions_as_a_whole(pattern: str, texts: list[str], expected: list[bool]) -> None:
    assert matches(pattern, np.array(texts, object)) == expected


@pytest.mark.usefixtures("without_python")
@pytest.mark.parametrize(("pattern", "expected"), ALTERNATIVES)
def test_google_re2_matches_what_python_may_not(pattern: str, expected: list[bool]) -> None:
    assert matches(pattern, np.array(["aba", "abcc", "c"], object)) == [expected[0], expected[1], False]


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize("pattern", [*(pattern for pattern, _ in ALTERNATIVES), "a*b", "^a", "(?<=a)b", "[z-a]", "a{2}+"])
def test_without_google_re2_all_others_are_refused_before_they_run(pattern: str) -> None:
    found = texts_model("RegexFullMatch", "", pattern=pattern)
    (node,) = found.report().nodes
    assert node.where == "nowhere"
    with pytest.raises(dml.CompileError, match="install google-re2") as refusal:
        found.compile("numpy")
    assert [problem.path for problem in refusal.value.problems] == ["texts.pattern"]


@pytest.mark.parametrize(("pattern", "message"), [("(", "missing "), ("(?<=a)b", "perl operator"), ("(a{1000}){1000}", "repetition")])
def test_what_re2_rejects_is_refused_in_its_words(pattern: str, message: str) -> None:
    pytest.importorskip("re2")
    with pytest.raises(dml.CompileError, match=f"a regular expression of RE2.*\n.*{message}"):
        texts_model("RegexFullMatch", "", pattern=pattern).compile("numpy")


@pytest.mark.usefixtures("without_re2")
def test_a_body_of_texts_has_no_other_expressions_than_the_graph() -> None:
    """Python's `re` would take them all."""
    text = """<ir_version: 9, opset_import: ["": 20]> net (seq(string[N]) s) => (seq(bool[N]) t) {
        t = SequenceMap (s) <body = b (string[N] a) => (bool[N] c) { c = RegexFullMatch<pattern="(a)b">(a) }> }"""
    with pytest.raises(dml.DmlError, match="install google-re2"):
        onnx.load(parser.parse_model(text)).compile("numpy")({"s": [TEXTS]})


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"tokenexp": "a*"}, [["a", "a"], ["aa", "#"], ["#", "#"]]),
        ({"tokenexp": "a|ab"}, [["a", "a"], ["a", "ab"], ["#", "#"]]),
        ({"tokenexp": "(a)(b)?"}, [["a", "a"], ["a", "ab"], ["#", "#"]]),
        ({"tokenexp": r"^\w+"}, [["foo"], ["aab"], ["#"]]),
        ({"tokenexp": r"\w+$"}, [["a"], ["#"], ["#"]]),
        ({"tokenexp": r"\b"}, [[], [], []]),
        ({"separators": ["^f", "o|oo"]}, [[" bar, b-a"], ["aab é"], ["#"]]),
        ({"separators": ["(a)|(b)"]}, [["foo ", "r, ", "-"], [" é", "#", "#"], ["#", "#", "#"]]),
        ({"separators": ["-", "^a"]}, [["foo bar, b"], ["ab é"], ["#"]]),
        ({"separators": ["(?i)A"]}, [["foo b", "r, b-"], ["b é", "#"], ["#", "#"]]),
    ],
)
def test_tokens_are_those_of_onnx_runtime(attributes: dict[str, Any], expected: list[list[str]]) -> None:
    """ONNX Runtime 1.32.0 gave them."""
    pytest.importorskip("re2")
    assert tokens(**attributes) == expected


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize(
    "expression",
    [
        *("(a)", "a|b", "a+b+", "a+b", "a*", "a?", "a{0,2}", "a{2}{3}", "a**", "[a", "[^]", "[z-a]", r"[\S]", "[[:alpha:]]"),
        *("^a", "a$", r"\b", r"\1", r"\Qa", r"\pN", "(?i)a", "a{,3}", "a{1000}", "a+\n"),
        *("[a--b]", "a{0}", "a{0}b*", "a{0}b{00}", "a{00,1}", "a{01}", r"\é", r"[]\S", r"[^]\s", r"[\s-_]", r"[\w-.]", r"[a-z-\s]"),
    ],
)
@pytest.mark.parametrize("attribute", ["tokenexp", "separators"])
def test_tokens_of_expressions_that_python_may_match_otherwise_are_refused(attribute: str, expression: str) -> None:
    """Nor may the time grow with more than the text."""
    own = {attribute: expression if attribute == "tokenexp" else [expression]}
    with pytest.raises(dml.CompileError, match=f"{attribute} is .*characters and classes such as"):
        tokens(**own)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"tokenexp": ""}, "a character or more"),
        ({"separators": [r"\b"]}, "matches no characters"),
        ({"separators": ["o|"]}, "no characters"),
    ],
)
def test_separators_and_tokens_of_no_characters_are_refused(attributes: dict[str, Any], message: str) -> None:
    pytest.importorskip("re2")
    with pytest.raises(dml.CompileError, match=message):
        tokens(**attributes)
