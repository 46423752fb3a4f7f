"""Element-wise operators of released programs."""

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
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

FLOAT_MIN, FLOAT_MAX = -3.4028234663852886e38, 3.4028234663852886e38


def _unary(kind: Any, tensor: dml.TensorDesc, **members: Any) -> Any:
    return kind(input_tensor=tensor, output_tensor=tensor, **members)


def _binary(kind: Any, tensor: dml.TensorDesc, **members: Any) -> Any:
    return kind(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor, **members)


def _compare(kind: Any) -> Any:
    return kind(a_tensor=i64(2, 1, 4, 3), b_tensor=i64(2, 1, 4, 3), output_tensor=u8(2, 1, 4, 3))


_WPT = (
    dml.ElementWiseAbsDesc,
    dml.ElementWiseCeilDesc,
    dml.ElementWiseCosDesc,
    dml.ElementWiseErfDesc,
    dml.ElementWiseExpDesc,
    dml.ElementWiseFloorDesc,
    dml.ElementWiseLogDesc,
    dml.ElementWiseRecipDesc,
    dml.ElementWiseSinDesc,
    dml.ElementWiseSqrtDesc,
    dml.ElementWiseTanDesc,
    dml.ElementWiseSignDesc,
)
_TRIGONOMETRIC = (
    dml.ElementWiseAcosDesc,
    dml.ElementWiseAsinDesc,
    dml.ElementWiseAtanDesc,
    dml.ElementWiseSinhDesc,
    dml.ElementWiseCoshDesc,
    dml.ElementWiseTanhDesc,
    dml.ElementWiseAsinhDesc,
    dml.ElementWiseAcoshDesc,
    dml.ElementWiseAtanhDesc,
)
_COMPARISONS = (
    dml.ElementWiseLogicalEqualsDesc,
    dml.ElementWiseLogicalGreaterThanDesc,
    dml.ElementWiseLogicalLessThanDesc,
    dml.ElementWiseLogicalGreaterThanOrEqualDesc,
    dml.ElementWiseLogicalLessThanOrEqualDesc,
)
_LOGIC = (dml.ElementWiseLogicalAndDesc, dml.ElementWiseLogicalOrDesc, dml.ElementWiseLogicalXorDesc)
_BITS = (dml.ElementWiseBitAndDesc, dml.ElementWiseBitOrDesc, dml.ElementWiseBitXorDesc)
_OF_FIVE = (
    dml.ElementWiseSubtractDesc,
    dml.ElementWiseMultiplyDesc,
    dml.ElementWiseDivideDesc,
    dml.ElementWiseMaxDesc,
    dml.ElementWiseMinDesc,
)
_FOUR, _FIVE = f32(2, 1, 4, 3), f32(2, 1, 4, 1, 3)

ROWS = [
    *(ReleasedDesc(CHROMIUM, "4_0", "a test of 4 dimensions", _unary(kind, _FOUR)) for kind in _WPT),
    *(ReleasedDesc(ONNX_RUNTIME, "6_4", "element_wise_ops_test.cc", _unary(kind, f32(3))) for kind in _TRIGONOMETRIC),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Round", _unary(dml.ElementWiseRoundDesc, f32(15), rounding_mode="HALVES_TO_NEAREST_EVEN")),
    ReleasedDesc(CHROMIUM, "4_0", "roundEven", _unary(dml.ElementWiseRoundDesc, _FOUR, rounding_mode="HALVES_TO_NEAREST_EVEN")),
    ReleasedDesc(TENSORFLOW, "5_0", "Rint", _unary(dml.ElementWiseRoundDesc, f16(1, 1, 1, 6), rounding_mode="HALVES_TO_NEAREST_EVEN")),
    ReleasedDesc(CHROMIUM, "4_0", "a scalar as one dimension", _unary(dml.ElementWiseIdentityDesc, f32(1))),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "transpose by permuted strides",
        dml.ElementWiseIdentityDesc(input_tensor=f32(3, 4, 2, 1, strides=[1, 3, 12, 24]), output_tensor=f32(3, 4, 2, 1)),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "expand by strides of 0",
        dml.ElementWiseIdentityDesc(input_tensor=f32(2, 3, 4, strides=[0, 1, 0]), output_tensor=f32(2, 3, 4)),
    ),
    ReleasedDesc(CHROMIUM, "4_0", "neg of INT32", _unary(dml.ElementWiseIdentityDesc, i32(2, 3), scale_bias={"scale": -1, "bias": 0})),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Neg of INT64", _unary(dml.ElementWiseIdentityDesc, i64(4), scale_bias={"scale": -1, "bias": 0})),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Affine", _unary(dml.ElementWiseIdentityDesc, f32(2, 2), scale_bias={"scale": 0.5, "bias": 2})),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a transpose of booleans of 8 dimensions",
        dml.ElementWiseIdentityDesc(
            input_tensor=u8(2, 1, 3, 1, 2, 1, 1, 2, strides=[1, 2, 2, 6, 6, 12, 12, 12]), output_tensor=u8(2, 1, 3, 1, 2, 1, 1, 2)
        ),
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "a copy of FLOAT64", _unary(dml.ElementWiseIdentityDesc, f64(2, 3))),
    ReleasedDesc(TENSORFLOW, "5_0", "Neg of INT64", _unary(dml.ElementWiseNegateDesc, i64(1, 1, 1, 4))),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "a broadcast by strides of 0",
        dml.ElementWiseAddDesc(a_tensor=_FOUR, b_tensor=f32(2, 1, 4, 3, strides=[0, 0, 0, 1]), output_tensor=_FOUR),
    ),
    ReleasedDesc(CHROMIUM, "5_1", "add of INT8", _binary(dml.ElementWiseAddDesc, i8(2, 3))),
    ReleasedDesc(CHROMIUM, "4_1", "add of UINT64", _binary(dml.ElementWiseAddDesc, u64(2, 3))),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "add with a fused sigmoid",
        _binary(dml.ElementWiseAdd1Desc, _FOUR, fused_activation=dml.ActivationSigmoidDesc()),
    ),
    ReleasedDesc(
        ONNX_RUNTIME, "6_4", "BiasGelu", _binary(dml.ElementWiseAdd1Desc, f32(1, 2, 4, 8), fused_activation=dml.ActivationGeluDesc())
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "DmlFusedAdd with LeakyRelu",
        _binary(dml.ElementWiseAdd1Desc, f16(1, 1, 2, 8), fused_activation=dml.ActivationLeakyReluDesc(alpha=0.1)),
    ),
    *(ReleasedDesc(CHROMIUM, "4_0", "a test of 5 dimensions", _binary(kind, _FIVE)) for kind in _OF_FIVE),
    ReleasedDesc(CHROMIUM, "6_0", "div of INT64", _binary(dml.ElementWiseDivideDesc, i64(2, 3))),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Max_12 of UINT64 with a scalar",
        dml.ElementWiseMaxDesc(a_tensor=u64(1, 3), b_tensor=u64(1, 3, strides=[0, 0]), output_tensor=u64(1, 3)),
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Mean of two", _binary(dml.ElementWiseMeanDesc, f32(1, 3))),
    ReleasedDesc(CHROMIUM, "4_0", "pow", dml.ElementWisePowDesc(input_tensor=_FOUR, exponent_tensor=_FOUR, output_tensor=_FOUR)),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Pow-12 with an exponent of another type",
        dml.ElementWisePowDesc(input_tensor=i32(6), exponent_tensor=f32(6), output_tensor=i32(6)),
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Pow with a constant exponent", _unary(dml.ElementWiseConstantPowDesc, f32(2, 2), exponent=2.0)),
    ReleasedDesc(CHROMIUM, "4_0", "clamp of INT8 with float limits", _unary(dml.ElementWiseClipDesc, i8(2, 3), min=-1.0, max=1.0)),
    ReleasedDesc(WEBNN_NATIVE, "3_0", "clamp to infinity", _unary(dml.ElementWiseClipDesc, f32(4), min=0.0, max=float("inf"))),
    ReleasedDesc(CHROMIUM, "5_0", "clamp of UINT64", _unary(dml.ElementWiseClip1Desc, u64(4), min_max_data_type="UINT64", min=1, max=9)),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Clip_6 with the lowest float",
        _unary(dml.ElementWiseClip1Desc, f32(3, 3), min_max_data_type="FLOAT32", min=FLOAT_MIN, max=5.0),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Cast to bool, which leaves the limits' type 0",
        _unary(dml.ElementWiseClip1Desc, u8(4), min_max_data_type="UNKNOWN", min=0, max=1),
    ),
    ReleasedDesc(DIRECTML, "1_0", "dml::Threshold", _unary(dml.ElementWiseThresholdDesc, f32(1, 1, 2, 3), min=0.25)),
    *(ReleasedDesc(CHROMIUM, "4_0", "booleans of UINT8", _binary(kind, u8(2, 3))) for kind in _LOGIC),
    ReleasedDesc(CHROMIUM, "4_0", "logicalNot", _unary(dml.ElementWiseLogicalNotDesc, u8(2, 3))),
    *(ReleasedDesc(CHROMIUM, "4_1", "a comparison of INT64", _compare(kind)) for kind in _COMPARISONS),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "IsNaN of FLOAT16", dml.ElementWiseIsNaNDesc(input_tensor=f16(2, 2), output_tensor=u8(2, 2))),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "IsInf of negative numbers",
        dml.ElementWiseIsInfinityDesc(input_tensor=f32(2, 2), output_tensor=u8(2, 2), infinity_mode="NEGATIVE"),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "where with a broadcast condition",
        dml.ElementWiseIfDesc(condition_tensor=u8(2, 3, strides=[0, 1]), a_tensor=f32(2, 3), b_tensor=f32(2, 3), output_tensor=f32(2, 3)),
    ),
    ReleasedDesc(
        CHROMIUM,
        "5_0",
        "where of INT64",
        dml.ElementWiseIfDesc(condition_tensor=u8(2, 3), a_tensor=i64(2, 3), b_tensor=i64(2, 3), output_tensor=i64(2, 3)),
    ),
    *(ReleasedDesc(ONNX_RUNTIME, "6_4", "Bitwise of INT16", _binary(kind, i16(3))) for kind in _BITS),
    ReleasedDesc(CHROMIUM, "4_0", "the sign of FLOAT16 cleared as UINT16", _binary(dml.ElementWiseBitAndDesc, u16(2, 3))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "BitwiseNot of UINT8", _unary(dml.ElementWiseBitNotDesc, u8(3))),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "PopulationCount of INT64",
        dml.ElementWiseBitCountDesc(input_tensor=i64(1, 1, 1, 4), output_tensor=u8(1, 1, 1, 4)),
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "BitShift left of UINT64", _binary(dml.ElementWiseBitShiftLeftDesc, u64(3))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "BitShift right of UINT64", _binary(dml.ElementWiseBitShiftRightDesc, u64(3))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Mod with fmod 1", _binary(dml.ElementWiseModulusTruncateDesc, f32(6))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Mod of INT8", _binary(dml.ElementWiseModulusFloorDesc, i8(6))),
    ReleasedDesc(TENSORFLOW, "5_0", "SquaredDifference", _binary(dml.ElementWiseDifferenceSquareDesc, f32(1, 1, 2, 3))),
    ReleasedDesc(TENSORFLOW, "5_0", "Atan2", _binary(dml.ElementWiseAtanYXDesc, f32(1, 1, 2, 3))),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "a scale for the whole tensor by strides of 0",
        dml.ElementWiseQuantizeLinearDesc(
            input_tensor=f32(2, 3),
            scale_tensor=f32(2, 3, strides=[0, 0]),
            zero_point_tensor=u8(2, 3, strides=[0, 0]),
            output_tensor=u8(2, 3),
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "INT32 with a scale for each row",
        dml.ElementWiseDequantizeLinearDesc(
            input_tensor=i32(2, 3),
            scale_tensor=f32(2, 3, strides=[1, 0]),
            zero_point_tensor=i32(2, 3, strides=[1, 0]),
            output_tensor=f32(2, 3),
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "DequantizeLinear-19 of FLOAT16 without a zero point",
        dml.ElementWiseDequantizeLinearDesc(
            input_tensor=i8(1, 1, 1, 4), scale_tensor=f16(1, 1, 1, 4, strides=[0, 0, 0, 0]), output_tensor=f16(1, 1, 1, 4)
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "QLinearAdd",
        dml.ElementWiseQuantizedLinearAddDesc(
            a_tensor=u8(1, 1, 2, 3),
            a_scale_tensor=f32(1, 1, 1, 1),
            a_zero_point_tensor=u8(1, 1, 1, 1),
            b_tensor=u8(1, 1, 2, 3),
            b_scale_tensor=f32(1, 1, 1, 1),
            b_zero_point_tensor=u8(1, 1, 1, 1),
            output_scale_tensor=f32(1, 1, 1, 1),
            output_zero_point_tensor=u8(1, 1, 1, 1),
            output_tensor=u8(1, 1, 2, 3),
        ),
    ),
    ReleasedDesc(CHROMIUM, "4_0", "cast of FLOAT32 to UINT64", dml.CastDesc(input_tensor=f32(2, 3), output_tensor=u64(2, 3))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Cast of FLOAT64 to FLOAT16", dml.CastDesc(input_tensor=f64(2, 3), output_tensor=f16(2, 3))),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Cast of UINT8 to FLOAT32", dml.CastDesc(input_tensor=u8(2, 3), output_tensor=f32(2, 3))),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Range of INT64",
        dml.FillValueSequenceDesc(output_tensor=i64(5), value_data_type="INT64", value_start=1, value_delta=2),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "a sequence for constants",
        dml.FillValueSequenceDesc(output_tensor=f32(2, 3), value_data_type="FLOAT32", value_start=0.0, value_delta=1.0),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a zero point",
        dml.FillValueConstantDesc(output_tensor=u8(1), value_data_type="UINT8", value=0),
    ),
    ReleasedDesc(
        TENSORFLOW, "5_0", "zeros", dml.FillValueConstantDesc(output_tensor=f16(1, 1, 2, 3), value_data_type="FLOAT16", value=0.0)
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "EyeLike with k -1", dml.DiagonalMatrixDesc(output_tensor=f32(1, 1, 4, 4), offset=-1, value=1.0)),
    ReleasedDesc(
        CHROMIUM,
        "5_1",
        "triangular, filled from INT32_MIN on",
        dml.DiagonalMatrix1Desc(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 2, 2),
            value_data_type="FLOAT32",
            value=0.0,
            diagonal_fill_begin=-(2**31),
            diagonal_fill_end=0,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Trilu of INT64, filled to INT32_MAX",
        dml.DiagonalMatrix1Desc(
            input_tensor=i64(1, 1, 3, 3),
            output_tensor=i64(1, 1, 3, 3),
            value_data_type="INT64",
            value=0,
            diagonal_fill_begin=1,
            diagonal_fill_end=2**31 - 1,
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "PHILOX_4X32_10",
        dml.RandomGeneratorDesc(input_state_tensor=u32(1, 1, 1, 6), output_tensor=u32(1, 1, 1, 20), type="PHILOX_4X32_10"),
    ),
]
