"""`python -m tests.gpu_check`: the body of `.ci/gpu`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.gpu_check import packages
from tests.gpu_check.calls import SECONDS, TEST_S, WORKERS, Asked, Call
from tests.gpu_check.programs import Runner

UNUSABLE = 2


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=".ci/gpu", description="What needs a GPU, in four calls; the file's header says what each does.")
    parser.add_argument("call", choices=tuple(packages.NEEDED))
    folder = os.environ.get("OUT") or "build/gpu"
    parser.add_argument("--out", type=Path, default=Path(folder), metavar="FOLDER", help="for results; default: $OUT, else build/gpu")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels of packages that this machine lacks")
    parser.add_argument("--kernels", type=Path, metavar="FILE", help="compiled kernels that an earlier call kept")
    parser.add_argument("--keep-kernels", action="store_true", help="put compiled kernels into FOLDER/kernels.tar.gz")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that the call may take; default: %(default)g")
    parser.add_argument("--test-seconds", type=float, default=TEST_S, help="that one test may take; default: %(default)g")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes of `rest`; default: %(default)d")
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="these files or tests in the place of the call's own")
    parser.add_argument("-k", default="", metavar="EXPRESSION", dest="keyword", help="only tests whose names match, as pytest's -k")
    parser.add_argument("--cases", nargs="+", default=[], metavar="CASE", help='of `bench`: "lstm-128-b1-t512 FLOAT32 forward"')
    given = parser.parse_args(arguments)
    if given.keep_kernels and given.call == "profile":
        parser.error("profile compiles a few kernels only: it keeps none")
    return given


def main(arguments: list[str] | None = None) -> int:
    """Runs a call. The exit status is 2 where it cannot begin."""
    start = time.monotonic()
    given = parsed(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    scratch_folder = tempfile.TemporaryDirectory(prefix="dmlpy-gpu-", ignore_cleanup_errors=True)
    with scratch_folder as name, (given.out / f"{given.call}.txt").open("w") as log:

        def tell(line: str) -> None:
            print(line, flush=True)
            print(line, file=log, flush=True)

        scratch = Path(name)
        if given.wheels is not None:
            site = scratch / "site"
            if problem := packages.install(given.wheels, site):
                tell(f"the wheels cannot be installed: {problem}")
                return UNUSABLE
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(site))))
        cupy = () if os.environ.get("DMLPY_TEST_GPU") else ("cupy",)
        if lacking := packages.missing((*cupy, *packages.NEEDED[given.call])):
            tell(f"{given.call} needs what is not installed here: {', '.join(lacking)}")
            for line in packages.help_with(lacking):
                tell(line)
            return UNUSABLE
        asked = Asked(
            given.call,
            given.out.resolve(),
            seconds=given.seconds,
            workers=given.workers,
            tests=given.tests,
            keyword=given.keyword,
            cases=given.cases,
            test_seconds=given.test_seconds,
            kernels=given.kernels,
            keeps_kernels=given.keep_kernels,
        )
        return Call(asked, start, scratch, tell, Runner(tell)).run()


if __name__ == "__main__":
    sys.exit(main())
