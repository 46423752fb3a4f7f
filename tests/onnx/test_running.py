"""Compiled models: threads, memory, device-resident outputs, other libraries' arrays, comparison, and ONNX's interface of backends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx import backend
from tests.support.devices import DeviceOfNothing
from tests.support.onnx_models import model
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
WEIGHTS = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


def chain(batch: int | str = 4) -> onnx.Model:
    """A graph, a node on the host, and a graph that reads both."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"], name="product"),
        make_node("Relu", ["a"], ["b"], name="act"),
        make_node("Unique", ["b"], ["u"], name="unique"),
        make_node("Mul", ["b", "b"], ["y"], name="square"),
        make_node("Greater", ["y", "one"], ["large"], name="compare"),
    ]
    types = {"large": TensorProto.BOOL}
    constants = {"w": WEIGHTS, "one": np.ones(1, np.float32)}
    return onnx.load(model(nodes, {"x": [batch, 3]}, ["y", "u", "large"], constants=constants, types=types))


def expected(x: Array) -> dict[str, Array]:
    act = np.maximum(x @ WEIGHTS, 0)
    return {"y": act * act, "u": np.unique(act), "large": act * act > 1}


def given(seed: int, count: int = 4) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)


def check(found: dict[str, Any], x: Array) -> None:
    for name, array in expected(x).items():
        assert found[name].dtype == array.dtype
        assert_close(found[name], array, np.float32)


def test_threads_share_a_model() -> None:
    compiled = chain("n").compile("numpy", keep=2)
    inputs = [given(seed, 1 + seed % 3) for seed in range(60)]
    with ThreadPoolExecutor(8) as threads:
        for x, found in zip(inputs, threads.map(lambda x: compiled({"x": x}), inputs), strict=True):
            check(found, x)


def test_results_of_earlier_runs_stay() -> None:
    compiled = chain().compile("numpy")
    first = compiled({"x": given(0)})
    compiled({"x": given(1)})
    check(first, given(0))
    first["y"][...] = 0
    check(compiled({"x": given(0)}), given(0))


def test_outputs_may_stay_on_the_device() -> None:
    found = chain().compile("numpy").run({"x": given(0)}, outputs="device")
    check(found, given(0))


class Foreign:
    """An array of another library, which knows DLPack."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_are_taken() -> None:
    check(chain().compile("numpy")({"x": Foreign(given(3))}), given(3))


def test_a_type_that_does_not_fit_has_a_remedy() -> None:
    with pytest.raises(dml.BindError, match=r"convert it: \.astype\('float32'\)"):
        chain().compile("numpy")(x=[[1.0, 2.0, 3.0]] * 4)


def test_an_initializer_that_is_an_input_is_a_default() -> None:
    built = chain().loaded.proto
    built.graph.input.add(name="w").type.CopyFrom(built.graph.input[0].type)
    built.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 3
    built.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 5
    loaded = onnx.load(built)
    assert [*loaded.inputs] == ["x"]
    check(loaded.compile("numpy")({"x": given(0)}), given(0))
    doubled = onnx.load(built, constants={"w": 2 * WEIGHTS}).compile("numpy")({"x": given(0)})
    assert_close(doubled["y"], 4 * expected(given(0))["y"], np.float32)


def test_the_plan_tells_the_memory() -> None:
    compiled = chain("n").compile("numpy")
    plan = compiled.explain_plan({"x": [4, 3]})
    assert plan.weight_bytes >= WEIGHTS.nbytes
    assert [part for part in plan.parts if isinstance(part, tuple)] == [("unique",)]
    assert "on the host: unique" in str(plan)
    with pytest.raises(dml.BindError, match="float32 \\[n, 3\\]"):
        compiled.explain_plan()
    with pytest.raises(dml.BindError, match="of sizes"):
        compiled.explain_plan({"x": [4, 2]})


def test_devices_are_compared_node_by_node() -> None:
    compiled = chain().compile("numpy")
    found = compiled.compare("reference", {"x": given(0)})
    assert found.first is None
    assert "agree" in str(found)
    first = compiled.compare("reference", {"x": given(0)}, tolerance=0.0).first
    assert first is not None
    assert first.node.startswith("product/")


def test_what_no_device_runs_is_told() -> None:
    with pytest.raises(dml.CompileError):
        chain().compile(DeviceOfNothing())


def test_dmlpy_is_a_backend_of_onnx() -> None:
    proto = chain().loaded.proto
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU")
    assert backend.is_compatible(proto)
    prepared = backend.prepare(proto)
    for inputs in ([given(0)], {"x": given(0)}, given(0)):
        found = prepared.run(inputs)
        assert_close(found[0], expected(given(0))["y"], np.float32)
        np.testing.assert_array_equal(found["large"], expected(given(0))["large"])
    (sums,) = backend.run_node(make_node("Add", ["a", "b"], ["c"]), [np.ones(3, np.float32), np.ones(3, np.float32)], opset_version=14)
    np.testing.assert_array_equal(sums, [2, 2, 2])
    assert not backend.is_compatible(model([make_node("Mystery", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"], domains={"own": 1}))
