"""`compare`: runs a graph on two devices, and names the first node whose results differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.compiler import compile as compiled_for
from dmlpy.description.arrays import Buffer
from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.devices import Device
from dmlpy.devices.graphs.compiled import CompiledGraph, PreparedGraph
from dmlpy.devices.graphs.ir import GraphIR
from dmlpy.devices.memory import binding
from dmlpy.graphs import Graph
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import BindError, DescError, Problem
from dmlpy.reference.evaluation import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.enums import ExecutionFlags
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.ir import Source

Array = np.ndarray[Any, np.dtype[Any]]

REFERENCE = "reference"
"""In the place of a device: the plain definitions of the operators, in float64."""

TOLERANCES = {"bfloat16": 8e-2, "float16": 2e-2, "float32": 1e-4, "float64": 1e-10}
"""The largest difference that counts as rounding, relative to the largest magnitude of a tensor. Integers have to be equal."""

_WIDE = (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT32)


@dataclass(frozen=True)
class NodeDifference:
    """How far the results of one output of a node differ.

    Attributes:
        node: its name, as `CompiledGraph.trace` has it.
        operator: the operator's short name.
        difference: the largest difference of two elements, relative to the largest magnitude; infinite where only one is NaN or infinite.
        tolerance: the largest difference that counts as rounding.
    """

    node: str
    operator: str
    difference: float
    tolerance: float

    @property
    def parts(self) -> bool:
        """Whether the difference is beyond the tolerance."""
        return not self.difference <= self.tolerance


@dataclass(frozen=True)
class Comparison:
    """The results of a graph on two devices, node by node, in the order in which they run. `str` formats it.

    Attributes:
        devices: their names.
        nodes: the differences.
    """

    devices: tuple[str, str]
    nodes: tuple[NodeDifference, ...]

    @property
    def first(self) -> NodeDifference | None:
        """The first node where the two part beyond tolerance; None if they do nowhere."""
        return next((node for node in self.nodes if node.parts), None)

    def __str__(self) -> str:
        first, second = self.devices
        head = f"{first} and {second} agree in {f'all {len(self.nodes)} tensors' if len(self.nodes) != 1 else 'the one tensor'}"
        if self.first is not None:
            head = f"{first} and {second} differ first at {self.first.node!r} ({self.first.operator})"
        lines = [
            f"    {node.difference:8.1e} of {node.tolerance:7.1e}  {node.node} ({node.operator}){'  <-' if node.parts else ''}"
            for node in self.nodes
        ]
        return "\n".join([head, *lines])


def compare(
    graph: Graph,
    inputs: Mapping[str, Any],
    devices: Sequence[Device | str] = ("cpu", "cuda"),
    *,
    flags: ExecutionFlags | str | int = "NONE",
    tolerance: float | None = None,
) -> Comparison:
    """Runs a graph node by node on two devices and compares what each node gives.

    Args:
        graph: the graph.
        inputs: NumPy arrays of all inputs, owned ones too, by name.
        devices: two devices, of which one may be `"reference"`: the operators' definitions in float64, which shows where float32 or
            float16 is not enough.
        flags: the execution flags that the graph is compiled with on both devices, as for `dml.compile`; the definitions know none.
        tolerance: the largest difference that counts as rounding, relative to the largest magnitude of a tensor, in place of 8e-2 for
            BFLOAT16, 2e-2 for FLOAT16, 1e-4 for FLOAT32 and 1e-10 for FLOAT64. Integers have to be equal.

    Raises:
        BindError: there are not two devices, or inputs are missing or do not fit.
        CompileError: the graph breaks rules, or a device does not run it.
        DescError: `graph` is not a graph, or `flags` are not flags.
    """
    if not isinstance(graph, Graph):
        expected = "a graph, like that of GraphBuilder or dmlpy.x.graph"
        remedy = None
        if isinstance(graph, OperatorDesc):
            remedy = "dml.reference computes a single operator in float64"
        elif isinstance(graph, CompiledGraph | PreparedGraph):
            remedy = "pass the graph that was compiled: compiled.graph" if isinstance(graph, CompiledGraph) else "pass the graph itself"
        raise DescError("compare", [Problem("field.form", "graph", brief(graph), expected, remedy=remedy)])
    given = [devices] if isinstance(devices, str | Device) else [*devices]
    if len(given) != 2:
        remedy = 'name two, such as devices=["cpu", "reference"]'
        raise BindError("compare", [Problem("bind.count", "devices", plural(len(given), "device"), "two", remedy=remedy)])
    (first, left), (second, right) = (_trace(graph, inputs, device, flags) for device in given)
    ir = GraphIR.of(graph)
    order = {index: step for step, index in enumerate(ir.order())}
    sources = sorted(ir.tensors, key=lambda source: (order[source[0] or 0], source[1]))
    nodes = []
    for (index, at), label in zip(sources, ir.labels(sources), strict=True):
        desc = ir.operators[index or 0]
        data_type = ir.tensors[index, at].memory.data_type
        allowed = 0.0
        if is_float(data_type.numpy):
            allowed = TOLERANCES[data_type.numpy.name] if tolerance is None else tolerance
        nodes.append(NodeDifference(label, desc.short_name(), largest_difference(left[label], right[label]), allowed))
    return Comparison((first, second), tuple(nodes))


def _trace(
    graph: Graph, inputs: Mapping[str, Any], device: Device | str, flags: ExecutionFlags | str | int
) -> tuple[str, dict[str, Array]]:
    """The name of a device and what each node gives there, in host memory."""
    if device == REFERENCE:
        compiled = compiled_for(graph, "numpy")
        compiled.trace(inputs)  # refuses what does not fit
        definition = GraphDefinition(graph)
        values = definition.values({name: np.asarray(inputs[name]) for name in compiled.inputs})
        return REFERENCE, dict(zip(definition.ir.labels(list(values)), values.values(), strict=True))
    compiled = compiled_for(graph, device, flags=flags)
    stream = compiled.device.current_stream()
    given: dict[str, Any] = dict(inputs)
    kept = []
    if compiled.device.memory_kind != "cpu":
        for name, desc in compiled.inputs.items():
            if isinstance(array := given.get(name), np.ndarray) and array.shape == desc.sizes and array.dtype == desc.data_type.numpy:
                kept.append(compiled.device.upload(binding.stage(desc, array), stream))
                given[name] = Buffer(kept[-1].pointer, kept[-1].size)
    traced = compiled.trace(given, stream=stream)
    return compiled.device.name, {name: compiled.device.to_host(array, stream) for name, array in traced.items()}


class GraphDefinition:
    """The results of a graph by the definitions of its operators: FLOAT16 and FLOAT32 are computed in float64, and not rounded.

    Each value is as its node gives it; where a reader views its memory with other sizes and strides, a row of its elements, float64 for
    these types.

    Args:
        graph: a graph without problems.
        wide_members: whether FLOAT members are what the descs were given, not the 32-bit floats that structs hold.
    """

    def __init__(self, graph: Graph, *, wide_members: bool = False) -> None:
        self.ir = ir = GraphIR.of(graph)
        self._inputs = {name: source for name, (source, _) in ir.inputs.items()}
        self._steps: list[tuple[Definition, list[_Read], list[tuple[Source, str, int | None]]]] = []
        descs = dict(ir.inputs.values()) | dict(ir.tensors)
        self._constants: dict[Source, Array] = {}
        for index in ir.order():
            operator = ir.operators[index]
            reads: list[_Read] = []
            for slot in operator.input_slots():
                if slot.tensor is not None:
                    reads.append(self._read_of(index, slot.place, slot.tensor.memory, descs))
            writes: list[tuple[Source, str, int | None]] = [
                ((index, at), slot.field.name, slot.index) for at, slot in enumerate(operator.output_slots()) if slot.tensor is not None
            ]
            self._steps.append((Definition(operator, np.dtype(np.float64), wide_members=wide_members), reads, writes))

    def _read_of(self, index: int, place: str, reader: TensorDesc, descs: Mapping[Source, TensorDesc]) -> _Read:
        source = self.ir.reads[index, place]
        node = self.ir.constant(source)
        if node is None:
            return _Read.of(place, source, descs[source].memory, reader)
        key = (index, -1 - len(self._constants))  # no output of a node has a number below 0
        self._constants[key] = _view(np.frombuffer(node.data, np.uint8), reader)
        return _Read(place, key, reader, reader, is_plain=True)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the graph by name, of arrays of all inputs, owned ones too."""
        values = self.values(inputs)
        return {name: values[source] for name, source in self.ir.outputs.items()}

    def values(self, inputs: Mapping[str, Array]) -> dict[Source, Array]:
        """The result of each node."""
        known = self._constants | {source: inputs[name] for name, source in self._inputs.items()}
        computed: dict[Source, Array] = {}
        for definition, reads, writes in self._steps:
            results = definition.of_arrays({read.place: read.array(known[read.source]) for read in reads})
            for source, name, at in writes:
                known[source] = computed[source] = np.asarray(results[name] if at is None else results[name][at])
        return computed


class _Read(NamedTuple):
    """How a node reads a value.

    Attributes:
        place: the place of the input.
        source: the value.
        written: how it is in memory.
        reader: how the node reads that.
        is_plain: whether the node reads the elements in their order, each once.
    """

    place: str
    source: Source
    written: TensorDesc
    reader: TensorDesc
    is_plain: bool

    @classmethod
    def of(cls, place: str, source: Source, written: TensorDesc, reader: TensorDesc) -> _Read:
        same = written.data_type is reader.data_type and written.data_type.bits > 4
        return cls(place, source, written, reader, same and all(tensor.is_packed for tensor in (written, reader)))

    def array(self, values: Array) -> Array:
        if self.is_plain and values.size == self.reader.element_count:
            return values.reshape(self.reader.sizes)
        return _read(_row(self.written, values), self.written, self.reader)


def _row(desc: TensorDesc, array: Array) -> Array:
    """The elements of a tensor's memory, zero where it has none."""
    memory = desc.memory
    dtype = np.dtype(np.float64) if memory.data_type in _WIDE else memory.data_type.numpy
    row = np.zeros(max(memory.span, -(-desc.size_in_bytes // memory.data_type.numpy.itemsize)), dtype)
    np.lib.stride_tricks.as_strided(row, memory.sizes, [stride * dtype.itemsize for stride in memory.element_strides])[...] = array
    return row


def _read(row: Array, written: TensorDesc, reader: TensorDesc) -> Array:
    """The elements of memory as a node reads them."""
    if written.data_type in _WIDE and reader.data_type is written.data_type:
        strides = [stride * row.itemsize for stride in reader.element_strides]
        missing = reader.span - len(row)
        return np.lib.stride_tricks.as_strided(np.pad(row, (0, max(0, missing))), reader.sizes, strides)
    return _view(row.astype(written.data_type.numpy).view(np.uint8), reader)


def _view(data: Array, reader: TensorDesc) -> Array:
    padded = np.pad(data, (0, max(0, reader.extent_in_bytes - len(data))))
    return np.ndarray(reader.sizes, reader.data_type.numpy, padded.data, strides=reader.numpy_strides())


def largest_difference(left: Array, right: Array) -> float:
    """The largest difference of two elements, relative to the largest magnitude."""
    if not is_float(left.dtype) and not is_float(right.dtype):
        return 0.0 if np.array_equal(left, right) else np.inf
    with np.errstate(invalid="ignore"):  # differences of infinities, and casts of signalling NaN
        first, second = left.astype(np.float64), right.astype(np.float64)
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        difference = np.where(same, 0.0, np.abs(first - second))
        if not np.isfinite(difference).all():
            return np.inf
        largest = max(np.abs(values[np.isfinite(values)]).max(initial=0.0) for values in (first, second))
    return float(difference.max(initial=0.0) / largest) if largest else 0.0
