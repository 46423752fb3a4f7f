"""Graphs on devices: their memory is planned, activations and element-wise nodes are fused, views are not copied.

`compiled.py` has the classes for users. `ir.py` is the graph as it is run: the files `*_fusion.py` change it, and `buffers.py` puts values
into the memory of others. `scheduler.py` orders the nodes, `memory_planner.py` plans the block of memory, and `program.py` holds the
result; `packing.py` and `dispatch.py` run it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.activation_fusion import fuse_activations
from dmlpy.devices.graphs.buffers import BufferAssignment
from dmlpy.devices.graphs.compiled import CompiledGraph, PreparedGraph
from dmlpy.devices.graphs.dispatch import GraphDispatch
from dmlpy.devices.graphs.elementwise_fusion import fuse_elementwise
from dmlpy.devices.graphs.epilogue_fusion import fuse_epilogues
from dmlpy.devices.graphs.ir import GraphIR
from dmlpy.devices.graphs.program import GraphProgram, program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.device import Device
    from dmlpy.devices.operator import CompiledOperator

__all__ = [
    "BufferAssignment",
    "CompiledGraph",
    "GraphDispatch",
    "GraphIR",
    "GraphProgram",
    "PreparedGraph",
    "assign_buffers",
    "compile_program",
    "loaded_program",
]

_NORMALIZING = "BATCH_NORMALIZATION"
"""The operator that is moved into a convolution."""
_QUANTIZING = frozenset({"ELEMENT_WISE_QUANTIZE_LINEAR", "QUANTIZE", "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "CAST"})
"""The operators that end a function of bytes."""
_CONVOLUTION_OF_BYTES = "QUANTIZED_LINEAR_CONVOLUTION"
"""The operator that tables are moved into."""
_BINARY = frozenset(f"ELEMENT_WISE_{name}" for name in ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "MAX", "MIN"))
"""The operators between two quantized operands and their quantized result."""
_GATHERS = "GATHER_ND1"
"""The operator in each term of a sum of weighted gathers, which has at least two."""


def assign_buffers(
    ir: GraphIR, device: Device, compile_node: Callable[[OperatorDesc], CompiledOperator], *, fuse: bool
) -> BufferAssignment:
    """Fuses the nodes of a graph, and finds places for their values.

    Args:
        ir: the graph's.
        device: where it runs.
        compile_node: plans a desc. Rejected descs are not fused and not views.
        fuse: whether normalizations, activations and epilogues are moved into the operators before them, element-wise nodes run as one
            kernel, functions of bytes are looked up, and element-wise operators of two quantized tensors are one node.
    """
    if fuse:
        if any(desc.short_name() == _NORMALIZING for desc in ir.operators.values()):
            from dmlpy.devices.graphs.normalization_fusion import fuse_normalizations  # imports the normalizations of images

            ir = fuse_normalizations(ir, compile_node)
        ir = fuse_epilogues(fuse_activations(ir, compile_node), compile_node)

        def is_element_wise(desc: OperatorDesc) -> bool:
            return device.is_element_wise(desc, lambda other: compile_node(other)._plan)

        if sum(desc.short_name() == _GATHERS for desc in ir.operators.values()) > 1:
            from dmlpy.devices.graphs.weighted_gather_fusion import fuse_weighted_gathers  # few graphs have such operators

            ir = fuse_weighted_gathers(ir, compile_node)
        looks_up = device.looks_up_bytes and any(desc.short_name() in _QUANTIZING for desc in ir.operators.values())
        ir = fuse_elementwise(ir, is_element_wise, compile_node)
        if looks_up:
            from dmlpy.devices.graphs.lookup_table_fusion import fuse_lookup_tables  # few graphs have such operators

            ir = fuse_lookup_tables(ir, is_element_wise, compile_node)
            if any(desc.short_name() in _BINARY for desc in ir.operators.values()):
                from dmlpy.devices.graphs.quantized_binary_fusion import fuse_quantized_binaries  # imports the quantized operators

                ir = fuse_quantized_binaries(ir, compile_node)
            if any(desc.short_name() == _CONVOLUTION_OF_BYTES for desc in ir.operators.values()):
                from dmlpy.devices.graphs.lookup_epilogue_fusion import fuse_lookup_epilogues  # imports the quantized products

                ir = fuse_lookup_epilogues(ir, compile_node)
    return BufferAssignment(ir, compile_node)


def loaded_program(
    buffers: BufferAssignment,
    compile_node: Callable[[OperatorDesc], CompiledOperator],
    operators: Mapping[int, CompiledOperator] | None = None,
    like: GraphProgram | None = None,
) -> GraphProgram:
    """The program of a graph whose values have places, with the kernels of its nodes loaded.

    Args:
        buffers: the places.
        compile_node: plans a desc for the device, level and flags.
        operators: the nodes that run, compiled for the layouts of the places; None compiles them, and takes the variants that the device
            has measured to be the fastest, if it measures.
        like: a program of the same graph for other sizes, whose order is taken.
    """
    if operators is None:
        operators = {index: _tuned(compile_node(buffers.desc(index))) for index in buffers.order}
    program = program_of(buffers, operators, compile_node, like)
    program.prepare()
    return program


def _tuned(operator: CompiledOperator) -> CompiledOperator:
    device = operator.device
    plan = device.tuned(operator.desc, operator._plan, device.current_stream())
    return operator if plan is operator._plan else replace(operator, _plan=plan)


def compile_program(
    program: GraphProgram,
    device: Device,
    feature_level: FeatureLevel | None,
    flags: ExecutionFlags,
    compile_node: Callable[[OperatorDesc], CompiledOperator],
    *,
    fuse: bool,
) -> CompiledGraph:
    """A graph with its program.

    Args:
        program: the program, whose kernels are loaded.
        device: where it runs.
        feature_level: the cap that the nodes were checked against, or None.
        flags: the execution flags.
        compile_node: plans a desc for the device, level and flags.
        fuse: as `assign_buffers` had it.
    """
    graph = program.ir.graph

    def traced() -> CompiledGraph:
        buffers = assign_buffers(GraphIR.of(graph).with_all_outputs(), device, compile_node, fuse=False)
        return compile_program(loaded_program(buffers, compile_node), device, feature_level, flags, compile_node, fuse=False)

    return CompiledGraph(graph, program, device, feature_level, flags, fuse=fuse, traced=traced)
