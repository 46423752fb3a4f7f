"""Predicts how ONNX Runtime's DirectML provider handles a node, from the facts in `provider.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlpy.messages.naming import Count, listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import element_name
from dmlpy.onnx.reporting.provider_descs import desc_of, older_desc_of
from dmlpy.validation.checking import check

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.nodes.node import Node

SMALL = 100
"""The most elements of an initializer that is not a reason to leave a node that computes with sizes to DirectML."""
_SIZES = ("Shape", "Size")
_DOMAINS = {"": "ai_onnx", "com.microsoft": "com_microsoft"}
_NO_TYPES = frozenset({"since", "constant", "inputs", "graph", "query"})


@dataclass(frozen=True)
class Kernel:
    """A registered kernel of an operator.

    Attributes:
        since: the versions of the operator that it is registered for.
        types: the element types that it takes, by ONNX's type parameter.
        constant: the inputs that have to be known when the session is created, for a node that joins a fused graph.
        inputs: the number of inputs with which a node joins a fused graph; None for any.
        graph: whether a node may join a fused graph.
        query: the name of the condition that the kernel asks; None if it asks none.
    """

    since: tuple[int, ...]
    types: Mapping[str, frozenset[str]]
    constant: tuple[int, ...]
    inputs: int | None
    graph: bool
    query: str | None


@dataclass(frozen=True)
class Verdict:
    """How the provider handles a node.

    Attributes:
        left: why it leaves the node to the CPU; empty if it runs the node.
        refused: why DirectML rejects the provider's operator for the node, so that the session fails with 80070057.
        alone: why the node is not fused into a graph.
        older: why older releases of ONNX Runtime fail.
    """

    left: tuple[Problem, ...] = ()
    refused: tuple[Problem, ...] = ()
    alone: tuple[Problem, ...] = ()
    older: tuple[Problem, ...] = ()


@cache
def facts() -> dict[str, Any]:
    """The content of `provider.toml`."""
    return tomllib.loads(Path(__file__).with_name("provider.toml").read_text(encoding="utf-8"))


@cache
def kernels(op_type: str, domain: str) -> tuple[Kernel, ...]:
    """The kernels of an operator; none if the provider has none."""
    types = {name: frozenset(text.split()) for name, text in facts()["types"].items()}
    return tuple(
        Kernel(
            tuple(row["since"]),
            {name: types[given] for name, given in row.items() if name not in _NO_TYPES},
            tuple(row.get("constant", ())),
            row.get("inputs"),
            row.get("graph", True),
            row.get("query"),
        )
        for row in facts().get(_DOMAINS.get(domain, ""), {}).get(op_type, ())
    )


def computes_sizes(node: Node, sizes: Collection[str]) -> bool:
    """Whether ONNX Runtime leaves a node to the CPU because it computes with sizes.

    Args:
        node: the node.
        sizes: the values that are computed from sizes on the CPU, by name.
    """
    if node.domain == "" and node.op_type in _SIZES:
        return True
    given = [value for value in node.inputs if value is not None]
    return any(value.name in sizes for value in given) and all(
        value.name in sizes or (value.array is not None and value.array.size <= SMALL) for value in given
    )


def judge_node(node: Node) -> Verdict:
    """Predicts where the provider runs a node that does not compute with sizes, or why it does not."""
    registered = [kernel for kernel in kernels(node.op_type, node.domain) if _version(node) in kernel.since]
    if not registered:
        return Verdict(left=(_no_kernel(node),))
    kernel = registered[0]
    left = tuple(_types(node, kernel)) or tuple(_query_condition(node, kernel))
    if left:
        return Verdict(left=left)
    desc = desc_of(node)
    refused = () if desc is None else tuple(problem.under(type(desc).short_name()) for problem in check(desc, node.level))
    return Verdict(refused=refused, alone=tuple(_alone(node, kernel)), older=tuple(_older(node)))


def _older(node: Node) -> Iterator[Problem]:
    """Why older releases fail."""
    older = older_desc_of(node)
    if older is not None:
        release, desc = older
        for problem in check(desc, node.level):
            why = (f"ONNX Runtime before {release} makes this {type(desc).short_name()} of the node", *problem.why)
            yield replace(problem.under(type(desc).short_name()), why=why, remedy=f"use ONNX Runtime {release} or newer")


def _version(node: Node) -> int:
    return node.schema.since_version if node.schema is not None else 1


def _no_kernel(node: Node) -> Problem:
    versions = sorted({version for kernel in kernels(node.op_type, node.domain) for version in kernel.since})
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if not versions:
        return Problem("onnx.kernel", "", f"{name} of opset {node.opset}", "an operator for which the provider has a kernel")
    newest = facts()["opset"]
    remedy = f"export the model with opset {newest} or lower" if _version(node) > newest else None
    expected = f"one of the versions that the provider has: {listed(versions)}"
    return Problem("onnx.opset", "", f"{name} as opset {_version(node)} has it", expected, ("kernels hold for single versions",), remedy)


def _types(node: Node, kernel: Kernel) -> Iterator[Problem]:
    for label, value, parameter in _parameters(node):
        allowed = kernel.types.get(parameter)
        if allowed is not None and value.element is not None and element_name(value.element) not in allowed:
            remedy = "cast it in the model" if label.startswith("input") else None
            expected = f"{parameter} of the provider's kernel: {listed(sorted(allowed))}"
            yield Problem("onnx.type", label, f"{value.name!r}, {element_name(value.element)}", expected, (), remedy)


def _parameters(node: Node) -> Iterator[tuple[str, Value, str]]:
    """Each tensor of a node with its label and the name of its type in ONNX's schema."""
    if node.schema is None:
        return
    for values, formals, word in ((node.inputs, node.schema.inputs, "input"), (node.outputs, node.schema.outputs, "output")):
        for index, value in enumerate(values):
            if value is not None and value.kind == "tensor" and formals:
                formal = formals[min(index, len(formals) - 1)]
                yield f"{word} {index} {formal.name!r}", value, formal.type_str


def _alone(node: Node, kernel: Kernel) -> Iterator[Problem]:
    """Why a node is not fused into a graph."""
    if not kernel.graph:
        yield Problem("onnx.graph", "", f"{node.op_type}, which never joins a fused graph", "an operator that does")
        return
    for index in kernel.constant:
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is not None and value.array is None:
            advice = "pass all sizes of the inputs, so that it is computed before the model runs"
            yield Problem(
                "onnx.constant_input", node.input_label(index), f"{value.name!r}, which is computed", "an initializer", (), advice
            )
    if kernel.inputs is not None and len(node.inputs) != kernel.inputs:
        yield Problem(
            "onnx.graph", "inputs", Count(plural(len(node.inputs), "input")), f"{kernel.inputs}", (), "write it as nodes of two inputs each"
        )
    labelled = [(node.input_label(index), value) for index, value in enumerate(node.inputs) if value is not None]
    labelled += [(f"output {index}", value) for index, value in enumerate(node.outputs) if value is not None]
    for label, value in labelled:
        if value.kind != "tensor":
            continue
        if not value.is_static:
            symbols = [size for size in value.sizes or () if isinstance(size, str)]
            remedy = "pass sizes for " + ", ".join(repr(name) for name in dict.fromkeys(symbols)) if symbols else None
            why = ("the provider compiles the operator anew for each new size",)
            yield Problem(
                "onnx.dynamic", label, f"{value.name!r}, {value.summary()}", "sizes that are known before the model runs", why, remedy
            )
            return
        if 0 in value.static_sizes:
            yield Problem("onnx.empty", label, value.summary(), "at least one element along each dimension")
            return


# Conditions that kernels ask


def _query_condition(node: Node, kernel: Kernel) -> Iterator[Problem]:
    if kernel.query is not None and (problem := _QUERIES[kernel.query](node)) is not None:
        yield problem


def _attribute(name: str, default: Any, allowed: str) -> Callable[[Node], Problem | None]:
    def asked(node: Node) -> Problem | None:
        given = node.attribute(name, default)
        return None if given == default else Problem("onnx.attribute", name, repr(given), allowed, ("the provider's kernel asks it",))

    return asked


def _outputs(most: int, *left_out: int) -> Callable[[Node], Problem | None]:
    def asked(node: Node) -> Problem | None:
        wanted = [index for index in range(len(node.outputs)) if node.wants(index) and (index >= most or index in left_out)]
        return (
            Problem("onnx.output", f"output {wanted[0]}", "used", "an unused output: the provider's kernel does not have it")
            if wanted
            else None
        )

    return asked


def _resize(node: Node) -> Problem | None:
    mode = node.attribute("mode", "nearest")
    if mode == "cubic":
        return Problem("onnx.attribute", "mode", repr(mode), "'nearest' or 'linear': DirectML has no cubic interpolation")
    return _attribute("antialias", 0, "0")(node)


def _pads(node: Node) -> Problem | None:
    negative = [size for size in node.attribute("pads", ()) if size < 0]
    if negative and node.attribute("mode", "constant") != "constant":
        return Problem("onnx.attribute", "pads", str(negative[0]), "0 or more, where the mode is not 'constant'")
    return None


def _einsum(node: Node) -> Problem | None:
    equation = str(node.attribute("equation", ""))
    if len(node.inputs) > 2 or "." in equation:
        return Problem("onnx.attribute", "equation", repr(equation), "one of at most two tensors, without an ellipsis")
    return None


_QUERIES: dict[str, Callable[[Node], Problem | None]] = {
    "einsum": _einsum,
    "layout": _attribute("layout", 0, "0, which has the sequence first"),
    "no_reduction": _attribute("reduction", "none", "'none'"),
    "not_training": _attribute("training_mode", 0, "0"),
    "one_output": _outputs(1),
    "pads": _pads,
    "resize": _resize,
    "row_major": _attribute("storage_order", 0, "0, row-major"),
    "skip_outputs": _outputs(4, 1, 2),
}
