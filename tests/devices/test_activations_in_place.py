"""Activations whose output has the memory of an input: where that is allowed, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.activation_cases import label
from tests.support.operators.activation_runs import DTYPES, EACH, LAYOUTS, SIZES, Array, inputs, laid_out, output_of, random_values, run
from tests.support.recurrent.layer_runs import GUARD, Placed
from tests.support.tables import table


def in_place(device: dml.Device, desc: dml.ActivationDesc, placed: Mapping[str, Placed], shared: str) -> Array:
    """The output's elements after a run that has them in the memory of the input `shared`."""
    operator = desc.replace(**{name: item.desc for name, item in placed.items()}, **{output_of(desc): placed[shared].desc})
    stream = device.current_stream()
    memory = {name: device.upload(item.memory, stream) for name, item in placed.items()}
    starts = {name: item.pointer - item.memory.ctypes.data for name, item in placed.items()}
    buffers = {name: dml.Buffer(memory[name].pointer + start, memory[name].size - start) for name, start in starts.items()}
    try:
        dml.compile(operator, device=device).bind(buffers, {output_of(desc): buffers[shared]})()
    finally:
        for name, item in placed.items():
            item.memory[...] = np.frombuffer(device.read(memory[name].pointer, item.memory.size, stream), np.uint8)
    assert (placed[shared].gaps() == GUARD).all()
    return placed[shared].elements


@table("desc", [desc for desc in EACH if desc.in_place], ids=label)
@pytest.mark.parametrize("layout", ["packed", "permuted with gaps"])
def test_in_place(any_device: dml.Device, desc: dml.ActivationDesc, layout: str) -> None:
    """The same values as elsewhere; PARAMETERIZED_RELU may write over its slope too."""
    x = random_values(np.random.default_rng(9), SIZES, np.float32)
    arrays = inputs(desc, x)
    expected = run(any_device, desc, arrays)
    for shared in arrays:
        placed = {name: laid_out(array, *LAYOUTS[layout]) for name, array in arrays.items()}
        np.testing.assert_array_equal(in_place(any_device, desc, placed, shared), expected, err_msg=shared)


@DTYPES
def test_in_place_types(any_device: dml.Device, dtype: Any) -> None:
    for desc, own in ((dml.ActivationTanhDesc(), dtype), (dml.ActivationShrinkDesc(bias=2.0), np.int16)):
        x = random_values(np.random.default_rng(10), (5, 7), own)
        expected = run(any_device, desc, inputs(desc, x))
        placed = {"input_tensor": laid_out(x, [9, 1])}
        np.testing.assert_array_equal(in_place(any_device, desc, placed, "input_tensor"), expected)


NEVER_IN_PLACE: list[dml.ActivationDesc] = [dml.ActivationSwishDesc(), dml.ActivationHardSwishDesc(), dml.ActivationReluGradDesc()]


@pytest.mark.parametrize("desc", NEVER_IN_PLACE, ids=label)
def test_never_in_place(any_device: dml.Device, desc: dml.ActivationDesc) -> None:
    x = random_values(np.random.default_rng(11), (3, 4), np.float32)
    for shared in inputs(desc, x):
        placed = {name: laid_out(array, [4, 1]) for name, array in inputs(desc, x).items()}
        before = placed[shared].memory.copy()
        with pytest.raises(dml.BindError, match="never runs in place"):
            in_place(any_device, desc, placed, shared)
        np.testing.assert_array_equal(placed[shared].memory, before)


@table("desc", [desc for desc in EACH if desc.in_place], ids=label)
def test_in_place_needs_the_same_memory_and_layout(any_device: dml.Device, desc: dml.ActivationDesc) -> None:
    packed = dml.TensorDesc(data_type="FLOAT32", sizes=(3, 3))
    names = [field.name for field in desc.inputs()]
    operator = desc.replace(**dict.fromkeys(names, packed), **{output_of(desc): packed})
    stream = any_device.current_stream()
    memory = any_device.upload(np.zeros(32, np.float32), stream)
    apart = {name: any_device.upload(np.zeros(9, np.float32), stream) for name in names}
    shared = dml.Buffer(memory.pointer, 36)
    for name in names:
        buffers = {own: dml.Buffer(array.pointer, 36) for own, array in apart.items()} | {name: shared}
        for changed, output in (({}, dml.Buffer(memory.pointer + 32, 36)), ({output_of(desc): packed.replace(strides=(1, 3))}, shared)):
            with pytest.raises(dml.BindError, match="exactly its input's memory and layout"):
                dml.compile(operator.replace(**changed), device=any_device).bind(buffers, {output_of(desc): output})


def test_every_operator_but_three_runs_in_place() -> None:
    assert {type(desc) for desc in EACH if not desc.in_place} == {type(desc) for desc in NEVER_IN_PLACE}
