"""Sums of weighted gathers that the CPU computes as one node: which become one, and that results stay the same bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

import dmlpy as dml
from dmlpy.devices.cpu.indexing import weighted_gather
from dmlpy.devices.graphs import weighted_gather_fusion
from dmlpy.graphs import GraphBuilder
from tests.support.tables import table
from tests.support.tensors import tensor

Change = Callable[["Sum"], Any]


class Sum:
    """A graph that adds up weighted gathers.

    Args:
        terms: their number.
        channels: of what is gathered.
        planes: whether channels are the outer dimension of the graph's input and output, which the graph transposes.
        places: the results of each batch.
    """

    def __init__(self, terms: int = 3, channels: int = 5, planes: bool = False, places: int = 7) -> None:
        self.g, self.terms, self.places, self.sizes = GraphBuilder("sum"), terms, places, (2, 6, channels)
        self.planes = planes
        self.data = self.input_of("x")

    def input_of(self, name: str) -> Any:
        batch, elements, channels = self.sizes
        if not self.planes:
            return self.g.input(name, tensor(*self.sizes))
        return self.turned(self.g.input(name, tensor(batch, channels, elements)), elements, channels)

    def turned(self, x: Any, rows: int, columns: int) -> Any:
        seen = x.viewed(tensor(2, rows, columns, strides=[rows * columns, 1, rows]))
        return self.g.add(dml.ElementWiseIdentityDesc, "", input_tensor=seen, output_tensor=tensor(2, rows, columns))

    def gather(self, term: int, data: Any = None) -> Any:
        indices = self.g.input(f"indices{term}", tensor(2, self.places, 1, data_type="UINT32"))
        members = {"input_dimension_count": 3, "indices_dimension_count": 3, "batch_dimension_count": 1}
        inputs = {"input_tensor": self.data if data is None else data, "indices_tensor": indices}
        return self.g.add(dml.GatherND1Desc, f"gather{term}", output_tensor=self.result, **inputs, **members)

    def term(self, term: int, data: Any = None, *, of_channels: bool = False, first: bool = True) -> Any:
        weight = self.g.input(f"weight{term}", tensor(2, self.places, self.sizes[2] if of_channels else 1))
        if not of_channels:
            weight = weight.viewed(tensor(2, self.places, self.sizes[2], strides=[self.places, 1, 0]))
        return self.product(self.gather(term, data), weight) if first else self.product(weight, self.gather(term, data))

    def product(self, x: Any, y: Any) -> Any:
        return self.g.add(dml.ElementWiseMultiplyDesc, "", a_tensor=x, b_tensor=y, output_tensor=self.result)

    def plus(self, x: Any, y: Any) -> Any:
        return self.g.add(dml.ElementWiseAddDesc, "", a_tensor=x, b_tensor=y, output_tensor=self.result)

    def total(self) -> Any:
        total = self.term(0)
        for term in range(1, self.terms):
            total = self.plus(total, self.term(term, first=bool(term % 2)))
        return total

    @property
    def result(self) -> dml.TensorDesc:
        return tensor(2, self.places, self.sizes[2])

    def compiled(self, total: Any) -> tuple[dml.CompiledGraph, dml.CompiledGraph]:
        """The graph as it runs, and with each node by itself."""
        self.g.output("y", self.turned(total, self.sizes[2], self.places) if self.planes else total)
        graph = self.g.build()
        return dml.compile(graph, "cpu"), dml.compile(graph, "cpu", fuse=False)


def same(whole: dml.CompiledGraph, apart: dml.CompiledGraph) -> None:
    """Both give the same floats, also where indices are out of range."""
    rng = np.random.default_rng(7)
    given = {}
    for name, desc in whole.inputs.items():
        kind = desc.data_type.numpy
        values = rng.integers(0, 8, desc.sizes) if kind.kind == "u" else rng.standard_normal(desc.sizes)
        given[name] = values.astype(kind)
    first = next(name for name in given if name.startswith("indices"))
    given[first][0, 0] = 2**32 - 1
    found, expected = (graph(**given).as_dict() for graph in (whole, apart))
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
        assert len(np.unique(array)) > 3


@table("terms, channels, places", [(2, 1, 7), (4, 3, 9), (4, 5, 1), (2, 6, 5)])
def test_planes_are_sampled_without_copies(terms: int, channels: int, places: int) -> None:
    own = Sum(terms, channels, True, places)
    whole, apart = own.compiled(own.total())
    report = whole.explain_plan()
    assert f"sums of {terms} gathers along places" in whole.plan
    assert len(report.order) == 1, report.order
    same(whole, apart)


@table("terms, channels", [(2, 1), (2, 3), (3, 16), (3, 17), (16, 35)])
def test_rows_of_channels(terms: int, channels: int) -> None:
    own = Sum(terms, channels)
    whole, apart = own.compiled(own.total())
    assert f"sums of {terms} gathers along {'channels' if channels > 1 else 'places'}" in whole.plan
    same(whole, apart)


@pytest.mark.parametrize("planes", [True, False])
def test_threads_share_pieces_of_places(planes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_gather, "_PLACES_OF_PIECE", 4)
    monkeypatch.setattr(weighted_gather, "_WORK_OF_A_THREAD", 1)
    monkeypatch.setattr(weighted_gather, "available_threads", lambda: 2)
    own = Sum(2, 5, planes, 11)
    whole, apart = own.compiled(own.total())
    assert "on 2 threads" in whole.plan
    same(whole, apart)


def read_twice(own: Sum) -> Any:
    product = own.term(0)
    own.g.output("product", own.plus(product, product))
    return own.plus(product, own.term(1))


def given_besides(own: Sum) -> Any:
    total = own.plus(own.term(0), own.term(1))
    own.g.output("sum", total)
    return own.product(total, own.term(2))


def summed(own: Sum) -> Any:
    """The order of additions would be another one."""
    return own.plus(own.plus(own.term(0), own.term(1)), own.plus(own.term(2), own.term(3)))


REST: dict[str, tuple[Change, int]] = {
    "one gather": (lambda own: own.plus(own.term(0), own.g.input("z", own.result)), 0),
    "weights of channels": (lambda own: own.plus(own.term(0), own.term(1, of_channels=True)), 0),
    "other data": (lambda own: own.plus(own.term(0), own.term(1, own.input_of("z"))), 0),
    "gather without weights": (lambda own: own.plus(own.term(0), own.gather(1)), 0),
    "too many terms": (Sum.total, 16),
    "read twice": (read_twice, 0),
    "output of the graph": (given_besides, 2),
    "sum of sums": (summed, 4),
}


@table("name", REST)
def test_what_stays_apart(name: str) -> None:
    """Of sums that are not whole, parts may be; the number is that of the terms which are in one."""
    build, terms = REST[name]
    own = Sum(17 if name == "too many terms" else 3)
    whole, apart = own.compiled(build(own))
    found = [int(count) for count in re.findall(r"sums of (\d+) gathers", whole.plan)]
    assert sum(found) == terms
    same(whole, apart)


def test_long_sums_take_a_time_of_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sum of a chain ends the search for terms soon, which does not recurse."""
    searched = MagicMock(side_effect=weighted_gather_fusion._term)
    monkeypatch.setattr(weighted_gather_fusion, "_term", searched)
    own, length = Sum(40), 1000
    total, other = own.total(), own.g.input("z", own.result)
    for _ in range(length):
        total = own.plus(total, other)
    own.g.output("y", total)
    compiled = dml.compile(own.g.build(), "cpu")
    assert re.findall(r"sums of (\d+) gathers", compiled.plan) == ["16"]
    assert searched.call_count <= length + 18 * own.terms
