"""Which of the collected tests a run takes: the devices that `--device` names, and the quick ones that `-m quick` asks for.

Both are rules, so that a new test has its place without a mark of its own. `tests/conftest.py` applies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.support.folders import TESTS

DEVICES = ("numpy", "cpu", "cuda-emulated", "cuda")
"""What `--device` takes: dmlpy's devices, and the CUDA device over kernels that g++ compiles for the CPU."""

DEVICES_OF_FOLDER = {"numpy": {"numpy"}, "cpu": {"cpu"}, "cuda": {"cuda-emulated", "cuda"}}
"""The devices that the tests in a folder of tests/devices are about, unless a test's parameters name one."""

PARAMETERS = ("any_device", "every_device", "cuda_device", "device")
"""The names of parameters that may hold a device's name."""

NOT_QUICK = (
    *(
        "bench",
        "benchmarks",
        "cli",
        "dask",
        "devices/cpu",
        "devices/cuda",
        "devices/numpy",
        "docs",
        "fuzzing",
        "gpu_check",
        "keras",
        "nn",
        "thinc",
        "torch",
    ),
    *("description/test_registry.py", "devices/test_cudnn_differences.py", "devices/test_gradient_differences.py"),
    *("devices/test_pickling.py", "devices/test_speed.py", "devices/test_threads.py"),
    *("dxdispatch/test_fuzz_models.py", "graphs/test_elementwise_fusion.py", "graphs/test_fuzz.py", "graphs/test_planned_memory.py"),
    *("onnx/test_deferred.py", "onnx/test_growth.py", "onnx/test_node_cases.py", "onnx/test_open_sizes.py"),
    *("conformance/test_command.py", "devices/test_entered_files.py", "graphs/test_views_and_fusion.py", "inspection/test_catalog.py"),
    *("inspection/test_schemas.py", "onnx/test_onnx_commands.py", "onnx/test_stored_nodes.py", "pydirectml/test_scripts.py"),
    *("validation/test_bounded_messages.py", "validation/test_check_properties.py", "x/test_functions.py", "test_typing.py"),
    *("examples/test_examples.py", "examples/test_tour.py", "project/test_layers.py", "project/test_pages.py"),
    *("project/test_pairwise.py", "project/test_stubs.py", "project/test_without_posix.py"),
)
"""Folders and files below tests/ whose tests start processes, compile kernels, train, or look at everything: they are not quick."""


def device_names(text: str) -> frozenset[str]:
    """The devices that the option `--device` lists, separated by commas.

    Raises:
        pytest.UsageError: one is unknown.
    """
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in DEVICES]:
        raise pytest.UsageError(f"--device {text}: {', '.join(map(repr, unknown))} is none of {', '.join(DEVICES)}")
    return frozenset(names)


def devices_of(item: pytest.Item) -> Collection[str] | None:
    """The devices that a test is about; None where it is about none in particular."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    named = {parameters[name] for name in PARAMETERS if isinstance(parameters.get(name), str)} & {*DEVICES}
    if named:
        return named
    place = path_below_tests(item.path).parts
    return DEVICES_OF_FOLDER.get(place[1]) if place[0] == "devices" and len(place) > 2 else None


def of_devices(items: Iterable[pytest.Item], names: Collection[str]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of these devices or of none in particular, and the others."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        devices = devices_of(item)
        (kept if devices is None or not {*names}.isdisjoint(devices) else left).append(item)
    return kept, left


def path_below_tests(path: Path) -> Path:
    """A test file's path below tests/; a file elsewhere is taken as one right in it."""
    return path.relative_to(TESTS) if path.is_relative_to(TESTS) else Path(path.name)


@cache
def may_be_quick(path: Path) -> bool:
    """Whether a file or folder of tests can hold quick ones."""
    place = path_below_tests(path)
    return not any(place.is_relative_to(left) for left in NOT_QUICK)


def mark_quick(items: Iterable[pytest.Item]) -> None:
    """Marks the first row of each test that is neither slow nor in need of a GPU, where tests take little time.

    A table's first row shows most of what breaks; a fault in another row is found by the usual run.
    """
    known: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in known or item.get_closest_marker("slow") or item.get_closest_marker("gpu") or not may_be_quick(item.path):
            continue
        known.add(test)
        item.add_marker(pytest.mark.quick)
