"""ONNX models as dispatchables: the sizes of a dispatch, and the resources that it reads and writes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmlpy.description.tensors import TensorDesc
from dmlpy.dxdispatch.bindings import BindPoint, Dispatchable, Range, Sources, locate
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import MAX_REPORTED, DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dmlpy.description.enums import DataType, FeatureLevel
    from dmlpy.dxdispatch.bindings import Located
    from dmlpy.dxdispatch.resources import Resource
    from dmlpy.onnx import Model
    from dmlpy.onnx.loading.values import Value

Shape = tuple[int, ...]
NAME_OPTION, DENOTATION_OPTION, SHAPE_OPTION = "--onnx_free_dim_name_override", "--onnx_free_dim_denotation_override", "--binding_shape"
"""The options that give sizes by name and by denotation, and the shapes of inputs and outputs."""
MAX_SIZED = 100
"""The most sizes for which a file's dispatches run one ONNX model: each is compiled separately, which takes far longer than reading it."""
MAX_SIZED_NODES = 20_000
"""The most nodes of all these: sizes times nodes of the model's file."""


@dataclass(frozen=True)
class OnnxOptions:
    """The command line's settings for all ONNX models of a file, which override the file's.

    Attributes:
        names: sizes by the names of open dimensions.
        denotations: sizes by the denotations of open dimensions.
        shapes: the shapes of inputs and outputs by name.
    """

    names: Mapping[str, int] = field(default_factory=dict)
    denotations: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)


def parse_shapes(option: str, texts: Sequence[str], *, single: bool = False) -> dict[str, Shape]:
    """The sizes by name from a command-line option, as `x:2,3`; for repeated names the last counts.

    Raises:
        DescError: a text has another form, or with `single` more than one size.
    """
    shapes: dict[str, Shape] = {}
    for text in texts:
        name, _, sizes = text.rpartition(":")
        if not name or re.fullmatch(r"[1-9]\d{0,8}" if single else r"\d{1,9}(,\d{1,9})*", sizes, re.ASCII) is None:
            expected = "a name and its size, as batch:3" if single else "a name and its sizes, as x:2,3"
            raise DescError("dmlpy run", [Problem("onnx.sizes", option, repr(text), expected)])
        shapes[name] = tuple(map(int, sizes.split(",")))
    return shapes


@dataclass(frozen=True)
class OnnxDispatchable(Dispatchable):
    """An ONNX model as one dispatchable.

    Attributes:
        model: the model in its file.
        level: the highest feature level that it may use.
        names: sizes by the names of open dimensions.
        denotations: sizes by the denotations of open dimensions.
        shapes: the shapes of inputs and outputs that the command line gives.
        sized: the model for the sizes of each dispatch.
    """

    model: Model
    level: FeatureLevel
    names: Mapping[str, int]
    denotations: Mapping[str, int]
    shapes: Mapping[str, Shape]
    sized: dict[tuple[Shape, ...], Model] = field(default_factory=dict)

    def bind_points(self) -> list[BindPoint]:
        # The inputs, then the outputs. Those without a resource get one, as in DxDispatch.
        names = (*self.model.inputs, *(item.name for item in self.model.loaded.proto.graph.output))
        return [BindPoint(name, name, (), 1, optional=True) for name in dict.fromkeys(names)]

    def lowest_level(self) -> FeatureLevel | None:
        models = self.sized.values() or (self.model,)
        levels = [model.report(self.level).lowest_level for model in models]
        return max((level for level in levels if level is not None), default=None)

    def dimensions(self) -> Iterator[tuple[str | None, str | None]]:
        """The name and the denotation of each open dimension of the inputs."""
        for name in self.model.inputs:
            for symbol, denotation in zip(self.model.inputs[name].sizes or (), self._denotations(name), strict=False):
                if not isinstance(symbol, int):
                    yield symbol, denotation

    def with_sizes(self, inputs: Mapping[str, Shape]) -> Model:
        """The model for the sizes of all its inputs; the same object for the same sizes."""
        key = tuple(inputs.values())
        if key not in self.sized:
            self.sized[key] = self.model.with_inputs(inputs)
        return self.sized[key]

    def free_sizes(self, name: str) -> Shape | None:
        """The default sizes of an input in a dispatch: a dynamic one is 1 unless set otherwise; None if the rank is unknown."""
        sizes = self.model.inputs[name].sizes
        if sizes is None:
            return None
        denotations = self._denotations(name)
        return tuple(
            size if isinstance(size, int) else self.names.get(size or "", self.denotations.get(denotation or "", 1))
            for size, denotation in zip(sizes, denotations, strict=True)
        )

    def _denotations(self, name: str) -> list[str]:
        proto = next(item.type for item in self.model.loaded.proto.graph.input if item.name == name)
        return [dim.denotation for dim in proto.tensor_type.shape.dim]


@dataclass(frozen=True)
class OnnxDispatch:
    """Runs an ONNX model.

    Attributes:
        dispatchable: the model.
        sized: the model with the sizes of this dispatch.
        inputs: the resources of inputs; the others are zeros.
        outputs: the resources of outputs, with their required sizes; None for sizes known only after the run.
    """

    dispatchable: OnnxDispatchable
    sized: Model
    inputs: Mapping[str, Range]
    outputs: Mapping[str, tuple[Range, Shape | None]]

    def written(self) -> list[tuple[str, TensorDesc, Range]]:
        """The outputs that have sizes and elements before a run, each with its tensor and its place."""
        values = self.sized.interpretation(self.dispatchable.level).outputs
        written = []
        for name, (place, sizes) in self.outputs.items():
            data_type = data_type_in_buffer(values[name])
            if data_type is not None and sizes is not None and 0 not in sizes and not place.resource.deferred:
                written.append((name, TensorDesc(data_type=data_type, sizes=sizes or (1,)), place))
        return written


def resolve_onnx(
    dispatchable: OnnxDispatchable, sources: Sources, resources: Mapping[str, Resource | None], near: Callable[..., str | None]
) -> tuple[OnnxDispatch | None, list[Problem]]:
    """The dispatch of an ONNX model, and its problems.

    Args:
        dispatchable: the model.
        sources: the file's words, by input and output.
        resources: all resources by name; None for those that could not be built.
        near: finds the remedy for a mistyped name, as `did_you_mean` does.
    """
    problems: list[Problem] = []
    bound = {item.point.name: item for item in locate(dispatchable, sources, resources, problems, near, deferred=True)}
    sizes = {}
    inputs: dict[str, Range] = {}
    for name, value in dispatchable.model.inputs.items():
        item = bound.get(name)
        shape, wrong = _input_sizes(dispatchable, value, item)
        if item is not None and item.place is not None and not wrong:
            inputs[name] = item.place
            wrong = _input_problems(item.path, value, item.place, shape)
        problems += wrong
        sizes[name] = shape
    if problems:
        return None, problems[:MAX_REPORTED]
    sized = dispatchable.with_sizes(sizes)
    most = min(MAX_SIZED, max(MAX_SIZED_NODES // max(dispatchable.model.loaded.size.nodes, 1), 1))
    if len(dispatchable.sized) > most:
        actual = f"dispatched in more than {most} sizes of its inputs"
        return None, [Problem("file.parts", f"dispatchable {dispatchable.name!r}", actual, "fewer: each is compiled on its own")]
    try:
        interpretation = sized.interpretation(dispatchable.level)
    except DescError as error:
        return None, list(error.problems)
    problems += interpretation.problems
    outputs: dict[str, tuple[Range, Shape | None]] = {}
    for name, value in interpretation.outputs.items():
        entry_sizes, path = dispatchable.shapes.get(name), f"{SHAPE_OPTION} {name}"
        item = bound.get(name)
        if entry_sizes is not None and value.is_static and entry_sizes != value.static_sizes:
            problems.append(Problem("bind.shape", path, listed(entry_sizes), f"sizes of {value.summary()}"))
        elif item is not None and item.place is not None:
            if entry_sizes is None and item.entry.shape is not None:
                entry_sizes, path = tuple(item.entry.shape), f"{item.path}.shape"
            problems += _output_problems(item.path, value, item.place, entry_sizes, path)
            outputs[name] = item.place, value.static_sizes if value.is_static else entry_sizes
    if not problems:
        problems += _overlaps(interpretation.outputs, outputs)
    return None if problems else OnnxDispatch(dispatchable, sized, inputs, outputs), problems[:MAX_REPORTED]


def nbytes(value: Value, sizes: Shape) -> int:
    """The bytes of a tensor of a model in a buffer: two 4-bit elements share one."""
    data_type = data_type_in_buffer(value)
    assert data_type is not None, "what has no type of DirectML is not bound"
    return -(-math.prod(sizes) * data_type.bits // 8)


def data_type_in_buffer(value: Value) -> DataType | None:
    """The type of a model's value in a buffer; None if DirectML has none, as for sequences and strings."""
    from dmlpy.onnx.loading.elements import data_type_of  # needs the package onnx

    return data_type_of(value.element or 0) if value.kind == "tensor" else None


def _input_sizes(dispatchable: OnnxDispatchable, value: Value, item: Located | None) -> tuple[Shape, list[Problem]]:
    """The sizes of an input in a dispatch."""
    name = value.name
    if value.kind != "tensor":
        why = ("the model has no default for it",)
        return (), [Problem("bind.type", name, f"an input that is a {value.kind}", "a tensor: resources hold nothing else", why)]
    shape = dispatchable.shapes.get(name)
    path = f"{name}.shape" if shape is None else f"{SHAPE_OPTION} {name}"
    if shape is None and item is not None and item.entry.shape is not None:
        shape = tuple(item.entry.shape)
    free = dispatchable.free_sizes(name)
    if shape is None:
        shape = free
    if shape is None:
        remedy = f'bind it as {{"name": ..., "shape": [...]}}, or pass -b {name}:SIZES'
        return (), [Problem("bind.shape", name, "an input of unknown rank", "its shape", remedy=remedy)]
    declared = value.sizes
    if declared is None or (
        len(declared) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(declared, shape, strict=True))
    ):
        return shape, []
    return (), [Problem("bind.shape", path, listed(shape), f"sizes of {value.summary()}")]


def _input_problems(path: str, value: Value, place: Range, shape: Shape) -> list[Problem]:
    if data_type_in_buffer(value) is None:
        return [_without_type(path, value)]
    if place.resource.deferred:
        why = ("a dispatch of an ONNX model gives it memory, as one of its outputs",)
        return [Problem("bind.deferred", path, f"{place.resource.name!r}, deferred", "a resource with memory", why)]
    return _size_problems(path, value, place, shape)


def _output_problems(path: str, value: Value, place: Range, entry_sizes: Shape | None, shape_path: str) -> list[Problem]:
    if data_type_in_buffer(value) is None:
        return [_without_type(path, value)]
    shape = value.static_sizes if value.is_static else entry_sizes
    if entry_sizes is not None and entry_sizes != shape:
        return [Problem("bind.shape", shape_path, listed(entry_sizes), f"sizes of {value.summary()}")]
    if place.resource.deferred:
        return []
    if shape is None:
        remedy = f'bind it as {{"name": {place.resource.name!r}, "shape": [...]}}, or bind a resource whose initialValues are "deferred"'
        return [Problem("bind.shape", path, f"{value.summary()} before the model runs", "an output whose sizes are known", remedy=remedy)]
    return _size_problems(path, value, place, shape)


def _without_type(path: str, value: Value) -> Problem:
    return Problem("bind.type", path, value.summary(), "a tensor of one of DirectML's types, or of booleans")


def _size_problems(path: str, value: Value, place: Range, shape: Shape) -> list[Problem]:
    needed, available = nbytes(value, shape), place.resource.size - place.offset
    if available >= needed:
        return []
    why = [f"the tensor is {value.summary()}", f"of sizes {listed(shape)}"]
    if place.offset:
        why.append(f"the resource has {place.resource.size} bytes and is used from byte {place.offset} on")
    return [Problem("bind.size", path, f"{available} bytes of {place.resource.name!r}", f"at least {needed}", tuple(why))]


def _overlaps(outputs: Mapping[str, Value], places: Mapping[str, tuple[Range, Shape | None]]) -> Iterator[Problem]:
    """Outputs that share memory: the last would overwrite the others."""
    taken: dict[str, list[tuple[int, int, str]]] = {}
    for name, (place, shape) in places.items():
        end = place.resource.size if shape is None else place.offset + nbytes(outputs[name], shape)
        others = taken.setdefault(place.resource.name, [])
        for start, stop, other in others:
            if place.resource.deferred or (place.offset < stop and start < end):
                yield Problem("hazard.outputs", name, f"memory that {other} uses too", "separate memory")
        others.append((place.offset, end, name))
