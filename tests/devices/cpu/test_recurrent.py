"""The compiled recurrent plans, at the NumPy device's tables: flags, directions, lengths, layouts; sizes, threads, refusals."""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.arrays import array_at
from dmlpy.operators.activation import ActivationReluDesc
from tests.support.operators.exact import exact
from tests.support.pairwise import first_few
from tests.support.recurrent import onnx_cases
from tests.support.recurrent.layer_runs import FLAGS, GUARD, LENGTHS, USUAL, Run, build, check_threads_share, place, random_run, scratch
from tests.support.tables import table

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import jit
from dmlpy.devices.cpu.isa import Isa, host_isa, isa_of
from dmlpy.devices.cpu.recurrent import plan as plans
from dmlpy.devices.cpu.recurrent import schedule
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from dmlpy.devices.cpu.thread_pool import ThreadPool

CELLS_AND_FLAGS: list[tuple[str, dict[str, Any]]] = [(cell, flags) for cell, table in FLAGS.items() for flags in table]
EVERY_LAYER: list[tuple[str, dict[str, Any]]] = [("RNN", {}), ("LSTM", {}), ("GRU", {"linear_before_reset": True}), ("GRU", {})]


def test_an_optimised_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLPY_CPU_OPTIMIZATION")
    monkeypatch.setattr(jit, "_functions", {})
    for b, h in itertools.product((1, 3, 8), (5, 40)):
        run = build("LSTM", np.random.default_rng(b), b=b, i=7, h=h)
        run.launch(RecurrentPlan(run.desc))
        run.check(exact(run.desc, run.arrays))


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
def test_optimised_recurrences(cell: str, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLPY_CPU_OPTIMIZATION")
    monkeypatch.setattr(jit, "_functions", {})
    for functions in (None, (ActivationReluDesc(),))[: 1 + (cell == "RNN")]:
        for isa, b, h in itertools.product({host_isa(), Isa(8, 16)}, range(1, 10), (5, 40)):
            monkeypatch.setattr(plans, "host_isa", lambda isa=isa: isa)
            run = build(cell, np.random.default_rng(b), b=b, i=7, h=h, functions=functions, **flags)
            run.launch(RecurrentPlan(run.desc))
            run.check(exact(run.desc, run.arrays))


@pytest.mark.pairwise
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize(("dtype", "prepared"), [(np.float32, True), (np.float16, False)], ids=["float32, prepared", "float16"])
@pytest.mark.parametrize(("cell", "flags"), CELLS_AND_FLAGS)
def test_every_flag(cell: str, flags: dict[str, Any], dtype: Any, prepared: bool, direction: str, ragged: bool, batch: int) -> None:
    lengths = LENGTHS[batch] if ragged else None
    run = build(cell, np.random.default_rng(11), b=batch, direction=direction, lengths=lengths, dtype=dtype, **flags)
    run.launch(RecurrentPlan(run.desc), prepared=prepared)
    run.check(exact(run.desc, run.arrays))


@pytest.mark.parametrize("seed", first_few(range(50), 15))
def test_random_descs(seed: int) -> None:
    run = random_run(np.random.default_rng(seed))
    if run.desc.cell_kind != "RNN":  # other activations would compile time loops of their own, which test_training does for some
        run.desc = run.desc.model_copy(update={"activation_descs": USUAL[run.desc.cell_kind] * run.desc.geometry.num_directions})
    kept = {name: placed.memory.copy() for name, placed in run.inputs.items()}
    for prepared in (False, True):
        for placed in run.outputs.values():
            placed.elements[...] = np.nan
        run.launch(RecurrentPlan(run.desc), prepared=prepared)
        run.check(exact(run.desc, run.arrays))
    for name, placed in run.inputs.items():
        np.testing.assert_array_equal(placed.memory, kept[name], err_msg=f"{name} was written to")


@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
def test_sizes_chunks_and_threads(cell: str, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    for (t, b, i, h), direction, dtype in [
        ((5, 1, 3, 48), "FORWARD", np.float32),
        ((140, 1, 2, 33), "BACKWARD", np.float32),
        ((21, 7, 5, 16), "FORWARD", np.float32),
        ((21, 13, 9, 65), "BIDIRECTIONAL", np.float16),
        ((3, 130, 1, 17), "BACKWARD", np.float32),
    ]:
        lengths = None if h % 16 == 0 else [int(length) for length in np.random.default_rng(h).integers(0, t + 1, b)]
        run = build(cell, np.random.default_rng(3), t=t, b=b, i=i, h=h, direction=direction, lengths=lengths, dtype=dtype, **flags)
        expected = exact(run.desc, run.arrays)
        found = []
        for threads in (1, 2, 3):
            monkeypatch.setattr(schedule, "available_threads", lambda threads=threads: threads)
            run.launch(RecurrentPlan(run.desc))
            run.check(expected, f"{threads} threads: ")
            found.append([placed.elements.copy() for placed in run.outputs.values()])
        for others in found[1:]:  # how the work is shared changes no sum
            for one, other in zip(found[0], others, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("cell", "flags"), [EVERY_LAYER[1], EVERY_LAYER[3]])
@pytest.mark.parametrize("lengths", [None, [7, 0, 9, 3, 9]], ids=["full", "ragged"])
def test_halves_are_read_and_written_in_place(cell: str, flags: dict[str, Any], lengths: list[int] | None) -> None:
    """The results are those of FLOAT32 from the same numbers, rounded once. Initial states are copied either way."""
    wide, halves = (
        build(cell, np.random.default_rng(4), t=9, b=5, i=19, h=21, lengths=lengths, dtype=dtype, **flags)
        for dtype in (np.float32, np.float16)
    )
    for name, placed in halves.inputs.items():
        wide.inputs[name].elements[...] = placed.elements
    plan = RecurrentPlan(halves.desc)
    assert "input in place, of float16, output in place, of float16" in plan.describe()
    for run, its_plan in ((wide, RecurrentPlan(wide.desc)), (halves, plan)):
        run.launch(its_plan)
    for name, placed in halves.outputs.items():
        np.testing.assert_array_equal(placed.elements, wide.outputs[name].elements.astype(np.float16), err_msg=name)


def test_other_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Narrower vectors than this machine may have, and fewer: other blocks, and other sums at a time. With the activation that is left.
    monkeypatch.setattr(plans, "host_isa", lambda: Isa(8, 6))
    for batch, hidden in ((1, 13), (9, 24)):
        run = build("RNN", np.random.default_rng(5), b=batch, i=5, h=hidden, functions=(ActivationReluDesc(),))
        for spoilt in (False, True):
            if spoilt:
                run.inputs["input_tensor"].elements[0, 1, 0] = np.nan
            plan = RecurrentPlan(run.desc)
            assert "blocks of 8 units" in plan.describe()
            run.launch(plan)
            run.check(exact(run.desc, run.arrays))
    assert np.isnan(run.outputs["output_sequence_tensor"].elements[1:, 0, 0]).all()


@pytest.mark.parametrize(
    ("features", "machine", "expected"),
    [
        ({"avx512f": True, "avx": True}, "x86_64", Isa(16, 32)),
        ({"avx512f": False, "avx": True}, "x86_64", Isa(8, 16)),
        ({"sse2": True}, "amd64", Isa(4, 16)),
        ({"neon": True}, "aarch64", Isa(4, 32)),
    ],
)
def test_registers_of_processors(features: dict[str, bool], machine: str, expected: Isa) -> None:
    assert isa_of(features, machine) == expected
    for vectors in (1, 2, 3, 4):
        columns = expected.columns(vectors)
        assert columns >= 1
        assert columns * vectors + vectors + 1 <= expected.registers


@pytest.mark.parametrize(
    ("isa", "gates", "batch", "expected"),
    [
        (Isa(8, 16), 4, 64, 2),
        (Isa(8, 16), 4, 5, 2),
        (Isa(8, 16), 4, 4, 4),  # eight sums either way
        (Isa(8, 16), 4, 1, 4),
        (Isa(8, 16), 3, 64, 3),
        (Isa(8, 16), 2, 64, 2),
        (Isa(8, 16), 1, 64, 1),
        (Isa(16, 32), 4, 64, 4),
        (Isa(4, 32), 4, 64, 4),
    ],
)
def test_gates_are_summed_in_halves_where_that_fills_more_registers(isa: Isa, gates: int, batch: int, expected: int) -> None:
    assert isa.fused_gates(gates, batch) == expected


@table("entry", [pytest.param(entry, id=entry["case"]) for entry in onnx_cases.entries()])
def test_onnx_runtime(entry: dict[str, Any]) -> None:
    case = onnx_cases.load(entry)
    rng = np.random.default_rng(1)
    inputs = {name: place(array, "packed", rng) for name, array in case.inputs.items()}
    outputs = {name: place(np.full(array.shape, np.nan, np.float32), "packed", rng) for name, array in case.outputs.items()}
    desc = case.desc.model_copy(update={name: placed.desc for name, placed in (inputs | outputs).items()})
    if desc.cell_kind == "RNN" or all(activation in USUAL[desc.cell_kind] for activation in desc.activation_descs):
        run = Run(desc, inputs, outputs)
        run.launch(RecurrentPlan(desc))
        run.check(case.outputs)


@pytest.mark.parametrize(("cell", "flags"), EVERY_LAYER)
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
def test_input_past_the_end_is_never_seen(cell: str, flags: dict[str, Any], direction: str) -> None:
    lengths = [2, 4, 0, 1]
    run = build(cell, np.random.default_rng(5), t=5, b=4, direction=direction, lengths=lengths, **flags)
    expected = exact(run.desc, run.arrays)
    for number, length in enumerate(lengths):
        run.inputs["input_tensor"].elements[0, length:, number] = np.nan
    run.launch(RecurrentPlan(run.desc))
    run.check(expected)


def test_nan_passes_through() -> None:
    for cell, flags in (("LSTM", {"use_clip_threshold": True, "clip_threshold": 0.1}), ("GRU", {}), ("RNN", {})):
        run = build(cell, np.random.default_rng(6), **flags)
        run.inputs["input_tensor"].elements[0, 1, 2] = np.nan
        run.launch(RecurrentPlan(run.desc))
        sequence = run.outputs["output_sequence_tensor"].elements
        assert np.isnan(sequence[1:, 0, 2]).all()
        assert np.isfinite(sequence[:, 0, :2]).all()
        assert np.isfinite(sequence[0]).all()


def test_a_bound_launch_reads_its_tensors_anew() -> None:
    run = build("LSTM", np.random.default_rng(8), h=19, lengths=[2] * 3, layouts=("packed", "padded", "permuted"))
    plan = RecurrentPlan(run.desc)
    block, temporary = scratch(plan.temporary_size)
    launch = plan.bind({name: placed.pointer for name, placed in (run.inputs | run.outputs).items()}, temporary, None)
    other = build("LSTM", np.random.default_rng(9), h=19, lengths=[4] * 3)
    for _ in range(2):
        launch(0)
        run.check(exact(run.desc, run.arrays))
        for name, placed in run.inputs.items():
            placed.elements[...] = other.inputs[name].elements
    assert (block[-64:] == GUARD).all()


def test_launches_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: 2)
    run = build("LSTM", np.random.default_rng(8), t=20, b=4, h=40, direction="BIDIRECTIONAL")
    check_threads_share(run, RecurrentPlan(run.desc), exact(run.desc, run.arrays))


def test_workers_do_not_wait_for_a_thread_that_was_interrupted() -> None:
    told: SimpleQueue[tuple[int, int]] = SimpleQueue()

    def share(parameters: Any, thread: int, threads: int, sync: int, epoch: int) -> None:
        if thread == 0:
            raise KeyboardInterrupt
        joined = array_at(sync, (2,), np.int64, (1,))
        while joined[1] <= epoch:
            pass
        told.put((thread, int(joined[1] - epoch)))

    pool = ThreadPool()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            pool.run(share, None, 3, 7)
        found = sorted(told.get(timeout=10) for _ in range(2))
        assert [thread for thread, _ in found] == [1, 2]
        assert all(number >= 7 for _, number in found)  # that is, to join at a step beyond the last one


def test_threads_that_wake_up_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: 3)
    late: list[Any] = []
    monkeypatch.setattr(
        "dmlpy.devices.cpu.thread_pool._Worker.__init__", lambda self: setattr(self, "begin", lambda *work: late.append(work))
    )
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.avoid", lambda self, processor: True)
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._pool", ThreadPool())
    for cell, flags in EVERY_LAYER:
        run = build(cell, np.random.default_rng(3), t=30, b=6, i=5, h=70, **flags)
        expected = exact(run.desc, run.arrays)
        for delay in (0.0, 1e-4, 5e-4, 2e-3):
            for placed in run.outputs.values():
                placed.elements[...] = np.nan
            with ThreadPoolExecutor(3) as pool:
                launched = pool.submit(run.launch, RecurrentPlan(run.desc))
                while len(late) < 2:
                    pass
                time.sleep(delay)
                for share, *arguments in late:
                    pool.submit(share, *arguments)
                late.clear()
                launched.result()
            run.check(expected, f"{cell}, {delay} s late: ")


@pytest.mark.parametrize("delay", [0.0, 1e-4, 1e-2])
def test_both_directions_where_a_thread_wakes_up_late(delay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's thread then time loops in both; the late one finds nothing left to do."""
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: 2)
    late: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.__init__", lambda self: setattr(self, "begin", lambda *work: late.put(work)))
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.avoid", lambda self, processor: True)
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._pool", ThreadPool())
    run = build("LSTM", np.random.default_rng(3), t=9, b=6, i=5, h=20, direction="BIDIRECTIONAL", lengths=[9, 3, 0, 4, 8, 1])
    plan = RecurrentPlan(run.desc)
    assert "both at once" in plan.describe()
    with ThreadPoolExecutor(2) as pool:
        launched = pool.submit(run.launch, plan)
        share, *arguments = late.get(timeout=60)
        time.sleep(delay)
        pool.submit(share, *arguments).result(timeout=60)
        launched.result(timeout=60)
    run.check(exact(run.desc, run.arrays))


@pytest.mark.parametrize(("steps", "threads"), [(1, 1), (100, 2)])
def test_a_thread_is_woken_where_there_is_enough_to_do(steps: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step at a time of an LSTM with 128 units is over before another thread is awake."""
    monkeypatch.setattr(schedule, "available_threads", lambda: 2)
    run = build("LSTM", np.random.default_rng(3), t=steps, b=1, i=40, h=128)
    assert f"{threads} thread(s)" in RecurrentPlan(run.desc).describe()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not let a thread choose its processors")
def test_one_processor_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: 2)
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._pool", ThreadPool())
    started: list[Any] = []
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker._serve", lambda self: started.append(self._work.get()))
    run = build("LSTM", np.random.default_rng(3), t=30, b=2, i=5, h=40)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        run.launch(RecurrentPlan(run.desc))
    finally:
        os.sched_setaffinity(0, allowed)
    run.check(exact(run.desc, run.arrays))
    assert not started


def test_through_the_compiler() -> None:
    rng = np.random.default_rng(2)
    run = build("LSTM", rng, b=2, h=20)
    operator = dml.compile(run.desc, "cpu")
    assert operator.plan.startswith("strategy: compiled\nLLVM, float32 arithmetic")
    constants = {name: run.inputs[name].elements for name in ("weight_tensor", "recurrence_tensor", "bias_tensor", "peephole_tensor")}
    inputs = {name: placed.elements for name, placed in run.inputs.items() if name not in constants}
    found = operator.prepare(**constants)(**inputs)
    expected = exact(run.desc, run.arrays)
    np.testing.assert_allclose(found.output_sequence_tensor, expected["output_sequence_tensor"], rtol=1e-5, atol=1e-6)


def test_biases_that_are_nan_give_no_warning() -> None:
    """Also where NumPy adds them; the tests turn warnings into errors."""
    run = build("GRU", np.random.default_rng(4), b=2, h=20)
    biases = run.inputs["bias_tensor"].elements
    biases[..., 0], biases[..., biases.shape[-1] // 2] = np.inf, -np.inf  # W's and R's of the first unit, which are added
    run.launch(RecurrentPlan(run.desc))
    assert np.isnan(run.outputs["output_sequence_tensor"].elements[..., 0]).all()
    assert np.isfinite(run.outputs["output_sequence_tensor"].elements[0, ..., 1:]).all()
