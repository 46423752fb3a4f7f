"""C++ declarations of directml.h's structs and a table of their members, generated from `tests/facts`; dmlpy's classes are not used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.support.descs import facts_reader as facts

C_TYPES = {
    "TENSOR_DESC": "const DML_TENSOR_DESC*",
    "TENSOR_DESC_ARRAY": "const DML_TENSOR_DESC*",
    "OPERATOR_DESC": "const DML_OPERATOR_DESC*",
    "OPERATOR_DESC_ARRAY": "const DML_OPERATOR_DESC*",
    "UINT": "UINT",
    "UINT64": "UINT64",
    "INT": "INT",
    "FLOAT": "FLOAT",
    "BOOL": "BOOL",
    "UINT_ARRAY": "const UINT*",
    "INT_ARRAY": "const INT*",
    "FLOAT_ARRAY": "const FLOAT*",
    "SCALE_BIAS": "const DML_SCALE_BIAS*",
    "SIZE_2D": "DML_SIZE_2D",
    "SCALAR_UNION": "DML_SCALAR_UNION",
}
"""How C declares a member of each type of the facts."""

_STRUCTS = (
    "DML_SCALE_BIAS",
    "DML_SIZE_2D",
    "DML_TENSOR_DESC",
    "DML_BUFFER_TENSOR_DESC",
    "DML_OPERATOR_DESC",
    "DML_BINDING_PROPERTIES",
    "DML_BINDING_DESC",
    "DML_BUFFER_BINDING",
    "DML_BUFFER_ARRAY_BINDING",
    "DML_BINDING_TABLE_DESC",
)
_POINTERS = {"void*": "const void*", "resource or null": "void*", "IDMLDispatchable": "void*", "handle": "UINT64"}
_ENUMS = ("DML_TENSOR_TYPE", "DML_TENSOR_DATA_TYPE", "DML_TENSOR_FLAGS", "DML_OPERATOR_TYPE", "DML_BINDING_TYPE")


def declarations() -> str:
    """The text of the generated header."""
    lines = ["#include <cstddef>", "#include <cstdint>"]
    lines += ["typedef uint32_t UINT;", "typedef int32_t INT;", "typedef int32_t BOOL;", "typedef uint64_t UINT64;", "typedef float FLOAT;"]
    lines += _enums()
    lines += _scalar_union()
    for name in _STRUCTS:
        members = "".join(f" {_helper_type(kind)} {member};" for member, kind in facts.enums()["structs"][name])
        lines.append(f"struct {name} {{{members} }};")
    kinds = ", ".join(map(_kind, C_TYPES))
    lines.append(f"enum Kind {{ {kinds} }};")
    lines.append("static const size_t NO_COUNT = SIZE_MAX;")
    lines.append("struct Member { const char* name; Kind kind; size_t offset; size_t count; char role; };")
    lines.append("struct Operator { const char* name; size_t size; size_t members; const Member* table; };")
    for operator in facts.operators().values():
        lines += _operator(operator)
    ordered = sorted(facts.operators(), key=_number)
    lines.append("static const Operator OPERATORS[] = {{nullptr, 0, 0, nullptr},")
    lines += [f'  {{"{name}", sizeof({_struct(name)}), {len(facts.fields(name))}, {_table(name)}}},' for name in ordered]
    lines.append("};")
    return "\n".join(lines) + "\n"


def _number(operator: str) -> int:
    fact = facts.enums()["enums"]["DML_OPERATOR_TYPE"]
    number: int = fact["values"][fact["aliases"].get(operator, operator)]
    return number


def _enums() -> Iterator[str]:
    for name in _ENUMS:
        values = ", ".join(f"{member} = {value}" for member, value in facts.enums()["enums"][name]["values"].items())
        yield f"enum {name} {{ {values} }};"


def _scalar_union() -> Iterator[str]:
    types = {"float32": "float", "float64": "double", "BYTE[8]": "uint8_t"}
    members = facts.enums()["structs"]["DML_SCALAR_UNION"]["members"]
    declared = "".join(f" {types.get(kind, f'{kind}_t')} {name}{'[8]' if '[8]' in kind else ''};" for name, kind in members.items())
    yield f"union DML_SCALAR_UNION {{{declared} }};"


def _helper_type(kind: str) -> str:
    """The C type of a member of a small struct, of the words of `enums.json`."""
    if kind in _POINTERS:
        return _POINTERS[kind]
    array = re.match(r"(\w+)\[", kind)
    return f"const {array[1]}*" if array else kind


def _struct(operator: str) -> str:
    name: str = facts.operators()[operator]["struct"]
    return name


def _kind(kind: str) -> str:
    """The name in the table of members of a type of the facts."""
    return f"OF_{kind}"


def _table(operator: str) -> str:
    return f"MEMBERS_{operator}"


def _operator(fact: dict[str, Any]) -> Iterator[str]:
    struct, fields = fact["struct"], fact["fields"]
    members = "".join(f" {_member_type(field)} {field['name']};" for field in fields)
    yield f"struct {struct} {{{members} }};"
    counts = {counted: field["name"] for field in fields for counted in facts.counted_by(field)}
    rows = []
    for field in fields:
        count = f"offsetof({struct}, {counts[field['name']]})" if field["name"] in counts else "NO_COUNT"
        role = {"input": "i", "output": "o", "attribute": "a"}[field["kind"]]
        kind = "BOOL" if field.get("enum") == "BOOL" else field["type"]
        rows.append(f"{{\"{field['name']}\", {_kind(kind)}, offsetof({struct}, {field['name']}), {count}, '{role}'}}")
    yield f"static const Member {_table(fact['operator'])}[] = {{{', '.join(rows)}}};"


def _member_type(field: dict[str, Any]) -> str:
    return "BOOL" if field.get("enum") == "BOOL" else C_TYPES[field["type"]]
