"""Numba for the kernels: imported completely, configured only by the environment, with other settings restored.

Numba also reads settings from a file in the working folder and from `numba.config`, which other code of the process may change. Kernels are
stored under a name that includes only the environment's settings: with others, processes would load code compiled for them.

No interrupt can reach an import or a compilation: during an import it would leave a module half initialized for good, and during a
compilation it would reach callbacks of LLVM, which lose it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREFIX = "NUMBA_"
_DISABLING = "NUMBA_DISABLE_JIT"
_FILE = ".numba_config.yaml"
"""Numba's settings in the working folder."""


T = TypeVar("T")

_one_at_a_time = threading.RLock()
"""The main thread never acquires it: work continues after its caller was interrupted, and Numba must not initialize twice at once."""


def imported(module: str) -> Any:
    """A module of Numba or llvmlite.

    Raises:
        DeviceError: it cannot be imported.
    """
    return on_own_thread(lambda: whole(lambda: importlib.import_module(module)))


def whole(work: Callable[[], T]) -> T:
    """A function that imports modules of Numba.

    Raises:
        DeviceError: they cannot be imported.
    """
    try:
        return work()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise DeviceError(f"Numba, which compiles for the device cpu, cannot be imported: {what}") from error


def on_own_thread(work: Callable[[], T]) -> T:
    """The result of work done on another thread, safe from interrupts, which only reach the main thread."""
    found: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with _one_at_a_time:
                found.append(work())
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
    return found[0]


def why_disabled() -> str | None:
    """The reason why Numba compiles nothing, or None. Numba is imported only if a settings file has to be read.

    Raises:
        DeviceError: it cannot be imported then.
    """
    own = os.environ.get(_DISABLING)
    if own is not None:
        return None if own.strip() in ("", "0") else f"Numba is told to compile nothing: {_DISABLING}={own}"
    if _has_settings_file():
        imported("numba")
    config: Any = sys.modules.get("numba.core.config")
    is_disabled = getattr(config, "DISABLE_JIT", 0)  # missing while another thread imports the module
    return f"Numba is told to compile nothing: DISABLE_JIT in numba.config or {_FILE}" if is_disabled else None


@cache
def _has_settings_file() -> bool:
    """Whether the working folder has Numba's settings, which Numba reads when it is imported. Asked once: each plan would take as long."""
    return os.path.isfile(_FILE)


def _prepare() -> None:
    """Imports Numba and the modules that it imports at its first compilation."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class _Settled:
    """Replaces the function that rereads Numba's settings at each compilation."""

    def update(self) -> None:
        """Does nothing."""


@contextmanager
def settings_of_environment() -> Iterator[None]:
    """Numba with the environment's settings only; no other thread compiles meanwhile."""
    from numba.core import compiler_lock, config

    with compiler_lock.global_compiler_lock:
        saved = {name: value for name, value in vars(config).items() if name.isupper()}
        reader = config._env_reloader
        try:
            reader.process_environ({name: value for name, value in os.environ.items() if name.startswith(_PREFIX)})
            config._env_reloader = _Settled()
            yield
        finally:
            config._env_reloader = reader
            vars(config).update(saved)


def machine_code(make: Callable[[], Callable[..., object]], arguments: int, *, returns: bool) -> tuple[bytes, str, str, bool]:
    """Compiles a function of 64-bit integers.

    Args:
        make: creates the Python function.
        arguments: the number of arguments.
        returns: whether it returns an integer.

    Returns:
        The image, its symbol, its LLVM code, and whether it is for the processor of the environment's settings: a processor that was
        used first, under other settings, stays in use for the process.
    """
    return on_own_thread(lambda: _machine_code(make, arguments, returns=returns))


def _machine_code(make: Callable[[], Callable[..., object]], arguments: int, *, returns: bool) -> tuple[bytes, str, str, bool]:
    whole(_prepare)
    from numba import njit, types

    with settings_of_environment():
        signature = (types.int64 if returns else types.void)(*[types.int64] * arguments)
        compiled = njit([signature], error_model="numpy", nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(make())
        (result,) = compiled.overloads.values()
        _, _, (image, _) = result.library.serialize_using_object_code()
        codegen = result.library.codegen
        is_meant = codegen._tm_features == codegen._get_host_cpu_features()
        return image, result.fndesc.llvm_func_name, result.library.get_llvm_str(), is_meant


def _renew() -> None:
    """In a child process: the thread that held the lock does not exist."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
