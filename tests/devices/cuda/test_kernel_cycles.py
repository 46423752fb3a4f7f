"""The cycles of kernels' loops: what launches take by them, which variants they prefer, and that they are those of the kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmlpy.devices.cuda.attention.division import Division, Work
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.performance.kernel_cycles import NEXT_TAP, TURN, cycles_of, launch_us, unsure
from tests.support.cuda.binaries.kernel_loops import kernel_loops
from tests.support.cuda.gpu_models import A100, B200, H200, T4
from tests.support.generators import kernel_cycles as make_kernel_cycles
from tests.support.tools import require

GPU = replace(GpuModel.of(H200), multiprocessors=10, clock_hz=1e6)  # a cycle is a microsecond


@pytest.mark.parametrize(
    ("blocks", "turns", "us"),
    [
        (10, [(3, (100.0, 150.0))], 300),  # one on each multiprocessor
        (11, [(3, (100.0, 150.0))], 450),  # two on one
        (20, [(3, (100.0, 150.0))], 450),
        (21, [(3, (100.0, 150.0))], 450 + 300),  # and one more after them
        (40, [(3, (100.0, 150.0))], 900),
        (21, [(3, (100.0, 150.0)), (2, (10.0, 20.0, 30.0))], 750 + 40 + 20),  # as many at a time as of the way with fewer
    ],
)
def test_a_launch_takes_its_waves_of_blocks(blocks: int, turns: list[tuple[float, tuple[float, ...]]], us: float) -> None:
    assert launch_us(GPU, blocks, turns) == pytest.approx(us)


def test_variants_that_are_near_the_best_are_unsure() -> None:
    assert unsure([120.0, 100.0, 114.9, 115.1, 100.0]) == [1, 4, 2]
    assert unsure([]) == []


def test_every_device_has_the_cycles_of_every_kernel() -> None:
    for limits in (T4, A100, H200, B200):
        for loop in kernel_loops():
            if loop.runs_on(limits):
                for way in loop.ways:
                    cycles = cycles_of(loop.name, limits.compute_capability, way)
                    assert cycles, (limits.name, loop.name)
                    assert list(cycles) == sorted(cycles), (limits.name, loop.name)
    assert cycles_of("convolution, half, 64 x 64", 89) == cycles_of("convolution, half, 64 x 64", 86)  # the next older one
    with pytest.raises(KeyError):
        cycles_of("convolution, tf32, 64 x 64", 75)


HALF, FLOAT = np.dtype(np.float16), np.dtype(np.float32)


@pytest.mark.parametrize(
    ("work", "data_type", "parts"),
    [
        (Work(8, 32, 1, 1, 8192, 128, 128), FLOAT, [2]),  # 256 blocks, of which 396 run at a time: halves of them fill more
        (Work(8, 32, 1, 1, 8192, 128, 128), HALF, [1, 2]),  # of halves too, but not by much
        (Work(1, 32, 1, 1, 8192, 128, 128), HALF, [12]),  # 32 blocks: all multiprocessors are to have some
        (Work(1, 32, 1, 1, 256, 128, 128), HALF, [1]),  # few keys
        (Work(4, 16, 1, 4096, 4096, 128, 128), HALF, [1]),  # enough blocks
    ],
)
def test_keys_are_divided_where_blocks_are_few(work: Work, data_type: np.dtype[np.generic], parts: list[int]) -> None:
    found = Division.variants(work, data_type, H200, plain=True)
    assert [division.parts for division in found][: len(parts)] == parts
    assert found[0] == Division.of(work, data_type, H200, plain=True)
    estimates = [division.us for division in found]
    assert estimates == sorted(estimates)
    assert estimates[-1] <= 1.15 * estimates[0]


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param("convolution, half, 64 x 64", id="one kernel"),
        pytest.param("", marks=pytest.mark.slow, id="all"),
    ],
)
def test_the_cycles_are_those_of_the_kernels(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    require("nvrtc")
    require("nvdisasm")
    arguments = ["--check", "--kernels", kernels, *["--architectures", "90"] * bool(kernels)]
    assert make_kernel_cycles.main(arguments) == 0, capsys.readouterr().err


def test_a_difference_is_told() -> None:
    stored = {"90": {"a": {TURN: [100.0, 150.0], NEXT_TAP: [10.0]}}}
    near, far = {TURN: [110.0, 140.0], NEXT_TAP: [10.0]}, {TURN: [130.0, 150.0], NEXT_TAP: [10.0, 11.0]}
    assert make_kernel_cycles.differences(stored, 90, "a", near) == []
    assert [text.partition(":")[0] for text in make_kernel_cycles.differences(stored, 90, "a", far)] == [
        "sm_90, a, turn",
        "sm_90, a, next tap",
    ]
    assert make_kernel_cycles.differences(stored, 80, "a", near) == ["sm_80, a: not stored"]
