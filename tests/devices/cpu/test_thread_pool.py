"""Stages of tiles that threads share: every tile is written once, whichever thread is late or suspended, and only the end waits for it."""

from __future__ import annotations

import gc
import os
import time
import weakref
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from threading import Event, Thread

import numpy as np
import pytest

from tests.support.pairwise import first_few

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.thread_pool import ThreadPool
from dmlpy.devices.cpu.thread_pool_kernels import _END_BITS
from tests.support.cpu.concurrent_launch import CONCURRENT_LAUNCH, COUNT, call_parameters
from tests.support.cpu.stage_work import COMPUTING, WRITING, Work, body, sync

HELD_S = 0.3
MOST_S = 0.1
"""The processor's time that a wait of `HELD_S` may take, with the work itself."""


@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 16, 33])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_every_tile_is_written_once(threads: int, tiles: int) -> None:
    """Also where another's tiles are taken over at once, launch after launch."""
    pool = ThreadPool()
    for launch in range(60):
        work = Work(1 + launch % 9, tiles, steal_timeout=(20_000, 0)[launch % 2])
        pool.run(body(), work.parameters.ctypes.data, threads, work.stages, tiles, work)
        work.check()


def test_a_worker_that_comes_late_holds_its_synchronization_state() -> None:
    """Else another pool's synchronization state may lie in its memory, and the worker would join that one's launch."""
    pool, late, work = ThreadPool(), Event(), Work(2, 4)
    pool.run(body(), work.parameters.ctypes.data, 2, work.stages, work.tiles, work)
    pool._workers[0].begin(late.wait)
    work = Work(2, 4)
    pool.run(body(), work.parameters.ctypes.data, 2, work.stages, work.tiles, work)
    work.check()
    sync_of_launch = weakref.ref(pool._sync)
    del pool
    gc.collect()
    held = sync_of_launch() is not None
    late.set()
    assert held


@pytest.mark.parametrize("seed", first_few(range(40), 4))
def test_one_pool_has_launches_of_all_sizes(seed: int) -> None:
    rng, pool = np.random.default_rng(seed), ThreadPool()
    for _ in range(40):
        work = Work(int(rng.integers(1, 30)), int(rng.integers(1, 70)), steal_timeout=int(rng.choice([0, 100, 20_000])))
        pool.run(body(), work.parameters.ctypes.data, int(rng.integers(1, 5)), work.stages, work.tiles, work)
        work.check()


def run_two(work: Work) -> tuple[float, float]:
    """Runs the body on two threads, the second one's first; returns the processor's time of the first one, and how long it took."""
    flags = sync(work.tiles)
    other = Thread(target=body(), args=(work.parameters.ctypes.data, 1, 2, flags.ctypes.data, 0), daemon=True)
    other.start()
    began = time.thread_time(), time.perf_counter()
    body()(work.parameters.ctypes.data, 0, 2, flags.ctypes.data, 0)
    spent, took = time.thread_time() - began[0], time.perf_counter() - began[1]
    other.join(60)
    assert not other.is_alive()
    return spent, took


def test_what_a_thread_has_begun_another_does_again() -> None:
    """All is done while one thread is held back in the middle of a tile; the launch then waits for it, asleep."""
    work = Work(100_000, 4, held=COMPUTING, held_s=HELD_S)
    spent, took = run_two(work)
    work.check()
    held, ended, joined = work.times
    assert joined == 2
    assert held > 0, "the other thread acquired no tile"
    assert ended - held < 1e9 * HELD_S
    assert took > HELD_S / 2
    assert spent < took - HELD_S / 2


def test_what_a_thread_writes_the_others_wait_for_asleep() -> None:
    for _ in range(100):  # until the other one comes in time for a tile
        work = Work(50, 4, held=WRITING, held_s=HELD_S)
        spent, _ = run_two(work)
        work.check()
        if work.times[0]:
            break
    held, ended, _ = work.times
    assert ended - held >= 1e9 * HELD_S
    assert spent < MOST_S


def test_a_thread_that_comes_too_late_touches_nothing() -> None:
    work, flags = Work(5, 3), sync(3)
    body()(work.parameters.ctypes.data, 0, 2, flags.ctypes.data, 0)
    work.check()
    work.values[...], work.written[...] = -1, -1
    body()(work.parameters.ctypes.data, 1, 2, flags.ctypes.data, 0)
    assert work.times[2] == 1
    assert (work.values == -1).all()
    assert (work.written == -1).all()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not let a thread choose its processors")
def test_threads_on_one_processor_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is suspended again and again in the middle of a tile."""
    monkeypatch.setattr("dmlpy.devices.cpu.thread_pool._Worker.avoid", lambda self, processor: True)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        pool, began = ThreadPool(), time.perf_counter()
        for _ in range(20):
            work = Work(200, 20)
            pool.run(body(), work.parameters.ctypes.data, 3, work.stages, work.tiles, work)
            work.check()
        assert time.perf_counter() - began < 20
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("tiles", [1, 2, 9])
def test_threads_take_counted_tiles_from_both_ends(tiles: int) -> None:
    """Neighbouring tiles are mostly one thread's. Here the second thread comes during the first tile, and finds the others."""
    order: list[int] = []

    def compute(tile: int, *_: int) -> int:
        order.append(tile)
        if tile == 0:
            body(parameters.address, 1, 2, flags.ctypes.data, 0)
        return 0

    function = CFUNCTYPE(c_int64, *[c_int64] * 5)(compute)
    parameters = call_parameters([(cast(function, c_void_p).value or 0, tile) for tile in range(tiles)])
    body, flags = CONCURRENT_LAUNCH(), sync(0)
    body(parameters.address, 0, 2, flags.ctypes.data, 0)
    assert order == [0, *range(tiles - 1, 0, -1)]


def test_launches_of_very_many_counted_tiles() -> None:
    """More than a ticket counts from each end."""
    counts = np.zeros((1 << _END_BITS) + 3, np.int64)
    places = counts.ctypes.data + 8 * np.arange(len(counts))
    parameters = call_parameters(np.stack([np.full(len(counts), COUNT().address), places], axis=1))
    ThreadPool().run(CONCURRENT_LAUNCH(), parameters.address, 2, memory=(parameters, counts))
    assert (counts == 1).all()
