"""The layout of stored data: `python -m tests.support.generators.stored_data` lays out anew what was edited by hand.

What makes such a file writes it with `write`, so that making it again gives a diff of what has changed and of nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dmlpy.messages.json_text import lay_out
from tests.support.folders import ROOT
from tests.support.generators import relation_layout

ROW_DEPTHS: dict[str, int | None] = {
    "dmlpy/bench/records/predictions.json": None,
    "dmlpy/bench/records/*.json": 2,
    "dmlpy/dask/scaling.json": None,
    "dmlpy/evidence/descs.json": 1,
    "dmlpy/inspection/samples.json": 1,
    "dmlpy/onnx/lowering/host_operators.json": 1,
    "dmlpy/onnx/nodes/microsoft_requirements.json": 1,
    "tests/benchmarks/records/*.json": None,
    "tests/data/bench_record.json": 2,
    "tests/data/cases/index.json": 1,
    "tests/data/onnx_node_cases.json": None,
    "tests/data/onnx_runtime_node_cases.json": 2,
    "tests/data/operators/*.json": 2,
    "tests/data/pronounce.json": 1,
    "tests/facts/enums.json": None,
    "tests/facts/operators/*.json": None,
}
"""The `row_depth` of JSON by pattern; the first pattern that matches holds. The schemas have a command of their own."""
RELATIONS = "tests/facts/relations/*.toml"


def stored_files() -> list[Path]:
    """All files that the patterns match."""
    return sorted({path for pattern in [*ROW_DEPTHS, RELATIONS] for path in ROOT.glob(pattern)})


def lay_out_file(path: Path) -> str:
    """The text that a stored file should have."""
    stored = path.read_text(encoding="utf-8")
    return relation_layout.lay_out(stored) if path.suffix == ".toml" else text(path, json.loads(stored))


def text(path: Path, data: Any) -> str:
    """The text of a file of JSON that holds the data.

    Raises:
        KeyError: no pattern matches the file.
    """
    name = path.relative_to(ROOT)
    pattern = next((pattern for pattern in ROW_DEPTHS if name.match(pattern)), name.as_posix())
    return lay_out(data, row_depth=ROW_DEPTHS[pattern])


def write(path: Path, data: Any) -> None:
    """Writes a stored file."""
    path.write_text(text(path, data), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    for file in stored_files():
        file.write_text(lay_out_file(file), encoding="utf-8", newline="\n")
