"""Descs of the other operators that show a fact."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.fact_builders import (
    ACCEPTED,
    CHANNELS,
    SIGMOID,
    Shown,
    added,
    attention,
    batch_normalized,
    normalized,
    padded,
    quantized,
)
from tests.support.released.rows import f16, f32, i4, i8, i16, i32, i64, u4, u8, u16, u32, u64

_INDEXING = [
    Shown(
        "indexing-04",
        "3_0",
        ACCEPTED,
        dml.GatherDesc(input_tensor=f32(4), indices_tensor=i64(2), output_tensor=f32(2), axis=0, index_dimensions=1),
    ),
    Shown(
        "indexing-05",
        "6_4",
        "dims.equal",
        dml.GatherDesc(input_tensor=f32(2, 4), indices_tensor=u32(3), output_tensor=f32(2, 3), axis=1, index_dimensions=1),
    ),
    Shown(
        "indexing-09",
        "6_4",
        "type.support",
        dml.OneHotDesc(indices_tensor=u8(1, 1, 3, 1), values_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 1, 3, 4), axis=3),
    ),
    Shown(
        "indexing-11",
        "3_0",
        ACCEPTED,
        dml.GatherDesc(input_tensor=f32(2, 4), indices_tensor=u32(1, 1), output_tensor=f32(1, 4), axis=0, index_dimensions=0),
    ),
    Shown(
        "indexing-12",
        "6_4",
        "size.equal",
        dml.ScatterDesc(input_tensor=f32(3, 3), indices_tensor=u32(2, 3), updates_tensor=f32(1, 3), output_tensor=f32(3, 3), axis=0),
    ),
    Shown(
        "indexing-13",
        "3_0",
        ACCEPTED,
        dml.ScatterDesc(input_tensor=f32(3, 3), indices_tensor=u32(2, 3), updates_tensor=f32(2, 3), output_tensor=f32(3, 3), axis=0),
    ),
    Shown(
        "indexing-14",
        "4_0",
        ACCEPTED,
        dml.GatherND1Desc(
            input_tensor=f32(2, 2, 2),
            indices_tensor=u32(1, 2, 1),
            output_tensor=f32(1, 2, 2),
            input_dimension_count=3,
            indices_dimension_count=2,
            batch_dimension_count=1,
        ),
    ),
    Shown(
        "indexing-15",
        "2_0",
        ACCEPTED,
        dml.OneHotDesc(indices_tensor=u32(1, 1, 3, 1), values_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 1, 3, 4), axis=3),
    ),
    Shown(
        "indexing-10",
        "4_0",
        ACCEPTED,
        dml.NonzeroCoordinatesDesc(input_tensor=f32(2, 2), output_count_tensor=u32(1), output_coordinates_tensor=u32(4, 2, strides=[4, 2])),
    ),
    Shown(
        "movement-01",
        "6_4",
        "type.support",
        dml.ReverseSubsequencesDesc(input_tensor=f32(4, 2), sequence_lengths_tensor=i32(1, 2), output_tensor=f32(4, 2), axis=0),
    ),
]
_REDUCTION = [
    Shown(
        "reduction-01",
        "6_4",
        "top_k_limit",
        dml.TopK1Desc(input_tensor=f32(3), output_value_tensor=f32(4), output_index_tensor=u32(4), axis=0, k=4),
    ),
    Shown(
        "reduction-02",
        "6_4",
        "type.support",
        dml.TopK1Desc(input_tensor=f32(3), output_value_tensor=f32(2), output_index_tensor=i64(2), axis=0, k=2),
    ),
    Shown(
        "reduction-03",
        "6_4",
        "size.equal",
        dml.TopK1Desc(input_tensor=f32(3, 4), output_value_tensor=f32(3, 2), output_index_tensor=u32(3, 2), axis=0, k=2),
    ),
    Shown("reduction-05", "6_4", "type.support", dml.ArgmaxDesc(input_tensor=f32(3), output_tensor=u16(1), axes=[0])),
    Shown("reduction-07", "6_4", "dims.equal", dml.ReduceDesc(function="SUM", input_tensor=f32(2, 3), output_tensor=f32(2), axes=[1])),
    Shown("reduction-08", "4_0", ACCEPTED, dml.ReduceDesc(function="SUM", input_tensor=f32(3), output_tensor=f32(3), axes=[])),
    Shown(
        "reduction-09", "6_4", "type.support", dml.ReduceDesc(function="AVERAGE", input_tensor=i32(2, 3), output_tensor=i32(2, 1), axes=[1])
    ),
    Shown("reduction-10", "4_0", "type.support", dml.ArgmaxDesc(input_tensor=i64(3), output_tensor=u32(1), axes=[0])),
    Shown("reduction-11", "3_0", ACCEPTED, dml.ArgminDesc(input_tensor=f32(2, 3), output_tensor=i32(2, 1), axes=[1])),
    Shown("reduction-12", "3_0", ACCEPTED, dml.ArgminDesc(input_tensor=f32(2, 3), output_tensor=i64(2, 1), axes=[1])),
    Shown(
        "reduction-13",
        "5_0",
        ACCEPTED,
        dml.TopK1Desc(input_tensor=i64(5), output_value_tensor=i64(2), output_index_tensor=u64(2), axis=0, k=2),
    ),
    Shown("reduction-14", "6_4", "type.support", dml.ReduceDesc(function="SUM", input_tensor=u8(2, 3), output_tensor=u8(2, 1), axes=[1])),
    Shown("reduction-15", "5_0", ACCEPTED, dml.CumulativeSummationDesc(input_tensor=i64(4), output_tensor=i64(4), axis=0)),
]
_NORMALIZATION = [
    Shown("normalization-01", "4_0", ACCEPTED, normalized(axes=[])),
    Shown("normalization-03", "5_1", "scale_with_bias", normalized(scale_tensor=CHANNELS)),
    Shown(
        "normalization-04",
        "6_4",
        "statistics_sizes",
        dml.MeanVarianceNormalization1Desc(
            input_tensor=f32(2, 3), scale_tensor=f32(3), bias_tensor=f32(3), output_tensor=f32(2, 3), axes=[1]
        ),
    ),
    Shown("normalization-06", "6_3", ACCEPTED, normalized(dml.MeanVarianceNormalization2Desc, use_mean=False)),
    Shown("normalization-07", "3_1", "statistics_sizes", batch_normalized(mean_tensor=f32(3))),
    Shown("normalization-08", "6_4", "type.equal", batch_normalized(input_tensor=f16(1, 3, 4, 5))),
    Shown(
        "normalization-10",
        "6_4",
        "type.equal",
        normalized(scale_tensor=f16(1, 3, 4, 5, strides=[0, 1, 0, 0]), bias_tensor=f16(1, 3, 4, 5, strides=[0, 1, 0, 0])),
    ),
    Shown("normalization-11", "5_2", ACCEPTED, normalized(scale_tensor=f32(1, 3, 4, 5, strides=[0, 1, 0, 0]))),
    Shown("normalization-12", "3_1", ACCEPTED, normalized(axes=[1, 2, 3])),
    Shown("normalization-13", "3_1", ACCEPTED, batch_normalized(fused_activation=SIGMOID)),
    Shown(
        "resampling-12",
        "6_4",
        "image_channels",
        dml.ValueScale2DDesc(input_tensor=f32(1, 2, 2, 2), output_tensor=f32(1, 2, 2, 2), scale=1.0, bias=[0.0, 0.0]),
    ),
]
_ELEMENTWISE = [
    Shown("elementwise-03", "6_4", "type.support", dml.ElementWiseAbsDesc(input_tensor=u8(3), output_tensor=u8(3))),
    Shown("elementwise-05", "3_0", ACCEPTED, dml.ElementWisePowDesc(input_tensor=i32(3), exponent_tensor=f32(3), output_tensor=i32(3))),
    Shown("elementwise-06", "4_0", ACCEPTED, dml.ElementWiseClipDesc(input_tensor=i8(3), output_tensor=i8(3), min=-1.5, max=1.5)),
    Shown(
        "elementwise-07",
        "5_0",
        ACCEPTED,
        dml.ElementWiseClip1Desc(input_tensor=u8(4), output_tensor=u8(4), min_max_data_type="UNKNOWN", min=0, max=1),
    ),
    Shown(
        "elementwise-10",
        "6_4",
        "type.support",
        dml.ElementWiseIfDesc(condition_tensor=i32(2), a_tensor=f32(2), b_tensor=f32(2), output_tensor=f32(2)),
    ),
    Shown("elementwise-13", "4_1", ACCEPTED, dml.ElementWiseBitAndDesc(a_tensor=i16(2), b_tensor=i16(2), output_tensor=i16(2))),
    Shown("elementwise-14", "6_4", "type.support", dml.ElementWiseAdd1Desc(a_tensor=i32(2), b_tensor=i32(2), output_tensor=i32(2))),
    Shown(
        "elementwise-16",
        "6_4",
        ACCEPTED,
        dml.ElementWiseClipDesc(input_tensor=f32(2), output_tensor=f32(2), min=float("-inf"), max=float("inf")),
    ),
    Shown("elementwise-17", "6_4", ACCEPTED, dml.ElementWiseClipDesc(input_tensor=f32(2), output_tensor=f32(2), min=1.0, max=1.0)),
    Shown(
        "elementwise-19", "6_4", "type.support", dml.ElementWiseLogicalEqualsDesc(a_tensor=f32(2), b_tensor=f32(2), output_tensor=f32(2))
    ),
    Shown("elementwise-20", "6_4", "type.equal", dml.ElementWiseLogicalEqualsDesc(a_tensor=f32(2), b_tensor=f16(2), output_tensor=u8(2))),
    Shown("elementwise-21", "6_4", "type.equal", added(f32(2), f16(2), f32(2))),
    Shown(
        "elementwise-22",
        "2_0",
        ACCEPTED,
        dml.ElementWiseAdd1Desc(a_tensor=f32(1, 1, 1, 2), b_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 1, 1, 2)),
    ),
    Shown("elementwise-23", "5_2", "type.support", dml.ElementWiseDivideDesc(a_tensor=i64(2), b_tensor=i64(2), output_tensor=i64(2))),
    Shown("elementwise-24", "4_0", ACCEPTED, dml.ElementWiseLogicalAndDesc(a_tensor=u32(2), b_tensor=u32(2), output_tensor=u32(2))),
    Shown("elementwise-25", "6_4", "type.support", dml.ElementWiseLogicalNotDesc(input_tensor=f32(2), output_tensor=u8(2))),
    Shown("elementwise-26", "4_1", "level.operator", dml.ElementWiseNegateDesc(input_tensor=i64(2), output_tensor=i64(2))),
    Shown("generation-01", "6_4", "type.support", dml.FillValueConstantDesc(output_tensor=i4(4), value_data_type="INT4", value=0)),
    Shown(
        "generation-02",
        "5_1",
        ACCEPTED,
        dml.DiagonalMatrix1Desc(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 2, 2),
            value_data_type="FLOAT32",
            value=0.0,
            diagonal_fill_begin=-(2**31),
            diagonal_fill_end=2**31 - 1,
        ),
    ),
    Shown("generation-04", "5_0", ACCEPTED, dml.FillValueConstantDesc(output_tensor=i32(2), value_data_type="INT32", value=0)),
    Shown("generation-05", "6_4", "attribute.type", dml.FillValueConstantDesc(output_tensor=f32(2), value_data_type="INT32", value=0)),
]
_ACTIVATION = [
    Shown("activation-01", "3_0", "effective_rank", dml.ActivationSoftmaxDesc(input_tensor=f32(2, 3, 4), output_tensor=f32(2, 3, 4))),
    Shown("activation-02", "5_0", "level.operator", dml.ActivationSoftmax1Desc(input_tensor=f32(2, 3), output_tensor=f32(2, 3), axes=[1])),
    Shown("activation-03", "6_1", "level.operator", dml.ActivationHardSwishDesc(input_tensor=f32(2, 3), output_tensor=f32(2, 3))),
    Shown("activation-05", "3_0", ACCEPTED, dml.ActivationSoftmaxDesc(input_tensor=f32(2, 12), output_tensor=f32(2, 12))),
    Shown(
        "activation-06",
        "6_4",
        "size.equal",
        dml.ActivationParameterizedReluDesc(input_tensor=f32(2, 3), slope_tensor=f32(1, 3), output_tensor=f32(2, 3)),
    ),
    Shown("activation-07", "5_1", ACCEPTED, dml.ActivationReluDesc(input_tensor=i32(2), output_tensor=i32(2))),
]
_MOVEMENT = [
    Shown(
        "movement-04",
        "2_1",
        ACCEPTED,
        dml.Slice1Desc(
            input_tensor=f32(1, 1, 1, 4),
            output_tensor=f32(1, 1, 1, 4),
            input_window_offsets=[0] * 4,
            input_window_sizes=[1, 1, 1, 4],
            input_window_strides=[1, 1, 1, -1],
        ),
    ),
    Shown("movement-07", "6_3", "attribute.level", padded(padding_mode="WRAP")),
    Shown("movement-08", "3_0", ACCEPTED, dml.JoinDesc(input_tensors=[f32(2, 3), f32(2, 3)], output_tensor=f32(4, 3), axis=0)),
    Shown("movement-09", "4_0", "type.support", dml.TileDesc(input_tensor=i64(2), output_tensor=i64(4), repeats=[2])),
    Shown("movement-10", "6_4", "attribute.type", padded(padding_value_data_type="FLOAT16")),
    Shown("movement-11", "6_4", "attribute.length", padded(start_padding=[1], end_padding=[1])),
    Shown("movement-12", "5_0", ACCEPTED, padded(padding_mode="EDGE")),
    Shown(
        "movement-13",
        "6_4",
        "attribute.length",
        dml.Slice1Desc(
            input_tensor=f32(1, 4), output_tensor=f32(1, 2), input_window_offsets=[0], input_window_sizes=[2], input_window_strides=[1]
        ),
    ),
    Shown("movement-14", "4_0", ACCEPTED, padded(dml.PaddingDesc, padding_mode="SYMMETRIC")),
]
_QUANTIZED = [
    Shown(
        "quantized-04",
        "6_4",
        "type.support",
        quantized(dml.DequantizeDesc, input_tensor=i32(2, 4), quantization_tensors=[f32(1, 1)], output_tensor=f32(2, 4)),
    ),
    Shown(
        "quantized-09",
        "6_3",
        "quantization_block",
        quantized(dml.DequantizeDesc, input_tensor=u8(1, 3), quantization_tensors=[f32(1, 2)], output_tensor=f32(1, 3)),
    ),
    Shown(
        "quantized-10",
        "6_3",
        ACCEPTED,
        quantized(
            dml.DequantizeDesc,
            input_tensor=u4(1, 1, 4, 48),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f16(1, 1, 4, 3), u4(1, 1, 4, 3, strides=[16, 16, 4, 1])],
            output_tensor=f16(1, 1, 4, 48),
        ),
    ),
    Shown(
        "quantized-12",
        "6_2",
        "level.operator",
        quantized(dml.QuantizeDesc, input_tensor=f32(1, 4), quantization_tensors=[f32(1, 1)], output_tensor=u8(1, 4)),
    ),
    Shown(
        "quantized-13",
        "6_1",
        "zero_point_level",
        dml.ElementWiseQuantizeLinearDesc(input_tensor=f32(2), scale_tensor=f32(2), output_tensor=u8(2)),
    ),
    Shown(
        "quantized-14", "6_2", ACCEPTED, dml.ElementWiseQuantizeLinearDesc(input_tensor=f32(2), scale_tensor=f32(2), output_tensor=u8(2))
    ),
    Shown(
        "quantized-30",
        "6_3",
        ACCEPTED,
        quantized(
            dml.DequantizeDesc,
            input_tensor=u8(2, 4),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(2, 4, strides=[0, 0]), u8(2, 4, strides=[0, 0])],
            output_tensor=f32(2, 4),
        ),
    ),
    Shown(
        "quantized-31",
        "6_3",
        ACCEPTED,
        quantized(dml.DequantizeDesc, input_tensor=u8(2, 4), quantization_tensors=[f32(1, 1)], output_tensor=f32(2, 4)),
    ),
    Shown(
        "quantized-32",
        "6_3",
        "quantization_tensor_count",
        quantized(dml.DequantizeDesc, input_tensor=u8(2, 4), quantization_tensors=[f32(1, 1), u8(1, 1)], output_tensor=f32(2, 4)),
    ),
    Shown(
        "quantized-33",
        "6_3",
        "quantization_tensor_types",
        quantized(
            dml.DequantizeDesc,
            input_tensor=u8(2, 4),
            quantization_type="SCALE_ZERO_POINT",
            quantization_tensors=[f32(1, 1), i8(1, 1)],
            output_tensor=f32(2, 4),
        ),
    ),
    Shown(
        "quantized-34",
        "6_4",
        "size.equal",
        dml.ElementWiseDequantizeLinearDesc(
            input_tensor=u8(2, 3), scale_tensor=f32(1, 1), zero_point_tensor=u8(2, 3), output_tensor=f32(2, 3)
        ),
    ),
    Shown(
        "quantized-35",
        "4_0",
        ACCEPTED,
        dml.ElementWiseDequantizeLinearDesc(input_tensor=i32(2), scale_tensor=f32(2), zero_point_tensor=i32(2), output_tensor=f32(2)),
    ),
    Shown(
        "quantized-19",
        "4_0",
        ACCEPTED,
        dml.ElementWiseQuantizedLinearAddDesc(
            a_tensor=u8(1, 1, 2, 3),
            a_scale_tensor=f32(1, 1, 1, 1),
            b_tensor=u8(1, 1, 2, 3),
            b_scale_tensor=f32(1, 1, 1, 1),
            output_scale_tensor=f32(1, 1, 1, 1),
            output_tensor=u8(1, 1, 2, 3),
        ),
    ),
]
_ATTENTION = [
    Shown(
        "attention-02",
        "6_1",
        ACCEPTED,
        attention(query_tensor=None, key_tensor=None, value_tensor=None, stacked_query_key_value_tensor=f32(2, 4, 2, 3, 3)),
    ),
    Shown("attention-03", "6_1", ACCEPTED, attention(bias_tensor=f32(18))),
    Shown("attention-04", "6_1", ACCEPTED, attention(mask_tensor=i32(1, 2), mask_type="KEY_SEQUENCE_LENGTH")),
    Shown("attention-05", "6_1", ACCEPTED, attention(mask_tensor=i32(8), mask_type="KEY_QUERY_SEQUENCE_LENGTH_START_END")),
    Shown("attention-06", "6_1", ACCEPTED, attention(mask_tensor=i32(2, 2, 4, 4, strides=[4, 0, 0, 1]), mask_type="BOOLEAN")),
    Shown(
        "attention-08",
        "6_1",
        ACCEPTED,
        attention(key_tensor=None, value_tensor=None, past_key_tensor=f32(2, 2, 3, 3), past_value_tensor=f32(2, 2, 3, 3)),
    ),
    Shown("attention-10", "6_1", ACCEPTED, attention(value_tensor=f32(2, 4, 10), bias_tensor=f32(22), output_tensor=f32(2, 4, 10))),
    Shown(
        "attention-11",
        "6_1",
        ACCEPTED,
        attention(
            query_tensor=None,
            key_tensor=None,
            stacked_query_key_tensor=f32(2, 4, 2, 2, 3),
            value_tensor=f32(2, 4, 10),
            output_tensor=f32(2, 4, 10),
        ),
    ),
    Shown("attention-12", "6_1", "size.equal", attention(bias_tensor=f32(12))),
    Shown(
        "attention-13",
        "6_1",
        ACCEPTED,
        attention(
            past_key_tensor=f32(2, 2, 3, 3),
            past_value_tensor=f32(2, 2, 3, 3),
            output_present_key_tensor=f32(2, 2, 7, 3),
            output_present_value_tensor=f32(2, 2, 7, 3),
            relative_position_bias_tensor=f32(2, 2, 4, 7),
        ),
    ),
    Shown("attention-14", "6_1", ACCEPTED, attention(mask_tensor=i32(2, 2), mask_type="KEY_SEQUENCE_END_START")),
    Shown("attention-15", "6_1", "head_count_divides", attention(head_count=4)),
    Shown("attention-16", "6_1", ACCEPTED, attention(key_tensor=f32(2, 9, 6), value_tensor=f32(2, 9, 6))),
]


ROWS = [*_INDEXING, *_REDUCTION, *_NORMALIZATION, *_ELEMENTWISE, *_ACTIVATION, *_MOVEMENT, *_QUANTIZED, *_ATTENTION]
