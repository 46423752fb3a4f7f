"""The plan of convolutions of bytes."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.cpu.convolution.layout import InputTileLayout
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.byte_geometry import ByteGeometry
from dmlpy.devices.cpu.quantized.byte_isa import host_byte_isa
from dmlpy.devices.cpu.quantized.depthwise_planes import DEPTHWISE_PLANES, PlaneTiling
from dmlpy.devices.cpu.quantized.parameters import ByteConvolutionParameters, DepthwiseByteParameters
from dmlpy.devices.cpu.quantized.products import (
    ALIGNMENT,
    FLIP,
    TERMS,
    is_signed,
    limits_of,
    output_of,
    step_of,
    term_arrays,
    terms_launch,
)
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order, packing_of
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Array
    from dmlpy.operators.quantized.products import QuantizedConvolvingDesc

CONVOLUTION = Kernel("dmlpy.devices.cpu.quantized.convolution_kernels:build_convolution", 5)
"""The convolution: what becomes of the sums, and the instruction set."""
DEPTHWISE = Kernel("dmlpy.devices.cpu.quantized.depthwise_kernels:build_depthwise", 5)
"""The convolution of groups of one channel: what becomes of the sums, the stride along rows, and the instruction set."""
_DEPTHWISE_VECTORS = 4
"""Vectors of positions of `DEPTHWISE`."""
_TILE_BYTES = 1 << 17
"""Bytes of an input tile, at most, if it has several rows: it stays in a processor's second cache."""
_WORK_OF_A_THREAD = 1 << 23
"""Multiplications that are worth waking another thread for."""
_TILES_PER_THREAD = 4


class ByteConvolutionPlan(Plan):
    """A convolution of 8 bits by a compiled kernel.

    Args:
        desc: a checked desc.
    """

    constants = ("filter_tensor",)

    def __init__(self, desc: QuantizedConvolvingDesc) -> None:
        self._desc, self._tensors, self._isa = desc, desc.tensors(), host_byte_isa()
        self._geometry = geometry = ByteGeometry.of(desc)
        output = self._tensors["output_tensor"]
        self._threads = max(1, min(available_threads(), geometry.multiplications // _WORK_OF_A_THREAD))
        kind = output_of(output.data_type)
        planes = PlaneTiling.of(geometry, output.data_type.numpy.itemsize, self._threads, self._isa)
        self._tiling: PlaneTiling | _Tiling | _DepthwiseTiling
        if planes is not None:
            self._tiling = planes
            self._kernel: tuple[Any, ...] = (DEPTHWISE_PLANES, kind, planes.window, self._isa)
        elif geometry.is_depthwise:
            self._tiling = _DepthwiseTiling(geometry, self._threads, self._isa)
            self._kernel = (DEPTHWISE, kind, geometry.strides[1], self._isa)
        else:
            self._tiling = _Tiling(geometry, self._threads, self._isa)
            self._kernel = (CONVOLUTION, kind, self._isa)
        self._filters = geometry.groups * geometry.filters
        self._packed = Layout(
            [
                ("weights", self._tiling.weights, np.dtype(np.int8)),
                ("ones", self._tiling.ones, np.dtype(np.int8)),
                ("sums", (self._filters,), np.dtype(np.int32)),
            ],
            ALIGNMENT,
        )
        self.persistent_size = self._packed.size
        self._columns = max(self._isa.block[1], _DEPTHWISE_VECTORS) * self._isa.lanes
        self._terms_of = Layout(
            [
                *term_arrays(self._filters, self._columns),
                ("column first", (self._columns,), np.dtype(np.int32)),
                ("uses second", (1,), np.dtype(np.int64)),
            ],
            ALIGNMENT,
        )
        self.prepared_temporary_size = self._terms_of.size + self._threads * self._tiling.scratch_size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def load(self) -> None:
        kernel, *choices = self._kernel
        _ = kernel(*choices), TERMS()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return "\n".join(
            [
                f"compiled by LLVM, sums of 32 bits by {self._isa.dot} on {threads}; {self._tiling.tiles} tile(s)",
                self._tiling.describe(),
                "filter_tensor: packed as signed bytes",
            ]
        )

    @property
    def packing(self) -> Hashable:
        return packing_of(self._desc, self.constants, self._packed)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        desc, packed, geometry = self._desc.filter_tensor, self._packed.arrays_at(persistent), self._geometry
        filters = array_at(constants["filter_tensor"], desc.sizes, desc.data_type.numpy, desc.element_strides)

        def launch(stream: int) -> None:
            own = filters if is_signed(desc) else (filters ^ 0x80).view(np.int8)
            own = own.reshape(geometry.groups, geometry.filters, geometry.channels, *geometry.taps)
            packed["sums"][:] = own.sum((2, 3, 4), np.int32).reshape(-1)
            self._tiling.pack(own, packed["weights"], packed["ones"])

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self.pack(tensors, address))
        packed, terms = self._packed.pointers(address), self._terms_of.pointers(temporary)
        work.append(terms_launch(self._term_values(tensors, terms, packed["sums"])))
        values: dict[str, Any] = {
            "row_terms": terms["rows"],
            "column_first": terms["column first"],
            "column_second": terms["column second"],
            "column_factor": terms["column factor"],
            "column_scale": terms["column scale"],
            "uses_second": terms["uses second"],
            **limits_of(self._tensors["output_tensor"].data_type),
            "scratch": temporary + self._terms_of.size,
            "scratch_size": self._tiling.scratch_size,
            "input": tensors["input_tensor"],
            "output": tensors["output_tensor"],
            "input_flip": FLIP if is_signed(self._desc.input_tensor) else 0,
            "weights": packed["weights"],
        }
        if "input_zero_point_tensor" in self._tensors:
            values["input_zero"] = tensors["input_zero_point_tensor"]
        kernel, *choices = self._kernel
        work.append(TaskLaunch.of(kernel(*choices), self._tiling.parameters(values, packed["ones"]), self._threads))
        return in_order(work)

    def _term_values(self, tensors: Pointers, terms: Mapping[str, int], sums: int) -> dict[str, Any]:
        """The values of `TermParameters`. The factors of filters are the left operand."""
        geometry = self._geometry
        values: dict[str, Any] = {
            "rows": self._filters,
            "columns": self._columns,
            "terms": geometry.channels * prod(geometry.taps),
            "of_filters": 1,
            "sums": sums,
            "left_signed": is_signed(self._desc.filter_tensor),
            "left_shift": 0 if is_signed(self._desc.filter_tensor) else -128,
            "right_signed": is_signed(self._desc.input_tensor),
            "right_shift": 128 if is_signed(self._desc.input_tensor) else 0,
            "output_signed": is_signed(self._tensors["output_tensor"]),
            "row_terms": terms["rows"],
            "column_first": terms["column first"],
            "column_second": terms["column second"],
            "column_factor": terms["column factor"],
            "column_scale": terms["column scale"],
            "uses_second": terms["uses second"],
        }
        names = {
            "left_zero": "filter_zero_point_tensor",
            "right_zero": "input_zero_point_tensor",
            "left_scale": "filter_scale_tensor",
            "right_scale": "input_scale_tensor",
            "output_scale": "output_scale_tensor",
            "output_zero": "output_zero_point_tensor",
            "bias": "bias_tensor",
        }
        for name, tensor in names.items():
            if tensor in self._tensors:
                values |= {name: tensors[tensor], f"{name}_step": step_of(self._tensors[tensor])}
        return values


def _common(geometry: ByteGeometry) -> dict[str, Any]:
    """The values of `ByteWindowParameters` that the geometry gives."""
    values: dict[str, Any] = {
        "groups": geometry.groups,
        "filters": geometry.filters,
        "out_height": geometry.out[0],
        "out_width": geometry.out[1],
        "height": geometry.spatial[0],
        "width": geometry.spatial[1],
        "stride_y": geometry.strides[0],
        "pad_y": geometry.starts[0],
        "pad_x": geometry.starts[1],
    }
    for name, steps in (("input", geometry.input_steps), ("output", geometry.output_steps)):
        values |= {f"{name}_{what}": step for what, step in zip(("image", "channel", "row", "element"), steps, strict=True)}
    return values


def _rows_of_tile(geometry: ByteGeometry, row_bytes: int, most_bytes: int, parts: int) -> int:
    """Rows of positions of a tile: about equal parts of an image, as many as threads need."""
    splits = max(ceil(geometry.out[0] / max(1, most_bytes // max(1, row_bytes))), min(geometry.out[0], parts))
    return ceil(geometry.out[0] / splits)


def _aligned(size: int) -> int:
    return ceil(size / ALIGNMENT) * ALIGNMENT


class _Tiling:
    """The tiles of a convolution whose quads are channels.

    Attributes:
        tiles: how many there are.
        weights: the sizes of the packed filters.
        ones: the sizes of a packed filter of ones; none is needed.
        scratch_size: bytes of a thread.
    """

    ones = (0,)

    def __init__(self, geometry: ByteGeometry, threads: int, isa: ByteIsa) -> None:
        block, vectors = isa.block
        self._geometry, self._isa, self._quads = geometry, isa, ceil(geometry.channels / 4)
        self._blocks = ceil(geometry.filters / block)
        planes = geometry.batch * geometry.groups
        wanted = ceil((_TILES_PER_THREAD * threads if threads > 1 else 1) / planes)
        one = self._layout(1)
        row_bytes = self._quads * prod(geometry.strides) * one.pitch * 4
        rows = _rows_of_tile(geometry, row_bytes, _TILE_BYTES, wanted)
        self._layout_of_tile, self._rows = self._layout(rows), rows
        self._row_splits = ceil(geometry.out[0] / rows)
        self._filter_splits = min(self._blocks, ceil(wanted / self._row_splits))
        self.tiles = planes * self._row_splits * self._filter_splits
        self.weights = (geometry.groups, self._blocks, self._quads, prod(geometry.taps), block, 4)
        self._offsets = self._layout_of_tile.offsets()
        self._input_tile = _aligned((block + 2) * vectors * isa.lanes * 4)
        self.scratch_size = _aligned(self._input_tile + self._quads * self._layout_of_tile.plane + isa.lanes * 4 * (vectors + 1))

    def _layout(self, rows: int) -> InputTileLayout:
        geometry = self._geometry
        return InputTileLayout(rows, geometry.out[1], geometry.taps, geometry.strides, geometry.dilations)

    def describe(self) -> str:
        block, vectors = self._isa.block
        return f"sums in registers: {block} filters at {vectors} vectors of {self._isa.lanes} positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, channel, y, x] of signed bytes."""
        groups, blocks, quads, taps, block, _ = weights.shape
        padded = np.zeros((groups, blocks * block, quads * 4, taps), np.int8)
        padded[:, : filters.shape[1], : filters.shape[2]] = filters.reshape(*filters.shape[:3], taps)
        weights[...] = padded.reshape(groups, blocks, block, quads, 4, taps).transpose(0, 1, 3, 5, 2, 4)

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry, layout = self._geometry, self._layout_of_tile
        return ByteConvolutionParameters.bound(
            {
                **_common(geometry),
                "tiles": self.tiles,
                "row_splits": self._row_splits,
                "rows": self._rows,
                "filter_splits": self._filter_splits,
                "blocks": self._blocks,
                "channels": geometry.channels,
                "quads": self._quads,
                "taps": prod(geometry.taps),
                "positions": geometry.positions,
                "stride_x": geometry.strides[1],
                "subplane_rows": layout.subplane_rows,
                "pitch": layout.pitch,
                "plane": layout.plane,
                "offsets": self._offsets,
                "input_tile": self._input_tile,
                **values,
            }
        )


class _DepthwiseTiling:
    """The tiles of a convolution whose quads are taps of a row.

    Attributes:
        tiles: how many there are.
        weights: the sizes of the packed filters.
        ones: the sizes of a packed filter of ones.
        scratch_size: bytes of a thread.
    """

    def __init__(self, geometry: ByteGeometry, threads: int, isa: ByteIsa) -> None:
        self._geometry, self._isa, self._quads = geometry, isa, ceil(geometry.taps[1] / 4)
        # The last quad of a row may reach into the next one: its weights there are 0.
        self._pitch = (geometry.out[1] - 1) * geometry.strides[1] + geometry.taps[1]
        planes = geometry.batch * geometry.groups * geometry.filters
        wanted = ceil((_TILES_PER_THREAD * threads if threads > 1 else 1) / planes)
        self._rows = _rows_of_tile(geometry, geometry.strides[0] * self._pitch, _TILE_BYTES // 4, wanted)
        self._row_splits = ceil(geometry.out[0] / self._rows)
        self._units = planes * self._row_splits
        self.tiles = min(self._units, _TILES_PER_THREAD * threads) if threads > 1 else 1
        self.ones = (geometry.taps[0], self._quads, 4)
        self.weights = (geometry.groups, geometry.filters, *self.ones)
        self._tile_rows = (self._rows - 1) * geometry.strides[0] + (geometry.taps[0] - 1) * geometry.dilations[0] + 1
        lanes, width = isa.lanes, geometry.out[1]
        joined, apart = ceil(((self._rows - 1) * self._pitch + width) / lanes), self._rows * ceil(width / lanes)
        self._joins_rows = geometry.strides[0] == geometry.strides[1] and width < 2 * lanes and joined <= apart
        size = isa.lanes * 4
        # The last vectors read past the rows, by what their positions beyond a row would read.
        beyond = size * (1 + geometry.strides[1] * _DEPTHWISE_VECTORS)
        self._tile_size = _aligned(self._tile_rows * self._pitch + beyond)
        self.scratch_size = _aligned(3 * _DEPTHWISE_VECTORS * size + 2 * self._tile_size)

    def describe(self) -> str:
        return f"groups of one channel: taps of a row are multiplied at once, for vectors of {self._isa.lanes} positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, 1, y, x] of signed bytes."""
        weights[...], ones[...], taps = 0, 0, filters.shape[-1]
        weights.reshape(*weights.shape[:3], -1)[..., :taps] = filters[:, :, 0]
        ones.reshape(ones.shape[0], -1)[:, :taps] = 1

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry = self._geometry
        return DepthwiseByteParameters.bound(
            {
                **_common(geometry),
                "tiles": self.tiles,
                "units": self._units,
                "row_splits": self._row_splits,
                "rows": self._rows,
                "tile_size": self._tile_size,
                "taps_y": geometry.taps[0],
                "quads": self._quads,
                "ones": ones,
                "tile_rows": self._tile_rows,
                "pitch": self._pitch,
                "row_step": geometry.dilations[0] * self._pitch,
                "joins_rows": self._joins_rows,
                **values,
            }
        )
