"""The instructions that kernels may use: those of this processor, or of a smaller set."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy import compiler
from dmlpy.cli.warmup import _compiled
from dmlpy.cli.warmup_work import WORK
from dmlpy.devices.cpu import isa, jit, llvm, load_store, thread_pool_kernels
from dmlpy.devices.cpu.llvm import MAX_ISA, max_isa, within_max_isa
from dmlpy.devices.cpu.quantized import products
from dmlpy.devices.cpu.quantized.products import Dot, byte_isa_of
from dmlpy.devices.cpu.reduction.softmax_kernels import build_softmax
from tests.support.cpu.small_kernels import HALVES, STORE

X86 = platform.machine().lower() in ("x86_64", "amd64")
FEATURES = (
    "sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt aes avx fma f16c avx2 bmi bmi2 lzcnt movbe gfni vaes avxvnni avx512f avx512cd avx512bw "
    "avx512dq avx512vl avx512vnni avx512bf16 avx512vbmi avx512fp16 amx-tile"
)
EVERY = dict.fromkeys(FEATURES.split(), True)
LEVELS: dict[str, tuple[str, tuple[int, int], Dot]] = {
    "SSE41": ("sse sse2 sse3 ssse3 sse4.1 aes", (4, 16), Dot.VPMADDWD),
    "AVX": ("sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt aes avx", (8, 16), Dot.VPMADDWD),
    "AVX2": ("sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt aes avx fma f16c avx2 bmi bmi2 lzcnt movbe", (8, 16), Dot.VPMADDWD),
    "AVX2_VNNI": ("sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt aes avx fma f16c avx2 bmi bmi2 lzcnt movbe avxvnni", (8, 16), Dot.VPDPBUSD),
    "AVX512_CORE": (
        "sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt aes avx fma f16c avx2 bmi bmi2 lzcnt movbe avx512f avx512cd avx512bw avx512dq avx512vl",
        (16, 32),
        Dot.VPMADDWD,
    ),
}
"""Of each largest set: the features that are left of `EVERY`, the registers and how bytes are multiplied."""
REGISTERS = {"SSE41": set("x"), "AVX": set("xy"), "AVX2": set("xy"), "AVX512_CORE": set("xyz")}
"""The first letters of the registers that kernels for a set use."""


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What depends on the processor is found anew, and once more after the test."""
    caches = [value for module in (isa, products, jit) for value in vars(module).values() if hasattr(value, "cache_clear")]
    monkeypatch.setattr(jit, "_functions", {})
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize(("level", "row"), LEVELS.items(), ids=list(LEVELS))
def test_the_largest_set_takes_features_away(level: str, row: tuple[str, tuple[int, int], Dot], monkeypatch: pytest.MonkeyPatch) -> None:
    names, registers, dot = row
    monkeypatch.setenv(MAX_ISA, level)
    left = within_max_isa(EVERY)
    assert [name for name in left if left[name]] == [name for name in EVERY if name in names.split()]
    floats, products = isa.isa_of(left, "x86_64"), byte_isa_of(left, "x86_64")
    assert ((floats.lanes, floats.registers), products.dot) == (registers, dot)


def test_the_set_is_named_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_ISA, "avx2_vnni")
    assert max_isa() == "AVX2_VNNI"


@pytest.mark.parametrize("text", [None, ""])
def test_without_the_variable_all_features_are_left(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MAX_ISA, raising=False)
    if text is not None:
        monkeypatch.setenv(MAX_ISA, text)
    assert within_max_isa({**EVERY, "avx10.1": False}) == {**EVERY, "avx10.1": False}


def test_an_unknown_set_is_refused(new_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_ISA, "avx3")
    with pytest.raises(
        dml.DeviceError, match=r"DMLPY_CPU_MAX_ISA is 'avx3', expected an instruction set of x86-64: one of SSE41, AVX, AVX2, "
    ):
        STORE(3)


@pytest.mark.skipif(not X86, reason="the sets are those of x86-64")
def test_a_kernel_of_one_set_is_not_loaded_for_another(new_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it loaded, a process on a processor with fewer instructions would end."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    for count, level in enumerate(("SSE41", "AVX", "AVX2"), 1):
        monkeypatch.setenv(MAX_ISA, level)
        monkeypatch.setattr(jit, "_functions", {})
        isa.host_processor.cache_clear()
        jit._circumstances.cache_clear()
        STORE(3)
        assert len(list((tmp_path / "kernels").iterdir())) == count


@pytest.mark.skipif(not X86, reason="the sets are those of x86-64")
@pytest.mark.parametrize("level", REGISTERS)
def test_instructions_beyond_the_largest_set_are_not_emitted(level: str, new_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax multiplies and adds, and scales by powers of two."""
    monkeypatch.setenv(MAX_ISA, level)
    left, own = isa.host_processor().features, isa.host_isa()
    if own.lanes != LEVELS[level][1][0]:
        pytest.skip("this processor lacks the instructions")
    binding = llvm.imported("llvmlite.binding")
    _, text = llvm.machine_code(lambda: build_softmax("rows", "float32", own), 5, returns=False, level=0)
    found = llvm._target_machine(binding, 0).emit_assembly(binding.parse_assembly(text))
    assert set(re.findall(r"\b([xyz])mm\d", found)) == REGISTERS[level]
    assert bool(re.search(r"\tvfn?m(add|sub)", found)) == left.get("fma", False)
    assert bool(re.search(r"\tvscalefps", found)) == left.get("avx512f", False)


def float_bits() -> np.ndarray[Any, Any]:
    """Of floats: all halves and those half way to the next, each with both neighbours, and random ones."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves + np.append(halves[1:], 65536.0)) / 2
    near = np.concatenate([halves, ties]).astype(np.float32).view(np.uint32)[:, np.newaxis] + np.array([-1, 0, 1], np.int64)
    random = np.random.default_rng(1).integers(0, 1 << 32, 1 << 16)
    return np.concatenate([near.ravel() & 0x7FFFFFFF, near.ravel() | 0x80000000, random]).astype(np.uint32)


@pytest.mark.parametrize("instructions", [True, False], ids=["instructions", "none"])
def test_conversions_of_halves(instructions: bool, new_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor's instructions, and without them: NumPy's results, but that a NaN becomes a quiet one."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    if not instructions:
        monkeypatch.setattr(load_store, "converts_halves", lambda: False)
    elif not isa.converts_halves():
        pytest.skip("this processor has no such instructions")
    own, bits = isa.host_isa(), np.arange(1 << 16, dtype=np.uint16)
    found = np.zeros(bits.size, np.uint32)
    HALVES(True, own)(found.ctypes.data, bits.ctypes.data, bits.size // own.lanes)
    with np.errstate(invalid="ignore"):
        wanted = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found, np.where(np.isnan(wanted), wanted.view(np.uint32) | 0x400000, wanted.view(np.uint32)))
    of = float_bits()
    halves = np.zeros(of.size, np.uint16)
    HALVES(False, own)(halves.ctypes.data, of.ctypes.data, of.size // own.lanes)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = of.view(np.float32).astype(np.float16)
    quiet = (of >> 16 & 0x8000) | 0x7E00 | (of >> 13 & 0x3FF)
    np.testing.assert_array_equal(halves, np.where(np.isnan(rounded), quiet, rounded.view(np.uint16)))


ARM = isa.Processor({"neon": True}, ("an ARM processor",))
SLOW = ("rnn", "lstm", "gru", "convolution", "pooling", "elements", "gemm", "attention", "normalization", "resampling")
"""Work of `dmlpy warmup` whose kernels take long to compile."""
Kernels = list[tuple[jit.Kernel, tuple[Any, ...]]]


@pytest.fixture
def on_arm(new_process: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernels]:
    """The kernels that plans ask for from then on, as if this processor were another; none is loaded."""
    found: Kernels = []

    def record(self: jit.Kernel, choices: tuple[Any, ...], form: tuple[Any, ...]) -> None:
        found.append((self, choices))
        jit._functions[form] = SimpleNamespace(address=1)

    binding = llvm.imported("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    told = {"get_process_triple": "aarch64-unknown-linux-gnu", "get_host_cpu_name": "generic", "get_host_cpu_features": {}}
    for name, value in told.items():
        monkeypatch.setattr(binding, name, lambda value=value: value)
    monkeypatch.setattr(llvm, "_optimize", _without_x86(llvm._optimize))
    monkeypatch.setattr(jit.Kernel, "_make", record)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    caches = compiler._compile, compiler._compile_operator
    for module in (isa, products):
        monkeypatch.setattr(module, "host_processor", lambda: ARM)
    for cached in caches:
        cached.cache_clear()
    yield found
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WORK])
def test_kernels_for_arm(name: str, on_arm: Kernels) -> None:
    """Machine code is made of all, without an instruction of x86-64."""
    for dtype in ("FLOAT32", "FLOAT16"):
        for _, desc in WORK[name](dtype, True):
            _compiled(desc, dml.device("cpu"))
    assert on_arm
    for kernel, choices in on_arm:
        kernel._compiled(choices)


def test_a_thread_that_waits_on_arm_pauses(on_arm: Kernels) -> None:
    """Its polls would end much sooner than those of x86-64 otherwise, and threads that yield so soon end up on one processor."""
    _, text = llvm.machine_code(thread_pool_kernels.build_acquire, 6, returns=True, level=0)
    assert "llvm.aarch64.isb" in text


def _without_x86(optimize: Callable[..., None]) -> Callable[..., None]:
    """LLVM ends the process where it finds an instruction of another processor."""

    def checked(binding: Any, module: Any, *others: Any) -> None:
        assert "llvm.x86." not in str(module)
        optimize(binding, module, *others)

    return checked
