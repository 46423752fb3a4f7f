"""The records of products, convolutions, pooling, resampling, attention and recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.inspection.operator_records.record import (
    Array,
    Draw,
    OnnxInput,
    OperatorRecord,
    TimedCase,
    constant,
    normal,
    scalar,
    shaped,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_IMAGES = (4, 16, 64, 64)
_SMALL = (4, 16, 32, 32)
_U8, _I8 = np.uint8, np.int8
_ROWS = {"a_tensor": 2, "output_tensor": 2}
_HEIGHT = {"input_tensor": 2, "output_tensor": 2}
_SEQUENCE = dict.fromkeys(("query_tensor", "key_tensor", "value_tensor", "output_tensor"), 1)
_BATCH = dict.fromkeys(("input_tensor", "output_sequence_tensor", "output_single_tensor"), 2)
_BOXES = dict.fromkeys(("roi_tensor", "batch_indices_tensor", "input_gradient_tensor", "output_tensor"), 0)


def _matrices() -> Iterator[OperatorRecord]:
    yield OperatorRecord(
        *("GEMM", {"a_tensor": normal(1, 1, 512, 512), "b_tensor": normal(1, 1, 512, 512)}),
        {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1.0, "beta": 0.0},
        onnx="output_tensor = MatMul (a_tensor, b_tensor)",
        torch=lambda t, x: t.matmul(x.a_tensor, x.b_tensor),
        scaled_axes=_ROWS,
    )
    a, b = whole(0, 256, 1, 1, 256, 512, dtype=_U8), whole(0, 256, 1, 1, 512, 512, dtype=_U8)
    points: dict[str, Draw] = {f"{name}_zero_point_tensor": constant(120, 1, 1, 1, 1, dtype=_U8) for name in ("a", "b", "output")}
    scales: dict[str, Draw] = {
        f"{name}_scale_tensor": constant(value, 1, 1, 1, 1) for name, value in (("a", 0.02), ("b", 0.03), ("output", 2.0))
    }
    operands: dict[str, OnnxInput] = {field.removesuffix("_tensor"): scalar(field) for field in (*points, *scales)}
    out = {"output_tensor": ((1, 1, 256, 512), _U8)}
    both: dict[str, Draw] = {"a_tensor": a, "b_tensor": b} | {name: points[name] for name in ("a_zero_point_tensor", "b_zero_point_tensor")}
    scaled = both | {name: scales[name] for name in ("a_scale_tensor", "b_scale_tensor")}
    yield OperatorRecord(
        *("MATRIX_MULTIPLY_INTEGER", both),
        onnx="output_tensor = MatMulInteger (a_tensor, b_tensor, a_zero_point, b_zero_point)",
        onnx_inputs={name: operand for name, operand in operands.items() if name in ("a_zero_point", "b_zero_point")},
        scaled_axes=_ROWS,
    )
    yield OperatorRecord(
        *("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", scaled),
        outputs={"output_tensor": ((1, 1, 256, 512), np.float32)},
        onnx="output_tensor = com.microsoft.MatMulIntegerToFloat (a_tensor, b_tensor, a_scale, b_scale, a_zero_point, b_zero_point)",
        onnx_inputs={name: operand for name, operand in operands.items() if not name.startswith("output")},
        scaled_axes=_ROWS,
    )
    yield OperatorRecord(
        *("QUANTIZED_LINEAR_MATRIX_MULTIPLY", both | scales | points),
        outputs=out,
        onnx="output_tensor = QLinearMatMul (a_tensor, a_scale, a_zero_point, b_tensor, b_scale, b_zero_point, output_scale, "
        "output_zero_point)",
        onnx_inputs=operands,
        scaled_axes=_ROWS,
    )


def _convolutions() -> Iterator[OperatorRecord]:
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "group_count": 1}
    forward = {"mode": "CROSS_CORRELATION", "direction": "FORWARD", "output_padding": (0, 0)}
    alone: dict[str, Any] = members | {"group_count": 64}
    unpadded: dict[str, Any] = members | {"start_padding": (0, 0), "end_padding": (0, 0)}
    yield OperatorRecord(
        *("CONVOLUTION", {"input_tensor": normal(2, 64, 32, 32), "filter_tensor": normal(32, 64, 3, 3)}, members | forward),
        onnx="output_tensor = Conv <pads=[1, 1, 1, 1]> (input_tensor, filter_tensor)",
        torch=lambda t, x: t.conv2d(x.input_tensor, x.filter_tensor, padding=1),
        scaled_axes=_HEIGHT,
        forms={  # the convolutions of MobileNet
            "DEPTHWISE": TimedCase(
                *("CONVOLUTION", {"input_tensor": normal(2, 64, 56, 56), "filter_tensor": normal(64, 1, 3, 3)}, alone | forward),
                onnx="output_tensor = Conv <pads=[1, 1, 1, 1], group=64> (input_tensor, filter_tensor)",
                torch=lambda t, x: t.conv2d(x.input_tensor, x.filter_tensor, padding=1, groups=64),
                scaled_axes=_HEIGHT,
            ),
            "POINTWISE": TimedCase(
                *("CONVOLUTION", {"input_tensor": normal(2, 128, 28, 28), "filter_tensor": normal(128, 128, 1, 1)}, unpadded | forward),
                onnx="output_tensor = Conv (input_tensor, filter_tensor)",
                torch=lambda t, x: t.conv2d(x.input_tensor, x.filter_tensor),
                scaled_axes=_HEIGHT,
            ),
        },
    )
    x, w = whole(0, 256, 2, 64, 32, 32, dtype=_U8), whole(-128, 128, 32, 64, 3, 3, dtype=_I8)
    points = {"input_zero_point_tensor": constant(117, 1, 1, 1, 1, dtype=_U8)}
    filter_points = {"filter_zero_point_tensor": constant(0, 1, 1, 1, 1, dtype=_I8)}
    yield OperatorRecord(
        *("CONVOLUTION_INTEGER", {"input_tensor": x, **points, "filter_tensor": w, **filter_points}, members),
        onnx="output_tensor = ConvInteger <pads=[1, 1, 1, 1]> (input_tensor, filter_tensor, point, filter_point)",
        onnx_inputs={"point": scalar("input_zero_point_tensor"), "filter_point": scalar("filter_zero_point_tensor")},
        scaled_axes=_HEIGHT,
    )
    scales = {name: constant(value, 1, 1, 1, 1) for name, value in (("input", 0.02), ("filter", 0.005), ("output", 2.0))}
    inputs = {"input_tensor": x, "input_scale_tensor": scales["input"], **points}
    inputs |= {"filter_tensor": w, "filter_scale_tensor": scales["filter"], **filter_points}
    inputs |= {"output_scale_tensor": scales["output"], "output_zero_point_tensor": constant(120, 1, 1, 1, 1, dtype=_U8)}
    short = {name: name.removesuffix("_tensor") for name in inputs if name not in ("input_tensor", "filter_tensor")}
    yield OperatorRecord(
        *("QUANTIZED_LINEAR_CONVOLUTION", inputs, members),
        outputs={"output_tensor": ((2, 32, 32, 32), _U8)},
        onnx=f"output_tensor = QLinearConv <pads=[1, 1, 1, 1]> ({', '.join(short.get(name, name) for name in inputs)})",
        onnx_inputs={parameter: scalar(name) for name, parameter in short.items()},
        scaled_axes=_HEIGHT,
    )


def _pooling() -> Iterator[OperatorRecord]:
    x: dict[str, Draw] = {"input_tensor": normal(*_IMAGES)}
    members = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)}
    dilated = {**members, "dilations": (1, 1)}
    theirs = "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]"

    def average(t: Any, x: Any) -> Any:
        return t.nn.functional.avg_pool2d(x.input_tensor, 3, 2, 1)

    nodes = f"output_tensor = AveragePool <{theirs}, count_include_pad=1> (input_tensor)"
    padded = {"include_padding": True}
    yield OperatorRecord("AVERAGE_POOLING", x, members | padded, onnx=nodes, torch=average)
    yield OperatorRecord("AVERAGE_POOLING1", x, dilated | padded, onnx=nodes, torch=average)
    yield OperatorRecord(
        *("AVERAGE_POOLING_GRAD", {"input_gradient_tensor": normal(4, 16, 32, 32)}, members | padded),
        outputs={"output_gradient_tensor": (_IMAGES, np.float32)},
        torch=lambda t, x: t.ops.aten.avg_pool2d_backward(
            x.input_gradient_tensor,
            x.input_gradient_tensor.new_empty((len(x.input_gradient_tensor), *_IMAGES[1:])),
            [3, 3],
            [2, 2],
            [1, 1],
            False,
            True,
            None,
        ),
    )
    for number, parameters in (("", members), ("1", dilated)):
        nodes = f"output_tensor = LpPool <{theirs}, p=2> (input_tensor)"
        yield OperatorRecord(f"LP_POOLING{number}", x, {**parameters, "p": 2}, onnx=nodes)
    yield from _maximum(x, members, dilated, theirs)
    scales = {"input_scale_tensor": constant(0.0625, 1, 1, 1, 1), "output_scale_tensor": constant(0.03125, 1, 1, 1, 1)}
    points = {f"{name}_zero_point_tensor": constant(value, 1, 1, 1, 1, dtype=_U8) for name, value in (("input", 100), ("output", 8))}
    names = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
    yield OperatorRecord(
        *("QUANTIZED_LINEAR_AVERAGE_POOLING", {"input_tensor": whole(0, 256, *_IMAGES, dtype=_U8), **scales, **points}, dilated | padded),
        outputs={"output_tensor": ((4, 16, 32, 32), _U8)},
        onnx=f"output_tensor = com.microsoft.QLinearAveragePool <{theirs}, count_include_pad=1> (input_tensor, "
        + f"{', '.join(name.removesuffix('_tensor') for name in names)})",
        onnx_inputs={name.removesuffix("_tensor"): scalar(name) for name in names},
    )


def _maximum(x: dict[str, Draw], members: dict[str, Any], dilated: dict[str, Any], theirs: str) -> Iterator[OperatorRecord]:
    yield OperatorRecord(
        *("MAX_POOLING", x, members),
        onnx=f"output_tensor = MaxPool <{theirs}> (input_tensor)",
        torch=lambda t, x: t.nn.functional.max_pool2d(x.input_tensor, 3, 2, 1),
    )
    # ONNX counts indices over the whole tensor, as DirectML does, PyTorch within an image; PyTorch's are not compared.
    both = f"output_tensor, output_indices_tensor = MaxPool <{theirs}> (input_tensor)"

    def indexed(t: Any, x: Any) -> Any:
        return {"output_tensor": t.ops.aten.max_pool2d_with_indices(x.input_tensor, [3, 3], [2, 2], [1, 1])[0]}

    out = {"output_tensor": ((4, 16, 32, 32), np.float32), "output_indices_tensor": ((4, 16, 32, 32), np.uint32)}
    lacking = {"torch": ("output_indices_tensor",)}
    yield OperatorRecord("MAX_POOLING1", x, members, outputs=out, onnx=both, torch=indexed, lacking=lacking)
    yield OperatorRecord("MAX_POOLING2", x, dilated, outputs=out, onnx=both, torch=indexed, lacking=lacking)

    def gradient(t: Any, x: Any) -> Any:
        where = [3, 3], [2, 2], [1, 1], [1, 1], False
        _, indices = t.ops.aten.max_pool2d_with_indices(x.input_tensor, *where)
        return t.ops.aten.max_pool2d_with_indices_backward(x.input_gradient_tensor, x.input_tensor, *where, indices)

    yield OperatorRecord("MAX_POOLING_GRAD", x | {"input_gradient_tensor": normal(4, 16, 32, 32)}, dilated, torch=gradient)
    unpooled = {"input_tensor": normal(*_SMALL), "indices_tensor": _unpooled}
    yield OperatorRecord(
        *("MAX_UNPOOLING", unpooled),
        outputs={"output_tensor": (_IMAGES, np.float32)},
        onnx="output_tensor = MaxUnpool <kernel_shape=[2, 2], strides=[2, 2]> (input_tensor, indices)",
        onnx_inputs={"indices": ("indices_tensor", lambda array: array.astype(np.int64))},
        scaled_axes={},  # the indices are those of one size
    )


def _unpooled(rng: np.random.Generator) -> Array:
    """An index in the whole tensor of one element of each block of two by two."""
    batch, channels, height, width = _SMALL
    image, row, column = np.ogrid[: batch * channels, :height, :width]
    chosen = rng.integers(0, 2, (2, batch * channels, height, width))
    indices: Array = ((image * 2 * height + 2 * row + chosen[0]) * 2 * width + 2 * column + chosen[1]).reshape(_SMALL).astype(np.uint32)
    return indices


def _regions() -> Iterator[OperatorRecord]:
    images, count = (2, 32, 64, 64), 128
    batches: Draw = whole(0, 2, count, dtype=np.uint32)

    def corners(rng: np.random.Generator) -> Array:
        start, extent = rng.uniform(0, 30, (count, 2)), rng.uniform(4, 30, (count, 2))
        return np.concatenate([start, start + extent], axis=1).astype(np.float32)

    inputs = {"input_tensor": normal(*images), "roi_tensor": corners, "batch_indices_tensor": batches}
    members: dict[str, Any] = {"spatial_scale_x": 1.0, "spatial_scale_y": 1.0, "minimum_samples_per_output": 2}
    members |= {"reduction_function": "AVERAGE", "interpolation_mode": "LINEAR", "maximum_samples_per_output": 2}
    out = {"output_tensor": ((count, 32, 7, 7), np.float32)}
    theirs = "output_height=7, output_width=7, sampling_ratio=2"
    whole_batches: dict[str, OnnxInput] = {"batches": ("batch_indices_tensor", lambda array: array.astype(np.int64))}
    nodes = f'output_tensor = RoiAlign <{theirs}, mode="avg"> (input_tensor, roi_tensor, batches)'
    more: dict[str, Any] = {"onnx": nodes, "onnx_inputs": whole_batches, "scaled_axes": _BOXES}
    yield OperatorRecord("ROI_ALIGN", inputs, members, outputs=out, **more)
    placed = {**members, "input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
    yield OperatorRecord("ROI_ALIGN1", inputs, {**placed, "out_of_bounds_input_value": 0.0}, outputs=out, **more)
    back = {"input_gradient_tensor": normal(count, 32, 7, 7), "roi_tensor": corners, "batch_indices_tensor": batches}
    yield OperatorRecord("ROI_ALIGN_GRAD", back, placed, outputs={"output_gradient_tensor": (images, np.float32)}, scaled_axes=_BOXES)

    def pooled(rng: np.random.Generator) -> Array:
        return np.concatenate([rng.integers(0, 2, (count, 1)), np.floor(corners(rng))], axis=1).astype(np.float32)[None, None]

    yield OperatorRecord(
        *("ROI_POOLING", {"input_tensor": normal(*images), "roi_tensor": pooled}),
        {"spatial_scale": 1.0, "pooled_size": {"height": 7, "width": 7}},
        onnx="output_tensor = MaxRoiPool <pooled_shape=[7, 7], spatial_scale=1.0> (input_tensor, regions)",
        onnx_inputs={"regions": ("roi_tensor", lambda array: array.reshape(-1, 5))},
        scaled_axes={"roi_tensor": 2},
    )


def _resampling() -> Iterator[OperatorRecord]:
    x: dict[str, Draw] = {"input_tensor": normal(*_SMALL)}
    scales = (1.0, 1.0, 2.0, 2.0)
    operands: dict[str, OnnxInput] = {"scales": np.array(scales, np.float32)}
    doubled, halved = {"output_tensor": (_IMAGES, np.float32)}, {"output_tensor": (_SMALL, np.float32)}

    def linear(t: Any, x: Any) -> Any:
        return t.nn.functional.interpolate(x.input_tensor, scale_factor=2.0, mode="bilinear")

    def nearest(t: Any, x: Any) -> Any:
        return t.nn.functional.interpolate(x.input_tensor, scale_factor=2.0, mode="nearest")

    resize = 'output_tensor = Resize <mode="{}", coordinate_transformation_mode="half_pixel", nearest_mode="{}"> (input_tensor, , scales)'
    near, line = resize.format("nearest", "round_prefer_ceil"), resize.format("linear", "floor")
    centres = {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
    yield OperatorRecord(
        "RESAMPLE",
        x,
        {"interpolation_mode": "NEAREST_NEIGHBOR", "scales": scales},
        outputs=doubled,
        onnx=near,
        onnx_inputs=operands,
        torch=nearest,
    )
    members: dict[str, Any] = {"interpolation_mode": "LINEAR", "scales": scales, **centres}
    yield OperatorRecord("RESAMPLE1", x, members, outputs=doubled, onnx=line, onnx_inputs=operands, torch=linear)
    yield OperatorRecord(
        "RESAMPLE2", x, {**members, "rounding_direction": "DECREASING"}, outputs=doubled, onnx=line, onnx_inputs=operands, torch=linear
    )
    yield OperatorRecord(
        *("RESAMPLE3", {"input_tensor": normal(*_IMAGES)}),
        {**members, "scales": (1.0, 1.0, 0.5, 0.5), "rounding_direction": "DECREASING", "antialiased": True},
        outputs=halved,
        onnx='output_tensor = Resize <mode="linear", antialias=1> (input_tensor, , scales)',
        onnx_inputs={"scales": np.array((1.0, 1.0, 0.5, 0.5), np.float32)},
        # PyTorch weights the elements at the edges differently.
    )
    back: dict[str, Draw] = {"input_gradient_tensor": normal(*_IMAGES)}
    out = {"output_gradient_tensor": (_SMALL, np.float32)}

    def backward(t: Any, x: Any) -> Any:
        return t.ops.aten.upsample_bilinear2d_backward(
            x.input_gradient_tensor, [64, 64], [len(x.input_gradient_tensor), *_SMALL[1:]], False, None, None
        )

    yield OperatorRecord("RESAMPLE_GRAD", back, members, outputs=out, torch=backward)
    yield OperatorRecord("RESAMPLE_GRAD1", back, {**members, "rounding_direction": "DECREASING"}, outputs=out, torch=backward)
    twice = {"interpolation_mode": "NEAREST_NEIGHBOR", "scale_size": {"height": 2, "width": 2}}
    yield OperatorRecord("UPSAMPLE_2D", x, twice, onnx=near, onnx_inputs=operands, torch=nearest)
    yield OperatorRecord(
        *("VALUE_SCALE_2D", {"input_tensor": normal(4, 3, 128, 128)}, {"scale": 1.5, "bias": (0.5, -1.0, 0.25)}),
        onnx="output_tensor = ImageScaler <scale=1.5, bias=[0.5, -1.0, 0.25]> (input_tensor)",
        opset=7,
        torch=lambda t, x: x.input_tensor.mul(1.5).add_(t.tensor([0.5, -1.0, 0.25], device=x.device).view(3, 1, 1)),
    )


def _attention() -> Iterator[OperatorRecord]:
    inputs: dict[str, Draw] = {f"{name}_tensor": normal(2, 256, 512) for name in ("query", "key", "value")}
    members: dict[str, Any] = {"scale": 0.125, "mask_filter_value": -1e4}
    nodes = "output_tensor = com.microsoft.MultiHeadAttention <num_heads=8, scale=0.125> (query_tensor, key_tensor, value_tensor)"
    out = {"output_tensor": ((2, 256, 512), np.float32)}

    def attend(t: Any, x: Any) -> Any:
        parts = [part.view(2, -1, 8, 64).transpose(1, 2) for part in (x.query_tensor, x.key_tensor, x.value_tensor)]
        return t.nn.functional.scaled_dot_product_attention(*parts, scale=0.125).transpose(1, 2).reshape(2, -1, 512)

    theirs: dict[str, Any] = {"outputs": out, "onnx": nodes, "torch": attend, "scaled_axes": _SEQUENCE}
    yield OperatorRecord("MULTIHEAD_ATTENTION", inputs, {**members, "head_count": 8}, **theirs)
    heads = {"query_head_count": 8, "key_value_head_count": 8}
    yield OperatorRecord("MULTIHEAD_ATTENTION1", inputs, members | heads, **theirs)


def _recurrent() -> Iterator[OperatorRecord]:
    steps, batch, size = 50, 16, 128
    for cell, gates, functions in (("RNN", 1, ["TANH"]), ("GRU", 3, ["SIGMOID", "TANH"]), ("LSTM", 4, ["SIGMOID", "TANH", "TANH"])):
        bound = size**-0.5
        inputs: dict[str, Draw] = {
            "input_tensor": normal(1, steps, batch, size),
            "weight_tensor": _scaled(bound, 1, 1, gates * size, size),
            "recurrence_tensor": _scaled(bound, 1, 1, gates * size, size),
            "bias_tensor": _scaled(bound, 1, 1, 1, 2 * gates * size),
        }
        members: dict[str, Any] = {"direction": "FORWARD"}
        members["activation_descs"] = [{"Type": f"DML_OPERATOR_ACTIVATION_{name}"} for name in functions]
        members |= {"linear_before_reset": True} if cell == "GRU" else {}
        theirs = f"hidden_size={size}" + (", linear_before_reset=1" if cell == "GRU" else "")
        yield OperatorRecord(
            *(cell, inputs, members),
            outputs={
                "output_sequence_tensor": ((steps, 1, batch, size), np.float32),
                "output_single_tensor": ((1, 1, batch, size), np.float32),
            },
            onnx=f"output_sequence_tensor, output_single_tensor = {cell} <{theirs}> (x, w, r, b)",
            onnx_inputs={
                "x": shaped("input_tensor", steps, -1, size),
                "w": shaped("weight_tensor", 1, gates * size, size),
                "r": shaped("recurrence_tensor", 1, gates * size, size),
                "b": shaped("bias_tensor", 1, 2 * gates * size),
            },
            scaled_axes=_BATCH,
        )


def _scaled(scale: float, *sizes: int) -> Draw:
    return lambda rng: np.float32(scale) * rng.standard_normal(sizes, np.float32)


def records() -> Iterator[OperatorRecord]:
    """The records of the families."""
    for part in (_matrices, _convolutions, _pooling, _regions, _resampling, _attention, _recurrent):
        yield from part()
