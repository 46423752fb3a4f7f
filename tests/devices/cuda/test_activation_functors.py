"""The activation functors of the kernels against their definitions, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.operators.activation import ActivationDesc
from tests.support.cuda.functors import INF, KINDS, NAN, apply, check_accuracy
from tests.support.operators.activation_cases import ALL, ALONE, LIMITS, LIMITS_ALONE, label

LARGEST = float(np.finfo(np.float32).max)


def test_every_activation_is_here() -> None:
    assert set(ATTRIBUTES) == {type(desc) for desc in ALL}
    assert set(KINDS) == {type(desc) for desc in ALL + ALONE}


@pytest.mark.parametrize(("desc", "values"), LIMITS + LIMITS_ALONE, ids=[label(desc) for desc in ALL + ALONE])
def test_limits(cuda_runtime: CudaRuntime, desc: ActivationDesc, values: list[float]) -> None:
    found = apply(cuda_runtime, desc, np.array([0.0, -0.0, INF, -INF, NAN, LARGEST, -LARGEST], np.float32))
    np.testing.assert_allclose(found, np.array(values, np.float32), rtol=2e-7)


@pytest.mark.parametrize("desc", ALL + ALONE, ids=label)
def test_accuracy(cuda_runtime: CudaRuntime, desc: ActivationDesc) -> None:
    check_accuracy(cuda_runtime, desc)
