"""`dmlpy check`: what it prints, on which stream, and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.commands import dmlpy, on_numpy
from tests.support.dxdispatch.models import put, rnn_model, write
from tests.support.folders import EXAMPLES, MODELS


def test_check_of_valid_files() -> None:
    files = [*sorted(EXAMPLES.glob("*.json")), MODELS / "good_gru_flat.json"]
    status, out, err = dmlpy("check", *files)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(files) > 3
    for path, line in zip(files, lines, strict=True):
        assert re.fullmatch(re.escape(f"{path}: no problems; needs feature level ") + r"\d_\d \(DirectML 1\.\d+\.0\)", line)
    status, out, _ = dmlpy("check", "--json", *files)
    report = json.loads(out)
    assert (status, report["problems"]) == (0, 0)
    assert [item["file"] for item in report["files"]] == [str(path) for path in files]
    kinds = {"kind": "desc", "feature_level": "6_4", "lowest_feature_level": "1_0", "problems": []}
    assert report["files"][-1] == {"file": str(files[-1])} | kinds


def test_check_lists_all_problems_of_a_desc_and_marks_them() -> None:
    status, out, err = dmlpy("check", MODELS / "bad_rnn.json")
    table, _, report = out.partition(str(MODELS))
    marked = re.findall(r"^ x (\w+)", table, re.MULTILINE)
    assert (status, err) == (1, "")
    assert marked == ["WeightTensor", "RecurrenceTensor", "BiasTensor", "ActivationDescs"]
    assert re.findall(r"^\S+:\d+:\d+: (\S+) (?:is|has) .*, expected .*\[(.*)\]$", str(MODELS) + report, re.MULTILINE) == [
        ("OutputSingleTensr", "field.unknown"),
        ("WeightTensor.Sizes[1]", "size.equal"),
        ("RecurrenceTensor.Flags", "field.form"),
        ("RecurrenceTensor.Sizes[3]", "size.equal"),
        ("BiasTensor.DataType", "field.form"),
        ("BiasTensor.Sizes[3]", "size.equal"),
        ("ActivationDescs", "activation_count"),
    ]
    assert "expected 2: f of the forward time loop" in report  # prose is unchanged where members' names are spelled as in C


def test_check_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    path = MODELS / "bad_rnn.json"
    status, of_file, _ = dmlpy("check", path)
    assert dmlpy("check", "-", stdin=path.read_bytes()) == (status, of_file.replace(str(path), "-"), "")
    model = EXAMPLES / "rnn.json"
    piped, run = (on_numpy(given, stdin=model.read_bytes())[1].splitlines() for given in ("-", model))
    assert piped[2:] == run[2:] != []  # the second line has times
    monkeypatch.setattr("dmlpy.dxdispatch.text.MAX_BYTES", 3)
    assert dmlpy("check", "-", stdin=b"{ }")[0] == 1
    status, out, _ = dmlpy("check", "-", stdin=b"{  }")
    assert (status, "file is longer, expected at most 3 bytes  [file.size]" in out) == (2, True)


def test_check_for_programs(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 2])
    path = write(tmp_path, put(data, "commands/1/resource", "z"))
    status, out, err = dmlpy("check", path, EXAMPLES / "rnn.json", "--json", "--feature-level", "5.0")
    report = json.loads(out)
    assert (status, err, list(report), report["problems"]) == (1, "", ["files", "problems"], 2)
    first, second = report["files"]
    assert list(first) == ["file", "kind", "feature_level", "lowest_feature_level", "problems"]
    assert [first[name] for name in ("file", "kind", "feature_level", "lowest_feature_level")] == [str(path), "model", "5_0", None]
    assert (second["lowest_feature_level"], second["problems"]) == ("1_0", [])
    text = path.read_text(encoding="utf-8")
    wrong, unknown = first["problems"]
    assert wrong == {
        "subject": "dispatchable 'rnn'",
        "struct": "DML_RNN_OPERATOR_DESC",
        "code": "size.equal",
        "path": "weight_tensor.sizes[3]",
        "c_path": "WeightTensor.Sizes[3]",
        "found": "2",
        "expected": "input_size = 1",
        "why": [
            "WeightTensor is [1, num_directions, hidden_size, input_size]",
            "input_size = 1: from InputTensor.Sizes[3]",
        ],
        "remedy": None,
        "line": 1,
        "column": text.index("[1, 1, 1, 2]") + 11,
        "severity": "error",
    }
    assert unknown["c_path"] == "resource"
    assert (unknown["subject"], unknown["struct"]) == ("command at index 1", None)


def test_warnings_are_no_problems(tmp_path: Path) -> None:
    path = write(tmp_path, put(rnn_model(), "resources/x/sizeInByte", 16))
    status, out, err = dmlpy("check", path)
    assert status == 0
    assert out.startswith(f"{path}: no problems")
    assert err.startswith(f"warning: {path}:1:")
    status, out, err = dmlpy("check", path, "--json")
    report = json.loads(out)
    assert (status, err, report["problems"]) == (0, "", 0)
    (warning,) = report["files"][0]["problems"]
    assert (warning["severity"], warning["code"], warning["path"]) == ("warning", "member.ignored", "sizeInByte")


def test_check_distinguishes_files_that_cannot_be_read_from_wrong_ones(tmp_path: Path) -> None:
    good, wrong, absent = EXAMPLES / "rnn.json", write(tmp_path, "{}"), tmp_path / "absent.json"
    for files, status, count in (
        ([good], 0, 0),
        ([good, wrong], 1, 1),
        ([absent], 2, 1),
        ([good, absent, wrong], 2, 2),
        ([tmp_path], 2, 1),
    ):
        assert dmlpy("check", *files)[0] == status
        found, out, _ = dmlpy("check", "--json", *files)
        assert (found, json.loads(out)["problems"], len(json.loads(out)["files"])) == (status, count, len(files))


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        ('{"Type": "RNN", ]', [], "json.syntax"),
        ("{}", [], "json.root"),
        ('{"Type": "RNN", "Type": "RNN"}', [], "json.duplicate"),
        ('{"Type": "GEM"}', [], "operator.unknown"),
        ('{"Type": "ACTIVATION_GELU", "InputTensor": TENSOR, "OutputTensor": TENSOR}', ["--feature-level", "5_0"], "level.operator"),
        ('{"Type": "ACTIVATION_GELU", "InputTensor": ALIGNED, "OutputTensor": TENSOR}', ["--strict"], "strict.alignment"),
    ],
)
def test_check_of_wrong_files(tmp_path: Path, text: str, arguments: list[str], code: str) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    text = text.replace("TENSOR", json.dumps(tensor)).replace("ALIGNED", json.dumps(tensor | {"GuaranteedBaseOffsetAlignment": 4}))
    path = write(tmp_path, text)
    status, out, _ = dmlpy("check", path, *arguments)
    assert status == 1
    assert f"[{code}]" in out
    status, out, _ = dmlpy("check", path, "--json", *arguments)
    assert status == 1
    assert code in [problem["code"] for problem in json.loads(out)["files"][0]["problems"]]
    if arguments:
        assert dmlpy("check", path)[0] == 0


def test_check_of_an_unknown_level_is_no_traceback() -> None:
    status, out, err = dmlpy("check", MODELS / "good_gru_flat.json", "--feature-level", "7_7")
    assert (status, out) == (2, "")
    assert "feature_level is '7_7'" in err
