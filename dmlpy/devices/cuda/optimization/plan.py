"""ADAM_OPTIMIZER on CUDA: one launch, by raw_kernels/optimization/adam.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import Axis, element_count, merged, vector_width
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.common.vectorized_copy import movement_cost
from dmlpy.devices.cuda.kernels import Kernel, scalar_type, struct
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.optimization import AdamOptimizerDesc

_INPUTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
_OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
_TENSORS = (*_OUTPUTS, *_INPUTS)
ADAM = struct(
    ("inputs", np.uint64, (len(_INPUTS),)),
    ("outputs", np.uint64, (len(_OUTPUTS),)),
    ("step", np.uint64),
    ("axes", axes_type(len(_TENSORS))),
    ("learning_rate", np.float64),
    ("betas", np.float64, (2,)),
    ("weights", np.float32, (4,)),
    ("epsilon", np.float32),
    ("vectors", np.uint32),
)


def adam_kernel(data_type: np.dtype[Any], width: int) -> Kernel:
    """The kernel for tensors of an element type; `width` elements are read and written at once."""
    scalar = scalar_type(data_type)
    return Kernel("optimization/adam.cu", f"adam<{scalar}, {width}>", ADAM, f"AdamParameters<{scalar}>")


class AdamPlan(PlanWithoutConstants):
    """One launch; each thread reads all tensors' elements before it writes them.

    Args:
        desc: a checked desc.
        library: the device's kernels.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: AdamOptimizerDesc, library: KernelLibrary) -> None:
        tensors = desc.tensors()
        self._library, self._desc = library, desc
        self._type = desc.gradient_tensor.data_type.numpy
        self._axes = merged(desc.gradient_tensor.sizes, [tensors[name].element_strides for name in _TENSORS])
        widest = VECTOR_BYTES // self._type.itemsize
        side_by_side = bool(self._axes) and self._axes[-1].strides == (1,) * len(_TENSORS)
        self._width = widest if side_by_side and vector_width(self._axes, widest) == widest else 1
        library.function(adam_kernel(self._type, self._width))

    def describe(self) -> str:
        count, width = element_count(self._axes), self._width
        packs = f", {width} at once where all addresses are multiples of {VECTOR_BYTES} bytes" if width > 1 else ", one by one"
        return f"{adam_kernel(self._type, width).entry}: {count} elements along {len(self._axes)} axes{packs}; float32 arithmetic"

    def cost(self) -> Cost:
        return movement_cost(self._desc, self._library, 1)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        desc, axes = self._desc, self._axes
        width = 1 if any(tensors[name] % VECTOR_BYTES for name in _TENSORS) else self._width
        if width > 1:
            *outer, inner = axes
            axes = (*outer, Axis(inner.size // width, tuple(stride * width for stride in inner.strides)))
        argument = np.zeros(1, ADAM)
        argument["inputs"], argument["outputs"] = ([tensors[name] for name in names] for names in (_INPUTS, _OUTPUTS))
        argument["step"] = tensors["training_step_tensor"]
        argument["axes"], argument["vectors"] = axes_value(axes, len(_TENSORS)), element_count(axes)
        argument["learning_rate"], argument["betas"] = desc.learning_rate, (desc.beta1, desc.beta2)
        argument["weights"], argument["epsilon"] = (desc.beta1, 1 - desc.beta1, desc.beta2, 1 - desc.beta2), desc.epsilon
        return self._library.launch_elements(adam_kernel(self._type, width), element_count(axes), argument)


def adam_plan(desc: AdamOptimizerDesc, target: Target) -> AdamPlan:
    return AdamPlan(desc, target.library)
