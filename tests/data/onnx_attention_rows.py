"""Attention by ONNX Runtime's CPU provider: masks, biases, earlier keys and values, groups of heads, rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_node_rows import node  # type: ignore[import-not-found, unused-ignore]
from onnx_operators import F32, I8, I32, I64, U8, normal, scalar, whole  # type: ignore[import-not-found, unused-ignore]


def attention() -> None:
    batch, length, heads, size = 2, 4, 2, 3
    hidden = heads * size
    x, w, b = normal("attention x", batch, length, 5), normal("attention w", 5, 3 * hidden), normal("attention b", 3 * hidden)
    own: dict[str, Any] = {"num_heads": heads}
    node("Attention", [x, w, b], **own)
    node("Attention", [x, w, b], unidirectional=1, scale=0.4, **own)
    node("Attention", [x, w, b, np.array([3, 4], I32)], mask_filter_value=-3.0, **own)
    node("Attention", [x, w, b, np.array([4, 3, 1, 0], I32)], mask_filter_value=-3.0, **own)
    node("Attention", [x, w, b, np.array([[1, 1, 0, 1], [1, 1, 1, 0]], I32)], **own)
    three = whole("attention mask", 0, 2, batch, length, length)
    three[:, :, 0] = 1
    node("Attention", [x, w, b, three], unidirectional=1, **own)
    past = normal("attention past", 2, batch, heads, 3, size)
    node("Attention", [x, w, b, None, past], 2, unidirectional=1, **own)
    node("Attention", [x, w, b, np.ones((batch, length + 3), I32), past], 2, **own)
    node("Attention", [x, w, b, None, None, normal("attention bias", batch, heads, length, length)], **own)
    other = normal("attention v", 5, 2 * hidden + 8), normal("attention vb", 2 * hidden + 8)
    node("Attention", [x, *other], qkv_hidden_sizes=[hidden, hidden, 8], **own)
    quantized = [whole("attention qx", 0, 256, batch, length, 5, dtype=U8), whole("attention qw", -128, 128, 5, 3 * hidden, dtype=I8)]
    scales = [scalar(0.02, F32), scalar(0.01, F32)]
    zeros = [scalar(120, U8), scalar(0, I8)]
    node("QAttention", [*quantized, b, *scales, None, *zeros], **own)
    node("QAttention", [*quantized, b, *scales, np.array([3, 4], I32), *zeros, past], 2, unidirectional=1, **own)


def multihead() -> None:
    batch, length, total, heads, size = 2, 3, 5, 2, 4
    hidden = heads * size
    q, k, v = normal("mha q", batch, length, hidden), normal("mha k", batch, total, hidden), normal("mha v", batch, total, hidden)
    own: dict[str, Any] = {"num_heads": heads}
    node("MultiHeadAttention", [q, k, v], **own)
    node("MultiHeadAttention", [q, k, v, normal("mha b", 3 * hidden), np.array([5, 2], I32)], mask_filter_value=-2.0, **own)
    node("MultiHeadAttention", [q, k, v, None, np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0]], I32)], **own)
    node("MultiHeadAttention", [q, k, v, None, None, normal("mha bias", 1, heads, length, total)], scale=0.3, **own)
    past = normal("mha past k", batch, heads, 2, size), normal("mha past v", batch, heads, 2, size)
    new = k[:, :length].copy(), v[:, :length].copy()
    node("MultiHeadAttention", [q, *new, None, None, None, *past], 3, **own)
    node("MultiHeadAttention", [q, *new, None, None, None, *past], 3, unidirectional=1, **own)
    heads_first = (tensor.reshape(batch, total, heads, size).transpose(0, 2, 1, 3).copy() for tensor in (k, v))
    node("MultiHeadAttention", [q, *heads_first], **own)


def grouped() -> None:
    batch, heads, groups, size = 2, 4, 2, 16
    cosines, sines = (function(np.outer(np.arange(20), 0.7 ** np.arange(8))).astype(F32) for function in (np.cos, np.sin))
    own: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}

    def step(name: str, length: int, past: int, lengths: list[int], total: int, *more: Any, outputs: Any = 3, **attributes: Any) -> None:
        count = len(lengths)
        q = normal(f"{name} q", count, length, heads * size)
        k, v = (normal(f"{name} {part}", count, length, groups * size) for part in "kv")
        kept = [normal(f"{name} past {part}", count, groups, past, size) for part in "kv"] if past else [None, None]
        given = [q, k, v, *kept, np.array(lengths, I32) - I32(1), np.array(total, I32), *more]
        node("GroupQueryAttention", given, outputs, computed=3, known=[6], **own, **attributes)

    step("first", 3, 0, [3, 3], 3)
    step("first rotary", 3, 0, [3, 3], 3, cosines, sines, do_rotary=1)
    step("next", 1, 4, [5, 5], 5, cosines, sines, do_rotary=1, rotary_interleaved=1)
    step("ragged", 1, 6, [5, 3], 6, cosines, sines, outputs=[0], do_rotary=1)
    step("window", 4, 0, [4, 4], 4, local_window_size=2)
    step("window next", 1, 6, [6, 4], 6, outputs=[0], local_window_size=3)
    step("cap", 3, 0, [3, 3], 3, softcap=0.8, scale=0.5)
    step("chunk", 2, 3, [5], 5, cosines, sines, do_rotary=1)
    step("smooth", 3, 0, [3, 3], 3, smooth_softmax=1)
    bias = normal("grouped bias", 1, heads, 3, 3)
    step("bias", 3, 0, [3, 3], 3, None, None, None, bias)
    step("sinks", 3, 0, [3, 3], 3, None, None, None, None, normal("grouped sinks", heads))
    places = np.array([[4], [4]], I64)
    step("places", 1, 4, [5, 5], 5, cosines, sines, places, do_rotary=1)
    kept: dict[str, Any] = {"sliding_window_cache": 1, "local_window_size": 4}
    step("kept of 7", 1, 6, [7], 7, outputs=[0], **kept)
    step("kept of 9", 1, 6, [9], 9, cosines, sines, do_rotary=1, **kept)
    step("kept ragged", 1, 6, [9, 5], 9, None, None, None, normal("kept bias", 1, heads, 1, 9), outputs=[0], **kept)
    step("kept chunk", 3, 6, [12], 12, cosines, sines, do_rotary=1, softcap=2.0, **kept)
    step("kept first", 9, 6, [9, 9], 9, smooth_softmax=1, **kept)
    step("kept alone", 1, 4, [8], 8, **kept)
    packed = normal("grouped packed", batch, 3, (heads + 2 * groups) * size)
    given = [packed, None, None, None, None, np.array([2, 2], I32), np.array(3, I32), cosines, sines]
    node("GroupQueryAttention", given, 3, known=[6], do_rotary=1, **own)


def flat() -> None:
    """ONNX's own Attention of three dimensions, of which ONNX infers present keys and values only with past ones."""
    given = [normal("flat q", 2, 3, 16), normal("flat k", 2, 5, 8), normal("flat v", 2, 5, 12)]
    node("Attention", given, 4, domain="", opset=23, q_num_heads=4, kv_num_heads=2, scale=0.3)


ROWS = (attention, multihead, grouped, flat)
