"""Compiled functions of groups, softmax and mean-variance normalization, against the definitions in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import run
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.reduction import plan as plans
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
from tests.support.cpu.compiled_plans import run_on

# sizes, the axes of a group, and the strides of input and output in elements; None packs
SOFTMAX: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = {
    "one element": ((1, 1), (1,), None, None),
    "rows shorter than a vector": ((9, 3), (1,), None, None),
    "rows of no whole vectors": ((5, 37), (1,), None, None),
    "rows of chunks": ((2, 9001), (1,), None, None),
    "rows with gaps": ((6, 40), (1,), (50, 1), (43, 1)),
    "rows in two axes": ((3, 4, 5, 6), (1, 3), None, None),
    "many short rows": ((70, 5), (1,), None, None),
    "many short rows with gaps": ((5, 30, 3), (2,), (200, 5, 1), (190, 6, 1)),
    "columns": ((70, 37), (0,), None, None),
    "columns of several vectors": ((2, 6, 301), (1,), (2000, 330, 1), (2200, 310, 1)),
    "columns in two axes": ((3, 4, 5, 6), (0, 2), None, None),
    "one input for all groups": ((5, 4, 6), (2,), (0, 6, 1), None),
}
SPECIAL = (np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0)


def tensor(sizes: tuple[int, ...], strides: tuple[int, ...] | None = None, data_type: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


TYPES = {"FLOAT32": np.float32, "FLOAT16": np.float16}


def held(values: np.ndarray[Any, Any], desc: dml.TensorDesc) -> np.ndarray[Any, Any]:
    """The values in memory of a desc's strides."""
    memory = np.full(desc.span, np.nan, desc.data_type.numpy)
    view = np.lib.stride_tricks.as_strided(memory, desc.sizes, desc.numpy_strides())
    view[...] = values
    return view


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("kind", [dml.ActivationSoftmax1Desc, dml.ActivationLogSoftmax1Desc])
def test_softmax(kind: Any, name: str, data_type: str) -> None:
    """Of FLOAT16 the results are those of FLOAT32, rounded once."""
    sizes, axes, of_input, of_output = SOFTMAX[name]
    desc = kind(input_tensor=tensor(sizes, of_input, data_type), output_tensor=tensor(sizes, of_output, data_type), axes=axes)
    values = np.random.default_rng(3).normal(scale=4.0, size=sizes).astype(np.float32)
    x, y = held(values[:1] if of_input and not of_input[0] else values, desc.input_tensor), held(np.zeros(sizes), desc.output_tensor)
    op = dml.compile(desc, "cpu")
    assert op.plan.startswith("strategy: compiled")
    op.bind({"input_tensor": x}, {"output_tensor": y})()
    expected = np.asarray(dml.reference(desc, {"input_tensor": x}).output_tensor)
    assert_close(y, expected, TYPES[data_type])
    if data_type == "FLOAT16":
        wide = kind(input_tensor=tensor(sizes, of_input), output_tensor=tensor(sizes), axes=axes)
        floats = dml.compile(wide, "cpu")(input_tensor=held(x, wide.input_tensor)).output_tensor
        np.testing.assert_array_equal(y, floats.astype(np.float16))


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [dml.ActivationSoftmax1Desc, dml.ActivationLogSoftmax1Desc])
def test_softmax_of_special_values(kind: Any, axis: int, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each makes the results of its own group what NumPy's plan makes them; threads change no bit."""
    rows = np.random.default_rng(4).normal(size=(40, 45)).astype(np.float32)
    for at, value in enumerate(SPECIAL):
        for place, column in enumerate((0, 17, 44)):
            rows[6 * place + at, column] = value
    rows[20], rows[21], rows[22, 1:] = -np.inf, 2.0, -np.inf
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(rows if axis == 1 else rows.T).astype(TYPES[data_type])
    own = tensor(x.shape, data_type=data_type)
    desc = kind(input_tensor=own, output_tensor=own, axes=(axis,))
    found = [run_on(threads, plans, desc, {"input_tensor": x}, monkeypatch) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    usual = np.asarray(dml.compile(desc, "numpy")(input_tensor=x).output_tensor)
    np.testing.assert_allclose(
        found[0], usual, rtol=1e-5 if data_type == "FLOAT32" else 1e-3, atol=1e-37 if data_type == "FLOAT32" else 1e-7
    )


def normalization(
    sizes: tuple[int, ...], axes: tuple[int, ...], given: dict[str, tuple[int, ...]], data_type: str = "FLOAT32", **members: Any
) -> Any:
    own = tensor(sizes, data_type=data_type)
    members = {"input_tensor": own, "output_tensor": own, "axes": axes, "epsilon": 1e-3} | members
    return dml.MeanVarianceNormalization2Desc(**members, **{name: tensor(own, data_type=data_type) for name, own in given.items()})


LAYER = {"scale_tensor": (1, 37), "bias_tensor": (1, 37)}
# sizes, axes, the sizes of scale and bias, and other members
NORMALIZATIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "layer": ((6, 37), (1,), LAYER, {}),
    "short rows": ((6, 3), (1,), {}, {}),
    "rows of chunks": ((2, 9001), (1,), {}, {}),
    "instance": ((2, 3, 5, 7), (2, 3), {"scale_tensor": (1, 3, 1, 1), "bias_tensor": (1, 3, 1, 1)}, {}),
    "group": ((2, 3, 4, 35), (2, 3), {"scale_tensor": (1, 3, 4, 1), "bias_tensor": (1, 3, 4, 1)}, {}),
    "root mean square": ((6, 37), (1,), {"scale_tensor": (1, 37)}, {"use_mean": False}),
    "mean only": ((6, 37), (1,), {"bias_tensor": (6, 1)}, {"use_variance": False}),
    "neither": ((6, 37), (1,), {}, {"use_mean": False, "use_variance": False}),
    "activated": ((6, 37), (1,), LAYER, {"fused_activation": dml.ActivationReluDesc()}),
    "channels": ((2, 19, 5, 7), (1,), {"scale_tensor": (1, 19, 1, 1), "bias_tensor": (1, 19, 1, 1)}, {}),
    "images": ((3, 4, 5, 7), (0, 2), {"scale_tensor": (1, 4, 1, 1)}, {}),
    "an axis twice": ((3, 4, 5, 7), (2, 0, 2), {"scale_tensor": (1, 4, 1, 1)}, {}),
}


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_mean_variance_normalization(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values far from zero too."""
    sizes, axes, given, members = NORMALIZATIONS[name]
    desc, rng = normalization(sizes, axes, given, data_type, **members), np.random.default_rng(5)
    arrays = {place: rng.normal(size=own).astype(TYPES[data_type]) for place, own in given.items()}
    for offset in (0.0, 1000.0):
        x = rng.normal(loc=offset, size=sizes).astype(TYPES[data_type])
        found = [run_on(threads, plans, desc, arrays | {"input_tensor": x}, monkeypatch) for threads in (1, 2)]
        np.testing.assert_array_equal(*found)
        assert_close(found[0], np.asarray(dml.reference(desc, arrays | {"input_tensor": x}).output_tensor), TYPES[data_type])


@pytest.mark.parametrize("data_type", TYPES)
def test_channels_of_a_view_of_images(data_type: str) -> None:
    """As behind a transposition: only the input is copied."""
    x = np.random.default_rng(6).normal(size=(2, 19, 6, 7)).astype(TYPES[data_type])
    scale = np.random.default_rng(7).normal(size=(1, 1, 1, 19)).astype(x.dtype)
    image, packed = tensor((2, 6, 7, 19), (798, 7, 1, 42), data_type), tensor((2, 6, 7, 19), None, data_type)
    desc = normalization(packed.sizes, (3,), {"scale_tensor": scale.shape}, data_type).replace(input_tensor=image)
    plan = dml.compile(desc, "cpu").plan
    assert plan.endswith("copied to another layout: input_tensor")
    given = {"input_tensor": x.transpose(0, 2, 3, 1), "scale_tensor": scale}
    found = run(desc, given, "cpu")["output_tensor"]
    assert_close(found, np.asarray(dml.reference(desc, given).output_tensor), x.dtype)


def test_normalization_of_special_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NaN or an infinity makes its own group NaN; equal entries give zeros, or NaN without an epsilon."""
    rows = np.random.default_rng(6).normal(size=(12, 37)).astype(np.float32)
    rows[1, 0], rows[2, 36], rows[3, 20], rows[4] = np.nan, np.inf, -np.inf, 2.0
    for epsilon in (1e-3, 0.0):
        for members in ({}, {"use_mean": False}, {"use_variance": False}):
            desc = normalization(rows.shape, (1,), {}, epsilon=epsilon, **members)
            found = run_on(1, plans, desc, {"input_tensor": rows}, monkeypatch)
            usual = np.asarray(dml.compile(desc, "numpy")(input_tensor=rows).output_tensor)
            np.testing.assert_allclose(found, usual, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("data_type", TYPES)
def test_in_place(data_type: str) -> None:
    x = np.random.default_rng(7).normal(size=(5, 37)).astype(TYPES[data_type])
    packed, scratch = tensor(x.shape, data_type=data_type), np.full(1 << 14, 0xA5, np.uint8)
    for desc in (
        dml.ActivationSoftmax1Desc(input_tensor=packed, output_tensor=packed, axes=(1,)),
        dml.ActivationLogSoftmax1Desc(input_tensor=packed, output_tensor=packed, axes=(0,)),
        normalization(x.shape, (1,), {}, data_type),
    ):
        plan, memory = compiled_plan(desc), x.copy()
        assert not isinstance(plan, str)
        plan.bind({"input_tensor": memory.ctypes.data, "output_tensor": memory.ctypes.data}, scratch.ctypes.data, None)(0)
        assert_close(memory, np.asarray(dml.reference(desc, {"input_tensor": x}).output_tensor), TYPES[data_type])


def test_what_numpy_runs_says_why() -> None:
    other = normalization((4, 6), (1,), {}, fused_activation=dml.ActivationTanhDesc())
    assert "ACTIVATION_TANH is not computed" in str(compiled_plan(other))


# sizes, axes, and the strides of input and output in elements; None packs
REDUCTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Any]] = {
    "one element": ((1, 1), (1,), None, None),
    "rows": ((5, 301), (1,), None, None),
    "rows of chunks": ((2, 9001), (1,), None, None),
    "rows in two axes": ((3, 4, 5, 6), (1, 3), None, None),
    "all": ((3, 4, 5, 37), (0, 1, 2, 3), None, None),
    "short rows": ((4, 3, 5), (2,), (40, 9, 1), None),
    "many short rows": ((6, 30, 5), (2,), (200, 6, 1), (70, 2, 1)),
    "columns": ((70, 37), (0,), None, None),
    "columns of several vectors": ((3, 2, 70, 301), (0, 2), None, None),
    "columns in two axes": ((3, 4, 5, 6), (0, 2), (200, 40, 7, 1), (60, 15, 9, 1)),
    "one input for all groups": ((5, 4, 6), (2,), (0, 6, 1), None),
}
FUNCTIONS = ("SUM", "AVERAGE", "L1", "L2", "SUM_SQUARE", "MIN", "MAX", "MULTIPLY", "LOG_SUM", "LOG_SUM_EXP")


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, data_type: str) -> None:
    """Of values far from zero too, and of groups with a NaN or an infinity; nothing but the results is written."""
    sizes, axes, of_input, of_output = REDUCTIONS[name]
    x_desc = tensor(sizes, of_input, data_type)
    out = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
    y_desc, rng = tensor(out, of_output, data_type), np.random.default_rng(8)
    for function in FUNCTIONS:
        desc = dml.ReduceDesc(input_tensor=x_desc, output_tensor=y_desc, function=function, axes=axes)
        for special in ((), (np.nan,), (np.inf, -np.inf), (np.inf, np.nan)):
            x = rng.normal(loc=1.0, size=sizes if of_input is None or of_input[0] else (1, *sizes[1:]))
            x = held(np.sign(x) * np.exp(0.02 * (x - 1)) if function == "MULTIPLY" else x, x_desc)
            for at, value in enumerate(special):
                x[np.unravel_index(at * 5 % x.size, x.shape)] = value
            memory = np.full(y_desc.span, 7, y_desc.data_type.numpy)
            y = np.lib.stride_tricks.as_strided(memory, out, y_desc.numpy_strides())
            op = dml.compile(desc, "cpu")
            assert op.plan.startswith("strategy: compiled")
            op.bind({"input_tensor": x}, {"output_tensor": y})()
            with np.errstate(all="ignore"):
                expected = np.asarray(dml.reference(desc, {"input_tensor": x}).output_tensor)
            assert_close(y, expected, TYPES[data_type], terms=x.size)
            y[...] = 7
            assert (memory == 7).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_short_rows_are_columns_of_copies(function: str) -> None:
    """Unless there are few of them, they are longer, or copies would not stay in a cache."""
    for sizes, copies in (((64, 5), True), ((63, 5), False), ((64, 49), False), ((1 << 20, 2), False)):
        x, y = tensor(sizes), tensor((sizes[0], 1))
        softmax = dml.ActivationSoftmax1Desc(input_tensor=x, axes=(1,)).with_outputs()
        for desc in (dml.ReduceDesc(function=function, input_tensor=x, axes=(1,), output_tensor=y), softmax):
            assert isinstance(compiled_plan(desc), LayoutCopiesPlan) == copies, sizes


@pytest.mark.parametrize("function", FUNCTIONS)
def test_threads_change_no_bit_of_a_reduction(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for axes in ((0,), (1,)):
        desc = dml.ReduceDesc(input_tensor=tensor((99, 501)), function=function, axes=axes).with_outputs("output_tensor")
        x = np.random.default_rng(9).normal(size=(99, 501)).astype(np.float32)
        np.testing.assert_array_equal(*(run_on(threads, plans, desc, {"input_tensor": x}, monkeypatch) for threads in (1, 2)))


@pytest.mark.parametrize("data_type", ["INT32", "UINT32", "INT64", "UINT64"])
def test_reductions_of_integers(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of any bits, of which sums and products wrap around: NumPy's."""
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    for name, (sizes, axes, of_input, of_output) in REDUCTIONS.items():
        out = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
        x_desc, y_desc = tensor(sizes, of_input, data_type), tensor(out, of_output, data_type)
        drawn = np.random.default_rng(6).integers(0, 256, (*sizes, x_desc.data_type.numpy.itemsize), np.uint8)
        x = drawn.view(x_desc.data_type.numpy)[..., 0]
        x = np.broadcast_to(x[:1], sizes) if of_input and not of_input[0] else x
        for function, name_of in {"SUM": "sum", "MULTIPLY": "prod", "MIN": "min", "MAX": "max"}.items():
            desc = dml.ReduceDesc(input_tensor=x_desc, output_tensor=y_desc, function=function, axes=axes)
            assert not isinstance(compiled_plan(desc), str)
            expected = getattr(x, name_of)(axis=axes, keepdims=True, **({"dtype": x.dtype} if function in ("SUM", "MULTIPLY") else {}))
            np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected, f"{name}, {function}")


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_extremes_of_doubles(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of any bits: NaN of a group with one of either sign, and -0 is less than 0."""
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    rng, special = np.random.default_rng(7), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1.7e308])
    for name, (sizes, axes, of_input, of_output) in REDUCTIONS.items():
        out = tuple(1 if axis in axes else size for axis, size in enumerate(sizes))
        desc = dml.ReduceDesc(
            input_tensor=tensor(sizes, of_input, "FLOAT64"), output_tensor=tensor(out, of_output, "FLOAT64"), function=function, axes=axes
        )
        assert not isinstance(compiled_plan(desc), str)
        bits = rng.integers(0, 256, (*sizes, 8), np.uint8).view(np.float64)[..., 0]
        for x in (bits, rng.choice(special[:2], sizes), rng.choice(special[:4], sizes), rng.choice(special, sizes), -np.abs(bits)):
            x = np.broadcast_to(x[:1], sizes) if of_input and not of_input[0] else x
            found = run(desc, {"input_tensor": x}, "cpu")["output_tensor"]
            expected = getattr(x, function.lower())(axis=axes, keepdims=True)
            np.testing.assert_array_equal(found, expected, name)
            is_zero, of_elements = expected == 0, np.signbit(np.where(x == 0, x, 0.0 if function == "MIN" else -0.0))
            signs = np.asarray((of_elements.any if function == "MIN" else of_elements.all)(axis=axes, keepdims=True))
            np.testing.assert_array_equal(np.signbit(found[is_zero]), signs[is_zero], name)


@pytest.mark.parametrize("axis", [0, 1])
def test_norms_whose_squares_are_out_of_range(axis: int) -> None:
    """Squares of 1e30 and of 1e-30 are beyond float32's range; beside them are zeros and usual numbers."""
    x = np.outer([3.0, -4.0], np.repeat([1e30, 1e-30, 0.0, 1.0], 20)).astype(np.float32)
    given = np.ascontiguousarray(x if axis == 0 else x.T)
    desc = dml.ReduceDesc(input_tensor=tensor(given.shape), function="L2", axes=[axis]).with_outputs("output_tensor")
    assert not isinstance(compiled_plan(desc), str)
    found = run(desc, {"input_tensor": given}, "cpu")["output_tensor"].ravel()
    scaled = found * np.repeat([1e-30, 1e30, 1.0, 1.0], 20)  # beside the tolerance, 5e-30 is nothing
    assert_close(scaled.astype(np.float32), np.repeat([5.0, 5.0, 0.0, 5.0], 20).astype(np.float32), np.float32, terms=2)


@pytest.mark.parametrize("axis", [0, 1])
def test_products_and_powers_whose_parts_are_out_of_range(axis: int) -> None:
    """Products of 1e30 are beyond float32's range, and so are powers of 1000; without a finite entry there is no power to divide by."""
    rows = np.ones((2, 40), np.float32)
    rows[0, :10], rows[0, 10:20], rows[1] = 1e30, 1e-30, -np.inf
    given = np.ascontiguousarray(rows if axis == 1 else rows.T)
    results: dict[str, Any] = {}
    for function, factor in (("MULTIPLY", 1.0), ("LOG_SUM_EXP", 1e-27)):
        desc = dml.ReduceDesc(input_tensor=tensor(given.shape), function=function, axes=[axis]).with_outputs("output_tensor")
        assert "copied" not in dml.compile(desc, "cpu").plan
        results[function] = run(desc, {"input_tensor": given * np.float32(factor)}, "cpu")["output_tensor"].ravel()
    assert_close(results["MULTIPLY"], np.array([1.0, np.inf]), np.float32, terms=40)
    assert_close(results["LOG_SUM_EXP"], np.array([1000.0 + np.log(10), -np.inf]), np.float32)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", [name for name, row in SOFTMAX.items() if len(row[1]) == 1])
def test_running_sums(name: str, data_type: str) -> None:
    """Those of NumPy, bit by bit: the order of the sums is the entries'."""
    sizes, (axis,), of_input, of_output = SOFTMAX[name]
    values = np.random.default_rng(4).normal(scale=4.0, size=sizes).astype(np.float32)
    values.flat[0] = -0.0
    for direction in ("INCREASING", "DECREASING"):
        for exclusive in (False, True):
            own: Any = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": exclusive}
            tensors = (tensor(sizes, strides, data_type) for strides in (of_input, of_output))
            desc = dml.CumulativeSummationDesc(**dict(zip(("input_tensor", "output_tensor"), tensors, strict=True)), **own)
            assert desc.output_tensor is not None
            x, y = (
                held(values[:1] if of_input and not of_input[0] else values, desc.input_tensor),
                held(np.zeros(sizes), desc.output_tensor),
            )
            op = dml.compile(desc, "cpu")
            assert op.plan.startswith("strategy: compiled")
            op.bind({"input_tensor": x}, {"output_tensor": y})()
            expected = np.asarray(dml.compile(desc, "numpy")(input_tensor=x).output_tensor)
            np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("data_type", TYPES)
def test_divisions_by_norms(data_type: str) -> None:
    """Rows of zeros, of NaN, of an infinity, and of numbers whose squares leave float32's range; with gaps between rows, and in parts.

    No norm is less than an epsilon of NaN.
    """
    for count, p, epsilon in ((37, 1, 1e-5), (64, 2, 0.5), (5, 2, np.nan)):
        x = np.random.default_rng(8).normal(size=(2, 3, count)).astype(data_type.lower())
        x[0, 0], x[0, 1, 2], x[1, 0, 1], x[1, 1] = 0.0, np.nan, np.inf, x[1, 1] * x.dtype.type(1e-7 if data_type == "FLOAT16" else 1e30)
        for strides in (None, (400, 100, 1)):
            out = tensor(x.shape, strides, data_type)
            desc = dml.LPNormalizationDesc(
                input_tensor=tensor(x.shape, strides, data_type), output_tensor=out, axis=2, p=p, epsilon=epsilon
            )
            assert not isinstance(compiled_plan(desc), str)
            expected = np.asarray(dml.reference(desc, {"input_tensor": x.astype(np.float64)}).output_tensor)
            found = run(desc, {"input_tensor": x}, "cpu")["output_tensor"]
            assert_close(found, expected.astype(found.dtype), found.dtype, terms=count, what=f"{count} entries")


@pytest.mark.parametrize("data_type", TYPES)
def test_running_products(data_type: str) -> None:
    """Those of the definition, in float64 and rounded at the end, along rows and columns: a part of them leaves float32's range."""
    values = np.random.default_rng(4).uniform(0.5, 1.5, (3, 19, 37)).astype(np.float32)
    values[0, :4], values[0, 4:9, 3:5], values[1, 0, 0], values[2, 5] = 1e-12, 1e12, -0.0, np.nan
    with np.errstate(over="ignore"):
        x = values.astype(data_type.lower())
    increasing, decreasing = "INCREASING", "DECREASING"
    for axis, direction, exclusive in ((1, increasing, False), (1, decreasing, True), (2, decreasing, False), (2, increasing, True)):
        own: Any = {"axis": axis, "axis_direction": direction, "has_exclusive_product": exclusive}
        desc = dml.CumulativeProductDesc(input_tensor=tensor(values.shape, None, data_type), **own).with_outputs("output_tensor")
        assert not isinstance(compiled_plan(desc), str)
        y = run(desc, {"input_tensor": x}, "cpu")["output_tensor"]
        expected = np.asarray(dml.reference(desc, {"input_tensor": x.astype(np.float64)}).output_tensor)
        with np.errstate(over="ignore"):
            assert_close(y, expected.astype(y.dtype), y.dtype, what=f"axis {axis}")


@pytest.mark.parametrize("data_type", ["INT32", "UINT32", "INT64", "UINT64"])
def test_running_sums_and_products_of_integers(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of any bits, which wrap around, along rows and columns with gaps and in parts, from both ends: NumPy's."""
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    for sizes, axis, strides in (
        ((3, 19, 37), 1, None),
        ((3, 19, 37), 2, None),
        ((2, 5, 1), 1, None),
        ((2, 3, 301), 1, None),
        ((4, 9, 33), 1, (900, 50, 1)),
    ):
        own = tensor(sizes, strides, data_type)
        bits = np.random.default_rng(4).integers(0, 256, (*sizes, own.data_type.numpy.itemsize), np.uint8)
        x = bits.view(own.data_type.numpy)[..., 0]
        for direction, exclusive in itertools.product(("INCREASING", "DECREASING"), (False, True)):
            members: Any = {"input_tensor": own, "output_tensor": own, "axis": axis, "axis_direction": direction}
            ordered = np.flip(x, axis) if direction == "DECREASING" else x
            for desc, function, start in (
                (dml.CumulativeSummationDesc(**members, has_exclusive_sum=exclusive), np.cumsum, 0),
                (dml.CumulativeProductDesc(**members, has_exclusive_product=exclusive), np.cumprod, 1),
            ):
                assert not isinstance(compiled_plan(desc), str)
                terms = np.insert(ordered, 0, start, axis).take(range(sizes[axis]), axis) if exclusive else ordered
                found = function(terms, axis, x.dtype)
                expected = np.flip(found, axis) if direction == "DECREASING" else found
                np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected, f"{sizes}, {desc}")


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", [name for name in SOFTMAX if name.startswith("row") and "two" not in name])
def test_hardmax(name: str, data_type: str) -> None:
    """The first of equal entries, NaN before all others, and of a row of the lowest entries the first one."""
    sizes, (axis,), of_input, of_output = SOFTMAX[name]
    values = np.random.default_rng(5).integers(-9, 9, sizes).astype(np.float32)
    values[0], values[1, -2:] = -np.inf, np.nan
    desc = dml.ActivationHardmax1Desc(
        input_tensor=tensor(sizes, of_input, data_type), output_tensor=tensor(sizes, of_output, data_type), axes=[axis]
    )
    assert desc.input_tensor is not None
    assert desc.output_tensor is not None
    x, y = held(values, desc.input_tensor), held(np.full(sizes, np.nan), desc.output_tensor)
    op = dml.compile(desc, "cpu")
    assert op.plan.startswith("strategy: compiled")
    op.bind({"input_tensor": x}, {"output_tensor": y})()
    np.testing.assert_array_equal(y, dml.compile(desc, "numpy")(input_tensor=x).output_tensor)
