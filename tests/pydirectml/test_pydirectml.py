"""`dmlpy.pydirectml`: pydirectml's names, its rules of binding, and what each function makes."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy
import dmlpy.pydirectml as dml
from dmlpy import x as x_functions
from dmlpy.description.registry import OPERATORS
from tests.support.tables import table
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(17)
RELU = dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU)

# pydirectml's functions with the names of their arguments in order; those with a default in brackets.
FUNCTIONS = {
    "input_tensor": "scope input_index tensor_desc",
    "convolution": "input filter [bias mode direction strides dilations start_padding end_padding output_padding group_count"
    " fused_activation output_sizes]",
    "up_sample_2d": "input scale_size interpolation_mode",
    "activation_relu": "input",
    "activation_sigmoid": "input",
    "activation_identity": "input",
    "activation_tanh": "input",
    "activation_soft_max": "input",
    "activation_linear": "input alpha beta",
    "add": "a b [fused_activation]",
    "subtract": "a b",
    "multiply": "a b",
    "divide": "a b",
    "padding": "input padding_mode padding_value start_padding end_padding",
    "mean_variance_normalization": "input [scale bias axes normalize_variance epsilon fused_activation]",
    "slice": "input input_window_offsets input_window_sizes input_window_strides",
    "value_scale_2d": "input scale bias",
    "batch_normalization": "input mean variance scale bias spatial epsilon [fused_activation]",
    "local_response_normalization": "input cross_channel local_size alpha beta bias",
    "gemm": "a b [c trans_a trans_b alpha beta fused_activation]",
    "average_pooling": "input strides window_sizes start_padding end_padding include_padding",
    "max_pooling": "input window_sizes [strides start_padding end_padding dilations output_indices]",
    "reinterpret": "input new_type new_size [new_strides]",
    "join": "input axis",
    "gru": "input weight recurrence [bias hidden_init sequence_lengths activation_descs direction linear_before_reset output_options]",
    "gather": "input indices axis index_dimensions",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_pydirectmls_arguments(name: str) -> None:
    parameters = inspect.signature(getattr(dml, name)).parameters.values()
    required = [item.name for item in parameters if item.default is inspect.Parameter.empty]
    optional = [item.name for item in parameters if item.default is not inspect.Parameter.empty]
    assert " ".join(required) + (f" [{' '.join(optional)}]" if optional else "") == FUNCTIONS[name]


def test_the_module_has_pydirectmls_names() -> None:
    classes = (
        "Binding Device Expression FusedActivation GRUOutputs GraphBuilder MaxPoolingOutputs Model Size2D TensorData TensorDesc"
        " TensorPolicy"
    )
    enumerations = (
        "TensorDataType TensorFlags MatrixTransform RecurrentNetworkDirection OutputOptions ConvolutionMode ConvolutionDirection"
        " InterpolationMode PaddingMode ExecutionFlags OperatorType"
    )
    assert set(dml.__all__) == {*FUNCTIONS, *classes.split(), *enumerations.split()}
    assert dml.FLOAT32 is dml.TensorDataType.FLOAT32
    assert dml.CROSS_CORRELATION is dml.ConvolutionMode.CROSS_CORRELATION
    assert dml.OWNED_BY_DML is dml.TensorFlags.OWNED_BY_DML
    assert dml.BIDIRECTIONAL is dml.RecurrentNetworkDirection.BIDIRECTIONAL
    assert dml.NONE is dml.ExecutionFlags.NONE  # the last enumeration with the name
    assert not hasattr(dml, "Both")
    assert {item.name for item in dml.OperatorType} - {"INVALID"} == {
        kind.short_name() for kind in OPERATORS.values() if not kind.is_extension
    }
    assert dml.ACTIVATION_RELU is dml.OperatorType.ACTIVATION_RELU


DESCS: dict[str, tuple[Callable[[], dml.TensorDesc], tuple[Any, ...]]] = {
    "sizes": (lambda: dml.TensorDesc(dml.FLOAT32, [1, 2, 3, 4]), ("FLOAT32", 0, [1, 2, 3, 4], None, 96)),
    "a policy": (
        lambda: dml.TensorDesc(dml.FLOAT16, [1, 2, 3, 4], dml.TensorPolicy.interleaved_channel),
        ("FLOAT16", 0, [1, 2, 3, 4], [24, 1, 8, 2], 48),
    ),
    "flags": (lambda: dml.TensorDesc(dml.FLOAT32, dml.OWNED_BY_DML, [2, 3]), ("FLOAT32", 1, [2, 3], None, 24)),
    "flags and a policy": (
        lambda: dml.TensorDesc(dml.FLOAT32, dml.OWNED_BY_DML, [1, 2, 3], tensor_policy=dml.TensorPolicy.interleaved_channel),
        ("FLOAT32", 1, [1, 2, 3], [6, 1, 2], 24),
    ),
    "strides": (lambda: dml.TensorDesc(dml.FLOAT32, [1, 8, 28, 28], [8, 1, 0, 0]), ("FLOAT32", 0, [1, 8, 28, 28], [8, 1, 0, 0], 32)),
    "all members": (
        lambda: dml.TensorDesc(dml.FLOAT32, dml.TensorFlags.NONE, [2, 3], [4, 1], 64, 16),
        ("FLOAT32", 0, [2, 3], [4, 1], 64),
    ),
    "names": (lambda: dml.TensorDesc(data_type=dml.INT32, sizes=[5], strides=[2]), ("INT32", 0, [5], [2], 36)),
}


@pytest.mark.parametrize("name", DESCS)
def test_a_desc_is_built_in_each_form(name: str) -> None:
    make, expected = DESCS[name]
    desc = make()
    assert (desc.data_type.name, int(desc.flags), desc.sizes, desc.strides, desc.total_tensor_size_in_bytes) == expected
    assert desc.guaranteed_base_offset_alignment == (16 if name == "all members" else 0)
    assert repr(dml.TensorDesc(dml.FLOAT32, [1, 2])) == "dml.TensorDesc of type 1 and shape [1, 2] with flags 0"


@pytest.mark.parametrize("make", [lambda: dml.TensorDesc(dml.FLOAT32, []), lambda: dml.TensorDesc(dml.FLOAT32, [2, 3], [1])])
def test_a_wrong_desc_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(dmlpy.DescError):
        make()


class Session:
    """A graph in the making on the NumPy device, with its bindings."""

    def __init__(self) -> None:
        self.device = dml.Device(False)
        self.graph = dml.GraphBuilder(self.device)
        self.bindings: list[Any] = []

    def input(self, data: Any, sizes: Any = None, *more: Any) -> dml.Expression:
        desc = dml.TensorDesc(dml.FLOAT32, list(np.shape(data) if sizes is None else sizes), *more)
        expression = dml.input_tensor(self.graph, len(self.bindings), desc)
        self.bindings.append(dml.Binding(expression, data))
        return expression

    def run(self, *outputs: dml.Expression) -> list[np.ndarray[Any, Any]]:
        model = self.graph.build(dml.ExecutionFlags.NONE, outputs)
        return [np.array(item) for item in self.device.compute(model, self.bindings, outputs)]


def random(*sizes: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(sizes, dtype=np.float32)


# The rules of binding


@pytest.mark.parametrize(
    ("data", "sizes", "strides", "seen"),
    [
        (np.arange(8).reshape(8, 1, 1), [1, 8, 3, 2], [8, 1, 0, 0], np.broadcast_to(np.arange(8.0).reshape(1, 8, 1, 1), (1, 8, 3, 2))),
        (np.arange(6.0), [1, 1, 1, 6], None, np.arange(6.0).reshape(1, 1, 1, 6)),
        (np.arange(6, dtype=np.float64).reshape(2, 3).T, [2, 3], None, np.array([[0, 3, 1], [4, 2, 5.0]])),
        ([[True, False]], [2], None, np.array([1.0, 0])),
        (np.arange(12.0).reshape(3, 4), [4, 3], [1, 4], np.arange(12.0).reshape(3, 4).T),
    ],
    ids=["broadcast strides", "other sizes", "another order and type", "bool", "transposed"],
)
def test_only_the_bytes_of_data_count(data: Any, sizes: list[int], strides: Any, seen: Any) -> None:
    session = Session()
    expression = session.input(data, sizes, *([] if strides is None else [strides]))
    (found,) = session.run(expression + 0.0)
    np.testing.assert_array_equal(found, seen)


def test_data_of_other_bytes_are_refused() -> None:
    session = Session()
    y = dml.activation_relu(session.input(random(7), [1, 1, 1, 6]))
    with pytest.raises(dmlpy.BindError, match=r"input_0 is data of 28 bytes, \[7\] as float32, expected 24 bytes"):
        session.run(y)
    session.bindings.clear()
    with pytest.raises(dmlpy.BindError, match="input_0 is not given"):
        session.run(y)
    with pytest.raises(dmlpy.DescError, match="an array of numbers"):
        dml.Binding(y, "x")


def test_inputs_that_nothing_reads_may_be_bound_in_any_order() -> None:
    session = Session()
    a, unread, b = session.input(random(4)), session.input(random(9)), session.input(random(4))
    first, _, last = (binding.data for binding in session.bindings)
    session.bindings.reverse()
    session.bindings.append(None)
    (found,) = session.run(a - b)
    np.testing.assert_array_equal(found, first - last)
    assert unread.get_output_desc().sizes == [9]


def test_an_index_has_one_input() -> None:
    session = Session()
    session.input(random(3))
    with pytest.raises(dmlpy.DescError, match="input_index is 0"):
        dml.input_tensor(session.graph, 0, dml.TensorDesc(dml.FLOAT32, [1]))


def test_outputs_may_be_chosen_and_given_twice() -> None:
    session, x = Session(), random(2, 3)
    a = session.input(x)
    y, b = -a, dml.activation_identity(a)
    for found, expected in zip(session.run(y, b, y), (-x, x, -x), strict=True):
        np.testing.assert_array_equal(found, expected)
    model = session.graph.build(dml.ExecutionFlags.NONE, [y, b])
    (only,) = session.device.compute(model, session.bindings, [None, b])
    np.testing.assert_array_equal(np.array(only), x)
    with pytest.raises(dmlpy.DescError, match="one of the 2 outputs"):
        session.device.compute(model, session.bindings, [y + 1.0])


def test_data_are_float32_in_the_outputs_layout() -> None:
    session, x = Session(), random(1, 2, 3, 4)
    pooled = dml.max_pooling(session.input(x), [2, 2], output_indices=True)
    nhwc = session.input(x.transpose(0, 2, 3, 1), [1, 2, 3, 4], dml.TensorPolicy.interleaved_channel)
    nhwc = dml.activation_identity(nhwc)
    model = session.graph.build(dml.NONE, [pooled.indices, pooled.values, nhwc])
    indices, values, copied = session.device.compute(model, session.bindings, [pooled.indices, pooled.values, nhwc])
    assert memoryview(indices).format == memoryview(values).format == "f"
    np.testing.assert_array_equal(np.take(x.reshape(2, 12), np.array(indices).view(np.uint32)[0, 0]), np.array(values)[0, 0])
    np.testing.assert_array_equal(np.array(copied), x)
    data = dml.TensorData(np.arange(6).reshape(2, 3).T)
    assert (data.dtype, data.shape, data.flags.c_contiguous) == (np.float32, (3, 2), True)


def test_devices_report_what_they_run_on() -> None:
    assert repr(dml.Device(False)) == "dml.Device on CPU"
    assert repr(dml.Device(use_gpu=False, use_debug_layer=True)) == "dml.Device on CPU"


# Expressions

OPERATORS_OF_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


@pytest.mark.parametrize("sign", OPERATORS_OF_PYTHON)
def test_operators_take_expressions_and_floats(sign: str) -> None:
    apply, session, (a, b) = OPERATORS_OF_PYTHON[sign], Session(), (random(2, 3), random(2, 3) + 4)
    x, y = session.input(a), session.input(b)
    in_place = y
    in_place = apply(in_place, 2.0)
    found = session.run(apply(x, y), apply(x, 0.5), apply(0.5, y), in_place)
    a, b = a.astype(np.float64), b.astype(np.float64)
    for own, expected in zip(found, (apply(a, b), apply(a, 0.5), apply(0.5, b), apply(b, 2.0)), strict=True):
        assert_close(own, expected, np.float32)


def test_the_remainder_has_the_sign_of_the_dividend() -> None:
    session, a, b = Session(), np.array([5.5, -5.5, 5.5, -5.5], np.float32), np.array([3, 3, -3, -3], np.float32)
    x, y = session.input(a), session.input(b)
    found, negated = session.run(x % y, -x)
    np.testing.assert_array_equal(found, np.fmod(a, b))
    np.testing.assert_array_equal(negated, -a)


def test_expressions_of_both_modules_are_mixed() -> None:
    session, x = Session(), random(2, 3)
    a = session.input(x)
    (found,) = session.run(dml.add(x_functions.exp(a), dml.activation_relu(x_functions.negate(a))))
    assert_close(found, np.exp(x.astype(np.float64)) + np.maximum(-x.astype(np.float64), 0), np.float32, terms=4)
    assert pickle.loads(pickle.dumps(dml.OperatorType.GEMM)) is dml.GEMM


def test_an_empty_expression_stands_for_none() -> None:
    session = Session()
    a, w = session.input(random(1, 2, 5, 5)), session.input(random(3, 2, 3, 3))
    empty = dml.Expression()
    assert dml.convolution(a, w, empty).get_output_desc().sizes == [1, 3, 3, 3]
    assert repr(empty) == "<empty expression>"
    with pytest.raises(dmlpy.DescError, match="empty"):
        empty.get_output_desc()


# What the functions make: an operator's desc with these members.

IMAGE = [1, 4, 6, 6]


def image(session: Session, *sizes: int) -> dml.Expression:
    return session.input(random(*(sizes or IMAGE)))


def channels(session: Session) -> dml.Expression:
    return session.input(0.5 + abs(random(1, 4, 1, 1)))


MADE: dict[str, tuple[Callable[[Session], dml.Expression], str, dict[str, Any]]] = {
    "up_sample_2d": (
        lambda s: dml.up_sample_2d(image(s), dml.Size2D(2, 3), dml.InterpolationMode.LINEAR),
        "UPSAMPLE_2D",
        {"scale_size": dmlpy.Size2D(width=2, height=3), "interpolation_mode": dml.InterpolationMode.LINEAR},
    ),
    "activation_linear": (lambda s: dml.activation_linear(image(s), 2, 3), "ACTIVATION_LINEAR", {"alpha": 2, "beta": 3}),
    "activation_sigmoid": (lambda s: dml.activation_sigmoid(image(s)), "ACTIVATION_SIGMOID", {}),
    "activation_identity": (lambda s: dml.activation_identity(image(s)), "ACTIVATION_IDENTITY", {}),
    "activation_soft_max": (lambda s: dml.activation_soft_max(image(s, 1, 1, 1, 5)), "ACTIVATION_SOFTMAX", {}),
    "add": (lambda s: dml.add(image(s), image(s), RELU), "ELEMENT_WISE_ADD1", {"fused_activation": dmlpy.ActivationReluDesc()}),
    "subtract": (lambda s: dml.subtract(image(s), image(s)), "ELEMENT_WISE_SUBTRACT", {}),
    "divide": (lambda s: dml.divide(image(s), image(s)), "ELEMENT_WISE_DIVIDE", {}),
    "padding": (
        lambda s: dml.padding(image(s), dml.PaddingMode.CONSTANT, 1.5, [0, 0, 1, 2], [0, 1, 0, 0]),
        "PADDING",
        {"padding_value": 1.5, "start_padding": (0, 0, 1, 2), "end_padding": (0, 1, 0, 0)},
    ),
    "mean_variance_normalization": (
        lambda s: dml.mean_variance_normalization(image(s), None, None, [], False, 0.5),
        "MEAN_VARIANCE_NORMALIZATION1",
        {"axes": (2, 3), "normalize_variance": False, "epsilon": 0.5},
    ),
    "batch_normalization": (
        lambda s: dml.batch_normalization(image(s), *(channels(s) for _ in range(4)), True, 0.25, RELU),
        "BATCH_NORMALIZATION",
        {"spatial": True, "epsilon": 0.25, "fused_activation": dmlpy.ActivationReluDesc()},
    ),
    "local_response_normalization": (
        lambda s: dml.local_response_normalization(image(s), False, 3, 0.5, 0.25, 2.0),
        "LOCAL_RESPONSE_NORMALIZATION",
        {"cross_channel": False, "local_size": 3, "alpha": 0.5, "beta": 0.25, "bias": 2.0},
    ),
    "gemm": (
        lambda s: dml.gemm(image(s), image(s), None, dml.MatrixTransform.TRANSPOSE, alpha=0.5, beta=0),
        "GEMM",
        {"trans_a": dml.MatrixTransform.TRANSPOSE, "trans_b": dml.MatrixTransform.NONE, "alpha": 0.5, "beta": 0, "c_tensor": None},
    ),
    "average_pooling": (
        lambda s: dml.average_pooling(image(s), [2, 1], [3, 2], [1, 0], [0, 1], True),
        "AVERAGE_POOLING",
        {"strides": (2, 1), "window_size": (3, 2), "start_padding": (1, 0), "end_padding": (0, 1), "include_padding": True},
    ),
    "max_pooling": (
        lambda s: dml.max_pooling(image(s), [2, 2], dilations=[2, 1]).values,
        "MAX_POOLING2",
        {"strides": (1, 1), "dilations": (2, 1), "start_padding": (0, 0), "output_indices_tensor": None},
    ),
    "slice": (
        lambda s: dml.slice(image(s), [0, 1, 0, 0], [1, 2, 6, 6], [1, 1, 2, -1]),
        "SLICE1",
        {"input_window_offsets": (0, 1, 0, 0), "input_window_strides": (1, 1, 2, -1)},
    ),
    "value_scale_2d": (lambda s: dml.value_scale_2d(image(s, 1, 3, 2, 2), 2, [1, 2, 3]), "VALUE_SCALE_2D", {"scale": 2, "bias": (1, 2, 3)}),
    "join": (lambda s: dml.join([image(s), image(s)], 1), "JOIN", {"axis": 1}),
    "convolution": (
        lambda s: dml.convolution(image(s), s.input(random(4, 2, 3, 3)), direction=dml.BACKWARD, group_count=2, fused_activation=RELU),
        "CONVOLUTION",
        {"mode": dml.CROSS_CORRELATION, "direction": dml.ConvolutionDirection.BACKWARD, "group_count": 2, "bias_tensor": None},
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_function_makes_its_operator(name: str) -> None:
    make, operator, members = MADE[name]
    session = Session()
    y = make(session)
    model = session.graph.build(dml.NONE, [y])
    (node,) = model.compiled.graph.nodes
    assert node.operator.short_name() == operator
    assert {member: getattr(node.operator, member) for member in members} == members
    (data,) = session.device.compute(model, session.bindings, [y])
    assert list(data.shape) == y.get_output_desc().sizes
    assert np.isfinite(np.array(data)).all()


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (dml.FusedActivation(), None),
        (dml.FusedActivation(dml.OperatorType.ACTIVATION_ELU, 0.5), dmlpy.ActivationEluDesc(alpha=0.5)),
        (dml.FusedActivation(dml.ACTIVATION_SCALED_ELU, 0.5, 2), dmlpy.ActivationScaledEluDesc(alpha=0.5, gamma=2)),
        (dml.FusedActivation(dml.OperatorType.ACTIVATION_SHRINK, param_1=1, param_2=2), dmlpy.ActivationShrinkDesc(bias=1, threshold=2)),
    ],
)
def test_fused_activations_have_their_parameters_in_order(activation: dml.FusedActivation, expected: Any) -> None:
    assert activation.desc() == expected


def test_only_activations_can_be_fused() -> None:
    with pytest.raises(dmlpy.DescError, match="'GEMM', expected an activation"):
        dml.FusedActivation(dml.OperatorType.GEMM).desc()


@pytest.mark.parametrize(("options", "present"), [("Both", (True, True)), ("Sequence", (True, False)), ("Single", (False, True))])
def test_a_gru_has_the_outputs_that_are_asked_for(options: str, present: tuple[bool, bool]) -> None:
    session = Session()
    x, w, r = session.input(random(1, 3, 2, 4)), session.input(random(1, 1, 15, 4)), session.input(random(1, 1, 15, 5))
    functions = [dml.FusedActivation(dml.ACTIVATION_SIGMOID), dml.FusedActivation(dml.ACTIVATION_TANH)]
    for asked in (int(dml.OutputOptions[options]), dml.OutputOptions[options]):
        outputs = dml.gru(x, w, r, activation_descs=functions, output_options=asked)
        assert tuple(repr(output) != "<empty expression>" for output in outputs) == present
    (found,) = session.run(next(output for output, known in zip(outputs, present, strict=True) if known))
    assert found.shape == ((3, 1, 2, 5) if present[0] else (1, 1, 2, 5))


def recurrent(session: Session, flags: dml.TensorFlags, place: int) -> dml.GRUOutputs:
    """A GRU of which one input has the flags."""
    sizes = [[1, 3, 2, 4], [1, 1, 15, 4], [1, 1, 15, 5], [1, 1, 1, 30], [1, 1, 2, 5]]
    tensors: list[dml.Expression] = []
    for index, own in enumerate(sizes):
        desc = dml.TensorDesc(dml.FLOAT32, flags if index == place else dml.TensorFlags.NONE, own)
        tensors.append(dml.input_tensor(session.graph, len(session.bindings), desc))
        session.bindings.append(dml.Binding(tensors[-1], random(*own)))
    functions = [dml.FusedActivation(dml.ACTIVATION_SIGMOID), dml.FusedActivation(dml.ACTIVATION_TANH)]
    x, w, r, b, h = tensors
    return dml.gru(x, w, r, b, h, activation_descs=functions)


@pytest.mark.parametrize("place", range(5))
def test_a_gru_takes_nothing_that_directml_owns(place: int) -> None:
    with pytest.raises(dmlpy.DescError, match="OWNED_BY_DML") as caught:
        recurrent(Session(), dml.OWNED_BY_DML, place)
    (problem,) = caught.value.problems
    assert problem.code == "flag.owned"
    assert "DML_GRU_OPERATOR_DESC does not support OWNED_BY_DML on any input" in problem.why
    session = Session()
    (found,) = session.run(recurrent(session, dml.TensorFlags.NONE, place).sequence)
    assert np.isfinite(found).all()


def test_what_directml_owns_is_given_anew_with_each_compute() -> None:
    session, x = Session(), random(2, 3)
    a = session.input(x)
    desc = dml.TensorDesc(dml.FLOAT32, dml.OWNED_BY_DML, [4, 3])
    owned = dml.input_tensor(session.graph, 1, desc)
    assert int(owned.get_output_desc().flags) == int(dml.OWNED_BY_DML)
    y = dml.gemm(a, dml.reinterpret(owned, dml.FLOAT32, [3, 4]))
    model = session.graph.build(dml.ExecutionFlags.NONE, [y])
    for weights in (random(3, 4), random(3, 4)):
        bindings = [*session.bindings, dml.Binding(owned, weights)]
        (found,) = session.device.compute(model, bindings, [y])
        assert_close(np.array(found), (x.astype(np.float64) @ weights).astype(np.float32), np.float32, terms=3)
    with pytest.raises(dmlpy.BindError, match="input_1 is not given"):
        session.device.compute(model, session.bindings, [y])


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("reinterpreted", [False, True])
def test_an_output_that_no_operator_gives_is_refused(beside: bool, reinterpreted: bool) -> None:
    session = Session()
    a = session.input(random(2, 3))
    b = dml.reinterpret(a, dml.FLOAT32, [3, 2]) if reinterpreted else a
    with pytest.raises(dmlpy.DescError, match=r"outputs\[0\] is input_0 itself, or reinterpreted") as caught:
        session.graph.build(dml.ExecutionFlags.NONE, [b, -a] if beside else [b])
    assert caught.value.problems[0].remedy == "copy it: activation_identity(input)"


def test_gather_reads_indices_as_bytes() -> None:
    session, x = Session(), random(1, 1, 5, 3)
    data = session.input(x)
    desc = dml.TensorDesc(dml.UINT32, [1, 1, 1, 2])
    indices = dml.input_tensor(session.graph, 1, desc)
    session.bindings.append(dml.Binding(indices, np.array([4, 1], np.uint32).view(np.float32)))
    (found,) = session.run(dml.gather(data, indices, 2, 1))
    np.testing.assert_array_equal(found, x[:, :, [4, 1]])


def test_none_and_empty_arrays_stand_for_empty_lists_and_expressions_of_x_for_pydirectmls() -> None:
    given = dmlpy.x.input("a", [1, 2, 3, 3])
    a, w = image(session := Session(), 1, 2, 3, 3), session.input(random(4, 2, 3, 3))
    none: tuple[Any, ...] = (None, [], np.array([], int))
    for empty in none:
        assert dml.mean_variance_normalization(given, axes=empty).sizes == given.sizes
        assert dml.reinterpret(given, dml.FLOAT32, [18], empty).sizes == (18,)
        assert dml.convolution(a, w, output_sizes=empty).sizes == dml.convolution(a, w).sizes


def test_outputs_of_a_gru_that_do_not_exist_are_refused() -> None:
    session = Session()
    x, w, r = session.input(random(1, 3, 2, 4)), session.input(random(1, 1, 15, 4)), session.input(random(1, 1, 15, 5))
    for wrong in ("Both", None, 2.5, np.zeros(2)):
        with pytest.raises(dmlpy.DescError, match=r"expected one of OutputOptions\.Both, OutputOptions\.Sequence, OutputOptions\.Single"):
            dml.gru(x, w, r, output_options=wrong)


def test_reinterpret_reads_the_same_memory() -> None:
    session, x = Session(), random(2, 3, 4)
    a = session.input(x)
    flat, turned = dml.reinterpret(a, dml.FLOAT32, [24], None), dml.reinterpret(-a, dml.FLOAT32, [4, 3], [1, 4])
    found = session.run(flat + 0.0, turned * 1.0)
    np.testing.assert_array_equal(found[0], x.reshape(24))
    np.testing.assert_array_equal(found[1], -x[0].T)
    with pytest.raises(dmlpy.DescError, match="a desc of at most 96 bytes"):
        dml.reinterpret(a, dml.FLOAT32, [25])


def test_single_objects_in_place_of_lists_and_bindings_are_refused() -> None:
    device = dml.Device(use_gpu=False)
    graph = dml.GraphBuilder(device)
    x = dml.input_tensor(graph, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 2, 2]))
    y, data = dml.activation_relu(x), np.ones((2, 2), np.float32)
    model, binding = graph.build(dml.ExecutionFlags.NONE, [y]), dml.Binding(x, data)
    single: Any = y
    for run in (lambda: graph.build(dml.ExecutionFlags.NONE, single), lambda: device.compute(model, [binding], single)):
        with pytest.raises(dmlpy.DescError, match=r"outputs is <expr.*, expected a list of expressions(.|\n)*remedy: put it in a list"):
            run()
    wrong: Any
    for wrong, remedy in ((binding, "put it in a list"), ({x: data}, r"Binding\(expression, array\) for each input")):
        with pytest.raises(dmlpy.DescError, match=rf"inputs is .*, expected a list of Bindings(.|\n)*remedy: {remedy}"):
            device.compute(model, wrong, [y])
    with pytest.raises(dmlpy.BindError, match=r"input_0 is given twice, expected one Binding  \[bind.twice\]"):
        device.compute(model, [binding, dml.Binding(x, data + 1)], [y])
    wrong = graph
    with pytest.raises(dmlpy.DescError, match=r"model is .*GraphBuilder.*(.|\n)*remedy: graph.build"):
        device.compute(wrong, [binding], [y])
    wrong = [data]
    with pytest.raises(dmlpy.BindError, match=r"inputs\[0\] is .* without its input, expected a Binding(.|\n)*input_0 is not given"):
        device.compute(model, wrong, [y])
    for wrong in (dml.OperatorType.ACTIVATION_RELU, "ACTIVATION_RELU"):
        with pytest.raises(
            dmlpy.DescError, match=r"expected a FusedActivation(.|\n)*remedy: FusedActivation\(OperatorType.ACTIVATION_RELU\)"
        ):
            dml.add(y, y, wrong)
    wrong = 2
    with pytest.raises(dmlpy.DescError, match="strides is 2, expected a sequence of integers"):
        dml.max_pooling(x, [2, 2], wrong)


FLOATS = [4]
WRONG_CALLS: list[tuple[Callable[[dml.GraphBuilder, dml.Expression], Any], list[str]]] = [
    (
        lambda graph, x: dml.input_tensor(graph, -1, dml.TensorDesc(dml.FLOAT32, FLOATS)),
        ["input_index is -1, expected an integer from 0 to"],
    ),
    (lambda graph, x: dml.input_tensor(graph, 1.0, FLOATS), ["input_index is 1.0", "tensor_desc is [4], expected a TensorDesc"]),
    (lambda graph, x: dml.input_tensor(x, 1, graph), ["scope is <expression", "remedy: input_tensor(graph, index, desc)"]),
    (lambda graph, x: graph.build([x], dml.ExecutionFlags.NONE), ["flags is [<expression", "the flags come first: build(flags, outputs)"]),
    (lambda graph, x: graph.build(dml.ExecutionFlags.NONE, 5), ["outputs is 5, expected a list of expressions"]),
    (lambda graph, x: dml.add(x, x, "relu"), ["fused_activation is 'relu'", "FusedActivation(OperatorType.ACTIVATION_RELU)"]),
]


@table(("call", "message"), WRONG_CALLS)
def test_calls_with_something_else_in_a_place(call: Callable[[dml.GraphBuilder, dml.Expression], Any], message: list[str]) -> None:
    graph = dml.GraphBuilder(dml.Device(use_gpu=False))
    x = dml.input_tensor(graph, 0, dml.TensorDesc(dml.FLOAT32, FLOATS))
    with pytest.raises(dmlpy.DescError) as caught:
        call(graph, x)
    assert not [text for text in message if text not in str(caught.value)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("relu", "did you mean dmlpy.pydirectml.activation_relu?"),
        ("softmax", "did you mean dmlpy.pydirectml.activation_soft_max?"),
        ("upsample_2d", "did you mean dmlpy.pydirectml.up_sample_2d?"),
        ("reduce", "as pydirectml has none: dmlpy.x.reduce takes its expressions"),
        ("resample", "as pydirectml has none: dmlpy.x.resample takes its expressions"),
        ("GraphBilder", "did you mean dmlpy.pydirectml.GraphBuilder?"),
    ],
)
def test_names_that_pydirectml_lacks(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dml, name)
    assert message in str(caught.value)
