"""Operators that run on the host by definitions of dmlpy, most of other domains: the registry, and their runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dmlpy.messages.problems import CompileError, Problem
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.loading.values import Value
from dmlpy.onnx.nodes.error_policy import ErrorPolicy
from dmlpy.onnx.nodes.node import Node, NotLowered
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import NodeProto

    from dmlpy.onnx.loading.limits import Budget
    from dmlpy.onnx.loading.values import Array, Sizes
    from dmlpy.x.expressions import Expression

    Computes: TypeAlias = Callable[[Node], Sequence[Array | None]]
    """Computes the outputs of a node whose inputs are all known."""
    OutputType: TypeAlias = "tuple[int | None, Sizes | None]"
    """The element type and the sizes of an output, as far as they are known."""
    Describes: TypeAlias = Callable[[Node], Sequence[OutputType]]
    Checks: TypeAlias = Callable[[Node], object]

_FAMILIES = (
    *("block_gather", "crops", "decoding", "experts", "hashing", "inverse", "labels", "learning", "linear_attention", "masked_attention"),
    *("maps", "quantized_lstm", "support_vectors", "tokenizing", "tree_models", "trees"),
)


_OF_ONNX = frozenset({"RegexFullMatch"})
"""ONNX's own operators among them: the reference implementation matches with Python's `re`, whose time has no bound."""


class HostOperator(NamedTuple):
    """An operator on the host.

    Attributes:
        computes: computes the outputs of a node whose inputs are known.
        describes: infers their types and sizes before the model runs.
        checks: raises NotLowered for attributes that it cannot run with.
    """

    computes: Computes
    describes: Describes
    checks: Checks | None = None


_OPERATORS: dict[tuple[str, str], HostOperator] = {}


def register_host_operator(
    op_type: str, describes: Describes, *, domain: str = MICROSOFT, checks: Checks | None = None
) -> Callable[[Computes], Computes]:
    """Registers the function that computes an operator.

    Args:
        op_type: the operator's name.
        describes: infers the types and the sizes of its outputs; nothing if the node's inputs are invalid.
        domain: the operator's domain.
        checks: raises NotLowered for attributes that it cannot run with.
    """

    def register(function: Computes) -> Computes:
        _OPERATORS[domain, op_type] = HostOperator(function, describes, checks)
        return function

    return register


def find_host_operator(op_type: str, domain: str) -> HostOperator | None:
    """dmlpy's host operator; None if it has none. ONNX's own operators are the reference implementation's, but for a few."""
    if not domain and op_type not in _OF_ONNX:
        return None
    for family in _FAMILIES:
        import_module(f"dmlpy.onnx.domains.{family}")
    return _OPERATORS.get((domain, op_type))


def describe_outputs(node: Node) -> Sequence[OutputType]:
    """The types and the sizes of a node's outputs, as far as they are known."""
    operator = find_host_operator(node.op_type, node.domain)
    if operator is None:
        return ()
    try:
        return operator.describes(node)
    except NotLowered:  # running the node reports the problem
        return ()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if ErrorPolicy.propagate_unexpected:
            raise
        return ()


def find_problems(node: Node) -> Sequence[Problem]:
    """Why the host cannot run a node of an operator that it has: attributes that it does not support."""
    operator = find_host_operator(node.op_type, node.domain)
    if operator is None or operator.checks is None:
        return ()
    try:
        operator.checks(node)
    except NotLowered as reason:
        return reason.problems
    return ()


def compute_node(proto: NodeProto, domain: str, opset: int, arrays: Mapping[str, Array], budget: Budget) -> dict[str, Array]:
    """The outputs of a node by name.

    Args:
        proto: the node.
        domain: the domain of its operator.
        opset: the version of that domain.
        arrays: its inputs by name.
        budget: the remainder of the model's limits.

    Raises:
        CompileError: inputs or attributes contradict the operator.
    """
    operator = find_host_operator(proto.op_type, domain)
    assert operator is not None  # the lowering leaves no other nodes to the host
    inputs = tuple(_given(name, arrays[name]) if name else None for name in proto.input)
    node = Node(proto.name, proto, domain, opset, inputs, (), LATEST, refuse_read, budget)
    try:
        with np.errstate(all="ignore"):
            results = operator.computes(node)
    except NotLowered as reason:
        raise CompileError(proto.name, [problem.under(proto.name) for problem in reason.problems]) from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if ErrorPolicy.propagate_unexpected:
            raise
        sizes = ", ".join(value.summary() for value in inputs if value is not None)
        why = (f"{type(error).__name__}: {error}".splitlines()[0],)
        problem = Problem("onnx.host", proto.name, f"{proto.op_type} of {sizes}", "inputs and attributes that fit each other", why)
        raise CompileError(proto.name, [problem]) from error
    return {name: array for name, array in zip(proto.output, results, strict=False) if name and array is not None}


def _given(name: str, value: Any) -> Value:
    """An input that is known: a tensor, or a map, which is a dict."""
    kind = "map" if isinstance(value, dict) else "tensor"
    return Value.known(name, value) if kind == "tensor" else Value(name, None, None, value, kind=kind)


def refuse_read(value: Value) -> Expression:
    """The reader of nodes that are in no graph."""
    raise AssertionError(f"{value.name} is not part of a graph")
