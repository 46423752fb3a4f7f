"""Checks arrays and buffers against the desc that an operator was compiled for, before anything is written."""

from __future__ import annotations

import ctypes
import operator
from collections import defaultdict
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.array_problems import int4_problems, shape_remedy
from dmlpy.description.arrays import ArrayView, Buffer, address_of, array_at, is_convertible
from dmlpy.description.bfloat16_numbers import cast_remedy, type_expression
from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.int4 import int4_type, pack_tensor, unpack_tensor
from dmlpy.description.tensors import TensorDesc, packed_strides, same_layout
from dmlpy.devices.device import Memory
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.device import Device

ADDRESSES = 2**64
"""An upper bound of all addresses."""

Layout = tuple[str, np.dtype[Any], tuple[int, ...], tuple[int, ...], bool]
"""An array's address, type, sizes, strides in bytes, and whether it is an output that cannot be written."""


class BoundTensor:
    """One tensor with its memory.

    Attributes:
        name: its place.
        desc: the tensor's compiled desc.
        output: whether it is written.
        owner: the object that keeps the memory alive.
        array: a view of host memory in the desc's layout where the caller gave a NumPy array, else None.
        producer: the stream that users of the memory have to wait for; None if there is none.
    """

    __slots__ = ("_pointer", "array", "desc", "name", "output", "owner", "producer")

    def __init__(
        self,
        name: str,
        desc: TensorDesc,
        output: bool,
        pointer: int | None,
        owner: Any,
        array: np.ndarray[Any, Any] | None = None,
        producer: int | None = None,
    ) -> None:
        self.name, self.desc, self.output, self.owner, self.array, self.producer = name, desc, output, owner, array, producer
        self._pointer = pointer

    @classmethod
    def of_array(cls, name: str, desc: TensorDesc, output: bool, array: np.ndarray[Any, Any]) -> BoundTensor:
        """Binds a NumPy array of the desc's layout. It holds a view, so later changes of the array's shape have no effect."""
        return cls(name, desc, output, None, array, array[...])

    @property
    def pointer(self) -> int:
        """The address of the first byte. NumPy returns it slowly and not every plan needs it, so it is read on first use."""
        if self._pointer is None:
            assert self.array is not None
            self._pointer = address_of(self.array)
        return self._pointer

    @property
    def end(self) -> int:
        """The address after the last byte that the tensor reaches."""
        return self.pointer + self.desc.extent_in_bytes

    def forget(self) -> None:
        """No longer keeps the memory alive, for when nothing reads it any more."""
        self._pointer, self.owner, self.array = self.pointer, None, None

    def values(self) -> np.ndarray[Any, Any]:
        """The tensor in host memory as an array, not copied: of 4-bit elements its bytes."""
        if self.array is not None:
            return self.array
        memory = self.desc.memory
        return array_at(self.pointer, memory.sizes, memory.data_type.numpy, memory.element_strides)


MAX_KNOWN = 64
"""The most cached layouts of a tensor: strides of dimensions of size 1 may be anything, so there could be any number."""


class KnownLayouts:
    """The valid array layouts of a tensor, so that each is checked once. Threads may share it.

    Checks of an array's address, of its values and of other bound tensors are not cached.
    """

    def __init__(self) -> None:
        self._known: set[Layout] = set()

    def __contains__(self, layout: Layout) -> bool:
        return layout in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, layout: Layout) -> None:
        """Remembers a valid layout. When the cache is full, further layouts are checked on every call."""
        if len(self._known) < MAX_KNOWN:
            self._known.add(layout)


def bind_tensor(
    device: Device, name: str, desc: TensorDesc, value: Any, *, output: bool, known: KnownLayouts | None = None
) -> tuple[BoundTensor | None, list[Problem]]:
    """The memory of one value, or the problems with it. For an array of a known or packed layout only the address is read."""
    if type(value) is np.ndarray and known is not None and device.memory_kind == "cpu":
        flags = value.flags
        if flags.aligned and desc.required_alignment <= value.dtype.alignment:
            is_packed = desc.strides is None and flags.c_contiguous and value.shape == desc.sizes and (flags.writeable or not output)
            fits = is_packed and desc.data_type.bits != 4 and value.dtype == desc.data_type.numpy
            if fits or ("cpu", value.dtype, value.shape, value.strides, output and not flags.writeable) in known:
                return BoundTensor.of_array(name, desc, output, value), []
    if isinstance(value, Buffer):
        return _bind_buffer(device, name, desc, value, output=output)
    try:
        seen = device.view(value)
    except TypeError as error:
        expected = "an array, dmlpy.Buffer(pointer, size_in_bytes) or None"
        return None, [Problem("array.kind", name, f"of type {type(value).__name__}", expected, (str(error),), _kind_remedy(desc, value))]
    pointer, shape, strides, dtype, where, read_only, owner, producer = seen
    layout = where, dtype, shape, strides, output and read_only
    if known is None or layout not in known:
        problems = _array_problems(device, name, desc, seen, output=output)
        if not problems and known is not None:
            known.add(layout)
    else:
        problems = []
    if not problems:
        problems = _alignment_problems(name, desc, pointer, "pass a copy, which is aligned: array.copy()")
    return (None, problems) if problems else (BoundTensor(name, desc, output, pointer, owner, None, producer), [])


def _kind_remedy(desc: TensorDesc, value: Any) -> str | None:
    """The remedy for a value that is not an array: an integer may be an address."""
    wanted = type_expression(desc.data_type.numpy)
    if isinstance(value, ctypes.c_void_p):
        return f"describe the memory: dmlpy.Buffer(pointer.value, {desc.extent_in_bytes})"
    if isinstance(value, bytes):
        return f"read it as an array: numpy.frombuffer(..., {wanted})"
    if not is_convertible(value):
        return None
    address = f"; if it is an address: dmlpy.Buffer(address, {desc.extent_in_bytes})" if type(value) is int else ""
    return f"make it an array: numpy.asarray(..., {wanted}){address}"


def order_after_producers(device: Device, bound: Sequence[BoundTensor], stream: int, producers: Sequence[int] = ()) -> None:
    """Makes a stream wait for the work, on other streams, that fills the bound memory, and for that of other producers."""
    for item in bound:
        if item.producer is not None:
            device.order(item.producer, stream)
            item.producer = None
    for producer in producers:
        device.order(producer, stream)


def previous_users(device: Device, memory: Memory, stream: int) -> list[int]:
    """The streams whose work other streams have to wait for before they use newly allocated memory.

    A GPU's pool hands out memory as soon as it is returned, for work that the same stream comes to later.
    """
    return [stream] if memory.size and device.memory_kind != "cpu" else []


def bind_allocated(device: Device, name: str, desc: TensorDesc, array: Any) -> BoundTensor:
    """The memory of an output that the device has allocated for the desc."""
    if type(array) is np.ndarray:
        return BoundTensor.of_array(name, desc, True, array)
    seen = device.view(array)
    return BoundTensor(name, desc, True, seen.pointer, seen.owner)


def _bind_buffer(device: Device, name: str, desc: TensorDesc, buffer: Buffer, *, output: bool) -> tuple[BoundTensor | None, list[Problem]]:
    pointer, size, problems = _buffer_range(name, buffer)
    if not problems:
        if (where := device.place_of(pointer)) is not None:
            problems.append(_foreign_memory_problem(device, name, where, "a buffer"))
        if size < desc.extent_in_bytes:
            why = f"{desc.summary()} spans {plural(desc.extent_in_bytes, 'byte')}"
            problems.append(
                Problem(
                    "buffer.size", name, f"a buffer of {plural(size, 'byte')}", f"at least {plural(desc.extent_in_bytes, 'byte')}", (why,)
                )
            )
    problems = problems or _alignment_problems(name, desc, pointer)
    return (None, problems) if problems else (BoundTensor(name, desc, output, pointer, buffer), [])


def _foreign_memory_problem(device: Device, name: str, where: str, what: str) -> Problem:
    """The problem with memory that the device cannot use."""
    expected, why = f"memory of {device.name}", f"the operator was compiled for {device.name}"
    if where == "cpu":
        remedy = "pass memory of the GPU, page-locked or managed memory"
        return Problem("array.device", name, f"{what} in host memory", expected, (why,), remedy)
    peers = f"{device.name} does not use memory of other GPUs, even where peer access is enabled"
    remedy = f"copy it to {device.name}, or compile with device={where!r}"
    return Problem("array.device", name, f"{what} on {where}", expected, (why, peers), remedy)


def _buffer_range(name: str, buffer: Buffer) -> tuple[int, int, list[Problem]]:
    """A buffer's address and length as Python integers."""
    try:
        pointer, size = operator.index(buffer.pointer), operator.index(buffer.size_in_bytes)
    except Exception:  # no integers, or objects whose methods raise anything
        is_pointer = isinstance(buffer.pointer, ctypes.c_void_p | ctypes._Pointer | ctypes.Array)
        remedy = "pass the address: ctypes.cast(pointer, ctypes.c_void_p).value" if is_pointer else None
        expected = "a Buffer of two integers: an address and a number of bytes"
        return 0, 0, [Problem("buffer.form", name, brief(buffer), expected, remedy=remedy)]
    if not 0 < pointer < ADDRESSES:
        expected = "the address of device memory; pass None for no tensor"
        return 0, 0, [Problem("buffer.pointer", name, f"a buffer at {brief(pointer)}", expected)]
    if not 0 <= size <= ADDRESSES - pointer:
        expected = f"0 to {ADDRESSES - pointer}: addresses have 64 bits"
        return 0, 0, [Problem("buffer.size", name, f"a buffer of {brief(size)} bytes at {pointer:#x}", expected)]
    return pointer, size, []


_COPIED = 16
"""The alignment that new memory of NumPy has at least."""


def _alignment_problems(name: str, desc: TensorDesc, pointer: int, copying: str | None = None) -> list[Problem]:
    """The problem with an address that is not aligned.

    Args:
        name: the tensor.
        desc: its desc.
        pointer: the address.
        copying: the remedy where a copy that NumPy makes would be aligned.
    """
    alignment = desc.required_alignment
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
            copying if alignment <= _COPIED else None,
        )
    ]


def _array_problems(device: Device, name: str, desc: TensorDesc, seen: ArrayView, *, output: bool) -> list[Problem]:
    problems = []
    if seen.device not in (device.name, device.memory_kind):
        if seen.device == "cpu":
            found, remedy = "an array in host memory", "copy it once with op.device.from_host(array), or pass copy=True to a call"
            problems.append(Problem("array.device", name, found, f"memory of {device.name}", remedy=remedy))
        elif device.memory_kind == "cpu":
            found, remedy = "an array in GPU memory", "copy it to the host (array.get()), or compile with device='cuda'"
            problems.append(Problem("array.device", name, found, f"memory of {device.name}", remedy=remedy))
        else:
            problems.append(_foreign_memory_problem(device, name, seen.device, "an array"))
    problems += value_form_problems(name, desc, seen, output=output)
    itemsize, memory = seen.dtype.itemsize, desc.memory
    if seen.dtype != memory.data_type.numpy or seen.shape != memory.sizes:
        return problems
    if any(stride % itemsize for stride in seen.strides):
        problems.append(_stride_problem(name, memory, f"{list(seen.strides)} bytes", output=output))
    elif not same_layout(memory, strides := tuple(stride // itemsize for stride in seen.strides)):
        problems.append(_stride_problem(name, memory, str(list(strides)), output=output))
    return problems


def value_form_problems(
    name: str, desc: TensorDesc, seen: ArrayView | np.ndarray[Any, Any], *, output: bool, copied: bool = False
) -> list[Problem]:
    """The problems with an array's type and sizes, whatever its layout; `copied` says that only its values count."""
    read_only = seen.read_only if isinstance(seen, ArrayView) else not seen.flags.writeable
    problems = []
    if output and read_only:
        problems.append(Problem("array.read_only", name, "a read-only array", "an array that can be written"))
    if desc.data_type.bits == 4:
        return int4_problems(name, desc, seen.dtype, seen.shape, _compiled_for(desc), output=output, copied=copied) + problems
    form = []
    expected = desc.data_type.numpy
    if seen.dtype != expected:
        try:
            given = str(DataType.of(seen.dtype))
        except TypeError:
            given = str(seen.dtype)
        remedy = None if output else cast_remedy(seen.dtype, expected)
        form.append(Problem("array.type", name, given, str(desc.data_type), (_compiled_for(desc),), remedy))
    if seen.shape != desc.sizes:
        form.append(
            Problem(
                "array.shape", name, str(list(seen.shape)), str(list(desc.sizes)), (_compiled_for(desc),), shape_remedy(desc, seen.shape)
            )
        )
    return form + problems


def _compiled_for(desc: TensorDesc) -> str:
    return f"compiled for {desc.summary()}"


def _stride_problem(name: str, desc: TensorDesc, found: str, *, output: bool) -> Problem:
    remedy = "compile for the array's layout: TensorDesc.of(array)"
    if desc.is_packed and not output:
        remedy = f"pass a packed copy (numpy.ascontiguousarray), or {remedy}"
    return Problem(
        "array.strides",
        name,
        f"an array with strides {found}",
        f"strides {list(desc.element_strides)} (in elements)",
        (_compiled_for(desc),),
        remedy,
    )


_MOST_SHARING = 1000
"""The most pairs of tensors in one buffer that are compared: a SPLIT may have thousands of outputs, all bound to one buffer."""


def _sharing(bound: Sequence[BoundTensor]) -> dict[int, list[int]]:
    """Maps the index of each output to the indices of all tensors that share memory with it, in time that grows with their number."""
    places: dict[int, list[int]] = defaultdict(list)
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
                    places[output].append(place)
            if pairs >= _MOST_SHARING:
                return places
        heappush(active[item.output], (item.end, index))
    return places


def hazards(
    desc: OperatorDesc,
    bound: Sequence[BoundTensor],
    temporary: tuple[int, int] | None,
    persistent: tuple[int, int] | None,
    *,
    packing: bool = False,
) -> list[Problem]:
    """Finds memory that is bound twice where DirectML's hazard rules forbid it.

    Args:
        desc: the operator.
        bound: its tensors.
        temporary: first address and end of the scratch.
        persistent: first address and end of the packed constants.
        packing: whether `persistent` is being written from the inputs, not read.
    """
    areas = [area for area in (temporary, persistent) if area is not None]
    if not areas and not [item for item in bound if item.output]:
        return []  # inputs may share their memory with each other
    spans = sorted([(item.pointer, item.end) for item in bound] + areas)
    if all(first[1] <= second[0] for first, second in pairwise(spans)):
        return []  # the usual case: no memory is shared
    problems = []

    def intersect(first: tuple[int, int], second: tuple[int, int]) -> bool:
        return first[0] < second[1] and second[0] < first[1]

    ranges = {item.name: (item.pointer, item.end) for item in bound}
    shared = _sharing(bound)
    for index in sorted(shared):
        output = bound[index]
        for other in (bound[place] for place in sorted(shared[index]) if place < index and bound[place].output):
            problems.append(Problem("hazard.outputs", output.name, f"memory that {other.name} uses too", "separate memory"))
        for source in (bound[place] for place in sorted(shared[index]) if not bound[place].output):
            same = ranges[output.name] == ranges[source.name] and source.desc == output.desc
            if not (desc.in_place and same):
                rule = (
                    "an in-place output has exactly its input's memory and layout"
                    if desc.in_place
                    else f"{desc.c_name} never runs in place"
                )
                problems.append(Problem("hazard.in_place", output.name, f"memory that {source.name} uses too", "separate memory", (rule,)))
    for name, area in (("temporary", temporary), ("persistent", persistent)):
        for item in bound:
            allowed = name == "persistent" and not item.output and not packing
            if area is not None and not allowed and intersect(area, ranges[item.name]):
                problems.append(Problem(f"hazard.{name}", name, f"memory that {item.name} uses too", "separate memory"))
    if temporary is not None and persistent is not None and intersect(temporary, persistent):
        problems.append(Problem("hazard.temporary", "temporary", "memory that persistent uses too", "separate memory"))
    return problems


def resource(
    device: Device, name: str, value: Any, needed: int, producers: list[int], promised: int = 1
) -> tuple[tuple[int, int] | None, list[Problem]]:
    """The address and end of caller-given scratch or persistent memory, or the problems with it.

    Args:
        device: the device that must be able to use it.
        name: its place.
        value: an array, a buffer, or memory that a device has allocated.
        needed: the bytes that it must have.
        producers: the stream that users of the memory have to wait for is appended, if there is one.
        promised: an alignment in bytes that its tensors rely on.
    """
    alignment = max(RESOURCE_ALIGNMENT, promised)
    if isinstance(value, (Buffer, Memory)):
        pointer, size, problems = _buffer_range(name, value) if isinstance(value, Buffer) else (value.pointer, value.size, [])
        if not problems and size and (where := device.place_of(pointer)) is not None:
            problems = [_wrong_resource(device, name, "a buffer" if isinstance(value, Buffer) else "memory", where)]
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
        packed = all(length <= 1 or stride == packed_stride * itemsize for length, stride, packed_stride in rows)
        if seen.device not in (device.name, device.memory_kind) or seen.read_only or not packed:
            words = ["read-only"] * seen.read_only + ["strided"] * (not packed)
            return None, [_wrong_resource(device, name, " ".join(["a", *words, "array"]), seen.device)]
        pointer, size = seen.pointer, prod(seen.shape) * itemsize
        if seen.stream is not None:
            producers.append(seen.stream)
    problems = []
    if size < needed:
        problems.append(Problem("resource.size", name, plural(size, "byte"), f"at least {plural(needed, 'byte')}"))
    if needed and (pointer <= 0 or pointer % alignment):
        problems.append(Problem("resource.alignment", name, f"memory at {pointer:#x}", f"an address that is a multiple of {alignment}"))
    return (None, problems) if problems else ((pointer, pointer + needed), [])


class Preparation(NamedTuple):
    """The work of one `prepare`, whose arguments are checked.

    Attributes:
        enqueue: enqueues it, with scratch or None where the target is a graph.
        bound: the constants that it reads.
        area: first address and end of the caller's memory that it fills; None if it allocates some.
    """

    enqueue: Callable[..., Any]
    bound: Sequence[BoundTensor]
    area: tuple[int, int] | None


def memory_of(value: Any, area: tuple[int, int] | None) -> Memory | None:
    """The caller's memory, whose `resource` is an area, as dispatches hold it."""
    if area is None or isinstance(value, Memory):
        return None if area is None else value
    return Memory(area[0], area[1] - area[0], value)


def _wrong_resource(device: Device, name: str, what: str, where: str) -> Problem:
    place = {"cpu": "in host memory", "cuda": "in GPU memory"}.get(where, f"on {where}")
    return Problem("resource.kind", name, f"{what} {place}", f"packed, writable memory of {device.name}")


RESOURCE_ALIGNMENT = 16
"""Bytes that scratch and packed constants are aligned to. DirectML asks for 256; 16 is what the kernels' widest accesses need."""


def host_array(device: Device, value: Any) -> np.ndarray[Any, Any] | None:
    """The NumPy array behind a host-memory value that a device with separate memory cannot use in place, or None."""
    if device.memory_kind == "cpu" or isinstance(value, Buffer):
        return None
    try:
        seen = device.view(value)
    except TypeError:
        return None
    array: np.ndarray[Any, Any] | None = seen.owner[0] if seen.device == "cpu" else None
    return array


def int4_array(device: Device, value: Any) -> np.ndarray[Any, Any] | None:
    """An array of `ml_dtypes` with 4-bit elements, a byte each, which have to be packed into other memory; None if it is another value."""
    if device.memory_kind == "cpu" and isinstance(value, np.ndarray) and int4_type(value.dtype) is not None:
        return value
    return None


def strided(data: np.ndarray[Any, Any], desc: TensorDesc) -> np.ndarray[Any, Any]:
    """Views bytes of memory as the array that holds a described tensor, without a copy."""
    memory = desc.memory
    return np.ndarray(memory.sizes, memory.data_type.numpy, data.data, strides=memory.numpy_strides())


def stage(desc: TensorDesc, values: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """New bytes of a described tensor: with the values of an array of valid form, or zeros."""
    if values is not None and int4_type(values.dtype) is not None:
        return pack_tensor(values.astype(desc.data_type.unpacked), desc)
    data = np.zeros(desc.extent_in_bytes, np.uint8)
    if values is not None:
        strided(data, desc)[...] = values
    return data


def copy_back(data: np.ndarray[Any, Any], desc: TensorDesc, values: np.ndarray[Any, Any]) -> None:
    """Copies a described tensor from its bytes to an array of valid form."""
    unpacks = int4_type(values.dtype) is not None
    values[...] = unpack_tensor(data, desc).astype(values.dtype) if unpacks else strided(data, desc)


def unnamed_error(name: str, inputs: Iterable[str], unnamed: Sequence[object], call: str = "op") -> TypeError:
    """The error for a call with arrays that are not given by name.

    Args:
        name: what is called.
        inputs: the names of the inputs that it takes.
        unnamed: the arrays.
        call: the call in Python, without its arguments.
    """
    names = [*inputs]
    form = ", ".join(f"{each}=..." for each in names[:4]) + (", ..." if len(names) > 4 else "")
    return TypeError(f"{name} takes arrays by name, {call}({form}); {plural(len(unnamed), 'value')} without a name")
