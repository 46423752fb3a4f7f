"""What each node of a graph gives, and the first node where two devices part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.graphs.cases import random_network
from tests.support.graphs.runs import given
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(2)


def network() -> dml.Graph:
    """A fused activation, a view, nodes without a name or with the same one, and several outputs."""
    g = dml.GraphBuilder("network")
    x, w = g.input("x", tensor(1, 2, 3, 4)), g.input("w", tensor(1, 2, 4, 4, flags="OWNED_BY_DML"))
    y = g.add(dml.ActivationTanhDesc, "tanh", input_tensor=g.add(dml.GEMMDesc, "product", a_tensor=x, b_tensor=w))
    a, b = g.add(dml.SplitDesc, "split", input_tensor=y, output_tensors=[tensor(1, 2, 3, 1), tensor(1, 2, 3, 3)], axis=3)
    g.output("a", g.add(dml.ElementWiseAbsDesc, "same", input_tensor=a))
    b = g.add(dml.ElementWiseAbsDesc, "same", input_tensor=b)
    g.output("b", g.add(dml.ElementWiseExpDesc, input_tensor=b.viewed(tensor(1, 1, 1, 18))))
    return g.build()


def inputs() -> dict[str, Any]:
    return {"x": RNG.standard_normal((1, 2, 3, 4), np.float32), "w": RNG.standard_normal((1, 2, 4, 4), np.float32)}


def test_every_node_is_traced_by_name(any_device: dml.Device) -> None:
    graph, host = network(), inputs()
    op = dml.compile(graph, any_device)
    assert op.explain_plan().fused == {"product": ("tanh",)}
    traced = {name: any_device.to_host(array) for name, array in op.trace({n: any_device.from_host(a) for n, a in host.items()}).items()}
    product = host["x"].astype(np.float64) @ host["w"]
    tanh = np.tanh(product)
    expected = {
        "product": product, "tanh": tanh, "split.output_tensors[0]": tanh[..., :1], "split.output_tensors[1]": tanh[..., 1:],
        "same (node 3)": np.abs(tanh[..., :1]), "same (node 4)": np.abs(tanh[..., 1:]),
        "node 5": np.exp(np.abs(tanh[..., 1:])).reshape(1, 1, 1, 18),
    }  # fmt: skip
    assert list(traced) == list(expected)
    for name, values in expected.items():
        assert_close(traced[name], values, np.float32, terms=10)


def test_inputs_may_have_the_names_of_options() -> None:
    """Where they are given as a mapping."""
    g = dml.GraphBuilder()
    names = ("stream", "copy", "temporary")
    g.output("y", g.add(dml.JoinDesc, "join", input_tensors=[g.input(name, tensor(1, 2)) for name in names], axis=1))
    given = {name: np.full((1, 2), index, np.float32) for index, name in enumerate(names)}
    np.testing.assert_array_equal(dml.compile(g.build(), "numpy").trace(given)["join"], [[0, 0, 1, 1, 2, 2]])


def test_traced_inputs_are_checked() -> None:
    with pytest.raises(dml.BindError) as caught:
        dml.compile(network(), "numpy").trace(x=np.zeros(3))
    assert {problem.path for problem in caught.value.problems} == {"x", "w"}


def test_devices_that_agree() -> None:
    comparison = dml.compare(network(), inputs(), ("numpy", "reference"))
    assert comparison.first is None
    assert comparison.devices == ("numpy", "reference")
    assert [node.node for node in comparison.nodes][:2] == ["product", "tanh"]
    assert all(0 <= node.difference < 1e-5 for node in comparison.nodes)
    assert str(comparison).startswith("numpy and reference agree in all 7 tensors")


def test_cuda_agrees_with_numpy(cuda_device: dml.Device) -> None:
    assert dml.compare(network(), inputs(), ("numpy", cuda_device)).first is None


@pytest.mark.parametrize("seed", range(20))
def test_the_reference_of_random_graphs(seed: int) -> None:
    graph = random_network(seed)
    wanted = dml.compile(graph, "numpy").inputs
    rng = np.random.default_rng(seed)
    arrays = {name: given(name, desc, rng) for name, desc in wanted.items()}
    constants = [node.data for node in graph.nodes if isinstance(node, dml.ConstantNode)]
    comparison = dml.compare(graph, arrays, ("numpy", "reference"), tolerance=0.5 if constants else None)
    assert len(comparison.nodes) == sum(isinstance(node, dml.OperatorNode) for node in graph.nodes)
    if not constants:  # random bytes are numbers of any size, infinity and NaN too
        assert comparison.first is None, str(comparison)


def test_the_first_node_that_goes_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One device's TANH is off by a thousandth: what follows is off too, but it is named."""
    from dmlpy.devices.numpy.device import NumpyDevice

    class Off(NumpyDevice):
        name = "off"

        def plan(self, desc: Any, flags: Any = dml.ExecutionFlags.NONE) -> Any:
            if isinstance(desc, dml.ActivationTanhDesc):
                desc = dml.ActivationScaledTanhDesc(input_tensor=desc.input_tensor, output_tensor=desc.output_tensor, alpha=1.001, beta=1)
            return super().plan(desc, flags)

    comparison = dml.compare(network(), inputs(), ("numpy", Off()))
    assert comparison.first is not None
    assert (comparison.first.node, comparison.first.operator) == ("tanh", "ACTIVATION_TANH")
    assert "differ first at 'tanh' (ACTIVATION_TANH)" in str(comparison)
    assert dml.compare(network(), inputs(), ("numpy", Off()), tolerance=0.01).first is None


def test_float16_that_is_not_enough_is_named() -> None:
    g = dml.GraphBuilder()
    half = tensor(1, 1, 1, 3, data_type="FLOAT16")
    x = g.add(dml.ElementWiseExpDesc, "exp", input_tensor=g.input("x", half))
    g.output("y", g.add(dml.ElementWiseLogDesc, "log", input_tensor=x))
    comparison = dml.compare(g.build(), {"x": np.array([1, 2, 30], np.float16).reshape(1, 1, 1, 3)}, ("numpy", "reference"))
    assert comparison.first is not None
    assert comparison.first.node == "exp"
    assert comparison.first.difference == np.inf


def test_two_devices_are_compared() -> None:
    with pytest.raises(dml.BindError, match="expected two"):
        dml.compare(network(), inputs(), ("numpy",))
