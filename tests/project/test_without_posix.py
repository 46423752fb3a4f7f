"""The suite where there is no POSIX, as on Windows: it is collected, and the tests that need POSIX are skipped."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.support.folders import ROOT
from tests.support.without_posix import MODULES, NAMES

_GUARD = re.compile(r"sys\.platform|os\.name|hasattr|importorskip|skipif|require\(")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def names_posix(node: ast.AST) -> bool:
    """Whether a node itself, without those in it, names what only POSIX has."""
    match node:
        case ast.Import(names=names):
            return any(alias.name in MODULES for alias in names)
        case ast.ImportFrom(module=module, names=names):
            return module in MODULES or any(alias.name in NAMES.get(module or "", ()) for alias in names)
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return name in NAMES.get(module, ())
    return False


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are evaluated when a module is imported, without those behind a guard."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If | ast.IfExp | ast.BoolOp | ast.Try) and _GUARD.search(ast.unparse(child)[:200]):
            continue
        yield child
        if isinstance(child, _SCOPES):
            later = [child.body] if isinstance(child, ast.Lambda) else child.body
            yield from (part for top in ast.iter_child_nodes(child) if top not in later for part in (top, *at_import(top)))
        else:
            yield from at_import(child)


@cache
def texts() -> dict[str, str]:
    """The project's modules by name."""
    paths = [path for folder in ("dmlpy", "tests", "examples") for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path.read_text("utf-8") for path in paths}


@cache
def tree(name: str) -> ast.Module:
    """A module up to the statement by which it skips itself, if there is one: what follows is guarded."""
    found = ast.parse(texts()[name])
    for place, statement in enumerate(found.body):
        if isinstance(statement, ast.If) and "allow_module_level=True" in ast.unparse(statement):
            found.body = found.body[:place]
            break
    return found


@cache
def naming_posix() -> list[str]:
    """The modules in whose text POSIX is named: one pattern for each module of Python, which searches fast for its fixed beginning."""
    patterns = [re.compile(rf"{module}\.(?:{'|'.join(sorted(names))})\b") for module, names in NAMES.items() if names]
    patterns.append(re.compile(rf"import (?:{'|'.join(sorted(MODULES))})\b"))
    patterns.append(re.compile(rf"from (?:{'|'.join((*sorted(MODULES), *NAMES))}) import"))
    return [name for name, text in texts().items() if any(pattern.search(text) for pattern in patterns)]


def importing(modules: Iterable[str]) -> list[str]:
    """The modules whose text may import one of these."""
    patterns = []
    for module in modules:
        package, _, last = module.rpartition(".")
        patterns.append(re.compile(rf"from {re.escape(package)} import .*\b{last}\b|(?:import|from) {re.escape(module)}\b"))
    return [name for name, text in texts().items() if any(pattern.search(text) for pattern in patterns)]


def imports(name: str) -> Iterator[str]:
    for node in at_import(tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_no_module_of_the_suite_needs_posix_to_be_imported() -> None:
    needing, added = set[str](), {name for name in naming_posix() if any(map(names_posix, at_import(tree(name))))}
    while added:
        needing |= added
        added = {name for name in importing(added) if name not in needing and not added.isdisjoint(imports(name))}
    assert "tests.fuzzing.limited" in needing, "the rule sees what needs POSIX"
    collected = re.compile(r"dmlpy\.|examples\.|(.*\.)?(test_\w+|conftest)$")
    assert [name for name in sorted(needing) if collected.match(name)] == []


def test_tests_that_name_posix_are_skipped_without_it() -> None:
    found = []
    for name in naming_posix():
        if "pytestmark = pytest.mark.skipif" in texts()[name]:
            continue
        tests = [node for node in tree(name).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        found += [f"{name}.{test.name}" for test in tests if any(map(names_posix, ast.walk(test))) and not _GUARD.search(ast.unparse(test))]
    assert found == []


@pytest.mark.slow
def test_the_suite_is_collected_without_posix() -> None:
    command = [sys.executable, "-m", "tests.support.without_posix", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, "\n".join(line for line in found.stdout.splitlines() if "::" not in line)
    assert int(re.findall(r"(\d+)(?:/\d+)? tests collected", found.stdout)[0]) > 20_000


@pytest.mark.slow
def test_what_needs_posix_is_skipped_without_it() -> None:
    """Files in which every test that is left needs nothing but Python: those that need POSIX are skipped, the others pass."""
    files = ["tests/fuzzing/test_api.py", "tests/fuzzing/test_costly_models.py", "tests/fuzzing/test_files.py"]
    files += ["tests/system/test_files.py", "tests/devices/test_blas.py"]
    files += ["tests/devices/cuda/test_gpu_check.py", "tests/devices/cuda/test_gpu_preparation.py"]
    files += ["tests/dxdispatch/test_files.py", "tests/dxdispatch/test_check_files.py", "tests/keras/test_resuming.py"]
    command = [sys.executable, "-m", "tests.support.without_posix", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "fork or kill or pipe"]
    found = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "failed" not in found.stdout.splitlines()[-1], found.stdout
    assert "error" not in found.stdout.splitlines()[-1], found.stdout
    assert "skipped" in found.stdout.splitlines()[-1], found.stdout
