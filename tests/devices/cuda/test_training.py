"""CUDA plans of the training forms, their kernels on the CPU and on a GPU: outputs and reserve against a plain float64 loop."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.layer import PersistentBlockPlan, RecurrentPlan
from dmlpy.devices.cuda.recurrent.per_step import PerStepPlan
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.layer_plans import ALL_ROWS, BFLOAT16_ROWS, LAYOUTS, LSTM_ROWS, PLAIN_ROWS, STRATEGIES, launch, least_of, named
from tests.support.cuda.training_layers import ADDED, OPTIONAL, OUTPUTS, TRAINING, build, check
from tests.support.recurrent.layer_runs import CELLS, EVERY_ACTIVATION, Run, options_of, place, random_order
from tests.support.tools import require

# runs


def random_run(rng: np.random.Generator, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> Run:
    """Sizes of 1 and odd ones, all directions, ragged lengths, masks with holes, dropout, projections, absent tensors, odd layouts."""
    peephole = flags.get("peephole", False)
    b, t = int(rng.choice([1, 2, 3, 5, 9])), int(rng.choice([1, 2, 5]))
    p = int(rng.choice([0, 1, 2, 5])) if cell == "LSTM" and strategy == "per_step" else 0
    names = [name for name in OPTIONAL if name != "peephole_tensor" and rng.random() < 0.7] + ["peephole_tensor"] * bool(peephole)
    names += [name for name in ADDED if rng.random() < 0.5 and (strategy == "per_step" or name == "input_dropout_tensor")]
    return build(
        cell,
        rng,
        t=t,
        b=b,
        i=int(rng.choice([1, 3, 4, 7])),
        h=int(rng.choice([1, 3, 4, 9])),
        p=p,
        dtype=dtype,
        **random_order(rng, b, t),
        mask=rng.integers(0, 3, (t, b)) if rng.random() < 0.6 else None,
        optional=tuple(names),
        outputs=OUTPUTS if rng.random() < 0.8 else tuple(rng.permutation(OUTPUTS[:3])[:2]),
        layouts=LAYOUTS if rng.random() < 0.7 else ("packed",),
        **options_of(flags),
    )


def check_row(runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    start = zlib.crc32(repr((cell, flags, str(dtype), "training")).encode())
    for seed in range(start, start + 12):
        run = random_run(np.random.default_rng(seed), cell, flags, strategy, dtype)
        launch(run, STRATEGIES[strategy], runtime, prepared=bool(seed % 2))
        check(run, f"seed {seed}: ", least=least_of(dtype))


@pytest.mark.each_value
@pytest.mark.parametrize(("cell", "flags", "strategy", "dtype"), named((PLAIN_ROWS + LSTM_ROWS)[1::2] + BFLOAT16_ROWS))
def test_random_descs(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "flags", "strategy", "dtype"), named(ALL_ROWS))
def test_random_descs_in_full(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype)


@pytest.mark.parametrize("first", range(0, len(EVERY_ACTIVATION), 2), ids=lambda first: EVERY_ACTIVATION[first].type_name[24:].lower())
def test_every_activation_saves_its_value_or_its_argument(cuda_runtime: CudaRuntime, first: int) -> None:
    functions = tuple(EVERY_ACTIVATION[(first + direction) % len(EVERY_ACTIVATION)] for direction in range(2))
    run = build("RNN", np.random.default_rng(20), functions=functions, direction="BIDIRECTIONAL", lengths=[4, 0, 2])
    launch(run, STRATEGIES["persistent_block 2"], cuda_runtime)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", TRAINING)
def test_without_a_mask_the_outputs_are_the_layers_own(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    """Bit for bit."""
    run = build(cell, np.random.default_rng(21), b=5, h=7, direction="BIDIRECTIONAL", lengths=[4, 1, 0, 3, 2])
    launch(run, STRATEGIES[strategy], cuda_runtime)
    of_layer = CELLS[cell]
    members = {name: getattr(run.desc, name) for name in of_layer.model_fields}
    outputs = {
        name: place(np.full_like(placed.elements, np.nan), "packed", np.random.default_rng(1)) for name, placed in run.outputs.items()
    }
    del outputs["reserve_tensor"]
    plain = Run(of_layer(**members), run.inputs, outputs)
    launch(plain, STRATEGIES[strategy], cuda_runtime)
    for name, placed in outputs.items():
        np.testing.assert_array_equal(placed.elements, run.outputs[name].elements)


# masks


@pytest.mark.parametrize(
    ("cell", "strategy", "projected"),
    [
        *((cell, strategy, 0) for cell in TRAINING for strategy in ("persistent_block 1", "persistent_block 4", "per_step")),
        ("LSTM", "per_step", 2),
    ],
)
def test_a_masked_step_repeats_the_output_and_carries_the_states(
    cuda_runtime: CudaRuntime, cell: str, strategy: str, projected: int
) -> None:
    mask = np.array([[0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]])  # [T, B]
    run = build(cell, np.random.default_rng(22), p=projected, direction="BIDIRECTIONAL", lengths=[4, 4, 3], mask=mask)
    launch(run, STRATEGIES[strategy], cuda_runtime)
    sequence, single = run.outputs["output_sequence_tensor"].elements, run.outputs["output_single_tensor"].elements
    forward, backward = sequence[:, 0], sequence[:, 1]
    for zero in (forward[:2, 0], backward[3:, 0], sequence[:, :, 2]):  # no step was taken yet
        np.testing.assert_array_equal(zero, 0.0)
    for copied, original in [
        (forward[3, 0], forward[2, 0]),
        (backward[[0, 1], 0], backward[[2, 2], 0]),
        (forward[2, 1], forward[1, 1]),
        (backward[2, 1], backward[3, 1]),
        (single[0, 0, :2], forward[3, :2]),
        (single[0, 1, :2], backward[0, :2]),
        (single[0, :, 2], run.arrays["hidden_init_tensor"][0, :, 2]),
    ]:
        np.testing.assert_array_equal(copied, original)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
@pytest.mark.parametrize("cell", TRAINING)
def test_input_of_steps_not_taken_is_never_seen(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    mask = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 1]])
    lengths = [4, 3, 2]
    optional = (*OPTIONAL, "input_dropout_tensor", *(["state_dropout_tensor"] if strategy == "per_step" else []))
    run = build(cell, np.random.default_rng(23), direction="BIDIRECTIONAL", lengths=lengths, mask=mask, optional=optional)
    for sample, length in enumerate(lengths):
        for time in range(4):
            if time >= length or not mask[time, sample]:
                run.inputs["input_tensor"].elements[0, time, sample] = np.nan
    with np.errstate(invalid="ignore"):  # the product of all steps meets it, and nobody reads those rows
        launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
def test_a_length_beyond_the_sequence_fills_no_slot_beyond_it(cuda_runtime: CudaRuntime, strategy: str) -> None:
    run = build("LSTM", np.random.default_rng(24), t=3, b=4, lengths=[4, 3, 2**32 - 1, 2**31], direction="BIDIRECTIONAL")
    launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


# what a plan promises


@pytest.mark.parametrize(
    ("cell", "added", "takes"),
    [
        ("LSTM", {}, True),
        ("GRU", {"mask": np.ones((4, 3))}, True),
        ("RNN", {"optional": ("input_dropout_tensor",)}, True),
        ("RNN", {"optional": ("state_dropout_tensor",)}, False),
        ("LSTM", {"p": 2}, False),
    ],
)
def test_what_persistent_block_leaves_to_per_step(cell: str, added: dict[str, Any], takes: bool) -> None:
    require("g++")
    run = build(cell, np.random.default_rng(25), **added)
    library = KernelLibrary(EmulatedRuntime(H100), 0)
    plans: dict[str, type[RecurrentPlan]] = {"per_step": PerStepPlan} | ({"persistent_block": PersistentBlockPlan} if takes else {})
    for strategy, kind in plans.items():
        plan = recurrent_plan(run.desc, Target(library, strategy=strategy))
        assert type(plan) is kind
        assert plan.capturable is (kind is PerStepPlan)
    if not takes:
        assert type(recurrent_plan(run.desc, Target(library))) is PerStepPlan
        with pytest.raises(DeviceError, match=r"separate products? in each step"):
            recurrent_plan(run.desc, Target(library, strategy="persistent_block"))


def test_a_plan_describes_what_training_adds() -> None:
    require("g++")
    library = KernelLibrary(EmulatedRuntime(H100), 0)
    mask = np.ones((4, 3))
    lstm = build("LSTM", np.random.default_rng(26), p=2, mask=mask, optional=ADDED)
    text = recurrent_plan(lstm.desc, Target(library)).describe()
    for line in (
        "strategy per_step: the least estimate",
        "persistent_block: dropout of states takes separate products in each step",
        "by 4 gate rows, 4 times; input copied for each with its dropout",
        "by 4 gate rows for each of 4 gates and each direction",
        "step<float, Training, Lstm<",
        "product by 2 rows of the projection, project<float>",
        "reserve: 4 values of each unit and step, in the place of the input product, and the states around each step",
        "step mask: read in each step",
    ):
        assert line in text
    gru = build("GRU", np.random.default_rng(26), linear_before_reset=True)
    text = recurrent_plan(gru.desc, Target(library, strategy="persistent_block")).describe()
    assert "strategy persistent_block: as asked for" in text
    assert "persistent_block<float, 1, Training, Gru<true>" in text
    assert "reserve: 4 values of each unit and step, and the states" in text
    assert "mask" not in text


def test_the_reserve_takes_the_input_product_where_it_can() -> None:
    """The product is the larger part of the scratch: [T B, D G H] floats."""
    require("g++")
    library = KernelLibrary(EmulatedRuntime(H100), 0)
    for flags, saves in (({"linear_before_reset": False}, True), ({"linear_before_reset": True}, False)):
        sizes: dict[str, Any] = {"t": 20, "b": 5, "h": 7, **flags}
        with_reserve, without = (
            recurrent_plan(
                build("GRU", np.random.default_rng(27), outputs=outputs, **sizes).desc, Target(library, strategy="persistent_block")
            )
            for outputs in (OUTPUTS, OUTPUTS[:2])
        )
        product = -(-20 * 5 * 3 * 7 * 4 // 256) * 256
        assert without.temporary_size - with_reserve.temporary_size == product * saves


def test_launches_of_each_strategy() -> None:
    """As without training, and: a copy and a product for each gate with dropout; a product for each gate, or two for a projection."""
    require("g++")
    emulated_runtime = EmulatedRuntime(H100)

    def counted(strategy: str, cell: str, **options: Any) -> tuple[int, int]:
        before = emulated_runtime.counts.copy()
        launch(build(cell, np.random.default_rng(28), t=5, **{"optional": ()} | options), STRATEGIES[strategy], emulated_runtime)
        used = emulated_runtime.counts - before
        return used["launch"], used["gemm"]

    assert counted("persistent_block 2", "LSTM") == (2 + 1, 1)
    assert counted("persistent_block 2", "LSTM", optional=("input_dropout_tensor",)) == (2 + 4 + 1, 4)
    assert counted("per_step", "GRU", optional=("state_dropout_tensor",), linear_before_reset=True) == (2 + 5, 1 + 3 * 4)
    assert counted("per_step", "GRU", optional=("state_dropout_tensor",)) == (2 + 5 + 5, 1 + 3 * 4)
    assert counted("per_step", "GRU", optional=("state_dropout_tensor", "hidden_init_tensor")) == (2 + 1 + 5 + 5, 1 + 3 * 5)
    assert counted("per_step", "LSTM", p=3) == (3 + 2 * 5, 1 + 4 + 5)
    assert counted("per_step", "LSTM", p=3, direction="BIDIRECTIONAL") == (3 + 2 * 5, 1 + 2 * (4 + 5))


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", TRAINING)
def test_results_do_not_depend_on_the_order_of_threads_nor_on_packing(cell: str, strategy: str) -> None:
    require("g++")
    found = []
    for seed, prepared in [(1, False), (2, False), (3, True)]:
        mask = np.random.default_rng(29).integers(0, 2, (4, 5))
        optional = (*OPTIONAL, "input_dropout_tensor", *(["state_dropout_tensor"] if strategy == "per_step" else []))
        run = build(
            cell, np.random.default_rng(29), b=5, h=7, direction="BIDIRECTIONAL", mask=mask, lengths=[4, 1, 0, 3, 2], optional=optional
        )
        launch(run, STRATEGIES[strategy], EmulatedRuntime(H100, seed=seed), prepared=prepared)
        found.append([np.array(placed.elements) for placed in run.outputs.values()])
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("cell", TRAINING)
def test_a_captured_dispatch_reads_its_tensors_anew(cell: str) -> None:
    """A graph of all of a training pass: nothing in it allocates, and a replay computes what a launch does."""
    require("g++")
    emulated_runtime = EmulatedRuntime(H100)
    mask = np.random.default_rng(30).integers(0, 2, (4, 3))
    run = build(cell, np.random.default_rng(30), p=2 * (cell == "LSTM"), mask=mask, optional=(*OPTIONAL, *ADDED))
    plan = recurrent_plan(run.desc, Target(KernelLibrary(emulated_runtime, 0)))
    arrays = {
        name: emulated_runtime.to_device(0, np.ascontiguousarray(placed.elements), 0) for name, placed in (run.inputs | run.outputs).items()
    }
    temporary = emulated_runtime.allocate(0, plan.temporary_size, 0)
    graph = emulated_runtime.capture(0, plan.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None))
    for factor in (1.0, -0.5):
        run.inputs["input_tensor"].elements[...] *= np.float32(factor)
        arrays["input_tensor"].set(run.inputs["input_tensor"].elements)
        emulated_runtime.launch_graph(graph, 0)
        outputs = dict(run.outputs)
        for name, placed in outputs.items():
            placed.elements[...] = emulated_runtime.to_host(arrays[name], 0)
        check(Run(run.desc, run.inputs, outputs))
    emulated_runtime.check_guards()
