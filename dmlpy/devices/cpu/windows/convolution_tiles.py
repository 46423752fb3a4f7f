"""`Tiles`: how a section of a convolution is divided into items, and what its kernel is told."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.kernels import Function, Kernel
from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers, block_of
from dmlpy.devices.cpu.windows.convolution_parameters import PARAMETERS
from dmlpy.devices.cpu.windows.part_layout import PartLayout
from dmlpy.devices.cpu.windows.steps import Steps, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.windows.sections import Section
    from dmlpy.devices.numpy.convolution.geometry import Geometry
    from dmlpy.devices.plan import Pointers

CONVOLUTION = Kernel("dmlpy.devices.cpu.windows.convolution_kernels:convolution_of", 5)
"""The convolution: whether groups have one filter each, whether tensors are of FLOAT16, and the registers."""

_ALIGNMENT = 64
_PART = 1 << 18
"""Bytes of a tile's part of the input, at most: it stays in a core's second-level cache beside the filters that pass through."""
_ITEMS = 4
"""Items for each thread, at least, so that all end at about the same time."""


class Tiles:
    """The items of a section: rows of positions in a slice of an image and a group, and a part of the filters.

    Attributes:
        block: filters whose sums are in registers at once.
        most: vectors of positions, likewise.
        blocks: blocks of filters in a group.
        channels: channels of a part: those of a group, once for each of the window's slices.
        taps: taps of the window in a slice; they are one, of weight 0 and outside of the input, in an empty section.
        copies: whether a tile's part of the input is copied, rather than read in place.
        is_matrix: whether the section is one product of matrices that are transposed where they lie, as BLAS takes them.
        items: the number of items.
        scratch_size: bytes of scratch for a thread.
        parameters: the type of the kernel's parameters.

    Args:
        geometry: the convolution.
        section: the section.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    parameters = PARAMETERS

    def __init__(self, geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, registers: Registers) -> None:
        self._geometry, self._section = geometry, section
        self._choices = geometry.filters == 1, tensors["output_tensor"].data_type is DataType.FLOAT16, registers
        self.block, self.most = (1, 8) if geometry.filters == 1 else block_of(registers)
        self.blocks = ceil(geometry.filters / self.block)
        window = (1, 1, 1) if section.is_empty else section.window
        self._depth_taps, self.taps = window[0], window[1] * window[2]
        self.channels = 1 if section.is_empty else geometry.channels * self._depth_taps
        self._input, whole = steps_of(tensors["input_tensor"]), steps_of(tensors["output_tensor"])
        element = tensors["output_tensor"].data_type.numpy.itemsize
        self._spatial = (0, 0, 0) if section.is_empty else geometry.spatial
        self._offset = sum(at * step for at, step in zip(section.first, whole[2:], strict=True))
        depth, height, width = (step * own for step, own in zip(whole[2:], section.steps, strict=True))
        self._output: Steps = (whole[0], whole[1], depth, height, width)
        panel = self.most * registers.lanes
        out_depth, out_height, out_width = section.out
        pointwise = window == (1, 1, 1) == section.strides and section.out == self._spatial and section.starts == (0, 0, 0)
        flat = all(out_height == 1 or steps[3] == out_width * steps[4] for steps in (self._input, self._output))
        packed = self._input[4] == self._output[4] == element == FLOAT_BYTES
        self.is_matrix = pointwise and flat and element == FLOAT_BYTES and not packed
        self.copies = not (pointwise and flat and packed and out_height * out_width >= panel)
        self._positions = 1 << 62
        if not self.copies:
            self._positions = out_height * out_width
            out_height, out_width = ceil(self._positions / panel), panel
        elif pointwise and flat:
            # Longer rows leave fewer vectors half empty.
            rows = next(
                rows for rows in range(1, out_height + 1) if out_height % rows == 0 and (rows * out_width >= panel or rows == out_height)
            )
            out_height, out_width = out_height // rows, out_width * rows
            self._spatial = out_depth, out_height, out_width
        self._out = out_depth, out_height, out_width
        single = PartLayout(1, out_width, window[1:], section.strides[1:], section.dilations[1:])
        row = single.plane // single.phase_rows * self.channels
        most, fewest = max(1, _PART // row - single.reach), ceil(panel / single.pitch)
        wanted = _ITEMS * threads if threads > 1 else 1
        images = geometry.batch * geometry.groups * out_depth
        tiles = ceil(out_height / max(fewest, min(most, ceil(out_height * images / wanted))))
        self._part = replace(single, rows=ceil(out_height / tiles))
        self._tiles = ceil(out_height / self._part.rows)
        self._parts = min(self.blocks, max(1, ceil(wanted / (images * self._tiles))))
        self.items = images * self._tiles * self._parts
        self._sums = (self.block * panel + registers.lanes) * FLOAT_BYTES
        part = self.channels * self._part.plane + panel * FLOAT_BYTES if self.copies else 0
        self.scratch_size = -(-(self._sums + part) // _ALIGNMENT) * _ALIGNMENT
        self.offsets = self._part.offsets()

    def is_dense(self, most: int) -> bool:
        """Whether a tile's part is at most so many times as large as what its windows' taps meet."""
        part = self._part
        return part.plane <= most * prod(part.taps) * part.rows * part.columns * FLOAT_BYTES

    def describe(self) -> str:
        height = "a row of" if self._part.rows == 1 else f"{self._part.rows} rows of"
        reading = "copied to float32 with its padding" if self.copies else "read in place"
        sums = f"{self.block} filter(s) of {self.most} vectors of {self._choices[2].lanes} positions"
        return f"tile: {height} {self._out[2]} positions, input {reading}\nsums in registers: {sums}"

    def kernel(self) -> Function:
        """The function that a launch runs."""
        return CONVOLUTION(*self._choices)

    def values(self, tensors: Pointers, scratch: int) -> dict[str, Any]:
        """The kernel's parameters by name, but for those of the filters and of what follows the sums."""
        geometry, section, part = self._geometry, self._section, self._part
        return {
            "items": self.items,
            "parts": self._parts,
            "tiles": self._tiles,
            "groups": geometry.groups,
            "channels": self.channels,
            "filters": geometry.filters,
            "blocks": self.blocks,
            **dict(zip(("depth", "height", "width"), self._spatial, strict=True)),
            **dict(zip(("out_depth", "out_height", "out_width"), self._out, strict=True)),
            "positions": self._positions,
            **dict(zip(("stride_z", "stride_y", "stride_x"), section.strides, strict=True)),
            **dict(zip(("pad_z", "pad_y", "pad_x"), section.starts, strict=True)),
            "dilation_z": section.dilations[0],
            "depth_taps": self._depth_taps,
            "taps": self.taps,
            "rows": part.rows,
            "phase_rows": part.phase_rows,
            "pitch": part.pitch,
            "plane": part.plane if self.copies else self._input[1],
            "copies": self.copies,
            "input": tensors["input_tensor"],
            "input_image": self._input[0],
            "input_group": self._input[1] * geometry.channels,
            "input_channel": self._input[1],
            "input_slice": self._input[2],
            "input_row": self._row(self._input),
            "input_element": self._input[4],
            "offsets": self.offsets.ctypes.data,
            "output": tensors["output_tensor"] + self._offset,
            "output_image": self._output[0],
            "output_channel": self._output[1],
            "output_slice": self._output[2],
            "output_row": self._row(self._output),
            "output_element": self._output[4],
            "scratch": scratch,
            "scratch_size": self.scratch_size,
            "sums": self._sums,
        }

    def _row(self, steps: Steps) -> int:
        """The bytes from a row to the next, where rows may be several of the tensor's or pieces of an image."""
        return steps[3] if self._out[2] == self._section.out[2] else self._out[2] * steps[4]
