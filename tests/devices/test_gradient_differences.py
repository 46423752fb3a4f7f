"""The gradients of RNN, LSTM and GRU against central differences in float64 of the plain loop, for random combinations of all options.

A difference along a random direction is compared with the gradient's product with that direction: along all inputs at once and along each
one alone. At a kink a difference is not a derivative, so a draw is dropped if an argument comes within `MARGIN` of one; of the draws about
one in five is. A table has the gradients at the kinks themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.operators import activation as activations
from dmlpy.operators.activation import ActivationDesc
from dmlpy.reference.recurrent.layer import Trace
from tests.support.operators.exact import exact, traced
from tests.support.recurrent.layer_runs import EVERY_ACTIVATION, OPTIONAL, USUAL
from tests.support.recurrent.training_runs import H_DROPOUT, HOLES, OUTPUTS, RESERVE, X_DROPOUT, build

Array = np.ndarray[Any, np.dtype[Any]]

STEP = 1e-5
MARGIN = 1e-3
"""How near a kink an argument may be: so much more than `STEP` that no difference reaches across."""
TOLERANCE = 1e-7
"""Of the sum of the magnitudes of gradient times direction: differences themselves are good to about 1e-9."""


def to_gradient(name: str) -> str:
    return f"{name.removesuffix('_tensor')}_gradient_tensor"


def to_output(name: str) -> str:
    return name.replace("_gradient_tensor", "_tensor")


def kinks(desc: ActivationDesc) -> tuple[float, ...]:
    """Where an activation's derivative jumps."""
    get: Any = desc
    match desc:
        case activations.ActivationThresholdedReluDesc():
            return (get.alpha,)
        case activations.ActivationHardSigmoidDesc():
            return (-get.beta / get.alpha, (1.0 - get.beta) / get.alpha)
        case activations.ActivationShrinkDesc():
            return (get.threshold, -get.threshold)
        case (
            activations.ActivationReluDesc()
            | activations.ActivationLeakyReluDesc()
            | activations.ActivationEluDesc()
            | activations.ActivationScaledEluDesc()
        ):
            return (0.0,)
    return ()


def distance(desc: Any, trace: Trace) -> float:
    """The least distance of an argument from a kink of its activation, or from the clip's bounds."""
    nearest = math.inf
    for d in range(len(trace.arguments)):
        f, *others = desc.activations_of(d)
        bounds = () if desc.cell.clip is None else (desc.cell.clip, -desc.cell.clip)
        for gate in range(len(desc.gate_names)):
            function = others[0] if others and gate == len(desc.gate_names) - 1 else f
            for kink in (*kinks(function), *bounds):
                nearest = min(nearest, float(np.nanmin(np.abs(trace.arguments[d, :, gate] - kink), initial=math.inf)))
        if desc.cell.has_memory:
            for kink in kinks(others[1]):
                nearest = min(nearest, float(np.min(np.abs(trace.memory[d] - kink))))
    return nearest


def loss(desc: Any, arrays: Mapping[str, Array], upstream: Mapping[str, Array]) -> float:
    """The sum of all outputs, each multiplied by what `upstream` has under its name: its gradient is what backpropagation gives."""
    outputs = exact(desc, arrays)
    return sum(float(np.sum(outputs[name] * np.asarray(factors, np.float64))) for name, factors in upstream.items())


@st.composite
def options(draw: st.DrawFn, cell: str) -> dict[str, Any]:
    """What `build` takes, for any combination of what the operators accept."""
    t, b = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    direction = draw(st.sampled_from(["FORWARD", "BACKWARD", "BIDIRECTIONAL"]))
    count = len(USUAL[cell]) * (2 if direction == "BIDIRECTIONAL" else 1)
    chosen: dict[str, Any] = {
        "t": t,
        "b": b,
        "i": draw(st.integers(1, 3)),
        "h": draw(st.integers(1, 3)),
        "direction": direction,
        "lengths": draw(st.none() | st.lists(st.integers(0, t), min_size=b, max_size=b)),
        "mask": draw(st.none() | st.lists(st.integers(0, 1), min_size=t * b, max_size=t * b)),
        "dropout": tuple(name for name in (X_DROPOUT, H_DROPOUT) if draw(st.booleans())),
        "optional": tuple(name for name in OPTIONAL if draw(st.booleans())),
        "functions": tuple(draw(st.sampled_from(EVERY_ACTIVATION)) for _ in range(count)) if draw(st.booleans()) else None,
    }
    if cell == "LSTM":
        chosen["p"] = draw(st.none() | st.integers(1, 3))
        chosen["couple_input_forget"] = draw(st.booleans())
        chosen["use_clip_threshold"] = draw(st.booleans())
        chosen["clip_threshold"] = draw(st.sampled_from([0.2, 0.5, 3.0]))
    elif cell == "GRU":
        chosen["linear_before_reset"] = draw(st.booleans())
    return chosen


def compare(cell: str, chosen: Mapping[str, Any], upstream_names: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = build(cell, rng, dtype=np.float32, **chosen)
    arrays = {name: array if array.dtype.kind == "u" else array.astype(np.float64) for name, array in run.arrays.items()}
    assume(distance(run.desc, traced(run.desc, arrays)) > MARGIN)
    outputs = dml.reference(run.desc, arrays).as_dict()
    upstream = {name: np.asarray(rng.standard_normal(outputs[name].shape)) for name in upstream_names if name in outputs}
    unused = [to_gradient(name) for name in outputs if name != RESERVE and name not in upstream]
    desc = run.desc.gradient().model_copy(update=dict.fromkeys(unused))
    given_arrays = {name: array for name, array in arrays.items() if name in desc.tensors()}
    given_arrays |= {to_gradient(name): array for name, array in upstream.items()}
    gradients = dml.reference(desc, given_arrays | {RESERVE: outputs[RESERVE]}).as_dict()
    # Every float input has a gradient, but for what dropout multiplies by.
    differentiable = {name for name, array in arrays.items() if array.dtype.kind == "f"} - {X_DROPOUT, H_DROPOUT}
    assert {to_output(name) for name in gradients} == differentiable

    directions = {name: rng.standard_normal(arrays[name].shape) for name in differentiable}
    for moved in (sorted(differentiable), *([name] for name in sorted(differentiable))):
        ends = [
            loss(run.desc, arrays | {name: arrays[name] + offset * directions[name] for name in moved}, upstream)
            for offset in (STEP, -STEP)
        ]
        difference = (ends[0] - ends[1]) / (2 * STEP)
        products = np.concatenate([(gradients[to_gradient(name)] * directions[name]).ravel() for name in moved])
        allowed = TOLERANCE * (1.0 + float(np.abs(products).sum()))
        assert abs(difference - products.sum()) <= allowed, f"along {moved}: {difference} and {products.sum()}, allowed {allowed:.1e}"


thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
upstream_names = st.lists(st.sampled_from(OUTPUTS), unique=True)
seeds = st.integers(0, 2**32 - 1)


@settings(thorough, max_examples=25)
@given(options("RNN"), upstream_names, seeds)
def test_rnn(chosen: dict[str, Any], upstream: list[str], seed: int) -> None:
    compare("RNN", chosen, upstream, seed)


@settings(thorough, max_examples=50)
@given(options("LSTM"), upstream_names, seeds)
def test_lstm(chosen: dict[str, Any], upstream: list[str], seed: int) -> None:
    compare("LSTM", chosen, upstream, seed)


@settings(thorough, max_examples=30)
@given(options("GRU"), upstream_names, seeds)
def test_gru(chosen: dict[str, Any], upstream: list[str], seed: int) -> None:
    compare("GRU", chosen, upstream, seed)


# kinks

KINKS: list[tuple[ActivationDesc, float, float]] = [
    (activations.ActivationReluDesc(), 0.0, 0.0),
    (activations.ActivationLeakyReluDesc(alpha=0.25), 0.0, 1.0),
    (activations.ActivationThresholdedReluDesc(alpha=0.5), 0.5, 0.0),
    (activations.ActivationEluDesc(alpha=0.25), 0.0, 1.0),
    (activations.ActivationCeluDesc(alpha=0.25), 0.0, 1.0),
    (activations.ActivationScaledEluDesc(alpha=0.5, gamma=0.75), 0.0, 0.375),
    (activations.ActivationHardSigmoidDesc(alpha=0.25, beta=0.5), 2.0, 0.0),
    (activations.ActivationHardSigmoidDesc(alpha=0.25, beta=0.5), -2.0, 0.0),
    (activations.ActivationShrinkDesc(bias=0.25, threshold=0.5), 0.5, 0.0),
    (activations.ActivationShrinkDesc(bias=0.25, threshold=0.5), -0.5, 0.0),
]


@pytest.mark.parametrize(("function", "x", "slope"), KINKS, ids=lambda value: getattr(value, "type_name", str(value)))
def test_derivative_at_a_kink(function: ActivationDesc, x: float, slope: float) -> None:
    run = build("RNN", np.random.default_rng(1), t=1, b=1, i=1, h=1, optional=(), functions=(function,))
    arrays: dict[str, Array] = {"input_tensor": np.full((1, 1, 1, 1), x), "weight_tensor": np.ones((1, 1, 1, 1))}
    arrays["recurrence_tensor"] = np.zeros((1, 1, 1, 1))
    reserve = dml.reference(run.desc, arrays).as_dict()[RESERVE]
    desc = run.desc.gradient("input_gradient_tensor").model_copy(update={"output_single_gradient_tensor": None})
    upstream = np.full((1, 1, 1, 1), 3.0)
    gradients = dml.reference(desc, arrays | {RESERVE: reserve, "output_sequence_gradient_tensor": upstream})
    assert gradients.input_gradient_tensor.item() == 3.0 * slope


@pytest.mark.parametrize(("x", "passes"), [(0.5, True), (-0.5, True), (np.nextafter(0.5, 1.0), False), (np.nextafter(-0.5, -1.0), False)])
def test_derivative_at_the_clip(x: float, passes: bool) -> None:
    # All gates' sums are x; the bound counts as inside, and a sum beyond it changes nothing.
    found = []
    for clips in (True, False):
        flags = {"use_clip_threshold": clips, "clip_threshold": 0.5}
        run = build("LSTM", np.random.default_rng(1), t=1, b=1, i=1, h=1, optional=(), **flags)
        arrays: dict[str, Array] = {"input_tensor": np.full((1, 1, 1, 1), x), "weight_tensor": np.ones((1, 1, 4, 1))}
        arrays["recurrence_tensor"] = np.zeros((1, 1, 4, 1))
        upstream = {name: np.ones((1, 1, 1, 1)) for name in run.desc.gradient().tensors() if name.startswith("output")}
        reserve = dml.reference(run.desc, arrays).as_dict()[RESERVE]
        found.append(dml.reference(run.desc.gradient(), arrays | upstream | {RESERVE: reserve}).weight_gradient_tensor)
    clipped, unclipped = found
    assert (unclipped[0, 0, [0, 1, 3]] != 0).all()
    np.testing.assert_array_equal(clipped, unclipped if passes else np.zeros_like(unclipped))


@pytest.mark.parametrize(("dtype", "projected"), list(itertools.product([np.float32, np.float16], [None, 3])))
def test_the_loss_is_linear_in_the_upstream_gradients(dtype: Any, projected: int | None) -> None:
    run = build("LSTM", np.random.default_rng(1), p=projected, dtype=dtype, mask=HOLES[3])
    outputs = exact(run.desc, run.arrays)
    upstream = {name: np.zeros_like(values) for name, values in outputs.items()}
    upstream["output_sequence_tensor"][1, 0, 2, 1], upstream["output_cell_single_tensor"][0, 0, 1, 2] = 2.0, -3.0
    expected = 2.0 * outputs["output_sequence_tensor"][1, 0, 2, 1] - 3.0 * outputs["output_cell_single_tensor"][0, 0, 1, 2]
    assert loss(run.desc, run.arrays, upstream) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_both_directions_input_gradients_are_rounded_as_one(device: str) -> None:
    """They cancel here, which FLOAT16 in between would spoil."""
    rng = np.random.default_rng(6)
    run = build("RNN", rng, t=1, dtype=np.float16, direction="BIDIRECTIONAL", optional=())
    weights = run.inputs["weight_tensor"].elements
    weights[0, 1] = -weights[0, 0]
    desc, forward = run.desc.gradient(), dml.compile(run.desc, device)(**run.arrays).as_dict()
    tensors, arrays = desc.tensors(), {**run.arrays, RESERVE: forward[RESERVE]}
    for name in ("output_sequence", "output_single"):
        gradient = rng.standard_normal(tensors[f"{name}_gradient_tensor"].sizes).astype(np.float16)
        gradient[:, 1] = gradient[:, 0]
        arrays[f"{name}_gradient_tensor"] = gradient
    gradients = dml.compile(desc, device)(**{name: array for name, array in arrays.items() if name in tensors}).as_dict()
    assert (gradients["weight_gradient_tensor"][0, 0] != 0).all()
    assert not gradients["input_gradient_tensor"].any()
