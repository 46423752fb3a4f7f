"""What every test module can ask for: the devices, and how tests that need a GPU run without one, on an emulated one, and after a crash."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing

import dmlpy as dml
from dmlpy.onnx.nodes.error_policy import ErrorPolicy
from tests.support import pairwise, selection
from tests.support.cuda import emulated_gpu
from tests.support.row_ids import row_id
from tests.support.tables import Choice
from tests.support.tools import require

KERNELS = "DMLPY_TEST_KERNELS"
"""Names the folder of the kernels that the product compiles in tests, where they shall outlive the run and be shared by its processes."""

CONTEXT_DIED = pytest.StashKey[str]()
"""Of the session: after which test the CUDA context answered nothing any more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        metavar="NAMES",
        help=f"take tests of these devices and of none in particular; separated by commas: {', '.join(selection.DEVICES)}",
    )
    parser.addoption("--row", metavar="TEXT", default="", help="of tests of many rows in one item, take those whose labels contain this")


def pytest_configure(config: pytest.Config) -> None:
    if given := config.getoption("--device"):
        selection.device_names(given)  # a wrong name is reported at once
    Choice.only_first, Choice.containing = config.option.markexpr == "quick", config.getoption("--row")
    emulated_gpu.install()
    ErrorPolicy.propagate_unexpected = True  # a mistake in dmlpy shall not read as a fault of a model
    os.environ.setdefault("DMLPY_TIMEOUT_S", "60")  # on a busy machine blocks that the CPU runs come late
    if workers := getattr(config.option, "numprocesses", None):  # pytest-xdist's; it starts them later, with this environment
        # BLAS's threads spin while they wait: as many in each worker as there are processors took a third of all time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names rows by what they hold, not by numbers."""
    return row_id(val)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and items live until the end: looking through them for garbage would take a third of the collection's time.

    Tests make many objects and few cycles: at Python's threshold of 700 the search for these took a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that have no quick test are not read for `-m quick`: reading takes longer than the quick tests do."""
    return True if config.option.markexpr == "quick" and not selection.may_be_quick(collection_path) else None


@pytest.hookimpl(tryfirst=True)  # before the items are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    pairwise.mark_slow(items)
    if given := config.getoption("--device"):
        items[:], left = selection.of_devices(items, selection.device_names(given))
        config.hook.pytest_deselected(items=left)
    if not gpu_answers():
        keep_one_gpu_row(config, items)
    if "quick" in config.option.markexpr:
        selection.mark_quick(items)


def keep_one_gpu_row(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects one row of each test that needs a GPU, to be skipped: to skip thousands of rows one by one takes some ten seconds."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    known: set[str] = set()
    for item in items:
        if item.get_closest_marker("gpu") is None:
            kept.append(item)
            continue
        test = item.nodeid.partition("[")[0]
        (left if test in known else kept).append(item)
        known.add(test)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_report_header() -> str:
    return "GPU: " + ("answers" if gpu_answers() else "none answers; tests marked gpu are skipped, one row of each")


@cache
def gpu_answers() -> bool:
    """Whether tests marked `gpu` can run: on a GPU or on an emulated one."""
    try:
        dml.device("cuda")
    except dml.DeviceError:
        return False
    return True


@pytest.fixture
def untrusted_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of ONNX models as users see them: for models that are damaged, or made to be wrong."""
    monkeypatch.setattr(ErrorPolicy, "propagate_unexpected", False)


@pytest.fixture
def removed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is one that has been removed since the process entered it."""
    if os.name == "nt":
        pytest.skip("Windows does not remove the current folder of a process")
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


@pytest.fixture(scope="session", autouse=True)
def _own_kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels that the product compiles in tests do not go to the user's cache; those for CPUs are compiled without optimisations.

    LLVM's optimizations take most of the time. Tests of optimized kernels delete DMLPY_CPU_OPTIMIZATION. Workers of one run share what they
    compile.
    """
    base = tmp_path_factory.getbasetemp()
    own = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    own.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLPY_CPU_OPTIMIZATION", "0")
        patch.setenv("DMLPY_CACHE_DIR", os.environ.get(KERNELS) or str(own))
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Typer's runner makes the commands anew of all functions' parameters for each that it runs: 20 ms, hundreds of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command), raising=False)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    if not gpu_answers():
        pytest.skip("no GPU answers here")
    if CONTEXT_DIED in item.session.stash:
        pytest.skip(f"not run: the CUDA context died in {item.session.stash[CONTEXT_DIED]}")
    if item.get_closest_marker("cupy") and emulated_gpu.chosen():
        pytest.skip("CuPy is not emulated")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing computes, wrong results are expected failures."""
    report = yield
    is_null = emulated_gpu.chosen() == "null" and report.when == "call" and item.get_closest_marker("gpu") is not None
    if is_null and call.excinfo is not None and _is_of_wrong_results(call.excinfo.value):
        report.outcome, report.wasxfail = "skipped", "nothing computes here"
    return report


def _is_of_wrong_results(error: BaseException) -> bool:
    """Whether an error, or each row's of a `table`, may be but that: indices made of results lead past an end, too."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_wrong_results, error.exceptions))
    return isinstance(error, (AssertionError, IndexError))


def _context_problem() -> str | None:
    """The error of the GPU's context after a kernel has killed it."""
    try:
        dml.device("cuda").synchronize(0)
    except dml.DeviceError as error:
        return str(error)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """A kernel that traps takes the process's CUDA context with it: the test that did so fails, and those after it are not run."""
    try:
        yield
    finally:
        if item.get_closest_marker("gpu") and gpu_answers() and CONTEXT_DIED not in item.session.stash:
            problem = _context_problem()
            if problem is not None:
                item.session.stash[CONTEXT_DIED] = item.nodeid
                pytest.fail(f"after this test the CUDA context answers nothing any more: {problem}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A worker of pytest-xdist whose CUDA context died ends after it has reported the test; another process takes the rest."""
    result = yield
    if CONTEXT_DIED in item.session.stash and hasattr(item.config, "workerinput"):
        os._exit(1)
    return result


def cuda_on_cpu(*, strategy: str | None = None, **options: Any) -> dml.Device:
    """The CUDA device over kernels that run on the CPU: the whole of dmlpy's CUDA side, without a GPU. `strategy` is the device's."""
    require("g++")
    from dmlpy.devices.cuda.device import CudaDevice
    from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime

    return CudaDevice(EmulatedRuntime(**options), strategy=strategy)


CUDA_DEVICES = ["cuda-emulated", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=["numpy", *CUDA_DEVICES])
def any_device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """Each device in turn. After a test on the emulated CUDA device, the guard words around every allocation are checked."""
    yield from _device(request.param)


@pytest.fixture(params=["numpy", "cpu", *CUDA_DEVICES])
def every_device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """As `any_device`, and the device that compiles: for families of operators that it has kernels for."""
    yield from _device(request.param)


@pytest.fixture(params=CUDA_DEVICES)
def cuda_device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """The devices with separate memory, as `any_device`."""
    yield from _device(request.param)


def _device(name: str) -> Iterator[dml.Device]:
    if name != "cuda-emulated":
        yield dml.device(name)
        return
    device = cuda_on_cpu()
    yield device
    device.runtime.check_guards()  # type: ignore[attr-defined]
