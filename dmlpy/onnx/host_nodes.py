"""`host_run`: a node that stays on the host when all that it reads has come."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import HResult
from dmlpy.onnx.domains.host import computed, host_operator
from dmlpy.onnx.host import HostProgram, runs
from dmlpy.onnx.interpretation import SingleNode
from dmlpy.onnx.loops import LoopRun
from dmlpy.onnx.single_nodes import computed_wide, is_wide
from dmlpy.validation.problems import DeviceError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.stages import HostNode
    from dmlpy.onnx.targets import Target


def host_run(node: HostNode, target: Target) -> Callable[[dict[str, Any]], None]:
    """A node, ready to read values by name and to add what it computes.

    Args:
        node: the node; the arrays that are known before the model runs are among the values, too.
        target: what bodies are compiled for.

    Raises:
        DeviceError: nothing runs it.
    """
    if node.proto.domain in ("", "ai.onnx") and node.proto.op_type in ("Loop", "Scan"):
        loop = LoopRun(node, target)

        def run_loop(values: dict[str, Any]) -> None:
            values.update((name, held) for name, held in zip(node.proto.output, loop(values), strict=False) if name)

        return run_loop

    own = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    if own and host_operator(node.proto.op_type, own) is not None:

        def run_own(values: dict[str, Any]) -> None:
            given = {name: target.on_host(values[name]) for name in node.reads}
            try:
                values.update(computed(node.proto, own, node.opsets.get(own, 1), given))
            except MemoryError:
                raise _out_of_memory(node, target) from None

        return run_own

    @cache
    def program() -> HostProgram:
        if not runs(node.proto.op_type, node.opsets.get(own, 1), own):
            problem = Problem("onnx.kernel", node.proto.name, f"{node.proto.op_type} in FLOAT64", "FLOAT32 or FLOAT16, or other attributes")
            raise DeviceError(target.name, [problem])
        return HostProgram([node.proto], node.opsets, list(node.reads), list(node.results))

    def run(values: dict[str, Any]) -> None:
        given = {name: target.on_host(values[name]) for name in node.reads}
        try:
            values.update(_wide(node, given, target) or program()(given))
        except MemoryError:
            raise _out_of_memory(node, target) from None

    return run


def _out_of_memory(node: HostNode, target: Target) -> DeviceError:
    return DeviceError(f"the host has no memory left for node {node.proto.name!r} of {target.name}", hresult=HResult.E_OUTOFMEMORY)


def _wide(node: HostNode, given: dict[str, Any], target: Target) -> dict[str, Any] | None:
    """What a node of FLOAT64 tensors gives by the definitions of the operators that it is with FLOAT32 ones; None if there are none."""
    if any(not isinstance(array, np.ndarray) for array in given.values()) or not is_wide(node.proto, given):
        return None
    program = SingleNode.program(target.model, node.proto, node.opsets, given, wide=True)
    return None if program is None else computed_wide(program, given)
