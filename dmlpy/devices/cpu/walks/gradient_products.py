"""The products over the steps of a block: from rows of the gates' gradients those of x, W, R, the biases and the peepholes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.numpy.recurrent.products import is_matrix

if TYPE_CHECKING:
    from dmlpy.devices.cpu.walks.reserve import ReserveRows
    from dmlpy.devices.cpu.walks.rows import ActiveRows
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Gates = tuple[int, tuple[int, ...]]
"""The first block of H columns, and the gates of these blocks."""

_PEEPHOLES = (0, 1, 2)


class BlockRows(NamedTuple):
    """Steps whose products are taken at once, from `start` up to `stop`."""

    start: int
    stop: int


def product_shapes(
    desc: RecurrentGradDesc, columns: int, of_input: tuple[int, ...], of_state: tuple[int, ...], block: int
) -> dict[str, tuple[int, ...]]:
    """The named scratch of the products, without gradients that are not described.

    Args:
        desc: a checked desc.
        columns: blocks of H columns among the gates' gradients.
        of_input: the gates that multiply x.
        of_state: the gates that multiply h[t-1].
        block: steps of a block.
    """
    sizes, tensors = desc.geometry, desc.tensors()
    batch, width, hidden = sizes.batch_size, sizes.input_size, sizes.hidden_size
    given = {name for name in ("input", "weight", "recurrence", "bias", "peephole") if f"{name}_gradient_tensor" in tensors}
    rows, ragged = block * batch, "sequence_lengths_tensor" in tensors
    sums = {
        "weight": (len(of_input) * hidden, width),
        "recurrence": (len(of_state) * hidden, hidden),
        "bias": (columns * hidden,),
        "peephole": (len(_PEEPHOLES), hidden),
    }
    shapes: dict[str, tuple[int, ...]] = {f"{name}_sum": shape for name, shape in sums.items() if name in given}
    if shapes and block < sizes.seq_length:
        shapes["partial"] = (max(prod(shape) for shape in shapes.values()),)
    if "bias" in given:
        shapes["ones"] = (rows,)
    if "weight" in given and (ragged or not is_matrix(tensors["input_tensor"])):
        shapes["input_rows"] = (rows, width)
    if ragged and given & {"recurrence", "peephole"}:
        shapes["state_rows"] = (rows, hidden)
    if "input" in given:
        output, both = tensors["input_gradient_tensor"], sizes.num_directions == 2
        if not is_matrix(output) or both or ragged:
            shapes["input_gradient"] = (rows, width)
        if both and output.data_type.numpy.itemsize < np.dtype(np.float32).itemsize:
            # One direction's gradient is kept until the other's is known, so that their sum is rounded once.
            shapes["all_input_gradients"] = (sizes.seq_length, batch, width)
        weights = tensors["weight_tensor"]
        if weights.data_type.numpy != np.float32 or weights.element_strides[-1] != 1 or weights.element_strides[-2] < width:
            shapes["weights"] = (len(of_input) * hidden, width)
    return shapes


class RowProducts:
    """The products of one direction, bound to arrays.

    Args:
        desc: a checked desc.
        of_input: the columns that multiply x and W.
        of_state: the columns that multiply h[t-1] and R.
        direction: its index.
        backward: whether the forward walk goes from the last step to the first.
        reserve: the states around each step.
        arrays: the arrays of the tensors.
        scratch: the scratch of the plan. Results without a place there are not computed.
        active: which rows there are.
    """

    def __init__(
        self,
        desc: RecurrentGradDesc,
        of_input: Gates,
        of_state: Gates,
        direction: int,
        backward: bool,
        reserve: ReserveRows,
        arrays: Arrays,
        scratch: Arrays,
        active: ActiveRows,
    ) -> None:
        self._sizes, self._cell, self._tensors = desc.geometry, desc.cell, desc.tensors()
        self._of_input, self._of_state, self._direction = of_input, of_state, direction
        self._arrays, self._scratch, self._active = arrays, scratch, active
        before, after = int(backward), int(not backward)
        steps = self._sizes.seq_length
        self._before = reserve.hidden[direction, before : before + steps]
        memory = None if reserve.memory is None else reserve.memory[direction]
        self._memory = None if memory is None else (memory[before : before + steps], memory[after : after + steps])
        if "weights" in scratch:
            self._weights = scratch["weights"]
        elif "input_gradient_tensor" in arrays:
            self._weights = arrays["weight_tensor"][0, direction]

    def bound(self, block: BlockRows) -> Callable[[bool], None]:
        """The work on a block, whose argument says whether it is the walk's first; the first one also clears the sums."""
        scratch, active, bases = self._scratch, self._active, self._active.bases
        before = self._before[block.start : block.stop].reshape(-1, self._sizes.hidden_size)
        x = self._arrays["input_tensor"][0, block.start : block.stop]
        hidden, batch = self._sizes.hidden_size, self._sizes.batch_size
        inputs = self._columns(self._of_input)
        state = self._columns(self._of_state)

        def multiply(first: bool) -> None:
            begin, end = int(bases[block.start]), int(bases[block.stop])
            count = end - begin
            gates = scratch["gates"][:count]
            taken = None if active.rows is None else active.rows[begin:end] - block.start * batch
            if first and "weights" in scratch:
                scratch["weights"][...] = self._arrays["weight_tensor"][0, self._direction]
            if "bias_sum" in scratch:
                scratch["ones"][:count] = 1.0
                self._add("bias_sum", slice(None), scratch["ones"][:count], gates, first)
            if "weight_sum" in scratch:
                self._add("weight_sum", slice(None), gates[:, inputs].T, self._input_rows(x, taken), first)
            if "recurrence_sum" in scratch:
                states, last = self._rows(before, taken), state.stop
                if self._cell.resets_first:
                    last -= hidden
                    self._add("recurrence_sum", slice(last, None), gates[:, last:].T, scratch["operand"][:count], first)
                self._add("recurrence_sum", slice(0, last - state.start), gates[:, state.start : last].T, states, first)
            if "peephole_sum" in scratch:
                self._add_peepholes(block, gates, taken, first)
            if "input_gradient_tensor" in self._arrays:
                self._give_input_gradient(block, gates[:, inputs], taken)

        return multiply

    def give(self) -> None:
        """Writes the sums out, gate by gate."""
        sizes, direction, hidden = self._sizes, self._direction, self._sizes.hidden_size
        for name, (_, gates) in (("weight", self._of_input), ("recurrence", self._of_state)):
            if f"{name}_sum" in self._scratch:
                matrix = self._arrays[f"{name}_gradient_tensor"][0, direction]
                for at, gate in enumerate(gates):
                    rows = slice(at * hidden, (at + 1) * hidden)
                    matrix[gate * hidden : (gate + 1) * hidden] = self._scratch[f"{name}_sum"][rows]
        if "bias_sum" in self._scratch:
            bias, sums = self._arrays["bias_gradient_tensor"][0, 0, direction], self._scratch["bias_sum"].reshape(-1, hidden)
            for half, (first, gates) in enumerate((self._of_input, self._of_state)):
                for at, gate in enumerate(gates):
                    start = (half * sizes.gates + gate) * hidden
                    bias[start : start + hidden] = sums[first + at]
        if "peephole_sum" in self._scratch:
            self._arrays["peephole_gradient_tensor"][0, 0, direction] = self._scratch["peephole_sum"].reshape(-1)

    def _columns(self, gates: Gates) -> slice:
        first, which = gates
        return slice(first * self._sizes.hidden_size, (first + len(which)) * self._sizes.hidden_size)

    def _add(self, name: str, part: slice, left: Array, right: Array, first: bool) -> None:
        """Adds a product to a part of a sum, which the first block initialises."""
        total = self._scratch[name][part]
        if first:
            np.matmul(left, right, total)
        elif left.shape[-1]:
            product = self._scratch["partial"][: total.size].reshape(total.shape)
            np.matmul(left, right, product)
            np.add(total, product, total)

    def _rows(self, matrix: Array, taken: Array | None) -> Array:
        """The rows [steps * batch, H] that belong to the gates' gradients."""
        if taken is None:
            return matrix
        found = self._scratch["state_rows"][: len(taken)]
        np.take(matrix, taken, 0, found, mode="clip")
        return found

    def _input_rows(self, x: Array, taken: Array | None) -> Array:
        if "input_rows" not in self._scratch:
            return x.reshape(-1, x.shape[-1])
        if taken is None:
            staged = self._scratch["input_rows"][: x.shape[0] * x.shape[1]]
            staged.reshape(x.shape)[...] = x
            return staged
        staged = self._scratch["input_rows"][: len(taken)]
        staged[...] = x[taken // x.shape[1], taken % x.shape[1]]
        return staged

    def _add_peepholes(self, block: BlockRows, gates: Array, taken: Array | None, first: bool) -> None:
        """Adds what the peepholes of i, o and f see: the cell state before the step, and after it for o."""
        total, hidden = self._scratch["peephole_sum"], self._sizes.hidden_size
        assert self._memory is not None
        for gate in _PEEPHOLES:
            memory = self._memory[int(gate == 1)][block.start : block.stop].reshape(-1, hidden)
            part = np.einsum("rh,rh->h", gates[:, gate * hidden : (gate + 1) * hidden], self._rows(memory, taken))
            total[gate] = part if first else total[gate] + part

    def _give_input_gradient(self, block: BlockRows, gates: Array, taken: Array | None) -> None:
        """Writes a block's input gradient, or adds it to the other direction's."""
        output, kept = self._arrays["input_gradient_tensor"][0, block.start : block.stop], self._scratch.get("all_input_gradients")
        if "input_gradient" not in self._scratch:
            np.matmul(gates, self._weights, output.reshape(-1, output.shape[-1]))
            return
        found = self._scratch["input_gradient"][: len(gates)]
        np.matmul(gates, self._weights, found)
        target = output if kept is None else kept[block.start : block.stop]
        if taken is None:
            whole = found.reshape(target.shape)
            if self._direction == 0:
                target[...] = whole
            else:
                np.add(target, whole, target)
        else:
            if self._direction == 0:
                target[...] = 0.0
            target[divmod(taken, output.shape[1])] += found
        if kept is not None and self._direction == 1:
            output[...] = target
