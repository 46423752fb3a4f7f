"""Utterances of ragged length through a bidirectional LSTM, from a Zarr store to a Zarr store, on a cluster of processes.

    python examples/utterances.py --folder utterances [--count 1000000] [--workers 2]

The first run makes a store of random utterances, sorted by length into a few arrays [utterances, steps, features] that are padded as far as
their longest. Each is read chunk by chunk, computed with `dmlpy.dask.map_blocks`, and the last states are written beside it,
[utterances, 2 * units]. Neither this process nor a worker ever holds more than a few chunks.

A chunk that is written is marked. So a run that was ended, by Ctrl+C or otherwise, goes on where it was when it is started again; and a
worker that dies during a run, as `--kill-after` has it, is replaced, and what it had not written is computed again: the states are the
same bit for bit.

It needs `pip install dask distributed zarr`, and Bokeh for the dashboard.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
import zarr
from distributed import Client, LocalCluster, progress

import dmlpy as dml
from dmlpy.dask import map_blocks

Array = np.ndarray[Any, np.dtype[Any]]

FEATURES, UNITS = 16, 32
"""I and H."""
LONGEST = (8, 16, 24, 32)
"""The most steps of the utterances of each array."""


def tensor(*sizes: int, **members: Any) -> dml.TensorDesc:
    """A desc of float32, if the members do not say otherwise."""
    return dml.TensorDesc(**{"data_type": "FLOAT32", "sizes": sizes} | members)


def layer(steps: int) -> dml.LSTMDesc:
    """The layer for utterances of so many steps. They lie one after the other, [B, T, I], which the strides say."""
    return dml.LSTMDesc(
        input_tensor=tensor(1, steps, 2, FEATURES, strides=(2 * steps * FEATURES, FEATURES, steps * FEATURES, 1)),
        weight_tensor=tensor(1, 2, 4 * UNITS, FEATURES),
        recurrence_tensor=tensor(1, 2, 4 * UNITS, UNITS),
        bias_tensor=tensor(1, 1, 2, 8 * UNITS),
        sequence_lengths_tensor=tensor(1, 1, 1, 2, data_type="UINT32"),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()] * 2,
        direction="BIDIRECTIONAL",
    ).with_outputs("output_single_tensor")


def constants() -> dict[str, Array]:
    """Weights of the layer; nobody has trained them."""
    rng, desc = np.random.default_rng(1), layer(1)
    names = ("weight_tensor", "recurrence_tensor", "bias_tensor")
    return {name: rng.standard_normal(desc.tensors()[name].sizes, np.float32) / np.float32(np.sqrt(UNITS)) for name in names}


def make_chunk(folder: str, steps: int, index: int) -> None:
    """Writes a chunk of random utterances; the same whenever it is written."""
    store = zarr.open_group(folder, mode="r+")
    frames, lengths = store[f"frames/{steps}"], store[f"lengths/{steps}"]
    rows = slice(index * frames.chunks[0], min((index + 1) * frames.chunks[0], frames.shape[0]))
    rng = np.random.default_rng((steps, index))
    count = rows.stop - rows.start
    lengths[rows] = rng.integers(steps - LONGEST[0] + 1, steps, count, np.uint32, endpoint=True)
    frames[rows] = rng.standard_normal((count, steps, FEATURES), np.float32)


def write_chunk(states: Array, place: Array, folder: str, steps: int) -> Array:
    """Writes the last states of a chunk, [1, 2, b, H], as [b, 2 * H], and then marks it; the place of the chunk, which is written."""
    store, index = zarr.open_group(folder, mode="r+"), int(place.item())
    target = store[f"states/{steps}"]
    start = index * target.chunks[0]
    target[start : start + states.shape[2]] = np.moveaxis(states[0], 0, 1).reshape(states.shape[2], 2 * UNITS)
    store[f"written/{steps}"][index] = 1
    return place


def make_store(client: Client, folder: str, count: int, chunk: int) -> None:
    """Makes the store of utterances, unless it is there."""
    if Path(folder, "complete").exists():
        return
    store = zarr.open_group(folder, mode="w")
    jobs = []
    for steps, part in zip(LONGEST, np.array_split(np.arange(count), len(LONGEST)), strict=True):
        utterances = len(part)
        chunks = -(-utterances // chunk)
        plain: dict[str, Any] = {"compressors": None, "fill_value": 0}
        store.create_array(f"frames/{steps}", shape=(utterances, steps, FEATURES), chunks=(chunk, steps, FEATURES), dtype="f4", **plain)
        store.create_array(f"lengths/{steps}", shape=(utterances,), chunks=(chunk,), dtype="u4", **plain)
        store.create_array(f"states/{steps}", shape=(utterances, 2 * UNITS), chunks=(chunk, 2 * UNITS), dtype="f4", **plain)
        store.create_array(f"written/{steps}", shape=(chunks,), chunks=(1,), dtype="u1", **plain)
        jobs += [(steps, index) for index in range(chunks)]
    made = client.map(lambda job: make_chunk(folder, *job), jobs, key="make", pure=False)
    progress(made, notebook=False)
    client.gather(made)
    Path(folder, "complete").touch()


def work(folder: str, device: str | None, at_most: int | None) -> tuple[list[da.Array], int, int]:
    """What is still to be written, as arrays of the chunks' places; how many chunks were written before; and how many there are."""
    store, weights = zarr.open_group(folder, mode="r"), constants()
    todo: list[da.Array] = []
    before = total = 0
    for steps in LONGEST:
        places = np.flatnonzero(store[f"written/{steps}"][:] == 0)
        total += store[f"written/{steps}"].shape[0]
        before += store[f"written/{steps}"].shape[0] - len(places)
        places = places[: None if at_most is None else max(at_most - sum(array.numblocks[2] for array in todo), 0)]
        if not len(places):
            continue
        frames = da.from_zarr(store[f"frames/{steps}"]).blocks[places.tolist()]
        lengths = da.from_zarr(store[f"lengths/{steps}"]).blocks[places.tolist()]
        states = map_blocks(
            layer(steps),
            device=device,
            input_tensor=frames.transpose(1, 0, 2)[None],
            sequence_lengths_tensor=lengths[None, None, None],
            **weights,
        ).output_single_tensor
        numbers = da.from_array(places.reshape(1, 1, -1, 1), chunks=(1, 1, 1, 1))
        todo.append(
            da.map_blocks(write_chunk, states, numbers, folder, steps, chunks=numbers.chunks, meta=np.empty((0,) * 4, places.dtype))
        )
    return todo, before, total


def kill_a_worker(client: Client, folder: str, chunks: int) -> None:
    """Kills one worker as soon as so many chunks are written."""
    store = zarr.open_group(folder, mode="r")
    victim = next(iter(client.run(os.getpid).values()))
    while sum(int(store[f"written/{steps}"][:].sum()) for steps in LONGEST) < chunks:
        time.sleep(0.05)
    psutil.Process(victim).kill()
    print("\na worker was killed")


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    memory = psutil.Process().memory_info()
    if hasattr(memory, "peak_wset"):  # Windows
        return memory.peak_wset
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> int:
    parser = argparse.ArgumentParser(description="Computes the last states of many utterances, from a Zarr store to a Zarr store.")
    parser.add_argument("--folder", default="utterances", help="the store; it is made if it is not there")
    parser.add_argument("--count", type=int, default=2000, help="utterances of a new store")
    parser.add_argument("--chunk", type=int, default=256, help="utterances of a chunk of a new store")
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each: as many as processors, or GPUs")
    parser.add_argument("--memory", default="1GB", help="what a worker may hold before Dask pauses it")
    parser.add_argument("--device", help="cpu, numpy, cuda; left out: cpu")
    parser.add_argument("--dashboard", default=":8787", help="where Dask's dashboard is to answer, if Bokeh is installed; none for nowhere")
    parser.add_argument("--at-most", type=int, help="end after so many chunks; the next run goes on")
    parser.add_argument("--kill-after", type=int, help="kill a worker when so many chunks are written")
    arguments = parser.parse_args()
    dask.config.set({"distributed.comm.timeouts.connect": "5s"})  # a worker that is dead shall not be waited for
    dashboard = None if arguments.dashboard == "none" else arguments.dashboard
    cluster = LocalCluster(
        n_workers=arguments.workers,
        threads_per_worker=1,
        memory_limit=arguments.memory,
        dashboard_address=dashboard,
        silence_logs=logging.CRITICAL,  # of what a killed worker leaves behind
    )
    with cluster, Client(cluster) as client:
        if dashboard is not None:
            print(f"dashboard: {client.dashboard_link}")
        make_store(client, arguments.folder, arguments.count, arguments.chunk)
        todo, before, total = work(arguments.folder, arguments.device, arguments.at_most)
        print(f"\n{before} of {total} chunks were written before")
        start = time.perf_counter()
        if arguments.kill_after is not None:
            threading.Thread(target=kill_a_worker, args=(client, arguments.folder, arguments.kill_after), daemon=True).start()
        places = client.compute(todo)
        progress(places, notebook=False)
        written = sum(array.size for array in client.gather(places))
        seconds = time.perf_counter() - start
        peaks = [peak(), *client.run(peak).values()]
        print(f"\n{written} chunks written in {seconds:.1f} s")
        print(f"most memory: {peaks[0] / 1e6:.0f} MB here, {', '.join(f'{size / 1e6:.0f} MB' for size in peaks[1:])} in the workers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
