"""Batch normalization on every device: TensorFlow's results, random shapes against float64, activations, averages, subsets of outputs."""

from __future__ import annotations

import itertools
import tracemalloc
from math import prod
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.numpy.plans import plan_of
from tests.support.folders import STORED_CASES
from tests.support.operators.batch_normalization_cases import CASES, check_tensorflow
from tests.support.operators.normalization_cases import (
    FUSED,
    IMAGE_SIZED,
    INPUTS,
    MODES,
    Array,
    case,
    check,
    described,
    epsilon_for,
    poisons,
    random_values,
    run,
)
from tests.support.tables import table
from tests.support.tools import require

DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
MODE = pytest.mark.parametrize("mode", MODES)
DIRECTML = pytest.mark.parametrize("mode", [mode for mode, (kind, _) in MODES.items() if kind not in FUSED])
TENSORFLOW = pytest.mark.parametrize("mode", [mode for mode, (kind, _) in MODES.items() if kind in FUSED])


# TensorFlow's results


@table("name", CASES)
def test_tensorflow(any_device: dml.Device, name: str) -> None:
    check_tensorflow(any_device, name)


def test_every_case_of_tensorflow_is_used() -> None:
    assert set(CASES) == {path.stem for path in STORED_CASES.glob("tf_fused_batch_norm*.npz")}
    formats = {(entry["attributes"]["data_format"], entry["attributes"]["is_training"], "grad" in name) for name, entry in CASES.items()}
    assert len(CASES) == 36
    assert len(formats) == 14, "every format both ways, but for NCDHW in inference"


# random shapes

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((7,), ()),
    ((7,), (0,)),
    ((1,), ()),
    ((5, 3), (1,)),
    ((5, 3), (0,)),
    ((5, 3), (0, 1)),
    ((37, 3), ()),
    ((2, 65, 33), (1,)),
    ((2, 3, 4, 5), (1,)),
    ((2, 3, 4, 5), (3,)),
    ((3, 4, 2, 5), (0, 1)),
    ((3, 4, 2, 5), (1, 2, 3)),
    ((3, 4, 2, 5), (0, 2)),
    ((1, 17, 1, 1), (1,)),
    ((9, 1, 33, 1), ()),
    ((2, 8, 8, 8), (1,)),
    ((4, 8, 8, 16), (3,)),
    ((301, 3), (1,)),
    ((3, 301), (0,)),
    ((2, 130, 2), (1,)),
    ((3, 5, 7, 2, 3), (2,)),
    ((2, 1, 3, 1, 2, 5), (2, 5)),
    ((2, 3, 1, 2, 3, 2, 1), (1, 2, 4)),
    ((2, 1, 2, 3, 2, 1, 2, 2), (0, 3, 7)),
    ((1, 2, 1, 3, 1, 2, 1, 2), (1, 5)),
]
"""Sizes of the input, and the dimensions along which statistics do not repeat."""


@pytest.mark.each_value
@DATA_TYPES
@DIRECTML
@pytest.mark.parametrize(("sizes", "kept"), SHAPES, ids=[f"{sizes} but {kept}" for sizes, kept in SHAPES])
def test_any_sizes(any_device: dml.Device, mode: str, sizes: tuple[int, ...], kept: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng([*sizes, *kept])
    desc, arrays = case(mode, rng, sizes, kept, dtype, epsilon=epsilon_for(sizes, kept))
    check(run(any_device, desc, arrays), desc, arrays)


IMAGES: list[tuple[tuple[int, ...], int]] = [
    ((2, 3, 5, 7), 3),
    ((3, 4, 2, 9), 1),
    ((1, 1, 3, 2), 3),
    ((5, 1, 1, 1), 1),
    ((1, 9, 1, 1), 1),
    ((3, 4, 4, 16), 3),
]
VOLUMES: list[tuple[tuple[int, ...], int]] = [((2, 3, 4, 2, 5), 4), ((2, 3, 4, 2, 5), 1), ((1, 2, 1, 3, 1), 4)]


@pytest.mark.pairwise
@DATA_TYPES
@TENSORFLOW
@pytest.mark.parametrize(("sizes", "channels"), IMAGES + VOLUMES)
def test_any_images(any_device: dml.Device, mode: str, sizes: tuple[int, ...], channels: int, dtype: Any) -> None:
    """FLOAT16 too has FLOAT32 statistics, exact to FLOAT32's digits."""
    rng = np.random.default_rng([*sizes, channels])
    desc, arrays = case(mode, rng, sizes, (channels,), dtype, epsilon=epsilon_for(sizes, (channels,)))
    found = run(any_device, desc, arrays)
    assert {name: array.dtype for name, array in found.items()} == {name: dtype if name in IMAGE_SIZED else np.float32 for name in found}
    check(found, desc, arrays)


LARGE: list[tuple[tuple[int, ...], int, Any]] = [
    ((3, 2, 33, 83), 1, np.float32),
    ((2, 2, 256, 136), 1, np.float16),
    ((3, 53, 53, 3), 3, np.float16),
    ((8, 32, 32, 16), 3, np.float32),
]
"""Of odd sizes and of sizes that allow accesses of several elements; a GPU shares each group out to several blocks."""


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("mode", "sizes", "channels", "dtype"),
    [
        pytest.param(mode, *large, marks=[pytest.mark.slow] * ((number + place) % 2))
        for number, mode in enumerate(MODES)
        for place, large in enumerate(LARGE)
    ],
)
def test_few_large_groups(any_device: dml.Device, mode: str, sizes: tuple[int, ...], channels: int, dtype: Any) -> None:
    rng = np.random.default_rng([*sizes, channels])
    members = {"exponential_avg_factor": 0.25} if mode == "FUSED_BATCH_NORM_V3 training" else {}
    desc, arrays = case(mode, rng, sizes, (channels,), dtype, **members)
    check(run(any_device, desc, arrays), desc, arrays)
    # without the first output, which is the only one of x's sizes
    fewer = desc.replace(**{next(iter(poisons(desc))): None}) if desc.is_extension else desc
    check(run(any_device, fewer, arrays), fewer, arrays)


HUGE: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((300_001,), ()),
    ((3, 2, 181, 199), (1,)),
    ((5, 131, 67, 7), (3,)),
    ((2, 5, 150, 129), (1,)),
    ((7, 3000, 13), (2,)),
    ((2000, 131), (0,)),
    ((131, 2000), (1,)),
    ((20_011, 3, 5), (1,)),
    ((30, 5, 7, 90, 2), (1, 3)),
    ((30, 5, 7, 90, 2), (0, 2, 4)),
    ((3, 60_000, 1), (0,)),
    ((3, 60_000, 1), (0, 1)),
]
"""Of more entries, in all, along an axis, or for a group, than the host takes at a time; nowhere a multiple of that."""


@pytest.mark.pairwise
@DATA_TYPES
@DIRECTML
@pytest.mark.parametrize(("sizes", "kept"), HUGE, ids=[f"{sizes} but {kept}" for sizes, kept in HUGE])
def test_many_blocks_on_the_host(mode: str, sizes: tuple[int, ...], kept: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng([*sizes, *kept])
    desc, arrays = case(mode, rng, sizes, kept, dtype)
    check(run(dml.device("numpy"), desc, arrays), desc, arrays)


@pytest.mark.pairwise
@pytest.mark.parametrize("sizes", [(8, 5, 151, 149), (1001, 13, 7, 11)])
@pytest.mark.parametrize("kept", [(1,), (3,), (0, 2)], ids=str)
@DIRECTML
def test_the_number_of_threads_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, mode: str, kept: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    desc, arrays = case(mode, np.random.default_rng(15), sizes, kept)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr("dmlpy.devices.numpy.normalization.common.available_threads", lambda threads=threads: threads)
        plan = plan_of(desc)
        assert plan is not None
        outputs, scratch = poisons(desc), np.empty(plan.temporary_size, np.uint8)
        pointers = {name: array.ctypes.data for name, array in {**arrays, **outputs}.items()}
        plan.bind(pointers, scratch.ctypes.data, None)(0)
        found.append((plan.describe(), outputs))
    assert len({told for told, _ in found}) == 3, "the plans work on one thread, two and more"
    for name, values in found[0][1].items():
        for _, others in found[1:]:
            np.testing.assert_array_equal(values, others[name], err_msg=name)


@DATA_TYPES
@pytest.mark.parametrize("seed", range(8))
def test_four_statistics_of_sizes_of_their_own(any_device: dml.Device, seed: int, dtype: Any) -> None:
    """Each repeats along other dimensions. `spatial` changes nothing."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(size) for size in rng.integers(1, 6, rng.integers(2, 6)))
    arrays = {}
    for name, role in INPUTS[dml.BatchNormalizationDesc].items():
        kept = np.flatnonzero(rng.integers(0, 2, len(sizes)))
        arrays[name] = random_values(rng, sizes, kept)[role].astype(dtype)
    found = []
    for spatial in (True, False):
        desc = described(dml.BatchNormalizationDesc, arrays, spatial=spatial)
        found.append(run(any_device, desc, arrays))
        check(found[-1], desc, arrays)
    np.testing.assert_array_equal(found[0]["output_tensor"], found[1]["output_tensor"])


# what is fused

ACTIVATIONS: list[dml.ActivationDesc] = [
    dml.ActivationIdentityDesc(),
    dml.ActivationLinearDesc(alpha=0.7, beta=0.1),
    dml.ActivationReluDesc(),
    dml.ActivationLeakyReluDesc(alpha=0.2),
    dml.ActivationThresholdedReluDesc(alpha=0.3),
    dml.ActivationEluDesc(alpha=0.8),
    dml.ActivationCeluDesc(alpha=0.6),
    dml.ActivationScaledEluDesc(alpha=1.2, gamma=0.7),
    dml.ActivationSigmoidDesc(),
    dml.ActivationHardSigmoidDesc(alpha=0.3, beta=0.4),
    dml.ActivationTanhDesc(),
    dml.ActivationScaledTanhDesc(alpha=0.9, beta=0.7),
    dml.ActivationSoftsignDesc(),
    dml.ActivationSoftplusDesc(steepness=1.5),
    dml.ActivationParametricSoftplusDesc(alpha=0.5, beta=0.8),
    dml.ActivationGeluDesc(),
    dml.ActivationShrinkDesc(bias=0.1, threshold=0.2),
]
FORWARD = ("BATCH_NORMALIZATION", "BATCH_NORMALIZATION_TRAINING")
NAMES = [activation.short_name().removeprefix("ACTIVATION_") for activation in ACTIVATIONS]


def check_activation(device: dml.Device, activation: dml.ActivationDesc, mode: str, dtype: Any) -> None:
    desc, arrays = case(mode, np.random.default_rng(5), (3, 5, 4, 3), (1,), dtype, fused_activation=activation)
    check(run(device, desc, arrays), desc, arrays)


@pytest.mark.pairwise
@DATA_TYPES
@pytest.mark.parametrize("mode", FORWARD)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=NAMES)
def test_fused_activations_on_the_host(activation: dml.ActivationDesc, mode: str, dtype: Any) -> None:
    check_activation(dml.device("numpy"), activation, mode, dtype)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=name, marks=[pytest.mark.slow] * (number % 3 > 0))
        for number, name in zip(range(len(ACTIVATIONS)), NAMES, strict=True)
    ],
)
def test_fused_activations_on_cuda(cuda_device: dml.Device, number: int) -> None:
    """Each in one of the four combinations of operator and type: each kernel is a separate instance, which takes a while to compile.

    A third of them is usual: what each activation computes is tested by itself.
    """
    mode, dtype = list(itertools.product(FORWARD, (np.float32, np.float16)))[number % 4]
    check_activation(cuda_device, ACTIVATIONS[number], mode, dtype)


@DATA_TYPES
@pytest.mark.parametrize("activation", [None, dml.ActivationReluDesc()], ids=["plain", "RELU"])
@pytest.mark.parametrize("adds", [True, False])
def test_fused_addition(any_device: dml.Device, adds: bool, activation: dml.ActivationDesc | None, dtype: Any) -> None:
    desc, arrays = case(FORWARD[1], np.random.default_rng(6), (2, 5, 3, 3), (1,), dtype, fused_activation=activation)
    if not adds:
        del arrays["fused_add_tensor"]
        desc = desc.replace(fused_add_tensor=None)
    check(run(any_device, desc, arrays), desc, arrays)


# averages and copies


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 3, 1, 1), (2, 3, 1, 1)])
@pytest.mark.parametrize("factor", [0.0, 0.1, 0.75, 1.0, 1.5])
def test_running_statistics(any_device: dml.Device, factor: float, sizes: tuple[int, ...]) -> None:
    """The average with the old ones, of the unbiased variance: of one entry, n / max(n - 1, 1) = 1 times 0."""
    desc, arrays = case("FUSED_BATCH_NORM_V3 training", np.random.default_rng(7), sizes, (1,), exponential_avg_factor=factor)
    assert ("mean" in arrays) == (factor != 1)
    found = run(any_device, desc, arrays)
    check(found, desc, arrays)
    if factor == 0:
        np.testing.assert_array_equal(found["batch_mean"], arrays["mean"])
        np.testing.assert_array_equal(found["batch_variance"], arrays["variance"])
    elif sizes == (1, 3, 1, 1):
        assert (found["reserve_space_2"] == 0).all()


def test_old_statistics_are_not_read_where_the_factor_is_one(any_device: dml.Device) -> None:
    """Not even if described: NaN in them does not spoil the averages, as 0 * NaN would."""
    _, arrays = case("FUSED_BATCH_NORM_V3 training", np.random.default_rng(8), (2, 3, 4, 5), (1,))
    spoilt = arrays | dict.fromkeys(("mean", "variance"), np.full(3, np.nan, np.float32))
    desc = described(dml.FusedBatchNormV3Desc, spoilt, data_format="NCHW")
    check(run(any_device, desc, spoilt), desc, arrays)


@DATA_TYPES
def test_inference_copies_the_statistics(any_device: dml.Device, dtype: Any) -> None:
    desc, arrays = case("FUSED_BATCH_NORM_V3 inference", np.random.default_rng(9), (2, 3, 4, 5), (3,), dtype)
    found = run(any_device, desc, arrays)
    for name, source in (
        ("batch_mean", "mean"),
        ("batch_variance", "variance"),
        ("reserve_space_1", "mean"),
        ("reserve_space_2", "variance"),
    ):
        np.testing.assert_array_equal(found[name], arrays[source], err_msg=name)


@TENSORFLOW
def test_every_subset_of_outputs(any_device: dml.Device, mode: str) -> None:
    """Each subset gives the same values as all outputs together give."""
    members = {"exponential_avg_factor": 0.25} if mode == "FUSED_BATCH_NORM_V3 training" else {}
    whole, arrays = case(mode, np.random.default_rng(10), (2, 3, 2, 5), (3,), **members)
    names = list(poisons(whole))
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            desc = whole.replace(**dict.fromkeys(set(names) - set(chosen)))
            found = run(any_device, desc, arrays)
            assert set(found) == set(chosen)
            check(found, desc, arrays, f"of {', '.join(chosen)}: ")


# what a plan promises


@DATA_TYPES
@MODE
def test_there_is_nothing_to_prepare(any_device: dml.Device, mode: str, dtype: Any) -> None:
    desc, arrays = case(mode, np.random.default_rng(11), (3, 5, 4, 3), (1,), dtype)
    operator = dml.compile(desc, device=any_device)
    assert operator.binding_properties.persistent_resource_size == 0
    outputs = operator.prepare()(**{name: any_device.from_host(array) for name, array in arrays.items()})
    check({name: any_device.to_host(array) for name, array in outputs.as_dict().items()}, desc, arrays)


@MODE
def test_the_order_of_threads_counts_for_nothing(mode: str) -> None:
    require("g++")
    desc, arrays = case(mode, np.random.default_rng(12), (3, 70, 5, 5), (1,))
    found = []
    for seed in (1, 2):
        runtime = EmulatedRuntime(seed=seed)
        found.append(run(CudaDevice(runtime), desc, arrays))
        runtime.check_guards()
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)


@pytest.mark.pairwise
@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@pytest.mark.parametrize(("sizes", "channels", "dtype"), [((3, 5, 4, 8), 1, np.float32), ((3, 7, 5, 8), 3, np.float16), LARGE[0], LARGE[2]])
@MODE
def test_sanitizers_find_nothing(mode: str, sizes: tuple[int, ...], channels: int, dtype: Any, sanitizers: str) -> None:
    require("g++")
    desc, arrays = case(mode, np.random.default_rng(14), sizes, (channels,), dtype)
    runtime = EmulatedRuntime(sanitize=sanitizers)
    check(run(CudaDevice(runtime), desc, arrays), desc, arrays)
    runtime.check_guards()


@DATA_TYPES
@pytest.mark.parametrize("channels", [1, 3])
@MODE
def test_a_launch_on_the_host_allocates_nothing(mode: str, channels: int, dtype: Any) -> None:
    """Nothing that grows with the arrays."""
    sizes = (8, 32, 28, 28) if channels == 1 else (8, 28, 28, 32)
    desc, arrays = case(mode, np.random.default_rng(13), sizes, (channels,), dtype)
    operator = dml.compile(desc, "numpy")
    memory: dict[str, Array] = arrays | poisons(desc)
    inputs, outputs = ({name: array for name, array in memory.items() if (name in arrays) == of_inputs} for of_inputs in (True, False))
    launch = operator.bind(inputs, outputs)
    launch()
    tracemalloc.start()
    try:
        launch()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 10, f"{peak} bytes, x has {prod(sizes) * np.dtype(dtype).itemsize}"
