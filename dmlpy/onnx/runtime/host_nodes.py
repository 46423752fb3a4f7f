"""`prepare_host_node`: a node that stays on the host when its inputs are available."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.problems import DeviceError, Problem
from dmlpy.onnx.domains.host_operators import compute_node as computed_by_domain
from dmlpy.onnx.domains.host_operators import find_host_operator
from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.lowering.host_evaluation import HostProgram, is_supported
from dmlpy.onnx.lowering.model_lowering import SingleNodeLowering
from dmlpy.onnx.lowering.node_evaluation import Float64Program, evaluate_program, is_float64
from dmlpy.onnx.nodes.unexpected_errors import report_unexpected
from dmlpy.onnx.runtime.host_sequences import SEQUENCES
from dmlpy.system import forks
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.lowering.stages import HostNode
    from dmlpy.onnx.runtime.compile_context import CompileContext


def prepare_host_node(node: HostNode, context: CompileContext) -> Callable[[dict[str, Any]], None]:
    """Prepares a node, which reads values by name and adds the ones that it computes.

    Args:
        node: the node; the arrays that are known before the model runs are among the values, too.
        context: the target of subgraphs.

    Raises:
        DeviceError: nothing can run it.
    """
    domain = domain_of(node.proto.domain)
    if not domain and node.proto.op_type in ("Loop", "Scan", "SequenceMap"):
        from dmlpy.onnx.runtime.loops import LoopRun  # few models have loops

        loop = LoopRun(node, context)

        def run_loop(values: dict[str, Any]) -> None:
            with report_unexpected(context.name, node.proto.name, node.proto, DeviceError):
                values.update((name, value) for name, value in zip(node.proto.output, loop(values), strict=False) if name)

        return run_loop

    if not domain and (passes := _PASSING.get(node.proto.op_type)) is not None:
        return lambda values: passes(node, values)
    if not domain and (computes := SEQUENCES.get(node.proto.op_type)) is not None:

        def run_sequence(values: dict[str, Any]) -> None:
            _require_elements(node, values)
            values[node.proto.output[0]] = computes(node, [context.to_host(values[name]) if name else None for name in node.proto.input])

        return run_sequence

    if find_host_operator(node.proto.op_type, domain) is not None:

        def run_own(values: dict[str, Any]) -> None:
            _require_elements(node, values)
            given = {name: context.to_host(values[name]) for name in node.reads}
            opset, budget = node.opsets.get(domain, 1), context.model.budget()
            with report_unexpected(context.name, node.proto.name, node.proto, DeviceError):
                values.update(computed_by_domain(node.proto, domain, opset, given, budget))

        return run_own

    return _run_reference(node, context)


def _run_reference(node: HostNode, context: CompileContext) -> Callable[[dict[str, Any]], None]:
    """A node that DirectML's operators compute, or ONNX's reference implementation."""
    domain = domain_of(node.proto.domain)

    @cache
    def program() -> HostProgram:
        if not is_supported(node.proto.op_type, node.opsets.get(domain, 1), domain):
            found = f"{node.proto.op_type} of opset {node.opsets.get(domain, 1)}"
            expected = "an operator with an equivalent in DirectML, or one that the host runs"
            problem = Problem("onnx.kernel", node.proto.name, found, expected)
            raise DeviceError(context.name, [problem])
        return HostProgram([node.proto], node.opsets, list(node.reads), list(node.results))

    operators = _Operators(node, context)

    def run(values: dict[str, Any]) -> None:
        _require_elements(node, values)
        given = {name: context.to_host(values[name]) for name in node.reads}
        with report_unexpected(context.name, node.proto.name, node.proto, DeviceError):
            values.update(operators(given) or program()(given))

    return run


def _pass(node: HostNode, values: dict[str, Any]) -> None:
    """Identity, and optionals, which are what they hold, or None."""
    given = node.proto.input[0] if node.proto.input else ""
    values[node.proto.output[0]] = values[given] if given else None


def _has_element(node: HostNode, values: dict[str, Any]) -> None:
    given = node.proto.input[0] if node.proto.input else ""
    values[node.proto.output[0]] = np.asarray(bool(given) and values[given] is not None)


def _get_element(node: HostNode, values: dict[str, Any]) -> None:
    _require_elements(node, values)
    values[node.proto.output[0]] = values[node.proto.input[0]]


def _require_elements(node: HostNode, values: dict[str, Any]) -> None:
    """Rejects optionals that hold nothing, for a node that reads what they hold."""
    expected = "an optional that holds something: OptionalHasElement says whether it does"
    empty = [(index, name) for index, name in enumerate(node.proto.input) if name and values[name] is None]
    if empty:
        problems = [Problem("onnx.host", f"{node.proto.name}.input {index}", f"{name!r}, None", expected) for index, name in empty]
        raise DeviceError("the host", problems)


_PASSING = {"Identity": _pass, "Optional": _pass, "OptionalGetElement": _get_element, "OptionalHasElement": _has_element}
"""Nodes that compute nothing: the reference implementation takes no None, and returns a list of it."""


_MOST_PROGRAMS = 8
"""The programs of a node that are kept, for as many sizes of its inputs."""
_MOST_KNOWN = 64
"""The most elements of an integer tensor that such a program is kept for."""


class _Operators:
    """The outputs of a node by the operators that it would become. Thread-safe.

    A node of FLOAT64 tensors is computed by the definitions of those that it is with FLOAT32 ones, a node that needs a higher feature level
    by NumPy's device: it gives the same at all levels.
    """

    def __init__(self, node: HostNode, context: CompileContext) -> None:
        self._node = node
        self._context = context
        self._programs: dict[tuple[object, ...], Float64Program | None] = {}
        self._lock = forks.lock()

    def __call__(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """The node's outputs by name; None if no operators express it."""
        if not all(isinstance(array, np.ndarray) for array in given.values()):
            return None
        wide = is_float64(self._node.proto, self._node.opsets, given)
        if not wide and self._context.level >= LATEST:
            return None
        if wide:
            prepared = self._wide_program(given)
            return None if prepared is None else prepared(given)
        program = self._lowered(given, wide=False)
        return None if program is None else evaluate_program(program, given)

    def _lowered(self, given: dict[str, Any], *, wide: bool) -> Program | None:
        return SingleNodeLowering.program(self._context.model, self._node.proto, self._node.opsets, given, wide=wide)

    def _wide_program(self, given: dict[str, Any]) -> Float64Program | None:
        """The program of a node of FLOAT64 tensors, whose elements do not affect it, kept for their sizes and for the other elements."""
        key: list[object] = []
        for array in given.values():
            key += (array.dtype, array.shape)
            if array.dtype != np.float64:
                if array.size > _MOST_KNOWN:
                    return Float64Program.of(self._lowered(given, wide=True))
                key.append(array.tobytes())
        form = tuple(key)
        with self._lock:
            if form in self._programs:
                return self._programs[form]
            program = self._lowered(given, wide=True)
            prepared = Float64Program.of(program)
            if program is None or any(part.reads for part in program.parts):  # otherwise elements are in it
                if len(self._programs) >= _MOST_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[form] = prepared
            return prepared
