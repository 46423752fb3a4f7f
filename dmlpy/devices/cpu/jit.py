"""`Kernel`: functions that are compiled once for a machine. They are stored on disk and called without the GIL.

Only the machine code is stored: a process that finds it imports neither the compiler nor the modules that the code was made from, nor,
where `elf_loader` can load it, LLVM. Its name is a hash of everything that the code depends on; `ImageStore` decides which files may be
trusted.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import platform
import re
import sys
import threading
import time
from contextlib import contextmanager
from ctypes import CDLL, CFUNCTYPE, c_int64
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dmlpy.debugging import CACHE
from dmlpy.devices.cpu import elf_loader
from dmlpy.devices.cpu.isa import host_processor
from dmlpy.devices.host.threads import apart_from_forks
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.devices.plan import PlanPart
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks
from dmlpy.system.garbage import collections_paused

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Function: TypeAlias = Any
"""A kernel for certain choices, as a function of ctypes: takes integers (numbers and addresses) and returns nothing. It has its address as
`address`."""

OPTIMIZATION = "DMLPY_CPU_OPTIMIZATION"
"""The environment variable with LLVM's level of optimization, 0 to 3."""
_WORD_AFTER_S = 1.0
"""The time of compiling, in seconds, after which a process says on a terminal that it compiles."""


class LoadedFunction(NamedTuple):
    """A function that this process has loaded or compiled.

    Attributes:
        name: the kernel and its choices.
        seconds: how long it took.
        compiled: whether it was compiled; if not, it was read from disk.
    """

    name: str
    seconds: float
    compiled: bool


loaded_functions: list[LoadedFunction] = []
"""The functions that this process has loaded or compiled, in order."""
_lock = forks.reentrant_lock()
_functions: dict[tuple[Hashable, ...], Function] = {}
"""The functions that were read or compiled so far, by kernel and choices."""
_engines: list[Any] = []
"""Holds the machine code in memory. Functions live as long as the process."""


class Kernel(PlanPart):
    """A kernel in all its forms: `kernel(*choices)` is the function for some choices, read from disk or compiled on first use.

    Threads may share it, and what it returns. A function's arguments are 64-bit integers.

    Args:
        target: `module:function` that builds the Python function to compile from the choices. The module is
            imported only then, so it may import llvmlite.
        arguments: the number of the function's arguments.
        returns: whether it returns an integer to kernels that call it; to Python the result has no meaning.
    """

    def __init__(self, target: str, arguments: int, *, returns: bool = False) -> None:
        self._target, self._count, self._returns = target, arguments, returns
        self._kind = CFUNCTYPE(None, *[c_int64] * arguments)

    def __call__(self, *choices: Hashable) -> Function:
        """The function for choices: numbers, strings, and dataclasses and tuples of them with distinct `repr`."""
        form = (self._target, self._count, choices)
        function = _functions.get(form)
        if function is None:
            apart_from_forks(lambda stream: self._make(choices, form))(0)  # a child would find the locks of the compiler held
            function = _functions[form]
        return function

    def address(self, *choices: Hashable) -> int:
        """The address of `kernel(*choices)` for kernels that call it."""
        return int(self(*choices).address)

    def _make(self, choices: tuple[Hashable, ...], form: tuple[Hashable, ...]) -> None:
        """Reads or compiles a function, unless another thread has done so meanwhile."""
        with _lock:
            if form in _functions:
                return
            key = hashlib.sha256(repr((_circumstances(), *form, optimization())).encode()).hexdigest()
            name, started = f"{self._target.rpartition(':')[2]} {' '.join(map(str, choices))}", time.perf_counter()
            store = ImageStore.open()
            stored = None if store is None else store.read(key)
            address = None if stored is None else _loaded(*stored)
            compiles = address is None
            if address is None:
                with _announced(_subject(self._target)), collections_paused():
                    image, symbol = self._compiled(choices)
                address = _loaded(image, symbol)
                assert address is not None, "what was just compiled has its symbol"
                if store is not None:
                    store.write(key, image, symbol)
            _functions[form] = self._kind(address)
            _functions[form].address = address  # ctypes takes microseconds to return it
            loaded_functions.append(LoadedFunction(name, time.perf_counter() - started, compiles))
            level = logging.INFO if compiles else logging.DEBUG
            CACHE.log(level, "%s: %s in %.2f s", name, "compiled" if compiles else "loaded from disk", loaded_functions[-1].seconds)

    def _compiled(self, choices: tuple[Hashable, ...]) -> tuple[bytes, str]:
        """The machine code of a function, and its symbol."""
        from dmlpy.devices.cpu.llvm import SYMBOL, machine_code

        module, _, name = self._target.partition(":")
        image, text = machine_code(
            lambda: getattr(importlib.import_module(module), name)(*choices), self._count, returns=self._returns, level=optimization()
        )
        _check_externals(text)
        return image, SYMBOL


ACQUIRE = Kernel("dmlpy.devices.cpu.thread_pool_kernels:build_acquire", 6, returns=True)
"""The kernel that acquires a tile of a stage, for several threads."""
PRODUCT = Kernel("dmlpy.devices.cpu.product_kernels:build_product", 8)
"""`Simd.product`: the number of vectors, whether the factors are ordered by terms, and the instruction set."""
GATE_PRODUCTS = Kernel("dmlpy.devices.cpu.product_kernels:build_gate_products", 9)
"""The products of a cell's gates: the number of gates, how many are summed at once, and the instruction set."""


def _check_externals(code: str) -> None:
    """Raises RuntimeError if LLVM code calls functions that the process does not have: LLVM's loader would end it."""
    if sys.platform != "win32":
        process = CDLL(None)
        names = re.findall(r'^declare [^@]*@"?([^"(]+)"?\(', code, re.MULTILINE)
        foreign = [name for name in names if not name.startswith("llvm.") and not hasattr(process, name)]
        if foreign:
            raise RuntimeError(f"a kernel calls {', '.join(foreign)}, which this process does not have")


def _loaded(image: bytes, symbol: str) -> int | None:
    """The address of a symbol of some machine code, which it loads; None if it has no such symbol."""
    if (loaded := elf_loader.load(image, symbol)) is not None:
        return loaded
    from dmlpy.devices.cpu.llvm import imported

    binding = imported("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(image))
    engine.finalize_object()
    address = int(engine.get_function_address(symbol))
    if address:
        _engines.append(engine)
    return address or None


def optimization() -> int:
    """LLVM's level of optimization.

    Raises:
        DeviceError: the environment variable has another value.
    """
    text = os.environ.get(OPTIMIZATION, "3")
    if text not in ("0", "1", "2", "3"):
        raise DeviceError(f"the environment variable {OPTIMIZATION} is {text!r}, expected a level of optimization from 0 to 3")
    return int(text)


@cache
def _circumstances() -> tuple[object, ...]:
    """The sources, versions and processor, which determine the machine code besides the choices and the settings."""
    here, sources = os.path.dirname(__file__), hashlib.sha256()
    for folder, _, names in sorted(os.walk(here)):  # pathlib takes twice as long
        for name in sorted(name for name in names if name.endswith(".py")):
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                sources.update(f"{folder[len(here) :]}/{name}\0".encode() + file.read() + b"\0")
    from dmlpy.devices.cpu.llvm import imported

    version = imported("llvmlite").__version__  # without the library; the metadata of packages take longer than all kernels of a model
    return sources.hexdigest(), version, sys.version_info[:3], platform.system(), platform.machine(), host_processor().identity


_SUBJECTS = {
    "recurrent": "recurrent layers",
    "convolution": "convolutions",
    "elementwise": "element-wise operators",
    "activation": "activations",
    "reduction": "reductions",
    "matrix": "matrix products",
}
"""The subjects of kernels by the folder of their modules, where its name is not enough."""


def _subject(target: str) -> str:
    """The subject of a kernel, in the words of people who run operators."""
    folder = target.removeprefix("dmlpy.devices.cpu.").partition(".")[0].partition(":")[0]
    return _SUBJECTS.get(folder, folder if folder in ("normalization", "pooling", "resampling") else "this CPU")


_named: set[str] = set()
"""The subjects whose compilation this process has logged."""


@contextmanager
def _announced(what: str) -> Iterator[None]:
    """Logs once what is compiled, and shows it on the terminal, if standard error is one, once compiling has taken a second in all."""
    compiled = [item for item in loaded_functions if item.compiled]
    text = f"Compiling kernels for {what}, on first use only; `dmlpy warmup` does it ahead"
    if what not in _named:
        _named.add(what)
        CACHE.info("%s", text)
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    over = threading.Event()
    done = f" ({len(compiled)} done)" if compiled else ""
    status = Console(stderr=True).status(f"{text}{done}")
    delay = max(0.0, _WORD_AFTER_S - sum(item.seconds for item in compiled))

    def show() -> None:
        if not over.wait(delay):
            with status:
                over.wait()

    shows = threading.Thread(target=show, name="dmlpy-announcement", daemon=True)
    shows.start()
    try:
        yield
    finally:
        over.set()
        shows.join()
