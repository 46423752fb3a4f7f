"""`Prediction`: where ONNX Runtime's DirectML provider would run the nodes of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dmlpy.messages.problems import Problem
from dmlpy.onnx.lowering import control_flow, functions
from dmlpy.onnx.lowering.lower import Interpretation, Where, ready
from dmlpy.onnx.lowering.nodes import NotLowered
from dmlpy.onnx.reporting import provider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.nodes import Node
    from dmlpy.onnx.lowering.scopes import Scope, Values


@dataclass
class Prediction(Interpretation):
    """A model for given sizes, as ONNX Runtime would place its nodes.

    What depends on constants and sizes alone is folded, as ONNX Runtime's constant folding does; loops stay as they are. The stages serve
    to count the fused graphs; they do not run.
    """

    _sizes: set[str] = field(default_factory=set)

    def _has_host(self, node: Node) -> bool:
        return True

    def _contradicts(self, problems: Sequence[Problem]) -> bool:
        return False

    def _seen(self, value: Value) -> Value:
        return value  # the provider takes what has no elements

    def _placed(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
        known = self._known(node, opsets)
        if known is not None:
            return self._folded(node, known)
        if node.op_type == "If" and node.domain == "" and node.value(0).array is not None:
            return control_flow.unrolled(self, node, scope, opsets)
        if provider.computes_sizes(node, self._sizes):
            self._sizes |= {value.name for value in node.outputs if value is not None}
            return self.on_host(node, [_sizes_on_cpu(node)], scope, opsets)
        verdict = provider.judged(node)
        if verdict.left:
            inlined = functions.expanded(self, node, opsets) if not provider.kernels(node.op_type, node.domain) else None
            return self.on_host(node, verdict.left, scope, opsets) if inlined is None else inlined
        if verdict.refused:
            return self._beside(node, "refused", verdict.refused, verdict)
        if verdict.alone:
            return self._beside(node, "directml", (), verdict)
        try:
            values = self._lowered(node)
        except NotLowered as reason:
            # Codes of `onnx` tell what dmlpy's lowering lacks, all others what DirectML's operator does not take.
            refused = [problem for problem in reason.problems if not problem.code.startswith("onnx.")]
            return self._beside(node, "refused" if refused else "directml", refused, verdict)
        self.records[-1] = replace(self.records[-1], older=verdict.older)
        return values

    def _beside(self, node: Node, where: Where, problems: Sequence[Problem], verdict: provider.Verdict) -> Values:
        """The outputs of a node of whose operators no graph is made here."""
        index = max((ready(value, 1) for value in node.inputs if value is not None), default=1)
        values: Values = [None if value is None else replace(value, array=None, stage=index) for value in node.outputs]
        self._record(node, where, values, problems=problems, stage=index)
        self.records[-1] = replace(self.records[-1], alone=verdict.alone, older=verdict.older)
        return values


def _sizes_on_cpu(node: Node) -> Problem:
    why = (f"ONNX Runtime leaves to the CPU what computes with sizes, from inputs of at most {provider.SMALL} elements",)
    found = f"{node.op_type}, which computes with sizes that are not known before the model runs"
    return Problem("onnx.cpu_preferred", "", found, "sizes that are known", why, "give all sizes of the inputs")
