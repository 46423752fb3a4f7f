"""Fuzzes bindings: wrong, overlapping, misaligned, read-only and hostile memory for valid operators, between guarded bytes.

    python -m tests.fuzzing.bindings --seconds 60 --seed 1 --devices numpy cpu cuda

Promises: what is refused is refused with dmlpy's own error, and no byte of anybody's memory has changed. What is accepted writes its
outputs' elements and the scratch, and nothing else, and its results do not depend on what was there before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.fuzzing import hostile
from tests.fuzzing.tally import FuzzRun, run

GUARD = 64
"""Bytes before and behind each tensor."""
Array = np.ndarray[Any, Any]


class Arena:
    """Memory of a device that all tensors of a try lie in, with known bytes in between.

    Attributes:
        device: whose memory it is.
        pointer: its address, a multiple of 256.
    """

    def __init__(self, device: dml.Device, size: int, fill: int) -> None:
        self.device, self._size = device, size
        self._memory = device.upload(np.full(size + 256, fill, np.uint8), device.current_stream())
        self.pointer = self._memory.pointer + -self._memory.pointer % 256

    def bytes(self) -> Array:
        """A copy of what it holds."""
        return np.frombuffer(self.device.read(self.pointer, self._size, self.device.current_stream()), np.uint8)

    def put(self, offset: int, data: Array) -> None:
        """Writes bytes."""
        source = self.device.upload(np.ascontiguousarray(data).view(np.uint8).reshape(-1), self.device.current_stream())
        self.device.copy(self.pointer + offset, source.pointer, data.nbytes, self.device.current_stream())
        self.device.synchronize(self.device.current_stream())


class Case:
    """A valid operator with its tensors laid out in an arena: a place for each, and room around them."""

    def __init__(self, op: dml.CompiledOperator) -> None:
        self.op = op
        self.inputs = {slot.place: slot.tensor for slot in op.desc.input_slots() if slot.tensor is not None}
        self.outputs = {slot.place: slot.tensor for slot in op.desc.output_slots() if slot.tensor is not None}
        self.offsets: dict[str, int] = {}
        end = GUARD
        for name, tensor in (self.inputs | self.outputs).items():
            self.offsets[name] = end + -end % 256
            end = self.offsets[name] + tensor.extent_in_bytes + GUARD
        self.scratch = end + -end % 256
        self.scratch_size = op.binding_properties.temporary_resource_size
        self.size = self.scratch + self.scratch_size + GUARD

    def arena(self, fill: int) -> Arena:
        """The inputs' values, the same each time, and `fill` everywhere else."""
        arena = Arena(self.op.device, self.size, fill)
        for index, (name, tensor) in enumerate(self.inputs.items()):
            kind = tensor.data_type.numpy
            values = np.random.default_rng(index).random(tensor.extent_in_bytes // kind.itemsize) if kind.kind == "f" else np.zeros(1)
            arena.put(self.offsets[name], np.resize(values, tensor.extent_in_bytes // kind.itemsize).astype(kind))
        return arena

    def buffers(self, arena: Arena, tensors: Mapping[str, dml.TensorDesc]) -> dict[str, Any]:
        """Raw memory for tensors."""
        return {name: dml.Buffer(arena.pointer + self.offsets[name], tensor.extent_in_bytes) for name, tensor in tensors.items()}

    def writable(self) -> Array:
        """Which bytes of the arena a dispatch may write."""
        found = np.zeros(self.size, bool)
        for name, tensor in self.outputs.items():
            item = tensor.data_type.numpy.itemsize
            marks = np.zeros((tensor.extent_in_bytes // item, item), bool)
            rows = np.lib.stride_tricks.as_strided(
                marks, (*tensor.sizes, item), (*(stride * item for stride in tensor.element_strides), 1), writeable=True
            )
            rows[...] = True
            found[self.offsets[name] : self.offsets[name] + tensor.extent_in_bytes] = marks.reshape(-1)
        found[self.scratch : self.scratch + self.scratch_size] = True
        return found


@cache
def case(device: dml.Device, name: str) -> Case | None:
    """An operator's case on a device; None where it does not run."""
    try:
        return Case(dml.compile(_strided(sample(OPERATORS[name])), device))
    except dml.CompileError:
        try:
            return Case(dml.compile(sample(OPERATORS[name]), device))
        except dml.CompileError:
            return None


def _strided(desc: dml.OperatorDesc) -> dml.OperatorDesc:
    """The operator with gaps between the entries of its first output, where it may have them."""
    for field in desc.outputs():
        tensor = getattr(desc, field.name)
        if isinstance(tensor, dml.TensorDesc) and not field.marker.reserve:
            changed = desc.replace(**{field.name: tensor.replace(strides=[2 * stride for stride in tensor.element_strides])})
            return changed if not dml.check(changed) else desc
    return desc


def _drawn(fuzz: FuzzRun, device: dml.Device) -> Case:
    while (found := case(device, fuzz.chance.choice(list(OPERATORS)))) is None:
        pass
    return found


def refused(fuzz: FuzzRun, device: dml.Device) -> str:
    """A binding with something wrong in it, by `bind` or by a call."""
    chance, work = fuzz.chance, _drawn(fuzz, device)
    arena = work.arena(0x5A)
    inputs, outputs = work.buffers(arena, work.inputs), work.buffers(arena, work.outputs)
    scratch: Any = dml.Buffer(arena.pointer + work.scratch, work.scratch_size)
    side, tensors = chance.choice([(inputs, work.inputs), (outputs, work.outputs)])
    name = chance.choice(list(tensors)) if tensors else ""
    kind = chance.choice(["value", "name", "key", "missing", "overlap", "address", "size", "scratch", "whole", "array", "read only"])
    if not name and kind not in ("name", "key", "whole", "scratch"):
        kind = "key"
    if kind == "value":
        side[name] = hostile.value(chance)
    elif kind == "name":
        side[chance.choice(["x", "", "input_tensors[9]", "InputTensor[", "\0", "a" * 10**4])] = next(iter(side.values()), None) or 1
    elif kind == "key":
        side[chance.choice([1, None, 2.5, (), b"x"])] = None  # type: ignore[index]
    elif kind == "missing":
        del side[name]
    elif kind == "overlap":
        other = chance.choice([*inputs.values(), *outputs.values()])
        last = arena.pointer + work.size - tensors[name].extent_in_bytes
        side[name] = dml.Buffer(min(other.pointer + chance.choice([0, 0, 16, -16]), last - last % 16), tensors[name].extent_in_bytes)
    elif kind == "address":
        address = chance.choice([0, -1, 2**64 - 16, 2**64, 2**200, side[name].pointer + 1, side[name].pointer + 2])
        side[name] = dml.Buffer(address, tensors[name].extent_in_bytes)
    elif kind == "size":
        side[name] = dml.Buffer(side[name].pointer, chance.choice([0, -1, tensors[name].extent_in_bytes - 1, 2**64, hostile.Raises()]))
    elif kind == "scratch":
        places = [0, arena.pointer + work.scratch + 1, next(iter((outputs or inputs or {"": scratch}).values())).pointer, 2**64 - 16]
        scratch = chance.choice([dml.Buffer(chance.choice(places), max(1, work.scratch_size)), hostile.value(chance)])
    elif kind == "whole":
        inputs = hostile.value(chance)
    elif kind == "array":
        side[name] = _wrong_array(fuzz, tensors[name])
    elif kind == "read only":
        side[name] = np.lib.stride_tricks.as_strided(np.zeros(tensors[name].span, tensors[name].data_type.numpy), tensors[name].sizes,
                                                     tensors[name].numpy_strides(), writeable=False)  # fmt: skip
    before = arena.bytes()
    found: list[Any] = []
    by_call = kind not in ("scratch", "whole", "key", "address") and chance.random() < 0.3
    with fuzz.answers(found):
        if by_call:
            work.op(**{**inputs, **outputs})
        else:
            work.op.bind(inputs, outputs, temporary=scratch)
    changed = np.flatnonzero(arena.bytes() != before)
    if found[0] == "accepted" and by_call:  # an allowed overlap, for example
        changed = changed[~work.writable()[changed]] if kind != "overlap" else changed[:0]
    fuzz.promise(not changed.size, f"{kind}: {changed.size} bytes written though {found[0]}")
    return f"{kind} {found[0]}"


def _wrong_array(fuzz: FuzzRun, tensor: dml.TensorDesc) -> Any:
    chance, kind = fuzz.chance, tensor.data_type.numpy
    sizes = list(tensor.sizes)
    return chance.choice([
        lambda: np.zeros([*sizes, 1], kind),
        lambda: np.zeros([size + 1 for size in sizes], kind),
        lambda: np.zeros(sizes, kind.newbyteorder(">")),
        lambda: np.zeros(sizes, "f8" if kind != np.float64 else "f4"),
        lambda: np.zeros([2 * size for size in sizes], kind)[tuple(slice(None, None, -2) for _ in sizes)],
        lambda: np.ma.zeros(sizes, kind),
        lambda: np.zeros(sizes, object),
        lambda: np.ndarray(sizes, kind, bytearray(tensor.element_count * kind.itemsize + 8), offset=1),
        lambda: np.zeros(sizes, kind).tolist(),
    ])()  # fmt: skip


def accepted(fuzz: FuzzRun, device: dml.Device) -> str:
    """A valid binding, run in two arenas of other contents."""
    work = _drawn(fuzz, device)
    seen: list[Array] = []
    may = work.writable()
    for fill in (0x5A, 0xC3):
        arena = work.arena(fill)
        before = arena.bytes()
        scratch = dml.Buffer(arena.pointer + work.scratch, work.scratch_size) if work.scratch_size else None
        dispatch = work.op.bind(work.buffers(arena, work.inputs), work.buffers(arena, work.outputs), temporary=scratch)
        for _ in range(fuzz.chance.choice([1, 2])):
            dispatch()
        device.synchronize(device.current_stream())
        after = arena.bytes()
        fuzz.promise(not (before != after)[~may].any(), f"{work.op.name} writes what is not its own")
        seen.append(after)
    may[work.scratch :] = False
    reserves = [field.name for field in work.op.desc.outputs() if field.marker.reserve and field.name in work.outputs]
    for name in reserves:  # a reserve's bytes are for its gradient only
        may[work.offsets[name] : work.offsets[name] + work.outputs[name].extent_in_bytes] = False
    fuzz.promise(np.array_equal(seen[0][may], seen[1][may]), f"{work.op.name} leaves what was there before")
    return "same"


def kinds_of(devices: Sequence[dml.Device]) -> dict[str, Callable[[FuzzRun], str]]:
    """The tries on some devices."""

    def on(attempt: Callable[[FuzzRun, dml.Device], str], device: dml.Device) -> Callable[[FuzzRun], str]:
        return lambda fuzz: attempt(fuzz, device)

    tries = {"refused": refused, "accepted": accepted}
    return {f"{name} {device.name}": on(attempt, device) for device in devices for name, attempt in tries.items()}


def main(arguments: Sequence[str] | None = None, devices: Sequence[dml.Device] | None = None) -> int:
    """Runs the fuzzer; the status of the process."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--devices", nargs="+", default=["numpy"])
    asked, rest = parser.parse_known_args(arguments)
    return run(rest, __doc__, kinds_of([dml.device(name) for name in asked.devices] if devices is None else devices))


if __name__ == "__main__":
    sys.exit(main())
