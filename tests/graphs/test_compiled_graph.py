"""Graphs run: node by node, on every device, with the results of the nodes run by hand."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.graphs.branching import branches
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(7)


def values(*sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes, dtype=np.float32)


def run(op: Any, device: dml.Device, **arrays: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs, on the host, of inputs from the host."""
    outputs = op(**{name: device.from_host(array) for name, array in arrays.items()})
    return {name: np.asarray(device.to_host(value)) for name, value in outputs.as_dict().items()}


def expected(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    x = x.astype(np.float64)
    elu = np.where(x >= 0, x, 0.5 * np.expm1(np.minimum(x, 0)))
    flat = np.tanh(x).reshape(6, 4)
    rows = np.exp(flat.reshape(2, 12))
    return {"flat": flat, "rows": rows / rows.sum(1, keepdims=True), "y": np.where(elu >= 0, elu, 0.25 * elu)}


def test_a_graph_runs_in_the_order_of_its_edges(any_device: dml.Device) -> None:
    op = dml.compile(branches(), any_device)
    assert list(op.inputs) == ["x"]
    assert {name: desc.sizes for name, desc in op.outputs.items()} == {"flat": (6, 4), "rows": (2, 12), "y": (2, 3, 4)}
    x = values(2, 3, 4)
    found = run(op, any_device, x=x)
    assert list(found) == ["flat", "rows", "y"]
    for name, wanted in expected(x).items():
        assert_close(found[name], wanted, np.float32)


def test_a_recurrent_network_with_an_owned_statistic(any_device: dml.Device) -> None:
    g = dml.GraphBuilder()
    x, w, r = g.input("x", tensor(1, 5, 2, 3)), g.input("w", tensor(1, 1, 16, 3)), g.input("r", tensor(1, 1, 16, 4))
    members = {
        "activation_descs": [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        "direction": "FORWARD",
    }
    members |= {"clip_threshold": 1.0, "use_clip_threshold": False, "couple_input_forget": False}
    outputs = ["output_single_tensor"]
    h = g.add(dml.LSTMDesc, "lstm", outputs=outputs, input_tensor=x, weight_tensor=w, recurrence_tensor=r, **members)
    owned = tensor(1, 1, 1, 4, flags="OWNED_BY_DML")
    statistics = {f"{name}_tensor": g.input(name, owned) for name in ("mean", "variance", "scale", "bias")}
    g.output("y", g.add(dml.BatchNormalizationDesc, "norm", input_tensor=h, **statistics, spatial=True, epsilon=1e-5))
    graph = g.build()
    arrays = {name: values(*desc.sizes) for name, desc in dml.compile(graph, any_device).inputs.items()}
    arrays["variance"] = np.abs(arrays["variance"]) + 1
    found = run(dml.compile(graph, any_device), any_device, **arrays)["y"]
    lstm = graph.nodes[0].operator  # type: ignore[union-attr]
    given = {"input_tensor": arrays["x"], "weight_tensor": arrays["w"], "recurrence_tensor": arrays["r"]}
    hidden = run(dml.compile(lstm, "numpy"), dml.device("numpy"), **given)["output_single_tensor"].astype(np.float64)
    scaled = arrays["scale"] * (hidden - arrays["mean"]) / np.sqrt(arrays["variance"].astype(np.float64) + 1e-5)
    assert_close(found, scaled + arrays["bias"], np.float32)


def test_nodes_share_their_scratch(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    g, layers = dml.GraphBuilder(), {}
    x = g.input("x", tensor(1, 3, 2, 4))
    for name, units in (("narrow", 3), ("wide", 5)):
        given = {"input_tensor": x, "weight_tensor": g.input(f"w {name}", tensor(1, 1, units, 4))}
        given["recurrence_tensor"] = g.input(f"r {name}", tensor(1, 1, units, units))
        members: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
        g.output(name, g.add(dml.RNNDesc, name, outputs=["output_single_tensor"], **given, **members))
        sizes = {place: value.tensor for place, value in given.items()}
        layers[name] = dml.RNNDesc(**sizes, **members).with_outputs("output_single_tensor")
    allocated: dict[str, int] = {}
    allocate = type(any_device).allocate

    def noted(device: dml.Device, size: int, stream: int, purpose: str) -> Any:
        assert purpose not in allocated
        allocated[purpose] = size
        return allocate(device, size, stream, purpose)

    monkeypatch.setattr(type(any_device), "allocate", noted)
    arrays = {name: values(*desc.sizes) for name, desc in dml.compile(g.build(), any_device).inputs.items()}
    found = run(dml.compile(g.build(), any_device), any_device, **arrays)
    needed = [dml.compile(layer, any_device).binding_properties.temporary_resource_size for layer in layers.values()]
    assert allocated == {"the tensors and scratch of graph": -(-max(needed) // 256) * 256}
    for name, layer in layers.items():
        wanted = {"input_tensor": arrays["x"], "weight_tensor": arrays[f"w {name}"], "recurrence_tensor": arrays[f"r {name}"]}
        assert_close(found[name], dml.reference(layer, wanted).output_single_tensor, np.float32, terms=9)


def test_a_dispatch_is_repeated_and_writes_only_its_outputs(any_device: dml.Device) -> None:
    op = dml.compile(branches(), any_device)
    x = any_device.from_host(values(2, 3, 4))
    outputs = {name: any_device.from_host(np.full(desc.sizes, np.nan, np.float32)) for name, desc in op.outputs.items()}
    dispatch = op.bind({"x": x}, outputs)
    for _ in range(2):
        dispatch()
        for name, wanted in expected(np.asarray(any_device.to_host(x))).items():
            assert_close(np.asarray(any_device.to_host(outputs[name])), wanted, np.float32)


@pytest.mark.parametrize("read", [0, 1])
def test_outputs_that_no_edge_reads(read: int, any_device: dml.Device) -> None:
    """ONNX Runtime 1.25 builds such graphs for every TopK of which only the indices are used, and for parts of a Split."""
    x, out = values(3, 8), dml.TensorDesc(data_type="FLOAT32", sizes=[3, 4])
    g = dml.GraphBuilder()
    halves = g.add(dml.SplitDesc, input_tensor=g.input("x", dml.TensorDesc.of(x)), output_tensors=[out, out], axis=1)
    top = g.add(dml.TopK1Desc, input_tensor=g.add(dml.ElementWiseAbsDesc, input_tensor=halves[read]), axis=1, k=2)
    g.output("y", top[read])
    graph = g.build()
    assert graph.check() == []
    half = np.abs(np.split(x, 2, axis=1)[read])
    indices = np.argsort(-half, axis=1, kind="stable")[:, :2]
    expected = indices if read else np.take_along_axis(half, indices, 1)
    np.testing.assert_array_equal(run(dml.compile(graph, any_device), any_device, x=x)["y"], expected)


def test_edges_between_integers_of_one_width(any_device: dml.Device) -> None:
    """INT64 nodes read TOP_K's UINT64 indices in ONNX Runtime's graphs; floats of the same width are still reported."""
    x = values(2, 7)
    top = dml.TopK1Desc(input_tensor=dml.TensorDesc.of(x), axis=1, k=3).with_outputs(data_types={"output_index_tensor": "UINT64"})
    picked = dml.TensorDesc(data_type="INT64", sizes=[2, 3])
    graph = dml.Graph(
        nodes=[
            dml.OperatorNode(operator=top),
            dml.OperatorNode(operator=dml.ElementWiseNegateDesc(input_tensor=picked, output_tensor=picked)),
        ],
        input_count=1,
        output_count=1,
        input_names=["x"],
        output_names=["y"],
        input_edges=[dml.InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)],
        intermediate_edges=[dml.IntermediateEdge(from_node_index=0, from_node_output_index=1, to_node_index=1, to_node_input_index=0)],
        output_edges=[dml.OutputEdge(from_node_index=1, from_node_output_index=0, graph_output_index=0)],
    )
    assert graph.check() == []
    np.testing.assert_array_equal(run(dml.compile(graph, any_device), any_device, x=x)["y"], -np.argsort(-x, axis=1, kind="stable")[:, :3])
    bits = dml.TensorDesc(data_type="FLOAT64", sizes=[2, 3])
    cast = dml.CastDesc(input_tensor=bits, output_tensor=bits.replace(data_type="FLOAT32"))
    misread = graph.replace(nodes=[graph.nodes[0], dml.OperatorNode(operator=cast)])
    assert "graph.data_type" in {problem.code for problem in misread.check()}


def test_inputs_and_outputs_without_names_have_numbers() -> None:
    relu = dml.ActivationReluDesc(input_tensor=tensor(3), output_tensor=tensor(3))
    edges = {"input_edges": [dml.InputEdge(graph_input_index=1, to_node_index=0, to_node_input_index=0)]}
    edges |= {"output_edges": [dml.OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=0)]}
    graph = dml.Graph(input_count=2, output_count=1, nodes=[dml.OperatorNode(operator=relu)], **edges)
    op = dml.compile(graph, "numpy")
    assert (list(op.inputs), list(op.outputs)) == (["input_1"], ["output_0"]), "an input that feeds nothing is not bound"
    assert op(input_1=np.array([-1, 0, 2], np.float32)).output_0.tolist() == [0, 0, 2]


def test_a_graph_may_claim_billions_of_inputs() -> None:
    """Nothing is made for those that no node reads."""
    relu = dml.ActivationReluDesc(input_tensor=tensor(3), output_tensor=tensor(3))
    edges = {"input_edges": [dml.InputEdge(graph_input_index=2**31 - 1, to_node_index=0, to_node_input_index=0)]}
    edges |= {"output_edges": [dml.OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=0)]}
    op = dml.compile(dml.Graph(input_count=2**31, output_count=1, nodes=[dml.OperatorNode(operator=relu)], **edges), "numpy")
    x, y = np.array([-1, 0, 2], np.float32), np.full(3, np.nan, np.float32)
    assert op(input_2147483647=x).output_0.tolist() == [0, 0, 2]
    op.bind({"input_2147483647": x}, [y])()
    assert y.tolist() == [0, 0, 2]
    with pytest.raises(dml.BindError, match=r"a list of 1, expected 2147483648, with None for each that is absent: \[input_0, input_1"):
        op.bind([x], [y])


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({"x": None}, [("bind.missing", "x")]),
        ({"X": np.zeros(3)}, [("bind.unknown", "X")]),
        ({"x": np.zeros((2, 3, 4))}, [("array.type", "x")]),
        ({"x": np.zeros((2, 4, 3), np.float32)}, [("array.shape", "x")]),
        ({"y": np.zeros((2, 3), np.float32)}, [("array.shape", "y")]),
        ({"x": dml.Buffer(4096, 5)}, [("buffer.size", "x")]),
    ],
    ids=str,
)
def test_memory_that_does_not_fit(change: dict[str, Any], problems: list[tuple[str, str]]) -> None:
    with pytest.raises(dml.BindError, match=r"^branches: ") as caught:
        dml.compile(branches(), "numpy")(**{"x": values(2, 3, 4)} | change)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == problems


def test_outputs_share_memory_with_nothing() -> None:
    x, memory = values(2, 3, 4), np.zeros(24, np.float32)
    op = dml.compile(branches(), "numpy")
    with pytest.raises(dml.BindError) as caught:
        op(x=x, y=x, flat=memory.reshape(6, 4), rows=memory.reshape(2, 12))
    assert {(problem.code, problem.path) for problem in caught.value.problems} == {("hazard.in_place", "y"), ("hazard.outputs", "rows")}


def test_a_graph_with_problems_is_refused_with_all_of_them() -> None:
    graph = branches()
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(graph.replace(intermediate_edges=[]), "numpy")
    assert caught.value.hresult.name == "E_INVALIDARG"
    assert list(caught.value.problems) == graph.replace(intermediate_edges=[]).check()
    with pytest.raises(dml.CompileError, match=r"level\.operator"):
        dml.compile(graph, "numpy", feature_level="5_0")


def test_an_output_may_be_a_constant_or_another_output_too(any_device: dml.Device) -> None:
    """Graphs of the builder have a node that copies; others, such as those of files, may lead several edges to outputs."""
    g = dml.GraphBuilder()
    x = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", tensor(4)))
    strided = g.add(dml.ActivationReluDesc, "strided", input_tensor=x, output_tensor=tensor(4, strides=[3]))
    constant = g.constant("constant", np.arange(4, dtype=np.float32))
    ends = {"first": x, "second": x, "third": constant, "gaps": strided, "more gaps": strided, "again": constant}
    edges = [
        dml.OutputEdge(from_node_index=value.node, from_node_output_index=0, graph_output_index=at)
        for at, value in enumerate(ends.values())
    ]
    graph = g.build().replace(output_count=len(ends), output_names=list(ends), output_edges=edges, output_tensors=[])
    op = dml.compile(graph, any_device)
    x_values = np.array([-1, 2, -3, 4], np.float32)
    found = run(op, any_device, x=x_values)
    for name in ("first", "second", "gaps", "more gaps"):
        np.testing.assert_array_equal(found[name], np.maximum(x_values, 0))
    for name in ("third", "again"):
        np.testing.assert_array_equal(found[name].view(np.float32).ravel(), np.arange(4, dtype=np.float32))
    assert op.explain_plan().copied == ("second", "third", "more gaps", "again")


def test_operators_that_the_device_does_not_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = dml.device("numpy")
    monkeypatch.setattr(type(device), "plan", lambda self, desc, flags: None)
    g = dml.GraphBuilder()
    x = g.add(dml.ActivationEluDesc, "elu", input_tensor=g.input("x", tensor(17, 19)), alpha=0.123)
    g.output("y", g.add(dml.ActivationEluDesc, "again", input_tensor=x, alpha=0.124))
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(g.build(), device)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [("operator.not_built", f"nodes[{at}]") for at in (0, 1)]


def test_only_descs_and_graphs_are_compiled() -> None:
    with pytest.raises(dml.DescError, match="or a Graph"):
        dml.compile("graph")  # type: ignore[call-overload]


def lengths_after_relu(*, computed: bool, constant: Any = None) -> dml.Graph:
    """y = relu(x), and an RNN that runs after it: its sequence lengths are an input, a constant, or what a node makes of an input."""
    g = dml.GraphBuilder("ragged")
    x, n = tensor(1, 3, 2, 4), tensor(1, 1, 1, 2, data_type="UINT32")
    y = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", x))
    g.output("y", y)
    lengths = g.input("lengths", n) if constant is None else g.constant("lengths", np.array(constant, np.uint32).reshape(1, 1, 1, 2))
    if computed:
        lengths = g.add(dml.ElementWiseIdentityDesc, "copy", input_tensor=lengths)
    rnn = g.add(
        dml.RNNDesc,
        "rnn",
        input_tensor=y,
        weight_tensor=g.input("w", tensor(1, 1, 5, 4)),
        recurrence_tensor=g.input("r", tensor(1, 1, 5, 5)),
        sequence_lengths_tensor=lengths,
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
        outputs=["output_sequence_tensor"],
    )
    g.output("h", rnn)
    return g.build()


def bound_ragged(graph: dml.Graph, *lengths: int) -> tuple[Any, dict[str, np.ndarray[Any, Any]], dict[str, np.ndarray[Any, Any]]]:
    op = dml.compile(graph, "numpy")
    inputs = {name: values(*desc.sizes) for name, desc in op.inputs.items() if name != "lengths"}
    if "lengths" in op.inputs:
        inputs["lengths"] = np.array(lengths, np.uint32).reshape(1, 1, 1, 2)
    outputs = {name: np.full(desc.sizes, np.nan, np.float32) for name, desc in op.outputs.items()}
    return op.bind(inputs, outputs), inputs, outputs


@pytest.mark.parametrize("constant", [None, (2, 4)])
def test_values_that_are_given_are_refused_before_any_node_runs(constant: Any) -> None:
    dispatch, inputs, outputs = bound_ragged(lengths_after_relu(computed=False, constant=constant), 2, 4)
    with pytest.raises(dml.BindError, match=r"lengths.*\[1\] is 4, expected 0 to 3") as caught:
        dispatch()
    assert [problem.code for problem in caught.value.problems] == ["value.range"]
    assert all(np.isnan(array).all() for array in outputs.values()), "a node has run"
    if constant is None:
        inputs["lengths"][...] = 3
        dispatch()
        assert not any(np.isnan(array).any() for array in outputs.values())


def test_lengths_that_a_node_computes_count_as_the_nearest_in_range() -> None:
    """By then other nodes have written, so they are clamped, as in device memory."""
    dispatch, inputs, outputs = bound_ragged(lengths_after_relu(computed=True), 2, 2**32 - 1)
    dispatch()
    wild = {name: array.copy() for name, array in outputs.items()}
    inputs["lengths"][...] = np.array([2, 3])
    dispatch()
    for name, array in outputs.items():
        np.testing.assert_array_equal(wild[name], array)


def dirty(monkeypatch: pytest.MonkeyPatch, device: dml.Device) -> None:
    """Memory that the device gives out has been somebody else's."""
    allocate = type(device)._allocate

    def used(device: dml.Device, size: int, stream: int) -> Any:
        memory = allocate(device, size, stream)
        if device.memory_kind == "cpu":
            ctypes.memset(memory.pointer, 0x40, size)
        else:
            device.runtime.memset(memory.pointer, 0x40, size, stream)  # type: ignore[attr-defined]
        return memory

    monkeypatch.setattr(type(device), "_allocate", used)


def between(first: dml.TensorDesc, second: dml.TensorDesc) -> dml.Graph:
    """RELU writes the first desc, and TANH reads the same memory as the second one."""
    g = dml.GraphBuilder("between")
    relu = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", first.replace(strides=None)), output_tensor=first)
    g.output("y", g.add(dml.ActivationTanhDesc, "tanh", input_tensor=relu.viewed(second), output_tensor=second.replace(strides=None)))
    return g.build()


GAPS = {
    "between elements": (tensor(1, 1, 8, 4, strides=[64, 64, 8, 2]), tensor(1, 1, 1, 64, total_tensor_size_in_bytes=252)),
    "between rows": (tensor(4, 4, strides=[6, 1]), tensor(22)),
    "behind the last element": (tensor(5, total_tensor_size_in_bytes=64), tensor(16)),
    "of a shorter type": (tensor(3, data_type="FLOAT16"), tensor(4, data_type="FLOAT16")),
}


@pytest.mark.parametrize("name", GAPS)
def test_what_no_node_has_written_is_read_as_zero(name: str, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = GAPS[name]
    size = writer.size_in_bytes
    reader = reader.replace(sizes=(size // (reader.data_type.bits // 8),), total_tensor_size_in_bytes=size)
    dirty(monkeypatch, any_device)
    op = dml.compile(between(writer, reader), any_device)
    x = np.abs(values(*writer.sizes)).astype(writer.data_type.numpy)
    flat = np.zeros(reader.sizes, x.dtype)
    np.lib.stride_tricks.as_strided(flat, writer.sizes, writer.numpy_strides())[...] = x
    for _ in range(2):
        assert_close(run(op, any_device, x=x)["y"], np.tanh(flat.astype(np.float64)), x.dtype)


def test_only_what_is_read_past_its_elements_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = tensor(4, 4, strides=[8, 2])
    cleared: list[int] = []
    device = dml.device("numpy")
    monkeypatch.setattr(type(device), "clear", lambda self, pointer, size, stream: cleared.append(size))
    for strides in ([8, 2], [2, 8], [0, 2], [4, 4]):
        reader = tensor(4, 4, strides=strides, total_tensor_size_in_bytes=124)
        run(dml.compile(between(writer, reader), device), device, x=values(4, 4))
    assert cleared == []
    run(dml.compile(between(writer, tensor(31)), device), device, x=values(4, 4))
    assert cleared == [31 * 4]


def test_an_output_whose_gaps_a_node_reads_is_a_copy(any_device: dml.Device) -> None:
    """The gaps in the caller's memory are the caller's: the node reads zeros in memory of the graph."""
    writer, reader = GAPS["between rows"]
    graph = between(writer, reader)
    both = graph.replace(
        output_count=2, output_names=["y", "z"],
        output_edges=[*graph.output_edges, dml.OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=1)],
    )  # fmt: skip
    x = values(4, 4)
    op = dml.compile(both, any_device)
    found = run(op, any_device, x=x)
    np.testing.assert_array_equal(found["z"], np.maximum(x, 0))
    flat = np.zeros(reader.sizes, np.float32)
    np.lib.stride_tricks.as_strided(flat, writer.sizes, writer.numpy_strides())[...] = np.maximum(x, 0)
    assert_close(found["y"], np.tanh(flat.astype(np.float64)), np.float32)
    assert op.explain_plan().copied == ("z",)


def test_what_lies_between_the_entries_of_a_new_array_is_zero(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    desc = tensor(4, 4, strides=[8, 2])
    dirty(monkeypatch, any_device)
    if any_device.memory_kind == "cuda":
        allocate = any_device.runtime.allocate  # type: ignore[attr-defined]

        def used(device: int, size: int, stream: int) -> Any:
            memory = allocate(device, size, stream)
            any_device.runtime.memset(memory.pointer, 0x40, size, stream)  # type: ignore[attr-defined]
            return memory

        monkeypatch.setattr(any_device.runtime, "allocate", used)  # type: ignore[attr-defined]
    array = any_device.empty(desc, any_device.current_stream())
    data = any_device.read(any_device.view(array).pointer, desc.extent_in_bytes, any_device.current_stream())
    numbers = np.frombuffer(data, np.float32)
    assert not numbers[1::2].any()


def test_the_plan_names_each_node_with_the_plan_of_its_operator() -> None:
    g = dml.GraphBuilder("net")
    powers = g.add(dml.ElementWiseExpDesc, "powers", input_tensor=g.input("x", tensor(1, 3)))
    g.output("y", g.add(dml.ActivationSoftmax1Desc, "shares", input_tensor=powers, axes=[1]))
    op = dml.compile(g.build(), "numpy")
    plans = [dml.compile(step.operator.desc, "numpy").plan.replace("\n", "\n    ") for step in op._program.steps]
    assert op.plan == f"powers\n    {plans[0]}\nshares\n    {plans[1]}"
    assert op.prepare().plan == op.plan


@pytest.mark.parametrize("prepared", [False, True])
def test_arrays_without_their_names_are_refused_with_the_names(prepared: bool) -> None:
    op: Any = dml.compile(branches(), "numpy")
    with pytest.raises(TypeError, match=r"takes arrays by name, op\(x=\.\.\.\); 1 value without a name"):
        (op.prepare() if prepared else op)(values(2, 3, 4))
