"""LinearAttention (com.microsoft): a state for each head, which every step changes and every query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_QUERY, _KEY, _VALUE, _PAST, _DECAY, _BETA = range(6)
_RULES = ("linear", "gated", "delta", "gated_delta")


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    queries, heads = int(node.attribute("q_num_heads")), int(node.attribute("kv_num_heads"))
    keys, values = node.value(_KEY), node.value(_VALUE)
    state = node.value(_PAST if node.has(_PAST) else _KEY).element
    if not keys.is_static or not values.is_static:
        return [(values.element, None), (state, None)]
    (batch, steps, width), wide = keys.static_sizes, values.static_sizes[2] // heads
    return [(values.element, (batch, steps, max(queries, heads) * wide)), (state, (batch, heads, width // heads, wide))]


@register_host_operator("LinearAttention", _describe_outputs)
def attend(node: Node) -> Sequence[Array]:
    """The results [batch, steps, heads * size] and the last states [batch, heads, key size, value size], computed in FLOAT32."""
    rule = str(node.attribute("update_rule", "gated_delta"))
    if rule not in _RULES:
        raise node.invalid("update_rule", *_RULES)
    if node.attribute("state_window", 0):
        raise node.unsupported("state_window", 0)
    heads, readers = int(node.attribute("kv_num_heads")), int(node.attribute("q_num_heads"))
    queries, keys, values = (_by_head(node, index, readers if index == _QUERY else heads) for index in (_QUERY, _KEY, _VALUE))
    batch, steps, _, size = keys.shape
    sizes = batch, heads, size, values.shape[3]
    state = node.array(_PAST).astype(np.float32) if node.has(_PAST) else np.zeros(sizes, np.float32)
    if state.shape != sizes:
        raise node.refusal("onnx.sizes", node.input_label(_PAST), listed(state.shape), listed(sizes))
    decay = np.exp(_spread(node, _DECAY, heads, size)) if rule.startswith("gated") else None
    rate = _spread(node, _BETA, heads, 1) if rule.endswith("delta") else None
    scale = float(node.attribute("scale", 0.0)) or 1 / np.sqrt(size)
    results = np.empty((batch, steps, max(readers, heads), values.shape[3]), np.float32)
    of_query, of_state = (np.arange(results.shape[2]) * count // results.shape[2] for count in (readers, heads))
    for step in range(steps):
        key, value = keys[:, step], values[:, step]
        if decay is not None:
            state = state * decay[:, step, :, :, None]
        if rate is not None:
            value = rate[:, step] * (value - np.einsum("bhkv,bhk->bhv", state, key))
        state = state + key[..., None] * value[..., None, :]
        results[:, step] = scale * np.einsum("bhkv,bhk->bhv", state[:, of_state], queries[:, step, of_query])
    element = node.array(_PAST).dtype if node.has(_PAST) else node.array(_KEY).dtype
    return [results.reshape(batch, steps, -1).astype(node.array(_VALUE).dtype), state.astype(element)]


def _by_head(node: Node, index: int, heads: int) -> Array:
    """An input [batch, steps, heads * size] as [batch, steps, heads, size] of FLOAT32."""
    sizes = node.sizes(index)
    if len(sizes) != 3 or heads < 1 or sizes[2] % heads:
        raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), f"[batch, steps, size], a multiple of {heads} heads")
    found: Array = node.array(index).astype(np.float32).reshape(*sizes[:2], heads, sizes[2] // heads)
    return found


def _spread(node: Node, index: int, heads: int, size: int) -> Array:
    """A decay or rate of each head, or of each of its elements, as [batch, steps, heads, 1 or size]."""
    batch, steps, width = node.sizes(index)
    if width not in (1, heads, heads * size):
        raise node.refusal("onnx.sizes", node.input_label(index), listed(node.sizes(index)), f"a last size of {heads} or {heads * size}")
    found = node.array(index).astype(np.float32).reshape(batch, steps, *((heads, size) if width == heads * size else (width, 1)))
    return np.broadcast_to(found, (batch, steps, heads, size))
