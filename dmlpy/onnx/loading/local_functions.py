"""The functions of a model, made ready for ONNX's inliner: their versions of operators, and the defaults of their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, ModelProto, defs, helper

from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.model_checks import called_functions, domain_of
from dmlpy.onnx.loading.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from onnx import NodeProto

    from dmlpy.onnx.loading.model_checks import FunctionKey

_AS_BEFORE = frozenset({"saturate", "round_mode", "largest", "sorted", "keep_aspect_ratio_policy"})
"""Attributes whose defaults, other than 0, say what operators without them did."""


def prepared_for_inlining(model: ModelProto) -> tuple[ModelProto, list[Problem]]:
    """The model with functions as ONNX's inliner takes them, and why some cannot be taken.

    ONNX allows a function to import other versions than the model, as long as each of its operators is the same in them; ONNX Runtime takes
    the model's version in any case. The inliner of onnx 1.23.2 leaves such functions alone, and drops the defaults of their attributes.

    Args:
        model: a model that was checked.
    """
    opsets = {domain_of(item.domain): item.version for item in model.opset_import}
    imports = [(domain_of(item.domain), item.version) for function in model.functions for item in function.opset_import]
    if all(opsets.get(domain) == version for domain, version in imports) and not any(item.attribute_proto for item in model.functions):
        return model, []
    made = ModelProto()
    made.CopyFrom(model)
    problems = []
    for function in made.functions:
        own = {domain_of(item.domain): item.version for item in function.opset_import}
        problems += _differing_operators(function, own, opsets)
        for item in function.opset_import:
            item.version = opsets.setdefault(domain_of(item.domain), item.version)
    missing = opsets.keys() - {domain_of(item.domain) for item in made.opset_import}
    for domain in sorted(missing):
        made.opset_import.add(domain=domain, version=opsets[domain])
    defaults = _defaults({(domain_of(item.domain), item.name, item.overload): item for item in made.functions})
    for nodes in (made.graph.node, *(function.node for function in made.functions)):
        _add_defaults(nodes, defaults)
    return made, problems


def _defaults(functions: Mapping[FunctionKey, FunctionProto]) -> dict[FunctionKey, list[AttributeProto]]:
    """The attributes of functions that have defaults: those of the functions that they hand an attribute on to, too."""
    found: dict[FunctionKey, list[AttributeProto]] = {}

    def visit(key: FunctionKey) -> list[AttributeProto]:
        if key not in found:
            function = functions[key]
            found[key] = [*function.attribute_proto]
            uses = [*_uses(function.node)]
            for name in function.attribute:
                handed = [(visit(own) if own in functions else [], inner) for own, inner, outer in uses if outer == name]
                items = [next((item for item in own if item.name == inner), None) for own, inner in handed]
                if items and items[0] is not None and all(item is not None and _value_of(item) == _value_of(items[0]) for item in items):
                    default = AttributeProto()
                    default.CopyFrom(items[0])
                    default.name = name
                    found[key].append(default)
        return found[key]

    for key in functions:
        visit(key)
    return found


def _uses(nodes: Iterable[NodeProto]) -> Iterator[tuple[FunctionKey, str, str]]:
    """Where nodes use attributes of the function around them: the operator, its attribute, and the function's."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                yield (domain_of(node.domain), node.op_type, node.overload), attribute.name, attribute.ref_attr_name
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _uses(body.node)


def _value_of(item: AttributeProto) -> bytes:
    """A key of an attribute without its name."""
    unnamed = AttributeProto()
    unnamed.CopyFrom(item)
    unnamed.ClearField("name")
    found: bytes = unnamed.SerializeToString(deterministic=True)
    return found


def _add_defaults(nodes: Iterable[NodeProto], defaults: Mapping[FunctionKey, Sequence[AttributeProto]]) -> None:
    """Writes the defaults of a function's attributes into its calls, those in subgraphs too."""
    for node in nodes:
        given = {item.name for item in node.attribute}
        own = defaults.get((domain_of(node.domain), node.op_type, node.overload), ())
        node.attribute.extend(item for item in own if item.name not in given)
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _add_defaults(body.node, defaults)


def _differing_operators(function: FunctionProto, own: Mapping[str, int], opsets: Mapping[str, int]) -> list[Problem]:
    """The operators of a function that are others in the versions that the model imports."""
    found = {}
    place, newest = f"functions[{function.name!r}]", defs.onnx_opset_version()
    if own.get("", 1) > newest:
        remedy = "install a newer version of the package onnx"
        return [Problem("onnx.opset", f"{place}.opset_import", str(own[""]), f"1 to {newest}", (), remedy)]
    for domain, name, _ in called_functions(function.node, 0):
        version = own.get(domain)
        wanted = opsets.get(domain, version)
        if version is None or wanted is None or version == wanted:
            continue
        if not _is_same(schema_of(name, version, domain), schema_of(name, wanted, domain)):
            expected = f"the operator of opset {wanted}, which the model imports: {name} is another one there"
            found[domain, name] = Problem("onnx.function", place, f"{name} of opset {version}", expected)
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
