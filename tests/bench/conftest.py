"""What benchmarks measure of the machine is small in tests: nobody reads the rates."""

from __future__ import annotations

import pytest

from dmlpy.bench import calibration, machine


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a megabyte, in place of 128, and no rests before them."""
    monkeypatch.setitem(machine.COPIED_BYTES, "cpu", 1 << 20)
    monkeypatch.setattr(calibration, "REST_S", 0.0)
