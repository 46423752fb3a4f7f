"""`Dispatch`: an operator with all its memory bound, and the bases of every kind of dispatch."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Never, NoReturn, Protocol

import numpy as np

from dmlpy.description.array_problems import value_problems
from dmlpy.devices.host.memory import no_memory
from dmlpy.devices.memory import binding
from dmlpy.devices.memory.reserve import Reserve
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.problems import BindError, DispatchError, PickleError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.memory.binding import BoundTensor, KnownLayouts
    from dmlpy.devices.memory.binding_table import OperatorTables
    from dmlpy.devices.plan import BindingProperties, Launch, LaunchSequence, Plan
    from dmlpy.devices.reporting.profile import Profile, ProfiledPart
    from dmlpy.devices.reporting.report import PlanReport


class ValueBound(NamedTuple):
    """An upper bound on the values of an input, whose lower bound is 0.

    Attributes:
        name: the input.
        most: the largest value.
        symbol: the symbol of the sizes that has this value.
    """

    name: str
    most: int
    symbol: str


BoundedValues = Sequence[tuple[ValueBound, np.ndarray[Any, Any]]]
"""Bounds, with the values in host memory that they apply to."""


def check_value_bounds(name: str, bounded: BoundedValues) -> None:
    """Raises BindError if any value is out of its range; `name` is the operator's or graph's."""
    for value_bound, values in bounded:
        if values.max() > value_bound.most or values.min() < 0:
            raise BindError(name, value_problems(value_bound.name, values, value_bound.most, value_bound.symbol))


_forks = 0
"""How often this process descends from a fork. Calls that were in progress in the parent's other threads do not exist here."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class BoundWork(ABC):
    """Work with all its memory bound, called by one thread at a time: two calls at once would corrupt each other's scratch and outputs.

    A second call while one is in progress raises `DispatchError`. The call in progress is not disturbed.
    """

    def __init__(self, name: str, device: Device) -> None:
        self._name, self._device = name, device
        self._stream_handle = device.stream_handle
        self._under_way: dict[int, object] = {}
        """The call in progress in this process: `dict.setdefault` is atomic. A lock could stay locked by an interrupt or a fork."""

    def __call__(self, stream: Any = None) -> None:
        """Enqueues the work.

        Args:
            stream: None (the device's current stream), an integer handle, or a stream of CuPy, PyTorch or a library with `__cuda_stream__`.

        Raises:
            BindError: a sequence length in host memory is above T or negative; nothing was written.
            DeviceError: the launch failed, or there was no memory for its temporaries.
            DispatchError: another call is in progress, on another thread or further up the stack.
        """
        self._run_exclusively(self._enqueue, self._stream_handle(stream))

    def _run_exclusively(self, work: Callable[[Any], None], argument: Any) -> None:
        """Runs work that no other call of this object may overlap."""
        under_way, process = self._under_way, _forks
        call: object = []
        try:
            try:
                if under_way.setdefault(process, call) is not call:
                    raise DispatchError(
                        f"{self._name} is being dispatched by another call: a dispatch has one set of memory, so one thread at a time may "
                        "call it. Bind a dispatch for each thread (op.bind), each with separate outputs and scratch"
                    )
                work(argument)
                del under_way[process]
            except BaseException:
                if under_way.get(process) is call:
                    del under_way[process]
                raise
        except BaseException:
            if under_way.get(process) is call:  # an interrupt came between
                del under_way[process]
            raise

    @abstractmethod
    def _enqueue(self, stream: int) -> None: ...

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise PickleError(
            f"a dispatch of {self._name} can be neither copied nor pickled: it is bound to memory of this process, at fixed addresses. "
            "Pickle the compiled operator and bind again"
        )

    __reduce_ex__ = __copy__ = __deepcopy__ = _refuse_copy

    def __repr__(self) -> str:
        return f"<dispatch of {self._name} on {self._device.name}>"


Area = tuple[int, int]
"""The first address and the end of a block of memory."""

Span = tuple[int, int, bool]
"""The first address and the end of a tensor's memory, and whether it is written."""


MAX_CACHED_LAUNCHES = 4
"""The sets of memory whose launches a dispatch caches on a GPU: engines alternate between two or three."""


class Rebindable(BoundWork):
    """Bound work with its bindings by name, so that one can be replaced without the others.

    On a GPU the launches for the last `MAX_CACHED_LAUNCHES` sets of memory are cached: they refer to addresses only. Work that is replayed
    as a CUDA graph is captured when it is bound; for other memory its launches are issued one by one the first time, and captured if that
    memory is bound again.

    Args:
        name: the operator's or graph's.
        device: where it runs.
        bound: the tensors with their memory.
        layouts: the layouts of arrays that were checked, by name.
        areas: the scratch and the packed constants, by name.
        memories: the memory that each launch uses besides the tensors.
        producers: the streams whose work fills that memory: the first call makes its stream wait for them, and for those of the tensors.
        replayed: whether repeated launches are put into the form that is cheapest to repeat.
    """

    def __init__(
        self,
        name: str,
        device: Device,
        bound: Iterable[BoundTensor],
        layouts: Mapping[str, KnownLayouts],
        areas: Mapping[str, Area],
        memories: Sequence[Memory],
        producers: Sequence[int] = (),
        *,
        replayed: bool,
    ) -> None:
        super().__init__(name, device)
        self._bound = {item.name: item for item in bound}
        self._layouts, self._areas, self._memories = layouts, areas, memories
        self._is_replayed = replayed
        self._spans: dict[str, Span] = {}
        self._launch: Launch | None = None
        self._waits: dict[str | int, Callable[[int], bool]] = dict(enumerate(map(device.wait_for, producers)))
        """The work that the next call has to wait for: by name for tensors, by number for scratch and constants."""
        self._waits |= {name: device.wait_for(item.producer) for name, item in self._bound.items() if item.producer is not None}
        self._cached_launches: dict[tuple[int, ...], tuple[Launch, Launch | None]] = {}
        """Launches, and their replayed form, by their addresses; the most recently used come last."""
        self._built: tuple[Launch, Launch] | None = None
        """The last launches, which may have been given other memory since, and their repeated form."""

    @abstractmethod
    def _build_launch(self) -> Launch:
        """Creates the launches for the current bindings."""

    def _build_first_launch(self) -> None:
        """Creates the repeated launches for the first bindings."""
        launch = self._build_launch()
        self._launch = self._make_repeatable(launch)
        if self._device.replays:
            self._cached_launches[self._addresses()] = launch, self._launch

    def _rebuild_launch(self) -> Launch:
        """The launches for the bindings after `rebind`."""
        if not self._device.replays:
            launch = self._build_launch()
            if self._built is None or self._built[0] is not launch:
                self._built = launch, self._make_repeatable(launch)
            self._launch = self._built[1]
            return self._launch
        key = self._addresses()
        kept = self._cached_launches.pop(key, None)
        launch, repeated = (self._build_launch(), None) if kept is None else kept
        if repeated is None and (kept is not None or not self._is_replayed):
            repeated = self._make_repeatable(launch)
        self._cached_launches[key] = launch, repeated
        if len(self._cached_launches) > MAX_CACHED_LAUNCHES:
            del self._cached_launches[next(iter(self._cached_launches))]
        if repeated is None:
            return self._device.dispatched(launch, self._name, self._memories)
        self._launch = repeated
        return repeated

    def _wait(self, stream: int) -> None:
        """Makes a stream wait; waits that are not possible in a capture stay for the next call."""
        self._waits = {key: wait for key, wait in self._waits.items() if not wait(stream)}

    def _addresses(self) -> tuple[int, ...]:
        return tuple([item.pointer for item in self._bound.values()])

    def _make_repeatable(self, launch: Launch) -> Launch:
        whole = self._device.replayed(launch) if self._is_replayed else launch
        return self._device.dispatched(whole, self._name, self._memories)

    def rebind(self, *unnamed: Never, **tensors: Any) -> None:
        """Binds other memory to some inputs and outputs; all others stay bound.

        Everything is checked here; the next call prepares what the new addresses need. Dispatches that were enqueued
        before still use the old memory. On a GPU work that is replayed as a CUDA graph is launched part by part after this, and captured
        when it is called with the same memory again, since CuPy cannot change the addresses in an instantiated graph. The graphs of the
        last four sets of memory are cached, so alternating between some buffers captures each of them once.

        Args:
            *unnamed: nothing: arrays are given by name.
            **tensors: arrays or `Buffer`s by name, as for `bind`.

        Raises:
            BindError: memory that does not fit or is used twice; all stays as it was.
            DispatchError: a call is in progress.
        """
        if unnamed:
            raise binding.unnamed_error(self._name, self._bound, unnamed, "dispatch.rebind")
        self._run_exclusively(self._rebind, tensors)

    def profile(self, runs: int = 20, stream: Any = None) -> Profile:
        """Measures the whole dispatch and each of its nodes by itself, with the memory that is bound.

        Args:
            runs: how many runs are measured, after one that is not.
            stream: as for a call. This synchronises.

        Raises:
            DescError: `runs` is not a number from 1 on.
            BindError, DeviceError, DispatchError: as for a call; a stream that is being captured cannot be profiled.
        """
        from dmlpy.devices.reporting.profile import Profile, checked_runs, profile_parts, profile_whole  # imports tables

        profiles: list[Profile] = []
        count, handle = checked_runs(runs, f"{self._name}.profile"), self._stream_handle(stream)

        def measure(_: Any) -> None:
            whole_us = profile_whole(self._device, lambda: self._enqueue(handle), count, handle)
            parts = [
                part._replace(launch=self._device.dispatched(part.launch, part.name, self._memories)) for part in self._profiled_parts()
            ]
            profiles.append(Profile(self._name, self._device.name, profile_parts(self._device, parts, count, handle), whole_us))

        self._run_exclusively(measure, None)
        return profiles[0]

    @abstractmethod
    def _profiled_parts(self) -> Sequence[ProfiledPart]:
        """The launches of the nodes for the current bindings."""

    def _rebind(self, tensors: Mapping[str, Any]) -> None:
        known = self._bound
        problems: list[Problem] = []
        if not tensors.keys() <= known.keys():
            tensors, problems = self._by_place(tensors)
        changed: dict[str, BoundTensor] = {}
        producers: dict[str, int] = {}
        for name, value in tensors.items():
            if value is None:
                problems.append(_taken_away(name))
                continue
            item, wrong = self._bind_replacement(known[name], value)
            if item is not None:
                changed[name] = item
                if item.producer is not None:
                    producers[name] = item.producer
            if wrong:
                problems += wrong
        bound = {**known, **changed}
        spans = {**(self._spans or _spans(known)), **_spans(changed)}
        if not problems and _may_share(changed, spans, self._areas.values()):
            problems = self._hazards(bound)
        if problems:
            raise BindError(f"{self._name}.rebind", problems)
        waits = self._waits
        if producers or waits:
            waits = {key: wait for key, wait in waits.items() if key not in changed}
            waits |= {name: self._device.wait_for(producer) for name, producer in producers.items()}
        # From here on nothing fails. After an interrupt the next call recreates everything from the current bindings.
        self._spans = {}
        self._launch = None
        self._update_value_bounds(bound)
        self._bound = bound
        self._spans = spans
        self._waits = waits

    def _bind_replacement(self, old: BoundTensor, value: Any) -> tuple[BoundTensor | None, list[Problem]]:
        """The memory of a value that replaces another one."""
        return binding.bind_tensor(self._device, old.name, old.desc, value, output=old.output, known=self._layouts[old.name])

    @abstractmethod
    def _by_place(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """Values by the names in `_bound`, and the problems of unknown names."""

    @abstractmethod
    def _hazards(self, bound: Mapping[str, BoundTensor]) -> list[Problem]:
        """The problems with memory that is bound twice."""

    @abstractmethod
    def _update_value_bounds(self, bound: Mapping[str, BoundTensor]) -> None:
        """Updates the values that have bounds."""


def _taken_away(name: str) -> Problem:
    return Problem("bind.missing", name, "None", "memory: what is bound can be replaced, not taken away")


def _spans(bound: Mapping[str, BoundTensor]) -> dict[str, Span]:
    return {name: (item.pointer, item.end, item.output) for name, item in bound.items()}


def _may_share(changed: Iterable[str], spans: Mapping[str, Span], areas: Iterable[Area]) -> bool:
    """Whether changed memory overlaps other memory, except inputs with inputs: a quick check before all hazard rules."""
    for name in changed:
        start, end, output = spans[name]
        for first, last in areas:
            if start < last and first < end:
                return True
        for other, (first, last, written) in spans.items():
            if start < last and first < end and (output or written) and other != name:
                return True
    return False


class DispatchedOperator(Protocol):
    """The part of `CompiledOperator` that a dispatch uses."""

    @property
    def desc(self) -> OperatorDesc: ...

    @property
    def device(self) -> Device: ...

    @property
    def feature_level(self) -> FeatureLevel | None: ...

    @property
    def flags(self) -> ExecutionFlags: ...

    @property
    def name(self) -> str: ...

    @property
    def plan(self) -> str: ...

    @property
    def binding_properties(self) -> BindingProperties: ...

    def explain_plan(self) -> PlanReport: ...

    def __call__(self, *, stream: Any = None, copy: bool = False, validate: bool = False, temporary: Any = None, **tensors: Any) -> Any: ...

    @property
    def _plan(self) -> Plan: ...

    @property
    def _tables(self) -> OperatorTables: ...

    def _host_bounded_values(self, bound: Sequence[BoundTensor]) -> BoundedValues:
        """The values of bound tensors in host memory that have bounds, with these."""

    def _bind_reserve(self, old: BoundTensor, value: Any) -> tuple[BoundTensor | None, list[Problem]]:
        """The memory of a reserve that replaces a bound tensor's, and the problems with it."""


@foreign_members
class Dispatch(Rebindable):
    """One operator with all its memory: calling it launches and does nothing else.

    It allocates nothing and does not synchronise, so it can be repeated and captured in a CUDA graph. It keeps the arrays that
    were bound alive, not the memory behind a `Buffer`. Its scratch and packed constants live as long as a graph that captures it; whoever
    captures it keeps the arrays.

    It owns its scratch, so one thread at a time may call it: a second call at the same time raises `DispatchError`. On a GPU a call is
    over when its work is enqueued. Runs that one dispatch has enqueued into different streams must be ordered by the caller (with events):
    two that overlap on the GPU would spoil each other's scratch, and no call can see that. Threads may call different dispatches at the
    same time, also into one stream, where their kernels may alternate. If these share an output or scratch (`temporary`), or one reads what
    another writes, the caller orders their calls as well.

    On a GPU each call is an NVTX range with the name of the desc's struct (`DML_LSTM_OPERATOR_DESC`) for profilers; within that of a
    stacked network each layer is one (`layer 0`), unless a CUDA graph replays them all at once.
    """

    def __init__(
        self,
        operator: DispatchedOperator,
        bound: Sequence[BoundTensor],
        launched: Callable[[Sequence[BoundTensor]], Launch],
        areas: Mapping[str, Area],
        memories: Sequence[Memory],
        keep: tuple[Any, ...],
        producers: Sequence[int],
    ) -> None:
        layouts, replayed = operator._tables.layouts, operator._plan.capturable
        super().__init__(operator.name, operator.device, bound, layouts, areas, memories, producers, replayed=replayed)
        self.operator = operator
        self._launched = launched
        self._keep = keep
        self._sequence: LaunchSequence | None = None
        self._value_bounds = operator._host_bounded_values(bound)
        self._build_first_launch()

    def _enqueue(self, stream: int) -> None:
        if self._value_bounds:
            check_value_bounds(self._name, self._value_bounds)
        if self._waits:
            self._wait(stream)
        try:
            (self._launch or self._rebuild_launch())(stream)
        except MemoryError as error:
            raise no_memory(self._name, error) from None

    def _by_place(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        table = self.operator._tables.all["persistent" in self._areas]
        values, problems = table.by_place(tensors)
        problems += [_taken_away(spelling) for spelling, value in tensors.items() if value is None]
        return values, problems

    def _bind_replacement(self, old: BoundTensor, value: Any) -> tuple[BoundTensor | None, list[Problem]]:
        return self.operator._bind_reserve(old, value) if type(value) is Reserve else super()._bind_replacement(old, value)

    def _hazards(self, bound: Mapping[str, BoundTensor]) -> list[Problem]:
        areas = self._areas
        return binding.hazards(self.operator.desc, tuple(bound.values()), areas.get("temporary"), areas.get("persistent"))

    def _build_launch(self) -> Launch:
        sequence = self._sequence
        self._sequence = None  # after an interrupt it is created anew
        if sequence is not None and sequence.relocatable:
            sequence.relocate({name: item.pointer for name, item in self._bound.items()})
        else:
            sequence = self._device.sequence([self._launched(tuple(self._bound.values()))])
        self._sequence = sequence
        return sequence.parts[0][0]

    def _profiled_parts(self) -> Sequence[ProfiledPart]:
        from dmlpy.devices.flops import flops_of  # imports operators
        from dmlpy.devices.reporting.profile import ProfiledPart

        desc = self.operator.desc
        return [ProfiledPart(self._name, type(desc).short_name(), self._launched(tuple(self._bound.values())), flops_of(desc))]

    def _update_value_bounds(self, bound: Mapping[str, BoundTensor]) -> None:
        if self._value_bounds:
            self._value_bounds = self.operator._host_bounded_values(tuple(bound.values()))

    def _repr_html_(self) -> str:
        from dmlpy.devices.reporting.notebook import bound_table

        return bound_table(repr(self), self._bound.values()).to_html()
