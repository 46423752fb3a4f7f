"""Rows of tensors as operands of products over the steps of a block: where they lie, or copied beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.recurrent.rows import ADDRESSES

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.recurrent.rows import ActiveRows

Array = np.ndarray[Any, np.dtype[Any]]
RowGather = Callable[[Array | None, int], object]
"""Work on the rows of a block: all of them, or those at the given numbers. The second argument is the first row's number among all."""


class Rows(NamedTuple):
    """A matrix, or one with as many columns and the addresses of the rows."""

    matrix: Array
    addresses: Array | None = None


def has_rows(tensor: TensorDesc) -> bool:
    """Returns whether kernels read, or write, the rows of a tensor where they lie: those of contiguous float32."""
    return tensor.data_type.numpy == np.float32 and (tensor.element_strides[-1] == 1 or tensor.sizes[-1] == 1)


def in_place(rows: Array, active: ActiveRows, gathers: list[RowGather]) -> Rows:
    """The rows of a block where they lie: as a matrix, or by their addresses where they are not one, or where some are left out.

    Args:
        rows: [steps, batch, columns] of float32, whose last dimension is contiguous. In place of the rows of samples that skip their step
            a row of zeros is read, whose values may change if it is written.
        active: which rows there are.
        gathers: what finds the addresses is added to it.
    """
    matrix = matrix_of(rows)
    if matrix is not None and active.rows is None:
        return Rows(matrix)
    batch, (step, sample) = rows.shape[1], rows.strides[:2]
    addresses, instead = np.zeros(len(rows) * batch, np.int64), np.zeros(rows.shape[-1], np.float32)
    locate, start, target = ADDRESSES(), rows.ctypes.data, addresses.ctypes.data

    def find(taken: Array | None, begin: int) -> None:
        found = addresses if taken is None else addresses[: len(taken)]
        locate(0 if taken is None else taken.ctypes.data, len(found), batch, start, step, sample, target)
        active.fill_idle(found, begin, instead.ctypes.data)

    gathers.append(find)
    return Rows(rows[0], addresses)


def copied(rows: Array, target: Array, active: ActiveRows, gathers: list[RowGather]) -> Rows:
    """The rows [steps, batch, columns] of a block, copied to a matrix.

    Args:
        rows: the rows.
        target: the matrix, float32 [steps * batch, columns]; what copies them is added to `gathers`.
        active: which rows there are.
        gathers: the work before the products.
    """
    batch = rows.shape[1]

    def gather(taken: Array | None, begin: int) -> None:
        if taken is None:
            target[: len(rows) * batch].reshape(rows.shape)[...] = rows
        else:
            found = target[: len(taken)]
            found[...] = rows[taken // batch, taken % batch]
            active.fill_idle(found, begin, 0.0)  # what a skipped step reads may be no number

    gathers.append(gather)
    return Rows(target)


def matrix_of(rows: Array) -> Array | None:
    """[steps, batch, columns] as [steps * batch, columns], in place; None if the strides do not allow that."""
    matrix = rows.reshape(-1, rows.shape[-1])
    return matrix if np.may_share_memory(matrix, rows) else None
