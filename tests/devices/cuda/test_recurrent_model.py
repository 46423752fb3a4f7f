"""The model of recurrences on a GPU: the floors of a published table, and what every estimate has to obey."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dmlpy.devices.cuda.performance.gpu_model import Arithmetic, GpuModel
from dmlpy.devices.cuda.recurrent.model import (
    DATA_TRIPS,
    FLAG_TRIPS,
    LOCAL,
    SINGLE_SUMS,
    PersistentGrid,
    Protocol,
    Work,
    block_bytes,
    floor_us,
    floors_us,
    least_unit_groups,
    per_step_time,
    persistent_block_time,
    persistent_grid_time,
    product_us,
)
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.gpu_models import A100, B200, GEFORCE_4090, H200, T4

FLOORS = """
  64  0.20/0.25/0.23  0.20/0.25/0.23  0.20/0.25/0.23  0.20/0.25/0.31
 128  0.29/0.30/0.30  0.29/0.31/0.32  0.31/0.33/0.35  0.35/0.43/0.43
 256  0.33/0.38/0.36  0.33/0.38/0.43  0.38/0.48/0.52  0.48/0.69/0.89
 512  0.43/0.46/0.45  0.48/0.61/0.64  0.52/0.76/0.89  1.10/2.13/2.74
1024  0.51/0.61/0.57  0.70/0.94/1.11  1.22/2.13/2.95  3.69/7.06/10.3
2048  0.81/3.65/3.65  1.31/3.65/3.65  3.77/13.0/13.0  13.6/31/51
"""
"""us a step of an LSTM's forward pass on an H200 for H and B = 1, 16, 64, 256: FLOAT16, TF32, FLOAT32. Of a separate model too."""

ARITHMETICS: tuple[Arithmetic, ...] = ("half", "tf32", "float")


def work(gates: int, hidden: int, batch: int, arithmetic: Arithmetic = "half", directions: int = 1) -> Work:
    return Work(gates, hidden, hidden, batch, 100, directions, arithmetic)


@pytest.mark.parametrize("line", FLOORS.strip().splitlines())
def test_floors(line: str) -> None:
    hidden, *cells = line.split()
    for batch, cell in zip((1, 16, 64, 256), cells, strict=True):
        for arithmetic, wanted in zip(ARITHMETICS, cell.split("/"), strict=True):
            found = floor_us(work(4, int(hidden), batch, arithmetic), GpuModel.of(H200))
            assert found == pytest.approx(float(wanted), rel=0.11), (hidden, batch, arithmetic)


@pytest.mark.parametrize(
    ("gates", "hidden", "expected"),
    [(3, 1024, (0.48, 0.64, 1.11, 2.95)), (1, 1024, (0.45, 0.48, 0.69, 1.18)), (1, 2048, (0.51, 0.75, 1.31, 3.77))],
)
def test_floors_of_other_cells(gates: int, hidden: int, expected: tuple[float, ...]) -> None:
    for batch, wanted in zip((1, 16, 64, 256), expected, strict=True):
        assert floor_us(work(gates, hidden, batch), GpuModel.of(H200)) == pytest.approx(wanted, rel=0.11)


@pytest.mark.parametrize(
    ("limits", "arithmetic", "hidden"),
    [
        (H200, "half", 2504),
        (H200, "float", 1712),
        (T4, "half", 1040),
        (T4, "float", 720),
        (A100, "half", 2048),
        (A100, "float", 1424),
        (GEFORCE_4090, "half", 1984),
        (GEFORCE_4090, "float", 1408),
        (B200, "half", 2664),
        (B200, "float", 1848),
    ],
)
def test_the_largest_lstm_that_is_resident(limits: Limits, arithmetic: Arithmetic, hidden: int) -> None:
    """Multiples of 8, each block with all gates of as many units as fit."""
    gpu = GpuModel.of(limits)
    fitting = [size for size in range(8, 4096, 8) if least_unit_groups(work(4, size, 1, arithmetic), gpu)]
    assert max(fitting) == hidden


def test_what_one_block_holds() -> None:
    assert block_bytes(GpuModel.of(H200)) == 376 * 1024
    assert block_bytes(GpuModel.of(T4)) == 213 * 1024
    assert least_unit_groups(work(4, 216, 1), GpuModel.of(H200)) == 1
    assert least_unit_groups(work(4, 224, 1), GpuModel.of(H200)) == 2
    assert least_unit_groups(work(4, 2048, 1, directions=2), GpuModel.of(H200)) is None


def test_clusters_are_for_those_that_have_them() -> None:
    assert "cluster" in floors_us(work(4, 256, 16), GpuModel.of(H200))
    assert "cluster" not in floors_us(work(4, 256, 16), GpuModel.of(A100))


@pytest.mark.parametrize("limits", [H200, A100, T4, GEFORCE_4090, B200])
def test_no_estimate_is_below_the_floor(limits: Limits) -> None:
    gpu = GpuModel.of(limits)
    for gates in (1, 3, 4):
        for hidden in (16, 100, 300, 1024):
            for batch in (1, 7, 64, 300):
                for arithmetic in ("half", "float"):
                    task = work(gates, hidden, batch, arithmetic)
                    least = floor_us(task, gpu)
                    times = [per_step_time(task, gpu, launches=1, products=1, captured=True)]
                    if groups := least_unit_groups(task, gpu):
                        samples = -(-batch // (gpu.multiprocessors // groups))
                        shape = {"units": -(-hidden // groups), "samples": samples, "pass_samples": min(8, samples)}
                        protocols: tuple[Protocol, ...] = ("flags", "data") if groups > 1 else ("alone",)
                        times += [persistent_grid_time(task, gpu, PersistentGrid(protocol=protocol, **shape)) for protocol in protocols]
                        if gpu.has_clusters and groups in (2, 4):
                            times.append(
                                persistent_grid_time(task, gpu, PersistentGrid(protocol="cluster", cluster_blocks=groups, **shape))
                            )
                    if task.recurrence_bytes <= gpu.shared_bytes:
                        times += [persistent_block_time(task, gpu, taken) for taken in (1, 8)]
                    assert all(time.us >= 0.95 * least for time in times), (task, least, times)


def test_what_makes_a_step_longer() -> None:
    gpu, task = GpuModel.of(H200), work(4, 512, 16)

    def grid(task: Work = task, **changes: Any) -> float:
        shape: dict[str, Any] = {"units": 16, "samples": 4, "pass_samples": 8, "protocol": "flags"} | changes
        return persistent_grid_time(task, gpu, PersistentGrid(**shape)).us

    least = grid()
    assert grid(samples=16) > least
    few = [PersistentGrid(units=16, samples=samples, pass_samples=8, protocol="flags") for samples in (1, 2)]
    one, two = (persistent_grid_time(task, gpu, grid).product_us for grid in few)
    assert two - one > gpu.us(4 * 8 * 4 * 16 * (8 - SINGLE_SUMS) / gpu.shared_rate), "the sums of seven samples go nowhere"
    assert grid(row_warps=8, depth_warps=1, units=64) > grid(units=64, depth_warps=1)
    assert grid(register_bytes=0) > least
    assert grid(replace(task, arithmetic="float")) > least
    assert grid(replace(task, resets_first=True)) - least >= gpu.us(FLAG_TRIPS * gpu.l2_cycles + LOCAL)
    without_flags = grid(protocol="data")
    assert least - without_flags == pytest.approx(gpu.us((FLAG_TRIPS - DATA_TRIPS) * gpu.l2_cycles))
    assert grid(protocol="alone") < without_flags
    in_cluster = grid(protocol="cluster", cluster_blocks=4)
    assert grid(protocol="alone") < in_cluster < without_flags
    crowded, waiting = (grid(protocol="cluster", cluster_blocks=4, blocks=4 * count) for count in (29, 30))
    assert waiting == pytest.approx(2 * crowded), "clusters wait for a turn: a group of multiprocessors may have a few to spare"
    assert grid(replace(task, backward=True)) > least, "four times the exchanged values"
    once, twice = (persistent_block_time(work(4, 64, batch), gpu, 1) for batch in (132, 133))
    assert twice.us == pytest.approx(2 * once.us), "blocks wait for a turn"
    captured, uncaptured = (per_step_time(task, gpu, launches=2, products=2, captured=flag) for flag in (True, False))
    assert captured.launch_us == pytest.approx(4 * 1.3)
    assert uncaptured.us > captured.us


def test_r_comes_into_the_shared_memory_of_persistent_block_in_turns() -> None:
    """A thread has 128 bytes under way. Few threads wait for that; many are held up by the rate of the L2 cache."""
    gpu = GpuModel.of(H200)
    small, large = work(4, 32, 1), work(4, 128, 1)
    assert small.recurrence_bytes == 2 * 32 * 128, "two turns of 32 threads"
    assert persistent_block_time(small, gpu, 1).once_us == pytest.approx(gpu.us(2 * (gpu.l2_cycles + 40) + 479))
    assert persistent_block_time(replace(small, backward=True), gpu, 1).once_us == pytest.approx(
        persistent_block_time(small, gpu, 1).once_us + 1.3
    )
    assert persistent_block_time(large, gpu, 1).once_us == pytest.approx(gpu.us(large.recurrence_bytes / gpu.l2_rate + 479))


def test_a_launch_waits_for_its_loads_and_a_small_product_for_its_own() -> None:
    gpu, task = GpuModel.of(H200), work(4, 64, 2)
    one, two = (per_step_time(task, gpu, launches=1, products=1, captured=True, loads=loads) for loads in (1, 2))
    assert two.us - one.us == pytest.approx(gpu.us(gpu.l2_cycles))
    assert one.product_us == 4.0
    large = work(4, 2048, 4096)
    assert per_step_time(large, gpu, launches=1, products=1, captured=True).product_us > 100


def test_what_moves_through_memory() -> None:
    """FLOAT16: the input's gates are halves in inference and floats in training, which saves as many and a state in addition to h."""
    task = work(4, 64, 1)
    assert task.memory_bytes() == 4 * 2 + 2
    assert task.memory_bytes(gates_from_memory=False) == 2
    assert replace(task, training=True).memory_bytes() == 4 * 4 + 2 + 5 * 4
    assert replace(task, backward=True).memory_bytes() == 12 * 4 + 3 * 2
    gpu, many = GpuModel.of(H200), work(1, 64, 100_000)
    read, cached = (
        per_step_time(many, gpu, launches=1, products=1, captured=True, gates_from_memory=there).memory_us for there in (True, False)
    )
    assert read == pytest.approx(2 * cached)


def test_a_product_is_bound_by_its_bytes_where_it_has_few_sums() -> None:
    gpu = GpuModel.of(H200)
    times = [product_us(gpu, "half", 10_000, 4096, 8, 2, result_itemsize) for result_itemsize in (4, 2, 0)]
    factors = 2 * 8 * (10_000 + 4096)
    assert times[:2] == [pytest.approx(gpu.memory_us(factors + item * 10_000 * 4096)) for item in (4, 2)]
    assert times[2] < times[1] / 2


def test_what_a_device_reports_about_itself_counts() -> None:
    gpu = GpuModel.of(replace(H200, clock_hz=1e9, memory_rate=2e12, l2_bytes=1 << 20))
    assert (gpu.clock_hz, gpu.l2_bytes) == (1e9, 1 << 20)
    assert gpu.memory == pytest.approx(1.8e12)
    assert gpu.us(1000) == pytest.approx(1)
    assert gpu.memory_us(1.8e6) == pytest.approx(1)


def test_devices_between_known_ones() -> None:
    assert GpuModel.of(replace(A100, compute_capability=87)).clock_hz == GpuModel.of(replace(A100, compute_capability=86)).clock_hz
    assert GpuModel.of(replace(B200, compute_capability=103)).has_clusters
    assert GpuModel.of(replace(T4, compute_capability=70)) == GpuModel.of(T4)
