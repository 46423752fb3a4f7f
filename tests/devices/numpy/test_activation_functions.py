"""The NumPy device's activations against their definitions: accuracy, limits, and what they leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from dmlpy.reference.activation import activate
from tests.support.operators.activation_cases import (
    ALL,
    ALONE,
    CANCELLING,
    INF,
    LIMITS,
    LIMITS_ALONE,
    NAN,
    Array,
    M,
    definition,
    evaluate,
    exact_gelu,
    gelu_points,
    label,
)
from tests.support.tables import table

KINDS = {type(desc) for desc in ALL}


def reference(desc: ActivationDesc, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return activate(desc, x)


COMPUTED = pytest.mark.parametrize("computed", [evaluate, reference], ids=["device", "reference"])


@COMPUTED
@table("dtype", [np.float32, np.float64])
@table(("desc", "values"), LIMITS + LIMITS_ALONE, ids=[label(desc) for desc in ALL + ALONE])
def test_limits(computed: Any, desc: ActivationDesc, values: list[float], dtype: Any) -> None:
    at = np.array([0.0, -0.0, INF, -INF, NAN, M, -M], dtype)
    found = computed(desc, at)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.array(values, dtype), rtol=2e-7)


@COMPUTED
@table("dtype", [np.float32, np.float64])
@table("desc", [desc for desc in ALL + ALONE if label(desc) != "Gelu"], ids=label)
def test_values_match_the_definition(computed: Any, desc: ActivationDesc, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    near, wide = rng.normal(0.0, 1.0, 2000), rng.uniform(-43.0, 43.0, 2000)
    tiny = rng.normal(0.0, 1.0, 200) * 10.0 ** rng.uniform(-30.0, -3.0, 200)
    x = np.concatenate([near, wide, tiny]).astype(dtype)
    expected = np.array([definition(desc, float(value)) for value in x])
    allowed = 1e-14 if dtype == np.float64 else 1e-6
    absolute = allowed if isinstance(desc, CANCELLING) else float(np.finfo(dtype).tiny)
    np.testing.assert_allclose(computed(desc, x), expected, rtol=allowed, atol=absolute)


@COMPUTED
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_stays_accurate(computed: Any, dtype: Any) -> None:
    x = gelu_points(dtype)
    expected = np.array([exact_gelu(float(value))[0] for value in x])
    # In float32 the device loses what the rounding of x would change besides.
    allowed = np.full(x.shape, 2e-15) if dtype == np.float64 else 1e-6 + x.astype(np.float64) ** 2 * 2.0**-24
    found = computed(descs.ActivationGeluDesc(), x)
    assert (np.abs(found - expected) <= allowed * np.abs(expected)).all()


@table("desc", ALL + ALONE, ids=label)
@table("dtype", [np.float32, np.float64])
def test_in_place_is_the_same_and_inputs_are_left_alone(desc: ActivationDesc, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(0.0, 3.0, 61), [INF, -INF, NAN, 0.0]]).astype(dtype)
    kept, out = x.copy(), np.full_like(x, NAN)
    activation = Activation.of(desc, np.dtype(dtype))
    # More scratch than needed, as in a plan whose activations share it, and full of NaN.
    work, mask = np.full((activation.work + 2, x.size + 5), NAN, dtype), np.ones(x.size + 5, np.bool_)
    with np.errstate(all="ignore"):
        activation.bind(x, out, work, mask)()
        np.testing.assert_array_equal(x, kept)
        activation.bind(x, x, work, mask)()
    np.testing.assert_array_equal(x, out)
    np.testing.assert_array_equal(evaluate(desc, kept[:, None].repeat(2, 1).T), np.stack([out, out]))


@table("desc", ALL + ALONE, ids=label)
@table("dtype", [np.float32, np.float64])
def test_arrays_may_have_any_strides(desc: ActivationDesc, dtype: Any) -> None:
    # As the gradient computes values again, in place too. `numpy.negative` in place is wrong for some of these strides.
    activation, x = Activation.of(desc, np.dtype(dtype)), np.random.default_rng(6).normal(0.0, 3.0, 37).astype(dtype)
    expected = evaluate(desc, x)
    for stride in range(2, 18):
        memory = np.full((2, x.size, stride), NAN, dtype)
        work, mask = np.full((activation.work, x.size), NAN, dtype), np.ones(x.size, np.bool_)
        source, out = memory[0, :, 0], memory[1, :, -1]
        source[...] = x
        with np.errstate(all="ignore"):
            for target in (out, source):
                activation.formula(source, target, work, mask, *activation.constants)
                np.testing.assert_allclose(target, expected, rtol=1e-6, atol=1e-6, err_msg=f"{stride} elements apart")
        assert np.isnan(memory).sum() == memory.size - 2 * x.size


def test_every_fusable_activation_is_here() -> None:
    fusable = {kind for kind in vars(descs).values() if isinstance(kind, type) and issubclass(kind, ActivationDesc) and kind.fusable}
    concrete = {kind for kind in fusable if kind not in (ActivationDesc, descs.ElementWiseActivationDesc)}
    assert concrete == KINDS


def test_an_activation_of_rows_is_refused() -> None:
    with pytest.raises(TypeError, match="ActivationSoftmaxDesc has no element-wise formula"):
        Activation.of(descs.ActivationSoftmaxDesc(), np.dtype(np.float32))
