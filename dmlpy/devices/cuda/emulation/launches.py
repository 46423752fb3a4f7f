"""Launches on the CPU: kernels, the files of their images, grids whose blocks run at the same time, and the pointers in an argument."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlpy.devices.cuda.emulation.compiler import SharedKernel, cache_directory
from dmlpy.devices.cuda.runtime.interface import NotResidentError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass
class CpuFunction:
    """A kernel that can be launched: in this process, or as a program under sanitizers."""

    kernel: SharedKernel | Path
    shared_bytes: int

    @property
    def static_shared_bytes(self) -> int:
        return self.kernel.static_shared_bytes if isinstance(self.kernel, SharedKernel) else 0


class MultiprocessorCounts(Protocol):
    """The counts of its runtime that a cooperative launch reads: the multiprocessors that are left, and the counts of calls by name."""

    left: int
    counts: Counter[str]


@dataclass
class CooperativeLaunch:
    """A launch whose blocks run at the same time, `per_multiprocessor` of them on each."""

    run: Callable[[], object]
    blocks: int
    per_multiprocessor: int

    def __call__(self) -> None:
        self.run()

    def check(self, runtime: MultiprocessorCounts) -> None:
        """Raises NotResidentError where not enough multiprocessors are left. The driver does not report how many blocks would fit."""
        if self.blocks > self.per_multiprocessor * runtime.left:
            runtime.counts["refused"] += 1
            raise NotResidentError.of(self.blocks)


def file_of(image: bytes) -> Path:
    """A file in the cache that holds the image."""
    path = cache_directory() / hashlib.sha256(image).hexdigest()
    if not path.exists():
        unfinished = path.with_suffix(f".{threading.get_ident()}")
        unfinished.write_bytes(image)
        unfinished.chmod(0o700)
        unfinished.replace(path)
    return path


def pointer_offsets(data_type: np.dtype[Any], start: int = 0) -> Iterator[int]:
    """The offsets of a struct's pointers, 8-byte unsigned integers; nested structs and arrays included."""
    if data_type.subdtype is not None:
        element, sizes = data_type.subdtype
        for index in range(int(np.prod(sizes))):
            yield from pointer_offsets(element, start + index * element.itemsize)
    elif data_type.fields is not None:
        for inner in data_type.fields.values():
            yield from pointer_offsets(inner[0], start + inner[1])
    elif data_type == np.uint64:
        yield start
