"""LabelEncoder and CategoryMapper (ai.onnx.ml): tables that replace each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from dmlpy.messages.naming import Count, plural
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.loading.schemas import LEARNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_BY_TABLES = 2
"""The opset of ai.onnx.ml from which on LabelEncoder has keys and values; before, a list of texts and their places."""
_TYPES: dict[str, tuple[Any, Any]] = {"strings": (object, "_Unused"), "int64s": (np.int64, -1), "floats": (np.float32, np.float32(-0.0))}
"""The type of keys and values by the end of the attributes' names, and the value of what has no key."""
_NAN = object()
"""The key of NaN, which equals nothing."""
_DEFAULTS = {"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}


def _is_text(node: Node) -> bool:
    return node.value(0).element == TensorProto.STRING


def _column(node: Node, kind: str) -> tuple[Array, Any]:
    """The keys or the values of a table, and the default of values."""
    tensor = node.attribute(f"{kind}_tensor")
    if tensor is not None:
        column = numpy_helper.to_array(tensor).reshape(-1)
        if column.dtype.hasobject:
            column = np.array([item.decode() if isinstance(item, bytes) else item for item in column], object)
        ends = {"O": "strings", "i": "int64s", "f": "floats"}
        default = node.attribute("default_tensor")
        usual = column.dtype.type(_TYPES[ends[column.dtype.kind]][1]) if column.dtype.kind in "if" else "_Unused"
        return column, usual if default is None else numpy_helper.to_array(default).reshape(-1)[0]
    given = [end for end in _TYPES if node.attribute(f"{kind}_{end}")]
    if len(given) != 1:
        names = ", ".join(f"{kind}_{end}" for end in _TYPES)
        raise node.refusal("onnx.invalid", kind, plural(len(given), "attribute"), f"one of {names}")
    (end,) = given
    dtype, default = _TYPES[end]
    return np.asarray(node.attribute(f"{kind}_{end}"), dtype), node.attribute(_DEFAULTS[end], default)


def _table(node: Node) -> tuple[Array, Array, Any]:
    """Keys, values, and the value of what has no key."""
    older = {"CategoryMapper": ("cats_strings", "cats_int64s"), "LabelEncoder": ("classes_strings", None)}
    if node.op_type == "LabelEncoder" and node.opset >= _BY_TABLES:
        (keys, _), (values, default) = _column(node, "keys"), _column(node, "values")
    else:
        texts, numbers = older[node.op_type]
        names = np.asarray(node.required(texts), object)
        places = np.arange(len(names)) if numbers is None else np.asarray(node.required(numbers), np.int64)
        keys, values = (names, places) if _is_text(node) else (places, names)
        default = node.attribute("default_int64", -1) if _is_text(node) else node.attribute("default_string", "_Unused")
    if len(keys) != len(values):
        raise node.refusal("onnx.invalid", "values", Count(plural(len(values), "value")), f"{len(keys)}, one for each key")
    return keys, values, default


def _describe(node: Node) -> Sequence[OutputType]:
    _, values, _ = _table(node)
    element = TensorProto.STRING if values.dtype.hasobject else helper.np_dtype_to_tensor_dtype(values.dtype)
    return [(element, node.value(0).sizes)]


@register_host_operator("CategoryMapper", _describe, domain=LEARNING)
@register_host_operator("LabelEncoder", _describe, domain=LEARNING)
def replace_elements(node: Node) -> Sequence[Array]:
    """The value of each element's key, the first where several are equal; NaN is a key like others."""
    x = node.array(0)
    keys, values, default = _table(node)
    if (x.dtype.kind in "OUS") != keys.dtype.hasobject:
        expected = "texts, as the keys are" if keys.dtype.hasobject else "numbers, as the keys are"
        raise node.refusal("onnx.invalid", node.input_label(0), str(x.dtype), expected)
    known: dict[Any, Any] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        known.setdefault(key if key == key else _NAN, value)
    replaced = [known.get(item if item == item else _NAN, default) for item in x.reshape(-1).tolist()]
    return [np.asarray(replaced, values.dtype).reshape(x.shape)]
