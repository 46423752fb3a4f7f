"""`.ci/gpu plan`: what a call would run within some seconds, and what would be left, by a forecast of each thing's time."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from tests.gpu_check.calls import CARRIED, LONG_CASES, PROFILED, RESERVED_S, SECONDS, SOAK, named_in, part_seconds, shares
from tests.gpu_check.programs import python
from tests.support.cuda import emulated_gpu
from tests.support.folders import ROOT

INFO_S = 6.0
"""Of the program that describes the machine."""
FORECASTS: Mapping[str, tuple[float, float, str]] = {
    "core": (12, 0.4, "tests"),
    "bench": (15, 6, "cases"),
    "operators": (15, 1.5, "cases"),
    "steps": (5, 0.4, "rows"),
    "rest": (20, 0.4, "tests"),
    "failed": (12, 0.4, "tests"),
    "profile": (8, 8, "kernels"),
    "soak": (8, 10, "tests"),
}
"""The seconds of a part's start and of each of its things; those of tests are a processor's.

Starts and tests were measured in dry runs without a GPU's work, the rest is arithmetic over the turns that a measurement takes.
"""


def collected(*arguments: str) -> list[str]:
    """The names of tests in the order in which they would run."""
    command = python("-m", "pytest", "--collect-only", "-q", "-m", "gpu and not slow", "-p", "no:cacheprovider", *arguments)
    variables = os.environ | {emulated_gpu.VARIABLE: "null", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return [line for line in done.stdout.splitlines() if "::" in line]


def things_of(part: str, call: str) -> list[str]:
    """The names of what a part runs, in its order."""
    from tests.gpu_check import bench, steps

    of: Mapping[str, Callable[[], Iterable[str]]] = {
        "core": lambda: collected("--deselect", SOAK, named_in("core")),
        "rest": lambda: collected("-p", "tests.gpu_check.plugin", named_in("rest")),
        "bench": lambda: (case.name for case in bench.layer_cases(LONG_CASES if call == "recheck" else ())),
        "operators": lambda: (case.name for case in bench.operator_cases()),
        "steps": steps.names,
        "failed": tuple,
        "profile": lambda: PROFILED,
        "soak": lambda: collected(SOAK),
    }
    return list(of[part]())


def main(of: str, seconds: float | None, workers: int) -> int:
    """Adds a call and its seconds, None for its own, and so many processes of tests."""
    seconds = SECONDS[of] if seconds is None else seconds
    left = seconds - RESERVED_S - INFO_S
    print(f"{of}, {seconds:g} s: {INFO_S:g} to begin with, {RESERVED_S:g} in reserve at the end")
    over = []
    for part in shares(of):
        (start_s, each_s, things), allowed = FORECASTS[part], max(part_seconds(of, part, left), 0.0)
        names = things_of(part, of)
        versions = 2 if of == "recheck" and part in ("operators", "steps") and (CARRIED / "before").exists() else 1
        start_s, each = start_s * versions, each_s * versions / (workers if things == "tests" else 1)
        fit = min(len(names), max(0, int((allowed - start_s) / each)))
        took = start_s + fit * each if fit or not names else 0.0
        left -= took
        print(f"  {part}: {fit} of {len(names)} {things} in {took:.0f} of {allowed:.0f} s")
        if fit < len(names):
            counts = Counter(name.partition("::")[0] for name in names[fit:])  # of tests, in each file
            over.append(f"left out of {part}: {', '.join(f'{name} {n}' if '/' in name else name for name, n in counts.items())}")
    print(f"{left:.0f} s are left over", *over, sep="\n")
    return 0
