"""The versions of operators in a model's functions, which need not be those that the model imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import FunctionProto, ModelProto, defs, helper

from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.model_checks import called_functions
from dmlpy.onnx.loading.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_AS_BEFORE = frozenset({"saturate", "round_mode", "largest", "sorted", "keep_aspect_ratio_policy"})
"""Attributes whose defaults, other than 0, say what operators without them did."""


def with_functions_of_one_version(model: ModelProto) -> tuple[ModelProto, list[Problem]]:
    """The model with functions that import what it imports, as ONNX's inliner asks for, and why some cannot.

    ONNX allows a function to import other versions, as long as each of its operators is the same in them. ONNX Runtime takes the model's
    version in any case.

    Args:
        model: a model that was checked.
    """
    opsets = {_domain(item.domain): item.version for item in model.opset_import}
    if all(opsets.get(_domain(item.domain)) == item.version for function in model.functions for item in function.opset_import):
        return model, []
    made = ModelProto()
    made.CopyFrom(model)
    problems = []
    for function in made.functions:
        own = {_domain(item.domain): item.version for item in function.opset_import}
        problems += _differing_operators(function, own, opsets)
        for item in function.opset_import:
            item.version = opsets.setdefault(_domain(item.domain), item.version)
    missing = opsets.keys() - {_domain(item.domain) for item in made.opset_import}
    for domain in sorted(missing):
        made.opset_import.add(domain=domain, version=opsets[domain])
    return made, problems


def _differing_operators(function: FunctionProto, own: Mapping[str, int], opsets: Mapping[str, int]) -> list[Problem]:
    """The operators of a function that are others in the versions that the model imports."""
    found = {}
    for domain, name, _ in called_functions(function.node, 0):
        version = own.get(domain)
        wanted = opsets.get(domain, version)
        if version is None or wanted is None or version == wanted:
            continue
        if not _is_same(schema_of(name, version, domain), schema_of(name, wanted, domain)):
            expected = f"the operator of opset {wanted}, which the model imports: {name} is another one there"
            found[domain, name] = Problem("onnx.function", f"functions[{function.name!r}]", f"{name} of opset {version}", expected)
    return [*found.values()]


def _is_same(one: defs.OpSchema | None, other: defs.OpSchema | None) -> bool:
    """Whether an operator is the same in two versions, but for the types that it takes and for what only the newer one can be told."""
    if one is None or other is None:
        return one is other
    old, new = sorted((one, other), key=lambda schema: schema.since_version)
    if old.since_version == new.since_version:
        return True
    kept = all(name in new.attributes and _attribute_of(new, name) == _attribute_of(old, name) for name in old.attributes)
    added = all(_changes_nothing(new, name) for name in new.attributes if name not in old.attributes)
    formals = [[(item.name, item.option) for item in each] for each in (old.inputs, new.inputs, old.outputs, new.outputs)]
    optional = all(item.option == defs.OpSchema.FormalParameterOption.Optional for item in new.inputs[len(old.inputs) :])
    return kept and added and optional and formals[1][: len(old.inputs)] == formals[0] and formals[2] == formals[3] and not new.deprecated


def _attribute_of(schema: defs.OpSchema, name: str) -> tuple[object, ...]:
    item = schema.attributes[name]
    return item.type, item.required, item.default_value.SerializeToString()


def _changes_nothing(schema: defs.OpSchema, name: str) -> bool:
    """Whether a node that leaves an attribute out is what it was before there was the attribute."""
    item = schema.attributes[name]
    if item.required or name in _AS_BEFORE:
        return not item.required
    default = item.default_value
    return not default.type or helper.get_attribute_value(default) in (0, b"", b"none")


def _domain(text: str) -> str:
    return "" if text == "ai.onnx" else text
