"""Writes `dmlpy/inspection/samples.json`, the desc of each operator that `dmlpy explain` shows: `python -m
tests.support.generators.samples`.

With `--check` nothing is written: the exit status shows whether the file is current.
DirectML's operators have the first of the valid descs in `facts/relations` that the NumPy device runs, dmlpy's own those of `own_descs`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dmlpy
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from tests.support.descs import facts_reader as facts
from tests.support.descs import own_descs, relation_descs
from tests.support.generators import stored_data

FILE = Path(dmlpy.__file__).parent / "inspection" / "samples.json"


def samples() -> dict[str, Any]:
    """The members of every sample by type name, in the C spelling."""
    numpy = dmlpy.device("numpy")
    found = {name: own_descs.own_desc(name).to_dict()["Desc"] for name in own_descs.OWN}
    for name in facts.operators():
        descs = [OperatorDesc.from_dict(relation_descs.data(name, valid.members)) for valid in relation_descs.valid_descs(name)]
        # A desc that runs, if any does, makes the better example.
        found[name] = next((desc for desc in descs if numpy.plan(desc) is not None), descs[0]).to_dict()["Desc"]
    return dict(sorted(found.items()))


def main(arguments: list[str]) -> int:
    """Writes the file, or with `--check` reports whether it is out of date; returns the exit status."""
    assert set(samples()) == set(OPERATORS)
    current = FILE.read_text(encoding="utf-8") == stored_data.text(FILE, samples())
    if not current and "--check" not in arguments:
        stored_data.write(FILE, samples())
    elif not current:
        print(f"{FILE.name} is not current: run python -m tests.support.generators.samples")
    return int(not current and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
