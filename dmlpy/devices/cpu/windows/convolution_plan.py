"""The plan of a compiled convolution: its tiles, the packed filters, and the parameters of its kernel."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.kernels import Kernel
from dmlpy.devices.cpu.registers import FLOAT_BYTES, block_of, host_registers
from dmlpy.devices.cpu.team import launch
from dmlpy.devices.cpu.windows.convolution_parameters import PARAMETERS
from dmlpy.devices.cpu.windows.part_layout import PartLayout
from dmlpy.devices.graphs.normalized_desc import NormalizedConvolutionDesc
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, filter_array, tensor_array
from dmlpy.devices.numpy.plans import COMPUTE, plan_of
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order
from dmlpy.devices.threads import available_threads
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.value_structs import ScaleBias
    from dmlpy.operators.convolution import ConvolutionDesc

CONVOLUTION = Kernel("dmlpy.devices.cpu.windows.convolution_kernels:convolution_of", 5)
"""The convolution: whether groups have one filter each, and the registers."""

_ALIGNMENT = 64
_PART = 1 << 18
"""Bytes of a tile's part of the input, at most: it stays in a core's second-level cache beside the filters that pass through."""
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_ITEMS = 4
"""Items for each thread, at least, so that all end at about the same time."""

_STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor")


class ConvolutionPlan(Plan):
    """A convolution of FLOAT32 by a compiled kernel.

    Filters are packed in blocks as high as the kernel's. A fused RELU or CLIP is applied to the sums; any other fused function follows in
    a pass of its own, by NumPy.

    Args:
        desc: a checked desc.
        geometry: its sizes, with a first spatial dimension of 1.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._geometry, self._tensors, self._registers = geometry, desc.tensors(), host_registers()
        self._single = geometry.filters == 1
        self._block, self._most = (1, 8) if self._single else block_of(self._registers)
        self._blocks = ceil(geometry.filters / self._block)
        self._epsilon = desc.epsilon if isinstance(desc, NormalizedConvolutionDesc) else None
        self._low, self._high = -inf, inf
        self._scale_bias: ScaleBias | None = None
        self._after: Plan | None = None
        function = desc.fused_activation
        if isinstance(function, ActivationReluDesc):
            self._low = 0.0
        elif isinstance(function, ElementWiseClipDesc):
            self._low, self._high, self._scale_bias = function.min, function.max, function.scale_bias
        elif function is not None:
            self._after = plan_of(function.replace(input_tensor=desc.output_tensor, output_tensor=desc.output_tensor))
            assert self._after is not None, "every activation has one"
        taps = geometry.taps[1] * geometry.taps[2]
        packed = (geometry.groups, self._blocks, geometry.channels, taps, self._block)
        self._packed = Layout([("weights", packed, COMPUTE), ("coefficients", (geometry.groups, 3, geometry.filters), COMPUTE)], _ALIGNMENT)
        self.constants = tuple(name for name in ("filter_tensor", "bias_tensor", *_STATISTICS) if name in self._tensors)
        self.persistent_size = self._packed.size
        most = geometry.multiplications // _WORK_OF_A_THREAD
        self._threads = max(1, min(available_threads(), most))
        self._divide()
        self._offsets = self._part.offsets()
        self.prepared_temporary_size = self._threads * self._scratch_size + (0 if self._after is None else self._after.temporary_size)
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def load(self) -> None:
        CONVOLUTION(self._single, self._registers)

    def _divide(self) -> None:
        """Chooses the tiles."""
        geometry, panel = self._geometry, self._most * self._registers.lanes
        _, out_height, out_width = geometry.out
        positions, images = out_height * out_width, geometry.batch * geometry.groups
        pointwise = geometry.taps == (1, 1, 1) and geometry.strides == (1, 1, 1) and geometry.out == geometry.spatial
        flat = _is_flat(self._tensors["input_tensor"]) and _is_flat(self._tensors["output_tensor"])
        self._copies = not (pointwise and positions >= panel and flat)
        self._positions = 1 << 62
        if not self._copies:
            out_height, out_width, self._positions = ceil(positions / panel), panel, positions
        single = PartLayout(1, out_width, geometry.taps[1:], geometry.strides[1:], geometry.dilations[1:])
        row = single.plane // single.phase_rows * geometry.channels
        most, fewest = max(1, _PART // row - single.reach), ceil(panel / single.pitch)
        wanted = _ITEMS * self._threads if self._threads > 1 else 1
        tiles = ceil(out_height / max(fewest, min(most, ceil(out_height * images / wanted))))
        self._part = replace(single, rows=ceil(out_height / tiles))
        self._out = out_height, out_width
        self._tiles = ceil(out_height / self._part.rows)
        self._parts = min(self._blocks, max(1, ceil(wanted / (images * self._tiles))))
        self._items = images * self._tiles * self._parts
        self._sums = self._block * panel * FLOAT_BYTES
        part = geometry.channels * self._part.plane + panel * FLOAT_BYTES if self._copies else 0
        self._scratch_size = -(-(self._sums + part) // _ALIGNMENT) * _ALIGNMENT

    def is_dense(self, most: int) -> bool:
        """Whether a tile's part is at most so many times as large as what its windows' taps meet."""
        part = self._part
        return part.plane <= most * prod(part.taps) * part.rows * part.columns * FLOAT_BYTES

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        height = "a row of" if self._part.rows == 1 else f"{self._part.rows} rows of"
        reading = "copied to float32 with its padding" if self._copies else "read in place"
        lines = [
            f"compiled by Numba, {COMPUTE} arithmetic on {threads}; {self._items} item(s)",
            f"tile: {height} {self._out[1]} positions, input {reading}",
            f"sums in registers: {self._block} filter(s) of {self._most} vectors of {self._registers.lanes} positions",
            f"{' and '.join(self.constants)}: packed as {COMPUTE}",
        ]
        return "\n".join(lines if self._after is None else [*lines, f"fused function: {self._after.describe()}"])

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        geometry, packed = self._geometry, self._packed.arrays_at(persistent)
        filters = filter_array(self._tensors["filter_tensor"], constants["filter_tensor"], geometry.groups)
        filters = filters[..., ::-1, ::-1, ::-1] if geometry.flipped else filters
        given = {name: self._of_channels(name, constants[name]) for name in self.constants if name != "filter_tensor"}
        weights, block = packed["weights"], self._block
        shape = (geometry.groups, geometry.channels, geometry.taps[1], geometry.taps[2])
        whole, left = divmod(geometry.filters, block)

        def launch(stream: int) -> None:
            # [group, block, filter of the block, channel, taps] to [group, block, channel, taps, filter]
            target = weights.reshape(shape[0], self._blocks, *shape[1:], block)
            source = filters[:, : whole * block].reshape(shape[0], whole, block, *shape[1:])
            np.copyto(target[:, :whole], source.transpose(0, 1, 3, 4, 5, 2))
            if left:
                target[:, whole, ..., left:] = 0.0
                np.copyto(target[:, whole, ..., :left], filters[:, whole * block :, :, 0].transpose(0, 2, 3, 4, 1))
            with np.errstate(all="ignore"):
                self._set_coefficients(packed["coefficients"], given)

        return launch

    def _set_coefficients(self, packed: Array, given: Mapping[str, Array]) -> None:
        """Sets centre, factor and bias of y = (sums - centre) * factor + bias."""
        centre, factor, bias = packed[:, 0], packed[:, 1], packed[:, 2]
        if self._epsilon is None:
            centre[...], factor[...], bias[...] = 0.0, 1.0, given.get("bias_tensor", 0.0)
        else:
            np.subtract(given["mean_tensor"], given.get("bias_tensor", 0.0), centre)
            variance = given["variance_tensor"].astype(np.float64) + self._epsilon
            np.divide(given["scale_tensor"], np.sqrt(variance), factor, casting="same_kind")
            bias[...] = given["offset_tensor"]
        if self._scale_bias is not None:
            factor *= COMPUTE.type(self._scale_bias.scale)
            bias *= COMPUTE.type(self._scale_bias.scale)
            bias += COMPUTE.type(self._scale_bias.bias)

    def _of_channels(self, name: str, pointer: int) -> Array:
        """A tensor with an entry for each output channel, [group, channel]."""
        found: Array = tensor_array(self._tensors[name], pointer, self._geometry.groups)[0, :, :, 0, 0, 0]
        return found

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        place = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self.pack(tensors, place))
        parameters, kernel, threads = self._parameters(tensors, temporary, place), CONVOLUTION(self._single, self._registers), self._threads
        work.append(launch(kernel, parameters.ctypes.data, threads, 1, parameters))
        if self._after is not None:
            output, scratch = tensors["output_tensor"], temporary + threads * self._scratch_size
            work.append(self._after.bind({"input_tensor": output, "output_tensor": output}, scratch, None))
        return work[0] if len(work) == 1 else in_order(work)

    def _parameters(self, tensors: Pointers, temporary: int, packed: int) -> Array:
        geometry = self._geometry
        x = tensor_array(self._tensors["input_tensor"], tensors["input_tensor"], geometry.groups)
        y = tensor_array(self._tensors["output_tensor"], tensors["output_tensor"], geometry.groups)
        pointers = self._packed.pointers(packed)
        values: dict[str, Any] = {
            "items": self._items,
            "parts": self._parts,
            "tiles": self._tiles,
            "groups": geometry.groups,
            "channels": geometry.channels,
            "filters": geometry.filters,
            "blocks": self._blocks,
            "height": geometry.spatial[1],
            "width": geometry.spatial[2],
            "out_height": self._out[0],
            "out_width": self._out[1],
            "positions": self._positions,
            "stride_y": geometry.strides[1],
            "stride_x": geometry.strides[2],
            "pad_y": geometry.starts[1],
            "pad_x": geometry.starts[2],
            "taps": len(self._offsets),
            "rows": self._part.rows,
            "phase_rows": self._part.phase_rows,
            "pitch": self._part.pitch,
            "plane": self._part.plane if self._copies else x.strides[2],
            "copies": self._copies,
            "input": tensors["input_tensor"],
            "input_image": x.strides[0],
            "input_channel": x.strides[2],
            "input_row": x.strides[4] if self._copies else self._part.pitch * FLOAT_BYTES,
            "offsets": self._offsets.ctypes.data,
            "weights": pointers["weights"],
            "coefficients": pointers["coefficients"],
            "output": tensors["output_tensor"],
            "output_image": y.strides[0],
            "output_channel": y.strides[2],
            "output_row": y.strides[4] if self._copies else self._part.pitch * FLOAT_BYTES,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
            "sums": self._sums,
            "low": self._low,
            "high": self._high,
        }
        parameters = np.zeros(1, PARAMETERS)
        for name, value in values.items():
            parameters[name] = value
        return parameters


def _is_flat(tensor: Any) -> bool:
    """Whether the rows of an image lie one after the other."""
    return len(tensor.sizes) == 3 or tensor.sizes[-2] == 1 or tensor.element_strides[-2] == tensor.sizes[-1]
