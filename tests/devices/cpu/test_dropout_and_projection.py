"""Dropout and projections of compiled recurrent layers, in addition to the tables of `test_training`: constants, sizes, threads, plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.recurrent.layer_runs import GUARD, scratch
from tests.support.recurrent.training_runs import (
    DIRECTIONS,
    H_DROPOUT,
    HOLES,
    OUTPUTS,
    RESERVE,
    VARIANTS,
    X_DROPOUT,
    build,
    check_dropout_of_h,
    of_cell,
)

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.isa import Isa, host_isa
from dmlpy.devices.cpu.matrix.blocked import padded_columns
from dmlpy.devices.cpu.recurrent import gradient_plan
from dmlpy.devices.cpu.recurrent import plan as layer
from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from tests.support.cpu.compiled_recurrence import CPU, backward, share_among

EVERY_LAYER: list[tuple[str, dict[str, Any]]] = [("RNN", {}), ("LSTM", {}), ("GRU", {"linear_before_reset": True}), ("GRU", {})]
BOTH = (X_DROPOUT, H_DROPOUT)


@pytest.mark.pairwise
@pytest.mark.parametrize("hidden", [5, 16, 35])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("variant", VARIANTS[1:])
@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
def test_prepared_constants(cell: str, flags: dict[str, Any], variant: dict[str, Any], dtype: Any, hidden: int) -> None:
    """They are packed gate by gate where dropout is, by compiled code or by NumPy, and give the same bits as those packed in the launch."""
    run = build(cell, np.random.default_rng(4), h=hidden, dtype=dtype, direction="BIDIRECTIONAL", **flags, **of_cell(cell, variant))
    found = []
    for prepared in (False, True):
        for placed in run.outputs.values():
            placed.elements[...] = np.nan
        run.launch(RecurrentPlan(run.desc), prepared=prepared)
        CPU.check_forward(run)
        found.append({name: placed.elements.copy() for name, placed in run.outputs.items()})
    for name, array in found[0].items():
        np.testing.assert_array_equal(found[1][name], array, err_msg=name)


def test_what_is_constant() -> None:
    plan = RecurrentPlan(build("LSTM", np.random.default_rng(1), p=2, dropout=BOTH).desc)
    assert plan.constants == ("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor", "projection_tensor")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("outputs", [OUTPUTS, OUTPUTS[:1], OUTPUTS[1:2], (RESERVE,)], ids=str)
def test_some_outputs(outputs: tuple[str, ...], direction: str) -> None:
    options: dict[str, Any] = {"p": 5, "dropout": BOTH, "lengths": [4, 1, 3], "mask": HOLES[3], "direction": direction}
    run = build("LSTM", np.random.default_rng(4), h=19, outputs=outputs, **options)
    run.launch(RecurrentPlan(run.desc))
    CPU.check_forward(run)


@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize(
    ("cell", "variant", "sizes"),
    [
        # Of the samples a tile has a part; blocks of entries are more or fewer than tiles that share those of units.
        ("LSTM", {"p": 40, "dropout": (H_DROPOUT,)}, {"t": 3, "b": 130, "i": 2, "h": 17}),
        ("LSTM", {"p": 150}, {"t": 5, "b": 7, "i": 9, "h": 40}),
        ("LSTM", {"p": 130}, {"t": 3, "b": 4, "i": 2, "h": 5}),  # the sums of h take more room than those of the gates
        ("LSTM", {"p": 7, "dropout": BOTH}, {"t": 5, "b": 9, "i": 33, "h": 150}),
        ("GRU", {"dropout": BOTH}, {"t": 3, "b": 130, "i": 1, "h": 33}),
        ("GRU", {"dropout": BOTH, "linear_before_reset": True}, {"t": 4, "b": 5, "i": 40, "h": 80}),
        ("RNN", {"dropout": BOTH}, {"t": 140, "b": 2, "i": 3, "h": 48}),
    ],
)
def test_sizes_and_threads(
    cell: str, variant: dict[str, Any], sizes: dict[str, int], ragged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    lengths = [int(length) for length in rng.integers(0, sizes["t"] + 1, sizes["b"])] if ragged else None
    run = build(cell, rng, lengths=lengths, **sizes, **variant)
    found = []
    for threads in (1, 3, 5):
        share_among(threads, monkeypatch)
        results = backward(run, np.random.default_rng(4)).check(f"{threads} threads: ")
        CPU.check_forward(run)
        found.append(results | {name: placed.elements.copy() for name, placed in run.outputs.items()})
    for others in found[1:]:  # how the work is shared changes no sum
        for name, array in others.items():
            np.testing.assert_array_equal(array, found[0][name], err_msg=name)


@pytest.mark.parametrize("variant", [*VARIANTS[1:], {"p": 21}])
def test_gradients_in_any_layout_are_summed_over_blocks(variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where sums have scratch of their own, and those of both directions meet in one."""
    monkeypatch.setattr(gradient_plan, "_BLOCK_ROWS", 9)
    rng = np.random.default_rng(5)
    run = build("LSTM", rng, t=11, h=19, direction="BIDIRECTIONAL", mask=rng.integers(0, 2, (11, 3)), **variant)
    for layout in ("packed", "padded", "permuted"):
        backward(run, rng, layouts=(layout,)).check(f"{layout}: ")


def test_dropout_of_h_leaves_the_update_gates_h_alone() -> None:
    check_dropout_of_h(RecurrentPlan)


@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
def test_an_infinite_state_meets_dropout_without_a_word(cell: str, flags: dict[str, Any]) -> None:
    """The tests turn warnings into errors."""
    run = build(cell, np.random.default_rng(6), dropout=(H_DROPOUT,), **flags)
    run.inputs["hidden_init_tensor"].elements[0, 0, 1] = np.inf
    run.inputs[H_DROPOUT].elements[...] = 0.0
    run.launch(RecurrentPlan(run.desc))
    sequence = run.outputs["output_sequence_tensor"].elements[:, 0]
    assert np.isnan(sequence[:, 1]).all()
    assert np.isfinite(sequence[:, [0, 2]]).all()


@pytest.mark.parametrize("variant", VARIANTS[1:])
def test_a_bound_launch_reads_its_tensors_anew(variant: dict[str, Any]) -> None:
    """Also the multipliers of dropout, the projection and which samples skip steps."""
    options: dict[str, Any] = {"direction": "BIDIRECTIONAL", "h": 19, **variant}
    run = build("LSTM", np.random.default_rng(8), lengths=[2] * 3, mask=HOLES[3], layouts=("packed", "padded"), **options)
    other = build("LSTM", np.random.default_rng(9), lengths=[4, 3, 4], mask=np.ones((4, 3)), **options)
    plan = RecurrentPlan(run.desc)
    block, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (run.inputs | run.outputs).items()}, temporary, None)
    for _ in range(2):
        launch(0)
        CPU.check_forward(run)
        for name, placed in run.inputs.items():
            placed.elements[...] = other.inputs[name].elements
    assert (block[-64:] == GUARD).all()


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ({}, []),
        ({"dropout": (X_DROPOUT,)}, ["dropout of x: the gates' products one after the other"]),
        (
            {"dropout": BOTH, "p": 3},
            ["dropout of x and h: the gates' products one after the other", "projection: 3 entries of h, a second product in each step"],
        ),
    ],
)
def test_what_plans_say(variant: dict[str, Any], expected: list[str]) -> None:
    run = build("LSTM", np.random.default_rng(1), **variant)
    for plan in (RecurrentPlan(run.desc), GradientPlan(run.desc.gradient())):
        assert [line for line in plan.describe().splitlines() if line.startswith(("dropout", "projection"))] == expected


def test_work_that_no_output_needs_has_no_scratch() -> None:
    run = build("LSTM", np.random.default_rng(3), t=8, b=4, i=48, h=16, p=16, dropout=BOTH)

    def size(*names: str) -> int:
        return GradientPlan(run.desc.gradient(*names)).temporary_size

    least = size("hidden_init_gradient_tensor")
    assert size("hidden_init_gradient_tensor", "projection_gradient_tensor") - least == 4 * 8 * 4 * 16  # what is projected
    assert size("hidden_init_gradient_tensor", "input_gradient_tensor") - least == 4 * 4 * 4 * padded_columns(48)  # multipliers of x


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS[1:])
@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
def test_optimised_recurrences_of_other_registers(
    cell: str, flags: dict[str, Any], variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DMLPY_CPU_OPTIMIZATION")
    for isa in {host_isa(), Isa(16, 32), Isa(8, 16), Isa(4, 32)}:
        for plans in (layer, gradient_plan):
            monkeypatch.setattr(plans, "host_isa", lambda isa=isa: isa)
        for b in range(1, 18, 2):
            rng = np.random.default_rng(b)
            run = build(cell, rng, b=b, i=7, h=35, mask=rng.integers(0, 2, (4, b)), **flags, **of_cell(cell, variant))
            backward(run, rng).check()
            CPU.check_forward(run)
