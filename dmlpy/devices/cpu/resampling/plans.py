"""The compiled plans of resamplings, their gradients and VALUE_SCALE_2D; UPSAMPLE_2D to the nearest element copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType, InterpolationMode
from dmlpy.devices.cpu.movement.plans import copy_plan
from dmlpy.devices.cpu.plans import on_copies, plan
from dmlpy.operators.resampling import ForwardResampleDesc, ResampleGradientDesc, Upsample2DDesc, ValueScale2DDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan
    from dmlpy.devices.cpu.resampling.plan import ResamplingPlan, ValueScalePlan
    from dmlpy.devices.plan import Plan


@plan(Upsample2DDesc)
def upsample_plan(desc: Upsample2DDesc) -> Plan | str:
    if desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
        return copy_plan(desc, "upsample_copies")
    return resampling_plan(desc)


@plan(ForwardResampleDesc, ResampleGradientDesc)
@on_copies()
def resampling_plan(desc: Any) -> ResamplingPlan | ByteFloatsPlan | str:
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.resampling import plan as plans

    types = {tensor.data_type for tensor in desc.tensors().values()}
    if types in ({DataType.UINT8}, {DataType.INT8}):
        return plans.byte_resampling_plan(desc)
    if not have_one_storage(types):
        return "compiled resamplings have tensors of one type of floats, UINT8 or INT8"
    return plans.resampling_plan(desc)


@plan(ValueScale2DDesc)
def scale_values_plan(desc: ValueScale2DDesc) -> ValueScalePlan | str:
    from dmlpy.devices.cpu.resampling.plan import value_scale_plan

    return value_scale_plan(desc)
