"""Elements as raw words: how kernels that only move elements access tensors of any type."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.common.element_types import WORD_TYPES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import PlanWithoutConstants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cuda.kernels import KernelLibrary, Struct
    from dmlpy.devices.plan import Launch, Pointers


@dataclass(frozen=True)
class CopyAxes:
    """The axes of a launch over words.

    Attributes:
        axes: outermost first. The strides of the first `moved` tensors count words of theirs; those of the others count elements of the
            others.
        moved: the number of tensors whose words are moved.
        word_bytes: bytes of a word.
        steps: other distances in the moved tensors, in words.
    """

    axes: tuple[Axis, ...]
    moved: int
    word_bytes: int
    steps: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        moved: Sequence[Sequence[int]],
        others: Sequence[Sequence[int]],
        data_type: np.dtype[Any],
        steps: Sequence[int] = (),
    ) -> CopyAxes:
        """The axes of copies of single elements.

        Args:
            sizes: entries along each dimension that the tensors share.
            moved: strides of the tensors whose elements are moved; the axes have the order of the first one's memory.
            others: strides of other tensors with an element for each entry.
            data_type: of the moved elements.
            steps: other distances in the moved tensors, in elements.
        """
        return cls(merged(sizes, (*moved, *others)), len(moved), data_type.itemsize, tuple(steps))

    @property
    def count(self) -> int:
        """Words of the first tensor."""
        return element_count(self.axes)

    def widened(self, addresses: Iterable[int] = ()) -> CopyAxes:
        """The same with the widest words that layouts and the addresses of the moved tensors allow, up to 16 bytes.

        Words are wider than elements if the innermost axis is contiguous in every moved tensor and its neighbours share everything
        else.
        """
        if not self.axes or self.axes[-1].strides != (1,) * self.moved + (0,) * (len(self.axes[-1].strides) - self.moved):
            return self
        width = vector_width([self._of_moved(axis) for axis in self.axes], VECTOR_BYTES // self.word_bytes)
        steps, places = self.steps, tuple(addresses)
        while any(step % width for step in steps) or any(place % (width * self.word_bytes) for place in places):
            width //= 2
        *outer, inner = self.axes
        axes = [self._in_words(axis, width) for axis in outer]
        if inner.size > width:
            axes.append(replace(inner, size=inner.size // width))
        return CopyAxes(tuple(axes), self.moved, width * self.word_bytes, tuple(step // width for step in steps))

    def _of_moved(self, axis: Axis) -> Axis:
        return replace(axis, strides=axis.strides[: self.moved])

    def _in_words(self, axis: Axis, width: int) -> Axis:
        strides = [stride // width if at < self.moved else stride for at, stride in enumerate(axis.strides)]
        return replace(axis, strides=tuple(strides))


class VectorizedCopyPlan(PlanWithoutConstants):
    """One launch in which each thread owns words of the output; the words are the widest that layouts and addresses allow.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        copy: over single elements.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    file: ClassVar[str]
    """The kernel's source in raw_kernels/."""
    name: ClassVar[str]
    """The kernel."""
    parameters: ClassVar[np.dtype[np.void]]
    """Its struct, the same for all words."""
    widens: ClassVar[bool] = True
    """Whether words may be wider than elements: not if the kernel compares or fills single elements."""
    moved: ClassVar[tuple[str, ...]] = ("output_tensor", "input_tensor")
    """The tensors whose words are moved, in the order of the copy."""

    def __init__(self, desc: OperatorDesc, library: KernelLibrary, copy: CopyAxes) -> None:
        self._cost = movement_cost(desc, library, 1)
        self._library, self._elements = library, copy
        self._words = self._widened()  # a narrower kernel is compiled when alignment first requires it
        library.function(self.kernel(self._words.word_bytes))

    @classmethod
    def kernel(cls, word_bytes: int) -> Kernel:
        """The instance for words of this many bytes."""
        return word_kernel(cls.file, cls.name, cls.parameters, word_bytes)

    def _widened(self, addresses: Iterable[int] = ()) -> CopyAxes:
        return self._elements.widened(addresses) if self.widens else self._elements

    @abstractmethod
    def argument(self, copy: CopyAxes, tensors: Pointers) -> Struct:
        """The kernel's argument for tensors at these addresses."""

    def describe(self) -> str:
        words = self._words
        return f"{self.kernel(words.word_bytes).entry}: {words.count} words of {words.word_bytes} bytes along {len(words.axes)} axes"

    def cost(self) -> Cost:
        return self._cost

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        copy = self._widened(tensors[name] for name in self.moved if name in tensors)
        return self._library.launch_elements(self.kernel(copy.word_bytes), copy.count, self.argument(copy, tensors))


def movement_cost(desc: OperatorDesc, library: KernelLibrary, launches: int, *, again: int = 0, what: str = "") -> Cost:
    """The cost of writing every output and reading every input once, but of `input_tensor` no more elements than are written.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        launches: the number of launches.
        again: bytes that the kernels read or write besides these.
        what: the kind of these bytes.
    """
    output = sum(slot.tensor.element_count for slot in desc.output_slots() if slot.tensor is not None)
    total = 0
    for place, tensor in desc.tensors().items():
        count = min(tensor.element_count, output) if place == "input_tensor" else tensor.element_count
        total += count * tensor.data_type.numpy.itemsize
    gpu = GpuModel.of(library.limits)
    estimate = gpu.memory_us(total + again) + launches * CAPTURED_LAUNCH_US
    return Cost(traffic={what: again} if again else {}, floor_us=gpu.memory_us(total), estimate_us=estimate)


def word_kernel(file: str, name: str, parameters: np.dtype[np.void], word_bytes: int) -> Kernel:
    """The instance of a kernel `NAME<Word>` that takes a `NameParameters<Word>`, for words of this many bytes."""
    word = WORD_TYPES[word_bytes]
    struct_name = "".join(part.capitalize() for part in name.split("_"))
    return Kernel(file, f"{name}<{word}>", parameters, f"{struct_name}Parameters<{word}>")
