"""The order in which nodes run: one that needs less memory, where one is found."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.graphs.scheduler import MOST_TASKS, Task, TaskGraph
from tests.support.graphs.network_shapes import NETWORKS
from tests.support.graphs.random_graphs import random_graph
from tests.support.tensors import tensor


def drawn(seed: int, count: int) -> TaskGraph:
    """Tasks that each write a block and read some of those before, now and then in place."""
    draw = random.Random(seed)
    sizes: dict[Any, int] = {number: 256 * draw.choice([1, 2, 4, 8, 16, 64]) for number in range(count)}
    reads = [{draw.randrange(number) for _ in range(draw.choice([0, 1, 1, 2, 3])) if number} for number in range(count)]
    return TaskGraph(
        {
            number: Task(
                frozenset(read),
                frozenset({number, *read}),
                256 * draw.choice([0, 0, 8]),
                {number: [other for other in read if sizes[other] == sizes[number]]} if draw.random() < 0.5 else {},
            )
            for number, read in enumerate(reads)
        },
        sizes,
        [draw.randrange(count)],
    )


def least_peak(work: TaskGraph) -> int:
    """The least that any order needs, by trying all of them."""
    best: dict[frozenset[int], tuple[int, tuple[int, ...]]] = {frozenset(): (0, ())}
    for _ in work.tasks:
        following: dict[frozenset[int], tuple[int, tuple[int, ...]]] = {}
        for done, (_, order) in best.items():
            for number, task in work.tasks.items():
                if number not in done and task.after <= done:
                    found = work.peak((*order, number)), (*order, number)
                    following[done | {number}] = min(following.get(done | {number}, found), found)
        best = following
    [(peak, _)] = best.values()
    return peak


@pytest.mark.parametrize("count", [1, 5, 40, 300])
def test_the_order_found_is_one_and_needs_no_more(count: int) -> None:
    better = 0
    for seed in range(8):
        work = drawn(seed, count)
        order = work.order(range(count))
        places = {number: place for place, number in enumerate(order)}
        assert sorted(places) == list(range(count))
        assert all(places[other] < places[number] for number, task in work.tasks.items() for other in task.after)
        assert order == work.order(range(count)), "the same each time"
        better += work.peak(order) < work.peak(range(count))
    assert better >= 6 or count <= 5


def test_the_order_found_is_hardly_worse_than_the_best() -> None:
    ratios = []
    for seed in range(10):
        work = drawn(seed, 9)
        ratios.append(work.peak(work.order(range(9))) / least_peak(work))
    assert max(ratios) <= 1.1
    assert sum(ratios) / len(ratios) <= 1.02


@pytest.mark.parametrize("count", [3, MOST_TASKS + 1])
def test_an_order_that_cannot_be_bettered_or_is_too_long_stays(count: int) -> None:
    tasks = {number: Task(frozenset(), frozenset([number]), 0, {}) for number in range(count)}
    given = [*range(1, count), 0]
    assert TaskGraph(tasks, dict.fromkeys(tasks, 256)).order(given) == tuple(given)


def wide() -> dml.Graph:
    """Four large values are computed first, and each is reduced to a small one that the sum needs."""
    g = dml.GraphBuilder("wide")
    x = g.input("x", tensor(1, 1, 8, 1024))
    members: dict[str, Any] = {"axes": [3]}
    large = [g.add(dml.ActivationSoftmax1Desc, f"softmax {number}", input_tensor=x, **members) for number in range(4)]
    small = [g.add(dml.ReduceDesc, f"sum {number}", input_tensor=value, function="L2", axes=[3]) for number, value in enumerate(large)]
    total = small[0]
    for number, value in enumerate(small[1:]):
        total = g.add(dml.ElementWiseAddDesc, f"total {number}", a_tensor=total, b_tensor=value)
    g.output("y", total)
    return g.build()


def test_large_values_are_used_up_before_others_are_made(any_device: dml.Device) -> None:
    op = dml.compile(wide(), any_device)
    report = op.explain_plan()
    assert report.order[:4] == ("softmax 0", "sum 0", "softmax 1", "sum 1")
    sizes = [item.size for item in report.memory.items if item.name.startswith("softmax")]
    assert sizes == [4 * 8 * 1024] * 4
    assert report.memory.size < 3 * sizes[0]
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 1024), np.float32)
    found = any_device.to_host(op(x=any_device.from_host(x)).y)
    plain = any_device.to_host(op.trace(x=any_device.from_host(x))["total 2"])
    np.testing.assert_array_equal(found, plain)


def test_a_node_behind_a_view_waits_for_what_the_view_is_of() -> None:
    """The last node reads a part of a value by strides: the slice does not run, and does not constrain the order."""
    g = dml.GraphBuilder("behind a view")
    x = g.input("x", tensor(1, 1, 64, 64))
    large = g.add(dml.ActivationSoftmax1Desc, "large", input_tensor=x, axes=[3])
    part = g.add(dml.SliceDesc, "part", input_tensor=large, offsets=[0] * 4, slice_sizes=[1, 1, 1, 8], strides=[1] * 4)
    others = [g.add(dml.ActivationSoftmax1Desc, f"other {number}", input_tensor=x, axes=[2]) for number in range(2)]
    g.output("rest", g.add(dml.ElementWiseAddDesc, "rest", a_tensor=others[0], b_tensor=others[1]))
    g.output("y", g.add(dml.ActivationSoftmax1Desc, "end", input_tensor=part, axes=[3]))
    report = dml.compile(g.build(), "numpy").explain_plan()
    assert report.views == ("part",)
    assert report.order.index("large") < report.order.index("end")


def test_no_order_is_searched_if_a_node_alone_fills_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last product reads both halves of it. What nodes write in place of others counts as nothing: no output of GEMM does."""
    g = dml.GraphBuilder("products")
    x = g.input("x", tensor(1, 1, 16, 16))
    first = g.add(dml.GEMMDesc, "first", a_tensor=x, b_tensor=x)
    left = g.add(dml.GEMMDesc, "left", a_tensor=first, b_tensor=x)
    right = g.add(dml.GEMMDesc, "right", a_tensor=x, b_tensor=x, trans_b="TRANSPOSE")
    g.output("y", g.add(dml.GEMMDesc, "last", a_tensor=left, b_tensor=right))
    graph = g.build()
    monkeypatch.setattr(TaskGraph, "order", lambda work, given: pytest.fail("an order is searched"))
    report = dml.compile(graph, "numpy").explain_plan()
    assert (report.order, report.memory.size) == (("first", "left", "right", "last"), 2 * 16 * 16 * 4)


def test_most_graphs_with_branches_need_less_than_in_the_given_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks here are in an order that cannot be improved."""
    graphs = [*(build() for build in NETWORKS.values()), *(random_graph(1000 + seed, nodes=16) for seed in range(12))]
    found = [dml.compile(graph, "numpy").explain_plan().memory.size for graph in graphs]
    monkeypatch.setattr(TaskGraph, "order", lambda work, given: tuple(given))
    before = [dml.compile(graph, "numpy").explain_plan().memory.size for graph in graphs]
    assert found[: len(NETWORKS)] == before[: len(NETWORKS)]
    assert all(new <= old for new, old in zip(found, before, strict=True))
    assert sum(new < old for new, old in zip(found, before, strict=True)) >= 6
