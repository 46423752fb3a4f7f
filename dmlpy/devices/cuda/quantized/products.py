"""Products of matrices of quantized numbers on CUDA: one launch of the kernel of raw_kernels/matrix/integer_product.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.tile_products import MOST_BYTE_TERMS, TILE_THREADS, multiplication
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, STRIDED, Kernel, KernelLibrary, Struct, scalar_type, struct
from dmlpy.devices.cuda.matrix.product import Operand
from dmlpy.devices.cuda.matrix.tiles import TILES, Matrices, ProductSizes
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.quantized.products import (
    MatrixMultiplyIntegerDesc,
    QuantizedLinearMatrixMultiplyDesc,
    QuantizedProductDesc,
)

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target

FILE = "matrix/integer_product.cu"

_QUANTITIES = struct(
    ("data", np.uint64),
    ("zero_points", np.uint64),
    ("strides", np.int64, (4,)),
    ("zero_point_step", np.int64),
    ("type", np.int32),
    ("order", np.int32),
)
_SCALES = struct(("data", np.uint64), ("step", np.int64))
_WHOLE = struct(("output", STRIDED))
_DEQUANTIZED = struct(("output", STRIDED), ("bias", STRIDED), ("a_scale", _SCALES), ("b_scale", _SCALES))
_REQUANTIZED = struct(
    ("output", STRIDED),
    ("zero_points", np.uint64),
    ("zero_point_step", np.int64),
    ("a_scale", _SCALES),
    ("b_scale", _SCALES),
    ("output_scale", _SCALES),
    ("type", np.int32),
)
_FINISHES = {"Whole": _WHOLE, "Dequantized": _DEQUANTIZED, "Requantized": _REQUANTIZED}

BYTES = "bytes"
"""The types of `byte_product`."""
SUMS = {16: "int, long long, long long", 32: "double, double, double"}
"""By the bits of the wider operand, of 16 at least: the types of differences, of their sums in a piece, and of all sums."""


def integer_product_kernel(sums: str, finish: str, output_type: np.dtype[Any] | None = None) -> Kernel:
    """The kernel.

    Args:
        sums: `BYTES` or one of `SUMS`.
        finish: the epilogue of a sum: `Whole`, `Dequantized` or `Requantized`.
        output_type: the result type of `Dequantized`.
    """
    parameters = struct(("a", _QUANTITIES), ("b", _QUANTITIES), ("tiles", TILES), ("finish", _FINISHES[finish]))
    name = finish if output_type is None else f"{finish}<{scalar_type(output_type)}>"
    entry = f"byte_product<{name}>" if sums == BYTES else f"integer_product<{sums}, {name}>"
    return Kernel(FILE, entry, parameters, f"IntegerProductParameters<{name}>")


def _kernel_of(desc: QuantizedProductDesc) -> Kernel:
    if isinstance(desc, MatrixMultiplyIntegerDesc):
        return integer_product_kernel(BYTES, "Whole")  # sums wrap around
    bits = max(desc.a_tensor.data_type.bits, desc.b_tensor.data_type.bits)
    sums = BYTES if bits == 8 and desc.a_tensor.sizes[-1] <= MOST_BYTE_TERMS else SUMS[max(bits, min(SUMS))]
    if isinstance(desc, QuantizedLinearMatrixMultiplyDesc):
        return integer_product_kernel(sums, "Requantized")
    assert desc.output_tensor is not None
    return integer_product_kernel(sums, "Dequantized", desc.output_tensor.data_type.numpy)


def _type_number(tensor: TensorDesc) -> int:
    """An integer type as the kernel's parameters spell it."""
    data_type = tensor.data_type.numpy
    return 2 * (data_type.itemsize.bit_length() - 1) + (data_type.kind == "i")


class IntegerProductPlan(PlanWithoutConstants):
    """A product of quantized matrices.

    Args:
        desc: a checked desc.
        target: the device and the options.

    Raises:
        DeviceError: the kernel cannot be compiled.
    """

    temporary_size = 0

    def __init__(self, desc: QuantizedProductDesc, target: Target) -> None:
        self._library: KernelLibrary = target.library
        self._tensors = desc.tensors()
        self._kernel = _kernel_of(desc)
        self._operands = {
            f"{name}_tensor": Operand(f"{name}_tensor", tensor.data_type.numpy, Matrices.of(tensor))
            for name, tensor in (("a", desc.a_tensor), ("b", desc.b_tensor))
        }
        a, b = self._operands.values()
        self._sizes = ProductSizes.of(a.matrices, b.matrices)
        self._of_bytes = self._kernel.entry.startswith("byte_product")
        self._argument = self._fixed()
        self._library.function(self._kernel)

    def _fixed(self) -> Struct:
        """The parameters without addresses."""
        argument: Struct = np.zeros(1, self._kernel.parameters)
        for name in "ab":
            argument[name]["strides"] = self._operands[f"{name}_tensor"].matrices.strides
            argument[name]["zero_point_step"] = self._step(f"{name}_zero_point_tensor")
            argument[name]["type"] = _type_number(self._tensors[f"{name}_tensor"])
        argument["tiles"] = self._sizes.value()
        finish, output = argument["finish"], self._tensors["output_tensor"]
        fields = finish.dtype.names or ()
        finish["output"]["strides"] = Matrices.of(output).strides
        if "bias" in fields and "bias_tensor" in self._tensors:
            finish["bias"]["strides"] = Matrices.of(self._tensors["bias_tensor"]).strides
        for name in ("a_scale", "b_scale", "output_scale"):
            if name in fields:
                finish[name]["step"] = self._step(f"{name}_tensor")
        if "type" in fields:
            finish["type"], finish["zero_point_step"] = _type_number(output), self._step("output_zero_point_tensor")
        return argument

    def _step(self, name: str) -> int:
        """The stride of a scale or zero point along the only dimension that may be longer than 1; 0 if none is or it is absent."""
        tensor = self._tensors.get(name)
        steps = () if tensor is None else [stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1]
        return steps[0] if steps else 0

    def describe(self) -> str:
        sizes = self._sizes
        lines = [f"CUDA, {self._library.limits.name}"]
        how = f", products {multiplication(np.dtype(np.int8), self._library.limits)}" if self._of_bytes else ""
        lines.append(f"{self._kernel.entry}: {sizes.tiles} tiles of {sizes.terms} terms, {sizes.blocks} blocks{how}")
        return "\n".join(lines)

    def cost(self) -> Cost:
        gpu = GpuModel.of(self._library.limits)
        size = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in self._tensors.values())
        memory_us, flops = gpu.memory_us(size), 2 * self._sizes.multiplications
        return Cost(
            floor_us=max(memory_us, gpu.product_us(flops, "int8")),
            estimate_us=max(memory_us, gpu.gemm_us(flops, size, "float")) + CAPTURED_LAUNCH_US,
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        argument = self._argument.copy()
        for name in "ab":
            argument[name]["data"] = tensors[f"{name}_tensor"]
            argument[name]["zero_points"] = tensors.get(f"{name}_zero_point_tensor", 0)
        finish = argument["finish"]
        fields = finish.dtype.names or ()
        finish["output"]["data"] = tensors["output_tensor"]
        if "bias" in fields:
            finish["bias"]["data"] = tensors.get("bias_tensor", 0)
        for name in ("a_scale", "b_scale", "output_scale"):
            if name in fields:
                finish[name]["data"] = tensors[f"{name}_tensor"]
        if "zero_points" in fields:
            finish["zero_points"] = tensors.get("output_zero_point_tensor", 0)
        argument["a"]["order"] = self._operands["a_tensor"].order(tensors)
        argument["b"]["order"] = self._operands["b_tensor"].transposed().order(tensors)
        return self._library.launch(self._kernel, (self._sizes.blocks,), TILE_THREADS if self._of_bytes else ELEMENT_THREADS, argument)
