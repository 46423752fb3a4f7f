"""The plan of CONVOLUTION, and of convolutions of other numbers: a kernel of raw_kernels/common/convolution.cuh or convolution_tiles.cuh.

The kernel is instantiated with an arithmetic: the types of elements, their summation, and the epilogue of a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.epilogue import epilogue
from dmlpy.devices.cuda.common.matrix_products import supported_flags
from dmlpy.devices.cuda.common.tile_products import TILE_THREADS, multiplication
from dmlpy.devices.cuda.convolution.geometry import EACH, REDUCTION, TILES, Geometry
from dmlpy.devices.cuda.convolution.tiles import BFLOAT16S, FLOATS, HALVES, TF32, Tile, copies_us, ranked_tiles
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.performance.autotuning import TunablePlan
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel, factors_of
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, Layout, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import FusableDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.common.element_engine import Elementwise
    from dmlpy.devices.cuda.convolution.geometry import Strides
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.plan import Plan
    from dmlpy.operators.convolution import ConvolutionDesc, ConvolvingDesc

_FILE = "convolution/convolve.cu"

LEAST_TILED_CHANNELS = 8
"""The fewest output channels of a group for which tiles are used: with fewer, most of a tile is empty. Estimated, not measured."""

_MOST_BLOCKS = 2**31 - 1

_TENSORS = {"input": "input_tensor", "filter": "filter_tensor", "output": "output_tensor"}
_COPIES = ("packed x", "packed filter")


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic of the kernels.

    Attributes:
        file: the source that defines it, in raw_kernels/.
        name: its C++ type: `Floats<float, Epilogue<Identity>>`.
        struct: its members.
        addresses: for each of its addresses the place of the tensor.
        values: the values of other members.
        tiles: those that its sums may have.
        most_terms: the most terms of sums that tiles compute exactly; None if there is no limit.
    """

    file: str
    name: str
    struct: np.dtype[np.void]
    addresses: Mapping[str, str]
    values: Mapping[str, Any]
    tiles: tuple[Tile, ...]
    most_terms: int | None = None


def tiles_kernel(arithmetic: Arithmetic, tile: Tile) -> Kernel:
    """The instance of `convolve_tiles`."""
    parameters = struct(*((name, np.uint64) for name in _TENSORS), ("arithmetic", arithmetic.struct), *TILES)
    entry = f"convolve_tiles<{arithmetic.name}, {tile.sums}>"
    struct_name = f"TilesParameters<{arithmetic.name}>"
    return Kernel(arithmetic.file, entry, parameters, struct_name, dynamic_shared=True, lowest_capability=tile.lowest_capability)


def each_kernel(arithmetic: Arithmetic, *, backward: bool) -> Kernel:
    """The instance of `convolve_each`."""
    parameters = struct(*((name, np.uint64) for name in _TENSORS), ("arithmetic", arithmetic.struct), ("reduction", REDUCTION), *EACH)
    entry = f"convolve_each<{arithmetic.name}, {'true' if backward else 'false'}>"
    return Kernel(arithmetic.file, entry, parameters, f"EachParameters<{arithmetic.name}>")


class ConvolutionPlan(TunablePlan):
    """A convolution in one launch, after copies of operands that tiles could read only element by element.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        arithmetic: the arithmetic of elements and sums.
        tile: the tile, one of those that the model ranks first; None takes the first.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(self, desc: ConvolvingDesc, library: KernelLibrary, arithmetic: Arithmetic, tile: Tile | None = None) -> None:
        self._desc, self._library, self._arithmetic, self._geometry = desc, library, arithmetic, Geometry(desc)
        self._gpu, geometry = GpuModel.of(library.limits), self._geometry
        self._size = desc.filter_tensor.data_type.numpy.itemsize
        self._bytes = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in desc.tensors().values())
        exact = arithmetic.most_terms is None or geometry.terms <= arithmetic.most_terms
        tiled = exact and geometry.fits_tiles and geometry.group_channels >= LEAST_TILED_CHANNELS
        ranked = ranked_tiles(arithmetic.tiles, geometry, self._size, self._gpu) if tiled else []
        self._tile = tile or next(iter(ranked), None)
        self._others = ranked[1:] if tile is None else []
        self._operands, self._copied = self._placed_for(self._tile)
        self._kernel = each_kernel(arithmetic, backward=geometry.backward) if self._tile is None else tiles_kernel(arithmetic, self._tile)
        word = np.dtype(f"u{self._size}")
        elements = geometry.packed_elements(self._size)
        arrays = [[(name, (elements[number],), word)] if self._copied[number] else [] for number, name in enumerate(_COPIES)]
        self._image, self._filter = (Layout(of_operand, ALIGNMENT) for of_operand in arrays)
        self.constants = ("filter_tensor",) if self._copied[1] else ()
        self.supported_flags = supported_flags(self._tile is not None and self._tile.factors == "tf32")
        self.persistent_size, self.prepared_temporary_size = self._filter.size, self._image.size
        self.temporary_size = self._image.size + self._filter.size
        library.functions([self._kernel, *(step.kernel() for steps in self._copied for step in steps)])

    @property
    def kernel_file(self) -> str:
        return self._kernel.file

    def variants(self) -> Mapping[str, Callable[[], Plan]]:
        if self._tile is None:
            return {}
        copied = bool(self._copied[1])
        plans = {}
        for tile in (self._tile, *self._others):
            if bool(self._placed_for(tile)[1][1]) == copied:
                name = f"{tile.sums} {tile.rows}x{tile.columns}"
                plans[name] = partial(ConvolutionPlan, self._desc, self._library, self._arithmetic, tile)
        return plans

    def _placed_for(self, tile: Tile | None) -> tuple[tuple[Strides, Strides], list[list[Elementwise]]]:
        """How x and the filter lie for tiles, and the steps that copy each of them; none where copies would take longer than they save."""
        geometry, size, given = self._geometry, self._size, self._geometry.in_place()
        if tile is None:
            return given, [[], []]
        missing = [number for number in (0, 1) if not geometry.is_wide(number, given[number], size)]
        steps = [geometry.copies(number, _COPIES[number], size) if number in missing else [] for number in (0, 1)]
        elements = sum(geometry.packed_elements(size)[number] for number in missing)
        wide_us, single_us = (tile.us(geometry, size, self._gpu, wide=wide) for wide in (True, False))
        if not missing or wide_us + copies_us(elements, size, sum(map(len, steps)), self._gpu) > single_us:
            return given, [[], []]
        packed = geometry.packed(size)
        x, w = (packed[number] if number in missing else given[number] for number in (0, 1))
        return (x, w), steps

    def describe(self) -> str:
        geometry, tile = self._geometry, self._tile
        lines = [f"CUDA, {self._library.limits.name}"]
        for name, steps in zip(("x", "filter"), self._copied, strict=True):
            lines += [f"{name} packed by {step.describe()}" for step in steps]
        if tile is None:
            parts, blocks, products = f"{geometry.elements} elements", self._library.element_blocks(geometry.elements), ""
        else:
            tiles, blocks = geometry.tiles(tile.rows, tile.columns), self._blocks(tile)
            parts = f"{tiles} tiles of {tile.rows} channels by {tile.columns} pixels"
            wide = "16 bytes of channels" if self._is_wide() else "elements"
            phases = f", {geometry.phases} phases of pixels" if geometry.phases > 1 else ""
            how = multiplication(self._desc.filter_tensor.data_type.numpy, self._library.limits, tf32=tile.factors == "tf32")
            products = f"{phases}, products {how}, {wide} copied at a time"
        work = f"{parts}, sums of {geometry.terms} terms, {blocks} block{'s' if blocks > 1 else ''}{products}"
        return "\n".join([*lines, f"{self._kernel.entry}: {work}"])

    def _blocks(self, tile: Tile) -> int:
        return min(self._geometry.tiles(tile.rows, tile.columns), _MOST_BLOCKS)

    def _is_wide(self) -> bool:
        return all(self._geometry.is_wide(number, operand, self._size) for number, operand in enumerate(self._operands))

    def cost(self) -> Cost:
        gpu, flops = self._gpu, flops_of(self._desc) or 0
        tf32 = self._tile is not None and self._tile.factors == "tf32"
        factors = factors_of(self._desc.input_tensor, tf32=tf32)
        copied = 2 * (self._image.size + self._filter.size)
        if self._tile is None:
            work_us = gpu.gemm_us(flops, self._bytes, "float")
        else:
            work_us = self._tile.us(self._geometry, self._size, gpu, wide=self._is_wide())
        launches = 1 + sum(map(len, self._copied))
        return Cost(
            traffic={"packed operands": copied} if copied else {},
            floor_us=max(gpu.memory_us(self._bytes), gpu.product_us(flops, factors)),
            estimate_us=max(gpu.memory_us(self._bytes), work_us) + gpu.memory_us(copied) + CAPTURED_LAUNCH_US * launches,
        )

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        return self._copy(1, {**constants, **self._filter.pointers(persistent)})

    def _copy(self, number: int, pointers: Pointers) -> Launch:
        """The launches that copy an operand."""
        return in_order([launch for step in self._copied[number] for launch in step.bind(self._library, pointers)])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = {field: tensors[place] for field, place in _TENSORS.items() if place in tensors}
        of_filter = temporary + self._image.size if persistent is None else persistent
        copies = {**self._image.pointers(temporary), **self._filter.pointers(of_filter)}
        pointers |= {field: copies[place] for field, place in zip(("input", "filter"), _COPIES, strict=True) if place in copies}
        launches = [self._copy(0, {**tensors, **copies})] if self._copied[0] else []
        if persistent is None and self._copied[1]:
            launches.append(self._copy(1, {**tensors, **copies}))
        launches.append(self._launch(pointers, tensors))
        return in_order(launches)

    def _launch(self, pointers: Mapping[str, int], tensors: Pointers) -> Launch:
        """The launch of the convolution itself; `pointers`: the addresses of its operands and of its output."""
        argument, geometry, tile = np.zeros(1, self._kernel.parameters), self._geometry, self._tile
        fields: dict[str, Any] = dict(pointers)
        if tile is None:
            fields["filter"] += geometry.first_tap * self._size
            fields |= {"reduction": geometry.reduction(), **geometry.each_fields()}
        else:
            fields |= geometry.tiles_fields(tile.rows, tile.columns, self._size, self._operands, pointers)
        for field, value in fields.items():
            argument[field] = value
        for field, place in self._arithmetic.addresses.items():
            argument["arithmetic"][field] = tensors.get(place, 0)
        for field, value in self._arithmetic.values.items():
            argument["arithmetic"][field] = value
        if tile is None:
            return self._library.launch_elements(self._kernel, geometry.elements, argument)
        return self._library.launch(self._kernel, (self._blocks(tile),), TILE_THREADS, argument, tile.shared_bytes)


def channel_stride(tensor: TensorDesc | None) -> int:
    """The stride between output channels in a tensor that has one number for each, or one for all."""
    if tensor is None:
        return 0
    return next((stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1), 0)


def float_arithmetic(data_type: np.dtype[Any], function: FusableDesc | None, bias: TensorDesc | None, *, tf32: bool = False) -> Arithmetic:
    """`Floats`.

    Args:
        data_type: of all tensors.
        function: the fused function; None leaves sums as they are.
        bias: the tensor of a bias for each output channel; None adds nothing.
        tf32: whether factors of float32 may be rounded to TF32.
    """
    functor = epilogue(_FILE, function, addend_factor=0.0 if bias is None else 1.0)
    members = struct(("bias", np.uint64), ("bias_stride", np.int64), ("function", functor.struct))
    values = np.zeros((), functor.struct)
    with np.errstate(over="ignore"):
        for name, _, value in functor.members:
            values[name] = value
    name = f"Floats<{scalar_type(data_type)}, {functor.name}>"
    tiles = {"float16": HALVES, "bfloat16": BFLOAT16S}.get(data_type.name, TF32 if tf32 else FLOATS)
    return Arithmetic(_FILE, name, members, {"bias": "bias_tensor"}, {"bias_stride": channel_stride(bias), "function": values}, tiles)


def convolution_plan(desc: ConvolutionDesc, target: Target) -> ConvolutionPlan:
    arithmetic = float_arithmetic(desc.input_tensor.data_type.numpy, desc.fused_activation, desc.bias_tensor, tf32=target.tf32)
    return ConvolutionPlan(desc, target.library, arithmetic)
