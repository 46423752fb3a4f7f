"""Operators that ONNX's reference implementation computes otherwise than ONNX Runtime, as ONNX Runtime computes them.

It rejects logarithms of integers and determinants of halves, squares integers in their own type, rejects conditions of Compress that are
longer than the data, slices as Python does, and finds unsorted unique elements for vectors alone. Its StringNormalizer removes accents and
empty texts, looks for stop words within texts, and sets the locale of the process. NonMaxSuppression and the scattering operators are here
for their speed: it loops over boxes and indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_cast import cast_to
from onnx.reference.ops.op_mel_weight_matrix import MelWeightMatrix as OnnxMelWeightMatrix
from onnx.reference.ops.op_reduce_l2 import ReduceL2_18
from onnx.reference.ops.op_reduce_log_sum import ReduceLogSum_18
from onnx.reference.ops.op_reduce_log_sum_exp import ReduceLogSumExp_18

from dmlpy.onnx.nodes.windows import sliced_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.loading.values import Array


_LEAST_E8M0 = 2.0**-127
"""The least number of FLOAT8E8M0, to which the reference implementation converts 0; the largest is its inverse."""

_WHOLE = frozenset(
    getattr(TensorProto, name) for name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
)
"""The types of whole numbers and of truth values."""


class Compress(OpRun):  # type: ignore[misc, unused-ignore]
    """Ignores a condition's entries beyond the data, as ONNX Runtime does; the reference implementation rejects them."""

    def _run(self, data: Array, condition: Array, axis: int | None = None) -> tuple[Array]:
        size = data.size if axis is None else data.shape[axis]
        return (np.compress(condition[:size], data, axis=axis),)


class Cast(OpRun):  # type: ignore[misc, unused-ignore]
    """Infinity and numbers below the least one of FLOAT8E8M0 saturate or become NaN, as in ONNX's specification and ONNX Runtime.

    Texts of numbers, and numbers of texts, are those of ONNX Runtime, too; the reference implementation takes "0" for true.
    """

    def _run(self, x: Array, to: int | None = None, saturate: int | None = 1, round_mode: str | None = "up") -> tuple[Array]:
        if to == TensorProto.STRING and x.dtype.kind in "bf":
            return (_texts_of(x),)
        if to in _WHOLE and x.dtype.kind in "OU":
            return (_whole_numbers_of(x, helper.tensor_dtype_to_np_dtype(int(to or 0))),)
        is_saturated = saturate is None or bool(saturate)
        if to == TensorProto.FLOAT8E8M0:
            small = np.where((x == _LEAST_E8M0) | is_saturated, np.float32(0), np.float32(np.nan))
            x = np.where(x <= _LEAST_E8M0, small, x.astype(np.float32))
            x = np.minimum(x, np.float32(1 / _LEAST_E8M0)) if is_saturated else x
        return (cast_to(x, to, is_saturated, round_mode or "up"),)  # type: ignore[arg-type]


def _texts_of(numbers: Array) -> Array:
    """Eight digits of each number, FLOAT64's too, and ONNX's words for what is none; truth values are 1 and 0."""
    words = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    texts = [f"{float(number):.8g}" for number in numbers.ravel().tolist()]
    return np.array([words.get(text, text) for text in texts], object).reshape(numbers.shape)


def _whole_numbers_of(texts: Array, dtype: np.dtype[Any]) -> Array:
    """Integers of texts without what follows the point, reduced to the type's bits; a truth value is whether it is not 0."""
    numbers = [_whole_number_of(str(text)) for text in texts.ravel().tolist()]
    if dtype.kind == "b":
        return np.array([number != 0 for number in numbers], np.bool_).reshape(texts.shape)
    return np.array([number % (1 << 64) for number in numbers], np.uint64).astype(dtype).reshape(texts.shape)


def _whole_number_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _root_of_squares(numbers: Array, **along: Any) -> Array:
    return np.asarray(np.sqrt(np.square(numbers).sum(**along)))


def _log_of_sum(numbers: Array, **along: Any) -> Array:
    return np.asarray(np.log(numbers.sum(**along)))


def _log_of_exponentials(numbers: Array, **along: Any) -> Array:
    """The exponentials of differences are integers, too: 1 for each of the largest elements, 0 for all others."""
    largest = numbers.max(axis=along["axis"], keepdims=True, initial=-np.inf)
    count = (numbers == largest).sum(**along)
    return np.asarray(np.log(count) + largest.reshape(np.shape(count)))


def _reduce(function: Callable[..., Array], data: Array, axes: Any, keepdims: Any) -> tuple[Array]:
    """The reduction in FLOAT64, truncated. Beyond the type's range the result is the largest number, without a logarithm the least."""
    result = function(data.astype(np.float64), axis=axes, keepdims=bool(keepdims))
    limits = np.iinfo(data.dtype)
    is_inside = (result >= limits.min) & (result < float(limits.max))
    beyond = np.where(result > 0, limits.max, limits.min).astype(data.dtype)
    return (np.where(is_inside, np.where(is_inside, result, 0).astype(data.dtype), beyond),)


class _IntegerReduction:
    """A reduction of which integers are computed by a function of floats; all other types are left to ONNX's class, the next base."""

    _function: ClassVar[Callable[..., Array]]

    def _run(self, data: Array, axes: Any = None, keepdims: Any = 1, noop_with_empty_axes: Any = 0) -> Any:
        onnx_class: Any = super()
        axes = tuple(axes) if isinstance(axes, list) else axes  # an attribute before opset 18
        axes = axes if axes is None else np.unique(np.asarray(axes, np.int64) % max(data.ndim, 1))
        if data.dtype.kind not in "iu":
            return onnx_class._run(data, axes, keepdims, noop_with_empty_axes)
        return _reduce(self._function, data, onnx_class.handle_axes(axes, noop_with_empty_axes), keepdims)


class ReduceL2(_IntegerReduction, ReduceL2_18):  # type: ignore[misc, unused-ignore]
    """The root of the sum of squares; only the result has the integer type."""

    _function = staticmethod(_root_of_squares)


class ReduceLogSum(_IntegerReduction, ReduceLogSum_18):  # type: ignore[misc, unused-ignore]
    """The logarithm of the sum."""

    _function = staticmethod(_log_of_sum)


class ReduceLogSumExp(_IntegerReduction, ReduceLogSumExp_18):  # type: ignore[misc, unused-ignore]
    """The logarithm of the sum of exponentials."""

    _function = staticmethod(_log_of_exponentials)


class MelWeightMatrix(OnnxMelWeightMatrix):  # type: ignore[misc, unused-ignore]
    """Each number may be a vector of one element, as models of PyTorch have them."""

    def _run(self, *numbers: Array, output_datatype: int | None = None) -> Any:
        onnx_class: Any = super()
        return onnx_class._run(*(array.reshape(-1)[0] for array in numbers), output_datatype=output_datatype)


class Pow(OpRun):  # type: ignore[misc, unused-ignore]
    """Powers in the base's type; NumPy has none of integers by negative integers, whose fraction is dropped here."""

    def _run(self, base: Array, exponent: Array) -> tuple[Array]:
        if base.dtype.kind not in "iu" or exponent.dtype.kind not in "iu":
            return (np.asarray(np.power(base, exponent).astype(base.dtype)),)
        whole = np.power(base, np.maximum(exponent, 0).astype(exponent.dtype))
        inverse = np.where(np.abs(base) == 1, base ** np.abs(exponent), np.where(base == 0, np.iinfo(base.dtype).max, 0))
        return (np.asarray(np.where(exponent < 0, inverse, whole).astype(base.dtype)),)


class Squeeze(OpRun):  # type: ignore[misc, unused-ignore]
    """Without axes, or with a list that has none, all dimensions of size 1 are removed."""

    def _run(self, data: Array, axes: Any = None) -> tuple[Array]:
        return (np.squeeze(data, tuple({int(axis) % data.ndim for axis in axes}) if axes is not None and len(axes) else None),)


class Det(OpRun):  # type: ignore[misc, unused-ignore]
    """Determinants, of FLOAT16 in FLOAT32: NumPy's linear algebra has no halves."""

    def _run(self, x: Array) -> tuple[Array]:
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return (np.asarray(np.linalg.det(wide), x.dtype),)


class Slice(OpRun):  # type: ignore[misc, unused-ignore]
    """Windows by `sliced_window`; bounds are inputs, or attributes before opset 10."""

    def _run(self, data: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> tuple[Array]:
        windows = [slice(None)] * data.ndim
        axes = range(len(starts)) if axes is None else axes
        if len({int(axis) % max(data.ndim, 1) for axis in axes}) != len(axes):
            raise ValueError(f"axes are {[*map(int, axes)]}, expected each once")
        for start, end, axis, step in zip(starts, ends, axes, [1] * len(starts) if steps is None else steps, strict=True):
            windows[axis] = sliced_window(int(start), int(end), int(step), data.shape[axis])
        return (data[tuple(windows)],)


_ASCII_LOCALES = frozenset({"C", "POSIX"})
"""The locales that know the case of ASCII letters alone. In all others, letters are those of Unicode, each of which becomes one letter."""


class StringNormalizer(OpRun):  # type: ignore[misc, unused-ignore]
    """Texts that are not stop words, in lower or upper case; an empty one where none is left."""

    def _run(
        self,
        x: Array,
        case_change_action: str | None = "NONE",
        is_case_sensitive: int | None = 0,
        locale: str | None = None,
        stopwords: list[str] | None = None,
    ) -> tuple[Array]:
        changes = {"NONE": None, "LOWER": _lower, "UPPER": _upper}
        if (action := "NONE" if case_change_action is None else case_change_action) not in changes:
            raise ValueError(f"case_change_action is {action!r}, expected one of {', '.join(changes)}")
        ascii_only = locale in _ASCII_LOCALES
        words = {word if is_case_sensitive else _lower(word, ascii_only=ascii_only) for word in stopwords or ()}
        texts = [str(text) for text in x.ravel()]
        kept = [text for text in texts if (text if is_case_sensitive or not words else _lower(text, ascii_only=ascii_only)) not in words]
        change = changes[action]
        changed = kept if change is None else [change(text, ascii_only=ascii_only) for text in kept]
        return (np.array(changed or [""], object).reshape(*x.shape[:-1], -1),)


def _lower(text: str, *, ascii_only: bool) -> str:
    return "".join(letter.lower()[0] if letter.isascii() or not ascii_only else letter for letter in text)


def _upper(text: str, *, ascii_only: bool) -> str:
    return "".join(letter.upper() if (letter.isascii() or not ascii_only) and len(letter.upper()) == 1 else letter for letter in text)


class Unique(OpRun):  # type: ignore[misc, unused-ignore]
    """Elements, or parts along an axis, that differ: sorted, or in the order in which they come first."""

    def _run(self, x: Array, axis: int | None = None, sorted: int | None = 1) -> tuple[Array, ...]:
        texts = x.dtype.kind == "O"
        unique, first, places, counts = np.unique(x.astype(str) if texts else x, True, True, True, axis=axis)
        if not sorted:
            order = np.argsort(first)
            unique, first, counts = np.take(unique, order, axis or 0), first[order], counts[order]
            places = np.argsort(order)[places]
        integers = (array.reshape(-1).astype(np.int64) for array in (first, places, counts))
        return (unique.astype(x.dtype), *integers)[: len(self.onnx_node.output)]


_COMBINE: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""How scattered elements are combined with those that are there."""


def _scattered(data: Array, places: tuple[Array, ...], updates: Array, reduction: str | None) -> tuple[Array]:
    result = np.array(data)
    if reduction in _COMBINE:
        _COMBINE[reduction].at(result, places, updates)
    else:
        result[places] = updates
    return (result,)


class ScatterND(OpRun):  # type: ignore[misc, unused-ignore]
    """Blocks of elements at tuples of indices."""

    def _run(self, data: Array, indices: Array, updates: Array, reduction: str | None = None) -> tuple[Array]:
        if not indices.shape[-1]:  # tuples of no indices: each update is of all elements
            places = np.zeros(indices.shape[:-1], np.int64)
            return (_scattered(data[None], (places,), updates, reduction)[0][0],)
        return _scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


class ScatterElements(OpRun):  # type: ignore[misc, unused-ignore]
    """Elements at indices along an axis."""

    def _run(self, data: Array, indices: Array, updates: Array, axis: int | None = None, reduction: str | None = None) -> tuple[Array]:
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[axis or 0] = indices
        return _scattered(data, tuple(places), updates, reduction)


_BLOCK, _KEPT_BLOCK = 128, 4096
"""The boxes that are compared with each other at a time, and the ones that stay with which they are compared at a time."""


class NonMaxSuppression(OpRun):  # type: ignore[misc, unused-ignore]
    """Boxes in the order of their scores, without those that overlap one before them by more than the threshold."""

    def _run(
        self,
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        threshold: Array | None = None,
        least: Array | None = None,
        center_point_box: int | None = 0,
    ) -> tuple[Array]:
        count = 0 if most is None else int(most.ravel()[0])
        limit = np.float32(0 if threshold is None else threshold.ravel()[0])
        lowest = None if least is None else np.float32(least.ravel()[0])
        selected = []
        for batch, image in enumerate(scores):
            corners = _corners(boxes[batch], from_center=bool(center_point_box))
            for kind, of_class in enumerate(image):
                kept = _suppress(corners, of_class, count, limit, lowest)
                selected.append(np.stack([np.full_like(kept, batch), np.full_like(kept, kind), kept], axis=1))
        return (np.concatenate(selected) if selected else np.zeros((0, 3), np.int64),)


def _corners(boxes: Array, *, from_center: bool) -> Array:
    """The least and the largest coordinates of boxes and their areas: [5, n], y and x, then y and x.

    The area of one of a negative width or height is NaN, so that it overlaps nothing.
    """
    if from_center:
        middle, half = boxes[:, [1, 0]], boxes[:, [3, 2]] / np.float32(2)
        low, high = (middle - half).T, (middle + half).T
    else:
        first, second = boxes[:, :2], boxes[:, 2:]
        low, high = np.minimum(first, second).T, np.maximum(first, second).T
    area = (high[0] - low[0]) * (high[1] - low[1])
    area[(high < low).any(axis=0)] = np.nan
    return np.concatenate([low, high, area[None]])


def _suppress(corners: Array, scores: Array, most: int, threshold: np.float32, lowest: np.float32 | None) -> Array:
    """The indices of the boxes that stay, of equal scores the first one first; a score has to be above the lowest one, if there is one."""
    order = np.arange(len(scores)) if lowest is None else np.flatnonzero(scores > lowest)
    order = order[np.argsort(-scores[order], kind="stable")]
    kept = order[:0]
    for begin in range(0, len(order), _BLOCK):
        if len(kept) >= most:
            break
        block = order[begin : begin + _BLOCK]
        candidates = corners[:, block]
        for first in range(0, len(kept), _KEPT_BLOCK):
            is_free = ~_overlap(corners[:, kept[first : first + _KEPT_BLOCK]], candidates, threshold).any(axis=0)
            block, candidates = block[is_free], candidates[:, is_free]
        kept = np.concatenate([kept, block[_first_of(_overlap(candidates, candidates, threshold))]])
    return kept[: max(most, 0)]


def _first_of(overlap: Array) -> list[int]:
    """The boxes that overlap none that stays before them. The bits of an integer are the boxes that one overlaps."""
    rows, size = np.packbits(overlap, axis=1, bitorder="little").tobytes(), -(-len(overlap) // 8)
    stays, gone = [], 0
    for place in range(len(overlap)):
        if not gone >> place & 1:
            stays.append(place)
            gone |= int.from_bytes(rows[place * size : (place + 1) * size], "little")
    return stays


def _overlap(first: Array, second: Array, threshold: np.float32) -> Array:
    """Whether boxes [5, n] overlap others [5, m] by more than a share of what both cover. Those that share nothing do not."""
    height = np.minimum(first[2, :, None], second[2])
    height -= np.maximum(first[0, :, None], second[0])
    shared = np.minimum(first[3, :, None], second[3])
    shared -= np.maximum(first[1, :, None], second[1])
    np.maximum(shared, 0, out=shared)
    shared *= np.maximum(height, 0, out=height)
    both = np.add(first[4, :, None], second[4], out=height)
    both -= shared
    if threshold < 0:
        both[~(shared > 0)] = np.nan
    return np.asarray(np.divide(shared, both, out=both) > threshold)


REFERENCE_OPERATORS: tuple[type[OpRun], ...] = (
    *(Cast, Compress, Det, NonMaxSuppression, ReduceL2, ReduceLogSum, ReduceLogSumExp, ScatterElements, ScatterND, Slice),
    *(MelWeightMatrix, Pow, Squeeze, StringNormalizer, Unique),
)
