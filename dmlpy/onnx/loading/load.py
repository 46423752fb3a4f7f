"""Reads ONNX models, which may be damaged or hostile: errors are reported by name before anything runs."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, SparseTensorProto, TensorProto, TypeProto, inliner

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading import tensors
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.onnx.loading.limits import Budget, Limits, limit_problem
from dmlpy.onnx.loading.local_functions import prepared_for_inlining
from dmlpy.onnx.loading.message_count import count_messages
from dmlpy.onnx.loading.model_checks import problems_of
from dmlpy.onnx.loading.model_size import count_model_nodes, measure_model, memory_problem
from dmlpy.onnx.loading.node_order import with_sorted_nodes
from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.loading.separate_weights import SeparateWeights, read_model
from dmlpy.onnx.loading.stored_weights import LEAST_STORED, StoredWeight, WeightFile
from dmlpy.onnx.loading.values import value_from_proto
from dmlpy.system import forks
from dmlpy.system.other_formats import other_format

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dmlpy.onnx.loading.values import Array, Value

MAX_BYTES = (1 << 31) - 1
"""The most bytes of a model's file, protobuf's limit; larger weights are external data."""
_STORED_TYPES = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
"""The types of weights that products read as they are."""


class LoadedModel:
    """A valid model as in its file, with local functions inlined.

    Attributes:
        proto: the model. Large weights of a file are empty in it: `array` gives them.
        name: what messages call it: the file's name, or that of its graph.
        folder: the folder of external data; None if there can be none.
        opsets: the versions of the domains that it imports; ONNX's domain is ''.
        types: the types of values that the file states or implies, by name.
        limits: what it may take until it runs.
        size: the nodes and bytes of its file.
        without_owned_inputs: nodes whose operators do not support inputs owned by DirectML, with their known inputs, so that
            they are not tried again for other sizes.
        joins_chains: whether chains around quantized numbers may be joined.
    """

    def __init__(self, proto: ModelProto, name: str, folder: Path | None, limits: Limits, weights: SeparateWeights | None = None) -> None:
        """Checks the model.

        Args:
            proto: the model.
            name: what messages call it.
            folder: the folder of external data; None if there can be none.
            limits: what it may take.
            weights: the initializers that were read apart.

        Raises:
            DescError: it is not valid; all problems at once.
        """
        nodes = count_model_nodes(proto)
        initializers, weights = proto.graph.initializer, weights or SeparateWeights()
        self._weights = {
            id(tensor): (tensor, data, weights.offsets[place])
            for place, data in weights.arrays.items()
            for tensor in [initializers[place]]
            if tensor.data_location != TensorProto.EXTERNAL and tensor.data_type != TensorProto.STRING  # whose elements lie elsewhere
        }
        self._file = weights.file
        stored = {identity: data for identity, (_, data, _) in self._weights.items()}
        self.proto = _inline_functions(proto, name, folder, limits, nodes, stored)
        self.name = name
        self.limits = limits
        self.size = measure_model(proto, nodes, folder)
        if (problem := memory_problem(self.proto, folder, limits, self.size)) is not None:
            raise DescError(f"onnx.load: {name}", [problem])
        self.folder = folder
        self.opsets = {domain_of(item.domain): item.version for item in self.proto.opset_import}
        self.without_owned_inputs: set[Hashable] = set()
        self.joins_chains = True
        self._begin()

    def _begin(self) -> None:
        """Begins without any array read."""
        self._arrays: dict[int, tuple[TensorProto | SparseTensorProto, Array]] = {}  # holds the tensor, so that no other one gets its id
        self._outside: dict[tuple[object, ...], Array] = {}
        self._stored: dict[int, tuple[TensorProto, StoredWeight]] = {}  # the same
        self._stored_outside: dict[tuple[object, ...], StoredWeight] = {}
        self._files: dict[Path, WeightFile] = {}
        self._lock = forks.lock()
        self._roots: set[int] = set()
        self._bytes: dict[Hashable, bytes] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state of a pickle and of a copy: arrays belong to the tensors of this object, so they are made anew."""
        within: dict[int, Array] = {}
        with self._lock:  # a compilation in another thread moves weights from one to the other
            for place, tensor in enumerate(self.proto.graph.initializer):
                if id(tensor) in self._weights:
                    within[place] = self._weights[id(tensor)][1]
                elif id(tensor) in self._stored and tensor.data_location != TensorProto.EXTERNAL:
                    within[place] = self._stored[id(tensor)][1].elements.reshape(-1).view(np.uint8)
        kept = ("proto", "name", "folder", "opsets", "limits", "size", "without_owned_inputs", "joins_chains")
        return {"weights": within, **{name: getattr(self, name) for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = state.pop("weights")
        self.__dict__ |= state
        self._weights = {id(tensor): (tensor, weights[at], 0) for at, tensor in enumerate(self.proto.graph.initializer) if at in weights}
        self._file = None
        self._begin()

    @cached_property
    def types(self) -> dict[str, TypeProto]:
        graph = self.proto.graph
        return {item.name: item.type for item in (*graph.value_info, *graph.input, *graph.output)}

    @cached_property
    def declared(self) -> dict[str, Value]:
        """The values of nodes that the file declares, by name."""
        node_outputs = {name for node in self.proto.graph.node for name in node.output}
        return {name: value_from_proto(name, proto) for name, proto in self.types.items() if name in node_outputs}

    def array(self, tensor: TensorProto | SparseTensorProto) -> Array:
        """The elements of a tensor of the model, read from its file of external data if it has one; a sparse one is made dense.

        Raises:
            DescError: there is no memory for it, or the file has changed.
        """
        if id(tensor) in self._stored:
            return self._stored[id(tensor)][1].pinned()
        if id(tensor) not in self._arrays:
            try:
                self._arrays[id(tensor)] = tensor, self._read(tensor)
            except MemoryError:
                name = tensor.values.name if isinstance(tensor, SparseTensorProto) else tensor.name
                found = f"{listed(tensor.dims)}, more than there is memory"
                raise DescError(f"onnx: {self.name}", [Problem("onnx.size", name, found, "sizes that fit into memory")]) from None
            self._roots.add(id(_root(self._arrays[id(tensor)][1])))
        return self._arrays[id(tensor)][1]

    def _read(self, tensor: TensorProto | SparseTensorProto) -> Array:
        if isinstance(tensor, SparseTensorProto):
            return tensors.dense(tensor, self.folder)
        if id(tensor) in self._weights:
            return tensors.elements_in(tensor, self._weights[id(tensor)][1])
        if tensor.data_location != TensorProto.EXTERNAL:
            return tensors.array_of(tensor, self.folder)
        key = (tensors.locate(tensor, self.folder), tensor.data_type, *tensor.dims)  # tensors that share their bytes share the array
        if key in self._stored_outside:
            return self._stored_outside[key].pinned()
        if key not in self._outside:
            self._outside[key] = tensors.array_of(tensor, self.folder)
        return self._outside[key]

    def weight(self, tensor: TensorProto) -> Any:
        """The elements of an initializer that only products read: a `StoredWeight` where they can be read again, else those of `array`."""
        key = id(tensor)
        with self._lock, suppress(MemoryError):  # which `array` reports
            if key not in self._stored and key not in self._arrays and (stored := self._stored_weight(tensor)) is not None:
                self._stored[key] = tensor, stored
        return self._stored[key][1] if key in self._stored else self.array(tensor)

    def _stored_weight(self, tensor: TensorProto) -> StoredWeight | None:
        """See `weight`; None where they cannot be read again, or are few."""
        size = tensors.bytes_of(tensor)
        if tensor.data_type not in _STORED_TYPES or not tensor.dims or size < LEAST_STORED:
            return None
        if tensor.data_location == TensorProto.EXTERNAL:
            place = tensors.locate(tensor, self.folder)
            key = place, tensor.data_type, *tensor.dims
            if key not in self._stored_outside:
                file = self._files.get(place.path) or WeightFile.opened(place.path)
                if file is None:
                    return None  # `array` reports what it is, if it is an error
                data = file.read(tensor.name, place.offset, size)
                self._files[place.path] = file
                self._stored_outside[key] = self._as_stored(tensor, data, file, place.offset)
            return self._stored_outside[key]
        if self._file is None or id(tensor) not in self._weights:
            return None
        _, data, offset = self._weights.pop(id(tensor))
        return self._as_stored(tensor, data, self._file, offset)

    def _as_stored(self, tensor: TensorProto, data: Array, file: WeightFile, offset: int) -> StoredWeight:
        read, roots = partial(file.read, tensor.name, offset, data.nbytes), self._roots
        dtype, hold = np.dtype(dtype_of(tensor.data_type)), lambda array: roots.add(id(_root(array)))
        return StoredWeight(tensor.name, tuple(tensor.dims), dtype, read, data, hold)

    def budget(self) -> Budget:
        """A new budget for a lowering of the model."""
        return Budget(self.name, self.limits, self.size)

    def bytes_of(self, array: Array) -> bytes:
        """The bytes of an array in order; for a permanent array always the same object, which graphs for different sizes share."""
        if not self.holds(array):
            return array.tobytes()
        place = memory_key(array)
        if place not in self._bytes:
            self._bytes[place] = array.tobytes()
        return self._bytes[place]

    def holds(self, array: Array) -> bool:
        """Whether `array` or `weight` returned this array, or one that it views: then it is the same as long as the model lives."""
        return isinstance(array, StoredWeight) or id(_root(array)) in self._roots


def memory_key(array: Array) -> Hashable:
    """Identifies an array among all that have memory at the same time, and a stored weight."""
    if isinstance(array, StoredWeight):
        return id(array)
    return array.__array_interface__["data"][0], array.dtype, array.shape, array.strides


def _root(array: Array) -> Array:
    """The array whose memory an array views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def load_model(source: Any, limits: Limits | None = None) -> LoadedModel:
    """Reads a model.

    Args:
        source: a path, the bytes of a file, or a ModelProto.
        limits: what the model may take; None for the default limits.

    Raises:
        DescError: the file does not exist, or is not a model.
    """
    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise DescError("onnx.load", [Problem("field.form", "limits", brief(limits), "dmlpy.onnx.Limits(...), like Limits(nodes=1000)")])
    if isinstance(source, ModelProto):
        return LoadedModel(source, source.graph.name or "model", None, limits)
    if isinstance(source, bytes | bytearray | memoryview):
        return LoadedModel(_parse(bytes(source), "model", limits), "model", None, limits)
    if not isinstance(source, str | Path):
        raise DescError("onnx.load", [Problem("field.form", "source", brief(source), "a path, bytes, or a ModelProto")])
    path = Path(source)
    try:
        file = path.absolute()  # weights are read again later, perhaps from another folder or process
        data, weights = read_model(file, MAX_BYTES)
    except (OSError, ValueError, MemoryError) as error:  # a name with a null character is a ValueError
        reason = "more than fits into memory" if isinstance(error, MemoryError) else getattr(error, "strerror", None) or str(error)
        raise DescError(
            "onnx.load", [Problem("onnx.file", "source", f"{brief(path.name or str(path))}: {reason}", "a file that can be read")]
        ) from None
    return LoadedModel(_parse(data, path.name, limits), path.name, file.parent, limits, weights)


def _parse(data: bytes, name: str, limits: Limits) -> ModelProto:
    if (count := count_messages(data, limits.messages)) > limits.messages:
        problem = limit_problem("messages", "", f"{count} messages or more in {len(data)} bytes", limits.messages, "of them")
        raise DescError(f"onnx.load: {name}", [problem])
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        pass
    else:
        if data:
            return proto
    found, remedy = other_format(data) or ("not an ONNX model", None)
    raise DescError(f"onnx.load: {name}", [Problem("onnx.protobuf", "", found, "a serialized ModelProto", remedy=remedy)])


def _inline_functions(
    proto: ModelProto, name: str, folder: Path | None, limits: Limits, nodes: int, weights: Mapping[int, Array]
) -> ModelProto:
    """Checks the model and inlines its functions.

    Args:
        proto: the model.
        name: what messages call it.
        folder: where external data lies.
        limits: what it may take.
        nodes: the number of nodes in its file.
        weights: the bytes of initializers that were read apart, by their identity: of a model with functions there are none.
    """
    proto = _checked(f"onnx.load: {name}", proto, folder, limits, nodes, weights)
    if not proto.functions:
        return proto
    adapted, problems = prepared_for_inlining(proto)
    if problems:
        raise DescError(f"onnx.load: {name}", problems)
    try:
        inlined: ModelProto = inliner.inline_local_functions(adapted)
    except Exception as error:  # ONNX raises whatever its C++ code throws
        found = f"not inlined: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        raise DescError(f"onnx.load: {name}", [Problem("onnx.function", "functions", found, "functions that ONNX inlines")]) from None
    return _checked(f"onnx.load: {name}, with its functions inlined", inlined, folder, limits, nodes, {})


def _checked(place: str, proto: ModelProto, folder: Path | None, limits: Limits, nodes: int, weights: Mapping[int, Array]) -> ModelProto:
    """The model if it has no problems, its nodes sorted if they have to be.

    Raises:
        DescError: problems.
    """
    if not (problems := problems_of(proto, folder, limits, nodes, weights)):
        return proto
    if any(problem.code == "onnx.name" for problem in problems):
        # Initializers that were read apart are known by their identity, which a copy does not keep: the model is then not the caller's.
        in_order = with_sorted_nodes(proto, in_place=bool(weights))
        if in_order is not None and not (problems := problems_of(in_order, folder, limits, nodes, weights)):
            return in_order
    raise DescError(place, problems)
