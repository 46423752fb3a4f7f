"""Packed operands: matrices in blocks of units, the constants of a layer, and the columns of the gates' gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel
from dmlpy.devices.cpu.launches import Task, steal_timeout_of
from dmlpy.devices.cpu.recurrent.parameters import PackedMatrixParameters, PackingParameters
from dmlpy.devices.cpu.recurrent.schedule import Copy, copy
from dmlpy.devices.plan import PlanPart
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall
    from dmlpy.operators.recurrent.layer import RecurrentCell, RecurrentDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

PACKING = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_packing", 5, returns=True)
"""The packing of matrices in blocks of units: the instruction set."""

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
        found: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        for name, (units, terms, gates) in self._forms.items():
            blocks, fused = -(-units // self._isa.lanes), self.fused_gates.get(name, gates)
            sizes = (self._sizes.num_directions, blocks, gates // fused, terms, fused, self._isa.lanes)
            found.append((name, sizes, np.dtype(np.float32)))
        return found

    def bound(self, arrays: Arrays, packed: Arrays) -> tuple[HostCall, list[Task]]:
        """Binds the packing of the tensors of `arrays`: NumPy's copies, and compiled work if there is some, in any order."""
        matrices, copies, sums = self._packing(arrays, packed)
        computes = bool(sums) or any(isinstance(source, np.ndarray) and source.dtype != np.float32 for _, source in copies)

        def pack() -> None:
            with np.errstate(all="ignore") if computes else nullcontext():  # infinite biases of opposite signs, or NaN
                copy(copies)
                for target, first, second in sums:
                    np.add(first, second, target, casting="unsafe", dtype=np.float32)

        return pack, [bind_packing(matrices, self._isa)] if matrices else []

    def _units_terms_and_gates(self) -> dict[str, tuple[int, int, int]]:
        sizes, cell = self._sizes, self._cell
        hidden = sizes.hidden_size
        found = {
            "weights": (hidden, sizes.input_size, sizes.gates),
            "recurrence": (hidden, sizes.state_size, sizes.gates - cell.resets_first),
            "bias": (hidden, 1, sizes.gates),
        }
        if cell.resets_first:
            found["candidate"] = (hidden, hidden, 1)
        if cell.projection:
            found["projection"] = (sizes.state_size, hidden, 1)
        if cell.resets_last:
            found["hidden_bias"] = (hidden, 1, sizes.gates)
        if cell.peephole:
            found["peephole"] = (hidden, 1, 3)
        return found

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
            own = sizes.gates - cell.resets_last  # gates whose two biases are one sum
            sums.extend((a, b, c) for a, b, c in self._pieces("bias", packed, slice(own), bias[:, 0, :own], bias[:, 1, :own]))
            if cell.resets_last:
                put("bias", bias[:, 0, own:], slice(own, None))
                put("hidden_bias", bias[:, 1, own:], slice(own, None))
        if cell.peephole:
            put("peephole", arrays["peephole_tensor"][0, 0].reshape(sizes.num_directions, 3, sizes.hidden_size, 1))
        return matrices, copies, sums

    def _pieces(self, name: str, packed: Arrays, gates: slice, *sources: Array) -> list[tuple[Array, ...]]:
        """Yields equal parts of a packed array's gates and of [D, gates, units, terms] sources: whole blocks, then the remaining units."""
        found: list[tuple[Array, ...]] = []
        for part in range(packed[name].shape[2]):
            target = packed[name][:, :, part].transpose(0, 3, 1, 4, 2)[:, gates]  # [D, fused, blocks, lanes, terms]
            _, fused, _, lanes, _ = target.shape
            of_part = [source[:, part * fused : (part + 1) * fused] for source in sources]
            whole, left = divmod(sources[0].shape[2], lanes)
            full = [source[:, :, : whole * lanes].reshape(*source.shape[:2], whole, lanes, source.shape[3]) for source in of_part]
            found.append((target[:, :, :whole], *full))
            if left:
                found.append((target[:, :, whole, :left], *(source[:, :, whole * lanes :] for source in of_part)))
        return found


Gates = tuple[int, tuple[int, ...]]
"""The first block of H columns, and the gates of these blocks."""


class GateRange(NamedTuple):
    """Gates that enter one product.

    Attributes:
        columns: theirs among the gates' gradients.
        rows: theirs in the product's result, or in W.
        first: the number of the first one among those that multiply the same operand.
    """

    columns: slice
    rows: slice
    first: int


@dataclass(frozen=True)
class GateColumns:
    """The gates' gradients in a row: their gates, and the columns that enter the products.

    Attributes:
        hidden: H.
        gates: blocks of H columns.
        of_input: the first block that multiplies x and W, and the gates of these blocks.
        of_state: the first block that multiplies h[t-1] and R, and the gates of these blocks.
    """

    hidden: int
    gates: int
    of_input: Gates
    of_state: Gates

    @classmethod
    def of(cls, cell: RecurrentCell, hidden: int) -> GateColumns:
        """The columns of a cell: in the descs' order, but with q = r * da_h before z, r, h where the reset gate comes last."""
        if cell.resets_last:
            return cls(hidden, 4, (1, (0, 1, 2)), (0, (2, 0, 1)))
        gates = tuple(range(cell.gates))
        return cls(hidden, cell.gates, (0, gates), (0, gates))

    def parts(self, gates: Gates, *, each: bool, last: bool = False) -> list[GateRange]:
        """The parts of some gates.

        Args:
            gates: `of_input` or `of_state`.
            each: whether each gate has its own part, as with dropout.
            last: whether the last gate has its own part, because it multiplies another operand.
        """
        (first, which), hidden = gates, self.hidden
        count = len(which)
        bounds = range(count + 1) if each else [0, count - 1, count] if last else [0, count]
        return [
            GateRange(slice((first + begin) * hidden, (first + end) * hidden), slice(begin * hidden, end * hidden), begin)
            for begin, end in pairwise(bounds)
        ]
