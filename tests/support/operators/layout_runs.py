"""Operators on a device in every layout: packed, with gaps and axes in another order, with inputs that are broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike

import dmlpy as dml
from dmlpy.description.int4 import pack_tensor, unpack_tensor
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.reference.registry import definition
from tests.support.descs import relation_descs
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]

_POISON = 0xA5  # every byte of an output, and of the memory around it and in its gaps, before a run
_MARGIN = 16  # elements of guarded memory before and behind a tensor
_TERMS = 1024  # of sums, whose order is that of memory


def defined(path: str) -> list[str]:
    """The short names of DirectML's operators that a module or package of `dmlpy.operators` has and `dmlpy.reference` defines."""
    own = f"dmlpy.operators.{path}"
    kinds = [
        kind for kind in OPERATORS.values() if not kind.is_extension and (kind.__module__ == own or kind.__module__.startswith(f"{own}."))
    ]
    return [kind.short_name() for kind in kinds if definition(kind) is not None]


def tensor(array: Array) -> dml.TensorDesc:
    return dml.TensorDesc.of(array)


def packed(dtype: DTypeLike, *sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=np.dtype(dtype).name.upper(), sizes=sizes)


def same(found: Array, expected: Array, what: str) -> None:
    """Fails unless types, sizes and values are equal."""
    assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    np.testing.assert_array_equal(found, expected, what, strict=True)


def compute(desc: dml.OperatorDesc, *, device: dml.Device | str = "numpy", **inputs: Any) -> Array:
    """The only output, in memory that the device allocates."""
    [result] = results_of(desc, inputs, device).values()
    return np.asarray(result)


def results_of(desc: dml.OperatorDesc, fields: Mapping[str, Any], device: dml.Device | str) -> dict[str, Any]:
    """The outputs by field on the host, in memory that the device allocates, of inputs by field on the host."""
    device = dml.device(device) if isinstance(device, str) else device

    if device.memory_kind == "cpu":
        return dml.compile(desc, device)(**fields).as_dict()

    def moved(value: Any, move: Callable[[Any], Array]) -> Any:
        return [move(item) for item in value] if isinstance(value, list | tuple) else move(value)

    given = {name: moved(value, lambda array: device.from_host(np.ascontiguousarray(array))) for name, value in fields.items()}
    return {name: moved(value, device.to_host) for name, value in dml.compile(desc, device)(**given).as_dict().items()}


def run(desc: dml.OperatorDesc, arrays: Mapping[str, Array], device: dml.Device | str = "numpy") -> dict[str, Array]:
    """The outputs by place, of inputs by place: all tensors in guarded memory, as the desc lays them out; 4-bit elements a byte each.

    The inputs have the described sizes, and equal elements where strides of 0 repeat them.
    """
    compiled = dml.compile(desc, device)
    device = compiled.device
    memories = {place: _poisoned(tensor) for place, tensor in desc.tensors().items()}
    views = {place: view for place, (_, view) in memories.items()}
    inputs, outputs = ([slot.place for slot in slots if slot.tensor is not None] for slots in (desc.input_slots(), desc.output_slots()))
    for place in inputs:
        held = as_held(arrays[place], desc.tensors()[place])
        views[place][...] = held
        # NumPy calls two NaN of BFLOAT16 different, whose kind is "V".
        comparable = [array.astype(np.float32) if array.dtype.kind == "V" else array for array in (views[place], held)]
        np.testing.assert_array_equal(*comparable, f"values of {place}")
    before = {place: memory.copy() for place, (memory, _) in memories.items()}
    if device.memory_kind == "cpu":
        compiled(**_by_field(desc, views))
    else:
        _run_in_device_memory(compiled, memories)
    found = {place: as_values(views[place], desc.tensors()[place]) for place in outputs}
    for place in outputs:
        bits = views[place].view(f"u{views[place].itemsize}")
        bits[...] = int.from_bytes(bytes([_POISON]) * bits.itemsize, "little")
    for place, (memory, _) in memories.items():
        written = "what is around it" if place in outputs else "it"
        np.testing.assert_array_equal(memory, before[place], f"{desc.c_name}, {place}: {written} was written")
    return found


def _run_in_device_memory(compiled: dml.CompiledOperator, memories: Mapping[str, tuple[Array, Array]]) -> None:
    """Dispatches over copies of the memories in the device's memory, and copies all bytes back."""
    device, desc = compiled.device, compiled.desc
    stream = device.current_stream()
    copies = {place: device.upload(memory, stream) for place, (memory, _) in memories.items()}
    buffers = {
        place: dml.Buffer(copies[place].pointer + _MARGIN * view.itemsize, copies[place].size - 2 * _MARGIN * view.itemsize)
        for place, (_, view) in memories.items()
    }
    outputs = {slot.place for slot in desc.output_slots()}
    bound = _by_field(desc, {place: buffer for place, buffer in buffers.items() if place not in outputs})
    compiled.bind(bound, _by_field(desc, {place: buffer for place, buffer in buffers.items() if place in outputs}))()
    for place, (memory, _) in memories.items():
        memory[...] = np.frombuffer(device.read(copies[place].pointer, memory.nbytes, stream), np.uint8)


def by_definition(desc: dml.OperatorDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by place in float64, of inputs by place."""
    given = {place: as_held(array, desc.tensors()[place]) for place, array in arrays.items()}
    outputs = dml.reference(desc, _by_field(desc, given)).as_dict()
    return {
        slot.place: as_values(outputs[slot.field.name] if slot.index is None else outputs[slot.field.name][slot.index], slot.tensor)
        for slot in desc.output_slots()
        if slot.tensor is not None
    }


def as_held(values: Array, tensor: dml.TensorDesc) -> Array:
    """Values as the array that holds the tensor: the same, or of 4-bit elements its bytes."""
    return pack_tensor(values, tensor) if tensor.data_type.bits == 4 else values


def as_values(held: Array, tensor: dml.TensorDesc) -> Array:
    """The values that a tensor's array holds, in memory of their own: the opposite of `as_held`."""
    return (unpack_tensor(held, tensor) if tensor.data_type.bits == 4 else held).copy()


def _poisoned(tensor: dml.TensorDesc) -> tuple[Array, Array]:
    """Memory full of poison, and a tensor in it with guards around it."""
    tensor = tensor.memory
    dtype = tensor.data_type.numpy
    memory = np.full((tensor.span + 2 * _MARGIN) * dtype.itemsize, _POISON, np.uint8)
    return memory, as_strided(memory.view(dtype)[_MARGIN:], tensor.sizes, tensor.numpy_strides())


def _by_field(desc: dml.OperatorDesc, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Some tensors by place as a dispatch takes them: those of an array of tensors in a list."""
    fields: dict[str, Any] = {}
    for slot in desc.slots():
        if slot.place in arrays and slot.field.listed:
            fields.setdefault(slot.field.name, []).append(arrays[slot.place])
        elif slot.place in arrays:
            fields[slot.field.name] = arrays[slot.place]
    return fields


def layouts(desc: dml.OperatorDesc, *, broadcast: bool = False) -> tuple[Any, Any]:
    """The desc as it is, or its inputs broadcast along their longest axes if so wished; and with all tensors spread."""
    assert dml.check(desc) == []
    return _relaid(desc, broadcast, spread=False) if broadcast else desc, _relaid(desc, broadcast, spread=True)


def _relaid(desc: dml.OperatorDesc, broadcast: bool, spread: bool) -> dml.OperatorDesc:
    members: dict[str, Any] = {}
    for field in desc.tensor_fields():
        given = getattr(desc, field.name)
        if given is not None:
            output = field.marker.output  # of 4-bit elements it is packed
            own = [
                tensor if output and tensor.data_type.bits == 4 else _relaid_tensor(tensor, broadcast and not output, spread)
                for tensor in (given if field.listed else [given])
            ]
            members[field.name] = own if field.listed else own[0]
    return desc.replace(**members)


def _relaid_tensor(tensor: dml.TensorDesc, broadcast: bool, spread: bool) -> dml.TensorDesc:
    """The tensor packed or, spread, with its axes in the opposite order and gaps; the longest may be broadcast, with a stride of 0."""
    strides, step = [0] * len(tensor.sizes), 2 if spread else 1
    axes = range(len(tensor.sizes))
    for axis in axes if spread else reversed(axes):
        if not (broadcast and axis == np.argmax(tensor.sizes)):
            strides[axis] = step
            step = step * tensor.sizes[axis] + spread
    return dml.TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides)


def repeated(array: Array, tensor: dml.TensorDesc) -> Array:
    """The array with the elements that a tensor has whose strides of 0 repeat the first ones."""
    first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.element_strides)
    return np.broadcast_to(array[first], tensor.sizes)


def run_in_layouts(desc: dml.OperatorDesc, arrays: Mapping[str, Array], device: dml.Device | str = "numpy") -> dict[str, Any]:
    """The outputs in memory that the device allocates: the same, but for the order of sums, in guarded memory as described and spread."""
    guarded = [(own, run(own, arrays, device)) for own in layouts(desc)]  # first: there a stray write does no harm and is reported
    tensors = desc.tensors()
    held = {place: as_held(array, tensors[place]) for place, array in arrays.items()}
    results = results_of(desc, _by_field(desc, held), device)
    results = {name: as_values(result, tensors[name]) if name in tensors else result for name, result in results.items()}
    for own, outputs in guarded:
        for place, found in outputs.items():
            _agree(found, results[place], _TERMS, f"{place} with the strides {own.tensors()[place].element_strides}")
    return results


def _agree(found: Array, expected: Array, terms: int | None, what: str) -> None:
    """Fails unless results are equal or, with a number of terms, close in floating point."""
    if terms is not None and found.dtype.kind == "f":
        assert_close(found, expected, found.dtype, terms=terms, what=what)
    else:
        same(found, expected, what)


def random_values(rng: np.random.Generator, tensor: dml.TensorDesc, *, positive: bool = False) -> Array:
    """Values of a type's whole range, half of them small; of floating point also what is not finite, or positive numbers next to 1."""
    dtype, sizes = tensor.data_type.unpacked, tensor.sizes
    if dtype.kind == "f" and positive:
        return rng.uniform(0.5, 2, sizes).astype(dtype)
    if dtype.kind == "f":
        return np.where(rng.random(sizes) < 0.9, rng.normal(0, 50, sizes), rng.choice([np.nan, np.inf, -np.inf, -0.0], sizes)).astype(dtype)
    least, most = tensor.data_type.limits
    wide = rng.integers(least, most, sizes, dtype, endpoint=True)
    return np.where(rng.random(sizes) < 0.5, wide, rng.integers(max(least, -4), 5, sizes)).astype(dtype)


def check_layouts(desc: dml.OperatorDesc, rng: np.random.Generator, *, sums: bool, device: dml.Device | str = "numpy") -> None:
    """Fails unless the desc computes the same in all layouts and, but for rounding, in float64.

    Of an operator that sums, whose order is that of memory, layouts too differ by rounding; nothing may cancel out then.
    """
    slots = [slot for slot in desc.input_slots() if slot.tensor is not None]
    given = {slot.place: repeated(random_values(rng, slot.tensor, positive=sums), slot.tensor) for slot in slots}
    for broadcast in (False, True):
        first, spread = layouts(desc, broadcast=broadcast)
        arrays = {place: repeated(array, first.tensors()[place]) for place, array in given.items()}
        results, exact = run(desc, arrays, device), by_definition(desc, arrays)
        for place, result in results.items():
            with np.errstate(over="ignore"):  # beyond what FLOAT16 holds
                wanted = np.broadcast_to(exact[place], result.shape).astype(result.dtype)
            _agree(result, wanted, _TERMS if sums else 1, f"{place} in float64, broadcast {broadcast}")
        for own in (first, spread) if broadcast else (spread,):
            for place, found in run(own, arrays, device).items():
                what = f"{place} with the strides {own.tensors()[place].element_strides}, broadcast {broadcast}"
                _agree(found, results[place], _TERMS if sums else None, what)


def is_emulated(device: dml.Device | str) -> bool:
    """Whether g++ compiles the kernels of a device."""
    return isinstance(device, CudaDevice) and isinstance(device.runtime, EmulatedRuntime)


SOME_OR_ALL = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
"""How many descs a test takes of so many on the emulated GPU, where most of them have kernels to compile."""


def failures_in_layouts(*operators: str, sums: bool = False, device: dml.Device | str = "numpy", every: int = 1) -> list[str]:
    """What fails of `check_layouts` for the valid descs that the relations give of some operators, by their short names.

    On the emulated GPU only one of `every` descs is taken.
    """
    rng, found = np.random.default_rng(1729), []
    for operator in operators:
        name = f"DML_OPERATOR_{operator}"
        descs = relation_descs.valid_descs(name)
        assert descs
        for own in descs[:: every if is_emulated(device) else 1]:
            try:
                check_layouts(dml.OperatorDesc.from_dict(relation_descs.data(name, own.members)), rng, sums=sums, device=device)
            except Exception as error:  # whatever is raised is a failure to be reported, with all others
                found.append(f"{operator}, {own.about}: {type(error).__name__}: {error}")
    return found
