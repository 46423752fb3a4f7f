"""`ResidentPlan`: a plan whose blocks all have to run at the same time, and its fallback if they do not fit on the device.

The resources of a block are known once its kernel is loaded, and a plan is not made if its blocks need more multiprocessors
than the device reports. But a launch may get fewer: a stream of a green context has a part of the device, and so may a client
of MPS. Then the driver rejects the launch before any block runs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from dmlpy.debugging import FALLBACKS, log_once
from dmlpy.devices.cuda.recurrent.base import RecurrencePlan
from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cost import Cost
    from dmlpy.devices.plan import Launch, Plan, Pointers

_handing_over = forks.lock()
_CAPTURED = "other kernels cannot be loaded while the stream is being captured: dispatch this once outside of a capture"


class ResidentPlan(RecurrencePlan):
    """A plan that is replaced by another one, permanently, when binding or launching it fails.

    Its launches then do the successor's work instead, from the start, in the same scratch. Only constants that were packed for this plan
    cannot be used by the successor: launches that read them raise DeviceError, and have to be prepared again.
    """

    is_capturable = False
    """`capturable`, as long as it has no successor."""

    _successor: Plan | None = None
    _make_successor: Callable[[str], Plan] | None = None

    def fall_back_on(self, make: Callable[[str], Plan]) -> None:
        """Sets the maker of the successor, which gets the reason. From now on scratch and packed constants are large enough for both."""
        other = make("")
        self._make_successor = make
        self.temporary_size = max(self.temporary_size, other.temporary_size)
        self.persistent_size = max(self.persistent_size, other.persistent_size)

    @property
    def current(self) -> Plan:
        return self if self._successor is None else self._successor

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Whether a bound launch gains by being captured once and replayed (a CUDA graph)."""
        return self.is_capturable if self._successor is None else self._successor.capturable

    def describe(self) -> str:
        return super().describe() if self._successor is None else self._successor.describe()  # type: ignore[safe-super]

    def cost(self) -> Cost:
        return super().cost() if self._successor is None else self._successor.cost()

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        """The work of one dispatch: as for `Plan`, and the successor's if there is one."""
        is_prepared = persistent is not None

        def bind_successor() -> Launch:
            return self.current.bind(tensors, temporary, None)

        if self._successor is not None and not is_prepared:
            return bind_successor()
        try:
            resident = self._bind_resident(tensors, temporary, persistent)
        except NotResidentError as error:
            self._hand_over(error, is_prepared=is_prepared)
            return bind_successor()
        instead: Launch | None = None

        def launch(stream: int) -> None:
            nonlocal instead
            if self._successor is None or is_prepared:
                try:
                    resident(stream)
                except NotResidentError as error:
                    self._hand_over(error, is_prepared=is_prepared, is_captured=self._library.runtime.is_capturing(stream))
                else:
                    return
            if instead is None:
                instead = bind_successor()
            instead(stream)

        return launch

    @abstractmethod
    def _bind_resident(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        """The work of one dispatch by this plan itself."""

    def _hand_over(self, error: NotResidentError, *, is_prepared: bool, is_captured: bool = False) -> None:
        """Creates the successor, unless it exists already.

        Raises:
            DeviceError: there is none, it cannot be loaded now, or the constants are packed for this plan.
        """
        if self._make_successor is None:
            raise error
        if self._successor is None and is_captured:
            raise NotResidentError(f"{error}; {_CAPTURED}") from error
        with _handing_over:
            if self._successor is None:
                successor = self._make_successor(str(error))
                successor.load()
                log_once(FALLBACKS, lambda: f"{self.label}: {error}: other kernels run instead")
                self._successor = successor
        if is_prepared:
            raise DeviceError(
                f"{self.label}: {error}, and its constants are packed for them. Call prepare again, or compile the graph again: that is "
                "now for kernels whose blocks need not run together"
            ) from error
