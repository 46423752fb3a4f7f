"""ADAM_OPTIMIZER on every device: against ONNX's reference and the published algorithm in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.adam_cases import OUTPUTS, adam, inputs
from tests.support.operators.layout_runs import Array, defined, failures_in_layouts, results_of
from tests.support.tolerance import assert_close


def by_hand(arrays: dict[str, Array], rate: float, beta1: float, beta2: float, epsilon: float) -> list[Array]:
    """Kingma and Ba's algorithm, in the order of section 2's last paragraph, in float64."""
    x, m, v, g = (array.astype(np.float64) for array in list(arrays.values())[:4])
    step = int(arrays["training_step_tensor"].item())
    rate, beta1, beta2, epsilon = (float(np.float32(value)) for value in (rate, beta1, beta2, epsilon))  # as the struct holds them
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    # -expm1(t log beta) is 1 - beta^t without cancellation.
    corrected = rate * math.sqrt(-math.expm1(step * math.log(beta2))) / -math.expm1(step * math.log(beta1))
    return [x - corrected * m / (np.sqrt(v) + epsilon), m, v]


def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device) -> None:
    found = failures_in_layouts(*defined("optimization"), device=any_device)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_step_is_that_of_the_published_algorithm(any_device: dml.Device, dtype: Any) -> None:
    for sizes in [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 4, 8)]:
        for step in (1, 2, 1000, 2**32 - 1):
            for rate, beta1, beta2, epsilon in [(0.001, 0.9, 0.999, 1e-8), (0.5, 0.5, 0.25, 1e-3)]:
                arrays = inputs(dtype, sizes, step)
                desc = adam(arrays, learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
                found = results_of(desc, arrays, any_device)
                for name, expected in zip(OUTPUTS, by_hand(arrays, rate, beta1, beta2, epsilon), strict=True):
                    assert_close(found[name], expected, dtype, what=f"{name} after step {step}")
                if dtype is np.float32:
                    given = [np.array(rate, np.float32), np.array(step), *(arrays[own] for own in list(arrays)[0:1])]
                    given += [arrays["gradient_tensor"], arrays["input_first_moment_tensor"], arrays["input_second_moment_tensor"]]
                    from_onnx = onnx_outputs(
                        "Adam", given, 3, domain="ai.onnx.preview.training", opset=1, alpha=beta1, beta=beta2, epsilon=epsilon
                    )
                    for name, expected in zip(OUTPUTS, from_onnx, strict=True):
                        assert_close(found[name], expected, dtype, what=f"{name} after step {step}, ONNX")


def test_the_first_steps_keep_their_digits(any_device: dml.Device) -> None:
    """1 - beta2^t, next to 0, is not the difference of two floats: parameters of 0 become the change alone."""
    for step in (1, 2, 3):
        arrays = inputs(np.float32, (1, 2, 3, 4), step)
        arrays["input_parameters_tensor"][...] = 0
        found = results_of(adam(arrays, learning_rate=0.5, beta1=0.9, beta2=0.99999), arrays, any_device)["output_parameters_tensor"]
        assert_close(found, by_hand(arrays, 0.5, 0.9, 0.99999, 1e-8)[0], np.float32, what=f"step {step}")


def test_a_step_may_be_in_place(any_device: dml.Device) -> None:
    arrays = inputs(np.float32, (1, 2, 3, 4), 3)
    desc = adam(arrays, learning_rate=0.1)
    expected = results_of(desc, arrays, any_device)
    kept = {name: any_device.from_host(array.copy()) for name, array in arrays.items()}
    # Rotated: each output overwrites an input that another one is computed from.
    rotated = ("input_first_moment_tensor", "input_second_moment_tensor", "input_parameters_tensor")
    outputs = {name: kept[source] for name, source in zip(OUTPUTS, rotated, strict=True)}
    dml.compile(desc, any_device)(**kept, **outputs)
    for name, array in outputs.items():
        np.testing.assert_array_equal(any_device.to_host(array), expected[name], name)


def test_odd_attributes_follow_the_formula(any_device: dml.Device) -> None:
    arrays = inputs(np.float32, (1, 1, 1, 2), 0)
    # 0 / 0 in the bias correction of step 0.
    assert np.isnan(results_of(adam(arrays, learning_rate=0.1), arrays, any_device)["output_parameters_tensor"]).all()
    arrays = inputs(np.float32, (1, 1, 1, 2), 1)
    # Nothing is remembered: a step by the gradient's sign.
    found = results_of(adam(arrays, learning_rate=0.25, beta1=0, beta2=0, epsilon=0), arrays, any_device)["output_parameters_tensor"]
    assert_close(found, arrays["input_parameters_tensor"] - 0.25 * np.sign(arrays["gradient_tensor"]), np.float32)
