"""`dmlpy check --format`: what other programs read, its escapes, and the exit statuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.testing

from dmlpy.cli.formats import Format, as_github, as_sarif
from dmlpy.cli.main import app
from dmlpy.dxdispatch import check_file
from tests.support.dxdispatch.models import put, rnn_model
from tests.support.dxdispatch.sarif import SARIF

ROOT = Path(__file__).parents[2]


def check(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `dmlpy check`."""
    result = typer.testing.CliRunner().invoke(app, ["check", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Files in the current directory: good, wrong, warned of, and one that is not there."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "good": rnn_model(),
        "wrong": put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 97]),
        "warned": put(rnn_model(), "resources/x/sizeInByte", 16),
    }
    for name, data in contents.items():
        (tmp_path / f"{name} é.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return {name: Path(f"{name} é.json") for name in (*contents, "absent")}


def place_of(path: Path, text: str) -> tuple[int, int]:
    """Line and column where a text first occurs in a file."""
    before = path.read_text(encoding="utf-8").partition(text)[0]
    return before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


STATUSES = [(("good",), 0), (("good", "warned"), 0), (("good", "wrong"), 1), (("absent",), 2), (("wrong", "absent"), 2)]


@pytest.mark.parametrize("output_format", list(Format))
@pytest.mark.parametrize(("names", "status"), STATUSES)
def test_exit_statuses_are_those_of_the_page(files: dict[str, Path], output_format: Format, names: tuple[str, ...], status: int) -> None:
    assert check("--format", output_format, *(files[name] for name in names))[0] == status
    page = (ROOT / "dmlpy" / "cli" / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {status} \| ", page, re.MULTILINE), "the page has the statuses in a table"


def test_sarif_has_a_result_for_each_problem_where_it_is(files: dict[str, Path]) -> None:
    status, out, err = check("--format", "sarif", *files.values())
    log = json.loads(out)
    jsonschema.Draft202012Validator(SARIF).validate(log)
    assert (status, err) == (2, "")
    (run,) = log["runs"]
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 2}]
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == [f"{name}%20%C3%A9.json" for name in files]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["file.unreadable", "member.ignored", "size.equal"]
    found = {result["ruleId"]: result for result in run["results"]}
    assert all(run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == code for code, result in found.items())
    assert {code: result["level"] for code, result in found.items()} == {
        "file.unreadable": "error",
        "member.ignored": "warning",
        "size.equal": "error",
    }
    (location,) = found["size.equal"]["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "wrong%20%C3%A9.json", "uriBaseId": "%SRCROOT%"}
    assert location["logicalLocations"] == [{"fullyQualifiedName": "dispatchable 'rnn': WeightTensor.Sizes[3]"}]
    line, column = place_of_wrong_size(files["wrong"])
    assert location["physicalLocation"]["region"] == {"startLine": line, "startColumn": column}
    assert (
        found["size.equal"]["message"]["text"]
        .splitlines()[0]
        .endswith("WeightTensor.Sizes[3] is 97, expected input_size = 1  [size.equal]")
    )
    assert "region" not in found["file.unreadable"]["locations"][0]["physicalLocation"]


def place_of_wrong_size(path: Path) -> tuple[int, int]:
    """Line and column of the number of `wrong` that its file has only once."""
    (found,) = re.finditer(r"^ +97$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found.string.count("\n", 0, found.start()) + 1, len(found[0]) - 1


def test_sarif_of_valid_files_and_of_files_elsewhere(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = json.loads(check("--format", "sarif", files["good"])[1])
    jsonschema.Draft202012Validator(SARIF).validate(log)
    assert (log["runs"][0]["results"], log["runs"][0]["invocations"][0]["executionSuccessful"]) == ([], True)
    monkeypatch.chdir(ROOT)
    elsewhere = json.loads(as_sarif([check_file(tmp_path / files["wrong"])]))
    jsonschema.Draft202012Validator(SARIF).validate(elsewhere)
    (artifact,) = elsewhere["runs"][0]["artifacts"]
    assert artifact["location"] == {"uri": (tmp_path / files["wrong"]).as_uri()}


@pytest.mark.usefixtures("removed_folder")
def test_sarif_names_the_whole_path_where_the_current_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{", encoding="utf-8")
    log = json.loads(as_sarif([check_file(tmp_path / "wrong.json")]))
    assert log["runs"][0]["artifacts"][0]["location"] == {"uri": (tmp_path / "wrong.json").as_uri()}


def test_the_schema_of_this_test_refuses_what_sarif_refuses(files: dict[str, Path]) -> None:
    log = json.loads(check("--format", "sarif", files["wrong"])[1])
    for change in (
        "runs/0/results/0/level",
        "runs/0/columnKind",
        "runs/0/results/0/locations/0/physicalLocation/region/startLine",
        "version",
    ):
        *path, last = change.split("/")
        wrong = json.loads(json.dumps(log))
        part = wrong
        for key in path:
            part = part[int(key) if key.isdigit() else key]
        part[last] = 0
        assert not jsonschema.Draft202012Validator(SARIF).is_valid(wrong), change


def test_github_annotates_file_line_and_column(files: dict[str, Path]) -> None:
    status, out, err = check("--format", "github", *files.values())
    assert (status, err) == (2, "")
    lines = {re.findall(r"title=dmlpy ([\w.]+)", line)[0]: line for line in out.splitlines()}
    line, column = place_of_wrong_size(files["wrong"])
    told = f"::error file=wrong é.json,line={line},col={column},title=dmlpy size.equal::"
    assert lines["size.equal"] == (
        f"{told}dispatchable 'rnn', DML_RNN_OPERATOR_DESC: WeightTensor.Sizes[3] is 97, expected input_size = 1  [size.equal]"
        "%0AWeightTensor is [1, num_directions, hidden_size, input_size]%0Ainput_size = 1: from InputTensor.Sizes[3]"
    )
    key_line, key_column = place_of(files["warned"], '"sizeInByte"')
    assert lines["member.ignored"].startswith(f"::warning file=warned é.json,line={key_line},col={key_column},title=dmlpy member.ignored::")
    assert lines["file.unreadable"].startswith("::error file=absent é.json,title=dmlpy file.unreadable::file is missing")
    assert check("--format", "github", files["good"]) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a,b:c%.json", "a%2Cb%3Ac%25.json"),
        pytest.param("a\nb.json", "a%0Ab.json", marks=pytest.mark.skipif(os.name == "nt", reason="no name")),
    ],
)
def test_github_escapes_names_and_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text('{"Type": "GEMM", "100%\\r\\n::error::x": 1}', encoding="utf-8")
    out = as_github([check_file(Path(name))])
    assert all(line.startswith(f"::error file={written},line=1,col=") for line in out.splitlines())
    # In a message, too, nothing ends the line, and the percent sign stands for itself.
    assert any("100%25\\r\\n::error::x" in line for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--format", "xml"], "text, json, sarif, github"), (["--format", "sarif", "--json"], "contradict each other")],
)
def test_formats_that_are_none(files: dict[str, Path], arguments: list[str], message: str) -> None:
    status, out, err = check(*arguments, files["good"])
    assert (status, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_json_has_the_spelling_of_files(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 4, 97])))
    problems = json.loads(check(path, "--json")[1])["files"][0]["problems"]
    texts = [text for item in problems for text in (item["expected"], *item["why"], item["remedy"] or "")]
    assert any("WeightTensor" in text for text in texts)
    assert not [text for text in texts if "_tensor" in text]


def test_json_has_two_spellings(files: dict[str, Path]) -> None:
    assert check("--json", files["wrong"]) == check("--format", "json", files["wrong"])


def hooks() -> list[dict[str, str]]:
    """The hooks that other projects may use: lines of `key: value` below `- id`."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    parts = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    return [dict(re.findall(r"^\s*(\w+): (.+)$", part, re.MULTILINE)) for part in parts]


def test_the_hook_runs_what_it_names(files: dict[str, Path]) -> None:
    (hook,) = hooks()
    assert (hook["id"], hook["language"], hook["types"]) == ("dmlpy-check", "python", "[json]")
    # pre-commit installs the package, and calls the entry with the names of files behind it.
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    for name, status in (("good", 0), ("wrong", 1)):
        called = [*shlex.split(hook["entry"]), str(files[name])]
        shown = subprocess.run(called, capture_output=True, text=True, encoding="utf-8", check=False, env=environment)
        assert (shown.returncode, shown.stderr) == (status, "")
        assert str(files[name]) in shown.stdout
