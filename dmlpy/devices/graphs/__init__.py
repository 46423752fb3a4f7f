"""Graphs on devices: their memory is planned, activations and element-wise nodes are fused, views are not copied.

`compiled.py` has the classes for users. `ir.py` is the graph as it is run: the files `*_fusion.py` change it, and `buffers.py` puts values
into the memory of others. `scheduler.py` orders the nodes, `memory_planner.py` plans the block of memory, and `program.py` holds the
result; `packing.py` and `dispatch.py` run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.graphs.activation_fusion import fuse_activations
from dmlpy.devices.graphs.buffers import BufferAssignment
from dmlpy.devices.graphs.compiled import CompiledGraph, PreparedGraph
from dmlpy.devices.graphs.dispatch import GraphDispatch
from dmlpy.devices.graphs.elementwise_fusion import fuse_elementwise
from dmlpy.devices.graphs.ir import GraphIR
from dmlpy.devices.graphs.normalization_fusion import fuse_normalizations
from dmlpy.devices.graphs.program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.device import Device
    from dmlpy.devices.operator import CompiledOperator

__all__ = ["CompiledGraph", "GraphDispatch", "GraphIR", "PreparedGraph", "compile_ir"]


def compile_ir(
    ir: GraphIR,
    device: Device,
    feature_level: FeatureLevel,
    flags: ExecutionFlags,
    compile_node: Callable[[OperatorDesc], CompiledOperator],
    *,
    fuse: bool,
) -> CompiledGraph:
    """Plans a graph whose nodes all have plans.

    Args:
        ir: the graph's.
        device: where it runs.
        feature_level: the cap that the nodes are checked against.
        flags: the execution flags.
        compile_node: plans a desc for the device, level and flags. Rejected descs are not fused and not views.
        fuse: whether normalizations and activations are moved into the operators before them, and element-wise nodes run as one kernel.
    """
    whole = ir
    if fuse:
        whole = fuse_activations(fuse_normalizations(ir, compile_node), compile_node)
        whole = fuse_elementwise(whole, lambda desc: device.is_element_wise(desc, compile_node(desc)._plan), compile_node)
    program = program_of(whole, BufferAssignment(whole, compile_node), compile_node)
    for operator in program.operators:
        operator._plan.load()

    def traced() -> CompiledGraph:
        return compile_ir(ir.with_all_outputs(), device, feature_level, flags, compile_node, fuse=False)

    return CompiledGraph(ir.graph, program, device, feature_level, flags, fuse=fuse, traced=traced)
