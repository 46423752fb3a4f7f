"""The plan of a compiled convolution: its tiling, the packed filters, and the parameters of its kernel."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.devices.cpu.convolution.depthwise import DepthwiseTiling
from dmlpy.devices.cpu.convolution.layout import PLAIN, Epilogue, Phase, reaching_positions, split_into_phases
from dmlpy.devices.cpu.convolution.tiling import ChannelTiling, PositionTiling
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.graphs.fused_convolution_descs import EpilogueConvolutionDesc, NormalizedConvolutionDesc
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, Index, filter_array, tensor_array
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order, packing_of
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.description.value_structs import ScaleBias
    from dmlpy.devices.cpu.convolution.tiling import Tiling
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.operators.convolution import ConvolutionDesc


_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor")


class ConvolutionPlan(Plan):
    """A convolution of floats by a compiled kernel, a launch for each phase.

    Filters are packed in blocks of the kernel's height. A fused RELU or CLIP is applied to the sums; any other fused function
    follows in a separate pass.

    Args:
        desc: a checked desc.
        geometry: its sizes.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._desc, self._geometry, self._tensors, isa = desc, geometry, desc.tensors(), host_isa()
        self._epsilon = desc.epsilon if isinstance(desc, NormalizedConvolutionDesc) else None
        self._low, self._high = -inf, inf
        self._scale_bias: ScaleBias | None = None
        self._activation_plan: Plan | None = None
        self._epilogue, self._line = PLAIN, (0.0, 0.0)
        function = desc.fused_activation
        if isinstance(desc, EpilogueConvolutionDesc):
            self._epilogue = Epilogue(desc.gate, desc.added_tensor is not None, clips=function is not None)
            self._line = (desc.alpha, desc.beta)
        if isinstance(function, ActivationReluDesc):
            self._low = 0.0
        elif isinstance(function, ElementWiseClipDesc):
            self._low, self._high, self._scale_bias = function.min, function.max, function.scale_bias
        elif function is not None:
            self._activation_plan = best_plan(function.replace(input_tensor=desc.output_tensor, output_tensor=desc.output_tensor))
        self._phases = split_into_phases(geometry)
        self._threads = Threads.of(available_threads(), geometry.multiplications // len(self._phases), _WORK_OF_A_THREAD)
        threads = self._threads.most
        self._tilings = [choose_tiling(geometry, phase, self._tensors, threads, isa, self._epilogue) for phase in self._phases]
        packed: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = [
            (f"weights {number}", (geometry.groups, tiling.blocks, tiling.channels, tiling.taps, tiling.block), COMPUTE)
            for number, tiling in enumerate(self._tilings)
        ]
        # The biases of a forward convolution's phases differ where filters have infinities: see `_multiplies_padding_by_nonfinite`.
        self._coefficients = [f"coefficients {0 if geometry.backward else number}" for number in range(len(self._phases))]
        packed += [(name, (geometry.groups, 3, geometry.filters), COMPUTE) for name in dict.fromkeys(self._coefficients)]
        # Zeros in the padding of a transposed convolution stand for elements that do not exist.
        self._checks_weights = geometry.backward and any(_reads_padding(phase, geometry) for phase in self._phases)
        if self._checks_weights:
            packed.append(("finite", (1,), np.dtype(np.bool_)))
        self._packed = Layout(packed, _ALIGNMENT)
        self.constants = tuple(name for name in ("filter_tensor", "bias_tensor", *_STATISTICS) if name in self._tensors)
        self.persistent_size = self._packed.size
        self._scratch_size = self._threads.most * max(tiling.scratch_size for tiling in self._tilings)
        self.prepared_temporary_size = self._scratch_size + (0 if self._activation_plan is None else self._activation_plan.temporary_size)
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def load(self) -> None:
        for tiling in self._tilings:
            tiling.load()
        if self._activation_plan is not None:
            self._activation_plan.load()

    @property
    def is_matrix(self) -> bool:
        """Whether it is a single product of transposed matrices."""
        return len(self._tilings) == 1 and self._tilings[0].is_matrix

    @property
    def is_row_blocked(self) -> bool:
        """Whether it is depthwise and reads planes in place."""
        return isinstance(self._tilings[0], DepthwiseTiling)

    def is_dense(self, most: int) -> bool:
        """Whether an input tile has at most `most` times as many elements as its windows read."""
        return all(tiling.is_dense(most) for tiling in self._tilings)

    @property
    def positions(self) -> int:
        """Positions of the window in a slice of an image, in the phase that has the most."""
        return max(phase.out[1] * phase.out[2] for phase in self._phases)

    def describe(self) -> str:
        threads, first = self._threads, self._tilings[0]
        tiles = sum(tiling.tiles for tiling in self._tilings)
        lines = [f"compiled by LLVM, {COMPUTE} arithmetic on {threads}; {tiles} tile(s)"]
        if self._geometry.backward or len(self._tilings) > 1:
            kind = "transposed" if self._geometry.backward else "divided by the taps that read the image"
            lines.append(f"{kind}: {len(self._tilings)} convolution(s), each of some of the taps")
        lines += [
            first.describe(),
            f"{' and '.join(self.constants)}: packed as {COMPUTE}",
        ]
        if not self._epilogue.is_plain:
            lines.append(self._epilogue.describe())
        return "\n".join(lines if self._activation_plan is None else [*lines, f"fused function: {self._activation_plan.describe()}"])

    @property
    def packing(self) -> Hashable:
        taps = tuple((part.start, part.stop, part.step) for phase in self._phases for part in phase.taps)
        return packing_of(self._desc, self.constants, self._packed), taps

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        geometry, packed = self._geometry, self._packed.arrays_at(persistent)
        filters = filter_array(self._tensors["filter_tensor"], constants["filter_tensor"], geometry.groups)
        filters = filters.swapaxes(1, 2) if geometry.backward else filters
        filters = filters[..., ::-1, ::-1, ::-1] if geometry.flipped != geometry.backward else filters
        tensors_of_channels = {name: self._channel_array(name, constants[name]) for name in self.constants if name != "filter_tensor"}
        weights = [packed[f"weights {number}"] for number in range(len(self._tilings))]

        def launch(stream: int) -> None:
            for phase, target in zip(self._phases, weights, strict=True):
                _pack(phase, filters, target)
            if self._checks_weights:
                packed["finite"][0] = all(map(_is_finite, weights))
            with np.errstate(all="ignore"):
                for name in dict.fromkeys(self._coefficients):
                    self._set_coefficients(packed[name], tensors_of_channels)
            if not geometry.backward:
                for phase, name in zip(self._phases, self._coefficients, strict=True):
                    packed[name][:, 2][_multiplies_padding_by_nonfinite(phase, filters)] = np.nan

        return launch

    def _set_coefficients(self, packed: Array, tensors_of_channels: Mapping[str, Array]) -> None:
        """Sets centre, factor and bias of y = (sums - centre) * factor + bias."""
        centre, factor, bias = packed[:, 0], packed[:, 1], packed[:, 2]
        if self._epsilon is None:
            centre[...], factor[...], bias[...] = 0.0, 1.0, tensors_of_channels.get("bias_tensor", 0.0)
        else:
            np.subtract(tensors_of_channels["mean_tensor"], tensors_of_channels.get("bias_tensor", 0.0), centre)
            variance = tensors_of_channels["variance_tensor"].astype(np.float64) + self._epsilon
            np.divide(tensors_of_channels["scale_tensor"], np.sqrt(variance), factor, casting="same_kind")
            bias[...] = tensors_of_channels["offset_tensor"]
        if self._scale_bias is not None:
            factor *= COMPUTE.type(self._scale_bias.scale)
            bias *= COMPUTE.type(self._scale_bias.scale)
            bias += COMPUTE.type(self._scale_bias.bias)

    def _channel_array(self, name: str, pointer: int) -> Array:
        """A tensor with an entry for each output channel, [group, channel]."""
        channels: Array = tensor_array(self._tensors[name], pointer, self._geometry.groups)[0, :, :, 0, 0, 0]
        return channels

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self.pack(tensors, address))
        pointers, numbers = self._packed.pointers(address), {"low": self._low, "high": self._high}
        numbers |= dict(zip(("alpha", "beta"), self._line, strict=True))
        phases: list[Launch] = []
        for number, tiling in enumerate(self._tilings):
            packed = {"weights": pointers[f"weights {number}"], "coefficients": pointers[self._coefficients[number]]}
            if self._epilogue.adds:
                packed["added"] = tensors["added_tensor"] + tiling.offset
            parameters = tiling.parameters(tensors, temporary, packed | numbers)
            phases.append(TaskLaunch.of(tiling.kernel, parameters, self._threads, tiling))
        work += [self._for_any_weights(phases, tensors, address)] if self._checks_weights else phases
        if self._activation_plan is not None:
            output, scratch = tensors["output_tensor"], temporary + self._scratch_size
            work.append(self._activation_plan.bind({"input_tensor": output, "output_tensor": output}, scratch, None))
        return in_order(work)

    def _for_any_weights(self, phases: Sequence[Launch], tensors: Pointers, address: int) -> Launch:
        """The work for all phases, which computes them without padding if weights are not finite."""

        def compute_unpadded(stream: int) -> None:
            packed = self._packed.arrays_at(address)
            for number, phase in enumerate(self._phases):
                weights, coefficients = packed[f"weights {number}"], packed[self._coefficients[number]]
                _convolve_unpadded(self._geometry, phase, self._tensors, tensors, weights, coefficients, self._low, self._high)

        finite = array_at(self._packed.pointers(address)["finite"], (1,), np.dtype(np.bool_), (1,))
        return _ForWeights(finite, in_order(phases), compute_unpadded)


def _pack(phase: Phase, filters: Array, packed: Array) -> None:
    """Packs filters [group, filter, channel, *taps] as [group, block, channel, tap, filter], the taps in the order of the input."""
    if phase.is_empty:
        packed.fill(0.0)
        return
    selected = filters[..., *phase.taps]
    groups, count, channels, *window = selected.shape
    block = packed.shape[-1]
    whole, left = divmod(count, block)
    target = packed.reshape(groups, -1, channels, *window, block)
    np.copyto(
        target[:, :whole], selected[:, : whole * block].reshape(groups, whole, block, channels, *window).transpose(0, 1, 3, 4, 5, 6, 2)
    )
    if left:
        target[:, whole, ..., left:] = 0.0
        np.copyto(target[:, whole, ..., :left], selected[:, whole * block :].transpose(0, 2, 3, 4, 5, 1))


def _multiplies_padding_by_nonfinite(phase: Phase, filters: Array) -> Array:
    """Whether a filter [group, filter] has an infinity or NaN at a tap that is not packed: its products with padding are NaN."""
    packed = np.zeros(filters.shape[3:], np.bool_)
    packed[phase.taps] = True
    if packed.all():
        return np.zeros(filters.shape[:2], np.bool_)
    return np.asarray(~np.isfinite(filters[..., ~packed]).all(axis=(2, 3)))


def choose_tiling(
    geometry: Geometry, phase: Phase, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa, epilogue: Epilogue = PLAIN
) -> Tiling | DepthwiseTiling:
    """The row blocks of a depthwise convolution, if it has some, or the tiling with the lower estimated time.

    The estimate depends only on sizes and layouts. Other groups of one filter are vectorized over positions, and so is a phase
    without taps and a product of matrices that is left to BLAS.
    """
    row_blocks = DepthwiseTiling.of(geometry, tensors, threads, isa, epilogue)
    if row_blocks is not None:
        return row_blocks
    by_positions = PositionTiling(geometry, phase, tensors, threads, isa)
    by_positions.epilogue = epilogue
    if by_positions.is_matrix or phase.is_empty or geometry.filters == 1:
        return by_positions
    by_channels = ChannelTiling(geometry, phase, tensors, threads, isa)
    by_channels.epilogue = epilogue
    return by_channels if by_channels.cost < by_positions.cost else by_positions


def _reads_padding(phase: Phase, geometry: Geometry) -> bool:
    """Whether a window of the phase reads padding."""
    along = zip(phase.starts, phase.out, phase.strides, phase.window, phase.dilations, geometry.spatial, strict=True)
    return not phase.is_empty and any(
        start > 0 or (out - 1) * stride + (taps - 1) * dilation - start >= size for start, out, stride, taps, dilation, size in along
    )


def _is_finite(weights: Array) -> bool:
    """Whether all of them are finite."""
    return bool(np.isfinite(weights.max()) and np.isfinite(weights.min()))


class _ForWeights:
    """A launch that depends on the packed weights, which may change between launches.

    Args:
        finite: an array of one element: whether all weights are finite.
        usual: the launch if they are.
        other: the launch if they are not.
    """

    def __init__(self, finite: Array, usual: Launch, other: Launch) -> None:
        self._finite, self._usual, self._other = finite, usual, other

    def __call__(self, stream: int) -> None:
        (self._usual if self._finite[0] else self._other)(stream)


def _convolve_unpadded(
    geometry: Geometry,
    phase: Phase,
    tensors: Mapping[str, TensorDesc],
    pointers: Pointers,
    weights: Array,
    coefficients: Array,
    low: float,
    high: float,
) -> None:
    """Computes a phase of a transposed convolution in NumPy, tap by tap: only elements of the image are multiplied, never its padding.

    The compiled kernels also multiply zeros around the image, for input elements that do not exist. That changes a result only if a weight
    is infinite or NaN, since its product with 0 is NaN. Such weights are rare, so this form need not be fast.

    Args:
        geometry: the convolution.
        phase: the phase.
        tensors: the descs by name.
        pointers: their addresses.
        weights: the packed weights [group, block, channel, tap, filter of the block]; taps along the depth may count as channels.
        coefficients: centre, factor and bias, [group, 3, filter].
        low: the lower bound of the results.
        high: the upper one.
    """
    x, y = (tensor_array(tensors[name], pointers[name], geometry.groups) for name in ("input_tensor", "output_tensor"))
    along = zip(phase.output_start, phase.output_strides, phase.out, strict=True)
    places: Index = (..., *(slice(first, first + (count - 1) * step + 1, step) for first, step, count in along))
    results = y[places]
    taps = list(product(*map(range, phase.window)))
    groups, blocks, *_, block = weights.shape
    by_tap = weights.reshape(groups, blocks, -1, max(1, len(taps)), block).transpose(3, 0, 2, 1, 4)
    by_tap = by_tap.reshape(*by_tap.shape[:3], blocks * block)[..., : geometry.filters]
    sums = np.zeros(results.shape, COMPUTE)
    with np.errstate(all="ignore"):
        for tap, of_tap in zip(taps, by_tap, strict=False):  # an empty phase has weights, which are 0, and no taps
            positions, elements = _inside(phase, geometry, tap)
            sums[positions] += np.einsum("gcf,bgczyx->bgfzyx", of_tap, x[elements].astype(COMPUTE))
        centre, factor, bias = (coefficients[np.newaxis, :, row, :, np.newaxis, np.newaxis, np.newaxis] for row in range(3))
        np.copyto(results, np.clip((sums - centre) * factor + bias, COMPUTE.type(low), COMPUTE.type(high)), casting="same_kind")


def _inside(phase: Phase, geometry: Geometry, tap: Sequence[int]) -> tuple[Index, Index]:
    """The positions of the window at which a tap is an element of the image, and these elements, along each dimension."""
    positions, elements = [], []
    along = zip(phase.starts, phase.out, phase.strides, phase.dilations, geometry.spatial, tap, strict=True)
    for start, out, stride, dilation, size, tap_index in along:
        begin = tap_index * dilation - start
        first, last = reaching_positions(out, stride, begin, size)
        positions.append(slice(first, last))
        elements.append(slice(begin + first * stride, begin + (last - 1) * stride + 1, stride) if last > first else slice(0, 0))
    return (..., *positions), (..., *elements)
