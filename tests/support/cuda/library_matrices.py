"""Arrays in host memory as the matrices of a library of products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.devices.cuda.runtime.interface import Matrix

Array = np.ndarray[Any, np.dtype[Any]]


def matrix(rows: Array, columns: int, transposed: bool = False) -> Matrix:
    """The first columns of a row-major array, or their transpose."""
    sizes = (columns, len(rows)) if transposed else (len(rows), columns)
    return Matrix(rows.ctypes.data, *sizes, rows.shape[1], rows.dtype, transposed)


def operand(rng: np.random.Generator, rows: int, columns: int, dtype: Any, transposed: bool) -> tuple[Array, Matrix]:
    """A random matrix, and where it lies; its rows, or the rows of its transpose, have gaps."""
    sizes = (columns, rows + 2) if transposed else (rows, columns + 1)
    memory = rng.standard_normal(sizes).astype(dtype)
    stored = memory[:, :-2] if transposed else memory[:, :-1]
    return stored.T if transposed else stored, matrix(memory, stored.shape[1], transposed)
