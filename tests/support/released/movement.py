"""Movement of elements in released programs."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, TENSORFLOW, ReleasedDesc, f32, i8, i64

_FLOATS = f32(2, 3)

ROWS = [
    ReleasedDesc(CHROMIUM, "4_0", "one input", dml.JoinDesc(input_tensors=[_FLOATS], output_tensor=_FLOATS, axis=0)),
    ReleasedDesc(
        CHROMIUM,
        "4_1",
        "INT64 of three",
        dml.JoinDesc(input_tensors=[i64(1, 3), i64(2, 3), i64(3, 3)], output_tensor=i64(6, 3), axis=0),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "a broadcast bias joined with the recurrent bias",
        dml.JoinDesc(input_tensors=[f32(1, 1, 1, 6, strides=[0, 0, 0, 0]), f32(1, 1, 1, 6)], output_tensor=f32(1, 1, 1, 12), axis=3),
    ),
    ReleasedDesc(CHROMIUM, "4_0", "an uneven split", dml.SplitDesc(input_tensor=f32(2, 6), output_tensors=[f32(2, 2), f32(2, 4)], axis=1)),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "Split-18 of INT8", dml.SplitDesc(input_tensor=i8(7), output_tensors=[i8(4), i8(3)], axis=0)),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "a negative step over the whole axis",
        dml.Slice1Desc(
            input_tensor=f32(4), output_tensor=f32(4), input_window_offsets=[0], input_window_sizes=[4], input_window_strides=[-1]
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "steps of 3 in a window of 5",
        dml.Slice1Desc(
            input_tensor=f32(8), output_tensor=f32(2), input_window_offsets=[2], input_window_sizes=[5], input_window_strides=[3]
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "reverse of one axis",
        dml.Slice1Desc(
            input_tensor=_FLOATS,
            output_tensor=_FLOATS,
            input_window_offsets=[0, 0],
            input_window_sizes=[2, 3],
            input_window_strides=[1, -1],
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "slice with strides of 1",
        dml.SliceDesc(input_tensor=f32(4, 5), output_tensor=_FLOATS, offsets=[1, 2], slice_sizes=[2, 3], strides=[1, 1]),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "StridedSliceGrad",
        dml.SliceGradDesc(
            input_gradient_tensor=f32(1, 1, 1, 2),
            output_gradient_tensor=f32(1, 1, 1, 5),
            input_window_offsets=[0, 0, 0, 1],
            input_window_sizes=[1, 1, 1, 4],
            input_window_strides=[1, 1, 1, 2],
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "reflection",
        dml.PaddingDesc(input_tensor=_FLOATS, output_tensor=f32(4, 7), padding_mode="REFLECTION", start_padding=[1, 2], end_padding=[1, 2]),
    ),
    ReleasedDesc(
        CHROMIUM,
        "5_0",
        "a constant of INT64",
        dml.Padding1Desc(
            input_tensor=i64(2, 3),
            output_tensor=i64(4, 7),
            padding_mode="CONSTANT",
            padding_value_data_type="INT64",
            padding_value=7,
            start_padding=[1, 2],
            end_padding=[1, 2],
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Pad-19 that wraps",
        dml.Padding1Desc(
            input_tensor=_FLOATS,
            output_tensor=f32(2, 7),
            padding_mode="WRAP",
            padding_value_data_type="FLOAT32",
            padding_value=0.0,
            start_padding=[0, 2],
            end_padding=[0, 2],
        ),
    ),
    ReleasedDesc(CHROMIUM, "4_0", "tile", dml.TileDesc(input_tensor=_FLOATS, output_tensor=f32(4, 3), repeats=[2, 1])),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "tile of INT64 below 4_1",
        dml.TileDesc(input_tensor=i64(2, 3), output_tensor=i64(4, 3), repeats=[2, 1]),
        "undocumented",
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "SpaceToDepth",
        dml.SpaceToDepth1Desc(input_tensor=f32(1, 2, 4, 4), output_tensor=f32(1, 8, 2, 2), block_size=2, order="DEPTH_COLUMN_ROW"),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "DepthToSpace in CRD mode",
        dml.DepthToSpace1Desc(input_tensor=f32(1, 8, 2, 2), output_tensor=f32(1, 2, 4, 4), block_size=2, order="COLUMN_ROW_DEPTH"),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "DepthToSpace with channels last",
        dml.DepthToSpaceDesc(
            input_tensor=f32(1, 8, 2, 2, strides=[32, 1, 16, 8]), output_tensor=f32(1, 2, 4, 4, strides=[32, 1, 8, 2]), block_size=2
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "Col2Im",
        dml.FoldDesc(
            input_tensor=f32(1, 5, 5),
            output_tensor=f32(1, 1, 5, 5),
            window_sizes=[1, 5],
            strides=[1, 1],
            dilations=[1, 1],
            start_padding=[0, 0],
            end_padding=[0, 0],
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ImageScaler of 3 channels",
        dml.ValueScale2DDesc(input_tensor=f32(1, 3, 2, 2), output_tensor=f32(1, 3, 2, 2), scale=2.0, bias=[1.0, 2.0, 3.0]),
    ),
]
