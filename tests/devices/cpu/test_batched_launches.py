"""Batched launches: the same results, on any number of threads, with other memory, and where a thread comes late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p, cast
from queue import SimpleQueue
from threading import Barrier, get_ident
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import compiler, x
from dmlpy.graphs import Graph

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.launches import BatchedLaunch, BatchedLaunches
from dmlpy.devices.cpu.matrix import plan as products
from dmlpy.devices.cpu.reduction import plan as reductions
from dmlpy.devices.cpu.thread_pool import TaskLaunch, ThreadPool, Threads
from dmlpy.devices.plan import in_order
from tests.support.cpu.concurrent_launch import CONCURRENT_LAUNCH, call_parameters

Array = np.ndarray[Any, np.dtype[Any]]


def network() -> Graph:
    """Eight nodes with a compiled form, and one in the middle that NumPy runs."""
    v = x.gemm(x.input("a", [1, 1, 70, 33]), x.input("b", [1, 1, 33, 50]))
    v = x.activation_softmax1(x.gemm(v, x.input("c", [1, 1, 50, 41])), axes=[3])
    members: Any = {"axes": [2, 3], "normalize_variance": True, "epsilon": 16.0, "fused_activation": dml.ActivationTanhDesc()}
    v = v + x.mean_variance_normalization1(v + 1.0, **members)  # with an activation it has no compiled form
    v = x.activation_softmax1(x.gemm(v, x.input("d", [1, 1, 41, 64])), axes=[3])
    return x.graph({"y": x.activation_softmax1(x.gemm(v, x.input("e", [1, 1, 64, 20])), axes=[2]), "z": x.activation_relu(v * 3.0)})


def inputs(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=desc.sizes).astype(np.float32) for name, desc in dml.compile(graph, "numpy").inputs.items()}


def by_numpy(graph: Graph, given: dict[str, Array]) -> dict[str, Array]:
    results = dml.compile(graph, "numpy")(**given)
    return {name: np.asarray(array) for name, array in results.as_dict().items()}


def outputs_of(graph: Graph) -> dict[str, Array]:
    return {name: np.full(desc.sizes, np.nan, np.float32) for name, desc in dml.compile(graph, "numpy").outputs.items()}


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Each launch takes so many threads."""
    for module in (products, reductions):
        monkeypatch.setattr(module, "available_threads", lambda: request.param)
        monkeypatch.setattr(module, "_WORK_OF_A_THREAD", 1)
    compiler._compile.cache_clear()  # cached operators have other threads
    compiler._compile_operator.cache_clear()
    yield int(request.param)
    compiler._compile.cache_clear()
    compiler._compile_operator.cache_clear()


def bound(graph: Graph, given: dict[str, Array], outputs: dict[str, Array]) -> Any:
    return dml.compile(graph, "cpu").bind(given, outputs)


def test_a_graph_is_two_batches_around_what_numpy_runs(threads: int) -> None:
    graph = network()
    given = inputs(graph, 1)
    outputs = outputs_of(graph)
    dispatch = bound(graph, given, outputs)
    parts = dispatch._graph_launches._launches.parts
    assert [type(part) is BatchedLaunch for part, _ in parts] == [True, False, True]
    assert sum(count for _, count in parts) == len(dispatch.graph._program.steps)
    for _ in range(20):
        for output in outputs.values():
            output[...] = np.nan
        dispatch()
        for name, expected in by_numpy(graph, given).items():
            np.testing.assert_allclose(outputs[name], expected, rtol=2e-5, atol=1e-6, err_msg=name)


def test_threads_change_no_bit(threads: int) -> None:
    graph = network()
    given, found = inputs(graph, 2), []
    for each in (dml.compile(graph, "cpu")(**given).as_dict(), *(step_by_step(graph, given) for _ in range(2))):
        found.append({name: np.asarray(array) for name, array in each.items()})
    for other in found[1:]:
        for name, array in other.items():
            np.testing.assert_array_equal(array, found[0][name], err_msg=name)


def step_by_step(graph: Graph, given: dict[str, Array]) -> dict[str, Array]:
    """The outputs where each launch is a call of its own."""
    outputs = outputs_of(graph)
    dispatch = bound(graph, given, outputs)
    addresses, program = dispatch._addresses_by_name(dispatch._bound), dispatch.graph._program
    for at in range(len(program.steps) + len(program.copies)):
        dispatch._graph_launches._part_launch(at, addresses)(0)
    return outputs


def test_other_memory_changes_the_entries_that_it_concerns(threads: int) -> None:
    graph = network()
    first, second = inputs(graph, 3), inputs(graph, 4)
    outputs = outputs_of(graph)
    dispatch = bound(graph, first, outputs)
    launches = [part for part, _ in dispatch._graph_launches._launches.parts if isinstance(part, BatchedLaunch)]
    for changed in (["a"], ["e", "y"], ["a", "b", "c", "d", "e", "y", "z"]):
        mixed = {**first, **{name: second[name] for name in changed if name in second}}
        moved = {name: np.full_like(outputs[name], np.nan) if name in changed else outputs[name] for name in outputs}
        dispatch.rebind(**{name: mixed.get(name, moved.get(name)) for name in changed})
        dispatch()
        after = [part for part, _ in dispatch._graph_launches._launches.parts if isinstance(part, BatchedLaunch)]
        assert after == launches, "the batches stay"
        for name, expected in by_numpy(graph, mixed).items():
            np.testing.assert_allclose(moved[name], expected, rtol=2e-5, atol=1e-6, err_msg=f"{changed}: {name}")
        first, outputs = mixed, moved


@pytest.mark.parametrize("delay", [0.0, 1e-4, 1e-2])
def test_a_thread_that_comes_late(delay: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins the launch that is under way, or finds all of them over and touches nothing."""
    late: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.__init__", lambda self: setattr(self, "begin", lambda *work: late.put(work)))
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.avoid", lambda self, processor: True)
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._pool", ThreadPool())
    graph = network()
    given = inputs(graph, 5)
    outputs = outputs_of(graph)
    dispatch = bound(graph, given, outputs)
    with ThreadPoolExecutor(4) as pool:
        launched = pool.submit(dispatch)
        time.sleep(delay)
        workers = [late.get(timeout=60) for _ in range(2 * (threads - 1))] if delay else []
        for body, *arguments in workers:
            pool.submit(body, *arguments).result(timeout=60)
        launched.result(timeout=60)
    for name, expected in by_numpy(graph, given).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=2e-5, atol=1e-6, err_msg=name)
    before = {name: output.copy() for name, output in outputs.items()}
    while not late.empty():
        body, *arguments = late.get()
        body(*arguments)
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, before[name])


class Pair:
    """Two tiles that wait for each other: one thread alone cannot do both.

    Attributes:
        seen: the threads that did them.
    """

    def __init__(self) -> None:
        self.seen, together = list[int](), Barrier(2, timeout=60)

        def body(result: Any, error: Any, parameters: int, thread: int, threads: int, sync: int, epoch: int) -> int:
            together.wait()
            self.seen.append(get_ident())
            return 0

        self._function = CFUNCTYPE(c_int, c_void_p, c_void_p, *[c_int64] * 5)(body)

    def launch(self, threads: Threads | int) -> TaskLaunch:
        address: Any = cast(self._function, c_void_p).value
        return TaskLaunch.of(CONCURRENT_LAUNCH(), call_parameters([(address, 0)] * 2), threads)


def test_a_worker_takes_part_in_each_launch() -> None:
    pair = Pair()
    calls = [pair.launch(2) for _ in range(3)]
    [(run, _)] = BatchedLaunches([calls[0], TaskLaunch.of(CONCURRENT_LAUNCH(), call_parameters([]), 1), *calls[1:]]).parts
    for _ in range(3):
        run(0)
    assert len(pair.seen) == 18
    assert len(set(pair.seen)) == 2


@pytest.mark.parametrize(
    ("available", "work", "expected"),
    [(1, 10_000, (1, 1)), (4, 99, (1, 1)), (4, 199, (1, 1)), (4, 200, (2, 1)), (4, 800, (4, 1)), (4, 1600, (4, 2)), (4, 10_000, (4, 4))],
)
def test_threads_that_are_awake_share_less_work(available: int, work: int, expected: tuple[int, int]) -> None:
    assert Threads.of(available, work, 800) == expected


@pytest.mark.parametrize(
    ("launches", "expected"),
    [([(1, 1)] * 20, 1), ([(2, 1)] * 7, 1), ([(2, 1)] * 8, 2), ([(3, 1), (1, 1)] * 8, 3), ([(2, 1), (3, 3)], 3), ([(4, 2), (1, 1)], 2)],
)
def test_threads_that_a_batch_wakes(launches: list[tuple[int, int]], expected: int) -> None:
    """As many as one launch is worth, or several smaller ones together."""
    found = [TaskLaunch.of(CONCURRENT_LAUNCH(), call_parameters([]), Threads(*threads)) for threads in launches]
    assert BatchedLaunch(found).threads == expected
    assert [launch.threads for launch in found] == [woken for _, woken in launches]


def test_a_thread_that_one_launch_wakes_shares_the_smaller_ones() -> None:
    """The smaller launch wakes no thread if it runs alone."""
    pair = Pair()
    small = pair.launch(Threads(2, 1))
    large = TaskLaunch.of(CONCURRENT_LAUNCH(), call_parameters([]), Threads(2, 2))
    [(run, _)] = BatchedLaunches([small, large]).parts
    run(0)
    assert len(set(pair.seen)) == 2


def test_launches_of_several_task_launches_are_part_of_a_batch() -> None:
    def call(number: int) -> TaskLaunch:
        plan = dml.compile(dml.ActivationReluDesc(input_tensor=TENSOR, output_tensor=TENSOR), "cpu")._plan
        launch = plan.bind({"input_tensor": memory[number].ctypes.data, "output_tensor": memory[number + 1].ctypes.data}, room, None)
        assert isinstance(launch, TaskLaunch)
        return launch

    memory, scratch = np.zeros((6, 8), np.float32), np.zeros(1 << 16, np.uint8)
    room = scratch.ctypes.data + -scratch.ctypes.data % 64
    seen = list[int]()
    python = seen.append
    memory[0] = 7
    joined = BatchedLaunches([call(0), in_order([call(1), in_order([call(2), call(3)])]), python, in_order([call(4), python])])
    assert [(type(part) is BatchedLaunch, count) for part, count in joined.parts] == [(True, 2), (False, 1), (False, 1)]
    for part, _ in joined.parts:
        part(9)
    assert (memory == 7).all()
    assert seen == [9, 9]


TENSOR = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 8])
