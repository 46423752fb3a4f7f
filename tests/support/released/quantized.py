"""Quantization of released programs."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, ReleasedDesc, f16, f32, i4, u4, u8

ROWS = [
    ReleasedDesc(
        CHROMIUM,
        "6_3",
        "quantizeLinear to INT4 in blocks",
        dml.QuantizeDesc(
            input_tensor=f32(4, 8),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(4, 2), i4(4, 2)],
            output_tensor=i4(4, 8),
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "6_3",
        "dequantizeLinear of UINT4 in blocks",
        dml.DequantizeDesc(
            input_tensor=u4(4, 8),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(2, 8), u4(2, 8)],
            output_tensor=f32(4, 8),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MatMulNBits without zero points",
        dml.DequantizeDesc(
            input_tensor=u4(1, 1, 4, 32),
            quantization_type="SCALE",
            quantization_tensors=[f16(1, 1, 4, 2)],
            output_tensor=f16(1, 1, 4, 32),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MatMulNBits whose rows of zero points are rounded up to bytes",
        dml.DequantizeDesc(
            input_tensor=u4(1, 1, 4, 48),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f16(1, 1, 4, 3), u4(1, 1, 4, 3, strides=[16, 16, 4, 1])],
            output_tensor=f16(1, 1, 4, 48),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "DequantizeLinear-21 with a filled and broadcast zero point",
        dml.DequantizeDesc(
            input_tensor=u4(1, 1, 4, 2),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(1, 1, 4, 2), u4(1, 1, 4, 2, strides=[0, 0, 0, 0])],
            output_tensor=f32(1, 1, 4, 2),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "DynamicQuantizeLinear",
        dml.DynamicQuantizeLinearDesc(input_tensor=f32(6), output_tensor=u8(6), output_scale_tensor=f32(1), output_zero_point_tensor=u8(1)),
    ),
]
