"""Profiles of models: nodes of graphs, nodes on the host, and nodes that wait for sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_node
from onnx.helper import make_tensor_value_info as value_info

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import model


def tensor(name: str, element: int, *sizes: int) -> Any:
    return value_info(name, element, list(sizes))


def waiting(rows: int | str) -> onnx.Model:
    """A graph, a node on the host, and nodes that wait for the sizes of what it gives."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Unique", ["a"], ["u"], name="unique"),
        make_node("Relu", ["u"], ["r"], name="relu"),
        make_node("Mul", ["a", "a"], ["y"], name="square"),
    ]
    constants = {"w": np.eye(3, 4, dtype=np.float32)}
    return onnx.load(model(nodes, {"x": [rows, 3]}, ["y", "r"], constants=constants))


@pytest.mark.parametrize("rows", [2, "rows"])
def test_a_model_is_profiled_node_by_node(rows: int | str, any_device: dml.Device) -> None:
    compiled = waiting(rows).compile(any_device)
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    profile = compiled.profile(given, runs=2)
    assert [(node.name, node.operator, node.place) for node in profile.nodes] == [
        ("product/gemm", "GEMM", any_device.name),
        ("square/multiply", "ELEMENT_WISE_MULTIPLY", any_device.name),
        ("unique", "Unique", "host"),
        ("Relu_0/activation_relu", "ACTIVATION_RELU", f"{any_device.name}, late"),
    ]
    assert all(len(node.runs_us) == 2 and min(node.runs_us) > 0 for node in profile.nodes)
    assert len(profile.whole_us) == 2
    assert profile.median_us > 0
    np.testing.assert_array_equal(compiled(given)["r"], np.unique(given["x"] @ np.eye(3, 4)))


def test_a_nodes_time_on_the_host_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all that waits is compiled with a node that stays on the host."""
    compiled = waiting(2).compile("numpy")
    ticks = iter(range(0, 10**9, 5000))
    monkeypatch.setattr("dmlpy.onnx.runtime.compiled_program.time.perf_counter_ns", lambda: next(ticks))
    (unique,) = [node for node in compiled.profile({"x": np.ones((2, 3), np.float32)}, runs=3).nodes if node.place == "host"]
    assert unique.runs_us == (5.0, 5.0, 5.0)


def test_a_loop_is_one_node() -> None:
    body = make_graph(
        [make_node("Add", ["s", "s"], ["t"]), make_node("Identity", ["c"], ["d"])],
        "body",
        [tensor("i", TensorProto.INT64), tensor("c", TensorProto.BOOL), tensor("s", TensorProto.FLOAT, 2)],
        [tensor("d", TensorProto.BOOL), tensor("t", TensorProto.FLOAT, 2)],
    )
    loop = make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)
    built = model([loop], {"n": [], "x": [2]}, ["y"], types={"n": TensorProto.INT64})
    (node,) = onnx.load(built).compile("numpy").profile({"n": np.array(3), "x": np.ones(2, np.float32)}, runs=2).nodes
    assert (node.name, node.operator, node.place) == ("loop", "Loop", "host")


@pytest.mark.parametrize(
    ("given", "runs", "kind", "message"),
    [
        ({}, 2, dml.BindError, "x is not given"),
        ({"x": np.ones((2, 3), np.float32)}, 0, dml.DescError, "runs is 0, expected a whole number, at least 1"),
    ],
    ids=["inputs", "runs"],
)
def test_arguments_are_checked(given: dict[str, Any], runs: int, kind: type[dml.DmlError], message: str) -> None:
    with pytest.raises(kind, match=message):
        waiting(2).compile("numpy").profile(given, runs=runs)
