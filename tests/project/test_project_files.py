"""The files by which others work on the project: CI's workflow, the hooks before a commit, pinned tools, the changelog."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.assertion.rewrite import AssertionRewritingHook

import dmlpy
from tests.fuzzing import mutants
from tests.support.folders import ROOT, TESTS
from tests.support.generators import pages
from tests.support.operators import exact

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
TEST_EXTRA: list[str] = PYPROJECT["project"]["optional-dependencies"]["test"]
PINNED = dict(re.sub(r"\[.*?\]", "", requirement).split("==") for requirement in TEST_EXTRA if "==" in requirement)
"""Versions by name, without extras."""
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
NIGHTLY: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text("utf-8"))
RELEASE: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
HOOKS: list[dict[str, Any]] = [
    hook for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"] for hook in repo["hooks"]
]


def test_tools_whose_findings_differ_by_version_are_pinned() -> None:
    assert {"ruff", "mypy", "pyright"} <= PINNED.keys()


def test_hooks_use_the_pinned_versions() -> None:
    given = [requirement.split("==") for hook in HOOKS for requirement in hook.get("additional_dependencies", ())]
    assert given
    assert [(name, version) for name, version in given if PINNED[name] != version] == []


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_are_commands_that_exist(hook: dict[str, Any]) -> None:
    program, *arguments = shlex.split(hook["entry"])
    assert shutil.which(program, path=str(Path(sys.executable).parent)) is not None
    assert hook["language"] == ("python" if program == "ruff" else "system")
    if "-m" in arguments:
        module = arguments[arguments.index("-m") + 1]
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file()


def test_the_contributors_page_names_the_hooks() -> None:
    text = " ".join((ROOT / ".github/CONTRIBUTING.md").read_text("utf-8").split())
    assert [hook["entry"] for hook in HOOKS if f"`{hook['entry'].removesuffix(' --force-exclude')}`" not in text] == []


def commands(job: str) -> list[str]:
    return [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]


def test_the_workflow_runs_the_readmes_test_command() -> None:
    readme = pages.commands(pages.code((ROOT / "README.md").read_text("utf-8"), "sh")[1])
    assert commands("tests") == readme[1:]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def stages_of(job: dict[str, Any], key: str) -> list[str]:
    """The stages of .ci/run that the rows of a job's matrix name, without pytest's arguments."""
    matrix = job["strategy"]["matrix"]
    rows = matrix[key] if key in matrix else [row[key] for row in matrix["include"]]
    return [stage for row in rows for stage in row.partition(" -- ")[0].split()]


@pytest.mark.skipif(os.name == "nt", reason="the check is a program for bash")
def test_the_workflows_run_every_stage_of_the_check() -> None:
    listed = subprocess.run([ROOT / ".ci/run", "--list"], capture_output=True, text=True, check=True).stdout.split()
    jobs = WORKFLOW["jobs"]
    assert commands("check") == commands("changed") == [".ci/run ${{ matrix.stages }}"]
    assert {*stages_of(jobs["check"], "stages"), *stages_of(jobs["changed"], "stages")} == {*listed} - {"slow"}
    nightly = NIGHTLY["jobs"]["slow"]
    assert nightly["steps"][-1]["run"] == ".ci/run slow -- ${{ matrix.part }}"
    named = {path for part in nightly["strategy"]["matrix"]["part"] for path in part.split() if path.startswith("tests")}
    assert all((ROOT / path).is_dir() for path in named)
    refused = subprocess.run([ROOT / ".ci/run", "no-stage"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("'no-stage' is not a stage; there are: lint ")


def test_stages_run_where_their_inputs_changed_and_all_of_them_at_night() -> None:
    filters: dict[str, list[str]] = yaml.safe_load(WORKFLOW["jobs"]["changes"]["steps"][-1]["with"]["filters"])
    job = WORKFLOW["jobs"]["changed"]
    assert {row["of"] for row in job["strategy"]["matrix"]["include"]} == filters.keys() == WORKFLOW["jobs"]["changes"]["outputs"].keys()
    assert {step["if"] for step in job["steps"]} == {"inputs.all || needs.changes.outputs[matrix.of] == 'true'"}
    assert [pattern for listed in filters.values() for pattern in listed if not any(ROOT.glob(pattern))] == [], "what is named exists"
    assert all(".ci/run" in listed or ".ci/**" in listed for listed in filters.values())
    assert WORKFLOW[True]["workflow_call"]["inputs"]["all"]["type"] == "boolean"
    nightly = NIGHTLY["jobs"]["ci"]
    assert (nightly["uses"], nightly["with"]) == ("./.github/workflows/ci.yml", {"all": True})


def test_the_workflow_covers_the_systems_and_pythons() -> None:
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    classifiers = PYPROJECT["project"]["classifiers"]
    pythons = [found[1] for text in classifiers if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text))]
    assert matrix["python"] == pythons
    assert matrix["os"] == ["ubuntu-latest", "windows-latest", "macos-latest"]
    triggers = WORKFLOW[True]  # YAML 1.1 reads the key `on` as a truth value
    assert triggers["push"] == {"branches": ["main"]}
    assert triggers["pull_request"] is None


def test_the_nightly_workflow_fuzzes_every_promise_with_another_seed_each_night() -> None:
    job = NIGHTLY["jobs"]["fuzzing"]
    assert NIGHTLY[True]["schedule"]
    assert job["steps"][-1]["run"] == "python -m tests.fuzzing.${{ matrix.fuzzer }} --seed ${{ github.run_number }}"
    fuzzers = [shlex.split(text) for text in job["strategy"]["matrix"]["fuzzer"]]
    promised = re.findall(r"python -m tests\.fuzzing\.(\w+)", (ROOT / "dmlpy/docs/guides/promises.md").read_text("utf-8"))
    assert {module for module, *_ in fuzzers} == set(promised)
    for module, *arguments in fuzzers:
        sources = "".join((TESTS / "fuzzing" / f"{name}.py").read_text("utf-8") for name in (module, "tally"))
        options = set(re.findall(r'add_argument\("(--\w+)"', sources))
        assert {"--seed", *(text for text in arguments if text.startswith("--"))} <= options, module
    with_kinds = [arguments for _, *arguments in fuzzers if "--kinds" in arguments]
    counts = {kind: arguments[1] for arguments in with_kinds for kind in arguments[arguments.index("--kinds") + 1 :]}
    assert counts == dict.fromkeys([kind for kind in mutants.MAKERS if kind.startswith("generated")], "100000")


def imported_tests(source: str) -> list[str]:
    """The test modules that a module imports."""
    if re.search(r"\bimport\b[^=:]*?\b(?<!def )test_", source) is None:
        return []  # without being parsed, which takes longer
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    return sorted(name for name in imported if name.startswith("tests.") and ".test_" in name)


def packages(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def test_the_architecture_page_has_every_package() -> None:
    page = (ROOT / "dmlpy" / "README.md").read_text(encoding="utf-8")
    table = page.split("## Packages")[1].split("## Layers")[0]
    assert [name for name in packages(ROOT / "dmlpy") if f"`{name}/`" not in table and f"]({name}/README.md)" not in table] == []


def test_the_contributors_page_has_every_folder_of_tests() -> None:
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("## How the tests are organised")[1].split("## ")[0]
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("*") if path.is_file() and path.parent != TESTS}
    assert [name for name in folders - packages(ROOT / "dmlpy") - {"__pycache__"} if f"`{name}`" not in section] == []


def test_what_tests_share_is_no_test_module() -> None:
    """A module that another one imports is in tests/support, so that nobody collects or changes a test with it."""
    files = sorted(TESTS.rglob("*.py"))
    assert {
        path.relative_to(TESTS).as_posix(): found for path in files if (found := imported_tests(path.read_text(encoding="utf-8")))
    } == {}


@pytest.mark.parametrize(
    "source", ["import tests.graphs.test_graphs", "def f():\n    from tests.graphs import (\n        test_graphs,\n    )"]
)
def test_an_imported_test_module_is_found(source: str) -> None:
    assert imported_tests(source) == ["tests.graphs.test_graphs"]


def test_a_shared_check_shows_its_values() -> None:
    assert isinstance(exact.__loader__, AssertionRewritingHook)


FORMS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
}
FORM, DIRECTML_FORM = FORMS["gpu-record"], FORMS["directml-record"]
FIELDS = {field["id"]: field for field in FORM["body"] if "id" in field}
"""What the form for a record of a GPU asks for."""


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_one_that_github_shows(name: str) -> None:
    """Its rules: a form lacks nothing that it must have, and its identifiers and labels are unique."""
    form = FORMS[name]
    assert {"name", "description", "labels", "body"} <= form.keys() <= {"name", "description", "title", "labels", "body"}
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in asked]
    assert len(set(names)) == len(names) > 0
    assert all(re.fullmatch(r"[\w-]+", given) for given in names)
    labels = [field["attributes"]["label"] for field in asked]
    assert len(set(labels)) == len(labels)
    needed = {"markdown": {"value"}, "textarea": {"label"}, "dropdown": {"label", "options"}, "checkboxes": {"label", "options"}}
    allowed = {"markdown": set(), "textarea": {"description", "placeholder", "value", "render"}} | {
        kind: {"description", "multiple", "default"} for kind in ("dropdown", "checkboxes")
    }
    for field in form["body"]:
        given = set(field["attributes"])
        assert needed[field["type"]] <= given <= needed[field["type"]] | allowed[field["type"]], field
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert set(field.get("validations", {})) <= {"required"}
        # What is rendered as text takes no files.
        assert field.get("id") != "record" or "render" not in field["attributes"]
        options = field["attributes"].get("options", [])
        kind = {"dropdown": lambda option: isinstance(option, str), "checkboxes": lambda option: option.keys() <= {"label", "required"}}
        assert all(kind[field["type"]](option) for option in options)
    for link in re.findall(r"\]\(\.\./blob/main/([^)]+)\)", json.dumps(form)):
        assert (ROOT / link).is_file()


def test_the_form_for_directml_asks_for_the_record_that_the_page_makes() -> None:
    page = (ROOT / "dmlpy/conformance/README.md").read_text("utf-8")
    text = DIRECTML_FORM["body"][0]["attributes"]["value"]
    (made,) = pages.code(text, "powershell")
    assert made.strip() in page
    assert "directml-record.yml" in page
    file = made.split("--output ")[1].strip()
    assert f"`{file}`" in DIRECTML_FORM["body"][1]["attributes"]["description"]


def test_the_form_asks_for_the_record_that_the_page_makes() -> None:
    page = (ROOT / "dmlpy/devices/cuda/README.md").read_text("utf-8")
    (made,) = pages.code(FORM["body"][0]["attributes"]["value"], "sh")
    assert made.strip() in page
    file = made.split("--save ")[1].strip()
    assert f"`{file}`" in FIELDS["record"]["attributes"]["description"]
    assert {name for name, field in FIELDS.items() if field.get("validations", {}).get("required")} == {"record", "info", "machine"}
    assert "gpu-record.yml" in page
    commands = re.findall(r"`(dmlpy \w+|nvidia-smi|pytest [^`]+)`", json.dumps(FORM))
    assert {"dmlpy info", "nvidia-smi", "pytest -m gpu -x"} <= set(commands)
    assert [command for command in commands if command not in page] == []


RELEASED = f"## {dmlpy.__version__} (2026-11-28)"
TAG = f"v{dmlpy.__version__}"


@pytest.mark.skipif(sys.platform == "win32", reason="a script of bash")
@pytest.mark.parametrize(
    ("tag", "heading", "expected"),
    [
        (TAG, RELEASED, ""),
        (TAG, f"## {dmlpy.__version__} (not released)", "expected '## "),
        (TAG, RELEASED.replace(".", "x"), "expected '## "),
        (dmlpy.__version__, RELEASED, f"expected {TAG}\n"),
        (f"{TAG}.1", RELEASED, f"expected {TAG}\n"),
        ("main", RELEASED, f"expected {TAG}\n"),
    ],
)
def test_a_release_is_of_a_tag_whose_changes_are_dated(tag: str, heading: str, expected: str, tmp_path: Path) -> None:
    for folder in (".ci", ".github", "dmlpy"):
        (tmp_path / folder).mkdir()
    for file in (".ci/release-check", "dmlpy/version.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / ".github/CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n- A change.\n", "utf-8")
    done = subprocess.run([tmp_path / ".ci/release-check", tag], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(expected)
    assert expected in done.stderr


def test_a_release_is_checked_and_agreed_to_before_it_is_published() -> None:
    """By the whole check, by hand, and without a password."""
    assert RELEASE[True].keys() == {"workflow_dispatch"}
    jobs = RELEASE["jobs"]
    assert (jobs["ci"]["uses"], jobs["ci"]["with"]) == ("./.github/workflows/ci.yml", {"all": True})
    assert set(jobs["publish"]["needs"]) == {"ci", "build"}
    assert jobs["publish"]["if"] == "inputs.publish"
    assert jobs["publish"]["environment"] == "release"
    assert "secrets" not in json.dumps(RELEASE)
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert [place for place, text in enumerate(commands) if "release-check" in text] < [commands.index("python -m build")]
    (uploaded,) = (step["with"]["name"] for step in jobs["build"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert uploaded == jobs["publish"]["steps"][0]["with"]["name"]


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / ".github/CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == dmlpy.__version__


def test_the_conda_recipe_is_that_of_the_project() -> None:
    """Dependencies, Python, version and command; conda calls two packages otherwise."""
    recipe = yaml.safe_load((ROOT / ".github/conda/recipe.yaml").read_text("utf-8"))
    names = {"python-flatbuffers": "flatbuffers", "python-graphviz": "graphviz"}
    run = [requirement.split(" ") for requirement in recipe["requirements"]["run"]]
    project = PYPROJECT["project"]
    assert sorted(f"{names.get(name, name)}{bound}" for name, bound in run if name != "python") == sorted(project["dependencies"])
    assert ["python", project["requires-python"]] in run
    assert recipe["requirements"]["host"][0] == f"python {project['requires-python']}"
    assert recipe["requirements"]["host"][2].replace(" ", "") == PYPROJECT["build-system"]["requires"][0]
    constraints = [requirement.replace(" ", "") for requirement in recipe["requirements"]["run_constraints"]]
    assert constraints == project["optional-dependencies"]["cpu"]
    assert recipe["context"]["version"] == dmlpy.__version__
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["about"]["license"] == project["license"]


def test_the_next_python_is_tried_at_night() -> None:
    """One that no row of ci.yml has yet: newer than all of them."""
    step = NIGHTLY["jobs"]["next-python"]["steps"][1]
    listed = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert [int(part) for part in step["with"]["python-version"].split(".")] > [int(part) for part in listed[-1].split(".")]


def test_the_site_is_published_from_main_with_the_libraries_that_it_documents() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text("utf-8"))
    assert workflow[True]["push"] == {"branches": ["main"]}
    commands = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "run" in step]
    (extras,) = re.findall(r"pip install -e '\.\[([\w,]+)\]'", "\n".join(commands))
    assert {*extras.split(",")} == {"docs", "torch", "thinc"} <= PYPROJECT["project"]["optional-dependencies"].keys()
    assert commands[-1] == "dmlpy docs --strict --output site"
    assert workflow["jobs"]["build"]["steps"][-1]["with"]["path"] == "site"
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["publish"]["needs"] == "build"
