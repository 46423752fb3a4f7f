"""`PlanReport`: the work and predicted cost of a compiled operator, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmlpy.devices.flops import flops_of
from dmlpy.messages.naming import plural
from dmlpy.messages.quantities import show_bytes, show_flops
from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc
from dmlpy.operators.recurrent.stack import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.device import Device

_WEIGHTS = ("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor", "projection_tensor")


@dataclass(frozen=True)
class PlanReport:
    """The work and the predicted cost of one dispatch of a compiled operator. `str` formats it as a small table.

    Floors and estimates come from a model of the device and are not measured. A floor is for the best kernels that
    could be written, an estimate for those of the plan. Neither includes other work of the device, or shorter sequences.

    Attributes:
        operator: the desc's struct.
        device: the device's name.
        strategy: the strategy of the kernels, where there are several; of a network those of all layers.
        flops: the operations of the operator's formula, as `dmlpy.devices.flops` counts them: of products two for each multiplication; None
            where their number depends on data.
        bytes_moved: bytes by kind. `weights` and `tensors` are those that the desc describes, each counted once; the others are those that
            the plan's kernels read and write besides them.
        residency: bytes of the recurrent weights by where they are stored during the recurrence; `nowhere` is reread in each step.
        floor_us: the model's floor, in microseconds; None without a model.
        floor_step_us: the floor of one step; of a network one step of each layer.
        estimate_us: the estimate for the plan's kernels, in microseconds.
        estimate_step_us: one step.
        unmodelled: why there is no floor; empty if there is one.
        parts: the reports of a network's layers, or of a graph's nodes, whose sums these are.
    """

    operator: str
    device: str
    strategy: str | None = None
    flops: int | None = None
    bytes_moved: Mapping[str, int] = field(default_factory=dict)
    residency: Mapping[str, int] = field(default_factory=dict)
    floor_us: float | None = None
    floor_step_us: float | None = None
    estimate_us: float | None = None
    estimate_step_us: float | None = None
    unmodelled: str = ""
    parts: tuple[PlanReport, ...] = ()

    def __str__(self) -> str:
        strategy = f", strategy {self.strategy}" if self.strategy else ""
        rows = [
            ("arithmetic", "depends on data" if self.flops is None else show_flops(self.flops)),
            *(("bytes moved" if not at else "", row) for at, row in enumerate(_show_kinds(self.bytes_moved))),
            *(("R lies in" if not at else "", row) for at, row in enumerate(_show_kinds(self.residency))),
            ("floor", self.unmodelled or _show_times(self.floor_us, self.floor_step_us)),
        ]
        if self.estimate_us is not None:
            rows.append(("estimate", _show_times(self.estimate_us, self.estimate_step_us)))
        lines = [f"{self.operator} on {self.device}{strategy}", *(f"    {name:<16}{value}" for name, value in rows)]
        if not self.unmodelled:
            lines.append("    (floor and estimate: a model, not measured)")
        return "\n".join(lines)


def explain(desc: OperatorDesc, device: Device, cost: Cost) -> PlanReport:
    """The report of a checked desc and its plan's cost."""
    name = desc.c_name
    unmodelled = "" if cost.floor_us is not None else f"the device {device.name} has no model of this operator"
    if isinstance(desc, CudnnRNNDesc):
        layers = stack_of(desc).layers
        costs = cost.layers or (cost,) * len(layers)
        parts = [explain(layer.desc, device, layer_cost) for layer, layer_cost in zip(layers, costs, strict=True)]
        return total(name, device.name, parts)
    tensors = desc.tensors()
    if isinstance(desc, RecurrentDesc):
        weights = _bytes(tensors[field] for field in _WEIGHTS if field in tensors)
        moved = {"weights": weights, "tensors": _bytes(tensors.values()) - weights}
    else:
        moved = {"tensors": _bytes(tensors.values())}
    return PlanReport(
        operator=name,
        device=device.name,
        strategy=cost.strategy,
        flops=flops_of(desc),
        bytes_moved=moved | dict(cost.traffic),
        residency=cost.residency,
        floor_us=cost.floor_us,
        floor_step_us=cost.floor_step_us,
        estimate_us=cost.estimate_us,
        estimate_step_us=cost.estimate_step_us,
        unmodelled=unmodelled,
    )


def total(name: str, device: str, parts: Iterable[PlanReport]) -> PlanReport:
    """The sums over parts that run in sequence; None where a part has no figure."""
    parts = tuple(parts)
    unmodelled = [part for part in parts if part.unmodelled]

    def add(value: Callable[[PlanReport], float | None]) -> float | None:
        values = [value(part) for part in parts]
        return None if None in values else sum(number for number in values if number is not None)

    counted = [part.flops for part in parts if part.flops is not None]
    return PlanReport(
        operator=name,
        device=device,
        strategy=", ".join(dict.fromkeys(part.strategy for part in parts if part.strategy)) or None,
        flops=sum(counted) if len(counted) == len(parts) else None,
        bytes_moved=_merge(part.bytes_moved for part in parts),
        residency=_merge(part.residency for part in parts),
        floor_us=add(lambda part: part.floor_us),
        floor_step_us=add(lambda part: part.floor_step_us),
        estimate_us=add(lambda part: part.estimate_us),
        estimate_step_us=add(lambda part: part.estimate_step_us),
        unmodelled=f"no cost model for {len(unmodelled)} of {plural(len(parts), 'part')}: {unmodelled[0].unmodelled}" if unmodelled else "",
        parts=parts,
    )


def _merge(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for kinds in several:
        for kind, size in kinds.items():
            merged[kind] = merged.get(kind, 0) + size
    return merged


def _bytes(tensors: Iterable[TensorDesc]) -> int:
    """The bytes of all elements, without the gaps between them."""
    return sum(-(-tensor.element_count * tensor.data_type.bits // 8) for tensor in tensors)


# for people


def _show_kinds(kinds: Mapping[str, int]) -> list[str]:
    return [f"{show_bytes(size)} {kind}" for kind, size in kinds.items()]


def _show_times(whole_us: float | None, step_us: float | None) -> str:
    step = "" if step_us is None else f", {step_us:.3g} us a step"
    return "" if whole_us is None else f"{whole_us:.4g} us{step}"
