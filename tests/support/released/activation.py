"""Activations of released programs."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, TENSORFLOW, WEBNN_NATIVE, ReleasedDesc, f16, f32, i8


def _unary(kind: Any, tensor: dml.TensorDesc, **members: Any) -> Any:
    return kind(input_tensor=tensor, output_tensor=tensor, **members)


_WPT: tuple[tuple[Any, dict[str, float]], ...] = (
    (dml.ActivationEluDesc, {"alpha": 1.0}),
    (dml.ActivationHardSigmoidDesc, {"alpha": 0.2, "beta": 0.5}),
    (dml.ActivationLeakyReluDesc, {"alpha": 0.01}),
    (dml.ActivationLinearDesc, {"alpha": 1.0, "beta": 0.0}),
    (dml.ActivationReluDesc, {}),
    (dml.ActivationSigmoidDesc, {}),
    (dml.ActivationSoftplusDesc, {"steepness": 1.0}),
    (dml.ActivationSoftsignDesc, {}),
    (dml.ActivationTanhDesc, {}),
)
_OF_TESTS: tuple[tuple[Any, dict[str, float]], ...] = (
    (dml.ActivationCeluDesc, {"alpha": 1.0}),
    (dml.ActivationScaledEluDesc, {"alpha": 1.67, "gamma": 1.05}),
    (dml.ActivationScaledTanhDesc, {"alpha": 2.0, "beta": 1.5}),
    (dml.ActivationThresholdedReluDesc, {"alpha": 0.1}),
    (dml.ActivationParametricSoftplusDesc, {"alpha": 2.0, "beta": 1.5}),
    (dml.ActivationShrinkDesc, {"bias": 0.0, "threshold": 0.5}),
)

ROWS = [
    *(ReleasedDesc(CHROMIUM, "4_0", "a test of 2 dimensions", _unary(kind, f32(4, 6), **members)) for kind, members in _WPT),
    ReleasedDesc(CHROMIUM, "5_1", "relu of INT8", _unary(dml.ActivationReluDesc, i8(2, 3))),
    ReleasedDesc(CHROMIUM, "5_1", "gelu", _unary(dml.ActivationGeluDesc, f32(2, 3))),
    ReleasedDesc(CHROMIUM, "6_2", "hardSwish", _unary(dml.ActivationHardSwishDesc, f16(2, 3), alpha=1 / 6, beta=0.5)),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "QuickGelu", _unary(dml.ActivationSwishDesc, f32(2, 4), sigmoid_input_scale=1.702)),
    ReleasedDesc(WEBNN_NATIVE, "3_0", "softmax of 2 dimensions with ones in front", _unary(dml.ActivationSoftmaxDesc, f32(1, 1, 3, 4))),
    ReleasedDesc(CHROMIUM, "5_1", "softmax along axis 1", _unary(dml.ActivationSoftmax1Desc, f32(2, 3, 4), axes=[1])),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "LogSoftmax over several axes", _unary(dml.ActivationLogSoftmax1Desc, f32(3, 4, 5), axes=[1, 2])),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Hardmax", _unary(dml.ActivationHardmax1Desc, f32(3, 4), axes=[1])),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "prelu with a broadcast slope",
        dml.ActivationParameterizedReluDesc(
            input_tensor=f32(2, 1, 4, 3), slope_tensor=f32(2, 1, 4, 3, strides=[0, 0, 0, 1]), output_tensor=f32(2, 1, 4, 3)
        ),
    ),
    *(ReleasedDesc(ONNX_RUNTIME, "6_4", "activation_op_test.cc", _unary(kind, f32(11), **members)) for kind, members in _OF_TESTS),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Shrink of INT8", _unary(dml.ActivationShrinkDesc, i8(2, 2), bias=1.0, threshold=1.5)),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "ReluGrad",
        dml.ActivationReluGradDesc(
            input_tensor=f32(1, 1, 2, 3), input_gradient_tensor=f32(1, 1, 2, 3), output_gradient_tensor=f32(1, 1, 2, 3)
        ),
    ),
]
