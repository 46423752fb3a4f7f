"""Descs that ONNX expresses in other ways than the samples, by what is special about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dmlpy as dml
from tests.support.tensors import tensor


def _convolution(data: tuple[int, ...], filters: tuple[int, ...], **members: Any) -> dml.OperatorDesc:
    rank = len(data) - 2
    defaults: dict[str, Any] = {
        "strides": [1] * rank, "dilations": [1] * rank, "start_padding": [0] * rank, "end_padding": [0] * rank,
        "output_padding": [0] * rank, "group_count": 1,
    }  # fmt: skip
    return dml.ConvolutionDesc(input_tensor=tensor(*data), filter_tensor=tensor(*filters), **{**defaults, **members}).with_outputs()


def _pooling(kind: Any, data: tuple[int, ...], size: list[int], outputs: tuple[int, ...] | None = None, **members: Any) -> dml.OperatorDesc:
    rank = len(data) - 2
    data_type = members.pop("data_type", "FLOAT32")
    defaults: dict[str, Any] = {"strides": [1] * rank, "start_padding": [0] * rank, "end_padding": [0] * rank, "window_size": size}
    if "dilations" in kind.model_fields:
        defaults["dilations"] = [1] * rank
    desc = kind(input_tensor=tensor(*data, data_type=data_type), **{**defaults, **members})
    if outputs is not None:
        return desc.replace(output_tensor=tensor(*outputs, data_type=data_type))
    return desc.with_outputs()


def _resample(data: tuple[int, ...], outputs: tuple[int, ...], mode: str, *offsets: list[float], **members: Any) -> dml.OperatorDesc:
    scales = [own / size for own, size in zip(outputs, data, strict=True)]
    placed = {"input_pixel_offsets": offsets[0], "output_pixel_offsets": offsets[1]}
    kind: Any = dml.Resample2Desc if "rounding_direction" in members else dml.Resample1Desc
    return kind(input_tensor=tensor(*data), output_tensor=tensor(*outputs), interpolation_mode=mode, scales=scales, **placed, **members)


def _slice(data: tuple[int, ...], offsets: list[int], sizes: list[int], strides: list[int]) -> dml.OperatorDesc:
    return dml.Slice1Desc(
        input_tensor=tensor(*data), input_window_offsets=offsets, input_window_sizes=sizes, input_window_strides=strides
    ).with_outputs()


def _padding(mode: str, start: list[int], end: list[int]) -> dml.OperatorDesc:
    return dml.PaddingDesc(
        input_tensor=tensor(1, 2, 3, 4), padding_mode=mode, padding_value=0.5, start_padding=start, end_padding=end
    ).with_outputs()


def _recurrent(kind: Any, gates: int, direction: str, activations: list[Any], **members: Any) -> dml.OperatorDesc:
    count = 2 if direction == "BIDIRECTIONAL" else 1
    return kind(
        input_tensor=tensor(1, 4, 3, 5),
        weight_tensor=tensor(1, count, gates * 6, 5),
        recurrence_tensor=tensor(1, count, gates * 6, 6),
        bias_tensor=tensor(1, 1, count, gates * 12),
        activation_descs=activations * count,
        direction=direction,
        **members,
    ).with_outputs()


def _regions(kind: Any, outside: float, fewest: int, most: int, **members: Any) -> dml.OperatorDesc:
    return kind(
        input_tensor=tensor(2, 3, 7, 9),
        roi_tensor=tensor(1, 1, 6, 4),
        batch_indices_tensor=tensor(1, 1, 1, 6, data_type="UINT32"),
        output_tensor=tensor(6, 3, 4, 5),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        spatial_scale_x=5.0,
        spatial_scale_y=4.0,
        out_of_bounds_input_value=outside,
        minimum_samples_per_output=fewest,
        maximum_samples_per_output=most,
        **members,
    )


_HALVES, _NONE = ([0.5] * 4, [-0.5] * 4), ([0.0] * 4, [0.0] * 4)
_SIGMOID, _TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
_HARD = dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5)
_X = tensor(2, 3, 4, 5)

CASES: Mapping[str, dml.OperatorDesc] = {
    "convolution depthwise": _convolution((2, 4, 6, 7), (4, 1, 3, 3), group_count=4, start_padding=[1, 1], end_padding=[1, 1]),
    "convolution 3d": _convolution((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), strides=[1, 2, 1], dilations=[2, 1, 1]),
    "convolution 1d": _convolution((1, 2, 7), (3, 2, 3), strides=[2]),
    "convolution flipped": _convolution((1, 2, 5, 6), (3, 2, 2, 3), mode="CONVOLUTION"),
    "convolution left over": _convolution((1, 1, 8, 8), (1, 1, 3, 3), strides=[2, 3], end_padding=[0, 1]),
    "convolution clipped": _convolution(
        (1, 2, 5, 6), (3, 2, 2, 3), fused_activation=dml.ElementWiseClipDesc(min=-0.25, max=0.25)
    ),
    "convolution transposed": _convolution(
        (1, 4, 4, 5), (4, 3, 3, 2), direction="BACKWARD", strides=[2, 3], start_padding=[1, 0], end_padding=[0, 1], output_padding=[1, 2],
        group_count=2, fused_activation=dml.ActivationLeakyReluDesc(alpha=0.3),
    ),
    "convolution transposed flipped": _convolution(
        (1, 4, 4, 5), (4, 3, 3, 2), direction="BACKWARD", mode="CONVOLUTION", strides=[2, 1], dilations=[1, 2]
    ),
    "convolution transposed beyond": _convolution((1, 2, 3, 3), (2, 3, 2, 2), direction="BACKWARD", output_padding=[2, 3]).replace(
        bias_tensor=tensor(1, 3, 1, 1)
    ),
    "average cut": _pooling(dml.AveragePoolingDesc, (1, 2, 5, 6), [2, 3], (1, 2, 3, 3), strides=[2, 2], include_padding=True),
    "average cut without padding": _pooling(
        dml.AveragePoolingDesc, (1, 2, 5, 6), [2, 3], (1, 2, 3, 3), strides=[2, 2], include_padding=False
    ),
    "average padded": _pooling(
        dml.AveragePooling1Desc, (1, 2, 5, 6), [3, 3], start_padding=[1, 2], end_padding=[2, 1], dilations=[1, 2], include_padding=True
    ),
    "average of wide padding": _pooling(
        dml.AveragePoolingDesc, (1, 2, 5, 6), [2, 2], start_padding=[2, 0], end_padding=[0, 0], strides=[2, 2], include_padding=True
    ),
    "lp of one": _pooling(dml.LPPoolingDesc, (1, 2, 5, 6), [2, 3], p=1),
    "lp cut": _pooling(dml.LPPoolingDesc, (1, 2, 5, 6), [2, 3], (1, 2, 3, 3), strides=[2, 2], p=2),
    "max cut": _pooling(dml.MaxPoolingDesc, (1, 2, 5, 6), [2, 3], (1, 2, 3, 3), strides=[2, 2]),
    "max of integers": _pooling(dml.MaxPooling1Desc, (1, 2, 5, 6), [2, 3], start_padding=[1, 1], end_padding=[0, 2], data_type="INT16"),
    "max of wide padding": _pooling(dml.MaxPooling1Desc, (1, 2, 5, 6), [2, 2], start_padding=[2, 0], end_padding=[0, 1]),
    "max of bytes of wide padding": _pooling(
        dml.MaxPooling2Desc, (1, 2, 5, 6), [2, 2], start_padding=[0, 1], end_padding=[0, 1], dilations=[2, 1], data_type="UINT8"
    ),
    "resample halves": _resample((1, 2, 3, 4), (1, 2, 6, 8), "LINEAR", *_HALVES),
    "resample corners": _resample((1, 2, 3, 4), (1, 2, 6, 8), "LINEAR", *_NONE),
    "resample odd": _resample((1, 2, 3, 5), (1, 2, 5, 3), "LINEAR", *_HALVES),
    "resample nearest": _resample((1, 2, 4, 4), (1, 2, 2, 8), "NEAREST_NEIGHBOR", *_HALVES),
    "resample nearest down": _resample((1, 2, 4, 4), (1, 2, 2, 8), "NEAREST_NEIGHBOR", *_NONE, rounding_direction="DECREASING"),
    "resample nearest up": _resample((1, 2, 4, 3), (1, 2, 3, 7), "NEAREST_NEIGHBOR", *_HALVES, rounding_direction="INCREASING"),
    "slice backwards": _slice((2, 3, 6, 7), [0, 0, 1, 0], [2, 3, 5, 7], [1, -1, -2, -3]),
    "slice all": _slice((2, 3, 6, 7), [0] * 4, [2, 3, 6, 7], [1] * 4),
    "padding edge": _padding("EDGE", [0, 1, 2, 0], [0, 0, 4, 5]),
    "padding reflection": _padding("REFLECTION", [0, 1, 2, 0], [0, 0, 2, 3]),
    "padding reflection far": _padding("REFLECTION", [0, 0, 5, 9], [0, 0, 4, 0]),
    "padding symmetric": _padding("SYMMETRIC", [0, 1, 2, 0], [0, 0, 7, 4]),
    "padding wrap": _padding("WRAP", [0, 1, 2, 0], [0, 0, 3, 4]),
    "padding wrap far": _padding("WRAP", [0, 0, 7, 0], [0, 0, 3, 4]),
    "softmax of two axes": dml.ActivationSoftmax1Desc(input_tensor=_X, axes=[1, 3]).with_outputs(),
    "argmax of two axes": dml.ArgmaxDesc(input_tensor=_X, axes=[1, 3], axis_direction="DECREASING").with_outputs(),
    "running product backwards": dml.CumulativeProductDesc(
        input_tensor=_X, axis=3, axis_direction="DECREASING", has_exclusive_product=True
    ).with_outputs(),
    "running sum backwards": dml.CumulativeSummationDesc(
        input_tensor=_X, axis=1, axis_direction="DECREASING", has_exclusive_sum=True
    ).with_outputs(),
    "layer normalization": dml.MeanVarianceNormalization1Desc(
        input_tensor=_X, scale_tensor=tensor(1, 1, 4, 5), bias_tensor=tensor(1, 1, 4, 5), axes=[2, 3], normalize_variance=True, epsilon=1e-3
    ).with_outputs(),
    "instance normalization": dml.MeanVarianceNormalization1Desc(
        input_tensor=_X, scale_tensor=tensor(1, 3, 1, 1), bias_tensor=tensor(1, 3, 1, 1), axes=[2, 3], normalize_variance=True, epsilon=1e-3
    ).with_outputs(),
    "batch normalization of places": dml.BatchNormalizationDesc(
        input_tensor=_X, mean_tensor=tensor(1, 3, 4, 5), variance_tensor=tensor(1, 3, 4, 5), scale_tensor=tensor(1, 3, 4, 5),
        bias_tensor=tensor(1, 3, 4, 5), spatial=False, epsilon=1.0,
    ).with_outputs(),
    "local response of an even size": dml.LocalResponseNormalizationDesc(
        input_tensor=_X, cross_channel=False, local_size=4, alpha=0.5, beta=0.75, bias=1.0
    ).with_outputs(),
    "product of transposed": dml.GEMMDesc(
        a_tensor=tensor(1, 2, 4, 3), b_tensor=tensor(1, 2, 5, 4), c_tensor=tensor(1, 2, 3, 5), trans_a="TRANSPOSE", trans_b="TRANSPOSE",
        alpha=0.5, beta=2.0, fused_activation=dml.ActivationScaledTanhDesc(alpha=0.5, beta=2.0),
    ).with_outputs(),
    "shrink below zero": dml.ActivationShrinkDesc(input_tensor=_X, bias=0.25, threshold=-1.0).with_outputs(),
    "shrink of halves below zero": dml.ActivationShrinkDesc(
        input_tensor=_X.replace(data_type="FLOAT16"), bias=0.3, threshold=-0.7
    ).with_outputs(),
    "shrink of integers below zero": dml.ActivationShrinkDesc(
        input_tensor=_X.replace(data_type="INT32"), bias=2.5, threshold=-1.5
    ).with_outputs(),
    "rounding to zero": dml.ElementWiseRoundDesc(input_tensor=_X, rounding_mode="TOWARD_ZERO").with_outputs(),
    "rounding from zero": dml.ElementWiseRoundDesc(input_tensor=_X, rounding_mode="TOWARD_INFINITY").with_outputs(),
    "quantization of an axis": dml.ElementWiseQuantizeLinearDesc(
        input_tensor=_X, scale_tensor=_X.replace(strides=[0, 1, 0, 0]),
        zero_point_tensor=tensor(2, 3, 4, 5, data_type="INT8", strides=[0, 1, 0, 0]), output_tensor=tensor(2, 3, 4, 5, data_type="INT8"),
    ),
    "dequantization of a tensor": dml.ElementWiseDequantizeLinearDesc(
        input_tensor=tensor(2, 3, 4, 5, data_type="UINT8"), scale_tensor=_X.replace(strides=[0] * 4), output_tensor=_X
    ),
    "dequantization of blocks": dml.DequantizeDesc(
        input_tensor=tensor(2, 3, 4, 6, data_type="UINT8"), quantization_type="SCALE_ZERO_POINT",
        quantization_tensors=[tensor(2, 1, 4, 2), tensor(2, 1, 4, 2, data_type="UINT8")], output_tensor=tensor(2, 3, 4, 6),
    ),
    "regions with corners": _regions(
        dml.ROIAlign1Desc, -1.5, 2, 2, input_pixel_offset=0.25, output_pixel_offset=-0.75, align_regions_to_corners=True
    ),
    "regions with offsets": _regions(
        dml.ROIAlign1Desc, 0.0, 3, 3, input_pixel_offset=0.25, output_pixel_offset=-0.75, align_regions_to_corners=False
    ),
    "regions of half pixels": _regions(dml.ROIAlignDesc, 0.0, 1, 2**20),
    "rnn both ways": _recurrent(dml.RNNDesc, 1, "BIDIRECTIONAL", [dml.ActivationScaledTanhDesc(alpha=0.5, beta=2.0)]),
    "gru backwards": _recurrent(dml.GRUDesc, 3, "BACKWARD", [_HARD, dml.ActivationIdentityDesc()], linear_before_reset=True),
    "gru before reset": _recurrent(dml.GRUDesc, 3, "FORWARD", [_SIGMOID, _TANH], linear_before_reset=False),
    "lstm both ways": _recurrent(
        dml.LSTMDesc, 4, "BIDIRECTIONAL", [_SIGMOID, dml.ActivationLeakyReluDesc(alpha=0.3), dml.ActivationLinearDesc(alpha=0.5, beta=0.1)],
        clip_threshold=0.0, use_clip_threshold=False, couple_input_forget=False,
    ),
}  # fmt: skip
