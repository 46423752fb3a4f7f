"""The stages of a model: graphs of DirectML's operators, and nodes on the host between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.description.enums import TensorFlags
from dmlpy.description.int4 import int4_type, pack_int4, unpack_int4
from dmlpy.description.sized_arrays import SizedArray, SizedBytes
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs.builder import constant_of
from dmlpy.onnx.loading.elements import data_type_of, dtype_of
from dmlpy.onnx.loading.stored_weights import StoredWeight
from dmlpy.x import composition, expressions, identity
from dmlpy.x.calls import constant_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import NodeProto

    from dmlpy.graphs import Graph
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.x.expressions import Expression


@dataclass
class GraphStage:
    """A graph of DirectML's operators under construction.

    Attributes:
        index: its place among the stages, in the order in which they run.
        model: the model that it is of.
        wide: whether FLOAT32 stands for FLOAT64: then the arrays that it owns keep their digits.
        expressions: the values that are read or computed here, by name.
        reads: the values that it reads from the model's inputs and from earlier stages, by name.
        owned: the arrays that it copies once, when it is prepared, by name.
        results: the values that it computes, by name.
    """

    index: int
    model: LoadedModel
    wide: bool = False
    expressions: dict[str, Expression] = field(default_factory=dict)
    reads: dict[str, Value] = field(default_factory=dict)
    owned: dict[str, Array] = field(default_factory=dict)
    results: dict[str, Value] = field(default_factory=dict)

    def read(self, value: Value) -> Expression:
        """The expression of a value: computed here, or an input of the graph. Known values are inputs that DirectML owns."""
        if value.name not in self.expressions:
            self.expressions[value.name] = self._input(value)
        return self.expressions[value.name]

    def read_plain(self, value: Value) -> Expression:
        """The expression of a value for an operator that does not support inputs owned by DirectML: known values are copied first."""
        return identity(self.read(value)) if value.array is not None else self.read(value)

    def read_constant(self, value: Value) -> Expression:
        """The same for graphs with constants, from feature level 6_2 on: a device may pack these."""
        if value.array is None or self.wide:  # constants have the bytes of their type
            return self.read_plain(value)
        data, tensor = _owned_elements(value, value.array)
        data_bytes = SizedBytes.of(data) if isinstance(data, SizedArray) else self.model.bytes_of(data)
        return expressions.Expression(constant_ref(data_bytes, tensor))

    def _input(self, value: Value) -> Expression:
        if value.array is not None:
            self.owned[value.name], tensor = _owned_elements(value, value.array)
            return expressions.input(value.name, tensor.replace(flags=TensorFlags.OWNED_BY_DML))
        self.reads[value.name] = value
        return expressions.input(value.name, tensor_of(value))

    def lengths(self) -> tuple[int, ...]:
        """How much it holds, for `cut`."""
        return tuple(len(entries) for entries in (self.expressions, self.reads, self.owned, self.results))

    def truncate(self, lengths: Sequence[int]) -> None:
        """Removes everything that was added since it held that much."""
        tables: tuple[dict[str, Any], ...] = (self.expressions, self.reads, self.owned, self.results)
        for one, length in zip(tables, lengths, strict=True):
            _truncate(one, length)

    def graph(self, name: str, outputs: Iterable[str]) -> Graph:
        """The graph that computes values of this stage; nodes that they do not need are removed."""
        return composition.graph({output: self.expressions[output] for output in outputs}, name)


@dataclass(frozen=True)
class HostNode:
    """A node that runs on the host.

    Attributes:
        proto: the node; its inputs and outputs have the values' names.
        opsets: the versions of its domains.
        reads: the values that it reads, including its subgraphs', by name.
        results: the values that it computes, by name.
        stays: whether it runs on the host whatever a run makes known: then it does not wait to be compiled.
    """

    proto: NodeProto
    opsets: dict[str, int]
    reads: dict[str, Value]
    results: dict[str, Value]
    stays: bool = False


@dataclass
class HostStage:
    """Nodes that run on the host.

    Attributes:
        index: its place among the stages, in the order in which they run.
        nodes: the nodes, in the order in which they run.
        results: the values that it computes, by name.
    """

    index: int
    nodes: list[HostNode] = field(default_factory=list)
    results: dict[str, Value] = field(default_factory=dict)

    def lengths(self) -> tuple[int, ...]:
        """How much it holds, for `cut`."""
        return len(self.nodes), len(self.results)

    def truncate(self, lengths: Sequence[int]) -> None:
        """Removes everything that was added since it held that much."""
        del self.nodes[lengths[0] :]
        _truncate(self.results, lengths[1])

    def add(
        self, proto: NodeProto, opsets: Mapping[str, int], reads: Iterable[Value], results: Iterable[Value], *, stays: bool = False
    ) -> None:
        """Appends a node."""
        by_name = {value.name: value for value in results}
        self.nodes.append(HostNode(proto, dict(opsets), {value.name: value for value in reads}, by_name, stays))
        self.results |= by_name


Stage = GraphStage | HostStage


def _owned_elements(value: Value, array: Array) -> tuple[Array, TensorDesc]:
    """The elements of a known value as a graph holds them, and their tensor: FLOAT64 ones of a wide stage may be of FLOAT32's tensor."""
    if isinstance(array, StoredWeight):
        return array, tensor_of(value)
    if not isinstance(array, SizedArray):
        if value.element == TensorProto.FLOAT and array.dtype == np.float64:
            return array.reshape(value.tensor_sizes), tensor_of(value)
        return constant_of(array.reshape(value.tensor_sizes))
    sizes = value.tensor_sizes

    def elements(known: Array) -> Array:
        array: Array = constant_of(known.reshape(known.shape or (1,)))[0]
        return array

    sized: Any = array.mapped(elements, sizes)
    return sized, tensor_of(value)


def _truncate(entries: dict[str, Any], length: int) -> None:
    while len(entries) > length:
        entries.popitem()


def tensor_of(value: Value) -> TensorDesc:
    """The packed tensor that holds a value."""
    data_type = data_type_of(value.element or 0)
    assert data_type is not None
    return TensorDesc(data_type=data_type, sizes=value.tensor_sizes)


def to_elements(value: Value, array: np.ndarray[Any, Any]) -> Array:
    """A graph's output for a value, with ONNX's type and sizes."""
    dtype = dtype_of(value.element or 0)
    if (nibbles := int4_type(dtype)) is not None:
        return unpack_int4(array, nibbles, value.static_sizes).astype(dtype)
    if array.dtype != dtype:
        array = array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)
    return array.reshape(value.sizes if value.is_static else array.shape)


def elements_in_place(value: Value, array: np.ndarray[Any, Any]) -> Array | None:
    """The memory of a graph's tensor for a value, with ONNX's type and sizes; None if its elements have another form there."""
    dtype = dtype_of(value.element or 0)
    if int4_type(dtype) is not None or array.dtype.itemsize != dtype.itemsize or not value.is_static:
        return None
    return array.view(dtype).reshape(value.static_sizes)


def to_tensor(value: Value, array: Array) -> Array:
    """An array with ONNX's type and sizes in a graph's form: packed, Booleans as bytes, two 4-bit elements per byte."""
    packed = np.ascontiguousarray(array).reshape(value.tensor_sizes)
    if packed.dtype == np.bool_:
        packed = packed.view(np.uint8)
    return pack_int4(packed) if int4_type(packed.dtype) else packed
