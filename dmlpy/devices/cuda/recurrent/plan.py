"""Creates the plan of a recurrent layer, or of its training form, by the best strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cuda.recurrent.grid_shapes import exchange_layout, grid_shapes
from dmlpy.devices.cuda.recurrent.layer import SLICES, PersistentBlockPlan, RecurrentPlan, block_shared_bytes
from dmlpy.devices.cuda.recurrent.per_step import PerStepPlan
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan
from dmlpy.devices.cuda.recurrent.strategies import Plans, make_plan

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.recurrent.layer import RecurrentDesc

FORWARD: Plans[RecurrentPlan] = Plans(
    PersistentBlockPlan, SLICES, block_shared_bytes, PersistentGridPlan, grid_shapes, exchange_layout, PerStepPlan
)


def recurrent_plan(desc: RecurrentDesc, target: Target) -> RecurrentPlan:
    """The plan for a checked desc of a layer or of its training form.

    Raises:
        DeviceError: as for `RecurrentPlan`, or the requested strategy does not support the desc.
    """
    return make_plan(FORWARD, desc, target.library, target.tf32, target.strategy)
