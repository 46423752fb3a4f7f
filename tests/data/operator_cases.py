"""What the scripts that compute results of single operators anew share: collect the cases, compare them with the stored ones, replace them.

A system's cases are two files. `operators/SYSTEM.json` lists them; each array has its type, its sizes and, where the desc broadcasts it,
the sizes that it is broadcast to; texts are bytes with zeros between them, and have their own sizes. `operators/SYSTEM.npz` has one flat
array for each type: the numbers of all arrays of that type, in the order of the list. (An array of its own for each would take 400 bytes
more.)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.generators import stored_data

FOLDER = Path(__file__).parent / "operators"
LIMIT = 1e-6
"""The difference, relative to numbers of at least 0.01, above which a script fails: versions of a system sum in different orders."""

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array | Sequence[Array]]


class Cases:
    """The cases of a system, numbered by operator.

    Args:
        system: name and version of the program that computes the outputs.
        file: name of the files, without their extensions.
    """

    def __init__(self, system: str, file: str) -> None:
        self.system = system
        self.entries: list[dict[str, Any]] = []
        self._numbers: dict[str, list[Array]] = {}
        self._file = file
        self._counts: dict[str, int] = {}

    def add(self, operator: str, peer: str, inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any] | None = None) -> None:
        """Adds a case.

        Args:
            operator: short name of the operator of DirectML.
            peer: what computed the outputs: an operator or function of the system.
            inputs: arrays by field name of the desc, each with the sizes of its tensor; a list for a field that has several.
            outputs: the results likewise; booleans become UINT8, as DirectML has them.
            attributes: the other members of the desc, by name.
        """
        number = self._counts[operator] = self._counts.get(operator, 0) + 1
        entry: dict[str, Any] = {"case": f"{operator.lower()}_{number}", "operator": operator, "peer": peer}
        entry["attributes"] = dict(attributes or {})
        for direction, arrays in (("inputs", inputs), ("outputs", outputs)):
            entry[direction] = {
                field: [self._keep(item) for item in value] if isinstance(value, list | tuple) else self._keep(value)
                for field, value in arrays.items()
            }
        self.entries.append(entry)

    def _keep(self, array: Array) -> dict[str, Any]:
        if array.dtype.kind == "O":
            text = np.frombuffer("\0".join(array.ravel().tolist()).encode(), np.uint8)
            return {**self._keep(text), "texts": list(array.shape)}
        kept = once(array).astype(np.uint8) if array.dtype == bool else once(array)
        self._numbers.setdefault(kept.dtype.name, []).append(kept.reshape(-1))
        broadcast = {"broadcast": list(array.shape)} if kept.shape != array.shape else {}
        return {"type": kept.dtype.name, "sizes": list(kept.shape), **broadcast}

    def main(self, description: str | None) -> None:
        """Compares the cases with the stored ones, or with --write replaces these."""
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--write", action="store_true", help="replace the stored cases")
        write = parser.parse_args().write
        numbers = {name: np.concatenate(arrays) for name, arrays in self._numbers.items()}
        arrays, index = FOLDER / f"{self._file}.npz", FOLDER / f"{self._file}.json"
        if write:
            FOLDER.mkdir(exist_ok=True)
            np.savez_compressed(arrays, **numbers)
            stored_data.write(index, {"system": self.system, "cases": self.entries})
            print(f"{len(self.entries)} cases written, {arrays.stat().st_size + index.stat().st_size:,} bytes")
            return
        if json.loads(index.read_text())["cases"] != json.loads(json.dumps(self.entries)):
            raise SystemExit("the stored cases have other entries")
        with np.load(arrays) as file:
            worst = max(difference(file[name], anew) for name, anew in numbers.items())
        print(f"{len(self.entries)} cases: the largest relative difference is {worst:.1e}")
        if worst > LIMIT:
            raise SystemExit(f"the stored outputs differ from {self.system}")


def once(array: Array) -> Array:
    """An array without the copies that broadcasting made of it."""
    strides = zip(array.strides, array.shape, strict=True)
    kept = array[tuple(slice(0, 1) if stride == 0 and size > 1 else slice(None) for stride, size in strides)]
    return np.ascontiguousarray(kept).reshape(kept.shape)  # NumPy makes a vector of a scalar


def difference(kept: Array, anew: Array) -> float:
    """The largest relative difference of two arrays; infinite where sizes or numbers that are not finite differ."""
    if kept.shape != anew.shape:
        return np.inf
    one, other = kept.astype(np.float64), anew.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return np.inf
    error = np.abs(one[finite] - other[finite]) / np.maximum(np.abs(other[finite]), 0.01)
    return float(np.max(error, initial=0.0))
