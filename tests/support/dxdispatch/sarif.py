"""A JSON Schema of the parts of SARIF 2.1.0 that `dmlpy check` writes."""

from __future__ import annotations

from typing import Any


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
INDEX = {"type": "integer", "minimum": 1}
ARTIFACT = _object("uri", uri={"type": "string", "format": "uri-reference", "pattern": "^[^ \\\\]+$"}, uriBaseId=TEXT)
PLACE = _object("artifactLocation", artifactLocation=ARTIFACT, region=_object("startLine startColumn", startLine=INDEX, startColumn=INDEX))
NAMES = {"type": "array", "items": _object("fullyQualifiedName", fullyQualifiedName=TEXT)}
LOCATION = _object("physicalLocation", physicalLocation=PLACE, logicalLocations=NAMES)
RESULT = _object(
    "ruleId ruleIndex level message locations",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=_object("text", text=TEXT),
    locations={"type": "array", "items": LOCATION, "minItems": 1, "maxItems": 1},
    properties=_object("severity", severity={"const": "undocumented"}),
)
RULES = {"type": "array", "items": _object("id", id=TEXT), "uniqueItems": True}
RUN = _object(
    "tool results columnKind",
    tool=_object("driver", driver=_object("name", name=TEXT, version=TEXT, rules=RULES)),
    invocations={
        "type": "array",
        "items": _object("executionSuccessful", executionSuccessful={"type": "boolean"}, exitCode={"type": "integer"}),
    },
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    artifacts={"type": "array", "items": _object("location", location=ARTIFACT), "uniqueItems": True},
    results={"type": "array", "items": RESULT},
)
SARIF = _object("version runs", **{"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": {"type": "array", "items": RUN}})
"""The rules of SARIF 2.1.0 for the objects that are written."""
