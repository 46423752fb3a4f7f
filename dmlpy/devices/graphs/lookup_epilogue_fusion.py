"""Moves tables of bytes into the quantized convolutions before them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.activation_fusion import OUTPUT, Fusion, output_of_whole, replace_fused
from dmlpy.devices.graphs.lookup_table_desc import LookupConvolutionDesc, LookupTableDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.quantized.products import QuantizedLinearConvolutionDesc

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import GraphIR


def fuse_lookup_epilogues(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each table in the convolution whose results it alone reads, if a device looks them up in the same pass.

    Args:
        ir: a graph's, with its tables.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    fusions = []
    for index, desc in ir.operators.items():
        if isinstance(desc, LookupTableDesc) and (fusion := _into_convolution(ir, index, desc)) is not None:
            try:
                compile_node(fusion.whole)
            except (CompileError, DescError, DeviceError):
                continue
            fusions.append(fusion)
    if not fusions:
        return ir
    fused = dict(ir.fused)
    for fusion in fusions:
        fused[fusion.writer] = (*fused.get(fusion.writer, ()), *ir.groups[fusion.index])
    gone = {fusion.index for fusion in fusions}
    groups = {node: members for node, members in ir.groups.items() if node not in gone}
    return replace(replace_fused(ir, fusions), fused=fused, groups=groups)


def _into_convolution(ir: GraphIR, index: int, table: LookupTableDesc) -> Fusion | None:
    """One table in the convolution that it reads, or None if it cannot be there."""
    source = ir.reads[index, "input_tensor"]
    convolution = None if source[0] is None else ir.operators.get(source[0])
    if type(convolution) is not QuantizedLinearConvolutionDesc or len(ir.readers[source]) > 1 or source in ir.given:
        return None
    if table.row_tensor is not None:
        return None
    written, output = ir.tensors[source], table.output_tensor
    if table.input_tensor.dimension_count != written.dimension_count or output_of_whole(written, [table.input_tensor], output) is None:
        return None
    of_convolution = {name: getattr(convolution, name) for name in type(convolution).model_fields}
    try:
        whole = LookupConvolutionDesc(**of_convolution | {OUTPUT: output}, constant_tensors=table.constant_tensors, nodes=table.nodes)
    except DescError:
        return None
    places = [f"constant_tensors[{number}]" for number in range(len(table.constant_tensors))]
    return Fusion(index, source, whole, output, {place: place for place in places})
