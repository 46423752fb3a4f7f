"""`python -m tests.gpu_check`: the body of `.ci/gpu`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from tests.gpu_check import packages
from tests.gpu_check.calls import CALLS, CARRIED, PART_S, PARTS, SECONDS, TEST_S, WORKERS, Asked, Call, shares
from tests.gpu_check.programs import Runner

UNUSABLE = 2
MEASURED = (
    ("bench", "--cases", '"lstm-128-b1-t512 FLOAT32 forward"'),
    ("operators", "--operators", "GEMM, CONVOLUTION:NHWC"),
    ("steps", "--steps", "persistent_grid, lstm-1024-b1"),
)
"""What narrows the parts that measure."""


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=".ci/gpu", description="What needs a GPU, and its preparation; the file's header says what each does."
    )
    calls = parser.add_subparsers(dest="call", required=True, metavar="CALL")
    kernels = calls.add_parser("kernels", help="compiles all kernels that the calls use, without a GPU", allow_abbrev=False)
    kernels.add_argument("--for", default="sm_90", metavar="GPU", dest="target", help="an architecture or a GPU; default: %(default)s")
    kernels.add_argument("--nvrtc", metavar="VERSION", help="13.0, or a folder with one; default: the one that CuPy finds here")
    kernels.add_argument("--output", type=Path, default=CARRIED / "kernels.tar.gz", metavar="FILE", help="default: %(default)s")
    kernels.add_argument("--folder", type=Path, default=Path("build/gpu-kernels"), help="keeps what is compiled; default: %(default)s")
    plan = calls.add_parser("plan", help="what would run within some seconds, and what would be left", allow_abbrev=False)
    plan.add_argument("--of", choices=tuple(CALLS), default="check", help="default: %(default)s")
    plan.add_argument("--seconds", type=float, help="default: those of the call")
    plan.add_argument("--workers", type=int, default=WORKERS, help="default: %(default)d")
    for name in (*CALLS, *PARTS):
        parts = ", ".join(CALLS[name]) if name in CALLS else "a part of these, by itself"
        add_options(calls.add_parser(name, help=parts, allow_abbrev=False), name)
    return parser.parse_args(arguments)


def add_options(call: argparse.ArgumentParser, name: str) -> None:
    """Those of a call on a GPU."""
    parts, folder = set(shares(name)), Path(os.environ.get("OUT") or "build/gpu")
    call.add_argument("--out", type=Path, default=folder, metavar="FOLDER", help="for results; default: $OUT, else build/gpu")
    call.add_argument("--carried", type=Path, default=CARRIED, metavar="FOLDER", help="what was made beforehand; default: %(default)s")
    call.add_argument("--seconds", type=float, default=SECONDS.get(name, PART_S), help="that it may take; default: %(default)g")
    if parts & {"core", "rest", "failed", "sanitize"}:
        call.add_argument("--workers", type=int, default=WORKERS, help="processes of tests; default: %(default)d")
        call.add_argument("--test-seconds", type=float, default=TEST_S, help="that one test may take; default: %(default)g")
        call.add_argument("-k", default="", metavar="EXPRESSION", dest="keyword", help="only tests whose names match, as pytest's -k")
        call.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="these files or tests in the place of its own")
    for part, option, example in MEASURED:
        if part in parts:
            call.add_argument(option, nargs="+", default=[], metavar="NAME", help=f"these only, such as {example}")


def prepared(wheels: Path, site: Path, tell: Callable[[str], None]) -> bool:
    """Whether all packages are there that a call needs, after those of a folder were unpacked; prints those that are missing."""
    if wheels.exists():
        if problem := packages.install(wheels, site):
            tell(f"the wheels cannot be installed: {problem}")
            return False
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(site))))
    return not lacks([] if os.environ.get("DMLPY_TEST_GPU") else ["cupy"], tell)


def lacks(modules: Sequence[str], tell: Callable[[str], None]) -> bool:
    """Whether packages are missing, of some modules or of those that all calls need; prints which, and how to get them."""
    lacking = packages.missing([*modules, *packages.NEEDED])
    if lacking:
        tell("\n".join([f"what is not installed here is needed: {', '.join(lacking)}", *packages.help_with(lacking)]))
    return bool(lacking)


def main(arguments: list[str] | None = None) -> int:
    """Runs a call. The exit status is 2 where it cannot begin."""
    start, given = time.monotonic(), vars(parsed(arguments))
    call = given.pop("call")
    if call in ("kernels", "plan"):
        if lacks([], print):
            return UNUSABLE
        return int(import_module(f"tests.gpu_check.{call}").main(**given))
    out = given.pop("out")
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"{call}.log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="dmlpy-gpu-", ignore_cleanup_errors=True) as scratch:
        runner = Runner(log)
        if not prepared(given["carried"] / "wheels", Path(scratch, "site"), runner.tell):
            return UNUSABLE
        return Call(Asked(call, out.resolve(), **given), start, Path(scratch), runner).run()


if __name__ == "__main__":
    sys.exit(main())
