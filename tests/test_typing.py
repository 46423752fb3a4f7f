"""The public interface as type checkers see it: the contract passes, each wrong use is refused for the reason that its line names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import directml, operators, x
from dmlpy.description.structs import Struct
from dmlpy.directml.names import TYPES
from dmlpy.messages.naming import c_member
from tests.support.folders import ROOT, TESTS
from tests.support.tools import require
from tests.typing import contract, directml_names

FOLDER = TESTS / "typing"
STRICT = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]


NAMES, CONSTRUCTORS = "names.py", "constructors.py"
"""Files that are written for the type checkers, in addition to those of the folder."""


def uses_of_all_names() -> list[str]:
    """Lines that use every public name of dmlpy and of its operators, and at last an attribute that does not exist."""
    lines = ["import dmlpy", "from dmlpy import *", "from dmlpy import operators, x", "known: str = dmlpy.__version__"]
    lines += [f"print({name})" for name in dml.__all__]
    lines += [f"print(operators.{name})" for name in operators.__all__] + [f"print(x.{name})" for name in x.__all__]
    return [*lines, "print(GEMMDesc.no_such_attribute)"]


def constructors_of_structs() -> list[str]:
    """Lines that ask for each struct's signatures: by its Python name, then by its C name."""
    structs = {name: kind for name, kind in TYPES.items() if issubclass(kind, Struct)}
    lines = [f"from {kind.__module__} import {kind.__name__}" for kind in structs.values()] + ["from dmlpy.directml import *"]
    return lines + [f"reveal_type({kind.__name__}); reveal_type({name})" for name, kind in structs.items()]


@cache
def mypy_says() -> tuple[tuple[str, int, str, str], ...]:
    """What mypy reports on the folder's files and on those that are written, in one run: file, line, severity, text."""
    from mypy import api

    files = [str(FOLDER / name) for name in ("contract.py", "directml_names.py", "wrong_uses.py")]
    with TemporaryDirectory() as folder:
        for name, lines in ((NAMES, uses_of_all_names()), (CONSTRUCTORS, constructors_of_structs())):
            Path(folder, name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            files.append(str(Path(folder, name)))
        out, problems, _ = api.run([*STRICT, "--no-error-summary", "--hide-error-context", "--no-pretty", *files])
    assert not problems, problems
    found = re.findall(r"^(.+?):(\d+): (error|note): (.*)$", out, flags=re.MULTILINE)
    return tuple((Path(file).name, int(line), severity, text) for file, line, severity, text in found)


def mypy_errors(*names: str) -> list[tuple[int, str]]:
    """The errors of some files: line, text."""
    return [(line, text) for file, line, severity, text in mypy_says() if file in names and severity == "error"]


@pytest.mark.slow  # .ci/run types
def test_right_uses_pass_strict_mypy() -> None:
    assert mypy_errors("contract.py", "directml_names.py", CONSTRUCTORS) == []


@pytest.mark.slow  # .ci/run types
def test_every_wrong_use_is_refused_and_nothing_else() -> None:
    lines = (FOLDER / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    expected = {(number, f"[{line.rpartition('# error: ')[2]}]") for number, line in enumerate(lines, 1) if "# error: " in line}
    assert len(expected) >= 20
    assert {(line, text.rpartition(" ")[2]) for line, text in mypy_errors("wrong_uses.py")} == expected


@pytest.mark.slow  # .ci/run types
def test_mypy_knows_every_public_name() -> None:
    wanted = '"type[GEMMDesc]" has no attribute "no_such_attribute"  [attr-defined]'
    assert mypy_errors(NAMES) == [(len(uses_of_all_names()), wanted)]


def signatures(revealed: str) -> list[set[str]]:
    """The parameters of a constructor, of each of its overloads."""
    return [set(re.split(r", (?=\w+: )", parameters)) for parameters in re.findall(r"def \((?:\*, )?(.*?)\) -> ", revealed)]


@pytest.mark.slow  # .ci/run types
def test_constructors_by_c_names_take_both_spellings_of_every_member() -> None:
    told = [text for file, _, _, text in mypy_says() if file == CONSTRUCTORS]
    revealed = [found[1] for text in told if (found := re.fullmatch(r'Revealed type is "(.*)"', text))]
    structs = [kind for kind in TYPES.values() if issubclass(kind, Struct)]
    for kind, by_python_name, by_c_name in zip(structs, revealed[::2], revealed[1::2], strict=True):
        (parameters,) = signatures(by_python_name)
        counts = {f"{count}: int | numpy.integer[Any] =" for count in kind.c_counts}
        in_c = {re.sub(r"^\w+", lambda name: c_member(name[0]), parameter) for parameter in parameters}
        assert signatures(by_c_name) == ([in_c | counts, parameters] if parameters != {""} else [{""}]), kind.c_name


@cache
def pyright_errors() -> set[tuple[str, int]]:
    """Errors of pyright over the folder and a file with all public names, in one run: file, line."""
    require("pyright")
    with TemporaryDirectory() as folder:
        names = Path(folder, NAMES)
        names.write_text("\n".join(uses_of_all_names()) + "\n", encoding="utf-8")
        # The package unpacks a release of pyright and names newer ones on stderr.
        command = [sys.executable, "-m", "pyright", "--outputjson", str(FOLDER), str(names)]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.startswith("{"), run.stdout + run.stderr
    diagnostics = json.loads(run.stdout)["generalDiagnostics"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in diagnostics if item["severity"] == "error"}


@pytest.mark.slow  # .ci/run types
def test_pyright_agrees() -> None:
    lines = (FOLDER / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    expected = {("wrong_uses.py", number) for number, line in enumerate(lines, 1) if "# error: " in line}
    assert pyright_errors() == {*expected, (NAMES, len(uses_of_all_names()))}


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
    assert np.isfinite(contract.expressions())
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
