"""Fuses DEQUANTIZE_LINEAR of two operands, an operator of both and its QUANTIZE_LINEAR into one node, if the device has one pass for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.graphs.ir import NodeGroup
from dmlpy.devices.graphs.quantized_binary_desc import BinaryOperator, QuantizedBinaryDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.elementwise.arithmetic import (
    ElementWiseAddDesc,
    ElementWiseDivideDesc,
    ElementWiseMaxDesc,
    ElementWiseMinDesc,
    ElementWiseMultiplyDesc,
    ElementWiseSubtractDesc,
)
from dmlpy.operators.quantized.linear import ElementWiseDequantizeLinearDesc, ElementWiseQuantizeLinearDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import GraphIR, Source, Use


_OPERATORS: dict[type[OperatorDesc], BinaryOperator] = {
    ElementWiseAddDesc: BinaryOperator.ADD,
    ElementWiseSubtractDesc: BinaryOperator.SUBTRACT,
    ElementWiseMultiplyDesc: BinaryOperator.MULTIPLY,
    ElementWiseDivideDesc: BinaryOperator.DIVIDE,
    ElementWiseMaxDesc: BinaryOperator.MAX,
    ElementWiseMinDesc: BinaryOperator.MIN,
}
_NUMBERS = (ElementWiseDequantizeLinearDesc,)


def fuse_quantized_binaries(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each operator of two dequantized values that is only read to be quantized as one node, in place of the quantization.

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
    binary = _writer(ir, (last, "input_tensor"), _OPERATORS)
    if binary is None:
        return None
    a, b = (_writer(ir, (binary, f"{name}_tensor"), _NUMBERS) for name in "ab")
    if a is None or b is None:
        return None
    uses: dict[str, Use] = {f"output_{part}": (last, part) for part in ("scale_tensor", "zero_point_tensor")}
    for name, operand in (("a", a), ("b", b)):
        uses |= {f"{name}_tensor": (operand, "input_tensor")}
        uses |= {f"{name}_{part}": (operand, part) for part in ("scale_tensor", "zero_point_tensor")}
    if not all(use in ir.reads for use in uses.values()):
        return None
    try:
        tensors = {place: ir.seen(use) for place, use in uses.items()}
        whole = QuantizedBinaryDesc(**tensors, output_tensor=ir.tensors[last, 0], operator=_OPERATORS[type(ir.operators[binary])])
    except DescError:
        return None
    reads: dict[str, Source] = {place: ir.reads[use] for place, use in uses.items()}
    return NodeGroup((*sorted((a, b, binary), key=ir.step), last), whole, reads)


def _writer(ir: GraphIR, use: Use, kinds: Collection[type[OperatorDesc]]) -> int | None:
    """The node of one of some kinds that writes a value that is read here alone, as it is written; None if there is none."""
    source = ir.reads[use]
    node = source[0]
    return node if node is not None and type(ir.operators.get(node)) in kinds and ir.is_read_once(source) else None
