"""Operators of the host that are here for their speed: the results of plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

import dmlpy as dml
from dmlpy.onnx.lowering import host_evaluation
from dmlpy.onnx.lowering.host_evaluation import HostProgram, evaluate_node
from tests.support.onnx.models import Array


def run(operator: str, inputs: list[Array | None], **attributes: Any) -> Array:
    given = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
    node = make_node(operator, names, ["y"], **attributes)
    return np.asarray(HostProgram([node], {"": 18}, list(given), ["y"])(given)["y"])


def share(first: Sequence[float], second: Sequence[float]) -> float:
    """How much of what two boxes [y, x, y, x] cover they share."""
    sides = [min(max(first[axis::2]), max(second[axis::2])) - max(min(first[axis::2]), min(second[axis::2])) for axis in (0, 1)]
    areas = [abs((box[2] - box[0]) * (box[3] - box[1])) for box in (first, second)]
    shared = sides[0] * sides[1] if min(sides) > 0 else 0.0
    return shared / (sum(areas) - shared) if shared > 0 else 0.0


def suppressed(boxes: Array, scores: Array, most: int, threshold: float, least: float) -> list[list[int]]:
    found = []
    for batch, (image, corners) in enumerate(zip(scores, boxes.tolist(), strict=True)):  # numbers of NumPy take ten times as long
        for kind, own in enumerate(image):
            kept: list[int] = []
            for _, index in sorted((-own[index], int(index)) for index in np.flatnonzero(own > least)):
                if len(kept) < most and all(share(corners[index], corners[other]) <= threshold for other in kept):
                    kept.append(index)
            found += [[batch, kind, index] for index in kept]
    return found


@pytest.mark.parametrize("is_center", [False, True])
@pytest.mark.parametrize(
    ("count", "most", "threshold", "least"), [(90, 9, 0.4, 0.2), (200, 1000, 0.6, 0.0), (5, 3, 0.0, None), (8, 0, 0.5, 0)]
)
def test_boxes_that_overlap_better_ones_are_left_out(count: int, most: int, threshold: float, least: float | None, is_center: bool) -> None:
    """More boxes than a block has; equal scores; corners in any order; boxes without an area."""
    rng = np.random.default_rng(count)
    boxes = (rng.integers(0, 16, (2, count, 4)) / 16).astype(np.float32)  # products and sums are exact
    scores = (rng.integers(0, 8, (2, 3, count)) / 8).astype(np.float32)
    corners = boxes
    if is_center:
        boxes[:, ::9, 2:] *= -1
        middle, half = boxes[..., [1, 0]], boxes[..., [3, 2]] / 2
        corners = np.concatenate([middle - half, np.maximum(middle - half, middle + half)], axis=-1)  # of negative sizes: overlaps nothing
    numbers = [np.int64([most]), np.float32([threshold]), None if least is None else np.float32([least])]
    found = run("NonMaxSuppression", [boxes, scores, *numbers], center_point_box=int(is_center))
    assert found.tolist() == suppressed(corners, scores, most, float(np.float32(threshold)), -np.inf if least is None else least)
    assert found.shape[1:] == (3,)
    assert found.dtype == np.int64


def test_copies_of_many_boxes_are_left_out() -> None:
    """More boxes stay than are compared at a time."""
    places = np.arange(1200, dtype=np.float32) % 600
    boxes = np.stack([places, places, places + 1, places + 1], axis=1)[None]
    scores = -np.arange(1200, dtype=np.float32)[None, None]
    found = run("NonMaxSuppression", [boxes, scores, np.int64([1200]), np.float32([0.5])])
    np.testing.assert_array_equal(found[:, 2], np.arange(600))


def test_boxes_without_a_finite_area_overlap_nothing() -> None:
    ends = [(0, 0, np.inf, np.inf), (0, 0, np.inf, 0), (-np.inf, 0, np.inf, 1), (0, 0, np.nan, 1), (0, 0, 3e38, 3e38), (0, 0, 1e-30, 1e-30)]
    boxes = np.repeat(np.float32([[*ends, (0, 0, 1, 1)]]), 2, axis=1)
    numbers = [np.int64([20]), np.float32([0.0]), np.float32([0.0])]
    found = run("NonMaxSuppression", [boxes, np.ones((1, 1, boxes.shape[1]), np.float32), *numbers])
    assert found[:, 2].tolist() == list(range(13))


def test_below_0_the_threshold_leaves_boxes_that_share_nothing() -> None:
    boxes = np.float32([[[0, 0, 1, 1], [0.5, 0.5, 2, 2], [1, 1, 2, 2], [0, 1, 1, 1]]])
    numbers = [np.int64([20]), np.float32([-0.5]), np.float32([0.0])]
    assert run("NonMaxSuppression", [boxes, np.ones((1, 1, 4), np.float32), *numbers])[:, 2].tolist() == [0, 2, 3]


COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
    "none": lambda a, b: b,
}


@pytest.mark.parametrize("reduction", COMBINED)
def test_scattered_elements_are_combined_in_order(reduction: str) -> None:
    rng = np.random.default_rng(1)
    data, updates = rng.integers(-9, 9, (4, 5, 3)), rng.integers(-9, 9, (4, 7, 2))
    places = rng.integers(-5, 5, (4, 7, 2))
    expected = data.copy()
    for place in np.ndindex(*places.shape):
        at = (place[0], places[place], place[2])
        expected[at] = COMBINED[reduction](expected[at], updates[place])
    np.testing.assert_array_equal(run("ScatterElements", [data, places, updates], axis=-2, reduction=reduction), expected)

    tuples, blocks = rng.integers(-4, 4, (6, 2)), rng.integers(-9, 9, (6, 3))
    expected = data.copy()
    for (row, column), block in zip(tuples, blocks, strict=True):
        expected[row, column] = [COMBINED[reduction](one, other) for one, other in zip(expected[row, column], block, strict=True)]
    np.testing.assert_array_equal(run("ScatterND", [data, tuples, blocks], reduction=reduction), expected)

    nowhere, wholes = np.zeros((2, 1, 0), np.int64), rng.integers(-9, 9, (2, 1, 4, 5, 3))
    combined = np.vectorize(COMBINED[reduction])
    expected = combined(combined(data, wholes[0, 0]), wholes[1, 0])
    np.testing.assert_array_equal(run("ScatterND", [data, nowhere, wholes], reduction=reduction), expected)


def test_an_axis_that_is_named_twice_is_reduced_once() -> None:
    data = np.arange(-6, 6).reshape(2, 3, 2)
    expected = np.sqrt((data**2).sum(1)).astype(np.int64)
    np.testing.assert_array_equal(run("ReduceL2", [data, np.array([1, -2])], keepdims=0), expected)


def test_a_node_that_fails_says_what_contradicts_onnx() -> None:
    data, numbers = np.zeros((4, 5)), np.array([0, 0])
    with pytest.raises(dml.DeviceError, match=r"axes is \[1, 1\], expected each axis of \[4, 5\] at most once"):
        run("Slice", [data, numbers, numbers + 1, np.array([1, 1])])
    with pytest.raises(dml.DeviceError, match=r"'input' is \[-1, 2\], expected sizes of 0 or more"):
        run("ConstantOfShape", [np.array([-1, 2])])


def test_integers_have_powers_of_negative_integers() -> None:
    bases, exponents = np.array([2, -2, 1, -1, -1, 3]), np.array([-1, -3, -5, -3, -4, 2])
    np.testing.assert_array_equal(run("Pow", [bases, exponents]), [0, 0, 1, -1, 1, 9])
    np.testing.assert_array_equal(run("Pow", [bases.astype(np.int32), np.array(-1)]), np.array([0, 0, 1, -1, -1, 0], np.int32))


def test_numbers_of_a_mel_matrix_may_be_vectors() -> None:
    numbers = [np.asarray(number) for number in (4, 16, 8000, np.float32(0), np.float32(4000))]
    found = run("MelWeightMatrix", [array.reshape(1) for array in numbers])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, run("MelWeightMatrix", [*numbers]))
    assert found.shape == (9, 4)


def test_without_axes_all_dimensions_of_one_element_are_squeezed() -> None:
    for axes in (np.empty(0, np.int64), None):
        assert run("Squeeze", [np.ones((1, 2, 1)), axes]).shape == (2,)
    assert run("Squeeze", [np.ones((1, 2, 1)), np.array([-1, 2])]).shape == (1, 2)


def test_texts_change_to_no_unknown_case() -> None:
    with pytest.raises(dml.DmlError, match="case_change_action is 'lower', expected one of NONE, LOWER, UPPER"):
        run("StringNormalizer", [np.array(["A"], object)], case_change_action="lower")


def test_nodes_that_differ_in_names_alone_share_a_program() -> None:
    """Exported models have hundreds of them."""
    numbers = {name: np.arange(3) + place for place, name in enumerate("abcde")}
    before = host_evaluation._shared_program.cache_info().misses
    found = {
        names: evaluate_node(make_node("Mod", [*names], ["y"], name=names, fmod=0), {"": 18}, {name: numbers[name] for name in names})["y"]
        for names in ("ab", "cd", "dc", "ee")
    }
    assert {names: array.tolist() for names, array in found.items()} == {
        names: (numbers[names[0]] % numbers[names[1]]).tolist() for names in found
    }
    assert host_evaluation._shared_program.cache_info().misses - before <= 2  # of two inputs, and of one twice
    with pytest.raises(dml.DeviceError, match=r"wrong\.shape is \[1, 2, 3\], of 6 elements"):
        evaluate_node(make_node("Reshape", ["a", "b"], ["y"], name="wrong"), {"": 18}, {name: numbers[name] for name in "ab"})
