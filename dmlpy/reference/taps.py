"""The taps of resampling along one dimension: the input elements of each output element, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array

_FARTHEST = 2.0**40
"""Coordinates and filters end here, where the scale is 0 or infinite; no tensor is so large."""

_FLOAT_ROUNDING = 2.0**-23
"""The relative error that a coordinate may have because its scale is a FLOAT."""


@dataclass(frozen=True)
class Taps:
    """One entry per input element that contributes to an output element; weights are not 0, and sum to 1 for each resampled element."""

    inputs: Array
    outputs: Array
    weights: Array

    @classmethod
    def of(cls, inputs: Array, weights: Array) -> Taps:
        """The taps of rows, one per output element, which may hold weights of 0."""
        outputs, at = np.nonzero(weights)
        return cls(inputs[outputs, at], outputs, weights[outputs, at])

    def gather(self, array: Array, axis: int, size: int) -> Array:
        """Resamples the array along an axis, to a size."""
        return _weigh(array, axis, self.ordered(), size)

    def adjoint(self) -> Taps:
        """The taps of the gradient of the resampled array's input."""
        return Taps(self.outputs, self.inputs, self.weights)

    def ordered(self) -> Taps:
        """The taps by output elements; those of an element stay in their order, in which they are summed."""
        order = np.argsort(self.outputs, kind="stable")
        return Taps(self.inputs[order], self.outputs[order], self.weights[order])

    def keeps(self, size: int, output_size: int) -> bool:
        """Whether each output element is the input element of the same number. The taps are ordered."""
        every = np.arange(output_size)
        same = size == output_size and np.array_equal(self.outputs, every) and np.array_equal(self.inputs, every)
        return same and bool((self.weights == 1).all())


def coordinates(size: int, scale: float, input_offset: float, output_offset: float) -> Array:
    """The input coordinates of the output elements, in float64; NaN, from degenerate scales, becomes the first element's place."""
    places = (np.arange(size) - np.float64(output_offset)) / np.float64(scale) - input_offset
    return np.clip(np.nan_to_num(places, nan=0.0, posinf=_FARTHEST, neginf=-_FARTHEST), -_FARTHEST, _FARTHEST)


def settled(places: Array, input_offset: float) -> Array:
    """Moves coordinates to the integer or half that they miss only by the rounding of a FLOAT scale.

    A scale of 0.3 is 0.30000001 as a FLOAT; without this, rounding would take another neighbour than the exact scale does.
    """
    halves = np.round(2 * places) / 2
    return np.where(np.abs(places - halves) <= _FLOAT_ROUNDING * (np.abs(places + input_offset) + abs(input_offset)), halves, places)


def single(chosen: Array, size: int) -> Taps:
    """One input element for each output element, clipped to the edges."""
    inputs = np.clip(chosen, 0, size - 1).astype(np.intp)
    return Taps(inputs, np.arange(inputs.size), np.ones(inputs.size))


def linear(places: Array, size: int) -> Taps:
    """The two neighbours of each coordinate, clipped to the edges."""
    lower = np.floor(places)
    neighbours = np.clip(np.stack([lower, lower + 1], axis=1), 0, size - 1).astype(np.intp)
    upper_weight = places - lower
    return Taps.of(neighbours, np.stack([1 - upper_weight, upper_weight], axis=1))


def stretched(places: Array, size: int, radius: float) -> Taps:
    """All input elements within a radius of at least 1, weighted by distance; the edge stands for those outside the input."""
    radius = min(radius, _FARTHEST)
    count = min(size, int(2 * np.ceil(radius)) + 1)
    first = np.clip(np.ceil(places - radius), 0, size - count)
    inputs = first[:, None] + np.arange(count)
    weights = np.maximum(1 - np.abs(inputs - places[:, None]) / radius, 0)
    columns = first.astype(np.intp)[:, None] + np.arange(count)
    edges = np.broadcast_to(np.array([0, size - 1]), (places.size, 2))
    outside = np.stack([_below_zero(places, radius), _below_zero(size - 1 - places, radius)], axis=1)
    weights = np.concatenate([weights, outside], axis=1)
    return Taps.of(np.concatenate([columns, edges], axis=1), weights / weights.sum(axis=1, keepdims=True))


def _below_zero(places: Array, radius: float) -> Array:
    """The total weight of the elements before the first one, if there were any."""
    below = np.floor(places)
    nearest = np.minimum(below, -1)
    return _series(places - nearest, radius, np.inf) + _series(below + 1 - places, radius, -1 - below)


def _series(distance: Array, radius: float, most: Array | float) -> Array:
    """The sum of the weights at a distance, 1 more, 2 more and so on, while they are positive, up to a count."""
    count = np.maximum(np.minimum(np.ceil(radius - distance), most), 0)
    return np.asarray(count - (count * distance + count * (count - 1) / 2) / radius)


def _weigh(array: Array, axis: int, taps: Taps, size: int) -> Array:
    """Sums source elements times weights by target along an axis; 0 where a target has none. The taps are ordered."""
    sources, targets, weights = taps.inputs, taps.outputs, taps.weights
    if taps.keeps(array.shape[axis], size):
        return array
    if np.array_equal(targets, np.arange(size)) and (weights == 1).all():
        return _chosen(array, axis, sources)
    starts = np.flatnonzero(np.diff(targets, prepend=-1))
    counts = np.diff(starts, append=targets.size)
    if counts.size and counts.max() <= MOST_TURNS:
        return _in_turns(array, axis, sources, targets, weights, counts, size)
    values = np.take(array, sources, axis)
    values *= _beside(weights, array, axis)
    sums = np.add.reduceat(values, starts, axis)
    result = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    result[(slice(None),) * axis + (targets[starts],)] = sums
    return result


MOST_TURNS = 32
"""Sources of a target up to which all first ones, then all second ones and so on are added at once."""


def _in_turns(array: Array, axis: int, sources: Array, targets: Array, weights: Array, counts: Array, size: int) -> Array:
    """The sums of `_weigh`, one source of each target at a time."""
    turns = np.arange(targets.size) - np.repeat(np.cumsum(counts) - counts, counts)
    result: Array | None = None
    for turn in range(int(counts.max())):
        of_turn = turns == turn
        values = np.take(array, sources[of_turn], axis)
        values *= _beside(weights[of_turn], array, axis)
        if result is None and counts.size == size:
            result = values
            continue
        if result is None:
            result = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
        first, last = (int(targets[of_turn][end]) for end in (0, -1))
        place = slice(first, last + 1) if last - first + 1 == values.shape[axis] else targets[of_turn]
        result[(slice(None),) * axis + (place,)] += values
    assert result is not None  # there is a turn
    return result


def _beside(weights: Array, array: Array, axis: int) -> Array:
    """Weights in an array's type, to be multiplied along an axis."""
    return weights.astype(array.dtype).reshape([-1 if at == axis else 1 for at in range(array.ndim)])


def _chosen(array: Array, axis: int, sources: Array) -> Array:
    """The elements at some places along an axis."""
    times, rest = divmod(sources.size, array.shape[axis])
    if axis < array.ndim - 1 or rest or not np.array_equal(sources, np.arange(sources.size) // times):
        return np.take(array, sources, axis)
    # Each so many times in a row, along the last axis: strided copies take less than an index for each.
    result = np.empty((*array.shape[:-1], sources.size), array.dtype)
    for place in range(times):
        result[..., place::times] = array
    return result
