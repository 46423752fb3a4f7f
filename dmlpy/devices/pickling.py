"""What pickles of compiled operators and graphs hold beside descs: the version that wrote them, and packed constants.

Packed constants travel as the plan packed them, so the plan where they arrive must pack alike.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlpy.validation.problems import PickleError
from dmlpy.version import __version__

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.plan import Plan


class Compiled(Protocol):
    """The protocol that pickling requires of a compiled operator."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> Device: ...

    @property
    def desc(self) -> OperatorDesc: ...

    @property
    def _plan(self) -> Plan: ...


Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
"""Packed constants in host memory: an array, which pickles of protocol 5 can carry without a copy."""


class WrittenBy:
    """The version of dmlpy that writes a pickle; loading it elsewhere raises `PickleError`.

    It stands before everything else in a pickle of what is compiled, because descs of another version may not be readable at all. Its
    name and place must stay the same in all versions.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return check_version, (__version__,)


def check_version(writer: str) -> WrittenBy:
    """Loads a `WrittenBy`.

    Raises:
        PickleError: another version of dmlpy wrote it.
    """
    if writer != __version__:
        raise PickleError(
            f"dmlpy {writer} wrote this pickle, and dmlpy {__version__} is to load it: what is compiled travels between "
            f"equal versions only. Install the same version at both ends (pip install dmlpy=={writer}), or store the desc (desc.to_json()) "
            "and compile it here"
        )
    return WrittenBy()


def packed_bytes(device: Device, memory: Memory, size: int) -> Bytes:
    """The packed constants in host memory; waits for the work on the current stream."""
    return np.frombuffer(device.read(memory.pointer, size, device.current_stream()) if size else b"", np.uint8)


def packed_memory(operator: Compiled, packed: Bytes, fingerprint: bytes) -> Memory:
    """Allocates memory of the operator's device and fills it with a pickle's packed constants.

    Raises:
        PickleError: they were packed for another layout, that of another processor, GPU or version of dmlpy.
    """
    if fingerprint != layout_fingerprint(operator):
        raise PickleError(
            f"a pickle of a prepared {operator.name} does not fit this machine: the plan here packs constants in another layout, which "
            "depends on the processor or GPU, its threads and the version of dmlpy. Pickle the compiled operator and the constants, and "
            "call prepare here"
        )
    device, handle = operator.device, operator.device.current_stream()
    memory = device.allocate(len(packed), handle, f"packed constants of {operator.name}")
    if len(packed):
        staged = device.upload(packed, handle)
        device.copy(memory.pointer, staged.pointer, len(packed), handle)
        device.synchronize(handle)  # dispatches may go into other streams
    return memory


def layout_fingerprint(operator: Compiled) -> bytes:
    """A hash of the bytes that the operator's plan packs from fixed constants: plans with equal hashes pack alike."""
    device, plan = operator.device, operator._plan
    tensors = {name: tensor.memory for name, tensor in operator.desc.tensors().items()}
    if not plan.persistent_size:
        return b""
    handle, rng = device.current_stream(), np.random.default_rng(1)
    sources = {name: device.upload(_numbers(rng, tensors[name].span, tensors[name].data_type.numpy), handle) for name in plan.constants}
    memory = device.allocate(plan.persistent_size, handle, f"packed constants of {operator.name}")
    device.clear(memory.pointer, plan.persistent_size, handle)  # also what lies between the packed arrays
    pack = plan.pack({name: source.pointer for name, source in sources.items()}, memory.pointer)
    device.dispatched(pack, f"{operator.name} prepare", [memory, *sources.values()])(handle)
    return blake2b(device.read(memory.pointer, plan.persistent_size, handle), digest_size=16).digest()


def _numbers(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Generates bytes of numbers, nearly all different."""
    if dtype.kind == "f":
        return rng.standard_normal(count).astype(dtype).view(np.uint8)
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8)
