"""The plans of operators on quantized elements."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
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
    QuantizedLinearAveragePoolingDesc,
    QuantizedLinearConvolutionDesc,
    QuantizedLinearMatrixMultiplyDesc,
)

attach_plan("dmlpy.devices.cuda.quantized.convolution:quantized_convolution_plan", ConvolutionIntegerDesc, QuantizedLinearConvolutionDesc)
attach_plan("dmlpy.devices.cuda.quantized.dynamic:dynamic_quantize_plan", DynamicQuantizeLinearDesc)
attach_plan("dmlpy.devices.cuda.quantized.linear:linear_plan", ElementWiseQuantizeLinearDesc, ElementWiseDequantizeLinearDesc)
attach_plan("dmlpy.devices.cuda.quantized.linear:add_plan", ElementWiseQuantizedLinearAddDesc)
attach_plan("dmlpy.devices.cuda.quantized.linear:blocks_plan", QuantizeDesc, DequantizeDesc)
attach_plan("dmlpy.devices.cuda.quantized.pooling:quantized_average_plan", QuantizedLinearAveragePoolingDesc)
attach_plan(
    "dmlpy.devices.cuda.quantized.products:IntegerProductPlan",
    MatrixMultiplyIntegerDesc,
    MatrixMultiplyIntegerToFloatDesc,
    QuantizedLinearMatrixMultiplyDesc,
)
