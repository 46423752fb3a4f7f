"""Rows of states and tensors: the samples that take each step, and the addresses of the rows in products over the steps of a block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Kernel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc

Array = np.ndarray[Any, np.dtype[Any]]

ROWS = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_rows", 9)
"""The kernel that finds the rows of all steps."""
ADDRESSES = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_addresses", 7)
"""The kernel that finds the addresses of rows."""
CLEARING = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_clearing", 10)
"""The kernel that writes zeros to the rows of samples that do not take a step: the instruction set."""
_INDEX = np.dtype(np.int64)
_TENSORS = ("sequence_lengths_tensor", "step_mask_tensor")

REPEATS, BLANK = 1, 2
"""The output of a sample that skips a step: the previous output, or zeros. 0 marks samples that take the step."""


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.ctypes.data)


def selects(tensors: Collection[str]) -> bool:
    """Returns whether samples may skip steps, by the names of the tensors that are present."""
    return any(name in tensors for name in _TENSORS)


class ActiveRows:
    """The order of the samples, and the rows of all steps, one step after the other.

    A step has the rows up to the last one that takes it. Where sequences end early, or begin late, the same number of rows take all steps
    up to their ends, so all of these rows take the step; masks with holes leave others, which are skipped one by one.

    Attributes:
        order: the sample of each row of a state, [B].
        bases: the number of rows before each step, [T + 1].
        rows: t * B + sample of each of the bases[T] rows; None if every sample takes all steps.
        skips: 0, REPEATS or BLANK of each step and sample, [T, B]; None without a mask.

    Args:
        steps: T.
        batch: B.
        tensors: the arrays by field; it reads the lengths, which may exceed T, and the step mask, if they are present.
        backward: whether the time loop goes from the last step to the first.
        scratch: the arrays that `scratch` names.
    """

    def __init__(self, steps: int, batch: int, tensors: Mapping[str, Array], backward: bool, scratch: Mapping[str, Array]) -> None:
        lengths, mask = (tensors.get(name) for name in _TENSORS)
        self._lengths, self._mask = None if lengths is None else lengths.reshape(-1), None if mask is None else mask[0, 0]
        self._steps, (self._given, self._counts) = steps, np.zeros((2, batch), _INDEX)
        if selects(tensors):
            self.order, self.bases = scratch["order"], scratch["bases"]
        else:
            self.order, self.bases = np.arange(batch, dtype=_INDEX), batch * np.arange(steps + 1, dtype=_INDEX)
        self.rows = scratch.get("rows")
        self.skips = scratch.get("skips")
        if self.rows is not None:
            arrays = (None if lengths is None else self._given, self.skips, self._counts, self.order, self.bases, self.rows)
            self._find = partial(ROWS(), steps, batch, int(backward), *map(_address, arrays))

    @staticmethod
    def scratch(steps: int, batch: int, tensors: Collection[str]) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The arrays of a launch: name, sizes and type of each."""
        shapes: dict[str, tuple[int, ...]] = {}
        if selects(tensors):
            shapes = {"order": (batch,), "bases": (steps + 1,), "rows": (steps * batch,)}
        if "step_mask_tensor" in tensors:
            shapes["skips"] = (steps, batch)
        return [(name, sizes, _INDEX) for name, sizes in shapes.items()]

    def update(self) -> None:
        """Reads the lengths and the mask."""
        if self.rows is None:
            return
        if self._lengths is not None:
            np.minimum(self._lengths, self._steps, out=self._given, casting="unsafe")
        if self._mask is not None and self.skips is not None:
            np.not_equal(self._mask, 0, out=self.skips)
        self._find()

    def clearing(self, values: Array, time: int) -> Callable[[], object]:
        """Returns the work that writes zeros to the rows of samples that do not take a step.

        Args:
            values: [steps, B, columns] of float32, whose last dimension is contiguous.
            time: that of their first step.
        """
        steps, batch, columns = values.shape
        places = (*map(_address, (self.order, self.bases, self.skips)), time, steps, values.ctypes.data, *values.strides[:2], columns)
        return partial(CLEARING(host_isa()), batch, *places)

    def fill_idle(self, values: Array, begin: int, value: float) -> None:
        """Sets the rows among [rows, ...] that skip their step to a value; the first is row `begin` of all."""
        if self.rows is not None and self.skips is not None:
            values[self.skips.reshape(-1)[self.rows[begin : begin + len(values)]] != 0] = value


RowGather = Callable[[Array | None, int], object]
"""Work on the rows of a block: all of them, or those at the given numbers. The second argument is the first row's number among all."""


class Rows(NamedTuple):
    """A matrix, or one with as many columns and the addresses of the rows."""

    matrix: Array
    addresses: Array | None = None


def has_rows(tensor: TensorDesc) -> bool:
    """Returns whether kernels read, or write, the rows of a tensor in place: contiguous float32 rows."""
    return tensor.data_type.numpy == np.float32 and (tensor.element_strides[-1] == 1 or tensor.sizes[-1] == 1)


def in_place(rows: Array, active: ActiveRows, gathers: list[RowGather]) -> Rows:
    """The rows of a block in place: as a matrix, or by their addresses if they form none or some are left out.

    Args:
        rows: [steps, batch, columns] of float32, whose last dimension is contiguous. For samples that skip their step
            a row of zeros is read, whose values may change if it is written.
        active: the active rows.
        gathers: the work that finds the addresses is appended.
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
        target: the matrix, float32 [steps * batch, columns]; the copy is appended to `gathers`.
        active: the active rows.
        gathers: the work before the products.
    """
    batch = rows.shape[1]

    def gather(taken: Array | None, begin: int) -> None:
        if taken is None:
            target[: len(rows) * batch].reshape(rows.shape)[...] = rows
        else:
            found = target[: len(taken)]
            found[...] = rows[taken // batch, taken % batch]
            active.fill_idle(found, begin, 0.0)  # the input of a skipped step may be NaN

    gathers.append(gather)
    return Rows(target)


def matrix_of(rows: Array) -> Array | None:
    """[steps, batch, columns] as [steps * batch, columns], in place; None if the strides do not allow that."""
    matrix = rows.reshape(-1, rows.shape[-1])
    return matrix if np.may_share_memory(matrix, rows) else None
