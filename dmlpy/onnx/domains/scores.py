"""What the models of ai.onnx.ml share: the labels of classes, and the final transforms of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
"""The final transforms of scores, by the number that TreeEnsemble has for them."""


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
    kept = np.ones_like(scores, bool) if transform == "SOFTMAX" else scores != 0
    shares = np.where(kept, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return np.asarray(shares / np.maximum(shares.sum(-1, keepdims=True), np.finfo(float).tiny))


def class_labels(node: Node, integers: str) -> Array:
    """The labels of the classes: texts, or the integers of the attribute of that name."""
    texts, numbers = node.attribute("classlabels_strings"), node.attribute(integers)
    if bool(texts) == bool(numbers):
        found = "left out" if not texts else "given beside classlabels_strings"
        raise node.refusal("onnx.invalid", integers, found, "labels as integers or as texts")
    labels: Array = np.asarray(texts, object) if texts else np.asarray(numbers, np.int64)
    return labels
