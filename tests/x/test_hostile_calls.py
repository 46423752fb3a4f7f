"""Arguments of hostile callers: expressions and graph builders answer all of them with a result or dmlpy's errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import x
from dmlpy.graphs import GraphBuilder
from dmlpy.x.calls import MOST_OPERANDS
from tests.fuzzing.hostile import OF_SIGNATURES, Raises, RaisingInteger, RaisingMapping
from tests.support.tensors import tensor


class RaisesKeyError:
    """What is not an integer and raises another error than what is expected of it."""

    def __index__(self) -> int:
        raise KeyError("hostile")

    def __getattr__(self, name: str) -> Any:
        raise BufferError(name)

    def __repr__(self) -> str:
        raise RuntimeError("hostile")


VALUES: list[Any] = [
    *(None, True, 0, -1, 2, 5, 10**400, -(10**400), 2.5, float("nan"), float("inf"), "s", b"b", 1j, slice(None), ..., int, object()),
    *([], [1, 2], [10**400], ["a"], {}, {"Scale": "x"}, set(), [None], [1] * 70, [[1, 2], [3]], [True, 2], range(3)),
    *(np.zeros(3), np.zeros((2, 2), int), np.array("x"), np.array(5), np.datetime64("now"), np.bool_(True), np.float64(2.5), np.nan),
    *(Raises(), RaisesKeyError(), [Raises()], [RaisesKeyError()], lambda: 0),
    *(dml.ActivationReluDesc, dml.ActivationReluDesc(), tensor(1), x.input("other", [2, 3])),
]


def raised(call: Callable[[Any], object]) -> Iterator[str]:
    """What a call raises other than dmlpy's errors, for each of the values; an error on the number of arguments is allowed."""
    for index, value in enumerate(VALUES):
        try:
            call(value)
        except dml.DmlError:
            pass
        except Exception as error:
            if not (isinstance(error, TypeError) and OF_SIGNATURES.search(str(error))):
                yield f"value {index}: {type(error).__name__}"


def nested(depth: int) -> list[Any]:
    found: list[Any] = [1]
    for _ in range(depth):
        found = [found] * 2  # each list has two more below it
    return found


VALUES += [nested(3), nested(60), nested(2000), RaisingInteger(2), [RaisingInteger(2)], RaisingMapping(a=1), [10**5000, 1]]


def floats() -> Any:
    return x.input("floats", [2, 3])


def integers() -> Any:
    return x.input("integers", [2, 3], data_type="INT32")


def nibbles() -> Any:
    return x.input("nibbles", [2, 4], data_type="INT4")


def joined(node: Any, slot: Any) -> dml.Graph:
    """A graph with an edge to a node and a slot."""
    relu = dml.ActivationReluDesc(input_tensor=tensor(2, 3), output_tensor=tensor(2, 3))
    edge = {"graph_input_index": 0, "to_node_index": node, "to_node_input_index": slot}
    return dml.Graph(nodes=[relu], input_count=1, output_count=1, input_edges=[edge])


def value() -> Any:
    return GraphBuilder().input("a", tensor(2, 3))


CALLS: dict[str, Callable[[Any], object]] = {
    "a sum": lambda given: floats() + given,
    "a remainder": lambda given: floats() % given,
    "a power": lambda given: given ** floats(),
    "a sum of integers": lambda given: integers() + given,
    "a sum of nibbles": lambda given: nibbles() + given,
    "a comparison": lambda given: floats() < given,
    "a product": lambda given: floats() @ given,
    "an index": lambda given: floats()[given],
    "two indices": lambda given: floats()[0, given],
    "reshape": lambda given: floats().reshape(given),
    "reshape, another size": lambda given: floats().reshape(2, given),
    "transpose": lambda given: floats().transpose(given),
    "broadcast": lambda given: floats().broadcast(4, 2, given),
    "leading ones": lambda given: floats().with_leading_ones(given),
    "slice": lambda given: floats().slice(given, [1, 1]),
    "slice, sizes": lambda given: floats().slice([0, 0], given),
    "slice, strides": lambda given: floats().slice([0, 0], [1, 1], given),
    "an operator": lambda given: x.operator(given, input_tensor=floats()),
    "a graph": x.graph,
    "inputs of a graph": lambda given: x.graph(floats(), inputs=given),
    "flags": lambda given: x.compile(floats(), flags=given),
    "a split": lambda given: x.split(given, axis=0, output_axis_sizes=[1]),
    "sizes of a resampled tensor": lambda given: x.resample(floats(), interpolation_mode="NEAREST_NEIGHBOR", output_sizes=given),
    "a length of one-hot vectors": lambda given: x.one_hot(integers(), np.ones([1, 2], np.float32), axis=1, output_length=given),
    "a window": lambda given: x.average_pooling(floats(), window_size=given, include_padding=False),
    "the node of an edge": lambda given: joined(given, "InputTensor"),
    "the nodes of a graph": lambda given: dml.Graph(nodes=given, input_count=0, output_count=0),
    "the slot of an edge": lambda given: joined(0, given),
    "a view in a builder": lambda given: value().reshape(given),
    "transpose in a builder": lambda given: value().transpose(0, given),
    "broadcast in a builder": lambda given: value().broadcast(given, 3),
    "a desc of a view": lambda given: value().viewed(given),
    "a constant": lambda given: GraphBuilder().constant("name", given),
    "an input": lambda given: GraphBuilder().input("name", given),
    "an operator of a builder": lambda given: GraphBuilder().add(given),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_argument_of_any_kind_is_taken_or_refused(call: Callable[[Any], object]) -> None:
    assert [*raised(call)] == []


def _called(function: Callable[..., object], argument: str, given: Any) -> object:
    return function(floats(), **{argument: given})


def _function_calls() -> Iterator[Callable[[Any], object]]:
    """Each function of expressions with one argument left to the caller, by its name or in first place."""
    for name in dir(x):
        function: Any = getattr(x, name)
        if name.startswith("_") or inspect.isclass(function) or not callable(function):
            continue
        yield function
        for argument in list(inspect.signature(function).parameters)[1:]:
            yield partial(_called, function, argument)


def test_functions_take_or_refuse_arguments_of_any_kind() -> None:
    """A sample of all functions and arguments."""
    calls = Random(1).sample([*_function_calls()], 120)
    assert [text for call in calls for text in raised(call)] == []


@pytest.mark.slow
def test_all_functions_take_or_refuse_arguments_of_any_kind() -> None:
    assert [text for call in _function_calls() for text in raised(call)] == []


@pytest.mark.parametrize("given", [float("nan"), float("inf"), 10**400, 2.5], ids=["NaN", "infinity", "huge", "fraction"])
def test_a_number_that_no_element_holds_is_reported(given: float) -> None:
    with pytest.raises(dml.DescError, match=r"that (INT32|a float) holds"):
        integers() + given


def test_indices_of_the_largest_are_reduced_to() -> None:
    """REDUCE has a type of its own for the outputs of some functions."""
    assert x.reduce(floats(), function="ARGMAX").data_type is dml.DataType.UINT32


@pytest.mark.parametrize("member", ["nodes", "input_edges", "intermediate_edges", "input_names", "output_tensors"])
def test_a_graph_waits_for_no_endless_list(member: str) -> None:
    with pytest.raises(dml.DescError):
        dml.Graph(**{"nodes": [], "input_count": 0, "output_count": 0, member: range(10**12)})


@pytest.mark.parametrize("wanted", [(-2, -3, -1), (0, -1), (-1, -1), (-6, -1), (-2, -3)])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 0)])
def test_sizes_of_a_reshape_are_positive(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    value = x.input("v", tensor(6)).viewed(tensor(*sizes))
    with pytest.raises(dml.DescError, match="one may be -1"):
        value.reshape(*wanted)


def test_an_index_is_read_without_its_own_methods() -> None:
    node = {"operator": dml.ActivationReluDesc(input_tensor=tensor(2), output_tensor=tensor(2))}
    edge = {"graph_input_index": 0, "to_node_index": RaisingInteger(0), "to_node_input_index": "InputTensor"}
    graph = dml.Graph(nodes=[node], input_count=1, output_count=0, input_edges=[edge])
    assert (graph.input_edges[0].to_node_index, graph.input_edges[0].to_node_input_index) == (0, 0)


def test_operands_whose_iterator_raises_are_reported() -> None:
    with pytest.raises(dml.DescError, match=r"input_tensors .* a list of expressions"):
        x.join(RaisingMapping(a=1), axis=0)


def test_operands_without_an_end_are_refused() -> None:
    given = iter(range(MOST_OPERANDS + 10))
    with pytest.raises(dml.DescError, match=f"input_tensors .* a list of at most {MOST_OPERANDS} expressions"):
        x.join(given, axis=0)
    assert len(list(given)) == 9, "no more are read"
