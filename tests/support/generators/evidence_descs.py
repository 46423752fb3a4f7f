"""Writes `dmlpy/evidence/descs.json`, which `dmlpy conformance` asks DirectML about: `python -m tests.support.generators.evidence_descs`.

It has the descs that released programs build, and those that show a fact, if the C struct can hold them. With `--check` nothing is written:
the exit status shows whether the file is current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dmlpy
from dmlpy.conformance.layout import operator_struct
from dmlpy.description.descs import OperatorDesc
from dmlpy.messages.problems import DescError
from tests.support.generators import stored_data
from tests.support.released import RELEASED_DESCS
from tests.support.released.fact_descs import SHOWN

FILE = Path(dmlpy.__file__).parent / "evidence" / "descs.json"


def described() -> list[dict[str, Any]]:
    """Each desc with the program and its case, or the fact, and the feature level."""
    released = [{"source": row.source, "what": row.what, "level": row.level, "desc": row.complete.to_dict()} for row in RELEASED_DESCS]
    return [*released, *({"fact": row.fact, "level": row.level, "desc": row.desc.to_dict()} for row in SHOWN if _fits_struct(row.desc))]


def _fits_struct(desc: OperatorDesc) -> bool:
    """Whether C can express a desc: an array's length is not that of another one's count, and no tensor is missing that must be there."""
    try:
        operator_struct(OperatorDesc.from_dict(desc.to_dict()))
    except DescError:
        return False
    return not desc.is_extension


def main(arguments: list[str]) -> int:
    """Writes the file, or with `--check` reports whether it is out of date; returns the exit status."""
    current = FILE.is_file() and FILE.read_text(encoding="utf-8") == stored_data.text(FILE, described())
    if not current and "--check" not in arguments:
        stored_data.write(FILE, described())
    elif not current:
        print(f"{FILE.name} is not current: run python -m tests.support.generators.evidence_descs")
    return int(not current and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
