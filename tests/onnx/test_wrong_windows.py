"""Convolutions and poolings that contradict ONNX. As in `test_wrong_nodes`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx.wrong_nodes import Row, assert_refused, in_all_ways, integers, normal

ROWS = {
    "a mean of no image": Row("GlobalAveragePool", (normal(2, 3),), ("X", "3]", "at least 3 dimensions")),
    "a maximum of no image": Row("GlobalMaxPool", (normal(2, 3),), ("X", "3]", "at least 3 dimensions")),
    "an output_shape of all dimensions": Row(
        "ConvTranspose", (normal(1, 2, 4, 4), normal(2, 2, 3, 3)), ("output_shape", "4 numbers", "2"), {"output_shape": [1, 2, 9, 9]}
    ),
    "an output_shape far beyond the windows": Row(
        "ConvTranspose", (normal(1, 1, 3), normal(1, 1, 3)), ("output_shape", "[9]", "at most [8]"), {"output_shape": [9], "strides": [2]}
    ),
    "pads of more than the windows cover": Row(
        "ConvTranspose", (normal(1, 1, 3, 4), normal(1, 1, 1, 2)), ("pads", "[2, 0, 2, 1]", "[3, 5]"), {"pads": [2, 0, 2, 1]}
    ),
    "an output padding of a stride": Row(
        "ConvTranspose",
        (normal(1, 1, 3), normal(1, 1, 3)),
        ("output_padding", "[2]", "at most [1]"),
        {"output_padding": [2], "strides": [2]},
    ),
    "output paddings of a dilation": Row(
        "ConvTranspose",
        (normal(1, 2, 4, 4), normal(2, 2, 3, 3)),
        ("output_padding", "[1, 2]", "at most [2, 1]"),
        {"output_padding": [1, 2], "dilations": [3, 2], "auto_pad": "SAME_UPPER"},
    ),
    "a convolution of no images of other channels": Row("Conv", (normal(0, 2, 7), normal(1, 1, 3)), ("[1, 1, 3]", "2 as second size")),
    "means of no image": Row(
        "AveragePool", (normal(1, 3, 0, 2),), ("[1, 3, 0, 2]", "windows slide over"), {"kernel_shape": [3, 3], "pads": [2, 2, 2, 2]}
    ),
    "a bias of one channel": Row("Conv", (normal(1, 3, 5, 5), normal(2, 3, 3, 3), normal(1)), ("input 2 'B'", "[1]", "[2]")),
    "a window of other sizes than the weights": Row(
        "Conv", (normal(1, 3, 8, 8), normal(4, 3, 3, 3)), ("kernel_shape", "[5, 5]", "[3, 3]", "[4, 3, 3, 3]"), {"kernel_shape": [5, 5]}
    ),
    "a filter of other channels": Row("Conv", (normal(1, 3, 5, 5), normal(2, 4, 3, 3)), ("input 1 'W'", "[2, 4, 3, 3], expected 3 as")),
    "a filter of fewer dimensions": Row("Conv", (normal(1, 4, 5), normal(4)), ("input 1 'W' is [4], expected 3 dimensions",)),
    "a transposed filter of more dimensions": Row("ConvTranspose", (normal(1, 4, 5), normal(4, 3, 1, 1)), ("'W'", "3 dimensions")),
    "an image of one dimension": Row("Conv", (normal(4), normal(4)), ("input 0 'X' is [4], expected at least 3 dimensions",)),
    "a pooling of rows": Row("MaxPool", (normal(4, 5),), ("'X'", "[4, 5], expected at least 3 dimensions"), {"kernel_shape": [2]}),
    "unpooling past the end": Row(
        "MaxUnpool",
        (normal(1, 1, 2), integers([[0, 4]])),
        ("'I'", "4", "[1, 1, 4]"),
        {"kernel_shape": [2], "strides": [2]},
        constants=(1,),
    ),
    "unpooling to two sizes": Row(
        "MaxUnpool",
        (normal(1, 1, 2), integers([[0, 3]]), integers(1, 4)),
        ("output_shape", "[1, 4]", "3 sizes"),
        {"kernel_shape": [2], "strides": [2]},
        constants=(2,),
    ),
    "a window that fits nowhere": Row("Conv", (normal(1, 3, 2, 9), normal(4, 3, 3, 3)), ("'X'", "[1, 3, 2, 9]", "3 along axis 2")),
    "a dilated window that fits nowhere": Row(
        "MaxPool", (normal(1, 3, 9, 3),), ("[1, 3, 9, 3]", "5 along axis 3"), {"kernel_shape": [3, 3], "dilations": [1, 2]}
    ),
    "a window that fits nowhere, rounded up": Row(
        "AveragePool", (normal(1, 3, 4),), ("[1, 3, 4]", "5 along axis 2"), {"kernel_shape": [5], "ceil_mode": 1}
    ),
    "a mean of nothing": Row("GlobalAveragePool", (normal(2, 3, 0, 2),), ("'X'", "[2, 3, 0, 2]")),
    "Conv of other channels": Row(
        "Conv",
        (normal(1, 3, 8, 8), normal(4, 2, 3, 3)),
        ("input 1 'W'", "[4, 2, 3, 3], expected 3 as second size", "3 channels", "group is 1"),
    ),
    "Conv of other groups": Row(
        "Conv", (normal(1, 3, 8, 8), normal(4, 1, 3, 3)), ("group is 2, expected a divisor of", "3 channels"), {"group": 2}
    ),
    "Conv with another bias": Row("Conv", (normal(1, 3, 8), normal(4, 3, 3), normal(5)), ("input 2 'B'", "[5], expected [4]: one for")),
    "Conv of matrices": Row("Conv", (normal(2, 3), normal(4, 3)), ("input 0 'X'", "[2, 3], expected at least 3 dimensions")),
    "Conv of other ranks": Row(
        "Conv", (normal(1, 1, 3, 3), normal(1, 1, 2)), ("input 1 'W'", "[1, 1, 2], expected 4 dimensions", "as many as input 0 'X' has")
    ),
    "ConvTranspose of other ranks": Row(
        "ConvTranspose", (normal(1, 1, 3), normal(1, 4, 2, 3, 2)), ("input 1 'W'", "[1, 4, 2, 3, 2], expected 3 dimensions")
    ),
    "DeformConv of other ranks": Row(
        "DeformConv", (normal(1, 1, 3, 3), normal(1, 1, 2), normal(1, 2, 2, 2)), ("input 1 'W'", "[1, 1, 2], expected 4 dimensions")
    ),
    "ConvTranspose of other channels": Row(
        "ConvTranspose", (normal(1, 3, 8, 8), normal(4, 2, 3, 3)), ("input 1 'W'", "[4, 2, 3, 3], expected 3 as first size")
    ),
    "no such padding": Row("MaxPool", (normal(1, 1, 3),), ("auto_pad is 'SAME'", "SAME_UPPER"), {"kernel_shape": [2], "auto_pad": "SAME"}),
    "no such order": Row(
        "MaxPool", (normal(1, 1, 3),), ("storage_order is 2, expected one of [0, 1]",), {"kernel_shape": [2], "storage_order": 2}
    ),
    **{
        f"{operator} with no {name}": Row(
            operator,
            (normal(1, 2, 5, 5), normal(2, 2, 3, 3))[:inputs],
            (f"{name} has 0 numbers, expected {4 if name == 'pads' else 2}",),
            {"kernel_shape": [3, 3], name: np.zeros(0, np.int64)},
        )
        for operator, inputs in (("Conv", 2), ("ConvTranspose", 2), ("MaxPool", 1))
        for name in ("dilations", "pads", "strides")
    },
    "an output_shape of 0": Row(
        "ConvTranspose", (normal(1, 2, 5), normal(2, 2, 3)), ("output_shape is [0], expected numbers of 1 or more",), {"output_shape": [0]}
    ),
    "no output_shape": Row(
        "ConvTranspose", (normal(1, 2, 5), normal(2, 2, 3)), ("output_shape is []",), {"output_shape": np.zeros(0, np.int64)}
    ),
    "a transposed bias": Row("ConvTranspose", (normal(1, 2, 5), normal(2, 1, 3), normal(1)), ("'B' is [1], expected [2]",), {"group": 2}),
    "other transposed windows": Row(
        "ConvTranspose", (normal(1, 2, 5), normal(2, 2, 3)), ("kernel_shape is [2], expected [3]",), {"kernel_shape": [2]}
    ),
    "transposed windows of nothing": Row("ConvTranspose", (normal(1, 2, 5), normal(2, 2, 0)), ("'W' is [2, 2, 0], expected windows of 1",)),
    "no transposed channels": Row("ConvTranspose", (normal(1, 0, 5), normal(2, 2, 3)), ("'W' is [2, 2, 3], expected 0 as first size",)),
    "a bias of no dimension": Row("Conv", (normal(1, 2, 5), normal(1, 2, 3), np.float32(2)), ("input 2 'B' is [], expected [1]",)),
    **{
        f"pads of {operator} beside auto_pad": Row(
            operator, (normal(1, 2, 5), normal(2, 2, 3)), ("pads is [1, 1], expected no pads",), {"pads": [1, 1], "auto_pad": mode}
        )
        for operator, mode in (("Conv", "SAME_UPPER"), ("ConvTranspose", "VALID"), ("ConvTranspose", "SAME_LOWER"))
    },
    "a deformed window that fits nowhere": Row(
        "DeformConv", (normal(1, 1, 2, 4), normal(1, 1, 3, 2), normal(1, 12, 0, 3)), ("'X' is [1, 1, 2, 4]", "3 along axis 2")
    ),
    "columns of other places": Row(
        "Col2Im", (normal(1, 5, 4), integers(5, 5), integers(1, 5)), ("'input' is [1, 5, 4], expected [N, C * 5, 5]",), constants=(1, 2)
    ),
    "columns of other blocks": Row(
        "Col2Im", (normal(1, 4, 5), integers(5, 5), integers(1, 5)), ("'input' is [1, 4, 5], expected [N, C * 5, 5]",), constants=(1, 2)
    ),
    "columns of no image": Row(
        "Col2Im", (normal(1, 5, 5), integers(0, 5), integers(1, 5)), ("'image_shape' is [0, 5], expected sizes of 1",), constants=(1, 2)
    ),
    "blocks beyond the image": Row(
        "Col2Im",
        (normal(1, 30, 0), integers(5, 5), integers(6, 5)),
        ("'block_shape' is [6, 5], expected blocks that fit",),
        constants=(1, 2),
    ),
    "blocks of another rank": Row(
        "Col2Im", (normal(1, 5, 5), integers(5, 5), integers(1, 5)), ("pads has 2 numbers, expected 4",), {"pads": [0, 0]}, constants=(1, 2)
    ),
    "indices of other elements": Row(
        "MaxUnpool",
        (normal(1, 1, 2, 2), np.ones((1, 1, 4), np.int64)),
        ("input 1 'I' is [1, 1, 4], expected [1, 1, 2, 2]",),
        {"kernel_shape": [2, 2]},
    ),
    "offsets of fewer windows": Row(
        "DeformConv",
        (normal(1, 1, 3, 3), normal(1, 1, 2, 2), normal(1, 8, 1, 2)),
        ("input 2 'offset' is [1, 8, 1, 2],", "expected [1, 8, 2, 2]: 4 places for each of [2, 2] windows"),
        opset=22,
    ),
    "factors of fewer windows": Row(
        "DeformConv",
        (normal(1, 1, 3, 3), normal(1, 1, 2, 2), normal(1, 8, 2, 2), None, normal(1, 4, 2, 1)),
        ("input 4 'mask' is [1, 4, 2, 1], expected [1, 4, 2, 2]",),
        opset=22,
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("name", "way"), in_all_ways(ROWS))
def test_a_window_that_contradicts_onnx_is_refused(name: str, way: str) -> None:
    assert_refused(ROWS[name], way)
