"""Matrix products by NumPy's BLAS, bound to their arrays once.

BLAS copies the matrices of a product into the order in which it reads them, which takes much of its time if a matrix of
weights multiplies few samples. OpenBLAS on a processor with AVX-512 skips the copies if a product is small. There a larger one is computed
some rows at a time, each piece on one thread: that is as fast as the processor multiplies, and leaves the other cores to other recurrences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[], object]

_SMALL = 1_000_000
"""Multiplications of the largest product that OpenBLAS computes without copying its matrices."""
_FEWEST_ROWS = 4
"""Rows of a small product below which OpenBLAS takes longer than with copies."""
_AVX512 = {"X86_V4", "AVX512_SKX"}
"""NumPy's names for the processor's AVX-512, the newer one first."""


@cache
def small_products_are_direct() -> bool:
    """Returns whether NumPy's BLAS multiplies small matrices without packing them, as OpenBLAS does on processors with AVX-512."""
    config: Any = np.show_config(mode="dicts")
    name = config.get("Build Dependencies", {}).get("blas", {}).get("name", "")
    extensions = config.get("SIMD Extensions", {}).get("found", [])
    return "openblas" in name and not _AVX512.isdisjoint(extensions)


def rows_at_once(entries: int, columns: int) -> int:
    """The rows of a matrix with this many columns whose product with [entries, columns] is small: a power of two, or 0."""
    most = _SMALL // (entries * columns)
    return 1 << most.bit_length() - 1 if most else 0


def products_are_direct(entries: int, columns: int) -> bool:
    """Returns whether products with [entries, columns] are fastest a few rows at a time."""
    return small_products_are_direct() and rows_at_once(entries, columns) >= _FEWEST_ROWS


def is_matrix(tensor: TensorDesc) -> bool:
    """Returns whether BLAS can read the [T * B, I] elements of a tensor [1, T, B, I] in place."""
    _, steps, batch, width = tensor.sizes
    _, step_stride, row_stride, stride = tensor.element_strides
    if batch == 1:
        row_stride = step_stride if steps > 1 else width
    rows_regular = steps == 1 or batch == 1 or step_stride == batch * row_stride
    return tensor.data_type.numpy == COMPUTE and stride == 1 and rows_regular and row_stride >= width


def product(matrix: Array, state: Array, out: Array, *, direct: bool) -> Call:
    """Binds out = matrix @ state.

    Args:
        matrix: [rows, entries], or transposed for a single column.
        state: [entries, columns].
        out: [rows, columns].
        direct: whether to multiply some rows at a time.
    """
    if state.shape[1] == 1:
        return partial(np.dot, state.reshape(-1), matrix, out.reshape(-1))
    return direct_product(matrix, state, out) if direct else partial(np.dot, matrix, state, out)


def direct_product(matrix: Array, operand: Array, out: Array) -> Call:
    """Binds out = matrix @ operand, a few rows of all matrices at a time.

    Args:
        matrix: [rows, entries], or with the leading axes of `out`.
        operand: [..., entries, columns].
        out: [..., rows, columns].
    """
    rows, entries = matrix.shape[-2:]
    size = min(rows_at_once(entries, operand.shape[-1]) or rows, rows)
    if size == rows:
        return partial(np.matmul, matrix, operand, out)
    whole = rows - rows % size
    # The same rows of all products come one after the other, while they are in cache: NumPy's loops follow the axes' order.
    pieces = partial(np.matmul, _pieces(matrix, size, whole, out.ndim), operand, _pieces(out, size, whole, out.ndim), order="C")
    if whole == rows:
        return pieces
    rest = partial(np.matmul, matrix[..., whole:, :], operand, out[..., whole:, :])

    def multiply() -> None:
        pieces()
        rest()

    return multiply


def _pieces(array: Array, size: int, whole: int, axes: int) -> Array:
    """The first rows of [..., rows, columns] as [pieces, ..., size, columns], with this many axes after the first."""
    pieces = array[..., :whole, :].reshape(*array.shape[:-2], -1, size, array.shape[-1])
    pieces = np.moveaxis(pieces, -3, 0)
    return pieces.reshape(len(pieces), *(1,) * (axes + 1 - pieces.ndim), *pieces.shape[1:])
