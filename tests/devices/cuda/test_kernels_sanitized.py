"""Whole CUDA plans under g++'s sanitizers, and proof that the sanitizers notice a lost barrier."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import T4, EmulatedRuntime
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from tests.support.cuda.layer_plans import launch
from tests.support.cuda.training_layers import ADDED, OPTIONAL, build, check
from tests.support.tolerance import assert_close
from tests.support.tools import require

SANITIZERS = ("address,undefined", "thread")
T, B, I, H = 4, 5, 3, 6  # noqa: E741  (the field's letters)
PERSISTENT_BLOCK = replace(T4, name="a device with so few multiprocessors that a block takes several samples", multiprocessors=4)
STEP = replace(T4, name="a device whose blocks share next to nothing", shared_memory_per_block=64)
LIMITS = {"persistent_block": PERSISTENT_BLOCK, "per_step": STEP}
BARRIER = "__syncthreads();"
SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()


def desc(cell: str, data_type: str = "FLOAT32", **attributes: Any) -> dml.RecurrentDesc:
    """A bidirectional layer with every optional tensor, and both of an LSTM's further options."""

    def tensor(*sizes: int, data_type: str = data_type) -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes)

    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    common: dict[str, Any] = {
        "input_tensor": tensor(1, T, B, I),
        "weight_tensor": tensor(1, 2, gates * H, I),
        "recurrence_tensor": tensor(1, 2, gates * H, H),
        "bias_tensor": tensor(1, 1, 2, 2 * gates * H),
        "hidden_init_tensor": tensor(1, 2, B, H),
        "sequence_lengths_tensor": tensor(1, 1, 1, B, data_type="UINT32"),
        "direction": "BIDIRECTIONAL",
    }
    if cell == "rnn":
        return dml.RNNDesc(**common, activation_descs=[TANH, dml.ActivationSoftsignDesc()]).with_outputs()
    if cell == "gru":
        return dml.GRUDesc(**common, activation_descs=[SIGMOID, TANH] * 2, **attributes).with_outputs()
    return dml.LSTMDesc(
        **common,
        cell_mem_init_tensor=tensor(1, 2, B, H),
        peephole_tensor=tensor(1, 1, 2, 3 * H),
        activation_descs=[SIGMOID, TANH, TANH] * 2,
        use_clip_threshold=True,
        clip_threshold=1.0,
        couple_input_forget=False,
        **attributes,
    ).with_outputs()


DESCS = {
    "rnn": desc("rnn"),
    "gru": desc("gru", linear_before_reset=False),
    "gru linear before reset": desc("gru", linear_before_reset=True),
    "lstm": desc("lstm"),
    "lstm of halves": desc("lstm", "FLOAT16"),
}
TRAINING: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "rnn, per_step": (STEP, "RNN", {}),
    "gru, persistent_block": (PERSISTENT_BLOCK, "GRU", {"linear_before_reset": False}),
    "gru with dropout, per_step": (STEP, "GRU", {"linear_before_reset": False, "optional": (*OPTIONAL, *ADDED)}),
    "lstm, persistent_block": (PERSISTENT_BLOCK, "LSTM", {"optional": (*OPTIONAL, "input_dropout_tensor")}),
    "lstm of halves with dropout and a projection, per_step": (
        STEP,
        "LSTM",
        {"p": 2, "dtype": np.float16, "optional": (*OPTIONAL, *ADDED)},
    ),
}


USUAL = {
    ("gru", "persistent_block", "address,undefined"),
    ("gru", "per_step", "address,undefined"),
    ("lstm", "persistent_block", "thread"),
}
"""With `USUAL_TRAINING` each kernel under each sanitizer; other cells are slow."""
USUAL_TRAINING = {
    ("gru, persistent_block", "address,undefined"),
    ("lstm of halves with dropout and a projection, per_step", "address,undefined"),
    ("rnn, per_step", "thread"),
}


def rows(table: Iterable[tuple[str, ...]], usual: Container[tuple[str, ...]]) -> list[Any]:
    return [pytest.param(*row, marks=[pytest.mark.slow] * (row not in usual)) for row in table]


def sanitized(name: str, sanitize: str) -> dict[str, Any]:
    """Options of a runtime: all launches of a plan are sanitized, but for the thread sanitizer those of packing in the rows of an LSTM
    alone.

    A CUDA thread costs that sanitizer a millisecond, and packing has most of them.
    """
    packs = sanitize != "thread" or name.partition(",")[0] == "lstm"
    return {"sanitize": sanitize} if packs else {"sanitize": sanitize, "sanitized": ("persistent_block<", "step<", "reset<", "project<")}


def run(described: dml.RecurrentDesc, runtime: EmulatedRuntime, strategy: str) -> None:
    """Runs a desc on random inputs, ragged from length 0 on, and checks the outputs. DeviceError with the sanitizer's report."""
    random = np.random.default_rng(5)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for field in described.inputs():
        tensor = getattr(described, field.name)
        if field.name == "sequence_lengths_tensor":
            arrays[field.name] = np.array([[[[0, T, 1, T, T - 1]]]], np.uint32)
        elif tensor is not None:
            arrays[field.name] = random.standard_normal(tensor.sizes).astype(tensor.data_type.numpy)
    device = CudaDevice(runtime, strategy=strategy)
    results = dml.compile(described, device)(**{name: device.from_host(array) for name, array in arrays.items()})
    for name, wanted in dml.reference(described, arrays).as_dict().items():
        found = device.to_host(results.as_dict()[name])
        assert_close(found, wanted, found.dtype.type, terms=H)
    runtime.check_guards()


@pytest.mark.parametrize(("name", "strategy", "sanitize"), rows(product(DESCS, LIMITS, SANITIZERS), USUAL))
def test_the_sanitizers_are_silent(name: str, strategy: str, sanitize: str) -> None:
    require("g++")
    run(DESCS[name], EmulatedRuntime(LIMITS[strategy], **sanitized(name, sanitize)), strategy)


@pytest.mark.parametrize(("name", "sanitize"), rows(product(TRAINING, SANITIZERS), USUAL_TRAINING))
def test_the_sanitizers_are_silent_in_training(name: str, sanitize: str) -> None:
    require("g++")
    limits, cell, options = TRAINING[name]
    runtime, random = EmulatedRuntime(limits, **sanitized(name, sanitize)), np.random.default_rng(6)
    mask = random.integers(0, 3, (T, B))
    run = build(cell, random, t=T, b=B, i=I, h=H, direction="BIDIRECTIONAL", lengths=[0, T, 1, T, T - 1], mask=mask, **options)
    launch(run, lambda desc, library: recurrent_plan(desc, Target(library, strategy=name.rpartition(", ")[2])), runtime)
    check(run)
    runtime.check_guards()


@pytest.mark.parametrize("place", range(sources.read("recurrent/layer.cu").count(BARRIER)))
def test_the_thread_sanitizer_misses_every_barrier(place: int) -> None:
    require("g++")
    with pytest.raises(dml.DeviceError, match="data race"):
        run(
            DESCS["gru"],
            EmulatedRuntime(PERSISTENT_BLOCK, sanitize="thread", sanitized=("persistent_block<",), fault=(BARRIER, place)),
            "persistent_block",
        )
