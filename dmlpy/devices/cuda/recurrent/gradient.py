"""The gradients of RNN, LSTM and GRU on CUDA: the recurrence in one of the strategies, then a product over all steps for each result.

`strategies` chooses the strategy; raw_kernels/recurrent/gradient.cu documents the kernels, `gradient_results` the products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT, gemm
from dmlpy.devices.cuda.recurrent.base import BlockRecurrencePlan
from dmlpy.devices.cuda.recurrent.block_shapes import pack_recurrence, pack_vector4_kernel, recurrence_bytes
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS, backward_directions, launch_states
from dmlpy.devices.cuda.recurrent.gradient_kernels import PERSISTENT_BLOCK, STEP, gradient_kernel, persistent_block_kernel
from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
from dmlpy.devices.cuda.recurrent.gradient_tables import StridedRows
from dmlpy.devices.cuda.runtime.interface import MatrixProduct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
    from dmlpy.devices.cuda.recurrent.gradient_memory import GradientAddresses
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

SLICES = (1, 2, 4)
"""Samples that one block of `persistent_block` can have."""


class PersistentBlockGradientPlan(BlockRecurrencePlan, RecurrentGradientPlan):
    """A gradient by `persistent_block`."""

    capturable = True

    @property
    def _kernel(self) -> Kernel:
        return persistent_block_kernel(self._type, self._shape.samples, *self._types)

    def _describe_recurrence(self) -> list[str]:
        return [f"{pack_vector4_kernel(self._type).entry}: R in the order of shared memory, once", self._shape.describe(self._kernel)]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        packed = (self._sizes.num_directions, recurrence_bytes(self._desc))
        return [*super()._scratch_arrays(), ("packed_recurrence", packed, np.dtype(np.uint8))]

    def _bind_recurrence(self, places: GradientAddresses) -> list[Launch]:
        sizes, packed = self._sizes, places.scratch["packed_recurrence"]
        # A thread has a column, and its sums run over the rows of each gate.
        _, along_direction, along_row, along_column = self._tensors["recurrence_tensor"].element_strides
        strides = (along_direction, sizes.hidden_size * along_row, along_column, along_row)
        counts = (sizes.num_directions, sizes.gates, sizes.hidden_size, sizes.hidden_size)
        pack = pack_recurrence(self._library, self._desc, places.tensors["recurrence_tensor"], strides, counts, packed)
        argument = np.zeros(1, PERSISTENT_BLOCK)
        argument["sequence"], argument["recurrence"] = self._sequence(places), packed
        for name in ("hidden_init_gradient", "cell_mem_init_gradient"):
            argument[name] = self._field(name, places)
        return [pack, self._launch_recurrence(argument)]


class PerStepGradientPlan(RecurrentGradientPlan):
    """A launch of `step` and a matrix product for each step; more for a GRU that resets before the product, and for a projection."""

    def __init__(self, desc: RecurrentGradDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        super().__init__(desc, library, reason, tf32)
        self.steps_apart = self._sizes.seq_length
        self.capturable = self.steps_apart <= MOST_CAPTURED_STEPS

    @property
    def _factors(self) -> dict[str, np.dtype[Any]]:
        of_steps = ["recurrence_tensor", *(["projection_tensor"] if self._cell.projection else [])]
        return super()._factors | dict.fromkeys(of_steps, FLOAT)

    def kernels(self) -> list[Kernel]:
        kernels = [*super().kernels(), gradient_kernel("step", self._type, *self._types)]
        if self._cell.resets_first:
            kernels.append(gradient_kernel("reset", self._type, *self._types))
        if self._cell.projection:
            kernels.append(gradient_kernel("collect", self._type))
        if self._finishes:
            kernels.append(gradient_kernel("finish", self._type))
        return kernels

    @property
    def _finishes(self) -> bool:
        return "hidden_init_gradient_tensor" in self._tensors or "cell_mem_init_gradient_tensor" in self._tensors

    @property
    def _early_gates(self) -> int:
        """The gates whose recurrent product is of h[t-1] itself."""
        return self._sizes.gates - self._cell.resets_first

    @property
    def _num_products(self) -> int:
        return self._early_gates if "state_dropout_tensor" in self._tensors else 1

    def _describe_recurrence(self) -> list[str]:
        sizes, factors = self._sizes, ", in TF32" if self._tf32 else ""
        lines = [f"{sizes.seq_length} times, for each direction:"]
        if self._cell.projection:
            product = f"product [{sizes.batch_size}, {sizes.state_size}] by [{sizes.state_size}, {sizes.hidden_size}]{factors}"
            lines += ["    collect", f"    {product}"]
        lines.append(f"    {gradient_kernel('step', self._type, *self._types).entry}")
        if self._cell.resets_first:
            product = f"product [{sizes.batch_size}, {sizes.hidden_size}] by [{sizes.hidden_size}, {sizes.hidden_size}]{factors}"
            lines += [f"    {product}", f"    {gradient_kernel('reset', self._type, *self._types).entry}"]
        gate_rows = self._early_gates // self._num_products * sizes.hidden_size
        product = f"product [{sizes.batch_size}, {gate_rows}] by [{gate_rows}, {sizes.state_size}]{factors}"
        return [*lines, f"    {product}" + (f", {self._num_products} times" if self._num_products > 1 else "")]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes = self._sizes
        directions, batch, hidden, entries = sizes.num_directions, sizes.batch_size, sizes.hidden_size, sizes.state_size
        arrays = [
            *super()._scratch_arrays(),
            ("hidden_gradient", (directions, batch, entries), FLOAT),
            ("products", (directions, self._num_products, batch, entries), FLOAT),
        ]
        if self._cell.has_memory:
            arrays.append(("memory_gradient", (directions, batch, hidden), FLOAT))
        if self._cell.resets_first:
            arrays.append(("reset_product", (directions, batch, hidden), FLOAT))
        if self._cell.projection:
            arrays.append(("state_gradients", (self._rows, directions, entries), FLOAT))
            arrays.append(("projected_gradient", (directions, batch, hidden), FLOAT))
        return arrays

    def _bind_recurrence(self, places: GradientAddresses) -> list[Launch]:
        sizes, cell, library = self._sizes, self._cell, self._library
        argument = np.zeros(1, STEP)
        argument["sequence"] = self._sequence(places)
        for name in ("state_dropout", "hidden_init_gradient", "cell_mem_init_gradient"):
            argument[name] = self._field(name, places)
        for name in ("hidden_gradient", "memory_gradient", "products", "reset_product", "state_gradients", "projected_gradient"):
            argument[name] = places.scratch.get(name, 0)
        argument["num_products"] = self._num_products

        def launch_of(name: str, size: int, *types: str) -> Launch:
            entries = (sizes.num_directions, sizes.batch_size, size)
            return launch_states(library, gradient_kernel(name, self._type, *types), entries, argument)

        step = launch_of("step", sizes.hidden_size, *self._types)
        reset = launch_of("reset", sizes.hidden_size, *self._types) if cell.resets_first else None
        collect = launch_of("collect", sizes.state_size) if cell.projection else None
        finish = launch_of("finish", max(sizes.hidden_size, sizes.state_size)) if self._finishes else None
        last_needed = sizes.seq_length if "hidden_init_gradient_tensor" in self._tensors else sizes.seq_length - 1
        products = [
            (
                self._projections(places, index) if cell.projection else [],
                self._reset_products(places, index) if cell.resets_first else [],
                self._products(places, index) if index < last_needed else [],
            )
            for index in range(sizes.seq_length)
        ]

        def launch(stream: int) -> None:
            for index, (projections, reset_products, early_products) in enumerate(products):
                argument["step"] = index  # a launch copies its argument, so all steps share one
                if collect is not None:
                    collect(stream)
                    for product in projections:
                        product(stream)
                step(stream)
                if reset is not None:
                    for product in reset_products:
                        product(stream)
                    reset(stream)
                for product in early_products:
                    product(stream)
            if finish is not None:
                argument["step"] = sizes.seq_length
                finish(stream)

        return [launch]

    def _time_rows(self, index: int, direction: int) -> int:
        """The first of the B rows that belong to step `index` of the gradient, among the rows of all steps."""
        backward = backward_directions(self._desc)[direction]
        return (index if backward else self._sizes.seq_length - 1 - index) * self._sizes.batch_size

    def _products(self, places: GradientAddresses, index: int) -> list[Launch]:
        """The products d_sums R of all gates but a last one that resets first: one product, or one per gate with dropout of states."""
        sizes, count = self._sizes, self._num_products
        batch, hidden, entries = sizes.batch_size, sizes.hidden_size, sizes.state_size
        gradients, recurrence = self._gate_gradients(places), self._table("recurrence_tensor", places)
        result = StridedRows(places.scratch["products"], entries)
        gates = self._early_gates // count
        products = []
        for run in self._runs([(number * gates, gates) for number in range(count)], of_input=False):
            left = gradients.block(self._time_rows(index, run.direction), batch, run.column * hidden, gates * hidden)
            right = recurrence.transposed(run.row * hidden, gates * hidden, 0, entries)
            product = result.block((run.direction * count + run.gate // gates) * batch, batch, 0, entries)
            products.append(gemm(self._library, places.scratch, MatrixProduct(left, right, product, tf32=self._tf32)))
        return products

    def _reset_products(self, places: GradientAddresses, index: int) -> list[Launch]:
        """The products d_h Rh, if they depend on the reset gate."""
        sizes = self._sizes
        batch, hidden = sizes.batch_size, sizes.hidden_size
        gradients, recurrence = self._gate_gradients(places), self._table("recurrence_tensor", places)
        result = StridedRows(places.scratch["reset_product"], hidden)
        products = []
        for run in self._runs([(sizes.gates - 1, 1)], of_input=False):
            left = gradients.block(self._time_rows(index, run.direction), batch, run.column * hidden, hidden)
            right = recurrence.transposed(run.row * hidden, hidden, 0, hidden)
            product = result.block(run.direction * batch, batch, 0, hidden)
            products.append(gemm(self._library, places.scratch, MatrixProduct(left, right, product, tf32=self._tf32)))
        return products

    def _projections(self, places: GradientAddresses, index: int) -> list[Launch]:
        """The products of d_H[t] with the projection."""
        sizes = self._sizes
        batch, hidden, entries = sizes.batch_size, sizes.hidden_size, sizes.state_size
        gradients = StridedRows(places.scratch["state_gradients"], sizes.num_directions * entries)
        projection, result = self._table("projection_tensor", places), StridedRows(places.scratch["projected_gradient"], hidden)
        return [
            gemm(
                self._library,
                places.scratch,
                MatrixProduct(
                    gradients.block(self._time_rows(index, direction), batch, direction * entries, entries),
                    projection.transposed(direction * entries, entries, 0, hidden),
                    result.block(direction * batch, batch, 0, hidden),
                    tf32=self._tf32,
                ),
            )
            for direction in range(sizes.num_directions)
        ]


# shared memory


def block_shared_bytes(desc: RecurrentGradDesc, samples: int) -> int:
    """The dynamic shared memory of one block, in bytes: R in the storage type and two steps' float32 gradients of its samples."""
    sizes = desc.geometry
    padded = -(-sizes.hidden_size // 4) * 4
    return 2 * samples * sizes.gates * padded * FLOAT.itemsize + recurrence_bytes(desc)
