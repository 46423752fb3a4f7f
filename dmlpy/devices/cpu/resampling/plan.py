"""The plans of resamplings and of VALUE_SCALE_2D, and the parameters of their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.value_structs import ScaleBias
from dmlpy.devices.cpu.elementwise.plans import elementwise_plan
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan, floats_of
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Float32, KernelStruct, UnitParameters, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, Plan, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc
from dmlpy.reference.resampling import Pass, passes
from dmlpy.reference.taps import MOST_TURNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.resampling import ValueScale2DDesc


Array = np.ndarray[Any, np.dtype[Any]]

RESAMPLING = Kernel("dmlpy.devices.cpu.resampling.kernels:build_resampling", 5)
"""Resampling: the type of tensors, and the instruction set."""

_WORK_OF_A_THREAD = 1 << 17
"""Taps that are worth waking another thread for."""


class ResamplingParameters(UnitParameters):
    """The parameters of the kernel. A tile is some of the planes, each of which is resampled along one axis after the other."""

    input: Address = field("the tensor that is resampled")
    input_plane: Bytes = field("from a plane of it to the next")
    output: Address = field("the result")
    output_plane: Bytes = field("from a plane of it to the next")
    passes: Count = field("the passes of a plane: the first one reads the input, the last one writes the output, the others scratch")
    table: Address = field("the passes, `EncodedPass`es")
    scratch: Address = field("the scratch of all threads: a row of the input, and two planes")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class EncodedPass(KernelStruct):
    """The resampling of a plane along an axis."""

    outer: Count = field("entries of the axes before")
    size: Count = field("entries along the axis")
    output_size: Count = field("entries along it in the result")
    inner: Count = field("entries of the axes behind")
    turns: Count = field("the most entries that an entry of the result is a sum of")
    pitch: Count = field("entries from a turn to the next in `sources` and `weights`: a whole number of vectors")
    sources: Address = field("for each turn and entry of the result the entry along the axis, -1 for none, int32 [turns, pitch]")
    weights: Address = field("and what it is multiplied by, float32 [turns, pitch]")
    source: Bytes = field("the offset in scratch of what is read")
    target: Bytes = field("the offset in scratch of what is written")
    start: Float32 = field("what sums begin with: 0, or -0 if each has a term, so that one of -0 keeps its sign")


@dataclass(frozen=True)
class Planes:
    """The planes of packed tensors that are resampled one by one.

    Attributes:
        count: their number.
        passes: the passes that change something: the sizes of the axes before and behind, the size along the axis, and the pass.
        sizes: the elements of a plane before each pass, and behind the last one.
    """

    count: int
    passes: tuple[tuple[int, int, int, Pass], ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, source: TensorDesc, target: TensorDesc, work: Sequence[Pass]) -> Planes | str:
        """The planes of two tensors, or the reason why there are none."""
        order = _packed_order(source, target)
        if order is None:
            return "a compiled resampling has packed tensors, whose dimensions have one order in memory"
        sizes = {axis: source.sizes[axis] for axis in order}
        changing = [resampled for resampled in work if not resampled.taps.ordered().keeps(sizes[resampled.axis], resampled.size)]
        if not changing:
            return "nothing is resampled"
        if any(np.bincount(resampled.taps.outputs).max(initial=0) > MOST_TURNS for resampled in changing):
            return f"an element of the result is a sum of more than {MOST_TURNS}"
        first = min(order.index(resampled.axis) for resampled in changing)
        count, inside = prod(sizes[axis] for axis in order[:first]), order[first:]
        passes, counts = [], [prod(sizes[axis] for axis in inside)]
        for resampled in changing:
            place = inside.index(resampled.axis)
            outer, inner = (prod(sizes[axis] for axis in part) for part in (inside[:place], inside[place + 1 :]))
            passes.append((outer, inner, sizes[resampled.axis], resampled))
            sizes[resampled.axis] = resampled.size
            counts.append(outer * resampled.size * inner)
        return cls(count, tuple(passes), tuple(counts))


def _packed_order(*tensors: TensorDesc) -> list[int] | None:
    """The dimensions in the order in which all tensors have them in memory without gaps, the outermost first; None without one."""
    strides = [tensor.element_strides for tensor in tensors]
    dimensions = range(tensors[0].dimension_count)
    order = sorted(dimensions, key=lambda axis: (*(-steps_of_tensor[axis] for steps_of_tensor in strides), axis))
    for tensor, steps in zip(tensors, strides, strict=True):
        expected = 1
        for axis in reversed(order):
            if tensor.sizes[axis] > 1 and steps[axis] != expected:
                return None
            expected *= tensor.sizes[axis]
    return order


class ResamplingPlan(PlanWithoutConstants):
    """A resampling of floats, or the gradient of one, by the compiled kernel.

    Args:
        source: the place of the tensor that is resampled, and its desc.
        target: the place of the result, and its desc.
        planes: their planes.
    """

    def __init__(self, source: tuple[str, TensorDesc], target: tuple[str, TensorDesc], planes: Planes) -> None:
        self._places, self._planes, self._isa = (source[0], target[0]), planes, host_isa()
        self._storage, self._element = storage_of(source[1].data_type), source[1].data_type.numpy.itemsize
        taps = planes.count * sum(outer * inner * pass_.taps.inputs.size for outer, inner, _, pass_ in planes.passes)
        self._shares = WorkShares(planes.count, Threads.of(available_threads(), taps, _WORK_OF_A_THREAD))
        row, plane = (
            aligned(count * FLOAT_BYTES) for count in (max(pass_[2] for pass_ in planes.passes), max(planes.sizes[1:-1], default=0))
        )
        self._scratch_size = row + min(2, len(planes.passes) - 1) * plane
        self.temporary_size = self._shares.threads.most * self._scratch_size
        self._arrays: list[FixedArray] = []
        table = np.zeros(len(planes.passes), EncodedPass.dtype)
        for number, (outer, inner, size, pass_) in enumerate(planes.passes):
            sources, weights = _turns(pass_, self._isa.lanes)
            arrays = FixedArray(sources), FixedArray(weights)
            self._arrays += arrays
            scratch = (row + (number + 1) % 2 * plane, row + number % 2 * plane)
            start = -0.0 if (sources[0, : pass_.size] >= 0).all() else 0.0
            values = (outer, size, pass_.size, inner, *sources.shape, *(array.address for array in arrays), *scratch, start)
            table[number] = values
        self._table = FixedArray(table)

    def load(self) -> None:
        RESAMPLING(self._storage, self._isa)

    def describe(self) -> str:
        axes = ", ".join(str(pass_.axis) for _, _, _, pass_ in self._planes.passes)
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._planes.count} plane(s), axis by axis: {axes}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        planes, size = self._planes, self._element
        values: dict[str, Any] = {
            **self._shares.values,
            "input": tensors[self._places[0]],
            "input_plane": planes.sizes[0] * size,
            "output": tensors[self._places[1]],
            "output_plane": planes.sizes[-1] * size,
            "passes": len(planes.passes),
            "table": self._table,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        return TaskLaunch.of(RESAMPLING(self._storage, self._isa), ResamplingParameters.bound(values), self._shares.threads, self._arrays)


def _turns(axis_pass: Pass, lanes: int) -> tuple[Array, Array]:
    """The sources and weights of a pass: the first ones of all entries, then the second ones and so on, as NumPy's device sums them."""
    taps = axis_pass.taps.ordered()
    counts = np.bincount(taps.outputs, minlength=axis_pass.size)
    turns = np.arange(taps.outputs.size) - np.repeat(np.cumsum(counts) - counts, counts)
    pitch = ceil(axis_pass.size / lanes) * lanes
    sources, weights = np.full((counts.max(), pitch), -1, np.int32), np.zeros((counts.max(), pitch), np.float32)
    sources[turns, taps.outputs], weights[turns, taps.outputs] = taps.inputs, taps.weights
    return sources, weights


def resampling_plan(desc: Any) -> ResamplingPlan | str:
    """The plan of a resampling of floats."""
    (source,), (target,) = ([(slot.place, slot.tensor) for slot in slots] for slots in (desc.input_slots(), desc.output_slots()))
    planes = Planes.of(source[1], target[1], passes(desc))
    return planes if isinstance(planes, str) else ResamplingPlan(source, target, planes)


def byte_resampling_plan(desc: Any) -> ByteFloatsPlan | str:
    """The plan of a resampling of bytes, whose passes come in the order of whole numbers."""
    source, target = desc.input_tensor, desc.output_tensor
    planes = Planes.of(floats_of(source), floats_of(target), passes(desc))
    if isinstance(planes, str):
        return planes
    resampling = ResamplingPlan(("input_tensor", floats_of(source)), ("output_tensor", floats_of(target)), planes)
    return ByteFloatsPlan(resampling, source, target)


_PLACES = ("input_tensor", "output_tensor")


class ValueScalePlan(PlanWithoutConstants):
    """A plan for each channel.

    Args:
        desc: a checked desc.
        channels: the plans of its channels' identities.
    """

    def __init__(self, desc: ValueScale2DDesc, channels: list[Plan]) -> None:
        tensors = desc.tensors()
        self._channels = channels
        self._steps = {place: tensors[place].element_strides[1] * tensors[place].data_type.numpy.itemsize for place in _PLACES}
        self.temporary_size = max(plan.temporary_size for plan in channels)

    def load(self) -> None:
        self._channels[0].load()

    def describe(self) -> str:
        each = "" if len(self._channels) == 1 else ", a program for each channel"
        return self._channels[0].describe() + each

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work = []
        for number, channel in enumerate(self._channels):
            addresses = {place: tensors[place] + number * step for place, step in self._steps.items()}
            work.append(channel.bind(addresses, temporary, None))
        return in_order(work)


def value_scale_plan(desc: ValueScale2DDesc) -> ValueScalePlan | str:
    """An element-wise program for each channel, which has a bias of its own."""
    assert desc.output_tensor is not None  # guaranteed by the check
    x, y = (_channel(tensor) for tensor in (desc.input_tensor, desc.output_tensor))
    channels: list[Plan] = []
    for bias in desc.bias:
        plan = elementwise_plan(ElementWiseIdentityDesc(input_tensor=x, output_tensor=y, scale_bias=ScaleBias(scale=desc.scale, bias=bias)))
        if isinstance(plan, str):
            return plan
        channels.append(plan)
    return ValueScalePlan(desc, channels)


def _channel(tensor: TensorDesc) -> TensorDesc:
    """The first channel of images."""
    batch, _, height, width = tensor.sizes
    return tensor.replace(sizes=(batch, 1, height, width), strides=tensor.element_strides)
