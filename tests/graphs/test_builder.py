"""What `GraphBuilder` offers in addition to joining values: views, copies of outputs that need one, pruning, constants of every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import GraphBuilder, OperatorNode, Value
from tests.support.tensors import tensor

RNG = np.random.default_rng(5)
Array = np.ndarray[Any, np.dtype[Any]]
View = tuple[Callable[[Value], Value], Callable[[Array], Array], int]


def values(*sizes: int) -> Array:
    return RNG.standard_normal(sizes, dtype=np.float32)


# What a view of [2, 3, 4] is, the same by NumPy, and how many nodes copy for it.
VIEWS: dict[str, View] = {
    "merged dimensions": (lambda v: v.reshape(6, 4), lambda a: a.reshape(6, 4), 0),
    "divided dimensions": (lambda v: v.reshape(2, 1, 3, 2, 2), lambda a: a.reshape(2, 1, 3, 2, 2), 0),
    "a size to infer": (lambda v: v.reshape(3, -1), lambda a: a.reshape(3, -1), 0),
    "one dimension": (lambda v: v.reshape(-1), lambda a: a.reshape(-1), 0),
    "reversed dimensions": (lambda v: v.transpose(), lambda a: a.transpose(), 0),
    "a permutation": (lambda v: v.transpose(1, -1, 0), lambda a: a.transpose(1, 2, 0), 0),
    "a transposed view with divided dimensions": (
        lambda v: v.transpose(2, 0, 1).reshape(2, 2, 1, 2, 3),
        lambda a: a.transpose(2, 0, 1).reshape(2, 2, 1, 2, 3),
        0,
    ),
    "a transposed view whose dimensions are merged": (
        lambda v: v.transpose(2, 0, 1).reshape(8, 3),
        lambda a: a.transpose(2, 0, 1).reshape(8, 3),
        1,
    ),
    "merged dimensions that continue each other": (
        lambda v: v.transpose(2, 0, 1).reshape(4, 6),
        lambda a: a.transpose(2, 0, 1).reshape(4, 6),
        0,
    ),
    "leading ones": (lambda v: v.with_leading_ones(5), lambda a: a[None, None], 0),
    "a new leading dimension": (lambda v: v.broadcast(5, 2, 3, 4), lambda a: np.broadcast_to(a, (5, 2, 3, 4)), 0),
    "a repeated dimension": (
        lambda v: v.reshape(2, 1, 3, 4).broadcast(2, 5, 3, 4),
        lambda a: np.broadcast_to(a.reshape(2, 1, 3, 4), (2, 5, 3, 4)),
        0,
    ),
    "a repeated dimension, merged": (
        lambda v: v.reshape(2, 1, 3, 4).broadcast(2, 5, 3, 4).reshape(10, 12),
        lambda a: np.broadcast_to(a.reshape(2, 1, 3, 4), (2, 5, 3, 4)).reshape(10, 12),
        1,
    ),
    "a window at the start": (lambda v: v.slice([0, 0, 0], [2, 2, 3]), lambda a: a[:, :2, :3], 0),
    "every second element": (lambda v: v.slice([0, 0, 0], [2, 3, 4], [1, 2, 3]), lambda a: a[:, ::2, ::3], 0),
    "a window elsewhere": (lambda v: v.slice([1, 0, 2], [1, 3, 2]), lambda a: a[1:, :, 2:], 1),
    "backwards": (lambda v: v.slice([0, 0, 0], [2, 3, 4], [1, -2, -1]), lambda a: a[:, ::-2, ::-1], 1),
    "the window of a view": (
        lambda v: v.transpose(2, 1, 0).slice([1, 0, 0], [2, 3, 2]),
        lambda a: a.transpose(2, 1, 0)[1:3],
        1,
    ),
}


@pytest.mark.parametrize("source", ["an input", "a node", "a constant"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_reads_the_elements_that_numpy_would(name: str, source: str) -> None:
    view, by_numpy, copies = VIEWS[name]
    g, x = GraphBuilder(), values(2, 3, 4)
    own = g.constant("x", x) if source == "a constant" else g.input("x", tensor(2, 3, 4))
    own = g.add(dml.ElementWiseNegateDesc, input_tensor=own) if source == "a node" else own
    g.output("y", g.add(dml.ElementWiseAbsDesc, input_tensor=view(own), scale_bias={"Scale": 2, "Bias": 1}))
    graph = g.build()
    assert graph.check(lenient=True) == []
    assert sum(isinstance(node, OperatorNode) for node in graph.nodes) == 1 + copies + (source == "a node")
    found = dml.compile(graph, "numpy")(**({} if source == "a constant" else {"x": x})).y
    np.testing.assert_array_equal(found, np.abs(2 * (-1 if source == "a node" else 1) * by_numpy(x) + 1), strict=True)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_an_output_in_packed_order(name: str) -> None:
    view, by_numpy, _ = VIEWS[name]
    g, x = GraphBuilder(), values(2, 3, 4)
    g.output("y", view(g.add(dml.ElementWiseNegateDesc, input_tensor=g.input("x", tensor(2, 3, 4)))))
    op = dml.compile(g.build(), "numpy")
    assert op.outputs["y"].is_packed
    y = np.full(by_numpy(x).shape, np.nan, np.float32)
    op(x=x, y=y)
    np.testing.assert_array_equal(y, -by_numpy(x))


NIBBLES: dict[str, tuple[Callable[[Value], Value], Callable[[Array], Array], int]] = {
    "as it is": (lambda v: v, lambda a: a, 2),
    "a transposed view": (lambda v: v.transpose(), lambda a: a.transpose(), 2),
    "merged dimensions": (lambda v: v.transpose(2, 0, 1).reshape(-1), lambda a: a.transpose(2, 0, 1).ravel(), 2),
    "a window elsewhere": (lambda v: v.slice([1, 0, 1], [1, 3, 4], [1, 1, 2]), lambda a: a[1:, :, 1::2], 3),
}


@pytest.mark.parametrize("data_type", ["INT4", "UINT4"])
@pytest.mark.parametrize("name", NIBBLES)
def test_elements_of_4_bits_are_copied_by_quantization(name: str, data_type: str, any_device: dml.Device) -> None:
    """No operator but QUANTIZE writes them, so that a copy of them is one of numbers. As an output even the input itself needs one."""
    view, by_numpy, nodes = NIBBLES[name]
    least, dtype = (-8, np.int8) if data_type == "INT4" else (0, np.uint8)
    x = (np.arange(30).reshape(2, 3, 5) % 16 + least).astype(dtype)
    g = GraphBuilder()
    g.output("y", view(g.input("x", tensor(2, 3, 5, data_type=data_type))))
    graph = g.build()
    assert dml.check(graph) == []
    assert sum(isinstance(node, OperatorNode) for node in graph.nodes) == nodes
    op = dml.compile(graph, any_device)
    found = any_device.to_host(op(x=any_device.from_host(dml.pack_int4(x))).y)
    np.testing.assert_array_equal(dml.unpack_int4(found, data_type, op.outputs["y"].sizes), by_numpy(x))


def test_views_of_views_keep_the_bytes_of_the_edge() -> None:
    """DirectML wants TotalTensorSizeInBytes to be equal at both ends, whatever part of the tensor is read."""
    x = GraphBuilder().input("x", tensor(2, 3, 4))
    for sizes in (x.slice([0, 0, 0], [1, 2, 1]), x.broadcast(7, 2, 3, 4), x.transpose().slice([0, 0, 0], [1, 1, 1]).broadcast(9, 9, 9)):
        assert sizes.tensor.size_in_bytes == 96
    assert x.transpose().transpose().tensor == x.tensor


REFUSED: dict[str, tuple[Callable[[Value], Any], str, str]] = {
    "another number of elements": (lambda v: v.reshape(5, 5), "sizes", "[5, 5], expected sizes of 24 elements; one may be -1"),
    "two sizes to infer": (lambda v: v.reshape(-1, -1), "sizes", "one may be -1"),
    "a size that does not divide": (lambda v: v.reshape(5, -1), "sizes", "[5, -1]"),
    "sizes that are none": (lambda v: v.reshape("x"), "sizes", "expected integers"),
    "an axis twice": (lambda v: v.transpose(0, 0, 1), "axes", "each of the dimensions 0 to 2 once"),
    "too few axes": (lambda v: v.transpose(0, 1), "axes", "each of the dimensions 0 to 2 once"),
    "another size": (lambda v: v.broadcast(2, 3, 5), "sizes", "sizes that [2, 3, 4] broadcasts to"),
    "fewer dimensions": (lambda v: v.broadcast(4), "sizes", "sizes that [2, 3, 4] broadcasts to"),
    "fewer dimensions than there are": (lambda v: v.with_leading_ones(2), "dimension_count", "at least 3"),
    "a window outside": (lambda v: v.slice([0, 2, 0], [2, 2, 4]), "dimension 1", "a window within 0 to 3"),
    "an empty window": (lambda v: v.slice([0, 0, 0], [2, 0, 4]), "dimension 1", "at least one element"),
    "a stride of 0": (lambda v: v.slice([0, 0, 0], [2, 1, 4], [1, 0, 1]), "dimension 1", "a stride other than 0"),
    "too few offsets": (lambda v: v.slice([0], [2]), "offsets", "3 of them, one for each dimension of [2, 3, 4]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_view_that_cannot_be_is_refused(name: str) -> None:
    make, place, text = REFUSED[name]
    g = GraphBuilder()
    with pytest.raises(dml.DescError) as caught:
        make(g.input("x", tensor(2, 3, 4)))
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("graph.view", place)
    assert text in str(caught.value)
    assert g.build().nodes == ()


# Inputs keep the sizes that they were declared with.


def test_an_input_is_bound_as_it_was_declared() -> None:
    g, x, bias = GraphBuilder(), values(2, 3, 4, 5), values(3)
    whole, channels = g.input("x", tensor(2, 3, 4, 5)), g.input("bias", tensor(3))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=whole, b_tensor=channels.reshape(3, 1, 1).broadcast(2, 3, 4, 5)))
    graph = g.build()
    op = dml.compile(graph, "numpy")
    assert op.inputs["bias"].sizes == (3,)
    np.testing.assert_array_equal(op(x=x, bias=bias).y, x + bias[:, None, None])
    assert dml.Graph.from_json(graph.to_json()) == graph
    with pytest.raises(dml.BindError, match=r"only dimensions of size 1 differ: array.reshape\(3\)"):
        op(x=x, bias=bias.reshape(3, 1, 1))


def test_inputs_that_nodes_read_as_declared_need_no_member() -> None:
    g = GraphBuilder()
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=g.input("x", tensor(3))))
    assert g.build().input_tensors == g.build().output_tensors == ()


# Outputs that need a copy get one.


def test_outputs_that_no_edge_can_give_are_copied() -> None:
    g, x, c = GraphBuilder(), values(2, 3), values(4)
    given, kept = g.input("x", tensor(2, 3)), g.constant("c", c)
    node = g.add(dml.ElementWiseNegateDesc, input_tensor=given)
    written = {
        "input": (given, x),
        "constant": (kept, c),
        "node": (node, -x),
        "again": (node, -x),
        "flat": (node.reshape(6), -x.reshape(6)),
    }
    for name, (value, _) in written.items():
        g.output(name, value)
    graph = g.build()
    assert graph.check() == []
    assert [node.kind() for node in graph.nodes].count("ELEMENT_WISE_IDENTITY") == 4
    found = dml.compile(graph, "numpy")(x=x)
    for name, (_, expected) in written.items():
        np.testing.assert_array_equal(getattr(found, name), expected, strict=True)


def test_an_array_of_outputs_is_always_a_tuple() -> None:
    g = GraphBuilder()
    x = g.input("x", tensor(2, 3))
    (whole,) = g.add(dml.SplitDesc, input_tensor=x, output_tensors=[tensor(2, 3)], axis=1)
    assert whole.tensor == tensor(2, 3)
    assert len(g.add(dml.SplitDesc, input_tensor=x, output_tensors=[tensor(2, 1), tensor(2, 2)], axis=1)) == 2


def test_types_of_outputs_can_be_given() -> None:
    g, x = GraphBuilder(), values(2, 7)
    largest = g.add(dml.ArgmaxDesc, input_tensor=g.input("x", tensor(2, 7)), axes=[1], outputs={"output_tensor": "INT64"})
    g.output("y", largest)
    found = dml.compile(g.build(), "numpy")(x=x).y
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, x.argmax(1, keepdims=True))
    top = dml.TopKDesc(input_tensor=tensor(2, 7), axis=1, k=2).with_outputs(data_types={"OutputIndexTensor": "UINT64"})
    assert top.output_index_tensor is not None
    assert top.output_index_tensor.data_type is dml.DataType.UINT64
    with pytest.raises(dml.DescError, match="output_index_tensor is not an inferred output"):
        dml.TopKDesc(input_tensor=tensor(2, 7), axis=1, k=2).with_outputs(
            "output_value_tensor", data_types={"output_index_tensor": "UINT64"}
        )


# Pruning


def test_what_no_output_needs_is_pruned() -> None:
    g, x = GraphBuilder(), values(1, 1, 6, 6)
    given, unread = g.input("x", tensor(1, 1, 6, 6)), g.input("unread", tensor(5))
    g.add(dml.ElementWiseNegateDesc, "dead end", input_tensor=g.add(dml.ElementWiseAbsDesc, "feeds a dead end", input_tensor=unread))
    g.constant("unread constant", x)
    window = {"window_size": [2, 2], "strides": [2, 2], "start_padding": [0, 0], "end_padding": [0, 0]}
    pooled, _ = g.add(dml.MaxPooling1Desc, "pool", input_tensor=given, **window)
    g.output("y", g.add(dml.ElementWiseNegateDesc, "last", input_tensor=pooled))
    whole, graph = g.build(), g.build(prune=True)
    assert "graph.unread" in {problem.code for problem in whole.check()}
    assert [node.name for node in graph.nodes] == ["pool", "last"]
    assert graph.input_names == ("x", "unread")
    assert graph.check(lenient=True) == []
    expected = -x.reshape(1, 1, 3, 2, 3, 2).max((3, 5))
    np.testing.assert_array_equal(dml.compile(graph, "numpy")(x=x).y, expected)
    y = np.full_like(expected, np.nan)
    dml.compile(graph, "numpy").bind([x, None], [y])()
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(dml.BindError, match="unread is given, expected None: no node reads this input"):
        dml.compile(graph, "numpy")(x=x, unread=np.zeros(5, np.float32))


def test_messages_name_the_origin_of_nodes_that_are_left() -> None:
    g = GraphBuilder()
    x = g.input("x", tensor(1, 3))
    g.origin = "from ONNX node 'unused'"
    g.add(dml.ActivationReluDesc, input_tensor=x)
    g.origin = "from ONNX node 'last'"
    g.output("y", g.add(dml.ActivationSoftmax1Desc, "softmax", input_tensor=x, axes=[1]))
    graph = g.build(prune=True)
    (problem,) = graph.check("5_0")
    assert problem.why[0] == "node 0 'softmax' (ACTIVATION_SOFTMAX1) from ONNX node 'last'"
    assert dml.Graph.from_json(graph.to_json()) == graph


# Constants

CONSTANTS: dict[str, Array] = {
    "bool": np.array([[True, False, True]]),
    "int4": np.array([-8, 7, 3, -1, 2], ml_dtypes.int4),
    "uint4": np.array([[15, 0], [3, 9]], ml_dtypes.uint4),
    "a transposed array": values(2, 3).T,
    "a scalar": np.float32(2.5).reshape(()),
    "half": values(3).astype(np.float16),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_every_type(name: str) -> None:
    array = CONSTANTS[name]
    g = GraphBuilder()
    value = g.constant("c", array)
    shape = array.shape or (1,)
    assert value.tensor.sizes == shape
    if value.tensor.data_type.bits == 4:
        scale = g.constant("scale", np.float32(1).reshape((1,) * len(shape)))
        read = g.add(dml.DequantizeDesc, input_tensor=value, quantization_tensors=[scale], quantization_type="SCALE")
    else:
        read = g.add(dml.ElementWiseIdentityDesc, input_tensor=value)
    g.output("y", read)
    found = dml.compile(g.build(), "numpy")().y
    middle = 8 if value.tensor.data_type is dml.DataType.UINT4 else 0
    np.testing.assert_array_equal(found, array.reshape(shape).astype(found.dtype) - middle)
