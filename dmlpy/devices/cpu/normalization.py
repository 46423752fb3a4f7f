"""The compiled plans of batch normalization and its gradients, DirectML's and TensorFlow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import plan
from dmlpy.devices.numpy.normalization.common import TENSORS
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.normalization.batch import NormalizationDesc, NormalizationGradDesc
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.norms.parameters import Layout
    from dmlpy.devices.cpu.norms.plan import CompiledForwardPlan, CompiledGradientPlan
    from dmlpy.operators.normalization.geometry import NormalizationGeometry


@plan(NormalizationDesc, FusedBatchNormDesc)
def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc) -> CompiledForwardPlan | str:
    """The plan for a checked desc, or why there is none."""
    from dmlpy.devices.cpu.norms.plan import CompiledForwardPlan

    geometry = desc.geometry
    if geometry.activation is not None and not isinstance(geometry.activation, ActivationReluDesc):
        return f"{geometry.activation.short_name()} is not computed with a compiled batch normalization"
    layout, reason = _layout(geometry)
    return reason if layout is None else CompiledForwardPlan(geometry, layout)


@plan(NormalizationGradDesc, FusedBatchNormGradV3Desc)
def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc) -> CompiledGradientPlan | str:
    """The plan for a checked desc, or why there is none."""
    from dmlpy.devices.cpu.norms.plan import CompiledGradientPlan

    layout, reason = _layout(desc.geometry)
    return reason if layout is None else CompiledGradientPlan(desc.geometry, layout)


def _layout(geometry: NormalizationGeometry) -> tuple[Layout | None, str]:
    """How the entries lie; None with the reason why kernels do not read them."""
    from dmlpy.devices.cpu.norms.plan import entry_layout
    from dmlpy.devices.cpu.registers import converts_halves

    types = {operand.data_type for role, operand in geometry.operands.items() if role in TENSORS}
    if len(types) > 1:
        return None, "compiled batch normalizations have tensors of one type"
    if types == {DataType.FLOAT16} and not converts_halves():
        return None, "this processor does not convert FLOAT16"
    return entry_layout(geometry), "compiled batch normalizations need planes of a group, or rows of groups, whose entries lie side by side"
