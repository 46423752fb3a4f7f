"""`host_run`: a node that stays on the host when all that it reads has come."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.problems import DeviceError, Problem
from dmlpy.onnx.domains.host import computed as computed_by_domain
from dmlpy.onnx.domains.host import host_operator
from dmlpy.onnx.loading.unforeseen import as_error
from dmlpy.onnx.lowering.host import HostProgram, runs
from dmlpy.onnx.lowering.lower import SingleNode
from dmlpy.onnx.lowering.single_nodes import computed, computed_wide, is_wide
from dmlpy.onnx.runtime.loops import LoopRun
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.lowering.stages import HostNode
    from dmlpy.onnx.lowering.targets import Target


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
            with as_error(target.name, node.proto.name, node.proto, DeviceError):
                values.update((name, held) for name, held in zip(node.proto.output, loop(values), strict=False) if name)

        return run_loop

    own = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    if own and host_operator(node.proto.op_type, own) is not None:

        def run_own(values: dict[str, Any]) -> None:
            given = {name: target.on_host(values[name]) for name in node.reads}
            opset, budget = node.opsets.get(own, 1), target.model.budget()
            with as_error(target.name, node.proto.name, node.proto, DeviceError):
                values.update(computed_by_domain(node.proto, own, opset, given, budget))

        return run_own

    @cache
    def program() -> HostProgram:
        if not runs(node.proto.op_type, node.opsets.get(own, 1), own):
            found = f"{node.proto.op_type} of opset {node.opsets.get(own, 1)}"
            expected = "an operator that DirectML's operators express, or that the host runs"
            problem = Problem("onnx.kernel", node.proto.name, found, expected)
            raise DeviceError(target.name, [problem])
        return HostProgram([node.proto], node.opsets, list(node.reads), list(node.results))

    def run(values: dict[str, Any]) -> None:
        given = {name: target.on_host(values[name]) for name in node.reads}
        with as_error(target.name, node.proto.name, node.proto, DeviceError):
            values.update(_by_operators(node, given, target) or program()(given))

    return run


def _by_operators(node: HostNode, given: dict[str, Any], target: Target) -> dict[str, Any] | None:
    """What a node gives by the operators that it would be; None if there are none.

    A node of FLOAT64 tensors is computed by the definitions of those that it is with FLOAT32 ones, a node that needs a higher feature level
    by NumPy's device: it gives the same at all levels.
    """
    wide = is_wide(node.proto, given) if all(isinstance(array, np.ndarray) for array in given.values()) else None
    if wide is None or (not wide and target.level >= LATEST):
        return None
    program = SingleNode.program(target.model, node.proto, node.opsets, given, wide=wide)
    if program is None:
        return None
    return computed_wide(program, given) if wide else computed(program, given)
