"""Checking and dispatching are quick, and importing dmlpy adds little: the best of several runs, since other work on the
machine only slows them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs
from tests.support.operators.dispatch_cases import CASES

IMPORT = "import time, numpy, pydantic; start = time.process_time(); import dmlpy; print(time.process_time() - start)"


def best(work: Callable[[], Any], runs: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def test_the_slowest_desc_is_checked_in_three_milliseconds() -> None:
    found = {}
    for operator in facts.operators():
        for valid in relation_descs.valid_descs(operator):
            desc = OperatorDesc.from_dict(relation_descs.data(operator, valid.members))
            found[f"{operator}, {valid.about}"] = best(lambda desc=desc: dml.check(desc), 3)  # type: ignore[misc]
    slowest = max(found, key=lambda name: found[name])
    assert found[slowest] <= 3e-3, f"{slowest}: {1e3 * found[slowest]:.2f} ms"


@pytest.mark.parametrize("name", CASES)
def test_a_dispatch_takes_ten_microseconds_of_python(name: str) -> None:
    """Over a machine that does nothing."""
    for data_type in ("FLOAT32", "FLOAT16"):
        dispatch = CASES[name].bound(DryRunRuntime(), data_type)
        dispatch(1)

        def ten_times(dispatch: dml.Dispatch = dispatch) -> None:
            for _ in range(10):
                dispatch(1)

        seconds = best(ten_times, 20) / 10
        assert seconds <= 10e-6, f"{data_type}: {1e6 * seconds:.2f} us"


def test_importing_adds_a_fifth_of_a_second_at_most(tmp_path: Path) -> None:
    # With compiled modules, as after any first run; the first run here compiles them.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    runs = [subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, env=environment) for _ in range(4)]
    assert min(float(run.stdout) for run in runs[1:]) <= 0.2
