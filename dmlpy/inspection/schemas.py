"""`schemas/`: a JSON Schema for each struct, what they share, and the support tables, generated from the classes.

The schemas describe the C-spelled JSON form that `OperatorDesc.to_dict` writes and DxDispatch models hold. They describe the form only;
what relates members to each other is in their `x-dml` block, for people and other tools: levels, types, size patterns, rules.
"""

from __future__ import annotations

import re
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from dmlpy.description.descs import FusableDesc, OperatorDesc
from dmlpy.description.enums import DmlEnum, TensorFlags
from dmlpy.description.registry import OPERATORS
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, MAX_UINT32, TensorDesc
from dmlpy.description.value_structs import ValueStruct
from dmlpy.messages.json_text import lay_out
from dmlpy.messages.naming import c_member
from dmlpy.messages.problems import DmlError
from dmlpy.operators.activation import ActivationDesc
from dmlpy.system.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dmlpy.description.structs import Struct

DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMMAND = "dmlpy schemas"
DEFINITIONS = "definitions.json"
"""The file of the definitions that the schemas share."""

_FLOAT = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
_UINT32 = {"type": "integer", "minimum": 0, "maximum": MAX_UINT32}
_INT32 = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}


def write(folder: Path, *, bundle: bool = False) -> list[Path]:
    """Writes every generated file into a folder, and removes schemas of structs that no longer exist.

    Args:
        folder: where the files are.
        bundle: whether each schema holds all its definitions itself, in place of references to the file of shared ones.

    Returns:
        The files, in alphabetic order.

    Raises:
        DmlError: the files cannot be written.
    """
    files = _files(bundle)
    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
        for name in _leftovers(folder, files):
            (folder / name).unlink()
    except OSError as error:
        raise DmlError(f"the files in {folder} cannot be written: {error.strerror}") from error
    return [folder / name for name in sorted(files)]


def stale(folder: Path, *, bundle: bool = False) -> list[str]:
    """The names of files that differ from what `write` would write, including missing and leftover ones; empty if all are current."""
    files = _files(bundle)
    differing = [name for name, content in files.items() if not (folder / name).is_file() or (folder / name).read_bytes() != content]
    return sorted([*differing, *_leftovers(folder, files)])


def schema(kind: type[OperatorDesc]) -> dict[str, Any]:
    """The JSON Schema of an operator's desc with all its definitions: `{"Type": ..., "Desc": {...}}`, or the members next to `Type`."""
    definitions: dict[str, Any] = {}
    body = _operator(kind, definitions, fused=False)
    return {
        "$schema": DIALECT,
        "title": kind.c_name,
        "description": _summary(kind),
        **body,
        "$defs": dict(sorted(definitions.items())),
        "x-dml": _annotations(kind),
    }


def support_table(kind: type[OperatorDesc]) -> list[dict[str, Any]]:
    """An operator's support table, lowest level first, with the dimension counts and types of every tensor."""
    return [
        {
            "feature_level": str(row.level),
            **({"when": {c_member(name): [str(value) for value in values] for name, values in row.when.items()}} if row.when else {}),
            "tensors": {
                c_member(field.name): {
                    "dims": list(row.dims_for(field.name)),
                    "types": [str(item) for item in sorted(kind.types_in(row, field))],
                }
                for field in kind.tensor_fields()
            },
        }
        for row in sorted(kind.support, key=lambda row: row.level)
    ]


def _files(bundle: bool) -> dict[str, bytes]:
    kinds = sorted(OPERATORS.values(), key=lambda kind: kind.c_name)
    tables = {kind.type_name: support_table(kind) for kind in sorted(kinds, key=lambda kind: kind.type_name)}
    schemas_by_file = {f"{kind.c_name}.json": schema(kind) for kind in kinds}
    if not bundle:
        schemas_by_file = _apart(schemas_by_file)
    files = {name: lay_out(data).encode() for name, data in (schemas_by_file | {"support.json": tables}).items()}
    return files | {"README.md": _readme(kinds, bundle).encode()}


def _leftovers(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    present = [*sorted(folder.glob("DML*_OPERATOR_DESC.json")), *folder.glob(DEFINITIONS)]
    return [path.name for path in present if path.name not in files]


def _apart(schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The schemas with their own structs only, and the file of all other definitions, to which they refer."""
    shared: dict[str, Any] = {}
    own_parts: dict[str, Any] = {}
    for name, whole in schemas.items():
        title = whole["title"]
        for key, definition in whole["$defs"].items():
            if key != title and shared.setdefault(key, definition) != definition:
                raise ValueError(f"{name} defines {key} otherwise than another schema")
        own_parts[name] = _referring({**whole, "$defs": {title: whole["$defs"][title]}}, title)
    about = {"$schema": DIALECT, "title": "Definitions", "description": "What the schemas of operators' descs share."}
    return own_parts | {DEFINITIONS: about | {"$defs": dict(sorted(shared.items()))}}


def _referring(form: Any, title: str) -> Any:
    """A part of a schema, whose references to all definitions but its own struct lead to the file of shared ones."""
    if isinstance(form, list):
        return [_referring(item, title) for item in form]
    if not isinstance(form, dict):
        return form
    return {
        key: f"{DEFINITIONS}{item}" if key == "$ref" and item != f"#/$defs/{title}" else _referring(item, title)
        for key, item in form.items()
    }


def _operator(kind: type[OperatorDesc], definitions: dict[str, Any], *, fused: bool) -> dict[str, Any]:
    # Both forms share the members; "unevaluatedProperties" refuses unknown ones across the reference, as "additionalProperties" could not.
    # Next to other properties, put the reference in "allOf": in editors a keyword hides the same one of the referenced schema.
    name = kind.short_name() if fused else kind.c_name
    definitions[name] = _members(kind, definitions, fused=fused)
    members = {"$ref": f"#/$defs/{name}"}
    of_type = {"enum": [kind.type_name, kind.short_name()]}
    nested = {
        "type": "object",
        "properties": {"Type": of_type, "Desc": {**members, "unevaluatedProperties": False}},
        "required": ["Type", "Desc"],
        "additionalProperties": False,
    }
    if "type" in kind.model_fields:
        return nested  # a member of that name leaves no place for the operator's type
    flat = {"type": "object", "allOf": [members], "properties": {"Type": of_type}, "required": ["Type"], "unevaluatedProperties": False}
    return {"oneOf": [nested, flat]}


def _members(kind: type[OperatorDesc], definitions: dict[str, Any], *, fused: bool) -> dict[str, Any]:
    tensors = {field.name: field for field in kind.tensor_fields()}
    docs = _attribute_docs(kind)
    counted = kind.counts_before()
    properties: dict[str, Any] = {}
    required = []
    for name, info in kind.model_fields.items():
        if name in tensors:
            if fused:
                continue
            optional = tensors[name].optional
            form: dict[str, Any] = _tensor(definitions)
            form = {"type": "array", "items": form} if tensors[name].listed else form
            form = {"anyOf": [form, {"type": "null"}]} if optional else form
        else:
            optional, form = NoneType in get_args(info.annotation), _attribute(kind, name, definitions)
        if name in counted:
            properties[counted[name]] = {**_UINT32, "description": f"The length of {c_member(name)}."}
        properties[c_member(name)] = {**form, **({"description": docs[name]} if name in docs else {})}
        required += [] if optional else [c_member(name)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _attribute(kind: type[OperatorDesc], name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    annotation = kind.model_fields[name].annotation
    signed = next(field.signed for field in kind.attribute_fields() if field.name == name)
    if annotation in (float, int | float):
        definitions["FLOAT"] = _FLOAT
        number = {"$ref": "#/$defs/FLOAT"}
        return number if annotation is float else {"anyOf": [number, {"type": "object", "minProperties": 1, "maxProperties": 1}]}
    if annotation is bool:
        return {"type": "boolean"}
    if annotation is int:
        return {"type": "integer"} if kind.is_extension else _INT32 if signed else _UINT32
    if isinstance(annotation, type) and issubclass(annotation, DmlEnum):
        return _enumeration(annotation, definitions)
    if get_origin(annotation) is tuple:
        item = get_args(annotation)[0]
        inner = get_args(item)[0] if get_args(item) else item
        if inner is int:
            return {"type": "array", "items": _INT32 if signed else _UINT32}
        if inner is float:
            definitions["FLOAT"] = _FLOAT
            return {"type": "array", "items": {"$ref": "#/$defs/FLOAT"}}
        if inner is ActivationDesc:
            return {"type": "array", "items": _activation(definitions)}
    kinds = [item for item in (annotation, *get_args(annotation)) if isinstance(item, type)]
    form = _activation(definitions) if any(issubclass(item, FusableDesc) for item in kinds) else None
    form = next((_value_struct(item, definitions) for item in kinds if issubclass(item, ValueStruct)), form)
    if form is None:
        raise TypeError(f"no JSON Schema for a member of type {annotation}")
    return {"anyOf": [form, {"type": "null"}]} if NoneType in get_args(annotation) else form


def _value_struct(kind: type[ValueStruct], definitions: dict[str, Any]) -> dict[str, Any]:
    """The definition of DML_SCALE_BIAS or DML_SIZE_2D."""
    docs = _attribute_docs(kind)
    forms = {name: _FLOAT if info.annotation is float else _UINT32 for name, info in kind.model_fields.items()}
    definitions[kind.c_name] = {
        "type": "object",
        "properties": {c_member(name): {**form, "description": docs[name]} for name, form in forms.items()},
        "required": [c_member(name) for name in forms],
        "additionalProperties": False,
    }
    return {"$ref": f"#/$defs/{kind.c_name}"}


def _enumeration(kind: type[DmlEnum], definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.prefix().rstrip("_") or kind.__name__
    members = [member for member in kind if str(member) in kind.spellings()]
    definitions[name] = {"enum": list(dict.fromkeys([*(member.c_name for member in members), *(str(member) for member in members)]))}
    return {"$ref": f"#/$defs/{name}"}


def _tensor(definitions: dict[str, Any]) -> dict[str, Any]:
    name = TensorDesc.c_name
    if name not in definitions:
        flag = _enumeration(TensorFlags, definitions)
        sizes = {"type": "array", "minItems": 1, "maxItems": MAX_DIMENSION_COUNT, "items": {**_UINT32, "minimum": 1}}
        strides = {"type": "array", "maxItems": MAX_DIMENSION_COUNT, "items": _UINT32}
        forms = {
            "data_type": _enumeration(TensorDesc.model_fields["data_type"].annotation, definitions),  # type: ignore[arg-type]
            "sizes": sizes,
            "strides": {"anyOf": [strides, {"type": "null"}]},
            "flags": {"anyOf": [flag, {"type": "array", "maxItems": 1, "items": flag}]},
            "total_tensor_size_in_bytes": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**64 - 1},
            "guaranteed_base_offset_alignment": _UINT32,
        }
        docs = _attribute_docs(TensorDesc)
        properties = {c_member(member): {**form, "description": docs[member]} for member, form in forms.items()}
        counts = {
            spelling: {**_UINT32, "description": f"The length of {c_member(of)}."} for of, spelling in TensorDesc.counted_members().items()
        }
        definitions[name] = {
            "type": "object",
            "properties": {**properties, **counts},
            "required": [c_member(member) for member, info in TensorDesc.model_fields.items() if info.is_required()],
        }
        members = {"$ref": f"#/$defs/{name}"}
        of_type = {"enum": ["DML_TENSOR_TYPE_BUFFER", "BUFFER"]}
        nested = {
            "type": "object",
            "properties": {"Type": of_type, "Desc": {**members, "unevaluatedProperties": False}},
            "required": ["Desc"],
            "additionalProperties": False,
        }
        flat = {"type": "object", "allOf": [members], "properties": {"Type": of_type}, "unevaluatedProperties": False}
        definitions["DML_TENSOR_DESC"] = {"oneOf": [flat, nested]}
    return {"$ref": "#/$defs/DML_TENSOR_DESC"}


def _activation(definitions: dict[str, Any]) -> dict[str, Any]:
    fusable = [kind for _, kind in sorted(OPERATORS.items()) if issubclass(kind, ActivationDesc) and kind.fusable]
    definitions["FUSED_ACTIVATION"] = {"oneOf": [_operator(kind, definitions, fused=True) for kind in fusable]}
    return {"$ref": "#/$defs/FUSED_ACTIVATION"}


def _annotations(kind: type[OperatorDesc]) -> dict[str, Any]:
    return {
        "type": kind.type_name,
        "introduced": None if kind.is_extension else str(kind.introduced()),
        "in_place": kind.in_place,
        "owned_inputs": kind.accepts_owned,
        "formula": in_c(kind, kind.formula) or _summary(kind),
        "tensors": {
            c_member(field.name): {
                "kind": "output" if field.marker.output else "input",
                "optional": field.optional,
                "null_when_fused": field.marker.null_when_fused,
                "sizes": [str(term) for term in field.marker.terms],
                "type_variable": field.marker.types if isinstance(field.marker.types, str) else None,
            }
            for field in kind.tensor_fields()
        },
        "symbols_from_attributes": {symbol: c_member(because) for symbol, because in kind.size_methods().items()},
        **(
            {"symbols_from_symbols": {name: in_c(kind, text) for name, text in derived.items()}}
            if (derived := kind.derived_sizes())
            else {}
        ),
        "attributes": {c_member(field.name): in_c(kind, text) for field in kind.attribute_fields() if (text := field.limits.text())},
        "rules": dict(kind.rules()),
        "support": support_table(kind),
    }


def _summary(kind: type[Struct]) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join(kind.description().partition("\n\n")[0].split())


def _attribute_docs(kind: type[Struct]) -> dict[str, str]:
    """The text of each documented member, with names in the C spelling."""
    return {member.name: in_c(kind, member.text) for member in kind.members() if member.name and member.text}


def in_c(kind: type[Any], text: str) -> str:
    """Respells the names in a text for JSON: members as in directml.h (single words stay, as they may be plain words), and null."""
    spelled = re.sub(r"[a-z]+(_[a-z]+)+", lambda match: c_member(match[0]) if match[0] in kind.model_fields else match[0], text)
    return re.sub(r"\bNone\b", "null", spelled)


_SHARED = f"""\
Definitions that several schemas share, such as a tensor's, are in `{DEFINITIONS}`, and the schemas refer to it: keep the files together.
Editors resolve these references. In Visual Studio Code:

```json
"json.schemas": [{{"fileMatch": ["*.gemm.json"], "url": "./schemas/DML_GEMM_OPERATOR_DESC.json"}}]
```

In Python, register the file with jsonschema (`pip install jsonschema`):

```python
import json
from pathlib import Path

import jsonschema
from referencing import Registry, Resource

folder = Path("schemas")
shared = Resource.from_contents(json.loads((folder / "{DEFINITIONS}").read_text()))
schema = json.loads((folder / "DML_GEMM_OPERATOR_DESC.json").read_text())
check = jsonschema.Draft202012Validator(schema, registry=Registry().with_resource("{DEFINITIONS}", shared))
```

For a tool that takes a single file, `{COMMAND} --bundle --folder FOLDER` writes schemas that hold all their definitions."""
_BUNDLED = f"Each schema contains all its definitions. Without `--bundle`, `{COMMAND}` writes the shared ones once, into `{DEFINITIONS}`."


def _readme(kinds: list[type[OperatorDesc]], bundle: bool) -> str:
    rows = []
    for kind in kinds:
        computes = _summary(kind).replace("|", r"\|")
        since = "dmlpy's own" if kind.is_extension else str(kind.introduced())
        rows.append(f"| [`{kind.c_name}`]({kind.c_name}.json) | `dmlpy.{kind.__name__}` | {since} | {computes} |\n")
    command = f"{COMMAND} --bundle" if bundle else COMMAND
    return f"""\
# Schemas

Generated from dmlpy's classes by `{command}`: edit the classes, not these files. `{command} --check` fails where they differ.

Each `DML_..._OPERATOR_DESC.json` is a JSON Schema (draft 2020-12) for the desc of one operator (`DMLPY_...` for an operator that DirectML
does not have), in the form that DxDispatch models and `OperatorDesc.to_dict` use: `{{"Type": ..., "Desc": {{...}}}}`, or the members next
to `Type`. Enumeration values are written as names, long or short; floats may be `"inf"`, `"-inf"` and `"nan"`. A schema describes the form
only. How members depend on each other is under `x-dml`: size patterns of the tensors, rules, formula, and the support table. `dmlpy check`
checks all of it.

{_BUNDLED if bundle else _SHARED}

`support.json` has all support tables: for each operator, the feature level at which each row begins, and for each tensor the minimum and
maximum number of dimensions and the element types.

| struct | class | since | what it computes |
|---|---|---|---|
{"".join(rows)}"""
