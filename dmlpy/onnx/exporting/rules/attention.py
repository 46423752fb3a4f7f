"""Attention, decomposed into products, masks and Softmax."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.description.enums import MultiheadAttentionMaskType
from dmlpy.onnx.exporting.rules import exports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_STACKED = {
    "stacked_query_key_tensor": (0, 1),
    "stacked_key_value_tensor": (1, 2),
    "stacked_query_key_value_tensor": (0, 1, 2),
}
"""The tensors that hold several parts, and which: 0 queries, 1 keys, 2 values."""


@exports("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1", wide=True)
def attention(node: Node) -> dict[str, Value]:
    """MatMul, Add, Where, Softmax and MatMul: ONNX's Attention has no input bias, and its masks differ from DirectML's."""
    desc = node.desc
    heads, groups = (getattr(desc, name) for name in desc.head_counts)
    size, value_size = desc.head_sizes
    *_, batch, length, _ = node.sizes("output_tensor")
    past, new, total = desc.key_lengths
    parts = _parts(node, (heads, groups, groups))
    query = _split_heads(node, parts, 0, (batch, length, heads, size))
    key = _split_heads(node, parts, 1, (batch, new, groups, size))
    value = _split_heads(node, parts, 2, (batch, new, groups, value_size))
    assert query is not None
    key = _with_past(node, "past_key_tensor", key, (batch, groups, past, size))
    value = _with_past(node, "past_value_tensor", value, (batch, groups, past, value_size))
    absent: Value | None = None
    if node.has("past_sequence_lengths_tensor"):
        most = min(past, total - new)
        valid = node.vector("past_sequence_lengths_tensor").cast(TensorProto.INT64).at_most(most).at_least(0)
        key, value = (
            _compact(node, x, valid, (batch, groups, past + new, value_width), past, total)
            for x, value_width in ((key, size), (value, value_size))
        )
        new_seen = node.writer.integers(np.minimum(new, np.arange(length) + 1)).reshape([1, 1, length, 1])
        absent = node.writer.integers(np.arange(total)) >= valid.reshape([batch, 1, 1, 1]) + new_seen
    grouped = query.reshape([batch, groups, heads // groups, length, size])
    turned = key.reshape([batch, groups, 1, total, size]).transpose([0, 1, 2, 4, 3])
    scores = (grouped.apply("MatMul", turned) * desc.scale).reshape([batch, heads, length, total])
    if node.has("relative_position_bias_tensor"):
        scores = scores + _last_four(node, "relative_position_bias_tensor")
    weights = _weights(node, scores, _filter(node, batch, total), absent).reshape([batch, groups, heads // groups, length, total])
    weighted = weights.apply("MatMul", value.reshape([batch, groups, 1, total, value_size]))
    output = weighted.reshape([batch, heads, length, value_size]).transpose([0, 2, 1, 3])
    results = {"output_tensor": output, "output_present_key_tensor": key, "output_present_value_tensor": value}
    return {place: x.reshape(node.sizes(place)) for place, x in results.items() if node.has(place)}


def _parts(node: Node, heads: Sequence[int]) -> dict[int, Value]:
    """The given queries, keys and values, by number, as [batch, length, heads, size]; without those that only the past has."""
    split: dict[int, Value] = {}
    for part, name in enumerate(("query_tensor", "key_tensor", "value_tensor")):
        if node.has(name):
            *_, batch, length, width = node.sizes(name)
            split[part] = node.x(name).reshape([batch, length, heads[part], width // heads[part]])
    for name, places in _STACKED.items():
        if node.has(name):
            *_, batch, length, count, _, size = node.sizes(name)
            for at, part in enumerate(places):
                split[part] = node.x(name).part([at], [at + 1], [-2]).reshape([batch, length, count, size])
    return split


def _split_heads(node: Node, parts: dict[int, Value], part: int, sizes: Sequence[int]) -> Value | None:
    """A part with its bias, [batch, heads, length, size]."""
    if part not in parts:
        return None
    rows = parts[part]
    if node.has("bias_tensor"):
        heads, groups = (getattr(node.desc, name) for name in node.desc.head_counts)
        size, value_size = node.desc.head_sizes
        widths = [heads * size, groups * size, groups * value_size]
        start = sum(widths[before] for before in range(part) if before in parts)
        bias = node.vector("bias_tensor").part([start], [start + widths[part]], [0])
        rows = rows + bias.reshape(sizes[2:])
    return rows.transpose([0, 2, 1, 3])


def _with_past(node: Node, name: str, new: Value | None, sizes: Sequence[int]) -> Value:
    """Past keys or values followed by the new ones."""
    if not node.has(name):
        assert new is not None
        return new
    earlier = node.x(name).reshape(sizes)
    return earlier if new is None else node.add("Concat", earlier, new, axis=2)


def _compact(node: Node, joined: Value, valid: Value, sizes: Sequence[int], past: int, total: int) -> Value:
    """The valid past keys or values, then the new ones, then zeros."""
    batch, heads, length, size = sizes
    at, first = node.writer.integers(np.arange(total)), valid.reshape([batch, 1])
    rows = (at < first).where(at, at - first + past).at_most(length)
    places = rows.reshape([batch, 1, total, 1]).expand([batch, heads, total, size])
    return joined.pad([0] * 4, [0, 0, 1, 0]).apply("GatherElements", places, axis=2)


def _last_four(node: Node, name: str) -> Value:
    sizes = node.sizes(name)
    return node.x(name) if len(sizes) == 4 else node.x(name).reshape(sizes[-4:])


def _filter(node: Node, batch: int, keys: int) -> Value | None:
    """The scores that the mask filters out; it broadcasts to [batch, heads, queries, keys]."""
    if not node.has("mask_tensor"):
        return None
    kind = node.desc.mask_type
    if kind is MultiheadAttentionMaskType.BOOLEAN:
        return _last_four(node, "mask_tensor").equals(0)
    mask = node.vector("mask_tensor").cast(TensorProto.INT64)
    at = node.writer.integers(np.arange(keys))

    def limit(row: int) -> Value:
        whole = prod(node.sizes("mask_tensor"))
        row_mask = mask if whole == batch else mask.part([row * batch], [(row + 1) * batch], [0])
        return row_mask.reshape([batch, 1, 1, 1])

    if kind is MultiheadAttentionMaskType.KEY_SEQUENCE_END_START:
        return (at >= limit(0)) | (at < limit(1))
    return at >= limit(0)


def _weights(node: Node, scores: Value, filtered: Value | None, absent: Value | None) -> Value:
    """The softmax of the scores of the keys that exist; 0 for all keys if none does."""
    if filtered is not None:
        added = filtered.where(scores.like(node.desc.mask_filter_value), 0)
        present = added if absent is None else absent.where(scores.like(-inf), added)
        most = present.reduce("ReduceMax", [-1])
        # Adding a constant to all scores changes no weight, but would cost precision.
        scores = scores + added.equals(most).where(scores.like(0), added - most)
    if absent is None:
        return scores.apply("Softmax", axis=-1)
    weights = absent.where(scores.like(-inf), scores).apply("Softmax", axis=-1)
    return absent.where(scores.like(0), weights)
