"""`Dispatch`: an operator with all its memory bound, and the base of every kind of dispatch."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlpy.devices.device import Device, no_memory
from dmlpy.validation.array_problems import value_problems
from dmlpy.validation.problems import BindError, DispatchError, PickleError

if TYPE_CHECKING:
    from dmlpy.devices.binding import Bound
    from dmlpy.devices.operator import CompiledOperator
    from dmlpy.devices.plan import Launch


@dataclass(frozen=True)
class Limit:
    """An upper limit on the values of an input."""

    name: str
    limit: int
    symbol: str


Limits = Sequence[tuple[Limit, np.ndarray[Any, Any]]]
"""Limits, and the values in host memory that they are for."""


def check_limits(name: str, limits: Limits) -> None:
    """Raises BindError if any value is out of its range; `name` is the operator's or graph's."""
    for limit, values in limits:
        if values.max() > limit.limit or values.min() < 0:
            raise BindError(name, value_problems(limit.name, values, limit.limit, limit.symbol))


_forks = 0
"""How often this process descends from a fork. Calls that were under way in the parent's other threads do not exist here."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class BoundWork(ABC):
    """Work with all its memory bound, called by one thread at a time: two calls at once would corrupt each other's scratch and outputs.

    A second call while one is under way raises `DispatchError`. The call that is under way is not disturbed.
    """

    def __init__(self, name: str, device: Device) -> None:
        self._name, self._device = name, device
        self._stream_handle = device.stream_handle
        self._under_way: dict[int, object] = {}
        """The call that is under way in this process: `dict.setdefault` is atomic. A lock could stay locked by an interrupt or a fork."""

    def __call__(self, stream: Any = None) -> None:
        """Enqueues the work.

        Args:
            stream: None (the device's current stream), an integer handle, or any object with `.ptr`.

        Raises:
            BindError: a sequence length in host memory is above T or negative; nothing was written.
            DeviceError: the launch failed, or there was no memory for its temporaries.
            DispatchError: another call is under way, on another thread or further up the stack.
        """
        self._alone(self._enqueue_on, stream)

    def _enqueue_on(self, stream: Any) -> None:
        self._enqueue(self._stream_handle(stream))

    def _alone(self, work: Callable[[Any], None], argument: Any) -> None:
        """Does work that no other call of this object may overlap."""
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


class Dispatch(BoundWork):
    """One operator with all its memory: calling it launches and does nothing else.

    It allocates nothing and does not synchronise, so it can be repeated and captured in a CUDA graph. It keeps the arrays that
    were bound alive, not the memory behind a `Buffer`; whoever captures it keeps it as long as the graph.

    It owns its scratch, so one thread at a time may call it: a second call at the same time raises `DispatchError`. On a GPU a call is
    over when its work is enqueued. Runs that one dispatch has enqueued into different streams must be ordered by the caller (with events):
    two that overlap on the GPU would spoil each other's scratch, and no call can see that. Threads may call different dispatches at the
    same time, also into one stream, where their kernels may alternate. If these share an output or scratch (`temporary`), or one reads what
    another writes, the caller orders their calls as well.

    On a GPU each call is an NVTX range with the name of the desc's struct (`DML_LSTM_OPERATOR_DESC`) for profilers; within that of a
    stacked network each layer is one (`layer 0`), unless a CUDA graph replays them all at once.
    """

    def __init__(self, operator: CompiledOperator, bound: list[Bound], launch: Launch, keep: tuple[Any, ...]) -> None:
        super().__init__(operator.name, operator.device)
        self.operator = operator
        self._bound = bound
        self._launch = launch
        self._keep = keep
        self._limits = operator._host_limits(bound)

    def _enqueue(self, stream: int) -> None:
        if self._limits:
            check_limits(self._name, self._limits)
        try:
            self._launch(stream)
        except MemoryError as error:
            raise no_memory(self._name, error) from None

    def _repr_html_(self) -> str:
        from dmlpy.devices.notebook import bound_table

        return bound_table(repr(self), self._bound).to_html()
