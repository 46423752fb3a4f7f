"""Finds the part of a resource that each tensor of a dispatchable uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.description.enums import ExecutionFlags, FeatureLevel, TensorFlags
from dmlpy.description.tensors import MINIMUM_BUFFER_ALIGNMENT, TensorDesc
from dmlpy.devices.memory.binding import BoundTensor, hazards
from dmlpy.dxdispatch.entries import SourceEntry
from dmlpy.messages.naming import Count, c_member, c_path, did_you_mean, plural
from dmlpy.messages.problems import MAX_REPORTED, Problem, truncate
from dmlpy.validation.checking import lowest_level

Sources = Mapping[str, tuple[SourceEntry, ...]]

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import Slot
    from dmlpy.dxdispatch.resources import Resource
    from dmlpy.graphs import (
        Graph,
        SerializedGraph,  # at run time only a dump needs it
    )


@dataclass(frozen=True)
class Range:
    """A resource from a byte offset to its end."""

    resource: Resource
    offset: int


class BindPoint(NamedTuple):
    """A name that may appear in a file's `bindings`.

    Attributes:
        name: the name in files: `InputTensor`, `InputTensors`.
        member: the name in Python.
        slots: the places for its tensors; empty where the desc cannot be read.
        takes: the number of resources; None if it is unknown.
        optional: whether it may be omitted although it has a tensor.
    """

    name: str
    member: str
    slots: tuple[Slot, ...]
    takes: int | None
    optional: bool = False


@dataclass(frozen=True)
class Dispatchable:
    """An object that a model can dispatch, as far as it could be read.

    Attributes:
        name: its name in the file.
        owned: resources for tensors flagged OWNED_BY_DML, by place (`input_tensor`, `input_tensors[0]`, a graph input's name).
        flags: the execution flags.
    """

    name: str
    owned: Mapping[str, Range]
    flags: ExecutionFlags

    @abstractmethod
    def bind_points(self) -> list[BindPoint]:
        """The bind points, in DirectML's order."""

    @abstractmethod
    def lowest_level(self) -> FeatureLevel | None:
        """The lowest feature level that accepts it; None if none does."""


@dataclass(frozen=True)
class OperatorDispatchable(Dispatchable):
    """An operator.

    Attributes:
        kind: the operator's class.
        desc: the desc; None if something is wrong with it.
    """

    kind: type[OperatorDesc]
    desc: OperatorDesc | None

    def bind_points(self) -> list[BindPoint]:
        # Every tensor member, in the struct's order; an array of tensors is one bind point.
        slots = () if self.desc is None else self.desc.slots()
        points = []
        for field in self.kind.tensor_fields():
            member_slots = tuple(slot for slot in slots if slot.field.name == field.name)
            unknown = field.listed and self.desc is None
            points.append(
                BindPoint(c_member(field.name), field.name, member_slots, None if unknown else len(member_slots) if field.listed else 1)
            )
        return points

    def lowest_level(self) -> FeatureLevel | None:
        return None if self.desc is None else lowest_level(self.desc)


@dataclass(frozen=True)
class GraphDispatchable(Dispatchable):
    """A graph of operators as one dispatchable.

    Attributes:
        loaded: a valid graph, and the inputs whose contents are in files in its folder.
    """

    loaded: SerializedGraph

    @property
    def graph(self) -> Graph:
        return self.loaded.graph

    def bind_points(self) -> list[BindPoint]:
        # The names of the graph's inputs, then of its outputs, each with the tensor of the first node that it leads to.
        graph = self.graph
        bound: dict[str, Slot] = {}
        for edge in graph.input_edges:
            name = graph.input_names[edge.graph_input_index]
            bound.setdefault(name, replace(graph.nodes[edge.to_node_index].input_slots()[edge.to_node_input_index], place=name))
        for end in graph.output_edges:
            name = graph.output_names[end.graph_output_index]
            bound.setdefault(name, replace(graph.nodes[end.from_node_index].output_slots()[end.from_node_output_index], place=name))
        return [
            BindPoint(name, name, (bound[name],) if name in bound else (), 1, name in self.loaded.constants)
            for name in (*graph.input_names, *graph.output_names)
        ]

    def lowest_level(self) -> FeatureLevel | None:
        return self.graph.lowest_level()


def resolve(
    dispatchable: Dispatchable,
    sources: Sources,
    resources: Mapping[str, Resource | None],
    near: Callable[..., str | None] = did_you_mean,
    *,
    initialisation: bool = False,
) -> tuple[dict[str, Range], list[Problem]]:
    """The resources of a dispatchable's tensors, by place, and their problems.

    Args:
        dispatchable: the dispatchable that runs.
        sources: the file's words, by bind point.
        resources: all resources by name; None for those that could not be built.
        near: finds the remedy for a mistyped name, as `did_you_mean` does.
        initialisation: whether these are the resources for tensors flagged OWNED_BY_DML, and not those for a dispatch.
    """
    ranges: dict[str, Range] = {}
    problems: list[Problem] = []
    for item in locate(dispatchable, sources, resources, problems, near):
        if not item.point.slots:
            continue
        slot = item.point.slots[item.position]
        if wrong := _tensor_problems(item.path, slot.tensor, item.place, initialisation=initialisation):
            problems += wrong
        elif item.place is not None:
            ranges[slot.place] = item.place
    for point in dispatchable.bind_points():
        if point.name not in sources and point.member not in sources and not point.optional:
            problems += truncate(_unbound(dispatchable.name, point, initialisation=initialisation))
    if not problems and isinstance(dispatchable, OperatorDispatchable) and dispatchable.desc is not None:
        problems += _hazards(dispatchable.desc, ranges)
    return ranges, problems


class Located(NamedTuple):
    """A resource at a bind point.

    Attributes:
        point: the bind point.
        position: which of the bind point's resources it is.
        path: its place in the bindings.
        entry: the file's words.
        place: the resource's part; None if the resource could not be built.
    """

    point: BindPoint
    position: int
    path: str
    entry: SourceEntry
    place: Range | None


def locate(
    dispatchable: Dispatchable,
    sources: Sources,
    resources: Mapping[str, Resource | None],
    problems: list[Problem],
    near: Callable[..., str | None] = did_you_mean,
    *,
    deferred: bool = False,
) -> Iterator[Located]:
    """Yields the resources of a dispatchable's bind points, whatever its tensors are.

    Args:
        dispatchable: the dispatchable that runs.
        sources: the file's words, by bind point.
        resources: all resources by name; None for those that could not be built.
        problems: where those with names, counts and offsets are added.
        near: finds the remedy for a mistyped name, as `did_you_mean` does.
        deferred: whether a resource may be one without memory.
    """
    points = dispatchable.bind_points()
    named = {spelling: point for point in reversed(points) for spelling in (point.name, point.member)}
    for spelling, entries in sources.items():
        if len(problems) >= MAX_REPORTED:
            return
        point = named.get(spelling)
        if point is None:
            names = [point.name for point in points[:MAX_REPORTED]]
            remedy = near(spelling, names)
            found_here = f"not a bind point of dispatchable {dispatchable.name!r}"
            problems.append(Problem("bind.unknown", spelling, found_here, f"one of {', '.join(names)}", remedy=remedy))
            continue
        if point.takes not in (None, len(entries)):
            expected = f"{point.takes}, as many as the bind point has tensors"
            problems.append(Problem("bind.count", spelling, plural(len(entries), "resource"), expected))
            continue
        for index, entry in enumerate(entries):
            if len(problems) >= MAX_REPORTED:
                return
            path = spelling if len(entries) == 1 else f"{spelling}[{index}]"
            place, wrong = _range(path, entry, resources, near, deferred=deferred)
            problems += wrong
            if not wrong:
                yield Located(point, index, path, entry, place)


def _range(
    spelling: str, entry: SourceEntry, resources: Mapping[str, Resource | None], near: Callable[..., str | None], *, deferred: bool
) -> tuple[Range | None, list[Problem]]:
    if entry.name not in resources:
        listed = f": {', '.join(resources)}" if len(resources) <= 12 else ""
        expected = f"a resource of the file{listed if resources else ', which has none'}"
        remedy = near(entry.name, resources, repr)
        return None, [Problem("bind.resource", spelling, brief(entry.name), expected, remedy=remedy)]
    resource = resources[entry.name]
    if resource is None:
        return None, []  # its problems are reported where it is defined
    if resource.deferred:
        if deferred and not entry.element_offset:
            return Range(resource, 0), []
        why = ("a dispatch of an ONNX model gives it memory, as one of its outputs",)
        return None, [Problem("bind.deferred", spelling, f"{entry.name!r}, deferred", "a resource with memory", why)]
    bits = resource.data_type.bits if resource.data_type else 0
    if entry.element_size_in_bytes is not None:
        bits = 8 * entry.element_size_in_bytes
    if not bits and entry.element_offset:
        expected = "elementSizeInBytes beside elementOffset"
        why = (f"{entry.name!r} holds values of mixed types",)
        return None, [Problem("bind.element_size", spelling, Count("no element size"), expected, why)]
    offset, rest = divmod(entry.element_offset * bits, 8)
    if rest or offset % MINIMUM_BUFFER_ALIGNMENT:
        actual = f"{entry.name!r} from byte {offset}{'.5' if rest else ''} on"
        why = (f"elementOffset is {entry.element_offset}, of {bits / 8:g} bytes each",)
        expected = f"a multiple of {MINIMUM_BUFFER_ALIGNMENT} bytes (DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT)"
        return None, [Problem("bind.alignment", spelling, actual, expected, why)]
    if offset >= resource.size:
        return None, [Problem("bind.size", spelling, f"{entry.name!r} from byte {offset} on", f"an offset below its {resource.size} bytes")]
    return Range(resource, offset), []


def _tensor_problems(path: str, tensor: TensorDesc | None, place: Range | None, *, initialisation: bool) -> list[Problem]:
    if tensor is None:
        remedy = f"leave it out, or describe {path} in the desc"
        return [Problem("bind.unexpected", path, "given", "nothing: the desc leaves it null", remedy=remedy)]
    owned = tensor.flags is TensorFlags.OWNED_BY_DML
    if owned != initialisation:
        expected = "a resource in the dispatchable's bindings" if owned else "a resource in the dispatch command's bindings"
        why = (f"the tensor {'is' if owned else 'is not'} flagged OWNED_BY_DML",)
        return [Problem("bind.owned", path, "bound in the wrong list", expected, why)]
    needed = _needed_bytes(tensor)
    if place is not None and place.resource.size - place.offset < needed:
        actual = f"{place.resource.size - place.offset} bytes of {place.resource.name!r}"
        reasons = [f"the tensor is {tensor.summary()}"]
        if place.offset:
            reasons.append(f"the resource has {place.resource.size} bytes and is used from byte {place.offset} on")
        return [Problem("bind.size", path, actual, f"at least {needed}", tuple(reasons))]
    return []


def _needed_bytes(tensor: TensorDesc) -> int:
    """The bytes that DirectML requires of the buffer behind a tensor."""
    return -(-tensor.size_in_bytes // 4) * 4


def _unbound(name: str, point: BindPoint, *, initialisation: bool) -> Iterator[Problem]:
    return (
        Problem(
            "bind.missing",
            f"bind point {point.name}{slot.place.removeprefix(point.member)} of dispatchable {name!r}",
            "not bound",
            f"a resource of at least {_needed_bytes(slot.tensor)} bytes",
            (f"the tensor is {slot.tensor.summary()}",),
        )
        for slot in point.slots
        if slot.tensor is not None and (slot.tensor.flags is TensorFlags.OWNED_BY_DML) == initialisation
    )


def _hazards(desc: OperatorDesc, ranges: Mapping[str, Range]) -> list[Problem]:
    # Placeholder addresses of the resources: only overlaps of ranges matter.
    starts: dict[str, int] = {}
    free = 1
    for place in ranges.values():
        if place.resource.name not in starts:
            starts[place.resource.name] = free
            free += place.resource.size
    bound = [
        BoundTensor(c_path(slot.place), slot.tensor, slot.field.marker.output, starts[binding.resource.name] + binding.offset, None)
        for slot in desc.slots()
        if slot.tensor is not None and (binding := ranges.get(slot.place)) is not None
    ]
    return hazards(desc, bound, None, None)
