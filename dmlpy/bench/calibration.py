"""`Calibration`: the rates of the processor, measured before, between and after the rounds of a case."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from dmlpy.bench import machine
from dmlpy.bench.process import AbsentError, FailedError, TimeOverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.bench.process import Worker
    from dmlpy.bench.records import Machine
    from dmlpy.bench.work import Case

REST_S = 0.2
"""The pause before the next library's turn on the CPU: threads spin-wait after their work, OpenBLAS's for about 0.1 s."""

RECENT_S = 3.0
"""The seconds for which a rate is not measured again, unless it is the last time for a case."""


class Rates(Protocol):
    """A record that receives rates."""

    machine: Machine


class Calibration:
    """Measures the rates that cases' rooflines need. Of several measurements of a rate the best one counts: others were disturbed.

    Args:
        record: receives the rates.
        device_name: the device.
        inform: receives why rates are unknown.
    """

    def __init__(self, record: Rates, device_name: str, inform: Callable[[str], None]) -> None:
        self._record, self._device_name, self._inform = record, device_name, inform
        self._when: dict[str, float] = {}
        """The time of each rate's last measurement, by its key."""
        self._worst: dict[str, float] = {}
        """The lowest rate that was measured here, by its key."""

    def measure(self, case: Case, worker: Worker, *, is_last: bool = False) -> None:
        """Measures a case's rates. If that fails, those of earlier measurements stay.

        Args:
            case: the case.
            worker: the process that measures.
            is_last: whether to measure also those that were measured in the last seconds, as for the case before.
        """
        recent = set() if is_last else {key for key, when in self._when.items() if time.monotonic() - when < RECENT_S}
        products = [product for product in machine.products_of(case) if machine.product_key(product) not in recent]
        copies = [size for size in machine.copies_of(case) if f"copy {size}" not in recent]
        if not products and not copies:
            return
        time.sleep(REST_S)
        try:
            rates = worker.ask("rates", device=self._device_name, products=products, copies=copies)
        except (AbsentError, FailedError, TimeOverError) as error:
            self._inform(f"the device's rates are unknown: {error}")
            return
        machine_rates, large = self._record.machine, str(machine.COPIED_BYTES["cpu"])
        for key, rate in rates["copies"].items():
            if key == large:
                machine_rates.copy_gb_s = max(rate, machine_rates.copy_gb_s or 0.0)
            else:
                machine_rates.cached_copy_gb_s[key] = max(rate, machine_rates.cached_copy_gb_s.get(key, 0.0))
            self._note(f"copy {key}", rate, machine_rates.cached_copy_gb_s.get(key, machine_rates.copy_gb_s or rate))
        for key, rate in rates["products"].items():
            machine_rates.gemm_gflops[key] = max(rate, machine_rates.gemm_gflops.get(key, 0.0))
            self._note(key, rate, machine_rates.gemm_gflops[key])

    def _note(self, key: str, rate: float, best: float) -> None:
        """Records how far apart the measurements of a rate are."""
        machine_rates = self._record.machine
        self._when[key] = time.monotonic()
        self._worst[key] = min(rate, self._worst.get(key, rate))
        machine_rates.rate_spread = max(machine_rates.rate_spread or 1, best / self._worst[key])
