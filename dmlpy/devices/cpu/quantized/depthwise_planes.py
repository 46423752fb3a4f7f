"""The tiling of depthwise convolutions of small planes of bytes, which are read in place.

For each vector of positions and each quad of taps a table says where the window of the plane begins that holds all of its bytes, in which
order a permutation takes them from there, and which of them are padding.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.byte_isa import permutes_bytes
from dmlpy.devices.cpu.quantized.parameters import DepthwisePlaneParameters
from dmlpy.devices.cpu.quantized.products import ALIGNMENT
from dmlpy.devices.cpu.structs import FixedArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.cpu.quantized.byte_geometry import ByteGeometry
    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.structs import Parameters

Array = np.ndarray[Any, np.dtype[Any]]

DEPTHWISE_PLANES = Kernel("dmlpy.devices.cpu.quantized.depthwise_plane_kernels:build_depthwise_planes", 5)
"""The convolution of small planes: what becomes of the sums, the bytes of a window of a plane, and the instruction set."""
VECTORS = 4
"""Vectors of positions whose sums are in registers at once."""
REGISTER = 64
"""Bytes of a register."""
WINDOW = np.dtype([("order", np.uint8, REGISTER), ("offset", np.int64), ("inside", np.uint64), ("unused", np.uint8, REGISTER - 16)])
"""The window of a vector and a quad: the place of each byte in it, the bytes from the plane to it, and which bytes are no padding."""
_TABLE_BYTES = 1 << 15
"""Bytes of all windows, at most: they stay in a core's first cache beside the planes."""
_SIZES = (32, 64, 128)
"""The sizes of windows that there are kernels for: half a register, one, or two."""
_TILES_PER_THREAD = 4


class PlaneTiling:
    """The tiles of a convolution of small planes. A tile is some units: a plane and a filter.

    Attributes:
        tiles: how many there are.
        ones: the sizes of a packed filter of ones.
        weights: the sizes of the packed filters.
        scratch_size: bytes of a thread.
        window: bytes of a window, of `_SIZES`.

    Args:
        geometry: the sizes.
        windows: the table [vectors, quads].
        window: bytes of each window.
        threads: the threads.
    """

    def __init__(self, geometry: ByteGeometry, windows: Array, window: int, threads: int) -> None:
        self._geometry, self._windows, self.window = geometry, FixedArray(windows), window
        self._units = geometry.batch * geometry.groups * geometry.filters
        self.tiles = min(self._units, _TILES_PER_THREAD * threads) if threads > 1 else 1
        self._taps = _quads_of(geometry)
        self.ones = self._taps.shape
        self.weights = (geometry.groups, geometry.filters, *self.ones)
        self._reach = int(windows["offset"].max()) + window
        self._plane = ceil(max(self._reach, prod(geometry.spatial)) / ALIGNMENT) * ALIGNMENT
        self.scratch_size = 2 * VECTORS * REGISTER + self._plane

    @classmethod
    def of(cls, geometry: ByteGeometry, element: int, threads: int, isa: ByteIsa) -> PlaneTiling | None:
        """The tiling of a depthwise convolution; None if its planes are too large or have gaps, or the processor lacks instructions.

        Args:
            geometry: the sizes.
            element: bytes of an element of the output.
            threads: the threads.
            isa: the instruction set.
        """
        positions, (height, width) = prod(geometry.out), geometry.spatial
        if geometry.channels > 1 or 4 * isa.lanes != REGISTER or not permutes_bytes() or positions < isa.lanes:
            return None
        is_packed = geometry.input_steps[3] == 1 and (height == 1 or geometry.input_steps[2] == width)
        *_, row, step = geometry.output_steps
        if not is_packed or step != element or (geometry.out[0] > 1 and row != geometry.out[1] * element):
            return None
        if ceil(positions / isa.lanes) * len(_quads_of(geometry)) * WINDOW.itemsize > _TABLE_BYTES:
            return None
        windows, longest = _windows_of(geometry, isa.lanes)
        window = next((size for size in _SIZES if size >= longest), None)
        return None if window is None else cls(geometry, windows, window, threads)

    def describe(self) -> str:
        return "groups of one channel: planes are read in place, and their bytes permuted for vectors of 16 positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, 1, y, x] of signed bytes."""
        ones[...] = self._taps >= 0
        weights[...] = filters.reshape(*filters.shape[:2], -1)[..., self._taps] * ones

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry, windows = self._geometry, self._windows.array
        image, channel, *_ = geometry.input_steps
        planes = (geometry.batch - 1) * image + (geometry.groups - 1) * channel
        return DepthwisePlaneParameters.bound(
            {
                "tiles": self.tiles,
                "units": self._units,
                "groups": geometry.groups,
                "filters": geometry.filters,
                "positions": prod(geometry.out),
                "vectors": windows.shape[0],
                "quads": windows.shape[1],
                "windows": self._windows,
                "plane": prod(geometry.spatial),
                "reach": self._reach,
                "input_size": planes + prod(geometry.spatial),
                "ones": ones,
                "input_image": image,
                "input_channel": channel,
                "output_image": geometry.output_steps[0],
                "output_channel": geometry.output_steps[1],
                "output_element": geometry.output_steps[3],
                **values,
            }
        )


def _quads_of(geometry: ByteGeometry) -> Array:
    """The numbers of the taps of each quad [quads, 4], -1 for none: of a row where that takes no more quads, else of all taps in order."""
    rows, columns = geometry.taps
    by_row = np.full((rows, ceil(columns / 4) * 4), -1)
    by_row[:, :columns] = np.arange(rows * columns).reshape(rows, columns)
    in_order = np.full(ceil(rows * columns / 4) * 4, -1)
    in_order[: rows * columns] = np.arange(rows * columns)
    return (by_row if by_row.size <= in_order.size else in_order).reshape(-1, 4)


def _windows_of(geometry: ByteGeometry, lanes: int) -> tuple[Array, int]:
    """The windows [vectors, quads], and the bytes of the longest.

    The last vector ends with the last position, and may repeat some of the one before.
    """
    positions, (height, width), taps = prod(geometry.out), geometry.spatial, _quads_of(geometry)
    starts = np.minimum(np.arange(0, positions, lanes), positions - lanes)
    # By vector, quad, lane, and tap: the bytes of a register.
    y, x = np.divmod(starts[:, None, None, None] + np.arange(lanes)[:, None], geometry.out[1])
    tap_y, tap_x = np.divmod(taps[:, None], geometry.taps[1])
    y = y * geometry.strides[0] - geometry.starts[0] + tap_y * geometry.dilations[0]
    x = x * geometry.strides[1] - geometry.starts[1] + tap_x * geometry.dilations[1]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (taps[:, None] >= 0)
    places = np.where(inside, y * width + x, height * width)
    inside, places = (array.reshape(len(starts), len(taps), REGISTER) for array in (inside, places))
    memory = np.zeros((inside.shape[0] * inside.shape[1] + 1) * WINDOW.itemsize, np.uint8)
    first = -memory.ctypes.data % REGISTER
    found = memory[first : first + memory.size - WINDOW.itemsize].view(WINDOW).reshape(inside.shape[:2])
    found["offset"] = np.where(inside.any(2), places.min(2), 0)
    order = np.where(inside, places - found["offset"][..., None], 0)
    found["order"] = order % _SIZES[-1]  # all are below it if there is a kernel for them
    found["inside"] = (inside.astype(np.uint64) << np.arange(REGISTER, dtype=np.uint64)).sum(2, np.uint64)
    return found, int(order.max()) + 1
