"""Fuses element-wise nodes between bytes into tables of 256 results, if the device looks results up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.description.stored_floats import stored
from dmlpy.description.tensors import same_layout
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc, GroupedOperator
from dmlpy.devices.graphs.ir import NodeGroup
from dmlpy.devices.graphs.lookup_table_desc import LookupTableDesc, differs_along_last, repeated
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.normalization.batch import BatchNormalizationDesc
from dmlpy.operators.quantized.linear import (
    DequantizeDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use

MAX_NODES = 32
"""Nodes of a table, at most."""
_OPERATORS = (
    ElementWiseQuantizeLinearDesc,
    QuantizeDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseDequantizeLinearDesc,
    DequantizeDesc,
    BatchNormalizationDesc,
    ElementwiseGroupDesc,
)
_BYTES = (DataType.UINT8, DataType.INT8)


def fuse_lookup_tables(
    ir: GraphIR, is_element_wise: Callable[[OperatorDesc], bool], compile_node: Callable[[OperatorDesc], object]
) -> GraphIR:
    """The IR with the nodes between a tensor of bytes and its quantized function as one node each, in place of the last of them.

    The function is known when the graph is prepared: all else that the nodes read are constants and owned inputs, which repeat along the
    last dimension, and at most one other tensor of bytes that does, such as a factor for each channel. A node may be in several tables. It
    also runs by itself if other nodes read its result, or the graph has it as output.

    Args:
        ir: a graph's, with its element-wise nodes fused.
        is_element_wise: whether a desc is one of independent elements.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    able = {index for index, desc in ir.operators.items() if isinstance(desc, _OPERATORS) or is_element_wise(desc)}
    chains: list[NodeGroup] = []
    gone: set[int] = set()
    writers = {source[0] for source in ir.given}
    read = {source[0] for source in ir.reads.values()}
    for node in reversed(ir.order()):
        if node in read and node not in writers:
            gone.add(node)  # only nodes of tables read it
            continue
        chain = _longest(ir, node, able, compile_node) if node in able and _gives_bytes(ir, node) else None
        if chain is None:
            writers.update(source[0] for _, source in ir.reads_of(node))
        else:
            writers.update(source[0] for source in chain.reads.values())
            chains.append(chain)
    return ir.with_groups(chains, gone) if chains else ir


def _gives_bytes(ir: GraphIR, node: int) -> bool:
    """Whether a node computes bytes from other elements, or from bytes and others."""
    slots = ir.operators[node].output_slots()
    return all(slot.tensor is not None and slot.tensor.data_type in _BYTES for slot in slots)


def _longest(ir: GraphIR, last: int, able: set[int], compile_node: Callable[[OperatorDesc], object]) -> NodeGroup | None:
    """The longest chain that ends with a node and that the device looks up; None if there is none."""
    for chain in reversed(_ChainBuilder(ir, last, able).chains()):
        try:
            compile_node(chain.whole)
        except (CompileError, DescError, DeviceError):
            continue
        return chain
    return None


@dataclass
class _ChainBuilder:
    """The nodes that compute a quantized function of bytes.

    Attributes:
        ir: of the graph before.
        last: the node whose result leaves the chain.
        able: the nodes that a chain may have.
        members: the nodes so far.
        kept: the bytes that are computed in any case, at which a chain may begin.
    """

    ir: GraphIR
    last: int
    able: set[int]
    members: list[int] = field(default_factory=list)
    kept: set[Source] = field(default_factory=set)

    def chains(self) -> list[NodeGroup]:
        """The chains that are functions of one tensor of bytes, or of two of which one chooses a row of the table, the shortest first."""
        groups: list[NodeGroup] = []
        if self.last not in self.able or not self._adds(self.last):
            return groups
        while len(self.members) <= MAX_NODES:
            outside = list(dict.fromkeys(source for node in self.members for _, source in self._inner_reads(node)))
            operands = self._operands(outside)
            if operands is not None:
                group = self._group(*operands)
                if group is None:
                    break  # with more nodes, these constants do not repeat either
                groups.append(group)
                if self._is_needed(operands[0]):
                    self.kept.add(operands[0])  # its own function may become part of the convolution before it
            # The last one first: what others are functions of cannot come behind them.
            if not any(self._takes(source) for source in sorted(outside, key=self._step, reverse=True)):
                break
        return groups

    def _operands(self, outside: Sequence[Source]) -> tuple[Source, Source | None] | None:
        """What the members read from other nodes: the bytes of a row, and those that choose the row, if there are two."""
        if not 1 <= len(outside) <= 2 or not all(self._reads_bytes(source) for source in outside):
            return None
        if len(outside) == 1:
            return (outside[0], None) if self._seen(outside[0]).sizes == self._result.sizes else None
        for source, rows in (outside, reversed(outside)):
            of_rows = repeated(self._seen(rows), self._result.sizes)
            if self._seen(source).sizes == self._result.sizes and of_rows and not differs_along_last(of_rows, self._result.sizes):
                return source, rows
        return None

    def _is_needed(self, source: Source) -> bool:
        """Whether a value is computed also if no chain begins there: what is not element-wise reads it, or it is an output of the graph."""
        return source in self.ir.given or any(node not in self.able for node, _ in self.ir.readers[source])

    def _step(self, source: Source) -> int:
        """When a value is computed."""
        return -1 if source[0] is None else self.ir.step(source[0])

    def _inner_reads(self, node: int) -> Iterator[tuple[Use, Source]]:
        """The values that a member reads and that neither members nor constants give."""
        for use, source in self.ir.reads_of(node):
            if source not in self.ir.static and source[0] not in self.members:
                yield use, source

    def _seen(self, source: Source) -> TensorDesc:
        """The desc by which the first member reads a value."""
        return next(self.ir.seen(use) for use in self.ir.readers[source] if use[0] in self.members)

    def _reads_bytes(self, source: Source) -> bool:
        """Whether the members read a value as bytes, all in the same way."""
        seen, uses = self._seen(source), [use for use in self.ir.readers[source] if use[0] in self.members]
        return seen.data_type in _BYTES and all(self.ir.seen(use) == seen for use in uses)

    def _takes(self, source: Source) -> bool:
        """Adds the node that computes a value, if members read it as it is written, or repeated."""
        ir, node = self.ir, source[0]
        if node is None or node not in self.able or source in ir.uncovered or source in self.kept:
            return False
        if any(use[0] in self.members and not self._is_as_written(use, source) for use in ir.readers[source]):
            return False
        return self._adds(node)

    def _is_as_written(self, use: Use, source: Source) -> bool:
        """Whether a node reads a value with the type, sizes and layout that it is written with, or repeats it to other sizes."""
        seen, written = self.ir.seen(use), self.ir.tensors[source]
        if seen.data_type != written.data_type:
            return False
        if seen.sizes == written.sizes:
            return same_layout(written, seen.element_strides)
        as_read = repeated(written, seen.sizes)
        return as_read is not None and same_layout(as_read, seen.element_strides)

    def _adds(self, node: int) -> bool:
        """Adds a node of one result, if what it computes from is of the sizes of that, and these are repeated to those of the chain's."""
        outputs = [slot.tensor for slot in self.ir.operators[node].output_slots() if slot.tensor is not None]
        computed = [(use, source) for use, source in self.ir.reads_of(node) if source not in self.ir.static]
        if len(outputs) != 1 or not computed or not self._is_of_chain(outputs[0]):
            return False
        if any(self.ir.seen(use).sizes != outputs[0].sizes for use, _ in computed):
            return False
        if any(source[0] in self.members and not self._is_as_written(use, source) for use, source in computed):
            return False
        self.members.append(node)
        return True

    def _is_of_chain(self, output: TensorDesc) -> bool:
        """Whether a result has the chain's sizes, or is the same for all elements along the last dimension."""
        sizes = self._result.sizes
        if output.sizes == sizes:
            return True
        rows = repeated(output, sizes)
        return rows is not None and not differs_along_last(rows, sizes)

    @property
    def _result(self) -> TensorDesc:
        return self.ir.tensors[self.last, 0]

    def _group(self, source: Source, rows: Source | None) -> NodeGroup | None:
        """The members as one operator on bytes; None if they read blocks of constants, or others along the last dimension."""
        ir, nodes = self.ir, tuple(sorted(self.members, key=self.ir.step))
        constants: list[tuple[Source, TensorDesc]] = []  # symbolic sizes have no hash
        numbers: dict[Use, int] = {}
        of_rows: list[Use] = []
        for node in nodes:
            for use, read in ir.reads_of(node):
                if read == source:
                    numbers[use] = 0
                elif read == rows:
                    of_rows.append(use)
                elif read in ir.static:
                    constant = repeated(ir.seen(use), self._result.sizes)
                    if constant is None or differs_along_last(constant, self._result.sizes):
                        return None
                    if (read, constant) not in constants:
                        constants.append((read, constant))
                    numbers[use] = 1 + constants.index((read, constant))
        numbers |= dict.fromkeys(of_rows, 1 + len(constants))
        first_result = 1 + len(constants) + (rows is not None)
        results = {node: first_result + at for at, node in enumerate(nodes)}
        operators = []
        for node in nodes:
            places = [(use, read[0]) for use, read in ir.reads_of(node)]
            values_read = tuple((use[1], numbers[use] if use in numbers else results[writer or 0]) for use, writer in places)
            operators.append(GroupedOperator(stored(ir.operators[node]), values_read))
        tensors = [tensor for _, tensor in constants]
        given: dict[str, Any] = {"input_tensor": self._seen(source), "constant_tensors": tensors, "output_tensor": self._result}
        reads = {"input_tensor": source} | {f"constant_tensors[{number}]": constant for number, (constant, _) in enumerate(constants)}
        if rows is not None:
            given["row_tensor"], reads["row_tensor"] = repeated(self._seen(rows), self._result.sizes), rows
        return NodeGroup(nodes, LookupTableDesc(**given, nodes=tuple(operators)), reads)
