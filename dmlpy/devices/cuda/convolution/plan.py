"""The plan of CONVOLUTION, and of convolutions of other numbers: one launch of a kernel of raw_kernels/common/convolution.cuh.

The kernel is instantiated with an arithmetic, which the caller names: what elements are, how they are summed, what is made of a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.convolution.geometry import EACH, REDUCTION, TILE_SIZE, TILE_THREADS, TILES, Geometry
from dmlpy.devices.cuda.epilogue import epilogue
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.machine import CAPTURED_LAUNCH_US, Machine, factors_of
from dmlpy.devices.cuda.plans import Target, plan
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.convolution import ConvolutionDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.descs import FusableDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.convolution import ConvolvingDesc

_FILE = "convolution/convolve.cu"

LEAST_TILED_CHANNELS = 8
"""Output channels of a group from which on tiles are worth it: of fewer, most of a tile would be empty. Forecast, not measured."""

_TENSORS = {"input": "input_tensor", "filter": "filter_tensor", "output": "output_tensor"}


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic of the kernels.

    Attributes:
        file: the source that defines it, in raw_kernels/.
        name: its C++ type: `Floats<float, Epilogue<Identity>>`.
        struct: its members.
        addresses: the place of the tensor that each of its addresses is of.
        values: the values of other members.
    """

    file: str
    name: str
    struct: np.dtype[Any]
    addresses: Mapping[str, str]
    values: Mapping[str, Any]


def convolution_kernel(arithmetic: Arithmetic, *, tiles: bool, backward: bool) -> Kernel:
    """The instance of `convolve_tiles` or of `convolve_each`."""
    parameters = struct(
        *((name, np.uint64) for name in _TENSORS),
        ("arithmetic", arithmetic.struct),
        ("reduction", REDUCTION),
        *(TILES if tiles else EACH),
    )
    name = "tiles" if tiles else "each"
    entry = f"convolve_{name}<{arithmetic.name}, {'true' if backward else 'false'}>"
    return Kernel(arithmetic.file, entry, parameters, f"{name.capitalize()}Parameters<{arithmetic.name}>")


class ConvolutionPlan(PlanWithoutConstants):
    """A convolution in one launch, without scratch.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        arithmetic: what is done with elements and sums.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: ConvolvingDesc, library: KernelLibrary, arithmetic: Arithmetic) -> None:
        self._desc, self._library, self._arithmetic, self._geometry = desc, library, arithmetic, Geometry(desc)
        self._filter_bytes = desc.filter_tensor.data_type.numpy.itemsize
        self._bytes = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in desc.tensors().values())
        self._tiled = self._geometry.group_channels >= LEAST_TILED_CHANNELS
        self._kernel = convolution_kernel(arithmetic, tiles=self._tiled, backward=self._geometry.backward)
        library.function(self._kernel)

    @property
    def _threads(self) -> int:
        """Of all blocks, if each owned one tile or each thread one element."""
        return self._geometry.tiles * TILE_THREADS if self._tiled else self._geometry.elements

    def describe(self) -> str:
        geometry, blocks = self._geometry, self._library.element_blocks(self._threads)
        parts = f"{geometry.tiles} tiles of {TILE_SIZE} channels by {TILE_SIZE} pixels" if self._tiled else f"{geometry.elements} elements"
        work = f"{parts}, sums of {geometry.terms} terms, {blocks} block{'s' if blocks > 1 else ''}"
        return f"CUDA, {self._library.limits.name}\n{self._kernel.entry}: {work}"

    def cost(self) -> Cost:
        machine, flops = Machine.of(self._library.limits), flops_of(self._desc) or 0
        memory_us = machine.memory_us(self._bytes)
        return Cost(
            floor_us=max(memory_us, machine.product_us(flops, factors_of(self._desc.input_tensor))),
            estimate_us=max(memory_us, machine.gemm_us(flops, self._bytes, "float")) + CAPTURED_LAUNCH_US,
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        argument = np.zeros(1, self._kernel.parameters)
        for field, place in _TENSORS.items():
            argument[field] = tensors[place]
        argument["filter"] += self._geometry.first_tap * self._filter_bytes
        for field, place in self._arithmetic.addresses.items():
            argument["arithmetic"][field] = tensors.get(place, 0)
        for field, value in self._arithmetic.values.items():
            argument["arithmetic"][field] = value
        argument["reduction"] = self._geometry.reduction()
        for field, value in (self._geometry.tiles_fields() if self._tiled else self._geometry.each_fields()).items():
            argument[field] = value
        return self._library.launch_elements(self._kernel, self._threads, argument)


def channel_stride(tensor: TensorDesc | None) -> int:
    """From one output channel's number to the next in a tensor that has one for each, or one for all."""
    if tensor is None:
        return 0
    return next((stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1), 0)


def float_arithmetic(data_type: np.dtype[Any], function: FusableDesc | None, bias: TensorDesc | None) -> Arithmetic:
    """`Floats`.

    Args:
        data_type: of all tensors.
        function: the fused function; None leaves sums as they are.
        bias: the tensor of a bias for each output channel; None adds nothing.
    """
    functor = epilogue(_FILE, function, addend_factor=0.0 if bias is None else 1.0)
    members = struct(("bias", np.uint64), ("bias_stride", np.int64), ("function", functor.struct))
    values = np.zeros((), functor.struct)
    with np.errstate(over="ignore"):
        for name, _, value in functor.members:
            values[name] = value
    name = f"Floats<{scalar_type(data_type)}, {functor.name}>"
    return Arithmetic(_FILE, name, members, {"bias": "bias_tensor"}, {"bias_stride": channel_stride(bias), "function": values})


@plan(ConvolutionDesc)
def convolution_plan(desc: ConvolutionDesc, target: Target) -> ConvolutionPlan:
    arithmetic = float_arithmetic(desc.input_tensor.data_type.numpy, desc.fused_activation, desc.bias_tensor)
    return ConvolutionPlan(desc, target.library, arithmetic)
