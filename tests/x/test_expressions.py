"""Expressions: Python's operators and indexing give what NumPy gives; graphs, layouts and messages of composed nodes."""

from __future__ import annotations

import operator
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import x
from dmlpy.x import desc_cache
from tests.support.tables import table
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
Binary = Callable[[Any, Any], Any]

ARITHMETIC: dict[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "**": operator.pow,
}
COMPARISONS: dict[str, Binary] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(29)


def values(rng: np.random.Generator, *sizes: int) -> Array:
    """Quarters, so that comparisons find equal ones; positive, so that powers are numbers."""
    return (rng.integers(1, 13, sizes) / 4).astype(np.float32)


def result(expression: Any, device: Any = "numpy", **arrays: Array) -> Array:
    compiled = x.compile(expression, device)
    found = compiled(**{name: compiled.device.from_host(array) for name, array in arrays.items()})
    return np.asarray(compiled.device.to_host(found.output))


SIZES = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 5)), ((1,), (2, 2)), ((2, 1, 1, 3), (7, 1))]


@table(("left", "right"), SIZES, ids=str)
@table("sign", [*ARITHMETIC, *COMPARISONS])
def test_operators_broadcast_as_numpy_does(sign: str, left: tuple[int, ...], right: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = values(rng, *left), values(rng, *right)
    apply = (ARITHMETIC | COMPARISONS)[sign]
    found = result(apply(x.input("a", left), x.input("b", right)), a=a, b=b)
    if sign in COMPARISONS:
        np.testing.assert_array_equal(found, apply(a, b).astype(np.uint8), strict=True)
    else:
        assert_close(found, apply(a.astype(np.float64), b.astype(np.float64)), np.float32)


@table("other", [2, 0.75, np.float32(1.5), "array"], ids=str)
@table("swapped", [False, True], ids=["right", "left"])
@table("sign", [*ARITHMETIC, *COMPARISONS])
def test_numbers_and_arrays_stand_on_either_side(sign: str, swapped: bool, other: Any, rng: np.random.Generator) -> None:
    a = values(rng, 2, 3)
    operand = values(rng, 3) if other == "array" else other
    apply = (ARITHMETIC | COMPARISONS)[sign]
    e = x.input("a", [2, 3])
    found = result(apply(operand, e) if swapped else apply(e, operand), a=a)
    wide = np.float64(operand)
    expected = apply(wide, a.astype(np.float64)) if swapped else apply(a.astype(np.float64), wide)
    if sign in COMPARISONS:
        np.testing.assert_array_equal(found, expected.astype(np.uint8))
    else:
        assert_close(found, expected, np.float32)


@pytest.mark.parametrize("sign", ["+", "-", "*", "%"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_integers_take_integers(sign: str, dtype: Any, rng: np.random.Generator) -> None:
    a = rng.integers(5, 20, (3, 4)).astype(dtype)
    apply = ARITHMETIC[sign]
    np.testing.assert_array_equal(result(apply(x.input("a", a.shape, dtype), 3), a=a), apply(a, dtype(3)), strict=True)


def test_halves_keep_their_type(rng: np.random.Generator) -> None:
    a = values(rng, 3, 4).astype(np.float16)
    found = result(1 - x.input("a", [3, 4], "FLOAT16") * 0.5, a=a)
    assert_close(found, 1 - a.astype(np.float64) * 0.5, np.float16, terms=4)


def test_signs_of_one_operand(rng: np.random.Generator) -> None:
    a = values(rng, 5) - 1.5
    np.testing.assert_array_equal(result(-x.input("a", [5]), a=a), -a)
    np.testing.assert_array_equal(result(abs(x.input("a", [5])), a=a), abs(a))
    e = x.input("a", [5])
    assert +e is e


def test_operations_in_place_make_new_expressions(rng: np.random.Generator) -> None:
    a = values(rng, 3)
    first = e = x.input("a", [3])
    e += 1
    e *= 2
    e /= first
    e -= 0.5
    assert_close(result(e, a=a), (a.astype(np.float64) + 1) * 2 / a - 0.5, np.float32, terms=4)


PRODUCTS = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((4, 5), (2, 5, 3)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((2, 3, 2, 3, 4), (2, 3, 2, 4, 5)),
    ((2, 1, 2, 3, 4), (3, 1, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
]


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_matrix_products(left: tuple[int, ...], right: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = values(rng, *left), values(rng, *right)
    expected = np.atleast_1d(a.astype(np.float64) @ b.astype(np.float64))
    for found in (
        result(x.input("a", left) @ x.input("b", right), a=a, b=b),
        result(a @ x.input("b", right), b=b),
        result(x.input("a", left) @ b, a=a),
    ):
        assert_close(found, expected, np.float32, terms=left[-1])


INDICES: dict[str, Any] = {
    "first": np.s_[0],
    "last of the last": np.s_[..., -1],
    "window": np.s_[1:, 2:4],
    "steps": np.s_[::2, 1::2, ::3],
    "backwards": np.s_[::-1],
    "backwards in part": np.s_[:, -2:0:-2, 5:1:-1],
    "whole": np.s_[...],
    "all indices": np.s_[1, 2, 3],
    "a new dimension": np.s_[:, None, 2:, ...],
    "new dimensions around": np.s_[None, ..., None],
    "indices and slices": np.s_[-1, :, 1:6:2],
    "an array's integer": np.s_[np.int64(1)],
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_takes_what_numpy_takes(name: str, rng: np.random.Generator) -> None:
    a = rng.standard_normal((2, 5, 7), dtype=np.float32)
    np.testing.assert_array_equal(result(x.input("a", a.shape)[INDICES[name]], a=a), np.atleast_1d(a[INDICES[name]]), strict=True)


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an index out of range": (lambda e: e[2], "dimension 0 is 2, expected -2 to 1"),
    "too many indices": (lambda e: e[0, 0, 0, 0], "at most 3 indices"),
    "an empty slice": (lambda e: e[5:], "no tensor is empty"),
    "a list": (lambda e: e[[0, 1]], "an integer, a slice, ... or None"),
    "a step of 0": (lambda e: e[::0], "a step other than 0"),
    "sizes that do not broadcast": (lambda e: e + x.input("b", [4]), "a_tensor [2, 5, 7] and b_tensor [4], expected sizes that broadcast"),
    "matrices that do not fit": (lambda e: e @ x.input("b", [5, 7]), "b is [5, 7], expected sizes that [2, 5, 7] can be multiplied by"),
    "a text": (lambda e: x.activation_relu("e"), "input_tensor is 'e', expected an expression or an array"),
    "two numbers": (lambda e: x.add(1, 2), "a number has the type of the other operand"),
    "a number for a matrix": (lambda e: x.gemm(e, 2.0), "only element-wise operators repeat a number"),
    "a fraction of integers": (lambda e: x.cast(e, output_data_type="INT32") / 0.5, "a value that INT32 holds"),
    "a type that the operator lacks": (lambda e: x.gemm(*[x.cast(e, output_data_type="INT8")] * 2), "type"),
    "an expression for a list": (lambda e: x.join(e, axis=0), "a list of expressions"),
    "an attribute of another form": (lambda e: x.activation_elu(e, alpha="x"), "alpha is 'x'"),
    "a broken rule": (lambda e: x.join([e, e], axis=3), "axis"),
    "an input of no elements": (lambda e: x.input("b", [0]), "sizes[0] is 0"),
    "a condition": (lambda e: 1 if e > 0 else 0, "x.if_(condition, a, b) chooses element by element"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_names_the_callers_line(name: str) -> None:
    call, text = WRONG[name]
    with pytest.raises(dml.DescError) as caught:
        call(x.input("e", [2, 5, 7]))
    assert text in str(caught.value)
    assert f"test_expressions.py:{call.__code__.co_firstlineno}" in str(caught.value)


SCRIPT = """\
from dmlpy import x

def block(value):
    return x.activation_softmax1(value, axes=[1])

y = block(x.input("x", [2, 3])) + x.input("z", [2, 3])
{end}
"""


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("x.compile(y, 'numpy', '5_0')", "node 0 'activation_softmax1' (ACTIVATION_SOFTMAX1) at net.py:4"),
        ("y.reshape(7)", "sizes is [7], expected sizes of 6 elements"),
        ("y.reshape([3, 2])", "remedy: pass them one by one: reshape(3, 2)"),
        ("x.gemm(y, y)", "gemm at net.py:7: "),
    ],
)
def test_messages_name_the_line_of_the_script(end: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(SCRIPT.format(end=end))
    with pytest.raises(dml.DmlError) as caught:
        runpy.run_path("net.py", run_name="__main__")
    assert message in str(caught.value)


def test_a_file_elsewhere_is_named_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "net.py").write_text(SCRIPT.format(end="x.gemm(y, y)"))
    with pytest.raises(dml.DescError) as caught:
        runpy.run_path(str(tmp_path / "nets" / "net.py"))
    assert str(caught.value).startswith(f"gemm at {Path('nets', 'net.py')}:7: ")


@pytest.mark.usefixtures("removed_folder")
def test_a_script_runs_where_the_current_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCRIPT.format(end="x.gemm(y, y)"))
    with pytest.raises(dml.DescError) as caught:
        runpy.run_path(str(tmp_path / "net.py"))
    assert str(caught.value).startswith(f"gemm at {Path(tmp_path.name, 'net.py')}:7: ")


# Graphs of expressions


def test_a_graph_holds_what_its_outputs_need() -> None:
    a, b = x.input("a", [3]), x.input("b", [3])
    first = x.activation_relu(a)
    unused = x.activation_tanh(b)
    graph = x.graph({"y": first, "z": first + a, "copy": a}, "net")
    assert graph.check() == []
    assert (graph.name, graph.input_names, graph.output_names) == ("net", ("a",), ("y", "z", "copy"))
    assert [node.name for node in graph.nodes] == ["activation_relu", "add", "copy"]
    assert x.graph([unused, None, first], inputs=[b, a]).input_names == ("b", "a")
    assert x.graph((unused, first)).output_names == ("output_0", "output_1")


def test_names_of_nodes_are_unique_and_show_their_scopes() -> None:
    value = x.input("value", [3])
    with x.name_scope("encoder"):
        for _ in range(2):
            value = x.activation_relu(value)
        with x.name_scope("head"):
            value = x.activation_relu(value)
    assert [node.name for node in value.graph().nodes] == [
        "encoder/activation_relu",
        "encoder/activation_relu_1",
        "encoder/head/activation_relu",
    ]


def test_wrong_outputs_and_inputs_of_graphs() -> None:
    a = x.input("a", [3])
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: x.graph([]), "outputs is empty, expected at least one expression"),
        (lambda: x.graph({"y": np.ones(3)}), "y is an array of float64 [3], expected an expression"),
        (lambda: x.graph("y"), "outputs is 'y', expected an expression"),
        (lambda: x.graph(a + x.input("a", [3])), "two of the name 'a'"),
        (lambda: x.graph(a, inputs=[x.input("b", [3])]), "no 'a'"),
    ]
    for call, text in cases:
        with pytest.raises(dml.DescError) as caught:
            call()
        assert text in str(caught.value)


def test_an_expression_is_drawn_and_shown() -> None:
    y = x.activation_relu(x.input("a", [2, 3]))
    assert "ACTIVATION_RELU" in y.to_graphviz().source
    assert "ACTIVATION_RELU" in y._repr_html_()
    assert repr(y).startswith("<expression FLOAT32 [2, 3] (packed, 24 bytes) of activation_relu at ")
    assert (y.sizes, y.data_type) == ((2, 3), dml.DataType.FLOAT32)


def test_deep_expressions_are_built_without_recursion() -> None:
    y = x.input("a", [1])
    for _ in range(1100):
        y = y.reshape(1) + 0.5
    assert len(y.graph().nodes) == 1100


def test_constants_and_shared_parts_are_in_the_graph_once(any_device: dml.Device, rng: np.random.Generator) -> None:
    a, c = values(rng, 3, 4), values(rng, 4)
    e, kept = x.input("a", [3, 4]), x.constant(c)
    shared = x.activation_tanh(e + kept)
    y = shared * shared - kept
    assert [node.kind() for node in y.graph().nodes].count("constant") == 1
    assert len(y.graph().nodes) == 5
    assert_close(result(y, any_device, a=a), np.tanh(a.astype(np.float64) + c) ** 2 - c, np.float32, terms=8)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (4,), (3, 1), (1, 4), (3, 4), (1, 1, 1, 4), (2, 1, 1, 1), (2, 1, 3, 4)])
def test_the_addend_of_a_gemm_is_broadcast(sizes: tuple[int, ...], transposed: bool, rng: np.random.Generator) -> None:
    """As C of ONNX's Gemm is; the product's own sizes never change."""
    shapes = (2, 1, 5, 3) if transposed else (2, 1, 3, 5), (2, 1, 5, 4), sizes
    a, b, c = (rng.standard_normal(own, np.float32) for own in shapes)
    inputs = [x.input(name, array.shape) for name, array in (("a", a), ("b", b), ("c", c))]
    y = x.gemm(*inputs, trans_a="TRANSPOSE" if transposed else "NONE")
    expected = (np.swapaxes(a, 2, 3) if transposed else a).astype(np.float64) @ b + c
    assert_close(y.compile("numpy")(a=a, b=b, c=c).output, expected, np.float32, terms=6)


@pytest.mark.parametrize(("sizes", "code"), [((5,), "dims.support"), ((2, 1, 2, 4), "size.equal"), ((2, 2, 1, 3, 4), "dims.support")])
def test_an_addend_that_does_not_broadcast_is_reported(sizes: tuple[int, ...], code: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        x.gemm(x.input("a", [2, 1, 3, 5]), x.input("b", [2, 1, 5, 4]), x.input("c", sizes))
    assert [(problem.path.partition(".")[0], problem.code) for problem in caught.value.problems] == [("c_tensor", code)]


def test_an_owned_input_is_flagged_by_sizes_and_by_a_desc() -> None:
    desc = dml.TensorDesc(data_type="FLOAT16", sizes=[3], strides=[2])
    for given in ([3], desc, desc.replace(flags="OWNED_BY_DML")):
        graph = x.activation_relu(x.input("w", given, "FLOAT16", owned_by_dml=given is desc or given == [3])).graph()
        found = graph.nodes[0].input_slots()[0].tensor
        assert found is not None
        assert (found.flags, found.data_type) == (dml.TensorFlags.OWNED_BY_DML, dml.DataType.FLOAT16)
        assert given == [3] or found.strides == (2,)


def test_an_input_of_another_type_than_its_desc_is_refused() -> None:
    with pytest.raises(dml.DescError, match=r"data_type is 'FLOAT32', expected FLOAT16, as the tensor desc has, or none"):
        x.input("w", dml.TensorDesc(data_type="FLOAT16", sizes=[3]), "FLOAT32")


# Layouts


def test_a_policy_lays_out_inputs_and_outputs(rng: np.random.Generator) -> None:
    data, filters = rng.standard_normal((2, 3, 5, 4), np.float32), rng.standard_normal((6, 3, 2, 2), np.float32)
    packed = x.activation_relu(x.convolution(x.input("data", data.shape), x.constant(filters)))
    with x.tensor_policy(x.TensorPolicy.interleaved_channel):
        nhwc = x.activation_relu(x.convolution(x.input("data", data.shape), x.constant(filters)))
    assert nhwc.tensor.strides == (4 * 3 * 6, 1, 3 * 6, 6)
    assert packed.tensor.strides is None
    channels_last = np.ascontiguousarray(data.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    found = x.compile(nhwc, "numpy")(data=channels_last).output
    assert found.strides == tuple(4 * stride for stride in nhwc.tensor.strides)
    assert_close(found, result(packed, data=data).astype(np.float64), np.float32, terms=12)
    assert repr(x.TensorPolicy.interleaved_channel) == "TensorPolicy.interleaved_channel"


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((5,), None), ((2, 3), None), ((2, 3, 4), (12, 1, 3)), ((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3))],
)
def test_interleaved_channels_are_innermost(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    assert x.TensorPolicy.interleaved_channel.strides(sizes) == strides


def test_a_policy_of_ones_own() -> None:
    rows = x.TensorPolicy(lambda sizes: [*[8 * size for size in (*sizes[1:], 1)][:-1], 1] if len(sizes) == 2 else None)
    with x.tensor_policy(rows):
        y = x.activation_relu(x.input("a", [3, 5]))
    assert y.tensor.strides == (40, 1)
    assert x.activation_relu(x.input("a", [3, 5])).tensor.strides is None


# Equal calls


def desc_of(expression: Any) -> Any:
    return expression._ref.producer.desc


def test_equal_calls_have_one_desc() -> None:
    """It is checked once; arguments that make another desc are distinguished, even if Python finds them equal."""
    data, other = x.input("data", [2, 3]), x.input("other", [2, 3])
    assert desc_of(x.activation_elu(data, alpha=0.5)) is desc_of(x.activation_elu(other, alpha=0.5))
    signs = [str(desc_of(x.activation_elu(data, alpha=alpha)).alpha) for alpha in (0.0, -0.0, 0.0)]
    assert signs == ["0.0", "-0.0", "0.0"]
    assert desc_of(x.activation_elu(data, alpha=1)).alpha == desc_of(x.activation_elu(data, alpha=1.0)).alpha == 1.0
    for _ in range(2):
        with pytest.raises(dml.DescError, match="alpha"):
            x.activation_elu(data, alpha=True)
    assert desc_of(x.activation_elu(x.input("long", [3, 3]), alpha=0.5)).input_tensor.sizes == (3, 3)
    casts = [desc_of(x.cast(data, output_data_type=kind)).output_tensor.data_type for kind in ("FLOAT16", "INT32")]
    assert casts == [dml.DataType.FLOAT16, dml.DataType.INT32]


def test_layouts_of_equal_calls_follow_the_policy() -> None:
    data = x.input("data", [1, 2, 3, 4])
    plain = x.activation_relu(data)
    with x.tensor_policy(x.TensorPolicy.interleaved_channel):
        laid = x.activation_relu(data)
    assert desc_of(plain).output_tensor.is_packed
    assert not desc_of(laid).output_tensor.is_packed
    assert desc_of(x.activation_relu(data)) is desc_of(plain)


def test_many_different_calls_are_not_all_remembered() -> None:
    data = x.input("data", [2, 3])
    for step in range(desc_cache._MAX_CACHED + 5):
        assert desc_of(x.activation_elu(data, alpha=float(step))).alpha == step
    assert 0 < desc_cache._build.cache_info().currsize <= desc_cache._MAX_CACHED
