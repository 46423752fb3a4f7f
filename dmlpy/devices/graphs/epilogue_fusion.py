"""Moves additions into the convolutions and matrix products before them, and products of a result and its sigmoid into convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.graphs.activation_fusion import OUTPUT, Fusion, output_of_whole, replace_fused
from dmlpy.devices.graphs.fused_convolution_descs import (
    EpilogueConvolutionDesc,
    NormalizedConvolutionDesc,
    NormalizedEpilogueConvolutionDesc,
)
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.activation import (
    ActivationHardSigmoidDesc,
    ActivationHardSwishDesc,
    ActivationSigmoidDesc,
    ActivationSwishDesc,
)
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseAdd1Desc, ElementWiseAddDesc, ElementWiseMultiplyDesc
from dmlpy.operators.matrix import GEMMDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source
    from dmlpy.devices.operator import CompiledOperator

_WHOLES: dict[type[OperatorDesc], type[EpilogueConvolutionDesc]] = {
    ConvolutionDesc: EpilogueConvolutionDesc,
    NormalizedConvolutionDesc: NormalizedEpilogueConvolutionDesc,
}
"""The convolutions that take an epilogue, and what they are with it."""
_OPERANDS = ("a_tensor", "b_tensor"), ("b_tensor", "a_tensor")


def fuse_epilogues(ir: GraphIR, compile_node: Callable[[OperatorDesc], CompiledOperator]) -> GraphIR:
    """The IR with epilogues in the convolutions and matrix products whose results they alone read, if a device computes them in one pass.

    An epilogue of a convolution is SWISH, HARD_SWISH, a MULTIPLY of the result by its SIGMOID or HARD_SIGMOID, or an ADD of a tensor of the
    same layout, also behind a batch normalization that the convolution has; that of a matrix product without C is an ADD, whose other
    tensor becomes C.

    Args:
        ir: a graph's, with its activations fused.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    fusions = []
    for index, desc in ir.operators.items():
        for fusion in _fusions(ir, index, desc):
            try:
                plan = compile_node(fusion.whole)._plan
            except (CompileError, DescError, DeviceError):
                continue
            if isinstance(fusion.whole, GEMMDesc) and not plan.adds_in_same_pass:
                continue
            fusions.append(fusion)
            break
    return replace_fused(ir, fusions) if fusions else ir


def _fusions(ir: GraphIR, index: int, desc: OperatorDesc) -> Iterator[Fusion]:
    """The node in a convolution, in each way that there is."""
    if isinstance(desc, ActivationSwishDesc) and desc.sigmoid_input_scale == 1.0:
        yield from _into_convolution(ir, index, ir.reads[index, "input_tensor"], ["input_tensor"], {"gate": "swish"})
    elif isinstance(desc, ActivationHardSwishDesc):
        line = {"gate": "hard_swish", "alpha": desc.alpha, "beta": desc.beta}
        yield from _into_convolution(ir, index, ir.reads[index, "input_tensor"], ["input_tensor"], line)
    elif isinstance(desc, ElementWiseMultiplyDesc):
        for place, other in _OPERANDS:
            yield from _with_factor(ir, index, place, ir.reads[index, other])
    elif isinstance(desc, ElementWiseAddDesc | ElementWiseAdd1Desc):
        members = {"fused_activation": getattr(desc, "fused_activation", None)}
        for place, other in _OPERANDS:
            if ir.reads[index, place] != ir.reads[index, other]:
                yield from _into_convolution(ir, index, ir.reads[index, place], [place], members, other)
                yield from _into_product(ir, index, place, members, other)


def _with_factor(ir: GraphIR, index: int, place: str, factor: Source) -> Iterator[Fusion]:
    """A product of a convolution's result, at `place`, and a factor that is a function of it."""
    node, source = factor[0], ir.reads[index, place]
    desc = None if node is None else ir.operators.get(node)
    if node is None or len(ir.readers[factor]) > 1 or factor in ir.given or ir.reads.get((node, "input_tensor")) != source:
        return
    if isinstance(desc, ActivationSigmoidDesc):
        yield from _into_convolution(ir, index, source, [place], {"gate": "silu"}, between=node)
    elif isinstance(desc, ActivationHardSigmoidDesc):
        line = {"gate": "hard_silu", "alpha": desc.alpha, "beta": desc.beta}
        yield from _into_convolution(ir, index, source, [place], line, between=node)


def _into_convolution(
    ir: GraphIR,
    index: int,
    source: Source,
    places: Sequence[str],
    members: dict[str, Any],
    added: str | None = None,
    between: int | None = None,
) -> Iterator[Fusion]:
    """The node in the convolution that writes a value which it reads, with these members of the whole; nothing if it cannot be there.

    Args:
        ir: the graph's.
        index: the node.
        source: the value.
        places: where the node reads it.
        members: the members.
        added: where the node reads what is added.
        between: a node that computes another operand of the value.
    """
    writer, desc = source[0], ir.operators[index]
    convolution = None if writer is None else ir.operators.get(writer)
    tensors, readers = desc.tensors(), {index, *([] if between is None else [between])}
    if writer is None or not isinstance(convolution, ConvolutionDesc) or type(convolution) not in _WHOLES or source in ir.given:
        return
    if convolution.fused_activation is not None:
        return
    if {node for node, _ in ir.readers[source]} != readers or len(ir.readers[source]) != len(readers):
        return
    written = ir.tensors[source]
    given = [tensors[place] for place in places]
    if between is not None:
        given += [tensor for tensor in ir.operators[between].tensors().values() if tensor is not None]
        given += [tensors[place] for place in ("a_tensor", "b_tensor") if place not in places]
    output = output_of_whole(written, given, tensors[OUTPUT])
    if output is None:
        return
    if added is not None:
        other = output_of_whole(written, [], tensors[added])
        if other is None:
            return
        members = {**members, "added_tensor": other}
    of_convolution = {name: getattr(convolution, name) for name in type(convolution).model_fields}
    try:
        whole = _WHOLES[type(convolution)](**of_convolution | {OUTPUT: output} | members)
    except DescError:
        return
    moved = {} if added is None else {added: "added_tensor"}
    yield Fusion(index, source, whole, tensors[OUTPUT], moved, () if between is None else (between,))


def _into_product(ir: GraphIR, index: int, place: str, members: dict[str, Any], other: str) -> Iterator[Fusion]:
    """A sum in the matrix product that it reads at `place`, with what it reads at `other` as C; nothing if it cannot be there."""
    source, tensors = ir.reads[index, place], ir.operators[index].tensors()
    product = None if source[0] is None else ir.operators.get(source[0])
    if type(product) is not GEMMDesc or product.c_tensor is not None or product.fused_activation is not None:
        return
    if source in ir.given or len(ir.readers[source]) != 1:
        return
    written = ir.tensors[source]
    output, added = output_of_whole(written, [tensors[place]], tensors[OUTPUT]), output_of_whole(written, [], tensors[other])
    if output is None or added is None:
        return
    try:
        whole = product.replace(**{**members, "c_tensor": added, "beta": 1.0, OUTPUT: output})
    except DescError:
        return
    yield Fusion(index, source, whole, tensors[OUTPUT], {other: "c_tensor"})
