"""Fuses DEQUANTIZE_LINEAR of two factors, their product and its QUANTIZE_LINEAR into one node, if the device computes them in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.graphs.ir import NodeGroup
from dmlpy.devices.graphs.quantized_product_desc import QuantizedElementProductDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.elementwise.arithmetic import ElementWiseMultiplyDesc
from dmlpy.operators.quantized.linear import ElementWiseDequantizeLinearDesc, ElementWiseQuantizeLinearDesc

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use


def fuse_quantized_products(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each product of two dequantized values that is only read to be quantized as one node, in place of the quantization.

    Args:
        ir: a graph's.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    groups: list[NodeGroup] = []
    for last, desc in ir.operators.items():
        if type(desc) is ElementWiseQuantizeLinearDesc and (group := _group(ir, last)) is not None:
            try:
                compile_node(desc)  # imports the plans of quantized operators, and that of the whole with them
                compile_node(group.whole)
            except (CompileError, DescError, DeviceError):
                continue
            groups.append(group)
    return ir.with_groups(groups, {node for group in groups for node in group.nodes}) if groups else ir


def _group(ir: GraphIR, last: int) -> NodeGroup | None:
    """The nodes that end with a quantization, or None."""
    product = _writer(ir, (last, "input_tensor"), ElementWiseMultiplyDesc)
    if product is None:
        return None
    a, b = (_writer(ir, (product, f"{name}_tensor"), ElementWiseDequantizeLinearDesc) for name in "ab")
    if a is None or b is None:
        return None
    uses: dict[str, Use] = {f"output_{part}": (last, part) for part in ("scale_tensor", "zero_point_tensor")}
    for name, factor in (("a", a), ("b", b)):
        uses |= {f"{name}_tensor": (factor, "input_tensor")}
        uses |= {f"{name}_{part}": (factor, part) for part in ("scale_tensor", "zero_point_tensor")}
    if not all(use in ir.reads for use in uses.values()):
        return None
    try:
        whole = QuantizedElementProductDesc(**{place: ir.seen(use) for place, use in uses.items()}, output_tensor=ir.tensors[last, 0])
    except DescError:
        return None
    reads: dict[str, Source] = {place: ir.reads[use] for place, use in uses.items()}
    return NodeGroup((*sorted((a, b, product), key=ir.step), last), whole, reads)


def _writer(ir: GraphIR, use: Use, kind: type[OperatorDesc]) -> int | None:
    """The node of a kind that writes a value that is read here alone, as it is written; None if there is none."""
    source = ir.reads[use]
    node = source[0]
    if node is None or source not in ir.tensors or type(ir.operators.get(node)) is not kind:
        return None
    is_read_once = len(ir.readers.get(source, ())) == 1 and source not in ir.given and source not in ir.uncovered
    return node if is_read_once and ir.seen(use) == ir.tensors[source] else None
