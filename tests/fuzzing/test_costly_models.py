"""Small ONNX models that ask for much are answered within the time and the memory that the promises name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("onnx")
if sys.platform != "linux":
    pytest.skip("limits of a process are set as Linux does", allow_module_level=True)

from tests.fuzzing import costly_models, files, limited

REFUSED = {
    "functions that double": "onnx.limit",
    "a function with a large constant": "onnx.limit",
    "sparse tensors": "onnx.limit",
    "a branch with a long name": "onnx.limit",
    "a loop with a long name": "onnx.name",
    "a long symbol": "onnx.sizes",
    "12,000 branches": "onnx.limit",
    "20,000 nodes": "onnx.limit",
    "external data in holes": "onnx.limit",
    "external data in one large hole": "onnx.limit",
    "empty nodes": "onnx.limit",
    "empty initializers": "onnx.limit",
    "empty types": "onnx.limit",
    "Concat of 60,000": "onnx.limit",
    "Split into 60,000": "onnx.limit",
    "100,000 inputs": "onnx.limit",
}
"""The codes of what is refused: all else is accepted, since it can wait until the model runs."""


@pytest.fixture(scope="module")
def child() -> Iterator[limited.Child]:
    made = limited.Child("tests.fuzzing.files", files.SECONDS, files.MEGABYTES - OWN)
    yield made
    made.end()


OWN = 150
"""Megabytes that the process takes before it reads a file, those of all packages included: the promise counts them."""


SLOW = (
    *("a loop of 1900", "a loop of 2^62 with a condition", "100 loops of 10", "4 short loops within each other"),
    *("texts that double", "100,000 inputs", "12,000 branches", "300 branches on an input", "empty initializers", "empty types"),
)
"""Files that are another one with other numbers."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in costly_models.FILES])
def test_a_small_model_cannot_ask_for_much(name: str, child: limited.Child, tmp_path: Path) -> None:
    outcome = child.answer("model", costly_models.write(name, tmp_path))
    assert not outcome.broken, f"{outcome.told}, {outcome.seconds:.1f} s, {outcome.megabytes:.0f} MB"
    assert outcome.told == REFUSED.get(name, "accepted")
