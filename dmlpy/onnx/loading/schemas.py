"""The domains of operators, and ONNX's operator schemas."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx import defs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's operators."""
LEARNING = "ai.onnx.ml"
"""ONNX's domain of classical machine learning."""
OWN = "dmlpy"
"""The domain of operators that dmlpy puts into the place of a model's nodes, and that no other domain has. Files may not use it."""


def domain_of(text: str) -> str:
    """A domain's name; ONNX's own has two."""
    return "" if text == "ai.onnx" else text


@cache
def first_opsets() -> Mapping[str, int]:
    """The first opset that has each of ONNX's own operators."""
    schemas = sorted(defs.get_all_schemas_with_history(), key=lambda schema: -schema.since_version)
    return {schema.name: schema.since_version for schema in schemas if not schema.domain}


def operators_of(opset: int) -> Iterator[str]:
    """The names of ONNX's own operators in an opset."""
    return (name for name, since in first_opsets().items() if since <= opset)


_BEFORE_ONNX = {"LayerNormalization": 17, "ThresholdedRelu": 10}
"""Operators that ONNX Runtime has in earlier opsets than ONNX, in the form of this one: its optimizer writes them into such models."""


def schema_of(op_type: str, opset: int, domain: str) -> defs.OpSchema | None:
    """The schema of an operator in an opset; None if neither ONNX nor ONNX Runtime has one."""
    try:
        return _known_schema(op_type, opset if domain else max(opset, _BEFORE_ONNX.get(op_type, 1)), domain)
    except defs.SchemaError:  # is not cached: a model may name anything
        return None


@lru_cache(1024)
def _known_schema(op_type: str, opset: int, domain: str) -> defs.OpSchema:
    return defs.get_schema(op_type, opset, domain)


_MISSING_TYPES = {name: {"T": frozenset({"tensor(bfloat16)"})} for name in ("NegativeLogLikelihoodLoss", "Where")}
"""Types that schemas lack, by variable, with which ONNX's definition of SoftmaxCrossEntropyLoss calls these operators all the same."""


class FormalInput(NamedTuple):
    """An input as a schema declares it.

    Attributes:
        name: its name.
        types: the types that it takes, as schemas spell them: `tensor(float)`.
        type_str: its type, or the variable for it.
        is_homogeneous: whether all inputs of that variable have one type.
        is_required: whether a node must give it.
    """

    name: str
    types: frozenset[str]
    type_str: str
    is_homogeneous: bool
    is_required: bool


class DeclaredAttribute(NamedTuple):
    """An attribute as a schema declares it.

    Attributes:
        kind: the name of its type: `INTS`.
        required: whether a node must state it.
    """

    kind: str
    required: bool


@lru_cache(1024)
def inputs_of(schema: defs.OpSchema) -> tuple[FormalInput, ...]:
    """The inputs of a schema, which ONNX makes anew, with all of their types, each time that they are read."""
    single = defs.OpSchema.FormalParameterOption.Single
    missing = _MISSING_TYPES.get(schema.name, {})
    inputs = []
    for item in schema.inputs:
        types, type_str = frozenset(item.types), str(item.type_str)
        types |= missing.get(type_str, frozenset())
        inputs.append(FormalInput(str(item.name), types, type_str, item.is_homogeneous, item.option == single))
    return tuple(inputs)


@lru_cache(1024)
def attributes_of(schema: defs.OpSchema) -> Mapping[str, DeclaredAttribute]:
    """The attributes of a schema by name, which ONNX makes anew each time that they are read."""
    return {name: DeclaredAttribute(_type_name(item), item.required) for name, item in schema.attributes.items()}


def _type_name(declared: Any) -> str:
    """The name of an attribute's type in a schema, which ONNX's stubs lack."""
    return str(declared.type.name)
