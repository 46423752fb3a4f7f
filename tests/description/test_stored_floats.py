"""FLOAT members are 32-bit floats in directml.h: the definitions and all devices compute with the numbers that a struct can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.stored_floats import stored
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc
from tests.support.tensors import rnn
from tests.support.tolerance import assert_close

X = np.random.default_rng(0).uniform(0.5, 30, (1, 1, 8, 33)).astype(np.float32)
TENSOR = dml.TensorDesc.of(X)
THIRD = float(np.float32(1 / 3))


def held(value: float) -> float:
    return float(np.float32(value))


@pytest.mark.parametrize(
    ("desc", "function"),
    [
        (dml.ElementWiseConstantPowDesc(input_tensor=TENSOR, exponent=1 / 3), lambda x: x**THIRD),
        (dml.ActivationLeakyReluDesc(input_tensor=TENSOR, alpha=0.1), lambda x: np.where(x > 0, x, held(0.1) * x)),
        (dml.ActivationLinearDesc(input_tensor=TENSOR, alpha=0.1, beta=1 / 3), lambda x: held(0.1) * x + THIRD),
        (dml.ElementWiseClipDesc(input_tensor=TENSOR, min=10.1, max=20.3), lambda x: np.clip(x, held(10.1), held(20.3))),
        (
            dml.ElementWiseSqrtDesc(input_tensor=TENSOR, scale_bias=dml.ScaleBias(scale=0.1, bias=1 / 3)),
            lambda x: np.sqrt(held(0.1) * x + THIRD),
        ),
        (dml.ElementWiseThresholdDesc(input_tensor=TENSOR, min=10.1), lambda x: np.maximum(x, held(10.1))),
    ],
    ids=lambda value: value.short_name() if isinstance(value, dml.OperatorDesc) else "",
)
def test_attributes_are_the_numbers_of_the_struct(desc: dml.OperatorDesc, function: Callable[[Any], Any]) -> None:
    described = desc.with_outputs()
    expected = function(X.astype(np.float64))
    np.testing.assert_allclose(dml.reference(described, input_tensor=X).output_tensor, expected, rtol=1e-14)
    for device in ("numpy", "cpu"):
        assert_close(dml.compile(described, device)(input_tensor=X).output_tensor, expected, np.float32)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_plans_are_made_of_the_numbers_of_the_struct(device: str) -> None:
    """Integers tell floats apart that results of 32 bits do not."""
    x = np.arange(6, dtype=np.int32).reshape(1, 1, 2, 3)
    added = dml.ElementWiseIdentityDesc(input_tensor=dml.TensorDesc.of(x), scale_bias=dml.ScaleBias(scale=1, bias=2**24 + 1)).with_outputs()
    np.testing.assert_array_equal(dml.compile(added, device)(input_tensor=x).output_tensor, x + 2**24)


def test_groups_hold_the_numbers_of_the_struct() -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")
    g = dml.GraphBuilder()
    leaky = g.add(dml.ActivationLeakyReluDesc, input_tensor=g.input("x", TENSOR), alpha=0.1)
    g.output("y", g.add(dml.ElementWiseNegateDesc, input_tensor=leaky))
    (step,) = dml.compile(g.build(), "cpu")._program.steps
    assert isinstance(step.operator.desc, ElementwiseGroupDesc)
    assert [getattr(node.desc, "alpha", None) for node in step.operator.desc.nodes] == [held(0.1), None]


def test_structs_within_structs_are_rounded_too() -> None:
    gemm = dml.GEMMDesc(a_tensor=TENSOR, b_tensor=TENSOR, alpha=0.1, fused_activation=dml.ActivationEluDesc(alpha=1 / 3))
    found = stored(gemm)
    assert isinstance(found, dml.GEMMDesc)
    assert (found.alpha, found.beta, found.fused_activation) == (held(0.1), 1.0, dml.ActivationEluDesc(alpha=THIRD))
    assert (gemm.alpha, stored(found)) == (0.1, found)
    lstm = dml.LSTMDesc(
        input_tensor=TENSOR,
        weight_tensor=TENSOR,
        recurrence_tensor=TENSOR,
        activation_descs=[dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        clip_threshold=0.7,
    )
    rounded = stored(lstm)
    assert isinstance(rounded, dml.LSTMDesc)
    assert rounded.activation_descs[0] == dml.ActivationHardSigmoidDesc(alpha=held(0.2), beta=0.5)
    assert rounded.clip_threshold == held(0.7)
    resample = dml.ResampleDesc(input_tensor=TENSOR, interpolation_mode="LINEAR", output_tensor=TENSOR, scales=[1, 1, 1 / 3, 2])
    assert stored(resample).scales == (1, 1, THIRD, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 0.5, 1e300])
def test_what_a_float_holds_stays_and_what_it_does_not_is_infinite(value: float) -> None:
    desc = dml.ActivationLinearDesc(alpha=value, beta=0)
    found = stored(desc)
    assert (found is desc) == (value != 1e300)
    assert np.array_equal(found.alpha, held_or_infinite(value), equal_nan=True)


def held_or_infinite(value: float) -> float:
    return float("inf") if value == 1e300 else value


@pytest.mark.parametrize("value", [2, 2.0, np.float16(2), np.float64(2), np.int8(2)])
def test_floats_of_any_kind(value: Any) -> None:
    alpha = dml.ActivationEluDesc(alpha=value).alpha
    assert alpha == 2.0
    assert type(alpha) is float


def test_the_largest_float_as_it_is_printed_is_a_float() -> None:
    # FLT_MAX is 3.40282346638528859812e38; seven digits of it, as many programs print, are above it and round to it.
    def problems(alpha: float) -> list[str]:
        return [problem.path for problem in dml.check(rnn(activation_descs=[dml.ActivationEluDesc(alpha=alpha)]))]

    assert problems(3.4028235e38) == problems(-3.4028235e38) == []
    assert np.isfinite(np.float32(3.4028235e38))
    assert problems(3.4028236e38) == problems(-3.4028236e38) == ["activation_descs[0].alpha"]
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(3.4028236e38))


def test_scalar_unions_have_their_own_types() -> None:
    """Their numbers are of the type that is named beside them, such as 64-bit ones."""
    double = dml.TensorDesc(data_type="FLOAT64", sizes=[1, 1, 1, 2])
    desc = dml.FillValueConstantDesc(value_data_type="FLOAT64", value=0.1, output_tensor=double)
    assert stored(desc) is desc
