"""DYNAMIC_QUANTIZE_LINEAR over raw_kernels/quantized/dynamic.cu."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.quantized.linear import DynamicQuantizeLinearDesc

NUMBERS = 2**32
"""An upper limit on the elements that kernels count."""

RANGE_BYTES = 8
"""Bytes of a range: two floats."""

PARAMETERS = struct(
    ("x", np.uint64),
    ("y", np.uint64),
    ("scale", np.uint64),
    ("zero_point", np.uint64),
    ("axes", axes_type(2)),
    ("vectors", np.uint32),
    ("repeats", np.int32),
    ("ranges", np.uint64),
    ("range_count", np.uint32),
    ("least", np.float32),
    ("most", np.float32),
)


def dynamic_kernel(name: str, data_type: np.dtype[Any], quantized_type: np.dtype[Any], width: int) -> Kernel:
    """An instance of `find` or `quantize`; `width` elements to an access."""
    types = f"{scalar_type(data_type)}, {'unsigned char' if quantized_type.kind == 'u' else 'signed char'}"
    return Kernel("quantized/dynamic.cu", f"{name}<{types}, {width}>", PARAMETERS, f"DynamicParameters<{types}>", dynamic_shared=True)


class DynamicQuantizePlan(PlanWithoutConstants):
    """Two launches, which both read the input.

    Vectors need addresses at multiples of their size: other addresses use single elements.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more elements than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: DynamicQuantizeLinearDesc, library: KernelLibrary) -> None:
        x, y = desc.tensors()["input_tensor"], desc.tensors()["output_tensor"]
        self._library, self._type, self._quantized = library, x.data_type.numpy, y.data_type.numpy
        if x.element_count >= NUMBERS:
            raise DeviceError(f"{x.element_count} elements: at most {NUMBERS - 1}")
        self._axes = merged(x.sizes, (x.element_strides, y.element_strides)) or (Axis(1, (0, 0)),)
        self._width = vector_width(self._axes, VECTOR_BYTES // self._type.itemsize)
        # as many as a launch with single elements may need
        self.temporary_size = RANGE_BYTES * library.element_blocks(x.element_count)
        library.functions(self._kernels(self._width))

    def _kernels(self, width: int) -> list[Kernel]:
        """The kernels of a launch, in order."""
        return [dynamic_kernel(name, self._type, self._quantized, width) for name in ("find", "quantize")]

    def describe(self) -> str:
        return (
            f"CUDA, {self._library.limits.name}, {self._type} data, float32 arithmetic\n"
            f"{element_count(self._axes)} elements, accesses of {self._width * self._type.itemsize} bytes\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels(self._width))}"
        )

    def cost(self) -> Cost:
        gpu, count = GpuModel.of(self._library.limits), element_count(self._axes)
        size = count * self._type.itemsize
        floor = gpu.memory_us(size + count)
        return Cost(
            traffic={"second reading": size},
            floor_us=floor,
            estimate_us=floor + gpu.memory_us(size) + CAPTURED_LAUNCH_US * 2,
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        x, y = tensors["input_tensor"], tensors["output_tensor"]
        inner, limits = self._axes[-1], np.iinfo(self._quantized)
        repeats = inner.strides[0] == 0
        aligned = (repeats or x % (self._width * self._type.itemsize) == 0) and y % self._width == 0
        width = self._width if aligned else 1
        axes = (*self._axes[:-1], replace(inner, size=inner.size // width, strides=tuple(width * stride for stride in inner.strides)))
        packs, argument = element_count(axes), np.zeros(1, PARAMETERS)
        blocks = self._library.element_blocks(packs)
        argument["x"], argument["y"] = x, y
        argument["scale"], argument["zero_point"] = tensors["output_scale_tensor"], tensors["output_zero_point_tensor"]
        argument["axes"], argument["vectors"], argument["repeats"] = axes_value(axes, 2), packs, repeats
        argument["ranges"], argument["range_count"] = temporary, blocks
        argument["least"], argument["most"] = limits.min, limits.max
        shared_bytes = ELEMENT_THREADS * RANGE_BYTES
        return in_order(
            [self._library.launch(kernel, (blocks,), ELEMENT_THREADS, argument, shared_bytes) for kernel in self._kernels(width)]
        )


def dynamic_quantize_plan(desc: DynamicQuantizeLinearDesc, target: Target) -> DynamicQuantizePlan:
    return DynamicQuantizePlan(desc, target.library)
