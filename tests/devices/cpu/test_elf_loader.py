"""Machine code that is loaded without LLVM, and the processor as Linux describes it."""

from __future__ import annotations

import ctypes
import platform
import random
import struct
import sys
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import elf_loader, isa, jit
from dmlpy.devices.cpu.llvm import SYMBOL, imported, machine_code, max_isa, within_max_isa
from tests.support.cpu.small_kernels import build_scaling

needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only Linux on x86-64 loads code without LLVM"
)


@pytest.fixture(scope="module")
def image() -> bytes:
    """An object with constants of its own that calls functions of the C library."""
    return machine_code(build_scaling, 2, returns=False, level=0)[0]


def without_alignments(image: bytes) -> bytes:
    """An object whose sections have an alignment of 0, which stands for 1."""
    changed, (*_, start, _, _, _, _, _, count, _) = bytearray(image), elf_loader._FILE.unpack_from(image)
    for index in range(count):
        struct.pack_into("<Q", changed, start + index * elf_loader._SECTION.size + 48, 0)
    return bytes(changed)


@needs_linux
def test_code_with_constants_and_functions_of_c_computes_as_loaded_by_llvm(image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert b".rodata" in image
    own = elf_loader.load
    for code, load in ((image, own), (without_alignments(image), own), (image, lambda image, symbol: None)):  # the last is left to LLVM
        monkeypatch.setattr(elf_loader, "load", load)
        address, number, integer = jit._loaded(code, SYMBOL), np.full(1, 0.7, np.float32), np.full(1, -5, np.int64)
        assert address is not None
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2)(address)(number.ctypes.data, integer.ctypes.data)
        assert (number[0], integer[0]) == (np.float32(0.7) * np.float32(0.3), 5)


@needs_linux
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda image: image[:300], "an end"),
        (lambda image: b"\xcf\xfa\xed\xfe" + image[4:], "macOS"),
        (lambda image: image[:18] + b"\xb7" + image[19:], "AArch64"),
        (lambda image: image[:40] + b"\xff" * 8 + image[48:], "sections beyond any address"),
        (lambda image: image.replace(b"\0llabs\0", b"\0qqabs\0"), "a function that C does not have"),
        (lambda image: image.replace(SYMBOL.encode(), SYMBOL.upper().encode()), "another symbol"),
    ],
)
def test_other_objects_are_left_to_llvm(change: Callable[[bytes], bytes], why: str, image: bytes) -> None:
    assert elf_loader.load(image, SYMBOL) is not None
    assert change(image) != image
    assert elf_loader.load(change(image), SYMBOL) is None


@needs_linux
def test_an_object_of_any_bytes_is_loaded_or_left(image: bytes) -> None:
    """Nothing is read or written outside of the object and its memory."""
    rng, held = random.Random(1), len(elf_loader._memory)
    for _ in range(500):
        changed = bytearray(image)
        for place in rng.sample(range(16, len(image)), 3):
            changed[place] = rng.randrange(256)
        elf_loader.load(bytes(changed[: rng.choice([len(image), rng.randrange(len(image))])]), SYMBOL)
    del elf_loader._memory[held:]


@needs_linux
def test_linux_tells_the_features_that_llvm_tells() -> None:
    told, llvm = isa.host_processor().features, within_max_isa(imported("llvmlite.binding").get_host_cpu_features())
    names = ("avx", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512vbmi", "avx512vnni", "avx512bf16", "avxvnni", "f16c")
    assert {name: told.get(name, False) for name in names} == {name: llvm.get(name, False) for name in names}


@needs_linux
def test_without_linux_s_list_llvm_tells_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "_LISTED", "/proc/there is no such file")
    found = isa.host_processor.__wrapped__()
    binding = imported("llvmlite.binding")
    assert found.identity == (binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), max_isa() or "")
