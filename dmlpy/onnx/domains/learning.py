"""Operators of ai.onnx.ml around linear models: features, scalings, scores. Sums are in FLOAT64, results in FLOAT32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed, plural
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
    transform_targets,
)
from dmlpy.onnx.loading.schemas import LEARNING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node


def _floats(node: Node) -> Sequence[OutputType]:
    return [(TensorProto.FLOAT, node.value(0).sizes)]


def _same(node: Node) -> Sequence[OutputType]:
    return [(node.value(0).element, node.value(0).sizes)]


def _by_feature(node: Node, name: str, given: Array, count: int) -> Array:
    """Numbers of an attribute for each feature: one, or one for each."""
    if len(given) not in (1, count):
        raise node.refusal("onnx.invalid", name, plural(len(given), "number"), f"1, or {count}, one for each feature")
    return given


@register_host_operator("Scaler", _floats, domain=LEARNING)
def scale(node: Node) -> Sequence[Array]:
    """`(x - offset) * scale`, by feature."""
    x = feature_rows(node)
    offset, factor = (_by_feature(node, name, numbers_of(node, name), x.shape[1]) for name in ("offset", "scale"))
    if len(offset) != len(factor):
        raise node.refusal("onnx.invalid", "scale", plural(len(factor), "number"), f"{len(offset)}, as many as offset has")
    return [((x - offset) * factor).astype(np.float32).reshape(node.sizes(0))]


@register_host_operator("Normalizer", _floats, domain=LEARNING)
def normalize(node: Node) -> Sequence[Array]:
    """Rows divided by their largest element, the sum of their magnitudes or their length; one whose divisor is 0 stays as it is."""
    norms: dict[str, Callable[[Array], Array]] = {
        "MAX": lambda x: x.max(-1, keepdims=True),
        "L1": lambda x: np.abs(x).sum(-1, keepdims=True),
        "L2": lambda x: np.sqrt((x * x).sum(-1, keepdims=True)),
    }
    norm = str(node.attribute("norm", "MAX"))
    if norm not in norms:
        raise node.invalid("norm", *norms)
    x = feature_rows(node)
    divisor = norms[norm](x) if x.shape[1] else np.ones((len(x), 1))
    return [(x / np.where(divisor == 0, 1, divisor)).astype(np.float32).reshape(node.sizes(0))]


@register_host_operator("Binarizer", _same, domain=LEARNING)
def binarize(node: Node) -> Sequence[Array]:
    """1 above the threshold, else 0, in the type of the input."""
    x = node.array(0)
    return [(x > np.float32(node.attribute("threshold", 0.0))).astype(x.dtype)]


@register_host_operator("Imputer", _same, domain=LEARNING)
def impute(node: Node) -> Sequence[Array]:
    """Elements that equal the replaced value, which may be NaN, become the imputed value of their feature."""
    x = node.array(0)
    kind, number = ("floats", "float") if x.dtype.kind == "f" else ("int64s", "int64")
    given = np.asarray(node.required(f"imputed_value_{kind}")).astype(x.dtype)
    replaced = x.dtype.type(node.attribute(f"replaced_value_{number}", 0))
    values = np.broadcast_to(_by_feature(node, f"imputed_value_{kind}", given, x.shape[-1]), x.shape)
    return [np.where((x == replaced) | ((x != x) & (replaced != replaced)), values, x)]


def _describe_extractor(node: Node) -> Sequence[OutputType]:
    x, places = node.value(0), node.value(1)
    if x.sizes is None or places.sizes is None or not places.is_static:
        return [(x.element, None)]
    count = int(np.prod(places.static_sizes))
    return [(x.element, (*x.sizes[:-1], count) if len(x.sizes) > 1 else (1, count))]


@register_host_operator("ArrayFeatureExtractor", _describe_extractor, domain=LEARNING)
def extract_features(node: Node) -> Sequence[Array]:
    """The elements of the last axis at some places; of a tensor of one dimension they are a row."""
    x, places = np.atleast_1d(node.array(0)), node.array(1).reshape(-1)
    if places.min(initial=0) < 0 or places.max(initial=0) >= x.shape[-1] or not len(places):
        found = listed(places[:8].tolist()) if len(places) else "no places"
        raise node.refusal("onnx.invalid", node.input_label(1), found, f"0 to {x.shape[-1] - 1}: axis {x.ndim - 1} of {listed(x.shape)}")
    node.reserve_elements(*x.shape[:-1], len(places))
    return [(x if x.ndim > 1 else x[None])[..., places]]


@register_host_operator("FeatureVectorizer", lambda node: [(TensorProto.FLOAT, None)], domain=LEARNING)
def join_features(node: Node) -> Sequence[Array]:
    """The features of all inputs one behind the other: of each as many as `inputdimensions` says, the first ones, or zeros behind them."""
    arrays = [node.array(index) for index in range(len(node.inputs))]
    widths = node.required("inputdimensions")
    if len(widths) != len(arrays) or min(widths) < 1:
        raise node.refusal("onnx.invalid", "inputdimensions", listed(widths), f"{len(arrays)} numbers of 1 or more, one for each input")
    count = arrays[0].shape[0] if arrays[0].ndim > 1 else 1
    node.reserve_elements(count, sum(widths))
    parts = []
    for array, width in zip(arrays, widths, strict=True):
        part = np.zeros((count, width), np.float32)
        rows = array.reshape(count, -1) if array.size else array.reshape(count, 0 if count else width)
        part[:, : rows.shape[1]] = rows[:, :width]
        parts.append(part)
    return [np.concatenate(parts, 1)]


def _describe_categories(node: Node) -> Sequence[OutputType]:
    x = node.value(0)
    count = len(node.attribute("cats_strings") or node.attribute("cats_int64s") or ())
    return [(TensorProto.FLOAT, None if x.sizes is None else (*x.sizes, count))]


@register_host_operator("OneHotEncoder", _describe_categories, domain=LEARNING)
def encode_categories(node: Node) -> Sequence[Array]:
    """A vector with a 1 at the place of each element's category; without one it is zeros, or refused where `zeros` is 0.

    Of a category that is given twice the last place counts, as in ONNX Runtime.
    """
    x = node.array(0)
    texts = x.dtype.kind in "OUS"
    name = "cats_strings" if texts else "cats_int64s"
    categories = np.asarray(node.required(name), object if texts else np.int64)
    node.reserve_elements(*x.shape, len(categories))
    known = x if texts else x.astype(np.int64)
    is_category = known[..., None] == categories
    if not node.attribute("zeros", 1) and not is_category.any(-1).all():
        lost = known[~is_category.any(-1)].reshape(-1)[0]
        raise node.refusal("onnx.invalid", node.input_label(0), repr(lost), f"one of {name}: zeros is 0")
    first = np.cumsum(is_category[..., ::-1], -1)[..., ::-1] == 1
    return [np.asarray(is_category & first, np.float32).reshape(*x.shape, len(categories))]


def _describe_scores(node: Node) -> Sequence[OutputType]:
    x = node.value(0)
    return [(TensorProto.FLOAT, None if x.sizes is None else (rows_of(x), int(node.attribute("targets", 1))))]


def _linear_scores(node: Node, targets: int) -> Array:
    """`x * coefficients + intercepts` for each target, [N, targets]."""
    coefficients, intercepts = numbers_of(node, "coefficients"), numbers_of(node, "intercepts")
    if targets < 1 or not len(coefficients) or len(coefficients) % targets:
        raise node.refusal(
            "onnx.invalid", "coefficients", plural(len(coefficients), "number"), f"a multiple of {max(targets, 1)}: one row a target"
        )
    if len(intercepts) not in (0, targets):
        raise node.refusal("onnx.invalid", "intercepts", plural(len(intercepts), "number"), f"{targets}, one for each target, or none")
    x = feature_rows(node, len(coefficients) // targets)
    node.reserve_elements(len(x), targets)
    return np.asarray(x @ coefficients.reshape(targets, -1).T + (intercepts if len(intercepts) else 0.0))


@register_host_operator("LinearRegressor", _describe_scores, domain=LEARNING)
def linear_regressor(node: Node) -> Sequence[Array]:
    """The scores of the targets, [N, targets]."""
    targets, transform = int(node.attribute("targets", 1)), transform_of(node)
    return [transform_targets(_linear_scores(node, targets), transform).astype(np.float32)]


def _coefficient_rows(node: Node, labels: Array) -> int:
    """The classes that have a row of coefficients: those of the intercepts, or of the labels."""
    return len(node.attribute("intercepts") or labels)


def _describe_classifier(node: Node) -> Sequence[OutputType]:
    labels = class_labels(node, "classlabels_ints")
    return describe_classes(node, labels, len(labels))


@register_host_operator("LinearClassifier", _describe_classifier, domain=LEARNING)
def linear_classifier(node: Node) -> Sequence[Array]:
    """The label of the largest score in each row, and the scores of the classes, [N, classes].

    Of two classes one row of coefficients may score the second one, which it is where the score is positive.
    """
    labels, transform = class_labels(node, "classlabels_ints"), transform_of(node)
    classes = _coefficient_rows(node, labels)
    if classes != len(labels) and (classes, len(labels)) != (1, 2):
        raise node.refusal("onnx.invalid", "intercepts", plural(classes, "number"), f"{len(labels)}, one for each label")
    if len(labels) < 2:
        raise node.refusal("onnx.attribute", "classlabels_ints", "one label", "at least two: ONNX does not say what one class means")
    scores = _linear_scores(node, classes)
    if classes > 1:
        return [labels[scores.argmax(-1)], transform_scores(scores, transform).astype(np.float32)]
    score = scores[:, 0]
    return [labels[(score > 0).astype(int)], transform_pairs(node, score, 1 - score, transform).astype(np.float32)]
