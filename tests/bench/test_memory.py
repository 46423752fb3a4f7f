"""The memory that a benchmark counts, on each system."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import psutil
import pytest

from dmlpy.bench import memory

MB = 1 << 20


def test_a_large_array_is_counted() -> None:
    """On this machine, whichever it is; an array that only grows is the first peak that a system without a restart sees."""
    mark = memory.mark()
    array = np.ones(48 * MB, np.uint8)
    peak = mark.peak_since()
    assert peak is None or 40 * MB <= peak <= 200 * MB
    assert peak is not None or not mark.was_reset
    del array


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [((30, 50), (40, 90), 60), ((30, 50), (45, 50), None), ((50, 50), (50, 50), None)],
    ids=["a new peak", "below an earlier peak", "unchanged"],
)
def test_windows_reports_peaks_that_exceed_earlier_ones(
    before: tuple[int, int], after: tuple[int, int], expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_REFERENCES", tmp_path / "none" / "clear_refs")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    use = types.SimpleNamespace()
    monkeypatch.setattr(psutil, "Process", lambda: types.SimpleNamespace(memory_info=lambda: use))
    use.rss, use.peak_wset = before
    mark = memory.mark()
    use.rss, use.peak_wset = after
    assert (mark.was_reset, mark.peak_since()) == (False, expected)


@pytest.mark.parametrize(("system", "unit"), [("darwin", 1), ("freebsd14", 1024)])
def test_other_systems_report_what_posix_has(system: str, unit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr(resource, "getrusage", lambda who: types.SimpleNamespace(ru_maxrss=7 * MB))
    assert memory.peak_bytes() == 7 * MB * unit
