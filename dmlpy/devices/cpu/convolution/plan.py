"""The plan of a compiled convolution: its tiles, the packed filters, and the parameters of its kernel."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.depthwise import DepthwiseStrips
from dmlpy.devices.cpu.convolution.sections import Section, sections_of
from dmlpy.devices.cpu.convolution.tiles import FilterTiles, Tiles
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.graphs.normalized_desc import NormalizedConvolutionDesc
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, filter_array, tensor_array
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order
from dmlpy.devices.threads import available_threads
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.description.value_structs import ScaleBias
    from dmlpy.devices.cpu.convolution.tiles import SectionTiles
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.operators.convolution import ConvolutionDesc


_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor")


class ConvolutionPlan(Plan):
    """A convolution of FLOAT32 or FLOAT16 by a compiled kernel, a launch for each section.

    Filters are packed in blocks as high as the kernel's. A fused RELU or CLIP is applied to the sums; any other fused function follows in
    a pass of its own.

    Args:
        desc: a checked desc.
        geometry: its sizes.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._geometry, self._tensors, isa = geometry, desc.tensors(), host_isa()
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
            self._after = best_plan(function.replace(input_tensor=desc.output_tensor, output_tensor=desc.output_tensor))
        self._sections = sections_of(geometry)
        most = geometry.multiplications // len(self._sections) // _WORK_OF_A_THREAD
        self._threads = max(1, min(available_threads(), most))
        self._tiles = [tiles_of(geometry, section, self._tensors, self._threads, isa) for section in self._sections]
        packed: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = [
            (f"weights {number}", (geometry.groups, tiles.blocks, tiles.channels, tiles.taps, tiles.block), COMPUTE)
            for number, tiles in enumerate(self._tiles)
        ]
        self._packed = Layout([*packed, ("coefficients", (geometry.groups, 3, geometry.filters), COMPUTE)], _ALIGNMENT)
        self.constants = tuple(name for name in ("filter_tensor", "bias_tensor", *_STATISTICS) if name in self._tensors)
        self.persistent_size = self._packed.size
        self._scratch_size = self._threads * max(tiles.scratch_size for tiles in self._tiles)
        self.prepared_temporary_size = self._scratch_size + (0 if self._after is None else self._after.temporary_size)
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def load(self) -> None:
        for tiles in self._tiles:
            tiles.load()
        if self._after is not None:
            self._after.load()

    @property
    def is_matrix(self) -> bool:
        """Whether it is one product of transposed matrices."""
        return len(self._tiles) == 1 and self._tiles[0].is_matrix

    @property
    def is_of_strips(self) -> bool:
        """Whether it is depthwise and reads planes where they lie."""
        return isinstance(self._tiles[0], DepthwiseStrips)

    def is_dense(self, most: int) -> bool:
        """Whether a tile's part is at most so many times as large as what its windows' taps meet."""
        return all(tiles.is_dense(most) for tiles in self._tiles)

    @property
    def positions(self) -> int:
        """Positions of the window in a slice of an image, in the section that has the most."""
        return max(section.out[1] * section.out[2] for section in self._sections)

    def describe(self) -> str:
        threads, first = f"{self._threads} thread{'s' * (self._threads > 1)}", self._tiles[0]
        items = sum(tiles.items for tiles in self._tiles)
        lines = [f"compiled by Numba, {COMPUTE} arithmetic on {threads}; {items} item(s)"]
        if self._geometry.backward:
            lines.append(f"transposed: {len(self._tiles)} convolution(s), each of what is seen by some of the taps")
        lines += [
            first.describe(),
            f"{' and '.join(self.constants)}: packed as {COMPUTE}",
        ]
        return "\n".join(lines if self._after is None else [*lines, f"fused function: {self._after.describe()}"])

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        geometry, packed = self._geometry, self._packed.arrays_at(persistent)
        filters = filter_array(self._tensors["filter_tensor"], constants["filter_tensor"], geometry.groups)
        filters = filters.swapaxes(1, 2) if geometry.backward else filters
        filters = filters[..., ::-1, ::-1, ::-1] if geometry.flipped != geometry.backward else filters
        given = {name: self._of_channels(name, constants[name]) for name in self.constants if name != "filter_tensor"}
        weights = [packed[f"weights {number}"] for number in range(len(self._tiles))]

        def launch(stream: int) -> None:
            for section, target in zip(self._sections, weights, strict=True):
                _pack(section, filters, target)
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
        pointers, limits = self._packed.pointers(place), {"low": self._low, "high": self._high}
        for number, tiles in enumerate(self._tiles):
            packed = {"weights": pointers[f"weights {number}"], "coefficients": pointers["coefficients"]}
            parameters = tiles.parameters(tensors, temporary, packed | limits)
            work.append(TaskLaunch(tiles.kernel, parameters.ctypes.data, self._threads, (parameters, tiles)))
        if self._after is not None:
            output, scratch = tensors["output_tensor"], temporary + self._scratch_size
            work.append(self._after.bind({"input_tensor": output, "output_tensor": output}, scratch, None))
        return in_order(work)


def _pack(section: Section, filters: Array, packed: Array) -> None:
    """Packs filters [group, filter, channel, *taps], in ascending order of what they see, as [group, block, channel, tap, filter]."""
    if section.is_empty:
        packed.fill(0.0)
        return
    chosen = filters[..., *section.taps]
    groups, count, channels, *window = chosen.shape
    block = packed.shape[-1]
    whole, left = divmod(count, block)
    target = packed.reshape(groups, -1, channels, *window, block)
    np.copyto(target[:, :whole], chosen[:, : whole * block].reshape(groups, whole, block, channels, *window).transpose(0, 1, 3, 4, 5, 6, 2))
    if left:
        target[:, whole, ..., left:] = 0.0
        np.copyto(target[:, whole, ..., :left], chosen[:, whole * block :].transpose(0, 2, 3, 4, 5, 1))


def tiles_of(
    geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa
) -> SectionTiles | DepthwiseStrips:
    """The strips of a depthwise convolution, where it has some, or the tiles that are estimated to take less time.

    The estimate depends on sizes and layouts alone. Other groups of one filter have positions as lanes, and so has what has no taps, or is
    a product of matrices that is left to BLAS.
    """
    strips = DepthwiseStrips.of(geometry, tensors, threads, isa)
    if strips is not None:
        return strips
    usual = Tiles(geometry, section, tensors, threads, isa)
    if usual.is_matrix or section.is_empty or geometry.filters == 1:
        return usual
    other = FilterTiles(geometry, section, tensors, threads, isa)
    return other if other.cost < usual.cost else usual
