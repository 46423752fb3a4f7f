"""Precomputed float64 results, so that no GPU waits for them: `python -m dmlpy.bench.references FILE [CASE ...]`.

FILE holds the references of `dmlpy bench --references FILE` for layers: for a few samples y, the last states, and in training
the gradients, rounded to FLOAT32. A case is named as in a record's lines, `"lstm-256-b64-t150 FLOAT16 training"`; the default are the
cases that `dmlpy bench --device cuda` measures first.

Each case has a checksum of everything that its results depend on: the desc, the random inputs, and the code that defines the results. A
file of another version of dmlpy is rejected.

The file is a line of JSON with the results' names and sizes, followed by their numbers, one result after another.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import dmlpy
from dmlpy.bench import work
from dmlpy.bench.priorities import FIRST_LAYERS, case_of
from dmlpy.bench.work import Array
from dmlpy.messages.problems import DmlError
from dmlpy.system.files import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.bench.work import Case

_MAX_BYTES = 1 << 32
_PROBED = 64
"""The number of random numbers in a checksum, in case another NumPy draws others."""
_STORED = np.dtype("<f4")
_Sizes = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 40)]], Field(max_length=8)]


class _Case(BaseModel):
    """A case's results: their sizes by name, in the order of their numbers."""

    model_config = ConfigDict(extra="forbid")

    checksum: str
    results: dict[str, _Sizes]


class _Index(BaseModel):
    """The first line of a file."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    dmlpy: str
    cases: dict[str, _Case]


def checksum(case: Case) -> str:
    """A hash of everything that a case's reference depends on."""
    digest = hashlib.sha256(f"{case.name} {work.CHECKED} {work._SEED}".encode())
    for desc in case.shape.descs(case.which, case.dtype):
        digest.update(desc.to_json().encode())
    rng = np.random.default_rng(work._SEED)
    digest.update(rng.standard_normal(_PROBED, np.float32).tobytes() + rng.random(_PROBED, np.float32).tobytes())
    digest.update(_definition())
    return digest.hexdigest()


@cache
def _definition() -> bytes:
    """A hash of the files that define inputs and results."""
    package, digest = Path(dmlpy.__file__).parent, hashlib.sha256()
    for path in (Path(work.__file__), package / "bench/shapes.py", *sorted((package / "reference").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.digest()


class References:
    """The references of a file.

    Args:
        name: the file's name, for records.
        checksums: by case.
        results: by case and result.
    """

    def __init__(self, name: str, checksums: Mapping[str, str], results: Mapping[str, Mapping[str, Array]]) -> None:
        self.name = name
        self._checksums, self._results = checksums, results

    @classmethod
    def load(cls, path: Path) -> References:
        """Reads a file.

        Raises:
            DmlError: it cannot be read, or is not a file of references.
        """

        def wrong(why: object) -> DmlError:
            return DmlError(f"{path} is not a file of `python -m dmlpy.bench.references`: {why}")

        try:
            line, _, data = read(path, _MAX_BYTES).partition(b"\n")
            index = _Index.model_validate_json(line)
        except OSError as error:
            raise wrong(error.strerror) from error
        except ValidationError as error:
            raise wrong(f"its first line: {error.errors()[0]['msg']}") from error
        needed = sum(prod(sizes) for case in index.cases.values() for sizes in case.results.values()) * _STORED.itemsize
        if needed != len(data):
            raise wrong(f"{len(data)} bytes follow its first line, which tells of {needed}")
        place, results = 0, dict[str, dict[str, Array]]()
        for name, case in index.cases.items():
            results[name] = {}
            for result, sizes in case.results.items():
                results[name][result] = np.frombuffer(data, _STORED, prod(sizes), place).reshape(sizes)
                place += results[name][result].nbytes
        return cls(path.name, {name: case.checksum for name, case in index.cases.items()}, results)

    def check(self, cases: Iterable[Case]) -> None:
        """Compares the checksums of these cases, as far as the file has them.

        Raises:
            DmlError: a case's results are from another version of dmlpy.
        """
        stale = [case.name for case in cases if case.name in self._checksums and self._checksums[case.name] != checksum(case)]
        if stale:
            raise DmlError(
                f"{self.name} was made by another dmlpy: {', '.join(stale)} would be compared with results that are no longer those of the "
                f"definition; make it anew: python -m dmlpy.bench.references {self.name}"
            )

    def of(self, case: Case) -> Mapping[str, Array] | None:
        """A case's results, or None where the file has none.

        Raises:
            DmlError: they are from another version of dmlpy.
        """
        self.check([case])
        return self._results.get(case.name)


def write(path: Path, cases: Iterable[Case]) -> None:
    """Computes the references of these cases and writes them.

    Raises:
        DmlError: the file cannot be written.
    """
    index, arrays = _Index(dmlpy=dmlpy.__version__, cases={}), list[Array]()
    for case in cases:
        results = case.work().reference()
        arrays += [array.astype(_STORED) for array in results.values()]
        index.cases[case.name] = _Case(checksum=checksum(case), results={name: list(array.shape) for name, array in results.items()})
        print(f"{case.name}: {sum(array.size for array in results.values())} numbers", flush=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as opened:
            opened.write(index.model_dump_json().encode() + b"\n")
            opened.writelines(array.tobytes() for array in arrays)
        unfinished.replace(path)
    except OSError as error:
        raise DmlError(f"{path} cannot be written: {error.strerror}") from error


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dmlpy.bench.references", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args(arguments)
    try:
        write(options.file, [case_of(name) for name in options.cases or FIRST_LAYERS])
    except DmlError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
