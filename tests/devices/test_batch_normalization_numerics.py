"""Batch normalization of difficult numbers: far from zero, of large variance, very many; and NaN and infinities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.reference.normalization.batch import statistics
from tests.support.operators.batch_normalization_runs import LAYOUTS as MEMORY_LAYOUTS
from tests.support.operators.batch_normalization_runs import results
from tests.support.operators.exact import exact
from tests.support.operators.normalization_cases import INPUTS, MODES, Array, Arrays, case, check, described, random_values, run
from tests.support.tolerance import assert_close

DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
MODE = pytest.mark.parametrize("mode", MODES)
TRAINING = "BATCH_NORMALIZATION_TRAINING"
LAYOUTS = pytest.mark.parametrize("channels", [1, 3], ids=["channels second", "channels last"])


def images(channels: int, batch: int, count: int, height: int, width: int) -> tuple[int, ...]:
    return (batch, count, height, width) if channels == 1 else (batch, height, width, count)


def training(x: Array, channels: int, **members: Any) -> tuple[Any, dict[str, Array]]:
    """BATCH_NORMALIZATION_TRAINING of x with a scale of 1 and a bias of 0."""
    sizes = [size if axis == channels else 1 for axis, size in enumerate(x.shape)]
    arrays = {"input_tensor": x, "scale_tensor": np.ones(sizes, x.dtype), "bias_tensor": np.zeros(sizes, x.dtype)}
    return described(dml.BatchNormalizationTrainingDesc, arrays, **members), arrays


def errors(found: Arrays, expected: Arrays) -> dict[str, float]:
    """Of the mean, absolute in units of its group's standard deviation; of the variance, relative; of y, absolute. The largest ones."""
    variance = expected["output_variance_tensor"]
    differences = {name: np.abs(found[name].astype(np.float64) - expected[name]) for name in expected}
    return {
        "mean": float(np.max(differences["output_mean_tensor"] / np.sqrt(variance))),
        "variance": float(np.max(differences["output_variance_tensor"] / variance)),
        "y": float(np.max(differences["output_tensor"])),
    }


@LAYOUTS
@pytest.mark.parametrize("mean", [1e2, 1e4, -1e4, 1e6])
def test_a_mean_far_from_zero(every_device: dml.Device, mean: float, channels: int) -> None:
    """Of variance 1. FLOAT32 rounds a mean of 1e4 by up to 4.9e-4; the variance, and y, which does not wait for that, stay accurate."""
    x = np.random.default_rng(1).normal(mean, 1, images(channels, 8, 3, 17, 16)).astype(np.float32)
    desc, arrays = training(x, channels, epsilon=1e-5)
    found = errors(run(every_device, desc, arrays), exact(desc, arrays))
    assert found["mean"] <= half_a_step(mean) + 1e-6
    assert found["variance"] <= 1e-6
    assert found["y"] <= 2e-6


def half_a_step(number: float) -> float:
    """What rounding to FLOAT32 costs, and a little more."""
    return 0.51 * float(np.spacing(np.float32(abs(number))))


@LAYOUTS
@pytest.mark.parametrize("mean", [1e2, 1e4])
@pytest.mark.parametrize("mode", [mode for mode, (_, of_batch) in MODES.items() if of_batch and "GRAD" in mode])
def test_gradients_where_the_mean_is_far_from_zero(every_device: dml.Device, mode: str, mean: float, channels: int) -> None:
    rng, sizes = np.random.default_rng(2), images(channels, 8, 3, 17, 16)
    desc, arrays = case(mode, rng, sizes, (channels,))
    names = {role: name for name, role in INPUTS[type(desc)].items()}
    x = arrays[names["x"]] = rng.normal(mean, 1, sizes).astype(np.float32)
    of_batch = statistics(x.astype(np.float64), tuple({0, 1, 2, 3} - {channels}))
    for role, values in zip(("mean", "variance"), of_batch, strict=True):
        arrays[names[role]] = values.reshape(arrays[names[role]].shape).astype(np.float32)
    check(run(every_device, desc, arrays), desc, arrays)


@LAYOUTS
def test_a_gradient_along_the_input_where_the_mean_is_far_from_zero(every_device: dml.Device, channels: int) -> None:
    """Then dx is tiny compared with dy: what FLOAT32 rounds off a mean of 1e4, up to 4.9e-4 deviations, would stand out in it."""
    rng, sizes = np.random.default_rng(2), images(channels, 8, 3, 17, 16)
    desc, arrays = case("BATCH_NORMALIZATION_TRAINING_GRAD", rng, sizes, (channels,))
    x = rng.normal(1e4, 1, sizes).astype(np.float32)
    mean, variance = statistics(x.astype(np.float64), tuple({0, 1, 2, 3} - {channels}))
    arrays |= {
        "input_tensor": x,
        "input_gradient_tensor": (x - mean).astype(np.float32),
        "scale_tensor": np.ones_like(arrays["scale_tensor"]),
    }
    arrays |= {"mean_tensor": mean.astype(np.float32), "variance_tensor": variance.astype(np.float32)}
    found, expected = run(every_device, desc, arrays), exact(desc, arrays)
    assert np.abs(found["output_gradient_tensor"] - expected["output_gradient_tensor"]).max() < 1e-5


@LAYOUTS
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e6, 1e8])
def test_an_outlier_comes_first(every_device: dml.Device, outlier: float, channels: int) -> None:
    """What the sums might be shifted by is far from all others."""
    x = np.random.default_rng(3).normal(0.5, 1, images(channels, 8, 3, 17, 16)).astype(np.float32)
    x[0, :, 0, 0] = outlier
    x[0, 0, 0, :] = outlier
    desc, arrays = training(x, channels, epsilon=1e-5)
    expected = exact(desc, arrays)
    found = errors(run(every_device, desc, arrays), expected)
    assert found["mean"] <= 5e-6
    assert found["variance"] <= 1e-6
    assert found["y"] <= 1e-6 * np.abs(expected["output_tensor"]).max()


@pytest.mark.pairwise
@pytest.mark.parametrize("mean", [0.0, 1e2, 1e4])
@pytest.mark.parametrize(("sizes", "channels"), [((100, 2, 1000, 1), 1), ((100, 1000, 1, 2), 3), ((2, 2, 50000, 1), 1)])
def test_a_hundred_thousand_entries(every_device: dml.Device, sizes: tuple[int, ...], channels: int, mean: float) -> None:
    x = np.random.default_rng(4).normal(mean, 1, sizes).astype(np.float32)
    desc, arrays = training(x, channels)
    found = errors(run(every_device, desc, arrays), exact(desc, arrays))
    assert found["mean"] <= half_a_step(mean) + 1e-6
    assert found["variance"] <= 1e-6
    assert found["y"] <= 3e-6


@LAYOUTS
def test_squares_that_overflow_where_those_of_deviations_do_not(every_device: dml.Device, channels: int) -> None:
    x = np.random.default_rng(5).normal(1e20, 1e17, images(channels, 8, 3, 17, 16)).astype(np.float32)
    desc, arrays = training(x, channels)
    found = errors(run(every_device, desc, arrays), exact(desc, arrays))
    assert found["mean"] <= half_a_step(1e20) / 1e17 + 1e-6
    assert found["variance"] <= 1e-6
    assert found["y"] <= 3e-6


@pytest.mark.pairwise
@pytest.mark.parametrize("magnitude", [1e18, 1e10, 1e-10, 1e-18])
@MODE
def test_large_and_small_magnitudes(every_device: dml.Device, mode: str, magnitude: float) -> None:
    """Squares stay within FLOAT32 up to 1.8e19. Without epsilon y is that of the usual magnitude."""
    rng = np.random.default_rng(4)
    desc, arrays = case(mode, rng, (2, 3, 4, 5), (1,), epsilon=0)
    roles = INPUTS[type(desc)]
    factors = {"x": magnitude, "mean": magnitude, "variance": magnitude**2}
    arrays = {name: (array * factors.get(roles[name], 1.0)).astype(np.float32) for name, array in arrays.items()}
    check(run(every_device, desc, arrays), desc, arrays)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4])
@pytest.mark.parametrize("mode", [mode for mode in MODES if "GRAD" in mode])
def test_upstream_gradients_of_any_scale(every_device: dml.Device, mode: str, scale: float) -> None:
    """Relative to what they are."""
    desc, arrays = case(mode, np.random.default_rng(5), (3, 4, 5, 5), (1,))
    upstream = next(name for name, role in INPUTS[type(desc)].items() if role == "dy")
    arrays[upstream] = arrays[upstream] * np.float32(scale)
    expected = exact(desc, arrays)
    for name, values in run(every_device, desc, arrays).items():
        assert np.linalg.norm(values - expected[name]) <= 2e-6 * np.linalg.norm(expected[name]), name


def test_a_rounded_mean_does_not_spoil_the_gradient_of_the_input(every_device: dml.Device) -> None:
    """In FLOAT16 a mean of 100 may be off by 0.03: DirectML's gradient centres the input anew."""
    rng = np.random.default_rng(6)
    desc, arrays = case("BATCH_NORMALIZATION_TRAINING_GRAD", rng, (4, 3, 5, 5), (1,), np.float16)
    x = arrays["input_tensor"] = rng.normal(100, 1, (4, 3, 5, 5)).astype(np.float16)
    mean, arrays["variance_tensor"] = statistics(x.astype(np.float64), (0, 2, 3))
    arrays["variance_tensor"] = arrays["variance_tensor"].astype(np.float16)
    expected = exact(desc, arrays | {"mean_tensor": mean})["output_gradient_tensor"]
    for shift in (0, 0.5):
        given = arrays | {"mean_tensor": (mean + shift).astype(np.float16)}
        found = run(every_device, desc, given)
        assert np.linalg.norm(found["output_gradient_tensor"] - expected) <= 2e-3 * np.linalg.norm(expected)
        check(found, desc, given)


# one entry, equal entries


@DATA_TYPES
@pytest.mark.parametrize("mode", [mode for mode, (_, of_batch) in MODES.items() if of_batch])
def test_one_entry_for_each_group(every_device: dml.Device, mode: str, dtype: Any) -> None:
    """The mean is the entry, the variance 0, y the bias, and the gradients of x and scale are 0: exactly."""
    desc, arrays = case(mode, np.random.default_rng(7), (1, 9, 1, 1), (1,), dtype)
    arrays.pop("fused_add_tensor", None)
    desc = described(type(desc), arrays, **{name: getattr(desc, name) for name in ("is_training", "data_format") if hasattr(desc, name)})
    given = {role: arrays[name].reshape(-1) for name, role in INPUTS[type(desc)].items() if name in arrays}
    found = {name: values.reshape(-1) for name, values in run(every_device, desc, arrays).items()}
    expected = {
        "output_tensor": given.get("bias"),
        "output_mean_tensor": given["x"],
        "output_gradient_tensor": 0,
        "output_scale_gradient_tensor": 0,
        "output_bias_gradient_tensor": given.get("dy"),
        "y": None if "bias" not in given else given["bias"].astype(dtype),
        "batch_mean": given["x"],
        "reserve_space_1": given["x"],
        "x_backprop": 0,
        "scale_backprop": 0,
        "offset_backprop": given.get("dy"),
    }
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected.get(name, 0), err_msg=name)


@pytest.mark.pairwise
@DATA_TYPES
@pytest.mark.parametrize("value", [0.1, -3.7, 1234.5, 6e4])
@pytest.mark.parametrize("epsilon", [1e-5, 0.0])
@LAYOUTS
def test_equal_entries(every_device: dml.Device, channels: int, epsilon: float, value: float, dtype: Any) -> None:
    """The mean is exactly the entry and the variance exactly 0; y is the bias, or NaN without epsilon."""
    x = np.full(images(channels, 3, 5, 7, 11), value, dtype)
    desc, arrays = training(x, channels, epsilon=epsilon)
    arrays["bias_tensor"][...] = np.random.default_rng(8).normal(size=arrays["bias_tensor"].shape)
    found = run(every_device, desc, arrays)
    assert (found["output_mean_tensor"] == dtype(value)).all()
    assert (found["output_variance_tensor"] == 0).all()
    if epsilon:
        np.testing.assert_array_equal(found["output_tensor"], np.broadcast_to(arrays["bias_tensor"], x.shape))
    else:
        assert np.isnan(found["output_tensor"]).all()


# what is not a number

Values = dict[str, Array]


def put(role: str, *numbers: float, first: bool = False) -> Callable[[Values], None]:
    """Writes numbers into a tensor, in group 1 only."""

    def spoil(values: Values) -> None:
        group = values[role][:, 1] if values[role].ndim == 4 else values[role][1:2]
        flat = group.reshape(-1).copy()
        flat[[0 if first else -1 - index for index in range(len(numbers))]] = numbers
        group[...] = flat.reshape(group.shape)

    return spoil


def equal_entries(values: Values) -> None:
    values["x"][:, 1] = values["mean"][:, 1] = 2.5
    values["variance"][:, 1] = 0


SPOILT: dict[str, tuple[Callable[[Values], None], float]] = {
    "NaN in x": (put("x", np.nan), 0.5),
    "NaN first in x": (put("x", np.nan, first=True), 0.5),
    "infinity in x": (put("x", np.inf), 0.5),
    "infinity first in x": (put("x", np.inf, first=True), 0.5),
    "-infinity in x": (put("x", -np.inf), 0.5),
    "both infinities in x": (put("x", np.inf, -np.inf), 0.5),
    "equal entries": (equal_entries, 0.5),
    "equal entries and no epsilon": (equal_entries, 0.0),
    "a negative variance": (put("variance", -2.0), 0.5),
    "a variance of -epsilon": (put("variance", -0.5), 0.5),
    "an infinite variance": (put("variance", np.inf), 0.5),
    "a variance of NaN": (put("variance", np.nan), 0.5),
    "a mean of NaN": (put("mean", np.nan), 0.5),
    "an infinite mean": (put("mean", np.inf), 0.5),
    "a scale of NaN": (put("scale", np.nan), 0.5),
    "a scale of 0": (put("scale", 0.0), 0.5),
    "an infinite scale": (put("scale", np.inf), 0.5),
    "an infinite bias": (put("bias", -np.inf), 0.5),
    "NaN in dy": (put("dy", np.nan), 0.5),
    "infinity in dy": (put("dy", np.inf), 0.5),
    "both infinities in dy": (put("dy", np.inf, -np.inf), 0.5),
    "NaN in the addition": (put("add", np.nan), 0.5),
}
OVERFLOW: dict[str, tuple[Callable[[Values], None], float]] = {
    "squares overflow": (put("x", 1e25, -1e25, 3e24), 0.5),
    "one square overflows": (put("x", 2e20), 0.5),
    "differences overflow": (put("x", 3e38, -3e38), 0.5),
    "a first entry whose square overflows": (put("x", 1e30, first=True), 0.5),
    "dy overflows": (put("dy", 3e38, 3e38), 0.5),
}
PAIRS = [(mode, name) for mode, (kind, _) in MODES.items() for name in SPOILT]


def spoilt(mode: str, spoil: Callable[[Values], None], epsilon: float, dtype: Any = np.float32) -> tuple[Any, Values, Values]:
    """A desc, its inputs, and the inputs with group 1 spoilt."""
    kind, _ = MODES[mode]
    desc, arrays = case(mode, np.random.default_rng(9), (2, 3, 4, 5), (1,), dtype, epsilon=epsilon)
    values = {
        role: np.zeros((2, 3, 4, 5) if role in ("x", "dy", "add") else (1, 3, 1, 1), np.float64)
        for role in random_values(np.random.default_rng(0), (1,), ())
    }
    names = {role: name for name, role in INPUTS[kind].items() if name in arrays}
    for role, name in names.items():
        values[role][...] = arrays[name].reshape(values[role].shape)
    spoil(values)
    return desc, arrays, {name: values[role].reshape(arrays[name].shape).astype(arrays[name].dtype) for role, name in names.items()}


def groups(array: Array, *numbers: int) -> Array:
    """Some groups of an output."""
    return array[:, list(numbers)] if array.ndim == 4 else array[list(numbers)]


def kinds(array: Array) -> Array:
    """0 for each number, else what it is."""
    return np.where(np.isfinite(array), 0, array.astype(np.float64))


@pytest.mark.each_value
@DATA_TYPES
@pytest.mark.parametrize("name", SPOILT)
def test_what_is_no_number_stays_in_its_group(any_device: dml.Device, name: str, dtype: Any) -> None:
    """The group is what float64 makes of it, NaN and infinities in their places; the other groups are what they were, bit for bit."""
    for mode in MODES:  # a run takes less time than pytest does for a row
        check_that_it_stays(any_device, mode, name, dtype)


def check_that_it_stays(device: dml.Device, mode: str, name: str, dtype: Any) -> None:
    desc, arrays, given = spoilt(mode, *SPOILT[name], dtype)
    clean, found, expected = run(device, desc, arrays), run(device, desc, given), exact(desc, given)
    if mode == "BATCH_NORMALIZATION_TRAINING_GRAD" and name in ("a mean of NaN", "an infinite mean"):
        expected["output_gradient_tensor"][:, 1] = np.nan  # the input's mean is found as a distance from the given one
    for output, values in found.items():
        np.testing.assert_array_equal(groups(values, 0, 2), groups(clean[output], 0, 2), err_msg=f"{mode}, {output}: other groups")
        own, wanted = groups(values, 1), groups(expected[output], 1)
        # A sum times 1 / 0 is infinite where the sum of terms, each times 1 / 0, is NaN.
        judge = np.isfinite if "GRAD" in mode and (name == "a variance of -epsilon" or name.endswith("dy")) else kinds
        np.testing.assert_array_equal(judge(own), judge(wanted), err_msg=f"{mode}, {output}")
        finite, error = np.isfinite(wanted), 2e-3 if own.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(own[finite], wanted[finite], rtol=error, atol=error, err_msg=f"{mode}, {output}")


@pytest.mark.parametrize("name", SPOILT | OVERFLOW)
def test_devices_agree_on_what_is_no_number(cuda_device: dml.Device, name: str) -> None:
    """Also where FLOAT32 overflows and float64 does not. Of an upstream gradient that is infinite, results may be NaN or infinite."""
    judge = np.isfinite if "dy" in name.split() else kinds
    for mode in MODES:
        desc, _, given = spoilt(mode, *(SPOILT | OVERFLOW)[name])
        found: Mapping[str, Array] = run(cuda_device, desc, given)
        on_host = run(dml.device("numpy"), desc, given)
        for output, values in found.items():
            np.testing.assert_array_equal(judge(values), judge(on_host[output]), err_msg=f"{mode}, {output}")


@pytest.mark.pairwise
@pytest.mark.parametrize("sizes", [(2, 48, 3, 5), (3, 48, 33, 17)])
@pytest.mark.parametrize("layout", MEMORY_LAYOUTS)
def test_a_group_is_no_number_where_its_squares_add_up_to_none(every_device: dml.Device, layout: str, sizes: tuple[int, ...]) -> None:
    """Near the largest FLOAT32 number, with means and outliers of any size: in every layout the same groups, all of them NaN throughout."""
    rng = np.random.default_rng(17)
    each = (1, sizes[1], 1, 1)
    per_group = float(np.prod(sizes)) / sizes[1]
    deviation = np.sqrt(3.4e38 / per_group) * 2.0 ** rng.integers(-3, 4, each)
    mean = rng.choice([0.0, 1e19, -1e25, 3e37, 3.3e38], each)
    values = mean + deviation * rng.uniform(-1.7, 1.7, sizes)
    outliers = rng.choice([0.0, 1.0], each) * rng.choice([1e18, 3e19, 1e38, -3e38], each)
    values[0, :, 0, 0] += outliers[0, :, 0, 0]  # the first entry of some groups
    x = np.clip(values, -3.4e38, 3.4e38).astype(np.float32)
    exact = x.astype(np.float64)
    squares = ((exact - exact.mean((0, 2, 3), keepdims=True)) ** 2).sum((0, 2, 3))
    largest = float(np.finfo(np.float32).max)
    clear = np.abs(squares / largest - 1) > 1e-3
    assert clear.sum() > 40
    assert 10 < (squares > largest)[clear].sum() < 38
    desc, arrays = training(x, 1)
    found = results(every_device, desc, arrays, layout)
    for name, array in found.items():
        of_groups = np.isnan(np.moveaxis(array, 1, 0).reshape(sizes[1], -1))
        assert (of_groups.all(1) == of_groups.any(1)).all(), f"{name}: groups that are NaN in part"
        np.testing.assert_array_equal(np.asarray(of_groups.any(1))[clear], (squares > largest)[clear], err_msg=name)
        assert not np.isinf(array).any(), name


@pytest.mark.parametrize("number", [np.nan, np.inf])
@LAYOUTS
def test_what_is_no_number_in_a_large_group(every_device: dml.Device, channels: int, number: float) -> None:
    """Which a GPU shares out to several blocks."""
    x = np.random.default_rng(10).normal(2, 1, images(channels, 3, 2, 33, 83)).astype(np.float32)
    desc, arrays = training(x, channels)
    clean = run(every_device, desc, arrays)
    x[(2, 1, 20, 50) if channels == 1 else (2, 20, 50, 1)] = number
    found = run(every_device, desc, arrays)
    for name, values in found.items():
        assert np.isnan(np.take(values, 1, channels)).all(), name
        np.testing.assert_array_equal(np.take(values, 0, channels), np.take(clean[name], 0, channels), err_msg=name)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("where", ["input_tensor", "input_gradient_tensor", "mean_tensor"])
@pytest.mark.parametrize("operator", [dml.BatchNormalizationGradDesc, dml.BatchNormalizationTrainingGradDesc])
def test_a_group_whose_sum_is_not_finite(every_device: dml.Device, operator: Any, where: str, value: float) -> None:
    """It has no gradient of the scale, and in training none of the input: NaN. Other groups have theirs."""
    rng = np.random.default_rng(5)
    arrays = {name: rng.standard_normal((2, 3, 3, 5)).astype(np.float32) for name in ("input_tensor", "input_gradient_tensor")}
    arrays |= {name: rng.standard_normal((1, 3, 1, 1)).astype(np.float32) for name in ("mean_tensor", "variance_tensor", "scale_tensor")}
    arrays["variance_tensor"] = np.abs(arrays["variance_tensor"]) + np.float32(0.5)
    arrays[where][0, 1, 0, 0] = value
    desc = described(operator, arrays, epsilon=1e-5)
    found, expected = run(every_device, desc, arrays), exact(desc, arrays)
    for name, values in found.items():
        np.testing.assert_array_equal(np.isfinite(values), np.isfinite(expected[name]), name)
        assert_close(values[:, ::2], expected[name][:, ::2], np.float32, terms=64, what=name)
    assert np.isnan(found["output_scale_gradient_tensor"][0, 1, 0, 0])
    if operator is dml.BatchNormalizationTrainingGradDesc:
        assert np.isnan(found["output_gradient_tensor"][:, 1]).all()
