"""One command writes all generated files, lists what has changed, and checks that all are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import regenerate
from tests.support.folders import ROOT
from tests.support.regenerate import GENERATORS, Generator

COPY = """
import sys
from pathlib import Path
wanted, file = Path("{source}").read_text(), Path("{target}")
current = file.is_file() and file.read_text() == wanted
if "--check" in sys.argv and not current:
    sys.exit("{target} is not current")
if "--check" not in sys.argv:
    file.write_text(wanted + "{more}")
"""
"""A generator: its file is a copy of another one."""


def copying(folder: Path, module: str, source: str, target: str, *, dated: bool = False) -> Generator:
    (folder / f"{module}.py").write_text(COPY.format(source=source, target=target, more=""), "utf-8")
    return Generator(target, module, (target,), dated=dated)


def test_what_follows_from_what_was_written_is_written_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each generator sees the files of those before it."""
    chain = [copying(tmp_path, "first", "a", "b"), copying(tmp_path, "second", "b", "c")]
    (tmp_path / "a").write_text("1", "utf-8")
    assert regenerate.main(["--check"], chain, tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["b (python -m first): stale", "  b is not current"]
    assert not (tmp_path / "b").exists(), "a check writes nothing"
    assert regenerate.main([], chain, tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == ["b (python -m first): changed", "  b", "c (python -m second): changed", "  c"]
    assert (tmp_path / "c").read_text("utf-8") == "1"
    assert regenerate.main(["--check"], chain, tmp_path) == regenerate.main([], chain, tmp_path) == 0
    assert set(capsys.readouterr().out.splitlines()) == {"b (python -m first): current", "c (python -m second): current"}


def test_what_is_dated_is_left_alone_where_it_is_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = copying(tmp_path, "dated", "a", "b", dated=True)
    (tmp_path / "a").write_text("1", "utf-8")
    assert regenerate.main([], [generator], tmp_path) == 0
    (tmp_path / "dated.py").write_text((tmp_path / "dated.py").read_text("utf-8").replace('wanted + ""', 'wanted + " of today"'), "utf-8")
    assert regenerate.main([], [generator], tmp_path) == 0
    assert (tmp_path / "b").read_text("utf-8") == "1"
    assert capsys.readouterr().out.splitlines()[-1] == "b (python -m dated): current"


def test_a_generator_that_fails_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = [copying(tmp_path, "first", "missing", "b"), copying(tmp_path, "second", "b", "c")]
    assert regenerate.main([], chain, tmp_path) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("b (python -m first): failed\n")
    assert "FileNotFoundError" in printed
    assert "second" not in printed


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.module)
def test_files_of_generators_exist(generator: Generator) -> None:
    assert [pattern for pattern in generator.files if not any(ROOT.glob(pattern))] == []
    assert (ROOT / generator.module.replace(".", "/")).with_suffix(".py").is_file() or (ROOT / generator.module / "__main__.py").is_file()


def test_files_that_say_that_they_are_generated_are() -> None:
    """A new generator has to be in the list."""
    known = {module for generator in GENERATORS for module in (generator.module, generator.command.removeprefix("python -m "))}
    says = re.compile(r'(?:# |""").*?[Ww]ritten by `python -m ([\w. ]+?)`')
    texts = [path.read_text("utf-8") for path in (ROOT / "dmlpy").rglob("*.py*") if path.suffix in (".py", ".pyi")]
    named = {found[1] for text in texts if (found := says.match(text))}
    assert named
    assert named <= known


def test_the_contributors_page_names_every_generator() -> None:
    text = (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
    names = [generator.command.replace("python -m dmlpy schemas", "dmlpy schemas") for generator in GENERATORS]
    assert [name for name in ["python -m tests.support.regenerate", *names] if f"`{name}`" not in text] == []
