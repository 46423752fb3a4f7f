"""The public interface as type checkers see it: the contract passes, each wrong use is refused for the reason that its line names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

import dmlpy as dml
from dmlpy import directml, operators
from dmlpy.description.naming import c_member
from dmlpy.description.structs import Struct
from dmlpy.directml.names import TYPES
from tests.support.folders import ROOT, TESTS
from tests.support.tools import require
from tests.typing import contract, directml_names

FOLDER = TESTS / "typing"
STRICT = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]


@cache
def mypy_says() -> tuple[tuple[str, int, str], ...]:
    """Errors of mypy over the folder: file, line, code."""
    from mypy import api

    files = [str(FOLDER / name) for name in ("contract.py", "directml_names.py", "wrong_uses.py")]
    out, problems, _ = api.run([*STRICT, "--no-error-summary", "--hide-error-context", "--no-pretty", *files])
    assert not problems, problems
    found = re.findall(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", out, flags=re.MULTILINE)
    return tuple((Path(file).name, int(line), code) for file, line, code in found)


def test_right_uses_pass_strict_mypy() -> None:
    assert [error for error in mypy_says() if error[0] != "wrong_uses.py"] == []


def test_every_wrong_use_is_refused_and_nothing_else() -> None:
    lines = (FOLDER / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    expected = {(number, line.rpartition("# error: ")[2]) for number, line in enumerate(lines, 1) if "# error: " in line}
    assert len(expected) >= 20
    assert {(line, code) for file, line, code in mypy_says() if file == "wrong_uses.py"} == expected


def pyright_errors(path: Path) -> set[tuple[str, int]]:
    """Errors of pyright over a file or a folder: file, line."""
    require("pyright")
    # The package unpacks a release of pyright and tells on stderr of newer ones.
    run = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", str(path)], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.startswith("{"), run.stdout + run.stderr
    diagnostics = json.loads(run.stdout)["generalDiagnostics"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in diagnostics if item["severity"] == "error"}


def uses_of_all_names(folder: Path) -> Path:
    """A file that uses every public name of dmlpy and of its operators, and an attribute of one."""
    lines = ["import dmlpy", "from dmlpy import *", "from dmlpy import operators", "known: str = dmlpy.__version__"]
    lines += [f"print({name})" for name in dml.__all__]
    lines += [f"print(operators.{name})" for name in operators.__all__]
    lines += ["print(GEMMDesc.no_such_attribute)"]
    path = folder / "names.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_mypy_knows_every_public_name(tmp_path: Path) -> None:
    from mypy import api

    path = uses_of_all_names(tmp_path)
    out, problems, _ = api.run([*STRICT, "--no-error-summary", "--no-pretty", str(path)])
    assert not problems, problems
    found = re.findall(r":(\d+): error: (.*)", out)
    assert found == [(str(len(path.read_text().splitlines())), '"type[GEMMDesc]" has no attribute "no_such_attribute"  [attr-defined]')], (
        out
    )


def constructors_of_structs(folder: Path) -> Path:
    """A file that asks for each struct's signatures: by its Python name, then by its C name."""
    structs = {name: kind for name, kind in TYPES.items() if issubclass(kind, Struct)}
    lines = [f"from {kind.__module__} import {kind.__name__}" for kind in structs.values()] + ["from dmlpy.directml import *"]
    lines += [f"reveal_type({kind.__name__}); reveal_type({name})" for name, kind in structs.items()]
    path = folder / "constructors.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def signatures(revealed: str) -> list[set[str]]:
    """The parameters of a constructor, of each of its overloads."""
    return [set(re.split(r", (?=\w+: )", parameters)) for parameters in re.findall(r"def \((?:\*, )?(.*?)\) -> ", revealed)]


def test_constructors_by_c_names_take_both_spellings_of_every_member(tmp_path: Path) -> None:
    from mypy import api

    path = constructors_of_structs(tmp_path)
    out, problems, _ = api.run([*STRICT, "--no-error-summary", "--no-pretty", str(path)])
    assert not problems, problems
    revealed = re.findall(r'Revealed type is "(.*)"', out)
    structs = [kind for kind in TYPES.values() if issubclass(kind, Struct)]
    for kind, by_python_name, by_c_name in zip(structs, revealed[::2], revealed[1::2], strict=True):
        (parameters,) = signatures(by_python_name)
        counts = {f"{count}: int | numpy.integer[Any] =" for count in kind.c_counts}
        in_c = {re.sub(r"^\w+", lambda name: c_member(name[0]), parameter) for parameter in parameters}
        assert signatures(by_c_name) == ([in_c | counts, parameters] if parameters != {""} else [{""}]), kind.c_name


def test_pyright_knows_every_public_name(tmp_path: Path) -> None:
    path = uses_of_all_names(tmp_path)
    assert pyright_errors(path) == {(path.name, len(path.read_text().splitlines()))}


def test_pyright_agrees() -> None:
    lines = (FOLDER / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    assert pyright_errors(FOLDER) == {("wrong_uses.py", number) for number, line in enumerate(lines, 1) if "# error: " in line}


def test_the_contract_runs() -> None:
    single = contract.use("numpy")
    # h = tanh(11 + 5 h) with ones everywhere; a length of 0 leaves the initial state, zero.
    h = np.zeros(1, np.float64)
    for _ in range(7):
        h = np.tanh(11 + 5 * h)
    assert np.allclose(single[0, 0, 0], h)
    assert not single[0, 0, 1].any()
    contract.errors()
    contract.travel()
    assert dml.check(contract.lstm()) == []
    assert dml.check(contract.pooling()) == []
    assert dml.check(contract.gru(), "1_0") == []


def test_the_names_of_the_header_run() -> None:
    assert dml.check(directml_names.layer()) == []
    assert dml.check(directml_names.resampled()) == []
    assert dml.check(directml_names.gemm()) == []
    assert dml.check(directml_names.graph()) == []
    assert directml_names.properties(directml_names.gemm()).required_descriptor_count == 4
    assert directml_names.part(0x1000) == directml.DML_BUFFER_BINDING(0x1010, 0, 64)
