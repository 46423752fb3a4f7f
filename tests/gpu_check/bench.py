"""Layers and operators, measured by `dmlpy.bench` beside PyTorch: `python -m tests.gpu_check.bench RECORD SECONDS [CASE ...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dmlpy as dml
from dmlpy.bench import launches, machine, measure, tables, worth
from dmlpy.bench.command import is_complete
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.operators import large, suite
from dmlpy.bench.operators.shape import select
from dmlpy.bench.operators.subjects import DmlpyOperators
from dmlpy.bench.references import References
from dmlpy.bench.subjects import GPU_PEERS, OPERATORS_OWN
from dmlpy.bench.work import Case
from tests.gpu_check.selection import LONG_CASES
from tests.support.cuda import stand_in

PEER_NAMES = ("torch",)
ROUNDS = 7
SMALL = suite.Sizes(
    matrix=64,
    terms=32,
    batches=(17, 16, 8),
    images=(1, 64, 7, 7),
    tokens=(1, 48),
    heads=((128, 1), (64, 2)),
    cached=(1, 64, 1, 128),
    rows=(16, 64),
    side=64,
    pooled=(1, 4, 8, 8),
    lists=(4, 256, 8),
)
"""The sizes of a dry run."""


class StandIn(DmlpyOperators):
    """dmlpy over the stand-in for a GPU that is asked for."""

    def __init__(self, device: str, threads: int) -> None:
        shrink()
        stand_in.install()
        super().__init__(device, threads)


def shrink() -> None:
    """Small operators, and rates from small copies and products: over a stand-in they mean nothing."""
    machine.COPIED_BYTES["cuda"], machine.LARGE, machine.MEASURED_S = 1 << 16, 64, 1e-3
    launches.LAUNCHES, launches.ROUNDS, large.CYCLED_BYTES = 10, 1, 1 << 12
    suite.ROWS.clear()
    suite.ROWS.update(large.by_name(suite.rows(SMALL)))


def layer_cases(names: Sequence[str] = ()) -> list[Case]:
    """Those of these names, or the first ones without those whose references take long. Raises DmlError where there is none of a name."""
    return [worth.case_of(name) for name in names or [name for name in worth.FIRST_LAYERS if name not in LONG_CASES]]


def operator_cases(names: Sequence[str] = ()) -> list[Case]:
    """Those of the operators of these names, or all, in the order of worth. Raises ValueError where there is none of a name."""
    return worth.ordered(cases_of(select(names, (), "cuda"), (), ()))


def usable(file: Path | None, cases: Sequence[Case]) -> References | None:
    """The references of a file. What cannot be used is told and made anew: a GPU that is borrowed shall not be given back for it."""
    if file is None:
        return None
    try:
        references = References.load(file)
        references.check(cases)
    except dml.DmlError as error:
        print(f"references are computed here: {error}", flush=True)
        return None
    return references


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; the exit status tells whether all that was begun is right. An interruption leaves the record as it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_check.bench")
    parser.add_argument("record", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--operators", action="store_true", help="names are those of operators")
    parser.add_argument("--references", type=Path)
    given = parser.parse_args(arguments)
    own = OPERATORS_OWN
    if stand_in.install() is not None:
        shrink()
        own = replace(own, target="tests.gpu_check.bench:StandIn")
    if stand_in.chosen() == "null":  # nothing computes: all is measured as if results were right
        setattr(measure, "relative_error", lambda found, expected: (0.0, ""))  # noqa: B010 (which the module imports)
    cases = (operator_cases if given.operators else layer_cases)(given.names)
    options = Options(
        peers=[peer for peer in GPU_PEERS if peer.name in PEER_NAMES],
        own=own,
        rounds=ROUNDS,
        seconds=given.seconds,
        references=usable(given.references, cases),
    )
    benchmark = Benchmark(dml.device("cuda"), options, lambda line: print(line, flush=True))
    try:
        benchmark.run(cases, given.record)
    except KeyboardInterrupt:
        print("ended before all was measured", flush=True)
    print(tables.markdown(benchmark.record))
    return int(not is_complete(benchmark.record))


if __name__ == "__main__":
    sys.exit(main())
