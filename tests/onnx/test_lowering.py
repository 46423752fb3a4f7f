"""What ONNX's node tests leave out, against its reference implementation: other ranks and types, older opsets, negative axes, scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node, make_tensor

from dmlpy import onnx
from dmlpy.onnx.lowering.host_evaluation import HostProgram
from tests.support.onnx.models import model
from tests.support.onnx.reference import element_type
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def numbers(*sizes: int, dtype: Any = np.float32) -> Array:
    return np.asarray(RNG.standard_normal(sizes) * 3).astype(dtype)


class Row(NamedTuple):
    """A node with inputs.

    Attributes:
        operator: ONNX's operator.
        inputs: the inputs that are computed; None for one that is left out.
        attributes: the node's attributes.
        opset: the version of ONNX's operators.
        constants: further inputs, known before the model runs.
        operators: DirectML's operators that the node becomes.
        expected: the outputs; None for those of the reference implementation.
        terms: how many products each result sums.
    """

    operator: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = {}
    opset: int = 21
    constants: Sequence[Any] = ()
    operators: Sequence[str] | None = None
    expected: Sequence[Array] | None = None
    terms: int = 64
    outputs: int = 1


def ints(*values: int) -> Array:
    return np.asarray(values, np.int64)


X345, X2345 = numbers(3, 4, 5), numbers(2, 3, 4, 5)
WAVE, IMAGE, VOLUME = numbers(2, 3, 9), numbers(2, 3, 8, 7), numbers(1, 2, 5, 6, 7)
BIAS = numbers(3)
CEIL = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
LINE, DILATED = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8), {"kernel_shape": [2], "dilations": [2]}

EQUATIONS: dict[str, Sequence[Sequence[int]]] = {
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "...ij,jk->k...i": [(2, 2, 3, 4), (4, 5)],
    "ii->i": [(4, 4)],
    "iji->j": [(3, 4, 3)],
    "ij->": [(3, 4)],
    "i,j": [(3,), (4,)],
    "ij,ik,jkl->il": [(2, 3), (2, 4), (3, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "ab,ab->a": [(3, 4), (3, 4)],
    ",i->i": [(), (3,)],
    "bi, bij -> b": [(1, 3), (4, 3, 5)],
}
GRID = (RNG.uniform(-1.6, 1.6, (2, 3, 4, 2))).astype(np.float32)
# Of an Upsample by 2 and 3: between elements linear, behind the last one its value.
INTERPOLATED = np.stack([IMAGE[:, :, np.minimum(np.arange(16) // 2 + step, 7)] for step in (0, 1)]).transpose(1, 2, 3, 4, 0)
INTERPOLATED = INTERPOLATED[..., 0] * (1 - np.arange(16) % 2 / 2)[:, None] + INTERPOLATED[..., 1] * (np.arange(16) % 2 / 2)[:, None]
_LEFT, _RIGHT = INTERPOLATED[..., np.arange(21) // 3], INTERPOLATED[..., np.minimum(np.arange(21) // 3 + 1, 6)]
INTERPOLATED = (_LEFT * (1 - np.arange(21) % 3 / 3) + _RIGHT * (np.arange(21) % 3 / 3)).astype(np.float32)
SAME_SIZES = np.asarray([1, 1, 1.2, 1.1], np.float32)
BOXES = np.asarray([[0.3, -2.5, 6.2, 4], [5, 5.5, 4, 9], [1, 1, 1.5, 1.2]], np.float32)
LONG_SIGNAL, WINDOW = numbers(2, 1000, 2), numbers(480)
# Shorter transforms err by less than one matrix, whose sums have as many products as there are samples.
FEW_TERMS = 64
BY_FACTORS = ["GEMM", "GEMM"]
for kind in ("ELEMENT_WISE_MULTIPLY", "GEMM"):  # factors between the transforms; the second transforms
    BY_FACTORS += [kind, kind, "ELEMENT_WISE_SUBTRACT", kind, kind, "ELEMENT_WISE_ADD"]
BY_FACTORS += ["ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_IDENTITY", "JOIN"]
STATISTICS = [*numbers(3, 3), np.abs(numbers(3))]
SIGNAL, HALVES = numbers(2, 20), numbers(3, 4, 5, dtype=np.float16)


def spectra(signal: Array, *, step: int, length: int, window: Array | float = 1.0) -> Array:
    """Halves of the spectra of frames, [batch, frames, bins, 2]."""
    frames = np.lib.stride_tricks.sliding_window_view(signal.astype(np.float64), length, axis=1)[:, ::step]
    found = np.fft.rfft(frames * np.asarray(window, np.float64))
    return np.stack([found.real, found.imag], axis=-1).astype(np.float32)


def transformed(x: Array, axis: int, length: int | None = None, *, inverse: bool = False, onesided: bool = False) -> Array:
    """A DFT along an axis, its last dimension the parts of numbers."""
    given = x.astype(np.float64)
    signal = given[..., 0] + (1j * given[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.asarray(np.fft.irfft(signal, length, axis)[..., None]).astype(x.dtype)
    found = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis)
    if onesided:
        found = np.take(found, range(found.shape[axis] // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1).astype(x.dtype)


def spectrum_row(
    sizes: Sequence[int], axis: int, length: int | None = None, dtype: Any = np.float32, operators: Sequence[str] | None = None, **how: bool
) -> Row:
    """A DFT with what NumPy gives for it."""
    x = numbers(*sizes, dtype=dtype)
    constants = [None if length is None else np.int64(length), np.int64(axis)]
    attributes = {name: int(value) for name, value in how.items()}
    return Row("DFT", [x], attributes, 20, constants, operators, [transformed(x, axis % x.ndim, length, **how)], terms=FEW_TERMS)


def normalized(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    """Batch normalization of [N, C, W]."""
    return np.asarray(scale[:, None] * (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5) + bias[:, None])


ROWS = [
    # Element by element
    Row("Shrink", [X345], {"lambd": 1.5, "bias": 0.25}, operators=["ACTIVATION_SHRINK"]),
    Row("Shrink", [X345], {"lambd": -1.5, "bias": 0.25}, operators=["ELEMENT_WISE_IDENTITY", "ACTIVATION_SHRINK", "ELEMENT_WISE_IDENTITY"]),
    Row("Clip", [X345], {"min": -1.0, "max": 0.5}, 6, operators=["ELEMENT_WISE_CLIP"]),
    Row("Clip", [X345], constants=[np.float32(2), np.float32(-2)], expected=[np.full_like(X345, -2)]),
    Row("Clip", [np.arange(-9, 9)], constants=[np.int64(-3), None], opset=13, operators=["ELEMENT_WISE_CLIP1"]),
    Row("Clip", [X345, np.float32(-1), np.float32(1)], operators=["ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN"]),
    Row("Mean", [X345, X345[0], X345[:, :1]], opset=13),
    Row("Mod", [np.arange(-7, 8), np.full(15, 3)], opset=13, operators=["ELEMENT_WISE_MODULUS_FLOOR"]),
    Row("Mod", [numbers(9), np.full(9, -2, np.float32)], {"fmod": 1}, 13, operators=["ELEMENT_WISE_MODULUS_TRUNCATE"]),
    Row("Pow", [np.abs(X345), ints(3)], opset=15),
    Row("Pow", [X345], opset=15, constants=[ints(2)], operators=["ELEMENT_WISE_CONSTANT_POW"]),
    Row("Pow", [X345.astype(np.float16)], constants=[np.float32(2)], opset=15, operators=["ELEMENT_WISE_CONSTANT_POW"]),
    Row("Pow", [X345[0, 0]], constants=[np.full((1, 1, 1), 2, np.float32)], opset=15, operators=["ELEMENT_WISE_POW"]),
    Row("Pow", [np.arange(-5, 5, dtype=np.int32)], constants=[np.int32(2)], opset=15, operators=["ELEMENT_WISE_POW"]),
    Row("IsInf", [np.asarray([1, np.inf, -np.inf], np.float32)], {"detect_positive": 0, "detect_negative": 0}, 10),
    Row("Cast", [np.asarray([0.0, 0.5, -3, 256], np.float32)], {"to": TensorProto.BOOL}, expected=[np.asarray([False, True, True, True])]),
    Row("Cast", [X345], {"to": TensorProto.FLOAT}, 13, operators=[]),
    Row("Neg", [np.float32(-0.0).reshape(())], operators=["ELEMENT_WISE_NEGATE"]),
    Row("BitShift", [np.asarray([1, 5], np.uint64), np.asarray([3, 60], np.uint64)], {"direction": "LEFT"}),
    Row("PRelu", [X2345, numbers(3, 1, 1)]),
    Row("HardSwish", [X345]),
    Row("Swish", [X345], {"alpha": 1.702}, 24, expected=[X345 / (1 + np.exp(-1.702 * X345))]),
    Row("Gelu", [X345.astype(np.float16)], {"approximate": "tanh"}),
    # Along axes
    Row("Softmax", [X345], {}, 11, operators=["ACTIVATION_SOFTMAX"], expected=[(lambda e: e / e.sum((1, 2), keepdims=True))(np.exp(X345))]),
    Row("LogSoftmax", [X345], {"axis": -2}, 13, operators=["ACTIVATION_LOG_SOFTMAX1"]),
    Row("Hardmax", [X345], {"axis": 2}, 11, operators=["ACTIVATION_HARDMAX"]),
    Row("ReduceMean", [X345], {"axes": [-1, 0], "keepdims": 0}, 13, operators=["REDUCE"]),
    # Fractions are cut off, as by ONNX Runtime 1.32.0, whose sums are in FLOAT64: it gives 2**53 for the last one.
    Row("ReduceMean", [ints(-7, 0, 2**53 + 1, 2**53 + 1).reshape(2, 2)], {"axes": [1], "keepdims": 0}, 13, expected=[ints(-3, 2**53 + 1)]),
    Row(
        "ReduceMean",
        [np.array([[2**30] * 3, [-1, -2, -2], [7, 0, 1]], np.int32)],
        {"axes": [1], "keepdims": 0},
        17,
        expected=[np.array([2**30, -1, 2], np.int32)],
    ),
    Row("ReduceMax", [np.arange(24).reshape(2, 3, 4)], {"axes": [1]}, 13),
    Row("ReduceSum", [np.float32(4).reshape(())], opset=13),
    Row("ReduceL1", [X345], {"noop_with_empty_axes": 1}, 18, expected=[np.abs(X345)]),
    Row("ReduceLogSumExp", [X345], {"keepdims": 0}, 18, constants=[ints(-2)]),
    Row("ReduceProd", [np.arange(1, 9, dtype=np.int32).reshape(2, 4)], {"keepdims": 0}, 18, constants=[ints(1)]),
    Row("ArgMax", [np.asarray([[2, 7, 7], [5, 5, 1]], np.int32)], {"axis": -1, "select_last_index": 1, "keepdims": 0}, 13),
    Row("CumSum", [X345], {"exclusive": 1, "reverse": 1}, 14, constants=[np.int64(-2)]),
    Row("TopK", [X345], {"axis": -2, "largest": 0}, 11, constants=[ints(3)], outputs=2),
    # Windows
    Row("Conv", [WAVE, numbers(4, 3, 3), numbers(4)], {"strides": [2], "pads": [1, 2], "dilations": [2]}, 11, operators=["CONVOLUTION"]),
    Row("Conv", [VOLUME, numbers(4, 1, 2, 3, 2)], {"group": 2, "pads": [0, 1, 2, 1, 0, 1]}, 11),
    Row("Conv", [IMAGE, numbers(6, 1, 2, 3)], {"group": 3, "auto_pad": "SAME_LOWER", "strides": [2, 2]}, 1),
    Row("ConvTranspose", [WAVE, numbers(3, 2, 3)], {"strides": [2], "pads": [1, 0]}, 11),
    Row("ConvTranspose", [VOLUME, numbers(2, 1, 2, 2, 2)], {"group": 2, "strides": [2, 1, 2]}, 11),
    Row("ConvTranspose", [IMAGE, numbers(3, 2, 3, 3)], {"strides": [2, 2], "output_padding": [1, 0]}, 11),
    Row("ConvTranspose", [numbers(1, 2, 0, 3), numbers(2, 3, 2, 2), BIAS], {}, 11, expected=[BIAS.reshape(1, 3, 1, 1).repeat(4, 3)]),
    Row("ConvTranspose", [numbers(1, 0, 2), numbers(0, 3, 2), BIAS], {}, 11, expected=[BIAS.reshape(1, 3, 1).repeat(3, 2)]),
    Row("MaxPool", [WAVE], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 12, operators=["MAX_POOLING"]),
    Row("MaxPool", [IMAGE], {"kernel_shape": [2, 3], "dilations": [2, 1]}, 12, operators=["MAX_POOLING2"]),
    Row("MaxPool", [IMAGE], CEIL, 12),
    Row("AveragePool", [IMAGE], CEIL | {"pads": [1, 1, 1, 1], "count_include_pad": 1}, 11, operators=["PADDING", "AVERAGE_POOLING"]),
    Row("AveragePool", [IMAGE], {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"}, 11, operators=["AVERAGE_POOLING"]),
    Row("AveragePool", [VOLUME], {"kernel_shape": [2, 2, 2], "pads": [0, 1, 0, 1, 0, 1]}, 11),
    # ONNX pads for the dilated window (pad_shape in the text of MaxPool 22); ONNX Runtime 1.32.0 for one without dilations: 7 elements.
    Row("MaxPool", [LINE], DILATED | {"auto_pad": "SAME_LOWER"}, 12, expected=[LINE[..., [1, 2, 3, 4, 5, 6, 7, 6]]]),
    Row("AveragePool", [LINE], DILATED | {"auto_pad": "SAME_UPPER"}, 19, expected=[LINE[..., [1, 1, 2, 3, 4, 5, 6, 6]]]),
    Row("LpPool", [LINE], DILATED | {"auto_pad": "SAME_UPPER", "p": 1}, 18, expected=[np.float32([[[2, 4, 6, 8, 10, 12, 14, 7]]])]),
    # ONNX counts by columns: column * 4 + row of an image of 4 x 6; OpenVINO 2026.4.1 counts by rows and transposes.
    Row(
        "MaxPool",
        [np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)],
        {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1},
        12,
        expected=[np.float32([[[[7, 9, 11], [19, 21, 23]]]]), ints(5, 13, 21, 7, 15, 23).reshape(1, 1, 2, 3)],
        outputs=2,
    ),
    Row("LpPool", [np.abs(IMAGE)], {"kernel_shape": [2, 2], "p": 3}, 18, operators=["LP_POOLING"]),
    Row("GlobalLpPool", [IMAGE], {"p": 2}, 2, expected=[np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))], operators=["LP_POOLING"]),
    Row("GlobalAveragePool", [WAVE], operators=["AVERAGE_POOLING"]),
    Row(
        "MaxRoiPool",
        [np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4), np.asarray([[0, 0, 0, 3, 3]], np.float32)],
        {"pooled_shape": [2, 2]},
        expected=[np.asarray([[[[5, 7], [13, 15]], [[21, 23], [29, 31]]]], np.float32)],
    ),
    # Normalizations
    Row(
        "BatchNormalization",
        [WAVE, *STATISTICS],
        {},
        9,
        operators=["BATCH_NORMALIZATION"],
        expected=[normalized(WAVE, *STATISTICS)],  # the reference implementation takes momentum for training in this opset
    ),
    Row("InstanceNormalization", [WAVE, *numbers(2, 3)], operators=["MEAN_VARIANCE_NORMALIZATION"]),
    Row("InstanceNormalization", [VOLUME, *numbers(2, 2)], operators=["MEAN_VARIANCE_NORMALIZATION1"]),
    Row("LayerNormalization", [X345.astype(np.float16), *numbers(2, 5, dtype=np.float16)], {"axis": -1}, 17),
    Row(  # ONNX's reference takes no FLOAT16 for means; ONNX Runtime does
        "LayerNormalization",
        [HALVES, np.full(5, 2, np.float16)],
        {"stash_type": TensorProto.FLOAT16},
        17,
        expected=[
            (2 * (HALVES - HALVES.mean(-1, np.float64, keepdims=True)) / HALVES.std(-1, np.float64, keepdims=True)).astype(np.float16)
        ],
    ),
    Row(
        "LRN",
        [VOLUME],
        {"size": 2, "alpha": 0.5, "bias": 1.5},
        expected=[VOLUME / (1.5 + 0.25 * np.stack([(VOLUME**2).sum(1), VOLUME[:, 1] ** 2], 1)) ** 0.75],
    ),
    # Indices
    Row("Gather", [X345, np.asarray(-1)], {"axis": 1}, 13, operators=["GATHER"]),
    Row("Gather", [X345.astype(np.float16), ints(2, -3).reshape(1, 2).astype(np.int32)], {"axis": -2}, 13),
    *(
        Row("Gather", [X2345], {"axis": axis}, 13, constants=[index], operators=["SLICE1"])
        for axis, index in ((1, np.int64(1)), (-2, ints(-1)), (-1, np.full((1, 1), 2, np.int32)))
    ),
    Row("Gather", [X345], {"axis": 1}, 13, constants=[ints(0)], operators=[]),
    Row("GatherElements", [X345, np.zeros((2, 4, 7), np.int64)], {"axis": -1}, 13, expected=[X345[:2, :, :1].repeat(7, 2)]),
    Row("GatherND", [X2345, ints(1, 2, 0, 0, -1, 3).reshape(2, 3)], {}, 12, operators=["GATHER_ND"]),
    Row("ScatterElements", [X345, np.zeros((1, 2, 5), np.int64), numbers(1, 2, 5)], {"axis": 1}, 11),
    Row("ScatterElements", [X345, ints(1, 1, -2).reshape(1, 3, 1), numbers(1, 3, 1)], {"axis": -2, "reduction": "add"}, 18),
    Row("ScatterND", [X345, ints(0, 2, -3).reshape(3, 1), numbers(3, 4, 5)], {"reduction": "max"}, 18),
    Row("ScatterND", [np.arange(6), ints(1, 1, 4).reshape(3, 1), ints(5, 7, 2)], {"reduction": "mul"}, 18),
    Row("OneHot", [ints(0, -1, 7).reshape(3, 1)], {"axis": 0}, 11, constants=[np.int64(4), np.asarray([2, 9], np.float32)]),
    Row("Compress", [X345], {"axis": -1}, 11, constants=[np.asarray([True, False, False, True, False])], operators=["GATHER"]),
    Row("Trilu", [X2345], {"upper": 0}, 14, constants=[np.int64(-1)], operators=["DIAGONAL_MATRIX1"]),
    Row(
        "ReverseSequence",
        [X345, ints(1, 4, 2, 3, 1)[:3]],
        {"time_axis": 1, "batch_axis": 0},
        10,
        operators=["CAST", "REVERSE_SUBSEQUENCES"],
    ),
    # Movement
    Row("Split", [X345], {"axis": -1, "split": [2, 3]}, 11, outputs=2, operators=["SPLIT"]),
    Row("Slice", [X345], {"starts": [0, -2], "ends": [2, 1000], "axes": [0, 2]}, 9),
    Row("Slice", [X345], {}, 13, constants=[ints(-1), ints(-(2**62)), ints(1), ints(-2)], operators=["SLICE1"]),
    Row(
        "Pad",
        [X345],
        {"pads": [0, -1, 2, 0, 1, 1], "mode": "constant", "value": 2.5},
        2,
        operators=["SLICE1", "PADDING"],
        expected=[np.pad(X345[:, 1:], ((0, 0), (0, 1), (2, 1)), constant_values=np.float32(2.5))],
    ),
    Row("Pad", [np.arange(6).reshape(2, 3)], {}, 13, constants=[ints(1, 0, 0, 2), np.int64(2**60 + 1)], operators=["PADDING1"]),
    Row("Pad", [X345], {"mode": "reflect"}, 13, constants=[ints(0, 2, 3, 1, 0, 4)]),
    Row("Tile", [np.asarray([[True, False]])], {}, 13, constants=[ints(2, 3)]),
    Row("ConstantOfShape", [], {"value": make_tensor("v", TensorProto.INT64, [1], [7])}, 9, [ints(2, 3)], operators=[]),
    Row("Range", [], {}, 11, [np.float32(1), np.float32(2.6), np.float32(0.5)], operators=[]),
    Row("SpaceToDepth", [numbers(1, 2, 4, 6)], {"blocksize": 2}, 13),
    Row("Gemm", [numbers(4, 3), numbers(5, 4), numbers(3, 1)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}, 13),
    Row("Gemm", [numbers(4, 3), numbers(3, 5)], {}, 11, operators=["GEMM"]),
    Row("MatMul", [numbers(2, 1, 3, 4), numbers(5, 4, 2)], {}, 13, operators=["GEMM"]),
    *(Row("Einsum", [numbers(*sizes) for sizes in given], {"equation": equation}, 12) for equation, given in EQUATIONS.items()),
    *(
        Row("GridSample", [IMAGE, GRID], {"mode": mode, "padding_mode": padding, "align_corners": align}, 20)
        for mode, padding, align in [
            ("linear", "reflection", 1),
            ("cubic", "zeros", 0),
            ("nearest", "border", 0),
            ("cubic", "reflection", 0),
        ]
    ),
    Row("MatMul", [np.arange(6, dtype=np.int32).reshape(2, 3) * 2**30, np.full((4, 3, 2), -7, np.int32)], {}, 13),
    Row("MatMul", [ints(2**40, -3, 5), ints(3, 2**40, -1)], {}, 13, operators=["ELEMENT_WISE_MULTIPLY", "REDUCE"]),
    Row("MatMul", [np.arange(3, dtype=np.uint64), np.arange(12, dtype=np.uint64).reshape(3, 4)], {}, 13),
    Row("Gemm", [np.arange(6).reshape(3, 2), np.arange(12).reshape(4, 3), ints(1, 2, 3, 4)], {"transA": 1, "transB": 1}, 13),
    # Views
    Row("Squeeze", [X345[:1]], {}, 13, [ints(0, -3)], expected=[X345[0]]),
    # Fourier transforms
    Row("DFT", [X345[..., :2]], {"axis": 1}, 17, [np.int64(7)], ["GEMM"], terms=512),
    Row("DFT", [X345[..., :1].astype(np.float16)], {"onesided": 1}, 17, [np.int64(3)], terms=512),
    Row("DFT", [X345[..., :2]], {"inverse": 1}, 20, [None, np.int64(-3)], terms=512),
    Row("DFT", [X345[..., :2]], {"inverse": 1}, 20, [np.int64(3), np.int64(0)], terms=512),
    *(Row("DFT", [X345[..., :2]], {"inverse": 1, "onesided": 1}, 20, [np.int64(size)], terms=512) for size in (5, 6, 7, 9)),
    Row("STFT", [numbers(2, 20, 1)], {}, 17, [ints(3).reshape(()), numbers(8)], ["CONVOLUTION"], terms=512),
    Row("STFT", [numbers(2, 20, 2)], {"onesided": 0}, 17, [np.int64(4), None, np.int64(7)], ["CONVOLUTION"], terms=512),
    Row(  # as PyTorch's exporter writes it
        "STFT", [SIGNAL], {}, 17, [np.int64(3), None, np.int64(8)], ["CONVOLUTION"], [spectra(SIGNAL, step=3, length=8)], terms=512
    ),
    # By one matrix, and by shorter transforms where these are faster
    spectrum_row((2, 128, 2), 1, operators=["GEMM"]),
    spectrum_row((2, 1009, 2), 1, operators=["GEMM"]),  # a prime
    spectrum_row((2, 320, 1), 1, onesided=True, operators=["GEMM"]),
    spectrum_row((3, 480, 1), 1, onesided=True, operators=BY_FACTORS),
    spectrum_row((2, 484, 3, 2), 1, inverse=True),  # along an axis in the middle
    spectrum_row((2, 600, 1), -2),
    spectrum_row((300, 2, 2), 0, 512),  # zeros are appended
    spectrum_row((2, 300, 2), 1, 289, inverse=True),  # samples are cut off
    spectrum_row((2, 512, 2), 1, dtype=np.float16),
    spectrum_row((2, 301, 2), 1, 600, inverse=True, onesided=True),
    spectrum_row((2, 200, 2), 1, 625, inverse=True, onesided=True),  # an odd length, zeros appended
    spectrum_row((1, 4913, 2), 1),  # 17 · 17 · 17
    spectrum_row((1, 4096, 1), 1, onesided=True),
    spectrum_row((1, 1031, 2), 1),  # primes without a matrix: alone, as a factor, and of few samples
    spectrum_row((1, 2062, 2), 1, inverse=True),
    spectrum_row((1, 450, 1), 1, 20011, onesided=True),
    Row(
        "STFT",
        [LONG_SIGNAL[..., :1]],
        {},
        17,
        [np.int64(100), WINDOW],
        expected=[spectra(LONG_SIGNAL[..., 0], step=100, length=480, window=WINDOW)],
        terms=FEW_TERMS,
    ),
    Row("STFT", [LONG_SIGNAL], {"onesided": 0}, 17, [np.int64(300), None, np.int64(256)], terms=FEW_TERMS),
    Row(
        "STFT",
        [LONG_SIGNAL[..., 0].astype(np.float16)],
        {},
        17,
        [np.int64(130), WINDOW.astype(np.float16)],
        expected=[
            spectra(LONG_SIGNAL[..., 0].astype(np.float16), step=130, length=480, window=WINDOW.astype(np.float16)).astype(np.float16)
        ],
        terms=FEW_TERMS,
    ),
    # Places between elements
    Row(
        "DeformConv", [IMAGE, numbers(4, 3, 2, 3), numbers(2, 12, 5, 4)], {"strides": [2, 2], "pads": [1, 1, 2, 1], "dilations": [1, 1]}, 19
    ),
    Row(
        "DeformConv",
        [numbers(2, 4, 6, 5), numbers(2, 2, 2, 2), numbers(2, 16, 4, 3), numbers(2), numbers(2, 8, 4, 3)],
        {"group": 2, "offset_group": 2, "dilations": [2, 2]},
        19,
    ),
    *(
        Row(
            "RoiAlign",
            [IMAGE, BOXES, ints(1, 0, 1)],
            {"mode": "max", "output_height": 2, "output_width": 3, "sampling_ratio": 2} | options,
            16,
        )
        for options in ({}, {"coordinate_transformation_mode": "output_half_pixel", "spatial_scale": 0.7})
    ),
    # Resizing
    Row("Upsample", [IMAGE], {"mode": "linear"}, 9, [np.asarray([1, 1, 2, 3], np.float32)], ["RESAMPLE1"], [INTERPOLATED]),
    Row("Resize", [np.arange(6).reshape(2, 3)], {"mode": "nearest"}, 13, [None, np.asarray([2, 1.5], np.float32)], ["GATHER", "GATHER"]),
    Row("Resize", [VOLUME], {"mode": "linear"}, 13, [None, None, ints(1, 2, 3, 8, 10)], ["RESAMPLE1"]),
    Row("Resize", [numbers(2, 3, 4, 5, 2)], {"mode": "linear"}, 13, [None, None, ints(3, 4, 2, 6, 3)]),
    Row("Resize", [IMAGE.astype(np.float16)], {"mode": "cubic"}, 13, [None, None, ints(2, 3, 5, 9)]),
    Row("Resize", [IMAGE], {"mode": "linear", "antialias": 1}, 18, [None, None, ints(2, 3, 3, 9)], ["RESAMPLE3"]),
    # Scales that leave sizes as they are: PyTorch interpolates, too, where ONNX Runtime copies.
    *[Row("Resize", [numbers(1, 1, 4, 5)], {"mode": mode}, 18, [None, SAME_SIZES]) for mode in ("nearest", "linear", "cubic")],
    Row(
        "Resize",
        [IMAGE],
        {"mode": "linear", "antialias": 1, "coordinate_transformation_mode": "align_corners"},
        18,
        [None, None, ints(2, 3, 1, 3)],
        ["GEMM", "GEMM"],
    ),  # to one row, whose coordinates have no scale
    # Both directions have their own activations; OpenVINO 2026.4.1 has the forward ones twice.
    Row(
        "RNN",
        [np.float32([1, 2, 3]).reshape(3, 1, 1), np.ones((2, 1, 1), np.float32), np.zeros((2, 1, 1), np.float32)],
        {"hidden_size": 1, "direction": "bidirectional", "activations": ["Tanh", "Relu"]},
        14,
        expected=[np.stack([np.tanh(np.float32([1, 2, 3])), np.float32([1, 2, 3])], 1).reshape(3, 2, 1, 1)],
    ),
    # ONNX's default has two for one direction, too; the first is used, as in ONNX Runtime 1.32.0.
    Row(
        "RNN",
        [np.float32([1, -2, 3]).reshape(3, 1, 1), np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)],
        {"hidden_size": 1, "activations": ["Relu", "Tanh"]},
        14,
        expected=[np.float32([1, 0, 3]).reshape(3, 1, 1, 1)],
    ),
    # A clip of 0 leaves nothing, and a negative one clips nothing, as in ONNX Runtime 1.32.0.
    *[
        Row(
            "RNN",
            [np.float32([1, 2, 3]).reshape(3, 1, 1), np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)],
            {"hidden_size": 1, "clip": clip},
            14,
            expected=[np.tanh(np.float32(kept)).reshape(3, 1, 1, 1)],
        )
        for clip, kept in ((0.0, [0, 0, 0]), (-1.0, [1, 2, 3]), (2.0, [1, 2, 2]))
    ],
]


def label(row: Row) -> str:
    options = ",".join(f"{key}={value}" for key, value in row.attributes.items() if isinstance(value, str | int | float))
    return f"{row.operator}-{row.opset}-{options}"


def check(row: Row) -> None:
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(row.inputs)]
    known = {f"c{index}": np.asarray(array) for index, array in enumerate(row.constants) if array is not None}
    given = {name: np.asarray(array) for name, array in zip(names, row.inputs, strict=True) if array is not None}
    wanted = [f"y{index}" for index in range(row.outputs)]
    read = [*names, *(f"c{index}" if array is not None else "" for index, array in enumerate(row.constants))]
    node = make_node(row.operator, read, wanted, **row.attributes)
    types = {name: element_type(array.dtype) for name, array in given.items()}
    sizes = {name: array.shape for name, array in given.items()}
    loaded = onnx.load(model([node], sizes, wanted, opset=row.opset, constants=known, types=types))
    (record,) = loaded.interpretation().records
    assert record.where == ("directml" if given else "folded"), record.problems
    if row.operators is not None:
        assert record.operators == tuple(row.operators)
    expected = row.expected
    if expected is None:
        found = HostProgram([node], {"": row.opset}, [*given, *known], wanted)({**given, **known})
        expected = [found[name] for name in wanted]
    results = loaded.compile("numpy")(given)
    for name, array in zip(wanted, expected, strict=True):
        assert results[name].dtype == array.dtype
        assert_close(results[name], array, array.dtype if array.dtype.kind == "f" else np.float64, terms=row.terms, what=name)


@pytest.mark.parametrize("part", range(6))
def test_nodes_become_operators_that_give_what_onnx_says(part: int) -> None:
    for row in ROWS[part::6]:
        try:
            check(row)
        except AssertionError as error:
            raise AssertionError(f"{label(row)}: {error}") from error


def test_frames_are_multiplied_by_a_window_that_is_an_input() -> None:
    """Those that one matrix transforms, and longer ones."""
    for length, device in ((8, "numpy"), (480, "numpy"), (480, "cpu")):
        node = make_node("STFT", ["x", "step", "window"], ["y"])
        signal = LONG_SIGNAL[..., :1]
        built = model([node], {"x": signal.shape, "window": [length]}, ["y"], opset=17, constants={"step": np.int64(200)})
        loaded = onnx.load(built)
        assert loaded.interpretation().records[0].where == "directml"
        expected = spectra(signal[..., 0], step=200, length=length, window=WINDOW[:length])
        found = loaded.compile(device)({"x": signal, "window": WINDOW[:length]})["y"]
        assert_close(found, expected, np.float32, terms=FEW_TERMS, what=f"{length} on {device}")


ROW, LOW = np.float32([[[-9, -1, 1, 9]]]), np.float32([[[-3, -2, -1]]])
FACTORS, WHOLE = np.array([1, 2, 3, 4], np.float32), np.float32(1)
PAD = make_node("Pad", ["x", "pads"], ["padded"])
CONV = [make_node("Conv", ["x", "filters"], ["copies"]), make_node("Mul", ["copies", "factors"], ["y"])]
WEIGHTS = [make_node("DequantizeLinear", ["w", "scale", "zero"], ["weights"], axis=0), make_node("Mul", ["x", "weights"], ["y"])]
QUANTIZED, NUMBERS = (
    make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
    make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
)
LATE_SLICE = [
    make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
    make_node("ReduceMax", ["whole"], ["most"]),
    make_node("Mul", ["most", "far"], ["end"]),
    make_node("Slice", ["x", "first", "end"], ["y"]),
]
CLIPPED = [QUANTIZED, make_node("Clip", ["q", "least", "most"], ["c"]), make_node("DequantizeLinear", ["c", "scale", "zero"], ["y"])]


def steps(zero_point: Any, scale: Any = WHOLE, **others: Any) -> dict[str, Array]:
    return {"scale": np.asarray(scale, np.float32), "zero": np.asarray(zero_point), **others}


# Chains that an optimizer merges into nodes of other values: onnxoptimizer 0.4.2, onnxslim 0.1.98, qonnx 1.0.0. The numbers are those of
# ONNX's formulas and of ONNX Runtime 1.32.0.
CHAINS: dict[str, tuple[Sequence[Any], Array, dict[str, Array], Any]] = {
    "zeros before a maximum": (
        [PAD, make_node("MaxPool", ["padded"], ["y"], kernel_shape=[3])],
        LOW,
        {"pads": ints(0, 0, 1, 0, 0, 1)},
        [[[0, -1, 0]]],
    ),
    "zeros before a mean with pads": (
        [PAD, make_node("AveragePool", ["padded"], ["y"], kernel_shape=[3], pads=[1, 1])],
        LOW,
        {"pads": ints(0, 0, 1, 0, 0, 1)},
        [[[-3 / 2, -5 / 3, -2, -1, -1 / 2]]],
    ),
    "factors of columns": (
        CONV,
        np.ones((1, 1, 4, 4), np.float32),
        {"filters": np.ones((4, 1, 1, 1), np.float32), "factors": FACTORS},
        [[[FACTORS] * 4] * 4],
    ),
    "factors of rows": (
        CONV,
        np.ones((1, 1, 4, 4), np.float32),
        {"filters": np.ones((4, 1, 1, 1), np.float32), "factors": FACTORS.reshape(4, 1)},
        [[[[factor] * 4 for factor in FACTORS]] * 4],
    ),
    "UINT8 weights": (WEIGHTS, np.ones(3, np.float32), steps(np.uint8(128), w=np.uint8([0, 128, 255])), [-128, 0, 127]),
    "INT8 weights": (WEIGHTS, np.ones(3, np.float32), steps(np.int8(1), w=np.int8([-128, 0, 127])), [-129, -1, 126]),
    "scales of rows": (WEIGHTS, np.ones((2, 2), np.float32), steps(np.int8([0, 0]), [1, 2], w=np.ones((2, 2), np.int8)), [[1, 1], [2, 2]]),
    "scales of channels": ([QUANTIZED, NUMBERS], np.full((1, 2, 2), 3, np.float32), steps(np.int8([0, 0]), [1, 2]), [[[3, 3], [4, 4]]]),
    # OpenVINO 2026.4.1 loses elements to ends past INT32 that are computed.
    "an end far behind": (LATE_SLICE, np.arange(6, dtype=np.float32), {"first": ints(1), "far": ints(2**40)}, [1, 2, 3, 4, 5]),
    "integers from 0 to 7": (CLIPPED, ROW, steps(np.int8(0), least=np.int8(0), most=np.int8(7)), [[[0, 0, 1, 7]]]),
    "integers from -5 to 9": (CLIPPED, ROW, steps(np.int8(0), least=np.int8(-5), most=np.int8(9)), [[[-5, -1, 1, 9]]]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_give_what_their_nodes_say(name: str) -> None:
    nodes, x, constants, expected = CHAINS[name]
    loaded = onnx.load(model(nodes, {"x": x.shape}, ["y"], opset=17, constants=constants))
    for device in ("numpy", "cpu"):
        assert_close(loaded.compile(device)({"x": x})["y"], np.asarray(expected, np.float64), np.float32, terms=4, what=device)


@pytest.mark.parametrize("reader", ["Gather", "Slice"])
def test_a_part_of_a_shape_is_not_the_whole(reader: str) -> None:
    """Where the sizes are known and where they are open; onnx-graphsurgeon 0.6.1 and onnxoptimizer 0.4.2 leave out Shape's start."""
    nodes = [make_node("Shape", ["x"], ["s"], start=1), make_node(reader, ["s", "first", *(["end"] if reader == "Slice" else [])], ["y"])]
    for sizes in ([2, 3, 4], ["a", "b", "c"]):
        built = model(nodes, {"x": sizes}, ["y"], opset=17, constants={"first": ints(0), "end": ints(1)}, types={"y": TensorProto.INT64})
        assert onnx.load(built).compile("numpy")({"x": np.zeros((2, 3, 4), np.float32)})["y"].tolist() == [3]


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("level", ["3_0", "6_4"])
def test_the_nearest_element_is_onnx_s_at_each_level(rounding: str, level: str) -> None:
    attributes = {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
    node = make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
    sizes = {"sizes": ints(2, 3, 5, 14)}
    loaded = onnx.load(model([node], {"x": IMAGE.shape}, ["y"], constants=sizes))
    assert loaded.interpretation(level).records[0].where == "directml"
    expected = HostProgram([node], {"": 21}, ["x", "sizes"], ["y"])({"x": IMAGE, **sizes})["y"]
    np.testing.assert_array_equal(loaded.compile("numpy", level)({"x": IMAGE})["y"], expected)


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(("size", "output"), [(4, 8), (5, 3), (3, 7), (6, 6)])
def test_the_nearest_element_as_tensorflow_counts(size: int, output: int, opset: int) -> None:
    """`tf_half_pixel_for_nn`, which tf2onnx writes at all opsets, though ONNX has it in 11 and 12 only: (i + 0.5) / scale, rounded down."""
    attributes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    node = make_node("Resize", ["x", "region", "scales", "sizes"], ["y"], **attributes)
    empty = np.empty(0, np.float32)
    constants = {"region": empty, "scales": empty, "sizes": ints(1, 1, size, output)}
    x = numbers(1, 1, size, size)
    loaded = onnx.load(model([node], {"x": x.shape}, ["y"], constants=constants, opset=opset))
    chosen = [min(size - 1, int(np.floor((i + 0.5) * size / output))) for i in range(output)]
    np.testing.assert_array_equal(loaded.compile("numpy")({"x": x})["y"], x[:, :, :, chosen])


@pytest.mark.parametrize(
    ("element", "between", "place"),
    [(TensorProto.FLOAT, [], "directml"), (TensorProto.FLOAT16, [], "directml"), (TensorProto.FLOAT, ["Transpose"], "host")],
)
def test_numbers_that_were_widened_are_infinite_where_they_were_before(element: int, between: Sequence[str], place: str) -> None:
    """DirectML has no IsInf of FLOAT64, to which exporters of PyTorch cast. Turned values are not those in order."""
    operators = ["Cast", *between, "IsInf"]
    nodes = [
        make_node(name, [f"v{at}"], [f"v{at + 1}"], **({"to": TensorProto.DOUBLE} if not at else {})) for at, name in enumerate(operators)
    ]
    given = np.asarray([[1, np.inf, -np.inf], [np.nan, 6e4, -0.0]], helper.tensor_dtype_to_np_dtype(element))
    loaded = onnx.load(model(nodes, {"v0": [2, 3]}, [f"v{len(nodes)}"], types={"v0": element}, opset=20))
    assert loaded.interpretation().records[-1].where == place
    (found,) = loaded.compile("numpy")(v0=given).values()
    np.testing.assert_array_equal(found, np.isinf(given.T if between else given))
