"""What sequences of several lengths cost on the CPU: `python -m tests.benchmarks.ragged [--rounds 15] [--json FILE]`.

Each layer runs with all sequences of T steps, and with lengths spread evenly from T down to T / 2. Ragged sequences have a share of the
steps; a library's figure is the time of the ragged layer over that share of the full layer's time, so 1.00 pays for steps alone. PyTorch
runs packed sequences. The libraries take turns as in `dmlpy bench`, which does the measuring.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import dmlpy as dml
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.shapes import LayerShape, Recurrent
from dmlpy.bench.subjects import PEERS
from dmlpy.bench.work import Case


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
    parser.add_argument("--rounds", type=int, default=15, help="turns of each library")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    peers = tuple(peer for peer in PEERS if peer.name == "torch")
    pairs = [(replace(shape, lengths="full"), shape) for shape in shapes()]
    cases = [Case(shape, "FLOAT32", which) for pair in pairs for which in ("forward", "training") for shape in pair]
    record = Benchmark(dml.device("cpu"), Options(peers=peers, rounds=arguments.rounds), print).run(cases)
    times = {(run.shape, run.pass_, run.subject): run.median_us for run in record.runs}
    rows = []
    for full, ragged in pairs:
        share = sum(ragged.sequence_lengths()) / sum(full.sequence_lengths())
        for which in ("forward", "training"):
            for subject in ("dmlpy", "torch"):
                long, short = times.get((full.key, which, subject)), times.get((ragged.key, which, subject))
                if long is None or short is None:
                    continue
                row = {"shape": ragged.key, "pass": which, "subject": subject, "full_us": long, "ragged_us": short}
                rows.append(row | {"share_of_steps": share, "cost": short / (share * long)})
                print(f"{ragged.key} {which}, {subject}: {rows[-1]['cost']:.2f} of the time of its steps")
    if arguments.json:
        facts = {"date": record.date, "processor": record.host.processor, "load": os.getloadavg(), "versions": record.versions}
        arguments.json.write_text(json.dumps(facts | {"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
