"""How CUDA sources become kernels: expansion, compiling once, and the images stored on disk."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from dmlpy.devices.cuda import kernels, sources
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.common import pack_bias_kernel, scale_kernel
from dmlpy.devices.cuda.recurrent.cudnn import WRITE_HEADER_KERNEL
from dmlpy.devices.cuda.recurrent.layer import persistent_block_kernel
from dmlpy.devices.persistence import image_store
from dmlpy.devices.persistence.image_store import ImageStore, cache_directory
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.programs import COPY, FLOAT, CountingRuntime
from tests.support.folders import ROOT
from tests.support.tables import table
from tests.support.tools import require

FILES = sorted(path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu"))
GRU = ("Gru<false>", *["Activations<Sigmoid, Tanh>"] * 2)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for compiled kernels."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


# sources


@table("file", FILES)
def test_a_source_is_self_contained(file: str) -> None:
    text = sources.read(file)
    assert "#include" not in text
    assert "#pragma once" not in text
    assert text.count(sources.MACHINE_BEGIN) == text.count(sources.MACHINE_END) == 1
    assert text.index(sources.MACHINE_BEGIN) < text.index(sources.MACHINE_END)


@table("file", FILES)
def test_line_directives_lead_to_every_line(file: str) -> None:
    found: dict[tuple[str, int], str] = {}
    name, number = "", 0
    for line in sources.read(file).splitlines():
        directive = re.fullmatch(r'#line (\d+) "(.*)"', line)
        if directive:
            name, number = directive[2], int(directive[1])
        elif line + "\n" not in (sources.MACHINE_BEGIN, sources.MACHINE_END):
            found[name, number] = line
            number += 1
    for name in {name for name, _ in found}:
        lines = (sources.directory() / name).read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("#include", "#pragma once"))]
        assert [found[name, place] for place, line in enumerate(lines, 1) if line in kept] == [line for line in lines if line in kept], name


def test_only_the_machine_header_holds_assembly_and_intrinsics() -> None:
    keywords = {
        "__global__",
        "__device__",
        "__shared__",
        "__forceinline__",
        "__noinline__",
        "__launch_bounds__",
        "__grid_constant__",
        "__cluster_dims__",
    }
    checked = [path for path in sources.directory().rglob("*.cu*") if path.name != "machine.cuh"]
    assert len(checked) > len(FILES), "kernels and headers"
    for path in checked:
        text = path.read_text()
        assert set(re.findall(r"\b__\w+", text)) <= {"__syncthreads", "__syncwarp", *keywords}, path.name
        assert not re.search(r"\basm\b|\b(?:extern|#if|#ifdef|#define)\b", text), path.name


# compiling


def test_a_kernel_is_compiled_once(store: Path) -> None:
    runtime = CountingRuntime(H100)
    library = KernelLibrary(runtime, 0)
    with ThreadPoolExecutor(8) as threads:
        functions = list(threads.map(library.function, [COPY] * 32))
    assert len(runtime.programs) == 1
    assert all(function is functions[0] for function in functions)
    assert functions[0] == (b"copy<machine::half, float> for 90", "symbol of copy<machine::half, float>", 0)


# several at once

SCALE, BIAS, HEADER = scale_kernel(FLOAT), pack_bias_kernel(FLOAT), WRITE_HEADER_KERNEL
"""Two more of COPY's file, and one of another."""


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "processors", lambda: 2)


def wait(event: threading.Event) -> None:
    assert event.wait(30), "it did not come"


def test_a_program_holds_what_is_missing_of_a_file(store: Path) -> None:
    runtime = CountingRuntime(H100)
    library = KernelLibrary(runtime, 0)
    library.function(COPY)
    functions = library.functions([SCALE, COPY, HEADER, BIAS, SCALE])
    assert sorted(runtime.programs) == sorted([[COPY.entry], [SCALE.entry, BIAS.entry], [HEADER.entry]])
    assert [symbol for _, symbol, _ in functions] == [f"symbol of {kernel.entry}" for kernel in (SCALE, COPY, HEADER, BIAS, SCALE)]
    assert library.functions([]) == []


def test_each_kernel_of_a_program_is_found_again(store: Path) -> None:
    first, second = CountingRuntime(H100), CountingRuntime(H100)
    expected = KernelLibrary(first, 0).functions([COPY, SCALE, HEADER])
    found = KernelLibrary(second, 0).functions([HEADER, BIAS, SCALE])
    assert (found[0], found[2]) == (expected[2], expected[1])
    assert second.programs == [[BIAS.entry]], "what is stored is not compiled with what is missing"


@pytest.mark.usefixtures("two_processors")
def test_files_are_compiled_side_by_side(store: Path) -> None:
    runtime = CountingRuntime(H100)
    both = threading.Barrier(2, timeout=30)
    runtime.before = lambda entries: both.wait()
    assert len(KernelLibrary(runtime, 0).functions([COPY, HEADER])) == 2


def test_with_one_processor_there_are_no_threads(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "processors", lambda: 1)
    runtime, here = CountingRuntime(H100), threading.get_ident()
    threads = set[int]()
    runtime.before = lambda entries: threads.add(threading.get_ident())
    KernelLibrary(runtime, 0).functions([COPY, HEADER])
    assert threads == {here}


def test_threads_that_ask_for_some_of_the_same_wait_for_each_other(store: Path) -> None:
    """They would wait in a cycle if each waited before it loaded its kernels."""
    runtime = CountingRuntime(H100)
    both = threading.Barrier(2, timeout=30)
    library = KernelLibrary(runtime, 0)
    asked = [[COPY, SCALE], [HEADER, COPY], [SCALE, HEADER, BIAS]]
    runtime.before = lambda entries: both.wait() if len(runtime.programs) <= 2 else None
    with ThreadPoolExecutor(3) as threads:
        found = [future.result(30) for future in [threads.submit(library.functions, kernels) for kernels in asked]]
    assert sorted(entry for program in runtime.programs for entry in program) == sorted(
        kernel.entry for kernel in (COPY, SCALE, HEADER, BIAS)
    )
    for kernels_asked, functions in zip(asked, found, strict=True):
        assert [symbol for _, symbol, _ in functions] == [f"symbol of {kernel.entry}" for kernel in kernels_asked]


@pytest.fixture
def waited_for(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a thread waits for a kernel that another one makes."""
    event = threading.Event()

    class Watched(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            event.set()
            return super().result(timeout)

    monkeypatch.setattr(kernels, "Future", Watched)
    return event


def fail_while_another_waits(
    library: KernelLibrary, runtime: CountingRuntime, waited_for: threading.Event, error: BaseException
) -> list[Any]:
    """What becomes of COPY in a thread whose compilation fails, and in one that waits for it: the kernel, or an error."""
    started = threading.Event()

    def fail(entries: list[str]) -> None:
        runtime.before = lambda entries: None
        started.set()
        wait(waited_for)
        raise error

    runtime.before = fail
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(library.function, COPY)
        wait(started)
        second = threads.submit(library.function, COPY)
        return [future.exception(30) or future.result() for future in (first, second)]


def test_a_failure_is_reported_to_those_who_wait(store: Path, waited_for: threading.Event) -> None:
    runtime, error = CountingRuntime(H100), DeviceError("refused")
    library = KernelLibrary(runtime, 0)
    assert fail_while_another_waits(library, runtime, waited_for, error) == [error, error]
    assert len(runtime.programs) == 1
    library.function(COPY)
    assert len(runtime.programs) == 2, "it is tried again"


def test_who_waits_for_an_interrupted_thread_compiles_itself(store: Path, waited_for: threading.Event) -> None:
    runtime, error = CountingRuntime(H100), KeyboardInterrupt()
    found = fail_while_another_waits(KernelLibrary(runtime, 0), runtime, waited_for, error)
    assert found == [error, (b"copy<machine::half, float> for 90", "symbol of copy<machine::half, float>", 0)]


def test_a_device_that_is_too_old_compiles_nothing(store: Path) -> None:
    runtime = CountingRuntime(H100)
    with pytest.raises(DeviceError, match=r"scale<float> needs compute capability 10\.0, the device has 9\.0"):
        KernelLibrary(runtime, 0).functions([COPY, replace(SCALE, lowest_capability=100)])
    assert not runtime.programs


# the store


def test_another_process_finds_the_image(store: Path) -> None:
    first, second = CountingRuntime(H100), CountingRuntime(H100)
    assert KernelLibrary(first, 0).function(COPY) == KernelLibrary(second, 0).function(COPY)
    assert (len(first.programs), len(second.programs)) == (1, 0)
    assert len(list(store.iterdir())) == 1, "no temporary file is left"


def test_an_image_serves_only_what_it_was_made_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KernelLibrary(CountingRuntime(H100), 0).function(COPY)

    def compiles(runtime: CountingRuntime, kernel: Any = COPY) -> bool:
        KernelLibrary(runtime, 0).function(kernel)
        return len(runtime.programs) == 1

    assert not compiles(CountingRuntime(H100))
    assert compiles(CountingRuntime(H100), pack_bias_kernel(FLOAT))
    assert compiles(CountingRuntime(replace(H100, compute_capability=80)))
    newer = CountingRuntime(H100)
    newer.version = "1.1"
    assert compiles(newer)
    read = sources.read
    monkeypatch.setattr(sources, "read", lambda file: read(file) + "\n")
    assert compiles(CountingRuntime(H100))


@pytest.mark.parametrize("damage", [b"", b"x" * 40, None])
def test_a_damaged_image_is_compiled_anew(store: Path, damage: bytes | None) -> None:
    expected = KernelLibrary(CountingRuntime(H100), 0).function(COPY)
    (file,) = store.iterdir()
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    runtime = CountingRuntime(H100)
    assert KernelLibrary(runtime, 0).function(COPY) == expected
    assert len(runtime.programs) == 1
    again = CountingRuntime(H100)
    KernelLibrary(again, 0).function(COPY)
    assert not again.programs, "it was mended"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_the_store_is_the_users_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KernelLibrary(CountingRuntime(H100), 0).function(COPY)
    assert store.stat().st_mode & 0o777 == 0o700

    def compiles() -> bool:
        runtime = CountingRuntime(H100)
        KernelLibrary(runtime, 0).function(COPY)
        return len(runtime.programs) == 1

    assert not compiles()
    store.chmod(0o722)  # others could put an image here
    assert compiles()
    store.chmod(0o700)
    assert not compiles()
    owner = store.stat().st_uid
    for real, effective in ((owner + 1, owner + 1), (owner, owner + 1), (owner + 1, owner)):
        monkeypatch.setattr("os.getuid", lambda real=real: real)
        monkeypatch.setattr("os.geteuid", lambda effective=effective: effective)
        assert compiles()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_a_file_that_others_may_have_written_is_not_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = KernelLibrary(CountingRuntime(H100), 0).function(COPY)
    (file,) = store.iterdir()
    data = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600

    def put(kind: str) -> None:
        file.unlink()
        if kind == "a link":
            elsewhere = store.parent / "elsewhere"
            elsewhere.write_bytes(data)
            file.symlink_to(elsewhere)
        elif kind == "a pipe":
            os.mkfifo(file)
        else:
            file.write_bytes(data)
            file.chmod({"a file": 0o600, "a file for all": 0o666}[kind])

    for kind in ("a file", "a file for all", "a link", "a pipe"):
        put(kind)
        runtime = CountingRuntime(H100)
        assert KernelLibrary(runtime, 0).function(COPY) == expected
        assert bool(runtime.programs) == (kind != "a file")
        assert file.is_file()
        assert not file.is_symlink()
        assert file.read_bytes() == data, "it was mended"


@pytest.mark.skipif(sys.platform == "win32", reason="folders are held open on POSIX")
def test_an_open_store_stays_in_its_own_folder(store: Path) -> None:
    opened = ImageStore.open()
    assert opened is not None
    opened.write("first", b"image", "symbol")
    mine, planted = store.with_name("moved"), b"symbol\0planted"
    store.rename(mine)
    store.mkdir(mode=0o777)
    for name in ("first", "second"):
        (store / name).write_bytes(hashlib.sha256(name.encode() + b"\0" + planted).digest() + planted)
    assert opened.read("first") == (b"image", "symbol")
    assert opened.read("second") is None
    opened.write("third", b"image", "symbol")
    assert sorted(path.name for path in mine.iterdir()) == ["first", "third"]
    assert sorted(path.name for path in store.iterdir()) == ["first", "second"]


def test_what_cannot_be_written_leaves_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = ImageStore.open()
    assert opened is not None

    def full(*arguments: Any, **named: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", full)
    error: BaseException = OSError("no space left")
    opened.write("key", b"image", "symbol")
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        opened.write("key", b"image", "symbol")
    assert list(store.iterdir()) == []


WITHOUT_HOME = """
import os, pwd
for name in ("HOME", "XDG_CACHE_HOME", "DMLPY_CACHE_DIR"): os.environ.pop(name, None)
def nobody(uid): raise KeyError(uid)
pwd.getpwuid = nobody
from dmlpy.devices.persistence.image_store import ImageStore, cache_directory
assert cache_directory() is None and ImageStore.open() is None
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.emulation.runtime import H100
from tests.support.cuda.programs import COPY, CountingRuntime
runtime = CountingRuntime(H100)
KernelLibrary(runtime, 0).function(COPY)
assert len(runtime.programs) == 1
os.environ["DMLPY_CACHE_DIR"] = {folder!r}
KernelLibrary(runtime, 0).function(COPY)
print(os.listdir({folder!r}).__len__())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="homes are those of POSIX")
def test_a_user_without_a_home_has_no_store_unless_one_is_named(tmp_path: Path) -> None:
    program = WITHOUT_HOME.format(folder=str(tmp_path / "kernels"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_images_used_longest_ago_make_room(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:064x}" for number in range(4)]
    unfinished, foreign = f"{names[0]}.{'a' * 16}", "notes.txt"
    opened = ImageStore.open()
    assert opened is not None
    for age, name in enumerate((names[1], unfinished, foreign, names[0], names[2])):
        if name in names:
            opened.write(name, bytes(1000), "symbol")
        else:
            (store / name).write_bytes(bytes(1000))
        os.utime(store / name, (age, age))
    assert opened.read(names[1]) == (bytes(1000), "symbol")  # from now on the one used last
    monkeypatch.setattr(image_store, "KEPT_BYTES", 3 * (32 + len("symbol") + 1 + 1000))
    opened.write(names[3], bytes(1000), "symbol")
    assert {path.name for path in store.iterdir()} == {names[1], names[2], names[3], foreign}


def test_room_is_made_at_the_first_write_and_after_each_sixteenth(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at each write at all that lies there would take longer than to write."""
    monkeypatch.setattr(image_store, "KEPT_BYTES", 16_000)
    looks: list[int] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(1) or scan(folder))  # type: ignore[func-returns-value]
    opened = ImageStore.open()
    assert opened is not None
    after = []
    for number in range(10):
        opened.write(f"{number:064x}", bytes(300), "symbol")
        after.append(len(looks))
    assert after == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]


def test_without_a_place_for_images_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "file"))
    runtime = CountingRuntime(H100)
    KernelLibrary(runtime, 0).function(COPY)
    assert len(runtime.programs) == 1


def test_the_place_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLPY_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name, *, appauthor: Path("/cache", name, str(appauthor)))
    assert cache_directory() == Path("/cache/dmlpy/False/kernels")


def test_a_source_that_does_not_compile_is_reported(store: Path) -> None:
    require("g++")
    with pytest.raises(DeviceError, match="absent"):
        KernelLibrary(EmulatedRuntime(H100), 0).function(replace(COPY, entry="absent<float>"))
    assert not list(store.iterdir())


def test_cupy_compiles_without_a_gpu() -> None:
    pytest.importorskip("cupy")
    require("nvrtc")
    from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime

    runtime = CupyRuntime()
    source = sources.read("pack.cu")
    for architecture, start in [(75, b"\x7fELF"), (120, b"\x7fELF"), (999, b"//")]:  # cubins; for a GPU unknown to NVRTC, PTX
        ((image, symbol),) = runtime.compile(source, [COPY.entry], architecture)
        assert image.startswith(start)
        assert symbol.encode() in image
    with pytest.raises(DeviceError, match="absent"):
        runtime.compile(source, [COPY.entry, "absent<float>"], 90)
    with pytest.raises(DeviceError, match=r"7\.0 is older than 7\.5"):
        runtime.compile(source, [COPY.entry], 70)


def test_nvrtc_compiles_in_several_threads_at_a_time() -> None:
    """Short programs come to their end while a long one is compiled. With a lock around all of a compilation one could, at most."""
    pytest.importorskip("cupy")
    require("nvrtc")
    from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime

    runtime = CupyRuntime()
    long, short = sources.read("recurrent/layer.cu"), sources.read("pack.cu")
    entries = [persistent_block_kernel(FLOAT, 8, "Training", *GRU).entry]
    runtime.compile(short, [COPY.entry], 90)  # what is done once is done
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(runtime.compile, long, entries, 90)
        ended = 0
        while not other.done():
            runtime.compile(short, [COPY.entry], 90)
            ended += not other.done()
        assert len(other.result()) == len(entries)
    assert ended >= 2
