"""The input product of the recurrent plans on CUDA: its element type, where it lies, and chunks of it between steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import STRATEGIES, Target
from dmlpy.devices.cuda.recurrent import input_product
from dmlpy.devices.cuda.recurrent.layer import RecurrentPlan
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.devices.cuda.runtime.interface import Limits, MatrixProduct
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.cuda import layer_plans, training_layers
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.grid_rows import CLIPPED
from tests.support.cuda.layer_plans import LAYOUTS, launch, per_step
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import CELLS, OPTIONAL, USUAL, Run, build, sizes_of
from tests.support.tools import require

T, B = 7, 3
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])


def described(cell: str, dtype: str, steps: int, batch: int, inputs: int, hidden: int, **members: Any) -> RecurrentDesc:
    """A forward layer that gives its last state."""
    sizes = sizes_of(cell, steps, batch, inputs, hidden, 1)
    names = ("input_tensor", "weight_tensor", "recurrence_tensor", "output_single_tensor")
    tensors = {name: dml.TensorDesc(data_type=dtype, sizes=sizes[name]) for name in names}
    return CELLS[cell](**tensors, activation_descs=USUAL[cell], **{"direction": "FORWARD"} | members)


def plan(desc: RecurrentDesc, limits: Limits = H100, strategy: str = "per_step") -> RecurrentPlan:
    return recurrent_plan(desc, Target(KernelLibrary(DryRunRuntime(limits), 0), strategy=strategy))


# its element type


class ResultsRuntime(EmulatedRuntime):
    """Notes the element type of each product of all steps."""

    def __init__(self) -> None:
        super().__init__(H100)
        self.found: set[str] = set()

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        if product.c.rows == T * B:
            self.found.add(product.c.data_type.name)
        super().gemm(device, product, stream, workspace)


@pytest.mark.each_value
@TYPES
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_it_is_rounded_to_the_storage_type_for_inference(cell: str, strategy: str, dtype: Any) -> None:
    require("g++")
    for trains in (False, True):
        rng, runtime = np.random.default_rng(1), ResultsRuntime()
        run: Run = (training_layers.build if trains else build)(
            cell, rng, t=T, b=B, h=5, dtype=dtype, direction="BIDIRECTIONAL", lengths=[7, 0, 3]
        )
        launch(run, lambda desc, library: recurrent_plan(desc, Target(library, strategy=strategy)), runtime)
        (training_layers.check if trains else layer_plans.check)(run)
        assert runtime.found == {"float32" if trains else np.dtype(dtype).name}


@pytest.mark.each_value
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("cell", "flags"), [("RNN", {}), ("LSTM", CLIPPED | {"couple_input_forget": True})], ids=["RNN", "LSTM"])
def test_where_a_sum_cancels_its_rounding_is_left(cell: str, flags: dict[str, Any], strategy: str, trains: bool) -> None:
    """X W^T is 1442.4 * 2**-11 and H R^T -1434 * 2**-11: the result of inference is off by a twentieth, and `least` allows for that."""
    require("g++")
    options: dict[str, Any] = {"t": 1, "b": 1, "i": 1, "h": 1, "dtype": np.float16, "optional": ("hidden_init_tensor",)} | flags
    run: Run = (training_layers.build if trains else build)(cell, np.random.default_rng(5), **options)
    values = {"input_tensor": 1030 / 1024, "weight_tensor": 1434 / 2048, "recurrence_tensor": -1434 / 2048, "hidden_init_tensor": 1.0}
    for name, value in values.items():
        run.inputs[name].elements[...] = value
    launch(run, lambda desc, library: recurrent_plan(desc, Target(library, strategy=strategy)), EmulatedRuntime(H100))
    if trains:
        training_layers.check(run)
        return
    product, weight = np.float16(1030 / 1024 * 1434 / 2048), run.arrays["weight_tensor"]
    run.check(exact(run.desc, run.arrays | {"input_tensor": np.full((1, 1, 1, 1), product), "weight_tensor": np.ones_like(weight)}))
    with pytest.raises(AssertionError, match=r"relative norm of the error 0\.0[45]"):
        layer_plans.check(run)
    layer_plans.check(run, least=layer_plans.least_of(np.float16))


def test_it_takes_half_the_scratch_in_halves() -> None:
    sizes = [
        plan(described("GRU", dtype, 50, 8, 4, 64), strategy="persistent_block").prepared_temporary_size for dtype in ("FLOAT32", "FLOAT16")
    ]
    assert sizes[0] - sizes[1] == 50 * 8 * 3 * 64 * 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_product_beyond_the_largest_half_saturates_the_gates(strategy: str) -> None:
    require("g++")
    run = build("LSTM", np.random.default_rng(2), t=T, b=B, i=8, dtype=np.float16)
    run.inputs["input_tensor"].elements[0, 2] = [[3e4], [-3e4], [0]]
    run.inputs["weight_tensor"].elements[...] = np.sign(run.inputs["weight_tensor"].elements[..., :1])
    launch(run, lambda desc, library: recurrent_plan(desc, Target(library, strategy=strategy)), EmulatedRuntime(H100))
    layer_plans.check(run)


# chunks


@pytest.fixture
def three_chunks(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """A device for which all chunks but the last have three steps."""
    monkeypatch.setattr(input_product, "LEAST_ROWS", 3 * B)
    return replace(H100, l2_bytes=1)


@pytest.mark.pairwise
@TYPES
@pytest.mark.parametrize("layouts", [("packed",), LAYOUTS], ids=["packed", "any layout"])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize(("cell", "trains"), list(product(["RNN", "GRU", "LSTM"], [False, True])))
def test_chunks(cell: str, trains: bool, direction: str, layouts: Any, dtype: Any, three_chunks: Limits) -> None:
    require("g++")
    options: dict[str, Any] = {"lengths": [7, 0, 4]} if direction == "FORWARD" else {}
    options |= {"t": T, "b": B, "i": 4, "h": 5, "dtype": dtype, "direction": direction, "layouts": layouts}
    for seed, added in enumerate([{}, {"optional": ()}] + [{"optional": (*OPTIONAL, *training_layers.ADDED)}] * trains):
        rng, runtime = np.random.default_rng(seed), EmulatedRuntime(three_chunks)
        mask = {"mask": rng.integers(0, 3, (T, B))} if trains else {}
        run: Run = (training_layers.build if trains else build)(cell, rng, **options, **added, **mask)
        made = launch(run, per_step, runtime, prepared=bool(seed))
        (training_layers.check if trains else layer_plans.check)(run)
        assert [chunk.steps for chunk in made._input.chunks] == [3, 3, 1]
        assert "formed in 3 chunks of up to 3 steps" in made.describe()
        runtime.check_guards()


@pytest.mark.parametrize("linear_before_reset", [False, True])
def test_chunks_in_the_saved_values_place_and_outside_it(linear_before_reset: bool, three_chunks: Limits) -> None:
    """The product has a separate place only where a step saves more values than it reads."""
    require("g++")
    flags: dict[str, Any] = {"linear_before_reset": linear_before_reset, "direction": "BIDIRECTIONAL"}
    run = training_layers.build("GRU", np.random.default_rng(3), t=T, b=B, h=5, **flags)
    made = launch(run, per_step, EmulatedRuntime(three_chunks))
    training_layers.check(run)
    assert made._input.in_place is not linear_before_reset
    assert dict(made._scratch.arrays).get("input_product", (0, None, None))[1] == ((3 * B, 2 * 3 * 5) if linear_before_reset else None)


@pytest.mark.parametrize("direction", ["BACKWARD", "BIDIRECTIONAL"])
def test_a_recurrence_from_the_ends_of_samples_has_no_chunks(direction: str, three_chunks: Limits) -> None:
    """Samples of different lengths take a step at different times."""
    require("g++")
    run = build("GRU", np.random.default_rng(4), t=T, b=B, direction=direction, lengths=[7, 2, 5])
    made = launch(run, per_step, EmulatedRuntime(three_chunks))
    layer_plans.check(run)
    assert len(made._input.chunks) == 1
    assert "chunk" not in made.describe()


def test_products_of_chunks_are_counted(three_chunks: Limits) -> None:
    """One of each chunk and direction, which are at different times."""
    require("g++")

    def counted(direction: str) -> int:
        runtime = EmulatedRuntime(three_chunks)
        launch(build("RNN", np.random.default_rng(5), t=T, b=B, optional=(), direction=direction), per_step, runtime)
        return runtime.counts["gemm"]

    assert counted("FORWARD") == 3 + (T - 1)
    assert counted("BIDIRECTIONAL") == 2 * (3 + (T - 1))


def test_a_captured_dispatch_forms_each_chunk_anew(three_chunks: Limits) -> None:
    require("g++")
    runtime = EmulatedRuntime(three_chunks)
    run = build("GRU", np.random.default_rng(6), t=T, b=B, direction="BIDIRECTIONAL", dtype=np.float16)
    made = per_step(run.desc, KernelLibrary(runtime, 0))
    arrays = {name: runtime.to_device(0, np.ascontiguousarray(placed.elements), 0) for name, placed in (run.inputs | run.outputs).items()}
    temporary = layer_plans.poisoned(runtime, made.temporary_size)
    graph = runtime.capture(0, made.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None))
    for factor in (1.0, -0.5):
        run.inputs["input_tensor"].elements[...] *= np.float16(factor)
        arrays["input_tensor"].set(run.inputs["input_tensor"].elements)
        runtime.launch_graph(graph, 0)
        for name, placed in run.outputs.items():
            placed.elements[...] = runtime.to_host(arrays[name], 0)
        layer_plans.check(run)


@pytest.mark.parametrize(
    ("limits", "dtype", "hidden", "batch", "steps", "expected"),
    [
        (H100, "FLOAT16", 1024, 64, 32, 1),  # 2,048 rows of 8 KB, 16.8 MB
        (H100, "FLOAT16", 1024, 64, 33, 2),
        (H100, "FLOAT16", 1024, 64, 1500, 47),
        (H100, "FLOAT32", 1024, 64, 1500, 47),
        (H100, "FLOAT16", 128, 64, 228, 1),  # 14,648 rows of 1 KB, 15 MB
        (H100, "FLOAT16", 128, 64, 229, 2),
        (H100, "FLOAT32", 128, 64, 229, 3),
        (H100, "FLOAT16", 1024, 4096, 4, 4),  # a step alone is more
        (T4, "FLOAT16", 128, 64, 33, 2),
    ],
)
def test_how_many_chunks(limits: Limits, dtype: str, hidden: int, batch: int, steps: int, expected: int) -> None:
    """A quarter of the L2 cache, which holds 60 MB of an H100 and 4 MB of a T4, or 2,048 rows."""
    desc = described("LSTM", dtype, steps, batch, 16, hidden)
    made = plan(desc, limits)
    chunks = made._input.chunks
    assert len(chunks) == expected
    assert [chunk.first for chunk in chunks] == [sum(chunk.steps for chunk in chunks[:place]) for place in range(expected)]
    assert sum(chunk.steps for chunk in chunks) == steps
    assert max(chunk.steps for chunk in chunks) - chunks[-1].steps < expected, "as even as can be"
    item = 4 if dtype == "FLOAT32" else 2
    assert made._scratch.arrays["input_product"][1] == (chunks[0].steps * batch, 4 * hidden)
    assert made.prepared_temporary_size >= chunks[0].steps * batch * 4 * hidden * item


@pytest.mark.parametrize("strategy", ["persistent_block", "persistent_grid"])
def test_a_launch_for_the_whole_sequence_has_no_chunks(strategy: str) -> None:
    made = plan(described("LSTM", "FLOAT16", 5000, 64, 16, 128), strategy=strategy)
    assert len(made._input.chunks) == 1
    assert made._scratch.arrays["input_product"][1] == (5000 * 64, 4 * 128)
