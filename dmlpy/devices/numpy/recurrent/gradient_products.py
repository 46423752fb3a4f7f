"""The products over a block's steps: from the gates' gradients those of the inputs, W, R, the biases and the projection.

The gates' gradients of a block are copied together to a matrix [gate rows, steps * batch], and each product takes all of it. With
dropout the gates multiply different operands, so each has a separate product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.numpy.recurrent.products import is_matrix

if TYPE_CHECKING:
    from dmlpy.devices.numpy.recurrent.gradient_cells import CellGradient, Rows
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]


def product_shapes(desc: RecurrentGradDesc, cell: CellGradient, block: int) -> dict[str, tuple[int, ...]]:
    """The named scratch of the products over blocks of this many steps, without gradients that are not described."""
    sizes, tensors = desc.geometry, desc.tensors()
    batch, width, hidden, state = sizes.batch_size, sizes.input_size, sizes.hidden_size, sizes.state_size
    given = {name for name in ("input", "weight", "recurrence", "bias", "projection") if f"{name}_gradient_tensor" in tensors}
    rows, of_inputs = len(cell.input_rows.gates) * hidden, (block, batch, width)
    all_sums = {
        "weight": (rows, width),
        "recurrence": (rows, state),
        "bias": (cell.blocks * hidden,),
        "projection": (state, hidden),
    }
    shapes: dict[str, tuple[int, ...]] = {f"{name}_sum": shape for name, shape in all_sums.items() if name in given}
    if shapes and block < sizes.seq_length:
        shapes["partial"] = (max(prod(shape) for shape in shapes.values()),)
    if batch > 1 and given - {"projection"}:
        shapes["gathered"] = (cell.blocks * hidden * batch * block,)
    if rooms := ("recurrence" in given or "projection" in given) + ("projection" in given):
        shapes["columns"] = (rooms * max(state, hidden) * batch * block,)
    drops = "input_dropout_tensor" in tensors
    if drops and given & {"input", "weight"}:
        shapes |= {"input_dropout": (sizes.gates, batch, width), "dropped": of_inputs}
    if "weight" in given and (drops or _is_ragged(desc) or not is_matrix(tensors["input_tensor"])):
        shapes["rows"] = of_inputs
    if "input" in given:
        output, both = tensors["input_gradient_tensor"], sizes.num_directions == 2
        shapes["weights"] = (rows, width)
        if drops or both or not is_matrix(output):
            shapes["input_gradient"] = of_inputs
        if both and output.data_type.numpy.itemsize < COMPUTE.itemsize:
            # One direction's gradient is kept until the other's is known, so that their sum is rounded once.
            shapes["all_input_gradients"] = (sizes.seq_length, batch, width)
    return shapes


def _is_ragged(desc: RecurrentGradDesc) -> bool:
    return any(name in desc.tensors() for name in ("sequence_lengths_tensor", "step_mask_tensor"))


class BlockProducts:
    """The products of one direction, bound to arrays.

    Args:
        desc: a checked desc.
        cell: the direction's.
        direction: its index.
        before: h before each step, [T, S, B].
        arrays: the arrays of the tensors.
        scratch: the scratch of the plan. Results without a place there are not computed.
    """

    def __init__(self, desc: RecurrentGradDesc, cell: CellGradient, direction: int, before: Array, arrays: Arrays, scratch: Arrays) -> None:
        self._desc, self._sizes, self._cell, self._direction = desc, desc.geometry, cell, direction
        self._before, self._arrays, self._scratch = before, arrays, scratch
        self._ragged = _is_ragged(desc)
        output = desc.tensors().get("input_gradient_tensor")
        self._writes_input_gradient = direction == 0 and output is not None and is_matrix(output)

    def bound(self, start: int, stop: int, first: bool) -> tuple[list[Call], list[Call]]:
        """The sums over the steps from `start` up to `stop`, and the work left over if no step is taken."""
        scratch, count = self._scratch, stop - start
        gradient = scratch["gradient"][:count].reshape(count, -1, self._sizes.batch_size)
        calls: list[Call] = []
        columns = self._columns(gradient, scratch["gathered"], calls) if "gathered" in scratch else _as_columns(gradient)
        if "bias_sum" in scratch:
            calls += self._add("bias_sum", slice(None), partial(np.add.reduce, columns, 1), first)
        if "weight_sum" in scratch:
            calls += self._weight_product(start, stop, columns, first)
        if "recurrence_sum" in scratch:
            calls += self._recurrence_product(start, stop, columns, first)
        if "projection_sum" in scratch:
            rooms = np.split(scratch["columns"], 2)
            values = (scratch[name][:count].reshape(count, -1, self._sizes.batch_size) for name in ("state_gradients", "operand"))
            dh, output = (self._columns(value, room, calls) for value, room in zip(values, rooms, strict=True))
            calls += self._add("projection_sum", slice(None), partial(np.matmul, dh, output.T), first)
        passed: list[Call] = []
        if "weights" in scratch:
            calls += self._input_gradient(start, stop, columns)
            passed = self._give_input_gradient(start, stop, None)
        # The first block also starts the sums from zero.
        return calls, calls if first else passed

    def _columns(self, source: Array, room: Array, calls: list[Call]) -> Array:
        """Values [count, rows, B] of some steps as a matrix [rows, count * B]; adds a copy to the calls if one is needed."""
        count, rows, batch = source.shape
        if count == 1 or batch == 1:
            return _as_columns(source)
        gathered = room[: source.size].reshape(rows, count, batch)
        calls.append(partial(np.copyto, gathered, source.swapaxes(0, 1)))
        return gathered.reshape(rows, count * batch)

    def _add(self, name: str, rows: slice, compute: Callable[..., object], first: bool) -> list[Call]:
        """Adds the result of `compute(out=...)` to some rows of a sum, which the first block initialises."""
        total = self._scratch[name][rows]
        if first:
            return [partial(compute, out=total)]
        part = self._scratch["partial"][: total.size].reshape(total.shape)
        return [partial(compute, out=part), partial(np.add, total, part, total)]

    def _gate_rows(self, rows: Rows) -> list[tuple[int, slice, slice]]:
        """For each gate of some blocks: the gate, its rows among these blocks, and its rows among all."""
        hidden = self._sizes.hidden_size
        return [
            (gate, slice(at * hidden, (at + 1) * hidden), slice((rows.first + at) * hidden, (rows.first + at + 1) * hidden))
            for at, gate in enumerate(rows.gates)
        ]

    def _all_rows(self, rows: Rows) -> slice:
        hidden = self._sizes.hidden_size
        return slice(rows.first * hidden, (rows.first + len(rows.gates)) * hidden)

    def _weight_product(self, start: int, stop: int, columns: Array, first: bool) -> list[Call]:
        scratch, x = self._scratch, self._arrays["input_tensor"][0, start:stop]
        count, batch, width = x.shape
        calls: list[Call] = []
        if "rows" in scratch:
            staged = scratch["rows"][:count]
            calls.append(partial(np.copyto, staged, x))
            if self._ragged:
                calls.append(partial(np.copyto, staged, 0.0, where=scratch["skipped"][start:stop, :, None]))
            x = staged
        if "dropped" not in scratch:
            matrix = x.reshape(count * batch, width)
            product = partial(np.matmul, columns[self._all_rows(self._cell.input_rows)], matrix)
            return [*calls, *self._add("weight_sum", slice(None), product, first)]
        dropped = scratch["dropped"][:count]
        for gate, of_sum, of_all in self._gate_rows(self._cell.input_rows):
            calls.append(partial(np.multiply, x, scratch["input_dropout"][gate], dropped))
            product = partial(np.matmul, columns[of_all], dropped.reshape(count * batch, width))
            calls += self._add("weight_sum", of_sum, product, first)
        return calls

    def _recurrence_product(self, start: int, stop: int, columns: Array, first: bool) -> list[Call]:
        scratch, room, calls = self._scratch, self._scratch["columns"], list[Call]()
        before = self._before[start:stop]
        gates = self._gate_rows(self._cell.state_rows)
        last = gates[-1][1]
        operands = [before] * len(gates)
        if self._desc.cell.resets_first:
            operands[-1] = scratch["operand"][: stop - start].reshape(before.shape)
        if "state_dropout" not in scratch:
            # The gates that multiply h[t-1] itself share a product.
            split = last.start if operands[-1] is not before else last.stop
            for rows, operand in ((slice(0, split), before), (slice(split, last.stop), operands[-1])):
                if rows.stop > rows.start:
                    product = partial(np.matmul, columns[rows], self._columns(operand, room, calls).T)
                    calls += self._add("recurrence_sum", rows, product, first)
            return calls
        dropped = room[: before.size].reshape(before.shape[1], len(before), -1)
        for (gate, rows, _), operand in zip(gates, operands, strict=True):
            calls.append(partial(np.multiply, operand.swapaxes(0, 1), scratch["state_dropout"][gate][:, None], dropped))
            product = partial(np.matmul, columns[rows], dropped.reshape(len(dropped), -1).T)
            calls += self._add("recurrence_sum", rows, product, first)
        return calls

    def _input_gradient(self, start: int, stop: int, columns: Array) -> list[Call]:
        scratch, weights, rows, count = self._scratch, self._scratch["weights"], self._cell.input_rows, stop - start
        batch, width = self._sizes.batch_size, self._sizes.input_size
        if "dropped" not in scratch:
            product = partial(np.matmul, columns[self._all_rows(rows)].T, weights)
            if self._writes_input_gradient:
                target = self._arrays["input_gradient_tensor"][0, start:stop]
                return [partial(product, out=target.reshape(count * batch, width))]
            gradient = scratch["input_gradient"][:count]
            return [partial(product, out=gradient.reshape(count * batch, width)), *self._give_input_gradient(start, stop, gradient)]
        gradient, part = scratch["input_gradient"][:count], scratch["dropped"][:count]
        calls: list[Call] = [partial(gradient.fill, 0.0)]
        for gate, of_weights, of_all in self._gate_rows(rows):
            calls += [
                partial(np.matmul, columns[of_all].T, weights[of_weights], part.reshape(count * batch, width)),
                partial(np.multiply, part, scratch["input_dropout"][gate], part),
                partial(np.add, gradient, part, gradient),
            ]
        return [*calls, *self._give_input_gradient(start, stop, gradient)]

    def _give_input_gradient(self, start: int, stop: int, gradient: Array | None) -> list[Call]:
        """Writes a block's input gradient, or adds it to the other direction's. None stands for zeros."""
        output, kept = self._arrays["input_gradient_tensor"][0, start:stop], self._scratch.get("all_input_gradients")
        target = output if kept is None else kept[start:stop]
        if self._direction == 0:
            return [partial(np.copyto, target, 0.0 if gradient is None else gradient)]
        calls: list[Call] = [] if gradient is None else [partial(np.add, target, gradient, target)]
        return calls if kept is None else [*calls, partial(np.copyto, output, kept[start:stop])]


def _as_columns(source: Array) -> Array:
    """Values [count, rows, B] of one step or one sample as a matrix [rows, count * B], without a copy."""
    return source[0] if len(source) == 1 else source[:, :, 0].T
