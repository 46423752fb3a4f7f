"""How CUDA sources become kernels: expansion, compiling once, and the images kept on disk."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import KernelLibrary, cache_directory
from dmlpy.devices.cuda.recurrent.common import copy_kernel, pack_bias_kernel
from dmlpy.problems import DeviceError
from tests.cpu_seam import H100, CpuSeam
from tests.tools import require

FILES = sorted(path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu"))
FLOAT, HALF = np.dtype(np.float32), np.dtype(np.float16)
COPY = copy_kernel(HALF, FLOAT)


class CountingSeam(CpuSeam):
    """Compiles to a text that names what was asked for, and counts."""

    version = "1.0"

    def compiler_version(self) -> str:
        return self.version

    def compile(self, source: str, entry: str, architecture: int) -> tuple[bytes, str]:
        self.counts["compile"] += 1
        return f"{entry} for {architecture}".encode(), f"symbol of {entry}"

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return image, symbol, shared_bytes


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for compiled kernels."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


# sources


@pytest.mark.parametrize("file", FILES)
def test_a_source_is_self_contained(file: str) -> None:
    text = sources.read(file)
    assert "#include" not in text
    assert "#pragma once" not in text
    assert text.count(sources.MACHINE_BEGIN) == text.count(sources.MACHINE_END) == 1
    assert text.index(sources.MACHINE_BEGIN) < text.index(sources.MACHINE_END)


@pytest.mark.parametrize("file", FILES)
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
    keywords = {"__global__", "__device__", "__shared__", "__forceinline__", "__launch_bounds__", "__grid_constant__"}
    for path in sources.directory().rglob("*.cu*"):
        if path.name != "machine.cuh":
            text = path.read_text()
            assert set(re.findall(r"\b__\w+", text)) <= {"__syncthreads", "__syncwarp", *keywords}, path.name
            assert not re.search(r"\basm\b|\b(?:extern|#if|#ifdef|#define)\b", text), path.name


# compiling


def test_a_kernel_is_compiled_once(store: Path) -> None:
    seam = CountingSeam(H100)
    library = KernelLibrary(seam, 0)
    with ThreadPoolExecutor(8) as threads:
        functions = list(threads.map(library.function, [COPY] * 32))
    assert seam.counts["compile"] == 1
    assert all(function is functions[0] for function in functions)
    assert functions[0] == (b"copy<machine::half, float> for 90", "symbol of copy<machine::half, float>", 0)


def test_another_process_finds_the_image(store: Path) -> None:
    first, second = CountingSeam(H100), CountingSeam(H100)
    assert KernelLibrary(first, 0).function(COPY) == KernelLibrary(second, 0).function(COPY)
    assert (first.counts["compile"], second.counts["compile"]) == (1, 0)
    assert len(list(store.iterdir())) == 1, "no temporary file is left"


def test_an_image_serves_only_what_it_was_made_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KernelLibrary(CountingSeam(H100), 0).function(COPY)

    def compiles(seam: CountingSeam, kernel: Any = COPY) -> bool:
        KernelLibrary(seam, 0).function(kernel)
        return seam.counts["compile"] == 1

    assert not compiles(CountingSeam(H100))
    assert compiles(CountingSeam(H100), pack_bias_kernel(FLOAT))
    assert compiles(CountingSeam(replace(H100, compute_capability=80)))
    newer = CountingSeam(H100)
    newer.version = "1.1"
    assert compiles(newer)
    read = sources.read
    monkeypatch.setattr(sources, "read", lambda file: read(file) + "\n")
    assert compiles(CountingSeam(H100))


@pytest.mark.parametrize("damage", [b"", b"x" * 40, None])
def test_a_damaged_image_is_compiled_anew(store: Path, damage: bytes | None) -> None:
    expected = KernelLibrary(CountingSeam(H100), 0).function(COPY)
    (file,) = store.iterdir()
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    seam = CountingSeam(H100)
    assert KernelLibrary(seam, 0).function(COPY) == expected
    assert seam.counts["compile"] == 1
    again = CountingSeam(H100)
    KernelLibrary(again, 0).function(COPY)
    assert again.counts["compile"] == 0, "it was mended"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_the_store_is_the_users_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KernelLibrary(CountingSeam(H100), 0).function(COPY)
    assert store.stat().st_mode & 0o777 == 0o700

    def compiles() -> bool:
        seam = CountingSeam(H100)
        KernelLibrary(seam, 0).function(COPY)
        return seam.counts["compile"] == 1

    assert not compiles()
    store.chmod(0o722)  # others could put an image of their own here
    assert compiles()
    store.chmod(0o700)
    assert not compiles()
    monkeypatch.setattr("os.getuid", lambda: store.stat().st_uid + 1)
    assert compiles()


def test_without_a_place_for_images_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "file"))
    seam = CountingSeam(H100)
    KernelLibrary(seam, 0).function(COPY)
    assert seam.counts["compile"] == 1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_place_is_the_users_cache(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLPY_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    expected = {"linux": Path("/cache"), "darwin": Path.home() / "Library" / "Caches", "win32": Path("/local")}[platform]
    assert cache_directory() == expected / "dmlpy" / "kernels"


def test_a_source_that_does_not_compile_is_told(store: Path) -> None:
    require("g++")
    with pytest.raises(DeviceError, match="absent"):
        KernelLibrary(CpuSeam(H100), 0).function(replace(COPY, entry="absent<float>"))
    assert not list(store.iterdir())


def test_cupy_compiles_without_a_gpu() -> None:
    pytest.importorskip("cupy")
    require("nvrtc")
    from dmlpy.devices.cuda.cupy_seam import CupySeam

    seam = CupySeam()
    source = sources.read("pack.cu")
    for architecture, start in [(75, b"\x7fELF"), (120, b"\x7fELF"), (999, b"//")]:  # cubins; for a GPU unknown to NVRTC, PTX
        image, symbol = seam.compile(source, COPY.entry, architecture)
        assert image.startswith(start)
        assert symbol.encode() in image
    with pytest.raises(DeviceError, match="absent"):
        seam.compile(source, "absent<float>", 90)
    with pytest.raises(DeviceError, match=r"7\.0 is older than 7\.5"):
        seam.compile(source, COPY.entry, 70)
