"""A plugin for pytest: a row of each test for each operator first, then all other rows, last a sample of those of batch normalization."""

from __future__ import annotations

import pytest

from dmlpy.description.descs import OperatorDesc

SAMPLED, SAMPLE = "tests/devices/test_batch_normalization", 10
"""How the files begin of whose tests each tenth is taken only: they are a third of all others."""


@pytest.hookimpl(trylast=True)  # of those that were chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    firsts: dict[tuple[str, str], pytest.Item] = {}
    for item in items:
        firsts.setdefault((item.nodeid.partition("[")[0], operator_of(item)), item)
    sampled = [item for item in items if item.nodeid.startswith(SAMPLED)]
    left = {item: None for item in (*firsts.values(), *items) if item not in set(sampled)}
    chosen = [*left, *sampled[::SAMPLE]]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen


def operator_of(item: pytest.Item) -> str:
    """The operator that one of a test's parameters is or describes; empty where none does."""
    callspec = getattr(item, "callspec", None)
    kinds = [] if callspec is None else [value if isinstance(value, type) else type(value) for value in callspec.params.values()]
    return next((kind.__name__ for kind in kinds if issubclass(kind, OperatorDesc)), "")
