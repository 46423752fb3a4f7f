"""TreeEnsemble (ai.onnx.ml): the trees of a boosted model or of a forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import numpy_helper

from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.domains.scores import TRANSFORMS, transform_scores
from dmlpy.onnx.loading.schemas import LEARNING
from dmlpy.onnx.nodes.node import NotLowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_COMPARISONS: Mapping[int, Callable[[Array, Array], Array]] = {
    0: np.less_equal,
    1: np.less,
    2: np.greater_equal,
    3: np.greater,
    4: np.equal,
    5: np.not_equal,
}
"""Comparisons by the number of a node's mode."""
_MEMBER = 6
_AVERAGE, _SUM, _MIN, _MAX = range(4)


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees, each with two branches, to another node or to a leaf.

    Attributes:
        features: the column of the input that each node reads.
        modes: its comparison: a key of `_COMPARISONS`, or 6 for set membership.
        splits: the threshold.
        ways: the children, [2, nodes]: of the false branch, then of the true branch.
        ends: whether a child is a leaf.
        tracks: whether NaN follows the true branch.
        members: the set of each node of mode 6.
        roots: the first node of each tree.
    """

    features: Array
    modes: Array
    splits: Array
    ways: Array
    ends: Array
    tracks: Array
    members: Mapping[int, Array]
    roots: Array

    @classmethod
    def of(cls, node: Node) -> Trees:
        features = required_integers(node, "nodes_featureids")
        count = len(features)
        modes = _tensor(node, "nodes_modes", np.zeros(count, np.uint8))
        numbers = [required_integers(node, f"nodes_{way}{what}") for what in ("nodeids", "leafs") for way in ("false", "true")]
        tracks = required_integers(node, "nodes_missing_value_tracks_true", [0] * count).astype(bool)
        splits, roots = _tensor(node, "nodes_splits"), required_integers(node, "tree_roots")
        if any(len(given) != count for given in (modes, splits, tracks, *numbers)):
            raise node.refusal("onnx.invalid", "nodes_featureids", plural(count, "number"), "as many as the other attributes of nodes have")
        ways, ends = np.stack(numbers[:2]), np.stack(numbers[2:]).astype(bool)
        leaves = len(required_integers(node, "leaf_targetids"))
        wrong = (ways < 0) | (ways >= np.where(ends, leaves, count))
        if wrong.any() or roots.min(initial=0) < 0 or roots.max(initial=0) >= count:
            raise node.refusal("onnx.invalid", "nodes_truenodeids", "an index past the end", f"one of {count} nodes or {leaves} leaves")
        return cls(features, modes, splits, ways, ends, tracks, _members(node, modes), roots)

    def leaves(self, x: Array) -> Array:
        """The leaf of each row of x in each tree, [rows, trees]."""
        rows, trees = (part.reshape(-1) for part in np.indices((len(x), len(self.roots))))
        leaves = np.zeros((len(x), len(self.roots)), np.int64)
        current = self.roots[trees]
        for _ in range(len(self.features) + 1):
            if not len(rows):
                return leaves
            holds = self._holds(x[rows, self.features[current]], current).astype(int)
            ended, after = self.ends[holds, current], self.ways[holds, current]
            leaves[rows[ended], trees[ended]] = after[ended]
            rows, trees, current = (part[~ended] for part in (rows, trees, after))
        raise NotLowered(
            [Problem("onnx.invalid", "nodes_truenodeids", "nodes that lead in a circle", "nodes of which each leads to a leaf")]
        )

    def _holds(self, values: Array, nodes: Array) -> Array:
        modes, splits = self.modes[nodes], self.splits[nodes]
        holds = np.zeros(len(nodes), bool)
        for mode, compare in _COMPARISONS.items():
            chosen = modes == mode
            holds[chosen] = compare(values[chosen], splits[chosen])
        for index, members in self.members.items():
            chosen = nodes == index
            holds[chosen] = np.isin(values[chosen], members)
        return holds | (np.isnan(values) & self.tracks[nodes])


def _describe_ensemble(node: Node) -> Sequence[OutputType]:
    x = node.value(0)
    return [(x.element, None if x.sizes is None else (x.sizes[0], int(node.attribute("n_targets", 1))))]


@register_host_operator("TreeEnsemble", _describe_ensemble, domain=LEARNING)
def tree_ensemble(node: Node) -> Sequence[Array]:
    """The weights of each row's leaves, combined by target: [rows, n_targets]. Sums are in FLOAT64."""
    x, targets = node.array(0), int(node.attribute("n_targets", 1))
    trees = Trees.of(node)
    if x.ndim != 2 or trees.features.min(initial=0) < 0 or trees.features.max(initial=0) >= x.shape[1]:
        expected = f"2 dimensions, the last of more than {trees.features.max(initial=0)}"
        raise node.refusal("onnx.invalid", "input 0 'X'", listed(x.shape), expected)
    places, weights = required_integers(node, "leaf_targetids"), _tensor(node, "leaf_weights").astype(np.float64)
    leaves = trees.leaves(x)
    how = int(node.attribute("aggregate_function", _SUM))
    first = {_MIN: np.inf, _MAX: -np.inf}.get(how, 0.0)
    total = np.full((len(x), targets), first)
    rows = np.broadcast_to(np.arange(len(x))[:, None], leaves.shape)
    put: Any = {_MIN: np.minimum, _MAX: np.maximum}.get(how, np.add)
    put.at(total, (rows, places[leaves]), weights[leaves])
    total = np.where(np.isinf(total), 0.0, total) if how in (_MIN, _MAX) else total
    total = total / len(trees.roots) if how == _AVERAGE else total
    transform = int(node.attribute("post_transform", 0))
    if not 0 <= transform < len(TRANSFORMS):
        raise node.unsupported("post_transform", *range(len(TRANSFORMS)))
    return [transform_scores(total, TRANSFORMS[transform]).astype(x.dtype)]


def _members(node: Node, modes: Array) -> dict[int, Array]:
    """The sets of the nodes of mode 6, which are concatenated, each terminated by NaN."""
    places = np.flatnonzero(modes == _MEMBER)
    if not len(places):
        return {}
    values = _tensor(node, "membership_values")
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < len(places):
        raise node.refusal("onnx.invalid", "membership_values", f"{len(ends)} sets", f"{len(places)}, with NaN behind each")
    starts = [0, *(int(end) + 1 for end in ends[:-1])]
    return {int(place): values[start:end] for place, start, end in zip(places, starts, ends, strict=False)}


def required_integers(node: Node, name: str, default: Sequence[int] | None = None) -> Array:
    """An attribute of integers; required if there is no default."""
    return np.asarray(node.required(name) if default is None else node.attribute(name, default), np.int64)


def _tensor(node: Node, name: str, default: Array | None = None) -> Array:
    given = node.required(name) if default is None else node.attribute(name)
    return default if given is None and default is not None else np.ravel(numpy_helper.to_array(given))
