"""Training forms and gradients against Keras: step masks and dropout multipliers, as its layers have them, on every device."""

from __future__ import annotations

import pytest

import dmlpy as dml
from tests.support.keras.gradients import ENTRIES, check_keras


@pytest.mark.parametrize("case", ENTRIES)
def test_keras(any_device: dml.Device, case: str) -> None:
    check_keras(any_device, case)
