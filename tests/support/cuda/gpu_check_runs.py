"""What the tests of the GPU check wait for, and what its folder must hold."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.gpu_check import calls

LIMIT_S = 300


FILES_BACK, DEEPEST = 8, 2
"""What some machines give back of the folder of results: so many files, no more than so many folders down."""


def wait_until(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def check_folder(folder: Path) -> None:
    """All of it can be given back."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert 0 < len(files) <= FILES_BACK, files
    for path in files:
        name = path.relative_to(folder)
        assert len(name.parts) <= DEEPEST
        assert re.fullmatch(r"[A-Za-z0-9._/-]+", str(name)), name
        assert path.stat().st_size <= calls.MOST_BYTES


def named_for(part: str) -> list[str]:
    """The files or tests that are named for a part."""
    return Path(calls.named_in(part).removeprefix("@")).read_text().splitlines()


def reports(record: Path) -> list[dict[str, Any]]:
    """The lines of a record, which may still grow."""
    found: list[dict[str, Any]] = []
    if record.exists():
        with gzip.open(record, "rt") as lines, suppress(EOFError, ValueError):
            found += map(json.loads, lines)
    return found


def outcomes(folder: Path, part: str) -> dict[str, str]:
    """How the tests of a part fared by its record: the worst outcome of each."""
    found: dict[str, str] = {}
    for report in reports(folder / f"{part}.jsonl.gz"):
        ends = report["$report_type"] == "TestReport" and (report["outcome"] != "passed" or report["when"] == "call")
        if ends and found.get(report["nodeid"]) != "failed":
            found[report["nodeid"]] = report["outcome"]
    return found


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
