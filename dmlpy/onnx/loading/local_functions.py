"""The functions of a model, made ready for ONNX's inliner: their versions of operators, and the defaults of their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import FunctionProto, ModelProto, NodeProto, defs, helper

from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.model_checks import called_functions
from dmlpy.onnx.loading.schemas import domain_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.onnx.loading.model_checks import FunctionKey

_AS_BEFORE = frozenset({"saturate", "round_mode", "largest", "sorted", "keep_aspect_ratio_policy"})
"""Attributes whose defaults, other than 0, say what operators without them did."""


def prepared_for_inlining(model: ModelProto) -> tuple[ModelProto, list[Problem]]:
    """The model with functions as ONNX's inliner takes them, and why some cannot be taken.

    ONNX allows a function to import other versions than the model, as long as each of its operators is the same in them; ONNX Runtime takes
    the model's version in any case. The inliner of onnx 1.23.2 leaves such functions alone, and drops the defaults of their attributes.
    ONNX leaves it to runtimes what a function is that has the name of an operator: it gives way to the operator, as in ONNX Runtime.

    Args:
        model: a model that was checked.
    """
    opsets = {domain_of(item.domain): item.version for item in model.opset_import}
    imports = [(domain_of(item.domain), item.version) for function in model.functions for item in function.opset_import]
    shadowed = [_is_operator(function, opsets) for function in model.functions]
    is_alike = all(opsets.get(domain) == version for domain, version in imports)
    if is_alike and not any(shadowed) and not any(item.attribute_proto for item in model.functions):
        return model, []
    copy = ModelProto()
    copy.CopyFrom(model)
    if any(shadowed):
        del copy.functions[:]
        copy.functions.extend(function for function, is_hidden in zip(model.functions, shadowed, strict=True) if not is_hidden)
    problems = []
    for function in copy.functions:
        imported = {domain_of(item.domain): item.version for item in function.opset_import}
        problems += _differing_operators(function, imported, opsets)
        for item in function.opset_import:
            item.version = opsets.setdefault(domain_of(item.domain), item.version)
    missing = opsets.keys() - {domain_of(item.domain) for item in copy.opset_import}
    for domain in sorted(missing):
        copy.opset_import.add(domain=domain, version=opsets[domain])
    calls = _Calls(copy.functions)
    for nodes in (copy.graph.node, *(function.node for function in copy.functions)):
        calls.complete(nodes)
    copy.functions.extend(calls.copies)
    return copy, problems


def _is_operator(function: FunctionProto, opsets: Mapping[str, int]) -> bool:
    """Whether a function has the name of one of ONNX's operators."""
    domain = domain_of(function.domain)
    return domain in opsets and not function.overload and schema_of(function.name, opsets[domain], domain) is not None


class _Calls:
    """The calls of functions with all attributes that they have.

    An attribute that a call leaves out, and the function has no default for, is left out of the nodes that it is handed on to: they have
    the default of their own operator or function. Such a call is one of a copy of the function without these attributes.

    Args:
        functions: the model's functions, which are copied as they are.
    """

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        self._functions: dict[FunctionKey, FunctionProto] = {}
        for function in functions:
            copy = self._functions[domain_of(function.domain), function.name, function.overload] = FunctionProto()
            copy.CopyFrom(function)
        self._overloads: dict[tuple[FunctionKey, frozenset[str]], str] = {}
        self.copies: list[FunctionProto] = []

    def complete(self, nodes: Iterable[NodeProto], absent: frozenset[str] = frozenset()) -> None:
        """Writes defaults into calls, those in subgraphs too.

        Args:
            nodes: the nodes of a graph or a function.
            absent: attributes of the function that its call leaves out.
        """
        for node in nodes:
            kept = [item for item in node.attribute if not item.ref_attr_name or item.ref_attr_name not in absent]
            if len(kept) < len(node.attribute):
                left = NodeProto(attribute=kept)
                del node.attribute[:]
                node.attribute.extend(left.attribute)
            key = domain_of(node.domain), node.op_type, node.overload
            if key in self._functions:
                given = {item.name for item in node.attribute}
                node.attribute.extend(item for item in self._functions[key].attribute_proto if item.name not in given)
                if lacking := frozenset(self._functions[key].attribute) - given:
                    node.overload = self._without(key, lacking)
            for attribute in node.attribute:
                for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    self.complete(body.node, absent)

    def _without(self, key: FunctionKey, attributes: frozenset[str]) -> str:
        """The overload of a function that is its copy without some attributes."""
        if (key, attributes) not in self._overloads:
            overload = f"{key[2]} without {', '.join(sorted(attributes))}"
            while (*key[:2], overload) in self._functions:
                overload += "_"
            self._overloads[key, attributes] = overload
            copy = FunctionProto()
            copy.CopyFrom(self._functions[key])
            copy.overload = overload
            copy.attribute[:] = [name for name in copy.attribute if name not in attributes]
            self.complete(copy.node, attributes)
            self.copies.append(copy)
        return self._overloads[key, attributes]


def _differing_operators(function: FunctionProto, imported: Mapping[str, int], opsets: Mapping[str, int]) -> list[Problem]:
    """The operators of a function that are others in the versions that the model imports."""
    problems = {}
    place, newest = f"functions[{function.name!r}]", defs.onnx_opset_version()
    if imported.get("", 1) > newest:
        remedy = "install a newer version of the package onnx"
        return [Problem("onnx.opset", f"{place}.opset_import", str(imported[""]), f"1 to {newest}", (), remedy)]
    for domain, name, _ in called_functions(function.node, 0):
        version = imported.get(domain)
        wanted = opsets.get(domain, version)
        if version is None or wanted is None or version == wanted:
            continue
        if not _is_same(schema_of(name, version, domain), schema_of(name, wanted, domain)):
            expected = f"the operator of opset {wanted}, which the model imports: {name} is another one there"
            problems[domain, name] = Problem("onnx.function", place, f"{name} of opset {version}", expected)
    return [*problems.values()]


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
