"""The plans of activations."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.activation import ActivationDesc, AxesActivationDesc, RowActivationDesc

attach_plan("dmlpy.devices.cuda.activation.elements:elements_plan", ActivationDesc)
attach_plan("dmlpy.devices.cuda.activation.groups:groups_plan", RowActivationDesc, AxesActivationDesc)
