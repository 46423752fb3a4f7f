"""Weights that leave memory once a device has packed them.

A device packs the weights of products in an order of its own, and reads these copies alone from then on. The elements as the model's file
has them are freed meanwhile: where another device, another size or a comparison needs them, they are read from the file again.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dmlpy.messages.problems import DescError, Problem
from dmlpy.system import files, forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dmlpy.onnx.loading.values import Array

LEAST_STORED = 1 << 16
"""The least bytes of a weight that is worth freeing."""
CAN_READ_AGAIN = hasattr(os, "preadv") and sys.byteorder == "little"
"""Whether the system reads at a place of an open file, and lets others delete it, which Windows does not; and reads numbers as files have
them."""
_ALIGNMENT = 64
_SHARE_OF_DESCRIPTORS = 4
"""At most one of this many of the files that the process may open is a model's: where there are more, their weights stay in memory."""


def aligned_bytes(count: int) -> Array:
    """Room for bytes, aligned as devices align theirs, so that they can read it as it is."""
    room = np.empty(count + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + count]


class WeightFile:
    """A file that weights are read from again. It is held open, so it may be deleted or replaced meanwhile, but not overwritten.

    Args:
        path: the file, for messages.
        file: the same file, open.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._name = path.name
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._written = self._last_written()
        _open_files.add(self)

    @classmethod
    def of(cls, path: Path, file: BinaryIO) -> WeightFile | None:
        """An open file; None where it cannot be held open, or so many are that the process should be left the rest."""
        if not CAN_READ_AGAIN or len(_open_files) >= _most_open_files():
            return None
        with suppress(OSError):
            return cls(path, file)
        return None

    @classmethod
    def opened(cls, path: Path) -> WeightFile | None:
        """Opens a file and returns `of` it; None also if it cannot be opened."""
        with suppress(OSError), files.opened(path) as file:
            return cls.of(path, file)
        return None

    def read(self, name: str, offset: int, count: int) -> Array:
        """Bytes of the file.

        Raises:
            DescError: the file has changed since it was opened, or cannot be read, or there is no memory for them.
        """
        at = 0
        try:
            data = aligned_bytes(count)
            while at < count and (step := os.preadv(self._descriptor, [data[at:].data], offset + at)):
                at += step
        except MemoryError:
            raise self._error(name, f"{count} bytes, more than there is memory") from None
        except OSError as error:
            raise self._error(name, error.strerror or str(error)) from None
        if at < count or self._last_written() != self._written:
            raise self._error(name, "overwritten since the model was loaded")
        data.flags.writeable = False
        return data

    def _last_written(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def _error(self, name: str, found: str) -> DescError:
        why = ("a weight is read again where a device packs it once more",)
        remedy = "load the model again; a file that takes its place under the same name is not a change"
        return DescError(self._name, [Problem("onnx.file", name, found, "the file as it was loaded", why, remedy)])


_open_files: weakref.WeakSet[WeightFile] = weakref.WeakSet()


def _most_open_files() -> int:
    import resource  # not on Windows

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most // _SHARE_OF_DESCRIPTORS


class StoredWeight:
    """A weight of a model's file, in the place of its array. Thread-safe.

    Whoever reads `elements` has an array that stays while it is used. All that an array has besides its size is that of `pinned`, after
    which the weight is never freed.

    Args:
        name: its name in the model.
        shape: its sizes.
        dtype: the type of its elements.
        read: reads its bytes from the file.
        data: these bytes, if they are in memory.
        on_pinned: called with the array that stays.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        read: Callable[[], Array],
        data: Array | None,
        on_pinned: Callable[[Array], None],
    ) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.ndim, self.size = len(shape), int(np.prod(shape))
        self.nbytes = self.size * dtype.itemsize
        self._read, self._on_pinned = read, on_pinned
        self._lock = forks.lock()
        self._is_pinned = False
        self._elements = None if data is None else self._array(data)
        self._known: Callable[[], Array | None] = (lambda: None) if self._elements is None else weakref.ref(self._elements)

    @property
    def elements(self) -> Array:
        """The elements, read from the file unless they are in memory.

        Raises:
            DescError: the file has changed.
        """
        with self._lock:
            return self._found()

    def pinned(self) -> Array:
        """The elements, which stay in memory from now on."""
        with self._lock:
            elements = self._elements = self._found()
            if not self._is_pinned:
                self._is_pinned = True
                self._on_pinned(elements)
            return elements

    def release(self) -> None:
        """Frees the elements unless something else refers to them, or they are pinned."""
        with self._lock:
            if not self._is_pinned:
                self._elements = None

    def _found(self) -> Array:
        elements = self._elements if self._elements is not None else self._known()
        if elements is None:
            elements = self._array(self._read())
            self._known = weakref.ref(elements)
        return elements

    def _array(self, data: Array) -> Array:
        return data.view(self.dtype).reshape(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.elements,)  # a pickle and a copy are arrays

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.pinned(), dtype, copy=copy)

    def __getitem__(self, key: Any) -> Any:
        return self.pinned()[key]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.pinned())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols, which code probes for
            raise AttributeError(name)
        return getattr(self.pinned(), name)


def elements_of(array: Array | StoredWeight) -> Array:
    """The array, or the elements of a stored weight, which may be freed when they are not used any more."""
    return array.elements if isinstance(array, StoredWeight) else array


def pinned_elements(array: Array | StoredWeight) -> Array:
    """The array, or the elements of a stored weight, which stay in memory."""
    return array.pinned() if isinstance(array, StoredWeight) else array


def all_elements(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The result of `elements_of` for each array."""
    return {name: elements_of(array) for name, array in arrays.items()}
