"""Two dispatches for constants that seldom change: one packs them, the other reuses what the first has packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.dispatch import Dispatch
    from dmlpy.devices.operator import CompiledOperator

_ALIGNMENT = 64
"""The alignment of the scratch: vectors do not cross cache lines."""


class ConstantReuse(NamedTuple):
    """Two dispatches of an operator over the same tensors and scratch.

    Attributes:
        packs: packs the constants, and runs.
        reads: runs with the constants that `packs` has packed in its last run, whatever they are now.
    """

    packs: Dispatch
    reads: Dispatch


def bind_with_reuse(operator: CompiledOperator, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> ConstantReuse | None:
    """Binds both dispatches; None if the operator is not in host memory or its plan does not leave the constants that it packs.

    Args:
        operator: the operator.
        inputs: its inputs by field name, constants included.
        outputs: its outputs.
    """
    plan = operator._plan
    if not plan.leaves_packed or operator.device.memory_kind != "cpu":
        return None
    memory = np.zeros(plan.temporary_size + _ALIGNMENT, np.uint8)
    scratch = memory[-memory.ctypes.data % _ALIGNMENT :][: plan.temporary_size]
    constants, rest = np.split(scratch, [plan.persistent_size])
    others = {name: value for name, value in inputs.items() if name not in operator.prepared_inputs}
    packs = operator.bind(inputs, outputs, temporary=scratch)
    return ConstantReuse(packs, operator.bind(others, outputs, temporary=rest, persistent=constants))
