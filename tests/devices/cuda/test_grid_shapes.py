"""The shapes of `persistent_grid`: they fit the device, the description and launches of a plan, and the compiled code of the largest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.common import activations_type, cell_type, storage_type
from dmlpy.devices.cuda.recurrent.grid_shapes import RESIDENT_REGISTERS, Facts, GridShape, grid_shape, grid_shapes
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan, persistent_grid_kernel
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Fma
from dmlpy.devices.cuda.runtime.interface import Limits, NotResidentError
from dmlpy.messages.problems import DeviceError
from tests.support.cuda import layer_plans as layers
from tests.support.cuda import training_layers as training
from tests.support.cuda.forward_descs import described
from tests.support.cuda.grid_rows import CLIPPED, FEW, RESETS_FIRST, RESETS_LAST, Row
from tests.support.cuda.layer_plans import launch
from tests.support.tools import require

A100 = replace(H100, name="A100 on the CPU", compute_capability=80, multiprocessors=108, shared_memory_per_block=163 * 1024)


def test_one_sample_leaves_registers_for_all_of_r() -> None:
    """A thread keeps the gates of the pairs that it has, not of those that would fill a pass of eight samples up."""
    desc = described("LSTM", "FLOAT16", 128, 1)
    shape = grid_shape(desc, H100, 128, 1, 8, tf32=False, row_warps=8)
    assert shape is not None
    assert shape.alone
    assert shape.pairs == 1
    assert shape.register_bytes == 4 * 128 * 128 * 2
    assert shape in grid_shapes(desc, H100, tf32=False)


CELLS: list[tuple[str, dict[str, Any]]] = [("RNN", {}), ("GRU", RESETS_FIRST), ("GRU", RESETS_LAST), ("LSTM", {})]
KINDS = [("FLOAT16", False), ("FLOAT32", False), ("FLOAT32", True)]


@pytest.mark.parametrize(("data_type", "tf32"), KINDS)
@pytest.mark.parametrize(("cell", "flags"), CELLS)
@pytest.mark.parametrize("limits", [H100, A100, T4, replace(T4, multiprocessors=3)], ids=lambda limits: f"{limits.multiprocessors} SMs")
def test_shapes_fit_the_device_and_hold_the_work(limits: Limits, cell: str, flags: dict[str, Any], data_type: str, tf32: bool) -> None:
    for hidden, batch, both, trains in [(1, 1, False, False), (37, 5, True, True), (100, 300, False, True), (1000, 33, True, False)]:
        desc = described(cell, data_type, hidden, batch, trains=trains, both=both, **flags)
        for shape in grid_shapes(desc, limits, tf32=tf32):
            assert shape.shared_bytes <= limits.shared_memory_per_block
            assert not shape.cooperative or shape.blocks <= limits.multiprocessors
            assert (shape.unit_groups - 1) * shape.units < hidden <= shape.unit_groups * shape.units
            assert (shape.batch_groups - 1) * shape.samples < batch <= shape.batch_groups * shape.samples
            assert shape.directions == 1 + both
            assert 0 <= shape.pairs * PRODUCT_THREADS - shape.units * min(shape.samples, shape.pass_samples) < PRODUCT_THREADS
            rows = desc.geometry.gates * shape.units
            for product, wanted in zip(
                shape.products, (rows - shape.units, shape.units) if len(shape.products) == 2 else (rows,), strict=True
            ):
                assert wanted <= product.rows
                assert product.samples == shape.pass_samples
                assert product.register_steps <= product.steps(hidden)
                assert isinstance(product, Fma) == (data_type == "FLOAT32" and not tf32)
            assert shape.register_bytes <= 4 * RESIDENT_REGISTERS * PRODUCT_THREADS
            assert shape.describe().count("\n") == 0


@pytest.mark.parametrize(
    ("cell", "data_type", "hidden", "batch", "limits", "least", "alone"),
    [
        ("LSTM", "FLOAT16", 128, 1, H100, 1, True),
        ("LSTM", "FLOAT16", 1024, 16, H100, 32, False),
        ("LSTM", "FLOAT16", 1024, 16, T4, None, False),
        ("LSTM", "FLOAT16", 4096, 1, H100, None, False),
        ("GRU", "FLOAT32", 64, 8, T4, 1, True),
        ("RNN", "FLOAT16", 64, 100000, T4, 1, True),
        ("RNN", "FLOAT32", 1024, 1, H100, 16, False),
    ],
)
def test_fewest_unit_groups(cell: str, data_type: str, hidden: int, batch: int, limits: Limits, least: int | None, alone: bool) -> None:
    shapes = grid_shapes(described(cell, data_type, hidden, batch), limits, tf32=False)
    assert min((shape.unit_groups for shape in shapes), default=None) == least
    assert any(shape.alone for shape in shapes) == alone


@pytest.mark.parametrize(
    ("options", "said"),
    [({"p": 2}, "a projection takes"), ({"optional": ("state_dropout_tensor",)}, "dropout of states takes"), ({}, None)],
)
def test_what_no_shape_takes(options: dict[str, Any], said: str | None) -> None:
    desc = training.build("LSTM", np.random.default_rng(1), **options).desc
    why = Facts.of(desc).refusal
    assert (why is None) == (said is None)
    assert said is None or said in str(why)
    assert bool(grid_shapes(desc, H100, tf32=False)) == (said is None)


def test_blocks_that_cannot_run_together_are_refused() -> None:
    require("g++")

    class Crowded(EmulatedRuntime):
        def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
            return 0

    run = FEW["LSTM"].build(trains=False)
    with pytest.raises(NotResidentError, match="8 blocks have to run at the same time, and the device holds 0"):
        FEW["LSTM"].plan(run.desc, KernelLibrary(Crowded(H100), 0))


def test_a_device_without_tf32_is_reported() -> None:
    require("g++")
    row = Row("RNN", np.float32, (7, 5, 8), (7, 5), tf32=True)
    with pytest.raises(DeviceError, match=r"needs compute capability 8\.0, the device has 7\.5"):
        row.plan(row.build(trains=False).desc, KernelLibrary(EmulatedRuntime(T4), 0))


def test_more_blocks_than_multiprocessors_where_none_waits() -> None:
    require("g++")
    runtime = EmulatedRuntime(replace(H100, multiprocessors=1))
    row = Row("RNN", np.float32, (7, 2, 1), (7, 5))
    run = row.build(trains=False)
    launch(run, row.plan, runtime)
    layers.check(run)
    assert grid_shape(run.desc, runtime.limits(0), 4, 2, 1, tf32=False) is None


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
def test_no_more_groups_of_the_batch_than_a_grid_counts(data_type: str) -> None:
    most = 8 * (2**16 - 1)
    for batch, found in [(most, True), (most + 1, False)]:
        desc = described("LSTM", data_type, 32, batch)
        assert (grid_shape(desc, H100, 32, 8, 8, tf32=False) is not None) == found
        shapes = grid_shapes(desc, H100, tf32=False)
        assert shapes
        assert max(shape.batch_groups for shape in shapes) < 2**16


def test_launches() -> None:
    """Copies of W and the biases, R arranged (once more for a gate that multiplies late), one product, flags cleared, one launch."""
    require("g++")
    runtime = EmulatedRuntime(H100)

    def counted(row: Row) -> tuple[int, int, int]:
        run = row.build(trains=False)
        plan = row.plan(run.desc, KernelLibrary(runtime, 0))
        before = runtime.counts.copy()
        launch(run, lambda desc, library: plan, runtime)
        used = runtime.counts - before
        return used["launch"], used["gemm"], used["memset"] - 1  # one poisons the scratch

    assert counted(FEW["RNN"]) == (3 + 1, 1, 1)
    assert counted(FEW["GRU"]) == (4 + 1, 1, 1)
    assert counted(Row("RNN", np.float16, (7, 5, 8), (7, 5))) == (3 + 1, 1, 0)


def test_a_plan_describes_how_it_is_spread() -> None:
    require("g++")
    run = FEW["GRU"].build(trains=True)
    plan = FEW["GRU"].plan(run.desc, KernelLibrary(EmulatedRuntime(H100), 0))
    assert isinstance(plan, PersistentGridPlan)
    assert not plan.capturable
    text = plan.describe()
    product = "TensorCores<machine::half, 1, 1, 1, 1, 4, 2>"
    assert f"persistent_grid<machine::half, {product}, {product}, Protocol::flags, 1, true, Training" in text
    spread = "3 x 2 x 2 blocks in a cooperative launch, exchanging by flags, 8 units and 3 sample(s) each, 8 at a time"
    assert f"{spread}; 8192 bytes of R in registers" in text


# what the compiler makes of the largest

ARCHITECTURES = (80, 90, 100)
LARGEST: list[tuple[str, str, bool, int, int, dict[str, Any]]] = [
    ("LSTM", "FLOAT16", False, 1024, 16, CLIPPED | {"peephole": True}),
    ("LSTM", "FLOAT32", True, 512, 64, CLIPPED | {"peephole": True}),
    ("LSTM", "FLOAT32", False, 1024, 1, CLIPPED | {"peephole": True}),
    ("GRU", "FLOAT16", False, 768, 32, RESETS_FIRST),
    ("GRU", "FLOAT32", False, 512, 8, RESETS_FIRST),
    ("RNN", "FLOAT16", False, 256, 64, {}),
]
"""Cell, type, TF32, hidden units, samples, flags; all in training, which saves most."""


def largest_and_architectures() -> list[Any]:
    """Each of `LARGEST` for each architecture; in the usual run every second, for one of these in turn."""
    return [
        pytest.param(*row, architecture, marks=[pytest.mark.slow] * (number % 2 or place != number // 2 % len(ARCHITECTURES)))
        for number, row in enumerate(LARGEST)
        for place, architecture in enumerate(ARCHITECTURES)
    ]


def most_resident(shapes: list[GridShape]) -> list[GridShape]:
    """With as much of R in registers as any: where a thread has one pair of unit and sample, and where it has most."""
    of_pairs = [[shape for shape in shapes if shape.pairs == pairs] for pairs in {1, max(shape.pairs for shape in shapes)}]
    return [max(same, key=lambda shape: shape.register_bytes) for same in of_pairs]


@pytest.mark.parametrize(("cell", "data_type", "tf32", "hidden", "batch", "flags", "architecture"), largest_and_architectures())
def test_registers_hold_what_they_are_given(
    cell: str, data_type: str, tf32: bool, hidden: int, batch: int, flags: dict[str, Any], architecture: int
) -> None:
    """No local memory, and a block of its threads can be launched; the failure's text is the table of all."""
    require("nvrtc")
    from tests.support.cuda.binaries.nvrtc import compile_instance

    rows, right = [], True
    desc = described(cell, data_type, hidden, batch, trains=True, **flags)
    functors = activations_type(desc.activations_of(0))
    for shape in most_resident(grid_shapes(desc, H100, tf32=tf32)):
        kernel = persistent_grid_kernel(storage_type(desc), shape, "Training", cell_type(desc.cell), functors, functors)
        made = compile_instance(sources.read("recurrent/persistent_grid.cu"), kernel.entry, architecture)
        right &= made.stack_bytes == made.spilled_bytes == 0 and made.registers * PRODUCT_THREADS <= 65536
        rows.append(
            f"{made.registers} registers, {made.stack_bytes} bytes of stack, {made.spilled_bytes} spilled, "
            f"{shape.register_bytes // PRODUCT_THREADS // 4} for R: {kernel.entry}"
        )
    assert right, "\n".join(rows)
