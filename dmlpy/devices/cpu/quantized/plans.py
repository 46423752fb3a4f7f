"""The compiled plans of quantized operators."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import on_copies, plan
from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    DynamicQuantizeLinearDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)
from dmlpy.operators.quantized.products import (
    ConvolutionIntegerDesc,
    MatrixMultiplyIntegerDesc,
    MatrixMultiplyIntegerToFloatDesc,
    QuantizedConvolvingDesc,
    QuantizedLinearAveragePoolingDesc,
    QuantizedLinearConvolutionDesc,
    QuantizedLinearMatrixMultiplyDesc,
    QuantizedProductDesc,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
    from dmlpy.devices.cpu.pooling.byte_plan import QuantizedAveragePoolingPlan
    from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
    from dmlpy.devices.cpu.quantized.divided_convolution import DividedConvolutionPlan
    from dmlpy.devices.cpu.quantized.int4_plan import WidenedPlan
    from dmlpy.devices.cpu.quantized.linear import Element, ElementsPlan
    from dmlpy.devices.cpu.quantized.matrix import ByteProductPlan
    from dmlpy.devices.graphs.lookup_table_desc import LookupConvolutionDesc
    from dmlpy.devices.graphs.quantized_binary_desc import QuantizedBinaryDesc
    from dmlpy.devices.plan import Plan

_BYTES = {DataType.UINT8, DataType.INT8}
_OF_EACH_ROW = ("a_scale_tensor", "a_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
"""The tensors that may have an element for each row."""
_ROLES_OF_TWO = {"output": "output_tensor", "x": "a_tensor", "y": "b_tensor"} | {
    f"{role} {of_role}": f"{name}_{part}"
    for role, name in (("x", "a"), ("y", "b"), ("output", "output"))
    for of_role, part in (("scale", "scale_tensor"), ("zero", "zero_point_tensor"))
}
"""The place of each role's tensor of operators on two quantized tensors."""


@plan(MatrixMultiplyIntegerDesc, MatrixMultiplyIntegerToFloatDesc, QuantizedLinearMatrixMultiplyDesc)
def byte_product_plan(desc: QuantizedProductDesc) -> ByteProductPlan | Float32CopyPlan | str:
    """The plan of a product of matrices."""
    from dmlpy.devices.cpu.quantized.matrix import ByteProductPlan
    from dmlpy.devices.cpu.quantized.products import MOST_TERMS

    if not {desc.a_tensor.data_type, desc.b_tensor.data_type} <= _BYTES:
        return "compiled products of integers are of UINT8 and INT8"
    if desc.a_tensor.sizes[-1] > MOST_TERMS and not isinstance(desc, MatrixMultiplyIntegerDesc):
        return f"a sum of more than {MOST_TERMS} products may not fit in 32 bits"
    if desc.tensors()["output_tensor"].data_type is DataType.FLOAT16:
        from dmlpy.devices.cpu.float32_copies import Float32CopyPlan

        return Float32CopyPlan(desc)
    return ByteProductPlan(with_joined_rows(desc))


def with_joined_rows(desc: QuantizedProductDesc) -> QuantizedProductDesc:
    """The product with matrices of a batch as rows of one matrix, as GEMM has it; unless each row has a scale or zero point of its own."""
    from dmlpy.devices.cpu.matrix.plans import join_rows

    tensors = desc.tensors()
    if any(name in tensors and tensors[name].element_count > 1 for name in _OF_EACH_ROW):
        return desc
    return join_rows(desc, ("a_tensor", "bias_tensor", "output_tensor"))


@plan(ConvolutionIntegerDesc, QuantizedLinearConvolutionDesc)
def byte_convolution_plan(desc: QuantizedConvolvingDesc) -> ByteConvolutionPlan | DividedConvolutionPlan | str:
    """The plan of a convolution."""
    from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
    from dmlpy.devices.cpu.quantized.divided_convolution import divided_plan
    from dmlpy.devices.cpu.quantized.products import MOST_TERMS

    if prod(desc.filter_tensor.sizes[1:]) > MOST_TERMS and not isinstance(desc, ConvolutionIntegerDesc):
        return f"a sum of more than {MOST_TERMS} products may not fit in 32 bits"
    return divided_plan(desc) or ByteConvolutionPlan(desc)


@plan("dmlpy.devices.graphs.lookup_table_desc:LookupConvolutionDesc")
def lookup_convolution_plan(desc: LookupConvolutionDesc) -> ByteConvolutionPlan | str:
    """The plan of a convolution whose results are looked up."""
    from dmlpy.devices.cpu.quantized.convolution import ByteConvolutionPlan
    from dmlpy.devices.cpu.quantized.lookup_table import lookup_plan
    from dmlpy.devices.cpu.quantized.products import host_byte_isa

    if not host_byte_isa().moves_bytes:
        return "a pass of its own looks results up: this processor takes no bytes from any places of registers"
    lookups, convolution = desc.lookups, desc.convolution
    if not set(lookups.table_axes) <= {1}:
        return "tables are not those of filters"
    table = lookup_plan(lookups)
    if isinstance(table, str):
        return table
    plain = byte_convolution_plan(convolution)
    if not isinstance(plain, ByteConvolutionPlan):
        return plain if isinstance(plain, str) else "a pass of its own looks results up of several convolutions"
    return (
        ByteConvolutionPlan(convolution, table) if plain.has_registers_left else "a pass of its own is faster: windows take all registers"
    )


@plan(QuantizedLinearAveragePoolingDesc)
def average_pooling_plan(desc: QuantizedLinearAveragePoolingDesc) -> QuantizedAveragePoolingPlan | str:
    """The plan of an average pooling."""
    from dmlpy.devices.cpu.pooling.byte_plan import QuantizedAveragePoolingPlan
    from dmlpy.devices.cpu.quantized.products import MOST_TERMS

    if prod(desc.window_size) > MOST_TERMS:
        return f"a sum of more than {MOST_TERMS} elements may not fit in 32 bits"
    return QuantizedAveragePoolingPlan(desc)


@plan(ElementWiseQuantizeLinearDesc, ElementWiseDequantizeLinearDesc)
def linear_plan(desc: ElementWiseQuantizeLinearDesc | ElementWiseDequantizeLinearDesc) -> ElementsPlan | WidenedPlan | str:
    """The plan of a scale and a zero point for each element."""
    from dmlpy.devices.cpu.quantized.linear import Element

    assert desc.output_tensor is not None  # guaranteed by the check
    quantizes = isinstance(desc, ElementWiseQuantizeLinearDesc)
    roles = {"output": "output_tensor", "x": "input_tensor", "x scale": "scale_tensor", "x zero": "zero_point_tensor"}
    return _elements_plan(Element.QUANTIZE if quantizes else Element.DEQUANTIZE, desc, roles)


@plan(ElementWiseQuantizedLinearAddDesc)
def add_plan(desc: ElementWiseQuantizedLinearAddDesc) -> ElementsPlan | WidenedPlan | str:
    """The plan of a quantized sum."""
    from dmlpy.devices.cpu.quantized.linear import Element

    return _elements_plan(Element.ADD, desc, _ROLES_OF_TWO)


@plan("dmlpy.devices.graphs.quantized_binary_desc:QuantizedBinaryDesc")
def binary_plan(desc: QuantizedBinaryDesc) -> ElementsPlan | WidenedPlan | str:
    """The plan of an element-wise operator of two quantized tensors."""
    from dmlpy.devices.cpu.quantized.linear import Element

    return _elements_plan(Element(desc.operator), desc, _ROLES_OF_TWO)


@plan(DynamicQuantizeLinearDesc)
@on_copies()
def dynamic_plan(desc: DynamicQuantizeLinearDesc) -> Plan | str:
    """The plan of a quantization with the input's range."""
    from dmlpy.devices.cpu.quantized.int4_plan import WidenedPlan, widened
    from dmlpy.devices.cpu.quantized.linear import DynamicPlan

    if copied := widened(desc):
        inner = dynamic_plan(desc.replace(**copied))
        return inner if isinstance(inner, str) else WidenedPlan(inner, desc, copied)
    tensors = desc.tensors()
    if tensors["input_tensor"].data_type is not DataType.FLOAT32:
        return "a compiled dynamic quantization is of FLOAT32 or FLOAT16"
    if any(not tensors[name].is_packed for name in ("input_tensor", "output_tensor")):
        return "a compiled dynamic quantization needs contiguous tensors"
    return DynamicPlan(tensors)


@plan(QuantizeDesc, DequantizeDesc)
def quantization_plan(desc: QuantizeDesc | DequantizeDesc) -> ElementsPlan | WidenedPlan | str:
    """The plan of scales and zero points for blocks of elements."""
    from dmlpy.devices.cpu.quantized.linear import Element

    roles = {"output": "output_tensor", "x": "input_tensor", "x scale": "quantization_tensors[0]", "x zero": "quantization_tensors[1]"}
    quantizes = isinstance(desc, QuantizeDesc)
    return _elements_plan(Element.QUANTIZE if quantizes else Element.DEQUANTIZE, desc, roles, desc.implied_zero_point)


def _elements_plan(
    operation: Element, desc: OperatorDesc, roles: Mapping[str, str], zero_point: int = 0
) -> ElementsPlan | WidenedPlan | str:
    from dmlpy.devices.cpu.quantized.int4_plan import WidenedPlan, widened

    copied, tensors = widened(desc), desc.tensors()
    if not copied or tensors[roles["output"]].data_type.bits == 4:
        return _plan_of_tensors(operation, tensors, roles, zero_point)
    inner = _plan_of_tensors(operation, {**tensors, **copied}, roles, zero_point)
    return inner if isinstance(inner, str) else WidenedPlan(inner, desc, copied)


def _plan_of_tensors(
    operation: Element, tensors: Mapping[str, TensorDesc], roles: Mapping[str, str], zero_point: int
) -> ElementsPlan | str:
    from dmlpy.devices.cpu.quantized.linear import ElementsPlan

    described = {role: (name, tensors[name]) for role, name in roles.items() if name in tensors}
    byte_roles = {"quantize": {"output"}, "dequantize": {"x"}}.get(operation, {"x", "y", "output"})
    of_bytes = {tensor.data_type for role, (_, tensor) in described.items() if role in byte_roles}
    numbers = {tensor.data_type for role, (_, tensor) in described.items() if role not in byte_roles and "zero" not in role}
    if not of_bytes <= _BYTES or numbers != {DataType.FLOAT32}:
        return "compiled quantization is between FLOAT32 and UINT8 or INT8"
    sizes = tensors["output_tensor"].sizes
    blocks = [{tensor.sizes[axis] for _, tensor in described.values()} - {1} or {1} for axis in range(len(sizes))]
    if any(len(counts) > 2 for counts in blocks):
        return "compiled quantization needs scales and zero points for equal blocks"
    counts = [min(along) for along in blocks]
    steps = {role: _steps_of_blocks(tensor, counts) for role, (_, tensor) in described.items()}
    divided = [part for count, size in zip(counts, sizes, strict=True) for part in (count, size // count)]
    return ElementsPlan(operation, {role: (*described[role], steps[role]) for role in described}, divided, zero_point)


def _steps_of_blocks(tensor: TensorDesc, counts: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor along axes that are divided into blocks: from a block to the next, and within one."""
    steps: list[int] = []
    for size, stride, count in zip(tensor.sizes, tensor.element_strides, counts, strict=True):
        within = 0 if size in (1, count) and size != 1 else stride
        steps += (0, 0) if size == 1 else (stride * (size // count), within)
    return tuple(steps)
