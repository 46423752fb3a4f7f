"""ZipMap, CastMap and DictVectorizer (ai.onnx.ml): rows of scores as maps, and maps as rows. Maps are dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.domains.scores import class_labels
from dmlpy.onnx.loading.schemas import LEARNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_CASTS: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}


@register_host_operator("ZipMap", lambda _: [(None, None)], domain=LEARNING)
def map_scores(node: Node) -> Sequence[Any]:
    """A map of the labels to each row's scores, as a list; a tensor of one dimension is a row. Of equal labels the last score counts."""
    labels, x = class_labels(node, "classlabels_int64s"), node.array(0)
    if x.ndim not in (1, 2) or x.shape[-1] != len(labels):
        raise node.refusal("onnx.invalid", node.input_label(0), listed(x.shape), f"[N, {len(labels)}]: a score for each label")
    keys = labels.tolist()
    return [[dict(zip(keys, row, strict=True)) for row in np.atleast_2d(x).tolist()]]


def _map_of(node: Node) -> dict[Any, Any]:
    given: Any = node.array(0)
    if not isinstance(given, dict):
        raise node.refusal("onnx.type", node.input_label(0), brief(given), "a map")
    return given


def _vocabulary(node: Node) -> list[Any]:
    """The keys of the columns."""
    texts, numbers = node.attribute("string_vocabulary"), node.attribute("int64_vocabulary")
    if bool(texts) == bool(numbers):
        found = "left out" if not texts else "given beside string_vocabulary"
        raise node.refusal("onnx.invalid", "int64_vocabulary", found, "keys as integers or as texts")
    return [*(texts or numbers)]


def _describe_vector(node: Node) -> Sequence[OutputType]:
    described = node.value(0).described
    element = None if described is None else described.map_type.value_type.tensor_type.elem_type or None
    return [(element, (1, len(_vocabulary(node))))]


@register_host_operator("DictVectorizer", _describe_vector, domain=LEARNING)
def vectorize(node: Node) -> Sequence[Array]:
    """The values of the vocabulary's keys in order, [1, keys]; 0 or an empty text where the map has none."""
    given, keys = _map_of(node), _vocabulary(node)
    values = [*given.values()]
    if not values:
        raise node.refusal("onnx.empty", node.input_label(0), "a map without elements", "at least one: they have the type of the result")
    dtype: Any = object if isinstance(values[0], str) else np.result_type(*values)
    missing = "" if dtype is object else 0
    return [np.asarray([[given.get(key, missing) for key in keys]], dtype)]


def _describe_cast(node: Node) -> Sequence[OutputType]:
    kinds = {"TO_FLOAT": TensorProto.FLOAT, "TO_INT64": TensorProto.INT64, "TO_STRING": TensorProto.STRING}
    return [(kinds.get(str(node.attribute("cast_to", "TO_FLOAT"))), None)]


@register_host_operator("CastMap", _describe_cast, domain=LEARNING)
def cast_map(node: Node) -> Sequence[Array]:
    """The values of a map in another type, [1, values]: in the order of the keys, or each at the place of its key, below max_map."""
    given, kind, form = _map_of(node), str(node.attribute("cast_to", "TO_FLOAT")), str(node.attribute("map_form", "DENSE"))
    if kind not in _CASTS:
        raise node.invalid("cast_to", *_CASTS)
    if form not in ("DENSE", "SPARSE"):
        raise node.invalid("map_form", "DENSE", "SPARSE")
    values = {key: _cast(value, kind) for key, value in sorted(given.items())}
    if form == "DENSE":
        return [np.asarray([[*values.values()]], _CASTS[kind])]
    width = node.count("max_map", 1)
    if min(values, default=0) < 0:
        raise node.refusal("onnx.invalid", node.input_label(0), f"the key {min(values)}", "keys of 0 or more: map_form is 'SPARSE'")
    node.reserve_elements(width)
    missing = "0.f" if kind == "TO_STRING" else 0  # ONNX Runtime's text
    return [np.asarray([[values.get(place, missing) for place in range(width)]], _CASTS[kind])]


def _cast(value: Any, kind: str) -> Any:
    if kind == "TO_STRING":
        return value if isinstance(value, str) else f"{value:f}"
    return float(value) if kind == "TO_FLOAT" else int(float(value))
