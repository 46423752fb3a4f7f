"""The compiled plan of stacked recurrent networks and their gradients: NumPy's, with compiled plans of the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan
from dmlpy.devices.cpu.recurrent.parameters import RESERVE_LAYOUT
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from dmlpy.devices.numpy.recurrent.cudnn import NetworkPlan
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

if TYPE_CHECKING:
    from dmlpy.devices.numpy.recurrent.cudnn import LayerPlan
    from dmlpy.operators.recurrent.gradient import ReserveDesc


class CompiledNetworkPlan(NetworkPlan):
    """A network of stacked layers, or its gradient, by compiled time loops."""

    library = "LLVM"
    reserve_layout = RESERVE_LAYOUT

    def load(self) -> None:
        for layer in self._plans:
            layer.load()

    def _layer_plan(self, desc: ReserveDesc) -> LayerPlan:
        return GradientPlan(desc) if isinstance(desc, RecurrentGradDesc) else RecurrentPlan(desc)
