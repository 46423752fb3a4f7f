"""The plans of the resampling operators: tables of elements along each axis, and a launch of raw_kernels/resampling/resample.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import InterpolationMode
from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import element_type, word_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.kernels import Kernel, scalar_type, struct
from dmlpy.devices.cuda.resampling.tables import AXIS, MOST_AXES, Tables, axes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.cuda.resampling.tables import ResampledAxis
    from dmlpy.operators.resampling import ValueScale2DDesc

_FILE = "resampling/resample.cu"
_TENSORS = 2 + MOST_AXES


def _parameters(*addresses: str) -> np.dtype[np.void]:
    return struct(
        *((name, np.uint64) for name in addresses),
        ("axes", axes_type(_TENSORS)),
        ("tables", AXIS, (MOST_AXES,)),
        ("strides", np.int64, (MOST_AXES,)),
        ("count", np.uint64),
    )


def pick_kernel(data_type: np.dtype[Any]) -> Kernel:
    word = word_type(data_type)
    return Kernel(_FILE, f"pick<{word}>", _parameters("input", "output", "readings"), f"ResampleParameters<{word}>")


def interpolate_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = element_type(data_type)
    return Kernel(_FILE, f"interpolate<{scalar}>", _parameters("input", "output", "readings"), f"ResampleParameters<{scalar}>")


def gradient_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = _parameters("incoming", "outgoing", "readings", "ranges")
    return Kernel(_FILE, f"gradient<{scalar}>", parameters, f"GradientParameters<{scalar}>")


def scale_values_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(
        ("input", np.uint64),
        ("output", np.uint64),
        ("axes", axes_type(3)),
        ("count", np.uint64),
        ("scale", np.float32),
        ("bias", np.float32, (3,)),
    )
    return Kernel(_FILE, f"scale_values<{scalar}>", parameters, f"ScaleValuesParameters<{scalar}>")


def _changed(axes: Sequence[ResampledAxis]) -> list[int]:
    """The most dimensions that are resampled."""
    return [at for at, axis in enumerate(axes) if not axis.changes_nothing]


def _fill(argument: Any, changed: Sequence[int], sizes: Sequence[int], written: Sequence[int], read: Sequence[int]) -> None:
    """Sets the fields for the layout of elements.

    Args:
        argument: the parameters.
        changed: the dimensions with tables.
        sizes: of the tensor whose elements threads own.
        written: its strides.
        read: the strides of the tensor that is read.
    """
    numbers = [tuple(int(at == dimension) for at in range(len(sizes))) for dimension in changed]
    numbers += [(0,) * len(sizes)] * (MOST_AXES - len(changed))
    kept = [0 if at in changed else stride for at, stride in enumerate(read)]
    argument["axes"] = axes_value(merged(sizes, [written, kept, *numbers]), _TENSORS)
    argument["strides"][0, : len(changed)] = [read[at] for at in changed]


def resample_plan(desc: Any, target: Target) -> StepsPlan:
    """Raises DeviceError if a kernel cannot be compiled."""
    tensors = desc.tensors()
    x, y = tensors["input_tensor"], tensors["output_tensor"]
    axes = axes_of(desc, x.sizes, y.sizes)
    changed = _changed(axes)
    tables = Tables(desc, [axes[at] for at in changed], gradient=False)
    nearest = desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR

    kernel = (pick_kernel if nearest else interpolate_kernel)(x.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    _fill(argument, changed, y.sizes, y.element_strides, x.element_strides)
    argument["tables"], argument["count"] = tables.axes, y.element_count
    addresses = {"input": "input_tensor", "output": "output_tensor", "readings": "readings"}
    return StepsPlan(desc, target.library, [*tables.steps(), Step(kernel, argument, addresses, y.element_count)], tables.scratch)


def gradient_plan(desc: Any, target: Target) -> StepsPlan:
    """Raises DeviceError if a kernel cannot be compiled."""
    tensors = desc.tensors()
    incoming, outgoing = tensors["input_gradient_tensor"], tensors["output_gradient_tensor"]
    axes = axes_of(desc, outgoing.sizes, incoming.sizes)
    changed = _changed(axes)
    tables = Tables(desc, [axes[at] for at in changed], gradient=True)

    kernel = gradient_kernel(outgoing.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    _fill(argument, changed, outgoing.sizes, outgoing.element_strides, incoming.element_strides)
    argument["tables"], argument["count"] = tables.axes, outgoing.element_count
    addresses = {"incoming": "input_gradient_tensor", "outgoing": "output_gradient_tensor", "readings": "readings", "ranges": "ranges"}
    return StepsPlan(desc, target.library, [*tables.steps(), Step(kernel, argument, addresses, outgoing.element_count)], tables.scratch)


def scale_values_plan(desc: ValueScale2DDesc, target: Target) -> StepsPlan:
    """Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    x, y = tensors["input_tensor"], tensors["output_tensor"]
    kernel = scale_values_kernel(x.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    argument["axes"] = axes_value(merged(y.sizes, [y.element_strides, x.element_strides, (0, 1, 0, 0)]), 3)
    with np.errstate(over="ignore"):
        argument["count"], argument["scale"] = y.element_count, desc.scale
        argument["bias"][0, : len(desc.bias)] = desc.bias
    return StepsPlan(desc, target.library, [Step(kernel, argument, {"input": "input_tensor", "output": "output_tensor"}, y.element_count)])
