"""Attention, rotary positions, and caches of keys and values."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from onnx import TensorProto

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.elements import FLOATS, data_type_of, element_name
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.heads import (
    apply_softcap,
    both,
    count_positions,
    join_heads,
    look_up,
    merge_heads,
    products,
    rotate,
    split_heads,
    weigh_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("Attention", since=23, may_be_empty=(4, 5))
def attention(node: Node) -> tuple[Expression | None, ...]:
    """GEMM, ACTIVATION_SOFTMAX1, GEMM for all heads at once; masks choose scores by ELEMENT_WISE_IF, past states are joined."""
    queries, keys, values = (_by_head(node, index) for index in range(3))
    keys = join_heads(node.x(4) if node.has(4) else None, keys)
    values = join_heads(node.x(5) if node.has(5) else None, values)
    if queries.sizes[1] % keys.sizes[1]:
        found = f"{queries.sizes[1]} heads of queries, {keys.sizes[1]} of keys"
        raise node.refusal("onnx.invalid", "q_num_heads", found, "a multiple of the heads of keys")
    scale = node.attribute("scale")
    raw = products(queries, keys, 1 / sqrt(queries.sizes[3]) if scale is None else scale)
    capped = apply_softcap(raw, node.attribute("softcap", 0.0))
    biased, guard = _apply_mask(node, capped, keys.sizes[2])
    precision = _precision(node, biased.data_type)
    weights = x.activation_softmax1(biased if precision is biased.data_type else x.cast(biased, output_data_type=precision), axes=[3])
    if precision is not queries.data_type:
        weights = x.cast(weights, output_data_type=queries.data_type)
    if guard is not None:
        weights = x.if_(guard, weights, 0.0)
    result = weigh_values(weights, values)
    shown = (raw, capped, biased, weights)[node.attribute("qk_matmul_output_mode", 0)]
    return merge_heads(result) if node.rank(0) == 3 else result, keys, values, shown


@lowers("RotaryEmbedding", since=23)
def rotary(node: Node) -> Expression:
    """Products and sums of the two parts of each pair, with the angles that GATHER looks up."""
    four = node.rank(0) == 4
    tensor = node.x(0) if four else split_heads(node.x(0), int(node.attribute("num_heads", 0)) or 1)
    caches = [node.x(1), node.x(2)]
    if node.has(3):
        caches = [look_up(cache, node.x(3)) for cache in caches]
    dimension = int(node.attribute("rotary_embedding_dim", 0)) or tensor.sizes[3]
    if caches[0].sizes[-1] != dimension // 2:
        raise node.refusal("onnx.sizes", node.input_label(1), listed(node.sizes(1)), f"{dimension // 2} angles for each position")
    result = rotate(tensor, caches[0], caches[1], interleaved=bool(node.attribute("interleaved", 0)))
    return result if four else merge_heads(result)


@lowers("TensorScatter", since=24)
def scatter(node: Node) -> Expression:
    """GATHER_ELEMENTS of the update for each place of the cache, and ELEMENT_WISE_IF where it is written."""
    past, update = node.x(0), node.x(1)
    rank = node.rank(0)
    axis = node.axis(int(node.attribute("axis", -2)), rank)
    count, length = past.sizes[axis], update.sizes[axis]
    places = x.fill_value_sequence(value_data_type=DataType.INT32, value_start=0, value_delta=1, output_sizes=[count])
    places = places.reshape(*(count if place == axis else 1 for place in range(rank)))
    if node.has(2):
        begin = x.cast(node.x(2), output_data_type=DataType.INT32).reshape(-1, *[1] * (rank - 1))
        places = places - begin
    if node.attribute("mode", "linear") == "circular":
        places = places % count
    written = x.logical_and(places >= 0, places < length)
    source = x.clip(places, min=0, max=length - 1).broadcast(*past.sizes)
    return x.if_(written, x.gather_elements(update, source, axis=axis), past)


def _by_head(node: Node, index: int) -> Expression:
    """An input as `[batch, heads, sequence, size]`."""
    if node.rank(index) == 4:
        return node.x(index)
    name = "q_num_heads" if index == 0 else "kv_num_heads"
    count = int(node.attribute(name, 0))
    if node.rank(index) != 3 or not count or node.sizes(index)[2] % count:
        expected = f"a divisor of the last of {listed(node.sizes(index))}, which tensors of 3 dimensions need"
        raise node.refusal("onnx.attribute", name, str(node.attribute(name)), expected)
    return split_heads(node.x(index), count)


def _apply_mask(node: Node, scores: Expression, length: int) -> tuple[Expression, Expression | None]:
    """The scores with masks, and which queries attend to any key; None if all of them do."""
    mask = _mask(node, length)
    conditions = [*_conditions(node, scores.sizes[2], length)]
    guarded = mask is not None or node.has(6) or max(_windows(node)) >= 0
    if mask is not None and _is_condition(node):
        conditions.append(mask)
    elif mask is not None:
        mask = mask if mask.data_type is scores.data_type else x.cast(mask, output_data_type=scores.data_type)
        scores = scores + mask
        conditions.append(x.logical_not(x.is_infinity(mask, infinity_mode="NEGATIVE")))
    allowed = both(conditions)
    if allowed is None:
        return scores, None
    masked = x.if_(allowed, scores, float("-inf"))
    return masked, x.reduce(allowed, function="MAX", axes=[3]) if guarded else None


def _mask(node: Node, length: int) -> Expression | None:
    """The mask with 4 dimensions; keys beyond its size are masked."""
    if not node.has(3):
        return None
    mask = node.x(3).with_leading_ones(4)
    lacks = length - mask.sizes[3]
    if not lacks:
        return mask
    if not _is_condition(node) and mask.data_type not in FLOATS:
        mask = x.cast(mask, output_data_type=node.data_type(0))
    value = 0 if _is_condition(node) else float("-inf")
    return x.padding1(mask, padding_value=value, start_padding=[0] * 4, end_padding=[0, 0, 0, lacks])


def _is_condition(node: Node) -> bool:
    """Whether the mask says which keys count; otherwise it is added to the scores, bytes too."""
    return node.value(3).element == TensorProto.BOOL


def _conditions(node: Node, count: int, length: int) -> Iterator[Expression]:
    """Yields masks of the keys that the queries attend to, apart from the node's mask input."""
    lengths = x.cast(node.x(6), output_data_type=DataType.INT32).reshape(-1, 1, 1, 1) if node.has(6) else None
    left, right = _windows(node)
    if node.attribute("is_causal", 0):
        right = 0
    if left >= 0 or right >= 0:
        places = count_positions(count, 2)
        if lengths is not None and not node.has(4):
            places = places + (lengths - count)
        elif node.has(4):
            places = places + node.sizes(4)[2]
        keys = count_positions(length, 3)
        if right >= 0:
            yield keys <= places + right if right else keys <= places
        if left >= 0:
            yield keys >= places - left
    if lengths is not None:
        yield count_positions(length, 3) < lengths


def _windows(node: Node) -> tuple[int, int]:
    return int(node.attribute("left_window_size", -1)), int(node.attribute("right_window_size", -1))


def _precision(node: Node, of_inputs: DataType) -> DataType:
    """The type in which the softmax is computed."""
    wanted = node.attribute("softmax_precision")
    if not wanted:
        return of_inputs
    precision = data_type_of(int(wanted))
    if precision not in FLOATS:
        raise node.refusal(
            "onnx.attribute", "softmax_precision", element_name(int(wanted)), "float32, float16 or bfloat16, which ACTIVATION_SOFTMAX1 has"
        )
    return precision
