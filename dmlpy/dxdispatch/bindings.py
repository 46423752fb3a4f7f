"""Which part of which resource each tensor of a dispatchable uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dmlpy.descs import OperatorDesc
from dmlpy.devices.binding import Bound, hazards
from dmlpy.dxdispatch.entries import SourceEntry
from dmlpy.dxdispatch.resources import Resource
from dmlpy.enums import TensorFlags
from dmlpy.naming import c_member, did_you_mean
from dmlpy.problems import Problem
from dmlpy.tensors import MINIMUM_BUFFER_ALIGNMENT, TensorDesc

Sources = Mapping[str, tuple[SourceEntry, ...]]


@dataclass(frozen=True)
class Range:
    """A resource from a byte on, to its end."""

    resource: Resource
    offset: int


@dataclass(frozen=True)
class Dispatchable:
    """A dispatchable as far as it could be read.

    Attributes:
        name: its name in the file.
        kind: the operator's class.
        desc: the desc; None if something is wrong with it.
        owned: resources for tensors flagged OWNED_BY_DML, by field.
    """

    name: str
    kind: type[OperatorDesc]
    desc: OperatorDesc | None
    owned: Mapping[str, Range]


def resolve(
    dispatchable: Dispatchable, sources: Sources, resources: Mapping[str, Resource | None], *, initialisation: bool = False
) -> tuple[dict[str, Range], list[Problem]]:
    """The resources of a dispatchable's tensors, by field, and what is wrong with them.

    Args:
        dispatchable: what runs.
        sources: the file's words, by bind point.
        resources: all resources by name; None for those that could not be built.
        initialisation: whether these are the resources for tensors flagged OWNED_BY_DML, and not those for a dispatch.
    """
    kind, desc = dispatchable.kind, dispatchable.desc
    names = [c_member(field.name) for field in kind.tensor_fields()]
    found: dict[str, Range] = {}
    problems: list[Problem] = []
    given = set()
    for spelling, entries in sources.items():
        name = kind.member_named(spelling)
        if name is None or c_member(name) not in names:
            remedy = did_you_mean(spelling, names)
            found_here = f"no bind point of dispatchable {dispatchable.name!r}"
            problems.append(Problem("bind.unknown", spelling, found_here, f"one of {', '.join(names)}", remedy=remedy))
            continue
        given.add(name)
        if len(entries) != 1:
            problems.append(Problem("bind.count", spelling, f"{len(entries)} resources", "1, as many as the bind point has tensors"))
            continue
        place, wrong = _range(spelling, entries[0], resources)
        if desc is not None and not wrong:
            wrong = _tensor_problems(spelling, name, desc, place, initialisation=initialisation)
        problems += wrong
        if place is not None and not wrong:
            found[name] = place
    if desc is not None:
        problems += _unbound(dispatchable.name, desc, given, initialisation=initialisation)
        problems += _hazards(desc, found) if not problems else []
    return found, problems


def _range(spelling: str, entry: SourceEntry, resources: Mapping[str, Resource | None]) -> tuple[Range | None, list[Problem]]:
    if entry.name not in resources:
        expected = "a resource of the file" + (f": {', '.join(resources)}" if len(resources) <= 12 else "")
        remedy = did_you_mean(entry.name, resources, repr)
        return None, [Problem("bind.resource", spelling, repr(entry.name), expected, remedy=remedy)]
    resource = resources[entry.name]
    if resource is None:
        return None, []  # its own problems are told where it is defined
    if resource.deferred:
        why = ("its memory is allocated by an ONNX model, which dmlpy does not run",)
        return None, [Problem("bind.deferred", spelling, f"{entry.name!r}, deferred", "a resource with memory", why)]
    bits = resource.data_type.bits if resource.data_type else 0
    if entry.element_size_in_bytes is not None:
        bits = 8 * entry.element_size_in_bytes
    if not bits and entry.element_offset:
        expected = "elementSizeInBytes beside elementOffset"
        why = (f"{entry.name!r} holds values of mixed types",)
        return None, [Problem("bind.element_size", spelling, "without an element's size", expected, why)]
    offset, rest = divmod(entry.element_offset * bits, 8)
    if rest or offset % MINIMUM_BUFFER_ALIGNMENT:
        found = f"{entry.name!r} from byte {offset}{'.5' if rest else ''} on"
        why = (f"elementOffset is {entry.element_offset}, of {bits / 8:g} bytes each",)
        expected = f"a multiple of {MINIMUM_BUFFER_ALIGNMENT} bytes (DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT)"
        return None, [Problem("bind.alignment", spelling, found, expected, why)]
    if offset >= resource.size:
        return None, [Problem("bind.size", spelling, f"{entry.name!r} from byte {offset} on", f"an offset below its {resource.size} bytes")]
    return Range(resource, offset), []


def _tensor_problems(spelling: str, name: str, desc: OperatorDesc, place: Range | None, *, initialisation: bool) -> list[Problem]:
    tensor: TensorDesc | None = getattr(desc, name)
    if tensor is None:
        return [Problem("bind.unexpected", spelling, "given", "nothing: the desc leaves it null")]
    owned = tensor.flags is TensorFlags.OWNED_BY_DML
    if owned != initialisation:
        expected = "a resource in the dispatchable's bindings" if owned else "a resource in the dispatch command's bindings"
        why = (f"the tensor {'is' if owned else 'is not'} flagged OWNED_BY_DML",)
        return [Problem("bind.owned", spelling, "bound in the other place", expected, why)]
    needed = _needed(tensor)
    if place is not None and place.resource.size - place.offset < needed:
        found = f"{place.resource.size - place.offset} bytes of {place.resource.name!r}"
        reasons = [f"the tensor is {tensor.summary()}"]
        if place.offset:
            reasons.append(f"the resource has {place.resource.size} bytes and is used from byte {place.offset} on")
        return [Problem("bind.size", spelling, found, f"at least {needed}", tuple(reasons))]
    return []


def _needed(tensor: TensorDesc) -> int:
    """Bytes that DirectML asks of the buffer behind a tensor."""
    return -(-tensor.size_in_bytes // 4) * 4


def _unbound(name: str, desc: OperatorDesc, given: set[str], *, initialisation: bool) -> list[Problem]:
    return [
        Problem(
            "bind.missing",
            f"bind point {c_member(field)} of dispatchable {name!r}",
            "not bound",
            f"a resource of at least {_needed(tensor)} bytes",
            (f"the tensor is {tensor.summary()}",),
        )
        for field, tensor in desc.tensors().items()
        if field not in given and (tensor.flags is TensorFlags.OWNED_BY_DML) == initialisation
    ]


def _hazards(desc: OperatorDesc, found: Mapping[str, Range]) -> list[Problem]:
    # Addresses that stand for the resources: all that counts is which ranges overlap.
    starts: dict[str, int] = {}
    free = 1
    for place in found.values():
        if place.resource.name not in starts:
            starts[place.resource.name] = free
            free += place.resource.size
    outputs = {field.name for field in desc.outputs()}
    bound = [
        Bound(name, getattr(desc, name), name in outputs, starts[place.resource.name] + place.offset, None) for name, place in found.items()
    ]
    return [replace(problem, path=c_member(problem.path)) for problem in hazards(desc, bound, None, None)]
