"""Recurrent layers whose states are huge and whose gates are shut, open or in between, with arguments that floats hold exactly.

So a result is right element by element: what a gate lets through is relative to the state, and what it shuts out leaves no trace of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.recurrent.layer_runs import Run

Array = np.ndarray[Any, np.dtype[Any]]

ARGUMENTS = (-110, -100, -88, -60, -40, -20, -10, -1, 0, 1, 10, 20, 40, 100)
"""Of gates: from where the sigmoid is 0, by way of its subnormal values, to where it is 1."""
CLIP = 30.0
"""A bound of gates' arguments that still shuts them for most purposes."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "LSTM": ("LSTM", {}),
    "LSTM, coupled": ("LSTM", {"couple_input_forget": True}),
    "LSTM, clipped": ("LSTM", {"use_clip_threshold": True, "clip_threshold": CLIP}),
    "LSTM, clipped and coupled": ("LSTM", {"use_clip_threshold": True, "clip_threshold": CLIP, "couple_input_forget": True}),
    "GRU, reset first": ("GRU", {"linear_before_reset": False}),
    "GRU, reset last": ("GRU", {"linear_before_reset": True}),
}
"""The cell and the flags of `build`, of `recurrent_runs` and of `training_runs`."""
WITHOUT_PEEPHOLES = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor")


def saturate(run: Run, rng: np.random.Generator, arguments: tuple[int, ...] = ARGUMENTS) -> None:
    """Gives a layer with biases and initial states huge states, and gates of these arguments.

    Inputs and weights are few eighths, so that the sums of the gates have no rounding errors, which would change a shut gate's value by as
    much as the sum is long; the gates see no state. The candidate sees it.
    """
    gates = len(run.desc.gate_names)
    is_lstm = "cell_mem_init_tensor" in run.inputs
    for name in ("input_tensor", "weight_tensor"):
        elements = run.inputs[name].elements
        elements[...] = rng.integers(-8, 9, elements.shape) / 8
    recurrence, bias = run.inputs["recurrence_tensor"].elements, run.inputs["bias_tensor"].elements
    recurrence[:, :, : -(recurrence.shape[2] // gates)] = 0.0
    by_gate = bias.reshape(*bias.shape[:3], 2, gates, -1)  # a view, as biases are packed
    by_gate[..., 0, :-1, :] = rng.choice(arguments, by_gate[..., 0, :-1, :].shape)
    by_gate[..., 1, :-1, :] = 0.0
    state = run.inputs["cell_mem_init_tensor" if is_lstm else "hidden_init_tensor"].elements
    largest = 30.0 if state.dtype == np.float32 else 4.0
    state[...] = 10.0 ** rng.uniform(2.0, largest, state.shape) * rng.choice([-1.0, 1.0], state.shape)


def results(run: Run, device: dml.Device) -> dict[str, Array]:
    """The outputs that the layer describes, on the host."""
    given = {name: device.from_host(np.ascontiguousarray(placed.elements)) for name, placed in run.inputs.items()}
    found = dml.compile(run.desc, device)(**given)
    return {name: np.asarray(device.to_host(getattr(found, name))) for name in run.outputs}
