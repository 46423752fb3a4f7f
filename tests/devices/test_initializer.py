"""Operators and graphs are prepared together, in memory of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.graphs.network_shapes import lstm_stack
from tests.support.tensors import tensor

RNG = np.random.default_rng(4)


def values(*sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes, dtype=np.float32)


def rnn() -> dml.RNNDesc:
    return dml.RNNDesc(
        input_tensor=tensor(1, 3, 2, 4), weight_tensor=tensor(1, 1, 5, 4), recurrence_tensor=tensor(1, 1, 5, 5),
        activation_descs=[dml.ActivationTanhDesc()], direction="FORWARD",
    ).with_outputs("output_single_tensor")  # fmt: skip


def owning() -> dml.Graph:
    g = dml.GraphBuilder("owning")
    w = g.input("w", tensor(1, 1, 4, 4, flags="OWNED_BY_DML"))
    g.output("y", g.add(dml.GEMMDesc, a_tensor=g.input("x", tensor(1, 1, 4, 4)), b_tensor=w))
    return g.build()


def memory(device: dml.Device, size: int) -> tuple[dml.Buffer, Any]:
    block = device.from_host(np.full(size + 256, 0x7F, np.uint8))
    start = device.view(block).pointer
    return dml.Buffer(start + -start % 256, size), block


def test_operators_and_graphs_are_prepared_at_once(any_device: dml.Device) -> None:
    relu = tensor(3)
    targets = [dml.compile(desc, any_device) for desc in (rnn(), dml.ActivationReluDesc(input_tensor=relu, output_tensor=relu))]
    graphs = [dml.compile(graph, any_device) for graph in (owning(), lstm_stack(layers=2))]
    initializer = dml.OperatorInitializer([*targets, *graphs])
    properties = initializer.binding_properties
    assert properties.persistent_resource_size == 0
    assert properties.required_descriptor_count == 3
    assert properties.temporary_resource_size == 4 * (4 * 8 * 8 * 4), "the weights of both layers while they are packed"
    host = {"weight_tensor": values(1, 1, 5, 4), "recurrence_tensor": values(1, 1, 5, 5)}
    w, x = values(1, 1, 4, 4), {"rnn": values(1, 3, 2, 4), "owning": values(1, 1, 4, 4), "stack": values(1, 6, 2, 8)}
    on = any_device.from_host
    inputs = [{name: on(array) for name, array in host.items()}, None, {"w": on(w)}, None]
    blocks = [memory(any_device, target.binding_properties.persistent_resource_size) for target in initializer.targets]
    temporary, scratch = memory(any_device, properties.temporary_resource_size)
    given = [buffer if buffer.size_in_bytes else None for buffer, _ in blocks]
    prepared: Any = initializer(inputs, given, temporary)
    expected: Any = (targets[0].prepare(**inputs[0]), None, graphs[0].prepare(w=on(w)), graphs[1])
    for at, name, key, result in ((0, "rnn", "input_tensor", "output_single_tensor"), (2, "owning", "x", "y"), (3, "stack", "x", "y")):
        found, wanted = (getattr(some[at](**{key: on(x[name])}), result) for some in (prepared, expected))
        np.testing.assert_array_equal(any_device.to_host(found), any_device.to_host(wanted))
    assert repr(prepared[1]) == repr(targets[1].prepare())
    del scratch


def test_without_targets_it_does_nothing() -> None:
    initializer = dml.OperatorInitializer()
    assert initializer() == ()
    initializer.reset([dml.compile(owning(), "numpy")])
    (prepared,) = initializer([{"w": values(1, 1, 4, 4)}])
    assert repr(prepared) == "<graph of 1 node prepared for numpy>"


def test_all_problems_of_all_targets_are_reported_and_nothing_is_written() -> None:
    op, graph, stack = dml.compile(rnn(), "numpy"), dml.compile(owning(), "numpy"), dml.compile(lstm_stack(), "numpy")
    block = np.full(1 << 16, 7, np.uint8)
    initializer = dml.OperatorInitializer([op, graph, stack])
    with pytest.raises(dml.BindError) as caught:
        initializer(
            [{"weight_tensor": values(1, 1, 5, 4)}, {"w": values(3)}, None], [block, block, np.zeros(5, np.uint8)], np.zeros(5, np.uint8)
        )
    assert {problem.path: problem.code for problem in caught.value.problems} == {
        "temporary": "resource.size", "targets[0].recurrence_tensor": "bind.missing", "targets[1].w": "array.shape",
        "targets[2].persistent": "resource.size",
    }  # fmt: skip
    assert (block == 7).all()


def test_targets_do_not_share_the_memory_that_is_written() -> None:
    """One persistent area for two targets, one over the constants of another, and scratch over either."""
    targets = [dml.compile(desc, "numpy") for desc in (rnn(), lstm_stack(layers=2), rnn())]
    initializer = dml.OperatorInitializer(targets)
    block = np.full(1 << 16, 7, np.uint8)
    block = block[-block.ctypes.data % 256 :]
    constants: dict[str, Any] = {"weight_tensor": values(1, 1, 5, 4), "recurrence_tensor": values(1, 1, 5, 5)}
    inside = constants | {"recurrence_tensor": block[16 : 16 + 100].view(np.float32).reshape(1, 1, 5, 5)}
    scratch_shared = ("hazard.temporary", "temporary", "memory that targets[2].recurrence_tensor uses too")
    shared = ("hazard.persistent", "targets[2].persistent", "memory that targets[0].persistent uses too")
    rows: list[tuple[list[Any], list[Any], Any, tuple[str, str, str]]] = [
        ([constants, None, constants], [block, None, block], None, shared),
        ([constants, None, constants], [block, None, block[64:]], None, shared),
        ([inside, None, constants], [None, None, block], None, (*shared[:2], "memory that targets[0].recurrence_tensor uses too")),
        ([constants, None, inside], [None, None, None], block, scratch_shared),
        ([constants, None, constants], [block, None, None], block, (shared[0], "targets[0].persistent", "memory that temporary uses too")),
    ]  # fmt: skip
    for inputs, persistent, temporary, expected in rows:
        with pytest.raises(dml.BindError) as caught:
            initializer(inputs, persistent, temporary)
        assert [(problem.code, problem.path, problem.found) for problem in caught.value.problems] == [expected]
        assert (block == 7).all()
    assert len(initializer([inside, None, inside])) == 3, "constants may share their memory"


@pytest.mark.parametrize("given", [5, {"weight_tensor": None}, "rnn", None])
def test_what_is_no_list_of_targets_is_refused(given: Any) -> None:
    initializer = dml.OperatorInitializer([dml.compile(owning(), "numpy")])
    for call in (initializer.reset, initializer, lambda value: initializer((), value)):
        with pytest.raises(dml.BindError, match=r"expected a list with an item for each target  \[bind.form\]"):
            call(given)


@pytest.mark.parametrize(("inputs", "persistent"), [([None], []), ([], [None] * 3)])
def test_there_is_one_of_each_for_each_target(inputs: Any, persistent: Any) -> None:
    targets = [dml.compile(lstm_stack(layers=layers), "numpy") for layers in (1, 2)]
    with pytest.raises(dml.BindError, match=r"expected 2 targets.*bind\.count"):
        dml.OperatorInitializer(targets)(inputs, persistent)


def test_targets_are_compiled_for_one_device(cuda_device: dml.Device) -> None:
    with pytest.raises(dml.BindError, match=r"targets\[1\].*resource\.kind"):
        dml.OperatorInitializer([dml.compile(owning(), "numpy"), dml.compile(owning(), cuda_device)])
    with pytest.raises(dml.BindError, match=r"targets\[0\].*bind\.form"):
        dml.OperatorInitializer([rnn()])
