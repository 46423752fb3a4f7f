"""Results that show a fact: inputs, and the numbers that dmlpy gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from tests.support.released.rows import f32, i8, i32, i64, u4, u8, u32

NAN = float("nan")
FLOAT_MAX = 3.4028234663852886e38


class Valued(NamedTuple):
    """A desc with inputs whose results show a fact.

    Attributes:
        fact: the fact's name.
        desc: the desc.
        inputs: the inputs' elements by member.
        result: the elements of the first output.
        directml: the elements that DirectML gives, where the fact is that it differs.
    """

    fact: str
    desc: OperatorDesc
    inputs: dict[str, Any]
    result: list[float]
    directml: list[float] | None = None


def _resample(mode: str, scale: float, offset: float, output_offset: float, count: int = 4) -> Any:
    members: dict[str, Any] = {"interpolation_mode": mode, "scales": [1, 1, 1, scale]}
    members |= {"input_pixel_offsets": [0.5, 0.5, 0.5, offset], "output_pixel_offsets": [-0.5, -0.5, -0.5, output_offset]}
    return dml.Resample1Desc(input_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 1, 1, count), **members)


def _resample3(rows: int, out: int, offset: float, output_offset: float, scale: float, **members: Any) -> Any:
    given: dict[str, Any] = {"interpolation_mode": "LINEAR", "scales": [1, 1, 1, scale]}
    given |= {"input_pixel_offsets": [0.5, 0.5, 0.5, offset], "output_pixel_offsets": [-0.5, -0.5, -0.5, output_offset]}
    return dml.Resample3Desc(input_tensor=f32(1, 1, rows, 4), output_tensor=f32(1, 1, rows, out), **given | members)


def _recurrent(kind: Any, steps: int, batch: int, gates: int, direction: str = "FORWARD", **members: Any) -> Any:
    relu = dml.ActivationReluDesc()
    given: dict[str, Any] = {
        "input_tensor": f32(1, steps, batch, 1),
        "weight_tensor": f32(1, 1, gates, 1),
        "recurrence_tensor": f32(1, 1, gates, 1),
        "output_sequence_tensor": f32(steps, 1, batch, 1),
        "direction": direction,
        "activation_descs": [relu] if gates == 1 else [dml.ActivationSigmoidDesc(), relu],
    }
    return kind(**given | members)


def _quantized(x: float, zero: int, result: int, directml: int) -> Valued:
    one = f32(1)
    desc = dml.ElementWiseQuantizeLinearDesc(input_tensor=one, scale_tensor=one, zero_point_tensor=i8(1), output_tensor=i8(1))
    name = {(-5, 0): "quantized-15", (5, -23): "quantized-16", (-5, 23): "quantized-17"}[(int(x), zero)]
    return Valued(name, desc, {"input_tensor": [x], "scale_tensor": [0.039215686], "zero_point_tensor": [zero]}, [result], [directml])


def _by_scale(kind: Any, given: dml.TensorDesc, out: dml.TensorDesc) -> Any:
    return kind(input_tensor=given, quantization_type="SCALE", quantization_tensors=[f32(1, 1)], output_tensor=out)


def _gru(before: bool) -> Valued:
    """One step of one unit with a state of 1, where gates are 0.5 and the recurrence and its bias are 1."""
    desc = _recurrent(
        dml.GRUDesc,
        1,
        1,
        3,
        bias_tensor=f32(1, 1, 1, 6),
        hidden_init_tensor=f32(1, 1, 1, 1),
        linear_before_reset=before,
    )
    inputs = {"input_tensor": [0], "weight_tensor": [0, 0, 0], "recurrence_tensor": [0, 0, 1], "bias_tensor": [0, 0, 0, 0, 0, 1]}
    return Valued("recurrent-46", desc, inputs | {"hidden_init_tensor": [1]}, [1.0] if before else [1.25])


_ONES = {"weight_tensor": [1], "recurrence_tensor": [1]}
_HALVES = "HALVES_TO_NEAREST_EVEN"

VALUED = [
    _quantized(-5, 0, -127, -128),
    _quantized(5, -23, 104, 105),
    _quantized(-5, 23, -104, -105),
    _gru(before=True),
    _gru(before=False),
    Valued(
        "recurrent-25",
        _recurrent(dml.RNNDesc, 3, 2, 1, sequence_lengths_tensor=u32(1, 1, 1, 2), output_single_tensor=f32(1, 1, 2, 1)),
        {"input_tensor": [1, 2, 3, 4, 5, 6], **_ONES, "sequence_lengths_tensor": [2, 1]},
        [1, 2, 4, 0, 0, 0],
    ),
    Valued(
        "recurrent-47",
        _recurrent(dml.RNNDesc, 2, 2, 1, sequence_lengths_tensor=u32(1, 1, 1, 2), output_single_tensor=f32(1, 1, 2, 1)),
        {"input_tensor": [1, 2, 3, 4], **_ONES, "sequence_lengths_tensor": [2, 0]},
        [1, 0, 4, 0],
    ),
    Valued(
        "recurrent-44",
        _recurrent(dml.RNNDesc, 3, 2, 1, "BACKWARD", sequence_lengths_tensor=u32(1, 1, 1, 2)),
        {"input_tensor": [1, 1, 2, 2, 3, 3], **_ONES, "sequence_lengths_tensor": [2, 3]},
        [3, 6, 2, 5, 0, 3],
    ),
    Valued(
        "recurrent-45",
        _recurrent(dml.RNNDesc, 1, 1, 1, bias_tensor=f32(1, 1, 1, 2)),
        {"input_tensor": [0], **_ONES, "bias_tensor": [0.5, 0.25]},
        [0.75],
    ),
    Valued("resampling-18", _resample("LINEAR", 2, 0, 0), {"input_tensor": [1, 2]}, [1, 1.5, 2, 2]),
    Valued("resampling-19", _resample("LINEAR", 2, 0.5, -0.5), {"input_tensor": [1, 2]}, [1, 1.25, 1.75, 2]),
    Valued("resampling-20", _resample("LINEAR", 2, 0, 0, 3), {"input_tensor": [1, 2]}, [1, 1.5, 2]),
    Valued("resampling-21", _resample("NEAREST_NEIGHBOR", 2, 0, 0), {"input_tensor": [1, 2]}, [1, 2, 2, 2]),
    Valued("resampling-22", _resample("NEAREST_NEIGHBOR", 2, 0.5, 0), {"input_tensor": [1, 2]}, [1, 1, 2, 2]),
    Valued("resampling-23", _resample("LINEAR", 1, -3, 0), {"input_tensor": [1, 2]}, [2, 2, 2, 2]),
    Valued(
        "resampling-04",
        dml.Resample3Desc(
            input_tensor=f32(1, 1, 2, 4),
            output_tensor=f32(1, 1, 1, 2),
            interpolation_mode="LINEAR",
            scales=[1, 1, 0.6, 0.6],
            input_pixel_offsets=[0.5] * 4,
            output_pixel_offsets=[-0.5] * 4,
        ),
        {"input_tensor": list(range(1, 9))},
        [8 / 3, 13 / 3],
    ),
    Valued(
        "resampling-07", _resample3(3, 1, 0, 0, FLOAT_MAX), {"input_tensor": [0.5, 1, 1, 1, 2.5, 1, 1, 1, 4.5, 1, 1, 1]}, [0.5, 2.5, 4.5]
    ),
    Valued(
        "resampling-05",
        dml.ResampleDesc(input_tensor=f32(1, 1, 1, 2), output_tensor=f32(1, 1, 1, 8), interpolation_mode="LINEAR", scales=[1, 1, 1, 4]),
        {"input_tensor": [1, 3]},
        [1, 1, 1.25, 1.75, 2.25, 2.75, 3, 3],
    ),
    Valued(
        "resampling-06",
        dml.ResampleDesc(
            input_tensor=f32(1, 1, 4, 4), output_tensor=f32(1, 1, 2, 2), interpolation_mode="NEAREST_NEIGHBOR", scales=[1, 1, 0.5, 0.5]
        ),
        {"input_tensor": list(range(16))},
        [5, 7, 13, 15],
    ),
    *(
        Valued(fact, desc, {"input_tensor": [10, 20, 30], "indices_tensor": [-1, 2, 0, -2]}, [30, 30, 10, 20])
        for fact, desc in (
            ("indexing-01", dml.GatherDesc(input_tensor=f32(3), indices_tensor=i32(4), output_tensor=f32(4), axis=0, index_dimensions=1)),
            ("indexing-02", dml.GatherElementsDesc(input_tensor=f32(3), indices_tensor=i32(4), output_tensor=f32(4), axis=0)),
        )
    ),
    Valued(
        "indexing-03",
        dml.GatherND1Desc(
            input_tensor=f32(1, 3),
            indices_tensor=i32(4, 1),
            output_tensor=f32(1, 4),
            input_dimension_count=1,
            indices_dimension_count=2,
            batch_dimension_count=0,
        ),
        {"input_tensor": [10, 20, 30], "indices_tensor": [-1, 2, 0, -2]},
        [30, 30, 10, 20],
    ),
    Valued(
        "indexing-07",
        dml.ScatterNDDesc(
            input_tensor=f32(1, 4),
            indices_tensor=i32(2, 1),
            updates_tensor=f32(1, 2),
            output_tensor=f32(1, 4),
            input_dimension_count=1,
            indices_dimension_count=2,
        ),
        {"input_tensor": [0, 0, 0, 0], "indices_tensor": [-1, 0], "updates_tensor": [5, 6]},
        [6, 0, 0, 5],
    ),
    Valued(
        "indexing-08",
        dml.OneHotDesc(indices_tensor=i32(3, 1), values_tensor=f32(1, 2), output_tensor=f32(3, 4), axis=1),
        {"indices_tensor": [-1, 4, 1], "values_tensor": [0, 1]},
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0],
    ),
    Valued("reduction-04", dml.ArgmaxDesc(input_tensor=f32(3), output_tensor=u32(1), axes=[0]), {"input_tensor": [2, NAN, 5]}, [2]),
    Valued("reduction-04", dml.ArgminDesc(input_tensor=f32(3), output_tensor=u32(1), axes=[0]), {"input_tensor": [NAN, 4, 3]}, [2]),
    Valued(
        "reduction-06",
        dml.ArgmaxDesc(input_tensor=f32(3), output_tensor=u32(1), axes=[0], axis_direction="DECREASING"),
        {"input_tensor": [5, 1, 5]},
        [2],
    ),
    Valued(
        "reduction-08",
        dml.ReduceDesc(function="SUM", input_tensor=f32(3), output_tensor=f32(3), axes=[]),
        {"input_tensor": [1, 2, 3]},
        [1, 2, 3],
    ),
    Valued(
        "normalization-09",
        dml.LocalResponseNormalizationDesc(
            input_tensor=f32(1, 3, 1, 1), output_tensor=f32(1, 3, 1, 1), cross_channel=True, local_size=3, alpha=3.0, beta=1.0, bias=1.0
        ),
        {"input_tensor": [1, 1, 1]},
        [1 / 3, 0.25, 1 / 3],
    ),
    Valued(
        "elementwise-04",
        dml.ElementWiseIdentityDesc(input_tensor=i64(3), output_tensor=i64(3), scale_bias={"scale": -1, "bias": 0}),
        {"input_tensor": [1, -2, 3]},
        [-1, 2, -3],
    ),
    Valued(
        "elementwise-08",
        dml.ElementWiseClip1Desc(input_tensor=f32(3), output_tensor=f32(3), min_max_data_type="FLOAT32", min=2.0, max=1.0),
        {"input_tensor": [0, 1.5, 3]},
        [2, 2, 2],
    ),
    Valued("movement-02", dml.CastDesc(input_tensor=f32(1), output_tensor=u8(1)), {"input_tensor": [-1]}, [0]),
    Valued("movement-03", dml.CastDesc(input_tensor=f32(2), output_tensor=i32(2)), {"input_tensor": [-1.9, 3.7]}, [-1, 3]),
    Valued(
        "elementwise-11",
        dml.ElementWiseRoundDesc(input_tensor=f32(4), output_tensor=f32(4), rounding_mode=_HALVES),
        {"input_tensor": [0.5, 1.5, 2.5, -0.5]},
        [0, 2, 2, 0],
    ),
    Valued(
        "activation-04",
        dml.ActivationSoftsignDesc(input_tensor=f32(2), output_tensor=f32(2)),
        {"input_tensor": [FLOAT_MAX, -FLOAT_MAX]},
        [1, -1],
        [0, 0],
    ),
    *(
        Valued("elementwise-15", kind(**tensors, output_tensor=f32(2), **members), inputs, [NAN, NAN])
        for kind, tensors, members, inputs in (
            (dml.ElementWiseMaxDesc, {"a_tensor": f32(2), "b_tensor": f32(2)}, {}, {"a_tensor": [NAN, 1], "b_tensor": [1, NAN]}),
            (dml.ElementWiseMinDesc, {"a_tensor": f32(2), "b_tensor": f32(2)}, {}, {"a_tensor": [NAN, 1], "b_tensor": [1, NAN]}),
            (dml.ActivationReluDesc, {"input_tensor": f32(2)}, {}, {"input_tensor": [NAN, NAN]}),
            (dml.ElementWiseClipDesc, {"input_tensor": f32(2)}, {"min": 0.0, "max": 1.0}, {"input_tensor": [NAN, NAN]}),
        )
    ),
    Valued(
        "movement-04",
        dml.Slice1Desc(
            input_tensor=f32(4), output_tensor=f32(4), input_window_offsets=[0], input_window_sizes=[4], input_window_strides=[-1]
        ),
        {"input_tensor": [1, 2, 3, 4]},
        [4, 3, 2, 1],
    ),
    Valued(
        "movement-05",
        dml.PaddingDesc(
            input_tensor=f32(1, 1, 1, 3),
            output_tensor=f32(1, 1, 1, 11),
            padding_mode="REFLECTION",
            start_padding=[0, 0, 0, 4],
            end_padding=[0, 0, 0, 4],
        ),
        {"input_tensor": [1, 2, 3]},
        [1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3],
    ),
    Valued(
        "generation-02",
        dml.DiagonalMatrix1Desc(
            input_tensor=f32(1, 1, 2, 2),
            output_tensor=f32(1, 1, 2, 2),
            value_data_type="FLOAT32",
            value=0.0,
            diagonal_fill_begin=1,
            diagonal_fill_end=2**31 - 1,
        ),
        {"input_tensor": [1, 1, 1, 1]},
        [1, 0, 1, 1],
    ),
    Valued(
        "quantized-05",
        _by_scale(dml.DequantizeDesc, u8(1, 4), f32(1, 4)),
        {"input_tensor": [0, 127, 128, 255], "quantization_tensors[0]": [0.5]},
        [-64, -0.5, 0, 63.5],
    ),
    Valued(
        "quantized-06",
        _by_scale(dml.DequantizeDesc, u4(1, 4), f32(1, 4)),
        {"input_tensor": [0, 7, 8, 15], "quantization_tensors[0]": [0.5]},
        [-4, -0.5, 0, 3.5],
    ),
    Valued(
        "quantized-07",
        _by_scale(dml.QuantizeDesc, f32(1, 4), u8(1, 4)),
        {"input_tensor": [-1, 0, 0.5, 1], "quantization_tensors[0]": [0.1]},
        [118, 128, 133, 138],
    ),
    Valued(
        "quantized-08",
        _by_scale(dml.QuantizeDesc, f32(1, 4), i8(1, 4)),
        {"input_tensor": [-1, 0, 0.5, 1], "quantization_tensors[0]": [0.1]},
        [-10, 0, 5, 10],
    ),
    Valued(
        "quantized-18",
        dml.DynamicQuantizeLinearDesc(input_tensor=f32(6), output_tensor=u8(6), output_scale_tensor=f32(1), output_zero_point_tensor=u8(1)),
        {"input_tensor": [0, 2, -3, -2.5, 1.34, 0.5]},
        [153, 255, 0, 26, 221, 179],
        [153, 255, 0, 25, 221, 179],
    ),
    Valued(
        "normalization-02",
        dml.MeanVarianceNormalization1Desc(input_tensor=f32(2, 1), output_tensor=f32(2, 1), axes=[1], epsilon=1e-5),
        {"input_tensor": [3, 4]},
        [0, 0],
    ),
    Valued(
        "attention-17",
        dml.MultiheadAttention1Desc(
            query_tensor=f32(1, 2, 1),
            key_tensor=f32(1, 2, 1),
            value_tensor=f32(1, 2, 1),
            past_sequence_lengths_tensor=i32(1),
            output_tensor=f32(1, 2, 1),
            output_present_key_tensor=f32(1, 1, 2, 1),
            output_present_value_tensor=f32(1, 1, 2, 1),
            scale=1.0,
            mask_filter_value=-10000.0,
            query_head_count=1,
            key_value_head_count=1,
        ),
        {"query_tensor": [0, 0], "key_tensor": [1, 1], "value_tensor": [10, 20], "past_sequence_lengths_tensor": [0]},
        [10, 15],
    ),
]
"""All results that show a fact."""
