"""RNN, LSTM and GRU on CUDA with a matrix product and a kernel launch for each step: the strategy that can run every desc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT, gemm
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, strided
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS, launch_states, scale, scale_kernel
from dmlpy.devices.cuda.recurrent.layer import STEP, LayerMemory, RecurrentPlan, project_kernel, step_kernel
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.plan import Launch, Pointers
    from dmlpy.operators.recurrent.layer import RecurrentDesc


class PerStepPlan(RecurrentPlan):
    """A matrix product and a launch of `step` for each step; twice that for a GRU that resets before the product, or a projection."""

    launches_steps = True

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        self._drops_state = "state_dropout_tensor" in desc.tensors()
        super().__init__(desc, library, reason, tf32)
        self.steps_apart = self._sizes.seq_length
        self.capturable = self.steps_apart <= MOST_CAPTURED_STEPS

    @property
    def _step_kernel(self) -> Kernel:
        return step_kernel("step", self._type, *self._types)

    @property
    def _reset_kernel(self) -> Kernel:
        return step_kernel("reset", self._type, *self._types)

    def kernels(self) -> list[Kernel]:
        needed = [*super().kernels(), self._step_kernel]
        if self._cell.resets_first:
            needed.append(self._reset_kernel)
        if self._cell.projection:
            needed.append(project_kernel(self._type))
        if self._drops_state:
            needed.append(scale_kernel(self._type))
        return needed

    def _describe_recurrence(self) -> list[str]:
        sizes, gates = self._sizes, self._first_gates
        by = (
            f"by {sizes.hidden_size} gate rows for each of {gates} gates and"
            if self._drops_state
            else f"by {gates * sizes.hidden_size} gate rows for"
        )
        lines = [f"{sizes.seq_length} times: product [{sizes.batch_size}, {sizes.state_size}] {by} each direction"]
        if self._cell.resets_first:
            lines.append(f"    {self._reset_kernel.entry}, product by {sizes.hidden_size} gate rows")
        lines.append(f"    {self._step_kernel.entry}")
        if self._cell.projection:
            lines.append(f"    product by {sizes.state_size} rows of the projection, {project_kernel(self._type).entry}")
        return lines

    @property
    def _first_gates(self) -> int:
        """The gates whose product is of H[t-1] itself."""
        return self._sizes.gates - self._cell.resets_first

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes = self._sizes
        rows = (sizes.num_directions, sizes.batch_size)
        state = (*rows, sizes.state_size)
        arrays = [*super()._scratch_arrays(), ("product", (*rows, sizes.gates, sizes.hidden_size), FLOAT), ("hidden", state, FLOAT)]
        if self._cell.has_memory:
            arrays.append(("memory", (*rows, sizes.hidden_size), FLOAT))
        if self._cell.projection:
            arrays.append(("projected", state, FLOAT))
        if "step_mask_tensor" in self._tensors:
            arrays.append(("shown", state, FLOAT))
        if self._drops_state:
            arrays.append(("operand", (*state, self._first_gates), self._type))
        elif self._type != FLOAT:
            arrays.append(("operand", state, self._type))
        if self._cell.resets_first or self._cell.projection:
            arrays.append(("late_operand", (*rows, sizes.hidden_size), self._type))
        return arrays

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = self._places(tensors, temporary, persistent)
        sizes, scratch, library = self._sizes, places.scratch, self._library
        starts_at_zero = "hidden_init_tensor" not in self._tensors
        first_product = 0 if starts_at_zero else scratch["product"]
        argument = np.zeros(1, STEP)
        argument["sequence"] = self._sequence(tensors, places)
        argument["state_dropout"] = strided(self._tensors.get("state_dropout_tensor"), tensors.get("state_dropout_tensor"))
        for name in ("hidden", "memory", "shown", "projected", "late_operand"):
            argument[name] = scratch.get(name, 0)
        argument["operand"] = scratch.get("operand", scratch["hidden"])
        argument["state_size"] = sizes.state_size
        argument["operands"] = self._first_gates
        prologue = list(places.prologue)
        if not starts_at_zero:
            prologue.append(self._first_operand(tensors, int(argument["operand"][0])))
        input_products = {
            chunk.first: (self._input.first_times(chunk), self._input_product(tensors, places, chunk)) for chunk in self._input.chunks
        }

        products = self._state_products(places)
        late_products = self._late_products(places)
        units = (sizes.num_directions, sizes.batch_size, sizes.hidden_size)
        entries = (sizes.num_directions, sizes.batch_size, sizes.state_size)
        step = launch_states(library, self._step_kernel, units, argument)
        reset = launch_states(library, self._reset_kernel, units, argument) if self._cell.resets_first else None
        project = launch_states(library, project_kernel(self._type), entries, argument) if self._cell.projection else None
        keeps = "reserve_tensor" in self._tensors

        def launch(stream: int) -> None:
            for part in prologue:
                part(stream)
            for index in range(sizes.seq_length):
                if index in input_products:
                    argument["sequence"]["first_times"], input_product = input_products[index]
                    for part in input_product:
                        part(stream)
                argument["step"] = index  # a launch copies its argument, so all steps share one
                argument["product"] = scratch["product"] if index else first_product
                multiplies = index or not starts_at_zero  # a product with a zero state is skipped, but its reset is saved
                if multiplies:
                    for product in products:
                        product(stream)
                if reset is not None and (multiplies or keeps):
                    reset(stream)
                    if multiplies:
                        for product in late_products:
                            product(stream)
                step(stream)
                if project is not None:
                    for product in late_products:
                        product(stream)
                    project(stream)

        return launch

    def _first_operand(self, tensors: Pointers, operand: int) -> Launch:
        """The initial state as the first products read it."""
        if not self._drops_state:
            return self._copy("hidden_init_tensor", tensors, operand, self._type)
        sizes = self._sizes
        _, of_direction, *rest = self._tensors["hidden_init_tensor"].element_strides
        state = (tensors["hidden_init_tensor"], (of_direction, 0, *rest))
        factor = (tensors["state_dropout_tensor"], self._tensors["state_dropout_tensor"].element_strides)
        shape = (sizes.num_directions, self._first_gates, sizes.batch_size, sizes.state_size)
        return scale(self._library, self._type, shape, state, factor, operand)

    def _state_products(self, places: LayerMemory) -> list[Launch]:
        """The products of the state with R for each direction: all gates at once, or each gate with its dropout."""
        sizes, gates = self._sizes, self._first_gates
        operand = places.scratch.get("operand", places.scratch["hidden"])
        bytes_of_state = sizes.batch_size * sizes.state_size * self._type.itemsize
        work = []
        for direction in range(sizes.num_directions):
            if self._drops_state:
                for gate in range(gates):
                    work.append(self._recurrent_product(places, operand + (direction * gates + gate) * bytes_of_state, direction, gate, 1))
            else:
                work.append(self._recurrent_product(places, operand + direction * bytes_of_state, direction, 0, gates))
        return work

    def _late_products(self, places: LayerMemory) -> list[Launch]:
        """The product of each direction that depends on a part of the step: of r . H[t-1], or the projection of o . h(C[t])."""
        sizes, item = self._sizes, self._type.itemsize
        work = []
        for direction in range(sizes.num_directions):
            left = places.scratch.get("late_operand", 0) + direction * sizes.batch_size * sizes.hidden_size * item
            if self._cell.resets_first:
                work.append(self._recurrent_product(places, left, direction, self._first_gates, 1))
            if self._cell.projection:
                right = places.packed["projection"] + direction * sizes.state_size * sizes.hidden_size * item
                projected = places.scratch["projected"] + direction * sizes.batch_size * sizes.state_size * FLOAT.itemsize
                product = MatrixProduct(
                    Matrix(left, sizes.batch_size, sizes.hidden_size, sizes.hidden_size, self._type),
                    Matrix(right, sizes.state_size, sizes.hidden_size, sizes.hidden_size, self._type),
                    Matrix(projected, sizes.batch_size, sizes.state_size, sizes.state_size, FLOAT),
                    tf32=self._tf32,
                )
                work.append(gemm(self._library, places.scratch, product))
        return work

    def _recurrent_product(self, places: LayerMemory, operand: int, direction: int, first: int, count: int) -> Launch:
        """The product of an operand with the recurrence of `count` gates, starting at `first`."""
        sizes = self._sizes
        batch, hidden, state, gate_rows = sizes.batch_size, sizes.hidden_size, sizes.state_size, sizes.gates * sizes.hidden_size
        right = places.packed["recurrence"] + (direction * gate_rows + first * hidden) * state * self._type.itemsize
        result = places.scratch["product"] + (direction * batch * gate_rows + first * hidden) * FLOAT.itemsize
        product = MatrixProduct(
            Matrix(operand, batch, state, state, self._type),
            Matrix(right, count * hidden, state, state, self._type),
            Matrix(result, batch, count * hidden, gate_rows, FLOAT),
            tf32=self._tf32,
        )
        return gemm(self._library, places.scratch, product)
