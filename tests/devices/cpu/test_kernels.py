"""Kernels for the processor: stored on disk for later processes, recompiled wherever the stored code cannot be used."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy.devices.cpu import jit, llvm
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.persistence.image_store import ImageStore
from tests.support.cpu.small_kernels import STORE, SUM

ROOT = Path(__file__).parents[3]

LOADS_ELF = sys.platform == "linux" and platform.machine() == "x86_64"
"""Whether code is loaded without LLVM."""


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """An empty store, nothing in memory, and what is compiled from then on."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(jit, "_functions", {})
    found: list[tuple[Any, ...]] = []
    compiled = Kernel._compiled

    def counted(self: Kernel, choices: tuple[Any, ...]) -> tuple[bytes, str]:
        found.append(choices)
        return compiled(self, choices)

    monkeypatch.setattr(Kernel, "_compiled", counted)
    return found


def stored(kernel: Kernel, plus: int, number: int) -> int:
    """What a kernel that was made with `plus` stores for a number."""
    place = np.zeros(1, np.int64)
    kernel(plus)(place.ctypes.data, number)
    return int(place[0])


def images(folder: Path) -> list[Path]:
    return sorted((folder / "kernels").iterdir())


def test_a_kernel_is_compiled_once_and_then_read(compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert stored(STORE, 3, 4) == 7
    assert stored(STORE, -3, 4) == 1
    assert compilations == [(3,), (-3,)]
    monkeypatch.setattr(jit, "_functions", {})
    assert (stored(STORE, 3, 4), stored(STORE, -3, 2**40)) == (7, 2**40 - 3)
    assert compilations == [(3,), (-3,)]
    assert len(images(tmp_path)) == 2


IS_ROOT = hasattr(os, "getuid") and os.getuid() == 0


def _is_a_file(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("")


def _is_unsafe(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _is_read_only(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o500)


@pytest.mark.parametrize("prepare", [_is_a_file, _is_unsafe, _is_read_only])
def test_without_a_store_it_is_compiled(
    prepare: Callable[[Path], None], compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "kernels")
    for count in (1, 2):
        monkeypatch.setattr(jit, "_functions", {})
        assert stored(STORE, 3, 4) == 7
        assert len(compilations) == (1 if prepare is _is_read_only and IS_ROOT else count)  # root may write anywhere


def _changed(key: str, data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


def _another_symbol(key: str, data: bytes, symbol: bytes = b"nothing") -> bytes:
    content = symbol + data[32:][data[32:].index(b"\0") :]
    return hashlib.sha256(key.encode() + b"\0" + content).digest() + content


def _no_text(key: str, data: bytes) -> bytes:
    return _another_symbol(key, data, b"\xff")


def _cut(key: str, data: bytes) -> bytes:
    return data[:-100]


def _nothing(key: str, data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [_cut, _changed, _another_symbol, _no_text, _nothing])
def test_damaged_files_are_mended(
    damage: Callable[[str, bytes], bytes], compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(STORE, 3, 4)
    (file,) = images(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage(file.name, whole))
    for _ in range(2):
        monkeypatch.setattr(jit, "_functions", {})
        assert stored(STORE, 3, 4) == 7
    assert len(compilations) == 2
    assert images(tmp_path) == [file]


def test_files_that_change_places_are_not_taken_for_each_other(
    compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (stored(STORE, 3, 4), stored(STORE, 5, 4)) == (7, 9)
    one, other = images(tmp_path)
    data = one.read_bytes(), other.read_bytes()
    for file, of_other in zip((one, other), data[::-1], strict=True):
        file.write_bytes(of_other)
    monkeypatch.setattr(jit, "_functions", {})
    assert (stored(STORE, 3, 4), stored(STORE, 5, 4)) == (7, 9)
    assert len(compilations) == 4


def test_what_changes_the_code_changes_the_name(compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(STORE, 3, 4)
    circumstances = jit._circumstances()
    for place in range(len(circumstances)):
        others = (*circumstances[:place], "another", *circumstances[place + 1 :])
        monkeypatch.setattr(jit, "_circumstances", lambda others=others: others)
        monkeypatch.setattr(jit, "_functions", {})
        assert stored(STORE, 3, 4) == 7
    monkeypatch.setenv(jit.OPTIMIZATION, "1")
    monkeypatch.setattr(jit, "_functions", {})
    assert stored(STORE, 3, 4) == 7
    assert len(compilations) == len(images(tmp_path)) == len(circumstances) + 2


def test_the_environment_sets_the_level_of_optimization(compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = []
    for level in "03":
        monkeypatch.setenv(jit.OPTIMIZATION, level)
        monkeypatch.setattr(jit, "_functions", {})
        SUM()
        (file,) = images(tmp_path)
        codes.append(code_of(file.read_bytes()))
        file.unlink()
    assert codes[0] != codes[1]


def test_another_level_of_optimization_is_refused(compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit.OPTIMIZATION, "fast")
    with pytest.raises(dml.DeviceError, match="DMLPY_CPU_OPTIMIZATION is 'fast', expected a level of optimization from 0 to 3"):
        STORE(3)


def code_of(data: bytes) -> bytes:
    """The instructions of a file of the store."""
    from llvmlite import binding

    _, _, image = data[32:].partition(b"\0")
    sections = binding.ObjectFileRef.from_data(image).sections()
    return b"".join(section.data() for section in sections if section.is_text())


def test_llvmlite_that_cannot_be_imported_is_reported(compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"{name} needs another system")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(dml.DeviceError, match=r"cannot be imported: ImportError: llvmlite.binding needs another system"):
        llvm.imported("llvmlite.binding")


INTERRUPTED = """
import signal
import numpy as np
from tests.support.cpu.small_kernels import STORE
signal.signal(signal.SIGALRM, signal.default_int_handler)
place, delay, interrupts = np.zeros(1, np.int64), 0.001, 0
while True:
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        STORE(3)(place.ctypes.data, 4)
        signal.setitimer(signal.ITIMER_REAL, 0)
        break
    except KeyboardInterrupt:
        delay, interrupts = delay * 1.4, interrupts + 1
print(int(place[0]), interrupts)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_interrupts_leave_a_device_that_works(tmp_path: Path) -> None:
    """Wherever they come in the first compilation; those in an import of llvmlite would leave half of it."""
    environment = os.environ | {"DMLPY_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, cwd=ROOT, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    value, interrupts = map(int, done.stdout.split())
    assert (value, interrupts > 2) == (7, True)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("collects", [False, True])
def test_garbage_is_collected_after_a_compilation_as_before(collects: bool, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """During it, not at all."""
    seen: list[bool] = []

    def compiled(self: Kernel, choices: tuple[Any, ...]) -> tuple[bytes, str]:
        seen.append(gc.isenabled())
        if fails:
            raise MemoryError
        return b"", ""

    monkeypatch.setattr(jit, "_functions", {})
    monkeypatch.setattr(ImageStore, "open", lambda: None)
    monkeypatch.setattr(jit, "_loaded", lambda image, symbol: 1)
    monkeypatch.setattr(Kernel, "_compiled", compiled)
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(MemoryError) if fails else nullcontext():
            STORE(3)
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        gc.enable()


def test_the_sources_are_all_files_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "kernels.py"))
    found = set()
    for name in ("kernels.py", "below/other.py", "below/notes.txt"):
        (tmp_path / name).write_text(name)
        found.add(jit._circumstances.__wrapped__()[0])
    assert len(found) == 2


def test_threads_that_ask_at_once_compile_once(compilations: list[Any]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: stored(STORE, 3, number), range(4))) == [3, 4, 5, 6]
    assert len(compilations) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_waits_for_a_compilation_and_its_child_compiles(compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    compiled = Kernel._compiled

    def slow(self: Kernel, choices: tuple[Any, ...]) -> tuple[bytes, str]:
        begun.set()
        time.sleep(0.2)
        return compiled(self, choices)

    monkeypatch.setattr(Kernel, "_compiled", slow)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(stored, STORE, 3, 4)
        begun.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if (stored(STORE, 3, 4), stored(STORE, 5, 4)) == (7, 9) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert work.result() == 7


ANOTHER_PROCESS = """
import json, sys
import numpy as np
from tests.support.cpu.small_kernels import STORE
place = np.zeros(1, np.int64)
STORE(3)(place.ctypes.data, 4)
print(json.dumps([int(place[0]), "dmlpy.devices.cpu.compiler.translation" in sys.modules, "llvmlite.binding" in sys.modules]))
"""


def test_processes_may_compile_at_once_and_a_later_one_needs_no_compiler(tmp_path: Path) -> None:
    environment = os.environ | {"DMLPY_CACHE_DIR": str(tmp_path / "kernels")}
    started = [
        subprocess.Popen([sys.executable, "-c", ANOTHER_PROCESS], stdout=subprocess.PIPE, cwd=ROOT, env=environment) for _ in range(2)
    ]
    found = [json.loads(process.communicate()[0]) for process in started]
    assert [value for value, *_ in found] == [7, 7]
    assert any(compiles for _, compiles, _ in found)
    assert len(images(tmp_path)) == 1
    later = subprocess.run([sys.executable, "-c", ANOTHER_PROCESS], capture_output=True, text=True, cwd=ROOT, check=True, env=environment)
    assert (json.loads(later.stdout), later.stderr) == ([7, False, not LOADS_ELF], "")


def test_a_kernel_that_calls_a_missing_function_is_refused(compilations: list[Any], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a kernel calls dmlpy_has_no_such_function, which this process does not have"):
        Kernel("tests.support.cpu.small_kernels:calls_nothing", 1)()
    assert images(tmp_path) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "seconds", "told"), [(Terminal(), 0.3, True), (Terminal(), 0.0, False), (io.StringIO(), 0.3, False), (None, 0.0, False)]
)
def test_a_long_compilation_is_announced_on_a_terminal(
    stream: io.StringIO | None, seconds: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(jit, "_WORD_AFTER_S", 0.05)
    monkeypatch.setattr(jit, "loaded_functions", [])
    with jit._announced(jit._subject("dmlpy.devices.cpu.recurrent.kernels:build_step")):
        time.sleep(seconds)
    text = "" if stream is None else stream.getvalue()
    assert ("Compiling kernels for recurrent layers, on first use only" in text) == told


def test_short_compilations_that_are_long_together_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(
        jit, "loaded_functions", [jit.LoadedFunction("step", 0.6, compiled=True), jit.LoadedFunction("rows", 9, compiled=False)] * 2
    )
    with jit._announced("pooling"):
        time.sleep(0.3)
    assert "Compiling kernels for pooling" in stream.getvalue()
    assert "(2 done)" in stream.getvalue()


def test_what_is_compiled_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(jit, "_named", set())
    with caplog.at_level("INFO", "dmlpy.cache"):
        for folder in ("recurrent", "recurrent", "matrix"):
            with jit._announced(jit._subject(f"dmlpy.devices.cpu.{folder}.kernels:build")):
                pass
    told = [record.getMessage().partition(",")[0] for record in caplog.records]
    assert told == ["Compiling kernels for recurrent layers", "Compiling kernels for matrix products"]
