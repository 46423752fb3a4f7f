"""What decoders of texts and speech need (com.microsoft): NGramRepeatBlock and DynamicTimeWarping."""

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
    """The scores [batch, words], less infinity for words that would repeat a sequence of `ngram_size` words."""
    words, scores, size = node.array(0), node.array(1).copy(), int(node.attribute("ngram_size"))
    if size < 1:
        raise node.refusal("onnx.attribute", "ngram_size", str(size), "1 or more")
    if words.ndim != 2 or scores.ndim != 2 or len(words) != len(scores):
        raise node.refusal("onnx.sizes", node.input_label(0), f"{listed(words.shape)} for scores {listed(scores.shape)}", "two rows alike")
    for row, own in zip(words, scores, strict=True):
        if len(row) < size:
            continue
        places = np.lib.stride_tricks.sliding_window_view(row, size)
        last = row[len(row) - size + 1 :]
        own[places[(places[:, :-1] == last).all(1), -1]] = -np.inf
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
    for row in range(costs.shape[0]):
        for column in range(costs.shape[1]):
            both, down, across = total[row, column], total[row, column + 1], total[row + 1, column]
            if both < down and both < across:
                steps[row, column], least = _DIAGONAL, both
            elif down < both and down < across:
                steps[row, column], least = _DOWN, down
            else:
                least = across
            total[row + 1, column + 1] = costs[row, column] + least
    row, column = costs.shape[0] - 1, costs.shape[1] - 1
    path = []
    while row >= 0 and column >= 0:
        path.append((row, column))
        step = steps[row, column]
        row, column = row - (step != _ACROSS), column - (step != _DOWN)
    return [np.array(path[::-1], np.int32).T.copy()]
