"""Fuses sums of weighted gathers into one node, if the device computes them in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.ir import NodeGroup
from dmlpy.devices.graphs.weighted_gather_desc import MOST_TERMS, WeightedGatherDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc, ElementWiseMultiplyDesc
from dmlpy.operators.indexing import GatherND1Desc

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use

_OPERANDS = ("a_tensor", "b_tensor"), ("b_tensor", "a_tensor")
_DIMENSIONS = 3
"""The dimensions of the tensors: batches, rows, channels."""


@dataclass(frozen=True)
class _Term:
    """A gather times weights.

    Attributes:
        nodes: the gather, the product, and the ADD that adds it to those before.
        data: the use of what is gathered.
        indices: the use of the indices.
        weight: the use of the weights.
    """

    nodes: tuple[int, ...]
    data: Use
    indices: Use
    weight: Use


def fuse_weighted_gathers(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each sum of two or more gathers of rows of the same tensor, times weights of rows, as one node in place of the last ADD.

    Args:
        ir: a graph's.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    taken: set[int] = set()
    groups: list[NodeGroup] = []
    for last in reversed(ir.order()):
        if last in taken or type(ir.operators[last]) is not ElementWiseAddDesc:
            continue
        terms = _terms(ir, last)
        whole = _whole(ir, last, terms) if terms else None
        if whole is None:
            continue
        try:
            compile_node(ir.operators[terms[0].nodes[0]])  # imports the plans of gathers, and that of the whole with them
            compile_node(whole)
        except (CompileError, DescError, DeviceError):
            continue
        nodes = tuple(sorted((node for term in terms for node in term.nodes), key=ir.step))
        taken.update(nodes)
        reads = {"input_tensor": ir.reads[terms[0].data]}
        for at, term in enumerate(terms):
            reads[f"indices_tensors[{at}]"] = ir.reads[term.indices]
            reads[f"weight_tensors[{at}]"] = ir.reads[term.weight]
        groups.append(NodeGroup(nodes, whole, reads))
    return ir.with_groups(groups, taken) if groups else ir


def _terms(ir: GraphIR, last: int) -> list[_Term]:
    """The terms of a sum in order; none if it has something else, or too many.

    Terms are added one after the other: the second operand of each ADD is one.
    """
    terms: list[_Term] = []
    node: int | None = last
    while node is not None and type(ir.operators[node]) is ElementWiseAddDesc:
        term = _term(ir, ir.reads[node, "b_tensor"])
        if term is None or len(terms) + 1 == MOST_TERMS:
            return []
        terms.append(replace(term, nodes=(*term.nodes, node)))
        source = ir.reads[node, "a_tensor"]
        node = source[0] if ir.is_read_once(source) else None
    first = None if node is None else _term(ir, source)
    return [] if first is None else [first, *reversed(terms)]


def _term(ir: GraphIR, value: Source) -> _Term | None:
    """A value as a term, or None."""
    product = value[0]
    if product is None or not ir.is_read_once(value) or type(ir.operators[product]) is not ElementWiseMultiplyDesc:
        return None
    for place, other in _OPERANDS:
        source = ir.reads[product, place]
        gather = source[0]
        if gather is None or not isinstance(desc := ir.operators.get(gather), GatherND1Desc) or not ir.is_read_once(source):
            continue
        weight, indices = ir.seen((product, other)), desc.indices_tensor
        is_of_rows = desc.input_dimension_count == _DIMENSIONS and desc.batch_dimension_count == 1 and indices.sizes[-1] == 1
        if is_of_rows and indices.dimension_count == _DIMENSIONS and _repeats(weight):
            return _Term((gather, product), (gather, "input_tensor"), (gather, "indices_tensor"), (product, other))
    return None


def _repeats(weight: TensorDesc) -> bool:
    """Whether all channels have the same weight."""
    return weight.dimension_count == _DIMENSIONS and (weight.sizes[-1] == 1 or weight.element_strides[-1] == 0)


def _whole(ir: GraphIR, last: int, terms: list[_Term]) -> WeightedGatherDesc | None:
    """The terms as one operator, if they gather the same."""
    data, output = ir.seen(terms[0].data), ir.tensors[last, 0]
    if any(ir.reads[term.data] != ir.reads[terms[0].data] or ir.seen(term.data) != data for term in terms):
        return None
    weights = []
    for term in terms:
        seen = ir.seen(term.weight)
        strides = (*seen.element_strides[:-1], 1)
        weight = seen.replace(sizes=(*seen.sizes[:-1], 1), strides=strides, total_tensor_size_in_bytes=None)
        weights.append(weight.replace(strides=None) if weight.is_packed else weight)
    try:
        return WeightedGatherDesc(
            input_tensor=data,
            indices_tensors=[ir.seen(term.indices) for term in terms],
            weight_tensors=weights,
            output_tensor=output,
        )
    except DescError:
        return None
