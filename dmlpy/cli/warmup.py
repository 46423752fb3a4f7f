"""`dmlpy warmup`: compiles kernels of the devices `cpu` and `cuda` ahead of time, for later processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy import compiler
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices import device as find_device
from dmlpy.devices import image_archive
from dmlpy.devices.device import show_bytes
from dmlpy.devices.image_store import ImageStore, cache_directory
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DeviceError
from dmlpy.messages.tables import Table
from dmlpy.operators.activation import ActivationGeluDesc, ActivationSigmoidDesc, ActivationTanhDesc
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.pooling.average import AveragePoolingDesc
from dmlpy.operators.pooling.maximum import MaxPoolingDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices import Device
    from dmlpy.devices.cuda.kernels import KernelLibrary

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_SIZES = ((1, 64), (16, 256))
"""Batch and hidden size of the layers: kernels may differ between single sequences and batches."""


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


def _tensor(dtype: str, *sizes: int) -> TensorDesc:
    return TensorDesc(data_type=dtype, sizes=sizes)


def _layers(cell: str, dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """A cell's layers with the frameworks' defaults, forward or in training with all gradients.

    Layers with several sequence lengths use all kernels of the others, and a few more.
    """
    forward: dict[str, type[Any]] = {"RNN": RNNDesc, "GRU": GRUDesc, "LSTM": LSTMDesc}
    trained: dict[str, type[Any]] = {"RNN": RNNTrainingDesc, "GRU": GRUTrainingDesc, "LSTM": LSTMTrainingDesc}
    sigmoid, tanh = ActivationSigmoidDesc(), ActivationTanhDesc()
    functions = {"RNN": [tanh], "GRU": [sigmoid, tanh], "LSTM": [sigmoid, tanh, tanh]}[cell]
    for after in (True, False) if cell == "GRU" else (None,):
        options = {} if after is None else {"linear_before_reset": after}
        name = cell if after is None else f"{cell}, reset {'after' if after else 'before'} the product"
        for batch, hidden in _SIZES:
            rows = _GATES[cell] * hidden
            desc = (trained if training else forward)[cell](
                input_tensor=_tensor(dtype, 1, 2, batch, hidden),
                weight_tensor=_tensor(dtype, 1, 1, rows, hidden),
                recurrence_tensor=_tensor(dtype, 1, 1, rows, hidden),
                bias_tensor=_tensor(dtype, 1, 1, 1, 2 * rows),
                sequence_lengths_tensor=_tensor("UINT32", 1, 1, 1, batch),
                activation_descs=functions,
                direction="FORWARD",
                **options,
            )
            if not training:
                yield f"{name}, forward", desc.with_outputs("output_sequence_tensor", "output_single_tensor")
            else:
                desc = desc.with_outputs("output_sequence_tensor", "output_single_tensor", "reserve_tensor")
                yield f"{name}, training", desc
                yield f"{name}, gradients", desc.gradient()


def _convolutions(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """Wide images, and narrow ones with filters in blocks of two sizes, and windows of both strides over planes: their kernels differ."""
    dense = {"": (16, 32, 1, 1), ", narrow images": (32, 8, 1, 1), ", narrow images, 48 filters": (48, 8, 1, 1)}
    depthwise = {", depthwise": (16, 32, 16, 1), ", depthwise with a stride of 2": (16, 32, 16, 2)}
    for name, (filters, size, groups, stride) in (dense | depthwise).items():
        desc = ConvolutionDesc(
            input_tensor=_tensor(dtype, 1, 16, size, size),
            filter_tensor=_tensor(dtype, filters, 16 // groups, 3, 3),
            group_count=groups,
            start_padding=(1, 1),
            end_padding=(1, 1),
            strides=(stride, stride),
            dilations=(1, 1),
            output_padding=(0, 0),
        )
        yield f"CONVOLUTION{name}", desc.with_outputs()


def _poolings(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    sizes: dict[str, Any] = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)}
    source = _tensor(dtype, 1, 16, 32, 32)
    yield "MAX_POOLING", MaxPoolingDesc(input_tensor=source, **sizes).with_outputs()
    yield "AVERAGE_POOLING", AveragePoolingDesc(input_tensor=source, include_padding=False, **sizes).with_outputs()


def _elements(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """One kernel runs all element-wise operators and chains of them."""
    yield "element-wise operators", ActivationGeluDesc(input_tensor=_tensor(dtype, 1, 16, 32, 32)).with_outputs()


WORK: Mapping[str, Callable[[str, bool], Iterable[tuple[str, OperatorDesc]]]] = {
    "rnn": lambda dtype, training: _layers("RNN", dtype, training),
    "lstm": lambda dtype, training: _layers("LSTM", dtype, training),
    "gru": lambda dtype, training: _layers("GRU", dtype, training),
    "convolution": _convolutions,
    "pooling": _poolings,
    "elements": _elements,
}
"""The kinds of work that kernels can be compiled for, by name: a title and an operator that needs the kernels."""


def ahead(name: str) -> Device:
    """A GPU by its name or architecture; it need not be present.

    Raises:
        DeviceError: the name is unknown.
    """
    from dmlpy.devices.cuda.ahead import device_ahead

    return device_ahead(name)


def warm_up(names: Sequence[str] = (), *, device: Device | str = "cpu", dtype: str = "FLOAT32", training: bool = False) -> Iterator[Warmed]:
    """Compiles kernels for a device, and reports each kind of work when it is done.

    Args:
        names: names in `WORK`; none for all.
        device: `cpu`, a GPU, or an absent GPU (`devices.cuda.ahead`).
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
        plans = [compiler.compile(desc, on).plan.partition("\n")[0] for desc in descs]
        compiled, found = (now - then for now, then in zip(_counts(on), before, strict=True))
        outcome = [f"compiled {compiled}"] * (compiled > 0) + [f"found {found} on disk"] * (found > 0)
        if not outcome:
            can = on.memory_kind == "cuda" or plans[0] == "strategy: compiled"
            outcome = ["nothing more to compile" if can else plans[0]]
        yield Warmed(work, ", ".join(outcome), time.perf_counter() - started)


def _counts(device: Device) -> tuple[int, int]:
    """How many kernels this process has compiled for a device, and how many it found on disk."""
    if device.memory_kind == "cuda":
        library = _library(device)
        return len(library.compiled), len(library.keys) - len(library.compiled)
    from dmlpy.devices.cpu.jit import made

    compiled = sum(kernel.compiled for kernel in made)
    return compiled, len(made) - compiled


def _library(device: Device) -> KernelLibrary:
    from dmlpy.devices.cuda.device import CudaDevice

    assert isinstance(device, CudaDevice)
    return device.library


def warmed_table(found: Sequence[Warmed], device: Device | str = "cpu") -> Table:
    """The results as a table."""
    rows = tuple((item.work, item.outcome, f"{item.seconds:.2f} s") for item in found)
    on = find_device(device)
    name = f"device {on.name}" if on.memory_kind == "cpu" else f"{on.describe()['name']}"
    return Table(f"Kernels of the {name}", ("work", "kernels", "time"), rows)


def place() -> str:
    """Where the kernels are cached."""
    if ImageStore.open() is not None:
        return f"stored in {cache_directory()}"
    chosen = os.environ.get("DMLPY_CACHE_DIR")
    folder = f"DMLPY_CACHE_DIR is {chosen!r}, which is no" if chosen else "there is no"
    return f"not stored: {folder} folder that only the user can write to"


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
    by, size = " ".join(library.seam.compiler_version().split()[:2]), file.stat().st_size
    return f"{plural(count, 'kernel')} for sm_{library.limits.compute_capability} by {by} are in {file}, {size / 1e6:.2f} MB"
