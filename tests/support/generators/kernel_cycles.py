"""Writes the cycles of kernels' loops to dmlpy/devices/cuda/performance/kernel_cycles.json: `python -m
tests.support.generators.kernel_cycles [--check]`.

Each kernel is compiled for each architecture by NVRTC, and a model of a scheduler executes its machine code. This takes ten minutes, and
needs NVRTC and nvdisasm, and no GPU. With `--check` nothing is written: the exit status is 0 if figures are within `TOLERANCE` of those
there. `--architectures` and `--kernels` narrow what is made or checked; the rest stays as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence

from dmlpy.devices.cuda.offline_device import limits_of
from dmlpy.devices.cuda.performance.kernel_cycles import FILE
from dmlpy.messages.json_text import lay_out
from tests.support.cuda.binaries.kernel_loops import SHARED_BYTES, KernelLoop, kernel_loops

TOLERANCE = 0.15
"""How far figures may be apart, as a share of either: versions of NVRTC order instructions differently."""
ARCHITECTURES = tuple(SHARED_BYTES)

Ways = Mapping[str, Sequence[float]]


def made(architectures: Sequence[int], kernels: str = "") -> Iterator[tuple[int, KernelLoop, Ways]]:
    """The cycles of the kernels whose names contain a text, by architecture."""
    for architecture in architectures:
        limits = limits_of(f"sm_{architecture}")
        for loop in kernel_loops():
            if kernels in loop.name and loop.runs_on(limits):
                found = loop.cycles(limits)
                yield architecture, loop, {way: [round(number, 1) for number in cycles] for way, cycles in found.items()}


def differences(stored: Mapping[str, Mapping[str, Ways]], architecture: int, name: str, found: Ways) -> list[str]:
    """Where stored figures of a kernel differ from those that were found, in words."""
    known = stored.get(str(architecture), {}).get(name)
    if known is None:
        return [f"sm_{architecture}, {name}: not stored"]
    told = []
    for way, cycles in found.items():
        before = known.get(way, [])
        same = len(before) == len(cycles) and all(
            abs(old - new) <= TOLERANCE * max(old, new) for old, new in zip(before, cycles, strict=True)
        )
        told += [] if same else [f"sm_{architecture}, {name}, {way}: stored {list(before)}, found {list(cycles)}"]
    return told


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.generators.kernel_cycles", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if figures differ")
    parser.add_argument("--architectures", nargs="*", type=int, default=ARCHITECTURES, choices=ARCHITECTURES, metavar="NUMBER")
    parser.add_argument("--kernels", default="", metavar="TEXT", help="part of the names of kernels")
    given = parser.parse_args(arguments)
    stored = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
    told = []
    for architecture, loop, found in made(given.architectures, given.kernels):
        told += differences(stored, architecture, loop.name, found)
        if not given.check:
            stored.setdefault(str(architecture), {})[loop.name] = found
    if not given.check:
        FILE.write_text(lay_out(dict(sorted(stored.items(), key=lambda item: int(item[0])))), "utf-8", newline="\n")
        return 0
    print("\n".join(told), file=sys.stderr)
    return int(bool(told))


if __name__ == "__main__":
    raise SystemExit(main())
