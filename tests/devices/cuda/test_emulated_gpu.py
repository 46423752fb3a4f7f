"""Dry runs of tests that need a GPU, and what becomes of the rest when one of them kills the CUDA context."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.conftest import keep_one_gpu_row
from tests.support.cuda import emulated_gpu
from tests.support.folders import ROOT
from tests.support.tools import require

PROGRAM = """
import json, os, sys, pytest
for name, *arguments in json.loads(sys.argv[1]):
    os.environ[{variable!r}] = name
    print("status", int(pytest.main(arguments)), flush=True)
"""


def dry_runs(*runs: tuple[str, list[str]]) -> list[tuple[int, str]]:
    """Exit status and output of pytest on emulated GPUs, one after the other in a process: each run makes a GPU of its own."""
    options = ["-p", "no:cacheprovider", "-rsxX", "--tb=short", "-o", "addopts="]
    asked = json.dumps([[name, *options, *arguments] for name, arguments in runs])
    command = [sys.executable, "-c", PROGRAM.format(variable=emulated_gpu.VARIABLE), asked]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    *found, rest = re.split(r"^status (\d+)\n", done.stdout, flags=re.MULTILINE)
    assert (done.returncode, rest, len(found)) == (0, "", 2 * len(runs)), done.stdout + done.stderr
    return [(int(status), printed) for printed, status in zip(found[::2], found[1::2], strict=True)]


def chosen(*tests: str) -> list[str]:
    return [f"tests/support/cuda/gpu_faults.py::test_{test}" for test in tests]


def outcomes(printed: str) -> dict[str, int]:
    """From pytest's last line."""
    counted = re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", printed.rstrip().splitlines()[-1])
    return {kind.removesuffix("s"): int(count) for count, kind in counted}


def test_where_no_gpu_answers_one_row_of_each_test_is_left_to_be_skipped(request: pytest.FixtureRequest) -> None:
    names = ("marked[a]", "marked[b]", "alone", "other[a]", "other[b]")
    found = [pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None) for name in names]
    for item in found[:3]:
        item.add_marker("gpu")
    counted: list[pytest.Item] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: counted.extend(items))
    items: list[pytest.Item] = list(found)
    keep_one_gpu_row(SimpleNamespace(hook=hook), items)
    assert ([item.name for item in items], [item.name for item in counted]) == (["marked[a]", *names[2:]], ["marked[b]"])


def test_an_unknown_emulated_device_is_refused() -> None:
    """pytest asks for it before all else, and in each report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(emulated_gpu.VARIABLE, "gpu")
        with pytest.raises(ValueError, match="DMLPY_TEST_GPU is 'gpu', expected one of cpu, null"):
            emulated_gpu.install()


CULPRIT = r"after this test the CUDA context answers nothing any more: CUDA_ERROR_LAUNCH_FAILED"
ALL = ("computes", "kills_the_context", "computes_after_it", "is_right_and_leaves_a_dead_context", "computes_at_the_end")


def test_dry_runs_end_as_a_run_on_a_gpu_would() -> None:
    """Over the CPU tests have to pass. Over nothing wrong results are expected, and nothing else is: neither another failure nor, of tests
    that look at no results, anything but to pass. After a trap the rest is reported as not run.
    """
    require("g++")
    some = [*chosen("computes", "is_wrong", "raises"), "tests/support/cuda/gpu_fault_rows.py"]
    others = [
        "tests/devices/test_owned_inputs.py::test_prepare_takes_them_over",
        "tests/devices/cuda/test_gpu.py::test_a_dispatch_can_be_captured_by_its_caller",
    ]
    cpu, null, trap = dry_runs(("cpu", some), ("null", [*some, *others, "-m", "gpu"]), ("null", chosen(*ALL)))

    status, printed = cpu
    assert (status, outcomes(printed)) == (1, {"passed": 1, "failed": 4}), printed

    status, printed = null
    assert (status, outcomes(printed)) == (1, {"passed": 3, "failed": 2, "xfailed": 3, "skipped": 3}), printed
    assert "ValueError: no result is needed to see this" in printed
    assert "nothing computes here" in printed
    assert "CuPy is not emulated" in printed

    status, printed = trap
    assert (status, outcomes(printed)) == (1, {"failed": 1, "error": 1, "skipped": 3, "xfailed": 1}), printed
    assert len(re.findall(CULPRIT, printed)) == 1
    assert "not run: the CUDA context died in tests/support/cuda/gpu_faults.py::test_kills_the_context" in printed
