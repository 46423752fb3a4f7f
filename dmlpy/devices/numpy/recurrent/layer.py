"""RNN, LSTM and GRU in NumPy: one walk over time for all three, in float32 as the device and in float64 as the tests' reference.

Everything between the matrix products lies transposed, [gate rows, batch], because then the gates are contiguous blocks: every
element-wise call of a step works on one flat array, and `R @ h` is the product that BLAS does fastest. A batch of one is the exception:
its product is a vector times a matrix, fastest with R transposed at packing. Input products are taken for many steps at once, in
chunks small enough to be still in cache when the walk reads them; this also bounds the scratch for long sequences.

All arrays are views of memory laid out when the plan is made and built when it is bound. A launch calls ufuncs with outputs given and
allocates nothing. Arithmetic, gates and states are in the compute type; FLOAT16 is converted on reading and rounded once on writing.

The training forms take the same walk. A reserve is written by copies of what a step leaves anyway; a dropout tensor turns one product
into one for each gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dmlpy.arrays import array_at
from dmlpy.devices.numpy.activation.derivatives import keeps_value
from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.devices.numpy.recurrent.cells import Array, Arrays, Call, CellArrays, Step, cell_step, packed_gates
from dmlpy.devices.numpy.recurrent.reserve import Reserve
from dmlpy.devices.numpy.recurrent.steps import Record, Selection
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers
from dmlpy.enums import RecurrentDirection
from dmlpy.operators.recurrent.gradient import ReserveDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc
from dmlpy.tensors import TensorDesc, packed_strides

_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 19
"""Bytes of input products that one chunk of steps holds: half of a core's second-level cache, or less."""


def _arrays(layout: Layout, pointer: int) -> dict[str, Array]:
    """The arrays of a layout in the block of memory at an address."""
    places = layout.arrays.items()
    return {name: array_at(pointer + offset, sizes, dtype, packed_strides(sizes)) for name, (offset, sizes, dtype) in places}


def _typed(shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any]) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
    return [(name, sizes, dtype) for name, sizes in shapes.items()]


class RecurrentPlan(Plan):
    """RNN, LSTM or GRU on the host, or the training form of one.

    Args:
        desc: a checked desc.
        compute: type of all arithmetic, float32 or float64.
    """

    def __init__(self, desc: RecurrentDesc, compute: DTypeLike = np.float32) -> None:
        self._desc = desc
        self._sizes = desc.geometry
        self._cell = desc.cell
        self._compute = np.dtype(compute)
        self._tensors = desc.tensors()
        self._gates = packed_gates(self._cell)
        self._keeps = "reserve_tensor" in self._tensors
        self._selects = "sequence_lengths_tensor" in self._tensors or "step_mask_tensor" in self._tensors
        self._activations = tuple(
            tuple(Activation.of(activation, self._compute) for activation in desc.activations_of(direction))
            for direction in range(self._sizes.num_directions)
        )
        self._reads_input_directly = "input_dropout_tensor" not in self._tensors and self._is_matrix(self._tensors["input_tensor"])
        step_bytes = len(self._gates) * self._sizes.hidden_size * self._sizes.batch_size * self._compute.itemsize
        self._chunk_steps = min(max(1, _CHUNK_BYTES // step_bytes), self._sizes.seq_length)
        self._packed = Layout(self._packed_arrays(), _ALIGNMENT)
        self._scratch = Layout(self._scratch_arrays(), _ALIGNMENT)
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._scratch.size
        self.temporary_size = self.persistent_size + self.prepared_temporary_size

    def describe(self) -> str:
        sizes = self._sizes
        product = "h @ R.T, R stored transposed" if sizes.batch_size == 1 else "R @ h, states stored [hidden, batch]"
        reading = "read in place" if self._reads_input_directly else f"copied to {self._compute} a chunk at a time"
        lines = [
            f"NumPy, {self._compute} arithmetic; {sizes.num_directions} direction(s), one after the other",
            f"input product: {self._chunk_steps} of {sizes.seq_length} steps at a time, input {reading}",
            f"step: {product}; {len(self._gates)} gate(s) as flat arrays, in place",
        ]
        extras = {
            "step_mask_tensor": "a mask of steps",
            "input_dropout_tensor": "dropout of x, a product for each gate",
            "state_dropout_tensor": "dropout of h, a product for each gate",
            "projection_tensor": f"h projected from {sizes.hidden_size} to {sizes.state_size}",
            "reserve_tensor": "a reserve, written step by step",
        }
        training = [extra for name, extra in extras.items() if name in self._tensors]
        return "\n".join([*lines, f"training: {'; '.join(training)}"] if training else lines)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        work = self._pack(self._views(constants), _arrays(self._packed, persistent))

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                work()

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(self._views(tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Like `bind`, over arrays of the described sizes, whose types may differ from the desc's."""
        parts: list[Call] = []
        if persistent is None:
            packed, scratch = _arrays(self._packed, temporary), _arrays(self._scratch, temporary + self.persistent_size)
            parts.append(self._pack(arrays, packed))
        else:
            packed, scratch = _arrays(self._packed, persistent), _arrays(self._scratch, temporary)
        for direction in range(self._sizes.num_directions):
            parts.append(self._walk(direction, arrays, packed, scratch))

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                for part in parts:
                    part()

        return launch

    # layout

    def _views(self, pointers: Pointers) -> dict[str, Array]:
        views = {}
        for name, pointer in pointers.items():
            tensor = self._tensors[name]
            views[name] = array_at(pointer, tensor.sizes, tensor.data_type.numpy, tensor.element_strides)
        return views

    def _is_matrix(self, tensor: TensorDesc) -> bool:
        """Whether BLAS can read the input's [T * B, I] elements where they are."""
        _, steps, batch, width = tensor.sizes
        _, step_stride, row_stride, stride = tensor.element_strides
        if batch == 1:
            row_stride = step_stride if steps > 1 else width
        rows_regular = steps == 1 or batch == 1 or step_stride == batch * row_stride
        return tensor.data_type.numpy == self._compute and stride == 1 and rows_regular and row_stride >= width

    def _packed_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        directions, width, hidden = self._sizes.num_directions, self._sizes.input_size, self._sizes.hidden_size
        rows, state = len(self._gates) * hidden, self._sizes.state_size
        shapes: dict[str, tuple[int, ...]] = {"weights": (directions, rows, width)}
        state_products = {"recurrence": (rows, state)}
        if self._cell.resets_first:
            state_products = {"recurrence": (rows - hidden, hidden), "candidate_recurrence": (hidden, hidden)}
        if self._cell.projection:
            state_products["projection"] = (state, hidden)
        for name, matrix in state_products.items():
            shapes[name] = (directions, *(reversed(matrix) if self._sizes.batch_size == 1 else matrix))
        if "bias_tensor" in self._tensors:
            shapes["bias"] = (directions, rows)
            if self._cell.resets_last:
                shapes["hidden_bias"] = (directions, hidden)
        if "peephole_tensor" in self._tensors:
            shapes["peephole"] = (directions, 3, hidden)
        return _typed(shapes, self._compute)

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes = self._sizes
        steps, batch, width, hidden, chunk = sizes.seq_length, sizes.batch_size, sizes.input_size, sizes.hidden_size, self._chunk_steps
        rows = len(self._gates) * hidden
        states = sizes.state_size + (hidden if self._cell.has_memory else 0)
        work = max(activation.work for activations in self._activations for activation in activations)
        shapes: dict[str, tuple[int, ...]] = {
            "state": (states, batch),
            "sums": (rows + (hidden if self._keeps and self._cell.resets_last else 0), batch),
            "work": (work, rows * batch),
            "input_parts": (chunk, rows, batch),
        }
        if batch > 1:
            shapes["input_product"] = (rows * chunk * batch,)
        if not self._reads_input_directly:
            shapes["input"] = (chunk, batch, width)
        if "bias_tensor" in self._tensors:
            shapes["bias"] = (rows, batch)
            if self._cell.resets_last:
                shapes["hidden_bias"] = (hidden, batch)
        if "peephole_tensor" in self._tensors:
            shapes["peephole"] = (3, hidden, batch)
            shapes["peephole_product"] = (2, hidden, batch)
        if self._cell.couple_input_forget:
            shapes["forget"] = (hidden * batch,)
        if self._keeps or self._cell.projection:
            shapes["product"] = (hidden, batch)
        if any(any(self._keeps_argument(direction)) for direction in range(sizes.num_directions)):
            shapes["values"] = (rows, batch)
        if "input_dropout_tensor" in self._tensors:
            shapes["input_dropout"] = (len(self._gates), batch, width)
        if "state_dropout_tensor" in self._tensors:
            shapes["state_dropout"] = shapes["dropped_state"] = (len(self._gates), sizes.state_size, batch)
        if self._selects:
            shapes["frozen_state"] = shapes["state"]
        lengths, mask = "sequence_lengths_tensor" in self._tensors, "step_mask_tensor" in self._tensors
        masks: dict[str, tuple[int, ...]] = {"mask": (rows * batch,), **Selection.scratch(steps, batch, lengths=lengths, mask=mask)}
        return [*_typed(shapes, self._compute), *_typed(masks, np.dtype(np.bool_))]

    def _keeps_argument(self, direction: int) -> tuple[bool, ...]:
        """Whether the reserve takes a gate's argument and not its value, for each activation. The LSTM's h keeps nothing."""
        of_gates = self._desc.activations_of(direction)[:2]
        return tuple(self._keeps and (self._cell.clip is not None or not keeps_value(activation)) for activation in of_gates)

    # constants

    def _pack(self, arrays: Arrays, packed: Arrays) -> Call:
        """The copies that bring the constants into the packed layout."""
        sizes, hidden = self._sizes, self._sizes.hidden_size
        by_gate = (sizes.num_directions, sizes.gates, hidden, -1)
        weights, recurrence = arrays["weight_tensor"][0].reshape(by_gate), arrays["recurrence_tensor"][0].reshape(by_gate)
        copies: list[tuple[Array, Array]] = []
        sums: list[tuple[Array, Array, Array]] = []
        for position, gate in enumerate(self._gates):
            rows = slice(position * hidden, (position + 1) * hidden)
            copies.append((packed["weights"][:, rows], weights[:, gate]))
            last = position == len(self._gates) - 1
            block, at = ("candidate_recurrence", slice(None)) if last and self._cell.resets_first else ("recurrence", rows)
            by_rows = packed[block].swapaxes(1, 2) if sizes.batch_size == 1 else packed[block]
            copies.append((by_rows[:, at], recurrence[:, gate]))
            if "bias_tensor" in arrays:
                bias = arrays["bias_tensor"][0, 0].reshape(sizes.num_directions, 2, sizes.gates, hidden)
                if last and self._cell.resets_last:
                    copies.append((packed["bias"][:, rows], bias[:, 0, gate]))
                    copies.append((packed["hidden_bias"], bias[:, 1, gate]))
                else:
                    sums.append((packed["bias"][:, rows], bias[:, 0, gate], bias[:, 1, gate]))
        if "peephole_tensor" in arrays:
            peephole = arrays["peephole_tensor"][0, 0].reshape(sizes.num_directions, 3, hidden)
            copies += [(packed["peephole"][:, position], peephole[:, gate]) for position, gate in enumerate((1, 0, 2))]
        if "projection_tensor" in arrays:
            projection = packed["projection"]
            copies.append((projection.swapaxes(1, 2) if sizes.batch_size == 1 else projection, arrays["projection_tensor"][0]))

        def pack() -> None:
            for target, source in copies:
                target[...] = source
            for target, first, second in sums:
                target[...] = first
                np.add(target, second, target)

        return pack

    # the walk

    def _walk(self, direction: int, arrays: Arrays, packed: Arrays, scratch: Arrays) -> Call:
        """The work of one direction: initial states, all steps, final states."""
        constants = {name: array[direction] for name, array in packed.items()}
        state = scratch["state"]
        states = (state[: self._sizes.state_size], state[self._sizes.state_size :])[: 1 + self._cell.has_memory]
        begin = self._begin(direction, arrays, constants, scratch, states)
        chunks = list(self._chunks(direction, arrays, constants, scratch))
        step = self._step(direction, constants, scratch)
        hidden_state = _rows_of_batch(states[0])
        finals: list[tuple[Array, Array]] = []
        for name, final in zip(("output_single_tensor", "output_cell_single_tensor"), states, strict=False):
            if name in arrays:
                finals.append((arrays[name][0, direction], final.T))

        def walk_all() -> None:
            for project, steps in chunks:
                project()
                for _, parts, output in steps:
                    step(*parts)
                    if output is not None:
                        output[...] = hidden_state

        walk_steps: Call = walk_all
        if self._selects or self._keeps:
            walk_steps = self._selective_walk(direction, arrays, chunks, step, scratch, states)

        def walk() -> None:
            begin()
            walk_steps()
            for target, source in finals:
                target[...] = source

        return walk

    def _selective_walk(
        self, direction: int, arrays: Arrays, chunks: Sequence[_Chunk], step: Step, scratch: Arrays, states: Sequence[Array]
    ) -> Call:
        """The steps where not every sample takes every one, or where they are kept for the gradient.

        Steps that all samples take are as cheap as without lengths and mask; steps that none takes are not computed.
        In between the states of the samples that skip it are put back after the step.
        """
        sizes, batch, backward = self._sizes, self._sizes.batch_size, self._is_backward(direction)
        lengths = arrays["sequence_lengths_tensor"][0, 0, 0] if "sequence_lengths_tensor" in arrays else None
        mask = arrays["step_mask_tensor"][0, 0] if "step_mask_tensor" in arrays else None
        selection = Selection(lengths, mask, backward, scratch, sizes.seq_length, batch)
        skipped, blank_rows = selection.skipped, [_rows_of_batch(row[None]) for row in selection.blank]
        state, hidden_state = scratch["state"], _rows_of_batch(states[0])
        sequence = arrays["output_sequence_tensor"][:, direction] if "output_sequence_tensor" in arrays else None
        frozen = scratch.get("frozen_state", state)
        record = None
        if isinstance(self._desc, ReserveDesc) and self._keeps:
            reserve = Reserve.of(self._desc, arrays["reserve_tensor"])
            record = Record.of(reserve, direction, backward, scratch["sums"], states)

        def walk_selected() -> None:
            skips, blanks, longest = selection.update()
            if sequence is not None:
                sequence[longest:] = 0.0
            if record is not None:
                record.begin()
            for project, steps in chunks:
                if any(skips[t] < batch for t, _, _ in steps):
                    project()
                for t, parts, output in steps:
                    skips_t = skips[t]
                    if not skips_t:
                        step(*parts)
                    elif skips_t < batch:
                        frozen[...] = state
                        step(*parts)
                        np.copyto(state, frozen, where=skipped[t])
                    if output is not None and t < longest:
                        output[...] = hidden_state
                        if blanks[t]:
                            np.copyto(output, 0.0, where=blank_rows[t])
                    if record is not None:
                        if skips_t < batch:
                            record.keep_gates(t)
                        record.keep_states(t)

        return walk_selected

    def _begin(self, direction: int, arrays: Arrays, constants: Arrays, scratch: Arrays, states: Sequence[Array]) -> Call:
        """Initial states, dropout, and constants that are repeated over the batch so that steps need no broadcasting."""
        copies: list[tuple[Array, Array | float]] = []
        for state, name in zip(states, ("hidden_init_tensor", "cell_mem_init_tensor"), strict=False):
            copies.append((state, arrays[name][0, direction].T if name in arrays else 0.0))
        for name in ("bias", "hidden_bias", "peephole"):
            if name in scratch:
                copies.append((scratch[name], constants[name][..., None]))
        for position, gate in enumerate(self._gates):
            if "input_dropout" in scratch:
                copies.append((scratch["input_dropout"][position], arrays["input_dropout_tensor"][direction, gate]))
            if "state_dropout" in scratch:
                copies.append((scratch["state_dropout"][position], arrays["state_dropout_tensor"][direction, gate].T))

        def begin() -> None:
            for target, source in copies:
                target[...] = source

        return begin

    def _is_backward(self, direction: int) -> bool:
        return direction == 1 or self._desc.direction is RecurrentDirection.BACKWARD

    def _chunks(self, direction: int, arrays: Arrays, constants: Arrays, scratch: Arrays) -> Iterator[_Chunk]:
        """The steps in the order of the walk, in chunks that share an input product."""
        sizes, x = self._sizes, arrays["input_tensor"][0]
        backward = self._is_backward(direction)
        sequence = arrays["output_sequence_tensor"][:, direction] if "output_sequence_tensor" in arrays else None
        flat = scratch["input_parts"].reshape(self._chunk_steps, -1)
        split = 2 * sizes.hidden_size * sizes.batch_size
        starts = range(0, sizes.seq_length, self._chunk_steps)
        for start in reversed(starts) if backward else starts:
            count = min(self._chunk_steps, sizes.seq_length - start)
            steps: list[_StepArrays] = []
            for slot in range(count):
                output = None if sequence is None else sequence[start + slot]
                if output is not None and sizes.batch_size == 1:
                    output = output[0]
                row = flat[slot]
                parts = (row[:split], row[split:]) if self._cell.kind == "GRU" else (row,)
                steps.append((start + slot, parts, output))
            if backward:
                steps.reverse()
            yield self._input_product(x[start : start + count], constants, scratch), steps

    def _input_product(self, x: Array, constants: Arrays, scratch: Arrays) -> Call:
        """The input's part of the gates' sums, biases included, for the steps of `x` [count, B, I]."""
        count, batch, width = x.shape
        weights, parts = constants["weights"], scratch["input_parts"][:count]
        rows = weights.shape[0]
        staged = None if self._reads_input_directly else scratch["input"][:count]
        matrix = (x if staged is None else staged).reshape(count * batch, width)
        by_step = parts.reshape(count, rows * batch)
        bias = scratch["bias"].reshape(-1) if "bias" in scratch else None
        # One product for the chunk gives [rows, count * batch], in which a step's values lie apart.
        result = None if batch == 1 else scratch["input_product"][: rows * count * batch].reshape(rows, count * batch)

        def multiply(some: slice) -> Call:
            if result is None:
                return partial(np.matmul, matrix, weights[some].T, by_step[:, some])
            return partial(np.matmul, weights[some], matrix.T, result[some])

        calls: list[Call] = []
        if "input_dropout" in scratch:
            hidden = self._sizes.hidden_size
            for position, multipliers in enumerate(scratch["input_dropout"]):
                calls.append(partial(np.multiply, x, multipliers, staged))
                calls.append(multiply(slice(position * hidden, (position + 1) * hidden)))
        else:
            if staged is not None:
                calls.append(partial(np.copyto, staged, x))
            calls.append(multiply(slice(None)))
        if result is not None:
            calls.append(partial(np.copyto, parts, result.reshape(rows, count, batch).swapaxes(0, 1)))
        if bias is not None:
            calls.append(partial(np.add, by_step, bias, by_step))

        def project() -> None:
            for call in calls:
                call()

        return project

    def _step(self, direction: int, constants: Arrays, scratch: Arrays) -> Step:
        arrays = CellArrays(
            cell=self._cell,
            hidden=self._sizes.hidden_size,
            activations=self._activations[direction],
            keeps=self._keeps,
            keeps_argument=self._keeps_argument(direction),
            constants=constants,
            scratch=scratch,
        )
        return cell_step(arrays)


_StepArrays = tuple[int, tuple[Array, ...], Array | None]
"""When, the input's parts of the sums as flat arrays, and where h goes: [B, S], or [S] for a batch of one."""

_Chunk = tuple[Call, list[_StepArrays]]
"""The input product of some steps, and these steps."""


def _rows_of_batch(state: Array) -> Array:
    """A state [S, B] as it is written out: [B, S], or flat for a batch of one, where NumPy's overhead per dimension counts."""
    return state.reshape(-1) if state.shape[1] == 1 else state.T


def reference(desc: RecurrentDesc, arrays: Arrays) -> dict[str, Array]:
    """The described outputs in float64, unrounded, computed in float64 from the arrays as they are.

    Args:
        desc: a checked desc.
        arrays: every described input, by field name and of its described sizes.
    """
    plan, described = RecurrentPlan(desc, np.float64), desc.tensors()
    outputs = {field.name: np.full(described[field.name].sizes, np.nan) for field in desc.outputs() if field.name in described}
    scratch = np.empty(plan.temporary_size, np.uint8)
    plan.bind_arrays({**arrays, **outputs}, scratch.ctypes.data, None)(0)
    return outputs
