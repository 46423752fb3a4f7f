"""`DMLPY_AUTOTUNE=1`: `prepare` measures the variants of a plan that the model cannot rank, and keeps the fastest.

A graph does so for each node when it is compiled: how much scratch its plan has depends on the choice. Variants are candidates if their
estimates are within `kernel_cycles.UNSURE` of the lowest. They compute the same, but sum in other orders, so their results may differ in
the last bits. What was measured is stored beside the compiled kernels: later processes on a GPU of the same name choose the same without
measuring. Without the variable the model's first choice runs, which depends on nothing but the desc and the GPU's limits.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import TYPE_CHECKING

from dmlpy.debugging import PLANS
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.synchronous import is_set
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.devices.plan import Plan
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks
from dmlpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.device import Device
    from dmlpy.devices.plan import Launch

VARIABLE = "DMLPY_AUTOTUNE"
_ROUNDS = 5
"""The rounds in which variants take turns; the least time of each counts."""
_LEAST_MS = 1.0
"""The least time of a measurement, which the launch is repeated for."""
_MOST_REPEATS = 256
GAIN = 0.03
"""The least gain, as a share of its time, for which the model's first choice is given up."""


class TunablePlan(Plan):
    """A plan of which there are variants that differ in speed alone."""

    @property
    @abstractmethod
    def kernel_file(self) -> str:
        """The source of the kernel that has variants."""

    @abstractmethod
    def variants(self) -> Mapping[str, Callable[[], Plan]]:
        """A function for each variant that may be the fastest, by name: first that of this plan. They take the same packed constants."""


class Autotuner:
    """The choices of a device. Threads may share it.

    Args:
        device: the device.
        identity: what its kernels' speed depends on: its limits, with the versions of the driver and the runtime.

    Raises:
        DeviceError: the variable is neither 0 nor 1.
    """

    def __init__(self, device: Device, identity: Sequence[str]) -> None:
        self._device, self._identity = device, identity
        self._on = is_set(VARIABLE)
        self._chosen: dict[str, str] = {}
        self._lock = forks.lock()

    def tuned(self, desc: OperatorDesc, plan: Plan, stream: int) -> Plan:
        """The fastest variant of a plan; the plan itself where there are no others, or none can be measured now.

        In a stream that is being captured nothing can be measured, and a choice that is not known yet stays that of the model.

        Raises:
            DeviceError: a variant cannot be compiled, or a launch failed.
        """
        if not self._on or not isinstance(plan, TunablePlan):
            return plan
        variants = plan.variants()
        if len(variants) < 2:
            return plan
        name = self._choice(desc, plan, variants, stream)
        if name is None:
            return plan
        variant = variants[name]()
        others = ", ".join(other for other in variants if other != name)
        variant.strategy = f"{name}, faster than {others} when it was measured"
        return variant

    def _choice(self, desc: OperatorDesc, plan: TunablePlan, variants: Mapping[str, Callable[[], Plan]], stream: int) -> str | None:
        key = self._key(desc, plan, variants)
        with self._lock:  # one at a time, so that measurements do not disturb each other
            if key in self._chosen:
                return self._chosen[key]
            store = ImageStore.open()
            stored = None if store is None else store.read(key)
            name: str | None = None if stored is None else stored[1]
            if name is None or name not in variants:
                if self._device.is_capturing(stream):
                    return None
                name = self._measured(desc, variants, stream)
                if name is None:
                    return None
                if store is not None:
                    store.write(key, b"", name)
            self._chosen[key] = name
            return name

    def _key(self, desc: OperatorDesc, plan: TunablePlan, variants: Mapping[str, Callable[[], Plan]]) -> str:
        """A hash of all that the choice depends on."""
        identity = (VARIABLE, __version__, desc.to_json(), *variants, sources.read(plan.kernel_file), *self._identity)
        return hashlib.sha256("\0".join(identity).encode()).hexdigest()

    def _measured(self, desc: OperatorDesc, variants: Mapping[str, Callable[[], Plan]], stream: int) -> str | None:
        """The fastest variant; None if there is not enough memory to run them beside the caller's."""
        names = list(variants)
        try:
            times = self._times(desc, [variants[name]() for name in names], stream)
        except DeviceError as error:
            if error.hresult != HResult.E_OUTOFMEMORY:
                raise
            PLANS.info("%s on %s: not tuned: %s", desc.c_name, self._device.name, error)
            return None
        measured = ", ".join(f"{name} {1e3 * time:.1f} us" for name, time in zip(names, times, strict=True))
        best = min(range(len(names)), key=lambda number: times[number])
        chosen = names[best if times[best] < (1 - GAIN) * times[0] else 0]
        PLANS.info("%s on %s: %s of %s", desc.c_name, self._device.name, chosen, measured)
        return chosen

    def _times(self, desc: OperatorDesc, plans: Sequence[Plan], stream: int) -> list[float]:
        """The least milliseconds of a dispatch of each plan, over memory of its own that holds zeros."""
        device = self._device
        needed = {place: tensor.extent_in_bytes for place, tensor in desc.tensors().items()}
        of_plans = [max(getattr(plan, size) for plan in plans) for size in ("persistent_size", "prepared_temporary_size")]
        memory = [device.allocate(size, stream, f"autotuning of {desc.c_name}") for size in (*needed.values(), *of_plans)]
        for item in memory:
            if item.size:
                device.clear(item.pointer, item.size, stream)
        pointers = {place: item.pointer for place, item in zip(needed, memory, strict=False)}
        persistent, temporary = (item.pointer for item in memory[-2:])
        launches = []
        for plan in plans:
            plan.load()
            constants = {place: pointers[place] for place in plan.constants}
            others = {place: pointer for place, pointer in pointers.items() if place not in constants}
            device.dispatched(plan.pack(constants, persistent), f"{desc.c_name} prepare", memory)(stream)
            launches.append(device.dispatched(plan.bind(others, temporary, persistent), f"{desc.c_name} autotuning", memory))
        repeats = self._repeats(launches, stream)
        rounds = [[self._time(launch, repeats, stream) for launch in launches] for _ in range(_ROUNDS)]
        return [min(times) / repeats for times in zip(*rounds, strict=True)]

    def _repeats(self, launches: Sequence[Launch], stream: int) -> int:
        """How often launches are repeated in a measurement. All of them have run once before."""
        for launch in launches:
            launch(stream)
        repeats = 1
        while repeats < _MOST_REPEATS and self._time(launches[0], repeats, stream) < _LEAST_MS:
            repeats *= 2
        return repeats

    def _time(self, launch: Launch, repeats: int, stream: int) -> float:
        """The milliseconds of this many launches."""
        stop = self._device.start_timer(stream)
        assert stop is not None  # a GPU has a clock
        for _ in range(repeats):
            launch(stream)
        return stop()
