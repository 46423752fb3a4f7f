"""The folders of the tree that tests read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
DATA = TESTS / "data"
STORED_CASES = DATA / "cases"
MODELS = DATA / "models"
EXAMPLES = ROOT / "examples"
OPERATOR_RESULTS = DATA / "operators"
EXPORTED_MODELS = DATA / "exported"
"""ONNX models that exporters made."""
