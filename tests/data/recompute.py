"""What the scripts that compute stored cases anew share: read the inputs, compare the outputs, replace them if asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "cases"
LIMIT = 1e-6
"""The relative difference above which a script fails: the peers sum in another order."""

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def main(description: str | None, peer: str, cases: str, compute: Callable[[dict[str, Any], Arrays], Arrays]) -> None:
    """Runs a script.

    Args:
        description: its docstring.
        peer: name and version of the library.
        cases: which cases, as a pattern of `fnmatch`.
        compute: the outputs of a case, by name, of its entry in index.json and its inputs.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the stored outputs")
    write = parser.parse_args().write
    worst = 0.0
    for entry in json.loads((FOLDER / "index.json").read_text()):
        if not fnmatchcase(entry["case"], cases):
            continue
        path = FOLDER / f"{entry['case']}.npz"
        with np.load(path) as file:
            stored = {name: file[name] for name in file.files}
        inputs = {name.removeprefix("in."): array for name, array in stored.items() if name.startswith("in.")}
        computed = compute(entry, inputs)
        if {f"out.{name}" for name in computed} != {name for name in stored if name.startswith("out.")}:
            raise SystemExit(f"{entry['case']}: the outputs of {peer} are {', '.join(sorted(computed))}")
        difference = max(float(np.linalg.norm(stored[f"out.{name}"] - array) / np.linalg.norm(array)) for name, array in computed.items())
        worst = max(worst, difference)
        print(f"{entry['case']:45} {difference:.1e}")
        if write:
            kept = {name: array for name, array in stored.items() if name.startswith("in.")}
            np.savez_compressed(path, **kept, **{f"out.{name}": array for name, array in computed.items()})
    if worst > LIMIT:
        raise SystemExit(f"the stored outputs differ from {peer} by {worst:.1e}")
