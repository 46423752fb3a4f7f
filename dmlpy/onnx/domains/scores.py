"""Shared by the models of ai.onnx.ml: rows of features, the labels of classes, and the final transforms of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.nodes.node import Node

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""The final transforms of scores, by the number that TreeEnsemble has for them."""
_WINITZKI = 0.147
"""The constant of Winitzki's approximation."""


def transform_of(node: Node) -> str:
    """The node's post_transform, one of `TRANSFORMS`."""
    transform = str(node.attribute("post_transform", "NONE"))
    if transform not in TRANSFORMS:
        raise node.unsupported("post_transform", *TRANSFORMS)
    return transform


def transform_scores(scores: Array, transform: str) -> Array:
    """The scores after a post_transform, one of `TRANSFORMS`."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return np.asarray(1 / (1 + np.exp(-scores)))
    if transform == "PROBIT":
        return _probits(scores)
    kept = np.ones_like(scores, bool) if transform == "SOFTMAX" else scores != 0
    shares = np.where(kept, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return np.asarray(shares / np.maximum(shares.sum(-1, keepdims=True), np.finfo(float).tiny))


def transform_targets(scores: Array, transform: str) -> Array:
    """The scores of a regressor's targets, [rows, targets], after a post_transform: ONNX Runtime applies only PROBIT to a single target."""
    return transform_scores(scores, transform) if scores.shape[-1] > 1 or transform == "PROBIT" else scores


def transform_pairs(node: Node, score: Array, other: Array, transform: str) -> Array:
    """The scores of two classes that share one, [rows, 2], after a post_transform: ONNX Runtime applies only LOGISTIC to them.

    Args:
        node: the node.
        score: the score of the second class, [rows].
        other: that of the first class without a transform.
        transform: one of `TRANSFORMS`.

    Raises:
        NotLowered: it is PROBIT: ONNX does not say what the other score is, and ONNX Runtime leaves it unset.
    """
    if transform == "PROBIT":
        expected = f"one of {listed([name for name in TRANSFORMS if name != transform])}, where two classes share one score"
        raise node.refusal("onnx.attribute", "post_transform", repr(transform), expected)
    if transform == "LOGISTIC":
        return transform_scores(np.stack([-score, score], -1), transform)
    return np.stack([other, score], -1)


def _probits(shares: Array) -> Array:
    """The quantiles of the normal distribution, by Winitzki's approximation of the inverse error function.

    ONNX does not define PROBIT; ONNX Runtime and ONNX's reference implementation approximate it so, up to 0.5% off. Outside of 0 to 1 the
    result is NaN.
    """
    given = 2 * shares - 1
    logs = np.log((1 - given) * (1 + given))
    first, second = 2 / (np.pi * _WINITZKI) + logs / 2, logs / _WINITZKI
    return np.asarray(np.sqrt(2) * np.sign(given) * np.sqrt(np.sqrt(first * first - second) - first))


def class_labels(node: Node, integers: str) -> Array:
    """The labels of the classes: texts, or the integers of the attribute of that name."""
    texts, numbers = node.attribute("classlabels_strings"), node.attribute(integers)
    if bool(texts) == bool(numbers):
        found = "left out" if not texts else "given beside classlabels_strings"
        raise node.refusal("onnx.invalid", integers, found, "labels as integers or as texts")
    labels: Array = np.asarray(texts, object) if texts else np.asarray(numbers, np.int64)
    return labels


def describe_classes(node: Node, labels: Array, scores: int) -> Sequence[OutputType]:
    """The types of a classifier's labels, one a row, and of its scores, [rows, scores]."""
    element = TensorProto.STRING if labels.dtype.hasobject else TensorProto.INT64
    x = node.value(0)
    return (
        [(element, None), (TensorProto.FLOAT, None)]
        if x.sizes is None
        else [(element, (rows_of(x),)), (TensorProto.FLOAT, (rows_of(x), scores))]
    )


def rows_of(x: Value) -> int | str | None:
    """The rows of features of an input whose rank is known: a tensor of one dimension is a row."""
    assert x.sizes is not None
    return x.sizes[0] if len(x.sizes) > 1 else 1


def numbers_of(node: Node, name: str, default: Sequence[float] = ()) -> Array:
    """An attribute of floats, in FLOAT64; they are those of FLOAT32."""
    return np.asarray(node.attribute(name) or default, np.float32).astype(np.float64)


def feature_rows(node: Node, features: int | None = None) -> Array:
    """The input in FLOAT64 as rows of features: a tensor of one dimension is a row."""
    x = node.array(0)
    if x.ndim not in (1, 2) or (features is not None and x.shape[-1] != features):
        expected = "1 or 2 dimensions" if features is None else f"[N, {features}]: a row of features for each sample"
        raise node.refusal("onnx.invalid", node.input_label(0), listed(x.shape), expected)
    return np.atleast_2d(x).astype(np.float64)
