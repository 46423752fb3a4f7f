"""Whole CUDA plans of the recurrent operators, their kernels on the CPU and on a GPU: against ONNX Runtime and a plain float64 loop."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.block_shapes import MOST_PERSISTENT_BLOCK_THREADS
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS, row_stride
from dmlpy.devices.cuda.recurrent.layer import (
    PersistentBlockPlan,
    RecurrentPlan,
    block_shared_bytes,
)
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.messages.problems import DeviceError
from dmlpy.operators import activation as activations
from dmlpy.operators.recurrent.layer import RNNDesc
from tests.support.cuda.layer_plans import (
    ALL_ROWS,
    LAYOUTS,
    LSTM_ROWS,
    PLAIN_ROWS,
    STRATEGIES,
    check,
    launch,
    least_of,
    named,
    per_step,
    poisoned,
)
from tests.support.operators.exact import exact
from tests.support.recurrent import onnx_cases
from tests.support.recurrent.layer_runs import (
    CELLS,
    OPTIONAL,
    USUAL,
    Layout,
    Placed,
    Run,
    activations_by_direction,
    build,
    options_of,
    place,
    random_order,
    sizes_of,
)
from tests.support.tools import require

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture
def emulated_runtime() -> Any:
    require("g++")
    runtime = EmulatedRuntime(H100)
    yield runtime
    runtime.check_guards()


# every kernel instance


def random_run(rng: np.random.Generator, cell: str, flags: dict[str, Any], dtype: Any) -> Run:
    """Sizes of 1 and odd ones, all directions, ragged lengths from 0 to beyond T, absent tensors, strided and broadcast layouts."""
    peephole = flags.get("peephole", False)
    b, t = int(rng.choice([1, 2, 3, 5, 9])), int(rng.choice([1, 2, 5]))
    optional = tuple(name for name in OPTIONAL if name != "peephole_tensor" and rng.random() < 0.7)
    return build(
        cell,
        rng,
        t=t,
        b=b,
        i=int(rng.choice([1, 3, 4, 7])),
        h=int(rng.choice([1, 3, 4, 9])),
        dtype=dtype,
        **random_order(rng, b, t),
        optional=(*optional, *(["peephole_tensor"] if peephole else [])),
        layouts=LAYOUTS if rng.random() < 0.7 else ("packed",),
        **options_of(flags),
    )


def check_row(runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    start = zlib.crc32(repr((cell, flags, str(dtype))).encode())
    for seed in range(start, start + 12):
        run = random_run(np.random.default_rng(seed), cell, flags, dtype)
        launch(run, STRATEGIES[strategy], runtime, prepared=bool(seed % 2))
        check(run, f"seed {seed}: ", least=least_of(dtype))


@pytest.mark.each_value
@pytest.mark.parametrize(("cell", "flags", "strategy", "dtype"), named((PLAIN_ROWS + LSTM_ROWS)[::2]))
def test_random_descs(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "flags", "strategy", "dtype"), named(ALL_ROWS))
def test_random_descs_in_full(cuda_runtime: CudaRuntime, cell: str, flags: dict[str, Any], strategy: str, dtype: Any) -> None:
    check_row(cuda_runtime, cell, flags, strategy, dtype)


@pytest.mark.parametrize(
    ("entry", "strategy"),
    [
        pytest.param(entry, strategy, id=f"{entry['case']}, {strategy}", marks=[pytest.mark.slow] * (number % 4 != 3 * place))
        for number, entry in enumerate(onnx_cases.entries())
        for place, strategy in enumerate(("persistent_block 4", "per_step"))
    ],
)
def test_onnx_runtime(cuda_runtime: CudaRuntime, entry: dict[str, Any], strategy: str) -> None:
    case = onnx_cases.load(entry)
    for dtype in (np.float32, np.float16) if entry["case"].endswith(("_lens", "_plain_0")) else (np.float32,):
        rng = np.random.default_rng(1)
        arrays = {name: array if array.dtype == np.uint32 else array.astype(dtype) for name, array in case.inputs.items()}
        inputs = {name: place(array, "packed", rng) for name, array in arrays.items()}
        outputs = {name: place(np.full(array.shape, np.nan, dtype), "packed", rng) for name, array in case.outputs.items()}
        run = Run(case.desc.model_copy(update={name: placed.desc for name, placed in (inputs | outputs).items()}), inputs, outputs)
        launch(run, STRATEGIES[strategy], cuda_runtime)
        if dtype == np.float32:
            run.check(case.outputs)
        check(run)


@pytest.mark.each_value
@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_directions_may_have_different_activations(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    functions = activations_by_direction(cell)
    run = build(cell, np.random.default_rng(2), direction="BIDIRECTIONAL", functions=functions, lengths=[4, 0, 2])
    launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


# sequences


@pytest.mark.parametrize("strategy", ["persistent_block 1", "persistent_block 4", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_sequence_of_length_zero_carries_its_state_through(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    run = build(cell, np.random.default_rng(3), b=2, lengths=[0, 0], direction="BIDIRECTIONAL")
    launch(run, STRATEGIES[strategy], cuda_runtime)
    np.testing.assert_array_equal(run.outputs["output_sequence_tensor"].elements, 0.0)
    np.testing.assert_array_equal(run.outputs["output_single_tensor"].elements, run.arrays["hidden_init_tensor"])
    if cell == "LSTM":
        np.testing.assert_array_equal(run.outputs["output_cell_single_tensor"].elements, run.arrays["cell_mem_init_tensor"])


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_length_beyond_the_sequence_counts_as_all_of_it(cuda_runtime: CudaRuntime, cell: str, strategy: str) -> None:
    run = build(cell, np.random.default_rng(4), b=4, t=3, lengths=[4, 3, 2**32 - 1, 2**31], direction="BIDIRECTIONAL")
    launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_input_past_the_end_is_never_seen(cuda_runtime: CudaRuntime, cell: str, junk: float, strategy: str) -> None:
    run = build(cell, np.random.default_rng(5), b=3, t=4, lengths=[2, 0, 4], direction="BIDIRECTIONAL")
    for sample, length in enumerate([2, 0, 4]):
        run.inputs["input_tensor"].elements[0, length:, sample] = junk
    with np.errstate(invalid="ignore"):  # the product of all steps meets it, and nobody reads those rows
        launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 4", "per_step"])
def test_samples_do_not_touch_each_other(cuda_runtime: CudaRuntime, strategy: str) -> None:
    """A NaN in one sample of a slice stays there."""
    run = build("GRU", np.random.default_rng(6), b=3, lengths=[4, 4, 2])
    run.inputs["input_tensor"].elements[0, 1, 1] = np.nan
    launch(run, STRATEGIES[strategy], cuda_runtime)
    sequence = run.outputs["output_sequence_tensor"].elements
    assert np.isnan(sequence[1:, :, 1]).all()
    assert np.isfinite(sequence[:, :, [0, 2]]).all()


def test_nan_passes_through_the_clip(cuda_runtime: CudaRuntime) -> None:
    run = build("LSTM", np.random.default_rng(7), b=1, optional=(), use_clip_threshold=True, clip_threshold=0.5)
    run.inputs["input_tensor"].elements[0, 0] = np.nan
    launch(run, STRATEGIES["persistent_block 1"], cuda_runtime)
    assert np.isnan(run.outputs["output_sequence_tensor"].elements).all()


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_long_sequences_keep_their_accuracy(cuda_runtime: CudaRuntime, cell: str, strategy: str, dtype: Any) -> None:
    run = build(cell, np.random.default_rng(8), t=60, b=2, i=5, h=37, dtype=dtype)
    launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


# what a plan promises


@pytest.mark.parametrize("strategy", ["persistent_block 2", "per_step"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_results_do_not_depend_on_the_order_of_threads_nor_on_packing(cell: str, strategy: str) -> None:
    require("g++")
    found = []
    for seed, prepared in [(1, False), (2, False), (3, True)]:
        run = build(cell, np.random.default_rng(9), b=5, h=7, direction="BIDIRECTIONAL", lengths=[4, 1, 0, 3, 2], layouts=("permuted",))
        launch(run, STRATEGIES[strategy], EmulatedRuntime(H100, seed=seed), prepared=prepared)
        found.append([np.array(placed.elements) for placed in run.outputs.values()])
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("strategy", ["persistent_block 1", "per_step"])
@pytest.mark.parametrize("output", ["output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor"])
def test_each_output_alone(cuda_runtime: CudaRuntime, output: str, strategy: str) -> None:
    run = build("LSTM", np.random.default_rng(10), lengths=[2, 0, 4], outputs=(output,))
    launch(run, STRATEGIES[strategy], cuda_runtime)
    check(run)


@pytest.mark.parametrize("strategy", ["persistent_block 1", "per_step"])
def test_a_bound_launch_reads_its_tensors_anew(emulated_runtime: EmulatedRuntime, strategy: str) -> None:
    run = build("LSTM", np.random.default_rng(11))
    plan = STRATEGIES[strategy](run.desc, KernelLibrary(emulated_runtime, 0))
    arrays = {
        name: emulated_runtime.to_device(0, np.ascontiguousarray(placed.elements), 0) for name, placed in (run.inputs | run.outputs).items()
    }
    temporary = emulated_runtime.allocate(0, plan.temporary_size, 0)
    dispatch = plan.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None)
    for factor in (1.0, -0.5):
        for name, placed in run.inputs.items():
            arrays[name].set(placed.elements * np.float32(factor))
        before = emulated_runtime.counts.copy()
        dispatch(0)
        assert set(emulated_runtime.counts - before) == {"gemm", "launch"}
        changed = {name: placed.elements * np.float32(factor) for name, placed in run.inputs.items()}
        expected = exact(run.desc, changed)
        for name, placed in run.outputs.items():
            placed.elements[...] = emulated_runtime.to_host(arrays[name], 0)
        run.check(expected)


def test_launches_of_each_strategy(emulated_runtime: EmulatedRuntime) -> None:
    """Copies of W and R and the input product, then: one launch; or a product and a launch a step, the first step from zero without."""

    def counted(strategy: str, cell: str, **options: Any) -> tuple[int, int]:
        before = emulated_runtime.counts.copy()
        launch(build(cell, np.random.default_rng(12), t=5, optional=(), **options), STRATEGIES[strategy], emulated_runtime)
        used = emulated_runtime.counts - before
        return used["launch"], used["gemm"]

    assert counted("persistent_block 2", "RNN") == (2 + 1, 1)
    assert counted("per_step", "RNN") == (2 + 5, 1 + 4)
    assert counted("per_step", "RNN", direction="BIDIRECTIONAL") == (2 + 5, 1 + 2 * 4)
    assert counted("per_step", "GRU", linear_before_reset=True) == (2 + 5, 1 + 4)
    assert counted("per_step", "GRU", linear_before_reset=False) == (2 + 5 + 4, 1 + 2 * 4)


def test_very_long_sequences_are_not_captured() -> None:
    def plan(steps: int) -> RecurrentPlan:
        sizes = {"input_tensor": (1, steps, 1, 1), "weight_tensor": (1, 1, 1, 1), "recurrence_tensor": (1, 1, 1, 1)}
        tensors = {name: TensorDesc(data_type="FLOAT32", sizes=values) for name, values in sizes.items()}
        desc = RNNDesc(**tensors, activation_descs=[activations.ActivationTanhDesc()], direction="FORWARD").with_outputs()
        return per_step(desc, KernelLibrary(_CompilesNothing(H100), 0))

    assert plan(MOST_CAPTURED_STEPS).capturable
    assert not plan(MOST_CAPTURED_STEPS + 1).capturable


@pytest.mark.parametrize(("hidden", "gap"), [(3, 4), (4, 0), (9, 4), (10, 0)])
def test_persistent_block_packs_four_columns_of_each_row_side_by_side(emulated_runtime: EmulatedRuntime, hidden: int, gap: int) -> None:
    """[D][ceil(H / 4)][G H][4], columns beyond the last zero; each direction in whole words of 16 bytes, with so many zeros behind it."""
    run = build("RNN", np.random.default_rng(13), h=hidden, dtype=np.float16, direction="BIDIRECTIONAL", layouts=("permuted",), optional=())
    plan = STRATEGIES["persistent_block 1"](run.desc, KernelLibrary(emulated_runtime, 0))
    persistent = poisoned(emulated_runtime, plan.persistent_size)
    plan.pack({name: run.inputs[name].pointer for name in plan.constants}, persistent.pointer)(0)
    offset, (directions, size), _ = plan._packed.arrays["recurrence"]
    found = np.frombuffer(emulated_runtime.read(persistent.pointer + offset, directions * size, 0), np.float16).reshape(directions, -1)
    padded = np.zeros((2, hidden, -(-hidden // 4) * 4), np.float16)
    padded[..., :hidden] = run.arrays["recurrence_tensor"][0]
    quads = padded.reshape(2, hidden, -1, 4).swapaxes(1, 2).reshape(2, -1)
    assert found.shape[1] - quads.shape[1] == gap
    np.testing.assert_array_equal(found, np.pad(quads, ((0, 0), (0, gap))))


# the shape of `persistent_block`

T4_SHARED, H100_SHARED = T4.shared_memory_per_block, H100.shared_memory_per_block


@pytest.mark.parametrize(
    ("cell", "dtype", "hidden", "batch", "limits", "expected"),
    [
        ("LSTM", "FLOAT32", 62, 1, T4, 1),
        ("LSTM", "FLOAT32", 64, 1, T4, None),
        ("LSTM", "FLOAT32", 119, 1, H100, 1),
        ("LSTM", "FLOAT32", 121, 1, H100, None),
        ("LSTM", "FLOAT16", 168, 1, H100, 1),
        ("RNN", "FLOAT16", 340, 1, H100, None),
        ("RNN", "FLOAT16", 336, 1, H100, 1),
        ("RNN", "FLOAT16", 400, 1, replace(H100, shared_memory_per_block=1 << 20), None),
        ("GRU", "FLOAT32", 64, 132, H100, 1),
        ("GRU", "FLOAT32", 64, 133, H100, 2),
        ("GRU", "FLOAT32", 64, 264, H100, 2),
        ("GRU", "FLOAT32", 64, 265, H100, 4),
        ("GRU", "FLOAT32", 64, 1056, H100, 8),
        ("GRU", "FLOAT32", 64, 5000, H100, 8),
        ("LSTM", "FLOAT32", 119, 1056, H100, 4),
    ],
)
def test_block_shape(cell: str, dtype: str, hidden: int, batch: int, limits: Any, expected: int | None) -> None:
    """`expected`: samples that a block of `persistent_block` takes, None where it cannot take the desc."""
    tensors = {name: TensorDesc(data_type=dtype, sizes=sizes) for name, sizes in sizes_of(cell, 20, batch, 3, hidden, 1).items()}
    tensors = {name: tensors[name] for name in ("input_tensor", "weight_tensor", "recurrence_tensor", "output_single_tensor")}
    desc = CELLS[cell](**tensors, activation_descs=USUAL[cell], direction="FORWARD")
    library = KernelLibrary(_CompilesNothing(limits), 0)
    if expected is None:
        with pytest.raises(DeviceError, match=str(block_shared_bytes(desc, 1) if hidden <= MOST_PERSISTENT_BLOCK_THREADS else hidden)):
            recurrent_plan(desc, Target(library, strategy="persistent_block"))
        return
    plan = recurrent_plan(desc, Target(library, strategy="persistent_block"))
    text = plan.describe()
    assert isinstance(plan, PersistentBlockPlan)
    assert not plan.capturable
    assert f"<{ {'FLOAT32': 'float', 'FLOAT16': 'machine::half'}[dtype] }, {expected}, " in text
    assert f"{-(-batch // expected)} x 1 blocks" in text
    assert block_shared_bytes(desc, expected) <= limits.shared_memory_per_block


@pytest.mark.parametrize(
    ("steps", "batch", "inputs", "hidden", "said"),
    [
        (1 << 16, 1 << 15, 1, 1, "2147483648 = T \\* B rows"),
        (1, 1, 1 << 31, 1, "2147483648 = I columns"),
        (1, 1, 1, 1 << 29, "2147483648 = D \\* G \\* H columns"),
        (1, 1, 1, 1 << 24, "16777216 = H and 16777216 = S entries: at most 16776960"),
    ],
)
def test_sizes_beyond_32_bits_are_refused(steps: int, batch: int, inputs: int, hidden: int, said: str) -> None:
    sizes = {
        "input_tensor": (1, steps, batch, inputs),
        "weight_tensor": (1, 1, 4 * hidden, inputs),
        "recurrence_tensor": (1, 1, 4 * hidden, hidden),
        "output_single_tensor": (1, 1, batch, hidden),
    }
    tensors = {name: TensorDesc(data_type="FLOAT16", sizes=values) for name, values in sizes.items()}
    desc = CELLS["LSTM"](**tensors, activation_descs=USUAL["LSTM"], direction="FORWARD")
    with pytest.raises(DeviceError, match=said):
        recurrent_plan(desc, Target(KernelLibrary(_CompilesNothing(H100), 0)))


class _CompilesNothing(EmulatedRuntime):
    """For plans that are looked at and not run."""

    def compiler_version(self) -> str:
        return "none"

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        return [(b"", entry) for entry in entries]

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return symbol


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((1, 2, 3, 4), (24, 12, 4, 1), 4),
        ((1, 2, 3, 4), (60, 30, 10, 1), 10),
        ((1, 2, 3, 4), (0, 12, 4, 1), 4),
        ((1, 2, 3, 4), (24, 13, 4, 1), None),  # rows of the second axis are not where those of the first lead
        ((1, 2, 3, 4), (24, 4, 8, 1), None),  # axes swapped
        ((1, 2, 3, 4), (24, 12, 1, 3), None),  # columns apart
        ((1, 2, 3, 4), (24, 0, 4, 1), None),  # repeated
        ((1, 2, 3, 4), (24, 0, 0, 1), None),
        ((1, 2, 3, 4), (24, 6, 2, 1), None),  # rows overlap
        ((1, 1, 3, 4), (0, 99, 5, 1), 5),
        ((1, 3, 1, 4), (0, 7, 99, 1), 7),
        ((1, 1, 1, 4), (0, 0, 0, 1), 4),
        ((1, 2, 3, 1), (0, 6, 2, 0), 2),
        ((1, 2, 3, 1), (0, 3, 1, 77), 1),
        ((1, 1, 2, 2), (0, 0, 2**31, 1), None),  # more than cuBLAS counts
    ],
)
def test_row_stride(sizes: tuple[int, ...], strides: tuple[int, ...], expected: int | None) -> None:
    assert row_stride(TensorDesc(data_type="FLOAT32", sizes=sizes, strides=strides)) == expected


@pytest.mark.parametrize("layout", ["packed", "padded", "permuted", "broadcast"])
def test_input_is_read_in_any_layout(cuda_runtime: CudaRuntime, layout: Layout) -> None:
    run = build("RNN", np.random.default_rng(13), b=3, i=5)
    values = np.array(run.arrays["input_tensor"])
    placed: Placed = place(values, layout, np.random.default_rng(14))
    run.inputs["input_tensor"] = placed
    run.desc = run.desc.model_copy(update={"input_tensor": placed.desc})
    launch(run, STRATEGIES["per_step"], cuda_runtime)
    check(run)
