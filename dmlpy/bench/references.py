"""Float64 results made beforehand, so that no GPU waits for them: `python -m dmlpy.bench.references FILE [CASE ...]`.

FILE holds what `dmlpy bench --references FILE` compares the results of layers with: of a few samples y, the last states, and in training
the gradients, rounded to FLOAT32. A case is named as in a record's lines, `"lstm-256-b64-t150 FLOAT16 training"`; without names those are
made that `dmlpy bench --device cuda` measures first.

Each case has a checksum of all that its results depend on: the desc, the numbers that are drawn, and the code that defines the results. A
file of another dmlpy is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import dmlpy
from dmlpy.bench import work
from dmlpy.bench.worth import FIRST_LAYERS, case_of
from dmlpy.validation.problems import DmlError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.bench.work import Array, Case

FORMAT = 1
_INDEX = "index"
_PROBED = 64
"""Numbers drawn for a checksum, in case another NumPy draws others."""


def checksum(case: Case) -> str:
    """A hash of all that a case's reference depends on."""
    made = hashlib.sha256(f"{FORMAT} {case.name} {work.CHECKED} {work._SEED}".encode())
    for desc in case.shape.descs(case.which, case.dtype):
        made.update(desc.to_json().encode())
    rng = np.random.default_rng(work._SEED)
    made.update(rng.standard_normal(_PROBED, np.float32).tobytes() + rng.random(_PROBED, np.float32).tobytes())
    made.update(_definition())
    return made.hexdigest()


@cache
def _definition() -> bytes:
    """A hash of the files that define inputs and results."""
    package, made = Path(dmlpy.__file__).parent, hashlib.sha256()
    for path in (Path(work.__file__), package / "bench/shapes.py", *sorted((package / "reference").rglob("*.py"))):
        made.update(path.read_bytes())
    return made.digest()


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
            DmlError: it cannot be read, or is no such file.
        """
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
                index = json.loads(bytes(found[_INDEX]))
                checksums = {str(name): str(told["checksum"]) for name, told in index["cases"].items()}
                results = {
                    name: {str(result): found[f"{name}/{result}"] for result in told["results"]} for name, told in index["cases"].items()
                }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            raise DmlError(f"{path} is not a file of `python -m dmlpy.bench.references`: {error}") from error
        return cls(path.name, checksums, results)

    def check(self, cases: Iterable[Case]) -> None:
        """Compares the checksums of those of these cases that the file has.

        Raises:
            DmlError: a case's results are of another dmlpy.
        """
        stale = [case.name for case in cases if case.name in self._checksums and self._checksums[case.name] != checksum(case)]
        if stale:
            raise DmlError(
                f"{self.name} was made by another dmlpy: {', '.join(stale)} would be compared with results that are no longer those of the "
                f"definition; make it anew: python -m dmlpy.bench.references {self.name}"
            )

    def of(self, case: Case) -> Mapping[str, Array] | None:
        """A case's results, or None where the file has none."""
        return self._results.get(case.name)


def write(path: Path, cases: Iterable[Case]) -> None:
    """Computes the references of these cases and writes them.

    Raises:
        DmlError: the file cannot be written.
    """
    arrays: dict[str, Array] = {}
    index: dict[str, dict[str, object]] = {}
    for case in cases:
        results = case.work().reference()
        arrays |= {f"{case.name}/{name}": array.astype(np.float32) for name, array in results.items()}
        index[case.name] = {"checksum": checksum(case), "results": list(results)}
        print(f"{case.name}: {sum(array.size for array in results.values())} numbers", flush=True)
    text = json.dumps({"format": FORMAT, "dmlpy": dmlpy.__version__, "cases": index})
    unfinished = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as opened:
            np.savez_compressed(opened, allow_pickle=False, **{_INDEX: np.frombuffer(text.encode(), np.uint8), **arrays})
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
    given = parser.parse_args(arguments)
    try:
        write(given.file, [case_of(name) for name in given.cases or FIRST_LAYERS])
    except DmlError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
