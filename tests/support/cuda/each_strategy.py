"""The strategies that a CUDA device may be told to take."""

from __future__ import annotations

import pytest

EACH_STRATEGY = pytest.mark.parametrize("device", ["walk", "grid", "step"], indirect=True)
