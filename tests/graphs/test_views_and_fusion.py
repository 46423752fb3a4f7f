"""What does not run: copies that are views, and activations in the operators before them. Results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.graphs.random_graphs import random_graph
from tests.support.graphs.runs import given, node_by_node, on_device, on_host, same_elements
from tests.support.tables import table
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

Build = Callable[[dml.GraphBuilder], Any]


def relu(g: dml.GraphBuilder, x: Any, name: str = "relu") -> Any:
    return g.add(dml.ActivationReluDesc, name, input_tensor=x, output_tensor=tensor(*x.tensor.sizes))


def tanh_like(g: dml.GraphBuilder, x: Any, name: str = "end") -> Any:
    return g.add(dml.ElementWiseAbsDesc, name, input_tensor=x, output_tensor=tensor(*x.tensor.sizes))


def sliced(g: dml.GraphBuilder) -> Any:
    x = g.input("x", tensor(1, 2, 4, 6))
    y = g.add(dml.SliceDesc, "slice", input_tensor=x, offsets=[0, 0, 1, 1], slice_sizes=[1, 2, 3, 2], strides=[1, 1, 1, 3])
    return tanh_like(g, y)


def sliced_backwards(g: dml.GraphBuilder) -> Any:
    x = g.input("x", tensor(1, 2, 4, 6))
    members = {"input_window_offsets": [0] * 4, "input_window_sizes": [1, 2, 4, 6], "input_window_strides": [1, 1, -1, 1]}
    return tanh_like(g, g.add(dml.Slice1Desc, "slice", input_tensor=x, output_tensor=tensor(1, 2, 4, 6), **members))


def split_and_joined(g: dml.GraphBuilder) -> Any:
    x = g.input("x", tensor(1, 6, 2, 2))
    parts = [tensor(1, size, 2, 2) for size in (1, 3, 2)]
    a, b, c = g.add(dml.SplitDesc, "split", input_tensor=x, output_tensors=parts, axis=1)
    joined = [relu(g, c, "c"), relu(g, a, "a"), relu(g, b, "b")]
    return tanh_like(g, g.add(dml.JoinDesc, "join", input_tensors=joined, output_tensor=tensor(1, 6, 2, 2), axis=1))


def joined_to_an_output(g: dml.GraphBuilder) -> Any:
    x = g.input("x", tensor(1, 2, 2, 3))
    parts = [relu(g, x, "a"), tanh_like(g, x, "b")]
    return g.add(dml.JoinDesc, "join", input_tensors=parts, output_tensor=tensor(1, 2, 4, 3), axis=2)


def join_of_an_input(g: dml.GraphBuilder) -> Any:
    """An input lies in memory of the caller: it must be copied."""
    x = g.input("x", tensor(1, 2, 2, 3))
    return g.add(dml.JoinDesc, "join", input_tensors=[relu(g, x, "a"), x], output_tensor=tensor(1, 2, 4, 3), axis=2)


def transposed(g: dml.GraphBuilder) -> Any:
    x = relu(g, g.input("x", tensor(1, 2, 3, 4)))
    turned = x.viewed(tensor(1, 4, 2, 3, strides=[24, 1, 12, 4]))
    y = g.add(dml.ElementWiseIdentityDesc, "transpose", input_tensor=turned, output_tensor=tensor(1, 4, 2, 3))
    return g.add(dml.GEMMDesc, "end", a_tensor=y, b_tensor=y, trans_b="TRANSPOSE")


def transposed_to_an_output(g: dml.GraphBuilder) -> Any:
    x = relu(g, g.input("x", tensor(1, 2, 3, 4)))
    turned = x.viewed(tensor(1, 4, 2, 3, strides=[24, 1, 12, 4]))
    return g.add(dml.ElementWiseIdentityDesc, "transpose", input_tensor=turned, output_tensor=tensor(1, 4, 2, 3))


def reshaped_transposition(g: dml.GraphBuilder) -> Any:
    """No strides read the rows of a transposed matrix as one row, and an input cannot be written otherwise."""
    x = g.input("x", tensor(1, 1, 3, 4))
    turned = x.viewed(tensor(1, 1, 4, 3, strides=[12, 12, 1, 4]))
    y = g.add(dml.ElementWiseIdentityDesc, "transpose", input_tensor=turned, output_tensor=tensor(1, 1, 4, 3))
    return tanh_like(g, y.viewed(tensor(1, 1, 1, 12)))


def reshaped_part(g: dml.GraphBuilder) -> Any:
    """Whole rows of a slice are a row of the input."""
    x = g.input("x", tensor(1, 4, 3, 2))
    y = g.add(dml.SliceDesc, "slice", input_tensor=x, offsets=[0, 1, 0, 0], slice_sizes=[1, 2, 3, 2], strides=[1] * 4)
    return tanh_like(g, y.viewed(tensor(1, 1, 2, 6)))


def repeated(g: dml.GraphBuilder) -> Any:
    x = g.input("x", tensor(1, 1, 3, 1))
    wide = x.viewed(tensor(1, 1, 3, 4, strides=[3, 3, 1, 0]))
    y = g.add(dml.ElementWiseIdentityDesc, "repeat", input_tensor=wide, output_tensor=tensor(1, 1, 3, 4))
    return g.add(dml.ElementWiseAddDesc, "end", a_tensor=y, b_tensor=relu(g, y))


def nested_joins(g: dml.GraphBuilder) -> Any:
    """DenseNet: what is joined is joined again, and read in between."""
    x = relu(g, g.input("x", tensor(1, 2, 2, 2)), "first")
    for number in range(3):
        y = tanh_like(g, x, f"layer {number}")
        sizes = [1, 2 * x.tensor.sizes[1], 2, 2]
        x = g.add(dml.JoinDesc, f"join {number}", input_tensors=[x, y], output_tensor=tensor(*sizes), axis=1)
    return x


def aligned_reader(g: dml.GraphBuilder) -> Any:
    """The reader is promised an alignment that the part of the input does not have."""
    x = g.input("x", tensor(1, 1, 4, 3))
    y = g.add(dml.SliceDesc, "slice", input_tensor=x, offsets=[0, 0, 1, 0], slice_sizes=[1, 1, 3, 3], strides=[1] * 4)
    return tanh_like(g, y.viewed(tensor(1, 1, 3, 3, guaranteed_base_offset_alignment=32)))


VIEWS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "slice": (sliced, ("slice",)),
    "slice backwards": (sliced_backwards, ()),
    "split and join": (split_and_joined, ("split", "join")),
    "join to an output": (joined_to_an_output, ("join",)),
    "join of an input": (join_of_an_input, ()),
    "transposition": (transposed, ("transpose",)),
    "transposition to an output": (transposed_to_an_output, ("transpose",)),
    "reshaped transposition": (reshaped_transposition, ()),
    "reshaped part": (reshaped_part, ("slice",)),
    "repetition": (repeated, ("repeat",)),
    "nested joins": (nested_joins, ("join 0", "join 1", "join 2")),
    "aligned reader": (aligned_reader, ()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_copies_that_are_views_take_no_launch(name: str, any_device: dml.Device) -> None:
    build, views = VIEWS[name]
    g = dml.GraphBuilder(name)
    g.output("y", build(g))
    graph = g.build()
    op = dml.compile(graph, any_device, fuse=False)
    report = op.explain_plan()
    assert set(report.views) == set(views)
    assert len(report.order) == len(graph.nodes) - len(views)
    compare(op, graph, np.random.default_rng(3))


def compare(op: Any, graph: dml.Graph, rng: np.random.Generator) -> None:
    """Two dispatches over spoilt scratch give, bit for bit, what the nodes give by themselves."""
    device = op.device
    host = {name: given(name, desc, rng) for name, desc in op.inputs.items()}
    expected = node_by_node(graph, host)
    inputs = {name: on_device(device, op.inputs[name], array) for name, array in host.items()}
    ready = op.prepare({name: inputs.pop(name) for name in op.prepared_inputs})
    outputs = {name: device.empty(desc, device.current_stream()) for name, desc in op.outputs.items()}
    size = op.binding_properties.temporary_resource_size
    scratch = device.from_host(np.full(size + 256, 0x7F, np.uint8))
    start = device.view(scratch).pointer
    dispatch = ready.bind(inputs, outputs, temporary=dml.Buffer(start + -start % 256, size))
    for _ in range(2):
        dispatch()
        for name, array in outputs.items():
            assert same_elements(on_host(device, op.outputs[name], array), expected[name]), name


@table("seed", range(150))
def test_random_graphs_on_numpy(seed: int) -> None:
    graph = random_graph(seed)
    if graph.output_edges:
        compare(dml.compile(graph, "numpy"), graph, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many_random_graphs_on_numpy(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        graph = random_graph(seed)
        if graph.output_edges:
            compare(dml.compile(graph, "numpy"), graph, np.random.default_rng(seed))


@pytest.mark.parametrize(("seed", "fuse"), [(seed, seed < 40) for seed in range(0, 120, 14)])
def test_random_graphs_on_cuda(seed: int, fuse: bool, cuda_device: dml.Device) -> None:
    """Fewer are fused: each of their chains is a kernel to compile."""
    graph = random_graph(seed, nodes=8)
    compare(dml.compile(graph, cuda_device, fuse=fuse), graph, np.random.default_rng(seed))


# fusion


def network(activation: type[dml.OperatorDesc], **members: Any) -> dml.Graph:
    """An activation behind each operator that fuses it, on separate inputs."""
    g = dml.GraphBuilder("fused")
    x = g.input("x", tensor(1, 3, 4, 4))
    statistics = {f"{name}_tensor": g.input(name, tensor(1, 3, 1, 1)) for name in ("mean", "variance", "scale", "bias")}
    convolution: dict[str, Any] = {
        "mode": "CROSS_CORRELATION", "direction": "FORWARD", "strides": [1, 1], "dilations": [1, 1], "start_padding": [1, 1],
        "end_padding": [1, 1], "output_padding": [0, 0], "group_count": 1,
    }  # fmt: skip
    made = {
        "convolution": g.add(
            dml.ConvolutionDesc, "convolution", input_tensor=x, filter_tensor=g.input("w", tensor(2, 3, 3, 3)), **convolution
        ),
        "gemm": g.add(dml.GEMMDesc, "gemm", a_tensor=x, b_tensor=x),
        "norm": g.add(dml.BatchNormalizationDesc, "norm", input_tensor=x, **statistics, spatial=True, epsilon=0.5),
        "mvn": g.add(dml.MeanVarianceNormalization1Desc, "mvn", input_tensor=x, axes=[2, 3], normalize_variance=True, epsilon=0.5),
        "add": g.add(dml.ElementWiseAdd1Desc, "add", a_tensor=x, b_tensor=x),
        "sum": g.add(dml.ElementWiseAddDesc, "sum", a_tensor=x, b_tensor=x),
    }  # fmt: skip
    for name, value in made.items():
        g.output(name, g.add(activation, f"f({name})", input_tensor=value, **members))
    return g.build()


ACTIVATIONS: dict[str, tuple[type[dml.OperatorDesc], dict[str, Any], set[str]]] = {
    "RELU": (dml.ActivationReluDesc, {}, {"convolution", "gemm", "norm", "mvn", "add", "sum"}),
    "LEAKY_RELU": (dml.ActivationLeakyReluDesc, {"alpha": 0.25}, {"convolution", "gemm", "norm", "mvn", "add", "sum"}),
    "TANH": (dml.ActivationTanhDesc, {}, {"convolution", "gemm", "norm", "mvn", "add", "sum"}),
    "CLIP": (dml.ElementWiseClipDesc, {"min": -0.5, "max": 0.5}, {"convolution", "gemm"}),
    "SWISH": (dml.ActivationSwishDesc, {"sigmoid_input_scale": 1.0}, set()),
    "SOFTMAX1": (dml.ActivationSoftmax1Desc, {"axes": [3]}, {"gemm"}),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_move_into_the_operators_that_take_them(name: str, any_device: dml.Device) -> None:
    activation, members, takes = ACTIVATIONS[name]
    if any_device.memory_kind != "cpu" and name in ("LEAKY_RELU", "CLIP", "SOFTMAX1"):
        pytest.skip("the kernels of the others are compiled anyway")
    graph = network(activation, **members)
    fused, plain = (dml.compile(graph, any_device, fuse=fuse) for fuse in (True, False))
    report = fused.explain_plan()
    assert report.fused == {
        operator: (f"f({operator})",) for operator in ("convolution", "gemm", "norm", "mvn", "add", "sum") if operator in takes
    }
    assert not plain.explain_plan().fused
    assert len(report.order) == 12 - len(takes) - sum(len(nodes) - 1 for nodes in report.chains)
    rng = np.random.default_rng(1)
    inputs = {key: any_device.from_host(np.abs(rng.standard_normal(desc.sizes, np.float32))) for key, desc in fused.inputs.items()}
    found, expected = fused(**inputs).as_dict(), plain(**inputs).as_dict()
    for key, array in found.items():
        assert_close(any_device.to_host(array), any_device.to_host(expected[key]).astype(np.float64), np.float32, terms=30)


@pytest.mark.parametrize(("level", "fuses"), [("5_1", False), ("6_0", True)])
def test_the_feature_level_says_what_is_fused(level: str, fuses: bool) -> None:
    """CLIP is fused from 6_0 on."""
    g = dml.GraphBuilder()
    product = g.add(dml.GEMMDesc, "gemm", a_tensor=g.input("a", tensor(1, 1, 2, 2)), b_tensor=g.input("b", tensor(1, 1, 2, 2)))
    g.output("y", g.add(dml.ElementWiseClipDesc, "clip", input_tensor=product, min=0, max=1))
    report = dml.compile(g.build(), "numpy", feature_level=level).explain_plan()
    assert report.fused == ({"gemm": ("clip",)} if fuses else {})


@pytest.mark.parametrize(
    ("activation", "members", "sizes", "fuses"),
    [
        (dml.ActivationReluDesc, {}, (3, 4), True),
        (dml.ActivationSoftmaxDesc, {}, (3, 4), True),
        (dml.ActivationSoftmax1Desc, {"axes": [0]}, (3, 4), False),
        (dml.ActivationReluDesc, {}, (1, 2, 6), True),
        (dml.ElementWiseClipDesc, {"min": -0.5, "max": 0.5}, (1, 1, 12, 1), True),
        (dml.ActivationSoftmaxDesc, {}, (1, 1, 2, 6), False),
    ],
)
def test_dimensions_of_a_view_do_not_keep_an_activation_from_being_fused(
    activation: type[dml.OperatorDesc], members: dict[str, Any], sizes: tuple[int, ...], fuses: bool
) -> None:
    """`a @ b` of dmlpy.x is a GEMM of four dimensions whose readers see two; a convolution along one axis has a height besides."""
    g = dml.GraphBuilder()
    product = g.add(dml.GEMMDesc, "gemm", a_tensor=g.input("a", tensor(1, 1, 3, 5)), b_tensor=g.input("b", tensor(1, 1, 5, 4)))
    g.output("y", g.add(activation, "f", input_tensor=product.viewed(tensor(*sizes)), **members))
    graph = g.build()
    rng = np.random.default_rng(0)
    inputs = {"a": rng.standard_normal((1, 1, 3, 5), np.float32), "b": rng.standard_normal((1, 1, 5, 4), np.float32)}
    for declared in (graph, graph.replace(input_tensors=(), output_tensors=())):
        fused, plain = (dml.compile(declared, "numpy", fuse=fuse) for fuse in (True, False))
        assert fused.explain_plan().fused == ({"gemm": ("f",)} if fuses else {})
        found, expected = fused(**inputs).y, plain(**inputs).y
        assert found.shape == expected.shape == sizes
        assert_close(found, expected.astype(np.float64), np.float32, terms=30)


def test_what_others_read_is_not_fused() -> None:
    for kind in ("output", "second reader", "other layout"):
        g = dml.GraphBuilder(kind)
        x = g.input("x", tensor(1, 1, 2, 2))
        product = g.add(dml.GEMMDesc, "gemm", a_tensor=x, b_tensor=x)
        read = product.viewed(tensor(1, 1, 2, 2, strides=[4, 4, 1, 2])) if kind == "other layout" else product
        g.output("y", relu(g, read))
        if kind == "output":
            g.output("z", product)
        elif kind == "second reader":
            g.output("z", tanh_like(g, product))
        assert not dml.compile(g.build(), "numpy").explain_plan().fused, kind


@pytest.mark.parametrize(("written", "read", "count"), [("FLOAT32", "UINT8", 24), ("UINT64", "UINT32", 12), ("UINT16", "FLOAT32", 3)])
def test_values_read_as_elements_of_another_width(written: str, read: str, count: int) -> None:
    """Such a reader cannot write its output to the memory of what it reads: that would get other elements."""
    g = dml.GraphBuilder()
    x = g.input("x", tensor(2, 3, data_type=written))
    copied = g.add(dml.ElementWiseIdentityDesc, "copied", input_tensor=x, output_tensor=tensor(2, 3, data_type=written))
    view = copied.viewed(tensor(count, data_type=read))
    g.output("y", g.add(dml.ElementWiseIdentityDesc, "read", input_tensor=view, output_tensor=tensor(count, data_type=read)))
    values = np.random.default_rng(0).integers(1, 100, (2, 3)).astype(written.lower())
    np.testing.assert_array_equal(dml.compile(g.build(), "numpy")(x=values)["y"], values.reshape(-1).view(read.lower()))


@pytest.mark.parametrize("before", [True, False])
def test_no_view_makes_a_reader_or_writer_copy(before: bool) -> None:
    """Compiled gathers need packed tensors: a transposition before or after one is a copy, and a view where NumPy gathers anyway."""
    pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")
    g = dml.GraphBuilder("turned")
    x, indices = g.input("x", tensor(1, 1, 6, 4)), g.input("indices", tensor(1, 1, 1, 5, data_type="UINT32"))

    def turned(value: Any, rows: int, columns: int) -> Any:
        seen = value.viewed(tensor(1, 1, rows, columns, strides=[rows * columns, rows * columns, 1, rows]))
        return g.add(dml.ElementWiseIdentityDesc, "transpose", input_tensor=seen, output_tensor=tensor(1, 1, rows, columns))

    members = {"indices_tensor": indices, "axis": 2, "index_dimensions": 1}
    source = turned(x, 4, 6) if before else x
    y = g.add(dml.GatherDesc, "gather", input_tensor=source, output_tensor=tensor(1, 1, 5, source.tensor.sizes[3]), **members)
    g.output("y", y if before else turned(y, 4, 5))
    graph = g.build()
    compiled, usual = (dml.compile(graph, device, fuse=False) for device in ("cpu", "numpy"))
    assert (compiled.explain_plan().views, usual.explain_plan().views) == ((), ("transpose",))
    assert "numpy" not in compiled.plan
    compare(compiled, graph, np.random.default_rng(3))
