"""DecoderMaskedMultiHeadAttention (com.microsoft): one token of a decoder attends to the cached keys."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_QUERY, _KEY, _VALUE, _MASK, _SCORE_BIAS, _PAST_KEY, _PAST_VALUE, _PAST, _BEAMS, _ORIGINS, _BIAS = range(11)
_HEADS_APART = 4
"""The dimensions of keys and values whose heads are split: those of cross attention."""


def _heads(node: Node) -> int:
    heads = int(node.attribute("num_heads", 0))
    if heads < 1:
        raise node.invalid("num_heads", "a positive number")
    return heads


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    query = node.value(_QUERY)
    element = query.element
    if query.sizes is None or not node.has(_VALUE) or node.value(_VALUE).sizes is None:
        return [(element, None)] * 4
    value = node.value(_VALUE).sizes or ()
    width = value[-1] if len(value) < _HEADS_APART else _product(value[1], value[3])
    return [(element, (*query.sizes[:2], width)), (element, None), (element, None), (element, None)]


def _product(heads: int | str | None, size: int | str | None) -> int | None:
    return heads * size if isinstance(heads, int) and isinstance(size, int) else None


@register_host_operator("DecoderMaskedMultiHeadAttention", _describe_outputs)
def masked_attention(node: Node) -> Sequence[Array | None]:
    """The output, the caches and the scores; sums are in FLOAT32."""
    queries, keys, values = _parts(node)
    dtype = node.array(_QUERY).dtype
    present_keys, present_values, seen = keys, values, keys.shape[2]
    if node.has(_PAST_KEY):
        present_keys, seen = _kept(node, _PAST_KEY, keys)
        present_values, _ = _kept(node, _PAST_VALUE, values)
    keys, values = (_by_beam(node, cache[:, :, :seen]).astype(np.float32) for cache in (present_keys, present_values))
    scale = float(node.attribute("scale", 0.0)) or 1 / sqrt(queries.shape[3])
    scores = queries.astype(np.float32) @ keys.swapaxes(2, 3) * np.float32(scale)
    if node.has(_MASK):
        mask = node.array(_MASK)
        if mask.shape != (queries.shape[0], seen):
            raise node.refusal("onnx.invalid", f"input {_MASK} 'mask_index'", listed(mask.shape), f"[{queries.shape[0]}, {seen}]")
        scores = scores + np.where(mask > 0, 0, np.float32(node.attribute("mask_filter_value", -10000.0)))[:, None, None]
    if node.has(_SCORE_BIAS):
        scores = scores + node.array(_SCORE_BIAS)[..., :seen].astype(np.float32)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    output = (weights @ values).swapaxes(1, 2)
    flat = output.reshape(*output.shape[:2], -1).astype(dtype)
    return [flat, present_keys.astype(dtype), present_values.astype(dtype), scores.astype(dtype)]


def _parts(node: Node) -> tuple[Array, Array, Array]:
    """Queries, and the new keys and values, or all of cross attention: `[batch, heads, tokens, size]`."""
    heads, query = _heads(node), node.array(_QUERY)
    if query.ndim != 3 or query.shape[1] != 1:
        raise node.refusal("onnx.invalid", f"input {_QUERY} 'query'", listed(query.shape), "[batch, 1, hidden]: one token")
    if not node.has(_KEY):
        given = np.split(query, 3, axis=2)
    elif node.rank(_KEY) == _HEADS_APART:
        given = [query]
    else:
        given = [query, node.array(_KEY), node.array(_VALUE)]
    if node.has(_BIAS):
        ends = np.cumsum([part.shape[2] for part in given])
        given = [part + node.array(_BIAS)[end - part.shape[2] : end] for part, end in zip(given, ends, strict=True)]
    split = [part.reshape(*part.shape[:2], heads, -1).swapaxes(1, 2) for part in given]
    return (split[0], node.array(_KEY), node.array(_VALUE)) if len(split) == 1 else (split[0], split[1], split[2])


def _kept(node: Node, index: int, new: Array) -> tuple[Array, int]:
    """The cache with the new token appended, and the number of valid tokens."""
    past = node.array(index)
    if not node.attribute("past_present_share_buffer", 0):
        return np.concatenate([past, new], axis=2), past.shape[2] + 1
    before = int(np.ravel(node.array(_PAST))[0])
    if not 0 <= before < past.shape[2]:
        expected = f"0 to {past.shape[2] - 1}: the caches have {past.shape[2]} places"
        raise node.refusal("onnx.invalid", f"input {_PAST} 'past_sequence_length'", str(before), expected)
    present = past.copy()
    present[:, :, before : before + 1] = new
    return present, before + 1


def _by_beam(node: Node, cache: Array) -> Array:
    """The cache of each beam: its earlier tokens come from the beams that it descends from."""
    if not node.has(_ORIGINS) or not node.has(_PAST_KEY):
        return cache
    origins = node.array(_ORIGINS)
    groups, beams, _ = origins.shape
    rows = (origins + np.arange(groups)[:, None, None] * beams).reshape(groups * beams, -1)[:, : cache.shape[2]].copy()
    rows[:, -1] = np.arange(len(rows))  # the newest token belongs to the beam itself
    reordered: Array = cache[rows[:, None, :], np.arange(cache.shape[1])[:, None], np.arange(cache.shape[2])]
    return reordered
