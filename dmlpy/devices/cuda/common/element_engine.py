"""The engine of element-wise work on CUDA: launches of the kernel of raw_kernels/common/element_engine.cuh.

`ElementsPlan` is a plan of one or more `Elementwise` steps, one after the other. A step is a functor over views of the desc's tensors;
a copy, a cast, a sum, a fill and a slice differ only in the functor and in the views.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import MOST_AXES, VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.common.element_tiles import TILE_SIDE, Crossing
from dmlpy.devices.cuda.common.element_types import ELEMENT_TYPES, INT4_TYPES, element_type, word_type
from dmlpy.devices.cuda.common.steps import NO_SCRATCH
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.common.functors import AnyFunctor
    from dmlpy.devices.plan import Layout

_MOST_NUMBERS = 2**32
"""An exclusive limit of the packs of one launch."""


@dataclass(frozen=True)
class View:
    """Elements of a tensor in the order of a step's sizes.

    Attributes:
        place: the tensor's place in the desc; None without memory, as for `Place` and `Absent`.
        scalar: the elements' type as the kernel spells it. Of 4-bit elements the output is packed.
        strides: elements from one entry to the next along each of the step's dimensions.
        offset: elements from the tensor's first to the view's; of 4-bit ones whole bytes.
    """

    place: str | None
    scalar: str
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def bits(self) -> int:
        """Bits of an element; 0 without memory."""
        return 0 if self.place is None else _BITS[self.scalar]

    def nbytes(self, count: int) -> int:
        """The bytes of this many elements, of which those of 4 bits fill whole bytes."""
        return count * self.bits // 8

    @classmethod
    def of(cls, place: str, tensor: TensorDesc, *, raw: bool = False) -> View:
        """A whole tensor; `raw` treats its elements as unsigned integers of the same size."""
        if tensor.data_type.bits == 4:
            return cls(place, INT4_TYPES[tensor.data_type.name.lower()], tensor.element_strides)
        scalar = (word_type if raw else element_type)(tensor.data_type.numpy)
        return cls(place, scalar, tensor.element_strides)


_BITS = {scalar: DataType[name.upper()].bits for name, scalar in (ELEMENT_TYPES | INT4_TYPES).items()}


def indices(dimension: int, dimensions: int) -> View:
    """The index along one of a step's dimensions."""
    return View(None, "Place", tuple(int(at == dimension) for at in range(dimensions)))


def numbers(sizes: Sequence[int]) -> View:
    """The number of each element of a step's sizes, the last dimension fastest."""
    return View(None, "Place", tuple(prod(sizes[at + 1 :]) for at in range(len(sizes))))


def absent(dimensions: int) -> View:
    """Zeros in place of a missing tensor."""
    return View(None, "Absent", (0,) * dimensions)


def elements_kernel(functor: AnyFunctor, width: int, offset: str, most: int, scalars: Sequence[str]) -> Kernel:
    """The instance of the kernel.

    Args:
        functor: applied to the elements.
        width: elements that a thread reads and writes at once: a power of two, at most 16 bytes.
        offset: NumPy type of places in tensors, int32 or int64.
        most: the most axes that it takes.
        scalars: the element types of the output and the inputs.
    """
    inputs = len(scalars) - 1
    parameters = struct(
        ("output", np.uint64),
        ("inputs", np.uint64, (max(inputs, 1),)),
        ("axes", axes_type(1 + inputs, offset, most)),
        ("vectors", np.uint32),
        ("rest", np.uint32),
        ("repeats", np.int32, (max(inputs, 1),)),
        ("functor", functor.struct),
    )
    places, types = ELEMENT_TYPES[offset], ", ".join(scalars)
    return Kernel(
        functor.file,
        f"elements<{functor.name}, {width}, {places}, {most}, {types}>",
        parameters,
        f"ElementsParameters<{functor.name}, {places}, {most}, {types}>",
    )


class Elementwise:
    """One step: the functor of some views, in launches of the widest accesses that sizes, strides and addresses allow.

    Args:
        functor: applied to the elements.
        sizes: entries along each dimension.
        output: what is written.
        inputs: what is read, in the order of the functor's arguments.
    """

    def __init__(self, functor: AnyFunctor, sizes: Sequence[int], output: View, inputs: Sequence[View] = ()) -> None:
        self.functor, self.sizes = functor, tuple(sizes)
        self.output, self.inputs = output, tuple(inputs)
        self._views = (output, *inputs)
        self._scalars = [view.scalar for view in self._views]
        self.axes = merged(sizes, [view.strides for view in self._views])
        self._most = max(-(-len(self.axes) // MOST_AXES), 1) * MOST_AXES
        self._offset = self._offset_type()
        widest = 8 * VECTOR_BYTES // max(view.bits for view in self._views)
        # In a single row the elements after the last pack are processed one by one.
        is_row = len(self.axes) == 1 and self.axes[0].size >= widest and all(stride in (0, 1) for stride in self.axes[0].strides)
        self.width = widest if is_row else vector_width(self.axes, widest)
        whole = [view.bits >= 8 for view in self._views]
        self._arguments: dict[int, tuple[Kernel, int, Struct]] = {}
        """The data that launches of each width share, created on first use."""
        self.crossing = Crossing.of(self.axes, whole) if self.width == 1 else None

    def _offset_type(self) -> str:
        reaches = [sum(abs(axis.strides[at]) * (axis.size - 1) for axis in self.axes) for at in range(len(self._views))]
        return "int32" if max(reaches, default=0) < 2**31 else "int64"

    def kernel(self, width: int | None = None) -> Kernel:
        """The instance for accesses of a width; the widest by default. If an input is transposed against the output, there is none."""
        if self.crossing is not None:
            return self.crossing.kernel(self.functor, self._offset, self._most, self._scalars)
        return elements_kernel(self.functor, self.width if width is None else width, self._offset, self._most, self._scalars)

    def describe(self) -> str:
        """Describes the step in one line."""
        count, axes, width = element_count(self.axes), len(self.axes), self.width
        extent = f"{count} elements along {axes} axes" if axes > 1 else f"{count} elements in a row"
        if self.crossing is not None:
            return f"{self.kernel().entry}: {extent}, {self.crossing.tiles} tiles of {TILE_SIDE} by {TILE_SIDE} through shared memory"
        sizes = {view.nbytes(width) for view in self._views if view.bits}
        packs = f", {width} at once where addresses are multiples of {max(sizes)} bytes" if width > 1 else ", one by one"
        return f"{self.kernel().entry}: {extent}{packs}"

    def traffic(self, places: Collection[str | None] = (), *, inside: bool = False) -> int:
        """Bytes that are read and written outside of these places, or inside of them: elements that repeat count once."""
        counts = (prod(axis.size for axis in self.axes if axis.strides[at] or not at) for at in range(len(self._views)))
        seen = zip(self._views, counts, strict=True)
        return sum(-(-view.bits * count // 8) for view, count in seen if (view.place in places) is inside)

    def bind(self, library: KernelLibrary, tensors: Pointers) -> list[Launch]:
        """Its launches over tensors at these addresses."""
        pointers = [view.offset if view.place is None else tensors[view.place] + view.nbytes(view.offset) for view in self._views]
        if self.crossing is not None:
            return [self.crossing.bind(library, self.kernel(), self.functor, pointers)]
        width = self.width  # a narrower kernel is compiled when alignment first requires it
        innermost = self.axes[-1].strides if self.axes else ()
        by_memory = [(stride, pointer, view) for stride, pointer, view in zip(innermost, pointers, self._views, strict=False) if view.place]
        while width > 1 and any(stride and pointer % view.nbytes(width) for stride, pointer, view in by_memory):
            width //= 2
        return [self._launch(library, width, axes, starts) for axes, starts in self._parts(pointers, width)]

    def _parts(self, pointers: Sequence[int], width: int) -> Iterator[tuple[tuple[Axis, ...], list[int]]]:
        """The work in parts that one launch can index, each with the addresses of its first elements."""
        axes = self.axes
        if element_count(axes) // width < _MOST_NUMBERS:
            yield axes, list(pointers)
            return
        assert all(view.bits != 4 for view in self._views), "tensors have less elements than one launch has packs"
        outer, inner = axes[0], axes[1:]
        share = max(1, (_MOST_NUMBERS - 1) * width // element_count(inner) // width * width)
        for first in range(0, outer.size, share):
            starts = [
                pointer + (view.nbytes(first * stride) if view.bits else first * stride)
                for pointer, stride, view in zip(pointers, outer.strides, self._views, strict=True)
            ]
            yield (Axis(min(share, outer.size - first), outer.strides), *inner), starts

    def _launch(self, library: KernelLibrary, width: int, axes: tuple[Axis, ...], pointers: Sequence[int]) -> Launch:
        parts = self._arguments.get(width) if axes is self.axes else None
        if parts is None:
            parts = self._without_addresses(width, axes)
            if axes is self.axes:
                self._arguments[width] = parts
        kernel, packs, given = parts
        argument = given.view(np.uint8).copy().view(kernel.parameters)  # faster than copying field by field
        argument["output"] = pointers[0]
        if len(pointers) > 1:
            argument["inputs"] = pointers[1:]
        return library.launch_elements(kernel, packs, argument)

    def _without_addresses(self, width: int, axes: tuple[Axis, ...]) -> tuple[Kernel, int, Struct]:
        """The kernel for accesses of a width, the packs of a launch, and its argument without the addresses."""
        kernel, inputs = self.kernel(width), len(self._views) - 1
        argument = np.zeros(1, kernel.parameters)
        if width > 1:
            innermost = axes[-1]
            argument["rest"] = innermost.size % width
            if inputs:
                argument["repeats"] = [stride == 0 for stride in innermost.strides[1:]]
            axes = (*axes[:-1], Axis(innermost.size // width, tuple(stride * width for stride in innermost.strides)))
        packs = element_count(axes)
        argument["axes"], argument["vectors"] = axes_value(axes, 1 + inputs, self._offset, self._most), packs
        self.functor.write(argument["functor"])
        return kernel, packs, argument


class ElementsPlan(PlanWithoutConstants):
    """Steps of element-wise work, one after the other.

    Attributes:
        steps: in order; at least one.

    Args:
        steps: as the attribute.
        library: the device's kernels.
        scratch: the arrays that steps write for later ones.
    """

    def __init__(self, steps: Sequence[Elementwise], library: KernelLibrary, scratch: Layout = NO_SCRATCH) -> None:
        self.steps, self._library, self._scratch = tuple(steps), library, scratch
        self.temporary_size = scratch.size

    def load(self) -> None:
        self._library.functions(dict.fromkeys(step.kernel() for step in self.steps))

    def describe(self) -> str:
        return "\n".join(step.describe() for step in self.steps)

    def cost(self) -> Cost:
        gpu, names = GpuModel.of(self._library.limits), set(self._scratch.arrays)
        moved, between = (sum(step.traffic(names, inside=inside) for step in self.steps) for inside in (False, True))
        return Cost(
            traffic={"scratch": between} if between else {},
            floor_us=gpu.memory_us(moved),
            estimate_us=gpu.memory_us(moved + between) + CAPTURED_LAUNCH_US * len(self.steps),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = {**tensors, **self._scratch.pointers(temporary)}
        return in_order([launch for step in self.steps for launch in step.bind(self._library, pointers)])


def computed_type(data_type: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which elements are computed, and the type of functors' attributes: float32 for FLOAT16 and BFLOAT16."""
    return np.dtype(np.float32) if data_type.name in ("float16", "bfloat16") else data_type
