"""The domains of operators, and ONNX's operator schemas."""

from __future__ import annotations

from functools import cache, lru_cache

from onnx import defs

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's operators."""
LEARNING = "ai.onnx.ml"
"""ONNX's domain of classical machine learning."""


@cache
def operators_of(opset: int) -> frozenset[str]:
    """The names of ONNX's own operators in an opset."""
    return frozenset(schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain and schema.since_version <= opset)


def schema_of(op_type: str, opset: int, domain: str) -> defs.OpSchema | None:
    """The schema of an operator in an opset; None if ONNX has none."""
    try:
        return _known_schema(op_type, opset, domain)
    except defs.SchemaError:  # is not cached: a model may name anything
        return None


@lru_cache(1024)
def _known_schema(op_type: str, opset: int, domain: str) -> defs.OpSchema:
    return defs.get_schema(op_type, opset, domain)
