"""Batch normalizations behind convolutions: where they become one operator, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import Array
from tests.support.tolerance import assert_close

STATISTICS = ("mean", "variance", "scale", "bias")
CHANNELS = 6

# members of the convolution that differ from the plain one
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biased": {"biased": True},
    "depthwise": {"group_count": CHANNELS},
    "transposed": {"direction": "BACKWARD", "strides": (2, 2), "biased": True},
    "flipped halves": {"mode": "CONVOLUTION", "dtype": "FLOAT16", "biased": True},
}

# what prevents the fusion
APART = ("statistics that are bound", "statistics of images", "another reader", "an output of the graph", "an activation between")


def network(*, biased: bool = False, dtype: str = "FLOAT32", apart: str = "", **members: Any) -> dml.Graph:
    """A convolution, a normalization and RELU."""
    g = dml.GraphBuilder("network")

    def weight(name: str, *sizes: int) -> Any:
        flags = "NONE" if apart == "statistics that are bound" and name in STATISTICS else "OWNED_BY_DML"
        return g.input(name, dml.TensorDesc(data_type=dtype, sizes=sizes, flags=flags))

    given: dict[str, Any] = {"filter_tensor": weight("w", CHANNELS, CHANNELS // members.get("group_count", 1), 3, 3)}
    given |= {"bias_tensor": weight("b", 1, CHANNELS, 1, 1)} if biased else {}
    given |= {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "output_padding": (0, 0), **members}
    given |= {"fused_activation": dml.ActivationTanhDesc()} if apart == "an activation between" else {}
    x = g.input("x", dml.TensorDesc(data_type=dtype, sizes=(2, CHANNELS, 7, 8)))
    sums = g.add(dml.ConvolutionDesc, "convolution", input_tensor=x, **given)
    images = 2 if apart == "statistics of images" else 1
    own = {f"{name}_tensor": weight(name, images, CHANNELS, 1, 1) for name in STATISTICS}
    norm = g.add(dml.BatchNormalizationDesc, "norm", input_tensor=sums, **own, epsilon=0.25)
    g.output("y", g.add(dml.ActivationReluDesc, "relu", input_tensor=norm))
    if apart == "another reader":
        g.output("abs", g.add(dml.ElementWiseAbsDesc, "abs", input_tensor=sums))
    if apart == "an output of the graph":
        g.output("sums", sums)
    return g.build()


def arrays(compiled: dml.CompiledGraph) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    found = {name: rng.normal(size=desc.sizes).astype(desc.data_type.numpy) for name, desc in compiled.inputs.items()}
    return found | {"variance": np.abs(found["variance"])}


def results(compiled: dml.CompiledGraph, given: dict[str, Array]) -> Array:
    prepared = compiled.prepare(**{name: given[name] for name in compiled.prepared_inputs})
    bound = {name: compiled.device.from_host(array) for name, array in given.items() if name not in compiled.prepared_inputs}
    return compiled.device.to_host(prepared(**bound).y)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_normalizations_run_with_the_convolutions_before_them(name: str) -> None:
    graph = network(**CONVOLUTIONS[name])
    whole, plain = (dml.compile(graph, "numpy", fuse=fuse) for fuse in (True, False))
    assert whole.explain_plan().fused == {"convolution": ("norm", "relu")}
    assert whole.binding_properties.temporary_resource_size < plain.binding_properties.temporary_resource_size
    given = arrays(whole)
    dtype = given["x"].dtype
    # Halves are not rounded between the convolution and the normalization.
    assert_close(results(whole, given), results(plain, given).astype(np.float64), dtype, terms=54)


def test_statistics_that_make_infinities_give_what_separate_operators_give() -> None:
    graph = network(biased=True)
    whole, plain = (dml.compile(graph, "numpy", fuse=fuse) for fuse in (True, False))
    given = arrays(whole)
    given["variance"][0, :4, 0, 0] = -0.25, np.inf, np.nan, -0.25
    given["scale"][0, 3] = 0.0
    given["mean"][0, 4] = 1e30
    found, expected = results(whole, given), results(plain, given)
    assert np.isinf(expected).any()
    assert np.isnan(expected).any()
    assert_close(found, expected.astype(np.float64), np.float32, terms=54)


@pytest.mark.parametrize("apart", APART)
def test_what_prevents_the_fusion(apart: str) -> None:
    compiled = dml.compile(network(apart=apart), "numpy")
    assert "norm" not in compiled.explain_plan().fused.get("convolution", ())
    given = arrays(compiled)
    plain = dml.compile(network(apart=apart), "numpy", fuse=False)
    assert_close(results(compiled, given), results(plain, given).astype(np.float64), np.float32, terms=54)


def test_of_what_is_fused_the_wholes_are_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    device = dml.device("cpu")
    planned: list[dml.OperatorDesc] = []
    plan = type(device).plan

    def noted(self: dml.Device, desc: dml.OperatorDesc, flags: dml.ExecutionFlags = dml.ExecutionFlags.NONE) -> Any:
        planned.append(desc)
        return plan(self, desc, flags)

    monkeypatch.setattr(type(device), "plan", noted)
    dml.compile(network(dilations=(2, 1), end_padding=(3, 1)), device)  # of no other test: what is compiled is kept
    assert {(type(desc).__name__, getattr(desc, "fused_activation", None) is not None) for desc in planned} == {
        ("NormalizedConvolutionDesc", False),
        ("NormalizedConvolutionDesc", True),
    }


def test_a_device_without_such_a_plan_runs_them_separately(cuda_device: dml.Device) -> None:
    compiled = dml.compile(network(), cuda_device)
    assert compiled.explain_plan().fused == {"norm": ("relu",)}


def test_what_is_pickled_runs_alike() -> None:
    import pickle

    compiled = dml.compile(network(biased=True), "numpy")
    given = arrays(compiled)
    prepared = compiled.prepare(**{name: given[name] for name in compiled.prepared_inputs})
    loaded = pickle.loads(pickle.dumps(prepared))
    np.testing.assert_array_equal(loaded(x=given["x"]).y, prepared(x=given["x"]).y)
