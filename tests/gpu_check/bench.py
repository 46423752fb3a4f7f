"""Layers and operators, measured by `dmlpy.bench` against PyTorch: `python -m tests.gpu_check.bench RECORD SECONDS [CASE ...]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import dmlpy as dml
from dmlpy.bench import measure, priorities, tables
from dmlpy.bench.libraries import GPU_PEERS, OPERATORS_OWN
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.operators.shape import select
from dmlpy.bench.references import References
from dmlpy.bench.work import Case
from tests.gpu_check.calls import LONG_CASES
from tests.support.bench import gpu_suite
from tests.support.cuda import emulated_gpu

PEER_NAMES = ("torch",)
ROUNDS = 7


def layer_cases(names: Sequence[str] = ()) -> list[Case]:
    """Those of these names, or the first ones without those whose references take long. Raises DmlError where there is none of a name."""
    return [priorities.case_of(name) for name in names or [name for name in priorities.FIRST_LAYERS if name not in LONG_CASES]]


def operator_cases(names: Sequence[str] = ()) -> list[Case]:
    """Those of the operators of these names, or all, by priority. Raises ValueError where there is none of a name."""
    return priorities.order_by_priority(cases_of(select(names, (), "cuda"), (), ()))


def usable(file: Path | None, cases: Sequence[Case]) -> References | None:
    """The references of a file. What cannot be used is reported and recomputed: a borrowed GPU must not be given back for it."""
    if file is None:
        return None
    try:
        references = References.load(file)
        references.check(cases)
    except dml.DmlError as error:
        print(f"references are computed here: {error}", flush=True)
        return None
    return references


def left_of(seconds: float) -> float:
    """What is left of so many seconds since this process began: libraries take some of them to be imported."""
    return seconds - (time.time() - psutil.Process().create_time())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; the exit status shows whether all that was begun is right. An interruption leaves the record as it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_check.bench")
    parser.add_argument("record", type=Path)
    parser.add_argument("seconds", type=float, help="since its start")
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--operators", action="store_true", help="names are those of operators")
    parser.add_argument("--references", type=Path)
    given = parser.parse_args(arguments)
    own = OPERATORS_OWN
    if emulated_gpu.install() is not None:
        gpu_suite.shrink()
        own = gpu_suite.own()
    if emulated_gpu.chosen() == "null":  # nothing computes: all is measured as if results were right
        setattr(measure, "relative_error", lambda found, expected: (0.0, ""))  # noqa: B010  (which the module imports)
    cases = (operator_cases if given.operators else layer_cases)(given.names)
    options = Options(
        peers=[peer for peer in GPU_PEERS if peer.name in PEER_NAMES],
        own=own,
        rounds=ROUNDS,
        seconds=round(left_of(given.seconds), 1),
        references=usable(given.references, cases),
    )
    benchmark = Benchmark(dml.device("cuda"), options, lambda line: print(line, flush=True))
    try:
        benchmark.run(cases, given.record)
    except KeyboardInterrupt:
        print("ended before all was measured", flush=True)
    print(tables.markdown(benchmark.record))
    return int(any(run.status != "ok" for run in benchmark.record.runs if run.subject == own.name))


if __name__ == "__main__":
    sys.exit(main())
