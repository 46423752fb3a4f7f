"""Compiled max, average and Lp pooling of input tiles and within windows, against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.tensors import packed_strides
from tests.support.operators.layout_runs import Array, by_definition, layouts, packed, run, run_in_layouts, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.pooling import average_gradient_plan, byte_maximum_plan
from dmlpy.devices.cpu.pooling import plan as pooling_plan
from dmlpy.devices.cpu.pooling.average_gradient_plan import AverageGradientPlan
from dmlpy.devices.cpu.pooling.byte_maximum_plan import ByteMaximumPlan
from dmlpy.devices.cpu.pooling.depth_plan import DepthPoolingPlan
from dmlpy.devices.cpu.pooling.plan import IndexedPoolingPlan, PoolingPlan
from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
from tests.support.cpu.compiled_plans import run_on

# sizes, window, strides, start padding, end padding, dilations
CASES: dict[str, tuple[Any, ...]] = {
    "strides": ((2, 3, 33, 41), (3, 3), (2, 3), (1, 1), (1, 1), None),
    "several tiles": ((1, 2, 300, 200), (3, 2), (1, 3), (0, 1), (2, 0), None),
    "dilated": ((1, 3, 20, 25), (3, 2), (1, 2), (1, 1), (1, 1), (2, 3)),
    "rows between those of a window": ((1, 3, 20, 25), (3, 2), (1, 2), (1, 1), (1, 1), (9, 3)),
    "one window": ((2, 3, 13, 17), (13, 17), (1, 1), (0, 0), (0, 0), None),
    "one window of many planes": ((3, 19, 7, 9), (7, 9), (1, 1), (0, 0), (0, 0), None),
    "one window that begins in the padding": ((2, 3, 13, 17), (13, 17), (2, 3), (1, 2), (0, 0), None),
    "windows along their rows": ((1, 5, 24, 50), (3, 20), (2, 10), (1, 5), (0, 5), None),
    "windows apart in many channels": ((2, 11, 17, 23), (4, 5), (4, 5), (1, 2), (0, 1), None),
    "strides of 2": ((1, 3, 9, 150), (3, 3), (2, 2), (1, 0), (0, 1), None),
    "windows cut off": ((1, 2, 10, 40), (3, 3), (2, 3), (0, 0), (0, 0), "rounded up"),
}


def desc_of(name: str, kind: Any, x: np.ndarray[Any, Any], **members: Any) -> dml.OperatorDesc:
    _, window, strides, starts, ends, dilations = CASES[name]
    own: dict[str, Any] = {"window_size": window, "strides": strides, "start_padding": starts, "end_padding": ends, **members}
    if dilations == "rounded up":
        own["output_tensor"] = packed(x.dtype, 1, 2, 5, 14)
    elif dilations is not None:
        own["dilations"] = dilations
        dilated = {
            dml.MaxPoolingDesc: dml.MaxPooling2Desc,
            dml.AveragePoolingDesc: dml.AveragePooling1Desc,
            dml.LPPoolingDesc: dml.LPPooling1Desc,
        }
        kind = dilated[kind]
    desc: dml.OperatorDesc = kind(input_tensor=tensor(x), **own).with_outputs()
    return desc.replace(output_indices_tensor=None) if hasattr(desc, "output_indices_tensor") else desc


@pytest.mark.parametrize("name", CASES)
def test_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, and the same bits on one."""
    x = np.random.default_rng(1).normal(size=CASES[name][0]).astype(np.float32)
    x[0, -1, 3, 4], x[0, 0, 5, 6], x[0, 0, 1, 1] = np.nan, np.inf, -np.inf
    averages = [desc_of(name, dml.AveragePoolingDesc, x, include_padding=include) for include in (False, True)]
    for desc in (desc_of(name, dml.MaxPoolingDesc, x), *averages):
        expected = np.asarray(dml.reference(desc, {"input_tensor": x}).output_tensor)
        results = [run_on(threads, pooling_plan, desc, {"input_tensor": x}, monkeypatch) for threads in (1, 2)]
        assert_close(results[0], expected, np.float32, terms=250)
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("p", [1, 2, 3, 10])
@pytest.mark.parametrize("name", [name for name in CASES if name != "several tiles"])
def test_norms(name: str, p: int, data_type: str) -> None:
    """In every layout, also where squares overflow or vanish, of zeros, infinities and NaN."""
    x = np.random.default_rng(10).normal(size=CASES[name][0]).astype(data_type.lower())
    if data_type == "FLOAT32":
        x[:, 0] *= np.float32(1e25)
        x[:, 1] *= np.float32(1e-25)
    x[0, -1, 3, 4], x[0, 0, 5, 6], x[0, 1, :4, :9] = np.nan, np.inf, 0
    desc = desc_of(name, dml.LPPoolingDesc, x, p=p)
    expected = by_definition(desc, {"input_tensor": x})["output_tensor"]
    for laid_out in layouts(desc):
        assert not isinstance(compiled_plan(laid_out), str)
        assert_close(run(laid_out, {"input_tensor": x}, "cpu")["output_tensor"], expected, x.dtype, terms=250)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_threads_of_norms(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(11).normal(size=CASES["several tiles"][0]).astype(np.float32)
    desc = desc_of("several tiles", dml.LPPoolingDesc, x, p=p)
    results = [run_on(threads, pooling_plan, desc, {"input_tensor": x}, monkeypatch) for threads in (1, 2)]
    assert_close(results[0], by_definition(desc, {"input_tensor": x})["output_tensor"], np.float32, terms=6)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", ["strides", "one window", "one window of many planes", "windows along their rows"])
def test_layouts(name: str, data_type: str) -> None:
    """Packed and channels last; what is around the elements is unchanged."""
    x = np.random.default_rng(3).normal(size=CASES[name][0]).astype(data_type.lower())
    for desc in (desc_of(name, dml.MaxPoolingDesc, x), desc_of(name, dml.AveragePoolingDesc, x, include_padding=False)):
        tensors = {place: desc.tensors()[place] for place in ("input_tensor", "output_tensor")}
        spread = {place: own.replace(strides=_last(own.sizes)) for place, own in tensors.items()}
        for own in (desc, desc.replace(**spread)):
            assert dml.compile(own, "cpu").plan.startswith("strategy: compiled")
            found, expected = (
                results["output_tensor"] for results in (run(own, {"input_tensor": x}, "cpu"), by_definition(own, {"input_tensor": x}))
            )
            assert_close(found, expected, x.dtype, terms=250)


@pytest.mark.parametrize("kind", [dml.MaxPoolingDesc, dml.AveragePoolingDesc])
@pytest.mark.parametrize("name", ["strides", "dilated", "one window that begins in the padding"])
def test_channels_that_are_contiguous_are_pooled_side_by_side(name: str, kind: Any) -> None:
    x = np.random.default_rng(5).normal(size=CASES[name][0]).astype(np.float32)
    x[0, -1, 3, 4], x[0, 0, 5, 6], x[0, 0, 1, 1] = np.nan, np.inf, -np.inf
    desc = desc_of(name, kind, x, **({"include_padding": False} if kind is dml.AveragePoolingDesc else {}))
    desc = desc.replace(**{place: own.replace(strides=_last(own.sizes)) for place, own in desc.tensors().items()})
    assert isinstance(compiled_plan(desc), DepthPoolingPlan)
    given = {"input_tensor": x}
    assert_close(run(desc, given, "cpu")["output_tensor"], by_definition(desc, given)["output_tensor"], np.float32, terms=250)


def test_strides_of_a_single_window_do_not_count() -> None:
    def plan(*strides: int) -> Any:
        padding: dict[str, Any] = {"start_padding": (0, 0), "end_padding": (0, 0)}
        desc = dml.MaxPoolingDesc(input_tensor=packed("float32", 3, 19, 7, 9), window_size=(7, 9), strides=strides, **padding)
        return compiled_plan(desc.with_outputs())

    assert plan(7, 9).describe() == plan(1, 1).describe()
    assert "vectors of a window's elements" in plan(7, 9).describe()


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("out", "size"), [(1, (78, 80)), (1, (301, 400)), (30, (60, 104))])
def test_sums_of_many_elements(step: int, out: int, size: tuple[int, int]) -> None:
    """Of equal signs, whose roundings would add up in a sum of one after the other: also of elements that do not lie side by side."""
    x = np.random.default_rng(4).uniform(0.7, 0.7001, (1, 2, size[0], step * (size[1] + out - 1))).astype(np.float32)[..., ::step]
    padding = {"start_padding": (0, 0), "end_padding": (0, 0), "include_padding": False}
    desc = dml.AveragePoolingDesc(input_tensor=tensor(x), strides=(1, 1), window_size=size, **padding).with_outputs()
    assert isinstance(compiled_plan(desc), PoolingPlan)
    found = run(desc, {"input_tensor": x}, "cpu")["output_tensor"]
    windows = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3)).mean((-1, -2), np.float64)
    np.testing.assert_allclose(found, windows, rtol=6e-7)


def _last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of channels last, with a gap behind each row."""
    _, channels, *outer, width = sizes
    row = width * channels + 1
    image, *along = (row * step for step in (*packed_strides(outer), 1))
    return outer[0] * image, 1, image, *along[:-1], channels


def test_parts_of_larger_tensors() -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 12, 30)).astype(np.float32)
    desc = dml.MaxPoolingDesc(
        input_tensor=tensor(x[:, :2, 1:-1, 3:-3]),
        output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(2, 2, 5, 12), strides=(960, 300, 30, 1)),
        window_size=(2, 2),
        strides=(2, 2),
        start_padding=(0, 0),
        end_padding=(0, 0),
    )
    whole = np.full((2, 3, 10, 32), 7.0, np.float32)
    y = np.lib.stride_tricks.as_strided(whole, (2, 2, 5, 12), (3840, 1200, 120, 4))
    op = dml.compile(desc, "cpu")
    assert op.plan.startswith("strategy: compiled")
    op.bind({"input_tensor": x[:, :2, 1:-1, 3:-3]}, {"output_tensor": y})()
    np.testing.assert_array_equal(y, x[:, :2, 1:-1, 3:-3].reshape(2, 2, 5, 2, 12, 2).max(axis=(3, 5)))
    y[...] = 7.0
    assert (whole == 7.0).all()


# what a pooling of [1, 2, 60, 60] is, and a part of the reason why NumPy runs it
ELSEWHERE: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "elements of slices far apart": (
        dml.MaxPooling2Desc,
        {"sizes": (1, 2, 3, 60, 600)},
        {"dilations": (1, 57, 598), "output_indices_tensor": None},
        "far more of the input",
    ),
    "elements far apart": (
        dml.MaxPooling2Desc,
        {"sizes": (1, 2, 60, 600)},
        {"dilations": (57, 598), "output_indices_tensor": None},
        "far more of the input",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    kind, described, members, reason = ELSEWHERE[name]
    x = dml.TensorDesc(**{"data_type": "FLOAT32", "sizes": (1, 2, 60, 60), **described})
    count = x.dimension_count - 2
    arrays = {"window_size": [2] * count, "strides": [1] * count, "start_padding": [0] * count, "end_padding": [0] * count}
    desc = kind(input_tensor=x, **arrays, **{place: value for place, value in members.items() if value is not None}).with_outputs()
    desc = desc.replace(**{place: value for place, value in members.items() if value is None})
    plan = dml.compile(desc, "cpu").plan
    assert plan.startswith("strategy: numpy")
    assert reason in plan


@pytest.mark.parametrize("data_type", ["UINT8", "INT8"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "several tiles"])
def test_bytes(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bytes, in every layout and on two threads, also where windows reach into the padding; nothing is converted to floats."""
    monkeypatch.setattr(byte_maximum_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(byte_maximum_plan, "_WORK_OF_A_THREAD", 1)
    dtype = np.dtype(data_type.lower())
    limits = np.iinfo(dtype)
    x = np.random.default_rng(4).integers(limits.min, limits.max + 1, CASES[name][0]).astype(dtype)
    desc = desc_of(name, dml.MaxPoolingDesc, x)
    if CASES[name][-1] == "rounded up":
        desc = desc.replace(output_tensor=dml.TensorDesc(data_type=data_type, sizes=(1, 2, 5, 14)))
    assert isinstance(compiled_plan(desc), ByteMaximumPlan)
    expected = run(desc, {"input_tensor": x})["output_tensor"]
    np.testing.assert_array_equal(run_in_layouts(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8", "UINT8", "INT16", "UINT32", "INT64", "UINT64"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if name != "windows along their rows"])
def test_indices_and_gradients(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's bits, in every layout, of equal elements, the least ones, NaN and windows in the padding; gradients are of floats."""
    monkeypatch.setattr(pooling_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(pooling_plan, "_WORK_OF_A_THREAD", 1)
    sizes, window, strides, starts, ends, dilations = CASES[name]
    rng = np.random.default_rng(6)
    x = rng.integers(-9, 9, sizes).astype(data_type.lower())  # of unsigned integers, the largest ones, too
    is_float = x.dtype.kind == "f"
    if is_float:
        x[0, 0, :4, :4], x[0, 1, 5, 6], x[0, 1, 6, 6] = -np.inf, np.nan, np.inf
    else:
        x[0, 0, :4, :4] = np.iinfo(x.dtype).min
    of_forward: Any = PoolingPlan if is_float else ByteFloatsPlan if x.itemsize == 1 else IndexedPoolingPlan
    own: Any = {"window_size": window, "strides": strides, "start_padding": starts, "end_padding": ends}
    own["dilations"] = dilations if isinstance(dilations, tuple) else (1, 1)
    if dilations == "rounded up":
        tensors = {"output_tensor": packed(data_type.lower(), 1, 2, 5, 14), "output_indices_tensor": packed("uint64", 1, 2, 5, 14)}
        forward: Any = dml.MaxPooling2Desc(input_tensor=tensor(x), **tensors, **own)
    else:
        forward = dml.MaxPooling2Desc(input_tensor=tensor(x), **own).with_outputs()
    if is_float and name.startswith("one window"):
        of_forward = (PoolingPlan, IndexedPoolingPlan)  # vectors of positions only where elements of a row are apart
    work: list[tuple[Any, Any, dict[str, Array]]] = [(forward, of_forward, {"input_tensor": x})]
    if is_float:
        incoming = rng.normal(size=forward.output_tensor.sizes).astype(x.dtype)
        gradient = dml.MaxPoolingGradDesc(
            input_tensor=tensor(x), input_gradient_tensor=forward.output_tensor, output_gradient_tensor=tensor(x), **own
        )
        work.append((gradient, IndexedPoolingPlan, {"input_tensor": x, "input_gradient_tensor": incoming}))
    for desc, kind, given in work:
        for laid_out in layouts(desc):
            assert isinstance(compiled_plan(laid_out), kind)
            found, expected = (run(laid_out, given, device) for device in ("cpu", "numpy"))
            for place, array in expected.items():
                np.testing.assert_array_equal(found[place], array)


# sizes, window, strides, start padding, end padding, dilations, the output's sizes if they are rounded up
DEPTHS: dict[str, tuple[Any, ...]] = {
    "odd": ((2, 3, 7, 9, 21), (3, 2, 3), (2, 1, 2), (1, 0, 1), (0, 1, 1), None, None),
    "dilated": ((1, 2, 9, 8, 11), (2, 3, 2), (1, 2, 1), (1, 2, 1), (1, 2, 0), (3, 2, 4), None),
    "planes alone": ((2, 2, 3, 6, 10), (1, 3, 3), (1, 2, 1), (0, 1, 1), (0, 1, 1), (2, 1, 1), None),
    "depth alone": ((2, 2, 6, 5, 7), (3, 1, 1), (2, 1, 1), (1, 0, 0), (1, 0, 0), None, None),
    "elements": ((2, 2, 3, 2, 5), (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0), None, None),
    "one window": ((2, 3, 3, 5, 7), (3, 5, 7), (1, 1, 1), (0, 0, 0), (0, 0, 0), None, None),
    "one window of each slice": ((2, 3, 5, 5, 7), (2, 5, 7), (1, 1, 1), (0, 0, 0), (0, 0, 0), None, None),
    "whole slices, windows of columns": ((2, 3, 3, 5, 7), (3, 5, 2), (1, 1, 1), (0, 0, 1), (0, 0, 1), None, None),
    "windows cut off": ((1, 2, 5, 8, 8), (2, 3, 3), (2, 2, 3), (0, 0, 0), (0, 0, 0), None, (3, 4, 3)),
}


AVERAGE_GRADIENTS: dict[str, tuple[Any, ...]] = {
    **{name: case for name, case in CASES.items() if not isinstance(case[5], tuple)},
    **{f"{name}, of slices": case for name, case in DEPTHS.items() if case[5] is None},
    "a wide row": ((1, 2, 1, 400), (1, 300), (1, 90), (0, 20), (0, 30), None),
    "channels of blocks": ((2, 128, 5, 6), (3, 2), (2, 1), (1, 0), (1, 1), None),
    "windows in the padding alone": ((1, 2, 2, 40), (1, 1), (2, 2), (1, 2), (1, 1), None),
}


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", AVERAGE_GRADIENTS)
def test_gradients_of_averages(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every layout, also with channels last, on two threads; of infinities and NaN."""
    monkeypatch.setattr(average_gradient_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(average_gradient_plan, "_WORK_OF_A_THREAD", 1)
    sizes, window, strides, starts, ends = AVERAGE_GRADIENTS[name][:5]
    own: dict[str, Any] = {"window_size": window, "strides": strides, "start_padding": starts, "end_padding": ends}
    rounded_up = {"windows cut off": (1, 2, 5, 14), "windows cut off, of slices": (1, 2, 3, 4, 3)}.get(name)
    for include in (False, True):
        x = packed(data_type.lower(), *sizes)
        forward: Any = dml.AveragePoolingDesc(
            input_tensor=x, output_tensor=packed(data_type.lower(), *rounded_up) if rounded_up else None, include_padding=include, **own
        )
        pooled = forward.output_tensor or forward.with_outputs().output_tensor
        desc = dml.AveragePoolingGradDesc(input_gradient_tensor=pooled, output_gradient_tensor=x, include_padding=include, **own)
        incoming = np.random.default_rng(12).normal(size=pooled.sizes).astype(data_type.lower())
        incoming.reshape(-1)[::5], incoming.reshape(-1)[-1] = 0, np.nan
        incoming[0, 0].reshape(-1)[0] = np.inf
        given = {"input_gradient_tensor": incoming}
        (expected,) = by_definition(desc, given).values()
        last = desc.replace(**{place: own.replace(strides=_last(own.sizes)) for place, own in desc.tensors().items()})
        for laid_out in (*layouts(desc), last):
            assert isinstance(compiled_plan(laid_out), AverageGradientPlan)
            (found,) = run(laid_out, given, "cpu").values()
            assert_close(found, expected, found.dtype, terms=300)


def test_windows_in_the_padding_alone() -> None:
    """The least value and index 0; their gradients are dropped."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2) - 9
    own: Any = {"window_size": (1, 1), "strides": (2, 2), "start_padding": (1, 2), "end_padding": (1, 1), "dilations": (1, 1)}
    desc: Any = dml.MaxPooling2Desc(input_tensor=tensor(x), **own).with_outputs()
    found = run(desc, {"input_tensor": x}, "cpu")
    expected = run(desc, {"input_tensor": x}, "numpy")
    assert np.isneginf(found["output_tensor"]).any()
    for place, array in expected.items():
        np.testing.assert_array_equal(found[place], array)
    gradient = dml.MaxPoolingGradDesc(
        input_tensor=tensor(x), input_gradient_tensor=desc.output_tensor, output_gradient_tensor=tensor(x), **own
    )
    given = {"input_tensor": x, "input_gradient_tensor": np.ones(desc.output_tensor.sizes, np.float32)}
    (spread,) = run(gradient, given, "cpu").values()
    np.testing.assert_array_equal(spread, next(iter(run(gradient, given, "numpy").values())))


def _of_depth(kind: Any, name: str, data_type: str, **members: Any) -> Any:
    """A pooling of three dimensions; without indices where there are some."""
    sizes, window, strides, starts, ends, dilations, out = DEPTHS[name]
    own: Any = {"window_size": window, "strides": strides, "start_padding": starts, "end_padding": ends, **members}
    if "dilations" in kind.model_fields:
        own["dilations"] = dilations or (1, 1, 1)
    if out is not None:
        own["output_tensor"] = packed(data_type.lower(), *sizes[:2], *out)
    desc = kind(input_tensor=packed(data_type.lower(), *sizes), **own)
    return desc if out is not None else desc.with_outputs()


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8"])
@pytest.mark.parametrize("name", DEPTHS)
def test_three_dimensions(name: str, data_type: str) -> None:
    """In every layout, also of images that do not follow one another; means are rounded once."""
    rng, kind = np.random.default_rng(7), np.dtype(data_type.lower())
    x = rng.normal(size=DEPTHS[name][0]).astype(kind) if kind.kind == "f" else rng.integers(-128, 128, DEPTHS[name][0]).astype(kind)
    descs = [_of_depth(dml.MaxPooling2Desc, name, data_type).replace(output_indices_tensor=None)]
    if kind.kind == "f":
        x[0, -1, 1, 1, 2], x[0, 0, 2, 0, 1], x[0, 0, 0, 1, 1] = np.nan, np.inf, -np.inf
        descs += [_of_depth(dml.AveragePooling1Desc, name, data_type, include_padding=include) for include in (False, True)]
        descs += [_of_depth(dml.LPPooling1Desc, name, data_type, p=p) for p in (1, 2, 3)]
    for desc in descs:
        expected = by_definition(desc, {"input_tensor": x})["output_tensor"]
        for laid_out in layouts(desc):
            assert not isinstance(compiled_plan(laid_out), str)
            found = run(laid_out, {"input_tensor": x}, "cpu")["output_tensor"]
            if data_type == "INT8":
                np.testing.assert_array_equal(found, expected)
            else:
                assert_close(found, expected, x.dtype, terms=30)


def test_threads_of_three_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(8).normal(size=DEPTHS["odd"][0]).astype(np.float32)
    desc = _of_depth(dml.AveragePooling1Desc, "odd", "FLOAT32", include_padding=False)
    results = [run_on(threads, pooling_plan, desc, {"input_tensor": x}, monkeypatch) for threads in (1, 2)]
    assert_close(results[0], by_definition(desc, {"input_tensor": x})["output_tensor"], np.float32, terms=30)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8", "UINT32"])
@pytest.mark.parametrize("name", DEPTHS)
def test_indices_and_gradients_of_three_dimensions(name: str, data_type: str) -> None:
    """NumPy's bits, in every layout; gradients are of floats."""
    rng, sizes = np.random.default_rng(9), DEPTHS[name][0]
    x = rng.integers(-9, 9, sizes).astype(data_type.lower())
    if x.dtype.kind == "f":
        x[0, 0, :2, :2], x[0, 1, 1, 1, 1], x[0, 1, 2, 1, 1] = -np.inf, np.nan, np.inf
    forward = _of_depth(dml.MaxPooling2Desc, name, data_type)
    if forward.output_indices_tensor is None:
        forward = forward.replace(output_indices_tensor=packed("uint64", *forward.output_tensor.sizes))
    work: list[tuple[Any, dict[str, Array]]] = [(forward, {"input_tensor": x})]
    if x.dtype.kind == "f":
        incoming = rng.normal(size=forward.output_tensor.sizes).astype(x.dtype)
        members = {place: getattr(forward, place) for place in ("window_size", "strides", "start_padding", "end_padding", "dilations")}
        gradient = dml.MaxPoolingGradDesc(
            input_tensor=tensor(x), input_gradient_tensor=forward.output_tensor, output_gradient_tensor=tensor(x), **members
        )
        work.append((gradient, {"input_tensor": x, "input_gradient_tensor": incoming}))
    for desc, given in work:
        for laid_out in layouts(desc):
            assert isinstance(compiled_plan(laid_out), IndexedPoolingPlan | ByteFloatsPlan)
            found, expected = (run(laid_out, given, device) for device in ("cpu", "numpy"))
            for place, array in expected.items():
                np.testing.assert_array_equal(found[place], array)


@pytest.mark.parametrize("kind", [dml.MaxPoolingDesc, dml.AveragePoolingDesc])
def test_windows_apart_are_pooled_on_copies_with_contiguous_channels(kind: Any) -> None:
    """Unless the channels are few, each plane has one window, or the copies would not stay in a cache."""
    members: dict[str, Any] = {"start_padding": (0, 0), "end_padding": (0, 0)}
    members |= {"include_padding": False} if kind is dml.AveragePoolingDesc else {}
    for sizes, window, copies in (
        ((2, 8, 16, 16), 4, True),
        ((2, 7, 16, 16), 4, False),
        ((2, 8, 16, 16), 16, False),
        ((2, 8, 512, 512), 4, False),
    ):
        x = dml.TensorDesc(data_type="FLOAT32", sizes=sizes)
        desc = kind(input_tensor=x, window_size=(window, window), strides=(window, window), **members).with_outputs()
        assert isinstance(compiled_plan(desc), LayoutCopiesPlan) == copies, sizes


@pytest.mark.parametrize("strides", [(0, 0, 23, 1), (200, 0, 0, 1), (0, 0, 0, 0)])
def test_channels_that_repeat_are_copied(strides: tuple[int, ...]) -> None:
    memory = np.random.default_rng(13).normal(size=600).astype(np.float32)
    x = np.lib.stride_tricks.as_strided(memory, (2, 11, 17, 9), [4 * stride for stride in strides])
    members: dict[str, Any] = {"window_size": (4, 5), "strides": (4, 5), "start_padding": (1, 2), "end_padding": (0, 1)}
    source = dml.TensorDesc(data_type="FLOAT32", sizes=x.shape, strides=strides)
    desc = dml.MaxPoolingDesc(input_tensor=source, **members).with_outputs("output_tensor")
    assert isinstance(compiled_plan(desc), LayoutCopiesPlan)
    expected = by_definition(desc, {"input_tensor": x})["output_tensor"]
    np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected)
