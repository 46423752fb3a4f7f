"""Normalizations of released programs."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, TENSORFLOW, WEBNN_NATIVE, ReleasedDesc, f32

_IMAGE, _ONE, _CHANNELS = f32(2, 3, 4, 5), f32(1, 3, 1, 1), f32(2, 3, 4, 5, strides=[0, 1, 0, 0])
_STATISTICS = {"mean_tensor": _ONE, "variance_tensor": _ONE, "scale_tensor": _ONE}
_GRADIENTS = {"output_gradient_tensor": _IMAGE, "output_scale_gradient_tensor": _ONE, "output_bias_gradient_tensor": _ONE}

ROWS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "channels first with a fused relu",
        dml.BatchNormalizationDesc(
            input_tensor=_IMAGE, **_STATISTICS, bias_tensor=_ONE, output_tensor=_IMAGE, fused_activation=dml.ActivationReluDesc()
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "a scale of one element by strides of 0",
        dml.BatchNormalizationDesc(
            input_tensor=_IMAGE,
            **(_STATISTICS | {"scale_tensor": f32(1, 3, 1, 1, strides=[0, 0, 0, 0])}),
            bias_tensor=f32(1, 3, 1, 1, strides=[0, 0, 0, 0]),
            output_tensor=_IMAGE,
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "FusedBatchNormGrad in inference",
        dml.BatchNormalizationGradDesc(input_tensor=_IMAGE, input_gradient_tensor=_IMAGE, **_STATISTICS, **_GRADIENTS),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "FusedBatchNorm in training",
        dml.BatchNormalizationTrainingDesc(
            input_tensor=_IMAGE,
            scale_tensor=_ONE,
            bias_tensor=_ONE,
            output_tensor=_IMAGE,
            output_mean_tensor=_ONE,
            output_variance_tensor=_ONE,
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "FusedBatchNormGrad in training",
        dml.BatchNormalizationTrainingGradDesc(input_tensor=_IMAGE, input_gradient_tensor=_IMAGE, **_STATISTICS, **_GRADIENTS),
    ),
    ReleasedDesc(CHROMIUM, "4_0", "layerNormalization without axes", dml.MeanVarianceNormalization1Desc(input_tensor=f32(2, 3), axes=[])),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "instanceNormalization with a broadcast scale",
        dml.MeanVarianceNormalization1Desc(
            input_tensor=_IMAGE, scale_tensor=_CHANNELS, bias_tensor=_CHANNELS, output_tensor=_IMAGE, axes=[2, 3]
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "5_2",
        "a bias alone",
        dml.MeanVarianceNormalization1Desc(input_tensor=_IMAGE, bias_tensor=_CHANNELS, output_tensor=_IMAGE, axes=[2, 3]),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "SimplifiedLayerNormalization",
        dml.MeanVarianceNormalization2Desc(
            input_tensor=f32(2, 3, 4), scale_tensor=f32(2, 3, 4, strides=[0, 0, 1]), axes=[2], use_mean=False, use_variance=True
        ),
    ),
    ReleasedDesc(
        WEBNN_NATIVE,
        "2_0",
        "instanceNorm of 4 dimensions",
        dml.MeanVarianceNormalizationDesc(input_tensor=_IMAGE, scale_tensor=_ONE, bias_tensor=_ONE, output_tensor=_IMAGE),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "LRN of size 3",
        dml.LocalResponseNormalizationDesc(
            input_tensor=_IMAGE, output_tensor=_IMAGE, cross_channel=True, local_size=3, alpha=0.001, beta=0.75, bias=1.0
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "LRNGrad",
        dml.LocalResponseNormalizationGradDesc(
            input_tensor=_IMAGE, input_gradient_tensor=_IMAGE, output_gradient_tensor=_IMAGE, cross_channel=True, local_size=3
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME, "6_4", "LpNormalization of L2", dml.LPNormalizationDesc(input_tensor=f32(1, 1, 2, 3), axis=3, epsilon=0.0, p=2)
    ),
]
