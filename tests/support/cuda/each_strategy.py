"""The strategies that a CUDA device may be told to take."""

from __future__ import annotations

import pytest

EACH_STRATEGY = pytest.mark.parametrize("device", ["persistent_block", "persistent_grid", "per_step"], indirect=True)
