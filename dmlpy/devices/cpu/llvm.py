"""LLVM for kernels: imports of llvmlite, the compilation of kernels to machine code, and the instructions that it may use.

No interrupt can reach an import or a compilation: during an import it would leave a module half initialized for good, and during a
compilation it would reach callbacks of LLVM, which lose it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

SYMBOL = "dmlpy_kernel"
"""The symbol of each kernel in its own image."""

MAX_ISA = "DMLPY_CPU_MAX_ISA"
"""The environment variable with the largest instruction set that kernels may use, on x86-64: a key of `_LEVELS`."""
_SSE41 = frozenset({"sse41"})
_AVX = _SSE41 | {"sse42", "popcnt", "avx"}
_AVX2 = _AVX | {"avx2", "fma", "f16c", "bmi", "bmi1", "bmi2", "lzcnt", "abm", "movbe"}
_AVX512 = _AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
_LEVELS: dict[str, frozenset[str]] = {
    "SSE41": _SSE41,
    "AVX": _AVX,
    "AVX2": _AVX2,
    "AVX2_VNNI": _AVX2 | {"avxvnni"},
    "AVX512_CORE": _AVX512,
    "AVX512_CORE_VNNI": _AVX512 | {"avx512vnni"},
    "AVX512_CORE_BF16": _AVX512 | {"avx512vnni", "avx512bf16"},
}
"""Of `_LIMITED` features, those of an instruction set: oneDNN's names of the sets, LLVM's and Linux's names of the features."""
_LIMITED = re.compile("sse4|popcnt|crc32|avx|fma|f16c|xop|bmi|lzcnt|abm$|movbe|gfni|vaes|vpclmul|amx")
"""The features that `MAX_ISA` can take away; every x86-64 processor has some of the others, and no kernel depends on the rest."""

_one_at_a_time = forks.reentrant_lock()
"""The main thread never acquires it: work continues after its caller was interrupted, and llvmlite must not be imported twice at once."""

_in_llvm = forks.reentrant_lock(awaited=True)
"""Held in each call of LLVM, so that a fork waits for those that free what was compiled, whenever Python collects it."""
_guarded: set[str] = set()


def imported(module: str) -> Any:
    """A module of llvmlite.

    Raises:
        DeviceError: it cannot be imported.
    """
    return on_own_thread(lambda: _imported(module))


def _imported(module: str) -> Any:
    try:
        imported_module = importlib.import_module(module)
        _guard_calls()
        return imported_module
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise DeviceError(f"llvmlite, which compiles for the device cpu, cannot be imported: {what}") from error


def _guard_calls() -> None:
    """Lets forks wait for calls of LLVM by other threads, and frees llvmlite's lock around them in a forked process."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    if ffi is not None and not _guarded:
        _guarded.add(ffi.__name__)
        ffi.register_lock_callback(_in_llvm.acquire, _in_llvm.release)
        with suppress(AttributeError):  # it is private
            forks.free_in_child(ffi.lib._lock._lock)


def on_own_thread(work: Callable[[], T]) -> T:
    """The result of work done on another thread, safe from interrupts, which only reach the main thread."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with _one_at_a_time:
                results.append(work())
        except BaseException as error:
            failures.append(error)

    if threading.current_thread() is threading.main_thread():
        thread = threading.Thread(target=run, name="dmlpy-compiler")
        thread.start()
        thread.join()
    else:
        run()
    if failures:
        raise failures[0]
    return results[0]


def machine_code(make: Callable[[], Callable[..., object]], arguments: int, *, returns: bool, level: int) -> tuple[bytes, str]:
    """Compiles a function of 64-bit integers for this processor.

    Args:
        make: creates the Python function.
        arguments: the number of arguments.
        returns: whether it returns an integer.
        level: LLVM's level of optimization, 0 to 3.

    Returns:
        The image, whose symbol is `SYMBOL`, and the LLVM code that it was made from.
    """
    return on_own_thread(lambda: _machine_code(make, arguments, returns=returns, level=level))


def _machine_code(make: Callable[[], Callable[..., object]], arguments: int, *, returns: bool, level: int) -> tuple[bytes, str]:
    binding = _imported("llvmlite.binding")
    from dmlpy.devices.cpu.compiler.translation import Translation

    translation = Translation()
    translation.add_kernel(make(), arguments, returns=returns, symbol=SYMBOL)
    machine = _target_machine(binding, level)
    translation.module.triple, translation.module.data_layout = binding.get_process_triple(), str(machine.target_data)
    module = binding.parse_assembly(str(translation.module))
    module.verify()
    _optimize(binding, module, machine, level)
    return machine.emit_object(module), str(module)


def max_isa() -> str | None:
    """The largest instruction set that kernels may use; None for all that the processor has.

    Raises:
        DeviceError: the environment variable has another value.
    """
    text = os.environ.get(MAX_ISA)
    level = text.upper() if text else None  # of either case, and empty for none, as oneDNN reads its own variable
    if level is not None and level not in _LEVELS:
        names = ", ".join(_LEVELS)
        raise DeviceError(f"the environment variable {MAX_ISA} is {text!r}, expected an instruction set of x86-64: one of {names}")
    return level


def within_max_isa(features: Mapping[str, bool]) -> dict[str, bool]:
    """These features of a processor without those that `max_isa` excludes."""
    level = max_isa()

    def is_kept(name: str) -> bool:
        return level is None or _LIMITED.match(name) is None or name.replace(".", "") in _LEVELS[level]

    return {name: has and is_kept(name) for name, has in features.items()}


def _target_machine(binding: Any, level: int) -> Any:
    """This processor as LLVM's target of code that is loaded where there is room for it."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    relocation = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=_flattened(within_max_isa(binding.get_host_cpu_features())),
        opt=level,
        reloc=relocation,
        codemodel="jitdefault",
        jit=True,
    )


def _flattened(features: Mapping[str, bool]) -> str:
    """Features in LLVM's notation. One that is absent also takes away those that build on it."""
    return ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))


def _optimize(binding: Any, module: Any, machine: Any, level: int) -> None:
    """Inlines what is to be inlined, with loops in the form that the vectorizer finds; then runs LLVM's usual passes."""
    inlining = _passes(binding, machine, 0)
    passes = inlining.getModulePassManager()
    if level > 0:
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
        passes.add_jump_threading_pass()
    passes.run(module, inlining)
    if level > 0:
        usual = _passes(binding, machine, level)
        usual.getModulePassManager().run(module, usual)


def _passes(binding: Any, machine: Any, level: int) -> Any:
    options = binding.create_pipeline_tuning_options()
    options.speed_level, options.loop_vectorization, options.slp_vectorization = level, level > 0, False
    return binding.create_pass_builder(machine, options)
