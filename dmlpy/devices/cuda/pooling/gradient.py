"""The gradients of average and max pooling on CUDA, by raw_kernels/pooling/gradient.cu.

That of max pooling is two launches: the first one leaves the index of each window's largest element in scratch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.common.windows import WINDOW, counts_along, windows_value
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, scalar_type, struct
from dmlpy.devices.cuda.pooling.forward import largest_step
from dmlpy.devices.cuda.pooling.sliding import SPATIAL, pooling_windows
from dmlpy.devices.plan import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.pooling.average import AveragePoolingGradDesc
    from dmlpy.operators.pooling.maximum import MaxPoolingGradDesc
    from dmlpy.operators.pooling.windows import PoolingDesc

_FILE = "pooling/gradient.cu"
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)


@cache
def _covering_type(inputs: int) -> np.dtype[np.void]:
    return struct(
        ("axes", axes_type(1 + inputs + SPATIAL)),
        ("steps", np.int64, (SPATIAL, inputs)),
        ("windows", WINDOW, (SPATIAL,)),
        ("count", np.uint64),
    )


def average_gradient_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(("incoming", np.uint64), ("outgoing", np.uint64), ("covering", _covering_type(1)), ("include_padding", np.int32))
    return Kernel(_FILE, f"average_gradient<{scalar}>", parameters, f"AverageGradientParameters<{scalar}>")


def largest_gradient_kernel(data_type: np.dtype[Any], index_type: np.dtype[Any]) -> Kernel:
    types = f"{scalar_type(data_type)}, {element_type(index_type)}"
    parameters = struct(*((name, np.uint64) for name in ("incoming", "winners", "outgoing")), ("covering", _covering_type(3)))
    return Kernel(_FILE, f"largest_gradient<{types}>", parameters, f"LargestGradientParameters<{types}>")


def _covering_value(
    desc: PoolingDesc,
    sizes: Sequence[int],
    outgoing: Sequence[int],
    inputs: Sequence[Sequence[int]],
    per_output: Sequence[Sequence[int]] = (),
) -> tuple[np.ndarray[Any, Any], int]:
    """The value of a `covering` field, and the elements of the outgoing gradient.

    Args:
        desc: a checked desc.
        sizes: of the outgoing gradient.
        outgoing: its strides.
        inputs: strides of the tensors that have an element for each position.
        per_output: strides of those that have one for each element of the outgoing gradient.
    """
    rank, windows, tensors = len(sizes), pooling_windows(desc), len(inputs) + len(per_output)
    strides = [outgoing, *((*tensor[:2], *(0 for _ in tensor[2:])) for tensor in inputs), *per_output]
    strides += counts_along((1,) * SPATIAL, rank)
    value, count = np.zeros((), _covering_type(tensors)), int(np.prod(sizes, dtype=object))
    value["axes"] = axes_value(merged(sizes, strides), len(strides))
    value["windows"], value["count"] = windows_value(windows), count
    for at, tensor in enumerate(inputs):
        value["steps"][SPATIAL + 2 - rank :, at] = tensor[2:]
    return value, count


def average_gradient_plan(desc: AveragePoolingGradDesc, target: Target) -> StepsPlan:
    """The plan of average pooling's gradient. Raises DeviceError if the kernel cannot be compiled."""
    incoming, outgoing = desc.input_gradient_tensor, desc.output_gradient_tensor
    kernel = average_gradient_kernel(outgoing.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    argument["covering"], count = _covering_value(desc, outgoing.sizes, outgoing.element_strides, [incoming.element_strides])
    argument["include_padding"] = desc.include_padding
    addresses = {"incoming": "input_gradient_tensor", "outgoing": "output_gradient_tensor"}
    return StepsPlan(desc, target.library, [Step(kernel, argument, addresses, count)])


def largest_gradient_plan(desc: MaxPoolingGradDesc, target: Target) -> StepsPlan:
    """The plan of max pooling's gradient. Raises DeviceError if a kernel cannot be compiled."""
    tensors = desc.tensors()
    x, incoming, outgoing = (tensors[name] for name in ("input_tensor", "input_gradient_tensor", "output_gradient_tensor"))
    index_type = UINT32 if x.element_count <= 1 << 32 else UINT64
    scratch = Layout([("winners", incoming.sizes, index_type)], ALIGNMENT)
    positions = packed_strides(incoming.sizes)
    find = largest_step(desc, positions, positions, {"input": "input_tensor", "indices": "winners"}, index_type == UINT64)

    kernel = largest_gradient_kernel(outgoing.data_type.numpy, index_type)
    argument = np.zeros(1, kernel.parameters)
    argument["covering"], count = _covering_value(
        desc, x.sizes, outgoing.element_strides, [incoming.element_strides, positions], [packed_strides(x.sizes)]
    )
    addresses = {"incoming": "input_gradient_tensor", "winners": "winners", "outgoing": "output_gradient_tensor"}
    return StepsPlan(desc, target.library, [find, Step(kernel, argument, addresses, count)], scratch)
