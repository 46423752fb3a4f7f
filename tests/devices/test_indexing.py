"""The indexing operators on every device: against ONNX's reference, NumPy's functions and plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import (
    SOME_OR_ALL,
    Array,
    compute,
    defined,
    failures_in_layouts,
    layouts,
    packed,
    results_of,
    run,
    same,
    tensor,
)

INDEX_TYPES = (np.int32, np.int64, np.uint32, np.uint64)
TYPES = (np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64, np.uint64)


def numbers(rng: np.random.Generator, sizes: tuple[int, ...], dtype: type) -> Array:
    """Values with both ends of a type's range among them."""
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=sizes).astype(dtype)
    values = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, sizes, dtype, endpoint=True)
    values.reshape(-1)[:1], values.reshape(-1)[-1:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return values


def indices_into(rng: np.random.Generator, size: int, sizes: tuple[int, ...], dtype: type) -> Array:
    """Indices within a dimension, of signed types also from its end."""
    return rng.integers(-size if np.dtype(dtype).kind == "i" else 0, size, sizes).astype(dtype)


def signed(indices: Array) -> Array:
    """As ONNX takes them: all types signed."""
    return indices.astype(np.int64)


def with_ones(array: Array, dimension_count: int) -> Array:
    return array.reshape((1,) * (dimension_count - array.ndim) + array.shape)


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device, every: int) -> None:
    found = failures_in_layouts(*defined("indexing"), device=any_device, every=every)
    assert not found, "\n".join(found)


@pytest.mark.onnx_reference
def test_gather_as_onnx(any_device: dml.Device) -> None:
    rng = np.random.default_rng(1)
    for number, (sizes, axis, of_indices) in enumerate(
        itertools.chain.from_iterable(
            [(sizes, axis, of_indices) for axis in range(len(sizes)) for of_indices in ((), (1,), (4,), (2, 3), (1, 2, 2))]
            for sizes in [(5,), (2, 3), (3, 1, 4), (2, 3, 1, 2)]
        )
    ):
        values = numbers(rng, sizes, TYPES[number % len(TYPES)])
        indices = indices_into(rng, sizes[axis], of_indices, INDEX_TYPES[number % len(INDEX_TYPES)])
        expected = onnx_outputs("Gather", [values, signed(indices)], axis=axis)[0]
        count = max(values.ndim, indices.ndim, expected.ndim)
        of_input, of_picked = with_ones(values, count), with_ones(indices, count)
        desc = dml.GatherDesc(
            input_tensor=tensor(of_input), indices_tensor=tensor(of_picked), axis=axis + count - values.ndim, index_dimensions=indices.ndim
        )
        found = compute(desc.with_outputs(), input_tensor=of_input, indices_tensor=of_picked, device=any_device)
        same(found, with_ones(expected, count), f"{sizes} along {axis} by {of_indices}")


@pytest.mark.onnx_reference
def test_single_elements_as_onnx_gathers_and_scatters_them(any_device: dml.Device) -> None:
    rng = np.random.default_rng(2)
    shapes = [(5,), (2, 3), (3, 1, 4), (2, 3, 1, 2, 2)]
    cases = [(shape, axis, length) for shape in shapes for axis in range(len(shape)) for length in (1, 2, 7)]
    for number, (sizes, axis, length) in enumerate(cases):
        what = f"{sizes} along {axis}, {length} of them"
        values = numbers(rng, sizes, TYPES[number % len(TYPES)])
        of_indices = (*sizes[:axis], length, *sizes[axis + 1 :])
        index_type = INDEX_TYPES[number % len(INDEX_TYPES)]
        indices = indices_into(rng, sizes[axis], of_indices, index_type)
        gather = dml.GatherElementsDesc(input_tensor=tensor(values), indices_tensor=tensor(indices), axis=axis).with_outputs()
        found = compute(gather, input_tensor=values, indices_tensor=indices, device=any_device)
        same(found, np.take_along_axis(values, signed(indices), axis), what)
        same(found, onnx_outputs("GatherElements", [values, signed(indices)], axis=axis)[0], what)
        # Each element once: the start of a permutation, part of it counted from the end.
        once = rng.permuted(np.broadcast_to(np.arange(sizes[axis]), (*sizes[:axis], *sizes[axis + 1 :], sizes[axis])), axis=-1)
        once = np.ascontiguousarray(np.moveaxis(once, -1, axis)[(slice(None),) * axis + (slice(length),)].astype(index_type))
        if np.dtype(index_type).kind == "i":
            once = once - (rng.random(once.shape) < 0.5) * np.array(sizes[axis], index_type)
        updates = numbers(rng, once.shape, values.dtype.type)
        members = {"input_tensor": tensor(values), "indices_tensor": tensor(once), "updates_tensor": tensor(updates)}
        scatter = dml.ScatterDesc(**members, axis=axis).with_outputs()
        found = compute(scatter, input_tensor=values, indices_tensor=once, updates_tensor=updates, device=any_device)
        same(found, onnx_outputs("ScatterElements", [values, signed(once), updates], axis=axis)[0], what)


@pytest.mark.onnx_reference
def test_blocks_as_onnx_gathers_and_scatters_them(any_device: dml.Device) -> None:
    rng = np.random.default_rng(3)
    cases = [  # input, actual indices, batch dimensions
        ((5,), (1,), 0),
        ((5, 2), (3, 1), 0),
        ((5, 2), (3, 2), 0),
        ((2, 3, 4), (2, 2, 2), 0),
        ((2, 3, 4), (2, 1), 1),
        ((2, 3, 4), (2, 5, 2), 1),
        ((2, 3, 4), (2, 3, 1), 2),
        ((2, 3, 4, 2), (2, 3, 2, 1), 2),
        ((3, 1, 2, 2), (2, 4), 0),
    ]
    for number, ((sizes, of_indices, batch), padding) in enumerate(itertools.product(cases, (0, 1))):
        what = f"{sizes} by {of_indices}, {batch} batch dimensions"
        values = numbers(rng, sizes, TYPES[number % len(TYPES)])
        index_type = INDEX_TYPES[number % len(INDEX_TYPES)]
        columns = [indices_into(rng, sizes[batch + own], of_indices[:-1], index_type) for own in range(of_indices[-1])]
        indices = np.stack(columns, -1)
        expected = onnx_outputs("GatherND", [values, signed(indices)], batch_dims=batch)[0]
        count = max(values.ndim, indices.ndim, expected.ndim) + padding
        arrays = {"input_tensor": with_ones(values, count), "indices_tensor": with_ones(indices, count)}
        members = {name: tensor(array) for name, array in arrays.items()}
        counts = {"input_dimension_count": values.ndim, "indices_dimension_count": indices.ndim}
        gather = dml.GatherND1Desc(**members, **counts, batch_dimension_count=batch).with_outputs()
        same(compute(gather, **arrays, device=any_device), with_ones(expected, count), what)
        if batch:
            continue
        same(compute(dml.GatherNDDesc(**members, **counts).with_outputs(), **arrays, device=any_device), with_ones(expected, count), what)
        # Each block once.
        indexed = sizes[: of_indices[-1]]
        chosen = rng.permutation(math.prod(indexed))[: math.prod(of_indices[:-1])]
        tuples = np.stack(np.unravel_index(chosen, indexed), -1).astype(index_type)
        updates = numbers(rng, (len(tuples), *sizes[len(indexed) :]), values.dtype.type)
        expected = onnx_outputs("ScatterND", [values, signed(tuples), updates])[0]
        count = max(values.ndim, tuples.ndim, updates.ndim) + padding
        arrays = {"input_tensor": values, "indices_tensor": tuples, "updates_tensor": updates}
        arrays = {name: with_ones(array, count) for name, array in arrays.items()}
        members = {name: tensor(array) for name, array in arrays.items()}
        scatter = dml.ScatterNDDesc(**members, input_dimension_count=values.ndim, indices_dimension_count=2).with_outputs()
        same(compute(scatter, **arrays, device=any_device), with_ones(expected, count), what)


def test_indices_out_of_range(any_device: dml.Device) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    for dtype in INDEX_TYPES:
        limits = np.iinfo(dtype)
        given = [4, limits.max, limits.min, 1] if limits.min else [4, limits.max, 0, 1]
        indices, what = np.array([given], dtype), str(np.dtype(dtype))
        reading = {"input_tensor": tensor(values), "indices_tensor": tensor(indices)}
        gather = dml.GatherDesc(**reading, axis=1, index_dimensions=1).with_outputs()
        same(compute(gather, input_tensor=values, indices_tensor=indices, device=any_device), values[:, [3, 3, 0, 1]], what)
        rows = np.repeat(indices, 3, 0)
        elements = dml.GatherElementsDesc(input_tensor=tensor(values), indices_tensor=tensor(rows), axis=1).with_outputs()
        same(compute(elements, input_tensor=values, indices_tensor=rows, device=any_device), values[:, [3, 3, 0, 1]], what)
        tuples = indices.T.copy()
        picked = dml.GatherNDDesc(
            input_tensor=tensor(values), indices_tensor=tensor(tuples), input_dimension_count=2, indices_dimension_count=2
        )
        same(compute(picked.with_outputs(), input_tensor=values, indices_tensor=tuples, device=any_device), values[[2, 2, 0, 1]], what)
        # Nothing is written for what is out of range; of two of one element, the last is written.
        wrong = np.array([limits.max, 4, -5 if limits.min else limits.max, 1, 1], dtype)
        updates = -np.arange(15, dtype=np.float32).reshape(3, 5) - 1
        expected = values.copy()
        expected[:, 1] = updates[:, 4]
        places = np.repeat(wrong[None], 3, 0)
        scatter = dml.ScatterDesc(
            input_tensor=tensor(values), indices_tensor=tensor(places), updates_tensor=tensor(updates), axis=1
        ).with_outputs()
        same(compute(scatter, input_tensor=values, indices_tensor=places, updates_tensor=updates, device=any_device), expected, what)
        tuples = np.array([[limits.max], [3], [-4 if limits.min else 3], [1], [1]], dtype)
        blocks = -np.arange(20, dtype=np.float32).reshape(5, 4) - 1
        expected = values.copy()
        expected[1] = blocks[4]
        members = {"input_tensor": tensor(values), "indices_tensor": tensor(tuples), "updates_tensor": tensor(blocks)}
        scattered = dml.ScatterNDDesc(**members, input_dimension_count=2, indices_dimension_count=2).with_outputs()
        same(compute(scattered, input_tensor=values, indices_tensor=tuples, updates_tensor=blocks, device=any_device), expected, what)
        hot = dml.OneHotDesc(
            indices_tensor=tensor(wrong[None]), values_tensor=packed(np.int8, 2), output_tensor=packed(np.int8, 4, 5), axis=0
        )
        found = compute(hot, indices_tensor=wrong[None], values_tensor=np.array([-128, 127], np.int8), device=any_device)
        marked = np.full((4, 5), -128, np.int8)
        marked[1, 3:] = 127
        same(found, marked, what)


@pytest.mark.onnx_reference
def test_one_hot_as_onnx(any_device: dml.Device) -> None:
    rng = np.random.default_rng(4)
    shapes = [(), (3,), (2, 3), (2, 1, 4)]
    cases = [(shape, axis) for shape in shapes for axis in range(len(shape) + 1)]
    for number, (sizes, axis) in enumerate(cases):
        for depth, dtype, index_type in itertools.product((1, 4), TYPES[number % 2 :: 2], INDEX_TYPES):
            indices = indices_into(rng, depth + 1, sizes, index_type)
            indices = np.where(signed(indices) < -depth, 0, indices).astype(index_type)
            values = numbers(rng, (2,), dtype)
            # ONNX's reference wraps around past the end, and mixes the two values by arithmetic: one place more, and plain ones.
            from_start = np.where(signed(indices) < 0, signed(indices) + depth, signed(indices))
            ones = onnx_outputs("OneHot", [from_start, np.array(depth + 1), np.array([0, 1])], axis=axis)[0]
            expected = values[np.take(ones, np.arange(depth), axis)]
            own = np.expand_dims(indices, axis)
            unused = np.concatenate([values, values[:1]]).reshape(3, *(1 for _ in expected.shape[1:]))
            desc = dml.OneHotDesc(indices_tensor=tensor(own), values_tensor=tensor(unused), output_tensor=tensor(expected), axis=axis)
            found = compute(desc, indices_tensor=own, values_tensor=unused, device=any_device)
            same(found, expected, f"{sizes} along {axis}, {depth} long")


@pytest.mark.onnx_reference
def test_coordinates_of_what_is_not_zero_as_onnx(any_device: dml.Device) -> None:
    rng = np.random.default_rng(5)
    for dtype, sizes in itertools.product((np.float16, np.float32, np.int8, np.uint32), [(1,), (7,), (1, 3), (2, 3, 4), (1, 1, 2, 3, 2)]):
        for density in (0.0, 0.5, 1.0):
            values = np.where(rng.random(sizes) < density, 1, 0).astype(dtype)
            if np.dtype(dtype).kind == "f":
                values = np.where(values == 0, np.copysign(0.0, rng.normal(size=sizes)), rng.choice([np.nan, 1e-7, -np.inf], sizes)).astype(
                    dtype
                )
            expected = onnx_outputs("NonZero", [values])[0].T
            for coordinate_size in range(max(1, np.squeeze(values).ndim if sizes[0] == 1 else len(sizes)), len(sizes) + 1):
                desc = dml.NonzeroCoordinatesDesc(
                    input_tensor=tensor(values),
                    output_count_tensor=packed(np.uint32, 1),
                    output_coordinates_tensor=packed(np.uint32, values.size, coordinate_size),
                )
                found = results_of(desc, {"input_tensor": values}, any_device)
                what = f"{sizes} {np.dtype(dtype)}"
                same(found["output_count_tensor"], np.array([len(expected)], np.uint32), what)
                rows = found["output_coordinates_tensor"]
                same(rows[: len(expected)], expected[:, len(sizes) - coordinate_size :].astype(np.uint32), what)
                assert not rows[len(expected) :].any(), what


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64], ids=lambda own: np.dtype(own).name)
def test_the_last_of_many_updates_of_a_place_is_written(any_device: dml.Device, dtype: type) -> None:
    """In more tuples than a block has threads, all of which point to few places."""
    rng = np.random.default_rng(7)
    values, updates = numbers(rng, (3, 5), dtype), numbers(rng, (3, 700), dtype)
    indices = rng.integers(-7, 7, (3, 700))
    elements = dml.ScatterDesc(input_tensor=tensor(values), indices_tensor=tensor(indices), updates_tensor=tensor(updates), axis=1)
    expected = values.copy()
    for row, column in np.ndindex(indices.shape):
        if -5 <= indices[row, column] < 5:
            expected[row, indices[row, column]] = updates[row, column]
    given = {"input_tensor": values, "indices_tensor": indices, "updates_tensor": updates}
    for own in layouts(elements.with_outputs()):
        same(run(own, given, any_device)["output_tensor"], expected, "single elements")

    image, blocks = numbers(rng, (3, 2, 16), dtype), numbers(rng, (20, 30, 16), dtype)
    tuples = np.stack([rng.integers(-4, 4, (20, 30)), rng.integers(-3, 3, (20, 30))], -1)
    counts = {"input_dimension_count": 3, "indices_dimension_count": 3}
    scatter = dml.ScatterNDDesc(input_tensor=tensor(image), indices_tensor=tensor(tuples), updates_tensor=tensor(blocks), **counts)
    expected = image.copy()
    for place in np.ndindex(20, 30):
        first, second = tuples[place]
        if -3 <= first < 3 and -2 <= second < 2:
            expected[first, second] = blocks[place]
    given = {"input_tensor": image, "indices_tensor": tuples, "updates_tensor": blocks}
    for own in layouts(scatter.with_outputs()):
        same(run(own, given, any_device)["output_tensor"], expected, "blocks")
