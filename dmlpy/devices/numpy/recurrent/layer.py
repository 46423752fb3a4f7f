"""RNN, LSTM and GRU in NumPy: one time loop for all three.

`recurrence` has the time loop, `division` divides the work among threads.

All arrays are views of memory laid out when the plan is made and built when it is bound. A launch calls ufuncs with outputs given and
allocates nothing. Arithmetic, gates and states are in the compute type; FLOAT16 is converted on reading and rounded once on writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.host.blas import WORK_OF_A_THREAD, with_limited_blas
from dmlpy.devices.host.threads import available_threads, share
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.numpy.recurrent.cells import Array, Arrays, Call, packed_gates
from dmlpy.devices.numpy.recurrent.division import division_of
from dmlpy.devices.numpy.recurrent.recurrence import Form, Recurrence
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, arrays_of, packing_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.operators.recurrent.layer import RecurrentDesc


_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 19
"""Bytes of input products that one chunk of steps holds: half of a core's second-level cache, or less."""


def _typed(shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any]) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
    return [(name, sizes, dtype) for name, sizes in shapes.items()]


class RecurrentPlan(Plan):
    """RNN, LSTM or GRU on the host.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: RecurrentDesc) -> None:
        self._desc, self._sizes, self._tensors = desc, desc.geometry, desc.tensors()
        self._division = division_of(self._sizes, len(packed_gates(desc.cell)), available_threads())
        batches = self._division.batches
        self._form = Form(desc, self._division.direct, max(batches), _CHUNK_BYTES)
        self._packed = Layout(self._packed_arrays(), _ALIGNMENT)
        self._scratch = {batch: self._scratch_of(batch) for batch in batches}
        self._recurrence_scratch_size = max(layout.size for layout in self._scratch.values())
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._recurrence_scratch_size * self._division.threads
        self.temporary_size = self.persistent_size + self.prepared_temporary_size

    def describe(self) -> str:
        sizes = self._sizes
        product = "h @ R.T, R stored transposed" if sizes.batch_size == 1 else "R @ h, states stored [hidden, batch]"
        if self._form.direct:
            product += ", some rows at a time"
        reading = "read in place" if self._form.reads_input_directly else f"copied to {COMPUTE} a chunk at a time"
        recurrences, threads = len(self._division.recurrences), self._division.threads
        shared = f"{recurrences} recurrences of up to {max(self._scratch)} samples on {threads} threads"
        lines = [
            f"NumPy, {COMPUTE} arithmetic; {sizes.num_directions} direction(s), {'one after the other' if threads == 1 else shared}",
            f"input product: {self._form.chunk_steps} of {sizes.seq_length} steps at a time, input {reading}",
            f"step: {product}; {len(self._form.gates)} gate(s) as flat arrays, in place",
        ]
        return "\n".join(lines)

    @property
    def packing(self) -> Hashable:
        form = self._form
        signs = tuple(form.changes_sign(direction) for direction in range(self._sizes.num_directions))
        return packing_of(self._desc, self.constants, self._packed), tuple(form.gates), frozenset(form.transposed), signs

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        work = self._pack(arrays_of(self._tensors, constants), self._packed.arrays_at(persistent))

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                work()

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes and types."""
        threads = self._division.threads
        if persistent is None:
            packed, scratch = self._packed.arrays_at(temporary), temporary + self.persistent_size
            pack: Call | None = self._pack(arrays, packed)
        else:
            packed, scratch, pack = self._packed.arrays_at(persistent), temporary, None
        shares: list[list[Call]] = [[] for _ in range(threads)]
        for at, (direction, samples) in enumerate(self._division.recurrences):
            layout = self._scratch[samples.stop - samples.start]
            of_thread = layout.arrays_at(scratch + at % threads * self._recurrence_scratch_size)
            shares[at % threads].append(Recurrence(self._form, direction, samples, arrays, packed, of_thread).bound())

        def run(some: list[Call], thread: int) -> None:
            for call in some:
                call()

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                if pack is not None:
                    pack()
                if threads == 1:
                    run(shares[0], 0)
                else:
                    share(run, shares, threads)

        return with_limited_blas(launch, self._largest_product())

    def _largest_product(self) -> int:
        """The multiplications of the largest product of a recurrence; of several concurrent ones each is worth one thread at most."""
        sizes, form, batch = self._sizes, self._form, max(self._scratch)
        rows = len(form.gates) * sizes.hidden_size
        largest = rows * batch * max(sizes.input_size * form.chunk_steps, sizes.hidden_size)
        return largest if self._division.threads == 1 else min(largest, WORK_OF_A_THREAD)

    # layout

    def _packed_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        directions, width, hidden = self._sizes.num_directions, self._sizes.input_size, self._sizes.hidden_size
        rows = len(self._form.gates) * hidden
        products = {"weights": (rows, width), "recurrence": (rows, hidden)}
        if self._form.cell.resets_first:
            products |= {"recurrence": (rows - hidden, hidden), "candidate_recurrence": (hidden, hidden)}
        shapes: dict[str, tuple[int, ...]] = {
            name: (directions, *(reversed(sizes) if name in self._form.transposed else sizes)) for name, sizes in products.items()
        }
        if "bias_tensor" in self._tensors:
            shapes["bias"] = (directions, rows)
            if self._form.cell.resets_last:
                shapes["hidden_bias"] = (directions, hidden)
        if "peephole_tensor" in self._tensors:
            shapes["peephole"] = (directions, 3, hidden)
        return _typed(shapes, COMPUTE)

    def _scratch_of(self, batch: int) -> Layout:
        shapes, masks = self._form.shapes(batch)
        return Layout([*_typed(shapes, COMPUTE), *_typed(masks, np.dtype(np.bool_))], _ALIGNMENT)

    # constants

    def _negated(self, packed: Arrays) -> list[Array]:
        """The packed constants of the gates whose sign is changed."""
        rows, arrays = slice(0, (len(self._form.gates) - 1) * self._sizes.hidden_size), []
        for direction in range(self._sizes.num_directions):
            if self._form.changes_sign(direction):
                arrays += [self._by_rows(packed, name)[direction, rows] for name in ("weights", "recurrence")]
                arrays += [packed[name][direction][..., rows] for name in ("bias", "peephole") if name in packed]
        return arrays

    def _by_rows(self, packed: Arrays, name: str) -> Array:
        """A packed matrix as [D, rows, columns]."""
        return packed[name].swapaxes(1, 2) if name in self._form.transposed else packed[name]

    def _pack(self, arrays: Arrays, packed: Arrays) -> Call:
        """The copies that arrange the constants in the packed layout."""
        sizes, hidden = self._sizes, self._sizes.hidden_size
        by_gate = (sizes.num_directions, sizes.gates, hidden, -1)
        weights, recurrence = arrays["weight_tensor"][0].reshape(by_gate), arrays["recurrence_tensor"][0].reshape(by_gate)
        copies: list[tuple[Array, Array]] = []
        sums: list[tuple[Array, Array, Array]] = []
        for position, gate in enumerate(self._form.gates):
            rows = slice(position * hidden, (position + 1) * hidden)
            copies.append((self._by_rows(packed, "weights")[:, rows], weights[:, gate]))
            last = position == len(self._form.gates) - 1
            block, at = ("candidate_recurrence", slice(None)) if last and self._form.cell.resets_first else ("recurrence", rows)
            copies.append((self._by_rows(packed, block)[:, at], recurrence[:, gate]))
            if "bias_tensor" in arrays:
                bias = arrays["bias_tensor"][0, 0].reshape(sizes.num_directions, 2, sizes.gates, hidden)
                if last and self._form.cell.resets_last:
                    copies.append((packed["bias"][:, rows], bias[:, 0, gate]))
                    copies.append((packed["hidden_bias"], bias[:, 1, gate]))
                else:
                    sums.append((packed["bias"][:, rows], bias[:, 0, gate], bias[:, 1, gate]))
        if "peephole_tensor" in arrays:
            peephole = arrays["peephole_tensor"][0, 0].reshape(sizes.num_directions, 3, hidden)
            copies += [(packed["peephole"][:, position], peephole[:, gate]) for position, gate in enumerate((1, 0, 2))]
        negated = self._negated(packed)

        def pack() -> None:
            for target, source in copies:
                target[...] = source
            for target, first, second in sums:
                target[...] = first
                np.add(target, second, target)
            for target in negated:
                np.multiply(target, -1.0, target)

        return pack
