"""The products over the steps of a block: from rows of the gates' gradients to the gradients of x, W, R, the biases and the peepholes.

They are compiled like the time loop: the threads of NumPy's BLAS spin for a tenth of a second after each product, on the
processors that the next time loop needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.matrix.blocked import BlockedProduct, RowMultipliers, padded_columns
from dmlpy.devices.cpu.recurrent.packing import RowGather, Rows, copied, has_rows, in_place, matrix_of

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.launches import HostCall, Task
    from dmlpy.devices.cpu.recurrent.packing import ActiveRows
    from dmlpy.devices.cpu.recurrent.parameters import ReserveRows
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
    from dmlpy.operators.recurrent.layer import RecurrentCell

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
_PEEPHOLES = (0, 1, 2)
GATES_PADDING = 16
"""Floats between the rows of the gates' gradients: rows at a distance of a power of two share few cache sets."""


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


class BlockRows(NamedTuple):
    """Steps whose products are computed at once, from `start` up to `stop`."""

    start: int
    stop: int


class BlockWork(NamedTuple):
    """The work on a block: launches that may precede its time loop, the products after it, and the work after those."""

    before: list[HostCall]
    parts: list[Task]
    after: list[HostCall]


def product_shapes(desc: RecurrentGradDesc, columns: GateColumns, block: int) -> dict[str, tuple[int, ...]]:
    """The named scratch of the products of described gradients, and the multipliers of h, which the time loop also reads.

    Args:
        desc: a checked desc.
        columns: those of the gates' gradients.
        block: steps of a block.
    """
    sizes, tensors, (_, of_input), (_, of_state) = desc.geometry, desc.tensors(), columns.of_input, columns.of_state
    batch, width, hidden, entries = sizes.batch_size, sizes.input_size, sizes.hidden_size, sizes.state_size
    names = ("input", "weight", "recurrence", "bias", "peephole", "projection")
    given = {name for name in names if f"{name}_gradient_tensor" in tensors}
    rows = block * batch
    sums = {
        "weight": (len(of_input) * hidden, width),
        "recurrence": (len(of_state) * hidden, entries),
        "bias": (columns.gates * hidden,),
        "peephole": (len(_PEEPHOLES), hidden),
        "projection": (entries, hidden),
    }
    direct = {
        name
        for name, gates in (("weight", of_input), ("recurrence", of_state), ("projection", ()))
        if name in given and _takes_sums(tensors[f"{name}_gradient_tensor"], gates)
    }
    shapes: dict[str, tuple[int, ...]] = {f"{name}_sum": shape for name, shape in sums.items() if name in given - direct}
    if "weight" in given and not has_rows(tensors["input_tensor"]):
        shapes["input_rows"] = (rows, width)
    if "projection" in given:
        shapes["operand"] = (rows, hidden)
    if "input_dropout_tensor" in tensors and given & {"input", "weight"}:
        shapes["input_dropout"] = (len(of_input), batch, padded_columns(width))
    if "state_dropout_tensor" in tensors:
        shapes["state_dropout"] = (len(of_state), batch, padded_columns(entries))
    if "input" in given:
        output, is_bidirectional = tensors["input_gradient_tensor"], sizes.num_directions == 2
        if not has_rows(output):
            shapes["input_gradient"] = (rows, width)
        if is_bidirectional and output.data_type.numpy.itemsize < np.dtype(np.float32).itemsize:
            # One direction's gradient is stored until the other's is known, so that their sum is rounded once.
            shapes["all_input_gradients"] = (sizes.seq_length, batch, width)
        weights = tensors["weight_tensor"]
        if weights.data_type.numpy != np.float32 or weights.element_strides[-1] != 1:
            shapes["weights"] = (len(of_input) * hidden, width)
    return shapes


def _takes_sums(tensor: TensorDesc, gates: tuple[int, ...]) -> bool:
    """Returns whether a product over these gates' gradients may be summed directly in a result [1, D, gates * H, columns]."""
    row, entry = tensor.element_strides[-2:]
    in_order = gates == tuple(range(len(gates)))
    return in_order and tensor.data_type.numpy == np.float32 and entry == 1 and row >= tensor.sizes[-1]


class RowProducts:
    """The products of one direction, bound to arrays.

    Args:
        desc: a checked desc.
        columns: those of the gates' gradients.
        direction: its index.
        backward: whether the forward recurrence goes from the last step to the first.
        reserve: the states around each step.
        arrays: the arrays of the tensors.
        scratch: the scratch of the plan.
        active: the active rows.
        threads: the most threads of a product.
    """

    def __init__(
        self,
        desc: RecurrentGradDesc,
        columns: GateColumns,
        direction: int,
        backward: bool,
        reserve: ReserveRows,
        arrays: Arrays,
        scratch: Arrays,
        active: ActiveRows,
        threads: int,
    ) -> None:
        self._sizes, self._cell, self._tensors = desc.geometry, desc.cell, desc.tensors()
        self._columns, self._direction = columns, direction
        self._arrays, self._scratch, self._active, self._threads = arrays, scratch, active, threads
        before, after = int(backward), int(not backward)
        steps = self._sizes.seq_length
        self._before = reserve.hidden[direction, before : before + steps]
        memory = None if reserve.memory is None else reserve.memory[direction]
        self._memory = None if memory is None else (memory[before : before + steps], memory[after : after + steps])
        self._results = {name: scratch[f"{name}_sum"] for name in ("bias", "peephole") if f"{name}_sum" in scratch}
        for name in ("weight", "recurrence", "projection"):
            if f"{name}_gradient_tensor" in arrays:
                result = arrays[f"{name}_gradient_tensor"][0, direction]
                self._results[name] = scratch.get(f"{name}_sum", result)
        if "weights" in scratch:
            self._weights = scratch["weights"]
        elif "input_gradient_tensor" in arrays:
            self._weights = arrays["weight_tensor"][0, direction]

    def bound(self, block: BlockRows, *, first: bool, adds: bool) -> BlockWork:
        """The work on a block.

        Args:
            block: its steps.
            first: whether it is the time loop's first one, whose sums are not added to others.
            adds: whether the input gradient is added to that of the other direction.
        """
        scratch, bases, batch = self._scratch, self._active.bases, self._sizes.batch_size
        rows = scratch["gates"][: (block.stop - block.start) * batch, :-GATES_PADDING]
        gates, state_gradients = np.split(rows, [self._columns.gates * self._sizes.hidden_size], axis=1)
        gathers = list[RowGather]()
        products = [*self._weight_sums(block, gates, gathers, first), *self._recurrence_sums(block, gates, gathers, first)]
        if "projection" in self._results:
            products.append(self._sum(state_gradients, Rows(scratch["operand"]), self._results["projection"], adds=not first))
        give_input: RowGather | None = None
        if "input_gradient_tensor" in self._arrays:
            of_input, give_input = self._input_gradient(block, gates, gathers, adds=adds)
            products += of_input

        def rows_of_block() -> tuple[int, int, Array | None]:
            """The first row of the block and the one past its last, among all; their numbers in the block if some are left out."""
            begin, end = int(bases[block.start]), int(bases[block.stop])
            return begin, end, None if self._active.rows is None else self._active.rows[begin:end] - block.start * batch

        def prepare() -> None:
            begin, end, taken = rows_of_block()
            for product in products:
                product.limit(end - begin)
            if first and "weights" in scratch:
                scratch["weights"][...] = self._arrays["weight_tensor"][0, self._direction]
            if "samples" in scratch:
                scratch["samples"][: end - begin] = (np.arange(end - begin) if taken is None else taken) % batch
            for gather in gathers:
                gather(taken, begin)

        def finish() -> None:
            begin, end, taken = rows_of_block()
            if "peephole" in self._results:
                self._add_peepholes(block, gates[: end - begin], taken, first)
            if give_input is not None:
                give_input(taken, begin)

        prepares = bool(gathers) or self._active.rows is not None or bool({"weights", "samples"} & scratch.keys())
        finishes = "peephole" in self._results or give_input is not None
        return BlockWork([prepare] * prepares, [product.task for product in products], [finish] * finishes)

    def give(self) -> None:
        """Copies the sums that are in scratch to the results, gate by gate."""
        sizes, direction, hidden = self._sizes, self._direction, self._sizes.hidden_size
        for name, (_, gates) in (("weight", self._columns.of_input), ("recurrence", self._columns.of_state)):
            if f"{name}_sum" in self._scratch:
                matrix = self._arrays[f"{name}_gradient_tensor"][0, direction]
                for at, gate in enumerate(gates):
                    rows = slice(at * hidden, (at + 1) * hidden)
                    matrix[gate * hidden : (gate + 1) * hidden] = self._scratch[f"{name}_sum"][rows]
        if "bias" in self._results:
            bias, sums = self._arrays["bias_gradient_tensor"][0, 0, direction], self._results["bias"].reshape(-1, hidden)
            for half, (first, gates) in enumerate((self._columns.of_input, self._columns.of_state)):
                for at, gate in enumerate(gates):
                    start = (half * sizes.gates + gate) * hidden
                    bias[start : start + hidden] = sums[first + at]
        if "peephole" in self._results:
            self._arrays["peephole_gradient_tensor"][0, 0, direction] = self._results["peephole"].reshape(-1)
        if "projection_sum" in self._scratch:
            self._arrays["projection_gradient_tensor"][0, direction] = self._scratch["projection_sum"]

    def _weight_sums(self, block: BlockRows, gates: Array, gathers: list[RowGather], first: bool) -> Iterator[BlockedProduct]:
        """Yields the products for W, which also sum the gates' gradients, or else separate work for these sums."""
        columns, totals = self._columns, self._results.get("bias")
        if "weight" in self._results:
            given, copy = self._arrays["input_tensor"][0, block.start : block.stop], self._scratch.get("input_rows")
            x = in_place(given, self._active, gathers) if copy is None else copied(given, copy, self._active, gathers)
            of_all = len(columns.of_input[1]) == columns.gates
            for part in columns.parts(columns.of_input, each="input_dropout" in self._scratch):
                of_these = totals[part.columns] if totals is not None and of_all else None
                multipliers = self._multipliers("input_dropout", part.first)
                result = self._results["weight"][part.rows]
                yield self._sum(gates[:, part.columns], x, result, of_these, multipliers, adds=not first)
            if of_all:
                return
        if totals is not None:
            yield self._sum(gates, None, None, totals, adds=not first)

    def _recurrence_sums(self, block: BlockRows, gates: Array, gathers: list[RowGather], first: bool) -> Iterator[BlockedProduct]:
        """Yields the products for R."""
        if "recurrence" not in self._results:
            return
        h, result = in_place(self._before[block.start : block.stop], self._active, gathers), self._results["recurrence"]
        waits = self._cell.resets_first  # the last gate multiplies r * h
        for part in self._columns.parts(self._columns.of_state, each="state_dropout" in self._scratch, last=waits):
            operand = Rows(self._scratch["operand"]) if waits and part.rows.stop == len(result) else h
            multipliers = self._multipliers("state_dropout", part.first)
            yield self._sum(gates[:, part.columns], operand, result[part.rows], multipliers=multipliers, adds=not first)

    def _sum(
        self,
        gates: Array,
        rows: Rows | None,
        output: Array | None,
        totals: Array | None = None,
        multipliers: RowMultipliers | None = None,
        *,
        adds: bool,
    ) -> BlockedProduct:
        """Binds the product of the transposed gradients of some gates and rows, with dropout if there is any."""
        room, threads = self._scratch["products"], self._threads
        b, b_rows = (None, None) if rows is None else rows
        return BlockedProduct(
            gates, b, output, room, threads, transposed=True, totals=totals, multipliers=multipliers, adds=adds, b_rows=b_rows
        )

    def _multipliers(self, name: str, gate: int) -> RowMultipliers | None:
        """The multipliers of dropout for the gate with this number among those that multiply the same operand; None without dropout."""
        return RowMultipliers(self._scratch[name][gate], self._scratch["samples"]) if name in self._scratch else None

    def _add_peepholes(self, block: BlockRows, gates: Array, taken: Array | None, first: bool) -> None:
        """Adds the operands of the peepholes of i, o and f: the cell state before the step, and after it for o."""
        total, hidden = self._results["peephole"], self._sizes.hidden_size
        assert self._memory is not None
        for gate in _PEEPHOLES:
            memory = self._memory[int(gate == 1)][block.start : block.stop].reshape(-1, hidden)
            rows = memory if taken is None else memory[taken]
            part = np.einsum("rh,rh->h", gates[:, gate * hidden : (gate + 1) * hidden], rows)
            total[gate] = part if first else total[gate] + part

    def _input_gradient(
        self, block: BlockRows, gates: Array, gathers: list[RowGather], *, adds: bool
    ) -> tuple[list[BlockedProduct], RowGather | None]:
        """Binds the products for a block's input gradient, and the work that writes their sum or adds it to the other direction's.

        There is nothing to write if they are summed in the output. Else it takes the rows' numbers in the block and the number of the first
        one among all. The preparation of the output is added to `gathers`.
        """
        output, saved = self._arrays["input_gradient_tensor"][0, block.start : block.stop], self._scratch.get("all_input_gradients")
        staged, active = self._scratch.get("input_gradient"), self._active
        gradient_rows = in_place(output, active, gathers) if staged is None else Rows(staged)
        if staged is None and active.rows is not None and not adds:
            clear = active.clearing(output, block.start)
            gathers.append(lambda taken, begin: clear())
        room, threads, products = self._scratch["products"], self._threads, list[BlockedProduct]()
        for part in self._columns.parts(self._columns.of_input, each="input_dropout" in self._scratch):
            of_gates, weights, more = gates[:, part.columns], self._weights[part.rows], bool(products) or (adds and staged is None)
            multipliers = self._multipliers("input_dropout", part.first)
            product = BlockedProduct(
                of_gates,
                weights,
                gradient_rows.matrix,
                room,
                threads,
                multipliers=multipliers,
                adds=more,
                output_rows=gradient_rows.addresses,
            )
            products.append(product)
        if staged is None:
            return products, None
        target = output if saved is None else saved[block.start : block.stop]
        rows = matrix_of(target)

        def give(taken: Array | None, begin: int) -> None:
            count = (block.stop - block.start) * self._sizes.batch_size if taken is None else len(taken)
            if taken is None:
                whole = staged[:count].reshape(target.shape)
                if adds:
                    np.add(target, whole, target)
                else:
                    target[...] = whole
            else:
                active.fill_idle(staged[:count], begin, 0.0)
                given, place = (target, divmod(taken, output.shape[1])) if rows is None else (rows, taken)
                if adds:
                    given[place] += staged[:count]
                else:
                    target[...] = 0.0
                    given[place] = staged[:count]
            if saved is not None and adds:
                output[...] = target

        return products, give
