"""A layer whose blocks exchange values by the protocol that a test asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent import gradient_plan, plan
from dmlpy.devices.cuda.recurrent.grid_shapes import GridShape
from dmlpy.devices.cuda.recurrent.model import Protocol
from tests.support.cuda.network_checks import resetting_gru
from tests.support.recurrent.networks import poisoned

SIGNALS: dict[Protocol, str] = {
    "flags": "machine::store_release(flags_ + own_, epoch_);",
    "data": "machine::store_relaxed(address, word == sentinel",
}
"""What a block does so that others need not wait any more, in the text of raw_kernels/common/block_exchange.cuh."""


def exchanging_by(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy `persistent_grid` has no shapes but those whose blocks exchange so."""
    for module, name in ((plan, "FORWARD"), (gradient_plan, "BACKWARD")):
        plans = getattr(module, name)

        def shapes(*of: Any, every: Any = plans.grid_shapes, **how: Any) -> list[GridShape]:
            return [shape for shape in every(*of, **how) if shape.protocol == protocol]

        monkeypatch.setattr(module, name, replace(plans, grid_shapes=shapes))


class Layer:
    """A GRU that resets first, bound: its blocks exchange two things a step.

    Attributes:
        dispatch: what was bound.
        outputs: the memory of its results.
    """

    def __init__(self, device: CudaDevice, hidden: int, batch: int, steps: int, dtype: Any) -> None:
        desc, arrays = resetting_gru(hidden, batch, steps, dtype)
        self._device = device
        self.outputs = {slot.place: poisoned(device, slot.tensor) for slot in desc.output_slots() if slot.tensor is not None}
        given = {name: device.from_host(array) for name, array in arrays.items()}
        self.dispatch = dml.compile(desc, device).bind(given, self.outputs)

    def run(self) -> dict[str, bytes]:
        """The bytes of all results."""
        self.dispatch()
        return self.results()

    def results(self) -> dict[str, bytes]:
        return {name: self._device.to_host(array).tobytes() for name, array in self.outputs.items()}
