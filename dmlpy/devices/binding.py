"""Arrays and buffers against the desc that an operator was compiled for: all that can be wrong is found before anything is written."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from dmlpy.arrays import ArrayView, Buffer, array_at
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.markers import In, TensorField
from dmlpy.description.naming import c_member, did_you_mean, is_c_style
from dmlpy.description.structs import brief
from dmlpy.description.tensors import TensorDesc, packed_strides, same_layout
from dmlpy.devices.device import Device
from dmlpy.validation.problems import Problem

ADDRESSES = 2**64
"""Above all addresses."""

_MOST_TOLD = 10
"""Keys without a name that are told one by one."""


@dataclass(frozen=True)
class Bound:
    """One tensor with its memory. `owner` keeps the memory alive."""

    name: str
    desc: TensorDesc
    output: bool
    pointer: int
    owner: Any

    @property
    def end(self) -> int:
        return self.pointer + self.desc.reached_bytes


def named(values: Any, kind: str) -> tuple[dict[str, Any], list[Problem]]:
    """What a caller binds, by name; what has no name is a problem.

    Args:
        values: what the caller gave.
        kind: what it stands for, for messages: `input`, `output`, ...
    """
    try:
        given = dict(values.items())
    except Exception:  # no mapping, or one whose methods raise anything
        return {}, [Problem("bind.form", f"{kind}s", brief(values), "a mapping of names to memory")]
    nameless = [key for key in given if not isinstance(key, str)]
    problems = [Problem("bind.form", f"{kind}s", f"the key {brief(key)}", "a text, the name of a tensor") for key in nameless[:_MOST_TOLD]]
    return {str.__str__(key): value for key, value in given.items() if isinstance(key, str)}, problems


def by_field(
    desc: OperatorDesc, values: Mapping[str, Any], fields: Sequence[TensorField], kind: str
) -> tuple[dict[str, Any], list[Problem]]:
    """Values by Python field name, None left out; what does not belong here is a problem.

    Args:
        desc: the operator.
        values: what the caller gave, by name in either spelling.
        fields: the fields that are bound here.
        kind: what these fields are, for messages: `input`, `output`, ...
    """
    names = {field.name for field in fields}
    elsewhere = {slot.place: slot.field.marker for slot in desc.slots() if slot.place not in names}
    described = desc.tensors()
    found: dict[str, Any] = {}
    values, problems = named(values, kind)
    values, wrong = _one_by_one(desc, values)
    problems += wrong
    given: set[str] = set()
    for spelling, value in values.items():
        name = _place_named(desc, spelling)
        if name in given:
            problems.append(Problem("bind.twice", spelling, "given twice", f"{name} or {c_member(name)}, not both"))
            continue
        given |= {name} if name else set()
        if name in elsewhere:
            if value is not None:
                problems.append(_misplaced(name, elsewhere[name], kind))
        elif name not in names:
            remedy = desc.unused_remedy(spelling) or did_you_mean(spelling, names, c_member if is_c_style(spelling, values) else str)
            problems.append(
                Problem("bind.unknown", spelling, f"no {kind} of {desc.c_name}", f"one of {', '.join(sorted(names))}", remedy=remedy)
            )
        elif value is not None and name not in described:
            remedy = f"pass None, or compile a desc that describes {name}"
            problems.append(Problem("bind.unexpected", name, "given", "nothing: the desc leaves it null", remedy=remedy))
        elif value is not None:
            found[name] = value
    return found, problems


def _one_by_one(desc: OperatorDesc, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The values with lists for arrays of tensors taken apart: `input_tensors=[a, b]` is `input_tensors[0]` and `input_tensors[1]`."""
    listed = {field.name for field in desc.tensor_fields() if field.listed}
    found: dict[str, Any] = {}
    problems = []
    for spelling, value in values.items():
        name = desc.member_named(spelling)
        if name not in listed or value is None:
            found[spelling] = value
            continue
        count = len(getattr(desc, name))
        try:
            items = [*value] if isinstance(value, list | tuple) else None
        except Exception:  # a list of the caller's own kind, whose methods raise anything
            items = None
        if items is None:
            problems.append(Problem("bind.count", spelling, f"of type {type(value).__name__}", f"a list of {count}, one for each tensor"))
            continue
        if len(items) > count:  # too few are told one by one, as missing
            problems.append(Problem("bind.count", spelling, f"{len(items)} given", f"{count}, one for each tensor"))
        for index, item in enumerate(items[:count]):
            place = f"{name}[{index}]"
            if any(_place_named(desc, other) == place for other in values):
                problems.append(Problem("bind.twice", place, "given twice", f"in {spelling} or by itself, not both"))
            found[place] = item
    return found, problems


def _place_named(desc: OperatorDesc, spelling: str) -> str | None:
    """The place that a name in either spelling stands for: `InputTensors[0]` is `input_tensors[0]`; None if there is no such member."""
    member, bracket, index = spelling.partition("[")
    name = desc.member_named(member)
    return name and f"{name}{bracket}{index}"


def gathered(desc: OperatorDesc, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by place as values by field: those of an array of tensors in a tuple."""
    found: dict[str, Any] = {}
    for slot in desc.slots():
        if slot.place in values:
            value = values[slot.place]
            found[slot.field.name] = value if slot.index is None else (*found.get(slot.field.name, ()), value)
    return found


def _misplaced(name: str, marker: In, kind: str) -> Problem:
    if marker.constant and kind != "output":
        return Problem("bind.packed", name, "given", "nothing: the packed constants hold it")
    own = "output" if marker.output else "input"
    return Problem("bind.misplaced", name, f"an {own}", f"{kind}s only", remedy=f"give it with the {own}s")


def missing(desc: OperatorDesc, values: Mapping[str, Any], fields: Sequence[TensorField]) -> list[Problem]:
    """A problem for each described tensor that got no memory."""
    described = desc.tensors()
    return [
        Problem(
            "bind.missing",
            field.name,
            "not given",
            f"memory for {described[field.name].summary()}",
            remedy=f"pass it, or compile a desc that leaves it null: replace({field.name}=None)" if field.optional else None,
        )
        for field in fields
        if field.name in described and values.get(field.name) is None
    ]


def place(device: Device, name: str, desc: TensorDesc, value: Any, *, output: bool) -> tuple[Bound | None, list[Problem]]:
    """The memory of one value, or what is wrong with it."""
    if isinstance(value, Buffer):
        return _place_buffer(name, desc, value, output=output)
    try:
        seen = device.view(value)
    except TypeError as error:
        given = f"of type {type(value).__name__}"
        return None, [Problem("array.kind", name, given, "an array, dmlpy.Buffer(pointer, size_in_bytes) or None", (str(error),))]
    problems = _array_problems(device, name, desc, seen, output=output)
    if not problems:
        problems = _alignment_problems(name, desc, seen.pointer)
    return (None, problems) if problems else (Bound(name, desc, output, seen.pointer, seen.owner), [])


def _place_buffer(name: str, desc: TensorDesc, buffer: Buffer, *, output: bool) -> tuple[Bound | None, list[Problem]]:
    pointer, size, problems = _buffer_range(name, buffer)
    if not problems and size < desc.reached_bytes:
        why = f"{desc.summary()} reaches {desc.reached_bytes} bytes"
        problems = [Problem("buffer.size", name, f"a buffer of {size} bytes", f"at least {desc.reached_bytes} bytes", (why,))]
    problems = problems or _alignment_problems(name, desc, pointer)
    return (None, problems) if problems else (Bound(name, desc, output, pointer, buffer), [])


def _buffer_range(name: str, buffer: Buffer) -> tuple[int, int, list[Problem]]:
    """A buffer's address and length as Python's integers."""
    try:
        pointer, size = operator.index(buffer.pointer), operator.index(buffer.size_in_bytes)
    except Exception:  # no integers, or objects whose methods raise anything
        return 0, 0, [Problem("buffer.form", name, brief(buffer), "a Buffer of two integers: an address and a number of bytes")]
    if not 0 < pointer < ADDRESSES:
        expected = "the address of device memory; pass None for no tensor"
        return 0, 0, [Problem("buffer.pointer", name, f"a buffer at {brief(pointer)}", expected)]
    if not 0 <= size <= ADDRESSES - pointer:
        expected = f"0 to {ADDRESSES - pointer}: addresses have 64 bits"
        return 0, 0, [Problem("buffer.size", name, f"a buffer of {brief(size)} bytes at {pointer:#x}", expected)]
    return pointer, size, []


def _alignment_problems(name: str, desc: TensorDesc, pointer: int) -> list[Problem]:
    alignment = max(desc.guaranteed_base_offset_alignment, desc.data_type.bits // 8, 1)
    if pointer % alignment == 0:
        return []
    reason = "guaranteed_base_offset_alignment" if desc.guaranteed_base_offset_alignment == alignment else "the element's size"
    return [
        Problem(
            "bind.alignment",
            name,
            f"memory at {pointer:#x}",
            f"an address that is a multiple of {alignment}",
            (f"{alignment} is {reason}",),
        )
    ]


def _array_problems(device: Device, name: str, desc: TensorDesc, seen: ArrayView, *, output: bool) -> list[Problem]:
    problems = []
    if seen.device != device.memory_kind:
        if seen.device == "cpu":
            found, remedy = "an array in host memory", "pass copy=True, or copy it once with op.device.from_host(array)"
        else:
            found, remedy = "an array in GPU memory", "copy it to the host (array.get()), or compile with device='cuda'"
        problems.append(Problem("array.device", name, found, f"memory of {device.name}", remedy=remedy))
    problems += value_form_problems(name, desc, seen, output=output)
    itemsize = seen.dtype.itemsize
    if seen.dtype != desc.data_type.numpy or seen.shape != desc.sizes:
        return problems
    if any(stride % itemsize for stride in seen.strides):
        problems.append(_stride_problem(name, desc, f"{list(seen.strides)} bytes", output=output))
    elif not same_layout(desc, strides := tuple(stride // itemsize for stride in seen.strides)):
        problems.append(_stride_problem(name, desc, str(list(strides)), output=output))
    return problems


def value_form_problems(name: str, desc: TensorDesc, seen: ArrayView | np.ndarray[Any, Any], *, output: bool) -> list[Problem]:
    """What is wrong with an array's type and sizes, whatever its layout."""
    problems = []
    expected = desc.data_type.numpy
    if seen.dtype != expected:
        try:
            given = str(DataType.of(seen.dtype))
        except TypeError:
            given = str(seen.dtype)
        remedy = f"cast it: array.astype(numpy.{expected})" if not output and seen.dtype.kind in "biuf" else None
        problems.append(Problem("array.type", name, given, str(desc.data_type), (_compiled(desc),), remedy))
    if seen.shape != desc.sizes:
        problems.append(
            Problem("array.shape", name, str(list(seen.shape)), str(list(desc.sizes)), (_compiled(desc),), _shape_remedy(desc, seen.shape))
        )
    read_only = seen.read_only if isinstance(seen, ArrayView) else not seen.flags.writeable
    if output and read_only:
        problems.append(Problem("array.read_only", name, "a read-only array", "an array that can be written"))
    return problems


def _compiled(desc: TensorDesc) -> str:
    return f"compiled for {desc.summary()}"


def _stride_problem(name: str, desc: TensorDesc, found: str, *, output: bool) -> Problem:
    remedy = "compile for the array's own layout: TensorDesc.of(array)"
    if desc.is_packed and not output:
        remedy = f"pass a packed copy (numpy.ascontiguousarray), or {remedy}"
    return Problem(
        "array.strides",
        name,
        f"an array with strides {found}",
        f"strides {list(desc.element_strides)} (in elements)",
        (_compiled(desc),),
        remedy,
    )


def _shape_remedy(desc: TensorDesc, shape: tuple[int, ...]) -> str | None:
    squeezed = tuple(size for size in shape if size != 1)
    if squeezed == tuple(size for size in desc.sizes if size != 1):
        return f"only ones differ: array.reshape({', '.join(map(str, desc.sizes))})"
    if len(shape) == len(desc.sizes) and sorted(shape) == sorted(desc.sizes):
        return "the sizes are right in another order: transpose the array (and copy it, or compile for its strides)"
    return None


_MOST_SHARING = 1000
"""Pairs of tensors in one memory that are looked at: a SPLIT may have thousands of outputs, and all may be bound to one buffer."""


def _sharing(bound: Sequence[Bound]) -> dict[int, list[int]]:
    """For the index of each output, the indices of all that shares memory with it; found in time that grows with their number."""
    found: dict[int, list[int]] = defaultdict(list)
    active: dict[bool, list[tuple[int, int]]] = {False: [], True: []}  # heaps of ends and indices: inputs, outputs
    pairs = 0
    for index in sorted(range(len(bound)), key=lambda index: bound[index].pointer):
        item = bound[index]
        if item.end <= item.pointer:
            continue
        for heap in active.values():
            while heap and heap[0][0] <= item.pointer:
                heappop(heap)
        # Inputs may share their memory with each other.
        for _, other in (*active[True], *(active[False] if item.output else ())):
            pairs += 1
            for output, place in ((index, other), (other, index)):
                if bound[output].output:
                    found[output].append(place)
            if pairs >= _MOST_SHARING:
                return found
        heappush(active[item.output], (item.end, index))
    return found


def hazards(
    desc: OperatorDesc,
    bound: Sequence[Bound],
    temporary: tuple[int, int] | None,
    persistent: tuple[int, int] | None,
    *,
    packing: bool = False,
) -> list[Problem]:
    """Memory that is used twice where it may not be, by DirectML's hazard rules.

    Args:
        desc: the operator.
        bound: its tensors.
        temporary: first address and end of the scratch.
        persistent: first address and end of the packed constants.
        packing: whether `persistent` is being written from the inputs, not read.
    """
    problems = []

    def intersect(first: tuple[int, int], second: tuple[int, int]) -> bool:
        return first[0] < second[1] and second[0] < first[1]

    ranges = {item.name: (item.pointer, item.end) for item in bound}
    spans = sorted(ranges.values())
    # Nearly always each tensor has a memory of its own.
    alone = all(first[1] <= second[0] for first, second in pairwise(spans))
    shared = {} if alone and len(spans) == len(bound) else _sharing(bound)
    for index in sorted(shared):
        output = bound[index]
        for other in (bound[place] for place in sorted(shared[index]) if place < index and bound[place].output):
            problems.append(Problem("hazard.outputs", output.name, f"memory that {other.name} uses too", "memory of its own"))
        for source in (bound[place] for place in sorted(shared[index]) if not bound[place].output):
            same = ranges[output.name] == ranges[source.name] and source.desc == output.desc
            if not (desc.in_place and same):
                rule = (
                    "an in-place output has exactly its input's memory and layout"
                    if desc.in_place
                    else f"{desc.c_name} never runs in place"
                )
                problems.append(
                    Problem("hazard.in_place", output.name, f"memory that {source.name} uses too", "memory of its own", (rule,))
                )
    for name, area in (("temporary", temporary), ("persistent", persistent)):
        for item in bound:
            allowed = name == "persistent" and not item.output and not packing
            if area is not None and not allowed and intersect(area, ranges[item.name]):
                problems.append(Problem(f"hazard.{name}", name, f"memory that {item.name} uses too", "memory of its own"))
    if temporary is not None and persistent is not None and intersect(temporary, persistent):
        problems.append(Problem("hazard.temporary", "temporary", "memory that persistent uses too", "memory of its own"))
    return problems


def resource(device: Device, name: str, value: Any, needed: int) -> tuple[tuple[int, int] | None, list[Problem]]:
    """First address and end of caller-given scratch or persistent memory, or what is wrong with it."""
    if isinstance(value, Buffer):
        pointer, size, problems = _buffer_range(name, value)
        if problems:
            return None, problems
    else:
        try:
            seen = device.view(value)
        except TypeError as error:
            return None, [
                Problem("array.kind", name, brief(value), "an array, dmlpy.Buffer(pointer, size_in_bytes) or None", (str(error),))
            ]
        itemsize = seen.dtype.itemsize
        rows = zip(seen.shape, seen.strides, packed_strides(seen.shape), strict=True)
        packed = all(length <= 1 or stride == own * itemsize for length, stride, own in rows)
        if seen.device != device.memory_kind or seen.read_only or not packed:
            words = ["read-only"] * seen.read_only + ["strided"] * (not packed)
            found = f"a {' '.join([*words, 'array'])} in {'host' if seen.device == 'cpu' else 'GPU'} memory"
            return None, [Problem("resource.kind", name, found, f"packed, writable memory of {device.name}")]
        pointer, size = seen.pointer, prod(seen.shape) * itemsize
    problems = []
    if size < needed:
        problems.append(Problem("resource.size", name, f"{size} bytes", f"at least {needed} bytes"))
    if needed and (pointer <= 0 or pointer % RESOURCE_ALIGNMENT):
        problems.append(
            Problem("resource.alignment", name, f"memory at {pointer:#x}", f"an address that is a multiple of {RESOURCE_ALIGNMENT}")
        )
    return (None, problems) if problems else ((pointer, pointer + needed), [])


RESOURCE_ALIGNMENT = 16
"""Bytes that scratch and packed constants are aligned to. DirectML asks for 256; 16 is what the kernels' widest accesses need."""


def value_problems(name: str, values: np.ndarray[Any, Any], limit: int, symbol: str) -> list[Problem]:
    """A problem if any value exceeds the limit or is negative; the worst one is told."""
    flat = values.reshape(-1)
    for index in (int(flat.argmax()), int(flat.argmin())):
        if not 0 <= (value := int(flat[index])) <= limit:
            return [Problem("value.range", f"{name}[{index}]", str(value), f"0 to {limit}", (f"{symbol} is {limit}",))]
    return []


def host_array(device: Device, value: Any) -> np.ndarray[Any, Any] | None:
    """The NumPy array behind a value in host memory that a device with memory of its own cannot use in place, else None."""
    if device.memory_kind == "cpu" or isinstance(value, Buffer):
        return None
    try:
        seen = device.view(value)
    except TypeError:
        return None
    array: np.ndarray[Any, Any] | None = seen.owner[0] if seen.device == "cpu" else None
    return array


def strided(data: np.ndarray[Any, Any], desc: TensorDesc) -> np.ndarray[Any, Any]:
    """Bytes of memory as the tensor that a desc describes, without a copy."""
    return np.ndarray(desc.sizes, desc.data_type.numpy, data.data, strides=desc.numpy_strides())


def host_values(item: Bound) -> np.ndarray[Any, Any]:
    """The values of a tensor in host memory, without a copy."""
    return array_at(item.pointer, item.desc.sizes, item.desc.data_type.numpy, item.desc.element_strides)
