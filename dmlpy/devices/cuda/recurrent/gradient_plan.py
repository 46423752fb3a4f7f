"""Creates the plan of a recurrent layer's gradients by the best strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.recurrent.gradient import SLICES, PersistentBlockGradientPlan, PerStepGradientPlan, block_shared_bytes
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import exchange_gradient_layout, grid_gradient_shapes
from dmlpy.devices.cuda.recurrent.persistent_grid_gradient import PersistentGridGradientPlan
from dmlpy.devices.cuda.recurrent.strategies import Plans, make_plan

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

BACKWARD: Plans[RecurrentGradientPlan] = Plans(
    PersistentBlockGradientPlan,
    SLICES,
    block_shared_bytes,
    PersistentGridGradientPlan,
    grid_gradient_shapes,
    exchange_gradient_layout,
    PerStepGradientPlan,
)


def gradient_plan(desc: RecurrentGradDesc, target: Target) -> RecurrentGradientPlan:
    """The plan for a checked desc of a layer's gradients. Raises what `recurrent_plan` raises."""
    return make_plan(BACKWARD, desc, target.library, target.tf32, target.strategy)
