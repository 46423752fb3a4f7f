"""The cases of `bench`, measured by `dmlpy.bench` beside PyTorch: `python -m tests.gpu_check.bench RECORD SECONDS [CASE ...]`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import dmlpy as dml
from dmlpy.bench import machine, tables
from dmlpy.bench.command import is_complete
from dmlpy.bench.measure import Benchmark, Options
from dmlpy.bench.shapes import SHAPES
from dmlpy.bench.subjects import OWN, PEERS
from dmlpy.bench.subjects.dmlpy import Dmlpy
from dmlpy.bench.work import Case
from tests.support.cuda import stand_in

CASES = (
    "lstm-128-b1-t512 FLOAT32 forward",
    "lstm-256-b64-t150 FLOAT16 forward",
    "lstm-256-b64-t150 FLOAT32 forward",
    "gru-512-b32-t1375 FLOAT32 forward",
    "lstm-512x2-b32-t100 FLOAT16 forward",
    "rnn-1760-b16-t50 FLOAT16 forward",
    "lstm-256-b64-t150 FLOAT16 training",
    "lstm-2048-1024x3-b32-t100 FLOAT16 forward",
    "batchnorm-32x512x28x28-nhwc FLOAT16 training",
    "rnn-1760-b16-t50 FLOAT32 forward",
)
"""What matters most comes first: who runs out of time has measured it."""
PEER_NAMES = ("torch",)


class StandIn(Dmlpy):
    """dmlpy over the stand-in for a GPU that is asked for."""

    def __init__(self, device: str, threads: int) -> None:
        shrink()
        stand_in.install()
        super().__init__(device, threads)


def shrink() -> None:
    """Rates from small copies and products: over a stand-in they mean nothing."""
    machine.COPIED_BYTES["cuda"], machine.LARGE, machine.MEASURED_S = 1 << 16, 64, 1e-3


def case_of(name: str) -> Case:
    """A case by its name.

    Raises:
        ValueError: there is none.
    """
    for shape in SHAPES.values():
        for dtype in shape.dtypes:
            for which in shape.passes:
                if name == (case := Case(shape, dtype, which)).name:
                    return case
    raise ValueError(f"{name!r} is no case: a shape's key, its type and its pass, such as {CASES[0]!r}")


def main(record: str, seconds: str, *names: str) -> int:
    """Measures; the exit status tells whether all that was begun is right. An interruption leaves the record as it is."""
    own = OWN
    if stand_in.install() is not None:
        shrink()
        own = replace(OWN, target="tests.gpu_check.bench:StandIn")
    peers = [peer for peer in PEERS if peer.name in PEER_NAMES]
    options = Options(peers=peers, own=own, seconds=float(seconds))
    benchmark = Benchmark(dml.device("cuda"), options, lambda line: print(line, flush=True))
    try:
        benchmark.run([case_of(name) for name in names or CASES], Path(record))
    except KeyboardInterrupt:
        print("ended before all was measured", flush=True)
    print(tables.markdown(benchmark.record))
    return int(not is_complete(benchmark.record))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
