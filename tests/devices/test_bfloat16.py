"""Tensors of BFLOAT16 on every device: results against definitions in float64, roundings bit by bit, and who refuses them."""

from __future__ import annotations

import copy
import pickle
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import eager, x
from dmlpy.description import bfloat16, bfloat16_numbers
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.runtime.interface import Limits
from dmlpy.validation.checking import lowest_level
from tests.conftest import cuda_on_cpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.plan_kernels import A100, T4
from tests.support.operators.bfloat16_cases import (
    BFLOAT16,
    CELLS,
    ON_COPIES,
    OTHERS,
    USUAL,
    Array,
    block_cell_gradient,
    inputs_of,
    samples,
    tensor,
    training,
)
from tests.support.operators.layout_runs import repeated, results_of, run
from tests.support.recurrent.networks import gradient_inputs, network, upstream
from tests.support.tolerance import assert_close, tolerance

NEEDS_RESERVE = {"CUDNN_RNN_BACKPROP_V3", "GRU_GRAD", "LSTM_GRAD", "RNN_GRAD"}
"""Gradients of a reserve that only the forward operator can fill, which has a test of its own."""

FAMILIES = tuple(dict.fromkeys(kind.family() for kind in OPERATORS.values() if not kind.combines_bits))


def numbers(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes).astype(BFLOAT16)


SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()


def on_host(device: dml.Device, value: Any) -> Array:
    return np.asarray(value if isinstance(value, np.ndarray) else device.to_host(value))


def check_results(device: dml.Device, desc: dml.OperatorDesc, seed: int = 0) -> None:
    """Compares an operator with its definition in float64, applied to the same numbers in a desc of FLOAT32."""
    wide = bfloat16.in_other_type(desc, dml.DataType.FLOAT32)
    given, same = inputs_of(desc, wide, seed)
    results = dml.compile(desc, device)(**given, **({"copy": True} if device.memory_kind == "cuda" else {}))
    reserves = {field.name for field in desc.outputs() if field.marker.reserve}
    for name, expected in dml.reference(wide, same).as_dict().items():
        pairs = zip(results[name], expected, strict=True) if isinstance(expected, tuple) else [(results[name], expected)]
        for result, reference in pairs if name not in reserves else ():
            found = on_host(device, result)
            if found.dtype.kind in "iu":
                np.testing.assert_array_equal(found, reference, err_msg=f"{desc.short_name()} {name}")
            else:
                assert_close(found, reference, found.dtype, what=f"{desc.short_name()} {name}")


@pytest.mark.parametrize("name", [*USUAL, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_kernels_give_what_definitions_give_and_need_no_copies(every_device: dml.Device, name: str) -> None:
    desc = {**USUAL, **OTHERS}[name]
    check_results(every_device, desc)
    kind = every_device.name.partition(":")[0]
    if kind != "numpy":
        assert ("rounded once to bfloat16" in str(dml.compile(desc, every_device).plan)) == (name in ON_COPIES[kind])


def trained() -> dict[str, dml.OperatorDesc]:
    """What is run in training: layers, a stack of them and a single step, and their gradients."""
    stack = network(np.random.default_rng(4), "gru", dtype=BFLOAT16).desc
    layers = {cell: training(cell) for cell in CELLS} | {"stack": stack}
    return layers | {f"{name}, gradient": desc.gradient() for name, desc in layers.items()} | {"step, gradient": block_cell_gradient()}


@pytest.mark.parametrize("limits", [T4, A100], ids=lambda limits: limits.name)
def test_a_gpu_whose_tensor_cores_lack_it_multiplies_copies(limits: Limits) -> None:
    device, multiply = CudaDevice(DryRunRuntime(limits)), trained() | {name: USUAL[name] for name in ("product", "convolution")}
    plans = {name: str(dml.compile(desc, device).plan) for name, desc in (multiply | USUAL).items()}
    on_copies = {name for name, plan in plans.items() if "rounded once to bfloat16" in plan}
    assert on_copies == (set(multiply) if limits is T4 else set())
    assert ("attend<machine::bfloat16, " if limits is T4 else "attend_halves<") in plans["attention"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_of_recurrent_layers_on_cuda(strategy: str) -> None:
    """A layer whose recurrent matrix tensor cores take in several passes."""
    sizes = {"input": (1, 12, 17, 32), "weight": (1, 1, 256, 32), "recurrence": (1, 1, 256, 64), "bias": (1, 1, 1, 512)}
    tensors = {f"{name}_tensor": tensor(*own) for name, own in sizes.items()}
    desc = dml.LSTMDesc(**tensors, activation_descs=[SIGMOID, TANH, TANH], direction="BACKWARD").with_outputs()
    device = cuda_on_cpu(strategy=strategy)
    assert "machine::bfloat16" in str(dml.compile(desc, device).plan)
    check_results(device, desc)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_operators_of_a_family(every_device: dml.Device, family: str) -> None:
    descs = samples(family)
    assert descs
    for name, desc in descs.items():
        if name not in NEEDS_RESERVE and (every_device.memory_kind == "cpu" or CudaDevice.runs(type(desc))):
            check_results(every_device, desc)


def test_who_takes_it() -> None:
    """By family the number of operators with tensors of BFLOAT16: where FLOAT32 and FLOAT16 are taken, unless bits are combined."""
    counts: dict[str, int] = defaultdict(int)
    for kind in OPERATORS.values():
        sets = [types for row in kind.support[-1:] for types in row.types.values()]
        sets += [field.marker.types for field in kind.tensor_fields() if not isinstance(field.marker.types, str)]
        counts[kind.family()] += not kind.combines_bits and any(bfloat16.with_bfloat16(types) != types for types in sets)
    expected = {"matrix": 1, "convolution": 1, "attention": 2, "normalization": 12, "recurrent": 13, "elementwise": 51, "activation": 27}
    assert {family: counts[family] for family in expected} == expected


# roundings

ALL = np.arange(1 << 16, dtype=np.uint16)


def floats() -> Array:
    """Floats between, at and next to numbers of BFLOAT16: every exponent and sign, infinities, NaN, and numbers below the normal ones."""
    bits = (ALL.astype(np.uint32) << 16)[:, np.newaxis] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return bits.view(np.float32)[::7]


def test_conversions_are_exact_or_rounded_once_to_even_numbers(every_device: dml.Device) -> None:
    given = floats()
    cast = dml.CastDesc(input_tensor=dml.TensorDesc.of(given), output_tensor=tensor(*given.shape))
    rounded = on_host(every_device, run(cast, {"input_tensor": given}, every_device)["output_tensor"])
    is_nan = np.isnan(given)
    assert np.isnan(rounded[is_nan].astype(np.float32)).all()
    with np.errstate(all="ignore"):
        nearest = given.astype(np.float64).astype(BFLOAT16)
    np.testing.assert_array_equal(rounded.view(np.uint16)[~is_nan], nearest.view(np.uint16)[~is_nan])
    back = dml.CastDesc(input_tensor=tensor(1 << 16), output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1 << 16]))
    wide = on_host(every_device, results_of(back, {"input_tensor": ALL.view(BFLOAT16)}, every_device)["output_tensor"])
    known = ~np.isnan(wide)
    assert (known | np.isnan(ALL.view(BFLOAT16).astype(np.float32))).all()
    np.testing.assert_array_equal(wide.view(np.uint32)[known], (ALL.astype(np.uint32) << 16)[known])


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.3895e38, 3.4e38, -np.inf, 1e-45, np.nan])
def test_numbers_of_attributes_are_rounded_as_elements_are(value: float) -> None:
    with np.errstate(all="ignore"):
        expected = float(np.float32(value).astype(BFLOAT16))
    found = bfloat16_numbers.rounded(value)
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found) == np.signbit(expected) or np.isnan(found)


# layouts, constants, graphs

STRIDED = {
    "product": dml.GEMMDesc(
        a_tensor=tensor(2, 1, 5, 37, strides=[0, 0, 1, 5]),
        b_tensor=tensor(2, 1, 37, 19, strides=[37 * 23, 0, 23, 1]),
        c_tensor=tensor(2, 1, 5, 19, strides=[0, 0, 0, 1]),
        output_tensor=tensor(2, 1, 5, 19, strides=[400, 400, 40, 2]),
        fused_activation=dml.ActivationTanhDesc(),
    ),
    "sum": dml.ElementWiseAdd1Desc(
        a_tensor=tensor(2, 3, 5, 37, strides=[0, 0, 0, 1]),
        b_tensor=tensor(2, 3, 5, 37, strides=[600, 1, 111, 3]),
        output_tensor=tensor(2, 3, 5, 37, strides=[1200, 400, 80, 2]),
        fused_activation=dml.ActivationTanhDesc(),
    ),
    "unequal": dml.ElementWiseLogicalEqualsDesc(
        a_tensor=tensor(3, 21, strides=[0, 1]), b_tensor=tensor(3, 21), output_tensor=dml.TensorDesc(data_type="UINT8", sizes=[3, 21])
    ),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strides_and_gaps(every_device: dml.Device, name: str) -> None:
    """Elements that repeat are read where they are, and what is between the elements of an output stays."""
    desc = STRIDED[name]
    inputs = [slot for slot in desc.input_slots() if slot.tensor is not None]
    given = {slot.place: repeated(numbers(*slot.tensor.sizes, seed=at), slot.tensor) for at, slot in enumerate(inputs) if slot.tensor}
    [found] = run(desc, given, every_device).values()  # which poisons gaps, and compares them
    wide = bfloat16.in_other_type(desc, dml.DataType.FLOAT32)
    [expected] = dml.reference(wide, {place: array.astype(np.float32) for place, array in given.items()}).as_dict().values()
    assert_close(found, expected, BFLOAT16)


@pytest.mark.parametrize("cell", ["LSTM", *(pytest.param(cell, marks=pytest.mark.slow) for cell in CELLS if cell != "LSTM")])
def test_training_passes_its_reserve_to_the_gradient(every_device: dml.Device, cell: str) -> None:
    desc = training(cell)
    given = {
        field.name: numbers(*getattr(desc, field.name).sizes, seed=at)
        for at, field in enumerate(desc.inputs())
        if getattr(desc, field.name)
    }
    forward = dml.compile(desc, every_device)
    move = every_device.from_host
    prepared = forward.prepare(**{name: move(given[name]) for name in forward.prepared_inputs})
    assert set(forward.prepared_inputs) == {"weight_tensor", "recurrence_tensor", "bias_tensor"}
    left = {name: move(array) for name, array in given.items() if name not in forward.prepared_inputs}
    outputs = prepared(**left)
    whole = forward(**{name: move(array) for name, array in given.items()})
    wide = bfloat16.in_other_type(desc, dml.DataType.FLOAT32)
    expected = dml.reference(wide, {name: array.astype(np.float32) for name, array in given.items()})
    for name in ("output_sequence_tensor", "output_single_tensor"):
        found, again = on_host(every_device, outputs[name]), on_host(every_device, whole[name])
        assert_close(found, expected[name], BFLOAT16)
        np.testing.assert_array_equal(found.view(np.uint16), again.view(np.uint16))
    gradient, wide_gradient = desc.gradient(), bfloat16.in_other_type(desc.gradient(), dml.DataType.FLOAT32)
    names = [field.name for field in gradient.inputs() if getattr(gradient, field.name) is not None and not field.marker.reserve]
    known = {**given, "output_sequence_tensor": on_host(every_device, outputs["output_sequence_tensor"])}
    known |= {name: numbers(*gradient.tensors()[name].sizes, seed=9) for name in names if name not in known}
    moved = {name: move(known[name]) for name in names}
    results = dml.compile(gradient, every_device)(**moved, reserve_tensor=whole["reserve_tensor"])
    same = {name: known[name].astype(np.float32) for name in names}
    for name, array in dml.reference(wide_gradient, {**same, "reserve_tensor": expected["reserve_tensor"]}).as_dict().items():
        assert_close(on_host(every_device, results[name]), array, BFLOAT16, what=name, least=0.25)


@pytest.mark.parametrize("mode", ["gru", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("rnn_tanh", "lstm"))])
def test_a_stacked_network_and_its_gradient(every_device: dml.Device, mode: Any) -> None:
    rng = np.random.default_rng(4)
    net = network(rng, mode, lengths=(5, 2, 4), dtype=BFLOAT16)
    gradient, move = net.desc.gradient(), every_device.from_host
    wide, wide_gradient = (bfloat16.in_other_type(desc, dml.DataType.FLOAT32) for desc in (net.desc, gradient))
    outputs = dml.compile(net.desc, every_device)(**{name: move(array) for name, array in net.arrays.items()})
    given = {name: array.astype(np.float32) if array.dtype == BFLOAT16 else array for name, array in net.arrays.items()}
    expected = dml.reference(wide, given)
    for name in ("output", "output_h"):
        assert_close(on_host(every_device, outputs[name]), expected[name], BFLOAT16, what=name)
    known = {**gradient_inputs(net, gradient), **upstream(rng, gradient)}
    results = dml.compile(gradient, every_device)(
        **{name: move(array) for name, array in known.items()}, reserve_space=outputs["reserve_space"]
    )
    same = {name: array.astype(np.float32) if array.dtype == BFLOAT16 else array for name, array in known.items()}
    for name, array in dml.reference(wide_gradient, {**same, "reserve_space": expected["reserve_space"]}).as_dict().items():
        assert_close(on_host(every_device, results[name]), array, BFLOAT16, what=name, least=0.25)


def gelu(data_type: str, numbers: Any) -> dml.Graph:
    """GELU by its approximation, then a softmax; numbers are nodes of their own."""
    v = x.input("data", [2, 3, 67], data_type)
    return x.activation_softmax1(v * 0.5 * (1.0 + x.tanh((v + v * v * v * numbers) * 0.75)), axes=[2]).graph()


def test_a_graph_rounds_after_each_node_however_nodes_are_joined(every_device: dml.Device) -> None:
    data = numbers(2, 3, 67)
    results = []
    for fuse in (True, False):
        compiled = dml.compile(gelu("BFLOAT16", 0.044921875), every_device, fuse=fuse)
        results.append(on_host(every_device, compiled(data=every_device.from_host(data))["output"]))
    np.testing.assert_array_equal(results[0].view(np.uint16), results[1].view(np.uint16))
    [expected] = dml.compile(gelu("FLOAT32", 0.044921875), "numpy")(data=data.astype(np.float32)).as_dict().values()
    assert_close(results[0], expected, BFLOAT16)
    if every_device.memory_kind == "cuda":
        assert "Element<" in dml.compile(gelu("BFLOAT16", 0.044921875), every_device).plan  # one kernel, which rounds in between


# who refuses it

GEMM = dml.GEMMDesc(a_tensor=tensor(1, 1, 2, 3), b_tensor=tensor(1, 1, 3, 4)).with_outputs()


@pytest.mark.parametrize("level", list(dml.FeatureLevel), ids=str)
def test_every_level_refuses_it(level: dml.FeatureLevel) -> None:
    problems = dml.check(GEMM, level)
    assert [problem.path for problem in problems] == [f"{name}_tensor.data_type" for name in ("a", "b", "output")]
    for problem in problems:
        assert problem.code == "type.support"
        assert "FLOAT32" in problem.expected
        assert problem.why == ("DirectML has no BFLOAT16 at any feature level",)
        assert problem.remedy == "use FLOAT16 or FLOAT32, or compile without a feature level"
    with pytest.raises(dml.CompileError, match="DirectML has no BFLOAT16 at any feature level"):
        dml.compile(GEMM, "numpy", level)


def test_what_has_no_level_takes_it() -> None:
    assert dml.check(GEMM, None) == dml.check(training("LSTM")) == []
    assert dml.check(GEMM) != []
    assert lowest_level(GEMM) is None
    graph = gelu("BFLOAT16", 0.5)
    assert graph.check(None) == []
    assert {problem.code for problem in graph.check()} == {"type.support"}
    for described in (GEMM, graph):
        compiled = dml.compile(described, "numpy")
        assert compiled.feature_level is None
        assert "without a feature level" in repr(compiled)
        assert pickle.loads(pickle.dumps(compiled)) is compiled or described is graph
        assert copy.copy(compiled) is compiled
    assert dml.compile(bfloat16.in_other_type(GEMM, dml.DataType.FLOAT32), "numpy").feature_level is max(dml.FeatureLevel)


@pytest.mark.parametrize("name", [kind.type_name for kind in OPERATORS.values() if kind.combines_bits])
def test_bits_are_combined_as_integers(name: str) -> None:
    kind = OPERATORS[name]
    inputs = {field.name: tensor(2, 3) for field in kind.inputs()}
    problems = dml.check(kind(**inputs).with_outputs(), None)
    assert problems[0].remedy == "describe the same memory as UINT16"


def test_a_call_names_what_is_wrong_and_not_the_type() -> None:
    with pytest.raises(dml.DescError) as caught:
        eager.add(numbers(0, 3), numbers(0, 3))
    assert {problem.code for problem in caught.value.problems} == {"size.range"}


def test_types_that_must_be_equal_are() -> None:
    [problem] = dml.check(GEMM.replace(b_tensor=GEMM.b_tensor.replace(data_type="FLOAT16")), None)
    assert problem.code == "type.equal"
    assert (problem.found, problem.expected) == ("FLOAT16", "BFLOAT16")


def test_without_the_package_that_has_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    bfloat16_numbers.numpy_type.cache_clear()
    monkeypatch.delitem(dml.DataType.BFLOAT16.__dict__, "numpy", raising=False)
    try:
        with pytest.raises(ModuleNotFoundError, match="arrays of BFLOAT16 need the package ml_dtypes: pip install ml_dtypes"):
            dml.compile(GEMM.replace(alpha=0.875), "numpy")
    finally:
        bfloat16_numbers.numpy_type.cache_clear()


# descs and arrays


def test_descs_hold_it() -> None:
    assert dml.TensorDesc.of(numbers(2, 3)) == tensor(2, 3)
    assert tensor(2, 3).summary() == "BFLOAT16 [2, 3] (packed, 12 bytes)"
    assert dml.OperatorDesc.from_json(GEMM.to_json()) == GEMM
    assert dml.DataType.BFLOAT16.introduced is None
    fill = {"Value": {"UInt16": 0x4049}, "ValueDataType": "BFLOAT16", "OutputTensor": {"DataType": "BFLOAT16", "Sizes": [2, 2]}}
    desc = dml.OperatorDesc.from_dict({"Type": "DML_OPERATOR_FILL_VALUE_CONSTANT", "Desc": fill})
    assert isinstance(desc, dml.FillValueConstantDesc)
    assert desc.value == 3.140625
    np.testing.assert_array_equal(dml.compile(desc, "numpy")().output_tensor.astype(float), np.full((2, 2), 3.140625))


def test_products_by_rounded_factors_are_exact_where_the_factors_are() -> None:
    """The flag lets the processor multiply pairs of BFLOAT16: these factors are such numbers, so that only sums differ."""
    a, b = numbers(1, 1, 33, 70), numbers(1, 1, 70, 65, seed=1)
    desc = dml.GEMMDesc(a_tensor=dml.TensorDesc.of(a), b_tensor=dml.TensorDesc.of(b)).with_outputs()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for flags in ("NONE", "ALLOW_HALF_PRECISION_COMPUTATION"):
        found = dml.compile(desc, "cpu", flags=flags)(a_tensor=a, b_tensor=b).output_tensor
        off = np.abs(found.astype(np.float64) - exact)
        assert (off <= 2.0**-8 * np.abs(exact) + 1e-5 * np.abs(a.astype(float)) @ np.abs(b.astype(float))).all()
    assert tolerance(BFLOAT16) == 8 * tolerance(np.float16)


def test_other_elements_of_two_bytes_are_refused() -> None:
    desc = dml.ActivationReluDesc(input_tensor=tensor(2, 3)).with_outputs()
    compiled = dml.compile(desc, "numpy")
    remedies = {
        "uint16": "if its elements are the bits of such numbers, view it: array.view(ml_dtypes.bfloat16)",
        "float16": "cast it: array.astype(ml_dtypes.bfloat16)",
        "V2": None,
    }
    for dtype, remedy in remedies.items():
        with pytest.raises(dml.BindError) as caught:
            compiled(input_tensor=np.zeros((2, 3), dtype))
        [problem] = caught.value.problems
        assert (problem.code, problem.expected, problem.remedy) == ("array.type", "BFLOAT16", remedy)
    with pytest.raises(dml.BindError, match=r"numpy\.asarray\(\.\.\., ml_dtypes\.bfloat16\)"):
        compiled(input_tensor=[[1.0] * 3] * 2)
    half = dml.compile(desc.replace(**{name: item.replace(data_type="FLOAT16") for name, item in desc.tensors().items()}), "numpy")
    with pytest.raises(dml.BindError, match=r"is BFLOAT16, expected FLOAT16(.|\n)*array\.astype\(numpy\.float16\)"):
        half(input_tensor=numbers(2, 3))


def test_constants_of_graphs_and_packed_ones_are_kept() -> None:
    weights, data = numbers(1, 1, 32, 64), numbers(1, 1, 16, 32, seed=1)
    owned = dml.TensorDesc.of(weights).replace(flags="OWNED_BY_DML")
    compiled = dml.compile(dml.GEMMDesc(a_tensor=dml.TensorDesc.of(data), b_tensor=owned).with_outputs(), "cpu")
    prepared = compiled.prepare(b_tensor=weights)
    again = pickle.loads(pickle.dumps(prepared))
    held = x.gemm(x.input("data", data.shape, "BFLOAT16"), x.constant(weights)).compile("cpu")
    results = [prepared(a_tensor=data).output_tensor, again(a_tensor=data).output_tensor, held(data=data).output]
    for result in results:
        np.testing.assert_array_equal(result.view(np.uint16), results[0].view(np.uint16))
    assert_close(results[0], data.astype(float) @ weights.astype(float), BFLOAT16)
