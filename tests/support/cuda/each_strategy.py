"""The strategies that can be selected for a CUDA device."""

from __future__ import annotations

import pytest

EACH_STRATEGY = pytest.mark.parametrize("device", ["persistent_block", "persistent_grid", "per_step"], indirect=True)
