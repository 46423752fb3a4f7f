"""The element-wise activation operators on CUDA: one kernel of raw_kernels/activation/elements.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cuda.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.functors import attribute_values, functor
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, struct
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from dmlpy.operators.activation import ActivationDesc

ELEMENT_TYPES = {
    "float32": "float",
    "float16": "machine::half",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint32": "unsigned",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
}
"""The element types as the kernel spells them."""


def elements_kernel(kind: type[ActivationDesc], data_type: DTypeLike, width: int) -> Kernel:
    """The kernel of an activation.

    Args:
        kind: the operator.
        data_type: of its tensors.
        width: elements that a thread reads and writes at once: a power of two, at most 16 bytes.
    """
    inputs, scalar = len(kind.inputs()), ELEMENT_TYPES[np.dtype(data_type).name]
    parameters = struct(
        ("inputs", np.uint64, (inputs,)),
        ("output", np.uint64),
        ("axes", axes_type(1 + inputs)),
        ("packs", np.uint32),
        ("rest", np.uint32),
        ("repeats", np.int32, (inputs,)),
        ("attributes", np.float32, (2,)),
    )
    entry = f"elements<{scalar}, {width}, {inputs}, {functor(kind)}>"
    return Kernel("activation/elements.cu", entry, parameters, f"ElementsParameters<{scalar}, {inputs}>")


class ElementsPlan(PlanWithoutConstants):
    """An element-wise activation: one launch, of the widest accesses that sizes, strides and addresses allow.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: ActivationDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        *self._inputs, self._output = tensors
        self._library, self._kind, self._attributes = library, type(desc), attribute_values(desc)
        self._type = tensors[self._output].data_type.numpy
        strides = [tensors[name].element_strides for name in (self._output, *self._inputs)]
        self._axes = merged(tensors[self._output].sizes, strides)
        widest = VECTOR_BYTES // self._type.itemsize
        # In a single row what is left over after the packs is done one by one.
        is_row = len(self._axes) == 1 and self._axes[0].size >= widest and all(stride in (0, 1) for stride in self._axes[0].strides)
        self._width = widest if is_row else vector_width(self._axes, widest)
        library.function(self._kernel(self._width))

    def _kernel(self, width: int) -> Kernel:
        return elements_kernel(self._kind, self._type, width)

    def describe(self) -> str:
        count, axes, width = element_count(self._axes), len(self._axes), self._width
        walk = f"{count} elements along {axes} axes" if axes > 1 else f"{count} elements in a row"
        packs = f", {width} at once where addresses are multiples of {self._pack_bytes(width)} bytes" if width > 1 else ", one by one"
        return f"{self._kernel(width).entry}: {walk}{packs}"

    def _pack_bytes(self, width: int) -> int:
        return width * self._type.itemsize

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = [tensors[name] for name in (self._output, *self._inputs)]
        width = self._width  # a narrower kernel is compiled when memory first asks for one
        innermost = self._axes[-1].strides if self._axes else ()
        while any(stride and pointer % self._pack_bytes(width) for stride, pointer in zip(innermost, pointers, strict=False)):
            width //= 2
        return self._launch(width, pointers)

    def _launch(self, width: int, pointers: Sequence[int]) -> Launch:
        kernel, axes = self._kernel(width), self._axes
        argument = np.zeros(1, kernel.parameters)
        argument["output"], argument["inputs"] = pointers[0], pointers[1:]
        if width > 1:
            innermost = axes[-1]
            argument["rest"] = innermost.size % width
            argument["repeats"] = [stride == 0 for stride in innermost.strides[1:]]
            axes = (*axes[:-1], Axis(innermost.size // width, tuple(stride * width for stride in innermost.strides)))
        packs = element_count(axes)
        argument["axes"], argument["packs"] = axes_value(axes, len(pointers)), packs
        with np.errstate(over="ignore"):
            argument["attributes"] = self._attributes
        return self._library.launch_elements(kernel, packs, argument)
