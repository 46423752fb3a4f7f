"""The tiles of convolutions of bytes whose groups have one channel: whole planes, for processors that move bytes within a register."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.products import REGISTER, ResultParameters
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, aligned, field
from dmlpy.devices.cpu.thread_pool import tiles_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.quantized.tiling import ByteGeometry
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Array

DEPTHWISE_PLANES = Kernel("dmlpy.devices.cpu.quantized.plane_kernels:build_depthwise_planes", 5)
"""The convolution of planes: what becomes of the sums, the quads of a window and the orders of their bytes, whether results are looked up,
and the instruction set."""
CHUNK_VECTORS = 4
"""Vectors of positions of a chunk: their results of bytes fill a register."""
CHUNK = np.dtype([("sources", np.int64, CHUNK_VECTORS), *[(name, np.int64) for name in ("valid", "written", "target", "unused")]])
"""A chunk of positions: from the padded plane to what the first position of each vector reads, a bit for each position that there is, as
many bits from the lowest on, and from the plane of results to where they are written side by side."""
FILL = np.dtype([(name, np.int64) for name in ("offset", "read", "inside")])
"""A register of the padded plane: from the plane to its first byte, a bit for each byte of the plane, and a bit where it has one."""
_MOST_QUADS = 16
"""Quads of a window, at most, for all are in registers."""
_PLANE_BYTES = 1 << 16
"""Bytes of a padded plane, at most: it stays in a core's caches, and so do the tables, which are as large."""


class DepthwisePlaneParameters(ResultParameters):
    """The parameters of a convolution of planes. A tile is some units: a plane and a filter.

    A thread's scratch has the sums of a chunk, those of the input's bytes, its results, and two padded planes, of which one is filled while
    the other is multiplied. `offsets` has the bytes from a position to each quad.
    """

    units: Count = field("units of all tiles")
    groups: Count = field("planes of an image")
    filters: Count = field("filters of a plane")
    chunks: Address = field("the `CHUNK`s of a plane")
    chunk_bytes: Bytes = field("the size of all of them")
    fills: Address = field("the `FILL`s of a plane")
    fill_bytes: Bytes = field("the size of all of them")
    orders: Address = field("the places of the bytes of a vector's quads, from what its first position reads")
    padded_size: Bytes = field("from a padded plane to the next")
    input: Address = field("the first plane")
    input_image: Bytes = field("from an image to the next")
    input_channel: Bytes = field("from a plane to the next")
    input_flip: Count = field("what makes the input's bytes unsigned")
    input_zero: Address = field("the zero point of the input, a byte; 0 for none")
    weights: Address = field("the packed filters [groups, filters, quads, 4]")
    ones: Address = field("a filter of ones")
    uses_second: Address = field("an integer: whether sums of the input's bytes are needed")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a plane of the output to the next")


@dataclass(frozen=True)
class _Vectors:
    """Vectors of positions, all of one pattern.

    Attributes:
        lanes: bytes from what a vector's first position reads to what each one does.
        starts: bytes from the padded plane to what the first position of each vector reads.
        rows: the row of each position [vector, lane].
        columns: its column. Beyond those of the output there is no position.
    """

    lanes: Array
    starts: Array
    rows: Array
    columns: Array


class PlaneTiling:
    """The tiles of a convolution whose planes are copied with their padding. A tile is some units: a plane and a filter.

    Attributes:
        tiles: how many there are.
        ones: the sizes of a packed filter of ones.
        weights: the sizes of the packed filters.
        scratch_size: bytes of a thread.
        quads: quads of a window.
        orders: orders of the bytes of quads: one for each of them, or one for all.
        chunks: chunks of a plane.

    Args:
        geometry: the sizes.
        pitch: bytes from a row of a padded plane to the next.
        vectors: the positions.
        taps: the numbers of the taps of each quad [quads, 4], -1 for none.
        threads: the threads.
    """

    def __init__(self, geometry: ByteGeometry, pitch: int, vectors: _Vectors, taps: Array, threads: int) -> None:
        self._geometry, self._taps = geometry, taps
        self._units = geometry.batch * geometry.groups * geometry.filters
        self.tiles = min(self._units, tiles_for(threads))
        self.ones, self.quads = taps.shape, len(taps)
        self.weights = (geometry.groups, geometry.filters, *self.ones)
        offsets, orders = _orders_of(geometry, pitch, vectors, taps)
        if (orders == orders[0]).all():
            orders = orders[:1]
        self.orders = len(orders)
        self._offsets, self._orders = FixedArray(offsets), FixedArray(orders.astype(np.uint8))
        self._fills, self._chunks = FixedArray(_fills_of(geometry, pitch)), FixedArray(_chunks_of(geometry, vectors))
        self.chunks = self._chunks.array.size
        reach = int(vectors.starts.max()) + int(offsets.max()) + REGISTER
        self._padded_size = aligned(max(reach, self._fills.array.size * REGISTER))
        self.scratch_size = 3 * CHUNK_VECTORS * REGISTER + 2 * self._padded_size

    @classmethod
    def of(cls, geometry: ByteGeometry, element: int, threads: int, isa: ByteIsa) -> PlaneTiling | None:
        """The tiling of a depthwise convolution; None if planes have gaps or are too large or few, or the processor lacks instructions.

        Args:
            geometry: the sizes.
            element: bytes of an element of the output.
            threads: the threads.
            isa: the instruction set.
        """
        if geometry.channels > 1 or not isa.moves_bytes:
            return None
        if geometry.positions:  # rows are of no use here, and the last one is shorter
            geometry = replace(geometry, spatial=(1, geometry.positions), out=(1, geometry.positions), positions=0)
        height, width = geometry.spatial
        is_packed = geometry.input_steps[3] == 1 and (height == 1 or geometry.input_steps[2] == width)
        *_, row, step = geometry.output_steps
        if not is_packed or step != element or (geometry.out[0] > 1 and row != geometry.out[1] * element):
            return None
        extents = [(tap - 1) * dilation + 1 for tap, dilation in zip(geometry.taps, geometry.dilations, strict=True)]
        pitch = max((geometry.out[1] - 1) * geometry.strides[1] + extents[1], geometry.starts[1] + width)
        if _padded_rows(geometry) * pitch > _PLANE_BYTES or geometry.batch * geometry.groups * geometry.filters < threads:
            return None
        best: tuple[int, _Vectors, Array] | None = None
        for vectors in _layouts(geometry, pitch, isa.lanes):
            for taps in _quads_of(geometry):
                cost = len(vectors.starts) * (len(taps) + 3)
                if len(taps) > _MOST_QUADS or (best is not None and cost >= best[0]):
                    continue
                if _orders_of(geometry, pitch, vectors, taps)[1].max() < REGISTER:
                    best = cost, vectors, taps
        return None if best is None else cls(geometry, pitch, *best[1:], threads)

    def describe(self) -> str:
        return "groups of one channel: planes are copied with padding, and their bytes permuted for vectors of 16 positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, 1, y, x] of signed bytes."""
        ones[...] = self._taps >= 0
        weights[...] = filters.reshape(*filters.shape[:2], -1)[..., self._taps] * ones

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry = self._geometry
        return DepthwisePlaneParameters.bound(
            {
                "tiles": self.tiles,
                "units": self._units,
                "groups": geometry.groups,
                "filters": geometry.filters,
                "chunks": self._chunks,
                "chunk_bytes": self._chunks.array.nbytes,
                "fills": self._fills,
                "fill_bytes": self._fills.array.nbytes,
                "orders": self._orders,
                "offsets": self._offsets,
                "padded_size": self._padded_size,
                "ones": ones,
                "input_image": geometry.input_steps[0],
                "input_channel": geometry.input_steps[1],
                "output_image": geometry.output_steps[0],
                "output_channel": geometry.output_steps[1],
                "output_element": geometry.output_steps[3],
                **values,
            }
        )


def _padded_rows(geometry: ByteGeometry) -> int:
    """Rows of a padded plane: those that windows read."""
    return (geometry.out[0] - 1) * geometry.strides[0] + (geometry.taps[0] - 1) * geometry.dilations[0] + 1


def _quads_of(geometry: ByteGeometry) -> Iterator[Array]:
    """The numbers of the taps of each quad [quads, 4], -1 for none: taps of a row, and all in order."""
    rows, columns = geometry.taps
    by_row = np.full((rows, ceil(columns / 4) * 4), -1)
    by_row[:, :columns] = np.arange(rows * columns).reshape(rows, columns)
    yield by_row.reshape(-1, 4)
    in_order = np.full(ceil(rows * columns / 4) * 4, -1)
    in_order[: rows * columns] = np.arange(rows * columns)
    yield in_order.reshape(-1, 4)


def _layouts(geometry: ByteGeometry, pitch: int, lanes: int) -> Iterator[_Vectors]:
    """Ways to divide the positions of a plane into vectors: through all rows, a row after the other, and short rows side by side."""
    (height, width), (down, right) = geometry.out, geometry.strides
    if down * pitch % right == 0:
        of_row = down * pitch // right
        numbers = np.arange(ceil(((height - 1) * of_row + width) / lanes) * lanes).reshape(-1, lanes)
        yield _Vectors(np.arange(lanes) * right, numbers[:, 0] * right, numbers // of_row, numbers % of_row)
    for together in (1, 2, 4):
        part = lanes // together
        if together > 1 and width > part:
            return
        row, column = (axis.reshape(-1, 1) for axis in np.mgrid[0:height:together, 0:width:part])
        lane_row, lane_column = np.divmod(np.arange(lanes), part)
        starts = (row * down * pitch + column * right)[:, 0]
        yield _Vectors(lane_row * down * pitch + lane_column * right, starts, row + lane_row, column + lane_column)


def _orders_of(geometry: ByteGeometry, pitch: int, vectors: _Vectors, taps: Array) -> tuple[Array, Array]:
    """The bytes from a vector's first position to each quad [quads], and from there to each byte [quads, 64]."""
    y, x = np.divmod(taps, geometry.taps[1])
    places = np.where(taps >= 0, y * geometry.dilations[0] * pitch + x * geometry.dilations[1], np.iinfo(np.int32).max)
    offsets = places.min(1)
    orders = vectors.lanes[:, None] + np.where(taps >= 0, places - offsets[:, None], 0)[:, None]
    orders = np.where(taps[:, None] >= 0, orders, orders[0])  # any byte will do, the same in each quad
    return offsets.astype(np.int64), orders.reshape(len(taps), -1)


def _fills_of(geometry: ByteGeometry, pitch: int) -> Array:
    """The registers of a padded plane, whose rows have all columns of the plane: between rows that are there, no byte is skipped."""
    (height, width), rows = geometry.spatial, _padded_rows(geometry)
    y = np.arange(rows)[:, None] - geometry.starts[0]
    x = np.arange(pitch) - geometry.starts[1]
    inside = np.zeros(aligned(rows * pitch), bool)
    inside[: rows * pitch] = ((y >= 0) & (y < height) & (x >= 0) & (x < width)).reshape(-1)
    by_register = inside.reshape(-1, REGISTER)
    counts = by_register.sum(1)
    fills = np.zeros(len(by_register), FILL)
    fills["offset"] = np.cumsum(counts) - counts
    fills["read"], fills["inside"] = (_bits(flags) for flags in (np.arange(REGISTER) < counts[:, None], by_register))
    return fills


def _chunks_of(geometry: ByteGeometry, vectors: _Vectors) -> Array:
    """The chunks of a plane. Vectors that the last one lacks read what is there, for no position."""
    (height, width), count = geometry.out, len(vectors.starts)
    chunks = ceil(count / CHUNK_VECTORS)
    valid = np.zeros((chunks * CHUNK_VECTORS, vectors.lanes.size), bool)
    valid[:count] = (vectors.rows < height) & (vectors.columns < width)
    valid = valid.reshape(chunks, REGISTER)
    records, counts = np.zeros(chunks, CHUNK), valid.sum(1)
    records["sources"] = np.append(vectors.starts, [0] * (-count % CHUNK_VECTORS)).reshape(-1, CHUNK_VECTORS)
    records["valid"], records["written"] = _bits(valid), _bits(np.arange(REGISTER) < counts[:, None])
    records["target"] = (np.cumsum(counts) - counts) * geometry.output_steps[3]
    return records


def _bits(flags: Array) -> Array:
    """Flags [rows, 64] as the bits of integers, the first one lowest."""
    return np.packbits(flags, axis=1, bitorder="little").view("<i8")[:, 0]
