"""The packed constants of a recurrent layer for compiled time loops: matrices, biases and peepholes in blocks of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.recurrent.packing import PackedMatrix, bind_packing, is_packable
from dmlpy.devices.cpu.recurrent.schedule import Copy, copy

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall, Task
    from dmlpy.operators.recurrent.layer import RecurrentDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


class Constants:
    """The constants of all directions, as `parameters.PARAMETERS` describes them.

    A matrix is [D, blocks, parts, terms, together, lanes]: the gates that are summed together are a part. With dropout each is one by
    itself, for its factors are its own.

    Attributes:
        fused: for each matrix of several gates, how many gates a part has.

    Args:
        desc: a checked desc.
        isa: that whose lanes the blocks have.
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
        """Binds what packs the tensors of `arrays`: what NumPy copies, and a compiled part, if there is one, in any order."""
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
        """The compiled packing, the copies, and the sums of two, that arrange constants [D, gates, units, terms] in blocks of units."""
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
            target = packed[name][:, :, part].transpose(0, 3, 1, 4, 2)[:, gates]  # [D, together, blocks, lanes, terms]
            _, fused, _, lanes, _ = target.shape
            of_part = [source[:, part * fused : (part + 1) * fused] for source in sources]
            whole, left = divmod(sources[0].shape[2], lanes)
            full = [source[:, :, : whole * lanes].reshape(*source.shape[:2], whole, lanes, source.shape[3]) for source in of_part]
            found.append((target[:, :, :whole], *full))
            if left:
                found.append((target[:, :, whole, :left], *(source[:, :, whole * lanes :] for source in of_part)))
        return found
