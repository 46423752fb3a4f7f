"""Reductions, running results and selections of released programs."""

from __future__ import annotations

import dmlpy as dml
from tests.support.released.rows import CHROMIUM, ONNX_RUNTIME, TENSORFLOW, ReleasedDesc, f16, f32, i32, i64, u32, u64

_FUNCTIONS = ("L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "AVERAGE", "MULTIPLY", "SUM", "SUM_SQUARE", "MAX", "MIN")

ROWS = [
    ReleasedDesc(CHROMIUM, "4_0", "argMax to INT32", dml.ArgmaxDesc(input_tensor=f32(2, 3, 4), output_tensor=i32(2, 1, 4), axes=[1])),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ArgMin with select_last_index",
        dml.ArgminDesc(input_tensor=f16(2, 3), output_tensor=i64(2, 1), axes=[1], axis_direction="DECREASING"),
    ),
    *(
        ReleasedDesc(
            CHROMIUM,
            "4_0",
            "over all axes of 4 dimensions",
            dml.ReduceDesc(function=function, input_tensor=f32(2, 2, 2, 3), output_tensor=f32(1, 1, 1, 1), axes=[0, 1, 2, 3]),
        )
        for function in _FUNCTIONS
    ),
    ReleasedDesc(CHROMIUM, "4_0", "no axes", dml.ReduceDesc(function="SUM", input_tensor=f32(2, 3), output_tensor=f32(2, 3), axes=[])),
    ReleasedDesc(
        CHROMIUM,
        "5_0",
        "reduceSumSquare of INT64",
        dml.ReduceDesc(function="SUM_SQUARE", input_tensor=i64(2, 3), output_tensor=i64(2, 1), axes=[1]),
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "ReduceMean-18 of INT32, registered and not tested",
        dml.ReduceDesc(function="AVERAGE", input_tensor=i32(2, 3), output_tensor=i32(2, 1), axes=[1]),
        "undocumented",
    ),
    ReleasedDesc(
        ONNX_RUNTIME,
        "6_4",
        "TopK-11 of the smallest",
        dml.TopK1Desc(
            input_tensor=f32(3, 4),
            output_value_tensor=f32(3, 2),
            output_index_tensor=u64(3, 2),
            axis=1,
            k=2,
            axis_direction="INCREASING",
        ),
    ),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "TopKV2",
        dml.TopK1Desc(input_tensor=f32(1, 1, 2, 5), output_value_tensor=f32(1, 1, 2, 3), output_index_tensor=u32(1, 1, 2, 3), axis=3, k=3),
    ),
    ReleasedDesc(
        CHROMIUM,
        "4_0",
        "cumulativeSum, exclusive and reversed",
        dml.CumulativeSummationDesc(
            input_tensor=f32(2, 3), output_tensor=f32(2, 3), axis=1, axis_direction="DECREASING", has_exclusive_sum=True
        ),
    ),
    ReleasedDesc(ONNX_RUNTIME, "6_4", "CumSum of UINT64", dml.CumulativeSummationDesc(input_tensor=u64(5), output_tensor=u64(5), axis=0)),
    ReleasedDesc(
        TENSORFLOW,
        "5_0",
        "Cumprod",
        dml.CumulativeProductDesc(input_tensor=f32(1, 1, 2, 3), output_tensor=f32(1, 1, 2, 3), axis=3),
    ),
]
