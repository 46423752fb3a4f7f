"""The plan of CONVOLUTION, and of convolutions of other numbers: a kernel of raw_kernels/common/convolution.cuh or convolution_tiles.cuh.

The kernel is instantiated with an arithmetic: the types of elements, their summation, and the epilogue of a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.convolution.geometry import EACH, REDUCTION, TILES, Geometry
from dmlpy.devices.cuda.epilogue import epilogue
from dmlpy.devices.cuda.gpu_model import CAPTURED_LAUNCH_US, GpuModel, factors_of
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.tile_products import TILE_SIDE, TILE_THREADS, multiplication
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.descs import FusableDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.gpu_model import Arithmetic as Arithmetics
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.convolution import ConvolutionDesc, ConvolvingDesc

_FILE = "convolution/convolve.cu"

LEAST_TILED_CHANNELS = 8
"""The fewest output channels of a group for which tiles are used: with fewer, most of a tile is empty. Estimated, not measured."""

_MOST_BLOCKS = 2**31 - 1

_TENSORS = {"input": "input_tensor", "filter": "filter_tensor", "output": "output_tensor"}


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic of the kernels.

    Attributes:
        file: the source that defines it, in raw_kernels/.
        name: its C++ type: `Floats<float, Epilogue<Identity>>`.
        struct: its members.
        addresses: for each of its addresses the place of the tensor.
        values: the values of other members.
        most_terms: the most terms of sums that tiles compute exactly; None if there is no limit.
    """

    file: str
    name: str
    struct: np.dtype[np.void]
    addresses: Mapping[str, str]
    values: Mapping[str, Any]
    most_terms: int | None = None


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


class ConvolutionPlan(Plan):
    """A convolution in one launch. A filter whose terms tiles cannot read in order is packed by a separate launch.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        arithmetic: the arithmetic of elements and sums.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(self, desc: ConvolvingDesc, library: KernelLibrary, arithmetic: Arithmetic) -> None:
        self._desc, self._library, self._arithmetic, self._geometry = desc, library, arithmetic, Geometry(desc)
        self._type = desc.filter_tensor.data_type.numpy
        self._bytes = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in desc.tensors().values())
        exact = arithmetic.most_terms is None or self._geometry.terms <= arithmetic.most_terms
        self._tiled = exact and self._geometry.group_channels >= LEAST_TILED_CHANNELS
        self._kernel = convolution_kernel(arithmetic, tiles=self._tiled, backward=self._geometry.backward)
        self._copy = self._geometry.filter_copy("filter") if self._tiled else None
        self._packed = Layout([("filter", (self._geometry.filter_elements,), self._type)] if self._copy else [], ALIGNMENT)
        self.constants = ("filter_tensor",) if self._copy else ()
        self.persistent_size = self.temporary_size = self._packed.size
        self.prepared_temporary_size = 0
        library.functions([self._kernel, *([self._copy.kernel()] if self._copy else [])])

    def describe(self) -> str:
        geometry = self._geometry
        lines = [f"CUDA, {self._library.limits.name}"]
        if self._copy is not None:
            lines.append(f"filter packed by {self._copy.describe()}")
        if self._tiled:
            parts, blocks = f"{geometry.tiles} tiles of {TILE_SIDE} channels by {TILE_SIDE} pixels", min(geometry.tiles, _MOST_BLOCKS)
            wide = " 16 bytes at a time" if geometry.brings_wide(self._type.itemsize) else ""
            products = (
                f", products {multiplication(self._type, self._library.limits)}, {'channels' if wide else 'elements'} of x read{wide}"
            )
        else:
            parts, blocks, products = f"{geometry.elements} elements", self._library.element_blocks(geometry.elements), ""
        work = f"{parts}, sums of {geometry.terms} terms, {blocks} block{'s' if blocks > 1 else ''}{products}"
        return "\n".join([*lines, f"{self._kernel.entry}: {work}"])

    def cost(self) -> Cost:
        gpu, flops, factors = GpuModel.of(self._library.limits), flops_of(self._desc) or 0, factors_of(self._desc.input_tensor)
        memory_us, copied = gpu.memory_us(self._bytes), 2 * self._packed.size
        arithmetic: Arithmetics = "half" if self._tiled and factors != "float" else "float"
        return Cost(
            traffic={"packed filter": copied} if copied else {},
            floor_us=max(memory_us, gpu.product_us(flops, factors)),
            estimate_us=max(memory_us, gpu.gemm_us(flops, self._bytes, arithmetic))
            + gpu.memory_us(copied)
            + CAPTURED_LAUNCH_US * (2 if copied else 1),
        )

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        return in_order([] if self._copy is None else self._copy.bind(self._library, {**constants, **self._packed.pointers(persistent)}))

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        found = {field: tensors[place] for field, place in _TENSORS.items() if place in tensors}
        found |= self._packed.pointers(temporary if persistent is None else persistent)
        argument, geometry = np.zeros(1, self._kernel.parameters), self._geometry
        if not self._tiled:
            found["filter"] += geometry.first_tap * self._type.itemsize
        for field in _TENSORS:
            argument[field] = found[field]
        for field, place in self._arithmetic.addresses.items():
            argument["arithmetic"][field] = tensors.get(place, 0)
        for field, value in self._arithmetic.values.items():
            argument["arithmetic"][field] = value
        argument["reduction"] = geometry.reduction()
        for field, value in (geometry.tiles_fields(self._type.itemsize, found) if self._tiled else geometry.each_fields()).items():
            argument[field] = value
        if not self._tiled:
            return self._library.launch_elements(self._kernel, geometry.elements, argument)
        launch = self._library.launch(self._kernel, (min(geometry.tiles, _MOST_BLOCKS),), TILE_THREADS, argument)
        return in_order([self.pack(tensors, temporary), launch]) if persistent is None and self.constants else launch


def channel_stride(tensor: TensorDesc | None) -> int:
    """The stride between output channels in a tensor that has one number for each, or one for all."""
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


def convolution_plan(desc: ConvolutionDesc, target: Target) -> ConvolutionPlan:
    arithmetic = float_arithmetic(desc.input_tensor.data_type.numpy, desc.fused_activation, desc.bias_tensor)
    return ConvolutionPlan(desc, target.library, arithmetic)
