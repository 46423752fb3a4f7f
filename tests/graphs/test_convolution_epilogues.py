"""Sums, and products of a result and its sigmoid, behind convolutions: where they become one operator, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.graphs.fused_convolution_descs import EpilogueConvolutionDesc
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan

RELU = dml.ActivationReluDesc()
CLIP = dml.ElementWiseClipDesc(min=-0.125, max=0.75)
Node = Callable[[dml.GraphBuilder, Any], Any]
"""Adds the nodes behind a convolution's result."""


def swish(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ActivationSwishDesc, "end", input_tensor=x)


def hard_swish(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ActivationHardSwishDesc, "end", input_tensor=x, alpha=0.25, beta=0.375)


def by_sigmoid(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ElementWiseMultiplyDesc, "end", a_tensor=x, b_tensor=g.add(dml.ActivationSigmoidDesc, "factor", input_tensor=x))


def by_line(g: dml.GraphBuilder, x: Any) -> Any:
    factor = g.add(dml.ActivationHardSigmoidDesc, "factor", input_tensor=x, alpha=0.2, beta=0.5)
    return g.add(dml.ElementWiseMultiplyDesc, "end", a_tensor=factor, b_tensor=x)


def added(g: dml.GraphBuilder, x: Any, **members: Any) -> Any:
    return g.add(dml.ElementWiseAddDesc, "end", a_tensor=g.input("other", x.tensor, **members), b_tensor=x)


def added_and_clipped(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ElementWiseAdd1Desc, "end", a_tensor=x, b_tensor=g.input("other", x.tensor), fused_activation=RELU)


@dataclass(frozen=True)
class Case:
    """A convolution and what is behind it.

    Attributes:
        input: sizes.
        filter: sizes.
        node: what is behind it.
        fused: the names of the nodes that it takes.
        dtype: the type of all tensors.
        groups: of channels.
        normalized: whether a batch normalization comes before it.
        dilation: the elements from a tap to the next.
    """

    input: tuple[int, ...]
    filter: tuple[int, ...]
    node: Node
    fused: tuple[str, ...] = ("end",)
    dtype: str = "FLOAT32"
    groups: int = 1
    normalized: bool = False
    dilation: int = 1

    def graph(self, **members: Any) -> dml.Graph:
        return network(self, self.node, **members)


def network(case: Case, node: Node, **members: Any) -> dml.Graph:
    g, halo = dml.GraphBuilder("network"), case.filter[-1] // 2 * case.dilation

    def weight(name: str, *sizes: int) -> Any:
        return g.input(name, dml.TensorDesc(data_type=case.dtype, sizes=sizes, flags="OWNED_BY_DML"))

    own = {"filter_tensor": weight("w", *case.filter), "bias_tensor": weight("b", 1, case.filter[0], 1, 1), "group_count": case.groups}
    own |= {"dilations": [case.dilation] * 2}
    own |= {"strides": (1, 1), "start_padding": (halo, halo), "end_padding": (halo, halo), "output_padding": (0, 0)}
    x = g.input("x", dml.TensorDesc(data_type=case.dtype, sizes=case.input))
    y = g.add(dml.ConvolutionDesc, "convolution", input_tensor=x, **own | members)
    if case.normalized:
        statistics = {f"{name}_tensor": weight(name, 1, case.filter[0], 1, 1) for name in ("mean", "variance", "scale", "bias")}
        y = g.add(dml.BatchNormalizationDesc, "norm", input_tensor=y, **statistics, spatial=True, epsilon=1e-3)
    g.output("y", node(g, y))
    return g.build()


def results(compiled: dml.CompiledGraph, given: dict[str, Any]) -> Any:
    prepared = compiled.prepare(**{name: given[name] for name in compiled.prepared_inputs})
    return prepared(**{name: array for name, array in given.items() if name not in compiled.prepared_inputs}).y


def arrays(compiled: dml.CompiledGraph) -> dict[str, Any]:
    rng, found = np.random.default_rng(4), dict[str, Any]()
    for name, desc in compiled.inputs.items():
        memory = np.zeros(desc.span, desc.data_type.numpy)
        found[name] = np.lib.stride_tricks.as_strided(memory, desc.sizes, desc.numpy_strides())
        found[name][...] = rng.uniform(0.5, 2.0, desc.sizes) if name == "variance" else rng.normal(size=desc.sizes)
    return found


CASES = {
    "rows that vectors cross": Case((1, 5, 11, 19), (21, 5, 3, 3), by_line, ("factor", "end")),
    "rows that vectors cross, a sum": Case((1, 5, 11, 19), (21, 5, 3, 3), added),
    "a narrow image": Case((2, 24, 5, 6), (40, 24, 3, 3), hard_swish),
    "a narrow image, a clipped sum": Case((2, 24, 5, 6), (40, 24, 3, 3), added_and_clipped),
    "divided by the taps that read the image, a sum": Case((1, 64, 22, 22), (64, 64, 3, 3), added_and_clipped, dilation=12),
    "depthwise": Case((2, 6, 9, 37), (6, 1, 3, 3), hard_swish, groups=6),
    "depthwise, a sum": Case((2, 6, 9, 37), (6, 1, 3, 3), added, groups=6),
    "depthwise, pairs of planes, a sum": Case((1, 5, 9, 7), (5, 1, 3, 3), added, groups=5),
    "halves, pairs of planes": Case((1, 5, 9, 7), (5, 1, 5, 5), by_sigmoid, ("factor", "end"), "FLOAT16", 5),
    "halves": Case((1, 5, 11, 19), (21, 5, 3, 3), by_sigmoid, ("factor", "end"), "FLOAT16"),
    "halves, depthwise": Case((2, 6, 9, 37), (6, 1, 3, 3), swish, dtype="FLOAT16", groups=6),
    "halves, a sum": Case((1, 5, 11, 19), (21, 5, 3, 3), added_and_clipped, dtype="FLOAT16"),
    "halves of a narrow image, a sum": Case((2, 24, 5, 6), (40, 24, 3, 3), added, dtype="FLOAT16"),
}


NORMALIZED = {
    "a sum": Case((1, 5, 11, 19), (21, 5, 3, 3), added, ("norm", "end"), normalized=True),
    "a clipped sum of a narrow image": Case((2, 24, 5, 6), (40, 24, 3, 3), added_and_clipped, ("norm", "end"), normalized=True),
    "depthwise": Case((2, 6, 9, 37), (6, 1, 3, 3), hard_swish, ("norm", "end"), groups=6, normalized=True),
    "halves": Case((1, 5, 11, 19), (21, 5, 3, 3), by_sigmoid, ("norm", "factor", "end"), "FLOAT16", normalized=True),
    "halves, a sum": Case((2, 24, 5, 6), (40, 24, 3, 3), added_and_clipped, ("norm", "end"), "FLOAT16", normalized=True),
}


@pytest.mark.parametrize("name", NORMALIZED)
def test_epilogues_run_behind_batch_normalizations(name: str) -> None:
    case = NORMALIZED[name]
    whole, wide = (dml.compile(own.graph(), device) for own, device in ((case, "cpu"), (replace(case, dtype="FLOAT32"), "numpy")))
    assert whole.explain_plan().fused == {"convolution": case.fused}
    given = arrays(whole)
    expected = results(wide, {name: array.astype(np.float32) for name, array in given.items()}).astype(np.float64)
    assert_close(results(whole, given), expected, given["x"].dtype.type, terms=int(np.prod(case.filter[1:])))


@pytest.mark.parametrize("name", CASES)
def test_epilogues_run_with_the_convolutions_before_them(name: str) -> None:
    """Of FLOAT32 they change no bit, also of infinities and NaN. Halves are rounded once, where separate nodes round each result."""
    case = CASES[name]
    whole, plain = (dml.compile(case.graph(), "cpu", fuse=fuse) for fuse in (True, False))
    assert whole.explain_plan().fused == {"convolution": case.fused}
    given = arrays(whole)
    if case.dtype == "FLOAT32":
        given["x"][0, :3, 2, 3] = np.inf, -np.inf, np.nan
        np.testing.assert_array_equal(results(whole, given), results(plain, given))
        return
    wide = dml.compile(Case(case.input, case.filter, case.node, case.fused, groups=case.groups).graph(), "numpy")
    expected = results(wide, {name: array.astype(np.float32) for name, array in given.items()})
    assert_close(results(whole, given), expected.astype(np.float64), np.float16, terms=int(np.prod(case.filter[1:])))


def another_reader(g: dml.GraphBuilder, x: Any) -> Any:
    g.output("abs", g.add(dml.ElementWiseAbsDesc, "abs", input_tensor=x))
    return hard_swish(g, x)


def an_output(g: dml.GraphBuilder, x: Any) -> Any:
    g.output("sums", x)
    return by_line(g, x)


def scaled_inside(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ActivationSwishDesc, "end", input_tensor=x, sigmoid_input_scale=2.0)


def by_sigmoid_of_another(g: dml.GraphBuilder, x: Any) -> Any:
    factor = g.add(dml.ActivationSigmoidDesc, "factor", input_tensor=g.input("other", x.tensor))
    return g.add(dml.ElementWiseMultiplyDesc, "end", a_tensor=x, b_tensor=factor)


def added_to_itself(g: dml.GraphBuilder, x: Any) -> Any:
    return g.add(dml.ElementWiseAddDesc, "end", a_tensor=x, b_tensor=x)


def added_in_another_layout(g: dml.GraphBuilder, x: Any) -> Any:
    _, channels, height, width = x.tensor.sizes
    last = x.tensor.replace(strides=(channels * height * width, 1, width * channels, channels))
    return g.add(dml.ElementWiseAddDesc, "end", a_tensor=g.input("other", last), b_tensor=x, output_tensor=x.tensor)


APART: dict[str, tuple[Node, dict[str, Any]]] = {
    "another reader": (another_reader, {}),
    "an output of the graph": (an_output, {}),
    "a sigmoid of FLOAT32": (by_sigmoid, {}),
    "a scale inside": (scaled_inside, {}),
    "the sigmoid of another tensor": (by_sigmoid_of_another, {}),
    "twice the result": (added_to_itself, {}),
    "another layout": (added_in_another_layout, {}),
    "transposed": (hard_swish, {"direction": "BACKWARD"}),
    "an activation between": (hard_swish, {"fused_activation": RELU}),
}


@pytest.mark.parametrize("name", APART)
def test_what_prevents_the_fusion(name: str) -> None:
    node, members = APART[name]
    graph = network(Case((1, 5, 7, 8), (5, 5, 3, 3), node), node, **members)
    compiled = dml.compile(graph, "cpu")
    assert "end" not in compiled.explain_plan().fused.get("convolution", ())
    given = arrays(compiled)
    np.testing.assert_array_equal(results(compiled, given), results(dml.compile(graph, "cpu", fuse=False), given))


def test_sums_of_sums_of_convolutions() -> None:
    """Each sum runs with one of its convolutions, after the other operand is there."""
    case = CASES["rows that vectors cross, a sum"]

    def node(g: dml.GraphBuilder, x: Any) -> Any:
        total = x
        for number in range(2):
            w = g.input(f"w{number}", dml.TensorDesc(data_type="FLOAT32", sizes=(21, 21, 1, 1)))
            members: dict[str, Any] = dict.fromkeys(("start_padding", "end_padding", "output_padding"), (0, 0))
            more = g.add(dml.ConvolutionDesc, f"c{number}", input_tensor=x, filter_tensor=w, strides=(1, 1), dilations=(1, 1), **members)
            total = g.add(dml.ElementWiseAddDesc, f"sum{number}", a_tensor=total, b_tensor=more)
        return total

    graph = network(case, node)
    whole, plain = (dml.compile(graph, "cpu", fuse=fuse) for fuse in (True, False))
    assert whole.explain_plan().fused == {"c0": ("sum0",), "c1": ("sum1",)}
    given = arrays(whole)
    np.testing.assert_array_equal(results(whole, given), results(plain, given))


def test_devices_without_such_plans_run_them_separately() -> None:
    """And what a plan would compute wrongly has none."""
    compiled = dml.compile(CASES["a narrow image"].graph(), "numpy")
    assert compiled.explain_plan().fused == {}
    x = dml.TensorDesc(data_type="FLOAT32", sizes=(1, 5, 7, 8))
    members: dict[str, Any] = dict.fromkeys(("strides", "dilations", "start_padding", "end_padding"), (1, 1)) | {"output_padding": (0, 0)}
    desc = EpilogueConvolutionDesc(input_tensor=x, filter_tensor=x.replace(sizes=(5, 5, 3, 3)), gate="hard_silu", **members).with_outputs()
    assert dml.compile(desc, "cpu").plan.endswith("epilogue in float32: x HARD_SIGMOID(x)")
    assert dml.device("numpy").plan(desc) is None
    tanh = desc.replace(fused_activation=dml.ActivationTanhDesc())
    assert compiled_plan(tanh) == "an epilogue is that of a forward convolution, with RELU or CLIP behind it"
    with pytest.raises(dml.CompileError):
        dml.compile(tanh, "cpu")


@pytest.mark.parametrize("adds", [False, True], ids=["gate", "sum"])
@pytest.mark.parametrize(
    ("filters", "groups"), [((24, 5, 1, 1), 1), ((70, 5, 3, 3), 1), ((5, 1, 3, 3), 5)], ids=["positions", "channels", "depthwise"]
)
def test_results_are_clipped_where_a_clip_follows(filters: tuple[int, ...], groups: int, adds: bool) -> None:
    rng, (count, _, window, _) = np.random.default_rng(3), filters
    shapes = {"input_tensor": (1, 5, 7, 8), "filter_tensor": filters, **({"added_tensor": (1, count, 7, 8)} if adds else {})}
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    members: dict[str, Any] = dict.fromkeys(("start_padding", "end_padding"), (window // 2, window // 2)) | {"output_padding": (0, 0)}
    members |= {name: dml.TensorDesc(data_type="FLOAT32", sizes=shape) for name, shape in shapes.items()}
    members |= {"strides": (1, 1), "dilations": (1, 1), "group_count": groups, "gate": None if adds else "hard_silu"}
    desc = EpilogueConvolutionDesc(**members, alpha=0.2, beta=0.5).with_outputs()
    free, clipped = (dml.compile(own, "cpu")(**given).output_tensor for own in (desc, desc.replace(fused_activation=CLIP)))
    np.testing.assert_array_equal(clipped, np.clip(free, np.float32(CLIP.min), np.float32(CLIP.max)))
    assert not np.array_equal(clipped, free)
