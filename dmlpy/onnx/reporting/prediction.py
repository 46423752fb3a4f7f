"""`Prediction`: where ONNX Runtime's DirectML provider would run the nodes of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dmlpy.messages.problems import Problem
from dmlpy.onnx.lowering import control_flow, functions
from dmlpy.onnx.lowering.model_lowering import Lowering, first_stage
from dmlpy.onnx.nodes.node import NotLowered
from dmlpy.onnx.reporting import provider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import Placement
    from dmlpy.onnx.lowering.scopes import Scope, Values
    from dmlpy.onnx.nodes.node import Node


@dataclass
class Prediction(Lowering):
    """A model for given sizes, as ONNX Runtime would place its nodes.

    Nodes that depend only on constants and sizes are folded, as in ONNX Runtime; loops are unchanged. The stages are only used to
    count the fused graphs; they do not run.
    """

    joins_chains = False  # the prediction does not know the optimizers that change a model before it is placed

    _sizes: set[str] = field(default_factory=set)

    def _has_host(self, node: Node) -> bool:
        return True

    def _is_invalid(self, problems: Sequence[Problem]) -> bool:
        return False

    def _resolve_empty(self, value: Value) -> Value:
        return value  # the provider accepts empty tensors

    def _lower_node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
        mark = self._mark()
        try:
            return self._place_node(node, scope, opsets)
        except NotLowered as reason:  # attributes contradict the inputs: ONNX Runtime creates no session
            self._undo(mark)
            return self._beside(node, "refused", reason.problems, provider.Verdict())

    def _place_node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
        known = self._fold(node, opsets)
        if known is not None:
            return self._add_folded(node, known)
        if node.op_type == "If" and node.domain == "" and node.value(0).array is not None:
            return control_flow.unroll(self, node, scope, opsets)
        if provider.computes_sizes(node, self._sizes):
            self._sizes |= {value.name for value in node.outputs if value is not None}
            return self.fall_back(node, [_sizes_on_cpu(node)], scope, opsets)
        verdict = provider.judge_node(node)
        if verdict.left:
            inlined = functions.expand_function(self, node, opsets) if not provider.kernels(node.op_type, node.domain) else None
            return self.fall_back(node, verdict.left, scope, opsets) if inlined is None else inlined
        if verdict.refused:
            return self._beside(node, "refused", verdict.refused, verdict)
        if verdict.alone:
            return self._beside(node, "directml", (), verdict)
        try:
            values = self._lower_to_graph(node)
        except NotLowered as reason:
            # Codes of `onnx` are gaps of dmlpy's lowering, all others are limits of DirectML's operator.
            refused = [problem for problem in reason.problems if not problem.code.startswith("onnx.")]
            return self._beside(node, "refused" if refused else "directml", refused, verdict)
        self.records[-1] = replace(self.records[-1], older=verdict.older)
        return values

    def _beside(self, node: Node, where: Placement, problems: Sequence[Problem], verdict: provider.Verdict) -> Values:
        """The outputs of a node for which no graph is built here."""
        index = max((first_stage(value, 1) for value in node.inputs if value is not None), default=1)
        values: Values = [None if value is None else replace(value, array=None, stage=index) for value in node.outputs]
        self._record(node, where, values, problems=problems, stage=index)
        self.records[-1] = replace(self.records[-1], alone=verdict.alone, older=verdict.older)
        return values


def _sizes_on_cpu(node: Node) -> Problem:
    why = (f"ONNX Runtime leaves to the CPU what computes with sizes, from inputs of at most {provider.SMALL} elements",)
    found = f"{node.op_type}, which computes with sizes that are not known before the model runs"
    return Problem("onnx.cpu_preferred", "", found, "sizes that are known", why, "pass all sizes of the inputs")
