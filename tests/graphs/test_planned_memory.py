"""The plan of a graph's memory: its items never overlap, and it is small."""

from __future__ import annotations

import gc
import random
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import x
from dmlpy.devices.graphs import buffers, memory_planner
from dmlpy.devices.graphs.memory_planner import ALIGNMENT, Item, MemoryPlan, plan_memory
from dmlpy.devices.graphs.views import moved_strides
from tests.support.graphs.network_shapes import NETWORKS
from tests.support.structure.growth import curvature
from tests.support.tables import table
from tests.support.tensors import tensor


def check_plan(plan: MemoryPlan) -> None:
    rows = list(zip(plan.items, plan.offsets, strict=True))
    for at, (item, offset) in enumerate(rows):
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= plan.size - item.size
        for other, place in rows[:at]:
            together = item.first <= other.last and other.first <= item.last
            apart = offset + item.size <= place or place + other.size <= offset
            assert apart or not together, (item, other)
    assert plan.lower_bound <= plan.size <= plan.separate_size


@pytest.mark.parametrize(
    ("items", "size"),
    [
        ([], 0),
        ([("a", 1, 0, 3)], 256),
        ([("a", 257, 0, 0)], 512),
        ([("a", 256, 0, 1), ("b", 256, 1, 2), ("c", 256, 2, 3)], 512),
        ([("a", 256, 0, 1), ("b", 512, 1, 2), ("c", 256, 2, 3), ("d", 512, 3, 4)], 768),
        # In order of execution the small one would cut the room of the large one in two.
        ([("small", 256, 0, 2), ("short", 512, 1, 1), ("large", 1024, 2, 3)], 1280),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)} items",
)
def test_known_plans(items: list[tuple[str, int, int, int]], size: int) -> None:
    plan = plan_memory(Item(*item) for item in items)
    check_plan(plan)
    assert plan.size == size == plan.lower_bound


@table("seed", range(20))
def test_a_plan_like_that_of_other_sizes_tries_no_other_order(seed: int) -> None:
    """For these sizes it is the same plan; items that are needed at other steps have a plan of their own."""
    draw = random.Random(seed)
    firsts = [draw.randint(0, 20) for _ in range(draw.randint(2, 40))]
    items = [Item(f"{at}", draw.randint(1, 5000), first, first + draw.randint(0, 6)) for at, first in enumerate(firsts)]
    plan = plan_memory(items)
    assert plan_memory(items, plan).offsets == plan.offsets
    others = [item._replace(size=draw.randint(1, 5000)) for item in items]
    found = plan_memory(others, plan)
    check_plan(found)
    assert (found.placed, found.method) == (plan.placed, plan.method)
    moved = [*items[:-1], items[-1]._replace(last=items[-1].last + 1)]
    assert plan_memory(moved, plan).offsets == plan_memory(moved).offsets


@table("seed", range(40))
def test_random_items_never_overlap(seed: int) -> None:
    draw = random.Random(seed)
    steps = draw.randint(1, 40)
    items = []
    for number in range(draw.randint(1, 60)):
        first = draw.randrange(steps)
        items.append(Item(str(number), draw.choice([1, 255, 256, 257, 4096, draw.randint(1, 10**6)]), first, draw.randint(first, steps)))
    check_plan(plan_memory(items))


@pytest.mark.parametrize("seed", range(20))
def test_a_list_of_gaps_finds_what_comparing_all_items_does(seed: int) -> None:
    draw = random.Random(seed)
    items = []
    for number in range(draw.randint(1, 80)):
        first = draw.randrange(40)
        items.append(Item(str(number), draw.choice([1, 256, 257, 4096, draw.randint(1, 10**5)]), first, first + draw.choice([0, 1, 3, 40])))
    beside = memory_planner._neighbours(items)
    assert beside is not None
    together = [{at for at, other in enumerate(items) if other.first <= item.last and item.first <= other.last} for item in items]
    assert [{*map(int, found)} | {at} for at, found in enumerate(beside)] == together
    assert memory_planner._places_in_order(items) == memory_planner._places(items, memory_planner._by_first_use(items), beside)


@pytest.mark.parametrize("seed", range(20))
def test_few_items_are_placed_as_many_are(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    items = []
    for number in range(draw.randint(2, memory_planner._FEW)):
        first = draw.randrange(8)
        items.append(Item(str(number), draw.choice([1, 256, 257, 4096, draw.randint(1, 10**5)]), first, first + draw.choice([0, 1, 3, 8])))
    found = plan_memory(items)
    monkeypatch.setattr(memory_planner, "_FEW", 0)
    assert found == plan_memory(items)


def test_more_items_at_once_than_can_be_compared_are_placed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(str(number), 256 * (1 + number % 7), number % 5, 9 + number % 3) for number in range(200)]
    monkeypatch.setattr(memory_planner, "_MOST_PAIRS", 200 * 199 - 1)
    plan = plan_memory(items)
    check_plan(plan)
    assert plan.method == "in order of execution"
    assert plan.size == plan.lower_bound


def test_planning_takes_work_in_proportion_to_the_items() -> None:
    def planned(count: int) -> Callable[[], MemoryPlan]:
        items = [Item(str(number), 256 + number % 1000, number, number + 2) for number in range(count)]
        many = [Item(str(number), 256 + number % 1000, 0, count) for number in range(count)]
        return lambda: (plan_memory(items), plan_memory(many))[0]

    assert curvature(planned, 2000) < 0.01


def test_a_plan_that_no_greedy_method_finds_is_found_by_improving() -> None:
    draw = random.Random(6)
    better = 0
    for _ in range(20):
        items = []
        for number in range(40):
            first = draw.randrange(40)
            items.append(Item(str(number), 256 * draw.randint(1, 40), first, min(40, first + draw.choice([1, 2, 3, 20]))))
        plan = plan_memory(items)
        check_plan(plan)
        better += plan.method.endswith("improved")
        assert plan.size <= 1.1 * plan.lower_bound
    assert better > 5


def test_live_bytes_are_those_of_each_step() -> None:
    plan = plan_memory([Item("a", 100, 0, 1), Item("b", 300, 1, 1), Item("c", 256, 3, 3)])
    assert plan.live_bytes == (256, 768, 0, 256)
    assert plan.lower_bound == 768
    assert plan.separate_size == 1024


def test_a_chain_holds_two_tensors_at_most() -> None:
    g = dml.GraphBuilder()
    x = g.input("x", tensor(1, 1, 1024, 1024))
    for number in range(32):
        x = g.add(dml.ActivationReluDesc, f"relu {number}", input_tensor=x)
    g.output("y", x)
    op = dml.compile(g.build(), "numpy")
    report = op.explain_plan()
    assert all(item.name.startswith("scratch of") for item in report.memory.items), "all tensors lie in the memory of the output"
    assert op.binding_properties.temporary_resource_size < 2**20
    assert report.in_place == tuple(f"relu {number}" for number in range(1, 32))


def test_a_chain_that_cannot_run_in_place_takes_turns_between_two_places() -> None:
    g = dml.GraphBuilder()
    x = g.input("x", tensor(1, 1, 64, 64))
    for number in range(32):
        x = g.add(dml.ActivationSoftmax1Desc, f"softmax {number}", input_tensor=x, axes=[3])
        x = g.add(
            dml.ElementWiseAddDesc, f"add {number}", a_tensor=x, b_tensor=x, output_tensor=tensor(1, 1, 64, 64, strides=[1, 1, 1, 64])
        )
    g.output("y", x)
    plan = dml.compile(g.build(), "numpy").explain_plan().memory
    check_plan(plan)
    tensors = [item for item in plan.items if not item.name.startswith("scratch of")]
    assert len(tensors) == 63
    assert plan.size == plan.lower_bound
    assert plan.size <= 4 * 64 * 64 * 4


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_need_hardly_more_than_the_lower_bound(name: str) -> None:
    report = dml.compile(NETWORKS[name](), "numpy").explain_plan()
    check_plan(report.memory)
    assert report.memory.size <= 1.02 * report.memory.lower_bound
    told = str(report)
    assert "of the lower bound of" in told
    assert report.order[0] in told


def test_a_dispatch_that_is_dropped_frees_its_memory_at_once() -> None:
    g = dml.GraphBuilder()
    first = g.add(dml.ActivationTanhDesc, input_tensor=g.input("x", tensor(4)))
    g.output("y", g.add(dml.ActivationSigmoidDesc, input_tensor=first))
    x, y = np.zeros(4, np.float32), np.empty(4, np.float32)
    dispatch = dml.compile(g.build(), "numpy").bind({"x": x}, {"y": y})
    dispatch()
    kept = weakref.ref(dispatch)
    gc.disable()
    try:
        del dispatch
        assert kept() is None
    finally:
        gc.enable()


def test_the_report_and_the_picture_name_every_item() -> None:
    op = dml.compile(NETWORKS["residual"](), "numpy")
    picture, report = op.memory_svg(), op.explain_plan()
    assert picture.startswith("<svg")
    assert picture.endswith("</svg>")
    assert picture.count("<rect") == len(report.memory.items) > 3
    for item in report.memory.items:
        assert item.name in picture
    assert op.memory_svg() in op._repr_html_()
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    steps = [int(label.split()[0]) for label in shown if re.fullmatch(r"\d+ (convolution|add) \d+", label)]
    assert len(steps) > 20
    assert steps == list(range(0, steps[-1] + 1, 2)), "an axis of steps, of which there is room for every second"
    labels = [label.rstrip("…") for label in shown if label.endswith("…") or label.startswith("add ")]
    assert len(labels) > 10, "boxes have names, shortened where there is less room"
    assert all(any(item.name.startswith(label) for item in report.memory.items) for label in labels)
    assert len(np.unique([item.name for item in report.memory.items])) == len(report.memory.items)


def test_a_chain_in_one_memory_is_planned_in_time_that_grows_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unrolled loop is a chain of thousands, whose values all lie in the same memory."""
    looked: list[int] = []

    def counted(*given: Any) -> Any:
        looked.append(1)
        return moved_strides(*given)

    monkeypatch.setattr(buffers, "moved_strides", counted)

    def looks(length: int) -> int:
        looked.clear()
        step, state = x.input("step", [4, 8]), x.input("start", [4, 8])
        for _ in range(length):
            state = state + step
        (-state).compile("numpy")
        return len(looked)

    assert looks(120) < 2.5 * looks(60)
