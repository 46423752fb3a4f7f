"""Moves activations into the operators before them, if those have a `fused_activation`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dmlpy.description.descs import FusableDesc
from dmlpy.description.tensors import same_layout, with_dimension_count
from dmlpy.devices.graphs.views import movements
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.elementwise.arithmetic import ElementWiseAdd1Desc, ElementWiseAddDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source

OUTPUT = "output_tensor"
"""The output that a fused activation is applied to."""


def fuse_activations(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each activation in the node that it reads, if nothing else reads that node's result.

    Args:
        ir: a graph's.
        compile_node: compiles a desc. A desc that it rejects, for the feature level or the device, is not fused.
    """
    # Each is checked against the original IR: no activation is the writer of another, so they are independent.
    fusions = [
        fusion
        for index in ir.order()
        if isinstance(ir.operators[index], FusableDesc) and (fusion := _into_writer(ir, index, compile_node)) is not None
    ]
    return replace_fused(ir, fusions) if fusions else ir


@dataclass(frozen=True)
class Fusion:
    """An activation, or another function of a node's result alone, that becomes part of that node.

    Attributes:
        index: the activation's node.
        source: the value that it reads.
        whole: the operator of both.
        output: the desc of the activation's result.
        places: where the whole reads the activation's other inputs, by their places in the activation.
        between: nodes between both, which nothing else reads; they become part of the whole, too.
    """

    index: int
    source: Source
    whole: OperatorDesc
    output: TensorDesc
    places: Mapping[str, str] = field(default_factory=dict)
    between: tuple[int, ...] = ()

    @property
    def writer(self) -> int:
        """The node whose result it reads."""
        assert self.source[0] is not None, "it is not an input of the graph"
        return self.source[0]


def _into_writer(ir: GraphIR, index: int, compile_node: Callable[[OperatorDesc], object]) -> Fusion | None:
    """One activation in the node that it reads, or None if it cannot be there."""
    activation = ir.operators[index]
    tensors = activation.tensors()
    if tensors.keys() != {"input_tensor", OUTPUT} or movements(activation):
        return None
    source = ir.reads[index, "input_tensor"]
    writer = source[0]
    if writer is None or writer not in ir.operators or len(ir.readers[source]) > 1 or source in ir.given:
        return None
    desc, written = _with_fused_activation(ir.operators[writer]), ir.tensors[source]
    if ir.written[source] != OUTPUT or getattr(desc, "fused_activation", activation) is not None:
        return None
    given, output = tensors["input_tensor"], tensors[OUTPUT]
    if given.dimension_count != written.dimension_count and "axes" in type(activation).model_fields:
        return None  # they count from the first dimension
    if getattr(activation, "fusable", True):  # a function of single elements, which knows of no dimensions; CLIP is one
        given, result = _reshaped(given, written), _reshaped(output, written)
    else:
        result = output
    whole_output = output_of_whole(written, [given], result)
    if whole_output is None:
        return None
    try:
        function = activation.replace(input_tensor=None, output_tensor=None)
        whole = desc.replace(fused_activation=function, output_tensor=whole_output)
        compile_node(whole)
    except (CompileError, DescError, DeviceError):
        return None
    return Fusion(index, source, whole, output)


def output_of_whole(written: TensorDesc, given: Sequence[TensorDesc], output: TensorDesc) -> TensorDesc | None:
    """A result in as many dimensions as what a node writes, which it is computed of; None if that is read in another type or layout.

    Args:
        written: what the node writes.
        given: how it is read.
        output: the result.
    """
    rank = written.dimension_count
    whole = with_dimension_count(output, rank)
    if whole is None or whole.data_type != written.data_type or whole.sizes != written.sizes:
        return None
    for tensor in given:
        read = with_dimension_count(tensor, rank)
        if read is None or read.data_type != written.data_type:
            return None
        if read.sizes != written.sizes or not same_layout(written, read.element_strides):
            return None
    return whole


def _reshaped(tensor: TensorDesc, written: TensorDesc) -> TensorDesc:
    """A tensor in the dimensions of another one of the same elements in order: a convolution along one axis has a height of 1 besides."""
    is_whole = tensor.is_packed and written.is_packed and tensor.element_count == written.element_count
    return tensor.replace(sizes=written.sizes, strides=None) if is_whole and tensor.sizes != written.sizes else tensor


def _with_fused_activation(desc: OperatorDesc) -> OperatorDesc:
    """The desc, or ADD1 instead of ADD: the same operator, with a `fused_activation`."""
    if isinstance(desc, ElementWiseAddDesc):
        return ElementWiseAdd1Desc(a_tensor=desc.a_tensor, b_tensor=desc.b_tensor, output_tensor=desc.output_tensor)
    return desc


def replace_fused(ir: GraphIR, fusions: Sequence[Fusion]) -> GraphIR:
    """The IR in which writers compute what their activations did."""
    gone = {fusion.index: fusion for fusion in fusions}
    left_out = {index for fusion in fusions for index in (fusion.index, *fusion.between)}
    whole = {fusion.writer: fusion.whole for fusion in fusions}
    results: dict[Source, Source] = {(fusion.index, 0): fusion.source for fusion in fusions}
    operators = {node: whole.get(node, desc) for node, desc in ir.operators.items() if node not in left_out}
    reads = {use: results.get(value, value) for use, value in ir.reads.items() if use[0] not in left_out}
    for each in fusions:
        others = {place: ir.reads[each.index, before] for before, place in each.places.items()}
        reads |= {(each.writer, place): results.get(value, value) for place, value in others.items()}
    outputs = {name: results.get(value, value) for name, value in ir.outputs.items()}
    # Callers bind the activation's result, though the writer may have more leading dimensions.
    declared = {name: gone[value[0]].output for name, value in ir.outputs.items() if value[0] in gone} | dict(ir.declared)
    fused = dict(ir.fused) | {fusion.writer: (*ir.fused.get(fusion.writer, ()), *fusion.between, fusion.index) for fusion in fusions}
    return replace(ir, operators=operators, reads=reads, outputs=outputs, declared=declared, fused=fused)
