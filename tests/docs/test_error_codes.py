"""The page of error codes has every code that dmlpy can report, each with an example that gives it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmlpy
import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS, operator_class
from dmlpy.docs import error_examples
from dmlpy.docs.codes import explain_code
from dmlpy.docs.error_examples import Example, examples
from dmlpy.docs.error_examples.example import shows
from dmlpy.docs.errors import MOST_FREQUENT, WITHOUT_EXAMPLE
from dmlpy.docs.links import operator_document
from dmlpy.docs.mistakes import SHOWN_BY, mistakes
from dmlpy.inspection.explain import is_code
from tests.docs.built_site import built_site
from tests.support.pairwise import first_few
from tests.support.tables import table

SOURCE = Path(dmlpy.__file__).parent
EMITTERS = {"Problem", "report", "refuse", "refusal", "_refused", "_graph_error", "_error"}


def codes_in(path: Path) -> Iterator[str]:
    """The codes that a module can emit: the first text among the first arguments of a call that makes a problem, where it has a dot."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in EMITTERS:
            continue
        for argument in node.args[:2]:
            match argument:
                case ast.Constant(value=str(code)) if re.fullmatch(r"[a-z_0-9]+\.[a-z_0-9]+", code):
                    yield code
                    break  # behind it stands the place
                case ast.JoinedStr(values=[ast.Constant(value="hazard."), *_]):
                    yield from ("hazard.temporary", "hazard.persistent")


def emitted() -> set[str]:
    """Every code with a dot, and the names of the rules."""
    found = {code for path in SOURCE.rglob("*.py") if "docs" not in path.relative_to(SOURCE).parts for code in codes_in(path)}
    return found | {name for kind in OPERATORS.values() for name in kind.rules()}


@table("example", examples(), ids=lambda example: example.codes[0])
def test_each_example_gives_its_codes(example: Example) -> None:
    codes, message = example.message()
    assert set(example.codes) <= set(codes)
    assert all(f"[{code}]" in message for code in example.codes)
    assert "shows(" not in example.code()


def test_the_code_that_is_shown_gives_the_error_by_itself() -> None:
    """Of two sections: with the imports of its module it stands alone."""
    for name in ("array.shape", "graph.unfed"):
        (example,) = [item for item in examples() if name in item.codes]
        module = Path(error_examples.__file__).with_name(f"{example.section}.py").read_text(encoding="utf-8")
        imports = [line for line in module.splitlines() if re.match(r"import |from (?!__future__)", line)]
        scope: dict[str, object] = {}
        *before, last = ast.parse("\n".join([*imports, example.code()])).body
        exec(compile(ast.Module(before, []), name, "exec"), scope)
        assert isinstance(last, ast.Expr)
        try:
            found = eval(compile(ast.Expression(last.value), name, "eval"), scope)
        except dmlpy.DmlError as error:
            found = error.problems
        assert [problem.code for problem in found] == list(example.message()[0])


def test_an_example_that_gives_no_error_is_refused() -> None:
    @shows("size.equal")
    def valid() -> list[object]:
        return []

    with pytest.raises(RuntimeError, match=r"size\.equal gives no error"):
        Example(("size.equal",), valid).message()


@pytest.mark.slow
def test_every_code_has_an_example_or_a_reason() -> None:
    text = (built_site() / "sources" / "reference" / "errors.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^### `([a-z_0-9.]+)`$", text, re.MULTILINE))
    assert emitted() - shown - set(WITHOUT_EXAMPLE) == set()
    assert set(WITHOUT_EXAMPLE) & shown == set(), "it has an example: remove the reason"
    assert set(WITHOUT_EXAMPLE) <= emitted()
    assert len(shown) > 200
    rules = {name for kind in OPERATORS.values() for name in kind.rules()}
    known = {code for example in examples() for code in example.codes}
    assert shown - rules - known == {*SHOWN_BY}
    assert set(MOST_FREQUENT) <= shown


@pytest.mark.parametrize("name", dict.fromkeys(SHOWN_BY.values()))
def test_the_operators_that_show_codes_can_be_broken_so(name: str) -> None:
    assert {code for code, operator in SHOWN_BY.items() if operator == name} <= mistakes(operator_class(name)).keys()


KINDS = list({kind.__module__: kind for kind in OPERATORS.values()}.values())
KINDS += [kind for kind in OPERATORS.values() if kind not in KINDS]
"""The operators, one of each module first."""


@pytest.mark.parametrize("kind", first_few(KINDS, len({kind.__module__ for kind in KINDS})), ids=lambda kind: kind.short_name())
def test_the_sample_of_every_operator_can_be_broken(kind: type[OperatorDesc]) -> None:
    found = mistakes(kind)
    assert {"tensor.missing", "field.form"} & found.keys()
    assert len(found) >= 3


@pytest.mark.slow
def test_the_page_of_every_operator_shows_mistakes() -> None:
    """They are found once, when the pages are written: `.ci/run site` looks at those instead of searching again in the rows above."""
    pages = {kind.short_name(): built_site() / "sources" / f"{operator_document(kind)}.md" for kind in OPERATORS.values()}
    errors = {name: path.read_text(encoding="utf-8").partition("\n## Errors\n")[2] for name, path in pages.items()}
    assert [name for name, text in errors.items() if not re.search(r" \[[a-z_.]+\]$", text, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("graph.unfed", "has no edge, expected one edge that feeds it  [graph.unfed]"),
        ("size.equal", "expected input_size = 8  [size.equal]"),
        ("onnx.file", "onnx.file: a file of an ONNX model that cannot be read"),
        pytest.param("", None, id="a rule of an operator"),
    ],
)
def test_a_code_is_explained(code: str, expected: str | None) -> None:
    if expected is None:  # a rule of some operators: any of them
        code = next(name for kind in OPERATORS.values() for name in kind.rules() if name in mistakes(kind))
        expected = f"[{code}]"
    assert is_code(code)
    assert expected in explain_code(code)


@pytest.mark.parametrize(
    ("code", "nearest"), [("size.equl", "size.equal"), ("graph.unreadd", "graph.unread"), ("no.such_code_at_all", None)]
)
def test_a_code_that_does_not_exist_is_refused(code: str, nearest: str | None) -> None:
    with pytest.raises(dml.DescError) as caught:
        explain_code(code)
    (problem,) = caught.value.problems
    assert (problem.code, problem.remedy) == ("code.unknown", nearest and f"did you mean {nearest}?")


def test_operators_are_no_codes() -> None:
    assert not any(map(is_code, ("RNN", "DML_OPERATOR_RNN", "RNNDesc")))


def test_every_code_of_the_pages_is_explained() -> None:
    for code in WITHOUT_EXAMPLE:
        assert explain_code(code).startswith(code)
