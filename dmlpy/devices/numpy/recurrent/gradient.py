"""The gradients of RNN, LSTM and GRU in NumPy: one walk against the forward walk's direction for all three.

Arrays lie transposed, [gate rows, batch], like the forward walk's and the reserve's. A step is what its cell does element by element and
one product, R^T da, that gives the step before its dh; R is stored transposed for it. Everything else waits for a block of steps:

- The gates' gradients of a block lie side by side, and one product each gives the gradients of its inputs, of W and of R. A product is
  fast once it has about a thousand rows, and the block needs no more memory for a long sequence than for a short one: all gates'
  gradients at once would be as large as the reserve itself. Blocks are summed in the order of the walk.
- Within a block the factors that do not depend on dh and dc are computed for a chunk of steps at once, small enough to be still in cache
  when its steps multiply them.

Where sequences end or steps are masked, whatever the tensors hold there is replaced by zeros before it is multiplied: the gates' factors
and upstream gradients, and x in a copy.

A launch calls ufuncs and BLAS with outputs given, and allocates nothing. Arithmetic is in the compute type; FLOAT16 is converted on
reading and rounded once on writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.blas import with_limited_blas
from dmlpy.devices.numpy.plans import COMPUTE, plan
from dmlpy.devices.numpy.recurrent.gradient_cells import Prepared, Rows, Span, Step, cell_gradient
from dmlpy.devices.numpy.recurrent.gradient_products import BlockProducts, product_shapes
from dmlpy.devices.numpy.recurrent.reserve import ReserveViews
from dmlpy.devices.numpy.recurrent.steps import Selection
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, arrays_of
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]
Shapes = dict[str, tuple[int, ...]]

_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 19
"""Bytes of kept values and factors that one chunk of steps holds: half of a core's second-level cache, or less."""
_BLOCK_ROWS = 2048
"""Rows (steps times batch) that one block's products sum over, at most, unless one step has more."""
_BOOL = np.dtype(np.bool_)


@plan(RecurrentGradDesc)
class GradientPlan(PlanWithoutConstants):
    """The gradient of RNN, LSTM or GRU on the host.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: RecurrentGradDesc) -> None:
        self._desc, self._sizes = desc, desc.geometry
        self._tensors = desc.tensors()
        sizes = self._sizes
        self._cells = [cell_gradient(desc, direction) for direction in range(sizes.num_directions)]
        self._ragged = any(name in self._tensors for name in ("sequence_lengths_tensor", "step_mask_tensor"))
        blocks = -(-sizes.seq_length * sizes.batch_size // _BLOCK_ROWS)
        self._block_steps = -(-sizes.seq_length // min(blocks, sizes.seq_length))
        step_bytes = 2 * self._cells[0].blocks * sizes.hidden_size * sizes.batch_size * COMPUTE.itemsize
        self._chunk_steps = min(max(1, _CHUNK_BYTES // step_bytes), self._block_steps)
        self._scratch = Layout(self._scratch_arrays(), _ALIGNMENT)
        self.temporary_size = self._scratch.size

    def describe(self) -> str:
        sizes = self._sizes
        products = [name for name in ("input", "weight", "recurrence", "bias", "projection") if self._gives(name)]
        summed = f"gradients of {', '.join(products)}" if products else "no product over all steps"
        return "\n".join(
            [
                f"NumPy, {COMPUTE} arithmetic; {sizes.num_directions} direction(s), one after the other",
                f"step: R.T @ da, R stored transposed; {self._cells[0].blocks} gate gradient(s) as flat arrays, in place",
                f"factors: {self._chunk_steps} of {sizes.seq_length} steps at a time",
                f"{summed}: {self._block_steps} of {sizes.seq_length} steps at a time",
            ]
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes and types."""
        scratch = self._scratch.arrays_at(temporary)
        parts = [_GradientRecurrence(self, direction, arrays, scratch).bound() for direction in range(self._sizes.num_directions)]

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                for part in parts:
                    part()

        rows = self._cells[0].blocks * self._sizes.hidden_size
        entries = max(self._sizes.input_size, self._sizes.state_size)
        return with_limited_blas(launch, rows * entries * self._sizes.batch_size * self._block_steps)

    # layout

    def _gives(self, name: str) -> bool:
        return f"{name}_gradient_tensor" in self._tensors

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, cell, chunk, block = self._sizes, self._cells[0], self._chunk_steps, self._block_steps
        steps, batch, hidden, state = sizes.seq_length, sizes.batch_size, sizes.hidden_size, sizes.state_size
        size = hidden * batch
        values = chunk * sizes.gates * size
        shapes: Shapes = {
            "recurrence": (state, len(cell.state_rows.gates) * hidden),
            "state_gradient": (state, batch),
            "gradient": (block, cell.blocks, size),
            "work": (max(cell.work for cell in self._cells) * values,),
            **cell.shapes(chunk),
        }
        if any(cell.staged_values for cell in self._cells):
            shapes["values"] = (values,)
        if self._desc.cell.has_memory:
            shapes["memory_gradient"] = (hidden, batch)
        if self._desc.cell.projection:
            shapes["projection"] = (hidden, state)
        if "output_sequence_gradient_tensor" in self._tensors:
            shapes["upstream"] = (chunk, state, batch)
        if "state_dropout_tensor" in self._tensors:
            shapes |= {"state_dropout": (sizes.gates, state, batch), "dropout_product": (state, batch)}
        if self._gives("peephole"):
            shapes["peephole_sum"] = (3, hidden, batch)
        if cell.operand_is_needed:
            shapes["operand"] = (block, size)
        if self._gives("projection"):
            shapes["state_gradients"] = (block, state * batch)
        shapes |= product_shapes(self._desc, cell, block)
        lengths, mask = ("sequence_lengths_tensor" in self._tensors, "step_mask_tensor" in self._tensors)
        masks: Shapes = {"mask": (values,), **Selection.scratch(steps, batch, lengths=lengths, mask=mask)}
        if self._ragged:
            masks["taken"] = (steps, batch)
        return [
            *((name, sizes, COMPUTE) for name, sizes in shapes.items()),
            *((name, sizes, _BOOL) for name, sizes in masks.items()),
        ]


class _Chunk(NamedTuple):
    """Steps whose factors are computed at once.

    Attributes:
        times: when, in the order of time.
        span: their arrays.
        prepared: the cell's work.
        read_upstream: brings the upstream gradients of their h into the walk's layout.
        hide_upstream: replaces those that belong to no state.
        steps: when, the upstream gradient, and the cell's arrays of each step, in the order of the walk.
    """

    times: slice
    span: Span
    prepared: Prepared
    read_upstream: list[Call]
    hide_upstream: list[Call]
    steps: list[tuple[int, Array | None, tuple[Array, ...]]]


class _Block(NamedTuple):
    """Steps whose products are taken at once.

    Attributes:
        times: when, in the order of time.
        chunks: the steps, in the order of the walk.
        finish: the products.
        pass_over: the work to do instead if no sample takes any of the steps.
    """

    times: slice
    chunks: list[_Chunk]
    finish: list[Call]
    pass_over: list[Call]


class _GradientRecurrence:
    """One direction, bound to arrays."""

    def __init__(self, plan: GradientPlan, direction: int, arrays: Arrays, scratch: Arrays) -> None:
        desc = plan._desc
        self._plan, self._sizes, self._desc = plan, plan._sizes, desc
        self._direction, self._arrays, self._scratch = direction, arrays, scratch
        self._cell = plan._cells[direction]
        self._ragged = plan._ragged
        self._backward = direction == 1 or desc.direction is RecurrentDirection.BACKWARD
        reserve = ReserveViews.of(desc, arrays["reserve_tensor"])
        before, after = (slice(1, None), slice(None, -1)) if self._backward else (slice(None, -1), slice(1, None))
        self._kept, self._before = reserve.kept[direction], reserve.hidden[direction, before]
        memory = reserve.memory
        self._memory = None if memory is None else (memory[direction, before], memory[direction, after])
        self._products = BlockProducts(desc, self._cell, direction, self._before, arrays, scratch)

    def bound(self) -> Call:
        begin, end = self._begin(), self._end()
        step = self._cell.step(self._scratch)
        blocks = list(self._blocks())
        walk = self._ragged_walk(blocks, step) if self._ragged else self._full_walk(blocks, step)

        def run() -> None:
            begin()
            walk()
            end()

        return run

    # the ends of the walk

    def _begin(self) -> Call:
        """Copies what the steps read to their layout, takes the gradients of the final states, and clears the sums."""
        arrays, scratch, direction = self._arrays, self._scratch, self._direction
        copies: list[tuple[Array, Array | float]] = [
            tile
            for packed, of_gate in self._by_gate(scratch["recurrence"].T, arrays["recurrence_tensor"], self._cell.state_rows)
            for tile in _in_tiles(packed, of_gate)
        ]
        if "weights" in scratch:
            copies += self._by_gate(scratch["weights"], arrays["weight_tensor"], self._cell.input_rows)
        if "peephole" in scratch:
            peephole = arrays["peephole_tensor"][0, 0].reshape(-1, 3, self._sizes.hidden_size)[direction]
            copies += [(scratch["peephole"][at], peephole[gate][:, None]) for at, gate in enumerate((1, 0, 2))]
        if "projection" in scratch:
            copies.append((scratch["projection"], arrays["projection_tensor"][0, direction].T))
        if "state_dropout" in scratch:
            copies.append((scratch["state_dropout"], arrays["state_dropout_tensor"][direction].swapaxes(1, 2)))
        if "input_dropout" in scratch:
            copies.append((scratch["input_dropout"], arrays["input_dropout_tensor"][direction]))
        for name, upstream in (("state", "output_single"), ("memory", "output_cell_single")):
            if f"{name}_gradient" in scratch:
                source = arrays.get(f"{upstream}_gradient_tensor")
                copies.append((scratch[f"{name}_gradient"], 0.0 if source is None else source[0, direction].T))
        if "peephole_sum" in scratch:
            copies.append((scratch["peephole_sum"], 0.0))

        def begin() -> None:
            for target, source in copies:
                target[...] = source

        return begin

    def _by_gate(self, packed: Array, tensor: Array, rows: Rows) -> list[tuple[Array, Array]]:
        """Yields the gates' parts of a packed matrix [rows, ...], each with the matching part of a tensor [1, D, G * H, ...]."""
        hidden, matrix = self._sizes.hidden_size, tensor[0, self._direction]
        gates = matrix.reshape(self._sizes.gates, hidden, matrix.shape[1])
        return [(packed[at * hidden : (at + 1) * hidden], gates[gate]) for at, gate in enumerate(rows.gates)]

    def _end(self) -> Call:
        """The gradients of the initial states, and the sums, which are written gate by gate."""
        arrays, scratch, sizes, direction = self._arrays, self._scratch, self._sizes, self._direction
        cell, hidden = self._cell, self._sizes.hidden_size
        copies: list[tuple[Array, Array | float]] = []
        for name, state in (("hidden_init", "state"), ("cell_mem_init", "memory")):
            if (target := arrays.get(f"{name}_gradient_tensor")) is not None:
                copies.append((target[0, direction], scratch[f"{state}_gradient"].T))
        for name, rows in (("weight", cell.input_rows), ("recurrence", cell.state_rows)):
            if (target := arrays.get(f"{name}_gradient_tensor")) is not None:
                copies.append((target[0, direction], 0.0))
                copies += [(of_gate, total) for total, of_gate in self._by_gate(scratch[f"{name}_sum"], target, rows)]
        if (target := arrays.get("bias_gradient_tensor")) is not None:
            by_gate = target[0, 0, direction].reshape(2, sizes.gates, hidden)
            sums = scratch["bias_sum"].reshape(-1, hidden)
            copies.append((by_gate, 0.0))
            for half, rows in zip(by_gate, (cell.input_rows, cell.state_rows), strict=True):
                copies += [(half[gate], sums[rows.first + at]) for at, gate in enumerate(rows.gates)]
        if (target := arrays.get("projection_gradient_tensor")) is not None:
            copies.append((target[0, direction], scratch["projection_sum"]))
        peephole = arrays.get("peephole_gradient_tensor")

        def end() -> None:
            for target, source in copies:
                target[...] = source
            if peephole is not None:
                by_gate = peephole[0, 0, direction].reshape(3, hidden)
                for at, gate in enumerate((1, 0, 2)):
                    by_gate[gate] = np.add.reduce(scratch["peephole_sum"][at], axis=1)

        return end

    # the steps

    def _full_walk(self, blocks: Sequence[_Block], step: Step) -> Call:
        dh = self._scratch["state_gradient"].reshape(-1)

        def walk() -> None:
            for block in blocks:
                for chunk in block.chunks:
                    _run(chunk.prepared.fill)
                    _run(chunk.read_upstream)
                    for _, upstream, arrays in chunk.steps:
                        if upstream is not None:
                            np.add(dh, upstream, dh)
                        step(*arrays, None)
                    _run(chunk.prepared.conclude)
                _run(block.finish)

        return walk

    def _ragged_walk(self, blocks: Sequence[_Block], step: Step) -> Call:
        """The walk over sequences of different lengths, or with masked steps.

        Steps that all samples take are nearly as cheap as without lengths; steps that nobody takes are not computed.
        """
        scratch, batch = self._scratch, self._sizes.batch_size
        dh, skipped, taken = scratch["state_gradient"].reshape(-1), scratch["skipped"], scratch["taken"]
        lengths, mask = self._arrays.get("sequence_lengths_tensor"), self._arrays.get("step_mask_tensor")
        selection = Selection(
            None if lengths is None else lengths[0, 0, 0],
            None if mask is None else mask[0, 0],
            self._backward,
            scratch,
            self._sizes.seq_length,
            batch,
        )

        def walk() -> None:
            skips, _, _ = selection.update()
            np.logical_not(skipped, taken)
            whole, idle = [count == 0 for count in skips], [count == batch for count in skips]
            for block in blocks:
                for chunk in block.chunks:
                    all_take, nobody_takes = all(whole[chunk.times]), all(idle[chunk.times])
                    if nobody_takes:
                        chunk.span.clear()
                    else:
                        _run(chunk.prepared.fill)
                        if not all_take:
                            _run(chunk.prepared.select)
                    if mask is not None or not nobody_takes:
                        _run(chunk.read_upstream)
                        if not all_take:
                            _run(chunk.hide_upstream)
                        for t, upstream, arrays in chunk.steps:
                            if upstream is not None:
                                np.add(dh, upstream, dh)
                            if not nobody_takes:
                                step(*arrays, None if whole[t] else taken[t])
                    if not nobody_takes:
                        _run(chunk.prepared.conclude)
                _run(block.pass_over if all(idle[block.times]) else block.finish)

        return walk

    def _blocks(self) -> Iterator[_Block]:
        """All steps as blocks, in walk order."""
        total, block, chunk = self._sizes.seq_length, self._plan._block_steps, self._plan._chunk_steps
        starts = range(0, total, block)
        for number, start in enumerate(starts if self._backward else reversed(starts)):
            stop = min(start + block, total)
            chunks = [self._chunk(at, min(at + chunk, stop), at - start) for at in range(start, stop, chunk)]
            if not self._backward:
                chunks.reverse()
            finish, pass_over = self._products.bound(start, stop, number == 0)
            yield _Block(slice(start, stop), chunks, finish, pass_over)

    def _chunk(self, start: int, stop: int, at: int) -> _Chunk:
        """The steps from `start` up to `stop`, whose gradients begin at `at` in the block."""
        scratch, sizes, count = self._scratch, self._sizes, stop - start
        places, size = slice(at, at + count), sizes.hidden_size * sizes.batch_size
        before, after = (None, None) if self._memory is None else (part[start:stop].reshape(count, size) for part in self._memory)
        span = Span(
            kept=self._kept[start:stop].reshape(count, -1, size),
            before=self._before[start:stop].reshape(count, -1),
            memory_before=before,
            memory_after=after,
            skipped=scratch["skipped"][start:stop, None, None] if self._ragged else None,
            gradient=scratch["gradient"][places],
            operand=scratch["operand"][places] if "operand" in scratch else None,
            state_gradients=scratch["state_gradients"][places] if "state_gradients" in scratch else None,
        )
        prepared = self._cell.prepare(span, scratch)
        read: list[Call] = []
        hide: list[Call] = []
        upstream: Sequence[Array | None] = [None] * count
        if "upstream" in scratch:
            staged = scratch["upstream"][:count]
            source = self._arrays["output_sequence_gradient_tensor"][start:stop, self._direction]
            read = [partial(np.copyto, *tile) for tile in _in_tiles(staged.swapaxes(1, 2), source)]
            if self._ragged:
                hide.append(partial(np.copyto, staged, 0.0, where=scratch.get("blank", scratch["skipped"])[start:stop, None]))
            upstream = list(staged.reshape(count, -1))
        steps = list(zip(range(start, stop), upstream, prepared.steps, strict=True))
        return _Chunk(slice(start, stop), span, prepared, read, hide, steps if self._backward else steps[::-1])


def _in_tiles(target: Array, source: Array) -> Iterator[tuple[Array, Array]]:
    """The parts of two arrays [..., rows, columns] to copy one by one where the target's columns, not its rows, are contiguous.

    Rows that lie a multiple of 1 KiB apart share few sets of a cache. Reading along a column, 16 of them can still stay there until the
    next column is read; more drive each other out, and each line is then fetched once for every element.
    """
    rows = source.shape[-2]
    tile = 16 if source.strides[-2] % 1024 == 0 else rows
    for at in range(0, rows, tile):
        yield target[..., at : at + tile, :], source[..., at : at + tile, :]


def _run(calls: Sequence[Call]) -> None:
    for call in calls:
        call()
