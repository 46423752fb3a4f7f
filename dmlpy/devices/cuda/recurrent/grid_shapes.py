"""Divides the recurrences of `persistent_grid` among blocks: `GridShape`, and the shapes of the forward pass that fit a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT
from dmlpy.devices.cuda.kernels import ALIGNMENT
from dmlpy.devices.cuda.performance.gpu_model import L2_SHARE, GpuModel
from dmlpy.devices.cuda.recurrent.common import storage_type
from dmlpy.devices.cuda.recurrent.model import clusters_at_a_time
from dmlpy.devices.cuda.recurrent.products import (
    LANE_BYTES,
    PRODUCT_THREADS,
    Fma,
    Product,
    TensorCores,
    divide_up,
    loaded_samples,
    loads_of,
    whole_pieces,
)
from dmlpy.devices.plan import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dmlpy.devices.cuda.recurrent.model import Protocol
    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.operators.recurrent.layer import RecurrentCell, RecurrentDesc

UNITS = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Hidden units that a block may own if it is not alone."""

MOST_PAIRS = 8
"""Pairs of unit and sample that a thread has in a pass, at most: each has its gates in registers."""

MOST_OUTPUT_BITS = 32
"""Pairs of a thread in all passes of training: one bit per pair of a register marks whether its state is an output."""

MOST_BATCH_GROUPS = 2**16 - 1
"""The largest size of a grid's second axis. Only blocks that run alone, and clusters, can reach it."""

CLUSTER_BLOCKS = (2, 4)
"""The blocks that a cluster may have."""

GIVEN_UP_BYTES = 16
"""Static shared memory in which a block with flags records a timeout."""

ARRIVALS_BYTES = 16
"""Shared memory in which a block of a cluster counts data from the others."""

ROW_WARPS = (1, 2, 4, 8)
"""Warps of a block that have different rows, on tensor cores."""

BEFORE_LAUNCH: Mapping[Protocol, int] = {"flags": 0, "data": 0xFF}
"""The protocols by which blocks exchange states, and the value of all bytes of the exchange before the launch."""

RESIDENT_REGISTERS = 168
"""The registers of a thread's 255 that hold R, if its block is alone or of a cluster, and it has one pair of unit and sample and at most 8
tensor-core sums.
"""


@dataclass(frozen=True)
class Facts:
    """The properties of a desc that shapes depend on.

    Attributes:
        hidden_size: H.
        batch_size: B.
        seq_length: T.
        directions: D.
        gates: G.
        data_type: the type of the tensors.
        cell: the cell of a step.
        trains: whether a step may be masked, or saves values for the gradient.
        refusal: why no shape supports the desc on any device; None if one may.
    """

    hidden_size: int
    batch_size: int
    seq_length: int
    directions: int
    gates: int
    data_type: np.dtype[Any]
    cell: RecurrentCell
    trains: bool
    refusal: str | None

    @classmethod
    def of(cls, desc: RecurrentDesc) -> Facts:
        sizes, cell, tensors = desc.geometry, desc.cell, desc.tensors()
        refusal = None
        if "state_dropout_tensor" in tensors:
            refusal = "dropout of states takes separate products in each step"
        elif cell.projection:
            refusal = "a projection takes a separate product in each step"
        return cls(
            hidden_size=sizes.hidden_size,
            batch_size=sizes.batch_size,
            seq_length=sizes.seq_length,
            directions=sizes.num_directions,
            gates=sizes.gates,
            data_type=storage_type(desc),
            cell=cell,
            trains="reserve_tensor" in tensors or "step_mask_tensor" in tensors,
            refusal=refusal,
        )

    @property
    def early_gates(self) -> int:
        """The gates whose product is of H[t-1] itself."""
        return self.gates - self.cell.resets_first

    def on_tensor_cores(self, tf32: bool) -> bool:
        return self.data_type != FLOAT or tf32


@dataclass(frozen=True)
class GridShape:
    """The division of a sequence's work among blocks.

    Attributes:
        units: hidden units of a block; the last group of units may have fewer.
        unit_groups: blocks that share R of one direction; a single one runs alone and waits for no other.
        samples: the samples of the batch in a block; the last group may have fewer.
        batch_groups: blocks that share the batch.
        directions: D.
        pairs: the pairs of unit and sample of a thread in a pass.
        protocol: how blocks exchange states.
        product: the product by R, or by the rows of its first gates if the last one's product depends on the reset gate.
        late_product: the product by the rows of the last gate in that case.
        shared_bytes: dynamic shared memory of a block.
    """

    units: int
    unit_groups: int
    samples: int
    batch_groups: int
    directions: int
    pairs: int
    protocol: Protocol
    product: Product
    late_product: Product | None
    shared_bytes: int

    @classmethod
    def of(cls, facts: Facts, units: int, samples: int, products: Sequence[Product]) -> GridShape:
        """Blocks with this many units and samples each, which use flags if they are not alone; shared memory is not summed yet."""
        unit_groups = divide_up(facts.hidden_size, units)
        return cls(
            units=units,
            unit_groups=unit_groups,
            samples=samples,
            batch_groups=divide_up(facts.batch_size, samples),
            directions=facts.directions,
            pairs=_pairs(units, samples, products[0].samples),
            protocol="alone" if unit_groups == 1 else "flags",
            product=products[0],
            late_product=products[1] if facts.cell.resets_first else None,
            shared_bytes=0,
        )

    @property
    def alone(self) -> bool:
        return self.protocol == "alone"

    @property
    def clustered(self) -> bool:
        return self.protocol == "cluster"

    @property
    def cooperative(self) -> bool:
        """Whether all blocks have to run at the same time, since they wait for blocks outside a cluster."""
        return not (self.alone or self.clustered)

    @property
    def blocks(self) -> int:
        return self.unit_groups * self.batch_groups * self.directions

    @property
    def pass_samples(self) -> int:
        """The samples of a block that are processed at a time."""
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
        """The bytes of a block's part of R held in registers."""
        return sum(PRODUCT_THREADS * 16 * product.tiles * product.register_steps for product in self.products)

    def describe(self) -> str:
        """Describes the shape in one line."""
        blocks = f"{self.unit_groups} x {self.batch_groups} x {self.directions} blocks"
        apart = "alone" if self.alone else f"in clusters of {self.unit_groups}"
        together = f"in a cooperative launch, exchanging by {self.protocol}" if self.cooperative else apart
        return (
            f"{blocks} {together}, {self.units} units and {self.samples} sample(s) each, {self.pass_samples} at a time; "
            f"{self.register_bytes} bytes of R in registers, {self.shared_bytes} bytes of shared memory"
        )


def in_protocols(shape: GridShape | None, can_exchange_data: Callable[[GridShape], bool]) -> Iterator[GridShape]:
    """Yields the shape, if there is one, with each protocol that its blocks can use; a block that runs alone uses none."""
    if shape is not None:
        yield shape
        if shape.cooperative and can_exchange_data(shape):
            yield replace(shape, protocol="data")


def in_protocol(shape: GridShape | None, protocol: Protocol, can_exchange_data: Callable[[GridShape], bool]) -> GridShape | None:
    """The shape with this protocol, which a block that runs alone ignores; None if there is no shape or its blocks cannot use it."""
    shapes = in_protocols(shape, can_exchange_data)
    return next((shape for shape in shapes if shape.alone or shape.protocol == protocol), None)


# the shapes that fit


def grid_shapes(desc: RecurrentDesc, limits: Limits, *, tf32: bool) -> list[GridShape]:
    """The shapes of a checked desc that fit the device and are worth estimating; empty if none fits.

    Args:
        desc: the checked desc.
        limits: the device's limits.
        tf32: whether factors of float32 matrix products may be rounded to TF32; the device has to support it.
    """
    facts = Facts.of(desc)
    return [] if facts.refusal else list(dict.fromkeys([*_all_shapes(facts, limits, tf32), *_clustered_shapes(facts, limits, tf32)]))


def _all_shapes(facts: Facts, limits: Limits, tf32: bool) -> Iterator[GridShape]:
    step = 8 if facts.on_tensor_cores(tf32) else 1
    for units in (*(units for units in UNITS if units < facts.hidden_size), facts.hidden_size):
        unit_groups = divide_up(facts.hidden_size, units)
        most_batch_groups = limits.multiprocessors // (unit_groups * facts.directions)
        if most_batch_groups == 0 and unit_groups > 1:
            continue
        most = divide_up(facts.batch_size, max(1, most_batch_groups))
        most = min(divide_up(most, step) * step, facts.batch_size)
        # Blocks that run alone wait for no other, so there may be more of them than can be resident.
        for samples in sorted({most} if unit_groups > 1 else {min(most, few) for few in (8, 32, most)}):
            for pass_samples in _pass_samples(samples, step):
                for row_warps in ROW_WARPS if step == 8 else (1,):
                    shape = _shape(facts, limits, units, samples, pass_samples, tf32, row_warps)
                    yield from in_protocols(shape, partial(_can_exchange_data, facts, limits))


def _clustered_shapes(facts: Facts, limits: Limits, tf32: bool) -> Iterator[GridShape]:
    """The shapes of groups that are clusters. They need not run at the same time, so there may be more than can be resident."""
    gpu, step = GpuModel.of(limits), 8 if facts.on_tensor_cores(tf32) else 1
    for blocks in CLUSTER_BLOCKS:
        units = _units_of_cluster(facts, blocks)
        if units is None or not gpu.has_clusters:
            continue
        at_a_time = max(1, clusters_at_a_time(gpu, blocks) // facts.directions)
        most = min(divide_up(divide_up(facts.batch_size, at_a_time), step) * step, facts.batch_size)
        for samples in sorted({min(most, few) for few in (8, 32, most)}):
            for pass_samples in _pass_samples(samples, step):
                for row_warps in ROW_WARPS if step == 8 else (1,):
                    shape = _shape(facts, limits, units, samples, pass_samples, tf32, row_warps, clustered=True)
                    if shape is not None:
                        yield shape


def _units_of_cluster(facts: Facts, blocks: int) -> int | None:
    """The units of each of this many blocks, the last may have fewer, in the largest whole groups; None if a block would have none."""
    least = divide_up(facts.hidden_size, blocks)
    for whole in (8, 4, 2, 1):
        units = divide_up(least, whole) * whole
        if divide_up(facts.hidden_size, units) == blocks and units * facts.data_type.itemsize % 4 == 0:
            return units
    return None


def _pass_samples(samples: int, step: int) -> list[int]:
    """The numbers of a block's samples that are worth processing at a time, as multiples of `step`."""
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
    row_warps: int = 1,
    protocol: Protocol = "flags",
    most_registers: int = RESIDENT_REGISTERS,
) -> GridShape | None:
    """The shape whose blocks have this many units and samples, or None if it does not fit.

    Args:
        desc: a checked desc that no `Facts.refusal` is about.
        limits: the device's limits.
        units: the units of a block.
        samples: the samples of a block.
        pass_samples: the samples processed at a time; with tensor cores a multiple of 8.
        tf32: as for `grid_shapes`.
        row_warps: warps with different rows, on tensor cores.
        protocol: between blocks; ignored if a block has all units. A cluster has as many blocks as share the units.
        most_registers: the most registers of a thread for R.
    """
    facts = Facts.of(desc)
    clustered = protocol == "cluster" and units < facts.hidden_size
    shape = _shape(facts, limits, units, samples, pass_samples, tf32, row_warps, most_registers, clustered=clustered)
    return in_protocol(shape, protocol, partial(_can_exchange_data, facts, limits))


def _shape(
    facts: Facts,
    limits: Limits,
    units: int,
    samples: int,
    pass_samples: int,
    tf32: bool,
    row_warps: int,
    most_registers: int = RESIDENT_REGISTERS,
    *,
    clustered: bool = False,
) -> GridShape | None:
    """Divides as `grid_shape` does; blocks that are not alone use flags, or are a cluster."""
    cell, data_type, depth = facts.cell, facts.data_type, facts.hidden_size
    unit_groups, pairs = divide_up(depth, units), _pairs(units, samples, pass_samples)
    if pairs > MOST_PAIRS or (facts.trains and pairs * divide_up(samples, pass_samples) > MOST_OUTPUT_BITS):
        return None
    if unit_groups > 1 and units * data_type.itemsize % 4:
        return None  # a word of two halves must have a single writer
    if clustered and not (GpuModel.of(limits).has_clusters and unit_groups in CLUSTER_BLOCKS):
        return None
    loads = loads_of(min(samples, pass_samples) * depth * data_type.itemsize)
    products: list[Product] = []
    for rows in (facts.early_gates * units, *([units] if cell.resets_first else [])):
        if facts.on_tensor_cores(tf32):
            products.append(_tensor_cores(data_type, rows, samples, pass_samples, row_warps, loads))
        else:
            products.append(_fma(rows, pass_samples, loads))
    registers = _resident_registers(products, pairs, facts, alone=unit_groups == 1 or clustered)
    if registers is None:
        return None
    registers = min(registers, most_registers)
    for place, product in enumerate(products):
        steps = min(product.steps(depth), registers // (4 * product.tiles))
        registers -= 4 * product.tiles * steps
        products[place] = product.with_registers(steps)
    shape = GridShape.of(facts, units, samples, products)
    if clustered:
        shape = replace(shape, protocol="cluster")
    shape = replace(shape, shared_bytes=_shared_bytes(facts, shape))
    together = shape.batch_groups <= MOST_BATCH_GROUPS and (not shape.cooperative or shape.blocks <= limits.multiprocessors)
    own_bytes = GIVEN_UP_BYTES if shape.cooperative else 0
    return shape if together and shape.shared_bytes + own_bytes <= limits.shared_memory_per_block else None


def _pairs(units: int, samples: int, pass_samples: int) -> int:
    """`GridShape.pairs` of blocks that have that many samples: samples that only pad a pass have no pairs."""
    return divide_up(units * min(samples, pass_samples), PRODUCT_THREADS)


def _fma(rows: int, samples: int, loads: int) -> Fma:
    """The multiply-add product with the fewest neighbouring lanes of at most four rows each, else the one with the most lanes.

    Few lanes may be without a row: an eighth, or else the fewest that can be.
    """

    def idle(lanes: int) -> int:
        return divide_up(rows, lanes) * lanes - rows

    fitting = [lanes for lanes in (8, 16, 32) if 8 * idle(lanes) <= rows] or [min((32, 16, 8), key=idle)]
    row_lanes = next((lanes for lanes in fitting if divide_up(rows, lanes) <= 4), fitting[-1])
    return Fma(tiles=divide_up(rows, row_lanes), register_steps=0, samples=samples, loads=loads, row_lanes=row_lanes)


def _tensor_cores(data_type: np.dtype[Any], rows: int, samples: int, pass_samples: int, row_warps: int, loads: int) -> TensorCores:
    """Products on tensor cores with this many warps on different rows, but no more than there are tiles."""
    tiles = divide_up(rows, 16)
    row_warps = next(warps for warps in (8, 4, 2, 1) if warps <= min(row_warps, tiles))
    return TensorCores(data_type, divide_up(tiles, row_warps), row_warps, 0, pass_samples, loads, loaded_samples(samples, pass_samples))


def _resident_registers(products: Sequence[Product], pairs: int, facts: Facts, *, alone: bool) -> int | None:
    """The registers of a thread available for R; None if the sums alone are too many. The figures come from compilers' reports.

    `alone`: whether no data comes through global memory from other blocks.
    """

    def sums(product: Product) -> int:
        return product.tiles * product.samples // (1 if isinstance(product, Fma) else 2)

    most_sums = max(map(sums, products))
    more_sums, others = max(0, most_sums - 8), 16 * (len(products) - 1)
    if isinstance(products[0], Fma):
        others += more_sums * 5 // 4 + 28 + 4 * products[0].samples + 4 * (products[0].row_lanes < 32)
    else:
        others += 2 * more_sums
    if pairs > 1:
        # An RNN in training has few values of a pair, but its kernel spills with fewer than 6 registers for them.
        of_pair = max(facts.gates + facts.cell.saved, 6) if facts.trains else facts.gates
        others += 32 + (pairs - 1) * (of_pair + 4)
    if not alone:
        others += 48
    return None if most_sums > 64 or others > RESIDENT_REGISTERS else RESIDENT_REGISTERS - others


def _shared_bytes(facts: Facts, shape: GridShape) -> int:
    """The bytes of shared memory that the kernel `persistent_grid` needs."""
    cell, depth, slots = facts.cell, facts.hidden_size, shape.passes * shape.pass_samples
    states = 1 + cell.has_memory + cell.resets_first
    constants = [(cell.gates + cell.resets_last) * shape.units, *([3 * shape.units] if cell.has_memory else [])]
    pieces = [
        *(product.shared_bytes(depth) for product in shape.products),
        *[slots * shape.units * FLOAT.itemsize] * states,
        *(count * FLOAT.itemsize for count in constants),
        slots * 4,
    ]
    if shape.cooperative:
        pieces.append(max(product.staged_bytes(depth) for product in shape.products))
    else:
        turns = (2, 1) if shape.clustered else (1, 1)
        rows = [product.row(depth, shape.protocol) * count for product, count in zip(shape.products, turns, strict=False)]
        pieces += [*(slots * row * facts.data_type.itemsize for row in rows), ARRIVALS_BYTES * shape.clustered]
    return whole_pieces(*pieces)


# what blocks exchange


def _can_exchange_data(facts: Facts, limits: Limits, shape: GridShape) -> bool:
    """Returns whether the blocks can exchange data without flags: they write everything that others load, and the L2 cache holds it."""
    item = facts.data_type.itemsize
    loaded = divide_up(facts.hidden_size * item, LANE_BYTES) * LANE_BYTES
    return loaded <= shape.unit_groups * shape.units * item and stays_in_l2(
        limits, exchange_layout(facts, replace(shape, protocol="data")).size
    )


def stays_in_l2(limits: Limits, size: int) -> bool:
    """Returns whether the device's L2 cache should hold this many bytes. Beyond that, waiting for memory costs as much as for flags."""
    return size <= L2_SHARE * GpuModel.of(limits).l2_bytes


def exchange_layout(facts: Facts, shape: GridShape) -> Layout:
    """The layout of the data that blocks exchange through global memory; empty for blocks that are alone or of a cluster."""
    if not shape.cooperative:
        return Layout([], ALIGNMENT)
    groups, samples = shape.directions * shape.batch_groups, shape.passes * shape.pass_samples
    arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [("expired", (1,), np.dtype(np.uint32))]
    if shape.protocol == "flags":
        arrays.append(("flags", (groups, shape.unit_groups), np.dtype(np.uint32)))
    for name, turns, product in zip(("hidden", "reset_hidden"), (2, 1), shape.products, strict=False):
        buffers = turns if shape.protocol == "flags" else facts.seq_length
        arrays.append((name, (groups, buffers, samples, product.row(facts.hidden_size, shape.protocol)), facts.data_type))
    return Layout(arrays, ALIGNMENT)
