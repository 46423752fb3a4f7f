"""The operators that copy, slice and move blocks: every rule, every size that follows from others, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]


def join(*inputs: tuple[int, ...], axis: int, output: tuple[int, ...]) -> dml.JoinDesc:
    return dml.JoinDesc(input_tensors=[tensor(*sizes) for sizes in inputs], output_tensor=tensor(*output), axis=axis)


def split(sizes: tuple[int, ...], *outputs: tuple[int, ...], axis: int) -> dml.SplitDesc:
    return dml.SplitDesc(input_tensor=tensor(*sizes), output_tensors=[tensor(*own) for own in outputs], axis=axis)


def reverse(sizes: tuple[int, ...], lengths: tuple[int, ...], axis: int, **members: Any) -> dml.ReverseSubsequencesDesc:
    lengths_tensor = tensor(*lengths, data_type="UINT32")
    members = {"output_tensor": tensor(*sizes)} | members
    return dml.ReverseSubsequencesDesc(input_tensor=tensor(*sizes), sequence_lengths_tensor=lengths_tensor, axis=axis, **members)


def tile(repeats: list[int], output: tuple[int, ...]) -> dml.TileDesc:
    return dml.TileDesc(input_tensor=tensor(2, 3), output_tensor=tensor(*output), repeats=repeats)


def pad(start: list[int], end: list[int], output: tuple[int, ...], **members: Any) -> dml.PaddingDesc:
    return dml.PaddingDesc(input_tensor=tensor(2, 3), output_tensor=tensor(*output), start_padding=start, end_padding=end, **members)


def slice_of(offsets: list[int], sizes: list[int], strides: list[int], output: tuple[int, ...]) -> dml.SliceDesc:
    x, y = tensor(4, 8), tensor(*output)
    return dml.SliceDesc(input_tensor=x, output_tensor=y, offsets=offsets, slice_sizes=sizes, strides=strides)


def slice1(offsets: list[int], windows: list[int], strides: list[int], output: tuple[int, ...]) -> dml.Slice1Desc:
    members = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
    return dml.Slice1Desc(input_tensor=tensor(4, 8), output_tensor=tensor(*output), **members)


def slice_grad(offsets: list[int], windows: list[int], strides: list[int], taken: tuple[int, ...]) -> dml.SliceGradDesc:
    members = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
    return dml.SliceGradDesc(input_gradient_tensor=tensor(*taken), output_gradient_tensor=tensor(4, 8), **members)


def blocks(kind: Any, sizes: tuple[int, ...], block_size: int, output: tuple[int, ...]) -> Any:
    order = {"order": "COLUMN_ROW_DEPTH"} if "order" in kind.model_fields else {}
    return kind(input_tensor=tensor(*sizes), output_tensor=tensor(*output), block_size=block_size, **order)


def columns(kind: Any, image: tuple[int, ...], of_columns: tuple[int, ...], **members: Any) -> Any:
    spatial = len(image) - 2
    given: dict[str, Any] = {name: [1] * spatial for name in ("strides", "dilations")}
    given |= {name: [0] * spatial for name in ("start_padding", "end_padding")} | {"window_sizes": [3] * spatial}
    first, second = (of_columns, image) if kind is dml.FoldDesc else (image, of_columns)
    return kind(input_tensor=tensor(*first), output_tensor=tensor(*second), **given | members)


# A desc, and the codes and places of its problems.
CASES: list[tuple[Callable[[], OperatorDesc], Found]] = [
    (lambda: dml.CastDesc(input_tensor=tensor(2, 3), output_tensor=tensor(2, 3, data_type="UINT8")), []),
    (lambda: dml.CastDesc(input_tensor=tensor(2, 3), output_tensor=tensor(2, 4)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: join((2, 3), (2, 5), (2, 1), axis=1, output=(2, 9)), []),
    (lambda: join((2, 3), axis=0, output=(2, 3)), []),
    (lambda: join((2, 3), (2, 5), axis=1, output=(2, 7)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: join((2, 3), (4, 5), axis=1, output=(2, 8)), [("size.equal", "input_tensors[1].sizes[0]")]),
    (lambda: join((4, 3), (2, 5), axis=1, output=(2, 8)), [("size.equal", "input_tensors[0].sizes[0]")]),
    (lambda: join((2, 3), (1, 2, 5), axis=1, output=(2, 8)), [("dims.equal", "input_tensors[1].sizes")]),
    (lambda: join((2, 3), (2, 5), axis=2, output=(2, 8)), [("attribute.axis", "axis")]),
    (lambda: join((2, 3), (2, 5), axis=0, output=(2, 8)), [("axis_choice", "axis")]),
    (lambda: join(axis=0, output=(1,)), [("tensor_array_empty", "input_tensors")]),
    (lambda: join((2, 3), (2, 5), axis=1, output=(2, 8)).replace(output_tensor=None), [("tensor.missing", "output_tensor")]),
    (lambda: split((2, 9), (2, 3), (2, 5), (2, 1), axis=1), []),
    (lambda: split((2, 9), (2, 9), axis=1), []),
    (lambda: split((2, 9), (2, 3), (2, 5), axis=1), [("split_sum", "output_tensors")]),
    (lambda: split((2, 8), (2, 3), (4, 5), axis=1), [("size.equal", "output_tensors[1].sizes[0]")]),
    (lambda: split((3, 8), (2, 3), (2, 5), axis=1), [("size.equal", "input_tensor.sizes[0]")]),
    (lambda: split((2, 8), (2, 3), (5,), axis=1), [("dims.equal", "output_tensors[1].sizes")]),
    (lambda: split((2, 8), (2, 3), (1, 2, 5), axis=1), [("dims.equal", "output_tensors[1].sizes")]),
    (lambda: split((2, 8), (2, 3), (2, 5), axis=2), [("attribute.axis", "axis")]),
    (lambda: split((8, 8), (8, 4), (8, 4), axis=0), [("axis_choice", "axis")]),
    (lambda: split((2, 8), axis=0), [("tensor_array_empty", "output_tensors")]),
    (lambda: reverse((2, 3, 4), (2, 1, 4), 1), []),
    (lambda: reverse((2, 3, 4), (2, 3, 4), 1), [("size.equal", "sequence_lengths_tensor.sizes[1]")]),
    (lambda: reverse((2, 3, 4), (2, 1, 5), 1), [("size.equal", "sequence_lengths_tensor.sizes[2]")]),
    (lambda: reverse((2, 3, 9), (2, 1, 4), 1, output_tensor=tensor(2, 3, 4)), [("size.equal", "input_tensor.sizes[2]")]),
    (lambda: reverse((2, 3, 4), (2, 1, 4), 2), [("axis_choice", "axis")]),
    (lambda: reverse((2, 3, 4), (2, 4), 1), [("dims.equal", "sequence_lengths_tensor.sizes")]),
    (lambda: reverse((2, 3, 4), (2, 1, 4), 3), [("attribute.axis", "axis")]),
    (lambda: tile([2, 3], (4, 9)), []),
    (lambda: tile([2, 3], (4, 6)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: tile([2, 0], (4, 3)), [("attribute.range", "repeats[1]")]),
    (lambda: tile([2**32, 1], (4, 3)), [("attribute.range", "repeats[0]")]),
    (lambda: tile([2], (4, 3)), [("attribute.length", "repeats")]),
    (lambda: tile([2, 3], (1, 4, 9)), [("dims.equal", "output_tensor.sizes")]),
    (lambda: pad([1, 0], [0, 2], (3, 5)), []),
    (lambda: pad([1, 0], [0, 2], (3, 4)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: pad([1], [0, 2], (3, 4)), [("attribute.length", "start_padding")]),
    (lambda: pad([1, 0], [0, 2, 0], (3, 4)), [("attribute.length", "end_padding")]),
    (lambda: pad([-1, 0], [0, 2], (3, 4)), [("attribute.range", "start_padding[0]")]),
    (lambda: pad([0, 0], [2**32, 2], (3, 4)), [("attribute.range", "end_padding[0]")]),
    (lambda: slice_of([1, 2], [3, 3], [1, 2], (3, 3)), []),
    (lambda: slice_of([3, 7], [5, 1], [0, 9], (5, 1)), []),
    (lambda: slice_of([1, 2], [3, 3], [1, 2], (3, 4)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: slice_of([4, 2], [1, 3], [1, 2], (1, 3)), [("window_bounds", "offsets[0]")]),
    (lambda: slice_of([1, 2], [3, 4], [1, 2], (3, 4)), [("window_bounds", "slice_sizes[1]")]),
    (lambda: slice_of([1, 2], [0, 3], [1, 2], (1, 3)), [("attribute.range", "slice_sizes[0]")]),
    (lambda: slice_of([1], [3], [1], (3, 3)), [("attribute.length", name) for name in ("offsets", "slice_sizes", "strides")]),
    (lambda: slice1([1, 2], [3, 5], [1, -2], (3, 3)), []),
    (lambda: slice1([1, 2], [3, 5], [1, -2], (1, 2)), []),
    (lambda: slice1([1, 2], [3, 5], [1, -2], (3, 4)), [("slice_count", "output_tensor.sizes[1]")]),
    (lambda: slice1([4, 2], [3, 5], [1, -2], (3, 3)), [("window_bounds", "input_window_offsets[0]")]),
    (lambda: slice1([2, 2], [3, 5], [1, -2], (3, 3)), [("window_bounds", "input_window_sizes[0]")]),
    (lambda: slice1([1, 2], [3, 0], [1, -2], (3, 3)), [("attribute.range", "input_window_sizes[1]")]),
    (lambda: slice1([1, 2], [3, 5], [1, 0], (3, 3)), [("attribute.range", "input_window_strides[1]")]),
    (lambda: slice1([1, 2], [3, 5], [1, 2**31], (3, 1)), [("attribute.range", "input_window_strides[1]")]),
    (lambda: slice1([1, 2], [3, 5], [1], (3, 3)), [("attribute.length", "input_window_strides")]),
    (lambda: slice1([1, 2], [3, 5], [1, -2], (1, 3, 3)), [("dims.equal", "output_tensor.sizes")]),
    (lambda: slice_grad([1, 2], [3, 5], [1, -2], (3, 3)), []),
    (lambda: slice_grad([1, 2], [3, 5], [1, -2], (3, 4)), [("slice_count", "input_gradient_tensor.sizes[1]")]),
    (lambda: slice_grad([1, 2], [3, 7], [1, -2], (3, 3)), [("window_bounds", "input_window_sizes[1]")]),
    (lambda: blocks(dml.DepthToSpaceDesc, (5, 12, 2, 3), 2, (5, 3, 4, 6)), []),
    (lambda: blocks(dml.DepthToSpace1Desc, (5, 12, 2, 3), 1, (5, 12, 2, 3)), []),
    (lambda: blocks(dml.DepthToSpaceDesc, (5, 12, 2, 3), 2, (5, 6, 4, 6)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: blocks(dml.DepthToSpaceDesc, (5, 14, 2, 3), 2, (5, 3, 4, 6)), [("whole_blocks", "input_tensor.sizes[1]")]),
    (
        lambda: blocks(dml.DepthToSpaceDesc, (5, 14, 2, 3), 2, (5, 3, 4, 7)),
        [("whole_blocks", "input_tensor.sizes[1]"), ("size.equal", "output_tensor.sizes[3]")],
    ),
    (lambda: blocks(dml.DepthToSpaceDesc, (5, 12, 2, 3), 4, (5, 3, 4, 6)), [("whole_blocks", "block_size")]),
    (lambda: blocks(dml.DepthToSpaceDesc, (5, 12, 2, 3), 0, (5, 3, 4, 6)), [("attribute.range", "block_size")]),
    (lambda: blocks(dml.SpaceToDepthDesc, (5, 3, 4, 6), 2, (5, 12, 2, 3)), []),
    (lambda: blocks(dml.SpaceToDepth1Desc, (5, 3, 4, 6), 2, (5, 12, 2, 4)), [("size.equal", "output_tensor.sizes[3]")]),
    (
        lambda: blocks(dml.SpaceToDepth1Desc, (5, 3, 5, 7), 2, (5, 12, 2, 3)),
        [("whole_blocks", "input_tensor.sizes[2]"), ("whole_blocks", "input_tensor.sizes[3]")],
    ),
    (
        lambda: blocks(dml.SpaceToDepth1Desc, (5, 3, 5, 6), 2, (5, 11, 2, 2)),
        [("whole_blocks", "input_tensor.sizes[2]"), ("size.equal", "output_tensor.sizes[1]"), ("size.equal", "output_tensor.sizes[3]")],
    ),
    (lambda: blocks(dml.SpaceToDepthDesc, (5, 3, 8, 6), 8, (5, 12, 2, 3)), [("whole_blocks", "block_size")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 45, 8)), []),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (1, 2, 45, 8)), []),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 2, 45, 8)), [("size.equal", "output_tensor.sizes[0]")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 5, 8)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 45, 10), dilations=[1, 2]), [("size.equal", "output_tensor.sizes[2]")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 45, 8), strides=[0, 1]), [("attribute.range", "strides[0]")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 2), (2, 45, 8)), [("window_fits", "window_sizes[1]")]),
    (lambda: columns(dml.UnfoldDesc, (2, 5, 4, 6), (2, 45, 8), end_padding=[0]), [("padding_entries", "end_padding")]),
    (lambda: columns(dml.FoldDesc, (2, 5, 4, 6), (2, 45, 8)), []),
    (lambda: columns(dml.FoldDesc, (2, 5, 4, 6), (2, 45, 9)), [("size.equal", "input_tensor.sizes[2]")]),
    (lambda: columns(dml.FoldDesc, (2, 5, 4, 6), (2, 44, 8)), [("size.equal", "input_tensor.sizes[1]")]),
    (lambda: columns(dml.FoldDesc, (2, 5, 4, 6), (2, 45, 8), window_sizes=[3]), [("attribute.length", "window_sizes")]),
]


def test_problems_are_reported_by_code_and_place() -> None:
    wrong = []
    for make, expected in CASES:
        desc = make()
        # A negative number is refused as none that the member holds, and again as one below the least.
        found = list(dict.fromkeys((problem.code, problem.path) for problem in dml.check(desc)))
        if found != expected:
            wrong.append(lay_out(f"{desc.to_dict()}\nexpected {expected}", dml.check(desc)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("level", "refused"), [("2_1", True), ("3_0", False), ("4_0", False), ("4_1", False)])
def test_joins_of_few_dimensions_come_with_levels(level: str, refused: bool) -> None:
    """Chromium's WebNN backend, which takes devices from 4_0 on, joins tensors as they are."""
    desc = join((2, 3), (2, 3), axis=0, output=(4, 3))
    assert {problem.code for problem in dml.check(desc, level)} == ({"dims.support"} if refused else set())


def test_padding_modes_come_with_levels() -> None:
    desc = pad([1, 0], [0, 2], (3, 5)).replace(input_tensor=tensor(1, 1, 2, 3), output_tensor=tensor(1, 1, 3, 5))
    desc = desc.replace(start_padding=[0, 0, 1, 0], end_padding=[0, 0, 0, 2])
    first = {"CONSTANT": "1_0", "EDGE": "1_0", "REFLECTION": "1_0", "SYMMETRIC": "3_0", "WRAP": "6_4"}
    for mode, since in first.items():
        with_mode = desc.replace(padding_mode=mode)
        assert next(str(level) for level in dml.FeatureLevel if not dml.check(with_mode, level)) == since
    members = {name: getattr(desc, name) for name in ("input_tensor", "output_tensor", "start_padding", "end_padding")}
    newer = dml.Padding1Desc(padding_value_data_type="FLOAT32", padding_mode="WRAP", **members)
    assert dml.check(newer) == []
    assert [problem.path for problem in dml.check(newer, "6_3")] == ["padding_mode"]
    assert [problem.path for problem in dml.check(newer.replace(padding_value_data_type="INT8"))] == ["padding_value_data_type"]


def test_messages_say_what_to_change() -> None:
    told = {
        "joined": dml.check(join((2, 3), (2, 5), axis=1, output=(2, 7)))[0],
        "not along the axis": dml.check(join((2, 3), (4, 5), axis=1, output=(2, 8)))[0],
        "split": dml.check(split((2, 9), (2, 3), (2, 5), axis=1))[0],
        "lengths": dml.check(reverse((2, 3, 4), (2, 3, 4), 1))[0],
        "rank": dml.check(join((2, 3), (1, 2, 5), (2, 1), axis=1, output=(2, 9)))[0],
        "end": dml.check(slice_of([1, 0], [4, 8], [1, 1], (4, 8)))[0],
        "window's end": dml.check(slice1([1, 0], [4, 8], [1, 1], (3, 8)))[0],
        "numbers of elements": dml.check(slice_of([0, 0], [4, 8], [1, 2], (4, 8)))[0],
    }
    assert {name: (problem.found, problem.expected, problem.remedy) for name, problem in told.items()} == {
        "joined": ("7", "joined_length = 8", None),
        "not along the axis": ("4", "sizes[0] = 2", "only along dimension 1, the axis, it may differ from the others"),
        "split": ("3 + 5 = 8 along dimension 1", "9", "6 for the last would fit"),
        "lengths": ("3", "1", "along dimension 1, the axis, it has size 1, elsewhere those of the others: sizes [2, 1, 4]"),
        "rank": ("3 dimensions", "2 dimensions", None),
        "end": ("4", "1 to 3", "if it ends before element 4, the size is 3"),
        "window's end": ("4", "1 to 3", "if it ends before element 4, its size is 3"),
        "numbers of elements": ("8", "1 to 4", "sizes count the elements that are copied: 4 of a window of 8"),
    }
    assert dml.check(tile([2, 3], (4, 6)))[0].why[-1] == "tiled[1] = 9: sizes[1] * repeats[1] = 3 * 3"
    assert told["joined"].why[-1] == "joined_length = 8: 3 + 5, the inputs' sizes[1]"
    assert dml.check(split((2, 4), (2, 5), (2, 5), axis=1))[0].remedy == "2 equal parts have 2"


def test_outputs_of_a_split_are_for_the_caller_to_describe() -> None:
    desc = split((2, 9), (2, 3), (2, 6), axis=1)
    assert desc.with_outputs() == desc
    with pytest.raises(dml.DescError, match="output_tensors is not determined"):
        desc.with_outputs("OutputTensors")
    with pytest.raises(dml.DescError, match="a sequence of TensorDesc"):
        dml.JoinDesc(input_tensors=3, axis=0)


def test_the_member_sizes_of_a_slice_has_another_name_in_python() -> None:
    desc = slice_of([1, 2], [3, 3], [1, 2], (3, 3))
    assert desc.to_dict()["Desc"]["Sizes"] == [3, 3]
    assert desc.replace(Sizes=[2, 2]).slice_sizes == (2, 2)
    assert dml.check(desc.replace(slice_sizes=[3, 9]))[-1].c_path == "Sizes[1]"


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@settings(max_examples=60)
@given(SIZES, st.data())
def test_outputs_have_the_sizes_that_numpy_makes(sizes: list[int], data: st.DataObject) -> None:
    x, dims = np.zeros(sizes), len(sizes)
    x_desc = tensor(*sizes)

    def numbers(least: int, most: int) -> list[int]:
        return data.draw(st.lists(st.integers(least, most), min_size=dims, max_size=dims))

    def output(desc: Any) -> tuple[int, ...]:
        inferred = desc.with_outputs()
        assert dml.check(inferred) == []
        assert isinstance(inferred.output_tensor, dml.TensorDesc)
        return inferred.output_tensor.sizes

    repeats = numbers(1, 3)
    assert output(dml.TileDesc(input_tensor=x_desc, repeats=repeats)) == np.tile(x, repeats).shape

    start, end = numbers(0, 3), numbers(0, 3)
    padded = dml.PaddingDesc(input_tensor=x_desc, start_padding=start, end_padding=end)
    assert output(padded) == np.pad(x, list(zip(start, end, strict=True))).shape

    axis = data.draw(st.integers(0, dims - 1))
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    parts = [np.zeros([*sizes[:axis], length, *sizes[axis + 1 :]]) for length in lengths]
    part_descs = [tensor(*part.shape) for part in parts]
    joined = np.concatenate(parts, axis)
    assert output(dml.JoinDesc(input_tensors=part_descs, axis=axis)) == joined.shape
    assert dml.check(dml.SplitDesc(input_tensor=tensor(*joined.shape), output_tensors=part_descs, axis=axis)) == []

    offsets = [data.draw(st.integers(0, size - 1)) for size in sizes]
    windows = [data.draw(st.integers(1, size - offset)) for size, offset in zip(sizes, offsets, strict=True)]
    signs, steps = [data.draw(st.sampled_from([1, -1])) for _ in sizes], numbers(1, 3)
    ranges = tuple(slice(offset, offset + window, step) for offset, window, step in zip(offsets, windows, steps, strict=True))
    taken = x[ranges].shape
    strides = [sign * step for sign, step in zip(signs, steps, strict=True)]
    members = {"input_window_offsets": offsets, "input_window_sizes": windows, "input_window_strides": strides}
    assert output(dml.Slice1Desc(input_tensor=x_desc, **members)) == taken
    gradient = dml.SliceGradDesc(input_gradient_tensor=tensor(*taken), output_gradient_tensor=x_desc, **members)
    assert dml.check(gradient) == []
    assert output(dml.SliceDesc(input_tensor=x_desc, offsets=offsets, slice_sizes=taken, strides=steps)) == taken
    # One element more than the window holds is outside it, and what is outside the tensor is refused.
    more = [size + 1 for size in taken]
    assert {problem.code for problem in dml.check(gradient.replace(input_gradient_tensor=tensor(*more)))} == {"slice_count"}


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_blocks_become_channels_and_back(batch: int, channels: int, height: int, width: int, block: int) -> None:
    image = np.zeros((batch, channels, height * block, width * block))
    deep = image.reshape(batch, channels, height, block, width, block).transpose(0, 3, 5, 1, 2, 4).reshape(batch, -1, height, width)
    to_depth = dml.SpaceToDepthDesc(input_tensor=tensor(*image.shape), block_size=block).with_outputs()
    to_space = dml.DepthToSpaceDesc(input_tensor=tensor(*deep.shape), block_size=block).with_outputs()
    assert to_depth.output_tensor == to_space.input_tensor
    assert to_space.output_tensor == to_depth.input_tensor
    assert dml.check(to_depth) == dml.check(to_space) == []


WINDOW = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=60)
@given(st.lists(WINDOW, min_size=1, max_size=3))
def test_columns_hold_every_position_of_the_window(rows: list[tuple[int, ...]]) -> None:
    spatial, windows, strides, dilations, start, end = ([*column] for column in zip(*rows, strict=True))
    positions = [
        [at for at in range(0, size + before + after, stride) if at + dilation * (window - 1) < size + before + after]
        for size, window, stride, dilation, before, after in rows
    ]
    members = {"window_sizes": windows, "strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end}
    image = tensor(2, 5, *spatial)
    desc = dml.UnfoldDesc(input_tensor=image, **members)
    sizes = (2, 5 * int(np.prod(windows)), int(np.prod([len(found) for found in positions])))
    if not all(positions):
        of_nothing = desc.replace(output_tensor=tensor(2, sizes[1], 1))
        assert {problem.code for problem in dml.check(of_nothing)} == {"window_fits"}
        return
    inferred = desc.with_outputs()
    assert inferred.output_tensor == tensor(*sizes)
    assert dml.check(inferred) == dml.check(dml.FoldDesc(input_tensor=tensor(*sizes), output_tensor=image, **members)) == []
