"""`GraphReport`: the work of a compiled graph, its order, and the memory of its tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.ir import node_name
from dmlpy.devices.graphs.memory_planner import MemoryPlan
from dmlpy.devices.reporting.report import PlanReport, total
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.graphs.program import GraphProgram

_MOST_SHOWN = 40
"""The most steps and items that are printed."""


@dataclass(frozen=True)
class GraphReport(PlanReport):
    """The work and the predicted cost of one dispatch of a graph, and the plan of its memory. `str` formats it.

    Attributes:
        order: the names of the nodes that run, in order.
        memory: the block of memory: its items, their offsets, the lower bound.
        fused: the normalizations and activations that became part of another node, by that node's name.
        chains: the element-wise nodes that run as one kernel, in order; the last one's name is that of the step.
        views: the nodes that do not run, since their result is a strided part of a tensor that others read or write.
        in_place: the nodes that write to the memory of an input.
        copied: the outputs that are copied from elsewhere.
    """

    order: tuple[str, ...] = ()
    memory: MemoryPlan = field(default_factory=lambda: MemoryPlan((), (), ""))
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chains: tuple[tuple[str, ...], ...] = ()
    views: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()

    def __str__(self) -> str:
        plan = self.memory
        lines = [super().__str__(), f"    {'memory':<16}{_sizes(plan)}"]
        lines += [f"    {'fused':<16}{', '.join(names)} into {node}" for node, names in self.fused.items()]
        lines += [f"    {'one kernel':<16}{', '.join(names)}" for names in self.chains]
        for title, names in (("views", self.views), ("in place", self.in_place), ("copied", self.copied)):
            lines += [f"    {title:<16}{', '.join(names)}"] if names else []
        lines += [f"steps ({len(self.order)})"]
        lines += _first([f"    {step:<6}{name}" for step, name in enumerate(self.order)])
        lines += [f"memory map ({len(plan.items)})"]
        rows = sorted(zip(plan.offsets, plan.items, strict=True), key=lambda row: (row[0], row[1].first))
        lines += _first([f"    {at:>12} {show_bytes(item.size):>12}  steps {item.first} to {item.last}  {item.name}" for at, item in rows])
        return "\n".join(lines)


def _first(lines: Sequence[str]) -> list[str]:
    left = len(lines) - _MOST_SHOWN
    return [*lines[:_MOST_SHOWN], *([f"    and {left} more"] if left > 0 else [])]


def _sizes(plan: MemoryPlan) -> str:
    if not plan.size:
        return "none"
    above = plan.size / plan.lower_bound
    return (
        f"{show_bytes(plan.size)}, {above:.3f} of the lower bound of {show_bytes(plan.lower_bound)}; "
        f"{show_bytes(plan.separate_size)} without sharing ({plan.method})"
    )


def report_of(name: str, device: str, program: GraphProgram) -> GraphReport:
    """The report of a graph's program."""
    graph, chains = program.ir.graph, program.ir.groups
    parts = total(name, device, (step.operator.explain_plan() for step in program.steps))
    sums = {item.name: getattr(parts, item.name) for item in fields(PlanReport)}
    return GraphReport(
        **sums,
        order=tuple(node_name(graph, step.node) for step in program.steps),
        memory=program.plan,
        fused={node_name(graph, index): tuple(node_name(graph, other) for other in others) for index, others in program.ir.fused.items()},
        chains=tuple(tuple(node_name(graph, index) for index in chains[step.node]) for step in program.steps if step.node in chains),
        views=tuple(node_name(graph, index) for index in program.views),
        in_place=tuple(node_name(graph, index) for index in program.in_place),
        copied=tuple(copy.output for copy in program.copies),
    )
