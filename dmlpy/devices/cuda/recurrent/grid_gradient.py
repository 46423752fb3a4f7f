"""The gradients of RNN, LSTM and GRU on CUDA with R resident in many blocks, or in one: the shapes that fit a device, and their plan.

raw_kernels/recurrent/grid_gradient.cu says what the kernel does; `families` chooses among the shapes, and between them and other families.
A block owns as many units as its product has rows, and the product's depth is of all gates, of the units of all blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.recurrent.common import FLOAT, storage_type
from dmlpy.devices.cuda.recurrent.gradient_kernels import SEQUENCE
from dmlpy.devices.cuda.recurrent.gradient_results import Places, RecurrentGradientPlan
from dmlpy.devices.cuda.recurrent.grid import GridShape, check_resident, most_polls, why_not
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, PRODUCT_WARPS, Fma, Product, TensorCores, divide_up, whole_pieces
from dmlpy.devices.cuda.seam import Limits
from dmlpy.devices.plan import Launch, Layout
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

HANDED = struct(("arranged", np.uint64), ("operand", np.uint64), ("inverse", np.uint64))
GRID = struct(
    ("sequence", SEQUENCE),
    ("sums", HANDED),
    ("reset", HANDED),
    ("hidden_init_gradient", STRIDED),
    ("cell_mem_init_gradient", STRIDED),
    ("flags", np.uint64),
    ("samples", np.int32),
    ("passes", np.int32),
    ("most_polls", np.uint32),
)
ARRANGE = struct(
    ("recurrence", STRIDED),
    ("arranged", np.uint64),
    *((name, np.int32) for name in ("hidden_size", "num_directions", "blocks")),
)
FILE = "recurrent/grid_gradient.cu"

FMA_UNITS = (8, 16, 32, 64, 96, 128)
"""Hidden units that a block may own where its products are by multiply and add."""
TENSOR_CORE_UNITS = (16, 32, 48, 64, 96, 128)
"""The same on tensor cores, whose tiles have 16 rows."""

MOST_PAIRS = 4
"""Pairs of unit and sample that a thread has in a pass, at most: each has in registers what the step kept."""


# the shapes that fit


def grid_gradient_shapes(desc: RecurrentGradDesc, limits: Limits, *, tf32: bool) -> list[GridShape]:
    """The shapes of a checked desc that fit the device, each worth a look; none if none fits.

    Args:
        desc: what to run.
        limits: of the device.
        tf32: whether factors of float32 matrix products may be rounded to TF32; the device has to have it.
    """
    if why_not(desc) is not None:
        return []
    sizes, on_tensor_cores = desc.geometry, tf32 or storage_type(desc) != FLOAT
    found: dict[GridShape, None] = {}
    for units in TENSOR_CORE_UNITS if on_tensor_cores else FMA_UNITS:
        unit_groups = divide_up(sizes.hidden_size, units)
        most_batch_groups = limits.multiprocessors // (unit_groups * sizes.num_directions)
        # A block alone waits for nobody, so there may be more of them than run at a time.
        if unit_groups == 1 or most_batch_groups:
            fewest = divide_up(sizes.batch_size, max(1, most_batch_groups))
            for pass_samples in (8, 16, 32) if on_tensor_cores else (1, 2, 4, 8):
                # As few samples as blocks allow, or as few blocks as have whole passes then.
                for samples in (fewest, divide_up(fewest, pass_samples) * pass_samples):
                    if pass_samples < 2 * samples or (on_tensor_cores and pass_samples == 8):
                        shape = grid_gradient_shape(desc, limits, units, min(samples, sizes.batch_size), pass_samples, tf32=tf32)
                        if shape is not None:
                            found[shape] = None
        if unit_groups == 1:
            break
    return list(found)


def grid_gradient_shape(
    desc: RecurrentGradDesc,
    limits: Limits,
    units: int,
    samples: int,
    pass_samples: int,
    *,
    tf32: bool,
    row_warps: int | None = None,
    most_registers: int | None = None,
) -> GridShape | None:
    """The shape whose blocks have so many units and samples, None if it does not fit.

    Args:
        desc: a checked desc that `why_not` has nothing against.
        limits: of the device.
        units: of a block; with tensor cores a multiple of 16, else of 8.
        samples: of a block.
        pass_samples: of them, to be worked at a time; with tensor cores a multiple of 8.
        tf32: as for `grid_gradient_shapes`.
        row_warps: of tensor cores, warps with different rows; None leaves that to the number of rows.
        most_registers: of a thread for R; None leaves that to what else it has.
    """
    sizes, cell, data_type = desc.geometry, desc.cell, storage_type(desc)
    unit_groups = divide_up(sizes.hidden_size, units)
    pairs = divide_up(units * pass_samples, PRODUCT_THREADS)
    if pairs > MOST_PAIRS:
        return None
    by_fma = data_type == FLOAT and not tf32
    first: Product = _fma(units, pass_samples) if by_fma else _tensor_cores(data_type, units, pass_samples, row_warps)
    registers = resident_registers(first, pairs, cell.resets_first) if most_registers is None else most_registers
    products: list[Product] = []
    for gates in _gates(desc):
        steps = max(0, min(first.steps(unit_groups * gates * units), registers // (4 * first.tiles)))
        registers -= 4 * first.tiles * steps
        products.append(first.with_registers(steps))
    shape = GridShape(
        units=units,
        unit_groups=unit_groups,
        samples=samples,
        batch_groups=divide_up(sizes.batch_size, samples),
        directions=sizes.num_directions,
        pairs=pairs,
        product=products[0],
        late_product=products[1] if cell.resets_first else None,
        shared_bytes=0,
    )
    shape = replace(shape, shared_bytes=sum(_shared_pieces(desc, shape)))
    fits = shape.shared_bytes <= limits.shared_memory_per_block and (shape.alone or shape.blocks <= limits.multiprocessors)
    return shape if fits else None


def _gates(desc: RecurrentGradDesc) -> tuple[int, ...]:
    """Of each product of a step: all, or z and r and then h of a GRU that resets first."""
    gates = desc.geometry.gates
    return (gates - 1, 1) if desc.cell.resets_first else (gates,)


def _fma(units: int, samples: int) -> Fma:
    row_lanes = min(units, 32)
    return Fma(row_lanes, units // row_lanes, 0, samples)


def _tensor_cores(data_type: np.dtype[Any], units: int, samples: int, row_warps: int | None) -> TensorCores:
    """The fewest warps with different rows, since each reads the operand, such that a warp has no more than four tiles of sums."""
    tiles = units // 16
    if row_warps is None:
        row_warps = next((warps for warps in (1, 2, 4) if tiles % warps == 0 and tiles // warps * (samples // 8) <= 4), 8)
    row_warps = next(warps for warps in (8, 4, 2, 1) if warps <= row_warps and tiles % warps == 0)
    return TensorCores(data_type, tiles // row_warps, row_warps, 0, samples // 8)


def resident_registers(product: Product, pairs: int, resets_first: bool) -> int:
    """Registers of a thread for R, all products of a step together. Compilers' reports are where the numbers come from.

    Args:
        product: the first of a step.
        pairs: of unit and sample, that a thread has in a pass.
        resets_first: whether there is a second product.
    """
    if isinstance(product, Fma):
        most = 120 - 2 * max(0, product.tiles * product.samples - 8)
    else:  # the scales of halves take registers, too
        most = (128 if product.data_type == FLOAT else 88) - 2 * (product.samples - 8)
    return most - 12 * max(0, pairs - 2) - 16 * resets_first


def _hands(desc: RecurrentGradDesc, shape: GridShape) -> Iterator[tuple[Product, int, int, int]]:
    """For each product of a step: itself, its depth, the parts of the depth that have a scale, and the elements of a pass's operand."""
    for product, gates in zip(shape.products, _gates(desc), strict=True):
        part = gates * shape.units
        depth = shape.unit_groups * part
        parts = divide_up(product.padded_depth(depth), part) if storage_type(desc) != FLOAT else 0
        yield product, depth, parts, shape.pass_samples * product.padded_depth(depth)


def _shared_pieces(desc: RecurrentGradDesc, shape: GridShape) -> Iterator[int]:
    """Bytes of the pieces of shared memory that a block of `grid` takes."""
    item, slots = storage_type(desc).itemsize, shape.passes * shape.pass_samples * shape.units
    yield (1 + desc.cell.has_memory) * whole_pieces(slots * FLOAT.itemsize)
    yield desc.cell.has_memory * whole_pieces(shape.units * 4 * FLOAT.itemsize)
    for product, depth, parts, operand in _hands(desc, shape):
        yield product.shared_bytes(depth, shape.alone)
        if parts and shape.units > 16:
            yield whole_pieces(shape.units * shape.pass_samples // 16 * FLOAT.itemsize)
        if shape.alone:
            yield whole_pieces(shape.passes * operand * item)
            yield whole_pieces(shape.passes * parts * shape.pass_samples * FLOAT.itemsize)
        elif parts:
            part = depth // shape.unit_groups
            fetched = (product.steps(depth) * product.depth_step - 1) // part + 2
            yield whole_pieces(PRODUCT_WARPS * fetched * shape.pass_samples * FLOAT.itemsize)


# the plan


def grid_gradient_kernel(data_type: np.dtype[Any], shape: GridShape, cell: str, forward: str, backward: str) -> Kernel:
    """`grid` for a shape; the other arguments are as for `walk_kernel`."""
    scalar = scalar_type(data_type)
    reset = "NoProduct" if shape.late_product is None else shape.late_product.type_name
    where = f"{shape.product.type_name}, {reset}, {str(shape.alone).lower()}"
    return Kernel(
        FILE,
        f"grid<{scalar}, {where}, {cell}, {forward}, {backward}>",
        GRID,
        f"GridParameters<{scalar}>",
        dynamic_shared=True,
        lowest_capability=shape.product.lowest_capability,
    )


def arrange_gradient_kernel(data_type: np.dtype[Any], product: Product, first_gate: int, gates: int) -> Kernel:
    """`arrange` of some gates for the order of a product, whatever it has in registers and in a pass."""
    scalar = scalar_type(data_type)
    return Kernel(
        FILE,
        f"arrange<{scalar}, {product.arrangement().type_name}, {first_gate}, {gates}>",
        ARRANGE,
        f"ArrangeParameters<{scalar}>",
        lowest_capability=product.lowest_capability,
    )


class GridGradientPlan(RecurrentGradientPlan):
    """R brought into the order of the blocks, and one launch of `grid` for the whole sequence, of this shape.

    Args:
        desc: a checked desc that `why_not` has nothing against.
        library: the device's kernels.
        shape: one of `grid_gradient_shapes`.
        reason: why it was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        NotResidentError: the blocks would have to wait for others that cannot run beside them.
    """

    capturable = True

    def __init__(self, desc: RecurrentGradDesc, library: KernelLibrary, shape: GridShape, reason: str, tf32: bool = False) -> None:
        self._shape = shape
        super().__init__(desc, library, reason, tf32)
        check_resident(library, self._kernel, shape)

    @property
    def _kernel(self) -> Kernel:
        return grid_gradient_kernel(self._type, self._shape, *self._types)

    @property
    def _arrange_kernels(self) -> list[Kernel]:
        gates = _gates(self._desc)
        firsts = (0, gates[0])
        return [
            arrange_gradient_kernel(self._type, product, first, count)
            for product, first, count in zip(self._shape.products, firsts, gates, strict=False)
        ]

    def kernels(self) -> list[Kernel]:
        return [*super().kernels(), *self._arrange_kernels, self._kernel]

    def _describe_walk(self) -> list[str]:
        return [*(f"{kernel.entry}: once" for kernel in self._arrange_kernels), f"{self._kernel.entry}: {self._shape.describe()}, once"]

    # memory

    def _arranged_bytes(self) -> list[int]:
        """Of each product, all blocks together."""
        blocks = self._shape.directions * self._shape.unit_groups
        return [blocks * product.arranged_bytes(depth) for product, depth, _, _ in _hands(self._desc, self._shape)]

    def _exchanged(self) -> Layout:
        """What the blocks hand each other, all of it zero before a launch."""
        shape = self._shape
        groups = shape.directions * shape.batch_groups
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if not shape.alone:
            arrays.append(("flags", (groups, shape.unit_groups), np.dtype(np.uint32)))
            turns = 1 if self._cell.resets_first else 2
            for name, (_, _, parts, operand) in zip(_HANDS, _hands(self._desc, shape), strict=False):
                arrays.append((f"{name} operand", (groups, turns, shape.passes, operand), self._type))
                arrays.append((f"{name} inverse", (groups, turns, shape.passes, parts, shape.pass_samples), FLOAT))
        return Layout(arrays, ALIGNMENT)

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        arranged = zip(_HANDS, self._arranged_bytes(), strict=False)
        return [
            *super()._scratch_arrays(),
            ("exchanged", (self._exchanged().size,), np.dtype(np.uint8)),
            *((f"{name} arranged", (size,), np.dtype(np.uint8)) for name, size in arranged),
        ]

    # work

    def _walk(self, places: Places) -> list[Launch]:
        shape, sizes, library, seam = self._shape, self._sizes, self._library, self._library.seam
        exchanged, start, work = self._exchanged(), places.scratch["exchanged"], list[Launch]()
        if not shape.alone:
            work.append(lambda stream: seam.memset(start, 0, exchanged.size, stream))
        addresses = exchanged.pointers(start) | places.scratch
        for name, kernel, size in zip(_HANDS, self._arrange_kernels, self._arranged_bytes(), strict=False):
            argument = np.zeros(1, ARRANGE)
            argument["recurrence"], argument["arranged"] = self._field("recurrence", places), addresses[f"{name} arranged"]
            argument["hidden_size"], argument["num_directions"] = sizes.hidden_size, sizes.num_directions
            argument["blocks"] = shape.unit_groups
            work.append(library.launch_elements(kernel, size // 16, argument))
        argument = np.zeros(1, GRID)
        argument["sequence"] = self._sequence(places)
        for name in _HANDS[: len(shape.products)]:
            for part in ("arranged", "operand", "inverse"):
                argument[name][part] = addresses.get(f"{name} {part}", 0)
        for name in ("hidden_init_gradient", "cell_mem_init_gradient"):
            argument[name] = self._field(name, places)
        argument["flags"], argument["most_polls"] = addresses.get("flags", 0), most_polls()
        argument["samples"], argument["passes"] = shape.samples, shape.passes
        grid = (shape.unit_groups, shape.batch_groups, shape.directions)
        cooperative = not shape.alone
        return [*work, library.launch(self._kernel, grid, PRODUCT_THREADS, argument, shape.shared_bytes, cooperative=cooperative)]


_HANDS = ("sums", "reset")
"""The fields of `GRID` for the products of a step."""
