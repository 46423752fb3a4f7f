"""What the attention operators compute, on whole arrays.

Sizes as in `dmlpy.operators.attention`: B batch entries, S queries, L new and P earlier keys, T keys in all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.operators.attention import MultiheadAttention1Desc, MultiheadAttentionDesc
from dmlpy.reference.activation import softmax
from dmlpy.reference.registry import Array, Inputs, defines, undocumented


@undocumented(MultiheadAttentionDesc, MultiheadAttention1Desc)
def undocumented_part(desc: Any) -> str | None:
    """The first part of a desc whose semantics are undocumented, or None."""
    if desc.mask_type is MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END:
        return "mask_type KEY_QUERY_SEQUENCE_LENGTH_START_END"
    if getattr(desc, "past_sequence_lengths_tensor", None) is not None:
        return "past_sequence_lengths_tensor"
    heads = getattr(desc, desc.head_counts[1])
    kept = [tensor for tensor in (desc.past_value_tensor, desc.output_present_value_tensor) if tensor is not None]
    if desc.value_tensor is not None and any(tensor.sizes[-1] * heads != desc.value_tensor.sizes[-1] for tensor in kept):
        return "past or present values of another size than the values"
    return None


def _parts(desc: Any, inputs: Inputs) -> tuple[Array, Array | None, Array | None]:
    """Query, key and value as [B, S or L, heads, size]; no key and value where the past has them all."""
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
    assert query is not None  # the check sees to it
    return query, key, value


def _biased(bias: Array, query: Array, key: Array | None, value: Array | None) -> tuple[Array, Array | None, Array | None]:
    """Query, key and value plus the bias, which holds a line for each of them in this order."""
    starts = np.cumsum([0] + [0 if part is None else part.shape[-2] * part.shape[-1] for part in (query, key, value)])

    def plus(part: Array, at: int) -> Array:
        return np.add(part, bias[starts[at] : starts[at + 1]].reshape(part.shape[-2:]))

    return plus(query, 0), None if key is None else plus(key, 1), None if value is None else plus(value, 2)


def _with_past(past: Array | None, new: Array | None) -> Array:
    """Keys or values as [B, heads, T, size]."""
    earlier = [] if past is None else [past.reshape(past.shape[-4:])]
    return np.concatenate([*earlier, *([] if new is None else [new.swapaxes(1, 2)])], axis=2)


def _filtered(desc: Any, mask: Array, batch_size: int, keys: int) -> Array:
    """Which scores a mask filters out, broadcastable to [B, heads, S, T]."""
    if desc.mask_type is MultiheadAttentionMaskType.BOOLEAN:
        return np.equal(mask.reshape(mask.shape[-4:]), 0)
    limits, at = mask.reshape(-1, batch_size, 1, 1, 1), np.arange(keys)
    if desc.mask_type is MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH:
        return np.asarray(at >= limits[0])
    return np.asarray((at >= limits[0]) | (at < limits[1]))


@defines(MultiheadAttentionDesc, MultiheadAttention1Desc)
def _attention(desc: Any, inputs: Inputs) -> dict[str, Array]:
    query, new_key, new_value = _parts(desc, inputs)
    if inputs["bias_tensor"] is not None:
        query, new_key, new_value = _biased(inputs["bias_tensor"].reshape(-1), query, new_key, new_value)
    key, value = _with_past(inputs["past_key_tensor"], new_key), _with_past(inputs["past_value_tensor"], new_value)
    batch_size, length, heads, head_size = query.shape
    groups, keys = key.shape[1:3]
    # Heads of the queries that share one of the keys and values follow each other.
    grouped = query.swapaxes(1, 2).reshape(batch_size, groups, heads // groups, length, head_size)
    scores: Array = desc.scale * (grouped @ key[:, :, np.newaxis].swapaxes(-1, -2))
    scores = scores.reshape(batch_size, heads, length, keys)
    if (position_bias := inputs["relative_position_bias_tensor"]) is not None:
        scores = scores + position_bias.reshape(position_bias.shape[-4:])
    if (mask := inputs["mask_tensor"]) is not None:
        added = np.where(_filtered(desc, mask, batch_size, keys), scores.dtype.type(desc.mask_filter_value), scores.dtype.type(0))
        # What all keys get alike changes no weight, and would cost the scores their digits.
        scores = scores + (added - added.max(axis=-1, keepdims=True))
    weights = softmax(scores, (-1,)).reshape(batch_size, groups, heads // groups, length, keys)
    output = (weights @ value[:, :, np.newaxis]).reshape(batch_size, heads, length, value.shape[-1])
    results = {"output_tensor": output.swapaxes(1, 2), "output_present_key_tensor": key, "output_present_value_tensor": value}
    return {name: array.reshape(getattr(desc, name).sizes) for name, array in results.items() if getattr(desc, name) is not None}
