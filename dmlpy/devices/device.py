"""`Device`: where work runs. A device returns a plan for an operator, or None if it has none."""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.debugging import DEVICES, log_once
from dmlpy.description.coercion import brief
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.plan import LaunchSequence, log_launch
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import nearest
from dmlpy.messages.problems import DeviceError
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    import numpy as np

    from dmlpy.description.arrays import ArrayView
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.loops import LoopBody, LoopRunner
    from dmlpy.devices.plan import Launch, Plan


@dataclass(frozen=True)
class Memory:
    """Memory that a device has allocated; it lives as long as this object or its owner.

    Attributes:
        pointer: its address.
        size: the size in bytes.
        owner: the object that keeps it alive.
        used_in: records that work in a stream uses it, so that the device does not reuse it before that work is done; None if the device
            has no streams or does not own the memory.
    """

    pointer: int
    size: int
    owner: Any
    used_in: Callable[[int], None] | None = None

    @property
    def area(self) -> tuple[int, int]:
        """The address and end of the memory."""
        return self.pointer, self.pointer + self.size


_NO_MEMORY = Memory(0, 0, None)


@foreign_members
class Device(ABC):
    """A place where operators run. Devices are shared: there is one object for each name."""

    name: str
    """`numpy`, `cuda:0`, ..."""

    memory_kind: str
    """The location of its arrays, as in `ArrayView.device`: `cpu` or `cuda`."""

    relocates = False
    """Whether `joined` relocates launches that were bound to a `BoundAddress`."""

    replays = False
    """Whether `replayed` records launches, to repeat many of them as one."""

    looks_up_bytes = False
    """Whether graphs look up functions of bytes in tables: it has plans for `LookupTableDesc`."""

    plans_all_sizes = False
    """Whether it has a plan for all valid sizes of an operator if it has one for some."""

    sizes_to_check: int | None = 1 << 24
    """Requests of this many bytes or more are compared with the available memory by `require`, since operating systems overcommit memory
    For smaller requests, and with None for all, the allocator's failure suffices: a GPU's allocators return only existing memory, and may
    have more than the device reports."""

    @abstractmethod
    def plan(self, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        """The plan for a checked desc, or None if the device does not run this operator."""

    def planning_key(self) -> Hashable:
        """The settings on which its plans depend besides descs and flags: plans of different keys differ."""
        return None

    def is_element_wise(self, desc: OperatorDesc, plan_of: Callable[[OperatorDesc], Plan]) -> bool:
        """Whether a checked desc can be one of several that run as one kernel, with independent elements.

        Args:
            desc: the desc.
            plan_of: returns the plan of a desc; it takes a while.
        """
        return False

    def why_not(self, desc: OperatorDesc) -> str:
        """The reason why a checked desc has no plan."""
        return f"{self.name} has no plan for it"

    @classmethod
    @abstractmethod
    def runs(cls, kind: type[OperatorDesc]) -> bool:
        """Returns whether the device has plans for an operator."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """The device's name, versions and limits, as text."""

    @abstractmethod
    def available_memory(self) -> int:
        """The bytes that can be allocated now, if the device knows them."""

    @abstractmethod
    def _allocate(self, size: int, stream: int) -> Memory: ...

    def memory_of(self, array: Any, stream: int) -> Memory:
        """The memory of a whole array that its library has allocated for work on a stream: NumPy or, for a GPU, CuPy."""
        return Memory(array.ctypes.data, array.nbytes, array)

    @abstractmethod
    def empty(self, desc: TensorDesc, stream: int) -> Any:
        """An array of the desc's type, sizes and strides in the device's memory, of its bytes for 4-bit elements. Gaps are zero."""

    @abstractmethod
    def from_host(self, array: np.ndarray[Any, Any], stream: int | None = None) -> Any:
        """A packed copy of a NumPy array in the device's memory (on the NumPy device the array itself if it is packed)."""

    @abstractmethod
    def to_host(self, array: Any, stream: int | None = None) -> np.ndarray[Any, Any]:
        """Converts a device array to a NumPy array; waits for the work on the stream. A NumPy array is returned as it is.

        Anything but an array, such as a number or a list, also becomes a NumPy array, in host memory.
        """

    @abstractmethod
    def upload(self, data: np.ndarray[Any, Any], stream: int) -> Memory:
        """Copies packed host bytes to the device's memory."""

    @abstractmethod
    def read(self, pointer: int, size: int, stream: int) -> bytes:
        """Reads bytes of the device's memory; waits for the work on the stream."""

    @abstractmethod
    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        """Copies bytes within the device's memory, in the order of the stream."""

    @abstractmethod
    def clear(self, pointer: int, size: int, stream: int) -> None:
        """Writes zeros into the device's memory, in the order of the stream."""

    @abstractmethod
    def view(self, value: Any) -> ArrayView:
        """A user's array as memory. Raises TypeError if it is not an array."""

    def stream_identity(self, stream: int) -> int:
        """A number that identifies the stream of a handle in the calling thread."""
        return stream

    def is_capturing(self, stream: int) -> bool:
        """Whether work enqueued on a stream is recorded in a CUDA graph."""
        return False

    def place_of(self, pointer: int) -> str | None:
        """The location of memory that the device cannot use: `cpu`, or another GPU's name. None if it can use it, or if unknown."""
        return None

    def wait_for(self, producer: int) -> Callable[[int], bool]:
        """Returns a function that makes a stream wait for the work which is on another stream now.

        It returns False, and does nothing, where only one of them is being captured.
        """
        return lambda stream: True

    def order(self, producer: int, stream: int) -> None:  # noqa: B027  (most devices have no streams)
        """Makes a stream wait for the work which is on another stream now, unless only one of them is being captured."""

    @abstractmethod
    def current_stream(self) -> int:
        """The stream that work uses when the caller passes none."""

    @abstractmethod
    def synchronize(self, stream: int) -> None:
        """Waits until the work on a stream is done."""

    @abstractmethod
    def start_timer(self, stream: int) -> Callable[[], float] | None:
        """Starts the device's clock on a stream; the returned function stops it and returns milliseconds. None if there is no clock."""

    def tuned(self, desc: OperatorDesc, plan: Plan, stream: int) -> Plan:
        """The plan to prepare, or to run in a graph, in the place of another: a device may measure which of several is the fastest."""
        return plan

    @abstractmethod
    def dispatched(self, launch: Launch, name: str, memory: Iterable[Memory] = ()) -> Launch:
        """Wraps a launch for a dispatch: it runs on this device, even if another is current for the thread, and profilers show it by name.

        It uses `memory`, which may be released as soon as it is launched.
        """

    def part(self, launch: Launch, name: Callable[[], str]) -> Launch:
        """A part of a dispatch, wrapped so that its errors are distinguished from those of other parts, if the device supports it."""
        return log_launch(launch, lambda: f"{name()} on {self.name}")

    def sequence(self, launches: Sequence[Launch]) -> LaunchSequence:
        """The launches as a sequence, in the form that this device runs fastest."""
        return LaunchSequence((launch, 1) for launch in launches)

    def compile_loop(self, body: LoopBody) -> LoopRunner | None:
        """Compiles a loop so that no Python runs between its iterations; None if this device cannot."""
        return None

    @abstractmethod
    def replayed(self, launch: Launch) -> Launch:
        """The form of many launches that is cheapest to repeat with the same memory."""

    def allocate(self, size: int, stream: int, purpose: str) -> Memory:
        """Allocates memory for scratch or packed constants.

        Raises:
            DeviceError: it does not fit; `purpose` is for the message.
        """
        if size == 0:
            return _NO_MEMORY
        self.require(size, purpose)
        try:
            return self._allocate(size, stream)
        except DeviceError as error:
            raise self.with_sizes(error, size, purpose) from error

    def outputs(self, descs: Mapping[str, TensorDesc], stream: int, purpose: str) -> dict[str, Any]:
        """Allocates arrays as `empty` does, by name.

        Raises:
            DeviceError: they do not fit; `purpose` is for the message.
        """
        try:
            return {name: self.empty(desc, stream) for name, desc in descs.items()}
        except DeviceError as error:
            raise self.with_sizes(error, sum([desc.extent_in_bytes for desc in descs.values()]), purpose) from error

    def require(self, size: int, purpose: str) -> None:
        """Raises DeviceError (E_OUTOFMEMORY) if it is known that this many bytes cannot be allocated now."""
        if self.sizes_to_check is not None and size >= self.sizes_to_check and size > (available := self.available_memory()):
            raise self._lacking(size, available, purpose)

    def with_sizes(self, error: DeviceError, size: int, purpose: str) -> DeviceError:
        """An allocator's error; if it lacks memory, one with the purpose, the requested size and the available size."""
        if error.hresult != HResult.E_OUTOFMEMORY:
            return error
        try:
            available = self.available_memory()
        except DeviceError:
            return error
        return self._lacking(size, available, purpose, f" ({error})")

    def _lacking(self, size: int, available: int, purpose: str, why: str = "") -> DeviceError:
        sizes = f"{show_bytes(size)}; {show_bytes(available)} are available on {self.name}"
        return DeviceError(f"{purpose} needs {sizes}{why}", hresult=HResult.E_OUTOFMEMORY)

    def stream_handle(self, stream: Any) -> int:
        """The integer handle of a stream: None (the current one), an integer, or a stream of CuPy, PyTorch or another library.

        Objects of libraries have the handle as `.ptr` (CuPy) or `.cuda_stream` (PyTorch), or return it from `__cuda_stream__` (cuda.core).

        Raises:
            DeviceError: it is none of these.
        """
        if stream is None:
            return self.current_stream()
        if type(stream) is not int:
            try:
                number = _stream_number(stream)
                handle = -1 if isinstance(number, bool) else operator.index(number)
            except Exception:  # no handle, or an object whose methods raise anything
                handle = -1
        else:
            handle = stream
        if 0 <= handle < 2**64:
            return handle
        expected = "None, the integer handle of a stream, or a stream of CuPy, PyTorch or a library with __cuda_stream__"
        raise DeviceError(f"stream is {brief(stream)}, expected {expected}", hresult=HResult.E_INVALIDARG)

    def __repr__(self) -> str:
        return f"<dmlpy device {self.name}>"


def _stream_number(stream: Any) -> Any:
    """The handle that a library's stream has; any other object itself."""
    for name in ("ptr", "cuda_stream"):
        if hasattr(stream, name):
            return getattr(stream, name)
    protocol = getattr(stream, "__cuda_stream__", None)
    return stream if protocol is None else protocol()[1]  # the protocol's version, then the handle


class Unusable(str):
    """The reason why the device of an index, which exists, cannot be used; others of its kind may be usable."""

    __slots__ = ()


DEVICE_KINDS: dict[str, Callable[[int], Device | str]] = {}
"""Creates the device with an index, by kind (`numpy`, `cpu`, `cuda`), or returns why there is none. Packages of devices register it."""

LISTED_KINDS = ("numpy", "cpu", "cuda")
"""The kinds of devices that a machine is said to have, in order. The others are for debugging: who wants one names it."""

_OTHER_NAMES = {"host": "cpu", "numba": "cpu", "gpu": "cuda", "dml": "cuda"}
"""Other libraries' names for the devices, and an earlier one, which dmlpy rejects."""

Kind = TypeVar("Kind", bound=Device)


def shared(make: Callable[[int], Kind | str]) -> Callable[[int], Kind | str]:
    """Makes a function that returns one device per index: concurrent calls get the same object."""
    devices: dict[int, Kind | str] = {}

    @wraps(make)
    def find(index: int) -> Kind | str:
        known = devices.get(index)
        return devices.setdefault(index, make(index)) if known is None else known

    return find


def device(name: Device | str | None = None) -> Device:
    """The device of a name: `cpu`, `numpy`, `cuda` (the first GPU) or `cuda:1`; None means the first GPU that works, else `cpu`.

    Both `cpu` and `numpy` are the processor: `numpy` runs by NumPy alone, and `cpu` by compiled kernels where they exist and llvmlite is
    installed. `cuda-emulated` runs the CUDA kernels on the processor, slowly, to debug them.

    Raises:
        DeviceError: no such device; the message has the reason and a remedy.
    """
    if isinstance(name, Device):
        return name
    if name is None:
        chosen = DEVICE_KINDS["cuda"](0)
        if isinstance(chosen, Unusable):
            chosen = next((item for item in _existing("cuda") if isinstance(item, Device)), chosen)
        if isinstance(chosen, Device):
            gpu = chosen
            log_once(DEVICES, lambda: f"no device is named: {gpu.name}, a GPU that works")
            return chosen
        log_once(DEVICES, lambda: f"no device is named: cpu, as there is no GPU: {chosen}")
        return device("cpu")
    kind, separator, index = str.lower(name).partition(":") if isinstance(name, str) else ("", "", "")
    if kind not in DEVICE_KINDS or (index and not re.fullmatch(r"[0-9]{1,4}", index)):
        candidate = _OTHER_NAMES.get(kind) or nearest(kind, DEVICE_KINDS)
        suggestion = candidate + separator + index if candidate and candidate != kind else None
        suggestion = suggestion if isinstance(name, str) else _named(name)
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        raise DeviceError(
            f"device is {brief(name)}, expected 'cpu', 'numpy', 'cuda', 'cuda:<index>', 'cuda-emulated' or None{hint}",
            hresult=HResult.E_INVALIDARG,
        )
    chosen = DEVICE_KINDS[kind](int(index or 0))
    if isinstance(chosen, str):
        fate = "cannot be used" if isinstance(chosen, Unusable) else "does not exist on this machine"
        emulated = kind == "cuda" and next(_existing(kind), None) is None
        remedy = "; 'cuda-emulated' executes its kernels on the processor, slowly, and has their plans" if emulated else ""
        raise DeviceError(f"device {name!r} {fate}: {chosen}{remedy}")
    named = chosen
    log_once(DEVICES, lambda: f"{name!r} is {named.describe()['name']}")
    return chosen


def _named(value: Any) -> str | None:
    """The name for an index, or for another library's device: PyTorch's and JAX's have a kind and perhaps an index, CuPy's an `id`."""
    try:
        kinds = [getattr(value, name, None) for name in ("type", "platform")]
        numbers = [value, getattr(value, "index", None), getattr(value, "id", None)]
    except Exception:  # of a caller's object, which may raise anything
        return None
    index = next((number for number in numbers if type(number) is int and 0 <= number < 10_000), None)
    kind = next((kind for kind in kinds if isinstance(kind, str)), None if index is None else "cuda")
    kind = _OTHER_NAMES.get(kind or "", kind)
    if kind not in LISTED_KINDS:
        return None
    return f"{kind}:{index}" if kind == "cuda" and index is not None else kind


def list_devices() -> list[Device]:
    """All devices of this machine: `numpy` and `cpu`, then each GPU."""
    return [item for kind in LISTED_KINDS for item in _existing(kind) if isinstance(item, Device)]


def unavailable_devices() -> dict[str, str]:
    """Why there is no device of a kind, by the kind, and why those that exist cannot be used, by their names."""
    reasons: dict[str, str] = {}
    for kind in LISTED_KINDS:
        first = DEVICE_KINDS[kind](0)
        if not isinstance(first, Device | Unusable):
            reasons[kind] = first
        reasons |= {f"{kind}:{index}": item for index, item in enumerate(_existing(kind)) if isinstance(item, Unusable)}
    return reasons


def _existing(kind: str) -> Iterator[Device | Unusable]:
    """The devices of a kind that this machine has."""
    for index in count():
        item = DEVICE_KINDS[kind](index)
        if not isinstance(item, Device | Unusable):
            return
        yield item
