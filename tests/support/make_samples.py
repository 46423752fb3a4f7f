"""Writes `dmlpy/inspection/samples.json`, the desc of each operator that `dmlpy explain` shows: `python -m tests.support.make_samples`.

DirectML's operators have the first of the valid descs in `facts/relations` that the NumPy device runs, dmlpy's own those of `own_descs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dmlpy
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from tests.support import facts_reader as facts
from tests.support import own_descs, relation_descs, stored_data

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


if __name__ == "__main__":
    assert set(samples()) == set(OPERATORS)
    stored_data.write(FILE, samples())
