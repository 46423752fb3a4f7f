"""`DMLPY_DEBUG` and the loggers behind it, and the page that lists every variable of the environment."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import debugging, onnx
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.device import DEVICE_KINDS
from dmlpy.devices.plan import log_launch
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200
from tests.support.folders import ROOT
from tests.support.onnx.models import model
from tests.support.tools import require

X = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 4])
DESC = dml.ElementWiseExpDesc(input_tensor=X, output_tensor=X)
ZEROS = np.zeros((1, 1, 1, 4), np.float32)

SCRIPT = """
import dmlpy as dml
import numpy as np

x = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 4])
dml.compile(dml.ElementWiseExpDesc(input_tensor=x, output_tensor=x), "numpy")(input_tensor=np.zeros((1, 1, 1, 4), np.float32))
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("plans", {"dmlpy.plans"}, marks=pytest.mark.slow),
        ("launches", {"dmlpy.launches"}),
        ("Plans, launches", {"dmlpy.plans", "dmlpy.launches"}),
        pytest.param("all", {"dmlpy.plans", "dmlpy.launches"}, marks=pytest.mark.slow),
        pytest.param("cache", set(), marks=pytest.mark.slow),
        ("", set()),
    ],
)
def test_the_variable_chooses_what_is_logged(value: str, expected: set[str]) -> None:
    environment = os.environ | {"DMLPY_DEBUG": value}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^(dmlpy\.\w+): DML_ELEMENT_WISE_EXP_OPERATOR_DESC on numpy$", ran.stderr, re.MULTILINE)) == expected
    assert ran.stdout == ""


def test_a_topic_that_does_not_exist_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLPY_DEBUG", "plan")
    with pytest.warns(
        RuntimeWarning,
        match="lists 'plan', expected all or some of devices, fallbacks, plans, launches, cache, sources; did you mean 'plans'",
    ):
        debugging.follow_environment()
    assert not debugging.PLANS.handlers


def test_programs_choose_loggers_themselves(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dmlpy.launches"):
        bound = dml.compile(DESC, "numpy").bind([ZEROS], [result := ZEROS.copy()])
        assert not caplog.messages  # nothing ran
        bound()
    assert caplog.messages == ["DML_ELEMENT_WISE_EXP_OPERATOR_DESC on numpy"]
    np.testing.assert_array_equal(result, 1)


def test_nodes_of_a_graph_are_logged_in_order(caplog: pytest.LogCaptureFixture) -> None:
    g = dml.GraphBuilder()
    powers = g.add(dml.ElementWiseExpDesc, "exp", input_tensor=g.input("x", X))
    g.output("y", g.add(dml.ElementWiseLogDesc, "log", input_tensor=powers))
    with caplog.at_level(logging.DEBUG, "dmlpy.launches"):
        dml.compile(g.build(), "numpy", fuse=False)(x=ZEROS)
    nodes = [re.sub(r"node \d ", "", message) for message in caplog.messages]
    assert [message for message in nodes if "'" in message] == ["'exp' (ELEMENT_WISE_EXP) on numpy", "'log' (ELEMENT_WISE_LOG) on numpy"]


def test_nobody_pays_for_what_is_not_logged() -> None:
    def launch(stream: int) -> None: ...

    assert log_launch(launch, lambda: pytest.fail("the line is made")) is launch


def test_kernels_and_sources_of_cuda(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path))
    device = CudaDevice(EmulatedRuntime())
    for topic in debugging.TOPICS:
        caplog.set_level(logging.DEBUG, f"dmlpy.{topic}")
    first = dml.compile(DESC, device)(input_tensor=device.from_host(ZEROS))
    np.testing.assert_array_equal(device.to_host(first.output_tensor), 1)
    found = {name.removeprefix("dmlpy."): text for name, _, text in caplog.record_tuples}
    assert set(found) == set(debugging.TOPICS) - {"devices", "fallbacks"}  # the device was not looked up
    assert re.search(r"grid \d+x1x1, \d+ threads, 0 bytes of dynamic shared memory", "\n".join(caplog.messages))
    assert re.search(r"of elementwise/\w+\.cu: compiled in \d+\.\d\d s", found["cache"])
    assert {level for name, level, text in caplog.record_tuples if "compiled in" in text} == {logging.INFO}
    (kept,) = (tmp_path / "sources" / "elementwise").iterdir()
    assert kept.read_text("utf-8") == sources.read(f"elementwise/{kept.name}")
    caplog.clear()
    dml.compile(DESC, CudaDevice(EmulatedRuntime()))
    levels = {level for _, level, text in caplog.record_tuples if text.endswith(": loaded from disk")}
    assert levels == {logging.DEBUG}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What a process logs at level INFO that has logged nothing yet."""
    monkeypatch.setattr(debugging, "_said", set())
    caplog.set_level(logging.INFO, "dmlpy")
    return caplog


def test_the_choice_of_a_device_is_logged_once(logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: "no driver")
    for _ in range(2):
        dml.device()
        dml.device("numpy")
    assert logged.record_tuples == [
        ("dmlpy.devices", logging.INFO, "no device is named: cpu, as there is no GPU: no driver"),
        ("dmlpy.devices", logging.INFO, "'cpu' is CPU"),
        ("dmlpy.devices", logging.INFO, "'numpy' is NumPy on the CPU"),
    ]


def test_a_gpu_that_is_chosen_is_logged(logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = CudaDevice(DryRunRuntime(H200))
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: gpu)
    assert dml.device() is gpu
    assert logged.messages == ["no device is named: cuda:0, a GPU that works"]


def test_nodes_on_the_host_are_logged(logged: pytest.LogCaptureFixture) -> None:
    built = model([make_node("Unique", ["x"], ["u"], name="unique"), make_node("Neg", ["x"], ["y"])], {"x": [2, 3]}, ["y", "u"])
    for _ in range(2):
        onnx.load(built).compile("numpy")
    (line,) = [text for name, _, text in logged.record_tuples if name == "dmlpy.fallbacks"]
    assert line.startswith("small: node 'unique' (Unique) runs on the host: Unique of opset 21")


def test_operators_that_numpy_runs_are_logged(logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlpy.devices.cpu.device.compiled_plan", lambda desc: "llvmlite is not installed")
    assert CpuDevice().plan(DESC) is not None
    assert logged.messages == ["DML_ELEMENT_WISE_EXP_OPERATOR_DESC on cpu: NumPy runs it: llvmlite is not installed"]


def test_the_lines_that_were_logged_stay_few(logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debugging, "_MOST_SAID", 2)
    for line in ("a", "b", "c", "a"):
        debugging.log_once(debugging.DEVICES, lambda line=line: line)  # type: ignore[misc]  # mypy knows no such default
    assert logged.messages == ["a", "b", "c", "a"]


def test_the_page_lists_every_variable() -> None:
    page = (ROOT / "dmlpy/docs/guides/debugging.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(DMLPY_\w+)` \|", page, re.MULTILINE))
    read = set()
    for path in [*(ROOT / "dmlpy").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / ".ci" / "run"]:
        names = re.findall(r"\bDMLPY_[A-Z_]+\b", path.read_text("utf-8"))
        read |= {name for name in names if not name.startswith("DMLPY_OPERATOR_") and not name.endswith("_OPERATOR_DESC")}
    internal = {"DMLPY_TEST_DIRECTML_BEHAVIOUR", "DMLPY_TEST_GPU_KERNELS", "DMLPY_TEST_HANGS"}
    """Between a process of the tests and its children."""
    assert listed == read - internal
