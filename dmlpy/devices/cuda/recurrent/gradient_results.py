"""What the gradients of RNN, LSTM and GRU on CUDA make of the gate gradients of all steps: for each result a product, or a sum.

Letters as in raw_kernels/recurrent/gradient_results.cu: T steps, B samples, D directions, G gates, H hidden units, S entries of h, Q rows
of gate gradients for each unit and step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.kernels import ALIGNMENT, ELEMENT_THREADS, Kernel, KernelLibrary, Struct, strided
from dmlpy.devices.cuda.machine import Arithmetic, Machine
from dmlpy.devices.cuda.recurrent.common import (
    FLOAT,
    activations_type,
    arithmetic,
    backward_walks,
    cell_type,
    check_rows,
    copy,
    copy_kernel,
    fill_layer,
    gemm,
    heeded_flags,
    row_stride,
    storage_type,
    work_of,
    workspace,
)
from dmlpy.devices.cuda.recurrent.gradient_kernels import (
    FIND_UNMASKED,
    OPERAND,
    REBUILD,
    SEQUENCE,
    STEPS,
    SUM,
    SUM_PRODUCTS,
    UNPACK,
    gradient_kernel,
    operand_kernel,
)
from dmlpy.devices.cuda.recurrent.model import Estimate, cost_of, product_us
from dmlpy.devices.cuda.recurrent.reserve import Reserve
from dmlpy.devices.cuda.seam import Matrix
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

# blocks of matrices


@dataclass(frozen=True)
class Table:
    """Rows of float32 in memory, of which products read and write blocks."""

    pointer: int
    stride: int

    def block(self, row: int, rows: int, column: int, columns: int) -> Matrix:
        return Matrix(self.pointer + FLOAT.itemsize * (row * self.stride + column), rows, columns, self.stride, FLOAT)

    def transposed(self, row: int, rows: int, column: int, columns: int) -> Matrix:
        """The transpose of a block: [columns, rows]."""
        block = self.block(row, rows, column, columns)
        return Matrix(block.pointer, columns, rows, self.stride, FLOAT, transposed=True)


class Run(NamedTuple):
    """Neighbouring gates whose rows neighbour each other in the weights and among the gate gradients.

    Attributes:
        direction: the direction of the first one.
        gate: the first one's number in its direction.
        row: its row of H among the weights of all directions.
        column: its row of H among the gate gradients of a step, all directions.
        gates: how many of them.
    """

    direction: int
    gate: int
    row: int
    column: int
    gates: int


class Places(NamedTuple):
    """Addresses of the parts of the reserve, of scratch by name, and of the bound tensors."""

    reserve: Reserve
    scratch: dict[str, int]
    tensors: Pointers


class RecurrentGradientPlan(PlanWithoutConstants):
    """What the families share: all but the walk itself.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this family was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    estimate: Estimate | None = None
    """What the model says of the walk; set by `families`."""

    steps_apart = 0
    """Steps that are launched by themselves; none where one launch is for the whole sequence."""

    def __init__(self, desc: RecurrentGradDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        self._desc = desc
        self._library = library
        self._reason = reason
        self._sizes = sizes = desc.geometry
        self._tensors = desc.tensors()
        self._type = storage_type(desc)
        self._tf32 = tf32  # whatever the storage, products are of float32
        self.heeded_flags = heeded_flags(tf32)
        self._cell = desc.cell
        last = sizes.num_directions - 1
        self._types = (cell_type(desc.cell), *(activations_type(desc.activations_of(direction)) for direction in (0, last)))
        self._gradient_rows = sizes.gates + desc.cell.resets_last
        self._rows = sizes.seq_length * sizes.batch_size
        check_rows(desc, self._gradient_rows)
        self._chunk_rows = max(32, isqrt(self._rows))
        self._chunks = -(-self._rows // self._chunk_rows)
        self._selects = "sequence_lengths_tensor" in self._tensors or "step_mask_tensor" in self._tensors
        self._scratch = Layout(self._scratch_arrays(), ALIGNMENT)
        self.temporary_size = self._scratch.size
        for kernel in self.kernels():
            library.function(kernel)

    def kernels(self) -> list[Kernel]:
        """Every kernel that this plan launches."""
        data_type, wanted = self._type, self._tensors
        needed = [FIND_UNMASKED] if "step_mask_tensor" in wanted else []
        needed += [copy_kernel(data_type, FLOAT) for name in self._copied]
        if "input" in self._scratch.arrays:
            needed.append(operand_kernel(data_type, data_type))
        if "recurrence_gradient_tensor" in wanted and "state_dropout_tensor" in wanted:
            needed.append(operand_kernel(FLOAT, data_type))
        if self._rebuilds:
            needed += [gradient_kernel("rebuild", data_type, self._types[0], activations) for activations in self._types[1:]]
        if "input_product" in self._scratch.arrays:
            needed.append(gradient_kernel("sum_products", data_type))
        needed += [gradient_kernel("unpack", data_type) for name in self._unpacked]
        for name, sums in _SUMS.items():
            if name in wanted:
                needed += [gradient_kernel("sum_rows", data_type, sums), gradient_kernel("sum_chunks", data_type, sums)]
        return list(dict.fromkeys(needed))

    def describe(self) -> str:
        sizes, wanted = self._sizes, self._tensors
        gate_rows = sizes.num_directions * sizes.gates * sizes.hidden_size
        lines = [
            f"CUDA, {self._library.limits.name}, {self._type} storage, {arithmetic(self._tf32)}; {self._reason}",
            *([f"copied to float32 matrices first: {', '.join(self._copied)}"] if self._copied else []),
            *self._describe_walk(),
        ]
        for name, rows, columns in [
            ("input_gradient_tensor", self._rows, sizes.input_size),
            ("weight_gradient_tensor", gate_rows, sizes.input_size),
            ("recurrence_gradient_tensor", gate_rows, sizes.state_size),
            ("projection_gradient_tensor", sizes.num_directions * sizes.state_size, sizes.hidden_size),
        ]:
            if name in wanted:
                terms = gate_rows if name == "input_gradient_tensor" else self._rows
                placing = "copied to the tensor" if name in self._unpacked else "written in place"
                lines.append(f"{name}: [{rows}, {columns}], sums of {terms} products, {placing}")
        for name, sums in _SUMS.items():
            if name in wanted:
                lines.append(f"{name}: sum_rows and sum_chunks<{sums}>, {self._chunks} chunk(s) of {self._chunk_rows} rows")
        return "\n".join([*lines, f"scratch: {self.temporary_size} bytes"])

    def cost(self) -> Cost:
        if self.estimate is None:
            return Cost()
        work, machine, sizes = work_of(self._desc), Machine.of(self._library.limits), self._sizes
        if self._tf32 and work.arithmetic == "float":
            work = replace(work, arithmetic="tf32")
        gate_rows = sizes.num_directions * sizes.gates * sizes.hidden_size
        products = {
            "input_gradient_tensor": (self._rows, sizes.input_size, gate_rows),
            "weight_gradient_tensor": (gate_rows, sizes.input_size, self._rows),
            "recurrence_gradient_tensor": (gate_rows, sizes.state_size, self._rows),
            "projection_gradient_tensor": (sizes.num_directions * sizes.state_size, sizes.hidden_size, self._rows),
        }
        wanted = [product for name, product in products.items() if name in self._tensors]
        arithmetic: Arithmetic = "tf32" if self._tf32 else "float"
        products_us = sum(product_us(machine, arithmetic, *product) for product in wanted)
        readers = sum(name in self._tensors for name in (*tuple(products)[:3], *_SUMS))
        gradients = self._rows * sizes.num_directions * self._gradient_rows * sizes.hidden_size * FLOAT.itemsize
        traffic = {"gate gradients": (1 + readers) * gradients}
        if self.estimate.family == "step":
            early = sizes.gates - self._cell.resets_first if "state_dropout_tensor" in self._tensors else 1
            sums = (early + self._cell.resets_first) * sizes.state_size + self._cell.projection * sizes.hidden_size
            traffic["products of steps"] = 2 * self._rows * sizes.num_directions * sums * FLOAT.itemsize
        return cost_of(self.estimate, work, machine, products_us, traffic)

    @abstractmethod
    def _describe_walk(self) -> list[str]:
        """The walk against time, for `describe`."""

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = Places(Reserve.of(self._desc, tensors["reserve_tensor"]), self._scratch.pointers(temporary), tensors)
        work = [copy(self._library, self._tensors[name], tensors[name], places.scratch[_short(name)], FLOAT) for name in self._copied]
        if "step_mask_tensor" in self._tensors:
            work.insert(0, self._library.launch_elements(FIND_UNMASKED, self._sizes.batch_size, self._steps(places)))
        return in_order(
            [
                *work,
                *self._walk(places),
                *self._input_gradient(places),
                *self._weight_gradient(places),
                *self._recurrence_gradient(places),
                *self._projection_gradient(places),
                *(part for name, sums in _SUMS.items() for part in self._sum(name, sums, places)),
            ]
        )

    @abstractmethod
    def _walk(self, places: Places) -> list[Launch]:
        """The work that leaves the gate gradients of all steps, and writes the gradients of the initial states."""

    # memory

    def _is_matrix(self, name: str) -> bool:
        """Whether products can read or write the tensor where it is."""
        return self._type == FLOAT and row_stride(self._tensors[name]) is not None

    @property
    def _factors(self) -> list[str]:
        """The inputs that products read whole, beside the input itself."""
        return ["weight_tensor"] if "input_gradient_tensor" in self._tensors else []

    @property
    def _copied(self) -> list[str]:
        """Those that have to be copied to a float32 matrix first."""
        return [name for name in self._factors if not self._is_matrix(name)]

    @property
    def _unpacked(self) -> list[str]:
        """The outputs that have to be copied from one."""
        found = [name for name in _PRODUCTS if name in self._tensors and not self._is_matrix(name)]
        summed = "input_gradient_tensor" in self._tensors and "input_dropout_tensor" in self._tensors
        return ["input_gradient_tensor", *(name for name in found if name != "input_gradient_tensor")] if summed else found

    @property
    def _rebuilds(self) -> bool:
        """Whether a product needs an operand that the reserve does not hold."""
        name = "recurrence_gradient_tensor" if self._cell.resets_first else "projection_gradient_tensor"
        return (self._cell.resets_first or self._cell.projection) and name in self._tensors

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, wanted, rows = self._sizes, self._tensors, self._rows
        walks, hidden = sizes.num_directions, sizes.hidden_size
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [("gate_gradients", (rows, walks, self._gradient_rows, hidden), FLOAT)]
        if "step_mask_tensor" in wanted:
            arrays.append(("unmasked", (2, sizes.batch_size), np.dtype(np.int32)))
        arrays += [(_short(name), wanted[name].sizes, FLOAT) for name in (*self._copied, *self._unpacked)]
        drops = "input_dropout_tensor" in wanted
        if "weight_gradient_tensor" in wanted and (drops or self._selects or not self._is_matrix("input_tensor")):
            arrays.append(("input", (rows, sizes.input_size), FLOAT))
        if "input_gradient_tensor" in wanted and drops:
            arrays.append(("input_product", (rows, sizes.input_size), FLOAT))
        if self._rebuilds or ("recurrence_gradient_tensor" in wanted and "state_dropout_tensor" in wanted):
            arrays.append(("operand", (rows, max(hidden, sizes.state_size)), FLOAT))
        columns = {"bias_gradient_tensor": self._gradient_rows, "peephole_gradient_tensor": 3}
        widest = max((count for name, count in columns.items() if name in wanted), default=0)
        if widest:
            arrays.append(("partial", (self._chunks, walks * widest * hidden), FLOAT))
        return [*arrays, workspace(self._library)]

    def _table(self, name: str, places: Places) -> Table:
        """A tensor as the rows of its last axis, where it lies or in its float32 scratch."""
        tensor = self._tensors[name]
        scratch = places.scratch.get(_short(name))
        if scratch is not None:
            return Table(scratch, tensor.sizes[-1])
        stride = row_stride(tensor)
        assert stride is not None  # as `_is_matrix` found
        return Table(places.tensors[name], stride)

    def _gate_gradients(self, places: Places) -> Table:
        sizes = self._sizes
        return Table(places.scratch["gate_gradients"], sizes.num_directions * self._gradient_rows * sizes.hidden_size)

    def _multiplier(self, name: str, places: Places, direction: int, gate: int) -> tuple[int, tuple[int, ...]]:
        """One gate's multipliers as a `STRIDED`, (0, 0, sample, column); absent if the tensor is."""
        if name not in self._tensors:
            return strided(None, None)
        along_direction, along_gate, *strides = self._tensors[name].element_strides
        offset = (direction * along_direction + gate * along_gate) * self._type.itemsize
        return places.tensors[name] + offset, (0, 0, *strides)

    # structs

    def _field(self, name: str, places: Places) -> tuple[int, tuple[int, ...]]:
        return strided(self._tensors.get(f"{name}_tensor"), places.tensors.get(f"{name}_tensor"))

    def _steps(self, places: Places) -> Struct:
        steps = np.zeros(1, STEPS)
        for name in ("sequence_lengths", "step_mask"):
            steps[name] = self._field(name, places)
        steps["unmasked"] = places.scratch.get("unmasked", 0)
        steps["seq_length"], steps["batch_size"] = self._sizes.seq_length, self._sizes.batch_size
        return steps

    def _sequence(self, places: Places) -> Struct:
        """The struct `Sequence`, as an array of one element."""
        sequence = np.zeros(1, SEQUENCE)
        fill_layer(sequence, self._desc)
        sequence["steps"] = self._steps(places)
        for name in ("kept", "hidden", "memory"):
            sequence[name] = getattr(places.reserve, name)
        for name in ("peephole", "output_sequence_gradient", "output_single_gradient", "output_cell_single_gradient"):
            sequence[name] = self._field(name, places)
        sequence["gate_gradients"] = places.scratch["gate_gradients"]
        sequence["state_size"] = self._sizes.state_size
        return sequence

    # work over all steps

    def _runs(self, split: Iterable[tuple[int, int]], of_input: bool) -> list[Run]:
        """The gates of all directions in runs of (first gate, count).

        Where the last gate's recurrent product has a gradient of its own, that is row G - 1, and its input's is row G.
        """
        sizes, found = self._sizes, []
        for direction in range(sizes.num_directions):
            for gate, count in split:
                apart = self._cell.resets_last and of_input and gate == sizes.gates - 1
                row = direction * self._gradient_rows + gate + apart
                found.append(Run(direction, gate, direction * sizes.gates + gate, row, count))
        return found

    def _input_runs(self) -> list[Run]:
        """The gates, in as few runs as products with the input or its weights allow."""
        sizes = self._sizes
        if "input_dropout_tensor" in self._tensors:
            return self._runs([(gate, 1) for gate in range(sizes.gates)], of_input=True)
        if self._cell.resets_last:
            return self._runs([(0, sizes.gates - 1), (sizes.gates - 1, 1)], of_input=True)
        return [Run(0, 0, 0, 0, sizes.num_directions * sizes.gates)]

    def _input_gradient(self, places: Places) -> list[Launch]:
        name = "input_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.input_size
        gradients, weights, result = self._gate_gradients(places), self._table("weight_tensor", places), self._table(name, places)
        drops = "input_dropout_tensor" in self._tensors
        product = Table(places.scratch["input_product"], columns) if drops else result
        for number, run in enumerate(self._input_runs()):
            left = gradients.block(0, rows, run.column * hidden, run.gates * hidden)
            right = weights.transposed(run.row * hidden, run.gates * hidden, 0, columns)
            accumulate = number > 0 and not drops
            work.append(gemm(self._library, places.scratch, left, right, product.block(0, rows, 0, columns), accumulate, tf32=self._tf32))
            if drops:
                argument = np.zeros(1, SUM_PRODUCTS)
                argument["product"], argument["sum"] = product.pointer, result.pointer
                argument["multiplier"] = self._multiplier("input_dropout_tensor", places, run.direction, run.gate)
                argument["count"], argument["batch_size"], argument["input_size"] = rows * columns, sizes.batch_size, columns
                argument["is_first"] = number == 0
                work.append(self._library.launch_elements(gradient_kernel("sum_products", self._type), rows * columns, argument))
        return [*work, *self._unpack(name, places)]

    def _weight_gradient(self, places: Places) -> list[Launch]:
        name = "weight_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.input_size
        gradients, result, values = self._gate_gradients(places), self._table(name, places), self._table("input_tensor", places)
        for number, run in enumerate(self._input_runs()):
            if "input" in places.scratch and (number == 0 or "input_dropout_tensor" in self._tensors):
                multiplier = self._multiplier("input_dropout_tensor", places, run.direction, run.gate)
                work.append(self._operand(self._type, self._field("input", places), multiplier, columns, values.pointer, places))
            left = gradients.transposed(0, rows, run.column * hidden, run.gates * hidden)
            right = values.transposed(0, rows, 0, columns)
            product = result.block(run.row * hidden, run.gates * hidden, 0, columns)
            work.append(gemm(self._library, places.scratch, left, right, product, tf32=self._tf32))
        return [*work, *self._unpack(name, places)]

    def _recurrence_gradient(self, places: Places) -> list[Launch]:
        name = "recurrence_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.state_size
        gradients, result = self._gate_gradients(places), self._table(name, places)
        drops, first = "state_dropout_tensor" in self._tensors, self._cell.resets_first
        split = [(0, sizes.gates - 1), (sizes.gates - 1, 1)] if first else [(0, sizes.gates)]
        for run in self._runs([(gate, 1) for gate in range(sizes.gates)] if drops else split, of_input=False):
            multiplier = self._multiplier("state_dropout_tensor", places, run.direction, run.gate)
            slots = self._states_before(places, run.direction)
            if first and run.gate == sizes.gates - 1:
                states = Table(places.scratch["operand"], columns)
                work.append(self._rebuild(run.direction, multiplier, places))
            elif drops:
                states = Table(places.scratch["operand"], columns)
                source = slots.pointer, (0, sizes.batch_size * columns, columns, 1)
                work.append(self._operand(FLOAT, source, multiplier, columns, states.pointer, places))
            else:
                states = slots
            left = gradients.transposed(0, rows, run.column * hidden, run.gates * hidden)
            product = result.block(run.row * hidden, run.gates * hidden, 0, columns)
            work.append(gemm(self._library, places.scratch, left, states.transposed(0, rows, 0, columns), product, tf32=self._tf32))
        return [*work, *self._unpack(name, places)]

    def _projection_gradient(self, places: Places) -> list[Launch]:
        name = "projection_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, entries = sizes.hidden_size, sizes.state_size
        gradients = Table(places.scratch["state_gradients"], sizes.num_directions * entries)
        result, cells = self._table(name, places), Table(places.scratch["operand"], hidden)
        for direction in range(sizes.num_directions):
            work.append(self._rebuild(direction, strided(None, None), places))
            left = gradients.transposed(0, rows, direction * entries, entries)
            product = result.block(direction * entries, entries, 0, hidden)
            work.append(gemm(self._library, places.scratch, left, cells.transposed(0, rows, 0, hidden), product, tf32=self._tf32))
        return [*work, *self._unpack(name, places)]

    def _states_before(self, places: Places, direction: int) -> Table:
        """h before each step of one direction: [T * B, S] of the reserve."""
        sizes = self._sizes
        slot = direction * (sizes.seq_length + 1) + backward_walks(self._desc)[direction]
        return Table(places.reserve.hidden + FLOAT.itemsize * slot * sizes.batch_size * sizes.state_size, sizes.state_size)

    def _operand(
        self,
        data_type: np.dtype[Any],
        source: tuple[int, tuple[int, ...]],
        multiplier: tuple[int, tuple[int, ...]],
        columns: int,
        destination: int,
        places: Places,
    ) -> Launch:
        argument = np.zeros(1, OPERAND)
        argument["source"], argument["multiplier"], argument["steps"] = source, multiplier, self._steps(places)
        argument["destination"], argument["columns"] = destination, columns
        return self._library.launch_elements(operand_kernel(data_type, self._type), self._rows * columns, argument)

    def _rebuild(self, direction: int, multiplier: tuple[int, tuple[int, ...]], places: Places) -> Launch:
        argument = np.zeros(1, REBUILD)
        argument["sequence"], argument["multiplier"] = self._sequence(places), multiplier
        argument["destination"], argument["direction"] = places.scratch["operand"], direction
        kernel = gradient_kernel("rebuild", self._type, self._types[0], self._types[1 + direction])
        return self._library.launch_elements(kernel, self._rows * self._sizes.hidden_size, argument)

    def _unpack(self, name: str, places: Places) -> list[Launch]:
        if name not in self._unpacked:
            return []
        tensor = self._tensors[name]
        argument = np.zeros(1, UNPACK)
        argument["source"], argument["sizes"] = places.scratch[_short(name)], tensor.sizes
        argument["destination"] = strided(tensor, places.tensors[name])
        return [self._library.launch_elements(gradient_kernel("unpack", self._type), tensor.element_count, argument)]

    def _sum(self, name: str, sums: str, places: Places) -> list[Launch]:
        if name not in self._tensors:
            return []
        sizes, library = self._sizes, self._library
        argument = np.zeros(1, SUM)
        argument["gate_gradients"], argument["partial"] = places.scratch["gate_gradients"], places.scratch["partial"]
        argument["memory"], argument["output"] = places.reserve.memory, strided(self._tensors[name], places.tensors[name])
        argument["chunk_rows"], argument["num_chunks"] = self._chunk_rows, self._chunks
        argument["rows"], argument["gates"], argument["backward"] = self._gradient_rows, sizes.gates, backward_walks(self._desc)
        for size in ("seq_length", "batch_size", "num_directions", "hidden_size"):
            argument[size] = getattr(sizes, size)
        outputs = self._tensors[name].element_count
        grid = (library.element_blocks(outputs), self._chunks)
        return [
            library.launch(gradient_kernel("sum_rows", self._type, sums), grid, ELEMENT_THREADS, argument),
            library.launch_elements(gradient_kernel("sum_chunks", self._type, sums), outputs, argument),
        ]


_PRODUCTS = ("input_gradient_tensor", "weight_gradient_tensor", "recurrence_gradient_tensor", "projection_gradient_tensor")
"""The outputs that a matrix product over all steps gives."""

_SUMS = {"bias_gradient_tensor": "OfBias", "peephole_gradient_tensor": "OfPeephole"}
"""Those that are sums of the gate gradients, with their C++ type."""


def _short(name: str) -> str:
    """The name of a tensor's float32 copy in scratch."""
    return name.removesuffix("_tensor")
