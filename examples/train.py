"""Trains a GRU to predict the next character of Python code: the standard library's sources.

    python examples/train.py [--device numpy|cuda] [--steps 1000] [--hidden 256] [--seed 0] [--output FOLDER]

The layer and its gradient are dmlpy's operators, compiled once and bound to fixed memory. What surrounds them is plain NumPy on the host:
the linear layer on top, softmax and cross-entropy, clipping of the gradient's norm, Adam. It is truncated back-propagation through time:
the text runs past in windows, each of which starts from the state that the window before it ended in.

It prints the loss on a module that it was not trained on, beside those of n-gram statistics, and a piece of text that the network
writes; the loss curve goes to FOLDER/loss.png. The exit status is 1 if the loss does not fall to --target. It needs matplotlib:

    pip install matplotlib
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from characters import (
    BATCH,
    LARGEST_NORM,
    PROMPT,
    SYMBOLS,
    TEMPERATURE,
    WINDOW,
    Array,
    Curve,
    choose,
    decode,
    encode,
    evaluated,
    learning_rate,
    parts,
    progress_bar,
    read_options,
    read_text,
    report,
    window,
)

import dmlpy as dml

# What surrounds the operators


def one_hot(symbols: Array) -> Array:
    """[..., 96], float32. Times the layer's W it picks a column: W's columns are the characters' embeddings."""
    return np.eye(SYMBOLS, dtype=np.float32)[symbols]


def softmax(logits: Array) -> Array:
    powers: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def cross_entropy(logits: Array, targets: Array) -> tuple[float, Array]:
    """Nats per character, and the gradient of that with respect to the logits, [characters, 96]."""
    gradient = softmax(logits)
    rows = np.arange(len(targets))
    loss = float(-np.log(np.maximum(gradient[rows, targets], 1e-30)).mean())
    gradient[rows, targets] -= 1
    return loss, gradient / np.float32(len(targets))


def clip_norm(gradients: Mapping[str, Array], largest: float) -> None:
    """Scales all gradients alike, in place, so that their norm as one vector is `largest` at most."""
    norm = math.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients.values()))
    if norm > largest:
        for gradient in gradients.values():
            gradient *= np.float32(largest / norm)


@dataclass
class Adam:
    """Kingma and Ba's optimizer over named arrays, which it changes in place."""

    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    steps: int = 0
    moments: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    def update(self, parameters: Mapping[str, Array], gradients: Mapping[str, Array], rate: float) -> None:
        self.steps += 1
        rate *= math.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        for name, gradient in gradients.items():
            first, second = self.moments.setdefault(name, (np.zeros_like(gradient), np.zeros_like(gradient)))
            first += np.float32(1 - self.beta1) * (gradient - first)
            second += np.float32(1 - self.beta2) * (gradient * gradient - second)
            parameters[name][...] -= np.float32(rate) * first / (np.sqrt(second) + np.float32(self.epsilon))


# The network


LAYER = ("weight_tensor", "recurrence_tensor", "bias_tensor")
"""The GRU's parameters, by their fields in the descs; the linear layer's are `to_logits` and `logits_bias`."""


def initial_parameters(hidden: int, rng: np.random.Generator) -> dict[str, Array]:
    """Random matrices and zero biases, on the host."""

    def uniform(bound: float, *sizes: int) -> Array:
        return rng.uniform(-bound, bound, sizes).astype(np.float32)

    # Sums over all units are kept near 1; a one-hot input takes a single column of W, whose entries may be near 1 themselves.
    return {
        "weight_tensor": uniform(1.0, 1, 1, 3 * hidden, SYMBOLS),
        "recurrence_tensor": uniform(hidden**-0.5, 1, 1, 3 * hidden, hidden),
        "bias_tensor": np.zeros((1, 1, 1, 6 * hidden), np.float32),
        "to_logits": uniform(hidden**-0.5, hidden, SYMBOLS),
        "logits_bias": np.zeros(SYMBOLS, np.float32),
    }


def layer_members(steps: int, batch: int, hidden: int) -> dict[str, Any]:
    """What `GRUDesc` and `GRUTrainingDesc` have in common: the training form is the same struct with a few more fields."""

    def tensor(*sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(data_type="FLOAT32", sizes=sizes)

    return {
        "input_tensor": tensor(1, steps, batch, SYMBOLS),
        "weight_tensor": tensor(1, 1, 3 * hidden, SYMBOLS),
        "recurrence_tensor": tensor(1, 1, 3 * hidden, hidden),
        "bias_tensor": tensor(1, 1, 1, 6 * hidden),
        "hidden_init_tensor": tensor(1, 1, batch, hidden),
        "activation_descs": [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
        "direction": "FORWARD",
        "linear_before_reset": True,  # one recurrent product a step instead of two
    }


class Trainer:
    """The network on a device, with memory for one window of characters.

    Args:
        device: as for `dmlpy.compile`.
        parameters: as from `initial_parameters`.
        batch: sequences side by side, B.
        window: characters of each, T.
    """

    def __init__(self, device: dml.Device, parameters: Mapping[str, Array], batch: int, window: int) -> None:
        self.device, self.parameters = device, parameters
        layer = dml.GRUTrainingDesc(**layer_members(window, batch, len(parameters["to_logits"]))).with_outputs(
            "output_sequence_tensor", "output_single_tensor", "reserve_tensor"
        )
        # The input is text and gets no gradient, and the first state is the window before's: here the gradient is cut, so its last
        # state has no upstream gradient either. What is not described is not computed.
        gradient = layer.gradient(*(f"{name.removesuffix('_tensor')}_gradient_tensor" for name in LAYER))
        gradient = gradient.replace(output_single_gradient_tensor=None)

        # A field of the same name is the same tensor: the gradient reads the input, W and R from where the layer reads them, and the
        # reserve from where the layer leaves it.
        tensors = {**layer.tensors(), **gradient.tensors()}
        self._memory = {name: device.from_host(np.zeros(tensor.sizes, np.float32)) for name, tensor in tensors.items()}
        self._forward, self._backward = self._bind(layer), self._bind(gradient)

    def _bind(self, desc: dml.OperatorDesc) -> dml.Dispatch:
        """Compiled and bound to the memory of its fields' names. Weights may change there from dispatch to dispatch, so none are packed."""
        inputs, outputs = (
            {field.name: self._memory[field.name] for field in fields if field.name in desc.tensors()}
            for fields in (desc.inputs(), desc.outputs())
        )
        return dml.compile(desc, self.device).bind(inputs, outputs)

    def _write(self, name: str, values: Array) -> None:
        memory = self._memory[name]
        if isinstance(memory, np.ndarray):
            memory[...] = values
        else:
            memory.set(values)

    def _read(self, name: str) -> Array:
        return self.device.to_host(self._memory[name])

    def gradients(self, symbols: Array, targets: Array) -> tuple[float, dict[str, Array]]:
        """The loss on a window, and its gradient by parameter. The state at the end of the window is kept for the next one.

        Args:
            symbols: [T, B].
            targets: the symbol after each of them, [T, B].
        """
        for name in LAYER:
            self._write(name, self.parameters[name])
        self._write("input_tensor", one_hot(symbols)[None])
        self._write("hidden_init_tensor", self._read("output_single_tensor"))
        self._forward()
        states = self._read("output_sequence_tensor")  # [T, 1, B, H]
        rows = states.reshape(targets.size, -1)
        loss, to_logits = cross_entropy(rows @ self.parameters["to_logits"] + self.parameters["logits_bias"], targets.reshape(-1))
        self._write("output_sequence_gradient_tensor", (to_logits @ self.parameters["to_logits"].T).reshape(states.shape))
        self._backward()
        found = {name: self._read(f"{name.removesuffix('_tensor')}_gradient_tensor") for name in LAYER}
        return loss, {**found, "to_logits": rows.T @ to_logits, "logits_bias": to_logits.sum(axis=0)}


def prepared(device: dml.Device, parameters: Mapping[str, Array], steps: int, batch: int, output: str) -> dml.PreparedOperator:
    """The plain DirectML struct with the trained weights packed: what runs after the training, with one of its outputs."""
    desc = dml.GRUDesc(**layer_members(steps, batch, len(parameters["to_logits"]))).with_outputs(output)
    return dml.compile(desc, device).prepare(**{name: device.from_host(parameters[name]) for name in LAYER})


def text_loss(device: dml.Device, parameters: Mapping[str, Array], text: Array, batch: int = 64) -> float:
    """Nats per character of a text, cut into `batch` parts of equal length (what is left over at its end is left out)."""
    symbols, targets = (array.T for array in parts(text, batch))
    layer = prepared(device, parameters, len(symbols), batch, "output_sequence_tensor")
    state = np.zeros((1, 1, batch, len(parameters["to_logits"])), np.float32)
    outputs = layer(input_tensor=device.from_host(one_hot(symbols)[None]), hidden_init_tensor=device.from_host(state))
    states = device.to_host(outputs.output_sequence_tensor).reshape(targets.size, -1)
    return cross_entropy(states @ parameters["to_logits"] + parameters["logits_bias"], targets.reshape(-1))[0]


def write_text(device: dml.Device, parameters: Mapping[str, Array], prompt: str, count: int, temperature: float, seed: int) -> str:
    """The prompt and `count` characters that the network adds, each drawn from its predictions."""
    rng = np.random.default_rng(seed)
    layer = prepared(device, parameters, 1, 1, "output_single_tensor")
    state = device.from_host(np.zeros((1, 1, 1, len(parameters["to_logits"])), np.float32))
    text = list(encode(prompt))
    for position in range(len(text) + count - 1):
        symbol = device.from_host(one_hot(np.array(text[position]))[None, None, None])
        state = layer(input_tensor=symbol, hidden_init_tensor=state).output_single_tensor
        if position + 1 == len(text):
            logits = device.to_host(state)[0, 0, 0] @ parameters["to_logits"] + parameters["logits_bias"]
            text.append(choose(softmax(logits), temperature, rng))
    return decode(np.array(text))


# The run


def train(device: dml.Device, parameters: Mapping[str, Array], steps: int, progress: Callable[[Curve], None]) -> Curve:
    """Changes the parameters in place.

    Args:
        device: where the operators run.
        parameters: as from `initial_parameters`.
        steps: updates, one for each window of BATCH * WINDOW characters.
        progress: is given the curve so far after each step.

    Raises:
        OSError: this Python was installed without its sources.
    """
    text, held_out = read_text()
    curve = Curve.of(text, held_out)
    curve.held_out[0] = text_loss(device, parameters, held_out)
    trainer, optimizer = Trainer(device, parameters, BATCH, WINDOW), Adam()
    for step in range(steps):
        start = time.perf_counter()
        loss, gradients = trainer.gradients(*window(text, step))
        clip_norm(gradients, LARGEST_NORM)
        optimizer.update(parameters, gradients, learning_rate(step, steps))
        curve.seconds += time.perf_counter() - start
        curve.training.append(loss)
        if evaluated(step, steps):
            curve.held_out[step + 1] = text_loss(device, parameters, held_out)
        progress(curve)
    return curve


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(arguments, "Trains a GRU to predict the next character of Python code.", target=1.75)
    parameters = initial_parameters(options.hidden, np.random.default_rng(options.seed))
    try:
        device = dml.device(options.device)
        options.output.mkdir(parents=True, exist_ok=True)
        with progress_bar(options.steps) as progress:
            curve = train(device, parameters, options.steps, progress)
        written = write_text(device, parameters, PROMPT, 400, TEMPERATURE, options.seed)
        reached = report(curve, f"GRU of {options.hidden} units", device.name, options, written)
    except (OSError, dml.DmlError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
