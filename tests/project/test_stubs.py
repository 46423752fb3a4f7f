"""The generated `.pyi` files are current, and what they list is what dmlpy has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import lazy_loader
import pytest

import dmlpy as dml
from dmlpy.operators import __all__ as operator_names
from dmlpy.system.lazy_names import attach_names
from dmlpy.x import stubs


def test_generated_files_are_current() -> None:
    stale = [path.name for path, text in stubs.texts().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python -m dmlpy.x.stubs"


def test_public_names_are_those_of_their_modules() -> None:
    listed = {(module, name) for module, names in stubs.PUBLIC.items() for name in names}
    for module, name in listed:
        assert getattr(dml, name) is getattr(import_module(module), name)
    assert {name for _, name in listed} <= {*dml.__all__}
    assert {*operator_names} <= {*dml.__all__}


@pytest.mark.parametrize("package", ["dmlpy", "dmlpy.operators", "dmlpy.directml"])
def test_type_checkers_know_what_is_exported(package: str) -> None:
    module = import_module(package)
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    (listed,) = (node.value for node in stub.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    assert ast.literal_eval(listed) == sorted(module.__all__)


@pytest.mark.parametrize("package", ["dmlpy", "dmlpy.operators", "dmlpy.onnx", "dmlpy.x"])
def test_stubs_are_read_as_lazy_loader_reads_them(package: str) -> None:
    file = str(import_module(package).__file__)
    assert attach_names(package, file)[2] == lazy_loader.attach_stub(package, file)[2]


def test_an_import_from_an_archive_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "dmlpy.zip").write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"dmlpy reads .* from files: .* as in an archive; install it with pip, or unpack the archive"):
        attach_names("dmlpy", str(tmp_path / "dmlpy.zip/dmlpy/__init__.py"))


def test_a_star_import_gives_every_name() -> None:
    names: dict[str, object] = {}
    exec("from dmlpy import *", names)
    assert {name: names.get(name) for name in dml.__all__} == {name: getattr(dml, name) for name in dml.__all__}


def test_all_names_can_be_imported_at_once() -> None:
    """By the variable that lazy_loader has for it."""
    code = "import dmlpy; print({*dmlpy.__all__} <= vars(dmlpy).keys())"
    variables = {**os.environ, "EAGER_IMPORT": "1"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert found.stdout.strip() == "True"


def test_the_command_writes_what_is_not_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stubs, "_ROOT", tmp_path / "dmlpy")
    texts = stubs.texts()
    monkeypatch.setattr(stubs, "texts", lambda: texts)  # they take a second
    for path in texts:
        path.parent.mkdir(parents=True, exist_ok=True)
    assert stubs.main(["--check"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == len(texts)
    assert stubs.main([]) == 0
    assert stubs.main(["--check"]) == 0
    stale = tmp_path / "dmlpy" / "__init__.pyi"
    stale.write_text(stale.read_text(encoding="utf-8").replace("GEMMDesc", "GemDesc"), encoding="utf-8")
    assert stubs.main(["--check"]) == 1
    assert capsys.readouterr().out == f"{Path('dmlpy', '__init__.pyi')} is not current: run python -m dmlpy.x.stubs\n"
