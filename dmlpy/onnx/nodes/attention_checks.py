"""ONNX's rules for Attention: the sizes of queries, keys, values, masks and past steps relative to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem
from dmlpy.onnx.nodes.microsoft_requirements import past_problems
from dmlpy.onnx.nodes.ranks import are_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.onnx.nodes.node import Node

_BY_HEAD, _PACKED = 4, 3
"""The dimensions of inputs that state their heads, and of those that attributes divide into heads."""


def attention_problems(node: Node) -> Iterator[Problem]:
    """Keys and values of other batches, heads, steps or elements, and masks that do not broadcast to the scores."""
    problems: list[Problem] = []
    if are_known(node, 0, 1, 2) and {node.rank(index) for index in range(3)} <= {_BY_HEAD, _PACKED}:
        problems = [*_part_problems(node)]
        problems = problems or [*_mask_problems(node)]
    yield from problems or past_problems(node, 4)


def _part_problems(node: Node) -> Iterator[Problem]:
    queries, keys, values = (node.sizes(index) for index in range(3))
    for index, sizes in ((1, keys), (2, values)):
        if sizes[0] != queries[0]:
            expected = f"a batch of {queries[0]}, as the queries {listed(queries)} have"
            yield Problem("onnx.invalid", node.input_label(index), listed(sizes), expected)
            return
    if keys[-2] != values[-2]:
        yield Problem("onnx.invalid", node.input_label(2), listed(values), f"{keys[-2]} steps, as the keys {listed(keys)} have")
        return
    heads = [_heads(node, index) for index in range(3)]
    if None in heads:
        return
    (_, size), (count, other), (value_count, _) = (head for head in heads if head is not None)
    if other != size:
        expected = f"{size} elements for each of {count} heads, as the queries {listed(queries)} have"
        yield Problem("onnx.invalid", node.input_label(1), listed(keys), expected)
    elif value_count != count:
        yield Problem("onnx.invalid", node.input_label(2), listed(values), f"{count} heads, as the keys {listed(keys)} have")


def _heads(node: Node, index: int) -> tuple[int, int] | None:
    """How many heads an input has, and of how many elements; None where attributes leave that open."""
    sizes = node.sizes(index)
    if len(sizes) == _BY_HEAD:
        return sizes[1], sizes[3]
    count = node.attribute("kv_num_heads" if index else "q_num_heads") or 0
    return (count, sizes[2] // count) if count > 0 and sizes[2] % count == 0 else None


def _mask_problems(node: Node) -> Iterator[Problem]:
    """A mask may lack keys at the end, which are masked then."""
    heads = _heads(node, 0)
    if heads is None or not are_known(node, 3) or (node.has(4) and not are_known(node, 4)):
        return
    past = node.sizes(4)[2] if node.has(4) and node.rank(4) == _BY_HEAD else 0
    scores = (node.sizes(0)[0], heads[0], node.sizes(0)[-2], node.sizes(1)[-2] + past)
    if not _broadcasts(node.sizes(3), scores):
        expected = f"sizes that broadcast to those of the scores, {listed(scores)}; the last one may be smaller"
        yield Problem("onnx.invalid", node.input_label(3), listed(node.sizes(3)), expected)


def _broadcasts(mask: Sequence[int], scores: Sequence[int]) -> bool:
    if not 1 <= len(mask) <= len(scores) or mask[-1] > scores[-1]:
        return False
    return all(size in (1, wanted) for size, wanted in zip(mask[-2::-1], scores[-2::-1], strict=False))
