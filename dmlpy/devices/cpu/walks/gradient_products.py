"""The products over the steps of a block: from rows of the gates' gradients those of x, W, R, the biases and the peepholes.

They are compiled, as the walk is: the threads of NumPy's BLAS look for more work for a tenth of a second after each product, on the
processors that the next walk needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.gemm.blocked import Multiply, bound_product
from dmlpy.devices.cpu.walks.rows import selects
from dmlpy.devices.numpy.recurrent.products import is_matrix

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.walks.reserve import ReserveRows
    from dmlpy.devices.cpu.walks.rows import ActiveRows
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Gates = tuple[int, tuple[int, ...]]
"""The first block of H columns, and the gates of these blocks."""

Stage = Callable[[Array | None, int], None]
"""Copies rows of a block beside each other: all of them, or those at the given numbers. The second argument is the first row's number."""

_PEEPHOLES = (0, 1, 2)
GATES_PADDING = 16
"""Floats between the rows of the gates' gradients: rows that are apart by a power of two share few sets of a cache."""


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
    rows, selective = block * batch, selects(tensors)
    sums = {
        "weight": (len(of_input) * hidden, width),
        "recurrence": (len(of_state) * hidden, hidden),
        "bias": (columns * hidden,),
        "peephole": (len(_PEEPHOLES), hidden),
    }
    direct = {
        name
        for name, gates in (("weight", of_input), ("recurrence", of_state))
        if name in given and _takes_sums(tensors[f"{name}_gradient_tensor"], gates)
    }
    shapes: dict[str, tuple[int, ...]] = {f"{name}_sum": shape for name, shape in sums.items() if name in given - direct}
    if "weight" in given and (selective or not is_matrix(tensors["input_tensor"])):
        shapes["input_rows"] = (rows, width)
    if selective and "recurrence" in given:
        shapes["state_rows"] = (rows, hidden)
    if "input" in given:
        output, both = tensors["input_gradient_tensor"], sizes.num_directions == 2
        if not is_matrix(output) or selective:
            shapes["input_gradient"] = (rows, width)
        if both and output.data_type.numpy.itemsize < np.dtype(np.float32).itemsize:
            # One direction's gradient is kept until the other's is known, so that their sum is rounded once.
            shapes["all_input_gradients"] = (sizes.seq_length, batch, width)
        weights = tensors["weight_tensor"]
        if weights.data_type.numpy != np.float32 or weights.element_strides[-1] != 1:
            shapes["weights"] = (len(of_input) * hidden, width)
    return shapes


def _takes_sums(tensor: TensorDesc, gates: tuple[int, ...]) -> bool:
    """Returns whether a product over these gates' gradients may be summed where a result [1, D, gates * H, columns] lies."""
    row, entry = tensor.element_strides[-2:]
    in_order = gates == tuple(range(len(gates)))
    return in_order and tensor.data_type.numpy == np.float32 and entry == 1 and row >= tensor.sizes[-1]


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
        scratch: the scratch of the plan.
        active: which rows there are.
        threads: the most threads of a product.
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
        threads: int,
    ) -> None:
        self._sizes, self._cell, self._tensors = desc.geometry, desc.cell, desc.tensors()
        self._of_input, self._of_state, self._direction = of_input, of_state, direction
        self._arrays, self._scratch, self._active, self._threads = arrays, scratch, active, threads
        before, after = int(backward), int(not backward)
        steps = self._sizes.seq_length
        self._before = reserve.hidden[direction, before : before + steps]
        memory = None if reserve.memory is None else reserve.memory[direction]
        self._memory = None if memory is None else (memory[before : before + steps], memory[after : after + steps])
        self._results = {name: scratch[f"{name}_sum"] for name in ("bias", "peephole") if f"{name}_sum" in scratch}
        for name in ("weight", "recurrence"):
            if f"{name}_gradient_tensor" in arrays:
                result = arrays[f"{name}_gradient_tensor"][0, direction]
                self._results[name] = scratch.get(f"{name}_sum", result)
        if "weights" in scratch:
            self._weights = scratch["weights"]
        elif "input_gradient_tensor" in arrays:
            self._weights = arrays["weight_tensor"][0, direction]

    def bound(self, block: BlockRows) -> Callable[[bool], None]:
        """The work on a block, whose argument says whether it is the walk's first; the first one also clears the sums."""
        scratch, bases = self._scratch, self._active.bases
        hidden, batch = self._sizes.hidden_size, self._sizes.batch_size
        gates = scratch["gates"][: (block.stop - block.start) * batch, :-GATES_PADDING]
        inputs, state = self._columns(self._of_input), self._columns(self._of_state)
        stages, sums = list[Stage](), list[Multiply]()
        totals = self._results.get("bias")
        if "weight" in self._results:
            rows = self._staged(stages, "input_rows", self._arrays["input_tensor"][0, block.start : block.stop])
            of_all = inputs.stop - inputs.start == gates.shape[1]
            sums.append(self._sum(gates[:, inputs], rows, self._results["weight"], totals if of_all else None))
            totals = None if of_all else totals
        if totals is not None:
            sums.append(self._sum(gates, None, None, totals))
        if "recurrence" in self._results:
            rows, last = self._staged(stages, "state_rows", self._before[block.start : block.stop]), state.stop
            if self._cell.resets_first:
                last -= hidden
                sums.append(self._sum(gates[:, last : state.stop], scratch["operand"], self._results["recurrence"][last - state.start :]))
            sums.append(self._sum(gates[:, state.start : last], rows, self._results["recurrence"][: last - state.start]))
        give_input = self._input_gradient(block, gates[:, inputs]) if "input_gradient_tensor" in self._arrays else None

        def multiply(first: bool) -> None:
            begin, end = int(bases[block.start]), int(bases[block.stop])
            taken = None if self._active.rows is None else self._active.rows[begin:end] - block.start * batch
            if first and "weights" in scratch:
                scratch["weights"][...] = self._arrays["weight_tensor"][0, self._direction]
            for stage in stages:
                stage(taken, begin)
            for add in sums:
                add(end - begin, not first)
            if "peephole" in self._results:
                self._add_peepholes(block, gates[: end - begin], taken, first)
            if give_input is not None:
                give_input(end - begin, taken, begin)

        return multiply

    def give(self) -> None:
        """Writes the sums out that do not lie where they belong, gate by gate."""
        sizes, direction, hidden = self._sizes, self._direction, self._sizes.hidden_size
        for name, (_, gates) in (("weight", self._of_input), ("recurrence", self._of_state)):
            if f"{name}_sum" in self._scratch:
                matrix = self._arrays[f"{name}_gradient_tensor"][0, direction]
                for at, gate in enumerate(gates):
                    rows = slice(at * hidden, (at + 1) * hidden)
                    matrix[gate * hidden : (gate + 1) * hidden] = self._scratch[f"{name}_sum"][rows]
        if "bias" in self._results:
            bias, sums = self._arrays["bias_gradient_tensor"][0, 0, direction], self._results["bias"].reshape(-1, hidden)
            for half, (first, gates) in enumerate((self._of_input, self._of_state)):
                for at, gate in enumerate(gates):
                    start = (half * sizes.gates + gate) * hidden
                    bias[start : start + hidden] = sums[first + at]
        if "peephole" in self._results:
            self._arrays["peephole_gradient_tensor"][0, 0, direction] = self._results["peephole"].reshape(-1)

    def _columns(self, gates: Gates) -> slice:
        first, which = gates
        return slice(first * self._sizes.hidden_size, (first + len(which)) * self._sizes.hidden_size)

    def _sum(self, gates: Array, rows: Array | None, output: Array | None, totals: Array | None = None) -> Multiply:
        """Binds the product of the transposed gradients of some gates and rows."""
        return bound_product(gates, rows, output, self._scratch["products"], self._threads, transposed=True, totals=totals)

    def _staged(self, stages: list[Stage], name: str, source: Array) -> Array:
        """The rows [steps * batch, columns] of a block, which belong to the gates' gradients; what copies them is added to `stages`."""
        if name not in self._scratch:
            return _as_matrix(source)
        target, batch, active = self._scratch[name], source.shape[1], self._active

        def stage(taken: Array | None, begin: int) -> None:
            if taken is None:
                target[: source.shape[0] * batch].reshape(source.shape)[...] = source
            else:
                target[: len(taken)] = source[taken // batch, taken % batch]
                active.clear_idle(target[: len(taken)], begin)  # what a skipped step reads may be no number

        stages.append(stage)
        return target

    def _add_peepholes(self, block: BlockRows, gates: Array, taken: Array | None, first: bool) -> None:
        """Adds what the peepholes of i, o and f see: the cell state before the step, and after it for o."""
        total, hidden = self._results["peephole"], self._sizes.hidden_size
        assert self._memory is not None
        for gate in _PEEPHOLES:
            memory = self._memory[int(gate == 1)][block.start : block.stop].reshape(-1, hidden)
            rows = memory if taken is None else memory[taken]
            part = np.einsum("rh,rh->h", gates[:, gate * hidden : (gate + 1) * hidden], rows)
            total[gate] = part if first else total[gate] + part

    def _input_gradient(self, block: BlockRows, gates: Array) -> Callable[[int, Array | None, int], None]:
        """Binds what writes a block's input gradient, or adds it to the other direction's.

        It takes the number of rows, their numbers in the block, and that of the first one among all.
        """
        output, kept = self._arrays["input_gradient_tensor"][0, block.start : block.stop], self._scratch.get("all_input_gradients")
        staged, adds, active = self._scratch.get("input_gradient"), self._direction == 1, self._active
        found = _as_matrix(output) if staged is None else staged
        multiply = bound_product(gates, self._weights, found, self._scratch["products"], self._threads)
        target = output if kept is None else kept[block.start : block.stop]

        def give(count: int, taken: Array | None, begin: int) -> None:
            multiply(count, adds and staged is None)
            if staged is None:
                return
            if taken is None:
                whole = staged[:count].reshape(target.shape)
                if adds:
                    np.add(target, whole, target)
                else:
                    target[...] = whole
            else:
                active.clear_idle(staged[:count], begin)
                if not adds:
                    target[...] = 0.0
                target[divmod(taken, output.shape[1])] += staged[:count]
            if kept is not None and adds:
                output[...] = target

        return give


def _as_matrix(rows: Array) -> Array:
    """[steps, batch, columns] as [steps * batch, columns], in place."""
    matrix = rows.reshape(-1, rows.shape[-1])
    assert np.may_share_memory(matrix, rows), "the plan stages what is no matrix"
    return matrix
