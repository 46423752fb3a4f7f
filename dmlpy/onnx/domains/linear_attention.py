"""LinearAttention (com.microsoft): a state for each head, which every step changes and every query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_QUERY, _KEY, _VALUE, _PAST, _DECAY, _BETA = range(6)
_RULES = ("linear", "gated", "delta", "gated_delta")


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    queries, heads = node.count("q_num_heads"), node.count("kv_num_heads")
    keys, values = node.value(_KEY), node.value(_VALUE)
    state = node.value(_PAST if node.has(_PAST) else _KEY).element
    if not keys.is_static or not values.is_static or len(keys.static_sizes) != 3 or len(values.static_sizes) != 3:
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
    heads, readers = node.count("kv_num_heads"), node.count("q_num_heads")
    if readers % heads and heads % readers:
        raise node.refusal("onnx.invalid", "q_num_heads", str(readers), f"a multiple or a divisor of kv_num_heads, {heads}")
    keys = _by_head(node, _KEY, heads)
    batch, steps, _, size = keys.shape
    queries, values = _by_head(node, _QUERY, readers, (batch, steps), size), _by_head(node, _VALUE, heads, (batch, steps))
    sizes = batch, heads, size, values.shape[3]
    state = node.array(_PAST).astype(np.float32) if node.has(_PAST) else np.zeros(sizes, np.float32)
    if state.shape != sizes:
        raise node.refusal("onnx.sizes", node.input_label(_PAST), listed(state.shape), listed(sizes))
    decay = np.exp(_spread(node, _DECAY, (batch, steps), {heads: (heads, 1), heads * size: (heads, size)})) if "gated" in rule else None
    rate = _spread(node, _BETA, (batch, steps), {1: (1, 1), heads: (heads, 1)}) if "delta" in rule else None
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


def _by_head(node: Node, index: int, heads: int, ahead: tuple[int, int] | None = None, size: int | None = None) -> Array:
    """An input [batch, steps, heads * size] as [batch, steps, heads, size] of FLOAT32."""
    sizes = node.sizes(index)
    if len(sizes) != 3 or sizes[2] % heads or sizes[:2] != (ahead or sizes[:2]) or sizes[2] != heads * (size or sizes[2] // heads):
        batch, steps = ahead or ("batch", "steps")
        expected = f"[{batch}, {steps}, {heads} heads of {size or 'one size'}]"
        raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), expected)
    array: Array = node.array(index).astype(np.float32).reshape(*sizes[:2], heads, sizes[2] // heads)
    return array


def _spread(node: Node, index: int, ahead: tuple[int, int], forms: Mapping[int, tuple[int, int]]) -> Array:
    """A decay or rate [batch, steps, width] as [batch, steps, heads or 1, size or 1], by the width."""
    sizes = node.sizes(index)
    if len(sizes) != 3 or sizes[:2] != ahead or sizes[2] not in forms:
        allowed = " or ".join(listed((*ahead, width)) for width in forms)
        raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), allowed)
    array: Array = node.array(index).astype(np.float32).reshape(*ahead, *forms[sizes[2]])
    return array
