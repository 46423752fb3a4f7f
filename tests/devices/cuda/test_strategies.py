"""The rule that gives a recurrent desc its strategy of CUDA kernels: a table of decisions, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.gradient_plan import BACKWARD, gradient_plan
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import grid_gradient_shapes
from dmlpy.devices.cuda.recurrent.grid_shapes import grid_shapes
from dmlpy.devices.cuda.recurrent.layer import PersistentBlockPlan
from dmlpy.devices.cuda.recurrent.per_step import PerStepPlan
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan
from dmlpy.devices.cuda.recurrent.plan import FORWARD, recurrent_plan
from dmlpy.devices.cuda.recurrent.strategies import Choice, choose
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.forward_descs import forward_desc
from tests.support.cuda.gpu_models import A100, B200, GEFORCE_4090, H200, T4
from tests.support.cuda.gradient_cases import gradient_desc
from tests.support.recurrent.layer_runs import CELLS
from tests.support.tables import table

DEVICES = {"H200": H200, "B200": B200, "A100": A100, "4090": GEFORCE_4090, "T4": T4}

DECISIONS = """
RNN  FLOAT32   64     1   96 1 H200  persistent_block  a small policy
LSTM FLOAT32   32     1  200 1 H200  persistent_block
LSTM FLOAT16   32   256  200 1 H200  persistent_block
GRU  FLOAT32   64    16  100 1 H200  persistent_block  two products, each within a block
LSTM FLOAT32  128     1  512 1 H200  persistent_grid   voice activity: R is too large for shared memory alone
LSTM FLOAT32  128    32  293 2 H200  persistent_grid   segmentation of speakers
GRU  FLOAT32  128    64  100 1 H200  persistent_grid
LSTM FLOAT32  256    16  150 1 H200  persistent_grid   a character model
LSTM FLOAT16  256    16  150 1 H200  persistent_grid
LSTM FLOAT32  256    64  160 1 H200  persistent_grid   a speaker's voice
LSTM FLOAT32  256   128  128 1 H200  persistent_grid   a recurrent policy
GRU  FLOAT32  256   128  128 1 H200  persistent_grid
LSTM FLOAT16  384    64 1600 1 H200  persistent_grid   a basecaller
GRU  FLOAT32  512    32 1375 1 H200  persistent_grid   a vocoder
LSTM FLOAT16  768    16 1024 1 H200  persistent_grid
LSTM FLOAT16 1024    16  100 1 H200  persistent_grid
LSTM FLOAT16 1024    64  400 2 H200  persistent_grid   recognition of speech, both directions
GRU  FLOAT16 1024    64 1500 1 H200  persistent_grid
LSTM FLOAT32 1024     1  100 1 H200  persistent_grid
RNN  FLOAT32 1760    16   50 1 H200  persistent_grid
RNN  FLOAT16 1760    16   50 1 H200  persistent_grid
LSTM FLOAT16 2048     1  200 1 H200  persistent_grid
LSTM FLOAT16 2048    16  200 1 H200  persistent_grid
LSTM FLOAT16 2048   256  200 1 H200  per_step          arithmetic of large products outweighs the launches
LSTM FLOAT32 1150    80   70 1 H200  per_step
LSTM FLOAT32 2048     1  200 1 H200  per_step          R is too large for the device
GRU  FLOAT16 2816    32  375 1 H200  per_step
LSTM FLOAT32  128     1    1 1 H200  per_step          generation, a step at a time
LSTM FLOAT32 1024     1    2 1 H200  per_step
LSTM FLOAT32 1024     1    3 1 H200  persistent_grid
LSTM FLOAT32   16     1    2 1 H200  per_step
RNN  FLOAT32   32     1 9000 1 H200  persistent_block
LSTM FLOAT16 2560     8  100 1 B200  per_step          R fits a model of the device, not its shapes
LSTM FLOAT16 2048    16  100 1 B200  persistent_grid
LSTM FLOAT32 1024     1  100 1 A100  persistent_grid
LSTM FLOAT16 2304     1  100 1 A100  per_step
GRU  FLOAT16  512    64  100 2 A100  persistent_grid
RNN  FLOAT16   32 100000 100 1 A100  per_step          more samples than blocks can take at a time
LSTM FLOAT32   64     1  100 1 T4    persistent_grid
LSTM FLOAT32   32     1  100 1 T4    persistent_block
LSTM FLOAT32  512     1  100 1 T4    persistent_grid
GRU  FLOAT16  128    16  100 1 T4    persistent_grid
LSTM FLOAT32 1024     1  100 1 T4    per_step
LSTM FLOAT32  128    16  100 1 4090  persistent_grid
LSTM FLOAT16  512    64  100 2 4090  persistent_grid
LSTM FLOAT32 2048     1  100 1 4090  per_step
"""
"""Cell, type, H, B, T, D, device: the strategy of the forward pass, where I is H."""


def forward(*about: Any, limits: Limits = H200, **options: Any) -> Choice[Any]:
    return choose(FORWARD, forward_desc(*about), limits, **options)


@pytest.mark.parametrize("line", DECISIONS.strip().splitlines())
def test_decisions(line: str) -> None:
    cell, data_type, hidden, batch, steps, directions, device, strategy, *_ = line.split()
    choice = forward(cell, data_type, int(hidden), int(batch), int(steps), int(directions), limits=DEVICES[device])
    assert choice.strategy == strategy, choice.reason


# what holds for all


@table("directions", [1, 2])
@table("batch", [1, 300])
@table("hidden", [33, 1000])
@table("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_chosen_fits_and_is_the_best(device: str, cell: Any, data_type: str, hidden: int, batch: int, directions: int) -> None:
    limits = DEVICES[device]
    desc = forward_desc(cell, data_type, hidden, batch, 50, directions)
    choice = choose(FORWARD, desc, limits)
    options = [verdict for verdict in choice.verdicts.values() if not isinstance(verdict, str)]
    assert choice.option.step_us == min(option.step_us for option in options)
    assert choice.reason.startswith(f"strategy {choice.strategy}: the least estimate")
    assert [line.split(":")[0].strip() for line in choice.reason.splitlines()[1:]] == ["persistent_block", "persistent_grid", "per_step"]
    for shape in grid_shapes(desc, limits, tf32=False):
        assert shape.shared_bytes <= limits.shared_memory_per_block
        assert not shape.cooperative or shape.blocks <= limits.multiprocessors
        assert shape.unit_groups * shape.units >= hidden
        assert shape.batch_groups * shape.samples >= batch
    whole = choice.option.estimate
    assert whole.registers + whole.shared <= whole.work.recurrence_bytes * directions


@table("batch", [1, 70])
@table("hidden", [33, 500])
@table("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("device", ["H200", "T4"])
def test_gradients_that_are_chosen_fit(device: str, cell: Any, data_type: str, hidden: int, batch: int) -> None:
    limits = DEVICES[device]
    desc = gradient_desc(cell, data_type, batch, hidden, 50)
    choice = choose(BACKWARD, desc, limits)
    assert [line.split(":")[0].strip() for line in choice.reason.splitlines()[1:]] == ["persistent_block", "persistent_grid", "per_step"]
    for shape in grid_gradient_shapes(desc, limits, tf32=False):
        assert shape.shared_bytes <= limits.shared_memory_per_block
        assert shape.alone or shape.blocks <= limits.multiprocessors
        assert shape.unit_groups * shape.units >= hidden
        assert shape.batch_groups * shape.samples >= batch


def test_few_steps_are_a_matter_of_cost() -> None:
    few = forward("RNN", "FLOAT32", 16, 1, 2)
    assert few.strategy == "per_step"
    assert few.verdicts["persistent_block"] == few.verdicts["persistent_grid"] == "2 step(s) are too few to bring R on chip"
    assert forward("RNN", "FLOAT32", 16, 1, 2, strategy="persistent_block").strategy == "persistent_block"


@pytest.mark.parametrize("strategy", ["persistent_block", "persistent_grid", "per_step"])
def test_a_strategy_can_be_asked_for(strategy: str) -> None:
    choice = forward("LSTM", "FLOAT16", 48, 20, strategy=strategy)
    assert choice.strategy == strategy
    assert f"strategy {strategy}: as asked for" in choice.reason
    kind = {"persistent_block": PersistentBlockPlan, "persistent_grid": PersistentGridPlan, "per_step": PerStepPlan}[strategy]
    library = KernelLibrary(DryRunRuntime(H200), 0)
    plan = recurrent_plan(forward_desc("LSTM", "FLOAT16", 48, 20), Target(library, strategy=strategy))
    assert type(plan) is kind
    assert all(f"    {name}: " in plan.describe() for name in ("persistent_block", "persistent_grid", "per_step"))


@pytest.mark.parametrize(
    ("strategy", "about", "said"),
    [
        ("persistent_block", ("LSTM", "FLOAT32", 256, 1), "R needs 1050624 bytes of shared memory, a block has 232448"),
        ("persistent_block", ("RNN", "FLOAT32", 400, 1), "R needs 643200 bytes of shared memory"),
        ("persistent_grid", ("LSTM", "FLOAT32", 4096, 1), "R of 268435456 bytes is more than 132 multiprocessors hold"),
        (
            "persistent_grid",
            ("LSTM", "FLOAT32", 1700, 1),
            "R of 46240000 bytes fits 132 multiprocessors, but no available block shape fits",
        ),
    ],
)
def test_a_strategy_that_cannot_is_refused(strategy: str, about: tuple[Any, ...], said: str) -> None:
    desc = forward_desc(*about)
    with pytest.raises(dml.DeviceError, match=f"strategy '{strategy}' cannot take DML_{about[0]}_OPERATOR_DESC: .*{said}"):
        dml.compile(desc, CudaDevice(DryRunRuntime(H200), strategy=strategy))
    assert said in dml.compile(desc, CudaDevice(DryRunRuntime(H200))).plan


def test_tf32_is_for_tensor_cores() -> None:
    """The same shape is faster, and only in strategies that have such products."""
    plain, tf32 = (forward("LSTM", "FLOAT32", 512, 64, tf32=allowed) for allowed in (False, True))
    for strategy in ("persistent_grid", "per_step"):
        before, after = plain.verdicts[strategy], tf32.verdicts[strategy]
        assert not isinstance(before, str)
        assert not isinstance(after, str)
        assert after.step_us < before.step_us
        assert (before.estimate.work.arithmetic, after.estimate.work.arithmetic) == ("float", "tf32")


def test_blocks_that_cannot_run_together() -> None:
    """A loaded kernel may report fewer blocks than multiprocessors: then clusters and blocks alone are left, or other strategies."""

    class NothingFits(DryRunRuntime):
        def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
            return 0

    device = CudaDevice(NothingFits(H200))
    text = dml.compile(forward_desc("LSTM", "FLOAT32", 512, 16), device).plan
    assert "strategy per_step" in text
    assert "    persistent_grid: 128 blocks have to run at the same time, and the device holds 0" in text
    assert " blocks in clusters" in dml.compile(forward_desc("GRU", "FLOAT32", 128, 16), device).plan
    assert " blocks alone" in dml.compile(forward_desc("GRU", "FLOAT32", 128, 16), CudaDevice(NothingFits(A100))).plan
    with pytest.raises(dml.DeviceError, match=r"strategy .persistent_grid. cannot take .* have to run at the same time"):
        dml.compile(forward_desc("LSTM", "FLOAT32", 512, 16), CudaDevice(NothingFits(H200), strategy="persistent_grid"))
    gradient = gradient_plan(gradient_desc("LSTM", "FLOAT16", 16, 768, 100), Target(KernelLibrary(NothingFits(H200), 0))).describe()
    assert "strategy per_step" in gradient
    assert " blocks have to run at the same time, and the device holds 0" in gradient


def test_a_device_that_refuses_cooperative_launches() -> None:
    device = CudaDevice(DryRunRuntime(replace(H200, cooperative=False)))
    text = dml.compile(forward_desc("LSTM", "FLOAT32", 512, 16), device).plan
    assert "strategy per_step" in text
    assert "    persistent_grid: the device refuses cooperative launches" in text
    assert " blocks in clusters" in dml.compile(forward_desc("GRU", "FLOAT32", 128, 16), device).plan
    older = CudaDevice(DryRunRuntime(replace(A100, cooperative=False)))
    assert " blocks alone" in dml.compile(forward_desc("GRU", "FLOAT32", 128, 16), older).plan


# gradients

BACK = """
RNN  FLOAT32   64     1   96 H200  persistent_block
LSTM FLOAT32   16    16  100 H200  persistent_block
LSTM FLOAT32   16    16    2 H200  per_step
LSTM FLOAT32  128    16  100 H200  persistent_grid
LSTM FLOAT32  256    16  150 H200  persistent_grid
GRU  FLOAT16  256    64  100 H200  persistent_grid
LSTM FLOAT16  768    16 1024 H200  persistent_grid
LSTM FLOAT16 1024    64  100 H200  persistent_grid
RNN  FLOAT32 1760    16   50 H200  persistent_grid
LSTM FLOAT32 2048    16  100 H200  per_step
LSTM FLOAT16  512    32  100 A100  persistent_grid
LSTM FLOAT16 1024    32  100 T4    per_step
GRU  FLOAT32  512    32  100 4090  persistent_grid
"""


@pytest.mark.parametrize("line", BACK.strip().splitlines())
def test_decisions_of_gradients(line: str) -> None:
    cell, data_type, hidden, batch, steps, device, strategy, *_ = line.split()
    desc = gradient_desc(cell, data_type, int(batch), int(hidden), int(steps))
    choice = choose(BACKWARD, desc, DEVICES[device])
    assert choice.strategy == strategy, choice.reason
    plan = gradient_plan(desc, Target(KernelLibrary(DryRunRuntime(DEVICES[device]), 0)))
    assert choice.reason in plan.describe()
