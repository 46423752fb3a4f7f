"""The plan of RNN, LSTM and GRU on CUDA with R resident in many blocks, or in one.

raw_kernels/common/persistent_grid.cuh documents the kernels; `strategies` chooses among the shapes of `grid_shapes`, and between them
and other strategies.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import STRIDED, Kernel, KernelLibrary, Struct, scalar_type, strided, struct
from dmlpy.devices.cuda.recurrent.grid_shapes import BEFORE_LAUNCH, Facts, GridShape, exchange_layout
from dmlpy.devices.cuda.recurrent.layer import SEQUENCE, RecurrentPlan
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Product
from dmlpy.devices.cuda.recurrent.residence import ResidentPlan
from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.devices.cuda.timeouts import TIMEOUT
from dmlpy.devices.plan import Launch, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.devices.plan import Layout
    from dmlpy.operators.recurrent.layer import RecurrentDesc

PERSISTENT_GRID = struct(
    ("sequence", SEQUENCE),
    *((name, np.uint64) for name in ("recurrence", "late_recurrence", "hidden", "reset_hidden", "flags")),
    ("units", np.int32),
    ("samples", np.int32),
    ("timeout", TIMEOUT),
)
ARRANGE = struct(
    ("recurrence", STRIDED),
    ("arrangements", np.uint64),
    *((name, np.int32) for name in ("num_directions", "hidden_size", "units", "unit_groups", "first_gate", "gates")),
)


def flag(value: bool) -> str:
    """A template argument."""
    return "true" if value else "false"


def persistent_grid_kernel(data_type: np.dtype[Any], shape: GridShape, run: str, cell: str, forward: str, backward: str) -> Kernel:
    """The kernel `persistent_grid` for a shape, or `clustered`; the other arguments are as for `persistent_block_kernel`."""
    scalar = scalar_type(data_type)
    late = "NoProduct" if shape.late_product is None else shape.late_product.type_name
    protocol = f"cluster_of_{shape.unit_groups}" if shape.clustered else shape.protocol
    where = f"{shape.product.type_name}, {late}, Protocol::{protocol}, {shape.pairs}, {flag(shape.passes == 1)}"
    arguments = f"<{scalar}, {where}, {run}, {cell}, {forward}, {backward}>"
    if shape.clustered:
        struct_name = f"ClusterParameters<{scalar}, {shape.unit_groups}>"
        return Kernel(
            "recurrent/clusters.cu", f"clustered{arguments}", PERSISTENT_GRID, struct_name, dynamic_shared=True, lowest_capability=90
        )
    return Kernel(
        "recurrent/persistent_grid.cu",
        f"persistent_grid{arguments}",
        PERSISTENT_GRID,
        f"PersistentGridParameters<{scalar}>",
        dynamic_shared=True,
        lowest_capability=shape.product.lowest_capability,
    )


def arrange_kernel(data_type: np.dtype[Any], product: Product) -> Kernel:
    """The kernel `arrange` for a product's order, whatever its registers and samples per pass."""
    scalar = scalar_type(data_type)
    return Kernel(
        "recurrent/persistent_grid.cu",
        f"arrange<{scalar}, {product.arrangement().type_name}>",
        ARRANGE,
        f"ArrangeParameters<{scalar}>",
        lowest_capability=product.lowest_capability,
    )


class GridRecurrencePlan(ResidentPlan):
    """One launch of a kernel `persistent_grid` for the whole sequence.

    Args:
        desc: a checked desc that no `Facts.refusal` is about.
        library: the device's kernels.
        shape: of the launch.
        reason: as for `RecurrencePlan`.
        tf32: as for `RecurrencePlan`.

    Raises:
        NotResidentError: the blocks would wait for others that cannot be resident at the same time.
    """

    exchange_layout: Callable[[Facts, GridShape], Layout]
    """The layout of the data that blocks exchange."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, shape: GridShape, reason: str, tf32: bool = False) -> None:
        self._shape, self._facts = shape, Facts.of(desc)
        self._exchanged = type(self).exchange_layout(self._facts, shape)
        super().__init__(desc, library, reason, tf32)
        self.load()
        self._prepare_waits()

    @property
    @abstractmethod
    def _kernel(self) -> Kernel:
        """The kernel."""

    def _prepare_waits(self) -> None:
        """Prepares a cooperative launch, whose blocks wait for each other.

        Raises:
            NotResidentError: they cannot all be resident, which is known only once the kernel is loaded.
        """
        shape, library = self._shape, self._library
        if not shape.cooperative:
            return
        blocks = library.runtime.occupancy(library.function(self._kernel), PRODUCT_THREADS, shape.shared_bytes)
        resident = blocks * library.limits.multiprocessors
        if shape.blocks > resident:
            raise NotResidentError.of(shape.blocks, resident)
        library.timeouts.allocate()

    def _exchanged_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The scratch for what blocks exchange."""
        return [("exchanged", (self._exchanged.size,), np.dtype(np.uint8))]

    def _launch_recurrence(self, argument: Struct, exchanged: int) -> list[Launch]:
        """Launches the kernel, after filling the exchange buffers at this address with the value that marks missing data."""
        shape, library = self._shape, self._library
        grid = (shape.unit_groups, shape.batch_groups, shape.directions)
        launch = library.launch(self._kernel, grid, PRODUCT_THREADS, argument, shape.shared_bytes, cooperative=shape.cooperative)
        if not shape.cooperative:
            return [launch]
        return [partial(library.runtime.memset, exchanged, BEFORE_LAUNCH[shape.protocol], self._exchanged.size), launch]


class PersistentGridPlan(GridRecurrencePlan, RecurrentPlan):
    """A layer by `persistent_grid`, in one of the `grid_shapes`."""

    exchange_layout = staticmethod(exchange_layout)

    @property
    def _kernel(self) -> Kernel:
        return persistent_grid_kernel(self._type, self._shape, *self._types)

    def kernels(self) -> list[Kernel]:
        return [*super().kernels(), self._kernel, *(arrange_kernel(self._type, product) for product in self._shape.products)]

    def _describe_recurrence(self) -> list[str]:
        return [f"{self._kernel.entry}: {self._shape.describe()}, once"]

    # memory

    def _recurrence_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        shape, depth = self._shape, self._sizes.hidden_size
        blocks = shape.directions * shape.unit_groups
        return [
            (name, (blocks, product.arranged_bytes(depth)), np.dtype(np.uint8))
            for name, product in zip(("recurrence", "late_recurrence"), shape.products, strict=False)
        ]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        return [*super()._scratch_arrays(), *self._exchanged_arrays()]

    # work

    def _pack_recurrence(self, constants: Pointers, packed: Mapping[str, int]) -> list[Launch]:
        sizes, shape, work = self._sizes, self._shape, []
        first_gates = sizes.gates - self._cell.resets_first
        parts = (("recurrence", 0, first_gates), ("late_recurrence", first_gates, 1))
        for (name, first_gate, gates), product in zip(parts, shape.products, strict=False):
            argument = np.zeros(1, ARRANGE)
            argument["recurrence"] = strided(self._tensors["recurrence_tensor"], constants["recurrence_tensor"])
            argument["arrangements"] = packed[name]
            argument["num_directions"], argument["hidden_size"] = sizes.num_directions, sizes.hidden_size
            argument["units"], argument["unit_groups"] = shape.units, shape.unit_groups
            argument["first_gate"], argument["gates"] = first_gate, gates
            count = shape.directions * shape.unit_groups * product.arranged_bytes(sizes.hidden_size) // 16
            work.append(self._library.launch_elements(arrange_kernel(self._type, product), count, argument))
        return work

    def _bind_resident(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places, shape = self._places(tensors, temporary, persistent), self._shape
        start = places.scratch["exchanged"]
        parts = self._exchanged.pointers(start)
        argument = np.zeros(1, PERSISTENT_GRID)
        argument["sequence"] = self._sequence(tensors, places)
        for name in ("recurrence", "late_recurrence"):
            argument[name] = places.packed.get(name, 0)
        for name in ("flags", "hidden", "reset_hidden"):
            argument[name] = parts.get(name, 0)
        argument["units"], argument["samples"] = shape.units, shape.samples
        if shape.cooperative:
            argument["timeout"] = self._library.timeouts.of(self.label, parts["expired"])
        recurrence = self._launch_recurrence(argument, start)
        return in_order([*places.prologue, *self._input_product(tensors, places), *recurrence])
