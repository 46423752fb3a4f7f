"""The compiled plans of the element-wise activations of FLOAT32."""

from __future__ import annotations

from dmlpy.devices.cpu.elements.single import elements_plan
from dmlpy.devices.cpu.elements.translation import FUNCTIONS
from dmlpy.devices.cpu.plans import plan

plan(*FUNCTIONS, derived=False)(elements_plan)
