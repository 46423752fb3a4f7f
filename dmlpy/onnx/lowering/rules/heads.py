"""Shared parts of attention operators: heads, scores, masks, rotary positions."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.description.enums import DataType, MatrixTransform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.x.expressions import Expression


def split_heads(tensor: Expression, count: int) -> Expression:
    """`[batch, sequence, heads * size]` viewed as `[batch, heads, sequence, size]`."""
    batch, sequence, hidden = tensor.sizes
    return tensor.reshape(batch, sequence, count, hidden // count).transpose(0, 2, 1, 3)


def merge_heads(tensor: Expression) -> Expression:
    """`[batch, heads, sequence, size]` as `[batch, sequence, heads * size]`."""
    batch, heads, sequence, size = tensor.sizes
    return tensor.transpose(0, 2, 1, 3).reshape(batch, sequence, heads * size)


def products(queries: Expression, keys: Expression, scale: float) -> Expression:
    """The scaled products of queries and keys, `[batch, heads, queries, keys]`; a head of keys may serve several of queries."""
    batch, heads, count, _ = queries.sizes
    grouped = [*_group(queries, keys)]
    scores = x.gemm(*grouped, trans_b=MatrixTransform.TRANSPOSE, alpha=scale)
    return scores.reshape(batch, heads, count, keys.sizes[2])


def weigh_values(weights: Expression, values: Expression) -> Expression:
    """The weighted sums of values, `[batch, heads, queries, size]`; a head of values may serve several of weights."""
    batch, heads, count, _ = weights.sizes
    return x.gemm(*_group(weights, values)).reshape(batch, heads, count, values.sizes[3])


def _group(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    (batch, heads, rows, columns), (_, kv_heads, length, size) = left.sizes, right.sizes
    if heads == kv_heads:
        return left, right
    group = heads // kv_heads
    spread = right.reshape(batch * kv_heads, 1, length, size).broadcast(batch * kv_heads, group, length, size)
    return left.reshape(batch * kv_heads, group, rows, columns), spread


def apply_softcap(scores: Expression, cap: float) -> Expression:
    """Scores squashed into the range from -cap to cap; a cap of 0 leaves them unchanged."""
    return x.activation_tanh(scores * (1 / cap)) * cap if cap else scores


def count_positions(count: int, axis: int) -> Expression:
    """0, 1, ... along one of 4 dimensions, INT32."""
    sizes = [1] * 4
    sizes[axis] = count
    return x.fill_value_sequence(value_data_type=DataType.INT32, value_start=0, value_delta=1, output_sizes=[count]).reshape(*sizes)


def both(conditions: Sequence[Expression]) -> Expression | None:
    """The conjunction of conditions, which are broadcast; None if there are none."""
    return reduce(x.logical_and, conditions) if conditions else None


def join_heads(past: Expression | None, present: Expression) -> Expression:
    """Past and new states, concatenated: `[batch, heads, sequence, size]`."""
    return present if past is None else x.join([past, present], axis=2)


def look_up(table: Expression, places: Expression) -> Expression:
    """The rows of `[count, size]` at indices `[batch, sequence]`: `[batch, sequence, size]`."""
    rows = x.gather(table.reshape(1, 1, *table.sizes), places.with_leading_ones(4), axis=2, index_dimensions=2)
    return rows.reshape(*places.sizes, table.sizes[1])


def rotate(tensor: Expression, cosines: Expression, sines: Expression, *, interleaved: bool) -> Expression:
    """Rotates pairs of elements by the angles of their positions.

    Args:
        tensor: `[batch, heads, sequence, size]`.
        cosines: `[batch or 1, sequence, rotary size / 2]`; further elements of each head are not rotated.
        sines: likewise.
        interleaved: whether adjacent elements are pairs, instead of elements of the two halves.
    """
    batch, heads, sequence, size = tensor.sizes
    half = cosines.sizes[-1]
    cosines, sines = (angles.reshape(angles.sizes[0], 1, sequence, half) for angles in (cosines, sines))
    turned = tensor[..., : 2 * half] if 2 * half < size else tensor
    if interleaved:
        pairs = turned.reshape(batch * heads, sequence, half, 2)
        first, second = (pairs[..., index].reshape(batch, heads, sequence, half) for index in range(2))
    else:
        first, second = turned[..., :half], turned[..., half:]
    parts = [first * cosines - second * sines, first * sines + second * cosines]
    if interleaved:
        rows = [part.reshape(batch * heads, sequence, half, 1) for part in parts]
        whole = x.join(rows, axis=3).reshape(batch, heads, sequence, 2 * half)
        parts = [whole]
    if 2 * half < size:
        parts.append(tensor[..., 2 * half :])
    return x.join(parts, axis=3) if len(parts) > 1 else parts[0]
