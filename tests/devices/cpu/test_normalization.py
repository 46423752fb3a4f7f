"""Compiled batch normalization: which descs it takes, and that threads change no bit, in any layout.

Its results are held to the exact ones by tests/devices/test_batch_normalization_layouts.py and _numerics.py, as every device's are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.batch_normalization_runs import results
from tests.support.operators.normalization_cases import MODES, case, check

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.normalization import plan as plans
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
from dmlpy.devices.cpu.thread_pool import TaskLaunch


@pytest.mark.each_value
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("sizes", [(3, 37, 9, 11), (700, 70, 2, 1)], ids=str)
@pytest.mark.parametrize("mode", ["BATCH_NORMALIZATION_TRAINING", "FUSED_BATCH_NORM_GRAD_V3 training"])
def test_threads_change_no_bit(mode: str, sizes: tuple[int, ...], layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes and rows, of several chunks, with vectors of groups that are not full."""
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    activated = {"fused_activation": dml.ActivationReluDesc()} if mode == "BATCH_NORMALIZATION_TRAINING" else {}
    desc, arrays = case(mode, np.random.default_rng(7), sizes, (1,), **activated)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(plans, "available_threads", lambda threads=threads: threads)
        found.append(results(dml.device("cpu"), desc, arrays, layout))
        check(found[-1], desc, arrays)
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["packed", "channels last"])
def test_coefficients_are_numpys(layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of usual statistics, and of means far from 0, variances of 0 and below, scales of 0, infinities and NaN."""
    desc, arrays = case("BATCH_NORMALIZATION", np.random.default_rng(9), (2, 40, 3, 5), (1,), dtype)
    odd = {"mean": [0.0, 3e4, 1e-6, np.inf, np.nan], "variance": [0.0, 1e-12, -1.0, np.inf, np.nan], "scale": [0.0, -2.0, np.inf, np.nan]}
    for name, values in odd.items():
        array = arrays[f"{name}_tensor"].reshape(-1)
        array[: len(values)], array[5:20:4] = values, 3e-3
    found = []
    for kernel in (plans.CompiledForwardPlan._coefficient_kernel, None):
        monkeypatch.setattr(plans.CompiledForwardPlan, "_coefficient_kernel", kernel)
        found.append(results(dml.device("cpu"), desc, arrays, layout)["output_tensor"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("sizes", [(3, 37, 9, 11), (600, 20, 3, 1)], ids=str)
def test_statistics_of_a_batch_are_numpys(sizes: tuple[int, ...], layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several chunks and planes, means far from 0 and the first entry, infinities and NaN. Nothing is left to NumPy."""
    desc, arrays = case("BATCH_NORMALIZATION_TRAINING", np.random.default_rng(10), sizes, (1,), dtype)
    plain = np.random.default_rng(11).normal(size=sizes).astype(dtype)
    far, odd = plain.copy(), plain.copy()
    far[:, 3:6] += 100.0
    far[0, 4:6, 0, 0] = 60.0, -100.0
    odd[0, :3, 1, 0] = np.nan, np.inf, -np.inf
    kernel, calls = plans.CompiledForwardPlan._coefficient_kernel, list[int]()
    find = plans._Forward._find_statistics

    def counted(own: plans._Forward) -> None:
        calls.append(1)
        find(own)

    monkeypatch.setattr(plans._Forward, "_find_statistics", counted)
    for x in (plain, far, odd):
        given, found = arrays | {"input_tensor": x}, []
        for own in (kernel, None):
            monkeypatch.setattr(plans.CompiledForwardPlan, "_coefficient_kernel", own)
            calls.clear()
            found.append(results(dml.device("cpu"), desc, given, layout))
            assert len(calls) == (own is None)
        for name, values in found[0].items():
            np.testing.assert_array_equal(values, found[1][name], err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("mode", ["BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING_GRAD", "FUSED_BATCH_NORM_GRAD_V3 training"])
def test_coefficients_of_gradients_are_numpys(mode: str, layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of usual statistics, means far from 0, variances of 0 and below, infinities and NaN. Nothing is left to NumPy."""
    desc, arrays = case(mode, np.random.default_rng(14), (3, 37, 9, 11), (1,), dtype)
    for name, values in {"mean": [0.0, 3e4, 1e-6, np.inf, np.nan], "variance": [0.0, 1e-6, -1.0, np.inf, np.nan]}.items():
        place = {"mean": "reserve_space_1", "variance": "reserve_space_2"}[name] if "FUSED" in mode else f"{name}_tensor"
        array = arrays[place].reshape(-1)
        array[: len(values)], array[5:20:4] = values, 3e-3
    kernels, run, calls, found = plans.CompiledGradientPlan._coefficient_kernels, plans._Gradient.run, list[int](), []

    def counted(own: plans._Gradient) -> None:
        calls.append(1)
        run(own)

    monkeypatch.setattr(plans._Gradient, "run", counted)
    for own in (kernels, None):
        monkeypatch.setattr(plans.CompiledGradientPlan, "_coefficient_kernels", own)
        calls.clear()
        found.append(results(dml.device("cpu"), desc, arrays, layout))
        assert len(calls) == (own is None)
    for name, wanted in found[1].items():
        np.testing.assert_array_equal(found[0][name], wanted, err_msg=name)


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize(("mean", "first", "passes"), [(0.0, 0.0, 1), (100.0, 100.0, 1), (100.0, 60.0, 2), (100.0, -100.0, 3)])
def test_how_often_groups_are_summed(mean: float, first: float, passes: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once if few entries show a mean far from 0, again if the first one is no better, or too few of them were near each other."""
    desc, arrays = case("BATCH_NORMALIZATION_TRAINING", np.random.default_rng(12), (3, 20, 9, 11), (1,))
    arrays["input_tensor"][:, 3] = np.random.default_rng(13).normal(mean, 1.0, (3, 9, 11))
    arrays["input_tensor"][0, 3, 0, 0] = first
    bodies, call = list[Any](), TaskLaunch.__call__

    def counted(own: TaskLaunch, stream: int) -> None:
        bodies.append(own.body)
        call(own, stream)

    monkeypatch.setattr(TaskLaunch, "__call__", counted)
    check(results(dml.device("cpu"), desc, arrays, layout), desc, arrays)
    sums = plans.SUMS("planes" if layout == "packed" else "rows", False, "float32", host_isa())
    assert bodies.count(sums) == passes


def in_layout(desc: Any, name: str, strides: tuple[int, ...]) -> Any:
    return desc.replace(**{name: desc.tensors()[name].replace(strides=strides)})


def test_what_is_compiled_and_why_the_rest_is_not() -> None:
    rng, sizes = np.random.default_rng(8), (2, 24, 3, 5)
    for mode in MODES:
        for dtype in (np.float32, np.float16):
            assert not isinstance(compiled_plan(case(mode, rng, sizes, (1,), dtype)[0]), str), mode
    desc, _ = case("BATCH_NORMALIZATION_TRAINING", rng, sizes, (1,))
    for strides in ((720, 30, 10, 2), (360, 1, 120, 24)):  # with gaps, and another order than the output's
        assert isinstance(compiled_plan(in_layout(desc, "input_tensor", strides)), LayoutCopiesPlan)
    channels = max(1, host_isa().lanes // 2 - 1)  # one channel is a plane
    few, _ = case("BATCH_NORMALIZATION", rng, (2, channels, 3, 2), (1,))
    last = dict.fromkeys(("input_tensor", "output_tensor"), (6 * channels, 1, 2 * channels, channels))
    for name, strides in last.items():
        few = in_layout(few, name, strides)
    assert channels == 1 or isinstance(compiled_plan(few), LayoutCopiesPlan)
    assert "are contiguous" in str(compiled_plan(case("BATCH_NORMALIZATION", rng, sizes, (1, 3))[0]))
    other = desc.replace(fused_activation=dml.ActivationTanhDesc())
    assert compiled_plan(other) == "ACTIVATION_TANH is not computed with a compiled batch normalization"
    assert dml.compile(other, "cpu").plan.startswith("strategy: numpy (ACTIVATION_TANH is not computed")
