"""Graphs as ONNX models: ONNX's reference implementation, or ONNX Runtime where it is installed, gives what dmlpy gives."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import dmlpy as dml
from dmlpy import onnx, x
from dmlpy.description.registry import OPERATORS
from dmlpy.graphs import Graph, GraphBuilder
from dmlpy.inspection.samples import sample
from dmlpy.onnx.exporting.rules import UNSAID, rules
from tests.support.folders import EXPORTED_MODELS as EXPORTED
from tests.support.graphs.cases import network, random_network
from tests.support.graphs.random_graphs import random_graph
from tests.support.onnx.export_cases import CASES
from tests.support.onnx.exports import assert_same, bound_inputs, by_onnx_runtime, by_reference, checked, graph_of, laid_out
from tests.support.onnx.random_graphs import random_exportable_graph
from tests.support.operators.operator_results import RESULTS, SYSTEMS
from tests.support.operators.operator_types import of_all_types
from tests.support.operators.random_inputs import random_inputs
from tests.support.pairwise import first_few
from tests.support.tables import table
from tests.support.tensors import tensor

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {kind.short_name(): kind for kind in OPERATORS.values() if not kind.is_extension}
NO_ORACLE = {
    "GRU": "it ignores sequence_lens, directions and activations",
    "LOCAL_RESPONSE_NORMALIZATION": "it sums squares for as many channels as there are batch entries",
    "LSTM": "it ignores sequence_lens, directions and activations",
    "RNN": "it ignores sequence_lens, directions and activations",
    "ROI_POOLING": "it has no MaxRoiPool",
}
"""What ONNX's reference implementation does not compute, and why; ONNX Runtime does."""
MISTAKEN = {
    "convolution transposed": "its ConvTranspose takes no groups with pads of two different ends",
    "max of integers": "its MaxPool gives other sizes for pads of two different ends",
    "max of wide padding": "its MaxPool counts places by the sizes of the result",
}
"""Cases likewise."""


@cache
def has_onnx_runtime() -> bool:
    try:
        import onnxruntime
    except ImportError:
        return False
    return bool(onnxruntime.__version__)


def agree(graph: Graph, inputs: dict[str, Any], what: str, *, reference: bool = True) -> None:
    """ONNX's checker takes the exported graph; another program, and dmlpy from the model, give what the graph gives."""
    model = checked(graph)
    with np.errstate(all="ignore"):
        expected = dml.compile(graph, "numpy")(**inputs).as_dict()
        assert_same(onnx.load(model).compile("numpy")(inputs), expected, f"{what} imported again")
    found = by_onnx_runtime(model, inputs) if has_onnx_runtime() else None
    if found is None and reference:
        found = by_reference(model, inputs)
    if found is not None:
        assert_same(found, expected, what)


def agree_on(desc: dml.OperatorDesc, what: str, *, reference: bool = True) -> None:
    drawn = random_inputs(np.random.default_rng(1), desc)
    if "ROI_ALIGN" in desc.short_name():  # the second corner is the larger one
        first, second = np.split(drawn["roi_tensor"], 2, axis=-1)
        drawn["roi_tensor"] = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)
    inputs = bound_inputs(desc, drawn)
    agree(graph_of(desc), inputs, what, reference=reference and desc.short_name() not in NO_ORACLE)


def refusals(graph: Graph) -> list[dml.Problem]:
    """Why a graph is not exported; none if it is."""
    try:
        onnx.export(graph)
    except dml.CompileError as refused:
        return [problem for problem in refused.problems if problem.code == "onnx.export"]
    return []


def with_all_members(kind: Any) -> dml.OperatorDesc:
    """The sample, without members that ONNX lacks."""
    desc: Any = sample(kind)
    return desc.replace(maximum_samples_per_output=2) if "ROI_ALIGN" in kind.short_name() else desc


def test_every_operator_is_said_or_has_a_reason() -> None:
    assert set(rules()) | set(UNSAID) == set(KINDS)
    assert not set(rules()) & set(UNSAID)


@pytest.mark.parametrize("name", sorted(rules()))
def test_an_operator_is_said_by_onnx(name: str) -> None:
    agree_on(with_all_members(KINDS[name]), name)


@table("name", CASES)
def test_members_are_said_by_onnx(name: str) -> None:
    agree_on(CASES[name], name, reference=name not in MISTAKEN)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_what_is_not_a_number_has_no_sign(data_type: str) -> None:
    """ONNX Runtime's Sign gives NaN for NaN, and 0 in FLOAT16; DirectML's gives 0."""
    desc = dml.ElementWiseSignDesc(input_tensor=dml.TensorDesc(data_type=data_type, sizes=[1, 1, 1, 4])).with_outputs()
    values = np.array([np.nan, -2, 0, np.inf], desc.input_tensor.data_type.numpy).reshape(1, 1, 1, 4)
    agree(graph_of(desc), {"input_tensor": values}, f"SIGN of {data_type}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(rules()))
def test_an_operator_of_every_type_is_said_by_onnx(name: str) -> None:
    for desc in of_all_types(KINDS[name]):
        if any(tensor.data_type.bits == 4 for tensor in desc.tensors().values()):
            continue
        types = ", ".join(tensor.data_type.name for tensor in desc.tensors().values())
        if not refusals(graph_of(desc)):
            agree_on(desc, f"{name} of {types}")


@pytest.mark.slow
@pytest.mark.parametrize("file", SYSTEMS)
def test_stored_results_are_those_of_the_exported_operators(file: str) -> None:
    """With infinities, NaN and ties, of which ONNX's reference implementation makes other things."""
    pytest.importorskip("onnxruntime")
    for result in RESULTS:
        if result.file != file or result.kind.short_name() not in rules():
            continue
        desc = result.desc()
        if not refusals(graph_of(desc)):
            agree(graph_of(desc), bound_inputs(desc, result.inputs), str(result), reference=False)


# graphs


def of_small_numbers(graph: Graph, seed: int) -> dict[str, Any]:
    """Small whole numbers for the inputs of a graph."""
    random = np.random.default_rng(seed)
    described = dml.compile(graph, "numpy").inputs
    drawn = {name: random.integers(-4, 5, tensor.sizes).astype(tensor.data_type.numpy) for name, tensor in described.items()}
    return {name: laid_out(array, described[name]) for name, array in drawn.items()}


@pytest.mark.parametrize("seed", first_few(range(300), 20))
def test_a_random_graph_is_said_by_onnx(seed: int) -> None:
    """Views by strides, slices, joins, products and padding, with exact results."""
    graph = random_graph(seed)
    if graph.output_edges and not (found := refusals(graph)):
        agree(graph, of_small_numbers(graph, seed), f"seed {seed}")
    elif graph.output_edges:
        assert all("that are written" in problem.expected for problem in found), found


@pytest.mark.parametrize("seed", range(12))
def test_a_random_network_is_said_by_onnx(seed: int) -> None:
    graph = random_network(seed)
    agree(graph, of_small_numbers(graph, seed), f"seed {seed}")


@pytest.mark.parametrize("seed", first_few(range(500), 25))
def test_a_random_graph_of_all_operators_is_said_by_onnx(seed: int) -> None:
    """Windows, layouts, indices out of range, quantization, recurrence and attention, behind each other."""
    graph, random = random_exportable_graph(seed), np.random.default_rng(seed)
    described = dml.compile(graph, "numpy").inputs
    inputs = {
        name: laid_out(random.uniform(-1, 1, tensor.sizes).astype(tensor.data_type.numpy), tensor) for name, tensor in described.items()
    }
    agree(graph, inputs, f"seed {seed}", reference=False)


@pytest.mark.parametrize("file", sorted(path.name for path in EXPORTED.glob("*.onnx")))
def test_the_graphs_of_an_imported_model_are_said_by_onnx(file: str) -> None:
    """PyTorch's models, as DirectML's operators, go out again."""
    graphs = onnx.load(EXPORTED / file).graphs
    assert graphs
    for graph in graphs:
        random, described = np.random.default_rng(0), dml.compile(graph, "numpy").inputs
        drawn = {
            name: random.uniform(-0.5, 0.5, tensor.sizes) if tensor.data_type.numpy.kind == "f" else random.integers(0, 3, tensor.sizes)
            for name, tensor in described.items()
        }
        inputs = {name: laid_out(array.astype(described[name].data_type.numpy), described[name]) for name, array in drawn.items()}
        agree(graph, inputs, file, reference=False)


BLOCKS = {"the tensor": (1, 1, 1, 1), "an axis": (1, 3, 1, 1), "blocks": (2, 3, 4, 2)}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", ["INT4", "UINT4"])
def test_integers_of_4_bits_are_said_by_onnx(name: str, blocks: str) -> None:
    """Quantized and dequantized: dmlpy has two elements to a byte, ONNX's arrays one."""
    sizes, random, dtype = (2, 3, 4, 6), np.random.default_rng(0), np.dtype(getattr(ml_dtypes, name.lower()))
    scale = random.uniform(0.1, 0.3, BLOCKS[blocks]).astype(np.float32)
    point = random.integers(0, 4, BLOCKS[blocks]).astype(dtype)
    parameters = [tensor(*BLOCKS[blocks]), tensor(*BLOCKS[blocks], data_type=name)]
    known: dict[str, Any] = {"quantization_type": "SCALE_ZERO_POINT", "quantization_tensors": parameters}
    descs: dict[dml.OperatorDesc, np.ndarray[Any, Any]] = {
        dml.QuantizeDesc(input_tensor=tensor(*sizes), output_tensor=tensor(*sizes, data_type=name), **known): random.uniform(
            -2, 2, sizes
        ).astype(np.float32),
        dml.DequantizeDesc(input_tensor=tensor(*sizes, data_type=name), output_tensor=tensor(*sizes), **known): random.integers(
            0, 7, sizes
        ).astype(dtype),
    }
    for desc, data in descs.items():
        inputs = {"input_tensor": data, "quantization_tensors_0": scale, "quantization_tensors_1": point}
        packed = {place: dml.pack_int4(array) if array.dtype == dtype else array for place, array in inputs.items()}
        expected = dml.compile(graph_of(desc), "numpy")(**packed).as_dict()["output_tensor"]
        found = by_reference(checked(graph_of(desc)), inputs)["output_tensor"]
        if found.dtype == dtype:
            expected = dml.unpack_int4(expected, name, sizes)
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=0)


def test_constants_of_4_bits_keep_their_types() -> None:
    """The same bytes, signed and unsigned, are two constants."""
    g, data = GraphBuilder(), np.array([0x21, 0xFE], np.uint8)
    for name in ("INT4", "UINT4"):
        kind = tensor(1, 1, 1, 4, data_type=name)
        scale = g.constant(f"scale {name}", np.ones((1, 1, 1, 1), np.float32))
        numbers = g.constant(f"numbers {name}", data, kind)
        made = g.add(
            dml.DequantizeDesc,
            input_tensor=numbers,
            quantization_type="SCALE",
            quantization_tensors=[scale],
            output_tensor=tensor(1, 1, 1, 4),
        )
        g.output(name, g.add(dml.ElementWiseAddDesc, a_tensor=made, b_tensor=g.input(f"x{name}", tensor(1, 1, 1, 4))))
    zeros = np.zeros((1, 1, 1, 4), np.float32)
    found = by_reference(checked(g.build()), {"xINT4": zeros, "xUINT4": zeros})
    assert (found["INT4"].reshape(-1).tolist(), found["UINT4"].reshape(-1).tolist()) == ([1, 2, -2, -1], [-7, -6, 6, 7])


def test_a_graph_with_constants_and_owned_inputs_is_said_by_onnx() -> None:
    graph = network()
    agree(graph, {name: np.abs(array) for name, array in of_small_numbers(graph, 0).items()}, "network")


def test_expressions_are_said_by_onnx() -> None:
    data, weights = x.input("data", [5, 8]), x.input("weights", [6, 8])
    product = x.gemm(data, weights, trans_b="TRANSPOSE", alpha=0.5)
    joined = x.join([x.activation_relu(product), product], axis=1)
    mean = x.reduce(joined, function="AVERAGE", axes=[1])
    result = x.activation_softmax1((joined - mean) * 0.3, axes=[1])
    turned = x.exp(result.transpose(1, 0)[::2, 1:])
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal(sizes, np.float32) for name, sizes in {"data": (5, 8), "weights": (6, 8)}.items()}
    agree(turned.graph(), arrays, "expressions")


# views


def read_as(seen: dml.TensorDesc, sizes: tuple[int, ...], data_type: str = "FLOAT32") -> Graph:
    """A copy of a value that is written packed in some sizes, read by another desc."""
    g = GraphBuilder()
    written = dml.TensorDesc(data_type=data_type, sizes=sizes)
    value = g.add(dml.ElementWiseIdentityDesc, "write", input_tensor=g.input("x", written))
    seen = seen.replace(total_tensor_size_in_bytes=written.size_in_bytes)
    g.output("y", g.add(dml.ElementWiseIdentityDesc, "read", input_tensor=value.viewed(seen)))
    return g.build()


VIEWS: dict[str, tuple[tuple[int, ...], dml.TensorDesc, set[str]]] = {
    "same": ((2, 3, 4), dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3, 4]), set()),
    "reshaped": ((2, 3, 4), dml.TensorDesc(data_type="FLOAT32", sizes=[6, 4]), {"Reshape"}),
    "transposed": ((2, 3, 4), dml.TensorDesc(data_type="FLOAT32", sizes=[4, 2, 3], strides=[1, 12, 4]), {"Reshape", "Transpose"}),
    "repeated": ((1, 3), dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], strides=[0, 1]), {"Expand"}),
    "part": ((4, 6), dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], strides=[6, 2]), {"Reshape", "Slice"}),
    "part of rows": ((4, 6), dml.TensorDesc(data_type="FLOAT32", sizes=[3, 2], strides=[1, 12]), {"Reshape", "Slice", "Transpose"}),
    "windows": ((6,), dml.TensorDesc(data_type="FLOAT32", sizes=[4, 3], strides=[1, 1]), {"Gather", "Reshape"}),
    "diagonal": ((4, 4), dml.TensorDesc(data_type="FLOAT32", sizes=[4], strides=[5]), {"Gather", "Reshape"}),
}
"""Sizes that are written, how they are read, and the nodes that express it."""


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_said_by_onnx(name: str) -> None:
    sizes, seen, nodes = VIEWS[name]
    graph = read_as(seen, sizes)
    agree(graph, of_small_numbers(graph, 0), name)
    assert {node.op_type for node in onnx.export(graph).graph.node} - {"Identity"} == nodes


def test_an_input_that_strides_repeat_is_said_by_onnx() -> None:
    g = GraphBuilder()
    value = g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], strides=[0, 1]))
    g.output("y", g.add(dml.ElementWiseNegateDesc, input_tensor=value))
    agree(g.build(), {"x": np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3))}, "repeated input")


def test_integers_of_other_sizes_are_said_by_casts() -> None:
    """INT64 read as its low 32 bits, unsigned: as ONNX Runtime's provider reads indices."""
    seen = dml.TensorDesc(data_type="UINT32", sizes=[2, 3], strides=[6, 2])
    graph = read_as(seen, (2, 3), "INT64")
    model = checked(graph)
    assert [node.op_type for node in model.graph.node].count("Cast") == 1
    given = np.array([[1, -1, 2**31], [2**33 + 5, 0, -7]])
    expected = dml.compile(graph, "numpy")(x=given).as_dict()
    np.testing.assert_array_equal(expected["y"], given.astype(np.uint32))
    assert_same(by_reference(model, {"x": given}), expected, "low bits")


def test_a_constant_that_strides_view_is_stored_as_it_is_read() -> None:
    g = GraphBuilder()
    constant = g.constant("c", np.arange(6, dtype=np.float32)).viewed(
        dml.TensorDesc(data_type="FLOAT32", sizes=[4, 3, 2], strides=[0, 1, 3])
    )
    g.output(
        "y", g.add(dml.ElementWiseAddDesc, a_tensor=g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[4, 3, 2])), b_tensor=constant)
    )
    graph = g.build()
    agree(graph, of_small_numbers(graph, 0), "constant")
    (stored,) = onnx.export(graph).graph.initializer
    assert list(stored.dims) == [1, 3, 2]


# what comes out


def test_outputs_keep_their_names_where_one_value_is_several() -> None:
    g = GraphBuilder()
    value = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[2])))
    g.output("a", value)
    g.output("b", g.add(dml.ActivationTanhDesc, "tanh", input_tensor=value))
    g.output("again", value)
    graph = g.build()
    agree(graph, {"x": np.array([-1, 2], np.float32)}, "outputs")
    model = onnx.export(graph)
    assert [node.op_type for node in model.graph.node] == ["Relu", "Tanh", "Identity"]
    assert [item.name for item in model.graph.output] == ["a", "b", "again"]
    assert (model.opset_import[0].version, model.ir_version, model.producer_name) == (21, 10, "dmlpy")


REFUSED: dict[str, tuple[dml.OperatorDesc, str]] = {
    "an operator": (sample(dml.RandomGeneratorDesc), r"nodes\[0\] is RANDOM_GENERATOR, expected an operator .*\n.*none is Philox"),
    "one of dmlpy's": (sample(dml.LSTMTrainingDesc), r"nodes\[0\] is LSTM_TRAINING, expected an operator .*\n.*a training form"),
    "a member": (sample(dml.ROIAlignDesc), r"nodes\[0\]\.maximum_samples_per_output is 3, expected minimum_samples_per_output"),
    "a type": (
        dml.ElementWiseBitAndDesc(**{f"{name}_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[3]) for name in "ab"}).with_outputs(),
        r"nodes\[0\] is float32 for ONNX's BitwiseAnd of opset 21, expected a type that it takes: int16, .*\n.*of ELEMENT_WISE_BIT_AND",
    ),
    "an activation": (
        dml.RNNDesc(
            input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 1, 2]),
            weight_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 3, 2]),
            recurrence_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 3, 3]),
            activation_descs=[dml.ActivationGeluDesc()],
            direction="FORWARD",
        ).with_outputs(),
        r"nodes\[0\]\.activation_descs\[0\] is ACTIVATION_GELU, expected an activation that ONNX's recurrent operators have: Relu",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_does_not_say_is_named(name: str) -> None:
    desc, message = REFUSED[name]
    with pytest.raises(dml.CompileError, match=message) as caught:
        onnx.export(graph_of(desc))
    assert [problem.code for problem in caught.value.problems] == ["onnx.export"]


def test_all_refused_nodes_are_reported_and_those_behind_them_are_not() -> None:
    state, numbers = (dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, count]) for count in (6, 8))
    g = GraphBuilder()
    for name in "ab":
        made = g.add(dml.RandomGeneratorDesc, input_state_tensor=g.input(name, state), output_tensor=numbers, type="PHILOX_4X32_10")
        g.output(f"of {name}", g.add(dml.ElementWiseIdentityDesc, input_tensor=made[0] if isinstance(made, tuple) else made))
    with pytest.raises(dml.CompileError) as caught:
        onnx.export(g.build())
    assert [problem.path for problem in caught.value.problems] == ["nodes[0]", "nodes[2]"]


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (dml.TensorDesc(data_type="INT32", sizes=[2, 3]), r"nodes\[1\]\.input_tensor is INT32 .*reads? bits as those of another type"),
        (dml.TensorDesc(data_type="FLOAT16", sizes=[4, 3]), r"nodes\[1\]\.input_tensor is FLOAT16"),
    ],
)
def test_bits_of_another_type_are_refused(seen: dml.TensorDesc, message: str) -> None:
    with pytest.raises(dml.CompileError, match=message):
        onnx.export(read_as(seen, (2, 3)))


# constants


def weighed() -> Graph:
    """The product of an input and weights, plus a bias that strides repeat."""
    g = GraphBuilder()
    sizes = {"x": [2, 3], "weights": [3, 4]}
    a, b = (g.input(name, dml.TensorDesc(data_type="FLOAT32", sizes=own)) for name, own in sizes.items())
    c = g.input("bias", dml.TensorDesc(data_type="FLOAT32", sizes=[2, 4], strides=[0, 1]))
    g.output("y", g.add(dml.GEMMDesc, "product", a_tensor=a, b_tensor=b, c_tensor=c))
    return g.build()


def test_the_graph_of_a_compiled_one_is_exported() -> None:
    graph = weighed()
    assert onnx.export(dml.compile(graph, "numpy")) == onnx.export(graph)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (lambda: x.input("a", [2]) + 1.0, "expression.graph()"),
        (lambda: onnx.load(onnx.export(weighed())), "the one that onnx.load read"),
        (lambda: onnx.load(onnx.export(weighed())).compile("numpy"), "the one that onnx.load read"),
        (lambda: next(iter(REFUSED.values()))[0], "add it to a GraphBuilder"),
        (lambda: None, None),
        (lambda: "graph.json", None),
    ],
    ids=["expression", "model", "compiled model", "desc", "none", "file"],
)
def test_what_is_no_graph_is_refused(given: Callable[[], Any], remedy: str | None) -> None:
    with pytest.raises(dml.DescError, match=r"graph is .*, expected a Graph or a CompiledGraph") as caught:
        onnx.export(given())
    (problem,) = caught.value.problems
    assert problem.remedy == remedy or (remedy is not None and remedy in (problem.remedy or ""))


@pytest.mark.parametrize("as_bytes", [False, True])
def test_inputs_are_stored_in_the_model(as_bytes: bool) -> None:
    weights, bias = np.arange(12, dtype=np.float32).reshape(3, 4), np.broadcast_to(np.arange(4, dtype=np.float32), (2, 4))
    given: dict[str, Any] = {"weights": weights, "bias": bias}
    model = onnx.export(weighed(), {"weights": weights.tobytes(), "bias": bias[0].tobytes()} if as_bytes else given)
    assert [item.name for item in model.graph.input] == ["x"]
    assert {item.name: list(item.dims) for item in model.graph.initializer} == {"weights": [3, 4], "bias": [1, 4]}
    data = np.ones((2, 3), np.float32)
    assert_same(by_reference(model, {"x": data}), {"y": data @ weights + bias}, "stored")


def test_constants_that_do_not_fit_are_all_reported() -> None:
    given = {"weight": np.zeros(3), "weights": np.zeros((3, 4)), "bias": bytes(8)}
    with pytest.raises(dml.CompileError) as caught:
        onnx.export(weighed(), given)
    assert [(problem.path, problem.found, problem.expected) for problem in caught.value.problems] == [
        ("constants['weight']", "no input of the graph", "one of x, weights, bias"),
        ("constants['weights']", "float64 [3, 4]", "FLOAT32 [3, 4]"),
        ("constants['bias']", "8 bytes", "at least 16"),
    ]
    assert caught.value.problems[0].remedy == "did you mean weights?"
