"""Computes the outputs of the stored model_* cases anew: the loss of a whole model, and PyTorch's gradients of its weights in float64.

    pip install torch numpy
    python tests/data/recompute_torch_model_cases.py [--write]

The layers are Keras 1's, written out in PyTorch's operations. A case holds the layers' arguments, the weights as dmlpy.keras lays them out
(gates along the first axis, in DirectML's order), and the uniform numbers that dropout is drawn from.
Prints the largest relative difference of each case, and fails above 1e-6. With --write the outputs are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import recompute  # type: ignore[import-not-found, unused-ignore]
import torch
from torch import Tensor

Arrays = dict[str, np.ndarray[Any, Any]]

ACTIVATIONS = {
    "linear": lambda x: x,
    "tanh": torch.tanh,
    "hard_sigmoid": lambda x: (0.2 * x + 0.5).clamp(0, 1),
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
}
GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}


def multipliers(rate: float, draws: Iterator[Tensor]) -> Tensor | float:
    """What dropout multiplies with."""
    return (next(draws) >= rate) / (1 - rate) if rate else 1.0


def step(kind: str, options: dict[str, Any], x: list[Tensor], h: list[Tensor], c: Tensor, u: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The next states. `x` and `h` are the input's product and the dropped state of each gate, `c` the state itself: h, or c in an LSTM."""
    f = ACTIVATIONS[options.get("inner_activation", "hard_sigmoid")]
    g = ACTIVATIONS[options.get("activation", "tanh")]
    if kind == "SimpleRNN":
        new = g(x[0] + h[0] @ u[0].T)
        return new, new
    if kind == "GRU":
        z, r = (f(x[gate] + h[gate] @ u[gate].T) for gate in (0, 1))
        new = z * c + (1 - z) * g(x[2] + (r * h[2]) @ u[2].T)
        return new, new
    i, o, forget = (f(x[gate] + h[gate] @ u[gate].T) for gate in (0, 1, 2))
    cell = forget * c + i * g(x[3] + h[3] @ u[3].T)
    return o * g(cell), cell


def recurrent(
    kind: str, options: dict[str, Any], weights: list[Tensor], x: Tensor, mask: Tensor | None, draws: Iterator[Tensor]
) -> tuple[Tensor, Tensor | None]:
    """The outputs of all steps in the order of reading, or of the last one."""
    gates, units = GATES[kind], options["output_dim"]
    w, u, b = (list(part.chunk(gates)) for part in weights)
    shape = (1, gates, x.shape[0])
    dropped_x = multipliers(options.get("dropout_W", 0), draws) * torch.ones(*shape, x.shape[2])
    dropped_h = multipliers(options.get("dropout_U", 0), draws) * torch.ones(*shape, units)
    h = c = output = torch.zeros(x.shape[0], units)
    outputs = []
    for t in reversed(range(x.shape[1])) if options.get("go_backwards") else range(x.shape[1]):
        inputs = [(x[:, t] * dropped_x[0, gate]) @ w[gate].T + b[gate] for gate in range(gates)]
        states = [h * dropped_h[0, gate] for gate in range(gates)]
        new_h, new_c = step(kind, options, inputs, states, c, u)
        kept = torch.ones(x.shape[0], 1, dtype=torch.bool) if mask is None else mask[:, t, None]
        h, c, output = torch.where(kept, new_h, h), torch.where(kept, new_c, c), torch.where(kept, new_h, output)
        outputs.append(output)
    return (torch.stack(outputs, 1), mask) if options.get("return_sequences") else (output, None)


def loss_of(name: str, y: Tensor, target: Tensor, mask: Tensor | None, sample_weight: Tensor | None) -> Tensor:
    """Keras 1's weighted loss."""
    if name == "mse":
        scores = ((y - target) ** 2).mean(-1)
    elif name == "binary_crossentropy":
        scores = -(target * y.log() + (1 - target) * (1 - y).log()).mean(-1)
    else:
        scores = -y.log().gather(-1, target.long()[..., None])[..., 0]
    if mask is not None:
        scores = scores * mask / mask.double().mean()
    if sample_weight is not None:
        scores = scores.flatten(1).mean(1) if scores.ndim > 1 else scores
        scores = scores * sample_weight / (sample_weight != 0).double().mean()
    return scores.mean()


def compute(attributes: dict[str, Any], inputs: Arrays) -> Arrays:
    """The loss of a case, and the gradients of its weights."""
    torch.set_default_dtype(torch.float64)
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    weights = {name: tensor.double().requires_grad_() for name, tensor in tensors.items() if name.startswith("weight.")}
    draws = iter(tensor.double() for name, tensor in tensors.items() if name.startswith("draws."))
    x, mask = tensors["x"], None
    penalty = torch.zeros(())
    for index, layer in enumerate(attributes["layers"]):
        kind, options = layer["class"], layer["arguments"]
        own = {name: weight for name, weight in weights.items() if name.startswith(f"weight.{index}.")}
        for name, weight in own.items():
            factors = options.get(f"{name[-1]}_regularizer", {"l1": 0, "l2": 0})
            penalty = penalty + factors["l1"] * weight.abs().sum() + factors["l2"] * (weight**2).sum()
        if kind == "Masking":
            mask = (x != 0).any(-1)
        elif kind == "Embedding":
            (rows,) = own.values()
            mask = x != 0 if options.get("mask_zero") else None
            factor = multipliers(options.get("dropout", 0), draws)
            x = (rows * factor[:, None] if isinstance(factor, Tensor) else rows)[x.long()]
        elif kind == "Dense":
            w, b = own.values()
            x = ACTIVATIONS[options.get("activation", "linear")](x @ w + b)
        else:
            x, mask = recurrent(kind, options, list(own.values()), x.double(), mask, draws)
    loss = loss_of(attributes["loss"], x, tensors["y"], mask, tensors.get("sample_weight")) + penalty
    loss.backward()
    gradients = {f"gradient.{name.removeprefix('weight.')}": weight.grad for name, weight in weights.items()}
    return {name: tensor.detach().numpy().astype(np.float32) for name, tensor in ({"loss": loss} | gradients).items() if tensor is not None}


if __name__ == "__main__":
    recompute.main(__doc__, f"PyTorch {torch.__version__}", "model_*", lambda entry, inputs: compute(entry["attributes"], inputs))
