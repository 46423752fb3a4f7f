"""What the tables of descs that show a fact are written with."""

from __future__ import annotations

from typing import Any, NamedTuple

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from tests.support.released.attention import recurrent
from tests.support.released.rows import f32, i8, u8, u32

ACCEPTED = ""
"""What stands for the code of a problem where there is none."""


class Shown(NamedTuple):
    """A desc that shows a fact. `code` is that of the problem that the fact is about; empty if DirectML accepts the desc."""

    fact: str
    level: str
    code: str
    desc: OperatorDesc


FLOAT_MAX = 3.4028234663852886e38
SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
STATE, LENGTHS = f32(1, 1, 3, 5), u32(1, 1, 1, 3)
IMAGE = f32(1, 3, 4, 5)
CHANNELS = f32(1, 3, 1, 1)


def copied(given: dml.TensorDesc, made: dml.TensorDesc | None = None) -> Any:
    return dml.ElementWiseIdentityDesc(input_tensor=given, output_tensor=made or given)


def added(a: dml.TensorDesc, b: dml.TensorDesc, out: dml.TensorDesc) -> Any:
    return dml.ElementWiseAddDesc(a_tensor=a, b_tensor=b, output_tensor=out)


def rnn(direction: str = "FORWARD", **members: Any) -> Any:
    return recurrent(dml.RNNDesc, direction, **{"activation_descs": [TANH], "output_single_tensor": STATE} | members)


def gru(**members: Any) -> Any:
    return recurrent(dml.GRUDesc, **{"activation_descs": [SIGMOID, TANH], "output_single_tensor": STATE} | members)


def lstm(**members: Any) -> Any:
    return recurrent(dml.LSTMDesc, **{"activation_descs": [SIGMOID, TANH, TANH], "output_single_tensor": STATE} | members)


def gemm(a: dml.TensorDesc, b: dml.TensorDesc, out: dml.TensorDesc, **members: Any) -> Any:
    return dml.GEMMDesc(a_tensor=a, b_tensor=b, output_tensor=out, **members)


def convolved(given: dml.TensorDesc, weights: dml.TensorDesc, out: dml.TensorDesc, **members: Any) -> Any:
    count = len(given.sizes) - 2
    flat: dict[str, Any] = {name: [0] * count for name in ("start_padding", "end_padding", "output_padding")}
    flat |= {"strides": [1] * count, "dilations": [1] * count}
    return dml.ConvolutionDesc(input_tensor=given, filter_tensor=weights, output_tensor=out, **flat | members)


def quantized_convolution(**members: Any) -> Any:
    one = f32(1, 1, 1, 1)
    given: dict[str, Any] = {
        "input_tensor": u8(1, 6, 3, 3),
        "input_scale_tensor": one,
        "input_zero_point_tensor": u8(1, 1, 1, 1),
        "filter_tensor": i8(6, 6, 1, 1),
        "filter_scale_tensor": f32(1, 6, 1, 1),
        "filter_zero_point_tensor": i8(1, 6, 1, 1),
        "output_scale_tensor": one,
        "output_zero_point_tensor": u8(1, 1, 1, 1),
        "output_tensor": u8(1, 6, 3, 3),
        "strides": [1, 1],
        "dilations": [1, 1],
        "start_padding": [0, 0],
        "end_padding": [0, 0],
    }
    return dml.QuantizedLinearConvolutionDesc(**given | members)


def pooled(kind: Any, given: dml.TensorDesc, out: dml.TensorDesc, **members: Any) -> Any:
    count = len(given.sizes) - 2
    window: dict[str, Any] = {"strides": [2] * count, "window_size": [2] * count, "start_padding": [0] * count, "end_padding": [0] * count}
    return kind(input_tensor=given, output_tensor=out, **window | members)


def roi_align(**members: Any) -> Any:
    given: dict[str, Any] = {
        "input_tensor": f32(1, 1, 5, 5),
        "roi_tensor": f32(1, 1, 3, 4),
        "batch_indices_tensor": u32(1, 1, 1, 3),
        "output_tensor": f32(3, 1, 3, 4),
        "reduction_function": "AVERAGE",
        "interpolation_mode": "LINEAR",
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 2**32 - 1,
    }
    return dml.ROIAlign1Desc(**given | members)


def resampled(given: dml.TensorDesc, out: dml.TensorDesc, **members: Any) -> Any:
    count = len(given.sizes)
    offsets: dict[str, Any] = {"input_pixel_offsets": [0.5] * count, "output_pixel_offsets": [-0.5] * count}
    scales = [float(o) / i for o, i in zip(out.sizes, given.sizes, strict=True)]
    return dml.Resample1Desc(input_tensor=given, output_tensor=out, interpolation_mode="LINEAR", **offsets | {"scales": scales} | members)


def attention(**members: Any) -> Any:
    query = f32(2, 4, 6)
    given: dict[str, Any] = {"query_tensor": query, "key_tensor": query, "value_tensor": query, "output_tensor": query}
    given |= {"scale": 0.5, "mask_filter_value": -10000.0, "head_count": 2}
    return dml.MultiheadAttentionDesc(**given | members)


def quantized(kind: Any, **members: Any) -> Any:
    return kind(**{"quantization_type": "SCALE"} | members)


def normalized(kind: Any = dml.MeanVarianceNormalization1Desc, **members: Any) -> Any:
    return kind(**{"input_tensor": IMAGE, "output_tensor": IMAGE, "axes": [2, 3]} | members)


def batch_normalized(**members: Any) -> Any:
    given: dict[str, Any] = dict.fromkeys(("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor"), CHANNELS)
    return dml.BatchNormalizationDesc(**given | {"input_tensor": IMAGE, "output_tensor": IMAGE} | members)


def padded(kind: Any = dml.Padding1Desc, **members: Any) -> Any:
    given: dict[str, Any] = {"input_tensor": f32(2, 3), "output_tensor": f32(4, 3), "start_padding": [1, 0], "end_padding": [1, 0]}
    given |= {"padding_value_data_type": "FLOAT32", "padding_value": 0.0} if kind is dml.Padding1Desc else {}
    return kind(**given | members)
