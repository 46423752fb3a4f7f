"""The compiled plans of the element-wise operators of FLOAT32."""

from __future__ import annotations

from dmlpy.devices.cpu.elementwise.single import elements_plan
from dmlpy.devices.cpu.elementwise.translation import OPERATORS
from dmlpy.devices.cpu.plans import plan

plan(*OPERATORS, derived=False)(elements_plan)
