"""Batch normalization's CUDA plans: how layouts become launches, what groups split over blocks give, and misaligned memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.axes import Axis
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.common import division
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.common.division import MOST_THREADS, NUMBERS, Division
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.normalization.common import NormalizationPlan
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.normalized_images import INFERENCE, INFERENCE_GRAD, TRAINING, TRAINING_GRAD, described, images
from tests.support.operators.batch_normalization_runs import assert_same, results
from tests.support.operators.normalization_cases import INPUTS, MODES, Array, case, check, poisons, run
from tests.support.tools import require

DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
MODE = pytest.mark.parametrize("mode", MODES)
BARRIER = "__syncthreads();"


@dataclass
class Launch:
    """What a plan asked for."""

    entry: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int


class Recorder(DryRunRuntime):
    """A device that takes note of launches and runs none."""

    def __init__(self, limits: Limits = H100) -> None:
        super().__init__(limits)
        self.launches: list[Launch] = []

    def launch(
        self, function: Any, grid: Any, threads: int, shared_bytes: int, argument: Array, stream: int, cooperative: bool = False
    ) -> None:
        self.launches.append(Launch(function, grid, threads, shared_bytes))


def planned(desc: Any, address: int = 256, limits: Limits = H100) -> tuple[NormalizationPlan, list[Launch]]:
    """A plan and the launches that it makes of tensors that all begin at an address."""
    runtime = Recorder(limits)
    plan = plan_of(desc, Target(KernelLibrary(runtime, 0)))
    assert isinstance(plan, NormalizationPlan)
    plan.bind(dict.fromkeys(desc.tensors(), address), 1 << 20, None)(0)
    return plan, runtime.launches


# layouts, widths, launches

RESNET = (64, 256, 56, 56)
FEW = (64, 16, 56, 56)
WORK: list[tuple[str, tuple[int, ...], str, str, list[str]]] = [
    (TRAINING, RESNET, "NCHW", "FLOAT32", ["normalize<float, float, 4, false, Identity>"]),
    (TRAINING, RESNET, "NCHW", "FLOAT16", ["normalize<machine::half, machine::half, 8, false, Identity>"]),
    (
        TRAINING,
        RESNET,
        "NHWC",
        "FLOAT16",
        [
            "gather<machine::half, machine::half, 8, true>",
            "combine<machine::half, machine::half>",
            "apply<machine::half, machine::half, 8, true, true, Identity>",
        ],
    ),
    (
        TRAINING,
        FEW,
        "NCHW",
        "FLOAT32",
        ["gather<float, float, 4, false>", "combine<float, float>", "apply<float, float, 4, false, true, Identity>"],
    ),
    (TRAINING, RESNET, "sliced", "FLOAT32", ["normalize<float, float, 4, false, Identity>"]),
    (TRAINING, RESNET, "every second", "FLOAT32", ["normalize<float, float, 1, false, Identity>"]),
    (TRAINING, (64, 256, 7, 7), "NCHW", "FLOAT32", ["normalize<float, float, 1, false, Identity>"]),
    (TRAINING, (64, 256, 6, 7), "NCHW", "FLOAT16", ["normalize<machine::half, machine::half, 2, false, Identity>"]),
    (TRAINING, (64, 4096, 1, 1), "NCHW", "FLOAT32", ["normalize<float, float, 4, true, Identity>"]),
    (TRAINING, (1, 1, 1, 1), "NCHW", "FLOAT32", ["normalize<float, float, 1, false, Identity>"]),
    (INFERENCE, RESNET, "NCHW", "FLOAT32", ["apply<float, float, 4, false, false, Identity>"]),
    (INFERENCE, RESNET, "NHWC", "FLOAT32", ["apply<float, float, 4, true, false, Identity>"]),
    (TRAINING_GRAD, RESNET, "NCHW", "FLOAT32", ["differentiate<float, float, 4, false, true>"]),
    (
        TRAINING_GRAD,
        RESNET,
        "NHWC",
        "FLOAT32",
        ["gather<float, float, 4, true, true>", "combine<float, float>", "apply<float, float, 4, true, true>"],
    ),
    (INFERENCE_GRAD, RESNET, "NCHW", "FLOAT32", ["differentiate<float, float, 4, false, false>"]),
    (INFERENCE_GRAD, RESNET, "NHWC", "FLOAT32", ["gather<float, float, 4, true, false>", "combine<float, float>"]),
]


@pytest.mark.parametrize(("mode", "sizes", "memory", "data_type", "entries"), WORK)
def test_launches(mode: str, sizes: tuple[int, ...], memory: str, data_type: str, entries: list[str]) -> None:
    """Which kernels run: vectors along groups or across them, as wide as memory allows; one launch, or more where groups are split."""
    plan, launches = planned(described(mode, images(sizes, memory, data_type)))
    assert [launch.entry for launch in launches] == entries
    assert all(entry in plan.describe() for entry in entries)
    assert (plan.temporary_size > 0) == (len(entries) > 1)
    for launch in launches:
        assert launch.threads <= MOST_THREADS
        assert launch.shared_bytes <= H100.shared_memory_per_block


@pytest.mark.pairwise
@pytest.mark.parametrize("mode", [TRAINING, TRAINING_GRAD])
@pytest.mark.parametrize("memory", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels", [1, 3, 16, 64, 100, 256, 1024, 4096])
@DATA_TYPES
def test_large_groups_fill_the_device(dtype: Any, channels: int, memory: str, mode: str) -> None:
    """Of 100 MB: blocks for three quarters of the multiprocessors at least, 128 contiguous bytes to read for each row of threads."""
    sizes = (64, channels, 64, max(1, (25 << 20) // (64 * 64 * channels)))
    data_type = "FLOAT16" if dtype is np.float16 else "FLOAT32"
    _, launches = planned(described(mode, images(sizes, memory, data_type)))
    passes = [launch for launch in launches if not launch.entry.startswith("combine")]
    assert passes
    for launch in passes:
        blocks = launch.grid[0] * launch.grid[1]
        assert 4 * blocks >= 3 * H100.multiprocessors
        assert launch.threads >= division.FEW_THREADS


GRIDS: list[tuple[str, tuple[int, ...], str, int, int]] = [
    (TRAINING, (64, 100, 56, 56), "NCHW", 100, 512),
    (TRAINING, RESNET, "NCHW", 256, 512),
    (TRAINING, (64, 300, 56, 56), "NCHW", 300, 256),
    (TRAINING, (64, 33, 56, 56), "NCHW", 4 * H100.multiprocessors, 256),
    (TRAINING, RESNET, "NHWC", 6 * H100.multiprocessors - 8, 256),  # whole numbers of vectors for each thread
    (TRAINING, (512, 4096, 3, 3), "NHWC", 128, 512),
    (TRAINING, (512, 24_576, 3, 3), "NHWC", 192, 256),
    (TRAINING_GRAD, RESNET, "NCHW", 256, 512),
    (INFERENCE, RESNET, "NCHW", 16 * H100.multiprocessors // 256 * 256, 256),
    (INFERENCE, (1, 100, 64, 64), "NCHW", 100, 256),
]


@pytest.mark.parametrize(("mode", "sizes", "memory", "blocks", "threads"), GRIDS)
def test_multiprocessors_have_threads_enough(mode: str, sizes: tuple[int, ...], memory: str, blocks: int, threads: int) -> None:
    """1024 of them within groups, larger blocks where there are few; splits such that no few blocks are left over to run alone."""
    launch = planned(described(mode, images(sizes, memory)))[1][0]
    assert (launch.grid[0] * launch.grid[1], launch.threads) == (blocks, threads)


@pytest.mark.parametrize(
    ("sizes", "kept", "groups_per_block"),
    [((100_000, 16), (0,), 64), ((4096, 1024), (0,), 4), ((1000, 4, 33), (0, 2), 88), ((50_000, 2), (0,), 256), ((100, 8), (0,), 1)],
)
def test_small_groups_share_blocks(sizes: tuple[int, ...], kept: tuple[int, ...], groups_per_block: int) -> None:
    """Groups of a few entries: a block has several."""
    sizes_of_groups = [size if axis in kept else 1 for axis, size in enumerate(sizes)]
    x = dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
    scale = dml.TensorDesc(data_type="FLOAT32", sizes=sizes_of_groups)
    desc = dml.BatchNormalizationTrainingDesc(input_tensor=x, scale_tensor=scale, bias_tensor=scale).with_outputs()
    _, (launch,) = planned(desc)
    groups = int(np.prod(sizes_of_groups))
    assert launch.grid == (-(-groups // groups_per_block), 1, 1)


@pytest.mark.parametrize("mode", [TRAINING, TRAINING_GRAD])
@pytest.mark.parametrize("memory", ["NCHW", "NHWC"])
def test_long_sums_are_split(memory: str, mode: str) -> None:
    """Groups of a million entries, enough of them to fill the device: no thread has more than a thousand vectors to add up."""
    x = images((1 << 20, 4096, 1, 2) if memory == "NHWC" else (32, 4096, 256, 512), memory)
    gather = planned(described(mode, x))[1][0]
    assert gather.entry.startswith("gather")
    blocks = gather.grid[0] * gather.grid[1]
    assert int(np.prod(x.sizes)) // 4 <= blocks * gather.threads * 1024


def test_a_gradient_that_repeats_is_read_by_vectors() -> None:
    """One element for each channel, all of a vector's entries: no address is required of it."""
    x = images((8, 4, 16, 16), "NCHW")
    desc = described(TRAINING_GRAD, x).replace(input_gradient_tensor=images((8, 4, 16, 16), "one for each channel"))
    addresses = dict.fromkeys(desc.tensors(), 256) | {"input_gradient_tensor": 260}
    runtime = Recorder()
    plan = plan_of(desc, Target(KernelLibrary(runtime, 0)))
    assert plan is not None
    plan.bind(addresses, 0, None)(0)
    assert [launch.entry for launch in runtime.launches] == ["differentiate<float, float, 4, false, true>"]


def test_tensors_of_different_layouts_have_no_vectors() -> None:
    desc = described(INFERENCE, images((2, 8, 4, 4), "NHWC"), images((2, 8, 4, 4), "NCHW"))
    assert [launch.entry for launch in planned(desc)[1]] == ["apply<float, float, 1, true, false, Identity>"]


OUTPUTS: list[tuple[str, tuple[str, ...], str, tuple[str, ...]]] = [
    (TRAINING_GRAD, ("x_backprop",), "NHWC", ("gather", "combine", "apply")),
    (TRAINING_GRAD, ("scale_backprop",), "NHWC", ("gather", "combine")),
    (TRAINING_GRAD, ("offset_backprop",), "NCHW", ("differentiate",)),
    (INFERENCE_GRAD, ("x_backprop",), "NHWC", ("apply",)),
    (INFERENCE_GRAD, ("x_backprop", "scale_backprop"), "NHWC", ("gather", "combine")),
    (TRAINING, ("batch_mean",), "NHWC", ("gather", "combine")),
    (TRAINING, ("y",), "NHWC", ("gather", "combine", "apply")),
    (INFERENCE, ("reserve_space_1",), "NHWC", ("apply",)),
]


@pytest.mark.parametrize(("mode", "outputs", "data_format", "names"), OUTPUTS)
def test_what_no_output_needs_is_not_launched(mode: str, outputs: tuple[str, ...], data_format: str, names: tuple[str, ...]) -> None:
    sizes = (64, 56, 56, 64) if data_format == "NHWC" else (64, 256, 56, 56)
    x = dml.TensorDesc(data_type="FLOAT16", sizes=sizes)
    channels = dml.TensorDesc(data_type="FLOAT32", sizes=(sizes[data_format.index("C")],))
    kind = dml.FusedBatchNormGradV3Desc if "GRAD" in mode else dml.FusedBatchNormV3Desc
    tensors = {name: x if role in ("x", "dy") else channels for name, role in INPUTS[kind].items()}
    desc = kind(**tensors, is_training=MODES[mode][1], data_format=data_format).with_outputs(*outputs)
    assert tuple(launch.entry.partition("<")[0] for launch in planned(desc)[1]) == names


IMAGES_7, IMAGES_14, IMAGES_28 = (32, 2048, 7, 7), (32, 1024, 14, 14), (32, 512, 28, 28)
IMAGES_56 = (32, 256, 56, 56)
ON_CHIP: list[tuple[str, tuple[int, ...], str, Limits, tuple[int, int, int, int], str]] = [
    # 3136 vectors are 12.25 for each thread
    (TRAINING, IMAGES_28, "FLOAT16", H100, (256, 13, 1, 16), "all"),
    # twice as much leaves room for two blocks on a multiprocessor: larger ones
    (TRAINING, IMAGES_28, "FLOAT32", H100, (512, 13, 1, 16), "all"),
    # one block on a multiprocessor: of the second round 124 blocks, and of the next line's 8
    (TRAINING, IMAGES_56, "FLOAT16", H100, (512, 25, 1, 16), "all"),
    (TRAINING, (32, 140, 56, 56), "FLOAT16", H100, (512, 0, 1, 16), ""),
    # room for 27 of 49 vectors, of twice 13
    (TRAINING, IMAGES_56, "FLOAT32", H100, (512, 27, 1, 16), "55%"),
    (TRAINING_GRAD, IMAGES_56, "FLOAT16", H100, (512, 13, 2, 16), "53%"),
    # less than half
    (TRAINING_GRAD, IMAGES_56, "FLOAT32", H100, (512, 0, 2, 16), ""),
    (TRAINING_GRAD, IMAGES_14, "FLOAT32", H100, (256, 7, 2, 16), "all"),
    (TRAINING, IMAGES_7, "FLOAT32", H100, (256, 7, 1, 4), "all"),
    (TRAINING, IMAGES_28, "FLOAT16", T4, (512, 7, 1, 16), "all"),
    # room for 3 of 7 vectors
    (TRAINING_GRAD, IMAGES_28, "FLOAT16", T4, (512, 0, 2, 16), ""),
    # groups are split; nothing is read twice
    (TRAINING, (64, 16, 56, 56), "FLOAT32", H100, (256, 0, 1, 16), ""),
    (INFERENCE_GRAD, IMAGES_28, "FLOAT16", H100, (256, 0, 2, 16), ""),
]


@pytest.mark.parametrize(("mode", "sizes", "data_type", "limits", "kept", "share"), ON_CHIP)
def test_what_stays_on_chip(
    mode: str, sizes: tuple[int, ...], data_type: str, limits: Limits, kept: tuple[int, int, int, int], share: str
) -> None:
    """Threads of a block, and vectors that each keeps of so many tensors, of so many bytes: half of a group or more, if worth the room."""
    plan, (launch, *_) = planned(described(mode, images(sizes, "NCHW", data_type)), limits=limits)
    threads, vectors, tensors, size = kept
    assert (launch.threads, launch.shared_bytes) == (threads, 12 * threads + threads * vectors * tensors * size)
    assert launch.shared_bytes <= limits.shared_memory_per_block
    text = plan.describe().splitlines()[1]
    assert ("stays in shared memory" in text) == bool(share)
    assert f"; {share} of a group stays in shared memory between the passes, {launch.shared_bytes} bytes a block" in text or not share


def test_statistics_alone_are_read_once() -> None:
    desc = dml.FusedBatchNormV3Desc(
        x=images(IMAGES_28, "NCHW"),
        **dict.fromkeys(("scale", "offset"), dml.TensorDesc(data_type="FLOAT32", sizes=(512,))),
        data_format="NCHW",
    ).with_outputs("batch_mean")
    plan, (launch,) = planned(desc)
    assert launch.shared_bytes == 12 * launch.threads
    assert plan.cost().traffic == {}


def test_counts_beyond_the_kernels() -> None:
    """Reported when the plan is made."""
    for axes in ([Axis(NUMBERS, (1, 1, 1), True)], [Axis(2, (NUMBERS, 0, 0), True), Axis(NUMBERS, (1, 1, 1), False)]):
        with pytest.raises(dml.DeviceError, match=rf"{NUMBERS} .*at most {NUMBERS - 1}"):
            Division(axes, 3, 1, 4, H100, reduces=True, part_bytes=12)
    largest = Division([Axis(NUMBERS - 1, (1, 1, 1), True)], 3, 1, 4, H100, reduces=True, part_bytes=12)
    assert largest.splits * largest.threads * division.MOST_VECTORS >= NUMBERS - 1


# results


class Watched(EmulatedRuntime):
    """A CPU that takes note of the shared memory that launches ask for."""

    def __init__(self, limits: Limits, **options: Any) -> None:
        super().__init__(limits, **options)
        self.shared_bytes: set[int] = set()

    def launch(self, function: Any, grid: Any, threads: int, shared_bytes: int, *others: Any) -> None:
        self.shared_bytes.add(shared_bytes)
        super().launch(function, grid, threads, shared_bytes, *others)


def run_on_chip(
    monkeypatch: pytest.MonkeyPatch, mode: str, dtype: Any, layout: str, share: float, **options: Any
) -> tuple[dict[str, Array], int]:
    """Blocks of 16 threads with room for a share of what each of them reads again, and not a byte more; how many vectors that is."""
    numbers = {"LEAST_VECTORS": 1000, "LANES": 8, "FEW_THREADS": 16, "MOST_THREADS": 16, "LEAST_KEPT": 0}
    for name, value in numbers.items():
        monkeypatch.setattr(division, name, value)
    sizes = (7, 8, 7, 8)
    desc, arrays = case(mode, np.random.default_rng(7), sizes, (1,), dtype)
    item, across = np.dtype(dtype).itemsize, layout == "channels last"
    width = 1 if layout == "every second" else VECTOR_BYTES // item
    again, owned = 2 if "GRAD" in mode else 1, width if across else 1
    whole = -(-7 * 7 * 8 // (16 * (1 if across else width)))
    vectors = round(share * whole)
    room = 16 * (owned * 12 + vectors * again * width * item)
    runtime = Watched(replace(H100, shared_memory_per_block=room), **options)
    found = results(CudaDevice(runtime), desc, arrays, layout)
    runtime.check_guards()
    assert runtime.shared_bytes == {room}
    return found, vectors


@pytest.mark.each_value
@pytest.mark.parametrize("layout", ["packed", "channels last", "every second"])
@pytest.mark.parametrize("mode", [TRAINING, TRAINING_GRAD, "FUSED_BATCH_NORM_V3 training", "FUSED_BATCH_NORM_GRAD_V3 training"])
@DATA_TYPES
def test_what_stays_on_chip_changes_no_bit(monkeypatch: pytest.MonkeyPatch, dtype: Any, mode: str, layout: str) -> None:
    """Nothing of a group, parts of it, odd numbers of vectors among them, or all of it; some threads have a vector less than others."""
    require("g++")
    expected, none = run_on_chip(monkeypatch, mode, dtype, layout, 0.0)
    found = {none: expected}
    for seed, share in enumerate((0.25, 0.75, 1.0)):
        values, kept = run_on_chip(monkeypatch, mode, dtype, layout, share, seed=seed)
        found[kept] = values
        assert_same(values, expected)
    assert len(found) == 4


@pytest.mark.parametrize(("mode", "statement"), [(TRAINING, "store<0>(first, x);"), (TRAINING_GRAD, "store<1>(first, dy);")])
def test_the_second_pass_reads_what_the_first_one_stored(monkeypatch: pytest.MonkeyPatch, mode: str, statement: str) -> None:
    """Without that statement nothing is right but what is read again."""
    require("g++")
    fault = (f"cached.template {statement}", 0)
    expected, _ = run_on_chip(monkeypatch, mode, np.float32, "every second", 0.0)
    assert_same(run_on_chip(monkeypatch, mode, np.float32, "every second", 0.0, fault=fault)[0], expected)
    with pytest.raises(AssertionError):
        assert_same(run_on_chip(monkeypatch, mode, np.float32, "every second", 0.25, fault=fault)[0], expected)


SPLIT: list[tuple[tuple[int, ...], int]] = [
    ((3, 2, 160, 165), 1),
    ((3, 90, 81, 2), 3),
    ((5, 150, 151, 3), 3),
    ((7, 3, 79, 53), 1),
    ((1, 1, 1, 14 * 2304 + 1), 1),
]
"""Sizes of which a group takes several blocks, and the dimension of the channels. Of the last one the last block has a single entry."""


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("sizes", "channels"),
    [pytest.param(*row, marks=[pytest.mark.slow] * (number in (2, 3))) for number, row in enumerate(SPLIT)],
    ids=str,
)
@DATA_TYPES
@MODE
def test_groups_split_over_blocks(mode: str, dtype: Any, sizes: tuple[int, ...], channels: int) -> None:
    """Whatever the order of threads."""
    require("g++")
    desc, arrays = case(mode, np.random.default_rng(1), sizes, (channels,), dtype)
    found = []
    for seed in (1, 2):
        runtime = EmulatedRuntime(seed=seed)
        found.append(run(CudaDevice(runtime), desc, arrays))
        runtime.check_guards()
        of_sums = MODES[mode][1] or "GRAD" in mode
        assert runtime.counts["launch"] == (1 if not of_sums else 3 if MODES[mode][1] else 2)
    check(found[0], desc, arrays)
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)


@pytest.mark.parametrize(("sizes", "kept"), [((301, 3), (0,)), ((7, 3, 40), (0, 2))])
@pytest.mark.parametrize("mode", [TRAINING, INFERENCE, TRAINING_GRAD, INFERENCE_GRAD])
def test_a_block_with_thread_groups_to_spare(mode: str, sizes: tuple[int, ...], kept: tuple[int, ...]) -> None:
    """The last block has more thread groups than groups are left: those touch nothing."""
    require("g++")
    desc, arrays = case(mode, np.random.default_rng(5), sizes, kept, epsilon=0.25)
    runtime = EmulatedRuntime(replace(H100, multiprocessors=1))
    check(run(CudaDevice(runtime), desc, arrays), desc, arrays)
    runtime.check_guards()


@pytest.mark.each_value
@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6))])
@MODE
def test_small_divisions(monkeypatch: pytest.MonkeyPatch, mode: str, seed: int) -> None:
    """Blocks of few threads, groups split early: every way to divide little work, on a device of few multiprocessors."""
    require("g++")
    for name, value in {"LEAST_VECTORS": 1, "LANES": 8, "FEW_THREADS": 16, "MOST_THREADS": 64}.items():
        monkeypatch.setattr(division, name, value)
    rng = np.random.default_rng(seed)
    sizes = tuple(int(size) for size in rng.integers(1, 20, 4))
    kept, dtype = (1, 3)[seed % 2], (np.float32, np.float16)[seed // 2 % 2]
    desc, arrays = case(mode, rng, sizes, (kept,), dtype, epsilon=0.25)
    runtime = EmulatedRuntime(replace(H100, multiprocessors=int(rng.integers(1, 30))))
    check(run(CudaDevice(runtime), desc, arrays), desc, arrays)
    runtime.check_guards()


@pytest.mark.parametrize("entries", [2, 3, 64])
@pytest.mark.parametrize("place", [0, -1])
def test_a_mean_that_is_not_finite(entries: int, place: int) -> None:
    """NaN, wherever in its group an infinity is; other groups know nothing of it."""
    require("g++")
    desc, arrays = case(TRAINING, np.random.default_rng(6), (3, entries), (0,))
    arrays["input_tensor"][1, place] = np.inf
    found = run(CudaDevice(EmulatedRuntime()), desc, arrays)
    for name, values in found.items():
        np.testing.assert_array_equal(np.isnan(values), [[False], [True], [False]] * np.ones_like(values, bool), err_msg=name)


@pytest.mark.each_value
@pytest.mark.parametrize("moved", ["x", "dy", "y", "dx", "statistics"])
@pytest.mark.parametrize("channels", [1, 3])
@DATA_TYPES
def test_misaligned_memory(dtype: Any, channels: int, moved: str) -> None:
    """A tensor that begins one element off a vector's boundary is taken element by element; nothing outside it is touched."""
    require("g++")
    sizes = (4, 8, 6, 16) if channels == 1 else (4, 6, 16, 8)
    width = VECTOR_BYTES // np.dtype(dtype).itemsize
    for mode in (TRAINING, INFERENCE, TRAINING_GRAD, INFERENCE_GRAD):
        desc, arrays = case(mode, np.random.default_rng(2), sizes, (channels,), dtype)
        role_of = {operand.name: role for role, operand in desc.geometry.operands.items()}
        runtime = EmulatedRuntime()
        plan = plan_of(desc, Target(KernelLibrary(runtime, 0)))
        assert plan is not None
        assert f"vectors of {width}" in plan.describe()
        memories, addresses = {}, {}
        for name, values in (arrays | poisons(desc)).items():
            data = role_of[name] in ("x", "dy", "add", "y", "dx")
            offset = int(role_of[name] == moved or (moved == "statistics" and not data))
            memories[name] = (runtime.to_device(0, np.concatenate([np.zeros(offset, values.dtype), values.reshape(-1)]), 0), offset)
            addresses[name] = memories[name][0].pointer + offset * values.dtype.itemsize
        loaded = runtime.counts["load"]
        scratch = runtime.allocate(0, plan.temporary_size, 0)
        launch = plan.bind(addresses, scratch.pointer, None)
        assert (runtime.counts["load"] > loaded) == (moved in role_of.values()), "other kernels than those of the plan"
        launch(0)
        runtime.check_guards()
        found = {
            name: runtime.to_host(memory, 0)[offset:].reshape(desc.tensors()[name].sizes) for name, (memory, offset) in memories.items()
        }
        for memory, offset in memories.values():
            assert not runtime.to_host(memory, 0)[:offset].any()
        check({name: found[name] for name in poisons(desc)}, desc, arrays)


@pytest.mark.parametrize(("mode", "outputs"), [(INFERENCE_GRAD, ["x_backprop", "offset_backprop"]), (TRAINING_GRAD, ["offset_backprop"])])
def test_x_is_read_only_where_it_counts(mode: str, outputs: list[str]) -> None:
    """NaN in x does not reach what does not depend on it."""
    require("g++")
    full, arrays = case(
        f"FUSED_BATCH_NORM_GRAD_V3 {'training' if MODES[mode][1] else 'inference'}", np.random.default_rng(3), (2, 3, 4, 5), (3,)
    )
    desc = full.replace(**dict.fromkeys(set(poisons(full)) - set(outputs)))
    expected, device = run(CudaDevice(EmulatedRuntime()), desc, arrays), CudaDevice(EmulatedRuntime())
    for name, values in run(device, desc, arrays | {"x": np.full_like(arrays["x"], np.nan)}).items():
        np.testing.assert_array_equal(values, expected[name])


# sanitizers


def run_small(mode: str, dtype: Any, sizes: tuple[int, ...], channels: int, **options: Any) -> None:
    """Under sanitizers, with blocks so small that everything is split. DeviceError with what they report."""
    require("g++")
    desc, arrays = case(mode, np.random.default_rng(4), sizes, (channels,), dtype, epsilon=0.25)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LEAST_VECTORS": 1, "LANES": 4, "FEW_THREADS": 16, "MOST_THREADS": 16}.items():
            patch.setattr(division, name, value)
        runtime = EmulatedRuntime(**options)
        check(run(CudaDevice(runtime), desc, arrays), desc, arrays)
    runtime.check_guards()


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize(("sizes", "channels"), [((3, 2, 9, 16), 1), ((3, 9, 11, 8), 3), ((3, 9, 11, 5), 3)])
@DATA_TYPES
@MODE
def test_sanitizers_find_nothing_in_small_divisions(mode: str, dtype: Any, sizes: tuple[int, ...], channels: int, sanitize: str) -> None:
    run_small(mode, dtype, sizes, channels, sanitize=sanitize)


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("layout", ["packed", "channels last", "every second"])
@pytest.mark.parametrize("mode", [TRAINING, TRAINING_GRAD])
@DATA_TYPES
def test_sanitizers_find_nothing_in_what_stays_on_chip(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, mode: str, layout: str, sanitize: str
) -> None:
    require("g++")
    for share in (0.75, 1.0):
        run_on_chip(monkeypatch, mode, dtype, layout, share, sanitize=sanitize)


def test_the_thread_sanitizer_notices_places_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what stays on chip, which no barrier divides."""
    require("g++")
    own = "(first_bytes + 15) / 16 * 16) + threadIdx.x"
    with pytest.raises(dml.DeviceError, match="data race"):
        run_on_chip(monkeypatch, TRAINING, np.float32, "packed", 1.0, sanitize="thread", fault=(own, 0, own.replace("threadIdx.x", "0")))


@pytest.mark.each_value
@pytest.mark.parametrize(("mode", "file"), [(TRAINING, "forward"), (TRAINING_GRAD, "gradient")])
@pytest.mark.parametrize("place", range(2))
def test_the_thread_sanitizer_misses_every_barrier(place: int, mode: str, file: str) -> None:
    assert sources.read(f"normalization/{file}.cu").count(BARRIER) == 2
    with pytest.raises(dml.DeviceError, match="data race"):
        run_small(mode, np.float32, (3, 2, 9, 16), 1, sanitize="thread", fault=(BARRIER, place))
