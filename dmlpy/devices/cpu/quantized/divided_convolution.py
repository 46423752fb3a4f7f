"""Convolutions of bytes as several ones: for each set of taps that reach the image, those positions of the window."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.devices.cpu.convolution.layout import WORTH_DIVIDING, reaching_parts
from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
from dmlpy.devices.cpu.structs import aligned
from dmlpy.devices.plan import Launch, Plan, Pointers, in_order
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Dimension
    from dmlpy.operators.quantized.products import QuantizedConvolvingDesc


class _Part(NamedTuple):
    """Some positions of the window.

    Attributes:
        plan: of the taps that reach the image there.
        offsets: where the part of each divided tensor begins, in bytes.
    """

    plan: ByteConvolutionPlan
    offsets: Mapping[str, int]

    def of(self, tensors: Pointers) -> Pointers:
        """The addresses of its parts of tensors."""
        return {place: address + self.offsets.get(place, 0) for place, address in tensors.items()}


def divided_plan(desc: QuantizedConvolvingDesc) -> DividedConvolutionPlan | None:
    """The plan of several convolutions; None if one is as good. Padding stands for 0: taps that read it alone may be left out."""
    if desc.input_tensor.dimension_count != 4 or max(desc.dilations) <= 1:
        return None
    output = desc.tensors()["output_tensor"]
    (filters, channels, *taps), spatial, out = desc.filter_tensor.sizes, desc.input_tensor.sizes[2:], output.sizes[2:]
    divides = filters > desc.group_count and output.element_count * channels * prod(taps) >= WORTH_DIVIDING
    axes = zip(out, taps, desc.strides, desc.dilations, desc.start_padding, spatial, strict=True)
    along = [reaching_parts(*axis, divides=divides) for axis in axes]
    if all(len(parts) == 1 and parts[0][4] == count for parts, count in zip(along, taps, strict=True)):
        return None
    return DividedConvolutionPlan([_part_of(desc, output, part_taps) for part_taps in product(*along)])


def _part_of(desc: QuantizedConvolvingDesc, output: TensorDesc, dimensions: Sequence[Dimension]) -> _Part:
    """The plan of some positions, given along both axes."""
    first, _, out, taps, window, strides, dilations, starts = zip(*dimensions, strict=True)
    cut = [max(0, -start) for start in starts]
    ends, inside = [], []
    for axis, size in enumerate(desc.input_tensor.sizes[2:]):
        before = max(0, starts[axis])
        needed = (out[axis] - 1) * strides[axis] + (window[axis] - 1) * dilations[axis] + 1 - before
        inside.append(max(1, min(needed, size - cut[axis])))  # an element also where windows end before the first one
        ends.append(max(0, needed - inside[axis]))
    begins = {"input_tensor": cut, "filter_tensor": [axis_taps.start or 0 for axis_taps in taps], "output_tensor": first}
    sizes = {"input_tensor": inside, "filter_tensor": window, "output_tensor": out}
    tensors, offsets = {"input_tensor": desc.input_tensor, "filter_tensor": desc.filter_tensor, "output_tensor": output}, {}
    for place, tensor in tensors.items():
        steps = tensor.element_strides
        begin = sum(at * step for at, step in zip(begins[place], steps[2:], strict=True))
        offsets[place] = begin * tensor.data_type.numpy.itemsize
        tensors[place] = tensor.replace(sizes=(*tensor.sizes[:2], *sizes[place]), strides=steps, total_tensor_size_in_bytes=None)
    padding = {"start_padding": [max(0, start) for start in starts], "end_padding": ends}
    return _Part(ByteConvolutionPlan(desc.replace(**tensors, **padding, strides=strides, dilations=dilations)), offsets)


class DividedConvolutionPlan(Plan):
    """Convolutions of the taps that reach the image, one after the other.

    Args:
        parts: the convolutions, which write each element of the output once.
    """

    constants = ("filter_tensor",)

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts, self._begins, size = parts, [], 0
        for part in parts:
            self._begins.append(size)
            size += aligned(part.plan.persistent_size)
        self.persistent_size = size
        self.prepared_temporary_size = max(part.plan.prepared_temporary_size for part in parts)
        self.temporary_size = max(part.plan.temporary_size for part in parts)

    def load(self) -> None:
        for part in self._parts:
            part.plan.load()

    def describe(self) -> str:
        said = f"{plural(len(self._parts), 'convolution')} of the taps that reach the image"
        return "\n".join([said, *dict.fromkeys(line for part in self._parts for line in part.plan.describe().splitlines())])

    @property
    def packing(self) -> Hashable:
        return tuple((part.plan.packing, part.offsets["filter_tensor"]) for part in self._parts)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        each = zip(self._parts, self._begins, strict=True)
        return in_order([part.plan.pack(part.of(constants), persistent + begin) for part, begin in each])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        each = zip(self._parts, self._begins, strict=True)
        return in_order([part.plan.bind(part.of(tensors), temporary, None if persistent is None else persistent + at) for part, at in each])
