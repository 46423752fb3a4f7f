"""Every byte of a reserve follows from the inputs: nothing of what was in its memory, or in the scratch, is left in it."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from tests.conftest import cuda_on_cpu
from tests.support.cuda.training_layers import build as build_training
from tests.support.recurrent.networks import MODES, network

POISONS = (0x3C, 0xFF)  # halves and floats that are numbers, and NaN
LENGTHS = [3, 0, 2]
MASK = [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1]]

Arrays = dict[str, np.ndarray[Any, Any]]


def layer(cell: str, selects: str, rng: np.random.Generator, strategy: str | None, **flags: Any) -> tuple[OperatorDesc, Arrays]:
    """A training layer whose samples skip steps: by lengths (no sample takes the last ones), by a mask (nor the second), or not at all."""
    without_grids = {} if strategy in (None, "per_step") else {"optional": ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor")}
    added = {"optional": ("bias_tensor", "hidden_init_tensor", "input_dropout_tensor", "state_dropout_tensor")} if strategy is None else {}
    run = build_training(
        cell,
        rng,
        t=5,
        h=6,
        lengths=LENGTHS if "lengths" in selects else None,
        mask=MASK if "mask" in selects else None,
        direction="BIDIRECTIONAL",
        **{**added, **without_grids, **flags},
    )
    return run.desc, {name: placed.elements for name, placed in run.inputs.items()}


LAYERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    f"{cell}, {selects}{''.join(f', {flag}' for flag in flags)}": (cell, selects, flags)
    for cell, flags in (
        ("RNN", {}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": True}),
        ("LSTM", {}),
        ("LSTM", {"couple_input_forget": True}),
        ("LSTM", {"use_clip_threshold": True, "clip_threshold": 0.5}),
    )
    for selects in ("every step", "lengths", "mask", "lengths and mask")
}
NETWORKS = {f"{mode}, {data_type.__name__}": (mode, data_type) for mode in MODES for data_type in (np.float32, np.float16)}


def fill(device: dml.Device, value: Any, poison: int) -> None:
    view = device.view(value)
    size = view.dtype.itemsize * int(np.prod(view.shape))
    if device.memory_kind == "cpu":
        ctypes.memset(view.pointer, poison, size)
    else:
        device.runtime.memset(view.pointer, poison, size, 0)  # type: ignore[attr-defined]


def reserves(device: dml.Device, desc: OperatorDesc, arrays: Arrays) -> Iterator[np.ndarray[Any, Any]]:
    """The bytes of the reserve after dispatches into memory and scratch that were full of each poison."""
    operator = dml.compile(desc, device)
    described = desc.tensors()
    inputs = {name: device.from_host(np.ascontiguousarray(array)) for name, array in arrays.items()}
    outputs = {field.name: device.empty(described[field.name], 0) for field in desc.outputs() if field.name in described}
    (reserve,) = (field.name for field in desc.outputs() if field.marker.reserve)
    scratch_size = max(operator.binding_properties.temporary_resource_size, 16)
    scratch = device.allocate(scratch_size, 0, "scratch")
    dispatch = operator.bind(inputs, outputs, dml.Buffer(scratch.pointer, scratch_size))
    for poison in POISONS:
        for value in outputs.values():
            fill(device, value, poison)
        if device.memory_kind == "cpu":
            ctypes.memset(scratch.pointer, poison, scratch_size)
        else:
            device.runtime.memset(scratch.pointer, poison, scratch_size, 0)  # type: ignore[attr-defined]
        dispatch()
        yield np.array(device.to_host(outputs[reserve])).reshape(-1).view(np.uint8)


def check(device: dml.Device, desc: OperatorDesc, arrays: Arrays) -> None:
    first, second = reserves(device, desc, arrays)
    differing = np.flatnonzero(first != second)
    assert not differing.size, f"{differing.size} of {first.size} bytes were never written, the first at {differing[0]}"


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        pytest.param(name, strategy, marks=[pytest.mark.slow] * (strategy is not None and (number + place) % 2 == 0))
        for number, name in enumerate(LAYERS)
        for place, strategy in enumerate((None, "persistent_block", "persistent_grid", "per_step"))
    ],
)
def test_of_a_layer(name: str, strategy: str | None) -> None:
    """`strategy` is that of CUDA's kernels, which the CPU runs; None is the NumPy device."""
    cell, selects, flags = LAYERS[name]
    desc, arrays = layer(cell, selects, np.random.default_rng(zlib.crc32(name.encode())), strategy, **flags)
    if strategy is None:
        check(dml.device("numpy"), desc, arrays)
        return
    device = cuda_on_cpu(strategy=strategy)
    check(device, desc, arrays)
    device.runtime.check_guards()  # type: ignore[attr-defined]


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("name", NETWORKS)
def test_of_a_network(name: str, lengths: list[int] | None, any_device: dml.Device) -> None:
    mode, data_type = NETWORKS[name]
    net = network(np.random.default_rng(zlib.crc32(name.encode())), mode, lengths=lengths, dtype=data_type, is_training=True, offset=7)
    check(any_device, net.desc, net.arrays)
