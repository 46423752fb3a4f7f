"""Moves activations into the operators before them, where those have a `fused_activation`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dmlpy.description.descs import FusableDesc
from dmlpy.description.tensors import same_layout
from dmlpy.devices.graphs.views import movements
from dmlpy.validation.problems import CompileError, DescError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.wiring import Source, Wiring

OUTPUT = "output_tensor"
"""The output that a fused activation is applied to."""


def fused(wiring: Wiring, compile_node: Callable[[OperatorDesc], object]) -> Wiring:
    """The wiring with each activation in the node that it reads, where nothing else reads that node's result.

    Args:
        wiring: a graph's.
        compile_node: compiles a desc. A desc that it refuses, for the feature level or the device, stays as it was.
    """
    for index in wiring.order():
        if isinstance(wiring.operators[index], FusableDesc):
            wiring = _fused_into_writer(wiring, index, compile_node) or wiring
    return wiring


def _fused_into_writer(wiring: Wiring, index: int, compile_node: Callable[[OperatorDesc], object]) -> Wiring | None:
    """The wiring with one activation in the node that it reads, or None if it cannot be there."""
    activation = wiring.operators[index]
    tensors = activation.tensors()
    if tensors.keys() != {"input_tensor", OUTPUT} or movements(activation):
        return None
    source = wiring.reads[index, "input_tensor"]
    writer, result = source[0], (index, 0)
    if writer is None or writer not in wiring.operators or len(wiring.readers[source]) > 1 or source in wiring.outputs.values():
        return None
    desc, written = wiring.operators[writer], wiring.tensors[source]
    if wiring.written[source] != OUTPUT or getattr(desc, "fused_activation", activation) is not None:
        return None
    given, output = tensors["input_tensor"], tensors[OUTPUT]
    same = (given.sizes, given.data_type) == (written.sizes, written.data_type) and same_layout(written, given.element_strides)
    if not same or (output.sizes, output.data_type) != (written.sizes, written.data_type):
        return None
    try:
        function = activation.replace(input_tensor=None, output_tensor=None)
        whole = desc.replace(fused_activation=function, output_tensor=output)
        compile_node(whole)
    except (CompileError, DescError, DeviceError):
        return None
    return _joined(wiring, index, writer, whole, result, source)


def _joined(wiring: Wiring, index: int, writer: int, whole: OperatorDesc, result: Source, source: Source) -> Wiring:
    """The wiring in which `writer` computes what the node `index` did: who read the `result` reads `source`."""
    operators = {node: whole if node == writer else desc for node, desc in wiring.operators.items() if node != index}
    reads = {use: source if value == result else value for use, value in wiring.reads.items() if use[0] != index}
    outputs = {name: source if value == result else value for name, value in wiring.outputs.items()}
    return replace(
        wiring, operators=operators, reads=reads, outputs=outputs, fused={**wiring.fused, writer: (*wiring.fused.get(writer, ()), index)}
    )
