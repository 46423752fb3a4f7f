"""Layers of networks, whole and quantized: DirectML's operator, ONNX's, the members of dmlpy's desc, and what ONNX takes in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_operators import F32, I8, I32, I64, MICROSOFT, U8, case, normal, scalar, whole  # type: ignore[import-not-found, unused-ignore]


def matrices() -> None:
    for trans_a, trans_b, with_c, alpha, beta, options in (
        (0, 0, False, 1.0, 0.0, {}),
        (1, 0, True, 0.5, 2.0, {}),
        (0, 1, True, -1.25, 0.75, {}),
        (1, 1, True, 1.0, 1.0, {"fused": "Relu"}),
    ):
        a, b = normal("left", *((7, 3) if trans_a else (3, 7))), normal("right", *((5, 7) if trans_b else (7, 5)))
        c = np.broadcast_to(normal("C", 1, 5), (3, 5))
        inputs = {"a_tensor": a, "b_tensor": b, **({"c_tensor": c} if with_c else {})}
        kinds = {f"trans_{name}": "TRANSPOSE" if yes else "NONE" for name, yes in (("a", trans_a), ("b", trans_b))}
        both: dict[str, Any] = {"alpha": alpha, "beta": beta}
        case("GEMM", "Gemm", inputs, {**kinds, **both}, transA=trans_a, transB=trans_b, **both, **options)
    batched = {"a_tensor": normal("batch a", 2, 3, 4, 5), "b_tensor": normal("batch b", 2, 3, 5, 2)}
    case("GEMM", "MatMul", batched)


def convolutions() -> None:
    def ours(dilations: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], groups: int) -> dict[str, Any]:
        half = len(pads) // 2
        return {"strides": strides, "dilations": dilations, "start_padding": pads[:half], "end_padding": pads[half:], "group_count": groups}

    def theirs(dilations: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], groups: int) -> dict[str, Any]:
        return {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}

    for number, (members, fused) in enumerate(
        [
            (((1, 1), (1, 1), (0, 0, 0, 0), 1), None),
            (((2, 1), (1, 2), (1, 0, 2, 1), 2), None),
            (((1, 2), (2, 1), (1, 1, 0, 1), 1), "Relu"),
        ]
    ):
        groups = members[-1]
        x, w, bias = normal(f"X{number}", 2, 4, 6, 7), normal(f"W{number}", 6, 4 // groups, 3, 2), normal(f"B{number}", 1, 6, 1, 1)
        inputs = {"input_tensor": x, "filter_tensor": w, "bias_tensor": bias}
        forward = {"mode": "CROSS_CORRELATION", "direction": "FORWARD", "output_padding": (0, 0), **ours(*members)}
        case(
            "CONVOLUTION",
            "Conv",
            inputs,
            forward,
            given=[x, w, bias.reshape(-1)],
            **theirs(*members),
            **({"fused": fused} if fused else {}),
        )
        filters = normal(f"transposed {number}", 4, 6 // groups, 3, 2)
        inputs = {"input_tensor": x, "filter_tensor": filters, "bias_tensor": bias}
        more = (0, 1) if members[1] == (1, 2) else (0, 0)
        backward = {"mode": "CROSS_CORRELATION", "direction": "BACKWARD", "output_padding": more, **ours(*members)}
        given = [x, filters, bias.reshape(-1)]
        case("CONVOLUTION", "ConvTranspose", inputs, backward, given=given, output_padding=more, **theirs(*members))

        whole_x, whole_w = (
            whole(f"qx {number}", 0, 256, 1, 4, 5, 6, dtype=U8),
            whole(f"qw {number}", -128, 128, 2, 4 // groups, 2, 3, dtype=I8),
        )
        zeros = scalar(117, U8, 4), scalar(3, I8, 4)
        inputs = {
            "input_tensor": whole_x,
            "input_zero_point_tensor": zeros[0],
            "filter_tensor": whole_w,
            "filter_zero_point_tensor": zeros[1],
        }
        given = [whole_x, whole_w, scalar(117, U8), scalar(3, I8)]
        case("CONVOLUTION_INTEGER", "ConvInteger", inputs, ours(*members), given=given, **theirs(*members))
        if number == 0:
            scales = np.float32(0.02), np.float32(0.005), np.float32(0.11)
            bias32 = whole("qb", -999, 1000, 1, 2, 1, 1, dtype=I32)
            inputs = {
                **{"input_tensor": whole_x, "input_scale_tensor": scalar(scales[0], F32, 4), "input_zero_point_tensor": zeros[0]},
                **{
                    "filter_tensor": whole_w,
                    "filter_scale_tensor": scalar(scales[1], F32, 4),
                    "filter_zero_point_tensor": scalar(0, I8, 4),
                },
                **{"bias_tensor": bias32, "output_scale_tensor": scalar(scales[2], F32, 4), "output_zero_point_tensor": scalar(120, U8, 4)},
            }
            points = [scalar(117, U8), scalar(0, I8), scalar(120, U8)]
            x_part, w_part = [whole_x, np.array(scales[0]), points[0]], [whole_w, np.array(scales[1]), points[1]]
            given = [*x_part, *w_part, np.array(scales[2]), points[2], bias32.reshape(-1)]
            case("QUANTIZED_LINEAR_CONVOLUTION", "QLinearConv", inputs, ours(*members), given=given, **theirs(*members))


def pooling() -> None:
    x = normal("pool", 2, 2, 6, 7)
    for window, strides, pads, dilations in (
        ((2, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
        ((3, 2), (2, 2), (1, 0, 1, 1), (1, 1)),
        ((2, 2), (1, 2), (1, 1, 0, 1), (2, 3)),
    ):
        ours = {"strides": strides, "window_size": window, "start_padding": pads[:2], "end_padding": pads[2:]}
        dilated = {**ours, "dilations": dilations}
        theirs: dict[str, Any] = {"kernel_shape": window, "strides": strides, "pads": pads, "dilations": dilations}
        plain = dilations == (1, 1)
        for include in (0, 1):
            own = {"include_padding": bool(include)}
            if plain:
                case("AVERAGE_POOLING", "AveragePool", {"input_tensor": x}, {**ours, **own}, count_include_pad=include, **theirs)
            case("AVERAGE_POOLING1", "AveragePool", {"input_tensor": x}, {**dilated, **own}, count_include_pad=include, **theirs)
        for p in (1, 2, 3):
            if plain:
                case("LP_POOLING", "LpPool", {"input_tensor": x}, {**ours, "p": p}, p=p, **theirs)
            case("LP_POOLING1", "LpPool", {"input_tensor": x}, {**dilated, "p": p}, p=p, **theirs)
        fields = {"output_tensor": None, "output_indices_tensor": None}
        options: dict[str, Any] = {"outputs": fields, "types": {"output_indices_tensor": np.uint32}, **theirs}
        if plain:
            case("MAX_POOLING", "MaxPool", {"input_tensor": x}, ours, **theirs)
            case("MAX_POOLING1", "MaxPool", {"input_tensor": x}, ours, **options)
        case("MAX_POOLING2", "MaxPool", {"input_tensor": x}, dilated, **options)
        if plain:
            quantized = whole("qpool", 0, 256, 1, 2, 6, 7, dtype=U8)
            # Powers of two, so that what is half way is so in ONNX Runtime's FLOAT32 too; it adds the zero point before it rounds halves to
            # even, DirectML afterwards, which is the same where the zero point is even.
            scales, points = (0.0625, 0.03125), (100, 8)
            inputs = {"input_tensor": quantized}
            given: list[Any] = [quantized]
            for name, scale, point in zip(("input", "output"), scales, points, strict=True):
                inputs |= {f"{name}_scale_tensor": scalar(scale, F32, 4), f"{name}_zero_point_tensor": scalar(point, U8, 4)}
                given += [scalar(scale, F32), scalar(point, U8)]
            plain_theirs = {name: theirs[name] for name in ("kernel_shape", "strides", "pads")}
            for include in (0, 1):
                own = {**dilated, "include_padding": bool(include)}
                more = {"given": given, "domain": MICROSOFT, "count_include_pad": include, **plain_theirs}
                case("QUANTIZED_LINEAR_AVERAGE_POOLING", "QLinearAveragePool", inputs, own, **more)
    # Sizes rounded up but for windows that begin after the last element: (4, 3) of the first, (2, 3) of the second.
    wide = normal("ceil", 1, 2, 12, 5)
    for window, strides, pads in (((1, 2), (3, 2), (0, 0, 0, 0)), ((2, 3), (7, 2), (1, 0, 0, 1))):
        ours = {"strides": strides, "window_size": window, "start_padding": pads[:2], "end_padding": pads[2:]}
        theirs = {"kernel_shape": window, "strides": strides, "pads": pads, "ceil_mode": 1}
        case("MAX_POOLING", "MaxPool", {"input_tensor": wide}, ours, **theirs)
        case("LP_POOLING", "LpPool", {"input_tensor": wide}, {**ours, "p": 2}, p=2, **theirs)
        for include in (0, 1):
            own = {**ours, "include_padding": bool(include)}
            case("AVERAGE_POOLING", "AveragePool", {"input_tensor": wide}, own, count_include_pad=include, **theirs)
    indices = np.array([[[[0, 3], [10, 12]], [[16, 19], [24, 31]]]], I64)
    values = normal("unpool", 1, 2, 2, 2)
    inputs = {"input_tensor": values, "indices_tensor": indices.astype(np.uint32)}
    case("MAX_UNPOOLING", "MaxUnpool", inputs, given=[values, indices], kernel_shape=(2, 2), strides=(2, 2))
    rois = np.array([[0, 0, 0, 4, 3], [1, 1, 2, 6, 5], [0, 2, 2, 2, 2], [1, 0, 0, 6, 5]], F32)
    for size, scale in (((2, 2), 1.0), ((3, 2), 1.0), ((2, 3), 0.5)):
        own = {"spatial_scale": scale, "pooled_size": {"height": size[0], "width": size[1]}}
        inputs = {"input_tensor": x, "roi_tensor": rois[None, None]}
        case("ROI_POOLING", "MaxRoiPool", inputs, own, given=[x, rois], pooled_shape=size, spatial_scale=scale)
    # Regions of a pixel and more: ONNX Runtime takes smaller ones for a pixel if the distance is not half a pixel.
    rois = np.array([[0, 0, 6, 5], [1.5, 0.5, 4.25, 3.75], [-2, -1.5, 3, 9], [5.5, 4, 1.25, 0.5], [9, 9, 12, 12]], F32)
    batches = np.array([0, 1, 1, 0, 1], I64)
    upright = [0, 1, 2, 4]  # of the inverted one ONNX Runtime takes no sample, or one pixel
    for samples, scale, size in ((0, 1.0, (2, 3)), (2, 0.75, (3, 2)), (1, 1.0, (4, 4))):
        bounds = {"minimum_samples_per_output": samples or 1, "maximum_samples_per_output": samples or 2**32 - 1}
        own = {"reduction_function": "AVERAGE", "interpolation_mode": "LINEAR", **bounds}
        own |= {"spatial_scale_x": scale, "spatial_scale_y": scale}
        theirs = {"output_height": size[0], "output_width": size[1], "sampling_ratio": samples, "spatial_scale": scale}
        for operator, chosen in (("ROI_ALIGN", [*range(5)] if samples else upright), ("ROI_ALIGN1", upright)):
            given = [x, rois[chosen], batches[chosen]]
            inputs = {"input_tensor": x, "roi_tensor": given[1], "batch_indices_tensor": given[2].astype(np.uint32)}
            case(operator, "RoiAlign", inputs, own, given=given, mode="avg", **theirs)
            own, theirs = {**own, "input_pixel_offset": 0.0}, {**theirs, "coordinate_transformation_mode": "output_half_pixel"}
    # Where samples are pixels of no negative value; of others ONNX Runtime compares the four weighted pixels, not their sums.
    positive, rois = np.abs(x), np.array([[0, 0, 6, 4]], F32)
    inputs = {"input_tensor": positive, "roi_tensor": rois, "batch_indices_tensor": batches[:1].astype(np.uint32)}
    own = {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2, "reduction_function": "MAX", "interpolation_mode": "LINEAR"}
    theirs = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    case("ROI_ALIGN", "RoiAlign", inputs, own, given=[positive, rois, batches[:1]], mode="max", **theirs)


def resampling() -> None:
    x = normal("resize", 1, 2, 4, 5)
    for scales in ((1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 0.5, 1.5), (1.0, 1.0, 1.75, 0.8)):
        given = [x, None, np.array(scales, F32)]
        for mode, peer in (("LINEAR", "linear"), ("NEAREST_NEIGHBOR", "nearest")):
            ways = {"half_pixel": (0.5, -0.5), "asymmetric": (0.0, 0.0)} if peer == "linear" else {"half_pixel": (0.5, -0.5)}
            for way, (before, after) in ways.items():
                own: dict[str, Any] = {"interpolation_mode": mode, "scales": scales}
                nearest = {"nearest_mode": "round_prefer_ceil"} if peer == "nearest" else {}
                theirs = {"mode": peer, "coordinate_transformation_mode": way, **nearest}
                if way == "half_pixel":
                    case("RESAMPLE", "Resize", {"input_tensor": x}, own, given=given, **theirs)
                    whole_scales = all(scale == int(scale) for scale in scales)
                    if whole_scales:
                        size = {"height": int(scales[2]), "width": int(scales[3])}
                        case(
                            "UPSAMPLE_2D",
                            "Resize",
                            {"input_tensor": x},
                            {"interpolation_mode": mode, "scale_size": size},
                            given=given,
                            **theirs,
                        )
                own |= {"input_pixel_offsets": (before,) * 4, "output_pixel_offsets": (after,) * 4}
                case("RESAMPLE1", "Resize", {"input_tensor": x}, own, given=given, **theirs)
                directions = [("INCREASING", "ceil"), ("DECREASING", "floor")] if peer == "nearest" else [("INCREASING", "floor")]
                for direction, rounding in directions:
                    theirs["nearest_mode"] = rounding
                    for operator in ("RESAMPLE2", "RESAMPLE3"):
                        members = {**own, "rounding_direction": direction}
                        case(operator, "Resize", {"input_tensor": x}, members, given=given, **theirs)
    small = np.array([1, 1, 0.5, 0.4], F32)
    sides = {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
    own = {"interpolation_mode": "LINEAR", "scales": [float(scale) for scale in small], **sides, "antialiased": True}
    case("RESAMPLE3", "Resize", {"input_tensor": x}, own, given=[x, None, small], mode="linear", antialias=1)


def normalizations() -> None:
    x = normal("norm", 2, 3, 4, 5, scale=2)
    mean, scale, bias = (normal(name, 1, 3, 1, 1) for name in ("mean", "scale", "bias"))
    variance = np.abs(normal("variance", 1, 3, 1, 1)) + np.float32(0.1)
    inputs = {"input_tensor": x, "mean_tensor": mean, "variance_tensor": variance, "scale_tensor": scale, "bias_tensor": bias}
    given = [x, *(array.reshape(-1) for array in (scale, bias, mean, variance))]
    for epsilon, options in ((1e-5, {}), (0.01, {"fused": "Relu"})):
        case("BATCH_NORMALIZATION", "BatchNormalization", inputs, {"epsilon": epsilon}, given=given, epsilon=epsilon, **options)
    for size, alpha, beta, bias_number in ((3, 0.5, 0.75, 1.0), (5, 0.0001, 0.6, 2.0)):
        own = {"cross_channel": True, "local_size": size, "alpha": alpha, "beta": beta, "bias": bias_number}
        theirs: dict[str, Any] = {"size": size, "alpha": alpha, "beta": beta, "bias": bias_number}
        case("LOCAL_RESPONSE_NORMALIZATION", "LRN", {"input_tensor": x}, own, **theirs)
    for axis, p in ((1, 2), (3, 1), (0, 2)):
        case("LP_NORMALIZATION", "LpNormalization", {"input_tensor": x}, {"axis": axis, "epsilon": 0.0, "p": p}, axis=axis, p=p)
    own = {"normalize_variance": True, "epsilon": 1e-5}
    given = [x, scale.reshape(-1), bias.reshape(-1)]
    inputs = {"input_tensor": x, "scale_tensor": scale, "bias_tensor": bias}
    case("MEAN_VARIANCE_NORMALIZATION", "InstanceNormalization", inputs, {**own, "cross_channel": False}, given=given, epsilon=1e-5)
    broadcast = {"scale_tensor": np.broadcast_to(scale, x.shape), "bias_tensor": np.broadcast_to(bias, x.shape)}
    case(
        "MEAN_VARIANCE_NORMALIZATION1", "InstanceNormalization", {**inputs, **broadcast}, {**own, "axes": (2, 3)}, given=given, epsilon=1e-5
    )
    both = {"use_mean": True, "use_variance": True, "epsilon": 1e-5}
    case("MEAN_VARIANCE_NORMALIZATION2", "InstanceNormalization", inputs, {**both, "axes": (2, 3)}, given=given, epsilon=1e-5)
    layer = {name: normal(f"layer {name}", 1, 1, 1, 5) for name in ("scale_tensor", "bias_tensor")}
    inputs = {"input_tensor": x, **layer}
    given = [x, *(array.reshape(-1) for array in layer.values())]
    case("MEAN_VARIANCE_NORMALIZATION2", "LayerNormalization", inputs, {**both, "axes": (3,)}, given=given, axis=-1, epsilon=1e-5)
    wide = {name: np.broadcast_to(array, x.shape) for name, array in layer.items()}
    case(
        "MEAN_VARIANCE_NORMALIZATION1", "LayerNormalization", {**inputs, **wide}, {**own, "axes": (3,)}, given=given, axis=-1, epsilon=1e-5
    )
    case(
        "VALUE_SCALE_2D",
        "ImageScaler",
        {"input_tensor": x},
        {"scale": 1.5, "bias": (0.5, -1.0, 0.25)},
        scale=1.5,
        bias=[0.5, -1.0, 0.25],
        opset=7,
    )


def quantization() -> None:
    x = np.concatenate([normal("quantize", 22, scale=40), [0.0625, 0.1875, -0.3125, 1e9, -1e9, 0.4375]]).astype(F32).reshape(4, 7)
    for dtype, point in ((U8, 128), (I8, -3)):
        scale = scalar(0.125, F32)  # a power of two: what is half way is so in ONNX Runtime's FLOAT32 too
        wide = np.broadcast_to(scale, (4, 7)), np.broadcast_to(scalar(point, dtype), (4, 7))
        inputs = {"input_tensor": x, "scale_tensor": wide[0], "zero_point_tensor": wide[1]}
        case("ELEMENT_WISE_QUANTIZE_LINEAR", "QuantizeLinear", inputs, given=[x, scale, scalar(point, dtype)])
        small = whole("dequantize", -128 if dtype is I8 else 0, 127, 4, 7, dtype=dtype)
        inputs = {"input_tensor": small, "scale_tensor": wide[0], "zero_point_tensor": wide[1]}
        case("ELEMENT_WISE_DEQUANTIZE_LINEAR", "DequantizeLinear", inputs, given=[small, scale, scalar(point, dtype)])
        per_row = np.array([0.1, 0.5, 2.0, 0.25], F32), np.array([point, 0, 5, 100], dtype)
        rows = [np.broadcast_to(array[:, None], (4, 7)) for array in per_row]
        inputs = {"input_tensor": x, "scale_tensor": rows[0], "zero_point_tensor": rows[1]}
        case("ELEMENT_WISE_QUANTIZE_LINEAR", "QuantizeLinear", inputs, given=[x, *per_row], axis=0)
        # QUANTIZE and DEQUANTIZE take the scale and the zero point in a list; without a zero point it is the middle of an unsigned type.
        pairs = {"SCALE_ZERO_POINT": [per_row[0][:, None], per_row[1][:, None]], "SCALE": [per_row[0][:, None]]}
        for kind, tensors in pairs.items():
            own, by = {"quantization_type": kind}, [array.reshape(-1) for array in tensors]
            by += [np.full(4, 128, U8)] if kind == "SCALE" and dtype is U8 else []
            if dtype is U8 or kind == "SCALE_ZERO_POINT":  # without one, ONNX quantizes to UINT8
                quantized = {"input_tensor": x, "quantization_tensors": tensors}
                case("QUANTIZE", "QuantizeLinear", quantized, own, given=[x, *by], axis=0)
            case(
                "DEQUANTIZE", "DequantizeLinear", {"input_tensor": small, "quantization_tensors": tensors}, own, given=[small, *by], axis=0
            )
    for number, sizes in enumerate(((3, 4), (17,))):
        fields = {"output_tensor": None, "output_scale_tensor": (1,) * len(sizes), "output_zero_point_tensor": (1,) * len(sizes)}
        dynamic = normal(f"dynamic {number}", *sizes) + np.float32(number)
        case("DYNAMIC_QUANTIZE_LINEAR", "DynamicQuantizeLinear", {"input_tensor": dynamic}, outputs=fields)

    for kind, points in ((U8, (13, 130, 99)), (I8, (-5, 0, 17))):
        low, high = (0, 256) if kind is U8 else (-128, 128)
        a, b = whole("qa", low, high, 3, 7, dtype=kind), whole("qb", low, high, 7, 4, dtype=kind)
        zeros = [scalar(point, kind) for point in points]
        scales = [scalar(value, F32) for value in (0.02, 0.03, 0.4)]
        one = {"a_tensor": a, "a_zero_point_tensor": zeros[0].reshape(1, 1), "b_tensor": b, "b_zero_point_tensor": zeros[1].reshape(1, 1)}
        case("MATRIX_MULTIPLY_INTEGER", "MatMulInteger", one, given=[a, b, zeros[0], zeros[1]])
        parts: dict[str, Any] = {}
        given: list[Any] = []
        for name, array, scale, zero in zip("ab", (a, b), scales, zeros, strict=False):
            parts |= {f"{name}_tensor": array, f"{name}_scale_tensor": scale.reshape(1, 1), f"{name}_zero_point_tensor": zero.reshape(1, 1)}
            given += [array, scale, zero]
        last = {"output_scale_tensor": scales[2].reshape(1, 1), "output_zero_point_tensor": zeros[2].reshape(1, 1)}
        case("QUANTIZED_LINEAR_MATRIX_MULTIPLY", "QLinearMatMul", {**parts, **last}, given=[*given, scales[2], zeros[2]])
        bias = normal("bias", 1, 4)
        floats = [a, b, scales[0], scales[1], zeros[0], zeros[1], bias.reshape(-1)]
        own = {**parts, "bias_tensor": np.broadcast_to(bias, (3, 4))}
        case("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "MatMulIntegerToFloat", own, given=floats, domain=MICROSOFT)
        c = whole("qc", low, high, 3, 7, dtype=kind)
        added: dict[str, Any] = {}
        given = []
        for name, array, scale, zero in zip("ab", (a, c), scales, zeros, strict=False):
            added |= {f"{name}_tensor": array, f"{name}_scale_tensor": scale.reshape(1, 1), f"{name}_zero_point_tensor": zero.reshape(1, 1)}
            given += [array, scale, zero]
        small = scalar(0.045, F32)
        added |= {"output_scale_tensor": small.reshape(1, 1), "output_zero_point_tensor": zeros[2].reshape(1, 1)}
        given = [*given, small, zeros[2]]
        case("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "QLinearAdd", added, given=given, domain=MICROSOFT)


def attention() -> None:
    for heads, size in ((2, 3), (3, 4)):
        q, k, v = normal("Q", 2, 3, heads * size), normal("K", 2, 5, heads * size), normal("V", 2, 5, heads * size)
        inputs = {"query_tensor": q, "key_tensor": k, "value_tensor": v}
        own: dict[str, Any] = {"scale": 0.3, "mask_filter_value": -1e4}
        theirs = {"num_heads": heads, "scale": 0.3, "domain": MICROSOFT}
        more = normal("relative", 2, heads, 3, 5)
        every = {"query_head_count": heads, "key_value_head_count": heads}
        case("MULTIHEAD_ATTENTION", "MultiHeadAttention", inputs, {**own, "head_count": heads}, **theirs)
        case("MULTIHEAD_ATTENTION1", "MultiHeadAttention", inputs, {**own, **every}, **theirs)
        biased = {**inputs, "relative_position_bias_tensor": more}
        given = [q, k, v, None, None, more]
        case("MULTIHEAD_ATTENTION", "MultiHeadAttention", biased, {**own, "head_count": heads}, given=given, **theirs)
        bias = normal("QKV bias", 3 * heads * size)
        given = [q, k, v, bias]
        case(
            "MULTIHEAD_ATTENTION",
            "MultiHeadAttention",
            {**inputs, "bias_tensor": bias},
            {**own, "head_count": heads},
            given=given,
            **theirs,
        )
    masks()
    lengths_of_the_past()


def masks() -> None:
    """Masks of key lengths, also with past keys and values; after the lengths, starts and ends that ONNX Runtime does not read."""
    q, k, v = normal("masked Q", 2, 3, 6), normal("masked K", 2, 5, 6), normal("masked V", 2, 5, 6)
    past = {f"past_{name}_tensor": normal(f"masked past {name}", 2, 2, 4, 3) for name in ("key", "value")}
    own: dict[str, Any] = {"scale": 0.3, "mask_filter_value": -1.5, "head_count": 2}
    theirs = {"num_heads": 2, "scale": 0.3, "mask_filter_value": -1.5, "domain": MICROSOFT}
    every = {"output_tensor": None, "output_present_key_tensor": None, "output_present_value_tensor": None}
    for numbers, kept in (([2, 5], False), ([2, 5, 0, 3, 6, 0, 5, 10], False), ([1, 3, 2, 2, 3, 3, 4, 5], False), ([7, 3], True)):
        mask = np.array(numbers, I32)
        inputs = {"query_tensor": q, "key_tensor": k, "value_tensor": v, "mask_tensor": mask.reshape(1, 2) if mask.size == 2 else mask}
        kind = "KEY_SEQUENCE_LENGTH" if mask.size == 2 else "KEY_QUERY_SEQUENCE_LENGTH_START_END"
        given = [q, k, v, None, mask, None, *(past.values() if kept else ())]
        outputs = every if kept else None
        inputs |= past if kept else {}
        case("MULTIHEAD_ATTENTION", "MultiHeadAttention", inputs, {**own, "mask_type": kind}, given=given, outputs=outputs, **theirs)


def lengths_of_the_past() -> None:
    """Later steps with a past of which a part counts, the present as large or larger; and first steps, of several queries."""
    every = {"output_tensor": None, "output_present_key_tensor": None, "output_present_value_tensor": None}
    own: dict[str, Any] = {"scale": 0.3, "mask_filter_value": -1e4, "query_head_count": 4, "key_value_head_count": 2}
    for batch, queries, past, lengths in (
        (2, 1, 5, [5, 2]),
        (2, 1, 5, [2, 3]),
        (2, 3, 0, [0, 0]),
        (1, 3, 4, [4]),
        (1, 3, 6, [3]),
        (1, 3, 6, [2]),
    ):
        name = f"{batch} {queries} {past} {lengths}"
        q = normal(f"{name} Q", batch, queries, 32)
        k, v = normal(f"{name} K", batch, queries, 16), normal(f"{name} V", batch, queries, 16)
        kept = {f"past_{part}_tensor": normal(f"{name} past {part}", batch, 2, past, 8) for part in ("key", "value") if past}
        counted = np.array(lengths, I32)
        inputs = {"query_tensor": q, "key_tensor": k, "value_tensor": v, **kept, "past_sequence_lengths_tensor": counted}
        totals = counted + I32(queries)  # GroupQueryAttention takes the number of the last key
        given = [q, k, v, *(kept.values() or (None, None)), totals - I32(1), np.array(totals.max())]
        theirs = {"num_heads": 4, "kv_num_heads": 2, "scale": 0.3, "domain": MICROSOFT}
        case("MULTIHEAD_ATTENTION1", "GroupQueryAttention", inputs, own, given=given, outputs=every, **theirs)


ROWS = (matrices, convolutions, pooling, resampling, normalizations, quantization, attention)
