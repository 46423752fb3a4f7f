"""The contents of pickles of compiled operators and graphs besides descs: the version that wrote them, and constants.

Constants are pickled as given (`portable`), and packed where they are loaded; or as the plan packed them, and then the plan that
loads them must have the same packing.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.messages.problems import DeviceError, PickleError
from dmlpy.version import __version__

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.memory.binding import BoundTensor
    from dmlpy.devices.plan import Plan


class OnDevice(Protocol):
    """An object that was compiled for a device."""

    @property
    def device(self) -> Device: ...


class Compiled(OnDevice, Protocol):
    """The protocol that pickling requires of a compiled operator."""

    @property
    def name(self) -> str: ...

    @property
    def desc(self) -> OperatorDesc: ...

    @property
    def _plan(self) -> Plan: ...


Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
"""Constants, packed or not, in host memory: an array, which pickles of protocol 5 can carry without a copy."""


class WrittenBy:
    """The version of dmlpy that writes a pickle; loading it elsewhere raises `PickleError`.

    It precedes everything else in a pickle of a compiled object, because descs of another version may not be readable at all. Its
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
        raise PickleError(version_difference(writer))
    return WrittenBy()


def written_by() -> str:
    """The version of dmlpy that writes pickles here."""
    return __version__


def version_difference(writer: str) -> str:
    """Returns the error that another version of dmlpy wrote a pickle."""
    return (
        f"dmlpy {writer} wrote this pickle, and dmlpy {__version__} is to load it: what is compiled travels between "
        f"equal versions only. Install the same version at both ends (pip install dmlpy=={writer}), or store the desc (desc.to_json()) "
        "and compile it here"
    )


class Refused:
    """Replaces an object that could not be loaded in a message of `dask.distributed`; every use of it raises `PickleError`.

    A worker that fails to read a message loses its connection without a report. With this the message is read, and the task that uses
    the operator fails, whose error reaches the caller.

    Args:
        reason: the problem.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        raise PickleError(self._reason)

    __call__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Dask and pickle ask what an object can do
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<refused: {self._reason}>"


def device_name(compiled: OnDevice) -> str:
    """The name of the device of a compiled object, by which it is found where a pickle is loaded.

    The first GPU is called by its kind: it is then the first of those that the process sees.

    Raises:
        PickleError: the device is none of those that have a name.
    """
    from dmlpy.devices import device as find_device

    name = compiled.device.name
    try:
        device = find_device(name)
    except DeviceError:
        device = None
    if device is not compiled.device:
        raise PickleError(f"{compiled!r} cannot be pickled: its device was made by hand, and dmlpy.device({name!r}) would not find it")
    return name.removesuffix(":0")


def version_refused(writer: str) -> Refused | None:
    """None if this version of dmlpy wrote a pickle. Called by the function that the pickle names.

    Returns:
        Refused: of another version, where `distributed` reads a message.

    Raises:
        PickleError: of another version, when other code loads the pickle.
    """
    if writer == __version__:
        return None
    loader = sys._getframe(2).f_globals.get("__name__", "")
    if loader.partition(".")[0] == "distributed":
        return Refused(version_difference(writer))
    raise PickleError(version_difference(writer))


def host_bytes(item: BoundTensor, device: Device, handle: int) -> Bytes:
    """A copy of a tensor's bytes in host memory, in the layout of its desc; waits for the work on the stream."""
    return np.frombuffer(device.read(item.pointer, item.desc.extent_in_bytes, handle), np.uint8)


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
            "depends on the processor or GPU, its threads and the version of dmlpy. With prepare(portable=True, ...) it is packed anew "
            "where it is loaded"
        )
    device, handle = operator.device, operator.device.current_stream()
    return filled(device, device.allocate(len(packed), handle, f"packed constants of {operator.name}"), packed, handle)


def filled(device: Device, memory: Memory, packed: Bytes, handle: int) -> Memory:
    """Memory of a device after bytes have been copied to it; waits for the work on the stream."""
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
    device.clear(memory.pointer, plan.persistent_size, handle)  # including gaps between the packed arrays
    pack = plan.pack({name: source.pointer for name, source in sources.items()}, memory.pointer)
    device.dispatched(pack, f"{operator.name} prepare", [memory, *sources.values()])(handle)
    return blake2b(device.read(memory.pointer, plan.persistent_size, handle), digest_size=16).digest()


def _numbers(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Generates bytes of numbers, nearly all different."""
    if is_float(dtype):
        return rng.standard_normal(count).astype(dtype).view(np.uint8)
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8)
