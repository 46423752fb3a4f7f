"""Writes every generated file anew, in the order in which they follow from each other: `python -m tests.support.regenerate [--check]`.

It lists the files that have changed. With `--check` nothing is written: it fails if a file is not current, and names it. Each generator
runs in a process of its own, so that it sees what those before it wrote.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.folders import ROOT


@dataclass(frozen=True)
class Generator:
    """A command that writes files.

    Attributes:
        title: what the files are.
        module: run by `python -m`; with `--check` it writes nothing and fails if a file is not current.
        files: patterns of what it writes, from the root.
        arguments: of the module.
        dated: the files contain their date, so they are written only if they are not current.
    """

    title: str
    module: str
    files: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    dated: bool = False

    @property
    def command(self) -> str:
        """What a person types."""
        return " ".join(("python", "-m", self.module, *self.arguments))

    def run(self, root: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs the command in a checkout."""
        command = [sys.executable, "-m", self.module, *self.arguments, *more]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    def contents(self, root: Path) -> dict[str, bytes]:
        """The files by their paths from the root."""
        found = sorted({path for pattern in self.files for path in root.glob(pattern)})
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


GENERATORS = (
    Generator("public names and functions", "dmlpy.x.stubs", ("dmlpy/**/__init__.pyi", "dmlpy/x/functions/*.py")),
    Generator("samples", "tests.support.generators.samples", ("dmlpy/inspection/samples.json",)),
    Generator("descs of evidence", "tests.support.generators.evidence_descs", ("dmlpy/evidence/descs.json",)),
    Generator("schemas", "dmlpy", ("schemas/**/*.json",), ("schemas",)),
    Generator("predictions", "dmlpy.bench.predictions", ("dmlpy/bench/records/predictions.json",), dated=True),
    Generator("figures of records", "dmlpy.bench.readme", ("dmlpy/bench/**/*.md", "dmlpy/bench/records/*.svg")),
    Generator("pictures of the gallery", "tests.support.generators.pictures", ("dmlpy/docs/pictures/*",)),
    Generator("tables and outputs of pages", "tests.support.generators.pages", ("README.md", ".github/*.md", "dmlpy/**/*.md")),
)
"""The schemas and samples are of the public classes; pages show all of the others."""


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """The paths that one of them lacks or has otherwise."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def write(generator: Generator, root: Path) -> tuple[bool, list[str]]:
    """Writes the files of a generator; whether it succeeded, and a message."""
    if generator.dated and generator.run(root, "--check").returncode == 0:
        return True, []
    before = generator.contents(root)
    done = generator.run(root)
    changed = [f"  {path}" for path in differences(before, generator.contents(root))]
    return done.returncode == 0, changed if done.returncode == 0 else [*changed, done.stdout, done.stderr]


def check(generator: Generator, root: Path) -> tuple[bool, list[str]]:
    """Whether a generator's files are current, and its message if they are not."""
    done = generator.run(root, "--check")
    told = [line for line in (done.stdout + done.stderr).splitlines() if line]
    return done.returncode == 0, [] if done.returncode == 0 else [f"  {line}" for line in told]


def main(arguments: Sequence[str], generators: Sequence[Generator] = GENERATORS, root: Path = ROOT) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.regenerate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not current")
    given = parser.parse_args(arguments)
    status = 0
    for generator in generators:
        succeeded, told = (check if given.check else write)(generator, root)
        outcome = ("changed" if told else "current") if succeeded else ("stale" if given.check else "failed")
        print("\n".join([f"{generator.title} ({generator.command}): {outcome}", *told]), flush=True)
        if not succeeded:
            status = 1
            if not given.check:
                break  # what follows would be made of files that are not there
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
