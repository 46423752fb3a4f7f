"""Examples of errors: how they run, and which code is shown."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlpy.messages.problems import DmlError, Problem, lay_out

if TYPE_CHECKING:
    from types import ModuleType

SECTIONS = ("descs", "arrays", "graphs", "expressions", "models", "onnx", "keras", "dask")
"""The modules of examples, in the page's order."""

Wrong = Callable[[], Any]
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


@dataclass(frozen=True)
class Example:
    """An example of one or more codes.

    Attributes:
        codes: the codes that it illustrates.
        act: the function. It raises a `DmlError`, or returns the problems that something has.
    """

    codes: tuple[str, ...]
    act: Wrong

    @property
    def section(self) -> str:
        """The module that contains it."""
        return self.act.__module__.rpartition(".")[2]

    def code(self) -> str:
        """The body of the function, after the definitions of its module that it uses."""
        module = importlib.import_module(self.act.__module__)
        body = inspect.getsource(self.act)
        tree = ast.parse(body)
        function = tree.body[0]
        assert isinstance(function, ast.FunctionDef)
        first = function.body[0].lineno - 1
        shown = textwrap.dedent("\n".join(body.splitlines()[first:])).replace("return ", "", 1)
        return "\n".join([*_definitions(module, tree), shown])

    def message(self) -> tuple[tuple[str, ...], str]:
        """The codes of the example's problems, and the error as printed. It runs in an empty temporary folder.

        Raises:
            RuntimeError: it has none.
        """
        with _empty_folder() as folder:
            try:
                problems = self.act()
            except DmlError as error:
                return tuple(problem.code for problem in error.problems), anywhere(str(error), folder)
        if not problems or not all(isinstance(problem, Problem) for problem in problems):
            raise RuntimeError(f"the example of {', '.join(self.codes)} gives no error")
        return tuple(problem.code for problem in problems), anywhere(lay_out("dml.check", problems), folder)


def anywhere(message: str, folder: str) -> str:
    """A message without what differs from run to run: the folder in which an example ran, and addresses of memory."""
    for spelling in {folder, os.path.realpath(folder)}:
        message = message.replace(spelling, "/models")
    return _ADDRESS.sub("0x…", message)


def shows(*codes: str) -> Callable[[Wrong], Wrong]:
    """Marks a function as an example of these codes."""

    def mark(act: Wrong) -> Wrong:
        act.dml_codes = codes  # type: ignore[attr-defined]
        return act

    return mark


@cache
def examples() -> tuple[Example, ...]:
    """All examples, in the order of the sections."""
    return tuple(example for section in SECTIONS for example in examples_of(section))


def examples_of(section: str) -> list[Example]:
    """The examples of a section.

    Raises:
        ModuleNotFoundError: they need a package that is not installed.
    """
    module = importlib.import_module(f"dmlpy.docs.error_examples.{section}")
    return [Example(value.dml_codes, value) for value in vars(module).values() if hasattr(value, "dml_codes")]


def _definitions(module: ModuleType, tree: ast.AST) -> Iterator[str]:
    """The assignments and plain functions at the top of a module whose names some code uses, directly or indirectly."""
    defined = _defined(module)
    wanted: set[str] = set()

    def want(code: ast.AST) -> None:
        for part in ast.walk(code):
            if isinstance(part, ast.Name) and part.id in defined and part.id not in wanted:
                wanted.add(part.id)
                want(defined[part.id][0])

    want(tree)
    for name, (_, source) in defined.items():
        if name in wanted:
            yield source


@cache
def _defined(module: ModuleType) -> dict[str, tuple[ast.AST, str]]:
    """The assignments and plain functions at the top of a module by name, each with its text."""
    text = inspect.getsource(module)
    defined: dict[str, tuple[ast.AST, str]] = {}
    for node in ast.parse(text).body:
        source = ast.get_source_segment(text, node) or ""
        if isinstance(node, ast.Assign):
            defined |= {target.id: (node, source) for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
            defined[node.name] = (node, source)
    return defined


@contextmanager
def _empty_folder() -> Iterator[str]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
