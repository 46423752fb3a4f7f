"""RNN, LSTM and GRU on CUDA with R resident in many blocks, or in one: the shapes that fit a device, and the plan of one of them.

raw_kernels/recurrent/grid.cu says what the kernel does; `families` chooses among the shapes, and between them and other families.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, scalar_type, strided, struct
from dmlpy.devices.cuda.recurrent.common import FLOAT, NotResidentError, storage_type
from dmlpy.devices.cuda.recurrent.layer import SEQUENCE, RecurrentPlan
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Fma, Product, TensorCores, divide_up, whole_pieces
from dmlpy.devices.cuda.seam import Limits
from dmlpy.devices.plan import Launch, Layout, Pointers, in_order
from dmlpy.enums import HResult
from dmlpy.operators.recurrent.layer import RecurrentDesc
from dmlpy.problems import DeviceError

GRID = struct(
    ("sequence", SEQUENCE),
    *((name, np.uint64) for name in ("recurrence", "late_recurrence", "hidden", "reset_hidden", "flags")),
    ("units", np.int32),
    ("samples", np.int32),
    ("most_polls", np.uint32),
)
ARRANGE = struct(
    ("recurrence", STRIDED),
    ("arrangements", np.uint64),
    *((name, np.int32) for name in ("num_directions", "hidden_size", "units", "unit_groups", "first_gate", "gates")),
)

MOST_POLLS = 1 << 28
"""Looks at a flag before a block gives up: minutes, which no step takes. `DMLPY_MOST_POLLS` names another number."""

UNITS = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Hidden units that a block may own where it has others beside it."""

MOST_PAIRS = 8
"""Pairs of unit and sample that a thread has in a pass, at most: each has its gates in registers."""

MOST_OUTPUT_BITS = 32
"""Pairs of a thread in all passes of training: a bit of a register tells of each whether its state is an output."""

MOST_BATCH_GROUPS = 2**16 - 1
"""What the second axis of a grid can count. Only blocks alone can be so many."""

RESIDENT_REGISTERS = 168
"""Of a thread's 255 for R, where it has one pair of unit and sample and no more than 8 sums on tensor cores."""


@dataclass(frozen=True)
class GridShape:
    """How a sequence is spread over blocks.

    Attributes:
        units: hidden units of a block; the last group of units may have fewer.
        unit_groups: blocks that share R of one direction; one is alone and waits for nobody.
        samples: of the batch, of a block; the last group may have fewer.
        batch_groups: blocks that share the batch.
        directions: D.
        pairs: of unit and sample, of a thread in a pass.
        product: by R, or by the rows of its first gates where the last one's product waits for the reset.
        late_product: by the rows of the last gate then.
        shared_bytes: dynamic shared memory of a block.
    """

    units: int
    unit_groups: int
    samples: int
    batch_groups: int
    directions: int
    pairs: int
    product: Product
    late_product: Product | None
    shared_bytes: int

    @property
    def alone(self) -> bool:
        return self.unit_groups == 1

    @property
    def blocks(self) -> int:
        return self.unit_groups * self.batch_groups * self.directions

    @property
    def pass_samples(self) -> int:
        """Samples of a block that are worked at a time."""
        return self.product.samples

    @property
    def passes(self) -> int:
        return divide_up(self.samples, self.pass_samples)

    @property
    def depth_warps(self) -> int:
        return self.product.depth_warps

    @property
    def row_warps(self) -> int:
        return self.product.row_warps

    @property
    def products(self) -> tuple[Product, ...]:
        return (self.product,) if self.late_product is None else (self.product, self.late_product)

    @property
    def register_bytes(self) -> int:
        """Of a block's part of R that lie in registers."""
        return sum(PRODUCT_THREADS * 16 * product.tiles * product.register_steps for product in self.products)

    def describe(self) -> str:
        """In a line."""
        blocks = f"{self.unit_groups} x {self.batch_groups} x {self.directions} blocks"
        together = "alone" if self.alone else "in a cooperative launch"
        return (
            f"{blocks} {together}, {self.units} units and {self.samples} sample(s) each, {self.pass_samples} at a time; "
            f"{self.register_bytes} bytes of R in registers, {self.shared_bytes} bytes of shared memory"
        )


def most_polls() -> int:
    """`DMLPY_MOST_POLLS`, else `MOST_POLLS`. A launch that gives up takes the process's CUDA context with it.

    Raises:
        DeviceError: the variable is no number of looks.
    """
    text = os.environ.get("DMLPY_MOST_POLLS", "")
    if not text:
        return MOST_POLLS
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 1 << 32:
        raise DeviceError(f"DMLPY_MOST_POLLS is {text!r}, expected a number from 1 to {(1 << 32) - 1}", hresult=HResult.E_INVALIDARG)
    return int(text)


# the shapes that fit


def why_not(desc: RecurrentDesc) -> str | None:
    """Why no shape takes the desc, whatever the device; None if one may."""
    if "state_dropout_tensor" in desc.tensors():
        return "dropout of states takes products of its own in each step"
    if desc.cell.projection:
        return "a projection takes a product of its own in each step"
    return None


def grid_shapes(desc: RecurrentDesc, limits: Limits, *, tf32: bool) -> list[GridShape]:
    """The shapes of a checked desc that fit the device, each worth a look; none if none fits.

    Args:
        desc: what to run.
        limits: of the device.
        tf32: whether factors of float32 matrix products may be rounded to TF32; the device has to have it.
    """
    if why_not(desc) is not None:
        return []
    sizes, step = desc.geometry, 8 if storage_type(desc) != FLOAT or tf32 else 1
    found: dict[GridShape, None] = {}
    for units in (*(units for units in UNITS if units < sizes.hidden_size), sizes.hidden_size):
        unit_groups = divide_up(sizes.hidden_size, units)
        most_batch_groups = limits.multiprocessors // (unit_groups * sizes.num_directions)
        if most_batch_groups == 0 and unit_groups > 1:
            continue
        most = divide_up(sizes.batch_size, max(1, most_batch_groups))
        most = min(divide_up(most, step) * step, sizes.batch_size)
        # A block alone waits for nobody, so there may be more of them than run at a time.
        for samples in sorted({most} if unit_groups > 1 else {min(most, few) for few in (8, 32, most)}):
            for pass_samples in _pass_samples(samples, step):
                shape = grid_shape(desc, limits, units, samples, pass_samples, tf32=tf32)
                if shape is not None:
                    found[shape] = None
    return list(found)


def _pass_samples(samples: int, step: int) -> list[int]:
    """Numbers of samples that are worth working at a time, of a block's; multiples of `step`."""
    groups = divide_up(samples, step)
    return sorted({step * min(groups, count) for count in ((1, 2, 4) if step == 8 else (1, 2, 4, 8))})


def grid_shape(
    desc: RecurrentDesc,
    limits: Limits,
    units: int,
    samples: int,
    pass_samples: int,
    *,
    tf32: bool,
    row_warps: int | None = None,
    most_registers: int = RESIDENT_REGISTERS,
) -> GridShape | None:
    """The shape whose blocks have so many units and samples, None if it does not fit.

    Args:
        desc: a checked desc that `why_not` has nothing against.
        limits: of the device.
        units: of a block.
        samples: of a block.
        pass_samples: of them, to be worked at a time; with tensor cores a multiple of 8.
        tf32: as for `grid_shapes`.
        row_warps: warps with different rows; None leaves that to the number of rows.
        most_registers: of a thread for R.
    """
    sizes, cell, data_type = desc.geometry, desc.cell, storage_type(desc)
    depth = sizes.hidden_size
    pairs = divide_up(units * pass_samples, PRODUCT_THREADS)
    training = "reserve_tensor" in desc.tensors() or "step_mask_tensor" in desc.tensors()
    if pairs > MOST_PAIRS or (training and pairs * divide_up(samples, pass_samples) > MOST_OUTPUT_BITS):
        return None
    rows = [(sizes.gates - cell.resets_first) * units, *([units] if cell.resets_first else [])]
    products: list[Product] = []
    for count in rows:
        if data_type == FLOAT and not tf32:
            products.append(_fma(count, pass_samples))
        else:
            products.append(_tensor_cores(data_type, count, pass_samples // 8, row_warps))
    registers = _resident_registers(products, pairs, sizes.gates, cell.kept if training else 0)
    if registers is None:
        return None
    registers = min(registers, most_registers)
    for place, product in enumerate(products):
        steps = min(product.steps(depth), registers // (4 * product.tiles))
        registers -= 4 * product.tiles * steps
        products[place] = product.with_registers(steps)
    shape = GridShape(
        units=units,
        unit_groups=divide_up(depth, units),
        samples=samples,
        batch_groups=divide_up(sizes.batch_size, samples),
        directions=sizes.num_directions,
        pairs=pairs,
        product=products[0],
        late_product=products[1] if cell.resets_first else None,
        shared_bytes=0,
    )
    shape = replace(shape, shared_bytes=_shared_bytes(desc, shape))
    together = shape.blocks <= limits.multiprocessors or (shape.alone and shape.batch_groups <= MOST_BATCH_GROUPS)
    return shape if together and shape.shared_bytes <= limits.shared_memory_per_block else None


def _fma(rows: int, samples: int) -> Fma:
    """As many lanes side by side as leave few without a row: an eighth, or else the fewest that can be."""

    def idle(lanes: int) -> int:
        return divide_up(rows, lanes) * lanes - rows

    row_lanes = next((lanes for lanes in (32, 16) if 8 * idle(lanes) <= rows), min((32, 16, 8), key=idle))
    return Fma(row_lanes, divide_up(rows, row_lanes), 0, samples)


def _tensor_cores(data_type: np.dtype[Any], rows: int, sample_tiles: int, row_warps: int | None) -> TensorCores:
    """The fewest warps with different rows, since each reads the operand, of those that leave the fewest tiles empty.

    A warp has no more than six tiles of sums, unless all warps together have too few.
    """
    tiles = divide_up(rows, 16)
    if row_warps is None:
        few = [warps for warps in (1, 2, 4, 8) if divide_up(tiles, warps) * sample_tiles <= 6]
        row_warps = min(few or [8], key=lambda warps: divide_up(tiles, warps) * warps)
    row_warps = next(warps for warps in (8, 4, 2, 1) if warps <= min(row_warps, tiles))
    return TensorCores(data_type, divide_up(tiles, row_warps), row_warps, 0, sample_tiles)


def _resident_registers(products: Sequence[Product], pairs: int, gates: int, kept: int) -> int | None:
    """Registers of a thread for R; None if its sums alone are too many. The numbers come from compilers' reports."""

    def sums(product: Product) -> int:
        return product.tiles * product.samples // (1 if isinstance(product, Fma) else 2)

    most_sums = max(map(sums, products))
    more_sums, others = max(0, most_sums - 8), 8 * (len(products) - 1)
    if isinstance(products[0], Fma):
        others += more_sums * 5 // 4 + 28 + 4 * products[0].samples + 4 * (products[0].row_lanes < 32)
    else:
        others += 2 * more_sums
    if pairs > 1:
        others += 32 + (pairs - 1) * (gates + kept + 4)
    return None if most_sums > 64 or others > RESIDENT_REGISTERS else RESIDENT_REGISTERS - others


def _shared_bytes(desc: RecurrentDesc, shape: GridShape) -> int:
    """What the pieces of `grid` sum to."""
    cell, depth, item = desc.cell, desc.geometry.hidden_size, storage_type(desc).itemsize
    slots = shape.passes * shape.pass_samples
    states = 1 + cell.has_memory + cell.resets_first
    constants = [(cell.gates + cell.resets_last) * shape.units, *([3 * shape.units] if cell.has_memory else [])]
    return (
        sum(product.shared_bytes(depth, shape.alone) for product in shape.products)
        + states * whole_pieces(slots * shape.units * FLOAT.itemsize)
        + whole_pieces(*(count * FLOAT.itemsize for count in constants), slots * 4)
        + sum(whole_pieces(slots * product.padded_depth(depth) * item) for product in shape.products if shape.alone)
    )


# the plan


def grid_kernel(data_type: np.dtype[Any], shape: GridShape, run: str, cell: str, forward: str, backward: str) -> Kernel:
    """`grid` for a shape; the other arguments are as for `walk_kernel`."""
    scalar = scalar_type(data_type)
    late = "NoProduct" if shape.late_product is None else shape.late_product.type_name
    where = f"{shape.product.type_name}, {late}, {str(shape.alone).lower()}, {shape.pairs}"
    return Kernel(
        "recurrent/grid.cu",
        f"grid<{scalar}, {where}, {run}, {cell}, {forward}, {backward}>",
        GRID,
        f"GridParameters<{scalar}>",
        dynamic_shared=True,
        lowest_capability=shape.product.lowest_capability,
    )


def arrange_kernel(data_type: np.dtype[Any], product: Product) -> Kernel:
    """`arrange` for the order of a product, whatever it has in registers and in a pass."""
    scalar = scalar_type(data_type)
    return Kernel(
        "recurrent/grid.cu",
        f"arrange<{scalar}, {product.arrangement().type_name}>",
        ARRANGE,
        f"ArrangeParameters<{scalar}>",
        lowest_capability=product.lowest_capability,
    )


def check_resident(library: KernelLibrary, kernel: Kernel, shape: GridShape) -> None:
    """Raises NotResidentError if blocks wait for each other that cannot run at the same time, which only a loaded kernel tells."""
    if shape.alone:
        return
    resident = library.seam.occupancy(library.function(kernel), PRODUCT_THREADS, shape.shared_bytes) * library.limits.multiprocessors
    if shape.blocks > resident:
        raise NotResidentError(f"{shape.blocks} blocks would have to run together, the device holds {resident}")


class GridPlan(RecurrentPlan):
    """One launch of `grid` for the whole sequence, of this shape.

    Args:
        desc: a checked desc that `why_not` has nothing against.
        library: the device's kernels.
        shape: one of `grid_shapes`.
        reason: why it was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        NotResidentError: the blocks would have to wait for others that cannot run beside them.
    """

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, shape: GridShape, reason: str, tf32: bool = False) -> None:
        self._shape = shape
        super().__init__(desc, library, reason, tf32)
        check_resident(library, self._kernel, shape)

    @property
    def _kernel(self) -> Kernel:
        return grid_kernel(self._type, self._shape, *self._types)

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

    def _exchanged(self) -> Layout:
        """What the blocks hand each other, all of it zero before a launch."""
        shape, depth = self._shape, self._sizes.hidden_size
        groups, samples = shape.directions * shape.batch_groups, shape.passes * shape.pass_samples
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if not shape.alone:
            arrays.append(("flags", (groups, shape.unit_groups), np.dtype(np.uint32)))
            arrays.append(("hidden", (groups, 2, samples, shape.product.padded_depth(depth)), self._type))
            if shape.late_product is not None:
                arrays.append(("reset_hidden", (groups, samples, shape.late_product.padded_depth(depth)), self._type))
        return Layout(arrays, ALIGNMENT)

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        return [*super()._scratch_arrays(), ("exchanged", (self._exchanged().size,), np.dtype(np.uint8))]

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

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places, shape, seam = self._places(tensors, temporary, persistent), self._shape, self._library.seam
        exchanged = self._exchanged()
        start = places.scratch["exchanged"]
        parts = exchanged.pointers(start)
        argument = np.zeros(1, GRID)
        argument["sequence"] = self._sequence(tensors, places)
        for name in ("recurrence", "late_recurrence"):
            argument[name] = places.packed.get(name, 0)
        for name in ("flags", "hidden", "reset_hidden"):
            argument[name] = parts.get(name, 0)
        argument["units"], argument["samples"], argument["most_polls"] = shape.units, shape.samples, most_polls()
        grid = (shape.unit_groups, shape.batch_groups, shape.directions)
        walk = self._library.launch(self._kernel, grid, PRODUCT_THREADS, argument, shape.shared_bytes, cooperative=not shape.alone)
        work = [*places.prologue, *self._input_product(tensors, places)]
        if not shape.alone:
            work.append(lambda stream: seam.memset(start, 0, exchanged.size, stream))
        return in_order([*work, walk])
