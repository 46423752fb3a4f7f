"""SVMRegressor and SVMClassifier (ai.onnx.ml): kernels of each row and each support vector. Sums are in FLOAT64, results in FLOAT32."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import plural
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.domains.scores import (
    class_labels,
    describe_classes,
    feature_rows,
    numbers_of,
    rows_of,
    transform_of,
    transform_pairs,
    transform_scores,
)
from dmlpy.onnx.loading.schemas import LEARNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_LEAST_SHARE = 1e-7
"""The least probability of a class in a pair."""
_MOST_ROUNDS = 100
"""The most rounds that couple the probabilities of pairs; LIBSVM and ONNX Runtime stop there."""
_NEAR = 0.005
"""How near the probabilities are to those that fit best, times the classes, where LIBSVM and ONNX Runtime stop."""


def _kernel(node: Node, x: Array, vectors: Array) -> Array:
    """The kernel of each row and each support vector, [N, vectors]."""
    name = str(node.attribute("kernel_type", "LINEAR"))
    if name not in _KERNELS:
        raise node.invalid("kernel_type", *_KERNELS)
    parameters = numbers_of(node, "kernel_params", (0.0, 0.0, 0.0))
    if len(parameters) != 3:
        raise node.refusal("onnx.invalid", "kernel_params", plural(len(parameters), "number"), "3: gamma, coef0 and degree")
    gamma, constant, degree = parameters
    if name == "RBF":
        node.reserve_elements(len(x), *vectors.shape)
        return np.asarray(np.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(-1)))
    node.reserve_elements(len(x), len(vectors))
    products = x @ vectors.T
    if name == "LINEAR":
        return np.asarray(products)
    products = gamma * products + constant
    return np.asarray(products**degree if name == "POLY" else np.tanh(products))


def _describe_regressor(node: Node) -> Sequence[OutputType]:
    x = node.value(0)
    return [(TensorProto.FLOAT, None if x.sizes is None else (rows_of(x), 1))]


@register_host_operator("SVMRegressor", _describe_regressor, domain=LEARNING)
def kernel_regressor(node: Node) -> Sequence[Array]:
    """The sum of the support vectors' kernels by their coefficients, and `rho`: [N, 1]; of `one_class` its sign, 1 or -1.

    ONNX Runtime transforms no single score.
    """
    transform_of(node)
    coefficients, rho = numbers_of(node, "coefficients"), numbers_of(node, "rho", (0.0,))
    count = int(node.attribute("n_supports", 0))
    vectors = numbers_of(node, "support_vectors")
    if count and (len(coefficients) != count or not len(vectors) or len(vectors) % count):
        found = f"{count}, of {len(coefficients)} coefficients and {len(vectors)} numbers"
        raise node.refusal("onnx.invalid", "n_supports", found, "the number of coefficients and of support vectors")
    x = feature_rows(node, len(vectors) // count if count else len(coefficients))
    found_scores = _kernel(node, x, vectors.reshape(count, -1)) @ coefficients if count else x @ coefficients
    scores: Any = found_scores[:, None] + rho[0]
    if node.attribute("one_class", 0):
        scores = np.where(scores > 0, 1, -1)
    return [scores.astype(np.float32)]


@dataclass(frozen=True)
class _Pairs:
    """A machine for each pair of classes, (0, 1), (0, 2) to the last two: its score is positive for the first class of the pair.

    Attributes:
        counts: the support vectors of each class, which follow each other.
        vectors: all of them, [vectors, features].
        coefficients: of each vector one for each other class in order, [classes - 1, vectors].
        rho: what each machine adds.
        shares: a factor and an offset for each machine, by which its scores become probabilities, [2, machines]; None without them.
    """

    counts: tuple[int, ...]
    vectors: Array
    coefficients: Array
    rho: Array
    shares: Array | None

    @classmethod
    def of(cls, node: Node, classes: int) -> _Pairs:
        counts = tuple(int(count) for count in node.attribute("vectors_per_class"))
        if len(counts) != classes:
            raise node.refusal("onnx.invalid", "vectors_per_class", plural(len(counts), "number"), f"{classes}, one for each label")
        total, machines = sum(counts), classes * (classes - 1) // 2
        vectors, coefficients, rho = (numbers_of(node, name) for name in ("support_vectors", "coefficients", "rho"))
        if not len(vectors) or len(vectors) % total:
            expected = f"a multiple of {total}: as many features of each support vector"
            raise node.refusal("onnx.invalid", "support_vectors", plural(len(vectors), "number"), expected)
        if len(coefficients) != (classes - 1) * total:
            expected = f"{(classes - 1) * total}: {classes - 1} for each of {total} support vectors"
            raise node.refusal("onnx.invalid", "coefficients", plural(len(coefficients), "number"), expected)
        shares = [numbers_of(node, name) for name in ("prob_a", "prob_b")]
        for name, given in (("rho", rho), *(zip(("prob_a", "prob_b"), shares, strict=True) if any(map(len, shares)) else ())):
            if len(given) != machines:
                raise node.refusal("onnx.invalid", name, plural(len(given), "number"), f"{machines}, one for each pair of labels")
        given = np.stack(shares) if len(shares[0]) else None
        return cls(counts, vectors.reshape(total, -1), coefficients.reshape(classes - 1, total), rho, given)

    def scores(self, kernels: Array) -> Array:
        """The score of each row by each machine, [rows, machines]."""
        ends = np.cumsum(self.counts)
        parts = [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]
        columns = [
            kernels[:, parts[one]] @ self.coefficients[other - 1, parts[one]]
            + kernels[:, parts[other]] @ self.coefficients[one, parts[other]]
            for one, other in combinations(range(len(parts)), 2)
        ]
        return np.stack(columns, -1) + self.rho

    def votes(self, scores: Array) -> Array:
        """How many machines choose each class, [rows, classes]."""
        votes = np.zeros((len(scores), len(self.counts)), int)
        for index, (one, other) in enumerate(combinations(range(len(self.counts)), 2)):
            votes[:, one] += scores[:, index] > 0
            votes[:, other] += ~(scores[:, index] > 0)
        return votes

    def probabilities(self, scores: Array) -> Array:
        """The probabilities of the classes, [rows, classes], that fit those of all pairs best."""
        assert self.shares is not None
        classes = len(self.counts)
        shares = np.clip(1 / (1 + np.exp(scores * self.shares[0] + self.shares[1])), _LEAST_SHARE, 1 - _LEAST_SHARE)
        pairs = np.zeros((len(scores), classes, classes))
        for index, (one, other) in enumerate(combinations(range(classes), 2)):
            pairs[:, one, other] = shares[:, index]
            pairs[:, other, one] = 1 - shares[:, index]
        return _couple(pairs)


def _couple(pairs: Array) -> Array:
    """Probabilities of classes that fit probabilities within pairs, as LIBSVM and ONNX Runtime approach them.

    T.-F. Wu, C.-J. Lin, R. C. Weng: Probability estimates for multi-class classification by pairwise coupling, JMLR 5, 2004, algorithm 2.
    It minimizes p Q p, where Q has the sums of r_ji squared on the diagonal, and - r_ij r_ji elsewhere, one p after the other.

    Args:
        pairs: the probability of class i if the class is i or j, [rows, i, j].
    """
    classes = pairs.shape[-1]
    diagonal = (pairs**2).sum(1)
    matrix = -pairs * pairs.swapaxes(1, 2) + diagonal[:, None] * np.eye(classes)
    shares = np.full(pairs.shape[:2], 1 / classes)
    active = np.arange(len(pairs))
    for _ in range(_MOST_ROUNDS):
        q, p = matrix[active], shares[active]
        products = (q @ p[..., None])[..., 0]
        total = (p * products).sum(-1)
        far = np.abs(products - total[:, None]).max(-1, initial=0) >= _NEAR / classes
        active, q, p, products, total = active[far], q[far], p[far], products[far], total[far]
        if not len(active):
            break
        for index in range(classes):
            on_diagonal = q[:, index, index]
            step = (total - products[:, index]) / on_diagonal
            p[:, index] += step
            scale = 1 + step
            total = (total + step * (step * on_diagonal + 2 * products[:, index])) / scale**2
            products = (products + step[:, None] * q[:, index]) / scale[:, None]
            p = p / scale[:, None]
        shares[active] = p
    return shares


def _describe_classifier(node: Node) -> Sequence[OutputType]:
    labels = class_labels(node, "classlabels_ints")
    classes = len(labels)
    by_class = classes == 2 or node.attribute("prob_a") or not sum(node.attribute("vectors_per_class") or ())
    return describe_classes(node, labels, classes if by_class else classes * (classes - 1) // 2)


@register_host_operator("SVMClassifier", _describe_classifier, domain=LEARNING)
def kernel_classifier(node: Node) -> Sequence[Array]:
    """The label that most pairs of classes choose, the first of equals, and scores in FLOAT32.

    The scores are the probabilities of the classes if prob_a and prob_b are given. Otherwise they are those of the pairs, and of two
    classes the negative score and the score; with the transforms SOFTMAX and SOFTMAX_ZERO `1 - score` and the score, untransformed, as in
    ONNX Runtime. Without support vectors each class has a row of coefficients; then the label is that of the largest score.
    """
    labels, transform = class_labels(node, "classlabels_ints"), transform_of(node)
    classes = len(labels)
    if classes < 2:
        raise node.refusal("onnx.attribute", "classlabels_ints", "one label", "at least two")
    if (least := min(node.attribute("vectors_per_class") or (0,))) < 0:
        raise node.refusal("onnx.invalid", "vectors_per_class", str(least), "numbers of 0 or more")
    if not sum(node.attribute("vectors_per_class") or ()):
        scores = _scores_of_classes(node, classes)
        return [labels[scores.argmax(-1)], transform_scores(scores, transform).astype(np.float32)]
    pairs = _Pairs.of(node, classes)
    x = feature_rows(node, pairs.vectors.shape[1])
    scores = pairs.scores(_kernel(node, x, pairs.vectors))
    winners = labels[pairs.votes(scores).argmax(-1)]
    if pairs.shares is not None:
        return [winners, transform_scores(pairs.probabilities(scores), transform).astype(np.float32)]
    if classes > 2:
        return [winners, transform_scores(scores, transform).astype(np.float32)]
    (score,) = scores.T
    other = -score if transform == "NONE" else 1 - score
    return [winners, transform_pairs(node, score, other, transform).astype(np.float32)]


def _scores_of_classes(node: Node, classes: int) -> Array:
    """`x * coefficients + rho` for each class, [N, classes]."""
    coefficients, rho = numbers_of(node, "coefficients"), numbers_of(node, "rho", (0.0,))
    if not len(coefficients) or len(coefficients) % classes:
        expected = f"a multiple of {classes}: one row a label"
        raise node.refusal("onnx.invalid", "coefficients", plural(len(coefficients), "number"), expected)
    x = feature_rows(node, len(coefficients) // classes)
    node.reserve_elements(len(x), classes)
    return np.asarray(x @ coefficients.reshape(classes, -1).T + rho[0])
