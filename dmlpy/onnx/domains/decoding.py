"""Operators for decoders of texts and speech (com.microsoft): NGramRepeatBlock and DynamicTimeWarping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_DIAGONAL, _DOWN, _ACROSS = range(3)


def _like_scores(node: Node) -> Sequence[OutputType]:
    return [(node.value(1).element, node.value(1).sizes)]


@register_host_operator("NGramRepeatBlock", _like_scores)
def block_repeated(node: Node) -> Sequence[Array]:
    """The scores [batch, words], with minus infinity for words that would repeat a sequence of `ngram_size` words."""
    words, scores, size = node.array(0), node.array(1).copy(), node.count("ngram_size")
    if words.ndim != 2 or scores.ndim != 2 or len(words) != len(scores):
        raise node.refusal("onnx.sizes", node.input_label(0), f"{listed(words.shape)} for scores {listed(scores.shape)}", "two rows alike")
    for row, word_scores in zip(words, scores, strict=True):
        if len(row) < size:
            continue
        starts = np.arange(len(row) - size + 1)
        for place, word in enumerate(row[len(row) - size + 1 :]):
            starts = starts[row[starts + place] == word]
        blocked = row[starts + size - 1]
        if (unknown := blocked[(blocked < 0) | (blocked >= word_scores.size)]).size:
            expected = f"words from 0 to {word_scores.size - 1}, which have scores"
            raise node.refusal("onnx.invalid", node.input_label(0), f"a word {unknown[0]}", expected)
        word_scores[blocked] = -np.inf
    return [scores]


def _path(node: Node) -> Sequence[OutputType]:
    return [(TensorProto.INT32, (2, None))]


@register_host_operator("DynamicTimeWarping", _path)
def warp(node: Node) -> Sequence[Array]:
    """The cheapest path [2, steps] from the first element of a matrix to the last, by steps down, across or both."""
    given = node.array(0)
    costs = given[0] if given.ndim == 3 and given.shape[0] == 1 else given
    if costs.ndim != 2 or not costs.size:
        raise node.refusal(
            "onnx.sizes", node.input_label(0), listed(given.shape), "a matrix with elements, or one of them in a batch of one"
        )
    total = np.full((costs.shape[0] + 1, costs.shape[1] + 1), np.inf, np.float32)
    steps = np.full(costs.shape, _ACROSS, np.int8)
    total[0, 0] = 0
    for diagonal in range(sum(costs.shape) - 1):
        rows = np.arange(max(0, diagonal - costs.shape[1] + 1), min(costs.shape[0], diagonal + 1))
        columns = diagonal - rows
        both, down, across = total[rows, columns], total[rows, columns + 1], total[rows + 1, columns]
        ways = [(both < down) & (both < across), (down < both) & (down < across)]
        steps[rows, columns] = np.select(ways, [_DIAGONAL, _DOWN], _ACROSS)
        total[rows + 1, columns + 1] = costs[rows, columns] + np.select(ways, [both, down], across)
    row, column = costs.shape[0] - 1, costs.shape[1] - 1
    path = []
    while row >= 0 and column >= 0:
        path.append((row, column))
        step = steps[row, column]
        row, column = row - (step != _ACROSS), column - (step != _DOWN)
    return [np.array(path[::-1], np.int32).T.copy()]
