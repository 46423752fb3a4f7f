"""`dmlpy warmup`: compiles kernels of the devices `cpu` and `cuda` ahead of time, for later processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy import compiler
from dmlpy.cli.warmup_work import WORK
from dmlpy.devices import device as find_device
from dmlpy.devices.cpu.plans import why_no_kernels
from dmlpy.devices.persistence import image_archive
from dmlpy.devices.persistence.image_store import ImageStore, cache_directory
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import CompileError, DeviceError
from dmlpy.messages.quantities import show_bytes
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices import Device
    from dmlpy.devices.cuda.kernels import KernelLibrary

_COMPILED = "strategy: compiled"
"""The first line of a plan that has compiled kernels on the CPU."""


@dataclass(frozen=True)
class Warmed:
    """The result of one kind of work.

    Attributes:
        work: the work.
        outcome: how many kernels were compiled and how many already existed, or why there are none.
        seconds: how long it took.
    """

    work: str
    outcome: str
    seconds: float


def warm_up(names: Sequence[str] = (), *, device: Device | str = "cpu", dtype: str = "FLOAT32", training: bool = False) -> Iterator[Warmed]:
    """Compiles kernels for a device, and reports each kind of work when it is done.

    Args:
        names: names in `WORK`; none for all.
        device: `cpu`, a GPU, or an absent GPU (`devices.cuda.offline_device`).
        dtype: FLOAT32 or FLOAT16.
        training: whether to compile the training forms of recurrent layers with their gradients instead of the forward ones.

    Raises:
        DeviceError: there is no such device, or it cannot compile.
    """
    on = find_device(device)
    works: dict[str, list[OperatorDesc]] = {}
    for name in names or WORK:
        for work, desc in WORK[name](dtype, training):
            works.setdefault(work, []).append(desc)
    for work, descs in works.items():
        before, started = _counts(on), time.perf_counter()
        if plans := [plan for desc in descs if (plan := _compiled(desc, on)) is not None]:
            yield _warmed(work, on, before, started, plans[0].partition("\n")[0])
    if on.memory_kind == "cpu" and why_no_kernels() is None:
        from dmlpy.devices.cpu.launches import load_joining_kernels

        before, started = _counts(on), time.perf_counter()
        load_joining_kernels()
        yield _warmed("launches of graphs and loops", on, before, started, _COMPILED)


def _compiled(desc: OperatorDesc, on: Device) -> str | None:
    """The plan of a desc, once it is compiled; None where graphs fuse to it and the device runs the nodes, which are other work."""
    try:
        return compiler.compile(desc, on).plan
    except CompileError as error:
        if desc.is_extension and error.hresult == HResult.E_NOTIMPL:
            return None
        raise


def _warmed(work: str, on: Device, before: tuple[int, int], started: float, plan: str) -> Warmed:
    """The result of work that is done.

    Args:
        work: the work.
        on: the device.
        before: what `_counts` told before it.
        started: when it began.
        plan: the first line of a plan.
    """
    compiled, loaded = (now - then for now, then in zip(_counts(on), before, strict=True))
    outcome = [f"compiled {compiled}"] * (compiled > 0) + [f"found {loaded} on disk"] * (loaded > 0)
    if not outcome:
        outcome = ["nothing more to compile" if on.memory_kind == "cuda" or plan == _COMPILED else plan]
    return Warmed(work, ", ".join(outcome), time.perf_counter() - started)


def _counts(device: Device) -> tuple[int, int]:
    """How many kernels this process has compiled for a device, and how many it found on disk."""
    if device.memory_kind == "cuda":
        library = _library(device)
        return len(library.compiled), len(library.keys) - len(library.compiled)
    from dmlpy.devices.cpu.jit import loaded_functions

    compiled = sum(function.compiled for function in loaded_functions)
    return compiled, len(loaded_functions) - compiled


def _library(device: Device) -> KernelLibrary:
    from dmlpy.devices.cuda.device import CudaDevice

    assert isinstance(device, CudaDevice)
    return device.library


def warmed_table(warmed: Sequence[Warmed], device: Device | str = "cpu") -> Table:
    """The results as a table."""
    rows = tuple((item.work, item.outcome, f"{item.seconds:.2f} s") for item in warmed)
    on = find_device(device)
    name = f"device {on.name}" if on.memory_kind == "cpu" else f"{on.describe()['name']}"
    return Table(f"Kernels of the {name}", ("work", "kernels", "time"), rows)


def place() -> str:
    """A phrase that says where kernels are stored, or why they are not."""
    if ImageStore.open() is not None:
        return f"stored in {cache_directory()}"
    if chosen := os.environ.get("DMLPY_CACHE_DIR"):
        return f"not stored: DMLPY_CACHE_DIR is {chosen!r}, which is not a folder that only the user can write to"
    return "not stored: there is no folder that only the user can write to"


def cache_contents() -> str:
    """How many kernels are cached, and where."""
    store = ImageStore.open()
    if store is None:
        return place()
    sizes = store.sizes()
    return f"{plural(len(sizes), 'compiled kernel')}, {show_bytes(sum(sizes.values()))}, {place()}"


def clear_cache() -> str:
    """Removes all cached kernels, and says which they were.

    Raises:
        DeviceError: the files cannot be removed.
    """
    store = ImageStore.open()
    if store is None:
        return place()
    sizes = store.sizes()
    try:
        store.clear()
    except OSError as error:
        raise DeviceError(f"{cache_directory()} cannot be cleared: {error.strerror}") from error
    return f"{plural(len(sizes), 'compiled kernel')}, {show_bytes(sum(sizes.values()))}, removed from {cache_directory()}"


def pack(device: Device, file: Path) -> str:
    """Writes this process's kernels for a GPU to a file, to be unpacked into another machine's kernel cache.

    Raises:
        DeviceError: kernels are not cached, or the file cannot be written.
    """
    store = ImageStore.open()
    if store is None:
        raise DeviceError(f"{place()}, so no archive can be made of them")
    library = _library(device)
    count = image_archive.pack(store, library.keys.values(), file)
    by, size = " ".join(library.runtime.compiler_version().split()[:2]), file.stat().st_size
    return f"{plural(count, 'kernel')} for sm_{library.limits.compute_capability} by {by} are in {file}, {size / 1e6:.2f} MB"
