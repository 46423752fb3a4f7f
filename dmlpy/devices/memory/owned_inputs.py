"""Inputs flagged OWNED_BY_DML: `prepare` copies them, and their memory is free from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.plan import Launch, Layout, Plan, Pointers

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cost import Cost
    from dmlpy.devices.device import Device

_ALIGNMENT = 256


class OwningPlan(Plan):
    """A plan that packs no constants, extended to copy the owned inputs at initialization.

    A launch that is not prepared reads them in place.

    Args:
        plan: the work.
        names: the owned inputs.
        desc: the operator.
        device: the device that copies memory.
    """

    def __init__(self, plan: Plan, names: tuple[str, ...], desc: OperatorDesc, device: Device) -> None:
        self._plan, self._device = plan, device
        tensors = desc.tensors()
        self._layout = Layout([(name, (tensors[name].extent_in_bytes,), np.dtype(np.uint8)) for name in names], _ALIGNMENT)
        self.constants = names
        self.persistent_size = self._layout.size
        self.temporary_size = self.prepared_temporary_size = plan.temporary_size
        self.capturable = plan.capturable
        self.supported_flags = plan.supported_flags
        self.strategy = plan.strategy

    def load(self) -> None:
        self._plan.load()

    def describe(self) -> str:
        return f"{self._plan.describe()}\nprepare copies {', '.join(self.constants)}"

    def cost(self) -> Cost:
        return self._plan.cost()

    @property
    def packing(self) -> Hashable:
        return tuple(self._layout.arrays.items())

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        places = self._layout.pointers(persistent)

        def launch(stream: int) -> None:
            for name, (_, (count,), _) in self._layout.arrays.items():
                self._device.copy(places[name], constants[name], count, stream)

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        kept = {} if persistent is None else self._layout.pointers(persistent)
        return self._plan.bind({**tensors, **kept}, temporary, None)
