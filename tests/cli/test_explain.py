"""`dmlpy explain`, `ops`, `levels`, `info`, `schemas` and `docs`: what they print, and their exit status."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection import explain
from tests.support.commands import dmlpy
from tests.support.folders import MODELS


@pytest.mark.parametrize("name", ["RNN", "rnn", "DML_OPERATOR_RNN", "DML_RNN_OPERATOR_DESC", "RNNDesc"])
def test_explain_takes_every_name(name: str) -> None:
    assert explain.find(name) is dml.RNNDesc


def test_explain_points_to_the_command_for_a_problems_code() -> None:
    with pytest.raises(dml.DescError, match=r"if it is the code of a problem: dmlpy explain size\.equal"):
        dml.explain("size.equal")


def test_explain_shows_the_whole_struct() -> None:
    status, out, _ = dmlpy("explain", "LSTM")
    assert status == 0
    for word in (*dml.LSTMDesc.model_fields, "ActivationDescCount", "[1, num_directions, 4*hidden_size, input_size]", "FLOAT32 or FLOAT16"):
        assert word in out, word
    for text in (*dml.LSTMDesc.formula.splitlines(), *dml.LSTMDesc.rules().values(), "FORWARD | BACKWARD | BIDIRECTIONAL"):
        assert text in out, text
    assert "The hidden state h after" in out
    assert "never runs in place" in out


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_tables_keep_every_word_on_narrow_terminals(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(explain.explain("LSTM").members())
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    shown = "".join(lines).replace(" ", "")
    for word in (*dml.LSTMDesc.model_fields, "CellMemInitTensor", "4*hidden_size", "FLOAT32", "UINT32", "BIDIRECTIONAL"):
        assert word in shown, word


def test_errors_render_on_narrow_terminals_with_broken_fields_marked() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 1])
    desc = dml.RNNDesc(
        input_tensor=tensor,
        weight_tensor=tensor.replace(sizes=[1, 1, 1, 2]),
        recurrence_tensor=tensor,
        output_single_tensor=tensor,
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    )
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(desc, "numpy")
    for width in (30, 80, 200):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(caught.value)
        assert re.findall(r"✗ (\w+)", console.export_text()) == ["weight_tensor"]


def test_explain_at_a_feature_level() -> None:
    (row,) = explain.explain("ACTIVATION_RELU", "2_0").rows
    assert (str(row.level), row.dims) == ("2_0", (4, 5))
    assert explain.explain("ACTIVATION_RELU").rows == (dml.ActivationReluDesc.support[-1],)
    status, out, _ = dmlpy("explain", "ACTIVATION_GELU", "--feature-level", "5_0")
    assert status == 0
    assert "Feature level 5_0 does not have it." in out


def test_the_largest_errors_are_told() -> None:
    assert "The largest error in FLOAT32: 4 ULP on numpy, 3 on cpu, 8 on cuda." in explain.explain("ACTIVATION_SIGMOID").facts()
    softplus = explain.explain("ACTIVATION_SOFTPLUS").facts()[-1]
    assert "4 ULP on numpy, 4 on cpu, 7 on cuda; with steepness 3: 68 ULP" in softplus
    assert not any("error" in line for line in explain.explain("GEMM").facts())


def test_every_operator_is_explained() -> None:
    wrong = []
    for type_name, kind in OPERATORS.items():
        found = explain.explain(type_name)
        told = {
            "fields": [item.name for item in found.fields if item.name] == list(kind.model_fields),
            "counts": [item.c_name for item in found.fields if not item.name] == list(kind.c_counts),
            "summary": bool(found.summary),
            "forms": all(item.form for item in found.fields),
            "title": kind.c_name in found.members().to_text(),
        }
        wrong += [f"{type_name}: {what}" for what, right in told.items() if not right]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "encoding", [pytest.param("ascii", marks=pytest.mark.slow), "cp1252", pytest.param("utf-8", marks=pytest.mark.slow)]
)
def test_output_in_encodings_that_lack_characters(encoding: str) -> None:
    program = [sys.executable, "-c", "from dmlpy.cli.main import main; main()", "check", str(MODELS / "bad_rnn.json")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shown = subprocess.run(program, capture_output=True, check=False, env=environment)
    assert (shown.returncode, shown.stderr) == (1, b"")
    assert b"WeightTensor.Sizes[1] is " in shown.stdout


def test_the_code_of_a_problem_is_explained() -> None:
    status, printed, _ = dmlpy("explain", "size.equal")
    assert status == 0
    assert printed.startswith("size.equal\n\nExample\n")
    assert "expected input_size = 8  [size.equal]" in printed


def test_a_code_that_does_not_exist_names_the_nearest() -> None:
    status, _, errors = dmlpy("explain", "size.equl")
    assert status == 2
    assert "did you mean size.equal?" in errors


def test_explain_of_unknown_operators_names_the_nearest() -> None:
    status, out, err = dmlpy("explain", "LSTN")
    assert (status, out) == (2, "")
    assert "did you mean LSTM?" in err


@pytest.mark.parametrize("command", ["explain", "ops"])
def test_operators_are_listed(command: str) -> None:
    status, out, _ = dmlpy(command)
    assert status == 0
    names = re.findall(r"^ ([A-Z]\w+) ", out, re.MULTILINE)
    assert sorted(names) == sorted(kind.short_name() for kind in OPERATORS.values())
    assert re.search(r"^ GRU +recurrent +1_0 +numpy, cpu, cuda +ONNX Runtime, Keras$", out, re.MULTILINE)
    assert re.search(r"^ GRU_GRAD +recurrent +dmlpy's own +numpy, cpu, cuda", out, re.MULTILINE)
    assert re.search(r"^ ROI_ALIGN_GRAD +pooling +4_1 +numpy, cpu, cuda +PyTorch", out, re.MULTILINE)
    assert re.search(r"^ GEMM +matrix +1_0 +numpy, cpu, cuda +ONNX Runtime$", out, re.MULTILINE)


def test_ops_of_a_family_and_a_level() -> None:
    status, out, _ = dmlpy("ops", "--family", "activation", "--feature-level", "5.1", "--json")
    listed = {item["operator"]: item for item in json.loads(out)}
    kinds = [kind for kind in OPERATORS.values() if kind.family() == "activation" and kind.introduced() <= dml.FeatureLevel.FL_5_1]
    assert (status, sorted(listed)) == (0, sorted(kind.type_name for kind in kinds))
    assert "DML_OPERATOR_ACTIVATION_SWISH" not in listed, "of level 6_2"
    softmax = listed["DML_OPERATOR_ACTIVATION_SOFTMAX1"]
    assert softmax.pop("runs_on") == {"numpy": True, "cpu": True, "cuda": True}
    assert softmax == {
        "operator": "DML_OPERATOR_ACTIVATION_SOFTMAX1",
        "class": "ActivationSoftmax1Desc",
        "family": "activation",
        "own": False,
        "feature_level": "5_1",
        "verified_against": ["ONNX Runtime"],
        "directml_says": None,
    }
    assert listed["DML_OPERATOR_ACTIVATION_RELU"]["runs_on"]["numpy"] is True
    status, out, err = dmlpy("ops", "--family", "activations")
    assert (status, out) == (2, "")
    assert "did you mean activation?" in err


def test_levels() -> None:
    status, out, _ = dmlpy("levels")
    assert status == 0
    assert re.findall(r"^ (\d_\d) ", out, re.MULTILINE) == [str(level) for level in dml.FeatureLevel]
    assert re.search(r"^ 5_0 +1\.8\.0 +Windows 11 22H2 ", out, re.MULTILINE)
    status, out, _ = dmlpy("levels", "5.1")
    assert (status, out.splitlines()[0]) == (0, "5_1: DirectML 1.9.0")
    assert "ACTIVATION_SOFTMAX1" in out
    assert "  ACTIVATION_PARAMETERIZED_RELU, ACTIVATION_RELU, ACTIVATION_RELU_GRAD: also INT32, INT16, INT8\n" in out
    (level,) = json.loads(dmlpy("levels", "5_1", "--json")[1])
    assert list(level) == ["level", "value", "directml", "windows", "operators", "grown", "beyond_operators"]
    assert (level["value"], level["windows"], level["grown"]["ACTIVATION_RELU"]) == (0x5100, None, ["also INT32, INT16, INT8"])
    assert len(json.loads(dmlpy("levels", "--json")[1])) == len(dml.FeatureLevel)
    status, out, err = dmlpy("levels", "7_7")
    assert (status, out) == (2, "")
    assert "feature_level is '7_7'" in err
    assert "remedy" not in err
    status, out, err = dmlpy("levels", "gemm")
    assert (status, out) == (2, "")
    assert "remedy: dmlpy explain GEMM shows the operator" in err
    assert "remedy: dmlpy levels 5_0 shows what the level adds" in dmlpy("explain", "5_0")[2]


def test_info() -> None:
    status, out, _ = dmlpy("info")
    assert status == 0
    for line in (f"dmlpy: {dml.__version__}", "feature levels: 1_0 to 6_4 (DirectML 1.0.0 to 1.15.0)", "device numpy"):
        assert line in out.splitlines(), line
    kinds, numpy = OPERATORS.values(), dml.device("numpy")
    own = sum(kind.is_extension for kind in kinds)
    assert f"operators described: {len(OPERATORS) - own} of DirectML, {own} of dmlpy's own" in out.splitlines()
    run, own_run = (sum(numpy.runs(kind) for kind in kinds if kind.is_extension == own) for own in (False, True))
    assert f"  runs {run} of DirectML's operators and {own_run} of dmlpy's own (dmlpy ops lists them)" in out.splitlines()


def test_schemas_are_written_and_compared(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    assert dmlpy("schemas", "--check", "--folder", folder)[0] == 1
    status, out, _ = dmlpy("schemas", "--folder", folder)
    assert status == 0
    assert str(folder / "DML_RNN_OPERATOR_DESC.json") in out
    assert dmlpy("schemas", "--check", "--folder", folder)[0] == 0
    (folder / "DML_RNN_OPERATOR_DESC.json").write_text("{}", encoding="utf-8")
    status, _, err = dmlpy("schemas", "--check", "--folder", folder)
    assert status == 1
    assert "DML_RNN_OPERATOR_DESC.json" in err
    assert "run: dmlpy schemas\n" in err


def test_schemas_are_bundled(tmp_path: Path) -> None:
    assert dmlpy("schemas", "--folder", tmp_path)[0] == 0
    status, _, err = dmlpy("schemas", "--bundle", "--check", "--folder", tmp_path)
    assert status == 1
    assert "run: dmlpy schemas --bundle\n" in err
    status, out, _ = dmlpy("schemas", "--bundle", "--folder", tmp_path)
    assert status == 0
    assert "definitions.json" not in out
    assert "definitions.json" not in (tmp_path / "DML_RNN_OPERATOR_DESC.json").read_text(encoding="utf-8")
    assert dmlpy("schemas", "--bundle", "--check", "--folder", tmp_path)[0] == 0


def test_docs_reports_warnings_and_fails_for_them_when_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlpy import docs

    asked = []

    def build(output: Path, **options: Any) -> docs.Built:
        asked.append((output, options))
        return docs.Built(pages=7, missing=(".github/CONTRIBUTING.md",), warnings=("a.md:1: WARNING: no such place",))

    monkeypatch.setattr(docs, "build", build)
    status, out, err = dmlpy("docs", "--output", tmp_path / "o", "--sources", tmp_path / "s", "--jobs", "3")
    assert (status, out) == (0, f"7 pages: {tmp_path / 'o' / 'index.html'}\n")
    assert asked == [(tmp_path / "o", {"sources": tmp_path / "s", "jobs": 3})]
    assert "a.md:1: WARNING: no such place" in err
    assert "left out, as they are in a checkout only: .github/CONTRIBUTING.md" in err
    assert dmlpy("docs", "--strict")[0] == 1


def test_docs_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in ("sphinx", "furo") else find(name, *rest))
    status, _, err = dmlpy("docs")
    assert status == 2
    assert "not installed" in err
    assert "sphinx" in err
    assert "pip install 'dmlpy[docs]'" in err


def test_narrow_terminals_show_each_fact_on_its_own_line() -> None:
    table = explain.explain("GRU").members()
    console = Console(width=60, color_system=None, file=io.StringIO(), force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    at = lines.index("weight_tensor")
    assert [line.split() for line in lines[at + 1 : at + 4]] == [["C", "name", "WeightTensor"], ["kind", "input"], ["required"]]
    assert not any(";" in line for line in lines[at : at + 5])


def test_the_summary_begins_with_a_capital() -> None:
    assert dmlpy("explain", "GRU")[1].startswith("Gated recurrent units, ")


@pytest.mark.parametrize("command", [("run",), ("warmup",), ("bench",), ("onnx", "check"), ("onnx", "run"), ("conformance",), ("docs",)])
def test_help_shows_no_type_behind_flags(command: tuple[str, ...]) -> None:
    out = dmlpy(*command, "--help")[1]
    assert "[[" not in out
    typed = [line for line in out.splitlines() if "<bool>" in line and "--help" not in line]
    assert typed == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gemm", "'gemm' is an operator: add --operators"),
        ("DML_OPERATOR_GEMM", "is an operator: add --operators"),
        ("gru-64-b1-t100", "'gru-64-b1-t100' is a shape: give it as --shape gru-64-b1-t100"),
        ("foo", "'foo' is neither a shape (--shape) nor an operator"),
        ("gru-64-b1-t10", "did you mean gru-64-b1-t100?"),
    ],
)
def test_bench_tells_what_a_name_is(name: str, message: str) -> None:
    status, _, err = dmlpy("bench", name)
    assert status == 2
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("command", [("run",), ("check",), ("onnx", "check"), ("onnx", "run")], ids=" ".join)
def test_a_missing_package_is_named(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with a traceback; a file that is missing as well is called so."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx" or name.startswith("dmlpy.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delattr("dmlpy.onnx", raising=False)
    model = tmp_path / "net.onnx"
    model.write_bytes(b"")
    found, out, err = dmlpy(*command, str(model))
    assert found == 2
    assert "pip install 'dmlpy[onnx]'" in out + err
    assert "Running on" not in out
    if command in (("run",), ("check",)):
        named = tmp_path / "model.json"
        named.write_text('{"dispatchables": {"net": {"type": "onnx", "sourcePath": "net.onnx"}}, "resources": {}, "commands": []}')
        found, out, err = dmlpy(*command, str(named))
        assert (found, "[onnx.package]" in out + err) == (2, True)
    if command == ("run",):
        assert "file is missing" in "".join(dmlpy("run", str(tmp_path / "none.onnx"))[1:])


@pytest.mark.parametrize("name", ["GEMM", "CUDNN_RNN_V3"])
def test_an_explanation_is_json_for_programs(name: str) -> None:
    found = json.loads(dmlpy("explain", name, "--json")[1])
    kind = explain.explain(name).kind
    assert (found["operator"], found["class"], found["struct"]) == (kind.type_name, kind.__name__, kind.c_name)
    assert [member["name"] for member in found["members"] if member["name"]] == list(kind.model_fields)
    assert found["support"]
    assert all(member["meaning"] for member in found["members"] if member["kind"] != "count")


def test_all_operators_are_listed_as_json() -> None:
    found = json.loads(dmlpy("explain", "--json")[1])
    assert len(found) == len(OPERATORS)
    status, _, errors = dmlpy("explain", "size.equal", "--json")
    assert status == 2
    assert "a code's explanation is text" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "missing.json"],
        ["run", "missing.onnx"],
        ["check", "missing.json"],
        ["onnx", "check", "missing.onnx"],
        ["onnx", "run", "missing.onnx"],
        ["onnx", "export", "missing.json"],
    ],
    ids=" ".join,
)
def test_every_command_ends_with_2_where_its_file_is_missing(arguments: list[str]) -> None:
    assert dmlpy(*arguments)[0] == 2
