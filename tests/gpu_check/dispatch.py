"""A few passes of a case of the benchmark, for a profiler to look at: `python -m tests.gpu_check.dispatch CASE`."""

from __future__ import annotations

import sys

from dmlpy.bench.subjects.dmlpy import Dmlpy
from tests.gpu_check.bench import case_of
from tests.support.cuda import stand_in

PASSES = 3


def main(name: str) -> None:
    """Runs it, and prints its plan."""
    stand_in.install()
    subject = Dmlpy("cuda", 1)
    runner = subject.build(case_of(name).work(), "eager")
    for number in range(PASSES):
        runner.run(number % subject.sets)
    subject.place.synchronize(subject.place.current_stream())
    print(*runner.plan, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
