"""Layers whose R is spread over the blocks of a cluster: results, races, and which devices get such kernels.

The CPU runs the blocks of a cluster together, and finds an access to the shared memory of one that does not run yet or any more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.compiler import SharedKernel
from dmlpy.devices.cuda.emulation.launches import CpuFunction
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.common import activations_type, cell_type, storage_type
from dmlpy.devices.cuda.recurrent.grid_shapes import CLUSTER_BLOCKS, grid_shape, grid_shapes
from dmlpy.devices.cuda.recurrent.persistent_grid import persistent_grid_kernel
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.devices.cuda.runtime.cupy_errors import device_error
from dmlpy.devices.cuda.runtime.interface import CudaRuntime, Limits, NotResidentError
from dmlpy.messages.problems import DeviceError
from tests.support.cuda import layer_plans as layers
from tests.support.cuda import training_layers as training
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.forward_descs import described, forward_desc
from tests.support.cuda.gpu_models import A100, B200, GEFORCE_4090, H200, T4
from tests.support.cuda.grid_rows import CLIPPED, FLOAT, HALF, RESETS_FIRST, RESETS_LAST, Row
from tests.support.cuda.layer_plans import launch
from tests.support.cuda.plan_kernels import GEFORCE_5090
from tests.support.tools import require

CLUSTER = {"protocol": "cluster"}
REST, SOME = CLUSTER | {"most_registers": 0}, CLUSTER | {"most_registers": 8}


@pytest.fixture
def runtime(cuda_device: Any) -> CudaRuntime:
    """The runtime of either device: the emulated one, and CuPy's where a GPU answers that has clusters."""
    found: CudaRuntime = cuda_device.runtime
    if found.limits(0).compute_capability < 90:
        pytest.skip("the GPU has no clusters")
    return found


ROWS = [
    # units and samples of a block, samples of a pass; hidden units, samples: the last block and the last group of the batch have fewer
    Row("RNN", FLOAT, (20, 2, 1), (37, 5), options=CLUSTER),
    Row("RNN", HALF, (10, 3, 8), (37, 5), direction="BACKWARD", options=REST),
    Row("RNN", FLOAT, (16, 4, 8), (61, 5), tf32=True, options=CLUSTER),
    Row("GRU", FLOAT, (10, 3, 2), (37, 5), flags=RESETS_FIRST, options=CLUSTER),
    Row("GRU", HALF, (16, 20, 8), (61, 21), direction="FORWARD", flags=RESETS_FIRST, options=SOME),
    Row("GRU", FLOAT, (20, 12, 16), (37, 21), direction="BACKWARD", flags=RESETS_FIRST, tf32=True, options=CLUSTER | {"row_warps": 2}),
    Row("GRU", HALF, (34, 19, 8), (130, 19), flags=RESETS_LAST, options=CLUSTER),
    Row("GRU", FLOAT, (33, 5, 1), (130, 5), direction="FORWARD", flags=RESETS_LAST, options=REST),
    Row("LSTM", FLOAT, (32, 1, 1), (128, 2), options=CLUSTER),
    Row("LSTM", FLOAT, (10, 3, 2), (37, 5), flags=CLIPPED | {"couple_input_forget": True}, peephole=True, options=CLUSTER),
    Row("LSTM", HALF, (20, 30, 24), (61, 30), direction="FORWARD", flags={"couple_input_forget": True}, options=SOME | {"row_warps": 4}),
    Row("LSTM", HALF, (32, 1, 8), (128, 2), direction="BACKWARD", options=CLUSTER | {"row_warps": 4}),
    Row("LSTM", FLOAT, (20, 9, 4), (37, 9), flags=CLIPPED, options=CLUSTER),
]


@pytest.mark.parametrize(
    ("row", "trains"),
    [
        pytest.param(row, trains, id=f"{row}, {'training' if trains else 'inference'}", marks=[pytest.mark.slow] * (number % 2 != trains))
        for number, row in enumerate(ROWS)
        for trains in (False, True)
    ],
)
def test_results(runtime: CudaRuntime, row: Row, trains: bool) -> None:
    for seed, prepared in ((1, False), (2, True)):
        run = row.build(trains=trains, seed=seed, layouts=layers.LAYOUTS if seed == 2 else ("packed",))
        plan = launch(run, row.plan, runtime, prepared=prepared)
        assert any(kernel.entry.startswith("clustered<") for kernel in plan.kernels())
        (training if trains else layers).check(run)
    if isinstance(runtime, EmulatedRuntime):
        runtime.check_guards()


FEW = {
    "RNN": Row("RNN", FLOAT, (4, 2, 1), (7, 5), options=CLUSTER),
    "GRU": Row("GRU", HALF, (6, 3, 8), (20, 5), flags=RESETS_FIRST, options=CLUSTER),
    "LSTM": Row("LSTM", HALF, (10, 3, 8), (20, 5), options=CLUSTER),
}


@pytest.mark.parametrize("cell", FEW)
def test_lengths_of_zero_and_beyond_the_sequence(runtime: CudaRuntime, cell: str) -> None:
    """A group of whose samples none takes a step puts nothing, and waits for nothing."""
    for lengths in ([0] * 5, [0, 0, 2**32 - 1, 3, 0]):
        run = FEW[cell].build(trains=True, lengths=lengths)
        launch(run, FEW[cell].plan, runtime)
        training.check(run)


@pytest.mark.parametrize(("cell", "steps"), [("GRU", 60), *(pytest.param(cell, 200, marks=pytest.mark.slow) for cell in FEW)])
def test_late_blocks_change_nothing(cell: str, steps: int) -> None:
    """Bit for bit: neither random pauses nor the order of threads."""
    require("g++")
    found = []
    for delay_us in (0, 40):
        run = FEW[cell].build(trains=False, t=steps)
        launch(run, FEW[cell].plan, EmulatedRuntime(H100, seed=delay_us, delay_us=delay_us))
        found.append(run.outputs["output_sequence_tensor"].elements)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()


def test_more_clusters_than_run_at_a_time() -> None:
    """They wait for no other cluster, so the launch is a usual one."""
    require("g++")
    runtime = EmulatedRuntime(replace(H100, multiprocessors=2))
    run = FEW["RNN"].build(trains=False)
    plan = FEW["RNN"].plan(run.desc, KernelLibrary(runtime, 0))
    before = runtime.counts.copy()
    launch(run, lambda desc, library: plan, runtime)
    layers.check(run)
    used = runtime.counts - before
    assert (used["launch"], used["memset"]) == (3 + 1, 1), "nothing is cleared but the test's scratch"


class Refusing(EmulatedRuntime):
    """Has no room for a cluster, which only a launch shows."""

    def launch(self, function: CpuFunction, grid: tuple[int, int, int], *rest: Any) -> None:
        if isinstance(function.kernel, SharedKernel) and function.kernel.cluster_blocks > 1:
            raise NotResidentError("launch: CUDA_ERROR_INVALID_CLUSTER_SIZE")
        super().launch(function, grid, *rest)


def test_others_do_the_work_of_a_cluster_that_is_refused() -> None:
    require("g++")
    run = FEW["LSTM"].build(trains=False, t=20, h=128)
    plan = launch(run, lambda desc, library: recurrent_plan(desc, Target(library)), Refusing(H100))
    layers.check(run)
    assert "strategy persistent_grid" not in plan.describe()
    assert "    persistent_grid: launch: CUDA_ERROR_INVALID_CLUSTER_SIZE" in plan.describe()


def test_a_refused_cluster_is_distinguished_from_other_errors() -> None:
    for status, kind in ((912, NotResidentError), (1, DeviceError)):
        error = RuntimeError("refused")
        error.status = status  # type: ignore[attr-defined]
        assert type(device_error("launch", error)) is kind


# which devices and layers get them

SMALL = [("LSTM", "FLOAT32", 128, 1), ("LSTM", "FLOAT32", 128, 16), ("GRU", "FLOAT32", 128, 1), ("RNN", "FLOAT32", 256, 4)]


@pytest.mark.parametrize("about", SMALL, ids=str)
@pytest.mark.parametrize(
    ("limits", "has_clusters"),
    [(H200, True), (B200, True), (GEFORCE_5090, True), (A100, False), (GEFORCE_4090, False), (T4, False)],
    ids=lambda value: getattr(value, "name", None),
)
def test_small_layers_take_a_cluster_where_there_are_any(limits: Limits, has_clusters: bool, about: tuple[Any, ...]) -> None:
    plan = recurrent_plan(forward_desc(*about), Target(KernelLibrary(DryRunRuntime(limits), 0)))
    taken = [kernel for kernel in plan.kernels() if kernel.entry.startswith("clustered<")]
    assert bool(taken) == has_clusters, plan.describe()
    assert all(kernel.lowest_capability == 90 and kernel.file == "recurrent/clusters.cu" for kernel in taken)
    assert (" blocks in clusters of 4" in plan.describe()) == has_clusters
    assert has_clusters == any(shape.clustered for shape in grid_shapes(forward_desc(*about), limits, tf32=False))


def test_an_older_device_refuses_the_kernel() -> None:
    row = FEW["LSTM"]
    run = row.build(trains=False)
    shape = grid_shape(run.desc, H100, *row.shape, tf32=False, protocol="cluster")
    assert shape is not None
    assert grid_shape(run.desc, A100, *row.shape, tf32=False, protocol="cluster") is None
    (kernel,) = (kernel for kernel in row.plan(run.desc, KernelLibrary(DryRunRuntime(H100), 0)).kernels() if "clustered<" in kernel.entry)
    with pytest.raises(DeviceError, match=r"needs compute capability 9\.0, the device has 8\.0"):
        KernelLibrary(DryRunRuntime(A100), 0).function(kernel)


@pytest.mark.parametrize("batch", [1, 7, 300])
@pytest.mark.parametrize("hidden", [2, 3, 37, 100, 128, 250])
@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
def test_a_cluster_has_all_units_and_each_block_some(data_type: str, hidden: int, batch: int) -> None:
    shapes = grid_shapes(forward_desc("LSTM", data_type, hidden, batch), H100, tf32=False)
    assert any(shape.clustered for shape in shapes) == ((data_type, hidden) != ("FLOAT16", 2)), "one word is one block's"
    for shape in shapes:
        if shape.clustered:
            assert shape.unit_groups in CLUSTER_BLOCKS
            assert (shape.unit_groups - 1) * shape.units < hidden <= shape.unit_groups * shape.units
            assert shape.units % 2 == 0 or data_type == "FLOAT32", "a word of two halves has one writer"
            assert shape.shared_bytes <= H100.shared_memory_per_block


@pytest.mark.parametrize("shape", [(37, 2, 1), (8, 2, 1)])
def test_a_block_alone_and_five_blocks_are_no_cluster(shape: tuple[int, int, int]) -> None:
    desc = Row("RNN", FLOAT, shape, (37, 2)).build(trains=False).desc
    found = grid_shape(desc, H100, *shape, tf32=False, protocol="cluster")
    assert found is None or found.alone


WIDE = CLIPPED | {"peephole": True}
LARGEST: list[tuple[str, str, bool, int, dict[str, Any]]] = [
    ("LSTM", "FLOAT32", False, 8, WIDE),
    ("LSTM", "FLOAT16", False, 64, WIDE),
    ("GRU", "FLOAT16", False, 64, RESETS_FIRST),
    ("GRU", "FLOAT32", False, 300, RESETS_FIRST),
    ("LSTM", "FLOAT32", True, 64, WIDE),
]
"""Cell, type, TF32, samples, flags of layers of 256 units."""


@pytest.mark.parametrize(
    ("cell", "data_type", "tf32", "batch", "flags"),
    [pytest.param(*row, marks=[pytest.mark.slow] * (number > 0)) for number, row in enumerate(LARGEST)],
)
def test_registers_hold_what_they_are_given(cell: str, data_type: str, tf32: bool, batch: int, flags: dict[str, Any]) -> None:
    """No local memory, in training, which saves most: where a thread has fewest pairs of unit and sample, and most."""
    require("nvrtc")
    from tests.support.cuda.binaries.nvrtc import compile_instance

    desc = described(cell, data_type, 256, batch, trains=True, **flags)
    functors = activations_type(desc.activations_of(0))
    shapes = [shape for shape in grid_shapes(desc, H100, tf32=tf32) if shape.clustered]
    for pairs in {min(shape.pairs for shape in shapes), max(shape.pairs for shape in shapes)}:
        most = max((shape for shape in shapes if shape.pairs == pairs), key=lambda shape: shape.register_bytes)
        kernel = persistent_grid_kernel(storage_type(desc), most, "Training", cell_type(desc.cell), functors, functors)
        made = compile_instance(sources.read(kernel.file), kernel.entry, 90)
        assert made.stack_bytes == made.spilled_bytes == 0, kernel.entry


# races

SOURCE = sources.read("recurrent/clusters.cu")
WAIT = "while (!machine::have_arrived(arrivals_of(number_), (number_ - 1) / 2 % 2)) {\n        }"
RACING = {
    "gru": Row("GRU", HALF, (6, 9, 8), (12, 9), direction="FORWARD", flags=RESETS_FIRST, options=REST),
    "rnn": Row("RNN", FLOAT, (4, 2, 1), (7, 2), direction="FORWARD", options=REST),
}


def run_racing(name: str, sanitize: str, fault: Any = None, **options: Any) -> None:
    made = RACING[name].build(trains=False, t=3)
    runtime = EmulatedRuntime(H100, sanitize=sanitize, sanitized=("clustered<",), fault=fault, **options)
    launch(made, RACING[name].plan, runtime)
    layers.check(made)
    runtime.check_guards()


@pytest.mark.parametrize(
    ("name", "sanitize"),
    [("gru", "thread"), ("rnn", "address,undefined"), *(pytest.param(*row, marks=pytest.mark.slow) for row in [("rnn", "thread")])],
)
def test_the_sanitizers_are_silent(name: str, sanitize: str) -> None:
    require("g++")
    run_racing(name, sanitize)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("rnn", (WAIT, 0)),
        pytest.param("rnn", ("machine::synchronize_cluster();", 0, "__syncthreads();"), marks=pytest.mark.slow),
        pytest.param(
            "rnn", ("to_next_(machine::opaque(count(taking_turns, steps) == 1 ? 0 : size))", 0, "to_next_(0)"), marks=pytest.mark.slow
        ),
        pytest.param("gru", (WAIT, 0), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_orders_memory_is_missed(name: str, fault: Any) -> None:
    require("g++")
    assert SOURCE.count(fault[0]) == 1
    with pytest.raises(DeviceError, match=r"data race|does not run yet"):
        run_racing(name, "thread", fault, delay_us=200)


def test_one_counter_is_not_enough() -> None:
    """What a block that is ahead puts would count for the exchange before."""
    require("g++")
    fault = ("return arrivals_ + number % 2;", 0, "return arrivals_ + 0 * number;")
    assert SOURCE.count(fault[0]) == 1

    def run() -> None:
        made = FEW["LSTM"].build(trains=False, t=30)
        launch(made, FEW["LSTM"].plan, EmulatedRuntime(H100, fault=fault, delay_us=200, patience_s=2.0))
        layers.check(made)

    with pytest.raises((AssertionError, DeviceError)):
        run()
