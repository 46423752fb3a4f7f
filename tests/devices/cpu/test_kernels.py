"""Kernels for the processor: kept on disk for later processes, compiled anew wherever what is kept cannot be used."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
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

pytest.importorskip("numba", reason="Numba is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import kernels
from dmlpy.devices.cpu.kernels import Kernel
from dmlpy.devices.image_store import ImageStore
from tests.support.small_kernels import STORE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """An empty store, nothing in memory, and what is compiled from then on."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(kernels, "_functions", {})
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
    monkeypatch.setattr(kernels, "_functions", {})
    assert (stored(STORE, 3, 4), stored(STORE, -3, 2**40)) == (7, 2**40 - 3)
    assert compilations == [(3,), (-3,)]
    assert len(images(tmp_path)) == 2


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
        monkeypatch.setattr(kernels, "_functions", {})
        assert stored(STORE, 3, 4) == 7
        assert len(compilations) == (1 if prepare is _is_read_only and os.getuid() == 0 else count)  # root may write anywhere


def _cut(data: bytes) -> bytes:
    return data[:-100]


def _changed(data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


def _with_hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def _another_symbol(data: bytes) -> bytes:
    return _with_hash(b"nothing\0" + data[32:].partition(b"\0")[2])


@pytest.mark.parametrize("damage", [_cut, _changed, _another_symbol, lambda data: b""])
def test_damaged_files_are_mended(
    damage: Callable[[bytes], bytes], compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(STORE, 3, 4)
    (file,) = images(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    for _ in range(2):
        monkeypatch.setattr(kernels, "_functions", {})
        assert stored(STORE, 3, 4) == 7
    assert len(compilations) == 2
    assert images(tmp_path) == [file]


def test_what_changes_the_code_changes_the_name(compilations: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(STORE, 3, 4)
    circumstances = kernels._circumstances()
    for place in range(len(circumstances)):
        others = (*circumstances[:place], "another", *circumstances[place + 1 :])
        monkeypatch.setattr(kernels, "_circumstances", lambda others=others: others)
        monkeypatch.setattr(kernels, "_functions", {})
        assert stored(STORE, 3, 4) == 7
    monkeypatch.setenv("NUMBA_OPT", "1")
    monkeypatch.setattr(kernels, "_functions", {})
    assert stored(STORE, 3, 4) == 7
    assert len(compilations) == len(images(tmp_path)) == len(circumstances) + 2


def test_settings_of_threads_change_no_code(compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stored(STORE, 3, 4)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    monkeypatch.setattr(kernels, "_functions", {})
    stored(STORE, 3, 4)
    assert len(compilations) == 1


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

    monkeypatch.setattr(kernels, "_functions", {})
    monkeypatch.setattr(ImageStore, "open", lambda: None)
    monkeypatch.setattr(kernels, "_loaded", lambda image, symbol: 1)
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
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
    found = set()
    for name in ("kernels.py", "below/walk.py", "below/walk.txt"):
        (tmp_path / name).write_text(name)
        found.add(kernels._circumstances.__wrapped__()[0])
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
from tests.support.small_kernels import STORE
place = np.zeros(1, np.int64)
STORE(3)(place.ctypes.data, 4)
print(json.dumps([int(place[0]), "numba" in sys.modules]))
"""


def test_another_process_needs_no_numba(tmp_path: Path) -> None:
    environment = os.environ | {"DMLPY_CACHE_DIR": str(tmp_path / "kernels")}
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", ANOTHER_PROCESS], capture_output=True, text=True, cwd=ROOT, check=True, env=environment
        )
        found.append(json.loads(done.stdout))
        assert done.stderr == ""
    assert found == [[7, True], [7, False]]


def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    environment = os.environ | {"DMLPY_CACHE_DIR": str(tmp_path / "kernels")}
    started = [
        subprocess.Popen([sys.executable, "-c", ANOTHER_PROCESS], stdout=subprocess.PIPE, cwd=ROOT, env=environment) for _ in range(2)
    ]
    assert [json.loads(process.communicate()[0])[0] for process in started] == [7, 7]
    assert len(images(tmp_path)) == 1


def test_a_kernel_that_needs_numba_when_it_runs_is_refused(compilations: list[Any], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"a kernel calls .*NRT_.*, which only Numba has"):
        Kernel("tests.support.small_kernels:allocating", 1)()
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
    monkeypatch.setattr(kernels, "_WORD_AFTER_S", 0.05)
    with kernels._announced("walk LSTM"):
        time.sleep(seconds)
    text = "" if stream is None else stream.getvalue()
    assert ("dmlpy compiles walk LSTM for this processor" in text) == told
