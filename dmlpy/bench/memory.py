"""How much memory this process has used at most since a moment, on any system."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

_REFERENCES = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Mark:
    """The memory at a moment.

    Attributes:
        in_use: the resident bytes.
        peak: the most resident bytes up to then; None if the system does not report them.
        was_reset: whether the peak counts from this moment on. Only Linux restarts it.
    """

    in_use: int
    peak: int | None
    was_reset: bool

    def peak_since(self) -> int | None:
        """The most bytes since the mark, minus those in use then.

        None if the system does not report it, or where the process had used more before the mark, which hides what was used since.
        """
        peak = peak_bytes()
        if peak is None or self.peak is None or not (self.was_reset or peak > self.peak):
            return None
        return max(peak - self.in_use, 0)


def mark() -> Mark:
    """Marks this moment, and restarts the peak where the system can."""
    was_reset = _restart()
    peak = peak_bytes()
    # Linux counts the peak and the memory in use at different moments: after a restart the peak is what is in use.
    return Mark(peak if was_reset and peak is not None else int(psutil.Process().memory_info().rss), peak, was_reset)


def peak_bytes() -> int | None:
    """The most bytes of memory that this process has had since its start, or since the last mark under Linux; None if unknown."""
    memory = psutil.Process().memory_info()
    if (working_set := getattr(memory, "peak_wset", None)) is not None:  # Windows
        return int(working_set)
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return _most_by_usage()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def _restart() -> bool:
    try:
        _REFERENCES.write_text("5")
    except OSError:
        return False
    return True


def _most_by_usage() -> int | None:
    """The peak as POSIX reports it, in bytes under macOS and in kilobytes elsewhere."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)
