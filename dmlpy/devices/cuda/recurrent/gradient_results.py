"""Computes the results of the gradients of RNN, LSTM and GRU on CUDA from the gate gradients of all steps, by products and sums.

Letters as in raw_kernels/recurrent/gradient_results.cu: T steps, B samples, D directions, G gates, H hidden units, S entries of h, Q rows
of gate gradients for each unit and step.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.matrix_products import FLOAT, gemm, headline
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, Kernel, strided
from dmlpy.devices.cuda.performance.gpu_model import Arithmetic, GpuModel
from dmlpy.devices.cuda.recurrent.common import backward_directions, copy, copy_kernel, work_of
from dmlpy.devices.cuda.recurrent.gradient_kernels import (
    CLEAR_SKIPPED,
    CLEAR_SKIPPED_PARAMETERS,
    FIND_UNMASKED,
    OPERAND,
    REBUILD,
    SUM,
    SUM_PRODUCTS,
    UNPACK,
    find_largest_kernel,
    gradient_kernel,
    narrow_kernel,
    operand_kernel,
)
from dmlpy.devices.cuda.recurrent.gradient_memory import GradientAddresses, GradientMemory, short
from dmlpy.devices.cuda.recurrent.gradient_tables import NO_SCALE, GateRun, Scale, StridedRows, put_scale, scale_of
from dmlpy.devices.cuda.recurrent.model import cost_of, product_us
from dmlpy.devices.cuda.recurrent.reserve import ReserveAddresses
from dmlpy.devices.cuda.runtime.interface import MatrixProduct
from dmlpy.devices.plan import Launch, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable


class RecurrentGradientPlan(GradientMemory):
    """The base of the strategies' plans: everything but the recurrence.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this strategy was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32 for FLOAT32 storage too.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    def kernels(self) -> list[Kernel]:
        data_type, wanted = self._type, self._tensors
        needed = [FIND_UNMASKED] if "step_mask_tensor" in wanted else []
        needed += [copy_kernel(data_type, copied) for copied in self._copied.values()]
        if self._narrowed_bytes:
            needed += [narrow_kernel(data_type, width) for width in (1, 4)]
        if self._narrowed_bytes and self._scales:
            needed += [find_largest_kernel(width) for width in (1, 4)]
        if "input" in self._scratch.arrays:
            needed.append(operand_kernel(data_type, data_type))
        if self._copies_states:
            needed.append(operand_kernel(FLOAT, data_type))
        if self._selects and "input_gradient_tensor" in wanted:
            needed.append(CLEAR_SKIPPED)
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
            f"{headline(self._library, self._type, tf32=self._tf32 and not self._narrow)}; {self._reason}",
            *(f"copied to a {data_type} matrix first: {name}" for name, data_type in self._copied.items()),
            *self._describe_recurrence(),
        ]
        if self._narrowed_bytes:
            scale = ", gradients scaled by a power of two" if self._scales else ""
            lines.append(f"factors of the products that follow: {self._type}{scale}")
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
        work, gpu, sizes = work_of(self._desc, tf32=self._tf32), GpuModel.of(self._library.limits), self._sizes
        gate_rows = sizes.num_directions * sizes.gates * sizes.hidden_size
        products = {
            "input_gradient_tensor": (self._rows, sizes.input_size, gate_rows),
            "weight_gradient_tensor": (gate_rows, sizes.input_size, self._rows),
            "recurrence_gradient_tensor": (gate_rows, sizes.state_size, self._rows),
            "projection_gradient_tensor": (sizes.num_directions * sizes.state_size, sizes.hidden_size, self._rows),
        }
        wanted = [product for name, product in products.items() if name in self._tensors]
        factors: Arithmetic = "half" if self._narrow else "tf32" if self._tf32 else "float"
        products_us = sum(product_us(gpu, factors, *product, itemsize=self._type.itemsize) for product in wanted)
        products_read, sums_read = (sum(name in self._tensors for name in names) for names in (tuple(products)[:3], _SUMS))
        gradients = self._rows * sizes.num_directions * self._gradient_rows * sizes.hidden_size
        traffic = {"gate gradients": (1 + sums_read) * gradients * FLOAT.itemsize + products_read * gradients * self._type.itemsize}
        traffic[f"{self._type.name.upper()} factors"] = self._narrowed_bytes
        if self.estimate.strategy == "per_step":
            early = sizes.gates - self._cell.resets_first if "state_dropout_tensor" in self._tensors else 1
            sums = (early + self._cell.resets_first) * sizes.state_size + self._cell.projection * sizes.hidden_size
            traffic["products of steps"] = 2 * self._rows * sizes.num_directions * sums * FLOAT.itemsize
        cost = cost_of(self.estimate, work, gpu, products_us, traffic, self.not_resident)
        return replace(cost, estimate_us=(cost.estimate_us or 0.0) + gpu.memory_us(self._narrowed_bytes))

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = GradientAddresses(ReserveAddresses.of(self._desc, tensors["reserve_tensor"]), self._scratch.pointers(temporary), tensors)
        work = [
            copy(self._library, self._tensors[name], tensors[name], places.scratch[short(name)], data_type)
            for name, data_type in self._copied.items()
        ]
        if "step_mask_tensor" in self._tensors:
            work.insert(0, self._library.launch_elements(FIND_UNMASKED, self._sizes.batch_size, self._steps(places)))
        return in_order(
            [
                *work,
                *self._bind_recurrence(places),
                *self._narrowed(places),
                *self._input_gradient(places),
                *self._weight_gradient(places),
                *self._recurrence_gradient(places),
                *self._projection_gradient(places),
                *(part for name, sums in _SUMS.items() for part in self._sum(name, sums, places)),
            ]
        )

    @abstractmethod
    def _bind_recurrence(self, places: GradientAddresses) -> list[Launch]:
        """The work that leaves the gate gradients of all steps and writes the gradients of the initial states."""

    # work over all steps

    def _runs(self, split: Iterable[tuple[int, int]], of_input: bool) -> list[GateRun]:
        """The gates of all directions as runs of (first gate, count).

        If the last gate's recurrent product has a separate gradient, that gradient is row G - 1 and the input's is row G.
        """
        sizes, runs = self._sizes, []
        for direction in range(sizes.num_directions):
            for gate, count in split:
                apart = self._cell.resets_last and of_input and gate == sizes.gates - 1
                row = direction * self._gradient_rows + gate + apart
                runs.append(GateRun(direction, gate, direction * sizes.gates + gate, row, count))
        return runs

    def _input_runs(self) -> list[GateRun]:
        """The gates in as few runs as products with the input or its weights allow."""
        sizes = self._sizes
        if "input_dropout_tensor" in self._tensors:
            return self._runs([(gate, 1) for gate in range(sizes.gates)], of_input=True)
        if self._cell.resets_last:
            return self._runs([(0, sizes.gates - 1), (sizes.gates - 1, 1)], of_input=True)
        return [GateRun(0, 0, 0, 0, sizes.num_directions * sizes.gates)]

    def _input_gradient(self, places: GradientAddresses) -> list[Launch]:
        name = "input_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.input_size
        gradients, weights, result = self._factor_gradients(places), self._table("weight_tensor", places), self._table(name, places)
        drops = "input_dropout_tensor" in self._tensors
        product = StridedRows(places.scratch["input_product"], columns) if drops else result
        for number, run in enumerate(self._input_runs()):
            left = gradients.block(0, rows, run.column * hidden, run.gates * hidden)
            right = weights.transposed(run.row * hidden, run.gates * hidden, 0, columns)
            accumulate = number > 0 and not drops
            multiplied = MatrixProduct(left, right, product.block(0, rows, 0, columns), accumulate, tf32=self._tf32)
            work.append(gemm(self._library, places.scratch, multiplied))
            if drops:
                argument = np.zeros(1, SUM_PRODUCTS)
                argument["product"], argument["sum"] = product.pointer, result.pointer
                argument["multiplier"] = self._multiplier("input_dropout_tensor", places, run.direction, run.gate)
                argument["count"], argument["batch_size"], argument["input_size"] = rows * columns, sizes.batch_size, columns
                argument["is_first"] = number == 0
                work.append(self._library.launch_elements(gradient_kernel("sum_products", self._type), rows * columns, argument))
        if self._selects:
            cleared = np.zeros(1, CLEAR_SKIPPED_PARAMETERS)
            cleared["steps"], cleared["values"] = self._steps(places), result.pointer
            cleared["columns"], cleared["stride"] = columns, result.stride
            work.append(self._library.launch_elements(CLEAR_SKIPPED, rows * columns, cleared))
        return [*work, *self._unpack(name, places, self._gradient_scale(places))]

    def _weight_gradient(self, places: GradientAddresses) -> list[Launch]:
        name = "weight_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.input_size
        gradients, result, values = self._factor_gradients(places), self._table(name, places), self._table("input_tensor", places)
        for number, run in enumerate(self._input_runs()):
            if "input" in places.scratch and (number == 0 or "input_dropout_tensor" in self._tensors):
                multiplier = self._multiplier("input_dropout_tensor", places, run.direction, run.gate)
                work.append(self._operand(self._type, self._field("input", places), multiplier, columns, values.pointer, places))
            left = gradients.transposed(0, rows, run.column * hidden, run.gates * hidden)
            right = values.transposed(0, rows, 0, columns)
            product = result.block(run.row * hidden, run.gates * hidden, 0, columns)
            work.append(gemm(self._library, places.scratch, MatrixProduct(left, right, product, tf32=self._tf32)))
        return [*work, *self._unpack(name, places, self._gradient_scale(places))]

    def _recurrence_gradient(self, places: GradientAddresses) -> list[Launch]:
        name = "recurrence_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, columns = sizes.hidden_size, sizes.state_size
        gradients, result = self._factor_gradients(places), self._table(name, places)
        drops, first = "state_dropout_tensor" in self._tensors, self._cell.resets_first
        split = [(0, sizes.gates - 1), (sizes.gates - 1, 1)] if first else [(0, sizes.gates)]
        for run in self._runs([(gate, 1) for gate in range(sizes.gates)] if drops else split, of_input=False):
            multiplier = self._multiplier("state_dropout_tensor", places, run.direction, run.gate)
            if first and run.gate == sizes.gates - 1:
                states = StridedRows(places.scratch["operand"], columns, self._type)
                work.append(self._rebuild(run.direction, multiplier, places))
            elif self._copies_states:
                states = StridedRows(places.scratch["operand"], columns, self._type)
                slots = self._states_before(StridedRows(places.reserve.hidden, columns), run.direction)
                source = slots.pointer, (0, sizes.batch_size * columns, columns, 1)
                work.append(self._operand(FLOAT, source, multiplier, columns, states.pointer, places))
            else:
                narrow = places.scratch.get("states")
                hidden_states = StridedRows(places.reserve.hidden, columns) if narrow is None else StridedRows(narrow, columns, self._type)
                states = self._states_before(hidden_states, run.direction)
            left = gradients.transposed(0, rows, run.column * hidden, run.gates * hidden)
            product = result.block(run.row * hidden, run.gates * hidden, 0, columns)
            right = states.transposed(0, rows, 0, columns)
            work.append(gemm(self._library, places.scratch, MatrixProduct(left, right, product, tf32=self._tf32)))
        return [*work, *self._unpack(name, places, self._gradient_scale(places))]

    def _projection_gradient(self, places: GradientAddresses) -> list[Launch]:
        name = "projection_gradient_tensor"
        if name not in self._tensors:
            return []
        sizes, rows, work = self._sizes, self._rows, []
        hidden, entries = sizes.hidden_size, sizes.state_size
        gradients, scale = StridedRows(places.scratch["state_gradients"], sizes.num_directions * entries), NO_SCALE
        if self._narrow:
            count, copied, parts = rows * gradients.stride, places.scratch["narrow_state_gradients"], places.scratch.get("state_parts")
            work += self._narrow_copy(gradients.pointer, count, copied, parts)
            gradients, scale = StridedRows(copied, gradients.stride, self._type), NO_SCALE if parts is None else scale_of(parts, count)
        result, cells = self._table(name, places), StridedRows(places.scratch["operand"], hidden, self._type)
        for direction in range(sizes.num_directions):
            work.append(self._rebuild(direction, strided(None, None), places))
            left = gradients.transposed(0, rows, direction * entries, entries)
            product = result.block(direction * entries, entries, 0, hidden)
            right = cells.transposed(0, rows, 0, hidden)
            work.append(gemm(self._library, places.scratch, MatrixProduct(left, right, product, tf32=self._tf32)))
        return [*work, *self._unpack(name, places, scale)]

    def _states_before(self, slots: StridedRows, direction: int) -> StridedRows:
        """The states h before each step of one direction, in all slots: [T * B, S]."""
        sizes = self._sizes
        slot = direction * (sizes.seq_length + 1) + backward_directions(self._desc)[direction]
        return replace(slots, pointer=slots.block(slot * sizes.batch_size, 1, 0, 1).pointer)

    def _operand(
        self,
        data_type: np.dtype[Any],
        source: tuple[int, tuple[int, ...]],
        multiplier: tuple[int, tuple[int, ...]],
        columns: int,
        destination: int,
        places: GradientAddresses,
    ) -> Launch:
        argument = np.zeros(1, OPERAND)
        argument["source"], argument["multiplier"], argument["steps"] = source, multiplier, self._steps(places)
        argument["destination"], argument["columns"] = destination, columns
        return self._library.launch_elements(operand_kernel(data_type, self._type), self._rows * columns, argument)

    def _rebuild(self, direction: int, multiplier: tuple[int, tuple[int, ...]], places: GradientAddresses) -> Launch:
        argument = np.zeros(1, REBUILD)
        argument["sequence"], argument["multiplier"] = self._sequence(places), multiplier
        argument["destination"], argument["direction"] = places.scratch["operand"], direction
        kernel = gradient_kernel("rebuild", self._type, self._types[0], self._types[1 + direction])
        return self._library.launch_elements(kernel, self._rows * self._sizes.hidden_size, argument)

    def _unpack(self, name: str, places: GradientAddresses, scale: Scale) -> list[Launch]:
        """Copies a result to its tensor without its scale; no work if the product has written it there."""
        if name not in self._unpacked:
            return []
        tensor = self._tensors[name]
        argument = np.zeros(1, UNPACK)
        argument["source"], argument["sizes"] = places.scratch[short(name)], tensor.sizes
        argument["destination"] = strided(tensor, places.tensors[name])
        put_scale(argument, scale)
        return [self._library.launch_elements(gradient_kernel("unpack", self._type), tensor.element_count, argument)]

    def _sum(self, name: str, sums: str, places: GradientAddresses) -> list[Launch]:
        if name not in self._tensors:
            return []
        sizes, library = self._sizes, self._library
        argument = np.zeros(1, SUM)
        argument["gate_gradients"], argument["partial"] = places.scratch["gate_gradients"], places.scratch["partial"]
        argument["memory"], argument["output"] = places.reserve.memory, strided(self._tensors[name], places.tensors[name])
        argument["steps"] = self._steps(places)
        argument["chunk_rows"], argument["num_chunks"] = self._chunk_rows, self._chunks
        argument["rows"], argument["gates"], argument["backward"] = self._gradient_rows, sizes.gates, backward_directions(self._desc)
        for size in ("seq_length", "batch_size", "num_directions", "hidden_size"):
            argument[size] = getattr(sizes, size)
        outputs = self._tensors[name].element_count
        grid = (library.element_blocks(outputs), self._chunks)
        return [
            library.launch(gradient_kernel("sum_rows", self._type, sums), grid, ELEMENT_THREADS, argument),
            library.launch_elements(gradient_kernel("sum_chunks", self._type, sums), outputs, argument),
        ]


_SUMS = {"bias_gradient_tensor": "OfBias", "peephole_gradient_tensor": "OfPeephole"}
"""The outputs that are sums of the gate gradients, with their C++ type."""
