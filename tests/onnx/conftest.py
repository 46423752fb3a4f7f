"""Mistakes in dmlpy are not hidden from its own tests: exceptions that nobody foresaw pass the wall around a node."""

from __future__ import annotations

import pytest

from dmlpy.onnx.nodes.unexpected_errors import UnexpectedErrors


@pytest.fixture(autouse=True)
def _mistakes_are_seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opens the wall, but for tests that ask for `walled`."""
    monkeypatch.setattr(UnexpectedErrors, "propagate", "walled" not in request.fixturenames)


@pytest.fixture
def walled() -> None:
    """Leaves the wall as users have it: for models that are damaged, or made to be wrong."""
