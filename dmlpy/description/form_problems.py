"""Values that a struct cannot hold, as problems: pydantic's errors in dmlpy's words, with remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args, get_origin

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DmlEnum
from dmlpy.description.form_remedies import form_problems
from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import DescError, Problem, truncate

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_PLAIN = {"tuple_type": "an array", "string_type": "a text", "bytes_type": "bytes"}
"""The expectation to show for kinds of pydantic errors that would otherwise appear in pydantic's words."""

_SINGULARS: dict[type, str] = {bool: "True or False", int: "an integer", float: "a number", str: "a text", bytes: "bytes"}
_PLURALS: dict[type, str] = {bool: "flags", int: "integers", float: "numbers", str: "texts"}
"""The kinds of values that members of Python's types hold."""


def struct_problems(kind: type[BaseModel], error: ValidationError) -> list[Problem]:
    """The problems of members that a struct cannot hold, from pydantic's errors."""
    problems = []
    for item in error.errors(include_url=False):
        path = ""
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else ("." if path else "") + str(part)
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, DescError):
            problems += [problem.under(path) for problem in cause.problems]
        elif item["type"] == "missing":
            remedy = (
                "pass its desc: TensorDesc(data_type=..., sizes=...)" if path.startswith("output") and path.endswith("_tensor") else None
            )
            problems.append(Problem("field.missing", path, "missing", f"{_value_of(kind, path)}: the member is required", remedy=remedy))
        elif item["type"] == "json_invalid":
            problems.append(Problem("json.syntax", path, "not JSON", "a JSON object", why=(item["msg"],)))
        elif item["type"] == "model_type":
            required = ": the member is required" if item["input"] is None else ""
            expected = f"{with_article(item['ctx']['class_name'])}{required}"
            problems.append(Problem("field.form", path, brief(item["input"]), expected))
        else:
            expected = str(cause).removeprefix("expected ") if cause else _PLAIN.get(item["type"], item["msg"])
            problems += truncate(form_problems(path, item["input"], expected, getattr(cause, "prefix", "")))
    return problems


def _value_of(kind: type[BaseModel], path: str) -> str:
    """The expected value of a missing member: one of an enumeration's names, or the kind of value."""
    annotation = kind.model_fields[path].annotation if path in kind.model_fields else None
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        return f"a sequence of {_PLURALS.get(item, f'{item.__name__}s')}" if isinstance(item, type) else "a sequence"
    if not isinstance(annotation, type):
        return "a number" if float in get_args(annotation) else "a value"
    if issubclass(annotation, DmlEnum):
        return f"one of {', '.join(annotation.spellings())}"
    return _SINGULARS.get(annotation) or with_article(annotation.__name__)
