"""Gathers, scatters and lookups of released programs."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, WEBNN_NATIVE, ReleasedDesc, f32, i32, i64, u32, u64

ROWS = [
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gather along axis 1",
        dml.GatherDesc(input_tensor=f32(2, 4), indices_tensor=u32(1, 3), output_tensor=f32(2, 3), axis=1, index_dimensions=1),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_1",
        "gather of INT64 by a scalar",
        dml.GatherDesc(input_tensor=i64(3), indices_tensor=i64(1), output_tensor=i64(1), axis=0, index_dimensions=0),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "2 dimensions of indices into 2 of data",
        dml.GatherDesc(input_tensor=f32(1, 3, 4), indices_tensor=i64(1, 2, 2), output_tensor=f32(2, 2, 4), axis=1, index_dimensions=2),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gatherElements",
        dml.GatherElementsDesc(input_tensor=f32(2, 3), indices_tensor=i32(2, 2), output_tensor=f32(2, 2), axis=1),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "gatherND",
        dml.GatherND1Desc(
            input_tensor=f32(2, 3),
            indices_tensor=u32(2, 2),
            output_tensor=f32(1, 2),
            input_dimension_count=2,
            indices_dimension_count=2,
            batch_dimension_count=0,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "GatherND with batch_dims 1",
        dml.GatherND1Desc(
            input_tensor=f32(2, 2, 2),
            indices_tensor=i64(1, 2, 1),
            output_tensor=f32(1, 2, 2),
            input_dimension_count=3,
            indices_dimension_count=2,
            batch_dimension_count=1,
        ),
    ),
    ReleasedDesc(
        WEBNN_NATIVE,
        "3_0",
        "gatherND",
        dml.GatherNDDesc(
            input_tensor=f32(2, 2),
            indices_tensor=i32(2, 2),
            output_tensor=f32(1, 2),
            input_dimension_count=2,
            indices_dimension_count=2,
        ),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "scatterElements",
        dml.ScatterDesc(input_tensor=f32(3, 3), indices_tensor=i32(2, 3), updates_tensor=f32(2, 3), output_tensor=f32(3, 3), axis=0),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_1",
        "scatterElements of INT64",
        dml.ScatterDesc(input_tensor=i64(3, 3), indices_tensor=i64(2, 3), updates_tensor=i64(2, 3), output_tensor=i64(3, 3), axis=0),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "scatterND of one dimension",
        dml.ScatterNDDesc(
            input_tensor=f32(1, 8),
            indices_tensor=i32(4, 1),
            updates_tensor=f32(1, 4),
            output_tensor=f32(1, 8),
            input_dimension_count=1,
            indices_dimension_count=2,
        ),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "OneHot of INT64",
        dml.OneHotDesc(indices_tensor=i64(2, 3, 1), values_tensor=i64(1, 1, 2), output_tensor=i64(2, 3, 10), axis=2),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "NonZero with coordinates in places of 64 bits",
        dml.NonzeroCoordinatesDesc(input_tensor=f32(2, 2), output_count_tensor=u32(1), output_coordinates_tensor=u32(4, 2, strides=[4, 2])),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ReverseSequence with time first",
        dml.ReverseSubsequencesDesc(input_tensor=f32(4, 2, 1), sequence_lengths_tensor=u64(1, 2, 1), output_tensor=f32(4, 2, 1), axis=0),
    ),
]
