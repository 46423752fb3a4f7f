"""MAX_UNPOOLING on CUDA: the three launches of raw_kernels/pooling/unpooling.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import element_type, word_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, struct
from dmlpy.devices.plan import Layout

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.pooling.maximum import MaxUnpoolingDesc

_FILE = "pooling/unpooling.cu"
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)


def forget_kernel(number_type: np.dtype[Any]) -> Kernel:
    number = element_type(number_type)
    return Kernel(_FILE, f"forget<{number}>", struct(("winners", np.uint64), ("count", np.uint64)), f"ForgetParameters<{number}>")


def choose_kernel(index_type: np.dtype[Any], number_type: np.dtype[Any]) -> Kernel:
    types = f"{element_type(index_type)}, {element_type(number_type)}"
    addresses = (("indices", np.uint64), ("winners", np.uint64))
    parameters = struct(*addresses, ("axes", axes_type(1)), ("count", np.uint64), ("elements", np.uint64))
    return Kernel(_FILE, f"choose<{types}>", parameters, f"ChooseParameters<{types}>")


def collect_kernel(data_type: np.dtype[Any], number_type: np.dtype[Any]) -> Kernel:
    types = f"{word_type(data_type)}, {element_type(number_type)}"
    addresses = ((name, np.uint64) for name in ("input", "winners", "output"))
    parameters = struct(*addresses, ("input_axes", axes_type(1)), ("axes", axes_type(2)), ("count", np.uint64))
    return Kernel(_FILE, f"collect<{types}>", parameters, f"CollectParameters<{types}>")


def unpooling_plan(desc: MaxUnpoolingDesc, target: Target) -> StepsPlan:
    """The plan of an unpooling. Raises DeviceError if a kernel cannot be compiled."""
    x, indices, y = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    number_type = UINT32 if x.element_count < 1 << 32 else UINT64
    winners = {"winners": "winners"}

    forget = forget_kernel(number_type)
    forgotten = np.zeros(1, forget.parameters)
    forgotten["count"] = y.element_count

    choose = choose_kernel(indices.data_type.numpy, number_type)
    chosen = np.zeros(1, choose.parameters)
    chosen["axes"], chosen["count"], chosen["elements"] = axes_value(_in_order(indices), 1), x.element_count, y.element_count

    collect = collect_kernel(x.data_type.numpy, number_type)
    collected = np.zeros(1, collect.parameters)
    collected["input_axes"] = axes_value(_in_order(x), 1)
    collected["axes"] = axes_value(merged(y.sizes, (y.element_strides, packed_strides(y.sizes))), 2)
    collected["count"] = y.element_count

    steps = [
        Step(forget, forgotten, winners, y.element_count),
        Step(choose, chosen, winners | {"indices": "indices_tensor"}, x.element_count),
        Step(collect, collected, winners | {"input": "input_tensor", "output": "output_tensor"}, y.element_count),
    ]
    return StepsPlan(desc, target.library, steps, Layout([("winners", y.sizes, number_type)], ALIGNMENT))


def _in_order(tensor: TensorDesc) -> list[Axis]:
    """The axes of a tensor in the order of its dimensions, so that elements are numbered as in a packed one."""
    return [Axis(size, (stride,)) for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True)]
