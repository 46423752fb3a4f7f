"""Reads ONNX Runtime's graph dumps: the FlatBuffer that its DirectML provider writes with `ep.dml.enable_graph_serialization`.

Each partition of a model is a file `Partition_N.bin`, with the large constants in files `NAME.bin` in the same folder. Tables and fields
below are named as in the provider's schema (`dml.ir`), fields by their offset in the vtable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, TensorFlags
from dmlpy.description.markers import TensorField
from dmlpy.description.registry import operator_class
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs.flatbuffer import FLOAT32, INT32, MAX_BYTES, UINT8, UINT32, UINT64, Buffer, Union, VerifiedTable
from dmlpy.graphs.graph import Graph
from dmlpy.graphs.nodes import ConstantNode, InputEdge, IntermediateEdge, Node, OperatorNode, OutputEdge
from dmlpy.messages.naming import Count, c_member, plural
from dmlpy.messages.problems import DescError, Problem
from dmlpy.system import files

SUBJECT = "serialized graph"
MAX_NODES = 6000
"""The most nodes of a dump: reading and checking one takes far longer than its bytes suggest. Partitions of large models have some
thousand.
"""
_MOST_PROBLEMS = 100
"""The most problems before reading stops: a damaged file has one in every table."""

# The unions' types.
_OPERATOR_NODE, _CONSTANT_NODE = 1, 2
_CONSTANT_NAME, _CONSTANT_RAW_DATA = 1, 2
_BYTE_ARRAY = 1


@dataclass(frozen=True)
class ConstantFile:
    """A constant whose bytes are in a separate file next to the graph's.

    Attributes:
        name: the file's name without `.bin`.
        input_index: the graph input that stands for the constant; it is OWNED_BY_DML.
        path: the file; None where no folder was given to look in.
    """

    name: str
    input_index: int
    path: Path | None


@dataclass(frozen=True)
class SerializedGraph:
    """The contents of a graph dump.

    Attributes:
        graph: the graph. Its inputs are those of the dump, then the constants in files, in the order of their first use.
        constants: the constants in files, by the name of their graph input.
    """

    graph: Graph
    constants: Mapping[str, ConstantFile]

    def read_constant(self, input_name: str) -> bytes:
        """The bytes that a constant's graph input is bound to, with zeros up to the size of the tensor that they fill.

        Raises:
            DescError: there is no such constant, no folder was given, or the file cannot be read.
        """
        constant = self.constants.get(input_name)
        if constant is None or constant.path is None:
            found = "no constant in a file" if constant is None else "a constant in a file that was not looked for"
            raise _error("serialized.constant", "constants", f"{brief(input_name)}, {found}", "a constant, and the folder of its file")
        size = next(tensor.size_in_bytes for tensor in _readers(self.graph, constant.input_index))
        try:
            data = files.read(constant.path, size)
        except OSError as error:
            raise _error("file.unreadable", "constants", f"{constant.path.name}: {error.strerror or error}", "a file") from None
        return data + bytes(max(0, size - len(data)))


def load_serialized(source: str | Path | bytes, constants: str | Path | None = None) -> SerializedGraph:
    """Reads a graph dump. The file is untrusted: everything in it is verified before it is used.

    Args:
        source: the file, or its bytes.
        constants: the folder of the constants' files. They must lie in it and have the sizes of the tensors that they fill. Without one,
            no file but the graph's is read.

    Raises:
        DescError: what cannot be read, with its byte offset. The graph's `check` finds the rules that it breaks.
    """
    if not isinstance(source, str | PathLike | bytes | bytearray | memoryview):
        raise _error("field.form", "source", brief(source), "a path or bytes")
    if not isinstance(constants, str | PathLike | None):
        raise _error("field.form", "constants", brief(constants), "the path of a folder, or None")
    data = _read_file(Path(source)) if isinstance(source, str | PathLike) else bytes(source)
    reading = _Reading(Buffer(data, SUBJECT).root(), None if constants is None else Path(constants))
    return reading.result()


def _error(code: str, path: str, found: str, expected: str, *why: str, remedy: str | None = None) -> DescError:
    return DescError(SUBJECT, [Problem(code, path, found, expected, why, remedy)])


def _read_file(path: Path) -> bytes:
    try:
        if isinstance(size := files.size(path), str):
            raise _error("file.missing", "", f"{path.name}, {size}", "a graph dump")
        if size > MAX_BYTES:
            raise _error("file.size", "", f"{path.name} of {size} bytes", f"at most {MAX_BYTES} bytes")
        return files.read(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, DescError):
            raise
        raise _error("file.unreadable", "", f"{brief(str(path))}: {error}", "a graph dump") from None


def _readers(graph: Graph, input_index: int) -> Iterator[TensorDesc]:
    """The tensors that a graph input feeds."""
    for edge in graph.input_edges:
        if edge.graph_input_index == input_index:
            tensor = graph.nodes[edge.to_node_index].input_slots()[edge.to_node_input_index].tensor
            if tensor is not None:
                yield tensor


@dataclass
class _Source:
    """The source of an output's name in the file: a node's output, or a constant in a file."""

    node: int
    output: int
    constant: str | None = None
    input_name: str = ""


@dataclass
class _Reading:
    """One file on its way to a graph."""

    root: VerifiedTable
    folder: Path | None
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    input_edges: list[InputEdge] = field(default_factory=list)
    output_edges: list[OutputEdge] = field(default_factory=list)
    links: list[IntermediateEdge] = field(default_factory=list)
    sources: dict[str, _Source] = field(default_factory=dict)
    constants: dict[str, ConstantFile] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Outputs of nodes that cannot be read: their readers are not reported."""
    problems: list[Problem] = field(default_factory=list)

    def result(self) -> SerializedGraph:
        self.inputs = self._names("graphInputNames", 6)
        self.outputs = self._names("graphOutputNames", 8)
        nodes = self.root.tables("nodes", 4)
        if len(nodes) > MAX_NODES:
            raise _error("serialized.nodes", "nodes", Count(plural(len(nodes), "node")), f"at most {MAX_NODES}")
        for table in nodes:
            try:
                self._read_node(table)
            except DescError as error:
                self.problems += error.problems
            if len(self.problems) >= _MOST_PROBLEMS:
                break
        self._check_constants()
        if self.problems:
            raise DescError(SUBJECT, self.problems)
        graph = Graph(
            input_count=len(self.inputs) + len(self.constants),
            output_count=len(self.outputs),
            nodes=self.nodes,
            input_edges=self.input_edges,
            output_edges=self.output_edges,
            intermediate_edges=self.links,
            input_names=[*self.inputs, *self.constants],
            output_names=list(self.outputs),
        )
        return SerializedGraph(graph, self.constants)

    def _names(self, name: str, slot: int) -> dict[str, int]:
        """Graph inputs or outputs by name, with their indices."""
        indices: dict[str, int] = {}
        for index, text in enumerate(self.root.strings(name, slot)):
            if not text or text in indices:
                given = f"{brief(text)}, {'as another one is' if text else 'empty'}"
                self.problems.append(Problem("serialized.name", f"{name}[{index}]", given, "a unique name"))
            indices.setdefault(text, index)
        return indices

    def _read_node(self, table: VerifiedTable) -> None:
        name = table.string("name", 8) or table.missing("name")
        inputs, outputs = table.strings("inputNames", 10), table.strings("outputNames", 12)
        desc = table.union("desc", 6) or table.missing("desc")
        try:
            if desc.kind == _OPERATOR_NODE:
                self._read_operator(table, desc.table(), name, inputs, outputs)
            elif desc.kind == _CONSTANT_NODE:
                self._read_constant(table, desc.table(), name, outputs)
            else:
                desc.refuse(f"{_OPERATOR_NODE} (OperatorNodeDesc) or {_CONSTANT_NODE} (ConstantNodeDesc)")
        except DescError as error:
            self.lost.update(outputs)
            where = f"node {brief(name)} at byte {table.at}"
            problems = [Problem(p.code, p.path, p.found, p.expected, (where, *p.why), p.remedy) for p in error.problems]
            raise DescError(SUBJECT, problems) from None

    def _read_constant(self, table: VerifiedTable, desc: VerifiedTable, name: str, outputs: Sequence[str]) -> None:
        data = desc.union("data", 6) or desc.missing("data")
        if len(outputs) != 1:
            raise _error("serialized.slots", table.place("outputNames"), plural(len(outputs), "name"), "1: a constant has one output")
        if data.kind == _CONSTANT_NAME:
            constant = data.table()
            file_name = constant.string("name", 4) or constant.missing("name")
            self._define(outputs[0], _Source(-1, 0, file_name, name), table)
        elif data.kind == _CONSTANT_RAW_DATA:
            constant = data.table()
            raw = constant.bytes("data", 4)
            self.nodes.append(ConstantNode(data=constant.missing("data") if raw is None else raw, name=name))
            self._write(outputs[0], len(self.nodes) - 1, 0, table)
        else:
            data.refuse(f"{_CONSTANT_NAME} (ConstantName) or {_CONSTANT_RAW_DATA} (ConstantRawData)")

    def _define(self, name: str, source: _Source, table: VerifiedTable) -> None:
        if name in self.sources:
            raise _error("serialized.name", table.place("outputNames"), f"{brief(name)}, an earlier node's output", "a unique name")
        self.sources[name] = source

    def _write(self, name: str, node: int, index: int, table: VerifiedTable) -> None:
        """An output of a node, with the edge that makes it one of the graph if it is."""
        self._define(name, _Source(node, index), table)
        if name in self.outputs:
            edge = OutputEdge(from_node_index=node, from_node_output_index=index, graph_output_index=self.outputs[name])
            self.output_edges.append(edge)

    def _read_operator(
        self, table: VerifiedTable, operator: VerifiedTable, name: str, inputs: Sequence[str], outputs: Sequence[str]
    ) -> None:
        kind = _kind(operator)
        node = len(self.nodes)
        members = _read_tensors(operator, "inputs", 6, kind.inputs(), inputs, table.place("inputNames"), self._flags)
        members |= _read_tensors(operator, "outputs", 8, kind.outputs(), outputs, table.place("outputNames"), lambda _: TensorFlags.NONE)
        members |= _read_attributes(operator, 10, kind, members)
        try:
            desc = kind(**members)
        except DescError as error:
            raise DescError(SUBJECT, [problem.under(operator.path) for problem in error.problems]) from None
        self.nodes.append(OperatorNode(operator=desc, name=name))
        for index, text in enumerate(inputs):
            if text:
                self._join(text, node, index, table)
        for index, text in enumerate(outputs):
            if text:
                self._write(text, node, index, table)

    def _flags(self, name: str) -> TensorFlags:
        source = self.sources.get(name)
        owned = name not in self.inputs and source is not None and source.constant is not None
        return TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE

    def _join(self, name: str, node: int, index: int, table: VerifiedTable) -> None:
        """The edge that leads to an input of a node."""
        graph_input = self.inputs.get(name)
        if graph_input is None:
            source = self.sources.get(name)
            if source is None and name in self.lost:
                return
            if source is None:
                why = ("nodes are stored in the order of their edges",)
                expected = "the name of a graph input or of an earlier node's output"
                raise _error("serialized.edge", table.place("inputNames", index), brief(name), expected, *why)
            if source.constant is None:
                link = IntermediateEdge(
                    from_node_index=source.node, from_node_output_index=source.output, to_node_index=node, to_node_input_index=index
                )
                self.links.append(link)
                return
            graph_input = self._constant_input(source)
        self.input_edges.append(InputEdge(graph_input_index=graph_input, to_node_index=node, to_node_input_index=index))

    def _constant_input(self, source: _Source) -> int:
        """The graph input of a constant in a file; its first use makes it one."""
        known = self.constants.get(source.input_name)
        if known is None:
            if source.input_name in self.inputs:
                expected = "a name that no graph input has"
                raise _error("serialized.name", "nodes", f"the constant {brief(source.input_name)}, as a graph input is", expected)
            name = source.constant or ""
            known = ConstantFile(name, len(self.inputs) + len(self.constants), self._constant_file(name))
            self.constants[source.input_name] = known
        elif known.name != source.constant:
            expected = "a unique name"
            raise _error("serialized.name", "nodes", f"the constant {brief(source.input_name)}, as another constant is", expected)
        return known.input_index

    def _constant_file(self, name: str) -> Path | None:
        """The file of a constant; None if there is no folder or, with a problem, no such file. Reading continues with the others."""
        try:
            return None if self.folder is None else constant_path(self.folder, name)
        except DescError as error:
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems += error.problems
            return None

    def _check_constants(self) -> None:
        """Returns whether each constant's file has the bytes that its readers take; they are stored without the rounding to 4 bytes."""
        named = {constant.input_index: constant for constant in self.constants.values()}
        sizes: dict[Path, int] = {}
        for edge in self.input_edges:
            if len(self.problems) >= _MOST_PROBLEMS:
                break
            constant = named.get(edge.graph_input_index)
            if constant is None or constant.path is None:
                continue
            tensor = self.nodes[edge.to_node_index].input_slots()[edge.to_node_input_index].tensor
            size = sizes.setdefault(constant.path, constant.path.stat().st_size)
            if tensor is not None and not tensor.extent_in_bytes <= size <= tensor.size_in_bytes:
                least = "" if tensor.extent_in_bytes == tensor.size_in_bytes else f"{tensor.extent_in_bytes} to "
                expected = f"{least}{tensor.size_in_bytes} bytes"
                why = (f"node {edge.to_node_index} {brief(self.nodes[edge.to_node_index].name)} reads it as {tensor.summary()}",)
                self.problems.append(Problem("file.size", "constants", f"{constant.path.name} of {size} bytes", expected, why))


def constant_path(folder: Path, name: str) -> Path:
    """The file of a constant: `NAME.bin`, in the folder itself.

    Raises:
        DescError: the name leads elsewhere, or there is no such file.
    """
    path = "constants"
    if not name or name in (".", "..") or any(char in "/\\:\0" for char in name):
        raise _error("file.name", path, brief(name), "the name of a file in the folder: no separators, no drive")
    try:
        root = folder.resolve()
        file = (root / f"{name}.bin").resolve()
        if file.parent != root:
            expected = f"a file in {root}"
            raise _error("file.outside", path, f"{brief(name + '.bin')}, a link out of the folder", expected)
        if not files.is_file(file):
            raise _error("file.missing", path, f"{brief(name + '.bin')}, no file", f"a file in {root}")
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, DescError):
            raise
        raise _error("file.name", path, brief(name), "the name of a file", str(error)) from None
    return file


def _kind(table: VerifiedTable) -> type[OperatorDesc]:
    name = table.string("type", 4) or table.missing("type")
    try:
        return operator_class(name)
    except DescError as error:
        raise DescError(SUBJECT, [problem.under(table.path) for problem in error.problems]) from None


def _read_tensors(
    table: VerifiedTable,
    member: str,
    slot: int,
    fields: Sequence[TensorField],
    names: Sequence[str],
    place: str,
    flags: Callable[[str], TensorFlags],
) -> dict[str, Any]:
    """The tensors of a node by field: one for each name (`place` is where these stand) that is not empty; an array takes all left."""
    stored = table.tables(member, slot)
    if len(stored) != sum(map(bool, names)):
        expected = f"{sum(map(bool, names))}, one for each name in {place} that is not empty"
        found = Count(f"{plural(len(stored), 'tensor')} at byte {table.at}")
        raise _error("serialized.slots", table.place(member), found, expected)
    single = sum(not item.listed for item in fields)
    if len(names) < single or (len(names) > single and single == len(fields)):
        expected = f"{single}{' or more' if single < len(fields) else ''}: {', '.join(c_member(item.name) for item in fields)}"
        raise _error("serialized.slots", place, plural(len(names), "name"), expected)
    left, following = iter(enumerate(names)), iter(stored)
    members: dict[str, Any] = {}
    for item in fields:
        if not item.listed:
            _, name = next(left)
            members[item.name] = _read_tensor(next(following), flags(name)) if name else None
            continue
        tensors = []
        for index, name in left:
            if not name:
                expected = f"a name: {c_member(item.name)} has no absent entries"
                raise _error("serialized.slots", f"{place}[{index}]", "empty", expected)
            tensors.append(_read_tensor(next(following), flags(name)))
        members[item.name] = tuple(tensors)
    return members


def _read_tensor(table: VerifiedTable, flags: TensorFlags) -> TensorDesc:
    data_type = table.string("dataType", 4) or table.missing("dataType")
    sizes = table.numbers("sizes", 6, UINT32)
    if sizes is None:
        table.missing("sizes")
    try:
        return TensorDesc(
            data_type=data_type,
            sizes=sizes,
            strides=table.numbers("strides", 8, UINT32),
            total_tensor_size_in_bytes=table.number("totalTensorSizeInBytes", 10, UINT64),
            flags=flags,
        )
    except DescError as error:
        raise DescError(SUBJECT, [problem.under(table.path) for problem in error.problems]) from None


def _read_attributes(
    table: VerifiedTable, slot: int, kind: type[OperatorDesc], tensors: Mapping[str, Any], depth: int = 0
) -> dict[str, Any]:
    """The members that are not tensors, identified by position; counts of arrays have separate positions."""
    stored = table.tables("attributes", slot)
    members = list(_positions(kind))
    if len(stored) != len(members):
        counted = Count(f"{plural(len(stored), 'attribute')} at byte {table.at}")
        raise _error("serialized.attributes", table.place("attributes"), counted, f"{len(members)}: {', '.join(map(c_member, members))}")
    values: dict[str, Any] = {}
    scalars: dict[str, Union] = {}
    for attribute, member in zip(stored, members, strict=True):
        union = attribute.union("val", 8)
        if union is None:
            if member in kind.model_fields:
                values[member] = None
            continue
        reader = _READERS.get(union.kind)
        if reader is None:
            union.refuse(f"a type of AttributeFieldVariant, 1 to {len(_READERS)}")
        if not _fits(kind, member, reader.name):
            found = f"{reader.name} at byte {union.at}"
            raise _error("serialized.attributes", attribute.path, found, f"the type of {c_member(member)}")
        if member in kind.scalars:
            scalars[member] = union
        else:
            values[member] = reader.read(union, depth)
    for member, union in scalars.items():
        values[member] = _read_scalar(union, _companion(kind.scalars[member], {**values, **tensors}))
    return values


def _positions(kind: type[OperatorDesc]) -> Iterator[str]:
    """The struct's members that are not tensors, in its order: C names of counts, Python names of all others."""
    tensors = {item.name for item in kind.tensor_fields()}
    for name in kind.model_fields:
        if name in kind.counts_before():
            yield kind.counts_before()[name]
        if name not in tensors:
            yield name


def _fits(kind: type[OperatorDesc], member: str, variant: str) -> bool:
    """Returns whether a member may be stored so. The desc's constructor refuses other mistakes; it takes an integer for a float, though."""
    if (member in kind.scalars) != (variant == "ScalarUnionData"):
        return False
    info = kind.model_fields.get(member)
    if info is None:
        return variant == "UInt32"
    kinds = {info.annotation, *get_args(info.annotation)}
    return float not in kinds or variant in ("Float32", "FloatArray", "ScalarUnionData")


def _read_activation(union: Union, depth: int) -> OperatorDesc:
    return _activation(union.table(), depth)


def _activation(table: VerifiedTable, depth: int) -> OperatorDesc:
    kind = _kind(table)
    if depth >= _MOST_NESTED:
        raise _error("serialized.attributes", table.path, f"an activation {depth} activations deep", f"at most {_MOST_NESTED}")
    values = _read_attributes(table, 6, kind, {}, depth + 1)
    try:
        return kind(**values)
    except DescError as error:
        raise DescError(SUBJECT, [problem.under(table.path) for problem in error.problems]) from None


_MOST_NESTED = 4
"""The deepest nesting of activations that is read. None of DirectML's holds another one."""


def _read_array(flags: Any) -> Callable[[Union, int], tuple[Any, ...]]:
    return lambda union, _: tuple(union.table().numbers("data", 4, flags) or ())


def _read_struct(*flags: Any, names: Sequence[str] = ()) -> Callable[[Union, int], Any]:
    def read(union: Union, _: int) -> Any:
        values = union.struct(*flags)
        return dict(zip(names, values, strict=True)) if names else values[0]

    return read


def _read_bool(union: Union, _: int) -> Any:
    value = union.struct(UINT8)[0]
    return bool(value) if value in (0, 1) else value


@dataclass(frozen=True)
class _Variant:
    """A type of AttributeFieldVariant."""

    name: str
    read: Callable[[Union, int], Any]


_READERS: Mapping[int, _Variant] = {
    1: _Variant("Activation", _read_activation),
    2: _Variant("ActivationArray", lambda union, depth: tuple(_activation(item, depth) for item in union.table().tables("data", 4))),
    3: _Variant("UInt32", _read_struct(UINT32)),
    4: _Variant("UInt64", _read_struct(UINT64)),
    5: _Variant("Int32", _read_struct(INT32)),
    6: _Variant("Float32", _read_struct(FLOAT32)),
    7: _Variant("UIntArray", _read_array(UINT32)),
    8: _Variant("IntArray", _read_array(INT32)),
    9: _Variant("FloatArray", _read_array(FLOAT32)),
    10: _Variant("ScaleBias", _read_struct(FLOAT32, FLOAT32, names=("Scale", "Bias"))),
    11: _Variant("Size2D", _read_struct(UINT32, UINT32, names=("Width", "Height"))),
    12: _Variant("ScalarUnionData", lambda union, depth: None),
    13: _Variant("Bool", _read_bool),
}


def _companion(name: str, values: Mapping[str, Any]) -> DataType | None:
    """The element type of the member of this name, an attribute or a tensor."""
    declared = values.get(name)
    try:
        return DataType.parse(declared.data_type if isinstance(declared, TensorDesc) else declared)
    except ValueError:
        return None


def _read_scalar(union: Union, data_type: DataType | None) -> int | float:
    """The number in the 8 bytes of a scalar union."""
    variant = union.table().union("data", 6)
    if variant is None:
        union.refuse("a ScalarUnionData with data")
    if variant.kind != _BYTE_ARRAY:
        variant.refuse(f"{_BYTE_ARRAY} (ByteArray), the only form that is read")
    data = bytes(variant.struct(*[UINT8] * 8))
    if not data_type:
        union.refuse("a number whose type the desc tells")
    if data_type.bits == 4:
        bits = data[0] & 15
        return bits - 16 if data_type is DataType.INT4 and bits > 7 else bits
    number = np.frombuffer(data, data_type.numpy.newbyteorder("<"), count=1)[0].item()
    return math.nan if isinstance(number, float) and math.isnan(number) else int(number) if data_type.numpy.kind in "iu" else float(number)
