"""The pages: their code prints what they show, their tables are the code's, and their links and paths lead somewhere."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from dmlpy.cli.main import app
from tests.support.folders import EXAMPLES, ROOT
from tests.support.generators import page_tables, pages
from tests.support.generators.pages import PAGES, comparable, name_of
from tests.support.tables import table
from tests.support.tools import require

ALL = sorted({*PAGES, *ROOT.glob("*/README.md"), *ROOT.glob("tests/**/*.md")})
"""All Markdown files of the project."""


def with_code(language: str) -> list[Path]:
    return [page for page in PAGES if pages.code(page.read_text("utf-8"), language)]


@pytest.mark.parametrize("page", sorted({*with_code("python"), *with_code("console")}), ids=name_of)
def test_code_prints_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the output has changed, and rightly: `python -m tests.support.generators.pages PAGE`."""
    if tool := pages.NEEDED.get(name_of(page)):
        require(tool)
    monkeypatch.chdir(tmp_path)
    for output in pages.executed(page.read_text("utf-8"), name_of(page), tmp_path):
        assert comparable(output.printed) == comparable(output.shown), f"{name_of(page)}, line {output.line}"


def test_pages_with_code_are_found() -> None:
    assert len(with_code("python")) >= 10
    assert {"README.md", "dmlpy/cli/README.md"} <= {name_of(page) for page in with_code("console")}


@pytest.mark.gpu
@pytest.mark.cupy
@pytest.mark.parametrize("page", with_code("py"), ids=name_of)
def test_code_for_gpus_runs(page: Path) -> None:
    """The blocks marked `py` continue the page's first Python block."""
    text = page.read_text("utf-8")
    names: dict[str, Any] = {}
    for code in (pages.code(text, "python")[0], *pages.code(text, "py")):
        exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_are_the_codes(page: Path) -> None:
    """Where this fails: `python -m tests.support.generators.pages PAGE`."""
    text = page.read_text("utf-8")
    assert pages.with_tables(text) == text


def test_every_table_is_on_a_page() -> None:
    shown = "".join(page.read_text("utf-8") for page in PAGES)
    assert [name for name in page_tables.TABLES if f"<!-- generated: {name} -->" not in shown] == []


PAGE = """# x

```python
print(1 + 1)
```

```text
3
```

```python
a = 0.123456
```

```console
$ python -c "print(0.5)"
0.25
$ python -c "import sys; sys.exit('wrong')"
```

<!-- generated: operators -->
old
<!-- end -->
"""


def test_pages_are_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "PAGE.md"
    page.write_text(PAGE, "utf-8")
    pages.main([str(page)])
    text = page.read_text("utf-8")
    assert "```text\n2\n```" in text
    assert '$ python -c "print(0.5)"\n0.5\n$ python' in text
    assert f"-->\n{page_tables.operators()}<!-- end -->" in text
    assert pages.rewritten(page) == text
    page.write_text("```python\nprint(1)\n```\n", "utf-8")
    with pytest.raises(ValueError, match=r"PAGE.md, line 1: the code prints, but there is no text block:\n1"):
        pages.rewritten(page)


def test_outputs_are_compared_but_for_what_differs_between_machines() -> None:
    assert comparable("0.1234567 in 3.25 ms  \nx\n\n") == comparable("\n0.1234999 in 1.5 ms\nx")
    assert comparable("0.1234") != comparable("0.1244")


# links and paths


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are linked by, as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            broken.append(link)
    return broken


@table("page", ALL, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def unknown_paths(page: Path) -> list[str]:
    """Files that a page names in code style and that are not in the tree, seen from its folder or from the root."""
    named = re.findall(r"`(\.?[\w-]+(?:/[\w.-]+)+\.(?:py|pyi|cu|cuh|h|json|toml|md|yml|yaml))`", prose(page.read_text("utf-8")))
    return [name for name in named if not any((folder / name).is_file() for folder in (page.parent, ROOT))]


@table("page", ALL, ids=name_of)
def test_named_files_exist(page: Path) -> None:
    assert unknown_paths(page) == []


def broken_rows(page: Path) -> list[str]:
    """Rows of tables that go on in another line, which Markdown shows as text."""
    return re.findall(r"^ *\|.*[^|\s] *$", prose(page.read_text("utf-8")), re.MULTILINE)


@table("page", ALL, ids=name_of)
def test_rows_of_tables_are_lines(page: Path) -> None:
    assert broken_rows(page) == []


def test_broken_links_paths_and_rows_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "there.md").write_text("## A `b`, c\n", "utf-8")
    page.write_text(
        "# Here\n[a](#here) [b](there.md#a-b-c) [c](https://x.y) [d](nowhere) [e](there.md#d) `a/b.py` `dmlpy/__init__.py`\n"
        "| f | g\nh |\n| i | j |\n",
        "utf-8",
    )
    assert broken_rows(page) == ["| f | g"]
    assert broken_links(page) == ["nowhere", "there.md#d"]
    assert unknown_paths(page) == ["a/b.py"]


# the README


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def test_ci_runs_the_readmes_test_command() -> None:
    """Both of the README's commands make an environment; CI makes the same one, with uv, and runs the same tests in it."""
    text = (ROOT / "README.md").read_text("utf-8")
    main, tests = map(pages.commands, pages.code(text, "sh"))
    assert main[0] == tests[0] == "python3 -m venv .venv"
    assert main[-1].startswith("python examples/pronounce.py ")
    ci = (ROOT / ".ci/run").read_text("utf-8").replace("$install ", "pip install ").replace('"$bin/pytest"', "pytest")
    assert [command for command in tests[1:] if command not in ci] == []


def test_windows_runs_the_same_commands_in_the_environment() -> None:
    """None is run by a program outside of it, as `pip` alone would be where scripts that activate it are forbidden."""
    text = (ROOT / "README.md").read_text("utf-8")
    main, tests = map(pages.commands, pages.code(text, "sh"))
    first, then = (block.splitlines() for block in pages.code(text, "powershell"))
    assert [first[0], main[0]] == ["py -m venv .venv", "python3 -m venv .venv"]
    assert [line for line in (*first[1:], *then) if not line.startswith(".venv\\Scripts\\python ")] == []
    inside = [[re.sub(r"^\.venv\\Scripts\\python (-m )?", "", line) for line in lines] for lines in (first[1:], then)]
    wanted = [main[1:], [tests[1], tests[-1]]]  # the rest of the second command has been run by the first
    assert inside == [[command.removeprefix("python ") for command in commands] for commands in wanted]


def test_every_example_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".json", ".ipynb"} and path.name not in text] == []


# a GPU

GPU_PAGE = ROOT / "dmlpy/devices/cuda/README.md"


def gpu_commands() -> list[list[str]]:
    """The commands of the page about GPUs, as words."""
    blocks = pages.code(GPU_PAGE.read_text("utf-8"), "sh")
    return [shlex.split(line) for block in blocks for part in block.splitlines() for line in part.split(" && ")]


def test_commands_for_a_gpu_are_understood_without_one() -> None:
    """What they ask for exists: extras, marks, and all that is to be measured, which can be listed anywhere."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    known = gpu_commands()
    extras = {found[1] for words in known if words[0] == "pip" for word in words if (found := re.fullmatch(r"\.\[(\w+)\]", word))}
    assert extras == {"cuda13", "test"}
    assert extras < set(project["project"]["optional-dependencies"])
    assert ["pytest", "-m", "gpu", "-x"] in known
    assert any(mark.startswith("gpu:") for mark in project["tool"]["pytest"]["ini_options"]["markers"])
    own = [words[1:] for words in known if words[0] == "dmlpy"]
    assert ["bench", "--device", "cuda", "--seconds", "300", "--save", "my-gpu.json"] in own
    for words in own:
        listed = [*words, "--list"] if words[0] == "bench" and "--list" not in words else words
        result = typer.testing.CliRunner().invoke(app, listed, env={"TERM": "dumb"})
        assert result.exit_code == 0, (words, result.output)


def test_the_page_about_gpus_names_the_extras_of_the_project() -> None:
    text = GPU_PAGE.read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert dict(re.findall(r"^\| (\d+) and newer \| `(\w+)`", text, re.MULTILINE)) == {"525": "cuda12", "580": "cuda13"}
    assert {name for name in extras if name.startswith("cuda")} == {"cuda12", "cuda13"}
    recorded = (ROOT / "dmlpy/bench/records/cuda.json").exists()
    assert ("No speed has been recorded on a GPU yet" in text) == (not recorded), "the page says so as long as there is no record"
