"""The recurrence over time of a layer: one direction of some samples, bound to its arrays.

Everything between the matrix products is transposed, [gate rows, batch], because then the gates are contiguous blocks: every
element-wise call of a step works on one flat array, and `R @ h` is the product that BLAS does fastest. A batch of one is the exception:
its product is a vector times a matrix, fastest with R transposed at packing. Input products are computed for many steps at once, in
chunks small enough to be still in cache when the steps read them; this also bounds the scratch for long sequences.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.numpy.recurrent.cells import Array, Arrays, Call, CellArrays, Step, block_names, cell_step, packed_gates
from dmlpy.devices.numpy.recurrent.products import direct_product, is_matrix, products_are_direct
from dmlpy.operators.activation import ActivationSigmoidDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.operators.recurrent.layer import RecurrentDesc

_LARGEST_CHUNK_BYTES = 1 << 22
"""The most bytes of a chunk's input product where weights exceed the cache: each chunk reads all of them."""
_BATCH_AXES = {
    "input_tensor": 2,
    "hidden_init_tensor": 2,
    "cell_mem_init_tensor": 2,
    "sequence_lengths_tensor": 3,
    "output_sequence_tensor": 2,
    "output_single_tensor": 2,
    "output_cell_single_tensor": 2,
}
"""The axis of the samples in each tensor that has one."""


class Form:
    """The data that all recurrences of a layer share.

    Attributes:
        desc: a checked desc.
        sizes: its numbers.
        cell: its options.
        tensors: its tensors.
        gates: the gates that are computed, in storage order.
        activations: the activations of each direction: f, then g, then h.
        ragged: whether sequences may end before the last step.
        direct: whether products are computed some rows at a time.
        transposed: names of the matrices that are packed transposed.
        chunk_steps: steps that share an input product.
        reads_input_directly: whether BLAS reads the input in place.

    Args:
        desc: a checked desc.
        direct: as above.
        most_samples: the most samples of a recurrence.
        chunk_bytes: the most bytes that the input product of some steps may take, unless one step or half of the weights takes more.
    """

    def __init__(self, desc: RecurrentDesc, direct: bool, most_samples: int, chunk_bytes: int) -> None:
        self.desc, self.sizes, self.cell, self.tensors = desc, desc.geometry, desc.cell, desc.tensors()
        self.gates = packed_gates(self.cell)
        self.ragged = "sequence_lengths_tensor" in self.tensors
        self.direct = direct
        self.transposed: set[str] = set()
        if self.sizes.batch_size == 1:
            self.transposed = {"recurrence", "candidate_recurrence"}
            if products_are_direct(self.sizes.input_size, len(self.gates) * self.sizes.hidden_size):
                self.transposed.add("weights")
        directions = range(self.sizes.num_directions)
        self.activations = tuple(
            tuple(Activation.of(activation, COMPUTE) for activation in desc.activations_of(direction)) for direction in directions
        )
        self.reads_input_directly = not direct and is_matrix(self.tensors["input_tensor"])
        row_bytes = len(self.gates) * self.sizes.hidden_size * COMPUTE.itemsize
        chunk_bytes = max(chunk_bytes, min(row_bytes * self.sizes.input_size // 2, _LARGEST_CHUNK_BYTES))
        self.chunk_steps = min(max(1, chunk_bytes // (row_bytes * most_samples)), self.sizes.seq_length)
        self.block_names = block_names(self.cell)

    def changes_sign(self, direction: int) -> bool:
        """Returns whether the weights of all gates but the last are packed with the sign changed; see `cells`."""
        return self.gates_are_sigmoids(direction) and self.cell.kind != "RNN" and not self.cell.couple_input_forget

    def gates_are_sigmoids(self, direction: int) -> bool:
        """Returns whether f is the sigmoid."""
        return isinstance(self.desc.activations_of(direction)[0], ActivationSigmoidDesc)

    def is_backward(self, direction: int) -> bool:
        """Returns whether a direction runs from the last step to the first."""
        return direction == 1 or self.desc.direction is RecurrentDirection.BACKWARD

    def shapes(self, batch: int) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """The named scratch of a recurrence over this many samples: arrays of the arithmetic's type, then of bools."""
        sizes, cell, tensors = self.sizes, self.cell, self.tensors
        steps, width, hidden, chunk = sizes.seq_length, sizes.input_size, sizes.hidden_size, self.chunk_steps
        rows = len(self.gates) * hidden
        work = max(activation.work for activations in self.activations for activation in activations)
        shapes: dict[str, tuple[int, ...]] = {
            "step": ((len(self.block_names) + 1) * hidden, batch),
            "work": (work, rows * batch),
            "input_parts": (chunk, rows, batch),
        }
        if self.direct:
            shapes["input"] = (chunk, width, batch)
        else:
            if batch > 1:
                shapes["input_product"] = (rows * chunk * batch,)
            if not self.reads_input_directly:
                shapes["input"] = (chunk, batch, width)
        if "bias_tensor" in tensors:
            shapes["bias"] = (rows, batch)
            if cell.resets_last:
                shapes["hidden_bias"] = (hidden, batch)
        if "peephole_tensor" in tensors:
            shapes["peephole"] = (3, hidden, batch)
            shapes["peephole_product"] = (2, hidden, batch)
        masks: dict[str, tuple[int, ...]] = {"mask": (rows * batch,)}
        if self.ragged:
            shapes["frozen_state"] = (hidden * (1 + cell.has_memory), batch)
            masks["ended"] = (steps, batch)
        return shapes, masks


_StepArrays = tuple[int, tuple[Array, ...], Array | None]
"""The time, the input's parts of the sums as flat arrays, and the target of h: [B, S], or [S] for a batch of one."""

_Chunk = tuple[Call, list[_StepArrays]]
"""The input product of some steps, and these steps."""


class Recurrence:
    """One direction of some samples.

    Args:
        form: the data that all recurrences of the layer share.
        direction: its index.
        samples: its samples.
        arrays: the tensors, of all samples.
        packed: the packed constants, of all directions.
        scratch: the scratch of this recurrence, as `Form.shapes` names it.
    """

    def __init__(self, form: Form, direction: int, samples: slice, arrays: Arrays, packed: Arrays, scratch: Arrays) -> None:
        self._form, self._direction, self._samples = form, direction, samples
        self._backward = form.is_backward(direction)
        self._arrays = {
            name: array[(*(slice(None),) * _BATCH_AXES[name], samples)] if name in _BATCH_AXES else array for name, array in arrays.items()
        }
        self._constants = {name: array[direction] for name, array in packed.items()}
        self._scratch = scratch
        self._batch = samples.stop - samples.start
        hidden = form.sizes.hidden_size
        self._state = scratch["step"][-hidden * (1 + form.cell.has_memory) :]
        h = scratch["step"][-hidden:]
        self._states = (h, self._state[:hidden]) if form.cell.has_memory else (h,)
        self._sequence = self._arrays["output_sequence_tensor"][:, direction] if "output_sequence_tensor" in arrays else None

    def bound(self) -> Call:
        """The work: initial states, all steps, final states."""
        begin, chunks, step = self._begin(), list(self._chunks()), self._step()
        take_steps = self._ragged_loop(chunks, step) if self._form.ragged else self._full_loop(chunks, step)
        finals: list[tuple[Array, Array]] = []
        for name, final in zip(("output_single_tensor", "output_cell_single_tensor"), self._states, strict=False):
            if name in self._arrays:
                finals.append((self._arrays[name][0, self._direction], final.T))

        def run() -> None:
            begin()
            take_steps()
            for target, source in finals:
                target[...] = source

        return run

    def _full_loop(self, chunks: Sequence[_Chunk], step: Step) -> Call:
        hidden_state = _rows_of_batch(self._states[0])

        def loop() -> None:
            for project, steps in chunks:
                project()
                for _, parts, output in steps:
                    step(*parts)
                    if output is not None:
                        output[...] = hidden_state

        return loop

    def _ragged_loop(self, chunks: Sequence[_Chunk], step: Step) -> Call:
        """The steps where sequences may end before the last one.

        Steps that all samples take are as cheap as without lengths; steps that none takes are not computed. In between the states of the
        samples whose sequence has ended are restored after the step.
        """
        total = self._form.sizes.seq_length
        lengths, ended = self._arrays["sequence_lengths_tensor"][0, 0, 0], self._scratch["ended"]
        times = np.arange(total, dtype=np.uint32)[:, None]
        ended_at, blank_rows = list(ended), [_rows_of_batch(row[None]) for row in ended]
        state, frozen = self._state, self._scratch["frozen_state"]
        hidden_state, sequence = _rows_of_batch(self._states[0]), self._sequence

        def loop() -> None:
            np.less_equal(lengths, times, ended)
            counts: list[int] = np.add.reduce(ended, axis=1, dtype=np.intp).tolist()
            longest = min(int(lengths.max()), total)
            if sequence is not None:
                sequence[longest:] = 0.0
            for project, steps in chunks:
                if all(t >= longest for t, _, _ in steps):
                    continue
                project()
                for t, parts, output in steps:
                    if t >= longest:
                        continue
                    if not counts[t]:
                        step(*parts)
                    else:
                        frozen[...] = state
                        step(*parts)
                        np.copyto(state, frozen, where=ended_at[t])
                    if output is not None:
                        output[...] = hidden_state
                        if counts[t]:
                            np.copyto(output, 0.0, where=blank_rows[t])

        return loop

    def _begin(self) -> Call:
        """Sets up initial states, and constants repeated over the batch so that steps need no broadcasting."""
        arrays, scratch, direction = self._arrays, self._scratch, self._direction
        copies: list[tuple[Array, Array | float]] = []
        for state, name in zip(self._states, ("hidden_init_tensor", "cell_mem_init_tensor"), strict=False):
            copies.append((state, arrays[name][0, direction].T if name in arrays else 0.0))
        for name in ("bias", "hidden_bias", "peephole"):
            if name in scratch:
                copies.append((scratch[name], self._constants[name][..., None]))

        def begin() -> None:
            for target, source in copies:
                target[...] = source

        return begin

    def _chunks(self) -> Iterator[_Chunk]:
        """The steps in the order of the recurrence, in chunks that share an input product."""
        form, x = self._form, self._arrays["input_tensor"][0]
        total, chunk = form.sizes.seq_length, form.chunk_steps
        flat = self._scratch["input_parts"].reshape(chunk, -1)
        split = 2 * form.sizes.hidden_size * self._batch
        starts = range(0, total, chunk)
        for start in reversed(starts) if self._backward else starts:
            count = min(chunk, total - start)
            steps: list[_StepArrays] = []
            for slot in range(count):
                output = None if self._sequence is None else self._sequence[start + slot]
                if output is not None and self._batch == 1:
                    output = output[0]
                row = flat[slot]
                parts = (row[:split], row[split:]) if form.cell.kind == "GRU" else (row,)
                steps.append((start + slot, parts, output))
            if self._backward:
                steps.reverse()
            yield self._input_product(x[start : start + count]), steps

    def _input_product(self, x: Array) -> Call:
        """The input's part of the gates' sums, biases included, for the steps of `x` [count, B, I]."""
        scratch, parts = self._scratch, self._scratch["input_parts"][: len(x)]
        calls = self._direct_input_products(x, parts) if self._form.direct else self._input_products(x, parts)
        if "bias" in scratch:
            calls.append(partial(np.add, parts, scratch["bias"], parts))

        def project() -> None:
            for call in calls:
                call()

        return project

    def _direct_input_products(self, x: Array, parts: Array) -> list[Call]:
        """The products W x^T for each step, from a transposed copy."""
        weights, staged, transposed = self._constants["weights"], self._scratch["input"][: len(x)], x.swapaxes(1, 2)
        return [partial(np.copyto, staged, transposed), direct_product(weights, staged, parts)]

    def _input_products(self, x: Array, parts: Array) -> list[Call]:
        """One product for all steps, in the order in which BLAS divides it among its threads."""
        scratch, weights = self._scratch, self._constants["weights"]
        count, batch, width = x.shape
        staged = None if self._form.reads_input_directly else scratch["input"][:count]
        matrix = (x if staged is None else staged).reshape(count * batch, width)
        result = parts[..., 0] if batch == 1 else scratch["input_product"][: count * parts[0].size].reshape(-1, count * batch)

        calls: list[Call] = [] if staged is None else [partial(np.copyto, staged, x)]
        if batch > 1:
            calls.append(partial(np.matmul, weights, matrix.T, result))
        elif "weights" in self._form.transposed:
            calls.append(direct_product(matrix, weights, result))
        else:
            calls.append(partial(np.matmul, matrix, weights.T, result))
        if batch > 1:
            # One product for the chunk gives [rows, count * batch], in which a step's values are not contiguous.
            calls.append(partial(np.copyto, parts, result.reshape(-1, count, batch).swapaxes(0, 1)))
        return calls

    def _step(self) -> Step:
        form, direction = self._form, self._direction
        return cell_step(
            CellArrays(
                cell=form.cell,
                hidden=form.sizes.hidden_size,
                activations=form.activations[direction],
                sigmoid=form.gates_are_sigmoids(direction),
                reciprocal=form.changes_sign(direction),
                direct=form.direct,
                names=form.block_names,
                constants=self._constants,
                scratch=self._scratch,
            )
        )


def _rows_of_batch(state: Array) -> Array:
    """A state [H, B] as it is written out: [B, S], or flat for a batch of one, where NumPy's overhead per dimension matters."""
    return state.reshape(-1) if state.shape[1] == 1 else state.T
