"""The records of movement, indexing, generation and reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.inspection.operator_records.record import SIZES, Array, Draw, OperatorRecord, Torch, flat, longs, normal, uniform, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_IMAGES = (4, 16, 64, 64)
_I64 = np.int64


def _movement() -> Iterator[OperatorRecord]:
    one: dict[str, Draw] = {"input_tensor": normal()}
    yield OperatorRecord(
        *("CAST", one),
        outputs={"output_tensor": (SIZES, np.int32)},
        onnx="output_tensor = Cast <to=6> (input_tensor)",
        torch=lambda t, x: x.input_tensor.to(t.int32),
    )
    yield OperatorRecord(
        *("JOIN", {"input_tensors": (normal(8, 16, 32, 32), normal(8, 16, 32, 32))}, {"axis": 1}),
        outputs={"output_tensor": (SIZES, np.float32)},
        onnx="output_tensor = Concat <axis=1> (input_tensors0, input_tensors1)",
        torch=lambda t, x: t.cat(x.input_tensors, 1),
    )
    part = ((8, 16, 32, 32), np.float32)
    yield OperatorRecord(
        *("SPLIT", one, {"axis": 1}),
        outputs={"output_tensors": [part, part]},
        onnx="output_tensors0, output_tensors1 = Split <axis=1, num_outputs=2> (input_tensor)",
        torch=lambda t, x: [part.contiguous() for part in t.split(x.input_tensor, 16, 1)],
    )
    yield OperatorRecord(
        *("TILE", {"input_tensor": normal(8, 16, 32, 32)}, {"repeats": (1, 2, 1, 2)}),
        onnx="output_tensor = Tile (input_tensor, repeats)",
        onnx_inputs={"repeats": longs(1, 2, 1, 2)},
        torch=lambda t, x: t.tile(x.input_tensor, (1, 2, 1, 2)),
    )

    def lengths(rng: np.random.Generator) -> Array:
        return np.broadcast_to(rng.integers(1, 65, (1, 16, 1, 1), np.uint32), (1, 16, 16, 16))

    yield OperatorRecord(
        *("REVERSE_SUBSEQUENCES", {"input_tensor": normal(64, 16, 16, 16), "sequence_lengths_tensor": lengths}, {"axis": 0}),
        onnx="output_tensor = ReverseSequence <batch_axis=1, time_axis=0> (input_tensor, lengths)",
        onnx_inputs={
            "lengths": ("sequence_lengths_tensor", lambda array: array.reshape(-1).astype(_I64))
        },  # broadcast: one for each column
        scaled_axes=dict.fromkeys(("input_tensor", "sequence_lengths_tensor"), 2),
    )
    yield from _slices()
    yield from _paddings()
    yield from _blocks()


def _slices() -> Iterator[OperatorRecord]:
    x: dict[str, Draw] = {"input_tensor": normal(8, 64, 64, 32)}
    offsets, windows, strides = (0, 8, 4, 0), (8, 48, 56, 32), (1, 1, 2, 1)
    nodes = "output_tensor = Slice (input_tensor, starts, ends, axes, steps)"
    operands = {"starts": longs(8, 4), "ends": longs(56, 60), "axes": longs(1, 2), "steps": longs(1, 2)}

    def taken(t: Any, x: Any) -> Any:
        return x.input_tensor[:, 8:56, 4:60:2].contiguous()

    members = {"offsets": offsets, "slice_sizes": (8, 48, 28, 32), "strides": strides}
    yield OperatorRecord("SLICE", x, members, onnx=nodes, onnx_inputs=operands, torch=taken)
    members = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
    yield OperatorRecord("SLICE1", x, members, onnx=nodes, onnx_inputs=operands, torch=taken)

    def gradient(t: Any, x: Any) -> Any:
        scattered = x.input_gradient_tensor.new_zeros((len(x.input_gradient_tensor), 64, 64, 32))
        scattered[:, 8:56, 4:60:2] = x.input_gradient_tensor
        return scattered

    whole_sizes = {"output_gradient_tensor": ((8, 64, 64, 32), np.float32)}
    yield OperatorRecord("SLICE_GRAD", {"input_gradient_tensor": normal(8, 48, 28, 32)}, members, outputs=whole_sizes, torch=gradient)


def _paddings() -> Iterator[OperatorRecord]:
    x: dict[str, Draw] = {"input_tensor": normal(*_IMAGES)}
    members: dict[str, Any] = {
        "padding_mode": "REFLECTION",
        "padding_value": 0.0,
        "start_padding": (0, 0, 3, 3),
        "end_padding": (0, 0, 3, 3),
    }
    theirs: dict[str, Any] = {
        "onnx": 'output_tensor = Pad <mode="reflect"> (input_tensor, pads)',
        "onnx_inputs": {"pads": longs(0, 0, 3, 3, 0, 0, 3, 3)},
        "torch": lambda t, x: t.nn.functional.pad(x.input_tensor, (3, 3, 3, 3), "reflect"),
    }
    yield OperatorRecord("PADDING", x, members, **theirs)
    yield OperatorRecord("PADDING1", x, {**members, "padding_value_data_type": "FLOAT32"}, **theirs)


def _blocks() -> Iterator[OperatorRecord]:
    deep: dict[str, Draw] = {"input_tensor": normal(4, 64, 32, 32)}
    flat_: dict[str, Draw] = {"input_tensor": normal(*_IMAGES)}
    for number, order in (("", {}), ("1", {"order": "DEPTH_COLUMN_ROW"})):
        members = {"block_size": 2, **order}
        to_space = "output_tensor = DepthToSpace <blocksize=2> (input_tensor)"
        yield OperatorRecord(f"DEPTH_TO_SPACE{number}", deep, members, onnx=to_space, torch=_depth_to_space)
        to_depth = "output_tensor = SpaceToDepth <blocksize=2> (input_tensor)"
        yield OperatorRecord(f"SPACE_TO_DEPTH{number}", flat_, members, onnx=to_depth, torch=_space_to_depth)
    ours = {"window_sizes": (3, 3), "strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    yield OperatorRecord(
        *("UNFOLD", {"input_tensor": normal(2, 16, 64, 64)}, ours),
        torch=lambda t, x: t.nn.functional.unfold(x.input_tensor, (3, 3), padding=1),
        scaled_axes={"input_tensor": 1},
    )
    yield OperatorRecord(
        *("FOLD", {"input_tensor": normal(2, 144, 4096)}, ours),
        outputs={"output_tensor": ((2, 16, 64, 64), np.float32)},
        torch=lambda t, x: t.nn.functional.fold(x.input_tensor, (64, 64), (3, 3), padding=1),
        scaled_axes={"input_tensor": 1, "output_tensor": 1},
    )


def _depth_to_space(t: Any, x: Any) -> Any:
    return x.input_tensor.reshape(-1, 2, 2, 16, 32, 32).permute(0, 3, 4, 1, 5, 2).reshape(-1, 16, 64, 64)


def _space_to_depth(t: Any, x: Any) -> Any:
    return x.input_tensor.reshape(-1, 16, 32, 2, 32, 2).permute(0, 3, 5, 1, 2, 4).reshape(-1, 64, 32, 32)


def _gathers() -> Iterator[OperatorRecord]:
    table: dict[str, Draw] = {"input_tensor": normal(4096, 128)}
    yield OperatorRecord(
        *("GATHER", table | {"indices_tensor": whole(0, 4096, 1, 2048, dtype=_I64)}, {"axis": 0, "index_dimensions": 1}),
        onnx="output_tensor = Gather <axis=0> (input_tensor, rows)",
        onnx_inputs={"rows": flat("indices_tensor")},
        torch=lambda t, x: t.index_select(x.input_tensor, 0, x.indices_tensor.view(-1)),
        scaled_axes={"indices_tensor": 1},
    )
    yield OperatorRecord(
        *("GATHER_ELEMENTS", table | {"indices_tensor": whole(0, 4096, 2048, 128, dtype=_I64)}, {"axis": 0}),
        onnx="output_tensor = GatherElements <axis=0> (input_tensor, indices_tensor)",
        torch=lambda t, x: t.gather(x.input_tensor, 0, x.indices_tensor),
        scaled_axes={"input_tensor": 1, "indices_tensor": 1},
    )
    images: dict[str, Draw] = {"input_tensor": normal(64, 64, 64)}
    pairs = {"indices_tensor": whole(0, 64, 1, 4096, 2, dtype=_I64)}
    counts = {"input_dimension_count": 3, "indices_dimension_count": 2}
    theirs: dict[str, Any] = {
        "onnx": "output_tensor = GatherND (input_tensor, pairs)",
        "onnx_inputs": {"pairs": ("indices_tensor", lambda array: array.reshape(-1, 2))},
        "torch": lambda t, x: x.input_tensor[x.indices_tensor[0, :, 0], x.indices_tensor[0, :, 1]],
        "scaled_axes": {"indices_tensor": 1},
    }
    yield OperatorRecord("GATHER_ND", images | pairs, counts, **theirs)
    yield OperatorRecord("GATHER_ND1", images | pairs, {**counts, "batch_dimension_count": 0}, **theirs)


def _unique(sizes: Sequence[int], among: int) -> Draw:
    """Indices below a number, distinct within each column: [count, columns]."""
    return lambda rng: np.argsort(rng.random((among, sizes[1])), axis=0)[: sizes[0]].astype(_I64)


def _places(rng: np.random.Generator) -> Array:
    """4,096 distinct positions of an image of 128 by 128."""
    return np.stack(np.divmod(rng.permutation(128 * 128)[:4096], 128), axis=-1).astype(_I64)[np.newaxis]


def _scatters() -> Iterator[OperatorRecord]:
    inputs = {"input_tensor": normal(4096, 128), "indices_tensor": _unique((2048, 128), 4096), "updates_tensor": normal(2048, 128)}
    yield OperatorRecord(
        *("SCATTER", inputs, {"axis": 0}),
        onnx="output_tensor = ScatterElements <axis=0> (input_tensor, indices_tensor, updates_tensor)",
        torch=lambda t, x: t.scatter(x.input_tensor, 0, x.indices_tensor, x.updates_tensor),
        scaled_axes=dict.fromkeys(inputs, 1),
    )
    yield OperatorRecord(
        *("SCATTER_ND", {"input_tensor": normal(128, 128, 16), "indices_tensor": _places, "updates_tensor": normal(1, 4096, 16)}),
        {"input_dimension_count": 3, "indices_dimension_count": 2},
        onnx="output_tensor = ScatterND (input_tensor, places, updates)",
        onnx_inputs={
            "places": ("indices_tensor", lambda array: array.reshape(-1, 2)),
            "updates": ("updates_tensor", lambda array: array.reshape(4096, -1)),
        },
        torch=lambda t, x: x.input_tensor.index_put((x.indices_tensor[0, :, 0], x.indices_tensor[0, :, 1]), x.updates_tensor[0]),
        scaled_axes={"input_tensor": 2, "updates_tensor": 2},
    )
    yield OperatorRecord(
        *(
            "ONE_HOT",
            {"indices_tensor": whole(0, 128, 2048, 1, dtype=_I64), "values_tensor": lambda rng: np.array([[0.0, 1.0]], np.float32)},
        ),
        {"axis": 1},
        outputs={"output_tensor": ((2048, 128), np.float32)},
        onnx="output_tensor = OneHot <axis=1> (indices, depth, values)",
        onnx_inputs={"indices": flat("indices_tensor"), "values": flat("values_tensor"), "depth": longs(128)},
        torch=lambda t, x: t.nn.functional.one_hot(x.indices_tensor.view(-1), 128).to(t.float32),
    )
    yield OperatorRecord(
        *("NONZERO_COORDINATES", {"input_tensor": whole(0, 2, 512, 512)}),
        outputs={"output_count_tensor": ((1,), np.uint32), "output_coordinates_tensor": ((512 * 512, 2), np.uint32)},
        onnx="rows = NonZero (input_tensor)\noutput_coordinates_tensor = Transpose (rows)",
        torch=lambda t, x: {"output_coordinates_tensor": t.nonzero(x.input_tensor)},
        lacking=dict.fromkeys(("onnxruntime", "openvino", "torch"), ("output_count_tensor",)),
        scaled_axes={"input_tensor": 0, "output_coordinates_tensor": 0},
    )


def _generation() -> Iterator[OperatorRecord]:
    square = {"output_tensor": ((1, 1, 512, 512), np.float32)}
    yield OperatorRecord(
        *("FILL_VALUE_CONSTANT", {}, {"value_data_type": "FLOAT32", "value": 1.5}),
        outputs={"output_tensor": (SIZES, np.float32)},
        onnx="output_tensor = ConstantOfShape <value = float[1] {1.5}> (sizes)",
        onnx_inputs={"sizes": longs(*SIZES)},
        fed=("sizes",),
        torch=lambda t, x: t.full(SIZES, 1.5, device=x.device),
    )
    yield OperatorRecord(
        *("FILL_VALUE_SEQUENCE", {}, {"value_data_type": "FLOAT32", "value_start": -3.0, "value_delta": 0.125}),
        outputs={"output_tensor": ((1 << 18,), np.float32)},
        onnx="output_tensor = Range (start, end, step)",
        onnx_inputs={
            name: np.array(value, np.float32) for name, value in (("start", -3.0), ("end", -3.0 + 0.125 * (1 << 18)), ("step", 0.125))
        },
        fed=("start", "end", "step"),
        torch=lambda t, x: t.arange(-3.0, -3.0 + 0.125 * (1 << 18), 0.125, device=x.device),
    )
    yield OperatorRecord(
        *("DIAGONAL_MATRIX", {}, {"offset": 2, "value": 1.0}),
        outputs=square,
        onnx="output_tensor = EyeLike <k=2> (like)",
        onnx_inputs={"like": np.zeros((512, 512), np.float32)},
        fed=("like",),
    )
    yield OperatorRecord(
        *("DIAGONAL_MATRIX1", {"input_tensor": normal(1, 1, 512, 512)}),
        {"value_data_type": "FLOAT32", "value": 0.0, "diagonal_fill_begin": -(1 << 31), "diagonal_fill_end": 0},
        onnx="output_tensor = Trilu <upper=1> (input_tensor)",
        torch=lambda t, x: t.triu(x.input_tensor),
    )
    words = {"output_tensor": (SIZES, np.uint32), "output_state_tensor": ((1, 1, 1, 6), np.uint32)}
    yield OperatorRecord(
        "RANDOM_GENERATOR",
        {"input_state_tensor": whole(0, 1 << 30, 1, 1, 1, 6, dtype=np.uint32)},
        {"type": "PHILOX_4X32_10"},
        outputs=words,
        scaled_axes={},
    )


def _reductions() -> Iterator[OperatorRecord]:
    x: dict[str, Draw] = {"input_tensor": normal(256, 1024)}
    yield OperatorRecord(
        *("REDUCE", x, {"function": "SUM", "axes": (1,)}),
        onnx="output_tensor = ReduceSum <keepdims=1> (input_tensor, axes)",
        onnx_inputs={"axes": longs(1)},
        torch=lambda t, x: t.sum(x.input_tensor, 1, keepdim=True),
    )
    for name, theirs in (("ARGMAX", "ArgMax"), ("ARGMIN", "ArgMin")):
        yield OperatorRecord(
            *(name, x, {"axes": (1,), "axis_direction": "INCREASING"}),
            outputs={"output_tensor": ((256, 1), np.uint32)},
            onnx=f"output_tensor = {theirs} <axis=1> (input_tensor)",
            torch=_index(name.lower()),
        )
    yield OperatorRecord(
        *("CUMULATIVE_SUMMATION", x, {"axis": 1, "axis_direction": "INCREASING", "has_exclusive_sum": False}),
        onnx="output_tensor = CumSum (input_tensor, axis)",
        onnx_inputs={"axis": np.array(1, _I64)},
        torch=lambda t, x: t.cumsum(x.input_tensor, 1),
    )
    yield OperatorRecord(
        *("CUMULATIVE_PRODUCT", {"input_tensor": uniform(0.9, 1.1, 256, 1024)}),
        {"axis": 1, "axis_direction": "INCREASING", "has_exclusive_product": False},
        torch=lambda t, x: t.cumprod(x.input_tensor, 1),
    )
    best = {"output_value_tensor": ((100, 10), np.float32), "output_index_tensor": ((100, 10), np.uint32)}
    top: dict[str, Any] = {
        "outputs": best,
        "onnx": "output_value_tensor, output_index_tensor = TopK <axis=1> (input_tensor, k)",
        "onnx_inputs": {"k": longs(10)},
        "torch": lambda t, x: t.topk(x.input_tensor, 10, 1),
    }
    many: dict[str, Draw] = {"input_tensor": normal(100, 10000)}
    yield OperatorRecord("TOP_K", many, {"axis": 1, "k": 10}, **top)
    yield OperatorRecord("TOP_K1", many, {"axis": 1, "k": 10, "axis_direction": "DECREASING"}, **top)


def _index(name: str) -> Torch:
    return lambda t, x: getattr(t, name)(x.input_tensor, 1, keepdim=True)


def records() -> Iterator[OperatorRecord]:
    """The records of the families."""
    for part in (_movement, _gathers, _scatters, _generation, _reductions):
        yield from part()
