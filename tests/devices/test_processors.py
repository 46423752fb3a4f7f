"""The processors that a process may use: its mask, and the quota of its control groups, of both versions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from dmlpy.devices.host import processors as processors_module
from dmlpy.devices.host.processors import processors, quota

GROUPS: dict[str, tuple[str, Mapping[str, str], int | None]] = {
    "none": ("", {}, None),
    "version 2": ("0::/box\n", {"box/cpu.max": "200000 100000\n"}, 2),
    "version 2, no limit": ("0::/box\n", {"box/cpu.max": "max 100000\n"}, None),
    "version 2, a part of a processor": ("0::/box\n", {"box/cpu.max": "50000 100000\n"}, 0),
    "version 2, one and a half": ("0::/box\n", {"box/cpu.max": "150000 100000\n"}, 1),
    "version 2, the group above has less": ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "400000 100000\n"}, 1),
    "version 2, in a container": ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
    "version 2, the path of the host": ("0::/host/docker/1\n", {"cpu.max": "300000 100000\n"}, 3),
    "version 1": (
        "4:cpu,cpuacct:/a\n",
        {"cpu,cpuacct/a/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "50000\n"},
        5,
    ),
    "version 1, by the link": ("4:cpuacct,cpu:/box\n", {"cpu/box/cpu.cfs_quota_us": "2000\n", "cpu/box/cpu.cfs_period_us": "1000\n"}, 2),
    "version 1, no limit": ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    "version 1, other controllers": ("2:cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "1000\n", "cpu/cpu.cfs_period_us": "1000\n"}, None),
    "both": ("1:cpu:/\n0::/\n", {"unified/cpu.max": "400000 100000", "cpu/cpu.cfs_quota_us": "3000", "cpu/cpu.cfs_period_us": "1000"}, 3),
    "nonsense": ("0::/box\nx\n", {"box/cpu.max": "lots of it\n"}, None),
    "a period of nothing": ("0::/box\n", {"box/cpu.max": "1000 0\n"}, None),
}


@pytest.fixture
def groups(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Files as the system shows a process's groups."""
    own, files, _ = GROUPS[request.param]
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        place = tmp_path / "groups" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "own", tmp_path / "groups"


@pytest.mark.parametrize(("groups", "expected"), [(name, row[2]) for name, row in GROUPS.items()], indirect=["groups"], ids=list(GROUPS))
def test_the_quota_of_groups(groups: tuple[Path, Path], expected: int | None) -> None:
    assert quota(*groups) == expected


def test_where_no_groups_are_reported(tmp_path: Path) -> None:
    assert quota(tmp_path / "own", tmp_path) is None
    (tmp_path / "own").write_bytes(b"\xff\xfe")
    assert quota(tmp_path / "own", tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
@pytest.mark.parametrize(("allowed", "expected"), [(None, 8), (16, 8), (3, 3), (0, 1)])
def test_the_quota_bounds_the_processors(allowed: int | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count" if sys.version_info >= (3, 13) else "sched_getaffinity", _eight)
    monkeypatch.setattr(processors_module, "_known", (0.0, None))
    monkeypatch.setattr(processors_module, "quota", lambda own, groups: allowed)
    assert processors() == expected


def _eight(*process: int) -> object:
    return set(range(8)) if process else 8


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_the_quota_is_read_again_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    now = [100.0]
    monkeypatch.setattr(processors_module, "_known", (0.0, None))
    monkeypatch.setattr(processors_module, "quota", lambda own, groups: read.append(own) or len(read))  # type: ignore[func-returns-value]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert (processors(), processors(), len(read)) == (1, 1, 1)
    now[0] += 2
    processors()
    assert len(read) == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no masks")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_mask_of_one_processor(when: str) -> None:
    """As `taskset` sets it, before dmlpy is imported or afterwards."""
    mask, load = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", "from dmlpy.devices.host.threads import available_threads"
    lines = ["import os", *((mask, load) if when == "before" else (load, mask)), "print(available_threads())"]
    found = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert found.stdout == "1\n"
