"""ONNX Runtime's own operators (com.microsoft) of attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.heads import count_positions
from dmlpy.onnx.lowering.rules.quantized_products import by_column, require, sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@dataclass(frozen=True)
class Mask:
    """A mask as MULTIHEAD_ATTENTION takes it.

    Attributes:
        kind: what it holds.
        tensor: it; None if all keys count.
    """

    kind: str = "NONE"
    tensor: Expression | None = None


@lowers("Attention", domain=MICROSOFT, may_be_empty=(4,))
def attention(node: Node) -> tuple[Expression | None, ...]:
    """GEMM of the projection and MULTIHEAD_ATTENTION; past and present keys and values are views of one tensor."""
    _refuse(node, ("do_rotary", "past_present_share_buffer"), (6,))
    batch, length, width = node.sizes(0)
    whole = node.sizes(1)[1]
    bias = node.x(2).reshape(1, 1, 1, whole).broadcast(1, 1, batch * length, whole) if node.has(2) else None
    projected = x.gemm(node.x(0).reshape(1, 1, batch * length, width), node.x(1).reshape(1, 1, width, whole), bias)
    parts = node.attribute("qkv_hidden_sizes") or [whole // 3] * 3
    return _self_attention(node, projected.reshape(batch, length, whole), parts, mask_at=3, past_at=4, bias_at=5)


@lowers("QAttention", domain=MICROSOFT, may_be_empty=(8,))
def quantized_attention(node: Node) -> tuple[Expression | None, ...]:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT of the projection and MULTIHEAD_ATTENTION."""
    _refuse(node, ("do_rotary", "past_present_share_buffer"), ())
    batch, length, _ = node.sizes(0)
    whole = node.sizes(1)[1]
    product = sides(node, 0, 1)
    scale, weight_scale = node.x(3).reshape(1, 1, 1, 1), require(node, 4, by_column(node, 4, whole))
    zero_point = node.x(6).reshape(1, 1, 1, 1) if node.has(6) else None
    bias = node.x(2).reshape(1, 1, 1, whole).broadcast(*product.folded) if node.has(2) else None
    projected = x.matrix_multiply_integer_to_float(product.a, scale, product.b, weight_scale, zero_point, by_column(node, 7, whole), bias)
    return _self_attention(node, projected.reshape(batch, length, whole), [whole // 3] * 3, mask_at=5, past_at=8, bias_at=None)


def _self_attention(
    node: Node, projected: Expression, parts: Sequence[int], *, mask_at: int, past_at: int, bias_at: int | None
) -> tuple[Expression | None, ...]:
    """The outputs of an attention whose queries, keys and values lie side by side."""
    batch, length, _ = projected.sizes
    first, second = parts[0], parts[0] + parts[1]
    given = projected[..., :first], projected[..., first:second], projected[..., second:]
    past = (node.x(past_at)[0], node.x(past_at)[1]) if node.has(past_at) else (None, None)
    total = length + (past[0].sizes[2] if past[0] is not None else 0)
    mask = _mask(node, mask_at, (batch, length, total), total - length)
    more = {"relative_position_bias": node.x(bias_at)} if bias_at is not None and node.has(bias_at) else {}
    heads = int(node.attribute("num_heads", 0))
    attended = _attend(node, given, past, mask, heads, first // max(heads, 1), **more)
    present = None
    if node.wants(1):
        present = x.join([kept.reshape(1, *kept.sizes) for kept in (attended.present_key, attended.present_value)], axis=0)
    return attended.output, present


@lowers("MultiHeadAttention", domain=MICROSOFT, may_be_empty=(6, 7))
def multihead(node: Node) -> tuple[Expression | None, ...]:
    """MULTIHEAD_ATTENTION."""
    _refuse(node, (), (8, 9))
    heads, sizes = int(node.attribute("num_heads", 0)), node.sizes(0)
    given: dict[str, Expression] = {}
    past: tuple[Expression | None, Expression | None] = (node.x(6), node.x(7)) if node.has(6) else (None, None)
    size = sizes[4] if len(sizes) == 5 else sizes[2] // max(heads, 1)
    new = sizes[1]
    if len(sizes) == 5:
        given["stacked_query_key_value"] = node.x(0)
    elif node.rank(1) == 5:
        given |= {"query": node.x(0), "stacked_key_value": node.x(1)}
        new = node.sizes(1)[1]
    elif node.rank(1) == 4:
        given["query"] = node.x(0)
        past, new = (node.x(1), node.x(2)), 0
    else:
        given |= {"query": node.x(0), "key": node.x(1), "value": node.x(2)}
        new = node.sizes(1)[1]
    total = new + (past[0].sizes[2] if past[0] is not None else 0)
    before = total - new if new else 0
    if node.has(3):
        given["bias"] = node.x(3)
    if node.has(5):
        given["relative_position_bias"] = node.x(5)
    mask = _mask(node, 4, (sizes[0], sizes[1], total), before)
    attended = _attend(node, (), past, mask, heads, size, **given)
    return attended.output, attended.present_key, attended.present_value


def _attend(
    node: Node,
    parts: Sequence[Expression],
    past: tuple[Expression | None, Expression | None],
    mask: Mask,
    heads: int,
    size: int,
    **given: Any,
) -> Any:
    """The outputs of MULTIHEAD_ATTENTION."""
    scale = node.attribute("scale")
    given |= dict(zip(("query", "key", "value"), parts, strict=False))
    return x.multihead_attention(
        **given,
        past_key=past[0],
        past_value=past[1],
        mask=mask.tensor,
        mask_type=mask.kind,
        scale=float(scale) if scale else 1 / sqrt(size),
        mask_filter_value=float(node.attribute("mask_filter_value", -10000.0)),
        head_count=heads,
    )


def _mask(node: Node, index: int, known: tuple[int, int, int], before: int) -> Mask:
    """The mask: as it is, or where each token also sees none behind it, score by score.

    Args:
        node: the node.
        index: the input that is the mask.
        known: the sizes batch, queries and keys.
        before: how many keys are of earlier steps: the first query sees one more.
    """
    batch, length, total = known
    causal = bool(node.attribute("unidirectional", 0))
    sizes = node.sizes(index) if node.has(index) else None
    if sizes is not None and len(sizes) == 1 and not causal:
        if sizes == (batch,):
            return Mask("KEY_SEQUENCE_LENGTH", node.x(index).reshape(1, batch))
        if sizes == (2 * batch,) and node.op_type != "MultiHeadAttention":
            return Mask("KEY_SEQUENCE_END_START", node.x(index).reshape(2, batch))
        if sizes == (3 * batch + 2,):
            return Mask("KEY_QUERY_SEQUENCE_LENGTH_START_END", node.x(index))
    conditions = []
    keys = count_positions(total, 3)
    if sizes is not None:
        conditions.append(_condition(node, index, keys, known))
    if causal:
        conditions.append(keys <= _last_seen(node, length, total, before))
    if not conditions:
        return Mask()
    allowed = conditions[0] if len(conditions) == 1 else x.logical_and(*conditions)
    return Mask("BOOLEAN", x.cast(allowed, output_data_type=DataType.INT32))


def _last_seen(node: Node, length: int, total: int, before: int) -> Expression:
    """The last key that each query sees, INT32 [1, 1, queries, 1]."""
    if length + before == total:
        return count_positions(length, 2) + before
    # Cross attention: ONNX Runtime masks nothing for the last query, whatever the number of keys.
    last = np.minimum(np.arange(length, dtype=np.int32) + before, total - 1)
    last[-1] = total - 1
    return node.constant("last_seen", last.reshape(1, 1, length, 1))


def _condition(node: Node, index: int, keys: Expression, known: tuple[int, int, int]) -> Expression:
    """The unmasked scores, with sizes that broadcast to `[batch, heads, queries, keys]`."""
    batch, length, total = known
    sizes, mask = node.sizes(index), node.x(index)
    if sizes == (batch,):
        return keys < mask.reshape(batch, 1, 1, 1)
    if sizes == (2 * batch,):
        end, start = (mask.reshape(2, batch, 1, 1, 1)[place] for place in range(2))
        return x.logical_and(keys < end, keys >= start)
    if sizes == (batch, total):
        return mask.reshape(batch, 1, 1, total) > _zero(mask)
    if sizes == (batch, length, total):
        return mask.reshape(batch, 1, length, total) > _zero(mask)
    if len(sizes) == 4 and sizes[:2] == (batch, 1) and min(sizes[2:]) >= total:
        return mask[:, :, total - length : total, :total] > _zero(mask)
    expected = f"[{batch}], [{2 * batch}], [{batch}, {total}], [{batch}, {length}, {total}] or [{batch}, 1, longest, longest]"
    raise node.refusal("onnx.sizes", f"input {index}", listed(sizes), expected)


def _zero(like: Expression) -> Expression:
    return x.fill_value_constant(value_data_type=like.data_type, value=0, output_sizes=[1])


def _refuse(node: Node, attributes: Sequence[str], inputs: Sequence[int]) -> None:
    """Rejects past and present that share memory, and other unsupported features."""
    for name in attributes:
        if node.attribute(name, 0):
            raise node.unsupported(name, 0)
    for index in inputs:
        if node.has(index):
            raise node.refusal("onnx.input", f"input {index}", "given", "left out: past and present are tensors of their own")
