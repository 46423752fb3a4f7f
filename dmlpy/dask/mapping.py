"""`map_blocks`: an operator or graph over arrays of Dask, chunk by chunk."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from dmlpy.compiler import parse_flags
from dmlpy.dask.chunking import AxisGrouping, all_chunks, resize_to
from dmlpy.dask.jobs import Job, Task, chunk_problems
from dmlpy.dask.resizing import tensors_of
from dmlpy.dask.state_passing import pass_state
from dmlpy.dask.task_graph import TaskGraph
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.flags import check_flags
from dmlpy.description.outputs import Outputs
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.graphs import Graph
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import Count
from dmlpy.messages.problems import CompileError, DescError, DeviceError, Problem, only_errors
from dmlpy.validation.checking import LATEST, check, no_desc, parse_level
from dmlpy.validation.tensor_arguments import TensorArguments, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.compiler import Flags
    from dmlpy.dask.chunking import Group
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.description.tensors import TensorDesc


@check_flags
def map_blocks(
    described: OperatorDesc | Graph,
    arrays: Mapping[str, Any] | None = None,
    /,
    *,
    device: str | None = None,
    feature_level: FeatureLevel | str | int = LATEST,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    axes: Mapping[str, int | Sequence[int]] | None = None,
    carry: bool = False,
    fuse: bool = True,
    **tensors: Any,
) -> Outputs:
    """Computes an operator or graph over arrays of Dask, chunk by chunk, when Dask computes the result.

    The desc may have any sizes. For each chunk, its sizes along batch axes are replaced, and those of all tensors that share them,
    including outputs. Every kind of chunk is checked now; nothing runs until Dask computes the result.

    Inputs that are not chunked are constants. They are sent to each worker once, and packed there once per chunk size.

    Args:
        described: a desc with outputs, or a graph.
        arrays: the inputs by name, if they are not given as keywords: for graphs with inputs named like the options below.
        device: `"cpu"`, `"numpy"`, `"cuda"` (of each worker the first GPU that it sees) or `"cuda:1"`. None is where the chunks are: the
            CPU for NumPy's arrays, the GPU that holds them for CuPy's. NumPy's chunks are copied to a GPU and back.
        feature_level: a cap, as for `check`.
        flags: as for `compile`.
        axes: further axes that may be chunked, by input: the caller guarantees that chunks along them are independent.
        carry: whether an RNN, LSTM or GRU of one direction is also chunked along time: each chunk starts with the final state of the
            previous one.
        fuse: as for `compile`.
        tensors: the inputs by name in either spelling: arrays of Dask, or NumPy's and CuPy's, which are cut where those that share an axis
            are; a list for an array of tensors.

    Returns:
        Outputs: the described outputs, as arrays of Dask, NumPy-backed or CuPy-backed like the inputs.

    Raises:
        CompileError: the desc breaks rules, as given or with the sizes of a chunk, which is named.
        DescError: an array does not fit, or is chunked along an axis that must not be chunked.
        DeviceError: the device name is unknown. A worker without the device reports it.

    What goes wrong on a worker is raised by Dask as dmlpy's error, with the chunk and the worker in its text.
    """
    job, given = _make_job(
        described, _pick_arrays(arrays, tensors), device, feature_level, flags, {} if axes is None else axes, carry=carry, fuse=fuse
    )
    return _make_collections(job, given)


def _pick_arrays(arrays: Mapping[str, Any] | None, tensors: dict[str, Any]) -> Mapping[str, Any]:
    if arrays is not None and tensors:
        raise DescError("map_blocks", [Problem("bind.form", "arrays", "given beside keywords", "either of them")])
    return tensors if arrays is None else arrays


def _make_job(
    described: OperatorDesc | Graph,
    values: Mapping[str, Any],
    device: str | None,
    feature_level: FeatureLevel | str | int,
    flags: Flags | Sequence[Flags],
    axes: Mapping[str, int | Sequence[int]],
    *,
    carry: bool,
    fuse: bool,
) -> tuple[Job, dict[str, Any]]:
    """Checks everything possible without running, and chunks the arrays of each group alike."""
    if not isinstance(described, OperatorDesc | Graph):
        expected = "an operator's desc, like LSTMDesc(...), or a Graph"
        raise DescError("map_blocks", [no_desc(described, expected, "described")])
    level = parse_level(feature_level)
    if problems := _check(described, level):
        raise CompileError(_name(described), problems, desc=described if isinstance(described, OperatorDesc) else None)
    given, problems = _name_arrays(described, values)
    if problems:
        raise DescError("map_blocks", problems)
    inputs, outputs = tensors_of(described)
    allowed = {name: (axis,) if isinstance(axis, int) else tuple(axis) for name, axis in axes.items()}
    cutting = AxisGrouping(described, given, allowed, carry=carry)
    groups = cutting.groups()
    described, steps = pass_state(described, groups, cutting.problems) if carry else (described, None)
    for index, group in enumerate(groups):
        if steps is None or index != steps.axis:
            cutting.problems += _without_axis(group, outputs)
    if cutting.problems:
        raise DescError("map_blocks", cutting.problems)
    cut = tuple(name for name in inputs if any(name in group.axes for group in groups))
    awaited = tuple(name for name in inputs if name not in cut and isinstance(given[name], da.Array))
    job = Job(
        described=described,
        device=_check_device(device),
        feature_level=level,
        flags=parse_flags(flags),
        fuse=fuse,
        groups=tuple(groups),
        cut=cut,
        awaited=awaited,
        outputs=tuple(outputs),
        dimensions=tuple(len(tensor.sizes) for tensor in outputs.values()),
        steps=steps,
    )
    _check_chunks(job)
    return job, _rechunk(given, groups)


def _check(described: OperatorDesc | Graph, level: FeatureLevel) -> list[Problem]:
    return only_errors(described.check(level, lenient=True) if isinstance(described, Graph) else check(described, level))


def _name(described: OperatorDesc | Graph) -> str:
    return described.c_name if isinstance(described, OperatorDesc) else described.name or described.c_name


def _name_arrays(described: OperatorDesc | Graph, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The arrays by the names of the inputs; values without a shape become NumPy arrays."""
    if isinstance(described, Graph):
        named_values, problems = named(values, "input")
    else:
        fields = [replace(slot.field, name=slot.place) for slot in described.input_slots()]
        named_values, problems = TensorArguments(described, fields, "input").by_place(values)
    arrays = {name: value if hasattr(value, "shape") else np.asarray(value) for name, value in named_values.items() if value is not None}
    return arrays, problems


def _check_device(device: str | None) -> str | None:
    """The device's name, if a worker could have such a device."""
    if isinstance(device, Device):
        device = device.name
    if device is not None:
        try:
            find_device(device)
        except DeviceError as error:
            if error.hresult == HResult.E_INVALIDARG:
                raise
    return device


def _without_axis(group: Group, outputs: Mapping[str, TensorDesc]) -> list[Problem]:
    """Problems of outputs that do not have a group's axis, so that all chunks would compute them."""
    why = ("each chunk returns one of its own, and none is that of the whole sequence",)
    return [
        Problem("dask.axis", name, Count(f"no axis for {group.name}"), "an axis that is cut like the inputs", why, "leave the output out")
        for name in outputs
        if name not in group.axes
    ]


def _check_chunks(job: Job) -> None:
    """Checks the desc or graph for every kind of chunk."""
    known: set[tuple[int, ...]] = set()
    for chunk in all_chunks(job.groups):
        if chunk.sizes in known:
            continue
        known.add(chunk.sizes)
        for described in (job.described, *([job.steps.later] if job.steps is not None else [])):
            try:
                whole = resize_to(described, job.groups, chunk.sizes).described
            except DescError as error:
                raise DescError(error.subject, chunk_problems(chunk, error.problems)) from None
            if problems := _check(whole, job.feature_level):
                desc = whole if isinstance(whole, OperatorDesc) else None
                raise CompileError(f"{_name(whole)} for {chunk.label}", problems, desc=desc)


def _rechunk(given: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
    """The arrays, with those that are in a group as arrays of Dask with the group's chunks."""
    rechunked = dict(given)
    for name, array in given.items():
        chunks = {group.axes[name]: group.chunks for group in groups if name in group.axes}
        if chunks:
            whole = {axis: (size,) for axis, size in enumerate(array.shape)} | chunks
            cut = tuple(whole[axis] for axis in range(len(array.shape)))
            rechunked[name] = array.rechunk(cut) if isinstance(array, da.Array) else da.from_array(array, chunks=cut, asarray=False)
    return rechunked


def _make_collections(job: Job, given: Mapping[str, Any]) -> Outputs:
    """The outputs as arrays of Dask."""
    task = Task(job, {name: array for name, array in given.items() if name not in (*job.cut, *job.awaited)})
    sources = {name: given[name] for name in (*job.cut, *job.awaited)}
    token = tokenize(pickle.dumps(job), task.constants, [array.name for array in sources.values()])
    kind = job.described.short_name() if isinstance(job.described, OperatorDesc) else job.described.name or "graph"
    tasks = TaskGraph(job, f"{kind.lower()}-{token}", {name: (array.name, array.ndim) for name, array in sources.items()})
    base = HighLevelGraph.from_collections(tasks.name, tasks.of_task(task), dependencies=list(sources.values()))
    meta = next((array._meta for array in sources.values()), np.empty(0))
    collections: dict[str, Any] = {}
    tensors = tensors_of(job.described)[1]
    for output in job.outputs:
        tensor = tensors[output]
        graph, layer = base, tasks.name
        if not tasks.is_single:
            layer = f"{tasks.name}-{output}"
            picked = tasks.of_output(layer, output, len(tensor.sizes))
            graph = HighLevelGraph({**base.layers, layer: picked}, {**base.dependencies, layer: {tasks.name}})
        axes = {group.axes[output]: group.chunks for group in job.groups if output in group.axes}
        chunks = tuple(axes.get(axis, (size,)) for axis, size in enumerate(tensor.sizes))
        empty = np.empty_like(meta, shape=(0,) * len(chunks), dtype=tensor.data_type.numpy)
        collections[output] = da.Array(graph, layer, chunks, meta=empty)
    return Outputs(_group_outputs(collections))


def _group_outputs(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by field: those of an array of tensors as a tuple."""
    gathered: dict[str, Any] = {}
    for place, array in arrays.items():
        field, bracket, _ = place.partition("[")
        gathered[field] = (*gathered.get(field, ()), array) if bracket else array
    return gathered
