"""Compiled element-wise operators and chains of them, against the definitions in float64 and against single operators."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import GraphBuilder
from dmlpy.inspection.samples import sample
from tests.support.operators.layout_runs import failures_in_layouts
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu import jit, thread_pool
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.cpu.elementwise import plan as elementwise_plan
from dmlpy.devices.cpu.elementwise.program import FUNCTIONS, OPERATORS, OPERATORS_BY_RANGE
from tests.support.cpu.compiled_plans import run_on
from tests.support.operators.accuracy import FUNCTIONS as ACCURATE

COUNT = 5003
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 88.9, -103.5, 0.5, -0.5, 1.5, 2.5)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "ELEMENT_WISE_CONSTANT_POW": {"exponent": 2.0},
    "ELEMENT_WISE_ROUND": {"rounding_mode": "HALVES_TO_NEAREST_EVEN"},
    "ELEMENT_WISE_CLIP1": {"min": 0.5, "max": -0.25},
    "ELEMENT_WISE_SQRT": {"scale_bias": None},
}


def desc_of(kind: type[Any], tensor: dml.TensorDesc, **members: Any) -> Any:
    """An operator on tensors of one layout, with its sample's attributes."""
    own = sample(kind)
    attributes = {name: getattr(own, name) for name in own.attribute_names()} | ATTRIBUTES.get(kind.short_name(), {})
    attributes |= {name: tensor.data_type for name in attributes if name.endswith("data_type")}
    return kind(**{slot.field.name: tensor for slot in own.slots()} | attributes | members)


def values(seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    parts = (rng.normal(scale=3.0, size=COUNT - 1600), rng.normal(scale=1e-4, size=600), np.linspace(-110, 110, 1000))
    found = np.concatenate(parts).astype(np.float32)
    found[rng.permutation(COUNT)[: len(SPECIAL)]] = SPECIAL
    return found


_ANY_ZERO = {"ACTIVATION_RELU", "ACTIVATION_GELU", "ELEMENT_WISE_MAX", "ELEMENT_WISE_MIN"}
"""The operators whose zeros may have either sign."""
_NOT_ALIKE = (dml.ActivationReluGradDesc, dml.ElementWiseClipGradDesc, dml.ElementWiseClipGrad1Desc, dml.ActivationIdentityDesc)
KINDS = {kind.short_name(): kind for kind in map(resolve_name, (*FUNCTIONS, *OPERATORS)) if kind not in _NOT_ALIKE}
"""Without gradients, whose output has another name, and without a copy."""
BY_RANGE = {kind.short_name(): kind for kind in map(resolve_name, OPERATORS_BY_RANGE)}
"""The operators whose scaled halves NumPy runs."""


TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16}


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", KINDS)
def test_each_operator(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, and the same bits on one. Small values stay accurate."""
    dtype = TYPES[data_type]
    plain = {"scale_bias": None} if name in BY_RANGE else {}  # where functions are steep, the rounding of x * scale + bias would count
    desc = desc_of(KINDS[name], dml.TensorDesc(data_type=data_type, sizes=(COUNT,)), **plain)
    with np.errstate(all="ignore"):
        given = {slot.place: values(seed).astype(dtype) for seed, slot in enumerate(desc.input_slots()) if slot.tensor is not None}
    results = [run_on(threads, elementwise_plan, desc, given, monkeypatch) for threads in (1, 2)]
    np.testing.assert_array_equal(*results)
    assert_as_defined(desc, given, results[0], has_any_zero=name in _ANY_ZERO)


def assert_as_defined(desc: Any, given: dict[str, Any], found: Any, *, has_any_zero: bool = False) -> None:
    """Small values too; NaN, infinities and, unless they may have either sign, zeros are the same."""
    with np.errstate(all="ignore"):
        expected = np.asarray(dml.reference(desc, given).output_tensor)
        stored = expected.astype(found.dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(stored))
    np.testing.assert_array_equal(found[np.isinf(stored)], stored[np.isinf(stored)])
    zeros = (found == 0) & (stored == 0) & (not has_any_zero)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(stored[zeros]))
    for scale in (1e-2, 1e2, np.inf):
        alike = (np.abs(expected) <= scale) & np.isfinite(stored)
        assert_close(found[alike], expected[alike], found.dtype.type)


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
EXPONENTS = (0.5, 3.0, -1.0, -2.0, 1.5, 0.0, np.inf, -np.inf, np.nan)
HALF_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (kind, {}) for name, kind in BY_RANGE.items() if kind is not dml.ElementWisePowDesc},
    **{f"the power {each}": (dml.ElementWiseConstantPowDesc, {"exponent": each}) for each in EXPONENTS},
    "ELEMENT_WISE_ERF": (dml.ElementWiseErfDesc, {}),
    "ACTIVATION_SIGMOID": (dml.ActivationSigmoidDesc, {}),
    **{f"SWISH, {each}": (dml.ActivationSwishDesc, {"sigmoid_input_scale": each}) for each in (1.0, -0.5, 3.0)},
}
MOST_NEARLY_HALFWAY = {"ELEMENT_WISE_ERF": 160, "ACTIVATION_SIGMOID": 32, "ACTIVATION_SWISH": 32}
"""The halves, of all, that functions with shorter polynomials may round to the other neighbour; 16 of other functions."""


@pytest.mark.parametrize("name", HALF_KINDS)
def test_functions_of_all_halves(name: str) -> None:
    """Each number is rounded as its definition in float64 is, but for a few that are nearly halfway between two halves."""
    kind, members = HALF_KINDS[name]
    attributes = {} if kind.short_name().startswith("ACTIVATION") else {"scale_bias": None}
    desc = desc_of(kind, dml.TensorDesc(data_type="FLOAT16", sizes=HALVES.shape), **attributes, **members)
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled")
    found = operator(input_tensor=HALVES)["output_tensor"]
    assert_as_defined(desc, {"input_tensor": HALVES}, found, has_any_zero=kind is dml.ActivationSwishDesc)
    with np.errstate(all="ignore"):
        rounded = np.asarray(dml.reference(desc, input_tensor=HALVES).output_tensor).astype(np.float16)
    assert np.count_nonzero((found != rounded) & ~np.isnan(rounded)) <= MOST_NEARLY_HALFWAY.get(kind.short_name(), 16)


@pytest.mark.parametrize("name", BY_RANGE)
def test_scaled_operands(name: str) -> None:
    """Those of FLOAT32 are scaled as by NumPy before the function."""
    x, tensor = values(7), dml.TensorDesc(data_type="FLOAT32", sizes=(COUNT,))
    with np.errstate(over="ignore"):
        scaled = x * np.float32(2.0) + np.float32(-1.0)
    others = {"exponent_tensor": values(8)} if name == "ELEMENT_WISE_POW" else {}
    found = [
        dml.compile(desc_of(BY_RANGE[name], tensor, scale_bias=scale), "cpu")(input_tensor=argument, **others)["output_tensor"]
        for scale, argument in ((dml.ScaleBias(scale=2.0, bias=-1.0), x), (None, scaled))
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", TYPES.values(), ids=list(TYPES))
def test_powers(dtype: Any) -> None:
    """Bases and exponents in all pairs of those that pow has a rule for, and many others."""
    rng = np.random.default_rng(4)
    ruled = np.array([0, 1, 2, 3, 0.5, 1025, 65504, 6e-8, np.inf, np.nan], dtype)
    ruled = np.concatenate([ruled, -ruled])
    parts = [grid.ravel() for grid in np.meshgrid(ruled, ruled)]
    drawn = rng.uniform(0.01, 9, 5000), rng.normal(scale=3.0, size=5000)
    base, exponent = (np.concatenate([part, more.astype(dtype)]) for part, more in zip(parts, drawn, strict=True))
    tensor = dml.TensorDesc.of(base)
    desc = dml.ElementWisePowDesc(input_tensor=tensor, exponent_tensor=tensor, output_tensor=tensor)
    given = {"input_tensor": base, "exponent_tensor": exponent}
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled")
    assert_as_defined(desc, given, operator(**given)["output_tensor"])


def test_powers_near_the_ends() -> None:
    """Of all mantissas, with the exponents for which results nearly overflow or vanish: what a logarithm lacks there counts most."""
    rng = np.random.default_rng(5)
    base = np.concatenate([rng.uniform(low, high, 10_000) for low, high in ((0.5, 1.0), (1.0, 2.0), (1e-39, 1e-38), (1e30, 1e38))])
    base = base.astype(np.float32)
    exponent = (rng.choice([-125.0, 127.5], base.size) / np.log2(base.astype(np.float64))).astype(np.float32)
    operands = {"input_tensor": base, "exponent_tensor": exponent}
    (function,) = (function for function in ACCURATE if function.kind is dml.ElementWisePowDesc)
    found = np.asarray(dml.compile(function.of(dml.TensorDesc.of(base)), "cpu")(**operands).output_tensor)
    assert function.units(found, operands).max() <= function.bound.cpu


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("kind", [dml.ActivationReluGradDesc, dml.ElementWiseClipGradDesc, dml.ElementWiseClipGrad1Desc])
def test_gradients_choose_elements(kind: Any, data_type: str) -> None:
    """Of values at the limits and NaN too; what is chosen has the same bits."""
    with np.errstate(over="ignore"):
        x = values(1).astype(TYPES[data_type])
    x[5:9] = -0.5, 0.75, 0.0, np.nan
    limits = {"min": -0.5, "max": 0.75} if "CLIP" in kind.short_name() else {}
    desc = desc_of(kind, dml.TensorDesc(data_type=data_type, sizes=x.shape), **limits)
    dy = np.random.default_rng(2).normal(size=x.shape).astype(x.dtype)
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled")
    found = operator(input_tensor=x, input_gradient_tensor=dy)[desc.output_slots()[0].field.name]
    expected = dml.reference(desc, input_tensor=x, input_gradient_tensor=dy)[desc.output_slots()[0].field.name]
    np.testing.assert_array_equal(found, expected)


def test_layouts() -> None:
    names = ("ACTIVATION_RELU_GRAD", "ELEMENT_WISE_ADD1", "ELEMENT_WISE_ERF", "ELEMENT_WISE_CLIP")
    assert failures_in_layouts(*names, device="cpu") == []


# sizes, and the strides of a, b and the result in elements; None packs
LAYOUTS: dict[str, tuple[tuple[int, ...], Any, Any, Any]] = {
    "one element": ((1, 1), None, None, None),
    "a bias for short rows": ((3000, 7), None, (0, 1), None),
    "a bias for long rows": ((3, 2500), None, (0, 1), None),
    "a factor for each channel": ((2, 5, 700), None, (0, 1, 0), None),
    "a factor for each of many rows": ((300, 40), None, (1, 0), None),
    "rows of one number by others": ((300, 41), (1, 0), None, None),
    "two factors for each row": ((300, 42), (1, 0), (1, 0), None),
    "one factor": ((70, 60), None, (0, 0), None),
    "a transposed operand": ((4, 70, 50), None, (3500, 1, 70), None),
    "a transposed result": ((70, 50), None, None, (1, 70)),
    "gaps in all": ((9, 200, 5), (1400, 7, 1), (2000, 10, 2), (1200, 6, 1)),
}


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_blocks_of_each_kind(name: str, data_type: str) -> None:
    """The product of halves is exact in FLOAT32, so it is NumPy's."""
    sizes, *strides = LAYOUTS[name]
    rng = np.random.default_rng(1)
    a, b, y = (dml.TensorDesc(data_type=data_type, sizes=sizes, strides=own) for own in strides)
    memory = [rng.normal(size=tensor.span).astype(TYPES[data_type]) for tensor in (a, b, y)]
    arrays = [np.lib.stride_tricks.as_strided(own, sizes, each.numpy_strides()) for own, each in zip(memory, (a, b, y), strict=True)]
    gaps = np.full_like(memory[2], True, bool)
    np.lib.stride_tricks.as_strided(gaps, sizes, [step // memory[2].itemsize for step in y.numpy_strides()])[...] = False
    before = memory[2].copy()
    op = dml.compile(dml.ElementWiseMultiplyDesc(a_tensor=a, b_tensor=b, output_tensor=y), "cpu")
    assert op.plan.startswith("strategy: compiled")
    op.bind({"a_tensor": arrays[0], "b_tensor": arrays[1]}, {"output_tensor": arrays[2]})()
    np.testing.assert_array_equal(arrays[2], arrays[0] * arrays[1])
    np.testing.assert_array_equal(memory[2][gaps], before[gaps])


@pytest.mark.parametrize("also_read", [False, True], ids=["rows alone", "also an operand"])
@pytest.mark.parametrize("sizes", [(3, 1500), (70, 40), (300, 3)], ids=str)
def test_numbers_for_each_row_in_a_chain(sizes: tuple[int, int], also_read: bool) -> None:
    """x scale + shift, and its larger number with the scale: each step is NumPy's, with the signs of zeros."""
    g, tensor = GraphBuilder("chain"), dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
    x, scale, shift = g.input("x", tensor), *(g.input(name, tensor.replace(strides=(1, 0))) for name in ("scale", "shift"))
    y = g.add(dml.ElementWiseMultiplyDesc, "scaled", a_tensor=scale, b_tensor=x, output_tensor=tensor)
    y = g.add(dml.ElementWiseAddDesc, "shifted", a_tensor=y, b_tensor=shift, output_tensor=tensor)
    if also_read:
        y = g.add(dml.ElementWiseMaxDesc, "larger", a_tensor=y, b_tensor=scale, output_tensor=tensor)
    g.output("y", y)
    rng = np.random.default_rng(3)
    of_x, of_scale, of_shift = (rng.choice([*SPECIAL, *rng.normal(size=99)], shape).astype("f") for shape in (sizes, *2 * [(sizes[0], 1)]))
    of_shift[:2] = -0.0
    found = dml.compile(g.build(), "cpu")(x=of_x, scale=np.broadcast_to(of_scale, sizes), shift=np.broadcast_to(of_shift, sizes)).y
    with np.errstate(all="ignore"):
        expected = of_x * of_scale + of_shift
        expected = np.maximum(expected, of_scale) if also_read else expected
    np.testing.assert_array_equal(found, expected)
    are_zeros = (expected == 0) & (not also_read)
    np.testing.assert_array_equal(np.signbit(found[are_zeros]), np.signbit(expected[are_zeros]))


def test_a_thread_that_comes_after_the_launch_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then the scratch belongs to other nodes of a graph."""
    monkeypatch.setattr(elementwise_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(elementwise_plan, "_WORK_OF_A_THREAD", 1)
    calls: list[thread_pool.TaskLaunch] = []

    class Recorded(thread_pool.TaskLaunch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            calls.append(self)

    monkeypatch.setattr(elementwise_plan, "TaskLaunch", Recorded)
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=(3000, 2), strides=(1, 3000))
    op = dml.compile(desc_of(dml.ElementWiseAddDesc, tensor, b_tensor=tensor.replace(strides=(0, 1))), "cpu")
    scratch = np.full(op.binding_properties.temporary_resource_size + 64, 0xA5, np.uint8)
    arrays = {"a_tensor": np.ones((2, 3000), np.float32).T, "b_tensor": np.broadcast_to(np.ones(2, np.float32), (3000, 2))}
    place = scratch[-scratch.ctypes.data % 64 :][: op.binding_properties.temporary_resource_size]
    op.bind(arrays, {"output_tensor": np.empty((2, 3000), np.float32).T}, temporary=place)()
    launch = calls[-1]
    scratch[:] = 0xA5
    flags = np.full((2, 8), 1000, np.int64)
    launch.body(launch.parameters, 1, launch.threads, flags.ctypes.data, 7)
    assert (scratch == 0xA5).all()


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("mode", ["TOWARD_ZERO", "TOWARD_INFINITY"])
def test_other_roundings(mode: str, data_type: str) -> None:
    """Halves, the numbers next to them, zeros of both signs, and numbers without a fraction."""
    halves = np.arange(-40, 41, dtype=data_type.lower()) / 2
    x = np.concatenate([halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf), np.array(SPECIAL[:5], halves.dtype)])
    tensor = dml.TensorDesc.of(x)
    desc = dml.ElementWiseRoundDesc(input_tensor=tensor, output_tensor=tensor, rounding_mode=mode)
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled")
    found, expected = operator(input_tensor=x).output_tensor, np.asarray(dml.reference(desc, {"input_tensor": x}).output_tensor)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


# an operator, its members, and a part of the reason why NumPy runs it
ELSEWHERE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "integers": (dml.ElementWiseAddDesc, {"data_type": "INT16"}, "are of FLOAT32, FLOAT16 or BFLOAT16, or of integers in small"),
    "scaled power": (
        dml.ElementWiseConstantPowDesc,
        {"data_type": "FLOAT16", "exponent": 3.0, "scale_bias": dml.ScaleBias(scale=1e9, bias=0.0)},
        "scaled halves may be beyond the range",
    ),
    "scaled sine": (
        dml.ElementWiseSinDesc,
        {"data_type": "FLOAT16", "scale_bias": dml.ScaleBias(scale=1e9, bias=0.0)},
        "scaled halves may be beyond the range",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    kind, members, reason = ELSEWHERE[name]
    tensor = dml.TensorDesc(data_type=members.get("data_type", "FLOAT32"), sizes=(2, 3))
    desc = desc_of(kind, tensor, **{name: value for name, value in members.items() if name != "data_type"})
    plan = dml.compile(desc, "cpu").plan
    assert plan.startswith("strategy: numpy")
    assert reason in plan


def test_each_operator_of_a_chain_of_halves_is_rounded() -> None:
    """Within an operator values are floats, which must not be written over halves that are still to be read."""
    tensor = dml.TensorDesc(data_type="FLOAT16", sizes=(9, 77))
    slope = tensor.replace(strides=(0, 1))
    g = GraphBuilder("chain")
    a, b = g.input("a", tensor), g.input("b", slope)
    scaled = g.add(dml.ElementWiseMultiplyDesc, "scaled", a_tensor=a, b_tensor=b, output_tensor=tensor)
    bounded = g.add(dml.ActivationHardSigmoidDesc, "bounded", input_tensor=scaled, output_tensor=tensor, alpha=0.2, beta=0.5)
    g.output("y", g.add(dml.ElementWiseMultiplyDesc, "product", a_tensor=bounded, b_tensor=b, output_tensor=tensor))
    graph, rng = g.build(), np.random.default_rng(3)
    x = rng.normal(scale=3.0, size=(9, 77)).astype(np.float16)
    factors = np.broadcast_to(rng.normal(size=77).astype(np.float16), (9, 77))
    assert dml.compile(graph, "cpu").explain_plan().chains
    products = (x.astype(np.float32) * factors).astype(np.float16).astype(np.float32)
    gates = np.clip(np.float32(0.2) * products + np.float32(0.5), np.float32(0), np.float32(1))
    expected = (gates.astype(np.float16).astype(np.float32) * factors).astype(np.float16)
    np.testing.assert_array_equal(dml.compile(graph, "cpu")(a=x, b=factors)["y"], expected)


def silu_chain(data_type: str, read_again: bool) -> Any:
    """(x + b) * sigmoid(x + b), less b or less the sigmoid."""
    tensor = dml.TensorDesc(data_type=data_type, sizes=(9, 777))
    g = GraphBuilder("chain")
    a, b = g.input("a", tensor), g.input("b", tensor.replace(strides=(0, 1)))
    total = g.add(dml.ElementWiseAddDesc, "sum", a_tensor=a, b_tensor=b, output_tensor=tensor)
    gate = g.add(dml.ActivationSigmoidDesc, "gate", input_tensor=total, output_tensor=tensor)
    product = g.add(dml.ElementWiseMultiplyDesc, "product", a_tensor=total, b_tensor=gate, output_tensor=tensor)
    last = gate if read_again else b
    g.output("y", g.add(dml.ElementWiseSubtractDesc, "rest", a_tensor=product, b_tensor=last, output_tensor=tensor))
    return g.build()


@pytest.mark.parametrize(("data_type", "read_again", "saved"), [("FLOAT32", False, 1), ("FLOAT32", True, 0), ("FLOAT16", False, 0)])
def test_products_with_their_sigmoid(data_type: str, read_again: bool, saved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One instruction instead of two, with the same bits, unless the sigmoid is read again or rounded."""
    graph, rng = silu_chain(data_type, read_again), np.random.default_rng(12)
    x = rng.normal(scale=20.0, size=(9, 777)).astype(data_type.lower())
    x[0, :8] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, 90.0, -104.0
    b = np.broadcast_to(rng.normal(size=777).astype(x.dtype), x.shape)
    found = []
    for combines in (True, False):
        if not combines:
            monkeypatch.setattr("dmlpy.devices.cpu.elementwise.simplification.with_silu", lambda program: program)
        compiled = dml.compile(graph, CpuDevice())
        assert f"{4 - saved * combines} instructions" in compiled.plan
        found.append(np.asarray(compiled(a=x, b=b)["y"]))
    np.testing.assert_array_equal(found[0].view(np.uint8), found[1].view(np.uint8))


@pytest.mark.parametrize("fuses", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("data_type", TYPES)
def test_remainders_are_exact(data_type: str, fuses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit those of C: of any floats, whose quotients may have 277 bits, and of infinities, zeros and NaN.

    Also on a processor that rounds products before it adds them.
    """
    if not fuses:
        monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(jit, "_functions", {})
        monkeypatch.setattr("dmlpy.devices.cpu.simd_math.fuses_products", lambda: False)
    rng, kind = np.random.default_rng(6), np.dtype(TYPES[data_type])
    bits = rng.integers(0, 1 << 8 * kind.itemsize, (2, 3000)).astype(f"u{kind.itemsize}").view(kind)
    near, special = rng.normal(scale=50.0, size=(2, 500)).astype(kind), np.array([*SPECIAL, 7, -7, 3]).astype(np.float32)
    with np.errstate(over="ignore"):
        pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1).astype(kind)
    a, b = np.concatenate([bits, near, pairs], axis=1)
    tensor = dml.TensorDesc.of(a)
    for desc_kind, function in ((dml.ElementWiseModulusTruncateDesc, np.fmod), (dml.ElementWiseModulusFloorDesc, np.remainder)):
        found = np.asarray(
            dml.compile(desc_kind(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor), CpuDevice())(
                a_tensor=a, b_tensor=b
            ).output_tensor
        )
        with np.errstate(all="ignore"):
            expected = function(a.astype(np.float32), b.astype(np.float32)).astype(kind)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])
