"""What tests of dmlpy.torch share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors are bound where they are, as large ones are: no call is staged."""
    from dmlpy.torch import calls, modules, operators

    monkeypatch.setattr(calls, "_MOST_STAGED_BYTES", -1)
    monkeypatch.setattr(modules, "key_of", lambda *_: None)  # modules know staged calls of before
    caches = operators._network_call, operators._gradient_call
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
