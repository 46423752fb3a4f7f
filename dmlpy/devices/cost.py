"""`Cost`: the costs of a plan that do not follow from its desc."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Cost:
    """The memory traffic of a plan, and the times that a model of the device predicts, in microseconds of one dispatch.

    Attributes:
        strategy: the strategy, if there are several.
        traffic: bytes read or written besides the desc's tensors, by kind.
        residency: bytes of what each step reads, by where they are stored.
        floor_us: the least that any kernel could take; None without a model.
        floor_step_us: the floor of one step.
        estimate_us: the estimate for the chosen kernels.
        estimate_step_us: the estimate for one step.
        layers: the costs of a network's layers, whose sums the times are.
    """

    strategy: str | None = None
    traffic: Mapping[str, int] = field(default_factory=dict)
    residency: Mapping[str, int] = field(default_factory=dict)
    floor_us: float | None = None
    floor_step_us: float | None = None
    estimate_us: float | None = None
    estimate_step_us: float | None = None
    layers: tuple[Cost, ...] = ()
