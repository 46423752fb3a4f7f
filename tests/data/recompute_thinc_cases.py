"""Makes tests/data/thinc_lstm.npz anew: random models of Thinc's `LSTM.v1`, their results, and gradients, all of them by Thinc.

    pip install thinc torch numpy
    python tests/data/recompute_thinc_cases.py [--write]

Prints the largest difference of each case from the stored file, and fails above 1e-6. With --write the file is replaced.

`y` is what `LSTM.v1` gives for Ragged input with random first states. The gradients are those of Thinc's `PyTorchLSTM` with the same
weights and first states of zeros, one sequence after the other, since its backward direction begins in the padding. Those of `LSTM.v1`
itself are wrong (findings/thinc-lstm-gradients.sh). Where they are right they are stored too: `own_dx`, of models with one layer and one
direction, is that of all steps but each sequence's first.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from thinc.api import LSTM, NumpyOps, PyTorchLSTM, Ragged, with_padded

PATH = Path(__file__).parent / "thinc_lstm.npz"
CASES = 20
LIMIT = 1e-6
OPS = NumpyOps()

Array = np.ndarray[Any, Any]


def to_pytorch(flat: Array, inputs: int, units: int, depth: int, directions: int) -> Any:
    """Thinc's PyTorchLSTM with the weights of its LSTM, whose gates are f, i, o, c where PyTorch's are i, f, c, o."""
    import torch

    model = PyTorchLSTM(units * directions, inputs, bi=directions == 2, depth=depth)
    state, start = {}, 0
    for layer in range(depth):
        width = units * directions if layer else inputs
        for direction in range(directions):
            for name, shape in (("weight_ih", (width,)), ("bias_ih", ()), ("weight_hh", (units,)), ("bias_hh", ())):
                size = 4 * units * int(np.prod(shape))
                gates = flat[start : start + size].reshape(4, units, *shape)[[1, 0, 3, 2]]
                state[f"{name}_l{layer}{'_reverse' * direction}"] = torch.tensor(gates.reshape(4 * units, *shape))
                start += size
    network(model).load_state_dict(state)
    return model


def network(model: Any) -> Any:
    return model.layers[0].shims[0]._model


def flat_gradient(model: Any, units: int, depth: int, directions: int) -> Array:
    """The gradients of a PyTorchLSTM in the layout of LSTM's parameter."""
    named, parts = dict(network(model).named_parameters()), []
    for layer in range(depth):
        for direction in range(directions):
            for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh"):
                gates = named[f"{name}_l{layer}{'_reverse' * direction}"].grad.numpy()
                parts.append(gates.reshape(4, units, -1)[[1, 0, 3, 2]].ravel())
    return np.concatenate(parts)


def case(number: int) -> dict[str, Array]:
    """The arrays of a case."""
    rng = np.random.default_rng(number)
    directions, depth = 1 + number % 2, 1 + number // 2 % 3
    inputs, units = (int(size) for size in rng.integers(1, 6, 2))
    lengths = rng.integers(1, 8, rng.integers(1, 6)).astype(np.int32)
    lstm = LSTM(units * directions, inputs, bi=directions == 2, depth=depth).initialize()
    flat = rng.uniform(-1, 1, lstm.get_param("LSTM").shape).astype(np.float32)
    states = rng.uniform(-1, 1, lstm.get_param("HC0").shape).astype(np.float32)
    x = rng.standard_normal((int(lengths.sum()), inputs), np.float32)
    dy = rng.standard_normal((len(x), units * directions), np.float32)
    lstm.set_param("LSTM", flat)
    lstm.set_param("HC0", states)
    found = {"lengths": lengths, "LSTM": flat, "HC0": states, "x": x, "dy": dy, "y": with_padded(lstm).predict(Ragged(x, lengths)).data}
    model, dx = to_pytorch(flat, inputs, units, depth, directions), []
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        _, backprop = model([x[end - length : end]], True)
        dx += backprop([dy[end - length : end]])
    found |= {"dx": np.concatenate(dx), "dLSTM": flat_gradient(model, units, depth, directions)}
    if directions == depth == 1:
        lstm.set_param("HC0", np.zeros_like(states))
        _, backprop = with_padded(lstm)(Ragged(x, lengths), True)
        found["own_dx"] = backprop(Ragged(dy.copy(), lengths)).data
    return found


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the stored file")
    write = parser.parse_args().write
    made = {f"{number:02}.{name}": array for number in range(CASES) for name, array in case(number).items()}
    if write:
        np.savez_compressed(PATH, **made)
        return
    with np.load(PATH) as stored:
        if set(stored.files) != set(made):
            raise SystemExit("the stored file has other arrays")
        worst = {name: float(np.abs(stored[name] - array).max(initial=0)) for name, array in made.items()}
    for number in range(CASES):
        print(f"case {number:02}: {max(error for name, error in worst.items() if name.startswith(f'{number:02}.')):.1e}")
    if max(worst.values()) > LIMIT:
        raise SystemExit(f"the stored arrays differ from Thinc's by {max(worst.values()):.1e}")


if __name__ == "__main__":
    main()
