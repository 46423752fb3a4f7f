"""Which plan an operator of batch normalization gets."""

from __future__ import annotations

from dmlpy.devices.numpy.normalization.forward import forward_plan
from dmlpy.devices.numpy.normalization.gradient import gradient_plan
from dmlpy.devices.plan import Plan
from dmlpy.operators.normalization.geometry import NormalizationGeometry


def normalization_plan(geometry: NormalizationGeometry) -> Plan:
    """The plan for a checked desc's geometry."""
    return gradient_plan(geometry) if "dy" in geometry.operands else forward_plan(geometry)
