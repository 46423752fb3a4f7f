"""Convolutions, matrix products, poolings and resizings of released programs."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from tests.support.released.rows import (
    CHROMIUM,
    DIRECTML,
    ONNX_RUNTIME,
    TENSORFLOW,
    WEBNN_NATIVE,
    ReleasedDesc,
    f16,
    f32,
    i8,
    i32,
    u8,
    u32,
    u64,
)

_FLAT: dict[str, Any] = {
    "strides": [1, 1],
    "dilations": [1, 1],
    "start_padding": [0, 0],
    "end_padding": [0, 0],
    "output_padding": [0, 0],
    "group_count": 1,
}
_WINDOW: dict[str, Any] = {"strides": [2, 2], "window_size": [2, 2], "start_padding": [0, 0], "end_padding": [0, 0]}
_HALF: dict[str, Any] = {"interpolation_mode": "LINEAR", "input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4}
FLOAT_MAX = 3.4028234663852886e38


def _nhwc(n: int, c: int, h: int, w: int) -> dml.TensorDesc:
    return f32(n, c, h, w, strides=[h * w * c, 1, w * c, c])


def _convolution(**members: Any) -> Any:
    return dml.ConvolutionDesc(**_FLAT | members)


_CONVOLUTIONS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "depthwise with a bias and a fused relu",
        _convolution(
            input_tensor=f32(1, 4, 5, 5),
            filter_tensor=f32(4, 1, 3, 3),
            bias_tensor=f32(1, 4, 1, 1),
            output_tensor=f32(1, 4, 3, 3),
            group_count=4,
            fused_activation=dml.ActivationReluDesc(),
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "channels last by strides",
        _convolution(input_tensor=_nhwc(1, 4, 5, 5), filter_tensor=_nhwc(2, 4, 3, 3), output_tensor=_nhwc(1, 2, 3, 3)),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "convTranspose2d whose output has padding that the member does not name",
        _convolution(
            input_tensor=f32(1, 1, 3, 3),
            filter_tensor=f32(1, 2, 3, 3),
            output_tensor=f32(1, 2, 10, 8),
            direction="BACKWARD",
            strides=[3, 2],
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "one spatial dimension as a height of 1",
        _convolution(input_tensor=f32(1, 1, 1, 7), filter_tensor=f32(1, 1, 1, 1), output_tensor=f32(1, 1, 1, 7)),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Conv3D_1",
        dml.ConvolutionDesc(
            input_tensor=f32(1, 1, 3, 3, 3),
            filter_tensor=f32(1, 1, 1, 1, 1),
            output_tensor=f32(1, 1, 3, 3, 3),
            strides=[1] * 3,
            dilations=[1] * 3,
            start_padding=[0] * 3,
            end_padding=[0] * 3,
            output_padding=[0] * 3,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ConvTranspose with dilations",
        _convolution(
            input_tensor=f32(1, 1, 3, 3),
            filter_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 5, 5),
            direction="BACKWARD",
            dilations=[2, 2],
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "Conv2DBackpropFilter, which swaps batch and channels by strides",
        _convolution(
            input_tensor=f32(3, 2, 5, 5, strides=[25, 75, 5, 1]),
            filter_tensor=f32(4, 2, 3, 3, strides=[9, 36, 3, 1]),
            output_tensor=f32(3, 4, 3, 3, strides=[9, 27, 3, 1]),
        ),
    ),
    ReleasedDesc(
        DIRECTML,
        "1_0",
        "the sample yolov4, with padding at one end",
        _convolution(
            input_tensor=f32(1, 2, 8, 8),
            filter_tensor=f32(4, 2, 3, 3),
            bias_tensor=f32(1, 4, 1, 1),
            output_tensor=f32(1, 4, 4, 4),
            strides=[2, 2],
            end_padding=[1, 1],
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ConvInteger with padding",
        dml.ConvolutionIntegerDesc(
            input_tensor=u8(1, 1, 3, 3),
            input_zero_point_tensor=u8(1, 1, 1, 1),
            filter_tensor=u8(1, 1, 2, 2),
            output_tensor=i32(1, 1, 4, 4),
            strides=[1, 1],
            dilations=[1, 1],
            start_padding=[1, 1],
            end_padding=[1, 1],
            group_count=1,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "QLinearConv2DTest",
        dml.QuantizedLinearConvolutionDesc(
            input_tensor=u8(1, 1, 7, 7),
            input_scale_tensor=f32(1, 1, 1, 1),
            input_zero_point_tensor=u8(1, 1, 1, 1),
            filter_tensor=u8(1, 1, 1, 1),
            filter_scale_tensor=f32(1, 1, 1, 1),
            filter_zero_point_tensor=u8(1, 1, 1, 1),
            output_scale_tensor=f32(1, 1, 1, 1),
            output_zero_point_tensor=u8(1, 1, 1, 1),
            output_tensor=u8(1, 1, 7, 7),
            strides=[1, 1],
            dilations=[1, 1],
            start_padding=[0, 0],
            end_padding=[0, 0],
            group_count=1,
        ),
    ),
]
_PRODUCTS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "2 dimensions with a broadcast C, alpha and beta",
        dml.GEMMDesc(
            a_tensor=f32(2, 3), b_tensor=f32(3, 4), c_tensor=f32(2, 4, strides=[0, 1]), output_tensor=f32(2, 4), alpha=0.5, beta=0.25
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "matmul with a broadcast B",
        dml.GEMMDesc(
            a_tensor=f32(2, 3, 4, 5), b_tensor=f32(2, 3, 5, 6, strides=[0, 0, 6, 1]), output_tensor=f32(2, 3, 4, 6), alpha=1.0, beta=0.0
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "FusedMatMulActivation with Softmax",
        dml.GEMMDesc(
            a_tensor=f32(1, 1, 4, 8),
            b_tensor=f32(1, 1, 8, 4),
            output_tensor=f32(1, 1, 4, 4),
            fused_activation=dml.ActivationSoftmax1Desc(axes=[3]),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "FusedMatMul with transposed batches",
        dml.GEMMDesc(a_tensor=f32(3, 2, 4, strides=[4, 12, 1]), b_tensor=f32(3, 4, 5), output_tensor=f32(3, 2, 5)),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "MatMul with both factors transposed",
        dml.GEMMDesc(
            a_tensor=f32(1, 1, 3, 2),
            b_tensor=f32(1, 1, 4, 3),
            output_tensor=f32(1, 1, 2, 4),
            trans_a="TRANSPOSE",
            trans_b="TRANSPOSE",
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MatMulInteger with zero points",
        dml.MatrixMultiplyIntegerDesc(
            a_tensor=u8(1, 1, 4, 3),
            a_zero_point_tensor=u8(1, 1, 1, 1),
            b_tensor=u8(1, 1, 3, 2),
            b_zero_point_tensor=u8(1, 1, 1, 1),
            output_tensor=i32(1, 1, 4, 2),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "QLinearMatMul",
        dml.QuantizedLinearMatrixMultiplyDesc(
            a_tensor=u8(1, 1, 2, 4),
            a_scale_tensor=f32(1, 1, 1, 1),
            a_zero_point_tensor=u8(1, 1, 1, 1),
            b_tensor=u8(1, 1, 4, 3),
            b_scale_tensor=f32(1, 1, 1, 1),
            b_zero_point_tensor=u8(1, 1, 1, 1),
            output_scale_tensor=f32(1, 1, 1, 1),
            output_zero_point_tensor=u8(1, 1, 1, 1),
            output_tensor=u8(1, 1, 2, 3),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MatMulIntegerToFloat with a scale for each column and a bias",
        dml.MatrixMultiplyIntegerToFloatDesc(
            a_tensor=u8(1, 1, 4, 128),
            a_scale_tensor=f32(1, 1, 1, 1),
            a_zero_point_tensor=u8(1, 1, 1, 1),
            b_tensor=i8(1, 1, 128, 3),
            b_scale_tensor=f32(1, 1, 1, 3),
            b_zero_point_tensor=i8(1, 1, 1, 3),
            bias_tensor=f32(1, 1, 4, 3, strides=[0, 0, 0, 1]),
            output_tensor=f32(1, 1, 4, 3),
        ),
    ),
]
_POOLINGS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "averagePool2d with channels last",
        dml.AveragePoolingDesc(input_tensor=_nhwc(1, 2, 4, 4), output_tensor=_nhwc(1, 2, 2, 2), **_WINDOW, include_padding=False),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "AveragePool-19 with dilations",
        dml.AveragePooling1Desc(
            input_tensor=f32(1, 1, 4, 4),
            output_tensor=f32(1, 1, 2, 2),
            **(_WINDOW | {"strides": [1, 1]}),
            dilations=[2, 2],
            include_padding=True,
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "l2Pool2d over everything",
        dml.LPPoolingDesc(
            input_tensor=f32(1, 2, 3, 3),
            output_tensor=f32(1, 2, 1, 1),
            strides=[1, 1],
            window_size=[3, 3],
            start_padding=[0, 0],
            end_padding=[0, 0],
            p=2,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "LpPool-18 with dilations",
        dml.LPPooling1Desc(
            input_tensor=f32(1, 1, 4, 4), output_tensor=f32(1, 1, 2, 2), **(_WINDOW | {"strides": [1, 1]}), dilations=[2, 2], p=2
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "maxPool2d rounded up by the output's sizes",
        dml.MaxPoolingDesc(input_tensor=f32(1, 1, 5, 5), output_tensor=f32(1, 1, 3, 3), **(_WINDOW | {"end_padding": [1, 1]})),
    ),
    ReleasedDesc(
        CHROMIUM, "4_0", "maxPool2d of UINT8", dml.MaxPoolingDesc(input_tensor=u8(1, 1, 4, 4), output_tensor=u8(1, 1, 2, 2), **_WINDOW)
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "dilations without indices",
        dml.MaxPooling2Desc(
            input_tensor=f32(1, 1, 4, 4), output_tensor=f32(1, 1, 2, 2), **(_WINDOW | {"strides": [1, 1]}), dilations=[2, 2]
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "indices of UINT64 in 3 spatial dimensions",
        dml.MaxPooling2Desc(
            input_tensor=f32(1, 1, 2, 4, 4),
            output_tensor=f32(1, 1, 1, 2, 2),
            output_indices_tensor=u64(1, 1, 1, 2, 2),
            strides=[2] * 3,
            window_size=[2] * 3,
            start_padding=[0] * 3,
            end_padding=[0] * 3,
            dilations=[1] * 3,
        ),
    ),
    ReleasedDesc(
        WEBNN_NATIVE,
        "3_0",
        "indices of UINT32",
        dml.MaxPooling1Desc(input_tensor=f32(1, 1, 4, 4), output_tensor=f32(1, 1, 2, 2), output_indices_tensor=u32(1, 1, 2, 2), **_WINDOW),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MaxUnPool2D",
        dml.MaxUnpoolingDesc(input_tensor=f32(1, 1, 2, 2), indices_tensor=u64(1, 1, 2, 2), output_tensor=f32(1, 1, 4, 4)),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "MaxPoolGrad",
        dml.MaxPoolingGradDesc(
            input_tensor=f32(1, 1, 4, 4),
            input_gradient_tensor=f32(1, 1, 2, 2),
            output_gradient_tensor=f32(1, 1, 4, 4),
            **_WINDOW,
            dilations=[1, 1],
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "AvgPoolGrad",
        dml.AveragePoolingGradDesc(
            input_gradient_tensor=f32(1, 1, 2, 2), output_gradient_tensor=f32(1, 1, 4, 4), **_WINDOW, include_padding=False
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "QLinearAveragePool",
        dml.QuantizedLinearAveragePoolingDesc(
            input_tensor=u8(1, 2, 4, 4, strides=[32, 1, 8, 2]),
            input_scale_tensor=f32(1, 1, 1, 1),
            input_zero_point_tensor=u8(1, 1, 1, 1),
            output_scale_tensor=f32(1, 1, 1, 1),
            output_zero_point_tensor=u8(1, 1, 1, 1),
            output_tensor=u8(1, 2, 2, 2, strides=[8, 1, 4, 2]),
            **_WINDOW,
            dilations=[1, 1],
            include_padding=False,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "MaxRoiPool",
        dml.ROIPoolingDesc(
            input_tensor=f32(1, 2, 6, 6),
            roi_tensor=f32(1, 1, 3, 5),
            output_tensor=f32(3, 2, 2, 2),
            spatial_scale=1.0,
            pooled_size={"width": 2, "height": 2},
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "RoiAlign-16 with half pixels",
        dml.ROIAlign1Desc(
            input_tensor=f32(1, 1, 5, 5),
            roi_tensor=f32(1, 1, 3, 4),
            batch_indices_tensor=u64(1, 1, 1, 3),
            output_tensor=f32(3, 1, 3, 4),
            reduction_function="AVERAGE",
            interpolation_mode="LINEAR",
            input_pixel_offset=0.5,
            output_pixel_offset=-0.5,
            minimum_samples_per_output=1,
            maximum_samples_per_output=2**32 - 1,
            align_regions_to_corners=False,
        ),
    ),
]
_RESIZINGS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "nearest by 2 and 3",
        dml.ResampleDesc(
            input_tensor=f32(1, 1, 2, 2), output_tensor=f32(1, 1, 4, 6), interpolation_mode="NEAREST_NEIGHBOR", scales=[1, 1, 2, 3]
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "5_1",
        "2 dimensions",
        dml.ResampleDesc(input_tensor=f32(2, 2), output_tensor=f32(4, 6), interpolation_mode="LINEAR", scales=[2, 3]),
    ),
    ReleasedDesc(
        CHROMIUM,
        "6_2",
        "UINT8",
        dml.ResampleDesc(
            input_tensor=u8(1, 1, 2, 2), output_tensor=u8(1, 1, 4, 4), interpolation_mode="NEAREST_NEIGHBOR", scales=[1, 1, 2, 2]
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "ResizeBilinear with half pixels",
        dml.Resample1Desc(input_tensor=f32(1, 1, 2, 2), output_tensor=f32(1, 1, 4, 4), **_HALF, scales=[1, 1, 2, 2]),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "pytorch_half_pixel with the largest float as scale",
        dml.Resample3Desc(
            input_tensor=f32(1, 1, 4, 1), output_tensor=f32(1, 1, 3, 1), **_HALF, scales=[1, 1, 0.75, FLOAT_MAX], antialiased=False
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Resize-18 with antialiasing",
        dml.Resample3Desc(input_tensor=f32(1, 1, 4, 4), output_tensor=f32(1, 1, 2, 2), **_HALF, scales=[1, 1, 0.6, 0.6], antialiased=True),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "ResizeGrad",
        dml.ResampleGradDesc(input_gradient_tensor=f32(1, 1, 4, 4), output_gradient_tensor=f32(1, 1, 2, 2), **_HALF, scales=[1, 1, 2, 2]),
    ),
    ReleasedDesc(
        DIRECTML,
        "1_0",
        "the sample yolov4",
        dml.Upsample2DDesc(
            input_tensor=f16(1, 2, 3, 3),
            output_tensor=f16(1, 2, 6, 6),
            scale_size={"width": 2, "height": 2},
            interpolation_mode="NEAREST_NEIGHBOR",
        ),
    ),
]

ROWS = [*_CONVOLUTIONS, *_PRODUCTS, *_POOLINGS, *_RESIZINGS]
