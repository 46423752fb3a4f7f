"""Compiled resampling: the numbers of the definition, bit by bit, whatever the axes and their order in memory are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import run

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan
from dmlpy.devices.cpu.resampling import plan
from dmlpy.devices.cpu.resampling.plan import ValueScalePlan

GRADIENTS = (dml.ResampleGradDesc, dml.ResampleGrad1Desc)
LINEAR, NEAREST = "LINEAR", "NEAREST_NEIGHBOR"
CHANNELS_LAST = (0, 2, 3, 1)


def tensor(data_type: str, sizes: Any, order: Any = None) -> dml.TensorDesc:
    """A packed tensor with its dimensions in an order, the outermost first."""
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(order or range(len(sizes))):
        strides[axis], step = step, step * sizes[axis]
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def resampled(kind: Any, mode: str, sizes: Any, output_sizes: Any, *, order: Any = None, **members: Any) -> Any:
    names = ("input_gradient_tensor", "output_gradient_tensor") if kind in GRADIENTS else ("input_tensor", "output_tensor")
    scales = [output / size for size, output in zip(sizes, output_sizes, strict=True)]
    if kind in GRADIENTS:
        sizes, output_sizes = output_sizes, sizes
    if kind is not dml.ResampleDesc:
        members |= {"input_pixel_offsets": (0.5,) * len(sizes), "output_pixel_offsets": (-0.5,) * len(sizes)}
    return lambda t: kind(
        **dict(zip(names, (tensor(t, sizes, order), tensor(t, output_sizes, order)), strict=True)),
        interpolation_mode=mode,
        scales=scales,
        **members,
    )


ROWS = {
    "enlarged": resampled(dml.Resample1Desc, LINEAR, (2, 3, 5, 9), (2, 3, 11, 37)),
    "enlarged, nearest": resampled(dml.ResampleDesc, NEAREST, (2, 3, 5, 40), (2, 3, 9, 61)),
    "one axis": resampled(dml.Resample1Desc, LINEAR, (3, 7, 20), (3, 4, 20)),
    "shrunk": resampled(dml.Resample2Desc, LINEAR, (2, 2, 33, 50), (2, 2, 10, 17)),
    "antialiased": resampled(dml.Resample3Desc, LINEAR, (1, 2, 33, 50), (1, 2, 10, 17), antialiased=True),
    "all axes": resampled(dml.Resample1Desc, LINEAR, (2, 3, 5, 6), (3, 5, 2, 9)),
    "channels last": resampled(dml.Resample1Desc, LINEAR, (2, 19, 5, 6), (2, 19, 11, 9), order=CHANNELS_LAST),
    "gradient": resampled(dml.ResampleGradDesc, LINEAR, (2, 3, 5, 9), (2, 3, 11, 37)),
    "gradient of few": resampled(dml.ResampleGrad1Desc, NEAREST, (2, 3, 9, 33), (2, 3, 4, 12)),
    "upsampled": lambda t: dml.Upsample2DDesc(
        input_tensor=tensor(t, (2, 3, 4, 9)), scale_size={"width": 3, "height": 2}, interpolation_mode=LINEAR
    ).with_outputs("output_tensor"),
}


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", ROWS)
def test_the_definitions_numbers(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "available_threads", lambda: 2)
    monkeypatch.setattr(plan, "_WORK_OF_A_THREAD", 1)
    desc = ROWS[name](data_type)
    (source,), (target,) = desc.input_slots(), desc.output_slots()
    assert source.tensor is not None
    assert target.tensor is not None
    assert isinstance(compiled_plan(desc), plan.ResamplingPlan)
    rng = np.random.default_rng(3)
    x = rng.normal(0, 3, source.tensor.sizes).astype(source.tensor.data_type.numpy)
    for special in ([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-6], np.resize([0.0, -0.0, -0.0, -0.0], x.size)):
        x.flat[rng.choice(x.size, len(special), replace=False)] = special
        found, wanted = (run(desc, {source.place: x}, device)[target.place] for device in ("cpu", "numpy"))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("name", [name for name in ROWS if "gradient" not in name and name != "upsampled"])
def test_bytes(name: str) -> None:
    """Rounded as they are defined: halves, which enlarging by two gives often, depend on the order of sums."""
    for data_type in ("UINT8", "INT8"):
        desc = ROWS[name](data_type)
        if dml.check(desc):
            continue
        limits = np.iinfo(data_type.lower())
        x = np.random.default_rng(3).integers(limits.min, limits.max + 1, desc.input_tensor.sizes).astype(data_type.lower())
        assert isinstance(compiled_plan(desc), ByteFloatsPlan)
        found, wanted = (run(desc, {"input_tensor": x}, device)["output_tensor"] for device in ("cpu", "numpy"))
        np.testing.assert_array_equal(found, wanted)


WIDE = resampled(dml.ResampleGradDesc, LINEAR, (1, 2), (1, 80))
OTHERS = {
    "more than 32": WIDE("FLOAT32"),
    "nothing is resampled": resampled(dml.Resample1Desc, LINEAR, (2, 3), (2, 3))("FLOAT32"),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_others_are_numpys(reason: str) -> None:
    assert reason in str(compiled_plan(OTHERS[reason]))


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_scaled_values_are_the_definitions(data_type: str) -> None:
    rng = np.random.default_rng(4)
    for sizes, order, bias in (
        ((3, 3, 7, 45), None, [0.5, -1.25, 3.1]),
        ((2, 3, 5, 7), CHANNELS_LAST, [0.1, 0.2, 0.3]),
        ((1, 1, 1, 5), None, [2.5]),
    ):
        target = tensor(data_type, sizes, order)
        desc = dml.ValueScale2DDesc(input_tensor=tensor(data_type, sizes), output_tensor=target, scale=1.7, bias=bias)
        assert isinstance(compiled_plan(desc), ValueScalePlan)
        x = rng.normal(0, 3, sizes).astype(target.data_type.numpy)
        found, expected = (run(desc, {"input_tensor": x}, device)["output_tensor"] for device in ("cpu", "numpy"))
        np.testing.assert_array_equal(found, expected)
