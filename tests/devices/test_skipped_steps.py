"""Gradients of layers whose samples skip steps: a skipped step contributes nothing, even where 0 times what lies there is NaN.

The expected gradients come from a layer for each sample, over the steps that it takes and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.plans import STRATEGIES
from tests.conftest import cuda_on_cpu
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import OPTIONAL
from tests.support.recurrent.training_runs import H_DROPOUT, MASK, RESERVE, X_DROPOUT, build
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Compute = Callable[[Any, Arrays], Arrays]

INF = float("inf")
LENGTHS, UPSTREAM = "sequence_lengths_tensor", "output_sequence_gradient_tensor"
TAKEN = np.array([[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 0]], np.bool_)
"""[T, B]: each sample takes at most one step, since an infinite weight may make the gradients of earlier steps NaN."""
STEPS, BATCH = TAKEN.shape
IDLE = ~TAKEN.any(axis=0)
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("RNN", {"dropout": (X_DROPOUT,)}),
    "LSTM": ("LSTM", {}),
    "LSTM, projected": ("LSTM", {"p": 3, "dropout": (H_DROPOUT,)}),
    "GRU, reset first": ("GRU", {"linear_before_reset": False}),
    "GRU, reset last": ("GRU", {"linear_before_reset": True, "dropout": (X_DROPOUT,)}),
}
PER_SAMPLE = {  # the axis of the batch
    "input_tensor": 2,
    "hidden_init_tensor": 2,
    "cell_mem_init_tensor": 2,
    X_DROPOUT: 2,
    H_DROPOUT: 2,
    UPSTREAM: 2,
    "output_single_gradient_tensor": 2,
    "output_cell_single_gradient_tensor": 2,
}
TIME = {"input_tensor": 1, UPSTREAM: 0}


def on(device: dml.Device) -> Compute:
    def compute(desc: Any, arrays: Arrays) -> Arrays:
        given = {name: device.from_host(np.ascontiguousarray(array)) for name, array in arrays.items() if name != RESERVE}
        found = dml.compile(desc, device)(**given, **{RESERVE: arrays[RESERVE]} if RESERVE in arrays else {}).as_dict()
        return {name: array if name == RESERVE else np.asarray(device.to_host(array)) for name, array in found.items()}

    return compute


def computations(device: str, cell: str) -> Iterator[tuple[str, Compute]]:
    """How a device computes: CUDA in each strategy that runs the cell."""
    if device == "reference":
        yield "", lambda desc, arrays: dict(dml.reference(desc, arrays).as_dict())
    elif device == "cuda-emulated":
        for strategy in ["per_step"] if "p" in CELLS[cell][1] else STRATEGIES:
            yield f"{strategy}: ", on(cuda_on_cpu(strategy=strategy))
    else:
        yield "", on(dml.device(device))


def infinite_weights(arrays: Arrays) -> None:
    arrays["weight_tensor"][..., 1, 2] = INF


def infinite_recurrence(arrays: Arrays) -> None:
    arrays["recurrence_tensor"][..., 1, 0] = -INF
    if "projection_tensor" in arrays:
        arrays["projection_tensor"][..., 2, 0] = INF


def poisoned_samples(arrays: Arrays) -> None:
    """Infinite states and multipliers of the samples that take no step."""
    for name in ("hidden_init_tensor", "cell_mem_init_tensor", X_DROPOUT, H_DROPOUT):
        if name in arrays:
            arrays[name][:, :, IDLE] = INF


def poisoned_steps(arrays: Arrays) -> None:
    """NaN in the input of skipped steps, and in the gradients of outputs past the end."""
    arrays["input_tensor"][0, ~TAKEN] = np.nan
    lengths = arrays[LENGTHS].reshape(-1) if LENGTHS in arrays else np.full(BATCH, STEPS)
    arrays[UPSTREAM].swapaxes(1, 2)[np.arange(STEPS)[:, None] >= lengths] = np.nan


FAULTS = (infinite_weights, infinite_recurrence, poisoned_samples, poisoned_steps)


def of_each_sample(desc: Any, arrays: Arrays) -> Arrays:
    """The gradients in float64: of one layer for each sample, without skipped steps, and their sum for parameters."""
    gradient = desc.gradient()
    found = {name: np.zeros(tensor.sizes) for name, tensor in gradient.tensors().items() if name in {f.name for f in gradient.outputs()}}
    for sample in range(BATCH):
        steps = np.flatnonzero(TAKEN[:, sample])
        if not len(steps):
            for state, upstream in (("hidden_init", "output_single"), ("cell_mem_init", "output_cell_single")):
                if f"{state}_gradient_tensor" in found:
                    found[f"{state}_gradient_tensor"][:, :, sample] = arrays[f"{upstream}_gradient_tensor"][:, :, sample]
            continue
        own = {name: array for name, array in arrays.items() if name not in (LENGTHS, MASK)}
        own |= {name: own[name].take([sample], axis) for name, axis in PER_SAMPLE.items() if name in own}
        own |= {name: own[name].take(steps, axis) for name, axis in TIME.items() if name in own}
        alone = described(desc, own)
        reserve = exact(alone, {name: array for name, array in own.items() if name in alone.tensors()})[RESERVE]
        of_alone = alone.gradient()
        results = exact(of_alone, {name: array for name, array in own.items() if name in of_alone.tensors()} | {RESERVE: reserve})
        for name, total in found.items():
            if name == "input_gradient_tensor":
                total[:, steps, sample] = results[name][:, :, 0]
            elif name in ("hidden_init_gradient_tensor", "cell_mem_init_gradient_tensor"):
                total[:, :, sample] = results[name][:, :, 0]
            else:
                total += results[name].reshape(total.shape)
    return found


def described(desc: Any, arrays: Arrays) -> Any:
    """The training form over these arrays, with all outputs."""
    fields = [field.name for field in (*desc.inputs(), *desc.outputs())]
    tensors = {name: dml.TensorDesc.of(arrays[name]) if name in arrays else None for name in fields}
    return desc.model_copy(update=tensors).with_outputs()


def check(compute: Compute, cell: str, direction: str, lengths: list[int] | None, fault: Callable[[Arrays], None], what: str) -> None:
    """A layer and its gradient on a device, against the layers of the single samples."""
    rng = np.random.default_rng(3)
    kind, options = CELLS[cell]
    run = build(kind, rng, t=STEPS, b=BATCH, h=5, mask=TAKEN, lengths=lengths, direction=direction, optional=OPTIONAL, **options)
    gradient = run.desc.gradient()
    arrays = {name: np.array(array) for name, array in run.arrays.items()}
    upstream = {name: tensor for name, tensor in gradient.tensors().items() if name.startswith("output")}
    arrays |= {name: rng.standard_normal(tensor.sizes).astype(np.float32) for name, tensor in upstream.items()}
    arrays[UPSTREAM].swapaxes(1, 2)[~TAKEN] = 0.0  # else the step before, whose output a skipped step repeats, gets it
    for name in {X_DROPOUT, H_DROPOUT} & arrays.keys():
        arrays[name][...] = rng.choice([0.5, 2.0], arrays[name].shape)  # not 0, which times an infinite weight is NaN
    fault(arrays)
    with np.errstate(all="ignore"):
        reserve = compute(run.desc, {name: array for name, array in arrays.items() if name in run.desc.tensors()})[RESERVE]
        found = compute(gradient, {name: array for name, array in arrays.items() if name in gradient.tensors()} | {RESERVE: reserve})
        expected = of_each_sample(run.desc, arrays)
    assert any(np.isfinite(array).all() for array in expected.values())
    for name, array in found.items():
        finite = np.isfinite(expected[name])
        np.testing.assert_array_equal(np.isfinite(array), finite, err_msg=f"{what}{name}")
        assert_close(np.where(finite, array, 0.0), np.where(finite, expected[name], 0.0), np.float32, terms=64, what=f"{what}{name}")


@pytest.mark.each_value
@pytest.mark.parametrize("device", ["cpu", "numpy", "reference", "cuda-emulated"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_skipped_step_contributes_nothing(device: str, cell: str) -> None:
    for name, compute in computations(device, cell):
        for number, fault in enumerate(FAULTS):
            for lengths in (None, [STEPS, STEPS, STEPS, STEPS, 0]):
                direction = ("FORWARD", "BACKWARD")[(number + (lengths is None)) % 2]
                check(compute, cell, direction, lengths, fault, f"{name}{fault.__name__}, {direction}, lengths {lengths}: ")
