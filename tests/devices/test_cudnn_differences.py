"""Gradients of stacked networks against central differences in float64, for random networks under random upstream gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from tests.support.pairwise import first_few
from tests.support.recurrent.networks import MODES, Arrays, Network, gradient_inputs, network, upstream

STEP = 1e-6


@st.composite
def networks(draw: st.DrawFn) -> tuple[Network, int]:
    """A small network with any attributes, and a seed."""
    seed = draw(st.integers(0, 2**32 - 1))
    mode = draw(st.sampled_from(MODES))
    steps, batch, units = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    options: dict[str, Any] = {
        "layers": draw(st.integers(1, 3)),
        "directions": draw(st.integers(1, 2)),
        "steps": steps,
        "batch": batch,
        "units": units,
        "inputs": draw(st.integers(1, 4)),
        "num_proj": draw(st.integers(0, units - 1)) if mode == "lstm" else 0,
        "lengths": draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch)),
        "dropout": draw(st.sampled_from([0.0, 0.3, 0.7])),
        "seed": seed,
        "offset": draw(st.none() | st.integers(0, 2**64 - 1)),
        "input_mode": draw(st.sampled_from(["linear_input", "auto_select"])),
    }
    net = network(np.random.default_rng(seed), mode, **options)
    return (net.transposed() if draw(st.booleans()) else net), seed


@pytest.mark.parametrize("examples", first_few([40, 400], 1))
def test_central_differences(examples: int) -> None:
    draw = given(networks(), st.sets(st.sampled_from(["output", "output_h", "output_c"]), min_size=1))
    settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])(draw(check_differences))()


def check_differences(drawn: tuple[Network, int], seen: set[str]) -> None:
    net, seed = drawn
    rng = np.random.default_rng(seed + 1)
    # The loss sees some of the outputs; upstream gradients of the others are absent.
    seen = seen if net.desc.output_c is not None or seen != {"output_c"} else {"output"}
    unseen = {name: None for name in ("output", "output_h", "output_c") if name not in seen}
    forward = net.desc.replace(**unseen, host_reserved=None)
    desc = forward.gradient()
    weights = upstream(rng, desc, np.float64)
    arrays: Arrays = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in net.arrays.items()}

    def loss(changed: Arrays) -> float:
        results = dml.reference(forward, changed).as_dict()
        return float(sum((weights[f"{name}_backprop"] * results[name]).sum() for name in seen if f"{name}_backprop" in weights))

    reserve = dml.reference(forward, arrays).reserve_space
    gradients = dml.reference(desc, gradient_inputs(Network(forward, arrays), desc) | weights, reserve_space=reserve).as_dict()
    for name in ("input", "input_h", "input_c", "params"):
        if name not in arrays:
            continue
        gradient, direction = gradients[f"{name}_backprop"], rng.standard_normal(arrays[name].shape)
        above, below = (loss(arrays | {name: arrays[name] + sign * STEP * direction}) for sign in (1, -1))
        expected = (above - below) / (2 * STEP)
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs((gradient * direction).sum() - expected) <= 1e-6 * scale + 1e-9, name
