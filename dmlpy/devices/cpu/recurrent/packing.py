"""Operands of a recurrence: matrices in blocks of units, the constants of a layer, and the rows of the samples that take each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel
from dmlpy.devices.cpu.launches import Task, steal_timeout_of
from dmlpy.devices.cpu.recurrent.parameters import PackedMatrixParameters, PackingParameters
from dmlpy.devices.cpu.recurrent.schedule import Copy, copy
from dmlpy.devices.host.floating_point import without_warnings
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import PlanPart

if TYPE_CHECKING:
    from collections.abc import Collection

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall
    from dmlpy.operators.recurrent.layer import RecurrentDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

PACKING = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_packing", 5, returns=True)
"""The packing of matrices in blocks of units: the instruction set."""

ROWS = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_rows", 9)
"""The kernel that finds the rows of all steps."""
ADDRESSES = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_addresses", 7)
"""The kernel that finds the addresses of rows."""
CLEARING = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_clearing", 10)
"""The kernel that writes zeros to the rows of samples that do not take a step: the instruction set."""

_FLOATS_OF_A_THREAD = 1 << 17
"""Floats that are worth waking another thread for: a few tens of microseconds."""


class PackedMatrix(NamedTuple):
    """A matrix and its place: target[block][term][gate][lane] is that of the unit block * lanes + lane, or 0 past the last unit.

    Attributes:
        source: [gates, units, terms], or [terms, units] for one gate with contiguous units; see `is_packable`.
        target: [blocks, terms, gates, lanes]; for [terms, units] [blocks, terms, lanes], where lanes may be those of several
            vectors.
            Only the blocks may have gaps between them.
    """

    source: Array
    target: Array


def is_packable(source: Array) -> bool:
    """Returns whether an array is one of float32 whose rows are contiguous; others are copied by NumPy."""
    return source.dtype == np.float32 and (source.strides[-1] == FLOAT_BYTES or source.shape[-1] == 1)


def bind_packing(matrices: Sequence[PackedMatrix], isa: Isa) -> Task:
    """Binds the packing of some matrices, as a part of a launch.

    Args:
        matrices: one or more matrices.
        isa: the instruction set whose lanes the blocks have.
    """
    records = np.zeros(len(matrices), PackedMatrixParameters.dtype)
    for record, (source, target) in zip(records, matrices, strict=True):
        transposed = source.ndim == 3
        record["transposed"], record["terms"] = transposed, source.shape[-1] if transposed else source.shape[0]
        record["units"] = source.shape[1]
        record["gates"], record["source_gate"] = (source.shape[0], source.strides[0]) if transposed else (1, 0)
        record["vectors"] = 1 if transposed else target.shape[-1] // isa.lanes
        record["source"], record["source_row"] = source.ctypes.data, source.strides[-2]
        record["target"], record["target_block"] = target.ctypes.data, target.strides[0]
    blocks = max(len(target) for _, target in matrices)
    tiles, floats = len(matrices) * blocks, sum(source.size for source, _ in matrices)
    values = {
        "tiles": tiles,
        "blocks": blocks,
        "matrices": records.ctypes.data,
        "acquire": ACQUIRE.address(),
        "steal_timeout": steal_timeout_of(floats // tiles),
    }
    parameters = PackingParameters.make(values)
    threads = max(1, min(available_threads(), floats // _FLOATS_OF_A_THREAD))
    return Task(PACKING.address(isa), parameters.ctypes.data, 1, tiles, threads, False, (parameters, records, matrices))


class Constants(PlanPart):
    """The constants of all directions, as `parameters.LayerParameters` describes them.

    A matrix is [D, blocks, parts, terms, fused, lanes]: the gates whose sums stay in registers at once are a part. With dropout each gate
    is a part, since it has its own factors.

    Attributes:
        fused_gates: for each matrix of several gates, the number of gates of a part.

    Args:
        desc: a checked desc.
        isa: the instruction set whose lanes the blocks have.
    """

    def __init__(self, desc: RecurrentDesc, isa: Isa) -> None:
        self._sizes, self._cell, self._isa = desc.geometry, desc.cell, isa
        dropped = {"weights": "input_dropout_tensor", "recurrence": "state_dropout_tensor"}
        self._forms = self._units_terms_and_gates()
        self.fused_gates = {
            name: 1 if tensor in desc.tensors() else isa.fused_gates(self._forms[name][2], self._sizes.batch_size)
            for name, tensor in dropped.items()
        }

    def arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """Name, sizes and type of each array."""
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        for name, (units, terms, gates) in self._forms.items():
            blocks, fused = -(-units // self._isa.lanes), self.fused_gates.get(name, gates)
            sizes = (self._sizes.num_directions, blocks, gates // fused, terms, fused, self._isa.lanes)
            arrays.append((name, sizes, np.dtype(np.float32)))
        return arrays

    def bound(self, arrays: Arrays, packed: Arrays) -> tuple[HostCall, list[Task]]:
        """Binds the packing of the tensors of `arrays`: NumPy's copies, and compiled work if there is some, in any order."""
        matrices, copies, sums = self._packing(arrays, packed)
        computes = bool(sums) or any(isinstance(source, np.ndarray) and source.dtype != np.float32 for _, source in copies)

        def pack() -> None:
            copy(copies)
            for target, first, second in sums:
                np.add(first, second, target, casting="unsafe", dtype=np.float32)

        # There may be infinite biases of opposite signs, or NaN.
        return partial(without_warnings, pack) if computes else pack, [bind_packing(matrices, self._isa)] if matrices else []

    def _units_terms_and_gates(self) -> dict[str, tuple[int, int, int]]:
        sizes, cell = self._sizes, self._cell
        hidden = sizes.hidden_size
        shapes = {
            "weights": (hidden, sizes.input_size, sizes.gates),
            "recurrence": (hidden, sizes.state_size, sizes.gates - cell.resets_first),
            "bias": (hidden, 1, sizes.gates),
        }
        if cell.resets_first:
            shapes["candidate"] = (hidden, hidden, 1)
        if cell.projection:
            shapes["projection"] = (sizes.state_size, hidden, 1)
        if cell.resets_last:
            shapes["hidden_bias"] = (hidden, 1, sizes.gates)
        if cell.peephole:
            shapes["peephole"] = (hidden, 1, 3)
        return shapes

    def _packing(self, arrays: Arrays, packed: Arrays) -> tuple[list[PackedMatrix], list[Copy], list[tuple[Array, Array, Array]]]:
        """The compiled packing, the copies, and the sums of biases, which arrange constants [D, gates, units, terms] in blocks of units."""
        sizes, cell = self._sizes, self._cell
        matrices: list[PackedMatrix] = []
        copies: list[Copy] = []
        sums: list[tuple[Array, Array, Array]] = []

        def put(name: str, source: Array, gates: slice = slice(None)) -> None:
            copies.extend((target, piece) for target, piece in self._pieces(name, packed, gates, source))

        by_gate = (sizes.num_directions, sizes.gates, sizes.hidden_size, -1)
        recurrence = arrays["recurrence_tensor"][0].reshape(by_gate)
        given = {
            "weights": arrays["weight_tensor"][0].reshape(by_gate),
            "recurrence": recurrence[:, : sizes.gates - cell.resets_first],
        }
        if cell.resets_first:
            given["candidate"] = recurrence[:, -1:]
        if cell.projection:
            given["projection"] = arrays["projection_tensor"][0][:, None]
        compiled = [name for name, source in given.items() if is_packable(source)]
        for name, (units, _, _) in self._forms.items():
            if name not in compiled and (units % self._isa.lanes or "bias" in name):
                copies.append((packed[name], 0.0))
        for name, source in given.items():
            if name not in compiled:
                put(name, source)
            else:
                fused = self.fused_gates.get(name, source.shape[1])
                for d, part in np.ndindex(sizes.num_directions, source.shape[1] // fused):
                    of_part = source[d, part * fused : (part + 1) * fused]
                    matrices.append(PackedMatrix(of_part, packed[name][d, :, part]))
        if "bias_tensor" in arrays:
            bias = arrays["bias_tensor"][0, 0].reshape(sizes.num_directions, 2, sizes.gates, sizes.hidden_size, 1)
            joined = sizes.gates - cell.resets_last  # gates whose two biases are one sum
            sums.extend((a, b, c) for a, b, c in self._pieces("bias", packed, slice(joined), bias[:, 0, :joined], bias[:, 1, :joined]))
            if cell.resets_last:
                put("bias", bias[:, 0, joined:], slice(joined, None))
                put("hidden_bias", bias[:, 1, joined:], slice(joined, None))
        if cell.peephole:
            put("peephole", arrays["peephole_tensor"][0, 0].reshape(sizes.num_directions, 3, sizes.hidden_size, 1))
        return matrices, copies, sums

    def _pieces(self, name: str, packed: Arrays, gates: slice, *sources: Array) -> list[tuple[Array, ...]]:
        """Yields equal parts of a packed array's gates and of [D, gates, units, terms] sources: whole blocks, then the remaining units."""
        pieces: list[tuple[Array, ...]] = []
        for part in range(packed[name].shape[2]):
            target = packed[name][:, :, part].transpose(0, 3, 1, 4, 2)[:, gates]  # [D, fused, blocks, lanes, terms]
            _, fused, _, lanes, _ = target.shape
            of_part = [source[:, part * fused : (part + 1) * fused] for source in sources]
            whole, left = divmod(sources[0].shape[2], lanes)
            full = [source[:, :, : whole * lanes].reshape(*source.shape[:2], whole, lanes, source.shape[3]) for source in of_part]
            pieces.append((target[:, :, :whole], *full))
            if left:
                pieces.append((target[:, :, whole, :left], *(source[:, :, whole * lanes :] for source in of_part)))
        return pieces


_INDEX = np.dtype(np.int64)
_TENSORS = ("sequence_lengths_tensor", "step_mask_tensor")


def _address_of(array: Array | None) -> int:
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
            self._find = partial(ROWS(), steps, batch, int(backward), *map(_address_of, arrays))

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
        places = (*map(_address_of, (self.order, self.bases, self.skips)), time, steps, values.ctypes.data, *values.strides[:2], columns)
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
    """Returns whether products read, or write, the rows of a tensor in place: contiguous float32 rows."""
    return tensor.data_type.numpy == np.float32 and has_contiguous_rows(tensor)


def has_contiguous_rows(tensor: TensorDesc) -> bool:
    """Returns whether the elements of each row of a tensor lie side by side."""
    return tensor.element_strides[-1] == 1 or tensor.sizes[-1] == 1


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
        located = addresses if taken is None else addresses[: len(taken)]
        locate(0 if taken is None else taken.ctypes.data, len(located), batch, start, step, sample, target)
        active.fill_idle(located, begin, instead.ctypes.data)

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
            gathered = target[: len(taken)]
            gathered[...] = rows[taken // batch, taken % batch]
            active.fill_idle(gathered, begin, 0.0)  # the input of a skipped step may be NaN

    gathers.append(gather)
    return Rows(target)


def matrix_of(rows: Array) -> Array | None:
    """[steps, batch, columns] as [steps * batch, columns], in place; None if the strides do not allow that."""
    matrix = rows.reshape(-1, rows.shape[-1])
    return matrix if np.may_share_memory(matrix, rows) else None
