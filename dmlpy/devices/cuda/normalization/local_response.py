"""LOCAL_RESPONSE_NORMALIZATION and its gradient over raw_kernels/normalization/local_response.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import element_count, merged
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary, Struct, scalar_type, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError
from dmlpy.operators.normalization.local_response import LocalResponseNormalizationGradDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.normalization.local_response import LocalResponseDesc

TENSORS = 6
"""The strides of the axes: x, dy, y, scratch, and an element's coordinates along the window's two dimensions."""

NUMBERS = 2**32
"""An upper limit on the elements that kernels count."""

PARAMETERS = struct(
    *((name, np.uint64) for name in ("x", "dy", "y", "quotients", "summands")),
    ("axes", axes_type(TENSORS)),
    (
        "window",
        struct(
            ("sizes", np.int32, (2,)),
            ("before", np.int32, (2,)),
            ("after", np.int32, (2,)),
            ("x", np.int64, (2,)),
            ("scratch", np.int64, (2,)),
        ),
    ),
    ("count", np.uint32),
    ("scale", np.float32),
    ("bias", np.float32),
    ("beta", np.float32),
)


def response_kernel(name: str, data_type: np.dtype[Any]) -> Kernel:
    """An instance of `normalize`, `prepare` or `differentiate`."""
    scalar = scalar_type(data_type)
    return Kernel("normalization/local_response.cu", f"{name}<{scalar}>", PARAMETERS, f"ResponseParameters<{scalar}>")


class LocalResponsePlan(PlanWithoutConstants):
    """One launch; of the gradient two, which pass two float32 numbers for each element between them.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: there are more elements than kernels can index, or a kernel cannot be compiled.
    """

    def __init__(self, desc: LocalResponseDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        is_gradient = isinstance(desc, LocalResponseNormalizationGradDesc)
        self._library, self._desc = library, desc
        self._names = ("prepare", "differentiate") if is_gradient else ("normalize",)
        self._output = "output_gradient_tensor" if is_gradient else "output_tensor"
        x = tensors["input_tensor"]
        self._type, self._x, self._sizes = x.data_type.numpy, x.element_strides, x.sizes
        self._count = x.element_count
        if self._count >= NUMBERS:
            raise DeviceError(f"{self._count} elements: at most {NUMBERS - 1}")
        self._packed = packed_strides(x.sizes)
        self._dimensions = (1,) if desc.cross_channel else (2, 3)
        coordinates = [tuple(int(axis == dimension) for axis in range(4)) for dimension in (*self._dimensions, None)[:2]]
        dy = tensors["input_gradient_tensor"].element_strides if is_gradient else (0,) * 4
        self._axes = merged(x.sizes, (x.element_strides, dy, tensors[self._output].element_strides, self._packed, *coordinates))
        scratch = [(name, (self._count,), np.dtype(np.float32)) for name in ("quotients", "summands")] if is_gradient else []
        self._scratch = Layout(scratch, ALIGNMENT)
        self.temporary_size = self._scratch.size
        library.functions(self._kernels())

    def _kernels(self) -> list[Kernel]:
        """The kernels of a launch, in order."""
        return [response_kernel(name, self._type) for name in self._names]

    def describe(self) -> str:
        where = "channels" if self._desc.cross_channel else "height and width"
        return (
            f"CUDA, {self._library.limits.name}, {self._type} data, float32 arithmetic\n"
            f"{element_count(self._axes)} elements, each with a window of {self._desc.local_size} along {where}\n"
            f"kernels: {', '.join(kernel.entry for kernel in self._kernels())}"
        )

    def cost(self) -> Cost:
        gpu, tensors = GpuModel.of(self._library.limits), len(self._desc.tensors())
        floor = gpu.memory_us(tensors * self._count * self._type.itemsize)
        between = 2 * self._scratch.size  # written and read
        return Cost(
            traffic={"between the launches": between} if between else {},
            floor_us=floor,
            estimate_us=floor + gpu.memory_us(between) + CAPTURED_LAUNCH_US * len(self._names),
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        desc, argument = self._desc, np.zeros(1, PARAMETERS)
        argument["x"], argument["y"] = tensors["input_tensor"], tensors[self._output]
        argument["dy"] = tensors.get("input_gradient_tensor", 0)
        for name, pointer in self._scratch.pointers(temporary).items():
            argument[name] = pointer
        argument["axes"], argument["count"] = axes_value(self._axes, TENSORS), self._count
        argument["scale"], argument["bias"], argument["beta"] = desc.alpha / desc.local_size, desc.bias, desc.beta
        self._fill_window(argument["window"])
        return in_order([self._library.launch_elements(kernel, self._count, argument) for kernel in self._kernels()])

    def _fill_window(self, window: Struct) -> None:
        before = (self._desc.local_size - 1) // 2
        window["sizes"] = 1
        for number, axis in enumerate(self._dimensions):
            size = self._sizes[axis]
            window["sizes"][:, number] = size
            window["before"][:, number] = min(before, size - 1)
            window["after"][:, number] = min(self._desc.local_size - 1 - before, size - 1)
            window["x"][:, number], window["scratch"][:, number] = self._x[axis], self._packed[axis]


def local_response_plan(desc: LocalResponseDesc, target: Target) -> LocalResponsePlan:
    return LocalResponsePlan(desc, target.library)
