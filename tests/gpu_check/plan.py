"""`.ci/gpu plan`: what a call would run within some seconds, and what would be left, by a forecast of each thing's time."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.gpu_check.calls import RESERVED_S, SECONDS, part_seconds, shares
from tests.gpu_check.programs import python
from tests.gpu_check.selection import CORE, LONG_CASES, OTHERS, PROFILED, SOAK
from tests.support.cuda import stand_in
from tests.support.folders import ROOT

INFO_S = 6.0
"""Of the program that says what the machine is."""


@dataclass(frozen=True)
class Forecast:
    """The seconds of a part: of its start, and of each of its things. Those of tests are a processor's.

    Starts and tests were measured in dry runs without a GPU's work, the rest is arithmetic over the turns that a measurement takes.
    """

    start_s: float
    each_s: float
    things: str


FORECASTS: Mapping[str, Forecast] = {
    "core": Forecast(12, 0.4, "tests"),
    "bench": Forecast(15, 6, "cases"),
    "operators": Forecast(15, 1.5, "cases"),
    "steps": Forecast(5, 0.4, "rows"),
    "rest": Forecast(20, 0.4, "tests"),
    "failed": Forecast(12, 0.4, "tests"),
    "profile": Forecast(8, 8, "kernels"),
    "soak": Forecast(8, 10, "tests"),
}


def collected(*arguments: str) -> list[str]:
    """The names of tests in the order in which they would run."""
    command = python("-m", "pytest", "--collect-only", "-q", "-m", "gpu and not slow", "-p", "no:cacheprovider", *arguments)
    variables = os.environ | {stand_in.VARIABLE: "null", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return [line for line in done.stdout.splitlines() if "::" in line]


def things_of(part: str, call: str) -> list[str]:
    """The names of what a part runs, in its order."""
    from tests.gpu_check import bench, steps

    if part == "core":
        return collected("--deselect", SOAK, *CORE)
    if part == "rest":
        return collected("-p", "tests.gpu_check.plugin", "--gpu-worth", *OTHERS)
    if part == "bench":
        return [case.name for case in bench.layer_cases(LONG_CASES if call == "recheck" else ())]
    if part == "operators":
        return [case.name for case in bench.operator_cases()]
    if part == "steps":
        return steps.names()
    return {"failed": [], "profile": list(PROFILED), "soak": collected(SOAK)}[part]


def in_short(names: Sequence[str]) -> str:
    """Names, or for tests their files with how many."""
    if not any("::" in name for name in names):
        return ", ".join(names)
    return ", ".join(f"{file} {count}" for file, count in Counter(name.partition("::")[0] for name in names).items())


def main(of: str, seconds: float | None, workers: int, tell: Callable[[str], None]) -> int:
    """Tells it.

    Args:
        of: the call.
        seconds: that it may take; None for its own.
        workers: processes of tests.
        tell: takes a line for people.
    """
    seconds = SECONDS[of] if seconds is None else seconds
    left = seconds - RESERVED_S - INFO_S
    tell(f"{of}, {seconds:g} s: {INFO_S:g} to begin with, {RESERVED_S:g} in reserve at the end")
    over: dict[str, list[str]] = {}
    for part in shares(of):
        forecast, allowed = FORECASTS[part], max(part_seconds(of, part, left), 0.0)
        names = things_of(part, of)
        each = forecast.each_s / (workers if forecast.things == "tests" else 1)
        fit = min(len(names), max(0, int((allowed - forecast.start_s) / each)))
        took = forecast.start_s + fit * each if fit or not names else 0.0
        tell(f"  {part}: {fit} of {len(names)} {forecast.things} in {took:.0f} of {allowed:.0f} s")
        left -= took
        over |= {part: names[fit:]} if fit < len(names) else {}
    tell(f"{left:.0f} s are left over")
    for part, names in over.items():
        tell(f"left out of {part}: {in_short(names)}")
    return 0
