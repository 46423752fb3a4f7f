"""What the tests of the GPU check wait for, and what its folder must hold."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
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


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
