"""What sequences of several lengths cost on the CPU: `python -m tests.benchmarks.ragged [--rounds 15] [--json FILE]`.

Each layer runs with all sequences of T steps, and with lengths spread evenly from T down to T / 2. Ragged sequences have a share of the
steps; a library's figure is the time of the ragged layer over that share of the full layer's time, so 1.00 pays for steps alone. PyTorch
runs packed sequences. The libraries take turns as in `dmlpy bench`, which does the measuring. Each pair is measured some times, and the
median counts: a machine's speed may change between a full layer and the ragged one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import dmlpy as dml
from dmlpy.bench.libraries import PEERS
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.records import Record
from dmlpy.bench.shapes import LayerShape, Recurrent
from dmlpy.bench.work import Case
from dmlpy.messages.json_text import lay_out


def shapes() -> list[Recurrent]:
    """Layers of several lengths."""
    tagger = LayerShape("LSTM", 100, 200, "BIDIRECTIONAL")
    one_way, gru = LayerShape("LSTM", 256, 256), LayerShape("GRU", 256, 256)
    return [
        Recurrent(title="tagger of words", layers=(tagger,), batch=32, steps=40, lengths="ragged", suite="cpu"),
        Recurrent(title="sentences, one direction", layers=(one_way,), batch=16, steps=100, lengths="ragged", suite="cpu"),
        Recurrent(title="sentences, GRU", layers=(gru,), batch=16, steps=100, lengths="ragged", suite="cpu"),
    ]


def main() -> None:
    """Prints a line for each layer, pass and library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each library")
    parser.add_argument("--repeats", type=int, default=3, help="how often each pair of layers is measured")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    peers = tuple(peer for peer in PEERS if peer.name == "torch")
    rows = []
    for shape in shapes():
        pair = replace(shape, lengths="full"), shape
        share = sum(pair[1].sequence_lengths()) / sum(pair[0].sequence_lengths())
        for which in ("forward", "training"):
            cases = [Case(each, "FLOAT32", which) for each in pair]
            records = [
                Benchmark(dml.device("cpu"), Options(peers=peers, rounds=arguments.rounds), print).run(cases)
                for _ in range(arguments.repeats)
            ]
            for subject in ("dmlpy", "torch"):
                long, short = (_times(records, subject, each) for each in pair)
                if not (long and short):
                    continue
                cost = median(of_ragged / (share * of_full) for of_full, of_ragged in zip(long, short, strict=True))
                row = {"shape": shape.key, "pass": which, "subject": subject, "full_us": long, "ragged_us": short}
                rows.append(row | {"share_of_steps": share, "cost": cost})
                print(f"{shape.key} {which}, {subject}: {cost:.2f} of the time of its steps")
    if arguments.json:
        record = records[-1]
        facts = {"date": record.date, "processor": record.host.processor, "load": os.getloadavg(), "versions": record.versions}
        arguments.json.write_text(lay_out(facts | {"rows": rows}))


def _times(records: Sequence[Record], subject: str, shape: Recurrent) -> list[float]:
    """What a library took for a layer in each of the records; nothing where it does not have it."""
    found = (run for record in records for run in record.runs if run.subject == subject and run.shape == shape.key)
    return [run.median_us for run in found if run.median_us is not None]


if __name__ == "__main__":
    main()
