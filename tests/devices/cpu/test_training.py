"""The compiled plans of training forms, gradients and stacked networks, at the NumPy device's tables."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cpu.recurrent.parameters import COMPILED
from dmlpy.devices.cpu.thread_pool import ThreadPool
from dmlpy.operators.activation import ActivationGeluDesc, ActivationScaledTanhDesc, ActivationSoftsignDesc
from tests.support.cpu.stalled_worker import HELD_S, MOST_S, StalledWorker
from tests.support.pairwise import first_few
from tests.support.recurrent.gradient_runs import CELLS, UPSTREAM
from tests.support.recurrent.layer_runs import EVERY_ACTIVATION, FLAGS, USUAL, scratch
from tests.support.recurrent.networks import check_torch, torch_case, torch_cases
from tests.support.recurrent.training_runs import (
    DIRECTIONS,
    HOLES,
    LAYOUTS,
    MASKS,
    RESERVE,
    VARIANTS,
    build,
    check_repeated_outputs,
    of_cell,
    random_run,
)

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import jit, launches
from dmlpy.devices.cpu.recurrent import gradient_plan
from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan
from dmlpy.devices.cpu.recurrent.packing import ActiveRows
from dmlpy.devices.cpu.recurrent.parameters import ReserveRows
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from tests.support.cpu.compiled_recurrence import CPU, backward, share_among

Array = np.ndarray[Any, np.dtype[Any]]

CELLS_AND_VARIANTS = [(cell, variant) for cell in CELLS for variant in VARIANTS[: 4 if cell == "LSTM" else 2]]
"""The layers themselves, with dropout, and the LSTM with a projection, with dropout of x and of h."""


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 4), (3, 19), (9, 32)])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table])
def test_every_option(
    cell: str, flags: dict[str, Any], variant: dict[str, Any], direction: str, ragged: bool, batch: int, hidden: int, dtype: Any
) -> None:
    rng = np.random.default_rng(3)
    lengths = [int(length) for length in rng.integers(0, 6, batch)] if ragged else None
    sizes: dict[str, Any] = {"b": batch, "h": hidden, "dtype": dtype, "direction": direction, "lengths": lengths}
    run = build(cell, rng, **sizes, **flags, **of_cell(cell, variant))
    backward(run, rng).check()
    CPU.check_forward(run)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("lengths", [None, [5, 3, 2], [0, 3, 9]], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("cell", "flags"), [(cell, flags) for cell, table in FLAGS.items() for flags in table[:2]])
def test_masks(
    cell: str, flags: dict[str, Any], variant: dict[str, Any], mask: str, direction: str, lengths: list[int] | None, dtype: Any
) -> None:
    rng = np.random.default_rng(4)
    options: dict[str, Any] = {"direction": direction, "lengths": lengths, "mask": MASKS[mask], "dtype": dtype}
    run = build(cell, rng, t=5, h=19, **options, **flags, **of_cell(cell, variant))
    backward(run, rng).check()
    CPU.check_forward(run)


@pytest.mark.parametrize("cell", CELLS)
def test_a_masked_step_repeats_the_output_before_it(cell: str) -> None:
    check_repeated_outputs(cell, RecurrentPlan)


def test_padding_costs_no_step() -> None:
    """The steps that a mask leaves at the beginning or at the end are not taken; those in holes only where the samples after them are."""
    takes = {"leading": [0, 0, 3, 2, 3], "trailing": [3, 2, 1, 0, 0], "holes": [3, 0, 2, 0, 3]}
    for mask, counts in takes.items():
        tensors = {"step_mask_tensor": np.array(MASKS[mask], np.uint8)[None, None]}
        shapes = ActiveRows.scratch(5, 3, tensors)
        rows = ActiveRows(5, 3, tensors, False, {name: np.zeros(sizes, dtype) for name, sizes, dtype in shapes})
        rows.update()
        assert np.diff(rows.bases).tolist() == counts, mask


@pytest.mark.parametrize(
    "function",
    # those that are compiled in need time loops of their own; the others share one
    [pytest.param(each, marks=[pytest.mark.slow] * (type(each) in COMPILED), id=type(each).__name__) for each in EVERY_ACTIVATION],
)
def test_every_activation(function: Any) -> None:
    rng = np.random.default_rng(5)
    run = build("RNN", rng, lengths=[3, 4, 1], direction="BIDIRECTIONAL", functions=(function, function))
    backward(run, rng).check()


@pytest.mark.parametrize(
    ("cell", "flags"),
    first_few(
        [("LSTM", FLAGS["LSTM"][-2]), ("GRU", FLAGS["GRU"][0]), ("LSTM", FLAGS["LSTM"][0]), *(("GRU", each) for each in FLAGS["GRU"][1:])],
        0,
    ),
)
def test_other_activations_in_every_role(cell: str, flags: dict[str, Any]) -> None:
    rng, others = np.random.default_rng(5), (ActivationSoftsignDesc(), ActivationScaledTanhDesc(alpha=0.9, beta=0.7), ActivationGeluDesc())
    run = build(cell, rng, lengths=[3, 4, 1], functions=others[: len(USUAL[cell])], **flags)
    backward(run, rng).check()


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "role"), [(cell, role) for cell, usual in USUAL.items() for role in range(len(usual))])
@pytest.mark.parametrize("function", EVERY_ACTIVATION, ids=lambda desc: type(desc).__name__)
def test_every_activation_in_every_role(function: Any, cell: str, role: int) -> None:
    """Most compile time loops of their own."""
    rng, usual = np.random.default_rng(5), USUAL[cell]
    functions = (*usual[:role], function, *usual[role + 1 :], *usual)
    run = build(cell, rng, lengths=[3, 4, 1], direction="BIDIRECTIONAL", functions=functions, **FLAGS[cell][-1])
    backward(run, rng).check()


@pytest.mark.parametrize("seed", first_few(range(120), 30))
def test_random_layouts(seed: int) -> None:
    run, rng = random_run(seed, batches=[1, 2, 8], hidden=[1, 5, 16, 19]), np.random.default_rng(seed)
    back = backward(run, rng, upstream=[name for name in UPSTREAM if rng.integers(3)], layouts=LAYOUTS)
    kept = {name: placed.memory.copy() for name, placed in back.inputs.items()}
    back.check()
    CPU.check_forward(run)
    for name, placed in back.inputs.items():
        np.testing.assert_array_equal(placed.memory, kept[name], err_msg=f"{name} was written to")


@pytest.mark.each_value
@pytest.mark.parametrize(
    "skips",
    [
        *({}, {"lengths": [1, 8, 4, 0, 15]}, {"lengths": [2, 2, 2, 1, 2]}, {"lengths": [0] * 5}),
        {"mask": np.arange(65).reshape(13, 5) % 3 > 0},
        {"dtype": np.float16, "lengths": [1, 8, 4, 0, 15]},
    ],
    ids=["full", "ragged", "short", "empty", "masked", "halves"],
)
@pytest.mark.parametrize(("cell", "variant"), CELLS_AND_VARIANTS)
def test_blocks_and_threads(cell: str, variant: dict[str, Any], skips: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_plan, "_BLOCK_ROWS", 25)
    rng = np.random.default_rng(2)
    run = build(cell, rng, t=13, b=5, i=5, h=35, direction="BIDIRECTIONAL", **skips, **of_cell(cell, variant))
    found = []
    for threads in (1, 2, 3):
        share_among(threads, monkeypatch)
        back = backward(run, np.random.default_rng(4))
        described = GradientPlan(back.desc).describe()
        assert "5 of 13 steps at a time" in described
        assert ("both at once" in described) == (threads == 2 and "dropout of x" not in described)
        CPU.check_forward(run)
        outputs = {name: placed.elements.copy() for name, placed in run.outputs.items()}
        found.append(outputs | back.check(f"{threads} threads: "))
    for others in found[1:]:  # how the work is shared changes no sum
        for name, array in others.items():
            np.testing.assert_array_equal(array, found[0][name], err_msg=name)


@pytest.mark.parametrize(("cell", "variant"), CELLS_AND_VARIANTS)
def test_threads_that_come_when_all_is_done_end(cell: str, variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for nobody, in the time loop and in the backward recurrence."""
    late: list[Any] = []
    share_among(3, monkeypatch)
    worker = "dmlpy.devices.cpu.thread_pool._Worker"
    monkeypatch.setattr(f"{worker}.__init__", lambda self: setattr(self, "begin", lambda *work: late.append(work)))
    monkeypatch.setattr(f"{worker}.avoid", lambda self, processor: True)
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._pool", ThreadPool())
    run = build(cell, np.random.default_rng(2), t=13, b=5, i=5, h=35, **of_cell(cell, variant))
    backward(run, np.random.default_rng(4)).check()
    assert len(late) >= 4  # two workers for each of the passes
    for share, *arguments in late:
        thread = Thread(target=share, args=arguments, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.each_value
@pytest.mark.parametrize("caller", [True, False], ids=["the caller is held back", "the other is held back"])
@pytest.mark.parametrize(("cell", "variant"), [("LSTM", {}), ("LSTM", VARIANTS[1]), ("GRU", {}), ("GRU", of_cell("GRU", VARIANTS[1]))])
def test_backward_recurrences_sleep_while_one_is_held_back(
    cell: str, variant: dict[str, Any], caller: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread does again what another has begun and does not finish."""
    share_among(2, monkeypatch)
    run, pool = build(cell, np.random.default_rng(2), t=7, b=5, i=5, h=35, **variant), StalledWorker(caller=caller)
    back = backward(run, np.random.default_rng(4))
    monkeypatch.setattr(launches, "shared_pool", lambda: pool)
    back.check()
    assert max(pool.cpu_s) < MOST_S
    if not caller:
        assert max(pool.wall_s) < HELD_S


@pytest.mark.parametrize(("cell", "variant"), CELLS_AND_VARIANTS)
def test_each_output_alone(cell: str, variant: dict[str, Any]) -> None:
    run = build(cell, np.random.default_rng(3), direction="BIDIRECTIONAL", lengths=[2, 4, 1], **of_cell(cell, variant))
    everything = backward(run, np.random.default_rng(4)).launch()
    for name, expected in everything.items():
        alone = backward(run, np.random.default_rng(4), gradients=[name]).launch()
        assert alone.keys() == {name}
        np.testing.assert_array_equal(alone[name], expected, err_msg=name)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("cell", "variant"), CELLS_AND_VARIANTS)
def test_nothing_leaks_from_steps_not_taken(cell: str, variant: dict[str, Any], direction: str) -> None:
    rng, lengths = np.random.default_rng(6), [2, 4, 0]
    ended = np.arange(4)[:, None] >= lengths
    for mask in (None, np.array(HOLES[3])):
        run = build(cell, rng, direction=direction, lengths=lengths, mask=mask, **of_cell(cell, variant))
        back = backward(run, rng)
        clean = back.launch()
        reserve = ReserveRows.of(back.desc, back.inputs[RESERVE].elements)
        skipped = ended if mask is None else ended | (mask == 0)
        back.inputs["input_tensor"].elements[0, skipped] = np.nan
        back.inputs["output_sequence_gradient_tensor"].elements.swapaxes(1, 2)[ended] = np.nan
        reserve.saved.transpose(1, 3, 0, 2, 4)[skipped] = np.nan
        for name, array in back.launch().items():
            np.testing.assert_array_equal(array, clean[name], err_msg=name)
        # Nor does the forward recurrence see the input there.
        shown = {name: placed.elements.copy() for name, placed in run.outputs.items() if name != RESERVE}
        run.launch(RecurrentPlan(run.desc))
        for name, array in shown.items():
            np.testing.assert_array_equal(run.outputs[name].elements, array, err_msg=name)


@pytest.mark.parametrize("variant", VARIANTS[:2])
def test_a_bound_launch_reads_its_tensors_anew(variant: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    one, other = (backward(build("LSTM", rng, lengths=lengths, **variant), rng) for lengths in ([4, 2, 3], [1, 4, 0]))
    plan = GradientPlan(one.desc)
    _, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (one.inputs | one.outputs).items()}, temporary, None)
    launch(0)
    for name, placed in one.inputs.items():
        placed.elements[...] = other.inputs[name].elements
    launch(0)
    for name, array in other.launch().items():
        np.testing.assert_array_equal(one.outputs[name].elements, array, err_msg=name)


@pytest.mark.slow
def test_an_optimised_backward_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLPY_CPU_OPTIMIZATION")
    monkeypatch.setattr(jit, "_functions", {})
    rng = np.random.default_rng(1)
    backward(build("LSTM", rng, b=9, h=40, lengths=[4, 3, 2, 1, 0, 4, 4, 2, 4]), rng).check()


def test_training_takes_no_product_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would look for more work on the processors that the next time loop needs."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a product by NumPy")

    for name in ("matmul", "dot"):
        monkeypatch.setattr(np, name, refuse)
    rng = np.random.default_rng(2)
    for cell, variant in (("LSTM", {}), ("LSTM", VARIANTS[1]), ("GRU", {}), ("GRU", of_cell("GRU", VARIANTS[1]))):
        back = backward(build(cell, rng, direction="BIDIRECTIONAL", lengths=[4, 2, 3], **variant), rng)
        assert all(np.isfinite(array).all() for array in back.launch().values())


# the device


def test_a_reserve_of_the_other_layout_is_refused() -> None:
    rng = np.random.default_rng(10)
    run = build("GRU", rng)
    back = backward(run, rng)
    arrays = {name: array for name, array in back.arrays.items() if name != RESERVE}
    forward = dml.compile(run.desc, "cpu")(**run.arrays)
    found = dml.compile(back.desc, "cpu")(**arrays, reserve_tensor=forward.reserve_tensor)
    for name, array in back.check().items():
        np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)
    with pytest.raises(dml.BindError, match=r'a reserve of layout "?rows'):
        dml.compile(back.desc, "numpy")(**arrays, reserve_tensor=forward.reserve_tensor)


@pytest.mark.parametrize("name", torch_cases())
def test_networks(name: str) -> None:
    device, desc = dml.device("cpu"), torch_case(name).network.desc
    for each in (desc, desc.gradient()):
        assert dml.compile(each, device).plan.startswith("strategy: compiled")
    check_torch(device, name)


def test_gradients_of_weights_are_summed_where_they_lie() -> None:
    """Only others than packed rows of FLOAT32 need scratch."""
    desc = backward(build("LSTM", np.random.default_rng(3), b=2, i=40, h=8), np.random.default_rng(4)).desc
    sizes = desc.weight_gradient_tensor.sizes
    columns = desc.weight_gradient_tensor.replace(strides=(0, 0, 1, sizes[-2]))
    direct, copied = (GradientPlan(each).temporary_size for each in (desc, desc.replace(weight_gradient_tensor=columns)))
    assert copied - direct == 4 * sizes[-2] * sizes[-1]
