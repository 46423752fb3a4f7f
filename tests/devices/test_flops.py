"""`flops_of` and the floors of every family, against counts and rates from textbooks and data sheets."""

from __future__ import annotations

from typing import Any

import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.flops import flops_of
from dmlpy.inspection.samples import sample
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200
from tests.support.tables import table

OF_DATA = {"ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD", "ROI_POOLING", "TOP_K", "TOP_K1"}
"""The operators whose work depends on data."""


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes)


def of(name: str, **members: Any) -> dml.OperatorDesc:
    return getattr(dml, f"{name}Desc")(**members)


IMAGE, ROWS = tensor(2, 6, 8, 10), tensor(4, 25)
POINTS = 2 * 6 * 8 * 10
SCALE_BIAS = dml.ScaleBias(scale=2.0, bias=1.0)
PER_CHANNEL = tensor(1, 6, 1, 1)
POOLED = {"input_tensor": IMAGE, "strides": [2, 2], "window_size": [2, 5], "start_padding": [0, 0], "end_padding": [0, 0]}
UINT8_ROWS = tensor(4, 25, data_type="UINT8")


def reduce(function: str) -> dml.OperatorDesc:
    return of("Reduce", function=function, input_tensor=ROWS, axes=[1])


def batch(name: str, **members: Any) -> dml.OperatorDesc:
    tensors = {f"{statistic}_tensor": PER_CHANNEL for statistic in ("mean", "variance", "scale", "bias")}
    return of(name, input_tensor=IMAGE, **tensors, spatial=True, epsilon=1e-5, **members)


def convolution(**members: Any) -> dml.OperatorDesc:
    padding = {"start_padding": [1, 1], "end_padding": [1, 1], "output_padding": [0, 0], "strides": [1, 1], "dilations": [1, 1]}
    return of("Convolution", **({"input_tensor": IMAGE, "mode": "CROSS_CORRELATION"} | padding | members))


def attention(heads: int) -> dml.OperatorDesc:
    tensors = {"query_tensor": tensor(2, 7, 24), "key_tensor": tensor(2, 9, 24), "value_tensor": tensor(2, 9, 40)}
    return of("MultiheadAttention", **tensors, scale=0.5, mask_type="NONE", mask_filter_value=-1e4, head_count=heads)


RESAMPLED = {"input_tensor": IMAGE, "scales": [1, 1, 2, 3], "output_tensor": tensor(2, 6, 16, 30)}

COUNTS: dict[str, tuple[dml.OperatorDesc, int]] = {
    # 2 m n k
    "GEMM": (of("GEMM", a_tensor=tensor(1, 2, 3, 5), b_tensor=tensor(1, 2, 5, 7), c_tensor=tensor(1, 2, 3, 7)), 2 * 2 * 3 * 5 * 7),
    "GEMM of a transpose": (
        of("GEMM", a_tensor=tensor(1, 1, 5, 3), b_tensor=tensor(1, 1, 7, 5), trans_a="TRANSPOSE", trans_b="TRANSPOSE"),
        2 * 3 * 5 * 7,
    ),
    "MATRIX_MULTIPLY_INTEGER": (
        of("MatrixMultiplyInteger", a_tensor=tensor(1, 1, 3, 5, data_type="INT8"), b_tensor=tensor(1, 1, 5, 7, data_type="INT8")),
        2 * 3 * 5 * 7,
    ),
    # 2 x outputs x channels of a group x taps; backward 2 x inputs x channels x taps
    "CONVOLUTION": (convolution(filter_tensor=tensor(9, 6, 3, 3), group_count=1), 2 * (2 * 9 * 8 * 10) * 6 * 9),
    "CONVOLUTION depthwise": (convolution(filter_tensor=tensor(6, 1, 3, 3), group_count=6), 2 * POINTS * 9),
    "CONVOLUTION transposed": (
        convolution(filter_tensor=tensor(6, 4, 3, 3), group_count=1, direction="BACKWARD", strides=[2, 2]),
        2 * POINTS * 4 * 9,
    ),
    # 2 batch heads queries keys (size of a key + size of a value), however many heads there are
    "MULTIHEAD_ATTENTION": (attention(4), 2 * 2 * 7 * 9 * (24 + 40)),
    "MULTIHEAD_ATTENTION of one head": (attention(1), 2 * 2 * 7 * 9 * (24 + 40)),
    "ADD": (of("ElementWiseAdd", a_tensor=IMAGE, b_tensor=IMAGE), POINTS),
    "ADD1": (of("ElementWiseAdd1", a_tensor=IMAGE, b_tensor=IMAGE, fused_activation=dml.ActivationReluDesc()), 2 * POINTS),
    "EXP": (of("ElementWiseExp", input_tensor=IMAGE, scale_bias=SCALE_BIAS), 3 * POINTS),
    "IDENTITY": (of("ElementWiseIdentity", input_tensor=IMAGE), 0),
    "IDENTITY of a scale": (of("ElementWiseIdentity", input_tensor=IMAGE, scale_bias=SCALE_BIAS), 2 * POINTS),
    "DIFFERENCE_SQUARE": (of("ElementWiseDifferenceSquare", a_tensor=IMAGE, b_tensor=IMAGE), 2 * POINTS),
    "RELU": (of("ActivationRelu", input_tensor=IMAGE), POINTS),
    # max, x - max, exp, sum, /
    "SOFTMAX1": (of("ActivationSoftmax1", input_tensor=ROWS, axes=[1]), 5 * 100),
    # a group of n entries: n - 1 operations, and what is done to entries and to results
    "SUM": (reduce("SUM"), 4 * 24),
    "MAX": (reduce("MAX"), 4 * 24),
    "AVERAGE": (reduce("AVERAGE"), 4 * 25),
    "L1": (reduce("L1"), 4 * (25 + 24)),
    "L2": (reduce("L2"), 4 * (25 + 24 + 1)),
    "SUM_SQUARE": (reduce("SUM_SQUARE"), 4 * (25 + 24)),
    "LOG_SUM": (reduce("LOG_SUM"), 4 * 25),
    "LOG_SUM_EXP": (reduce("LOG_SUM_EXP"), 4 * (25 + 24 + 1)),
    "ARGMAX": (of("Argmax", input_tensor=ROWS, axes=[0], axis_direction="INCREASING"), 3 * 25),
    "CUMULATIVE_SUMMATION": (
        of("CumulativeSummation", input_tensor=ROWS, axis=1, axis_direction="INCREASING", has_exclusive_sum=False),
        4 * 24,
    ),
    # a window of n: n - 1 additions and a division; n - 1 comparisons; n squares, n - 1 additions and a root
    "AVERAGE_POOLING": (of("AveragePooling", **POOLED, include_padding=False), (2 * 6 * 4 * 3) * 10),
    "MAX_POOLING": (of("MaxPooling", **POOLED), (2 * 6 * 4 * 3) * 9),
    "LP_POOLING": (of("LPPooling", **POOLED, p=2), (2 * 6 * 4 * 3) * (10 + 9 + 1)),
    # bilinear: four taps, each a product and a sum
    "RESAMPLE": (of("Resample", **RESAMPLED, interpolation_mode="LINEAR"), 8 * 2 * 6 * 16 * 30),
    "RESAMPLE of the nearest": (of("Resample", **RESAMPLED, interpolation_mode="NEAREST_NEIGHBOR"), 0),
    # (x - mean) / root * scale + bias; in training before that a mean and (x - mean)^2
    "BATCH_NORMALIZATION": (batch("BatchNormalization"), 4 * POINTS),
    "MEAN_VARIANCE_NORMALIZATION1": (
        of("MeanVarianceNormalization1", input_tensor=IMAGE, scale_tensor=PER_CHANNEL, bias_tensor=PER_CHANNEL, axes=[1, 2, 3]),
        (1 + 3 + 1 + 2) * POINTS,
    ),
    "MEAN_VARIANCE_NORMALIZATION2 as RMS": (
        of("MeanVarianceNormalization2", input_tensor=IMAGE, axes=[3], use_mean=False, use_variance=True),
        3 * POINTS,
    ),
    "LP_NORMALIZATION": (of("LPNormalization", input_tensor=IMAGE, axis=1), 3 * POINTS),
    # 5 squares of a window are added, scaled, shifted, raised; x is divided
    "LOCAL_RESPONSE_NORMALIZATION": (
        of("LocalResponseNormalization", input_tensor=IMAGE, cross_channel=True, local_size=5),
        (1 + 4 + 2 + 1 + 1) * POINTS,
    ),
    # x / scale, rint, + zero point, two comparisons; (x - zero point) * scale
    "QUANTIZE": (
        of("Quantize", input_tensor=ROWS, quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ROWS, UINT8_ROWS]),
        5 * 100,
    ),
    "DEQUANTIZE": (
        of("Dequantize", input_tensor=UINT8_ROWS, quantization_type="SCALE_ZERO_POINT", quantization_tensors=[ROWS, UINT8_ROWS]),
        2 * 100,
    ),
    "GATHER": (sample(dml.GatherDesc), 0),
    "TILE": (sample(dml.TileDesc), 0),
    "FILL_VALUE_CONSTANT": (sample(dml.FillValueConstantDesc), 0),
}


@table("name", COUNTS)
def test_the_textbook_count(name: str) -> None:
    desc, expected = COUNTS[name]
    found = desc if desc.tensors().get("output_tensor") else desc.with_outputs()
    assert dml.check(found) == []
    assert flops_of(found) == expected
    assert dml.compile(found, "numpy").explain_plan().flops == expected


@table("kind", OPERATORS.values(), ids=lambda kind: kind.short_name())
def test_every_operator_has_a_count_and_a_floor(kind: type[dml.OperatorDesc]) -> None:
    desc = sample(kind)
    report = dml.compile(desc, CudaDevice(DryRunRuntime(H200))).explain_plan()
    assert (report.flops is None) == (kind.short_name() in OF_DATA)
    assert report.floor_us is not None
    assert report.estimate_us is not None
    assert 0 < report.floor_us < report.estimate_us


def floor(desc: dml.OperatorDesc, **options: Any) -> float:
    found = dml.compile(desc, CudaDevice(DryRunRuntime(H200)), **options).explain_plan().floor_us
    assert found is not None
    return found


SQUARE = 8192
HALVES = tensor(1, 1, SQUARE, SQUARE, data_type="FLOAT16")


def test_floors_are_the_rates_of_the_gpu() -> None:
    """An H200 copies 4.3 TB/s and multiplies 788 TFLOP/s: large work of one kind takes that long, and no less."""
    big = tensor(1, 64, 4096, 4096)
    copied = 2 * 64 * 4096 * 4096 * 4
    for desc in (
        of("ElementWiseIdentity", input_tensor=big),
        of("ActivationSigmoid", input_tensor=big),
        of("ActivationSoftmax1", input_tensor=big, axes=[3]),
        of("MeanVarianceNormalization1", input_tensor=big, axes=[3]),
    ):
        assert floor(desc.with_outputs()) == pytest.approx(copied / 4.3e6, rel=1e-3)
    product = of("GEMM", a_tensor=HALVES, b_tensor=HALVES).with_outputs()
    assert floor(product) == pytest.approx(2 * SQUARE**3 / 788e6, rel=0.01)
    floats = of("GEMM", a_tensor=HALVES.replace(data_type="FLOAT32"), b_tensor=HALVES.replace(data_type="FLOAT32")).with_outputs()
    assert floor(floats) > 10 * floor(product)
    assert floor(floats, flags="ALLOW_HALF_PRECISION_COMPUTATION") == pytest.approx(2 * floor(product))
    integers = HALVES.replace(data_type="INT8")
    assert floor(of("MatrixMultiplyInteger", a_tensor=integers, b_tensor=integers).with_outputs()) == pytest.approx(floor(product) / 2)
    pixels, taps = tensor(8, 512, 64, 64, data_type="FLOAT16"), tensor(512, 512, 3, 3, data_type="FLOAT16")
    convolved = convolution(input_tensor=pixels, filter_tensor=taps, group_count=1).with_outputs()
    assert floor(convolved) == pytest.approx(2 * (8 * 512 * 64 * 64) * 512 * 9 / 788e6, rel=0.01)
