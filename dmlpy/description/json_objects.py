"""JSON objects as mappings: text that may have comments, mappings of callers' classes, and nested descs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dmlpy.description.coercion import brief
from dmlpy.messages.json_nesting import MAX_NESTING, NestingError, decoded
from dmlpy.messages.json_text import without_comments
from dmlpy.messages.problems import DescError, Problem

MAX_MEMBERS = 10_000
"""The most members of an object that is read as a struct; the structs have some thirty."""


def read_json(text: str | bytes, subject: str) -> Any:
    """Parses JSON text, which may have comments and trailing commas, as files do.

    Raises:
        DescError: it is no text, not JSON, or nested too deeply; `subject` names what was expected.
    """
    if not isinstance(text, str | bytes | bytearray):
        remedy = "from_dict takes an object" if isinstance(text, Mapping) else None
        raise DescError(subject, [Problem("field.form", "text", brief(text), "a text in JSON", remedy=remedy)])
    try:
        if not isinstance(text, str):
            text = text.decode("utf-8-sig")
        try:
            return decoded(text)
        except json.JSONDecodeError:
            return decoded(without_comments(text))
    except NestingError:
        problem = Problem("json.depth", "", "nested too deeply", f"at most {MAX_NESTING} nested objects and arrays")
        raise DescError(subject, [problem]) from None
    except ValueError as error:
        problem = Problem("json.syntax", "", "not JSON", "a JSON object", why=(str(error),))
        raise DescError(subject, [problem]) from None


def plain(data: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Converts a mapping of any class to a dict.

    Raises:
        DescError: its methods raise something, or a key is not a string; `subject` names what was expected.
    """
    try:
        members = data if type(data) is dict else dict(data.items())
    except Exception as error:
        why = (f"reading it raises {type(error).__name__}",)
        raise DescError(subject, [Problem("field.form", "", brief(data), "an object that can be read", why)]) from None
    for key in members:
        if not isinstance(key, str):
            raise DescError(subject, [Problem("field.form", "", f"the key {brief(key)}", "a member's name")])
    return members


def unwrap(data: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens a JSON struct nested as `{"Type": ..., "Desc": {...}}`; `Type` and `Desc` may be in any case.

    Raises:
        DescError: a key is not a string, or the mapping cannot be read.
    """
    given = plain(data, "struct")
    if len(given) > MAX_MEMBERS:
        raise DescError("struct", [Problem("field.unknown", "", f"an object of {len(given)} members", f"at most {MAX_MEMBERS}")])
    members = {key.capitalize() if key.lower() in ("type", "desc") else key: value for key, value in given.items()}
    nested = members.get("Desc")
    if isinstance(nested, Mapping):
        del members["Desc"]
        # If there is a type next to Desc, one inside Desc is a member of the struct, as in RANDOM_GENERATOR.
        members |= {key: value for key, value in plain(nested, "struct").items() if key != "Type" or "Type" not in members}
    return members
