"""`processors`: how many processors this process may use, by the system, the process's mask, and its control group's quota."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_REREAD_AFTER_S = 1.0
"""A control group's quota may change while the process runs. Reading it takes a tenth of a millisecond."""

_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

_known: tuple[float, int | None] = (0.0, None)
"""The time to read the quota again, and its last value."""


def processors() -> int:
    """The number of processors that this process may use: as Python reports it, or the quota of its control groups if that is lower.

    Python respects the process's mask (`os.sched_setaffinity`, `taskset`) and from 3.13 on `-X cpu_count`. A quota of parts of a processor
    is rounded down, to 1 at least: with one and a half processors, two threads wait for each other until the next period.
    """
    if sys.version_info >= (3, 13):
        count = os.process_cpu_count() or 1
    else:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = _quota_now()
    return count if allowed is None else max(1, min(count, allowed))


def _quota_now() -> int | None:
    """The quota, reread from time to time."""
    global _known
    if sys.platform != "linux":
        return None
    until, known_quota = _known
    if (now := time.monotonic()) >= until:
        known_quota = quota(_OWN_GROUPS, _GROUPS)
        _known = now + _REREAD_AFTER_S, known_quota
    return known_quota


def quota(memberships: Path, groups: Path) -> int | None:
    """The least number of whole processors that a process's control groups, and those above them, allow; None if they set no limit.

    Args:
        memberships: the file that lists the process's groups: `/proc/self/cgroup`.
        groups: where the groups are mounted. In a container the paths may be those outside it: missing files count as no limit.
    """
    return min((int(time_us / period_us) for time_us, period_us in _limits(memberships, groups)), default=None)


def _limits(memberships: Path, groups: Path) -> Iterator[tuple[int, int]]:
    """The microseconds that each group may use in each period."""
    try:
        lines = memberships.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        names: tuple[str, ...]
        if not controllers:  # version 2
            places, names = [groups, groups / "unified"], ("cpu.max",)
        elif "cpu" in controllers.split(","):
            places, names = [groups / controllers, groups / "cpu"], ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        group = Path(path.lstrip("/"))
        for above in (group, *group.parents):
            for place in places:
                words = _words(place / above, names)
                if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
                    yield int(words[0]), int(words[1])  # without a limit the first one is "max" or -1
                    break


def _words(folder: Path, names: tuple[str, ...]) -> list[str]:
    try:
        return " ".join((folder / name).read_text() for name in names).split()
    except (OSError, UnicodeDecodeError):
        return []
