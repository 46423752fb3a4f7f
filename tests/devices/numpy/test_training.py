"""The training forms on the NumPy device: step masks, dropout, projections and the reserve, against a plain float64 loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan
from dmlpy.devices.numpy.recurrent.layer import RecurrentPlan
from dmlpy.operators.activation import ActivationDesc
from tests.support.operators.exact import traced
from tests.support.recurrent.layer_runs import (
    EVERY_ACTIVATION,
    FLAGS,
    GUARD,
    OPTIONAL,
    USUAL,
    Run,
    scratch,
)
from tests.support.recurrent.training_runs import (
    DIRECTIONS,
    H_DROPOUT,
    HOLES,
    MASK,
    MASKS,
    OUTPUTS,
    RESERVE,
    TRAINING,
    X_DROPOUT,
    Array,
    SavedRows,
    build,
    check,
    check_dropout_of_h,
    check_repeated_outputs,
    check_reserve,
    saved_gates,
)
from tests.support.tolerance import assert_close


def poison(run: Run) -> None:
    for placed in run.outputs.values():
        placed.elements[...] = np.nan


# against the plain loop

LENGTHS = {1: [3], 3: [0, 4, 2]}
VARIANTS: list[dict[str, Any]] = [
    {"prepared": True},
    {"dtype": np.float16, "dropout": (X_DROPOUT, H_DROPOUT), "p": 3},
    {"dropout": (H_DROPOUT,), "outputs": OUTPUTS},
    {"prepared": True, "dropout": (X_DROPOUT,), "p": 5},
]


@pytest.mark.pairwise
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "masked"])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_every_option(cell: str, flags: dict[str, Any], direction: str, ragged: bool, masked: bool, batch: int) -> None:
    for variant in VARIANTS:
        options = {"direction": direction, "lengths": LENGTHS[batch] if ragged else None, "mask": HOLES[batch] if masked else None}
        options |= flags | variant
        prepared = options.pop("prepared", False)
        if cell != "LSTM":
            options.pop("p", None)
        run = build(cell, np.random.default_rng(11), b=batch, **options)
        run.launch(DefinitionPlan(run.desc), prepared=prepared)
        expected = traced(run.desc, run.arrays)
        check(run, expected)


@pytest.mark.parametrize(
    ("function", "batch"),
    [
        pytest.param(function, batch, id=f"{type(function).__name__}-{batch}", marks=[pytest.mark.slow] * (number % 2 == batch % 2))
        for number, function in enumerate(EVERY_ACTIVATION)
        for batch in (1, 2)
    ],
)
def test_what_every_activation_saves(function: ActivationDesc, batch: int) -> None:
    """For one sample and for several, by turns in the usual run."""
    rng = np.random.default_rng(23)
    tables: list[tuple[str, dict[str, Any]]] = [
        ("RNN", {}),
        ("LSTM", {}),
        ("LSTM", {"optional": ("bias_tensor",)}),
        ("LSTM", {"couple_input_forget": True}),
        ("LSTM", {"use_clip_threshold": True, "clip_threshold": 0.2}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": True}),
        ("GRU", {"linear_before_reset": True, "optional": ()}),
    ]
    for cell, flags in tables:
        for role in range(len(USUAL[cell])):
            # The backward direction has the usual functions, so the two sets differ, also in what they save.
            functions = (*USUAL[cell][:role], function, *USUAL[cell][role + 1 :], *USUAL[cell])
            run = build(cell, rng, b=batch, direction="BIDIRECTIONAL", functions=functions, **flags)
            run.launch(DefinitionPlan(run.desc))
            check(run, traced(run.desc, run.arrays))


@pytest.mark.pairwise
@pytest.mark.parametrize("lengths", [None, [5, 3, 2], [0, 3, 9], [0, 0, 0]], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("cell", TRAINING)
def test_masks(cell: str, mask: str, direction: str, lengths: list[int] | None) -> None:
    for outputs in ((*OUTPUTS, RESERVE), OUTPUTS[:1], (RESERVE,)):
        run = build(cell, np.random.default_rng(4), t=5, direction=direction, lengths=lengths, mask=MASKS[mask], outputs=outputs)
        run.launch(DefinitionPlan(run.desc))
        check(run, traced(run.desc, run.arrays))


@pytest.mark.parametrize("cell", TRAINING)
def test_a_masked_step_repeats_the_output_before_it(cell: str) -> None:
    check_repeated_outputs(cell, DefinitionPlan)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any valid training form of small sizes; weights keep the states bounded."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cell = draw(st.sampled_from(list(TRAINING)))
    direction = draw(st.sampled_from(DIRECTIONS))
    t, b, h = draw(st.integers(1, 7)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    bounded = [desc for desc in EVERY_ACTIVATION if type(desc).__name__.endswith(("SigmoidDesc", "TanhDesc", "SoftsignDesc"))]
    roles = range(len(USUAL[cell]))
    of_role = [st.sampled_from(bounded if role == 0 and cell != "RNN" else EVERY_ACTIVATION) for role in roles]
    functions = [draw(activation) for _ in range(2 if direction == "BIDIRECTIONAL" else 1) for activation in of_role]
    flags: dict[str, Any] = {}
    if cell == "LSTM":
        flags = {"use_clip_threshold": draw(st.booleans()), "clip_threshold": 0.2, "couple_input_forget": draw(st.booleans())}
        flags["p"] = draw(st.none() | st.integers(1, 6))
    elif cell == "GRU":
        flags = {"linear_before_reset": draw(st.booleans())}
    outputs = draw(st.lists(st.sampled_from([*OUTPUTS, RESERVE]), min_size=1, unique=True))
    if cell != "LSTM" and outputs == ["output_cell_single_tensor"]:
        outputs = [RESERVE]
    return build(
        cell,
        rng,
        t=t,
        b=b,
        i=draw(st.integers(1, 6)),
        h=h,
        dtype=draw(st.sampled_from([np.float32, np.float16])),
        direction=direction,
        lengths=draw(st.none() | st.lists(st.integers(0, t + 2), min_size=b, max_size=b)),
        mask=draw(st.none() | st.lists(st.sampled_from([0, 1, 1, 200]), min_size=t * b, max_size=t * b)),
        dropout=tuple(draw(st.sets(st.sampled_from([X_DROPOUT, H_DROPOUT])))),
        optional=tuple(draw(st.sets(st.sampled_from(OPTIONAL)))),
        outputs=tuple(outputs),
        functions=tuple(functions),
        layouts=("packed", "padded", "permuted", "broadcast"),
        **flags,
    )


@settings(max_examples=80, deadline=None)
@given(runs())
def test_any_combination(run: Run) -> None:
    kept = {name: placed.memory.copy() for name, placed in run.inputs.items()}
    expected = traced(run.desc, run.arrays)
    # Among any numbers are some that nearly cancel, which leaves float32 too few digits, and float16 none at all. float64 has plenty.
    assume(all(not values.any() or np.abs(values).max() > 0.01 for values in expected.outputs.values()))
    for prepared in (False, True):
        poison(run)
        run.launch(DefinitionPlan(run.desc), prepared=prepared)
        check(run, expected, np.float16)
    for name, placed in run.inputs.items():
        np.testing.assert_array_equal(placed.memory, kept[name], err_msg=f"{name} was written to")


# in addition to the operator


@pytest.mark.pairwise
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_without_extras_it_is_the_operator_itself(cell: str, flags: dict[str, Any], ragged: bool, batch: int) -> None:
    # Nor do a reserve and a mask of ones change a bit of the training form's results.
    lengths = [3, 6, 0, 5][:batch] if ragged else None
    results: list[dict[str, Array]] = []
    for outputs, mask in ((OUTPUTS, None), ((*OUTPUTS, RESERVE), None), (OUTPUTS, np.ones((6, batch)))):
        options: dict[str, Any] = flags | {"outputs": outputs, "mask": mask, "lengths": lengths}
        run = build(cell, np.random.default_rng(7), t=6, b=batch, i=7, h=9, direction="BIDIRECTIONAL", **options)
        run.launch(DefinitionPlan(run.desc))
        results.append({name: run.outputs[name].elements.copy() for name in run.outputs if name != RESERVE})
    kinds: dict[str, Any] = {"RNN": dml.RNNDesc, "LSTM": dml.LSTMDesc, "GRU": dml.GRUDesc}
    base = kinds[cell]
    plain = base(**{name: getattr(run.desc, name) for name in base.model_fields})
    inputs = {name: placed for name, placed in run.inputs.items() if name != MASK}
    poison(run)
    Run(plain, inputs, run.outputs).launch(RecurrentPlan(plain))
    for result in results:
        for name, values in result.items():
            np.testing.assert_array_equal(values, results[0][name], err_msg=name)
            assert_close(values, run.outputs[name].elements, np.float32, terms=run.terms, what=name)


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", TRAINING)
def test_input_of_a_masked_step_is_never_seen(cell: str, direction: str, junk: float) -> None:
    mask = np.array(MASKS["holes"])
    for dropout in ((), (X_DROPOUT, H_DROPOUT)):
        run = build(cell, np.random.default_rng(5), t=5, direction=direction, mask=mask, lengths=[5, 4, 2], dropout=dropout)
        expected = traced(run.desc, run.arrays)
        x = run.inputs["input_tensor"].elements[0]
        x[mask == 0] = junk
        x[4:, 1], x[2:, 2] = junk, junk
        run.launch(DefinitionPlan(run.desc))
        check(run, expected)


@pytest.mark.parametrize("flags", [{}, {"use_clip_threshold": True, "clip_threshold": 0.1}])
@pytest.mark.parametrize("cell", TRAINING)
def test_nan_stays_with_its_sample(cell: str, flags: dict[str, Any]) -> None:
    run = build(cell, np.random.default_rng(6), mask=HOLES[3], dropout=(X_DROPOUT, H_DROPOUT), **(flags if cell == "LSTM" else {}))
    run.inputs["input_tensor"].elements[0, 2, 1] = np.nan
    run.launch(DefinitionPlan(run.desc))
    sequence = run.outputs["output_sequence_tensor"].elements[:, 0]
    assert np.isnan(sequence[2:, 1]).all()
    assert np.isfinite(sequence[:2, 1]).all()
    assert np.isfinite(sequence[:, [0, 2]]).all()


def test_dropout_of_the_state_leaves_the_update_gates_h_alone() -> None:
    check_dropout_of_h(DefinitionPlan)


# plans and memory

EXTRAS: dict[str, Any] = {"dropout": (X_DROPOUT, H_DROPOUT), "optional": OPTIONAL}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("cell", TRAINING)
def test_a_bound_launch_reads_its_tensors_anew(cell: str, batch: int) -> None:
    first, second = HOLES[batch], [[1] * batch, [1] * batch, [0] * batch, [1] * batch]
    options = EXTRAS | ({"p": 5} if cell == "LSTM" else {})
    run = build(cell, np.random.default_rng(8), b=batch, lengths=[2] * batch, mask=first, layouts=("packed", "padded"), **options)
    other = build(cell, np.random.default_rng(9), b=batch, lengths=[4] * batch, mask=second, **options)
    plan = DefinitionPlan(run.desc)
    block, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (run.inputs | run.outputs).items()}, temporary, None)
    for _ in range(2):
        poison(run)
        launch(0)
        check(run, traced(run.desc, run.arrays))
        results = {name: placed.elements.copy() for name, placed in run.outputs.items()}
        poison(run)
        launch(0)
        for name, placed in run.outputs.items():
            if name != RESERVE:  # of which a part may stay unwritten
                np.testing.assert_array_equal(placed.elements, results[name], err_msg=f"{name} differs from launch to launch")
        for name, placed in run.inputs.items():
            placed.elements[...] = other.inputs[name].elements
    assert (block[-64:] == GUARD).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", TRAINING)
def test_the_same_inputs_give_the_same_bits(cell: str, direction: str) -> None:
    results = []
    for _ in range(2):
        run = build(cell, np.random.default_rng(3), t=9, b=5, i=33, h=65, direction=direction, **EXTRAS)
        run.launch(DefinitionPlan(run.desc))
        results.append(run.outputs[RESERVE].elements)
    np.testing.assert_array_equal(*results)
    assert np.isfinite(results[0]).all()


def test_what_is_constant() -> None:
    run = build("LSTM", np.random.default_rng(1), b=2, i=3, h=4, p=2, mask=np.ones((4, 2)), **EXTRAS)
    plan = DefinitionPlan(run.desc)
    assert plan.constants == ("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor", "projection_tensor")
    # [16, 3] + [16, 2] + [2, 16] + [12] + [2, 4] in float32, each rounded up to 64 bytes
    assert plan.persistent_size == 192 + 128 + 128 + 64 + 64


def test_through_the_front_door() -> None:
    run = build("GRU", np.random.default_rng(1), mask=HOLES[3], **EXTRAS)
    results = dml.compile(run.desc, device="numpy")(**run.arrays)
    expected = traced(run.desc, run.arrays)
    for name in OUTPUTS[:2]:
        assert_close(getattr(results, name), expected.outputs[name], np.float32, terms=run.terms, what=name)
    check_reserve(run.desc, SavedRows.of_definition(run.desc, results.reserve_tensor.array), saved_gates, expected, run.terms)


def test_a_projection_is_packed_with_the_other_constants() -> None:
    run = build("LSTM", np.random.default_rng(1), p=2, mask=HOLES[3], **EXTRAS)
    operator, arrays = dml.compile(run.desc, device="numpy"), dict(run.arrays)
    whole = operator(**arrays)
    constants = {name: arrays.pop(name) for name in run.desc.constant_inputs()}
    assert "projection_tensor" in constants
    prepared = operator.prepare(**constants)
    for array in constants.values():
        array[...] = np.nan  # no longer read
    results = prepared(**arrays)
    for name in OUTPUTS:
        np.testing.assert_array_equal(getattr(results, name), getattr(whole, name), err_msg=name)
