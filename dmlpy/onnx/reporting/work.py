"""`Work`: the arithmetic and the memory traffic of nodes, and `Border`: what is copied between DirectML and the host."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import TYPE_CHECKING

from dmlpy.devices.flops import flops_of
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import GraphProto

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import NodeRecord
    from dmlpy.onnx.reporting.partitions import Partition

ON_DIRECTML = frozenset({"directml", "deferred"})
"""Places of nodes that read and write the device's memory, sooner or later."""
ON_HOST = frozenset({"host", "nowhere"})
"""Places of nodes that read and write the host's memory."""
SIZE_OPERATORS = frozenset({"Shape", "Size"})
"""Operators that read the sizes of a tensor, but none of its elements."""
_PRODUCTS = frozenset({"MatMul", "MatMulInteger", "Gemm"})
_CONVOLUTIONS = frozenset({"Conv", "ConvInteger"})
_CELLS = frozenset({"RNN", "GRU", "LSTM"})


@dataclass(frozen=True)
class Work:
    """The work of a node for the sizes of a report.

    Attributes:
        flops: operations, of products two for each multiplication: those of its operators' formulas, or an estimate for a node without
            operators. None where sizes or data decide it.
        bytes_moved: the bytes that it reads and writes; None where sizes are not known.
    """

    flops: int | None
    bytes_moved: int | None


@dataclass(frozen=True)
class Border:
    """The values copied between two partitions, of which DirectML runs one and the host the other.

    Attributes:
        source: the index of the partition that computes it.
        target: the index of the partition that reads it.
        to_host: whether it is copied to the host; else to DirectML's memory.
        values: the names of the values.
        size: their bytes in a run; None where a size is not known before the model runs.
    """

    source: int
    target: int
    to_host: bool
    values: tuple[str, ...]
    size: int | None


class KnownValues:
    """The values of a model by name, with the sizes of its initializers.

    Args:
        graph: the model's graph.
        inputs: its inputs.
        nodes: its nodes.
    """

    def __init__(self, graph: GraphProto, inputs: Iterable[Value], nodes: Iterable[NodeRecord]) -> None:
        known = ((tensor.name, (tensor.data_type, tuple(tensor.dims))) for tensor in graph.initializer)
        self._sizes: dict[str, tuple[int, tuple[int, ...]] | None] = dict(known)
        for value in (*inputs, *(value for node in nodes for value in node.outputs)):
            is_known = value.kind == "tensor" and value.element is not None and value.is_static
            self._sizes[value.name] = (value.element or 0, value.static_sizes) if is_known else None

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The sizes of a value; None if they are not known."""
        element_and_sizes = self._sizes.get(name)
        return None if element_and_sizes is None else element_and_sizes[1]

    def bytes_of(self, name: str) -> int | None:
        """The bytes of a value; None if they are not known. What a subgraph holds counts nothing."""
        if name not in self._sizes:
            return 0
        element_and_sizes = self._sizes[name]
        return None if element_and_sizes is None else prod(element_and_sizes[1]) * dtype_of(element_and_sizes[0]).itemsize


def node_work(node: NodeRecord, values: KnownValues) -> Work:
    """The work of a node."""
    if node.descs:
        counts = [flops_of(desc) for desc in node.descs]
        return Work(_sum(counts), sum(map(_tensor_bytes, node.descs)))
    if node.where == "folded" or (node.where == "directml" and node.stage is not None and node.stage % 2 == 0):  # the latter is a view
        return Work(0, 0)
    sizes = [values.bytes_of(name) for name in node.inputs if name] + [values.bytes_of(value.name) for value in node.outputs]
    return Work(_estimated_flops(node, values), _sum(sizes))


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _tensor_bytes(desc: OperatorDesc) -> int:
    return sum(-(-tensor.element_count * tensor.data_type.bits // 8) for tensor in desc.tensors().values())


def _estimated_flops(node: NodeRecord, values: KnownValues) -> int | None:
    """The operations of a node without descs: those of products from their sizes, else one for each element that it reads or writes."""
    read = [values.sizes(name) for name in node.inputs if name]
    written = [values.sizes(value.name) for value in node.outputs]
    if None in (*read, *written):
        return None
    sizes = [each for each in read if each is not None]
    results = [each for each in written if each is not None]
    elements = max(map(prod, (*sizes, *results)), default=0)
    if node.domain != "" or len(sizes) < 2 or not results:
        return elements
    if node.op_type in _PRODUCTS:
        # Of [m, k], [k, n] and [m, n], transposed or not, the elements have the product (m k n)^2.
        of_matrices = 2 * isqrt(prod(sizes[0]) * prod(sizes[1]) * prod(results[0]))
        return of_matrices if len(sizes[0]) == len(sizes[1]) == 2 else 2 * prod(results[0]) * (sizes[0] or (1,))[-1]
    if node.op_type in _CONVOLUTIONS:
        return 2 * prod(results[0]) * prod(sizes[1][1:])
    if node.op_type == "ConvTranspose":
        return 2 * prod(sizes[0]) * prod(sizes[1][1:])
    if node.op_type in _CELLS and len(sizes) > 2:
        return 2 * prod(sizes[0][:2]) * (prod(sizes[1]) + prod(sizes[2]))
    return elements


def find_borders(partitions: Sequence[Partition], nodes: Iterable[NodeRecord], values: KnownValues) -> tuple[Border, ...]:
    """The values copied between partitions, in order, without the model's inputs and outputs, which are always copied."""
    of_node = {name: index for index, partition in enumerate(partitions) for name in partition.nodes}
    sources: dict[str, NodeRecord] = {}
    passed: dict[tuple[int, int, bool], dict[str, None]] = {}
    for node in nodes:
        for name in () if node.op_type in SIZE_OPERATORS else node.inputs:
            source = sources.get(name)
            if source is None or source.name not in of_node or node.name not in of_node:
                continue
            sides = [record.where in ON_HOST for record in (source, node)]
            if sides[0] != sides[1]:
                passed.setdefault((of_node[source.name], of_node[node.name], sides[1]), {})[name] = None
        sources |= {value.name: node for value in node.outputs}
    borders = []
    for (source_index, target, to_host), names in sorted(passed.items()):
        size = _sum([values.bytes_of(name) for name in names])
        borders.append(Border(source_index, target, to_host, tuple(names), size))
    return tuple(borders)


def total(works: Iterable[Work]) -> Work:
    """The sums of what is known."""
    works = tuple(works)
    return Work(sum(work.flops or 0 for work in works), sum(work.bytes_moved or 0 for work in works))


def by_node(nodes: Iterable[NodeRecord], values: KnownValues) -> Mapping[str, Work]:
    """The work of each node, by its name."""
    return {node.name: node_work(node, values) for node in nodes}
