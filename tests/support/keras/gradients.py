"""Keras's gradients, compared with a device's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import dmlpy as dml
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from tests.support.folders import STORED_CASES
from tests.support.recurrent.networks import run
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


Arrays = dict[str, Array]


CELLS: dict[str, Cell] = {"SimpleRNN": "RNN", "GRU": "GRU", "LSTM": "LSTM"}


DESCS: dict[Cell, Any] = {"RNN": dml.RNNTrainingDesc, "GRU": dml.GRUTrainingDesc, "LSTM": dml.LSTMTrainingDesc}


SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()


ACTIVATIONS: dict[Cell, list[dml.ActivationDesc]] = {"RNN": [TANH], "GRU": [SIGMOID, TANH], "LSTM": [SIGMOID, TANH, TANH]}


STATES = {"state_h": ("hidden_init", "output_single"), "state_c": ("cell_mem_init", "output_cell_single")}


class KerasLayer(NamedTuple):
    """A layer of Keras's with its inputs: batch first, matrices [in, gates * out], gates in Keras's order."""

    attributes: Mapping[str, Any]
    inputs: Arrays

    @property
    def cell(self) -> Cell:
        return CELLS[self.attributes["layer"]]

    @property
    def bias_parts(self) -> int:
        """Biases that the layer has: one, or Wb and Rb."""
        return self.inputs["bias"].ndim

    def _ours(self, array: Array, axis: int = -1, parts: int = 1) -> Array:
        ours: Array = reorder(array, self.cell, GateOrder.KERAS, GateOrder.DIRECTML, axis=axis, parts=parts)
        return ours

    def _theirs(self, array: Array, parts: int = 1) -> Array:
        theirs: Array = reorder(array, self.cell, GateOrder.DIRECTML, GateOrder.KERAS, axis=-1, parts=parts)
        return theirs

    def arrays(self) -> Arrays:
        """The inputs as the training form takes them."""
        given, parts = self.inputs, self.bias_parts
        bias = self._ours(given["bias"].reshape(-1), parts=parts)
        found = {
            "input": given["input"].swapaxes(0, 1)[None],
            "weight": self._ours(given["kernel"]).T[None, None],
            "recurrence": self._ours(given["recurrent_kernel"]).T[None, None],
            "bias": np.concatenate([bias, np.zeros((2 - parts) * bias.size, bias.dtype)])[None, None, None],
        }
        found |= {ours: given[theirs][None, None] for theirs, (ours, _) in STATES.items() if theirs in given}
        found |= {name: self._ours(given[name], axis=0)[None] for name in ("input_dropout", "state_dropout") if name in given}
        if "mask" in given:
            found["step_mask"] = given["mask"].T[None, None]
        return {f"{name}_tensor": array for name, array in found.items()}

    def desc(self) -> Any:
        """The training form with all outputs."""
        extra = {"linear_before_reset": self.attributes["reset_after"]} if self.cell == "GRU" else {}
        return DESCS[self.cell](
            **{name: dml.TensorDesc.of(array) for name, array in self.arrays().items()},
            activation_descs=ACTIVATIONS[self.cell],
            direction="BACKWARD" if self.attributes["go_backwards"] else "FORWARD",
            **extra,
        ).with_outputs()

    def upstream(self) -> Arrays:
        """The upstream gradients as the gradient takes them."""
        output = self.inputs["output_backprop"]
        if self.attributes["return_sequences"]:
            sequence = np.ascontiguousarray(self._in_time_order(output).swapaxes(0, 1)[:, None])
        else:
            sequence = np.zeros((self.inputs["input"].shape[1], 1, *output.shape), output.dtype)
            sequence[self._last, 0] = output
        found = {"output_sequence": sequence}
        found |= {
            ours: self.inputs[f"output_{theirs}_backprop"][None, None]
            for theirs, (_, ours) in STATES.items()
            if f"output_{theirs}_backprop" in self.inputs
        }
        return {f"{name}_gradient_tensor": array for name, array in found.items()}

    def results(self, device: dml.Device) -> Arrays:
        """Outputs and gradients by Keras's names, in its layouts."""
        desc, arrays, upstream = self.desc(), self.arrays(), self.upstream()
        gradient = desc.gradient()
        forward = run(device, desc, arrays)
        taken = {name: array for name, array in arrays.items() if name in gradient.tensors()}
        found = forward | run(device, gradient, taken | upstream | {"reserve_tensor": forward["reserve_tensor"]})

        sequence = found["output_sequence_tensor"][:, 0]
        bias = self._theirs(found["bias_gradient_tensor"][0, 0, 0], parts=2).reshape(2, -1)
        results = {
            "output": self._in_time_order(sequence.swapaxes(0, 1)) if self.attributes["return_sequences"] else sequence[self._last],
            "input_backprop": found["input_gradient_tensor"][0].swapaxes(0, 1),
            "kernel_backprop": self._theirs(found["weight_gradient_tensor"][0, 0].T),
            "recurrent_kernel_backprop": self._theirs(found["recurrence_gradient_tensor"][0, 0].T),
            "bias_backprop": bias if self.bias_parts == 2 else bias[0],
        }
        for theirs, (before, after) in STATES.items():
            if theirs in self.inputs:
                results[f"output_{theirs}"] = found[f"{after}_tensor"][0, 0]
                results[f"{theirs}_backprop"] = found[f"{before}_gradient_tensor"][0, 0]
        return results

    @property
    def _last(self) -> int:
        """Where the recurrence ends."""
        return 0 if self.attributes["go_backwards"] else -1

    def _in_time_order(self, array: Array) -> Array:
        """[B, T, ...] from the order of time to that of the recurrence, in which Keras gives its outputs, or back."""
        return array[:, ::-1] if self.attributes["go_backwards"] else array


ENTRIES = {
    entry["case"]: entry
    for entry in json.loads((STORED_CASES / "index.json").read_text())
    if entry["case"].startswith("keras_") and "_grad_" in entry["case"]
}


def check_keras(any_device: dml.Device, case: str) -> None:
    with np.load(STORED_CASES / f"{case}.npz") as file:
        inputs, expected = (
            {name.removeprefix(part): file[name] for name in file.files if name.startswith(part)} for part in ("in.", "out.")
        )
    layer = KerasLayer(ENTRIES[case]["attributes"], inputs)
    found = layer.results(any_device)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert_close(found[name], values, np.float32, terms=inputs["input"].size, what=name)
