"""Opening and reporting a model takes work in proportion to its nodes, operands and tensors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx.helper import make_node

from dmlpy import onnx
from tests.support.onnx.models import model
from tests.support.structure.growth import curvature

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx import ModelProto

SIZES = [2, 3]


def chain(count: int) -> ModelProto:
    """Element-wise nodes behind each other: they run in place, and as chains where a device has those."""
    nodes = [make_node("Relu" if at % 4 else "Add", [f"t{at}"] + [f"c{at}"] * (at % 4 == 0), [f"t{at + 1}"]) for at in range(count)]
    constants = {f"c{at}": np.ones(SIZES, np.float32) for at in range(0, count, 4)}
    return model(nodes, {"t0": SIZES}, [f"t{count}"], constants=constants)


def products(count: int) -> ModelProto:
    nodes = [make_node("MatMul", [f"t{at}", f"w{at}"], [f"t{at + 1}"]) for at in range(count)]
    return model(nodes, {"t0": SIZES}, [f"t{count}"], constants={f"w{at}": np.ones((3, 3), np.float32) for at in range(count)})


def joined(count: int) -> ModelProto:
    """One node that reads many inputs of the model."""
    names = [f"t{at}" for at in range(count)]
    return model([make_node("Concat", names, ["y"], axis=0)], dict.fromkeys(names, SIZES), ["y"])


def split(count: int) -> ModelProto:
    """One node that writes many outputs of the model."""
    names = [f"t{at}" for at in range(count)]
    node = make_node("Split", ["x", "lengths"], names, axis=0)
    return model([node], {"x": [count, 3]}, names, constants={"lengths": np.ones(count, np.int64)})


def split_and_joined(count: int) -> ModelProto:
    """Views: neither node runs."""
    names, results = [f"t{at}" for at in range(count)], [f"r{at}" for at in range(count)]
    nodes = [make_node("Split", ["x", "lengths"], names, axis=0)]
    nodes += [make_node("Relu", [name], [result]) for name, result in zip(names, results, strict=True)]
    nodes += [make_node("Concat", results, ["y"], axis=0)]
    return model(nodes, {"x": [count, 3]}, ["y"], constants={"lengths": np.ones(count, np.int64)})


def returning(count: int) -> ModelProto:
    """Values that are needed for long, in an order that memory could be saved by."""
    nodes = [make_node("Softmax", [f"t{at}"], [f"t{at + 1}"]) for at in range(count)]
    nodes += [make_node("Add", [f"z{at}" if at else f"t{count}", f"t{count - 1 - at}"], [f"z{at + 1}"]) for at in range(count)]
    return model(nodes, {"t0": SIZES}, [f"z{count}"])


def turns(count: int) -> ModelProto:
    """Nodes that wait for their sizes, and one graph after the other."""
    nodes = []
    for at in range(count):
        nodes += [make_node("Det", [f"t{at}"], [f"d{at}"]), make_node("Add", [f"d{at}", "ones"], [f"t{at + 1}"])]
    return model(nodes, {"t0": [3, 3]}, [f"t{count}"], constants={"ones": np.ones((3, 3), np.float32)})


MODELS = (chain, products, joined, split, split_and_joined, returning, turns)


def opened(made: ModelProto) -> Callable[[], Any]:
    data = made.SerializeToString()
    return lambda: onnx.load(data).compile("cpu")


def reported(made: ModelProto) -> Callable[[], Any]:
    data = made.SerializeToString()
    return lambda: str(onnx.load(data).report())


USUAL = {opened: (turns,), reported: (chain, split)}
"""The models of each use whose rows a change runs; the others take as long and grow for the same reasons.
The time that a chain takes to open is measured below.
"""
ROWS = [pytest.param(use, make, marks=[pytest.mark.slow] * (make not in USUAL[use])) for use in USUAL for make in MODELS]


@pytest.mark.each_value
@pytest.mark.parametrize(("use", "make"), ROWS, ids=lambda function: function.__name__)
def test_calls_grow_with_the_nodes(use: Callable[[ModelProto], Callable[[], Any]], make: Callable[[int], ModelProto]) -> None:
    assert curvature(lambda count: use(make(count)), 32) < 0.02


def test_time_grows_with_the_nodes() -> None:
    """What C code looks at is not among the calls: copies of lists and dicts."""

    def seconds(count: int) -> float:
        use = opened(chain(count))
        started = time.process_time()
        use()
        return time.process_time() - started

    seconds(10)
    assert seconds(1200) < 10 * min(seconds(300) for _ in range(3)), "four times as many nodes"
