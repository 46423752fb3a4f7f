"""The compiled plans of GATHER, GATHER_ELEMENTS, GATHER_ND, SCATTER, SCATTER_ND, ONE_HOT, NONZERO_COORDINATES, and sums of gathers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import on_copies, plan
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

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.cpu.indexing.plan import IndexingPlan, NonzeroPlan
    from dmlpy.devices.cpu.indexing.weighted_gather import WeightedGatherPlan
    from dmlpy.devices.graphs.weighted_gather_desc import WeightedGatherDesc


_FEWEST_COLUMNS, _MOST_COLUMNS = 64, 1 << 13
_ATTEMPTS = 256
"""Numbers of rows that are tried."""


def _refusal(desc: OperatorDesc) -> str | None:
    """Why a checked desc has no compiled form; None if it has one."""
    tensors = desc.tensors().values()
    if any(tensor.data_type.bits == 4 for tensor in tensors):
        return "compiled gathers and scatters move whole bytes"
    return None if all(tensor.is_packed for tensor in tensors) else "compiled gathers and scatters need packed tensors"


def _columns_of(count: int) -> int:
    """The columns of a matrix of so many elements, neither many nor few; 0 if there is no such matrix."""
    fewest = -(-count // _MOST_COLUMNS)
    rows = next((rows for rows in range(fewest, min(count // _FEWEST_COLUMNS, fewest + _ATTEMPTS) + 1) if count % rows == 0), 0)
    return count // rows if rows else 0


@plan(GatherDesc)
@on_copies(reads_all=False)
def gather_plan(desc: GatherDesc) -> IndexingPlan | str:
    from dmlpy.devices.cpu.indexing.plan import BLOCKS, ELEMENTS, IndexingPlan, Units

    if refusal := _refusal(desc):
        return refusal
    tensors, sizes, width = desc.tensors(), desc.input_tensor.sizes, desc.input_tensor.data_type.numpy.itemsize
    block = prod(sizes[desc.axis + 1 :]) * width
    count = desc.indices_tensor.element_count
    names = ("indices_tensor", "input_tensor", "output_tensor")
    if block == width and prod(sizes) == sizes[desc.axis] and (columns := _columns_of(count)):
        # The elements of a table, as GATHER_ELEMENTS reads them.
        steps = {"per_batch": count, "batch_size": 0, "columns": columns, "index_step": width, "column_step": 0}
        return IndexingPlan(tensors, Units((ELEMENTS, (False, width)), count // columns, False, *names, [prod(sizes)], steps))
    if block == width and prod(sizes) > sizes[desc.axis]:
        row = {"per_batch": 1, "batch_size": sizes[desc.axis] * width, "columns": count, "row_indices": 0, "index_step": width}
        units = Units((ELEMENTS, (False, width)), prod(sizes[: desc.axis]), False, *names, [sizes[desc.axis]], {**row, "column_step": 0})
        return IndexingPlan(tensors, units)
    values = {"period": count, "per_batch": count, "batch_size": sizes[desc.axis] * block, "axes": 1, "block": block}
    return IndexingPlan(tensors, Units((BLOCKS, (False,)), prod(sizes[: desc.axis]) * count, False, *names, [sizes[desc.axis]], values))


@plan(GatherNDDesc, GatherND1Desc)
@on_copies(reads_all=False)
def gather_nd_plan(desc: GatherNDDesc | GatherND1Desc) -> IndexingPlan | str:
    from dmlpy.devices.cpu.indexing.plan import BLOCKS, IndexingPlan, Units

    if refusal := _refusal(desc):
        return refusal
    sizes = desc.input_tensor.sizes[len(desc.input_tensor.sizes) - desc.input_dimension_count :]
    *_, axes = desc.indices_tensor.sizes
    batch, count = desc.batch_dimensions, desc.indices_tensor.element_count // axes
    block = prod(sizes[batch + axes :]) * desc.input_tensor.data_type.numpy.itemsize
    indexed = sizes[batch : batch + axes]
    values = {"period": count, "per_batch": count // prod(sizes[:batch]), "batch_size": prod(indexed) * block, "axes": axes, "block": block}
    names = ("indices_tensor", "input_tensor", "output_tensor")
    return IndexingPlan(desc.tensors(), Units((BLOCKS, (False,)), count, False, *names, indexed, values))


@plan(ScatterNDDesc)
@on_copies()
def scatter_nd_plan(desc: ScatterNDDesc) -> IndexingPlan | str:
    from dmlpy.devices.cpu.indexing.plan import BLOCKS, IndexingPlan, Units

    if refusal := _refusal(desc):
        return refusal
    sizes = desc.input_tensor.sizes[len(desc.input_tensor.sizes) - desc.input_dimension_count :]
    *_, axes = desc.indices_tensor.sizes
    count, block = desc.indices_tensor.element_count // axes, prod(sizes[axes:]) * desc.input_tensor.data_type.numpy.itemsize
    values = {"period": count, "per_batch": count, "axes": axes, "block": block}
    names = ("indices_tensor", "output_tensor", "updates_tensor")
    return IndexingPlan(desc.tensors(), Units((BLOCKS, (True,)), count, True, *names, sizes[:axes], values), filled="input_tensor")


@plan(GatherElementsDesc, ScatterDesc)
@on_copies(reads_all=False)
def elements_plan(desc: GatherElementsDesc | ScatterDesc) -> IndexingPlan | str:
    from dmlpy.devices.cpu.indexing.plan import ELEMENTS, IndexingPlan, Units

    if refusal := _refusal(desc):
        return refusal
    scatters, sizes, width = isinstance(desc, ScatterDesc), desc.input_tensor.sizes, desc.input_tensor.data_type.numpy.itemsize
    length, size, inner = desc.indices_tensor.sizes[desc.axis], sizes[desc.axis], prod(sizes[desc.axis + 1 :])
    outer = prod(sizes[: desc.axis])
    columns, per_batch, step = (length, 1, 0) if inner == 1 else (inner, length, width)
    values = {"per_batch": per_batch, "batch_size": size * inner * width, "columns": columns, "index_step": inner * width}
    names = ("indices_tensor", "output_tensor", "updates_tensor") if scatters else ("indices_tensor", "input_tensor", "output_tensor")
    units = Units((ELEMENTS, (scatters, width)), outer * per_batch, scatters, *names, [size], {**values, "column_step": step})
    return IndexingPlan(desc.tensors(), units, filled="input_tensor" if scatters else None)


@plan(OneHotDesc)
@on_copies()
def one_hot_plan(desc: OneHotDesc) -> IndexingPlan | str:
    from dmlpy.devices.cpu.indexing.plan import ONE_HOT, IndexingPlan, Units

    if refusal := _refusal(desc):
        return refusal
    sizes, width = desc.output_tensor.sizes, desc.output_tensor.data_type.numpy.itemsize
    outer, size, inner = prod(sizes[: desc.axis]), sizes[desc.axis], prod(sizes[desc.axis + 1 :])
    values = {"batch_size": size * inner * width, "columns": inner}
    names = ("indices_tensor", "output_tensor", "values_tensor")
    return IndexingPlan(desc.tensors(), Units((ONE_HOT, (width,)), outer, False, *names, [size], values))


@plan(NonzeroCoordinatesDesc)
@on_copies()
def nonzero_plan(desc: NonzeroCoordinatesDesc) -> NonzeroPlan | str:
    from dmlpy.devices.cpu.indexing.plan import NonzeroPlan

    outputs = [slot.tensor for slot in desc.output_slots()]
    if not all(tensor is not None and tensor.is_packed for tensor in outputs):
        return "compiled coordinates need packed outputs"
    return "compiled coordinates are of whole bytes" if desc.input_tensor.data_type.bits == 4 else NonzeroPlan(desc)


@plan("dmlpy.devices.graphs.weighted_gather_desc:WeightedGatherDesc")
def weighted_gather_plan(desc: WeightedGatherDesc) -> WeightedGatherPlan | str:
    from dmlpy.devices.cpu.indexing.weighted_gather import WeightedGatherPlan
    from dmlpy.devices.graphs.weighted_gather_desc import MOST_TERMS

    if not 1 < len(desc.indices_tensors) == len(desc.weight_tensors) <= MOST_TERMS:
        return f"compiled sums of gathers have 2 to {MOST_TERMS} terms"
    packed = all(tensor.is_packed for tensor in (*desc.indices_tensors, *desc.weight_tensors))
    return WeightedGatherPlan(desc) if packed else "compiled sums of gathers need packed indices and weights"
