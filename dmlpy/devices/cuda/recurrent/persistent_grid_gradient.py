"""The plan of the gradients of RNN, LSTM and GRU on CUDA with R resident in many blocks, or in one.

raw_kernels/recurrent/persistent_grid_gradient.cu documents the kernel; `strategies` chooses among the shapes of
`grid_gradient_shapes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import STRIDED, Kernel, scalar_type, struct
from dmlpy.devices.cuda.recurrent.gradient_kernels import SEQUENCE
from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import (
    EXCHANGED,
    exchange_gradient_layout,
    exchanged_operands,
    product_gates,
    whole_parts,
)
from dmlpy.devices.cuda.recurrent.persistent_grid import GridRecurrencePlan, flag
from dmlpy.devices.cuda.timeouts import TIMEOUT
from dmlpy.devices.plan import Launch, Pointers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.recurrent.gradient_memory import GradientAddresses
    from dmlpy.devices.cuda.recurrent.grid_shapes import GridShape
    from dmlpy.devices.cuda.recurrent.products import Product

EXCHANGED_OPERAND = struct(("arranged", np.uint64), ("operand", np.uint64), ("inverse", np.uint64))
PERSISTENT_GRID = struct(
    ("sequence", SEQUENCE),
    ("sums", EXCHANGED_OPERAND),
    ("reset", EXCHANGED_OPERAND),
    ("hidden_init_gradient", STRIDED),
    ("cell_mem_init_gradient", STRIDED),
    ("flags", np.uint64),
    ("samples", np.int32),
    ("passes", np.int32),
    ("timeout", TIMEOUT),
)
ARRANGE = struct(
    ("recurrence", STRIDED),
    ("arranged", np.uint64),
    *((name, np.int32) for name in ("hidden_size", "num_directions", "blocks")),
)
FILE = "recurrent/persistent_grid_gradient.cu"


def persistent_grid_gradient_kernel(
    data_type: np.dtype[Any], shape: GridShape, cell: str, forward: str, backward: str, *, parts_are_whole: bool
) -> Kernel:
    """The kernel for a shape; `parts_are_whole` is from `whole_parts`, the other arguments are as for `persistent_block_kernel`."""
    scalar = scalar_type(data_type)
    reset = "NoProduct" if shape.late_product is None else shape.late_product.type_name
    where = f"{shape.product.type_name}, {reset}, Protocol::{shape.protocol}, {flag(shape.passes == 1)}, {flag(parts_are_whole)}"
    return Kernel(
        FILE,
        f"persistent_grid<{scalar}, {where}, {cell}, {forward}, {backward}>",
        PERSISTENT_GRID,
        f"PersistentGridParameters<{scalar}>",
        dynamic_shared=True,
        lowest_capability=shape.product.lowest_capability,
    )


def arrange_gradient_kernel(data_type: np.dtype[Any], product: Product, first_gate: int, gates: int) -> Kernel:
    """The kernel `arrange` of some gates for a product's order, whatever its registers and samples per pass."""
    scalar = scalar_type(data_type)
    return Kernel(
        FILE,
        f"arrange<{scalar}, {product.arrangement().type_name}, {first_gate}, {gates}>",
        ARRANGE,
        f"ArrangeParameters<{scalar}>",
        lowest_capability=product.lowest_capability,
    )


class PersistentGridGradientPlan(GridRecurrencePlan, RecurrentGradientPlan):
    """R rearranged for the blocks, and a gradient by `persistent_grid`, in one of the `grid_gradient_shapes`."""

    is_capturable = True
    exchange_layout = staticmethod(exchange_gradient_layout)

    @property
    def _kernel(self) -> Kernel:
        parts_are_whole = whole_parts(self._facts, self._shape)
        return persistent_grid_gradient_kernel(self._type, self._shape, *self._types, parts_are_whole=parts_are_whole)

    @property
    def _arrange_kernels(self) -> list[Kernel]:
        gates = product_gates(self._facts)
        firsts = (0, gates[0])
        return [
            arrange_gradient_kernel(self._type, product, first, count)
            for product, first, count in zip(self._shape.products, firsts, gates, strict=False)
        ]

    def kernels(self) -> list[Kernel]:
        return [*super().kernels(), *self._arrange_kernels, self._kernel]

    def _describe_recurrence(self) -> list[str]:
        return [*(f"{kernel.entry}: once" for kernel in self._arrange_kernels), f"{self._kernel.entry}: {self._shape.describe()}, once"]

    # memory

    def _arranged_bytes(self) -> list[int]:
        """The bytes of each product's arranged operand, for all blocks."""
        blocks = self._shape.directions * self._shape.unit_groups
        return [blocks * product.arranged_bytes(depth) for product, depth, _, _ in exchanged_operands(self._facts, self._shape)]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        arranged = zip(EXCHANGED, self._arranged_bytes(), strict=False)
        return [
            *super()._scratch_arrays(),
            *self._exchanged_arrays(),
            *((f"{name} arranged", (size,), np.dtype(np.uint8)) for name, size in arranged),
        ]

    # work

    def _bind_resident(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return RecurrentGradientPlan.bind(self, tensors, temporary, persistent)

    def _bind_recurrence(self, places: GradientAddresses) -> list[Launch]:
        shape, sizes, library, work = self._shape, self._sizes, self._library, list[Launch]()
        start = places.scratch["exchanged"]
        addresses = self._exchanged.pointers(start) | places.scratch
        for name, kernel, size in zip(EXCHANGED, self._arrange_kernels, self._arranged_bytes(), strict=False):
            argument = np.zeros(1, ARRANGE)
            argument["recurrence"], argument["arranged"] = self._field("recurrence", places), addresses[f"{name} arranged"]
            argument["hidden_size"], argument["num_directions"] = sizes.hidden_size, sizes.num_directions
            argument["blocks"] = shape.unit_groups
            work.append(library.launch_elements(kernel, size // 16, argument))
        argument = np.zeros(1, PERSISTENT_GRID)
        argument["sequence"] = self._sequence(places)
        for name in EXCHANGED[: len(shape.products)]:
            for part in ("arranged", "operand", "inverse"):
                argument[name][part] = addresses.get(f"{name} {part}", 0)
        for name in ("hidden_init_gradient", "cell_mem_init_gradient"):
            argument[name] = self._field(name, places)
        argument["flags"] = addresses.get("flags", 0)
        if not shape.alone:
            argument["timeout"] = library.timeouts.of(self.label, addresses["expired"])
        argument["samples"], argument["passes"] = shape.samples, shape.passes
        return [*work, *self._launch_recurrence(argument, start)]
