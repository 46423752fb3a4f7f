"""Movement, indexing, generation and reduction: DirectML's operator, ONNX's, the members of dmlpy's desc, and what ONNX takes instead."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_operators import CASES, F32, I32, I64, U8, U32, case, compute, normal, rng, scalar, whole  # type: ignore[import-not-found, unused-ignore]


def longs(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, I64)


def movement() -> None:
    for axis, count in ((0, 2), (1, 3), (3, 2)):
        parts = [normal(f"join {axis} {part}", *(part + 1 if own == axis else 2 for own in range(4))) for part in range(count)]
        joined = compute("Concat", parts, axis=axis)[0]
        CASES.add("JOIN", "Concat", {"input_tensors": parts}, {"output_tensor": joined}, {"axis": axis})
        lengths = longs(*(part.shape[axis] for part in parts))
        split = compute("Split", [joined, lengths], count, axis=axis)
        CASES.add("SPLIT", "Split", {"input_tensor": joined}, {"output_tensors": split}, {"axis": axis})

    x = normal("slice", 2, 3, 5, 7)
    for offsets, windows, strides in (
        ((0, 1, 1, 2), (2, 2, 4, 5), (1, 1, 1, 1)),
        ((0, 0, 0, 0), (2, 3, 5, 7), (1, 2, 3, 3)),
        ((1, 0, 2, 1), (1, 3, 3, 6), (1, 2, 1, 4)),
    ):
        ends = [offset + window for offset, window in zip(offsets, windows, strict=True)]
        given = [x, longs(*offsets), longs(*ends), longs(0, 1, 2, 3), longs(*strides)]
        members = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
        sizes = [1 + (window - 1) // stride for window, stride in zip(windows, strides, strict=True)]
        case("SLICE", "Slice", {"input_tensor": x}, {"offsets": offsets, "slice_sizes": sizes, "strides": strides}, given=given)
        case("SLICE1", "Slice", {"input_tensor": x}, members, given=given)
    # Backward from the end of the windows, which are those of the whole tensor.
    members = {"input_window_offsets": (0, 0, 0, 0), "input_window_sizes": (2, 3, 5, 7), "input_window_strides": (-1, 1, -2, -3)}
    given = [x, longs(1, 0, 4, 6), longs(-3, 3, -6, -8), longs(0, 1, 2, 3), longs(-1, 1, -2, -3)]
    case("SLICE1", "Slice", {"input_tensor": x}, members, given=given)

    for repeats in ((1, 2, 1, 3), (2, 1, 1, 1)):
        tiled = whole("tile", -9, 10, 2, 1, 3, 2)
        case("TILE", "Tile", {"input_tensor": tiled}, {"repeats": repeats}, given=[tiled, longs(*repeats)])
    modes = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "WRAP": "wrap"}
    padded = normal("pad", 2, 3, 4, 5)
    for mode, theirs in modes.items():
        for start, end in (((0, 0, 1, 2), (0, 0, 2, 1)), ((1, 0, 3, 0), (0, 2, 0, 4))):
            value = -2.5 if mode == "CONSTANT" else 0.0
            given = [padded, longs(*start, *end), scalar(value, F32)]
            ours = {"padding_mode": mode, "padding_value": value, "start_padding": start, "end_padding": end}
            case("PADDING1", "Pad", {"input_tensor": padded}, {**ours, "padding_value_data_type": "FLOAT32"}, given=given, mode=theirs)
            if mode != "WRAP":
                case("PADDING", "Pad", {"input_tensor": padded}, ours, given=given, mode=theirs)
    whole_numbers = whole("pad int", -9, 10, 3, 4)
    ours = {"padding_value_data_type": "INT32", "padding_value": -7, "start_padding": (1, 0), "end_padding": (0, 2)}
    case("PADDING1", "Pad", {"input_tensor": whole_numbers}, ours, given=[whole_numbers, longs(1, 0, 0, 2), scalar(-7, I32)])

    deep, flat = normal("deep", 2, 12, 2, 3), normal("flat", 2, 3, 4, 6)
    for block in (2,):
        case("DEPTH_TO_SPACE", "DepthToSpace", {"input_tensor": deep}, {"block_size": block}, blocksize=block)
        for order, mode in (("DEPTH_COLUMN_ROW", "DCR"), ("COLUMN_ROW_DEPTH", "CRD")):
            ours = {"block_size": block, "order": order}
            case("DEPTH_TO_SPACE1", "DepthToSpace", {"input_tensor": deep}, ours, blocksize=block, mode=mode)
        case("SPACE_TO_DEPTH", "SpaceToDepth", {"input_tensor": flat}, {"block_size": block}, blocksize=block)
        ours = {"block_size": block, "order": "DEPTH_COLUMN_ROW"}
        case("SPACE_TO_DEPTH1", "SpaceToDepth", {"input_tensor": flat}, ours, blocksize=block)

    for axis, shape in ((0, (5, 3)), (1, (3, 6))):
        turned, count = normal("reverse", *shape), shape[1 - axis]
        lengths = rng("lengths").integers(1, shape[axis] + 1, count)
        ours = lengths.astype(U32).reshape([1 if own == axis else count for own in range(2)])
        inputs = {"input_tensor": turned, "sequence_lengths_tensor": ours}
        case(
            "REVERSE_SUBSEQUENCES", "ReverseSequence", inputs, {"axis": axis}, given=[turned, lengths], batch_axis=1 - axis, time_axis=axis
        )


def indexing() -> None:
    x = normal("gather", 3, 4, 5)
    for axis, indices in ((0, longs(2, 0, -1)), (1, longs(3, 1)), (2, longs(-5, 4, 0, 0))):
        case("GATHER", "Gather", {"input_tensor": x, "indices_tensor": indices.reshape(1, 1, -1)},
             {"axis": axis, "index_dimensions": 1}, given=[x, indices], axis=axis)  # fmt: skip
    for axis in range(3):
        indices = whole(
            f"elements {axis}", -x.shape[axis], x.shape[axis], *(2 if own == axis else size for own, size in enumerate(x.shape))
        )
        case("GATHER_ELEMENTS", "GatherElements", {"input_tensor": x, "indices_tensor": indices}, {"axis": axis}, axis=axis)
        # Every element is written once: the result depends on no order.
        order = rng(f"scatter {axis}").permuted(
            np.broadcast_to(np.arange(x.shape[axis]), (*np.delete(x.shape, axis), x.shape[axis])), axis=-1
        )
        places = np.moveaxis(order, -1, axis)[(slice(None),) * axis + (slice(2),)].astype(I64)
        inputs = {"input_tensor": x, "indices_tensor": places, "updates_tensor": normal(f"updates {axis}", *places.shape)}
        case("SCATTER", "ScatterElements", inputs, {"axis": axis}, axis=axis)
    for depth in (1, 2, 3):
        indices = np.stack([whole(f"nd {own}", -size, size, 4, dtype=I64) for own, size in enumerate(x.shape[:depth])], -1)
        block = x.shape[depth:]
        own = {"input_dimension_count": 3, "indices_dimension_count": 2}
        inputs = {"input_tensor": x, "indices_tensor": indices.reshape(1, 4, depth)}
        sizes = {"output_tensor": (1,) * (2 - len(block)) + (4, *block)}
        case("GATHER_ND", "GatherND", inputs, own, given=[x, indices], outputs=sizes)
        case("GATHER_ND1", "GatherND", inputs, {**own, "batch_dimension_count": 0}, given=[x, indices], outputs=sizes)
    batched = whole("nd batch", 0, 4, 3, 2, 1, dtype=I64)
    ours = {"input_dimension_count": 3, "indices_dimension_count": 3, "batch_dimension_count": 1}
    case("GATHER_ND1", "GatherND", {"input_tensor": x, "indices_tensor": batched}, ours, batch_dims=1)
    for depth, places in ((1, [[2], [0]]), (2, [[0, 3], [2, 1], [1, 0], [0, 0]]), (3, [[0, 0, 4], [2, 3, 1]])):
        indices = np.array(places, I64)
        updates = normal(f"nd updates {depth}", len(places), *x.shape[depth:])
        inputs = {
            "input_tensor": x,
            "indices_tensor": indices[None],
            "updates_tensor": updates.reshape((1,) * (3 - updates.ndim) + updates.shape),
        }
        ours = {"input_dimension_count": 3, "indices_dimension_count": 2}
        case("SCATTER_ND", "ScatterND", inputs, ours, given=[x, indices, updates])

    indices, values = longs(0, 3, -1, 5, -4, 1).reshape(2, 3), np.array([-0.5, 2.0], F32)
    for axis in range(3):
        inputs = {"indices_tensor": np.expand_dims(indices, axis)}
        hot_sizes = (*indices.shape[:axis], 4, *indices.shape[axis:])
        padded = np.concatenate([values, np.zeros(2, F32)]).reshape([4 if index == axis else 1 for index in range(3)])
        inputs["values_tensor"] = padded  # DirectML reads two of them
        case(
            "ONE_HOT",
            "OneHot",
            inputs,
            {"axis": axis},
            given=[indices, longs(4), values],
            outputs={"output_tensor": hot_sizes},
            axis=axis,
        )
    for dtype in (F32, I32, U8):
        sparse = np.where(rng("nonzero").random((3, 4)) < 0.5, 0, whole("values", 1, 9, 3, 4)).astype(dtype)
        rows = compute("NonZero", [sparse])[0].T
        coordinates = np.zeros((sparse.size, 2), U32)
        coordinates[: len(rows)] = rows  # DirectML's are for as many as there can be, those without an element zero
        results = {"output_count_tensor": np.array([len(rows)], U32), "output_coordinates_tensor": coordinates}
        CASES.add("NONZERO_COORDINATES", "NonZero", {"input_tensor": sparse}, results)

    for dtype in (F32, I32):
        ranked = whole("top", -4, 5, 3, 7).astype(dtype) if dtype is I32 else normal("top", 3, 7)
        ranked[0, 1] = ranked[0, 5] = ranked[0].max()  # ONNX takes the first of equal ones
        for axis, k in ((1, 3), (0, 2), (1, 7)):
            for largest in (1, 0):
                fields = {"output_value_tensor": None, "output_index_tensor": None}
                options: dict[str, Any] = {"given": [ranked, longs(k)], "outputs": fields, "types": {"output_index_tensor": U32}}
                options |= {"axis": axis, "largest": largest}
                inputs, ours = {"input_tensor": ranked}, {"axis": axis, "k": k}
                direction = "DECREASING" if largest else "INCREASING"
                case("TOP_K1", "TopK", inputs, {**ours, "axis_direction": direction}, **options)
                if largest:
                    case("TOP_K", "TopK", inputs, ours, **options)


def generation() -> None:
    for dtype, value in ((F32, -2.5), (I32, -7), (U8, 200)):
        made = compute("ConstantOfShape", [longs(2, 3)], value=_tensor(value, dtype))[0]
        ours = {"value_data_type": np.dtype(dtype).name.upper(), "value": value}
        CASES.add("FILL_VALUE_CONSTANT", "ConstantOfShape", {}, {"output_tensor": made}, ours)
    for dtype, start, delta, count in ((F32, -3.0, 0.25, 9), (I32, 5, -3, 7), (I64, -4, 2, 5)):
        given = [scalar(start, dtype), scalar(start + delta * count, dtype), scalar(delta, dtype)]
        ours = {"value_data_type": np.dtype(dtype).name.upper(), "value_start": start, "value_delta": delta}
        CASES.add("FILL_VALUE_SEQUENCE", "Range", {}, {"output_tensor": compute("Range", given)[0]}, ours)
    for offset in (0, 2, -1):
        like = np.zeros((4, 5), F32)
        eye = compute("EyeLike", [like], k=offset)[0]
        CASES.add("DIAGONAL_MATRIX", "EyeLike", {}, {"output_tensor": eye[None, None]}, {"offset": offset, "value": 1.0})
        ours = {"value_data_type": "FLOAT32", "value": 1.0, "diagonal_fill_begin": offset, "diagonal_fill_end": offset + 1}
        CASES.add("DIAGONAL_MATRIX1", "EyeLike", {}, {"output_tensor": eye[None, None]}, ours)
        x = normal("triangle", 2, 4, 5)
        for upper, begin, end in ((1, -9, offset), (0, offset + 1, 9)):
            ours = {"value_data_type": "FLOAT32", "value": 0.0, "diagonal_fill_begin": begin, "diagonal_fill_end": end}
            given = [x, np.array(offset, I64)]
            case("DIAGONAL_MATRIX1", "Trilu", {"input_tensor": x}, ours, given=given, upper=upper)


def _tensor(value: float, dtype: type) -> Any:
    import onnx

    return onnx.numpy_helper.from_array(np.array([value], dtype))


def reductions() -> None:
    x = normal("reduce", 2, 3, 4, 5)
    names = {
        **{"AVERAGE": "Mean", "L1": "L1", "L2": "L2", "LOG_SUM": "LogSum", "LOG_SUM_EXP": "LogSumExp", "MAX": "Max", "MIN": "Min"},
        **{"MULTIPLY": "Prod", "SUM": "Sum", "SUM_SQUARE": "SumSquare"},
    }
    for function, peer in names.items():
        for axes in ((1,), (0, 2, 3)):
            own = np.abs(x) if function == "LOG_SUM" else x
            case(
                "REDUCE",
                f"Reduce{peer}",
                {"input_tensor": own},
                {"function": function, "axes": axes},
                given=[own, longs(*axes)],
                keepdims=1,
            )
    infinite = np.array([[-np.inf, -np.inf, -np.inf], [np.inf, 1, 2], [1e4, 1e4, -1e4]], F32)
    ours = {"function": "LOG_SUM_EXP", "axes": (1,)}
    case("REDUCE", "ReduceLogSumExp", {"input_tensor": infinite}, ours, given=[infinite, longs(1)], keepdims=1)
    ints = whole("reduce ints", -9, 10, 3, 4)
    for function in ("SUM", "MAX", "MIN", "MULTIPLY"):
        given = [ints, longs(0)]
        case("REDUCE", f"Reduce{names[function]}", {"input_tensor": ints}, {"function": function, "axes": (0,)}, given=given, keepdims=1)
    ties = whole("ties", -2, 3, 3, 7).astype(F32)
    for function in ("ARGMAX", "ARGMIN"):
        peer = function[:3].title() + function[3:].title()
        for axis in (0, 1):
            for direction, last in (("INCREASING", 0), ("DECREASING", 1)):
                ours = {"axes": (axis,), "axis_direction": direction}
                options: dict[str, Any] = {"types": {"output_tensor": U32}, "axis": axis, "keepdims": 1}
                case(function, peer, {"input_tensor": ties}, ours, select_last_index=last, **options)
            case("REDUCE", peer, {"input_tensor": ties}, {"function": function, "axes": (axis,)}, **options)
    for dtype in (F32, I32):
        summed = normal("cumsum", 3, 5) if dtype is F32 else whole("cumsum", -9, 10, 3, 5)
        for axis, exclusive, reverse in ((1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1)):
            direction = "DECREASING" if reverse else "INCREASING"
            ours = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": bool(exclusive)}
            given = [summed, np.array(axis, I64)]
            case("CUMULATIVE_SUMMATION", "CumSum", {"input_tensor": summed}, ours, given=given, exclusive=exclusive, reverse=reverse)


ROWS = (movement, indexing, generation, reductions)
