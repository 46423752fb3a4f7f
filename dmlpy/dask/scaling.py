"""Measures how `map_blocks` scales with Dask's workers: `python -m dmlpy.dask.scaling [--save FILE] [--chunks N] [--rounds N]`.

Starts clusters of one and two single-threaded processes, and writes the measurements as JSON; the tables of README.md are generated from
scaling.json in this folder. Run it on an idle machine: times are the least wall-clock times of a few rounds.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask.array as da
import numpy as np

from dmlpy import compiler
from dmlpy.dask.mapping import map_blocks
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.json_text import lay_out
from dmlpy.operators.activation import ActivationReluDesc, ActivationSigmoidDesc, ActivationTanhDesc
from dmlpy.operators.recurrent.layer import LSTMDesc
from dmlpy.system.files import write_text
from dmlpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = Path(__file__).with_name("scaling.json")
STEPS, INPUTS, UNITS, BATCH = 24, 64, 128, 256
"""T, I, H and the utterances of a chunk."""
TINY = 400
"""The number of chunks for measuring the overhead of a task."""


def _tensor(*sizes: int) -> TensorDesc:
    return TensorDesc(data_type="FLOAT32", sizes=sizes)


def layer() -> LSTMDesc:
    """A bidirectional LSTM that outputs its last states."""
    return LSTMDesc(
        input_tensor=_tensor(1, STEPS, BATCH, INPUTS),
        weight_tensor=_tensor(1, 2, 4 * UNITS, INPUTS),
        recurrence_tensor=_tensor(1, 2, 4 * UNITS, UNITS),
        activation_descs=[ActivationSigmoidDesc(), ActivationTanhDesc(), ActivationTanhDesc()] * 2,
        direction="BIDIRECTIONAL",
    ).with_outputs("output_single_tensor")


def constants() -> dict[str, Any]:
    """The layer's weights."""
    rng, desc = np.random.default_rng(1), layer()
    return {name: rng.standard_normal(desc.tensors()[name].sizes, np.float32) / 16 for name in ("weight_tensor", "recurrence_tensor")}


def _sent(dask_worker: Any) -> int:
    """The bytes that a worker has sent to others."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def _known(dask_scheduler: Any) -> int:
    """The number of tasks that a scheduler knows."""
    return len(dask_scheduler.tasks)


class Measurement:
    """Measurements on one cluster.

    Args:
        client: the cluster's.
        rounds: how often each is repeated.
        device: as for `map_blocks`.
    """

    def __init__(self, client: Any, rounds: int, device: str) -> None:
        self._client, self._rounds, self._device = client, rounds, device

    def _least_seconds(self, array: da.Array) -> float:
        """The least time in which the cluster computes an array, whose chunks stay on the workers."""
        from distributed import wait

        seconds = []
        for _ in range(self._rounds):
            before = self._client.run_on_scheduler(_known)
            start = time.perf_counter()
            persisted = self._client.persist(array)
            wait(persisted)
            seconds.append(time.perf_counter() - start)
            del persisted
            while self._client.run_on_scheduler(_known) > before:  # cached results would not be computed again
                time.sleep(0.01)
        return min(seconds)

    def layer(self, chunks: int) -> dict[str, float]:
        """Seconds for chunks of utterances in the workers' memory, and the bytes sent between workers."""
        from distributed import wait

        x = da.random.default_rng(1).standard_normal((1, STEPS, chunks * BATCH, INPUTS), chunks=(1, STEPS, BATCH, INPUTS), dtype=np.float32)
        persisted = self._client.persist(x)
        wait(persisted)
        states = map_blocks(layer(), device=self._device, input_tensor=persisted, **constants()).output_single_tensor
        before = sum(self._client.run(_sent).values())
        seconds = self._least_seconds(states)
        moved = (sum(self._client.run(_sent).values()) - before) / self._rounds
        return {"chunks": chunks, "seconds": seconds, "utterances_per_second": chunks * BATCH / seconds, "bytes_between_workers": moved}

    def overhead(self) -> dict[str, float]:
        """Seconds of a task that does almost nothing."""
        part = _tensor(1, 1, 1, 8)
        relu = ActivationReluDesc(input_tensor=part, output_tensor=part)
        x = da.ones((1, 1, TINY, 8), chunks=(1, 1, 1, 8), dtype=np.float32)
        return {
            "tasks": TINY,
            "seconds_per_task": self._least_seconds(map_blocks(relu, device=self._device, input_tensor=x).output_tensor) / TINY,
        }


def alone(rounds: int, device: str) -> float:
    """The least CPU seconds of this process for one chunk, prepared, without Dask."""
    rng, weights = np.random.default_rng(2), constants()
    prepared = compiler.compile(layer(), device).prepare(**weights)
    x = rng.standard_normal((1, STEPS, BATCH, INPUTS), np.float32)
    seconds = []
    for _ in range(3 * rounds):
        start = time.thread_time()
        prepared(input_tensor=x)
        seconds.append(time.thread_time() - start)
    return min(seconds)


def sent_bytes() -> dict[str, float]:
    """The bytes that the caller sends: the constants once, and each task."""
    x = da.ones((1, STEPS, 64 * BATCH, INPUTS), chunks=(1, STEPS, BATCH, INPUTS), dtype=np.float32)
    graph = dict(map_blocks(layer(), device="cpu", input_tensor=x, **constants()).output_single_tensor.__dask_graph__())
    sizes = {str(key): len(cloudpickle.dumps(task)) for key, task in graph.items()}
    shared = sum(size for key, size in sizes.items() if key.endswith("-constants"))
    tasks = [size for key, size in sizes.items() if key.startswith("('lstm")]
    return {"constants": shared, "task": sum(tasks) / len(tasks)}


def measured(chunks: int, rounds: int, device: str) -> dict[str, Any]:
    """All measurements, in the record's form."""
    from distributed import Client, LocalCluster

    loads = [list(os.getloadavg())]
    record: dict[str, Any] = {
        "versions": {"dmlpy": __version__, "dask": version("dask"), "NumPy": np.__version__, "Python": platform.python_version()},
        "host": {"processor": platform.processor() or platform.machine(), "processors": os.cpu_count()},
        "work": {"steps": STEPS, "inputs": INPUTS, "units": UNITS, "batch": BATCH, "device": device, "rounds": rounds},
        "chunk_seconds_alone": alone(rounds, device),
        "sent_bytes": sent_bytes(),
        "workers": {},
    }
    for workers in (1, 2):
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.ERROR}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            measurement = Measurement(client, rounds, device)
            measurement.layer(workers)  # compiles
            record["workers"][str(workers)] = {
                "strong": measurement.layer(2 * chunks),
                "weak": measurement.layer(workers * chunks),
                "overhead": measurement.overhead(),
            }
    loads.append(list(os.getloadavg()))
    record["host"] |= {"load_before": loads[0], "load_after": loads[1]}
    return record


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *others = rows
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---", *["---:"] * (len(head) - 1)), *others))


def markdown(record: Mapping[str, Any]) -> str:
    """The table of a record, with its conditions."""
    one, two = (record["workers"][count] for count in ("1", "2"))
    work, host, versions = record["work"], record["host"], record["versions"]
    rate = "utterances_per_second"
    rows: list[tuple[str, ...]] = [("", "1 worker", "2 workers", "2 workers / 1 worker")]
    for title, key in (("strong scaling: {} chunks", "strong"), ("weak scaling: {} chunks a worker", "weak")):
        name = title.format(int(one[key]["chunks"]))
        rows.append(
            (
                f"{name}, utterances per second",
                *(f"{item[key][rate]:,.0f}" for item in (one, two)),
                f"{two[key][rate] / one[key][rate]:.2f}",
            )
        )
    overheads = [item["overhead"]["seconds_per_task"] for item in (one, two)]
    rows.append(("a task that does nothing, ms", *(f"{1e3 * seconds:.2f}" for seconds in overheads), f"{overheads[1] / overheads[0]:.2f}"))
    moved = [item["strong"]["bytes_between_workers"] / item["strong"]["chunks"] for item in (one, two)]
    rows.append(("bytes between workers for a chunk", *(f"{count:,.0f}" for count in moved), ""))
    before, after = (" ".join(f"{load:.1f}" for load in host[key]) for key in ("load_before", "load_after"))
    names = ", ".join(f"{name} {number}" for name, number in versions.items())
    sent = record["sent_bytes"]
    return (
        f"Measured with {names} on {host['processors']} processors ({host['processor']}); load averages before: {before}, after: {after}. "
        f"Least times of {work['rounds']} rounds by the clock, chunks of {work['batch']} utterances of {work['steps']} steps, I = "
        f"{work['inputs']}, H = {work['units']}, float32, on the device `{work['device']}`. A chunk takes "
        f"{1e3 * record['chunk_seconds_alone']:.1f} ms of processor time without Dask.\n\n{_table(rows)}\n"
        f"The caller sends {sent['constants']:,.0f} bytes of constants once and {sent['task']:,.0f} bytes for each task; an input chunk "
        f"has {4 * work['steps'] * work['batch'] * work['inputs']:,} bytes.\n"
    )


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Measures map_blocks on one and two workers.")
    parser.add_argument("--save", type=Path, default=RECORD, help="the record to write")
    parser.add_argument("--chunks", type=int, default=32, help="chunks of a worker")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions, of which the least time counts")
    parser.add_argument("--device", default="cpu", help="cpu or numpy")
    arguments = parser.parse_args()
    record = measured(arguments.chunks, arguments.rounds, arguments.device)
    write_text(arguments.save, lay_out(record))
    print(markdown(record), end="")


if __name__ == "__main__":
    main()
