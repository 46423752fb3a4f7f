"""The compiled plans of running sums and products, of reductions to sums, means and extremes, of the indices of extremes, and of TOP_K."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import AxisDirection, DataType, ReduceFunction
from dmlpy.devices.cpu.plans import across_short_rows, on_copies, plan
from dmlpy.operators.reduction import ArgmaxDesc, ArgminDesc, CumulativeProductDesc, CumulativeSummationDesc, ReduceDesc, TopKDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.reduction.plan import (
        CompiledIntegerRunningPlan,
        CompiledRunningPlan,
        IndexReductionPlan,
    )
    from dmlpy.devices.cpu.reduction.top_k_plan import TopKPlan
    from dmlpy.devices.plan import Plan

_FUNCTIONS = {
    *(ReduceFunction.MIN, ReduceFunction.MAX),
    *(ReduceFunction.SUM, ReduceFunction.AVERAGE, ReduceFunction.L1, ReduceFunction.L2, ReduceFunction.SUM_SQUARE),
    *(ReduceFunction.MULTIPLY, ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP),
}
_SUMMED_INTEGERS = {DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64}
"""The integers whose sums, products, running sums and extremes are compiled."""
_EXTREMES = {ReduceFunction.MIN, ReduceFunction.MAX}
_OF_INTEGERS = {ReduceFunction.SUM, ReduceFunction.MULTIPLY, *_EXTREMES}

_BYTES_OF_A_REDUCED_ROW, _BYTES_OF_A_ROW = 96, 192
"""Bytes of a row, at most, for which a copy takes less time than is saved: of an input, and of an input and an output."""
_LOGARITHMS = {ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP}


def _entries_of_a_short_row(desc: ReduceDesc) -> int:
    """The most entries of a row that is reduced as a column of a copy: more where a logarithm of vectors is saved, too."""
    most = _BYTES_OF_A_ROW if desc.function in _LOGARITHMS else _BYTES_OF_A_REDUCED_ROW
    return most // desc.input_tensor.data_type.numpy.itemsize


@plan(ReduceDesc, derived=False)
@on_copies(innermost=lambda desc: desc.axes)
@across_short_rows(lambda desc: desc.axes, _entries_of_a_short_row)
def reduction_plan(desc: ReduceDesc) -> Plan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledIntegerReductionPlan, CompiledReductionPlan, Groups

    if desc.function not in _FUNCTIONS:
        kind = ArgmaxDesc if desc.function is ReduceFunction.ARGMAX else ArgminDesc
        x, y = desc.input_tensor, desc.output_tensor
        return index_plan(kind(input_tensor=x, output_tensor=y, axes=desc.axes, axis_direction=AxisDirection.INCREASING))
    integers = _SUMMED_INTEGERS if desc.function in _OF_INTEGERS else set()
    if desc.function in _EXTREMES:
        integers = {*integers, DataType.FLOAT64}
    groups = Groups.of(desc.tensors(), set(desc.axes), reduces=True, integers=integers)
    if isinstance(groups, str):
        return groups
    if groups.stored is None:
        return CompiledIntegerReductionPlan(groups, desc.function, desc.input_tensor.data_type)
    return CompiledReductionPlan(groups, desc.function)


@plan(CumulativeSummationDesc, CumulativeProductDesc)
@on_copies(innermost=lambda desc: {desc.axis})
@across_short_rows(lambda desc: {desc.axis}, lambda desc: _BYTES_OF_A_ROW // desc.input_tensor.data_type.numpy.itemsize)
def running_plan(desc: CumulativeSummationDesc | CumulativeProductDesc) -> CompiledRunningPlan | CompiledIntegerRunningPlan | str:
    from dmlpy.devices.cpu.reduction.plan import CompiledIntegerRunningPlan, CompiledRunningPlan, Groups

    multiplies = isinstance(desc, CumulativeProductDesc)
    groups = Groups.of(desc.tensors(), {desc.axis}, integers=_SUMMED_INTEGERS)
    if isinstance(groups, str):
        return groups
    exclusive = desc.has_exclusive_product if isinstance(desc, CumulativeProductDesc) else desc.has_exclusive_sum
    backward = desc.axis_direction is AxisDirection.DECREASING
    if groups.stored is None:
        return CompiledIntegerRunningPlan(groups, multiplies, backward, exclusive)
    return CompiledRunningPlan(groups, multiplies, backward, exclusive)


@plan(ArgminDesc, ArgmaxDesc)
@on_copies(innermost=lambda desc: desc.axes)
def index_plan(desc: ArgminDesc | ArgmaxDesc) -> IndexReductionPlan | str:
    from dmlpy.devices.cpu.reduction.plan import IndexReductionPlan, axes_of

    axes = axes_of(desc)
    return axes if isinstance(axes, str) else IndexReductionPlan(desc, axes, 1 if isinstance(desc, ArgmaxDesc) else -1)


@plan(TopKDesc)
def top_k_plan(desc: TopKDesc) -> TopKPlan:
    """The plan for a checked desc."""
    from dmlpy.devices.cpu.reduction.top_k_plan import TopKPlan

    return TopKPlan(desc)
