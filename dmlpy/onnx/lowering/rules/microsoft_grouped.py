"""GroupQueryAttention (com.microsoft): several heads of queries share one of keys and values, which are cached in buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.heads import (
    apply_softcap,
    both,
    count_positions,
    look_up,
    merge_heads,
    products,
    rotate,
    split_heads,
    weigh_values,
)

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_KEY, _PAST, _LENGTHS, _TOTAL, _COSINES, _PLACES, _BIAS, _SINKS = 1, 3, 5, 6, 7, 9, 10, 11


@dataclass(frozen=True)
class Step:
    """The positions of the new tokens.

    Attributes:
        length: how many there are.
        total: how many keys there are at most, the new ones included.
        before: how many earlier keys each batch entry has, INT32 `[batch or 1, 1, 1, 1]`.
        is_appended: whether it is known that the new ones follow all past ones.
    """

    length: int
    total: int
    before: Expression
    is_appended: bool


@dataclass(frozen=True)
class WindowCache:
    """A cache that holds at least the last keys that a token sees, one after another from row 0 on, and drops earlier ones.

    How many it holds depends on the number of tokens so far alone, not on how many each step has: the schema's L(T).

    Attributes:
        capacity: how many steps it can hold.
        window: how many keys a token sees, the own one included.
        step: the positions of the new tokens.
    """

    capacity: int
    window: int
    step: Step

    @cached_property
    def places(self) -> Expression:
        """The positions of the keys of `follow`, INT32 `[batch or 1, 1, 1, capacity + length]`."""
        return count_positions(self._most, 3) + self._first

    def follow(self, past: Expression, new: Expression) -> Expression:
        """The past states that count, then the new ones; further rows repeat the last one, `[batch, heads, capacity + length, size]`."""
        return _rows(x.join([past, new], axis=2), self._followed)

    def keep(self, states: Expression) -> Expression:
        """The cache after this step; rows behind those that count, which ONNX Runtime leaves unset, repeat the last one.

        Args:
            states: what `follow` gives.
        """
        return _rows(states, self._kept)

    @property
    def _most(self) -> int:
        return self.capacity + self.step.length

    # Keys and values have the same rows: the operators that compute them are made once.

    @cached_property
    def _first(self) -> Expression:
        """The position of row 0 before this step."""
        return self._first_after(self.step.before)

    @cached_property
    def _followed(self) -> Expression:
        """The rows of the past and the new states that `follow` gives, `[batch or 1, 1, rows, 1]`."""
        rows, past = count_positions(self._most, 2), self.step.before - self._first
        behind = x.clip(rows + (self.capacity - past), min=0, max=self._most - 1)
        return x.if_(rows < past, rows, behind)

    @cached_property
    def _kept(self) -> Expression:
        """The rows of these that `keep` gives, `[batch or 1, 1, rows, 1]`."""
        dropped = self._first_after(self.step.before + self.step.length) - self._first
        return x.clip(count_positions(self.capacity, 2) + dropped, min=0, max=self._most - 1)

    def _first_after(self, count: Expression) -> Expression:
        """The position of row 0 after this many tokens."""
        step = self.capacity - self.window + 1
        beyond = x.max(count - self.capacity, 0)
        return (beyond + (step - 1)) / step * step


def _rows(states: Expression, rows: Expression) -> Expression:
    """Rows `[batch or 1, 1, rows, 1]` of `[batch, heads, steps, size]`."""
    batch, heads, _, size = states.sizes
    return x.gather_elements(states, rows.broadcast(batch, heads, rows.sizes[2], size), axis=2)


@lowers("GroupQueryAttention", domain=MICROSOFT, may_be_empty=(3, 4))
def grouped_attention(node: Node) -> tuple[Expression | None, ...]:
    """GEMM, ACTIVATION_SOFTMAX1, GEMM; ELEMENT_WISE_IF chooses what is seen, and what of the buffers is new."""
    _refuse(node)
    heads, groups = int(node.attribute("num_heads", 0)), int(node.attribute("kv_num_heads", 0))
    queries, keys, values = _parts(node, heads, groups)
    step = _step(node, queries.sizes[2])
    if node.attribute("do_rotary", 0):
        places = _places(node, step)
        cosines, sines = (look_up(node.x(index), places) for index in (_COSINES, _COSINES + 1))
        interleaved = bool(node.attribute("rotary_interleaved", 0))
        queries, keys = (rotate(tensor, cosines, sines, interleaved=interleaved) for tensor in (queries, keys))
    if node.attribute("sliding_window_cache", 0):
        cache = _window(node, keys.sizes[0], step)
        keys, values = (cache.follow(node.x(index), new) for index, new in ((_PAST, keys), (_PAST + 1, values)))
        key_places, presents = cache.places, (cache.keep(keys), cache.keep(values))
    else:
        keys, values = _kept(node, keys, values, step)
        key_places, presents = count_positions(keys.sizes[2], 3), (keys, values)
    scale = float(node.attribute("scale", 0.0)) or 1 / sqrt(queries.sizes[3])
    scores = apply_softcap(products(queries, keys, scale), max(0.0, float(node.attribute("softcap", 0.0))))
    if node.has(_BIAS):
        scores = scores + _bias(node, key_places)
    scores = x.if_(_allowed(node, step, key_places), scores, float("-inf"))
    return merge_heads(weigh_values(_weights(node, scores), values)), *presents


def _window(node: Node, batch: int, step: Step) -> WindowCache:
    """The cache; several tokens may follow earlier ones in a single batch entry alone, as in ONNX Runtime."""
    if 1 < step.length < step.total and batch > 1:
        expected = "1 batch entry, where several tokens follow earlier ones"
        raise node.refusal("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)
    return WindowCache(node.sizes(_PAST)[2], int(node.attribute("local_window_size")), step)


def _bias(node: Node, places: Expression) -> Expression:
    """What is added to the scores of keys at these positions, `[1 or batch, 1, 1, keys]`."""
    bias, longest = node.x(_BIAS), places.sizes[3]
    if node.attribute("sliding_window_cache", 0):
        sizes = max(bias.sizes[0], places.sizes[0]), bias.sizes[1], bias.sizes[2], longest
        index = x.clip(places, min=0, max=bias.sizes[3] - 1).broadcast(*sizes)
        return x.gather_elements(bias.broadcast(*sizes[:3], bias.sizes[3]), index, axis=3)
    lacks = longest - bias.sizes[3]
    return x.padding1(bias, start_padding=[0] * 4, end_padding=[0, 0, 0, lacks]) if lacks else bias


def _weights(node: Node, scores: Expression) -> Expression:
    """The softmax; a sink is one more score, whose weight is discarded."""
    if not node.has(_SINKS) and not node.attribute("smooth_softmax", 0):
        return x.activation_softmax1(scores, axes=[3])
    batch, heads, length, keys = scores.sizes
    if node.has(_SINKS):
        sinks = node.x(_SINKS).reshape(1, heads, 1, 1)
    else:
        sinks = x.fill_value_constant(value_data_type=scores.data_type, value=0, output_sizes=[1]).reshape(1, 1, 1, 1)
    whole = x.join([scores, sinks.broadcast(batch, heads, length, 1)], axis=3)
    return x.activation_softmax1(whole, axes=[3])[..., :keys]


def _parts(node: Node, heads: int, groups: int) -> tuple[Expression, Expression, Expression]:
    """Queries, keys and values by head; they may lie side by side."""
    if not heads or not groups or heads % groups:
        raise node.refusal("onnx.invalid", "num_heads", f"{heads} and kv_num_heads {groups}", "a multiple of kv_num_heads")
    if node.has(_KEY):
        return split_heads(node.x(0), heads), split_heads(node.x(1), groups), split_heads(node.x(2), groups)
    size = node.sizes(0)[2] // (heads + 2 * groups)
    first, second = heads * size, (heads + groups) * size
    whole = node.x(0)
    return (
        split_heads(whole[..., :first], heads),
        split_heads(whole[..., first:second], groups),
        split_heads(whole[..., second:], groups),
    )


def _step(node: Node, length: int) -> Step:
    total = int(np.ravel(node.array(_TOTAL))[0])
    past = node.sizes(_PAST)[2] if node.has(_PAST) else 0
    lengths = node.value(_LENGTHS).array
    if total == length:
        before = x.fill_value_constant(value_data_type=DataType.INT32, value=0, output_sizes=[1]).reshape(1, 1, 1, 1)
        return Step(length, total, before, is_appended=past == 0)
    before = x.cast(node.x(_LENGTHS), output_data_type=DataType.INT32).reshape(-1, 1, 1, 1) - (length - 1)
    is_appended = lengths is not None and past + length == total and bool(np.all(lengths == total - 1))
    return Step(length, total, before, is_appended)


def _places(node: Node, step: Step) -> Expression:
    """The positions of the new tokens, `[batch or 1, length]`."""
    if node.has(_PLACES) and step.total != step.length:
        return node.x(_PLACES)
    places = (count_positions(step.length, 3) + step.before).reshape(step.before.sizes[0], step.length)
    if node.has(_PLACES):
        return places + x.cast(node.x(_PLACES)[:1, :1], output_data_type=DataType.INT32)
    return places


def _kept(node: Node, keys: Expression, values: Expression, step: Step) -> list[Expression]:
    """The buffers of keys and values after this step: the past, then the new states of each batch entry behind those that count."""
    pasts = [node.x(index) if node.has(index) else None for index in (_PAST, _PAST + 1)]
    states = [*zip(pasts, (keys, values), strict=True)]
    if step.is_appended:
        return [new if past is None else x.join([past, new], axis=2) for past, new in states]
    count = max([step.total, *(past.sizes[2] for past in pasts if past is not None)])
    places = count_positions(count, 2) - step.before
    written = x.logical_and(places >= 0, places < step.length)
    source = x.clip(places, min=0, max=step.length - 1)
    return [x.if_(written, _rows(new, source), _lengthened(past, new, count)) for past, new in states]


def _lengthened(past: Expression | None, new: Expression, count: int) -> Expression:
    """The past states, `[batch, heads, count, size]`, with zeros behind them."""
    if past is None:
        zero = x.fill_value_constant(value_data_type=new.data_type, value=0, output_sizes=[1]).reshape(1, 1, 1, 1)
        return zero.broadcast(*new.sizes[:2], count, new.sizes[3])
    if past.sizes[2] < count:
        return x.padding1(past, start_padding=[0] * 4, end_padding=[0, 0, count - past.sizes[2], 0])
    return past


def _allowed(node: Node, step: Step, keys: Expression) -> Expression:
    """A UINT8 mask of the keys, at these positions, that each query sees."""
    places = count_positions(step.length, 2) + step.before
    if not node.attribute("causal", 1):
        return keys < step.before + step.length
    conditions = [keys <= places]
    window = int(node.attribute("local_window_size", -1))
    if window > 0:
        conditions.append(keys > places - window)
    allowed = both(conditions)
    assert allowed is not None
    return allowed


def _refuse(node: Node) -> None:
    """Rejects unsupported features."""
    window = int(node.attribute("local_window_size", -1))
    if node.attribute("sliding_window_cache", 0):
        _refuse_window(node, window)
    if window != -1 and not node.attribute("causal", 1):
        raise node.refusal("onnx.invalid", "local_window_size", str(window), "-1, because causal is 0")
    for name, kept in (("kv_cache_bit_width", 0), ("qk_output", 0)):
        if node.attribute(name, kept) != kept:
            raise node.unsupported(name, kept)
    for name in ("k_quant_type", "v_quant_type"):
        if node.attribute(name, "NONE") != "NONE":
            raise node.unsupported(name, "NONE")
    for index in range(12, len(node.inputs)):
        if node.has(index):
            raise node.refusal(
                "onnx.input", f"input {index}", "given", "left out: no scales of caches, norms of heads or lengths of queries"
            )
    if not window:
        raise node.refusal("onnx.attribute", "local_window_size", "0", "1 or more keys that a token sees, or -1 for all")


def _refuse_window(node: Node, window: int) -> None:
    """Rejects caches that cannot hold a window, as ONNX Runtime does."""
    if window < 1:
        raise node.refusal("onnx.invalid", "local_window_size", str(window), "1 or more keys, which a cache of a window's size has to hold")
    for index in (_PAST, _PAST + 1):
        if not node.has(index):
            raise node.refusal("onnx.invalid", node.input_label(index), "left out", "a cache, because sliding_window_cache is set")
        if (sizes := node.sizes(index))[2] < window:
            raise node.refusal("onnx.invalid", node.input_label(index), listed(sizes), f"{window} or more steps, as local_window_size says")
