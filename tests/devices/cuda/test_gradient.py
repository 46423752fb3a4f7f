"""The CUDA plans of the recurrent gradients, their kernels on the CPU and on a GPU: against gradients that a float64 tape finds."""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.block_shapes import MOST_PERSISTENT_BLOCK_THREADS
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS
from dmlpy.devices.cuda.recurrent.gradient import (
    PersistentBlockGradientPlan,
    PerStepGradientPlan,
    block_shared_bytes,
)
from dmlpy.devices.cuda.recurrent.gradient_plan import gradient_plan
from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gradient_cases import BARRIER, LAYOUTS, LSTMS, MOST_TERMS, PLAIN, STRATEGIES, Array, Case, gradient_desc, per_step
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.recurrent.layer_runs import EVERY_ACTIVATION, options_of, place, random_order
from tests.support.tolerance import assert_close
from tests.support.tools import require

TRAINING: dict[str, Any] = {"RNN": RNNTrainingDesc, "GRU": GRUTrainingDesc, "LSTM": LSTMTrainingDesc}


# cases


def describe(array: Array) -> TensorDesc:
    return TensorDesc(data_type=str(array.dtype).upper(), sizes=array.shape)


def gradient_names(desc: RecurrentGradDesc) -> list[str]:
    """The described outputs."""
    return [field.name for field in desc.outputs() if field.name in desc.tensors()]


def random_case(rng: np.random.Generator, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> Case:
    """Sizes of 1 and odd ones, all directions, ragged lengths from 0 to beyond T, masks with holes, absent tensors, every layout."""
    t, b, h = int(rng.choice([1, 2, 5])), int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 3, 4, 9]))
    optional = [name for name in ("peephole",) if flags.get(name)]
    optional += [name for name in ("input_dropout", "state_dropout") if rng.random() < 0.4 and (name[0] == "i" or strategy == "per_step")]
    upstream = ("output_sequence", "output_single", "output_cell_single")
    return Case(
        cell,
        rng,
        t=t,
        b=b,
        i=int(rng.choice([1, 3, 4, 7])),
        h=h,
        p=int(rng.choice([0, 2, 5])) if cell == "LSTM" and strategy == "per_step" else 0,
        dtype=dtype,
        **random_order(rng, b, t + 1),
        mask=rng.random((t, b)) < 0.6 if rng.random() < 0.5 else None,
        optional=tuple(optional),
        upstream=tuple(name for name in upstream if rng.random() < 0.8),
        layouts=LAYOUTS if rng.random() < 0.7 else ("packed",),
        **options_of(flags),
    )


# every kind of cell

ROWS = [
    (cell, flags, strategy, (np.float32, np.float16)[(number + place) % 2])
    for number, strategy in enumerate(STRATEGIES)
    for place, (cell, flags) in enumerate((*PLAIN, LSTMS[2 * number], LSTMS[2 * number + 1]))
]
"""Each strategy with every cell, in FLOAT32 or FLOAT16; all eight LSTMs occur. The usual run has every second row."""
BFLOAT16_ROWS = [(*PLAIN[1], "per_step", BFLOAT16), (*LSTMS[7], "persistent_block 2", BFLOAT16), (*LSTMS[1], "per_step", BFLOAT16)]
ALL_ROWS = list(product((*PLAIN, *LSTMS), STRATEGIES, (np.float32, np.float16, BFLOAT16)))


def check_row(runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any, cases: int) -> None:
    start = zlib.crc32(repr((cell, flags, str(dtype))).encode())
    together: dict[str, list[tuple[Array, Array]]] = {}
    for seed in range(start, start + cases):
        case = random_case(np.random.default_rng(seed), cell, flags, strategy, dtype)
        case.launch(STRATEGIES[strategy], runtime)
        if dtype == np.float32:
            case.check(f"seed {seed}: ")
        for name, pair in case.results(f"seed {seed}: ").items():
            together.setdefault(name, []).append(pair)
    # A result of few entries may cancel, and what is left is the rounding of factors of 2 bytes: those are checked together.
    for name, pairs in together.items():
        found, expected = (np.concatenate([array.ravel() for array in arrays]) for arrays in zip(*pairs, strict=True))
        assert_close(found, expected, dtype, terms=MOST_TERMS, what=f"{name} of all seeds")


def row_name(cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> str:
    return f"{cell}{''.join(f', {flag}' for flag, on in flags.items() if on)}, {strategy}, {np.dtype(dtype)}"


@pytest.mark.parametrize(
    ("cell", "flags", "strategy", "dtype"), [pytest.param(*row, id=row_name(*row)) for row in (*ROWS[::2], *BFLOAT16_ROWS)]
)
def test_random_descs(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "flags", "strategy", "dtype"),
    [pytest.param(*cell, *row, id=row_name(*cell, *row)) for cell, *row in ALL_ROWS],
)
def test_random_descs_in_full(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype, 10)


THROUGH_DEVICE: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("RNN", {}),
    "GRU, resets first": ("GRU", {"linear_before_reset": False}),
    "GRU, resets last": ("GRU", {"linear_before_reset": True}),
    "LSTM": ("LSTM", {"optional": ("peephole",)}),
    "LSTM, projection and dropout": (
        "LSTM",
        {"p": 3, "optional": ("state_dropout", "input_dropout"), "use_clip_threshold": True, "clip_threshold": 0.4},
    ),
}


@pytest.mark.parametrize(
    ("cell", "options", "dtype"),
    [
        pytest.param(*row, dtype, id=f"{name}, {dtype.__name__}", marks=[pytest.mark.slow] * (number % 2 != place))
        for number, (name, row) in enumerate(THROUGH_DEVICE.items())
        for place, dtype in enumerate((np.float16, np.float32))
    ],
)
def test_forward_then_gradient(cuda_device: Any, cell: str, options: dict[str, Any], dtype: Any) -> None:
    """Through the device: the reserve of the training form is what the gradient reads."""
    mask = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]])
    case = Case(cell, np.random.default_rng(1), direction="BIDIRECTIONAL", lengths=[4, 3, 0], mask=mask, dtype=dtype, **options)
    flags = {name: value for name, value in options.items() if name not in ("p", "optional")}
    described = {name: describe(array) for name, array in case.plain.items() if name in TRAINING[cell].model_fields}
    training = TRAINING[cell](**described, activation_descs=case.desc.activation_descs, direction="BIDIRECTIONAL", **flags).with_outputs()
    arrays = {name: cuda_device.from_host(np.ascontiguousarray(case.plain[name])) for name in case.plain}
    reserve = dml.compile(training, cuda_device)(**{name: arrays[name] for name in described}).reserve_tensor
    gradient = training.gradient()
    taken = [field.name for field in gradient.inputs() if field.name in arrays]
    results = dml.compile(gradient, cuda_device)(reserve_tensor=reserve, **{name: arrays[name] for name in taken})
    found = {name: cuda_device.to_host(getattr(results, name)) for name in gradient_names(gradient)}
    case.outputs = {name: place(array, "packed", np.random.default_rng(2)) for name, array in found.items()}
    case.check()


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize(("cell", "flags"), [*PLAIN, LSTMS[0]], ids=["RNN", "GRU, resets first", "GRU, resets last", "LSTM"])
def test_long_sequences_keep_their_accuracy(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    """More units than a warp has threads, and sums of several chunks."""
    flags = {name: bool(on) for name, on in flags.items() if name != "peephole"}
    case = Case(cell, np.random.default_rng(3), t=40, b=3, i=5, h=37, dtype=dtype, lengths=[40, 17, 0], **flags)
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


# activations

PAIRS = [(EVERY_ACTIVATION[number - 1], EVERY_ACTIVATION[number]) for number in range(0, len(EVERY_ACTIVATION), 2)]
TRIPLES = [tuple(EVERY_ACTIVATION[(number + offset) % 17] for offset in range(3)) for number in range(0, len(EVERY_ACTIVATION), 3)]


def names_of(functions: tuple[ActivationDesc, ...]) -> str:
    return ", ".join(function.type_name.rpartition("ACTIVATION_")[2] for function in functions)


@pytest.mark.parametrize(
    "functions", [pytest.param(pair, marks=[pytest.mark.slow] * (number % 3 > 0)) for number, pair in enumerate(PAIRS)], ids=names_of
)
def test_every_activation_of_gates(cuda_runtime: CudaRuntime, functions: tuple[ActivationDesc, ...]) -> None:
    case = Case("GRU", np.random.default_rng(4), functions=functions, lengths=[4, 1, 3])
    case.launch(STRATEGIES["per_step"], cuda_runtime)
    case.check()


@pytest.mark.parametrize("functions", TRIPLES, ids=names_of)
def test_every_activation_of_clipped_sums_and_of_the_cell(cuda_runtime: CudaRuntime, functions: tuple[ActivationDesc, ...]) -> None:
    case = Case("LSTM", np.random.default_rng(5), functions=functions, use_clip_threshold=True, clip_threshold=0.6)
    case.launch(STRATEGIES["persistent_block 1"], cuda_runtime)
    case.check()


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
def test_directions_may_have_different_activations(cuda_runtime: CudaRuntime, strategy: str) -> None:
    case = Case("GRU", np.random.default_rng(6), functions=(*PAIRS[1], *PAIRS[4]), direction="BIDIRECTIONAL", lengths=[4, 0, 2])
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


# steps that are not taken


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
@pytest.mark.parametrize(("cell", "flags"), [*PLAIN, ("LSTM", {})], ids=["RNN", "GRU, resets first", "GRU, resets last", "LSTM"])
def test_what_is_not_taken_is_never_seen(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str) -> None:
    """NaN in the input and in the saved values of such steps, and in the upstream gradients of outputs that show no state."""
    lengths, mask = [4, 0, 2], np.array([[0, 1, 1], [1, 1, 0], [0, 1, 1], [0, 1, 1]])
    case = Case(cell, np.random.default_rng(7), direction="BIDIRECTIONAL", lengths=lengths, mask=mask, **flags)
    taken = (np.arange(4)[:, None] < lengths) & (mask != 0)
    case.inputs["input_tensor"].elements[0, ~taken] = np.nan
    upstream = case.inputs["output_sequence_gradient_tensor"].elements
    for time, sample in np.ndindex(4, 3):
        for direction, earlier in enumerate([taken[: time + 1, sample], taken[time:, sample]]):
            if time >= lengths[sample] or not earlier.any():
                upstream[time, direction, sample] = np.nan
    assert np.isnan(case.inputs["reserve_tensor"].elements).any()
    assert np.isnan(upstream).any(axis=(0, 2, 3)).all()
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_sequence_of_length_zero_passes_its_gradient_through(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    case = Case(cell, np.random.default_rng(8), b=2, lengths=[0, 0], direction="BIDIRECTIONAL")
    case.inputs["recurrence_tensor"].elements[...] = np.nan  # there is nothing to multiply
    case.launch(STRATEGIES[strategy], cuda_runtime)
    for name, placed in case.outputs.items():
        of_state = {"hidden_init_gradient_tensor": "output_single", "cell_mem_init_gradient_tensor": "output_cell_single"}.get(name)
        expected = case.inputs[f"{of_state}_gradient_tensor"].elements if of_state else 0.0
        np.testing.assert_array_equal(placed.elements, expected)


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
def test_a_length_beyond_the_sequence_counts_as_all_of_it(cuda_runtime: CudaRuntime, strategy: str) -> None:
    case = Case("GRU", np.random.default_rng(9), b=4, t=3, lengths=[4, 3, 2**32 - 1, 2**31], direction="BIDIRECTIONAL")
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


# what a plan promises


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e4])
@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_scaled_upstream_gradients_keep_their_accuracy(cuda_runtime: CudaRuntime, cell: str, strategy: str, scale: float) -> None:
    case = Case(cell, np.random.default_rng(10), t=6, scale=scale, direction="BACKWARD", lengths=[6, 2, 5])
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize(("cell", "flags"), [*PLAIN, ("LSTM", {})], ids=["RNN", "GRU, resets first", "GRU, resets last", "LSTM"])
def test_gradients_do_not_depend_on_the_order_of_threads(cell: str, flags: dict[str, Any], strategy: str) -> None:
    require("g++")
    found = []
    for seed in (1, 2, 3):
        case = Case(cell, np.random.default_rng(11), t=9, b=5, h=7, direction="BIDIRECTIONAL", lengths=[9, 1, 0, 3, 2], **flags)
        case.launch(STRATEGIES[strategy], EmulatedRuntime(H100, seed=seed))
        found.append([placed.elements.tobytes() for placed in case.outputs.values()])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("upstream", [(), ("output_sequence",), ("output_single",), ("output_cell_single",)], ids=str)
@pytest.mark.parametrize("strategy", ["persistent_block 1", "per_step"])
def test_each_upstream_gradient_alone(cuda_runtime: CudaRuntime, strategy: str, upstream: tuple[str, ...]) -> None:
    case = Case("LSTM", np.random.default_rng(12), upstream=upstream, lengths=[2, 0, 4])
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


EACH = ("input", "weight", "recurrence", "bias", "hidden_init", "cell_mem_init", "peephole")


@pytest.mark.parametrize(("strategy", "output"), [*product(["persistent_block 1"], EACH), *product(["per_step"], (*EACH, "projection"))])
def test_each_gradient_alone(cuda_runtime: CudaRuntime, strategy: str, output: str) -> None:
    p = 3 if strategy == "per_step" else 0
    case = Case("LSTM", np.random.default_rng(13), p=p, optional=("peephole",), outputs=(output,), lengths=[2, 0, 4])
    case.launch(STRATEGIES[strategy], cuda_runtime)
    case.check()


@pytest.mark.parametrize("strategy", ["persistent_block 1", "per_step"])
def test_a_bound_launch_reads_its_tensors_anew(strategy: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(H100)
    cases = [Case("GRU", np.random.default_rng(seed), lengths=[4, 2, 3]) for seed in (14, 15)]
    plan = STRATEGIES[strategy](cases[0].desc, KernelLibrary(runtime, 0))
    every = cases[0].inputs | cases[0].outputs
    arrays = {name: runtime.to_device(0, np.ascontiguousarray(placed.elements), 0) for name, placed in every.items()}
    temporary = runtime.allocate(0, plan.temporary_size, 0)
    dispatch = plan.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None)
    for case in cases:
        for name, placed in case.inputs.items():
            arrays[name].set(np.ascontiguousarray(placed.elements))
        before = runtime.counts.copy()
        dispatch(0)
        assert set(runtime.counts - before) == {"gemm", "launch"}
        for name, placed in case.outputs.items():
            placed.elements[...] = runtime.to_host(arrays[name], 0)
        case.check()
    runtime.check_guards()


IN_STEPS = ("persistent_block<", "step<", "reset<", "rebuild<")
"""The kernels of the steps. A CUDA thread costs the thread sanitizer a millisecond, and those after the steps have most of them."""


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("sanitize", "sanitized"),
    [("address,undefined", ("",)), ("thread", IN_STEPS), pytest.param("thread", ("",), marks=pytest.mark.slow)],
    ids=["address,undefined", "thread", "thread, all kernels"],
)
@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
def test_the_sanitizers_are_silent(strategy: str, sanitize: str, sanitized: tuple[str, ...]) -> None:
    require("g++")
    added = ("state_dropout",) if strategy == "per_step" else ()
    case = Case(
        "LSTM",
        np.random.default_rng(18),
        t=2,
        h=5,
        p=3 if strategy == "per_step" else 0,
        lengths=[2, 0, 2],
        mask=np.array([[0, 1, 1], [1, 1, 0]]),
        optional=("peephole", "input_dropout", *added),
        direction="BIDIRECTIONAL",
    )
    case.launch(STRATEGIES[strategy], EmulatedRuntime(H100, sanitize=sanitize, sanitized=sanitized))
    case.check()


@pytest.mark.parametrize("place", range(sources.read("recurrent/gradient.cu").count(BARRIER)))
def test_the_thread_sanitizer_misses_every_barrier(place: int) -> None:
    require("g++")
    case = Case("GRU", np.random.default_rng(19), h=5, outputs=("hidden_init",), linear_before_reset=False)
    with pytest.raises(dml.DeviceError, match="data race"):
        case.launch(
            STRATEGIES["persistent_block 2"],
            EmulatedRuntime(H100, sanitize="thread", sanitized=("persistent_block<",), fault=(BARRIER, place)),
        )


def test_launches_of_each_strategy() -> None:
    """Two launches with R packed, or for each step one and a product; then products for x, W and R, and two launches for the bias."""
    require("g++")
    runtime = EmulatedRuntime(H100)

    def counted(strategy: str, cell: str, **options: Any) -> tuple[int, int]:
        before = runtime.counts.copy()
        Case(cell, np.random.default_rng(16), t=5, **options).launch(STRATEGIES[strategy], runtime)
        used = runtime.counts - before
        return used["launch"], used["gemm"]

    without_start = ("input", "weight", "recurrence", "bias")
    assert counted("persistent_block 2", "RNN") == (2 + 2, 3)
    assert counted("per_step", "RNN") == (5 + 1 + 2, 5 + 3)
    assert counted("per_step", "RNN", outputs=without_start) == (5 + 2, 4 + 3)
    assert counted("per_step", "RNN", outputs=without_start, direction="BIDIRECTIONAL") == (5 + 2, 2 * 4 + 2 + 2)
    assert counted("per_step", "RNN", outputs=("weight",), lengths=[5, 1, 2]) == (5 + 1, 4 + 1)
    assert counted("per_step", "GRU", outputs=without_start, linear_before_reset=True) == (5 + 2, 4 + 2 + 2 + 1)
    assert counted("per_step", "GRU", outputs=without_start, linear_before_reset=False) == (2 * 5 + 1 + 2, 5 + 4 + 1 + 1 + 2)
    assert counted("per_step", "LSTM", outputs=("projection",), p=2) == (2 * 5 + 1, 5 + 4 + 1)


def test_very_long_sequences_are_not_captured() -> None:
    def plan(steps: int) -> RecurrentGradientPlan:
        case = gradient_desc("RNN", "FLOAT32", 1, 1, steps)
        return per_step(case, KernelLibrary(DryRunRuntime(H100), 0))

    assert plan(MOST_CAPTURED_STEPS).capturable
    assert not plan(MOST_CAPTURED_STEPS + 1).capturable


def test_sizes_beyond_32_bits_are_refused() -> None:
    desc = gradient_desc("RNN", "FLOAT16", 1, 1, 1)
    for name in ("input_tensor", "weight_tensor", "input_gradient_tensor", "weight_gradient_tensor"):
        desc = desc.replace(**{name: TensorDesc(data_type="FLOAT16", sizes=(1, 1, 1, 1 << 31))})
    with pytest.raises(dml.DeviceError, match="2147483648 = I columns"):
        gradient_plan(desc, Target(KernelLibrary(DryRunRuntime(H100), 0)))


# the shape of `persistent_block`


@pytest.mark.parametrize(
    ("cell", "dtype", "hidden", "batch", "limits", "expected"),
    [
        ("LSTM", "FLOAT32", 60, 1, T4, 1),
        ("LSTM", "FLOAT32", 64, 1, T4, None),
        ("LSTM", "FLOAT32", 116, 1, H100, 1),
        ("LSTM", "FLOAT32", 121, 1, H100, None),
        ("LSTM", "FLOAT16", 164, 1, H100, 1),
        ("RNN", "FLOAT16", 340, 1, H100, None),
        ("RNN", "FLOAT16", 400, 1, replace(H100, shared_memory_per_block=1 << 20), None),
        ("GRU", "FLOAT32", 64, 132, H100, 1),
        ("GRU", "FLOAT32", 64, 133, H100, 2),
        ("GRU", "FLOAT32", 64, 265, H100, 4),
        ("GRU", "FLOAT32", 64, 5000, H100, 4),
    ],
)
def test_block_shape(cell: str, dtype: str, hidden: int, batch: int, limits: Any, expected: int | None) -> None:
    """`expected`: samples that a block of `persistent_block` takes, None where it cannot take the desc."""
    desc = gradient_desc(cell, dtype, batch, hidden, 20)
    library = KernelLibrary(DryRunRuntime(limits), 0)
    if expected is None:
        with pytest.raises(dml.DeviceError, match=str(block_shared_bytes(desc, 1) if hidden <= MOST_PERSISTENT_BLOCK_THREADS else hidden)):
            gradient_plan(desc, Target(library, strategy="persistent_block"))
        return
    plan = gradient_plan(desc, Target(library, strategy="persistent_block"))
    text = plan.describe()
    assert plan.capturable
    assert f"scratch: {plan.temporary_size} bytes" in text
    assert "weight_gradient_tensor" in text
    assert isinstance(plan, PersistentBlockGradientPlan)
    assert f", {expected}, " in text
    assert f"{-(-batch // expected)} x 1 blocks" in text
    assert block_shared_bytes(desc, expected) <= limits.shared_memory_per_block


@pytest.mark.parametrize("optional", ["state_dropout", "projection"])
def test_persistent_block_leaves_dropped_states_and_projections_to_per_step(optional: str) -> None:
    projects = optional == "projection"
    case = Case("LSTM", np.random.default_rng(17), p=3 if projects else 0, optional=() if projects else (optional,))
    plan = gradient_plan(case.desc, Target(KernelLibrary(DryRunRuntime(H100), 0)))
    assert isinstance(plan, PerStepGradientPlan)
    assert {"state_dropout": "dropout of states", "projection": "a projection"}[optional] in plan.describe()
