"""The descs that released programs build, and those that show a fact, as JSON data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def evidence_descs() -> list[dict[str, Any]]:
    """All of them, as `OperatorDesc.from_dict` reads them."""
    text = (Path(__file__).parent / "descs.json").read_text(encoding="utf-8")
    return [row["desc"] for row in json.loads(text)]
