"""Nodes of which ONNX's text, its reference implementation and ONNX Runtime disagree, or which are easily guessed wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto
from onnx_operators import F16, F32, I8, I32, I64, U8, compute, normal, scalar, whole  # type: ignore[import-not-found, unused-ignore]
from operator_cases import Array, Cases  # type: ignore[import-not-found, unused-ignore]

CASES = Cases(f"ONNX Runtime {onnxruntime.__version__}", "onnx_choices")
NAN = float("nan")


def node(
    operator: str,
    given: Sequence[Array | None],
    outputs: Sequence[int] = (0,),
    *,
    known: Sequence[int] = (),
    domain: str = "",
    opset: int = 21,
    **attributes: Any,
) -> None:
    """Computes and adds a node.

    Args:
        operator: its operator.
        given: its inputs; None for one that is left out.
        outputs: which outputs are compared.
        known: which inputs are initializers.
        domain: the operator's domain.
        opset: the version of ONNX's own.
        **attributes: the operator's.
    """
    found = compute(operator, given, max(outputs) + 1, domain=domain, opset=opset, **attributes)
    inputs = {str(index): array for index, array in enumerate(given) if array is not None}
    told: dict[str, Any] = {"domain": domain, "opset": opset, "known": list(known), "attributes": attributes}
    told |= {"booleans": [index for index, array in enumerate(given) if array is not None and array.dtype == bool]}
    CASES.add(operator, operator, inputs, {str(index): found[index] for index in outputs}, told)


def resized() -> None:
    line = np.arange(0, 50, 10, dtype=F32).reshape(1, 1, 5)
    image = normal("resized", 1, 2, 5, 10)
    for mode in ("linear", "cubic"):
        for how in ("align_corners", "pytorch_half_pixel", "half_pixel", "half_pixel_symmetric", "asymmetric"):
            for scales in ((1.3, 0.7), (0.25, 1.9)):
                options = {"mode": mode, "coordinate_transformation_mode": how}
                node("Resize", [image, None, np.array([1, 1, *scales], F32)], known=[2], opset=19, **options)
    node(
        "Resize",
        [line, None, np.array([1, 1, 1.3], F32)],
        known=[2],
        opset=13,
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    corners = {"coordinate_transformation_mode": "align_corners", "antialias": 1}
    node("Resize", [image, None, None, np.array([1, 2, 3, 7])], known=[3], opset=19, mode="linear", **corners)
    region = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9], F32)
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    node("Resize", [image, region, np.array([1, 1, 1.3, 0.7], F32)], known=[1, 2], opset=13, **crop)
    for size, scale in ((10, 0.7), (5, 1.4), (7, 3 / 7), (3, 5 / 3)):  # the product in FLOAT is whole
        for mode in ("nearest", "linear"):
            node("Resize", [normal("whole", 1, 1, size), None, np.array([1, 1, scale], F32)], known=[2], opset=18, mode=mode)
        if scale > 1:
            node("Upsample", [normal("whole", 1, 1, size), np.array([1, 1, scale], F32)], known=[1], opset=9)
    for scales in ((0.6, 1.5), (0.3, 0.7)):  # the element behind where the result is smaller, before it where it is larger
        node("Resize", [image, np.array([1, 1, *scales], F32)], known=[1], opset=10)
    node("Resize", [whole("whole", -40, 40, 1, 1, 3, 4), None, np.array([1, 1, 2, 2], F32)], known=[2], opset=13, mode="linear")
    few = np.array([[9, 0, 3], [0, 9, 0], [2, 7, 9], [9, 3, 0]])
    for dtype in (U8, I32):  # antialiased integers are rounded
        for size in (2, 3):
            node("Resize", [few.astype(dtype), None, None, np.array([size])], known=[3], opset=18, mode="cubic", axes=[0], antialias=1)
    for opset in (11, 12):
        floored: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
        node("Resize", [image, np.empty(0, F32), np.array([1, 1, 1.6, 0.7], F32)], known=[1, 2], opset=opset, **floored)


def sampled() -> None:
    image = normal("sampled", 1, 2, 4, 5)
    grid = np.array([[[[-1.3, -0.2], [0.9, 1.4], [0.1, 0.3], [1.05, -1.1], [-4, 5]]]], F32)
    for padding in ("border", "zeros", "reflection"):
        for align in (0, 1):
            node("GridSample", [image, grid], opset=20, mode="cubic", padding_mode=padding, align_corners=align)


def regions() -> None:
    image, which = normal("regions", 2, 3, 5, 4), np.array([0, 1] * 4, I64)
    boxes = [[0, 0, 0.5, 0.5], [1, 1, 1.2, 3], [0, 0, 3, 3], [2, 2, 1, 1], [3, 1, 1, 2], [-3, -3, -2, -2], [2.2, 3.1, 9, 9], [1, 2, 1, 2]]
    given = [image, np.array(boxes, F32), which]
    for mode in ("avg", "max"):
        for samples in (0, 2):
            options = {"output_height": 2, "output_width": 3, "sampling_ratio": samples, "mode": mode, "spatial_scale": 0.75}
            known = [1] if mode == "max" and not samples else []
            node("RoiAlign", given, known=known, opset=10, **options)
            for how in ("half_pixel", "output_half_pixel"):
                node("RoiAlign", given, known=known, opset=16, coordinate_transformation_mode=how, **options)


def quantized() -> None:
    wide = normal("halves", 400, scale=3.0)
    for opset in (19, 21, 23):
        node("QuantizeLinear", [np.array([0.25], F16), scalar(0.1, F16)], opset=opset)
        node("QuantizeLinear", [wide.astype(F16), scalar(0.1, F16), scalar(3, I8)], opset=opset)
    rows = np.array([0.1, 0.3], F16)
    node("QuantizeLinear", [wide.reshape(2, 200).astype(F16), rows, np.array([1, -2], np.int16)], opset=23, axis=0)
    blocks = [wide.reshape(2, 200).astype(F16), np.tile(rows[:, None], (1, 100)), whole("zeros", 0, 9, 2, 100, dtype=U8)]
    node("QuantizeLinear", blocks, opset=23, axis=1, block_size=2)
    node("QuantizeLinear", [wide, scalar(0.1, F32)], opset=23)
    node("QuantizeLinear", [wide, scalar(0.1, F32)], opset=23, precision=TensorProto.FLOAT16)
    node("QuantizeLinear", [wide.astype(F16), scalar(0.1, F16)], opset=23, precision=TensorProto.FLOAT)
    for values in ([[0, 0, 0], [0, 0, 0]], [[0, 0, 1]], [[-1, -2]], [[5, 9]]):
        node("DynamicQuantizeLinear", [np.array(values, F32)], (0, 1, 2))


def pooled() -> None:
    image = normal("pooled", 1, 2, 5, 6)
    windows = (([2, 2], [3, 3], [1, 1, 1, 1]), ([3, 2], [2, 3], [0, 0, 1, 1]), ([2, 2], [2, 2], [0, 0, 1, 1]))
    for opset in (11, 21, 22):
        for shape, strides, pads in windows:
            options = {"kernel_shape": shape, "strides": strides, "pads": pads, "ceil_mode": 1}
            node("MaxPool", [image], opset=opset, **options)
            node("AveragePool", [image], opset=opset, **options)
            node("AveragePool", [image], opset=opset, count_include_pad=1, **options)
            if opset > 11:
                node("LpPool", [image], opset=opset, **options)
    node("MaxPool", [image[0]], opset=12, kernel_shape=[2], strides=[5], pads=[1, 1], ceil_mode=1)


def numbers() -> None:
    node("Sign", [np.array([NAN, -2, 0, 3, -0.0, np.inf], F32)])
    for p in (1, 2):
        node("LpNormalization", [np.array([[0, 0], [3, -4]], F32)], axis=1, p=p)
    mask = np.array([[True, True, True], [False, False, False], [True, False, True]])
    query, key, value = (normal(f"masked {name}", 1, 2, 3, 4) for name in ("query", "key", "value"))
    node("Attention", [query, key, value, mask], known=[3], opset=23)
    for first, second, step in ((0, 0.3, 0.1), (1, 0, -0.1), (0, 1, 0.3)):
        node("Range", [scalar(first, F32), scalar(second, F32), scalar(step, F32)], known=[0, 1, 2])


def of_nothing() -> None:
    for operator in ("Sum", "Mean", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Max", "Min", "Prod"):
        for dtype in (F32, I64):
            empty = np.empty((0, 2), dtype)
            node(f"Reduce{operator}", [empty], opset=11, axes=[0])
            node(f"Reduce{operator}", [empty], opset=18, keepdims=0)

    node("DynamicQuantizeLinear", [np.empty((3, 0), F32)], (0, 1, 2))
    rows = normal("few", 3, 6)
    for operator, opset in (("Scatter", 10), ("ScatterElements", 18)):  # indices of no numbers: all of the data
        node(operator, [rows, np.empty((3, 0), I64), np.empty((3, 0), F32)], opset=opset, axis=1)


def old_forms() -> None:
    rows = normal("few", 3, 6)
    node("TopK", [rows], (0, 1), opset=9, k=2)
    for opset in (7, 10, 12):
        node("Dropout", [rows], (0, 1), opset=opset)
    for opset in (9, 11):  # axes that count from the end, which ONNX has from opset 11 on
        node("Unsqueeze", [rows], opset=opset, axes=[-2])
        node("Unsqueeze", [rows], opset=opset, axes=[-4, 1])
        node("Squeeze", [rows.reshape(1, 3, 6, 1)], opset=opset, axes=[-4, -1])
    layer = [rows, normal("few scales", 6), normal("few biases", 6)]
    for opset in (9, 11):  # ONNX has it from opset 17 on
        node("LayerNormalization", layer, (0, 1, 2), opset=opset, axis=-1)
        node("LayerNormalization", layer[:2], opset=opset, axis=1, epsilon=0.1)
    node("ThresholdedRelu", [rows], opset=9, alpha=0.3)  # from opset 10 on


def padded() -> None:
    line = normal("padded", 2, 1)
    node("Pad", [line, np.array([-2, 1, 3, 0], I64)], known=[1], opset=13)  # nothing is left but what is added
    node("Pad", [line, np.array([0, -1, 0, 2], I64), scalar(0.5, F32)], known=[1, 2], opset=13)


def removed() -> None:
    """Operators that ONNX removed, which ONNX Runtime has up to opset 9."""
    image = normal("removed", 1, 3, 4, 5)
    node("Affine", [image], opset=7, alpha=0.5, beta=1.5)
    node("Affine", [image[0, 0]], opset=9)
    node("Scale", [image], opset=7, scale=0.3)
    node("Scale", [image[0]], opset=8)
    for operator in ("ParametricSoftplus", "ScaledTanh"):
        node(operator, [image], opset=7, alpha=0.7, beta=1.3)
    node("ImageScaler", [image], opset=7, scale=0.3, bias=[1.0, 2.0, 3.0])
    node("ImageScaler", [image[:, :2]], opset=8, bias=[1.0, 2.0])
    node("Crop", [image], opset=7, border=[1, 0, 2, 1])
    node("Crop", [image], opset=7, border=[1, 1, 9, 9], scale=[2, 3])
    for opset, across, scaled in ((7, 0, 1), (1, 1, 1), (8, 0, 0), (8, 1, 0)):
        shape = {"across_channels": across, "normalize_variance": scaled}
        node("MeanVarianceNormalization", [image], opset=opset, **(shape if opset > 1 else {"across_channels": 1}))
    bounds = [np.array(numbers, I64) for numbers in ([1, -3], [2, 9], [1, -1])]
    node("DynamicSlice", [image, *bounds], known=[1, 2, 3], opset=8)
    node("DynamicSlice", [image[0], *bounds[:2]], known=[1, 2], opset=9)  # along the first axes


def sliced() -> None:
    rows, last = normal("sliced", 4, 3), (2**31 - 1, 2**63 - 1)
    for first, end in ((-1, last[0]), (2, last[1]), (-9, -9), (-9, last[0]), (9, -9), (-1, 2**31 - 2)):
        for step in (-1, -2):
            bounds = [np.array([number], I64) for number in (first, end, 0, step)]
            node("Slice", [rows, *bounds], known=[1, 2, 3, 4], opset=13)


def placed() -> None:
    matrices, images = normal("flat", 2, 2, 3), normal("solid", 1, 3, 4)
    for align in (0, 1):
        for sizes in ((2, 1, 3, 4), (2, 1, 1, 3), (2, 1, 3, 1)):
            node("AffineGrid", [matrices, np.array(sizes, I64)], known=[1], opset=20, align_corners=align)
        node("AffineGrid", [matrices[:1], np.array([1, 1, 3, 4], I64)], known=[1], opset=20, align_corners=align)
        for solid in ((1, 1, 2, 3, 4), (1, 1, 1, 3, 2)):
            node("AffineGrid", [images, np.array(solid, I64)], known=[1], opset=20, align_corners=align)


def unpooled() -> None:
    line, block = normal("line", 1, 2, 2), normal("block", 1, 2, 2, 1, 2)
    places = np.array([0, 3, 5, 6], I64).reshape(1, 2, 2)
    spread = np.array([0, 6, 17, 30, 33, 36, 50, 63], I64).reshape(block.shape)
    node("MaxUnpool", [line, places], opset=11, kernel_shape=[2], strides=[2])
    odd = np.array([1, 1, 5], I64)  # of which a MaxPool gave the same two elements
    node("MaxUnpool", [line[:, :1], places[:, :1], odd], known=[2], opset=11, kernel_shape=[2], strides=[2])
    rows = np.array([0, 3, 16, 18, 26, 29, 40, 43], I64).reshape(1, 2, 2, 2)
    node("MaxUnpool", [block[..., 0, :], rows, np.array([1, 2, 5, 5], I64)], known=[2], opset=11, kernel_shape=[2, 2], strides=[2, 2])
    node("MaxUnpool", [block, spread], opset=11, kernel_shape=[2, 2, 2], strides=[2, 2, 2])


def transposed() -> None:
    line = normal("transposed", 1, 1, 4)
    shapes = [(size, "NOTSET") for size in (7, 8, 9, 10)] + [(8, "SAME_UPPER"), (7, "SAME_UPPER"), (8, "SAME_LOWER")]
    for length in (3, 4):
        weights = normal(f"transposed {length}", 1, 1, length)
        for opset in (1, 11):
            for size, mode in shapes:
                node("ConvTranspose", [line, weights], opset=opset, output_shape=[size], strides=[2], auto_pad=mode)
    image = normal("transposed image", 1, 2, 4, 3)
    points, pairs = normal("transposed points", 2, 2, 1, 2), normal("transposed pairs", 2, 2, 2, 2)
    node("ConvTranspose", [image, points], opset=22, output_shape=[3, 4])  # below 4, the input's size
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        node("ConvTranspose", [image, points], opset=11, strides=[3, 1], auto_pad=mode)  # steps that no window reaches
        node("ConvTranspose", [image, pairs], opset=11, strides=[2, 2], auto_pad=mode, output_padding=[1, 1])
    node("GatherND", [line[0, 0], np.empty((2, 0), I64)], opset=13)  # indices of no numbers: all of the data


def added() -> None:
    data, skip = (normal(f"added {name}", 2, 3, 64).astype(F16) for name in ("data", "skip"))
    gamma, beta, bias = (normal(f"added {name}", 64).astype(F16) for name in ("gamma", "beta", "bias"))
    node("SkipLayerNormalization", [data, skip, gamma, beta, bias], (3,), domain="com.microsoft")
    node("SkipSimplifiedLayerNormalization", [data, skip, gamma, bias], (3,), domain="com.microsoft")


def recurrent() -> None:
    steps = normal("steps", 3, 2, 3)
    for operator, gates, before in (("RNN", 1, []), ("GRU", 3, ["Sigmoid"]), ("LSTM", 4, ["Sigmoid", "Tanh"])):
        weights = [normal(f"defaults {operator} {name}", 1, 2 * gates, size) for name, size in (("w", 3), ("r", 2))]
        for activation in ("ScaledTanh", "Affine", "ThresholdedRelu", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", "Softsign"):
            node(operator, [steps, *weights], opset=14, hidden_size=2, activations=[*before, activation])
        node(operator, [steps, *weights], opset=14, hidden_size=2, activations=[*before, "ScaledTanh"], activation_alpha=[0.7])
        both = {"activation_alpha": [0.7], "activation_beta": [1.3]}
        node(operator, [steps, *weights], opset=14, hidden_size=2, activations=[*before, "ScaledTanh"], **both)


def flags() -> None:
    """Flags that are neither 0 nor 1."""
    image, square = normal("flagged", 1, 2, 5, 6), normal("transposed", 4, 4)
    for number in (2, -1):
        node("ReduceSum", [image, np.array([1])], known=[1], keepdims=number)
        node("ReduceMax", [image], opset=18, noop_with_empty_axes=number)
        node("ArgMax", [image], keepdims=number, axis=1)
        node("ArgMin", [np.round(image)], axis=3, select_last_index=number)
        node("AveragePool", [image], kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=number)
        node("MaxPool", [image], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=number)
        node("TopK", [image, np.array([2])], (0, 1), known=[1], largest=number)
        node("Trilu", [image], upper=number)
        node("IsInf", [np.array([1, np.inf, -np.inf], F32)], detect_negative=number, opset=10)
        node("GridSample", [image, normal("places", 1, 3, 4, 2)], align_corners=number, opset=20)
        node("Reshape", [image, np.array([0, -1, 3])], known=[1], allowzero=number)
        node("Resize", [image, None, np.array([1, 1, 0.6, 0.7], F32)], known=[2], opset=18, mode="linear", antialias=number)
        node("Gemm", [square, normal("other", 4, 4)], transA=number)
        node("Gemm", [square, normal("other", 4, 4)], transB=number)


def lists() -> None:
    """Axes that are named twice, and lists of axes without any."""
    image = normal("listed", 2, 1, 3, 1)
    for operator in ("ReduceSum", "ReduceMean", "ReduceLogSumExp"):
        node(operator, [image, np.array([2, -2])], known=[1], opset=18)
        node(operator, [image], opset=11, axes=[0, 0], keepdims=0)
    node("Squeeze", [image, np.empty(0, I64)], known=[1])


def large_windows() -> None:
    """Windows of poolings that are larger than the image by less than a stride."""
    image = normal("small", 1, 2, 5, 4)
    for operator in ("AveragePool", "LpPool", "MaxPool"):
        node(operator, [image], kernel_shape=[7, 2], strides=[3, 3])
        node(operator, [image], kernel_shape=[7, 7], strides=[7, 7], pads=[0, 1, 0, 0])
        node(operator, [image], kernel_shape=[6, 4])
    node("AveragePool", [image], kernel_shape=[9, 6], strides=[5, 5], pads=[1, 1, 0, 1], count_include_pad=1)


def masks_of_numbers() -> None:
    """Masks of numbers are added, of whatever type; those of truth values choose."""
    queries = normal("queries", 1, 2, 3, 4)
    for kind in (F16, np.float64, I64, I32, U8):
        node("Attention", [queries, queries, queries, whole("mask", 0, 3, 3, 3).astype(kind)], opset=23)
    node("Attention", [queries, queries, queries, whole("mask", 0, 3, 3, 2).astype(I64)], opset=24)


ROWS = (
    *(resized, sampled, regions, quantized, pooled, numbers, of_nothing, old_forms, removed, padded, sliced, placed, unpooled),
    *(transposed, added, recurrent, flags, lists, large_windows, masks_of_numbers),
)
