"""The definitions of the attention operators, on whole arrays.

Sizes as in `dmlpy.operators.attention`: B batch entries, S queries, L new and P earlier keys, T keys in all.

A query leaves out the keys beyond those that lengths let it see, and those that a filter value of minus infinity filters out, if any other
key is left: whatever they and their values hold, an infinity or NaN, does not show. A finite filter value is added to a score, and of a
weight that is 0 for it the product with an infinite value is NaN.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.operators.attention import MultiheadAttention1Desc, MultiheadAttentionDesc
from dmlpy.reference.activation import softmax
from dmlpy.reference.registry import Array, Inputs, defines

_LOG2_E = 1.0 / log(2.0)


def _parts(desc: Any, inputs: Inputs) -> tuple[Array, Array | None, Array | None]:
    """Query, key and value as [B, S or L, heads, size]; key and value are None if the past holds them all."""
    counts = [getattr(desc, name) for name in desc.head_counts]

    def split(name: str, heads: int) -> Array | None:
        array = inputs[name]
        return None if array is None else array.reshape(*array.shape[-3:-1], heads, -1)

    query, key, value = split("query_tensor", counts[0]), split("key_tensor", counts[1]), split("value_tensor", counts[1])
    if (stacked := inputs["stacked_query_key_tensor"]) is not None:
        query, key = stacked[..., 0, :], stacked[..., 1, :]
    if (stacked := inputs["stacked_key_value_tensor"]) is not None:
        key, value = stacked[..., 0, :], stacked[..., 1, :]
    if (stacked := inputs["stacked_query_key_value_tensor"]) is not None:
        query, key, value = stacked[..., 0, :], stacked[..., 1, :], stacked[..., 2, :]
    assert query is not None  # guaranteed by the check
    return query, key, value


def _biased(bias: Array, query: Array, key: Array | None, value: Array | None) -> tuple[Array, Array | None, Array | None]:
    """Query, key and value plus the bias, which holds a row for each of them in this order."""
    starts = np.cumsum([0] + [0 if part is None else part.shape[-2] * part.shape[-1] for part in (query, key, value)])

    def plus(part: Array, at: int) -> Array:
        return np.add(part, bias[starts[at] : starts[at + 1]].reshape(part.shape[-2:]))

    return plus(query, 0), None if key is None else plus(key, 1), None if value is None else plus(value, 2)


def _with_past(past: Array | None, new: Array | None) -> Array:
    """Keys or values as [B, heads, T, size]."""
    earlier = [] if past is None else [past.reshape(past.shape[-4:])]
    return np.concatenate([*earlier, *([] if new is None else [new.swapaxes(1, 2)])], axis=2)


def _valid_past(desc: Any, lengths: Array) -> Array:
    """How many earlier keys count in each batch entry, [B]: at least none, at most the past ones that leave room for the new ones."""
    past, new, total = desc.key_lengths
    valid: Array = np.nan_to_num(np.clip(lengths.reshape(-1), 0, min(past, total - new))).astype(np.int64)
    return valid


def _compacted(joined: Array, valid: Array, past: int, total: int) -> Array:
    """Keys or values of which the new ones follow the valid ones of the past, and then zeros; [B, heads, T, size]."""
    batch_size, heads, length, size = joined.shape
    at, first = np.arange(total), valid[:, np.newaxis]
    row = np.minimum(np.where(at < first, at, at - first + past), length)
    followed = np.concatenate([joined, np.zeros((batch_size, heads, 1, size), joined.dtype)], axis=2)
    compacted: Array = np.take_along_axis(followed, row[:, np.newaxis, :, np.newaxis], axis=2)
    return compacted


def _filtered(desc: Any, mask: Array, batch_size: int, keys: int) -> Array:
    """The scores that a mask filters out, as an array that broadcasts to [B, heads, S, T]."""
    if desc.mask_type is MultiheadAttentionMaskType.BOOLEAN:
        return np.equal(mask.reshape(mask.shape[-4:]), 0)
    at = np.arange(keys)
    if desc.mask_type is MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END:
        mask = mask.reshape(-1)[:batch_size]  # the lengths alone
    limits = mask.reshape(-1, batch_size, 1, 1, 1)
    if desc.mask_type is MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
        return np.asarray((at >= limits[0]) | (at < limits[1]))
    return np.asarray(at >= limits[0])


def _addends(filtered: Array, absent: Array | None, filter_value: Any) -> Array:
    """The number that is added to scores that are filtered out.

    It is less what is added to all scores of a query: that would change no weight, but cost the scores precision.
    """
    none = filter_value.dtype.type(0)
    added = np.where(filtered, filter_value, none)
    present = added if absent is None else np.where(absent, filter_value.dtype.type(-np.inf), added)
    most = present.max(axis=-1, keepdims=True)
    return np.asarray(np.where(added == most, none, added - most))


def mask_addends(desc: Any, mask: Array) -> Array:
    """The numbers that a mask adds to scores, float32, as an array that broadcasts to [B, heads, S, T]; without lengths of the past."""
    filtered = _filtered(desc, mask, desc.output_tensor.sizes[-3], desc.key_lengths[2])
    with np.errstate(invalid="ignore"):  # infinities that are equal
        return _addends(filtered, None, np.float32(-np.inf if _excludes(desc.mask_filter_value) else desc.mask_filter_value))


def _excludes(filter_value: float) -> bool:
    """Whether a filter value counts as minus infinity: exponents of powers of 2, as devices compute them, are."""
    return filter_value * _LOG2_E < -float(np.finfo(np.float32).max)


def leaves_keys_out(desc: Any) -> bool:
    """Whether a query may leave out keys that others see, or that are in a tensor."""
    return getattr(desc, "past_sequence_lengths_tensor", None) is not None or (
        desc.mask_tensor is not None and _excludes(desc.mask_filter_value)
    )


def _left_out(filtered: Array | None, absent: Array | None, filter_value: float) -> Array | None:
    """The keys that a query leaves out, as an array that broadcasts to [B, heads, S, T]; None if it takes all."""
    if filtered is None or not _excludes(filter_value):
        return absent
    gone = filtered if absent is None else filtered | absent
    only = gone.all(axis=-1, keepdims=True)  # all keys that are not absent are filtered alike, then
    return np.where(only, False if absent is None else absent, gone)


def _weights(scores: Array, absent: Array | None, left_out: Array | None) -> Array:
    """The softmax of scores over those keys that are not left out; 0 for all keys where all are absent."""
    if left_out is None:
        return softmax(scores, (-1,))
    weights = softmax(np.where(left_out, scores.dtype.type(-np.inf), scores), (-1,))
    return weights if absent is None else np.where(absent.all(axis=-1, keepdims=True), scores.dtype.type(0), weights)


def _sums(weights: Array, value: Array, left_out: Array | None) -> Array:
    """The weighted sums of values [B, groups, 1, T, E], weights being [B, groups, heads of each, S, T]."""
    if left_out is None or np.isfinite(value).all():
        return np.asarray(weights @ value)
    sums = np.empty((*weights.shape[:-1], value.shape[-1]), weights.dtype)
    gone = np.broadcast_to(left_out, (weights.shape[0], weights.shape[1] * weights.shape[2], *weights.shape[3:])).reshape(weights.shape)
    for at in np.ndindex(*weights.shape[:-1]):
        taken = ~gone[at]
        sums[at] = weights[at][taken] @ value[at[0], at[1], 0][taken]
    return sums


@defines(MultiheadAttentionDesc, MultiheadAttention1Desc)
def _attention(desc: Any, inputs: Inputs) -> dict[str, Array]:
    query, new_key, new_value = _parts(desc, inputs)
    if inputs["bias_tensor"] is not None:
        query, new_key, new_value = _biased(inputs["bias_tensor"].reshape(-1), query, new_key, new_value)
    key, value = _with_past(inputs["past_key_tensor"], new_key), _with_past(inputs["past_value_tensor"], new_value)
    batch_size, length, heads, head_size = query.shape
    absent = None
    if (lengths := inputs.get("past_sequence_lengths_tensor")) is not None:
        past, new, total = desc.key_lengths
        valid = _valid_past(desc, lengths)
        key, value = _compacted(key, valid, past, total), _compacted(value, valid, past, total)
        # A query sees the earlier keys, and of the new ones those up to its own.
        seen = valid[:, np.newaxis] + np.minimum(new, np.arange(length) + 1)
        absent = np.arange(total) >= seen[:, np.newaxis, :, np.newaxis]
    groups, keys = key.shape[1:3]
    # Query heads that share one head of keys and values are adjacent.
    grouped = query.swapaxes(1, 2).reshape(batch_size, groups, heads // groups, length, head_size)
    scores: Array = desc.scale * (grouped @ key[:, :, np.newaxis].swapaxes(-1, -2))
    scores = scores.reshape(batch_size, heads, length, keys)
    if (position_bias := inputs["relative_position_bias_tensor"]) is not None:
        scores = scores + position_bias.reshape(position_bias.shape[-4:])
    mask = inputs["mask_tensor"]
    filtered = None if mask is None else _filtered(desc, mask, batch_size, keys)
    if filtered is not None:
        scores = scores + _addends(filtered, absent, scores.dtype.type(desc.mask_filter_value))
    left_out = _left_out(filtered, absent, desc.mask_filter_value)
    weights = _weights(scores, absent, left_out).reshape(batch_size, groups, heads // groups, length, keys)
    output = _sums(weights, value[:, :, np.newaxis], left_out).reshape(batch_size, heads, length, value.shape[-1])
    results = {"output_tensor": output.swapaxes(1, 2), "output_present_key_tensor": key, "output_present_value_tensor": value}
    return {name: array.reshape(getattr(desc, name).sizes) for name, array in results.items() if getattr(desc, name) is not None}
