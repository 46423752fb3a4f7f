"""Products of FLOAT16 with fused functions: functions of the sums of FLOAT32, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
from dmlpy.devices.cpu.plans import compiled_plan

Array = np.ndarray[Any, np.dtype[Any]]


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def product(kind: str, function: Any) -> Any:
    """A with gaps, and a C that is repeated for each row."""
    tensors = {"a_tensor": tensor(kind, 1, 2, 9, 31, strides=(700, 350, 33, 1)), "b_tensor": tensor(kind, 1, 2, 31, 45)}
    c = tensor(kind, 1, 2, 9, 45, strides=(0, 0, 0, 1))
    return dml.GEMMDesc(**tensors, c_tensor=c, beta=0.5, alpha=0.25, fused_activation=function).with_outputs()


def convolution(kind: str, function: Any) -> Any:
    """Of an image with channels last, to one with gaps."""
    image = tensor(kind, 2, 6, 9, 11, strides=(594, 1, 66, 6))
    filters, bias = tensor(kind, 8, 3, 3, 3), tensor(kind, 1, 8, 1, 1)
    members: dict[str, Any] = {"start_padding": (1, 0), "end_padding": (1, 0), "group_count": 2}
    members |= {"strides": (1, 1), "dilations": (1, 1), "output_padding": (0, 0), "fused_activation": function}
    out = tensor(kind, 2, 8, 9, 9, strides=(720, 90, 10, 1))
    return dml.ConvolutionDesc(input_tensor=image, filter_tensor=filters, bias_tensor=bias, output_tensor=out, **members)


FUNCTIONS = {
    "GELU": dml.ActivationGeluDesc(),
    "sigmoid": dml.ActivationSigmoidDesc(),
    "hard sigmoid": dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5),
}


_LARGEST_ERROR = 0.51
"""That of sigmoids of FLOAT16 in ULP, half of which is that of rounding; sums that were rounded before would add up to one more."""


def run(desc: Any, given: dict[str, Array], *, prepared: bool) -> Array:
    """By the compiled plan, over poisoned memory, of which nothing but the output changes."""
    plan = compiled_plan(desc)
    assert not isinstance(plan, str)
    assert isinstance(plan, Float32CopyPlan) == (desc.output_tensor.data_type is dml.DataType.FLOAT16)
    memory = np.full((2, max(plan.temporary_size, plan.persistent_size) + 128), 0xA5, np.uint8)
    temporary, persistent = (row.ctypes.data + -row.ctypes.data % 64 for row in memory)
    output = desc.output_tensor
    written = np.full(output.span, np.nan, output.data_type.numpy)
    pointers = {place: array.ctypes.data for place, array in given.items()} | {"output_tensor": written.ctypes.data}
    if prepared:
        plan.pack({place: pointers.pop(place) for place in plan.constants}, persistent)(0)
    plan.bind(pointers, temporary, persistent if prepared else None)(0)
    end = (plan.prepared_temporary_size if prepared else plan.temporary_size) + temporary - memory[0].ctypes.data
    assert (memory[0, end:] == 0xA5).all()
    found = np.lib.stride_tricks.as_strided(written, output.sizes, output.numpy_strides())
    assert np.isnan(written).sum() == output.span - output.element_count
    return found


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", [product, convolution])
def test_a_fused_function_reads_unrounded_sums(make: Any, name: str, prepared: bool) -> None:
    desc, rng = make("FLOAT16", FUNCTIONS[name]), np.random.default_rng(5)
    slots = {slot.place: slot.tensor for slot in desc.input_slots() if slot.tensor is not None}
    given = {place: rng.normal(size=own.span).astype(np.float16) for place, own in slots.items()}
    found = run(desc, given, prepared=prepared)
    wide = make("FLOAT32", FUNCTIONS[name])
    floats = run(wide, {place: own.astype(np.float32) for place, own in given.items()}, prepared=False)
    ulp = np.spacing(np.abs(floats.astype(np.float16))).astype(np.float64)
    assert (np.abs(found.astype(np.float64) - floats) <= _LARGEST_ERROR * ulp).all()
    arrays = {place: np.lib.stride_tricks.as_strided(own, slots[place].sizes, slots[place].numpy_strides()) for place, own in given.items()}
    assert_close(found, np.asarray(dml.reference(desc, arrays).output_tensor), np.float16, terms=31)


def test_a_product_of_few_rows() -> None:
    """NumPy multiplies it in FLOAT32."""
    rng, (a, b) = np.random.default_rng(6), (tensor("FLOAT16", 2, 31), tensor("FLOAT16", 31, 45))
    desc = dml.GEMMDesc(a_tensor=a, b_tensor=b, fused_activation=FUNCTIONS["GELU"]).with_outputs()
    given = {"a_tensor": rng.normal(size=a.sizes).astype(np.float16), "b_tensor": rng.normal(size=b.sizes).astype(np.float16)}
    assert_close(run(desc, given, prepared=False), np.asarray(dml.reference(desc, given).output_tensor), np.float16, terms=31)
