"""The plans of gathers, scatters and related operators."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.indexing import (
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
    NonzeroCoordinatesDesc,
    OneHotDesc,
    ScatterDesc,
    ScatterNDDesc,
)

attach_plan("dmlpy.devices.cuda.indexing.gather:gather_plan", GatherDesc)
attach_plan("dmlpy.devices.cuda.indexing.gather:gather_elements_plan", GatherElementsDesc)
attach_plan("dmlpy.devices.cuda.indexing.gather:gather_nd_plan", GatherNDDesc, GatherND1Desc)
attach_plan("dmlpy.devices.cuda.indexing.gather:one_hot_plan", OneHotDesc)
attach_plan("dmlpy.devices.cuda.indexing.nonzero:nonzero_plan", NonzeroCoordinatesDesc)
attach_plan("dmlpy.devices.cuda.indexing.scatter:scatter_plan", ScatterDesc, ScatterNDDesc)
