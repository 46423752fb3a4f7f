"""PyTorch's GPU, played by PyTorch on the processor: streams and events do what they have to, and CUDA graphs are captured and replayed.

As on a GPU, what is captured is not computed: its results are NaN until the graph is replayed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dmlpy.bench.operators.libraries import TorchOperators
from tests.support.bench import gpu_suite


class _Recorder(TorchDispatchMode):
    """Notes every operation of a block."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, result))
        return result


def _tensors(values: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


class _CUDAGraph:
    """The operations that were captured."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def forget(self) -> None:
        """Overwrites what the operations made."""
        for _, args, kwargs, result in self.operations:
            given = {_memory(tensor) for tensor in _tensors((args, kwargs))}
            for tensor in _tensors(result):
                if _memory(tensor) not in given and tensor.is_floating_point():
                    tensor.detach().fill_(float("nan"))

    def replay(self) -> None:
        for func, args, kwargs, result in self.operations:
            for old, new in zip(_tensors(result), _tensors(func(*args, **kwargs)), strict=True):
                if _memory(old) != _memory(new):
                    old.detach().copy_(new)

    def pool(self) -> object:
        return object()


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self._at: float | None = None

    def record(self) -> None:
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        assert self._at is not None, "the event was not recorded"

    def elapsed_time(self, end: Event) -> float:
        assert self._at is not None
        assert end._at is not None
        return 1e3 * (end._at - self._at)


class _Stream:
    def wait_stream(self, other: _Stream) -> None:
        assert isinstance(other, _Stream)


class Cuda:
    """`torch.cuda`."""

    Event, Stream, CUDAGraph = Event, _Stream, _CUDAGraph

    def is_available(self) -> bool:
        return True

    def set_device(self, device: str) -> None:
        assert device.startswith("cuda:")

    def current_stream(self) -> _Stream:
        return _Stream()

    def stream(self, stream: _Stream) -> Any:
        return nullcontext()

    @contextmanager
    def graph(self, graph: _CUDAGraph, pool: object = None) -> Iterator[None]:
        with torch.no_grad(), _Recorder() as recorder:
            yield
        graph.operations = recorder.operations
        with torch.no_grad():
            graph.forget()

    def empty_cache(self) -> None:
        return None

    def reset_peak_memory_stats(self) -> None:
        return None

    def memory_allocated(self) -> int:
        return 0

    def max_memory_allocated(self) -> int:
        return 1


class FakeTorch:
    """The module, with another `cuda`."""

    cuda = Cuda()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class TorchOverFake(TorchOperators):
    """PyTorch on a GPU that is none."""

    @property
    def place(self) -> str:
        return "cpu"

    def _module(self) -> Any:
        return FakeTorch()


class SmallTorchOverFake(TorchOverFake):
    """The same over small rows, in a process of its own."""

    def __init__(self, device: str, threads: int) -> None:
        gpu_suite.shrink()
        super().__init__(device, threads)
