"""The rates of rooflines: the best of several measurements counts, and what disturbed the others is said."""

from __future__ import annotations

from typing import Any

import pytest

from dmlpy.bench import calibration, machine, picture, tables
from dmlpy.bench.calibration import Calibration
from dmlpy.bench.process import FailedError, TimeOverError
from dmlpy.bench.records import Host, Measurement, Record, floor_us
from dmlpy.bench.shapes import SHAPES
from dmlpy.bench.work import Case

CASE = Case(SHAPES["gru-64-b1-t100"], "FLOAT32", "forward")
PRODUCTS = [machine.product_key(product) for product in machine.products_of(CASE)]


class Worker:
    """A process whose rates are the next factor times 10."""

    def __init__(self, *factors: float | Exception) -> None:
        self.factors = list(factors)
        self.asked: list[dict[str, Any]] = []

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments)
        factor = self.factors.pop(0)
        if isinstance(factor, Exception):
            raise factor
        keys = [machine.product_key(product) for product in arguments["products"]]
        return {"copies": {str(size): 10 * factor for size in arguments["copies"]}, "products": dict.fromkeys(keys, 10 * factor)}


def record_of(*runs: Measurement) -> Record:
    host = Host(processor="a CPU", system="Linux", cores=2, threads=2)
    return Record(date="2026-01-01T00:00:00+00:00", device={"kind": "cpu", "name": "CPU"}, host=host, runs=[*runs])


def run_of(subject: str, least_us: float, roofline_us: float | None, *, median_us: float | None = None) -> Measurement:
    median = least_us if median_us is None else median_us
    return Measurement(
        shape="gru-64-b1-t100",
        dtype="FLOAT32",
        pass_="forward",
        subject=subject,
        mode="eager",
        status="ok",
        median_us=median,
        least_us=least_us,
        per_step_us=median / 100,
        floor_us=roofline_us,
    )


def measured(*factors: float | Exception) -> tuple[Record, list[str]]:
    """A record after calibrations that are the last for a case, and what was told."""
    record, worker, told = record_of(), Worker(*factors), list[str]()
    calibrated = Calibration(record, "cpu", told.append)
    while worker.factors:
        calibrated.measure(CASE, worker, is_last=True)
    return record, told


@pytest.mark.parametrize("factors", [(1.0, 3.0, 2.0), (3.0, 1.0, 2.0), (2.0, 1.0, 3.0)])
def test_the_best_of_several_rates_counts(factors: tuple[float, ...]) -> None:
    record, _ = measured(*factors)
    assert record.machine.copy_gb_s == 30
    assert [record.machine.gemm_gflops[key] for key in PRODUCTS] == [30, 30]
    assert set(record.machine.cached_copy_gb_s.values()) == {30}
    assert record.machine.rate_spread == 3
    assert record.machine.was_busy
    assert any("busy while its rates were measured: they differ by a factor of 3.0" in line for line in tables.reasons(record))


def test_an_idle_machine_is_not_called_busy() -> None:
    record, _ = measured(1.0, 1.1, 1.05)
    assert record.machine.rate_spread == pytest.approx(1.1)
    assert not record.machine.was_busy
    assert tables.reasons(record) == []


@pytest.mark.parametrize("error", [FailedError("it crashed"), TimeOverError()], ids=["failed", "time over"])
def test_rates_stay_where_a_measurement_fails(error: Exception) -> None:
    record, told = measured(1.0, error)
    assert record.machine.copy_gb_s == 10
    assert len(told) == 1


def test_a_rate_is_not_measured_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is the last time for a case: then it was measured before and after."""
    now = [0.0]
    monkeypatch.setattr("dmlpy.bench.calibration.time.monotonic", lambda: now[0])
    worker = Worker(1.0, 1.0, 1.0)
    calibrated = Calibration(record_of(), "cpu", print)
    for is_last, asked in ((False, 1), (False, 1), (True, 2)):
        calibrated.measure(CASE, worker, is_last=is_last)
        assert len(worker.asked) == asked
    now[0] = calibration.RECENT_S + 1
    calibrated.measure(CASE, worker)
    assert len(worker.asked) == 3


@pytest.mark.parametrize(
    ("runs", "floor"),
    [
        ([run_of("dmlpy", 100.0, 40.0), run_of("torch", 120.0, 40.0)], 40.0),
        ([run_of("dmlpy", 100.0, 140.0), run_of("torch", 120.0, 140.0)], 100.0),
        ([run_of("dmlpy", 100.0, 110.0), run_of("torch", 90.0, 110.0)], 90.0),
        ([run_of("dmlpy", 100.0, None), run_of("torch", 90.0, None)], None),
        ([], None),
    ],
    ids=["below", "above", "between", "no roofline", "nothing"],
)
def test_the_floor_is_above_no_time(runs: list[Measurement], floor: float | None) -> None:
    assert floor_us(runs) == floor


def test_tables_and_pictures_have_no_time_below_its_floor() -> None:
    """Also of records that were made while the machine was busy, as all could be before rates were measured several times."""
    record = record_of(run_of("dmlpy", 1.8, 80.0, median_us=2.0), run_of("torch", 2.5, 80.0))
    (row,) = tables.rows(record)
    assert row.over_floor() == pytest.approx(2.0 / 1.8)
    assert "0.0×" not in tables.markdown(record)
    (line,) = picture.lines(record)
    assert line.floor == pytest.approx(1.8 / 2.0)
