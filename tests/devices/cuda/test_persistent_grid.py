"""Whole CUDA plans of the strategy `persistent_grid`, R resident in many blocks or in one, their kernels on the CPU and on a GPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from tests.support.cuda import layer_plans as layers
from tests.support.cuda import training_layers as training
from tests.support.cuda.grid_rows import CLIPPED, FEW, FLOAT, HALF, RESETS_FIRST, RESETS_LAST, Row
from tests.support.cuda.layer_plans import launch
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.pairwise import first_few
from tests.support.recurrent.layer_runs import Run, activations_by_direction
from tests.support.tools import require

REST = {"most_registers": 0}  # all of R in shared memory
SOME = {"most_registers": 8}  # a part of it in registers
DATA = {"protocol": "data"}  # words that signal their own arrival, in place of flags

ROWS = [
    # one block holds R
    Row("RNN", HALF, (37, 5, 8)),
    Row("RNN", FLOAT, (37, 2, 1), direction="FORWARD"),
    Row("GRU", FLOAT, (37, 3, 2), flags=RESETS_FIRST),
    Row("GRU", HALF, (70, 9, 8), (70, 9), flags=RESETS_LAST, options=SOME),
    Row("LSTM", HALF, (37, 5, 8), flags=CLIPPED, peephole=True, options={"row_warps": 8}),
    Row("LSTM", FLOAT, (37, 5, 4), direction="BACKWARD", tf32=False, options=REST),
    # many do; the last group of units and of the batch is smaller
    Row("RNN", HALF, (8, 3, 8), options=REST),
    Row("RNN", FLOAT, (8, 2, 1), direction="BACKWARD"),
    Row("RNN", FLOAT, (16, 4, 8), tf32=True),
    Row("GRU", HALF, (16, 5, 8), flags=RESETS_FIRST),
    Row("GRU", HALF, (24, 20, 8), (130, 21), direction="FORWARD", flags=RESETS_FIRST, options=SOME),
    Row("GRU", FLOAT, (8, 3, 2), flags=RESETS_FIRST, options=SOME),
    Row("GRU", FLOAT, (12, 20, 16), (37, 21), direction="BACKWARD", flags=RESETS_FIRST, tf32=True),
    Row("GRU", HALF, (12, 19, 8), (37, 19), flags=RESETS_LAST),
    Row("GRU", FLOAT, (20, 5, 2), direction="FORWARD", flags=RESETS_LAST, options=REST),
    Row("LSTM", HALF, (8, 8, 8), (130, 19), options={"row_warps": 2}),
    Row("LSTM", HALF, (20, 30, 24), (61, 30), direction="FORWARD", flags={"couple_input_forget": True}, options=SOME | {"row_warps": 4}),
    Row("LSTM", FLOAT, (12, 5, 1), flags=CLIPPED | {"couple_input_forget": True}, peephole=True),
    Row("LSTM", FLOAT, (40, 9, 4), (61, 9), direction="BACKWARD", flags=CLIPPED, options=SOME),
    Row("LSTM", FLOAT, (16, 8, 8), (61, 9), direction="FORWARD", tf32=True, peephole=True, options=SOME | {"row_warps": 4}),
    # the same without flags
    Row("RNN", HALF, (8, 3, 8), options=DATA | REST),
    Row("RNN", FLOAT, (8, 2, 1), direction="BACKWARD", options=DATA),
    Row("RNN", FLOAT, (16, 4, 8), tf32=True, options=DATA),
    Row("GRU", HALF, (16, 5, 8), flags=RESETS_FIRST, options=DATA),
    Row("GRU", FLOAT, (8, 3, 2), flags=RESETS_FIRST, options=DATA | SOME),
    Row("GRU", FLOAT, (12, 20, 16), (37, 21), direction="BACKWARD", flags=RESETS_FIRST, tf32=True, options=DATA | {"row_warps": 2}),
    Row("GRU", HALF, (12, 19, 8), (37, 19), flags=RESETS_LAST, options=DATA),
    Row("LSTM", HALF, (8, 8, 8), (130, 19), options=DATA | {"row_warps": 2}),
    Row(
        "LSTM",
        HALF,
        (20, 30, 24),
        (61, 30),
        direction="FORWARD",
        flags={"couple_input_forget": True},
        options=DATA | SOME | {"row_warps": 4},
    ),
    Row("LSTM", FLOAT, (12, 5, 1), flags=CLIPPED | {"couple_input_forget": True}, peephole=True, options=DATA),
    Row("LSTM", FLOAT, (40, 9, 4), (61, 9), direction="BACKWARD", flags=CLIPPED, options=DATA | REST),
    # of bfloat16s
    Row("GRU", BFLOAT16, (12, 9, 8), (20, 10), flags=RESETS_FIRST),
    Row("LSTM", BFLOAT16, (12, 3, 8), (20, 5), flags=CLIPPED, peephole=True, options=DATA | {"row_warps": 2}),
]
ONE_BLOCK = 6
"""Of so many rows at the start one block holds R."""


def usual(number: int, trains: bool) -> bool:
    """Each row in one of its two forms, in turn; of those of many blocks every second row, with flags or without."""
    return number % 2 != trains and (number < ONE_BLOCK or number // 2 % 2 == 0)


@pytest.mark.parametrize(
    ("row", "trains"),
    [
        pytest.param(
            row,
            trains,
            id=f"{row}, {'training' if trains else 'inference'}",
            marks=[pytest.mark.slow] * (not usual(number, trains)),
        )
        for number, row in enumerate(ROWS)
        for trains in (False, True)
    ],
)
def test_grid(cuda_runtime: CudaRuntime, row: Row, trains: bool) -> None:
    for seed, prepared in ((1, False), (2, True)):
        run = row.build(trains=trains, seed=seed, layouts=layers.LAYOUTS if seed == 2 else ("packed",))
        launch(run, row.plan, cuda_runtime, prepared=prepared)
        (training if trains else layers).check(run)
    if isinstance(cuda_runtime, EmulatedRuntime):
        cuda_runtime.check_guards()


ONE_SAMPLE = [
    Row("LSTM", HALF, (70, 1, 8), (70, 2), options={"row_warps": 8}),
    Row("GRU", HALF, (48, 1, 8), (61, 2), flags=RESETS_FIRST, options=DATA),
    Row("RNN", FLOAT, (70, 1, 8), (70, 2), tf32=True),
]


@pytest.mark.each_value
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("row", ONE_SAMPLE, ids=str)
def test_blocks_of_one_sample_take_it_alone(cuda_runtime: CudaRuntime, row: Row, trains: bool) -> None:
    """Though products on tensor cores have eight: a thread has no pairs of the others, whose sums go nowhere."""
    run = row.build(trains=trains)
    plan = launch(run, row.plan, cuda_runtime)
    (entry,) = (kernel.entry for kernel in plan.kernels() if kernel.entry.startswith("persistent_grid<"))
    assert re.search(r"Protocol::\w+, 1, ", entry), "one pair"
    (training if trains else layers).check(run)
    if isinstance(cuda_runtime, EmulatedRuntime):
        cuda_runtime.check_guards()


@pytest.mark.parametrize("cell", first_few([*FEW], 1))
def test_directions_may_have_different_activations(cuda_runtime: CudaRuntime, cell: str) -> None:
    run = FEW[cell].build(trains=True, functions=activations_by_direction(cell))
    launch(run, FEW[cell].plan, cuda_runtime)
    training.check(run)


@pytest.mark.parametrize("cell", FEW)
def test_lengths_of_zero_and_beyond_the_sequence(cuda_runtime: CudaRuntime, cell: str) -> None:
    for lengths in ([0] * 5, [4, 3, 2**32 - 1, 2**31, 0]):
        run = FEW[cell].build(trains=True, lengths=lengths)
        launch(run, FEW[cell].plan, cuda_runtime)
        training.check(run)


@pytest.mark.parametrize("cell", FEW)
def test_input_of_steps_not_taken_is_never_seen(cuda_runtime: CudaRuntime, cell: str) -> None:
    run = FEW[cell].build(trains=True)
    mask, lengths = run.arrays["step_mask_tensor"][0, 0], run.arrays["sequence_lengths_tensor"].reshape(-1)
    for time, sample in np.ndindex(*mask.shape):
        if time >= lengths[sample] or not mask[time, sample]:
            run.inputs["input_tensor"].elements[0, time, sample] = np.nan
    with np.errstate(invalid="ignore"):  # the product of all steps meets it, and nobody reads those rows
        launch(run, FEW[cell].plan, cuda_runtime)
    training.check(run)


def test_samples_do_not_touch_each_other(cuda_runtime: CudaRuntime) -> None:
    """A NaN in one sample of a pass stays there."""
    run = FEW["GRU"].build(trains=False, lengths=[4, 4, 2, 4, 4])
    run.inputs["input_tensor"].elements[0, 1, 1] = np.nan
    launch(run, FEW["GRU"].plan, cuda_runtime)
    sequence = run.outputs["output_sequence_tensor"].elements
    assert np.isnan(sequence[1:, 0, 1]).all()
    assert np.isfinite(sequence[:, :, [0, 2, 3, 4]]).all()


@pytest.mark.each_value
@pytest.mark.parametrize(("dtype", "options"), [(HALF, DATA), (FLOAT, DATA), (BFLOAT16, DATA), (HALF, {}), (FLOAT, {})])
def test_a_state_of_all_ones_is_a_nan_as_any_other(cuda_runtime: CudaRuntime, dtype: Any, options: dict[str, Any]) -> None:
    """It is not taken for a word that has yet to come: neither a float, nor two halves or bfloat16s side by side."""
    row = Row("RNN", dtype, (8, 2, 2 if dtype == FLOAT else 8), (16, 2), direction="FORWARD", options=options)
    run = row.build(trains=False, lengths=[4, 4])
    bits = run.inputs["hidden_init_tensor"].elements.view(np.uint32 if dtype == FLOAT else np.uint16)
    bits[0, 0, 1, :] = 2 ** (8 * bits.itemsize) - 1
    launch(run, row.plan, cuda_runtime)
    single = run.outputs["output_single_tensor"].elements
    assert np.isnan(single[0, 0, 1]).all()
    assert np.isfinite(single[0, 0, 0]).all()


@pytest.mark.parametrize("output", ["output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor"])
def test_each_output_alone(cuda_runtime: CudaRuntime, output: str) -> None:
    run = FEW["LSTM"].build(trains=False, outputs=(output,))
    launch(run, FEW["LSTM"].plan, cuda_runtime)
    layers.check(run)


@pytest.mark.parametrize("cell", FEW)
def test_results_do_not_depend_on_the_order_of_threads_nor_on_packing(cell: str) -> None:
    require("g++")
    found = []
    for seed, prepared in [(1, False), (2, False), (3, True)]:
        run = FEW[cell].build(trains=True)
        launch(run, FEW[cell].plan, EmulatedRuntime(H100, seed=seed), prepared=prepared)
        found.append([np.array(placed.elements) for placed in run.outputs.values()])
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(first, other)


def test_a_captured_dispatch_reads_its_tensors_anew() -> None:
    """Flags and what is exchanged are cleared inside the graph, so a replay finds them as a first launch does."""
    require("g++")
    emulated_runtime = EmulatedRuntime(H100)
    run = FEW["GRU"].build(trains=True)
    plan = FEW["GRU"].plan(run.desc, KernelLibrary(emulated_runtime, 0))
    arrays = {
        name: emulated_runtime.to_device(0, np.ascontiguousarray(placed.elements), 0) for name, placed in (run.inputs | run.outputs).items()
    }
    temporary = layers.poisoned(emulated_runtime, plan.temporary_size)
    graph = emulated_runtime.capture(0, plan.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None))
    for factor in (1.0, -0.5):
        run.inputs["input_tensor"].elements[...] *= HALF(factor)
        arrays["input_tensor"].set(run.inputs["input_tensor"].elements)
        emulated_runtime.launch_graph(graph, 0)
        for name, placed in run.outputs.items():
            placed.elements[...] = emulated_runtime.to_host(arrays[name], 0)
        training.check(Run(run.desc, run.inputs, dict(run.outputs)))
    emulated_runtime.check_guards()


# many steps, with blocks that are late at random

SOAK = {
    "RNN": Row("RNN", FLOAT, (4, 2, 2), (8, 2)),
    "GRU": Row("GRU", HALF, (8, 2, 8), (16, 2), direction="FORWARD", flags=RESETS_FIRST),
    "GRU that resets last": Row("GRU", FLOAT, (4, 9, 8), (12, 9), direction="FORWARD", flags=RESETS_LAST, tf32=True),
    "LSTM": Row("LSTM", HALF, (4, 1, 8), (12, 2), direction="BACKWARD"),
    "GRU without flags": Row("GRU", HALF, (8, 2, 8), (16, 2), direction="FORWARD", flags=RESETS_FIRST, options=DATA),
    "RNN without flags": Row("RNN", FLOAT, (4, 2, 2), (8, 2), options=DATA),
}
SLOW_SOAK = ("GRU", "GRU that resets last", "LSTM", "RNN without flags")
"""Cells that exchange H[t] as the RNN does, and without flags as the GRU does."""


def soak(row: Row, steps: int) -> None:
    """The results of blocks that are late at random are those of blocks that are not, bit for bit."""
    require("g++")
    found = []
    for delay_us in (0, 40):
        run = row.build(trains=False, t=steps)
        launch(run, row.plan, EmulatedRuntime(H100, seed=delay_us, delay_us=delay_us))
        found.append(run.outputs["output_sequence_tensor"].elements)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW_SOAK)) for name in SOAK])
def test_late_blocks_change_nothing(name: str) -> None:
    soak(SOAK[name], 250)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOAK)
def test_late_blocks_change_nothing_in_many_steps(name: str) -> None:
    # states of all steps, which blocks without flags exchange, have to fit in the cache
    soak(SOAK[name], 8000 if SOAK[name].options == DATA else 40000)
