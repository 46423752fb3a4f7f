"""Inputs flagged OWNED_BY_DML, of operators that accept them: `prepare` takes them over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.memory.owned_inputs import OwningPlan
from dmlpy.devices.numpy.plans import plan_of

Array = np.ndarray[Any, Any]


def normalization(*owned: str, strided: bool = False) -> tuple[dml.BatchNormalizationDesc, dict[str, Array]]:
    """A normalization of [2, 3, 4, 5] with some of its inputs flagged, and values for all of them."""
    rng = np.random.default_rng(1)
    names = ("mean", "variance", "scale", "bias")
    arrays = {f"{name}_tensor": rng.uniform(0.5, 2.0, (1, 3, 1, 1)).astype(np.float32) for name in names}
    arrays["input_tensor"] = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    if strided:
        arrays |= {f"{name}_tensor": rng.uniform(0.5, 2.0, (1, 3, 1, 7)).astype(np.float32)[..., 2:3] for name in names}
    descs = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
    flagged = {name: descs[name].replace(flags="OWNED_BY_DML") for name in owned}
    return dml.BatchNormalizationDesc(**descs | flagged).with_outputs(), arrays


def on(device: dml.Device, arrays: dict[str, Array]) -> dict[str, Any]:
    return {name: device.from_host(array) for name, array in arrays.items()}


OWNED = [("scale_tensor",), ("mean_tensor", "variance_tensor", "bias_tensor"), ("input_tensor", "scale_tensor")]


def check_taken_over(device: dml.Device, owned: tuple[str, ...], given: dict[str, Any], *, strided: bool) -> None:
    """Prepared or not, bound or called, the result is that of unflagged inputs; what was taken may then be overwritten."""
    (plain, _), (desc, _) = normalization(strided=strided), normalization(*owned, strided=strided)
    expected = device.to_host(dml.compile(plain, device)(**given).output_tensor)
    op = dml.compile(desc, device)
    np.testing.assert_array_equal(device.to_host(op(**given).output_tensor), expected)

    taken = {name: given[name] for name in owned}
    rest = {name: array for name, array in given.items() if name not in owned}
    prepared = op.prepare(**taken)
    assert 0 < op.binding_properties.persistent_resource_size == prepared.binding_properties.persistent_resource_size
    stream = device.current_stream()
    for name, array in taken.items():
        size = desc.tensors()[name].extent_in_bytes
        nan = device.upload(np.full(size, 0xFF, np.uint8), stream)
        device.copy(device.view(array).pointer, nan.pointer, size, stream)
    np.testing.assert_array_equal(device.to_host(prepared(**rest).output_tensor), expected)
    y = device.from_host(np.full_like(expected, np.nan))
    prepared.bind(rest, {"output_tensor": y})()
    np.testing.assert_array_equal(device.to_host(y), expected)
    assert op.plan.endswith(f"prepare copies {', '.join(owned)}")


@pytest.mark.parametrize("owned", OWNED)
def test_prepare_takes_them_over(any_device: dml.Device, owned: tuple[str, ...]) -> None:
    check_taken_over(any_device, owned, on(any_device, normalization()[1]), strided=False)


@pytest.mark.parametrize("owned", OWNED)
def test_prepare_takes_strided_ones_over(owned: tuple[str, ...]) -> None:
    check_taken_over(dml.device("numpy"), owned, normalization(strided=True)[1], strided=True)


def test_all_of_them_at_once_and_no_others(any_device: dml.Device) -> None:
    desc, arrays = normalization("mean_tensor", "scale_tensor")
    given, op = on(any_device, arrays), dml.compile(desc, any_device)
    with pytest.raises(dml.BindError) as missing:
        op.prepare(mean_tensor=given["mean_tensor"])
    assert [(problem.code, problem.path) for problem in missing.value.problems] == [("bind.missing", "scale_tensor")]
    with pytest.raises(dml.BindError, match="bias_tensor"):
        op.prepare(**{name: given[name] for name in ("mean_tensor", "scale_tensor", "bias_tensor")})


@pytest.mark.parametrize("capturable", [False, True])
def test_what_takes_inputs_is_captured_as_its_work_is(capturable: bool) -> None:
    desc, _ = normalization("scale_tensor")
    work = plan_of(desc)
    assert work is not None
    work.capturable = capturable
    plan = OwningPlan(work, ("scale_tensor",), desc, dml.device("numpy"))
    assert plan.capturable == capturable


def test_without_flags_there_is_nothing_to_take(any_device: dml.Device) -> None:
    desc, _ = normalization()
    assert dml.compile(desc, any_device).binding_properties.persistent_resource_size == 0
