"""TreeEnsembleRegressor and -Classifier (ai.onnx.ml), older forms of TreeEnsemble: leaves are nodes, and nodes are identified by ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, numpy_helper

from dmlpy.messages.naming import Count, listed, plural
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.domains.scores import class_labels, describe_classes, transform_of, transform_pairs, transform_scores, transform_targets
from dmlpy.onnx.domains.trees import Trees, required_integers
from dmlpy.onnx.loading.schemas import LEARNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5, "LEAF": 6}
_LEAF = _MODES["LEAF"]


class _Ids:
    """The nodes of all trees by tree number and node number.

    Args:
        trees: the tree of each node.
        nodes: the number of each node within its tree.
    """

    def __init__(self, trees: Array, nodes: Array) -> None:
        self._trees, self._nodes = np.unique(trees), np.unique(nodes)
        keys = self._keys(trees, nodes)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self.are_unique = bool((np.diff(self._sorted) > 0).all())

    def find(self, trees: Array, nodes: Array) -> Array:
        """The indices of nodes; -1 for missing ones."""
        keys = self._keys(trees, nodes)
        places = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        nodes_of_keys: Array = np.where((keys >= 0) & (self._sorted[places] == keys), self._order[places], -1)
        return nodes_of_keys

    def _keys(self, trees: Array, nodes: Array) -> Array:
        """A number for each pair; -1 for a tree or a number that no node has."""
        keys = np.zeros(len(trees), np.int64)
        known = np.ones(len(trees), bool)
        for kinds, given in ((self._trees, trees), (self._nodes, nodes)):
            places = np.minimum(np.searchsorted(kinds, given), len(kinds) - 1)
            known &= kinds[places] == given
            keys = keys * len(kinds) + places
        return np.where(known, keys, -1)


@dataclass(frozen=True)
class _Nodes:
    """The nodes of all trees, as the attributes list them.

    Attributes:
        tree_ids: the number of each node's tree.
        node_ids: its number there.
        modes: its comparison, or leaf.
        features: the column of the input that it reads.
        splits: the threshold.
        tracks: whether NaN follows the true branch.
        children: the numbers of its child nodes: of the false branch, then of the true branch.
    """

    tree_ids: Array
    node_ids: Array
    modes: Array
    features: Array
    splits: Array
    tracks: Array
    children: tuple[Array, Array]

    @classmethod
    def of(cls, node: Node) -> _Nodes:
        names = node.attribute("nodes_modes") or []
        if unknown := sorted(set(names) - _MODES.keys()):
            raise node.refusal("onnx.invalid", "nodes_modes", repr(unknown[0]), f"one of {listed([*_MODES])}")
        count = len(names)
        nodes = cls(
            tree_ids=required_integers(node, "nodes_treeids"),
            node_ids=required_integers(node, "nodes_nodeids"),
            modes=np.asarray([_MODES[name] for name in names], np.int64),
            features=required_integers(node, "nodes_featureids"),
            splits=_numbers(node, "nodes_values"),
            tracks=required_integers(node, "nodes_missing_value_tracks_true", [0] * count).astype(bool),
            children=(required_integers(node, "nodes_falsenodeids"), required_integers(node, "nodes_truenodeids")),
        )
        others = (nodes.tree_ids, nodes.node_ids, nodes.features, nodes.splits, nodes.tracks, *nodes.children)
        if not count or any(len(given) != count for given in others):
            expected = "as many as the other attributes of nodes have, at least one"
            raise node.refusal("onnx.invalid", "nodes_modes", f"{count} texts", expected)
        return nodes

    def roots(self, node: Node, ways: Array) -> Array:
        """The index of each tree's root, which is not a node's child."""
        roots = np.flatnonzero(~np.isin(np.arange(len(self.modes)), ways))
        trees = np.unique(self.tree_ids)
        if len(roots) != len(trees) or len(np.unique(self.tree_ids[roots])) != len(trees):
            expected = "in each tree one node that no other leads to"
            raise node.refusal("onnx.invalid", "nodes_truenodeids", "a tree without a root, or with several", expected)
        children = np.full((2, len(self.modes)), -1)
        children[:, self.modes != _LEAF] = ways
        reached, front = np.zeros(len(self.modes), bool), roots
        while len(front):
            reached[front] = True
            behind = np.unique(children[:, front])
            front = behind[(behind >= 0) & ~reached[behind]]
        if not reached.all():
            found = Count(f"{int((~reached).sum())} nodes that lead in a circle")
            raise node.refusal("onnx.invalid", "nodes_truenodeids", found, "nodes that the root of their tree leads to")
        return roots


@dataclass(frozen=True)
class _Forest:
    """The trees of a node, and the weights of their leaves.

    Attributes:
        trees: the trees.
        weights: the weight of each leaf for each target, FLOAT64 [leaves, targets].
        present: which of them the node has.
    """

    trees: Trees
    weights: Array
    present: Array

    @classmethod
    def of(cls, node: Node, targets: int, kind: str = "target") -> _Forest:
        """The forest of a node.

        Args:
            node: the node.
            targets: the targets or classes that leaves have weights for.
            kind: the word that the names of the attributes of these begin with.
        """
        nodes = _Nodes.of(node)
        ids = _Ids(nodes.tree_ids, nodes.node_ids)
        if not ids.are_unique:
            raise node.refusal("onnx.invalid", "nodes_nodeids", "a number that two nodes of a tree have", "each number once in a tree")
        is_leaf = nodes.modes == _LEAF
        inner = np.flatnonzero(~is_leaf)
        ways = np.stack([ids.find(nodes.tree_ids[inner], given[inner]) for given in nodes.children])
        if (ways < 0).any():
            raise node.refusal("onnx.invalid", "nodes_truenodeids", "a number that no node of the tree has", "the number of a node")
        roots = nodes.roots(node, ways)
        numbers = np.where(is_leaf, is_leaf.cumsum(), (~is_leaf).cumsum()) - 1
        # A tree of one leaf gets a root, both of whose branches lead to the leaf.
        alone = roots[is_leaf[roots]]
        starts = numbers[roots]
        starts[is_leaf[roots]] = len(inner) + np.arange(len(alone))
        more = np.zeros(len(alone), np.int64)
        trees = Trees(
            features=np.concatenate([nodes.features[inner], more]),
            modes=np.concatenate([nodes.modes[inner], more]),
            splits=np.concatenate([nodes.splits[inner], more.astype(nodes.splits.dtype)]),
            ways=np.concatenate([numbers[ways], np.stack([numbers[alone]] * 2)], 1),
            ends=np.concatenate([is_leaf[ways], np.ones((2, len(alone)), bool)], 1),
            tracks=np.concatenate([nodes.tracks[inner], more.astype(bool)]),
            members={},
            roots=starts,
        )
        node.reserve_elements(2, int(is_leaf.sum()), targets)
        return cls(trees, *_leaf_weights(node, targets, kind, ids, numbers, is_leaf))

    def combine(self, x: Array, function: Any, first: float) -> tuple[Array, Array]:
        """Combines the weights of each row's leaves by target, starting from `first`, and returns whether there were any."""
        leaves = self.trees.leaves(x)
        total = np.full((len(x), self.weights.shape[1]), first)
        given = np.zeros(total.shape, bool)
        for tree in range(leaves.shape[1]):
            weights, present = self.weights[leaves[:, tree]], self.present[leaves[:, tree]]
            total = np.where(present, function(total, weights), total)
            given |= present
        return total, given


def _leaf_weights(node: Node, targets: int, kind: str, ids: _Ids, numbers: Array, is_leaf: Array) -> tuple[Array, Array]:
    """The weights of the leaves by target, and which of them exist."""
    tree_ids, node_ids, places = (required_integers(node, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    given = _numbers(node, f"{kind}_weights").astype(np.float64)
    if not len(tree_ids) == len(node_ids) == len(places) == len(given):
        raise node.refusal(
            "onnx.invalid", f"{kind}_ids", plural(len(places), "number"), f"as many as the other attributes of a {kind} have"
        )
    if places.min(initial=0) < 0 or places.max(initial=0) >= targets:
        raise node.refusal("onnx.invalid", f"{kind}_ids", listed(places[:8].tolist()), f"0 to {targets - 1}")
    leaves = ids.find(tree_ids, node_ids)
    if (leaves < 0).any():
        raise node.refusal("onnx.invalid", f"{kind}_nodeids", "a number that no node of the tree has", "the number of a leaf")
    of_leaves = is_leaf[leaves]
    at = numbers[leaves[of_leaves]], places[of_leaves]
    shape = int(is_leaf.sum()), targets
    weights, present = np.zeros(shape), np.zeros(shape, bool)
    np.add.at(weights, at, given[of_leaves])
    present[at] = True
    return weights, present


def _rows(node: Node, forest: _Forest) -> Array:
    """The rows of the input."""
    x, features = node.array(0), forest.trees.features
    if x.ndim != 2 or features.min(initial=0) < 0 or features.max(initial=0) >= x.shape[1]:
        expected = f"2 dimensions, the last of more than {features.max(initial=0)}"
        raise node.refusal("onnx.invalid", "input 0 'X'", listed(x.shape), expected)
    return x


def _base(node: Node, targets: int) -> Array:
    base = _numbers(node, "base_values", required=False).astype(np.float64)
    if len(base) not in (0, targets):
        raise node.refusal("onnx.invalid", "base_values", plural(len(base), "number"), f"{targets}, one for each, or none")
    return base if len(base) else np.zeros(targets)


def _describe_regressor(node: Node) -> Sequence[OutputType]:
    x = node.value(0)
    return [(TensorProto.FLOAT, None if x.sizes is None else (x.sizes[0], int(node.attribute("n_targets", 1))))]


@register_host_operator("TreeEnsembleRegressor", _describe_regressor, domain=LEARNING)
def tree_regressor(node: Node) -> Sequence[Array]:
    """The weights of each row's leaves, combined by target: [rows, n_targets]. Sums are in FLOAT64."""
    targets = int(node.attribute("n_targets", 1))
    forest = _Forest.of(node, targets)
    x, how = _rows(node, forest), node.attribute("aggregate_function", "SUM")
    functions = {"SUM": (np.add, 0.0), "AVERAGE": (np.add, 0.0), "MIN": (np.minimum, np.inf), "MAX": (np.maximum, -np.inf)}
    if how not in functions:
        raise node.invalid("aggregate_function", *functions)
    transform = transform_of(node)
    total, given = forest.combine(x, *functions[how])
    total = np.where(given, total, 0.0)
    total = total / len(forest.trees.roots) if how == "AVERAGE" else total
    # ONNX Runtime adds no base value to targets that no leaf scores.
    total = total + np.where(given | (targets == 1), _base(node, targets), 0.0)
    return [transform_targets(total, transform).astype(np.float32)]


def _describe_classifier(node: Node) -> Sequence[OutputType]:
    classes = _classes(node)
    return describe_classes(node, classes, len(classes))


def _classes(node: Node) -> Array:
    """The labels of the classes."""
    labels = class_labels(node, "classlabels_int64s")
    if len(labels) < 2:
        raise node.refusal("onnx.attribute", "classlabels", "one label", "at least two: ONNX does not say what one class means")
    return labels


@register_host_operator("TreeEnsembleClassifier", _describe_classifier, domain=LEARNING)
def tree_classifier(node: Node) -> Sequence[Array]:
    """The label of the largest score in each row, and the scores of the classes, [rows, classes]. Sums are in FLOAT64."""
    classes = _classes(node)
    forest = _Forest.of(node, len(classes), "class")
    transform = transform_of(node)
    total, _ = forest.combine(_rows(node, forest), np.add, 0.0)
    scored = {*required_integers(node, "class_ids").tolist()}
    if len(classes) == 2 and scored == {0}:
        scores = _scores_of_two(node, total[:, 0] + _base(node, 1)[0], transform)
    else:
        scores = transform_scores(total + _base(node, len(classes)), transform)
    return [classes[scores.argmax(-1)], scores.astype(np.float32)]


def _scores_of_two(node: Node, score: Array, transform: str) -> Array:
    """The scores of two classes where leaves have one weight: that of the second class, as ONNX Runtime and the reference have it."""
    is_share = _numbers(node, "class_weights").min() >= 0  # weights of which none is negative are taken for shares
    return transform_pairs(node, score, (1.0 if is_share else 0.0) - score, transform)


def _numbers(node: Node, name: str, *, required: bool = True) -> Array:
    """Numbers from an attribute of floats, or from a tensor in another attribute."""
    tensor = node.attribute(f"{name}_as_tensor")
    if tensor is not None:
        return np.ravel(numpy_helper.to_array(tensor))
    return np.asarray((node.required(name) if required else node.attribute(name)) or [], np.float32)
