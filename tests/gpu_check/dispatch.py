"""A pass of each of some cases of the benchmark, for a profiler to look at: `python -m tests.gpu_check.dispatch CASE ...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dmlpy.bench import priorities
from dmlpy.bench.operators.libraries import DmlpyOperators
from tests.support.bench import gpu_suite
from tests.support.cuda import emulated_gpu


def main(names: Sequence[str]) -> None:
    """Runs them, and prints their plans."""
    if emulated_gpu.install() is not None:
        gpu_suite.shrink()
    for name in names:
        library = DmlpyOperators("cuda", 1)
        work = priorities.case_of(name).work()
        runner = library.build(work, "eager")
        runner.run(0)
        library.place.synchronize(library.place.current_stream())
        print(name, *runner.plan, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
