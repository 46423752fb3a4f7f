"""Gates of recurrent cells that are shut or open, with states of any size: what is shut out leaves no trace, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.exact import exact
from tests.support.pairwise import first_few
from tests.support.recurrent import training_runs
from tests.support.recurrent.block_cell_runs import described, random_inputs
from tests.support.recurrent.block_cell_runs import run as run_cell
from tests.support.recurrent.gradient_runs import UPSTREAM
from tests.support.recurrent.layer_runs import Run, build
from tests.support.recurrent.shut_gates import ARGUMENTS, CASES, WITHOUT_PEEPHOLES, results, saturate
from tests.support.tolerance import assert_each_close

EACH_CASE = pytest.mark.parametrize("case", CASES)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16])


def check(run: Run, device: dml.Device, what: str = "") -> None:
    """Runs a layer, and compares each element by itself."""
    expected = exact(run.desc, run.arrays)
    for name, found in results(run, device).items():
        assert_each_close(found, expected[name], found.dtype, terms=run.terms, what=f"{what}{name}")


@pytest.mark.each_value
@DTYPES
@EACH_CASE
def test_huge_states(every_device: dml.Device, case: str, dtype: Any) -> None:
    cell, flags = CASES[case]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        run = build(cell, rng, t=1 + seed, b=2, h=20, dtype=dtype, optional=WITHOUT_PEEPHOLES, **flags)
        saturate(run, rng)
        check(run, every_device, f"seed {seed}: ")


@pytest.mark.parametrize("seed", first_few(range(200), 12))
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_random_layers(device: str, seed: int) -> None:
    """Layers and their training forms, in any direction, also of ragged length."""
    rng = np.random.default_rng(seed)
    cell, flags = CASES[list(CASES)[seed % len(CASES)]]
    t, b = int(rng.integers(1, 7)), int(rng.integers(1, 10))
    options: dict[str, Any] = {
        "t": t,
        "b": b,
        "i": int(rng.integers(1, 8)),
        "h": int(rng.choice([1, 5, 16, 33])),
        "dtype": rng.choice(np.array([np.float32, np.float16])),
        "direction": str(rng.choice(["FORWARD", "BACKWARD", "BIDIRECTIONAL"])),
        "lengths": None if rng.integers(2) else [int(length) for length in rng.integers(0, t + 1, b)],
        "optional": WITHOUT_PEEPHOLES,
    }
    if seed // len(CASES) % 2:
        run = training_runs.build(cell, rng, outputs=training_runs.OUTPUTS, **options, **flags)
    else:
        run = build(cell, rng, **options, **flags)
    saturate(run, rng)
    check(run, dml.device(device))


def layer(every_device: dml.Device, cell: str, biases: list[float], state: float, **flags: Any) -> float:
    """The state after one step of a layer of one unit from this state, with these sums of gates."""
    run = build(cell, np.random.default_rng(0), t=1, b=1, i=1, h=1, optional=WITHOUT_PEEPHOLES, **flags)
    for placed in run.inputs.values():
        placed.elements[...] = 0.0
    run.inputs["bias_tensor"].elements[..., : len(biases)] = biases
    run.inputs["cell_mem_init_tensor" if cell == "LSTM" else "hidden_init_tensor"].elements[...] = state
    name = "output_cell_single_tensor" if cell == "LSTM" else "output_single_tensor"
    found = float(results(run, every_device)[name].item())
    np.testing.assert_allclose(found, exact(run.desc, run.arrays)[name].item(), rtol=1e-6, err_msg="the definition")
    return found


INF, NAN = float("inf"), float("nan")
# sums of i, o, f, c of an LSTM, the cell state before, and after
CELL_STATES = [
    ([100, 0, -20, 0.5], 2000.0, np.tanh(0.5) + 2000.0 / (1 + np.exp(20))),
    ([100, 0, -100, 0.5], 1e30, np.tanh(0.5)),
    ([-100, 0, 100, 0.5], -1e30, -1e30),
    ([100, 0, -1000, 0.5], INF, NAN),  # 0 * infinity
    ([100, 0, 0, 0.5], -INF, -INF),
    ([100, 0, 1000, 0.5], INF, INF),
    ([100, 0, 0, 0.5], NAN, NAN),
    ([100, 0, -INF, 0.5], 3e38, np.tanh(0.5)),
    ([INF, 0, INF, 0.5], 4.0, 4.0 + np.tanh(0.5)),
    ([0, 0, NAN, 0.5], 1.0, NAN),
]


@pytest.mark.parametrize(("sums", "before", "after"), CELL_STATES)
def test_cell_states(every_device: dml.Device, sums: list[float], before: float, after: float) -> None:
    np.testing.assert_allclose(layer(every_device, "LSTM", sums, before), after, rtol=1e-6)


# the sum of the input gate and the cell state; the forget gate, which is 1 less the input gate
COUPLED = [(20, 1e9, 1 / (1 + np.exp(20))), (60, 1e26, 1 / (1 + np.exp(60))), (-20, 1e9, 1 / (1 + np.exp(-20))), (100, 1e30, 0.0)]


@pytest.mark.parametrize(("argument", "before", "forget"), COUPLED)
def test_coupled_gates(every_device: dml.Device, argument: float, before: float, forget: float) -> None:
    found = layer(every_device, "LSTM", [argument, 0, 0, 0.5], before, couple_input_forget=True)
    np.testing.assert_allclose(found, forget * before + (1 - forget) * np.tanh(0.5), rtol=1e-6)


# sums of z, r, h of a GRU, h before and after
HIDDEN_STATES = [
    ([-100, 0, 0.5], 1e6, np.tanh(0.5)),
    ([-100, 0, 0.5], -1e30, np.tanh(0.5)),
    ([-20, 0, 0.5], 1e9, 1e9 / (1 + np.exp(20)) + np.tanh(0.5)),
    ([100, 0, 0.5], 1e30, 1e30),
]


@pytest.mark.parametrize("linear_before_reset", [False, True])
@pytest.mark.parametrize(("sums", "before", "after"), HIDDEN_STATES)
def test_hidden_states(every_device: dml.Device, sums: list[float], before: float, after: float, linear_before_reset: bool) -> None:
    found = layer(every_device, "GRU", sums, before, linear_before_reset=linear_before_reset)
    np.testing.assert_allclose(found, after, rtol=1e-6)


@pytest.mark.parametrize("linear_before_reset", [False, True])
def test_candidates_of_any_size(every_device: dml.Device, linear_before_reset: bool) -> None:
    """An open update gate keeps the state from a candidate of 1e20; one that is half open takes an infinite one."""
    functions = (dml.ActivationSigmoidDesc(), dml.ActivationReluDesc())
    for sums, after in (([200, 0, 1e20], 0.75), ([0, 0, INF], INF)):
        found = layer(every_device, "GRU", sums, 0.75, functions=functions, linear_before_reset=linear_before_reset)
        assert found == after


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("cell", ["LSTM", "GRU, reset first", "GRU, reset last"])
def test_a_saturated_tanh_passes_no_gradient(device: str, cell: str) -> None:
    """Its derivative is 0, not a rounding error: that of a weight is multiplied by a state, which is huge here."""
    kind, flags = CASES[cell]
    run = training_runs.build(
        kind,
        np.random.default_rng(0),
        t=1,
        b=1,
        i=1,
        h=20,
        outputs=(*training_runs.OUTPUTS, training_runs.RESERVE),
        optional=WITHOUT_PEEPHOLES,
        **flags,
    )
    for placed in run.inputs.values():
        placed.elements[...] = 0.0
    of_gates = run.inputs["bias_tensor"].elements.reshape(2, len(run.desc.gate_names), 20)
    of_gates[0, -1] = 50.0 * np.where(np.arange(20) % 2, 1, -1)  # the candidates
    run.inputs["cell_mem_init_tensor" if kind == "LSTM" else "hidden_init_tensor"].elements[...] = 1e22
    arrays = {name: placed.elements for name, placed in run.inputs.items()}
    reserve = dml.compile(run.desc, device)(**arrays).reserve_tensor
    desc = run.desc.gradient()
    given = {name: array for name, array in arrays.items() if name in desc.tensors()}
    given |= {name: np.zeros(desc.tensors()[name].sizes, np.float32) for name in UPSTREAM if name in desc.tensors()}
    given["output_single_gradient_tensor"][...] = 1.0
    expected = exact(desc, given | {training_runs.RESERVE: exact(run.desc, arrays)[training_runs.RESERVE]})
    found = dml.compile(desc, device)(**given, reserve_tensor=reserve).as_dict()
    for name, values in found.items():
        assert_each_close(values, expected[name], np.float32, what=name)
    assert (abs(found["bias_gradient_tensor"]) > 0.1).sum() == 2 * 20, "one gate has a gradient: the output's or the update's"


def test_a_counter_that_is_reset(every_device: dml.Device) -> None:
    """An LSTM's cell counts 2000 steps up; then the forget gate shuts."""
    steps = 2001
    run = build("LSTM", np.random.default_rng(0), t=steps, b=1, i=1, h=1, optional=("bias_tensor",))
    for placed in run.inputs.values():
        placed.elements[...] = 0.0
    run.inputs["bias_tensor"].elements[0, 0, 0, :4] = [30, 0, 30, 20]
    run.inputs["weight_tensor"].elements[0, 0, 2] = -50.0  # of the forget gate: the last input shuts it
    run.inputs["input_tensor"].elements[0, -1] = 1.0
    found = results(run, every_device)["output_cell_single_tensor"].item()
    np.testing.assert_allclose(found, 1.0 + 2000.0 / (1 + np.exp(20)), rtol=1e-6)


@DTYPES
def test_block_cells(every_device: dml.Device, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    arrays = random_inputs(rng, 3, 4, 20, dml.GRUBlockCellDesc, dtype)
    for name in ("x", "w_ru"):
        arrays[name] = (rng.integers(-8, 9, arrays[name].shape) / 8).astype(dtype)
    arrays["w_ru"][4:] = 0.0
    arrays["b_ru"] = rng.choice(np.array(ARGUMENTS), arrays["b_ru"].shape).astype(dtype)
    largest = 30.0 if dtype == np.float32 else 4.0
    arrays["h_prev"] = (10.0 ** rng.uniform(2.0, largest, arrays["h_prev"].shape)).astype(dtype)
    desc = described(dml.GRUBlockCellDesc, arrays)
    expected = dml.reference(desc, arrays).as_dict()
    for name, found in run_cell(every_device, desc, arrays).items():
        assert_each_close(found, expected[name], dtype, terms=24, what=name)


# From 89 on exp(x) has no FLOAT32: log(1 + exp(x)) as it is written is infinite, and so is ONNX Runtime 1.32.0's RNN
# (findings/onnxruntime-recurrent-softplus.sh).
@pytest.mark.parametrize("argument", [-80.0, 0.0, 10.0, 88.0, 89.0, 1000.0])
def test_softplus_far_from_zero(every_device: dml.Device, argument: float) -> None:
    found = layer(every_device, "RNN", [argument], 0.0, functions=(dml.ActivationSoftplusDesc(),))
    np.testing.assert_allclose(found, np.logaddexp(0.0, argument), rtol=1e-6, atol=1e-30)
