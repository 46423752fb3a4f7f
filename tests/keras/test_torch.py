"""`from_torch`: layers like PyTorch's modules, compared with the modules themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, SimpleRNN, from_torch
from dmlpy.keras.backend import Backend
from tests.support.keras.cases import Array, trained
from tests.support.tolerance import assert_close
from tests.support.tools import require

require("torch")

import torch
from torch import nn

BATCH, STEPS, INPUT, HIDDEN = 3, 5, 4, 6
KINDS: dict[str, Any] = {
    "RNN": lambda **more: nn.RNN(INPUT, HIDDEN, **more),
    "RNN, relu": lambda **more: nn.RNN(INPUT, HIDDEN, nonlinearity="relu", **more),
    "GRU": lambda **more: nn.GRU(INPUT, HIDDEN, **more),
    "LSTM": lambda **more: nn.LSTM(INPUT, HIDDEN, **more),
}


def module(name: str, **more: Any) -> Any:
    torch.manual_seed(3)
    return KINDS[name](**more)


def inputs(width: int = INPUT) -> Array:
    return np.random.default_rng(0).standard_normal((BATCH, STEPS, width)).astype(np.float32)


def built(layer: Any) -> Any:
    layer.build(layer.input_shape, Backend("numpy"))
    return layer


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_modules(name: str, bidirectional: bool, batch_first: bool) -> None:
    theirs = module(name, bidirectional=bidirectional, batch_first=batch_first)
    x = inputs()
    given = torch.from_numpy(x if batch_first else x.swapaxes(0, 1).copy()).requires_grad_()
    output = theirs(given)[0]
    upstream = np.random.default_rng(1).standard_normal((BATCH, STEPS, output.shape[2])).astype(np.float32)
    output.backward(torch.from_numpy(upstream if batch_first else upstream.swapaxes(0, 1).copy()))

    mine = built(from_torch(theirs))
    found = trained(mine, x, None, upstream)
    assert given.grad is not None
    expected, slope = output.detach().numpy(), given.grad.numpy()
    if not batch_first:
        expected, slope = expected.swapaxes(0, 1), slope.swapaxes(0, 1)
    assert_close(found.output, expected, np.float32, terms=HIDDEN)
    assert_close(found.input_gradient, slope, np.float32, terms=STEPS * HIDDEN)
    # A state dict does not have an RNN's activation.
    entries = {f"encoder.{key}": value for key, value in theirs.state_dict().items()}
    state = from_torch(entries, prefix="encoder.", nonlinearity="relu" if "relu" in name else "tanh")
    np.testing.assert_array_equal(trained(built(state), x, None).output, found.output)


def test_kinds() -> None:
    assert isinstance(from_torch(module("RNN")), SimpleRNN)
    gru = from_torch(module("GRU"), return_sequences=False)
    assert isinstance(gru, GRU)
    assert gru.reset_after
    assert not gru.return_sequences
    assert isinstance(from_torch(module("LSTM")), LSTM)
    assert isinstance(from_torch(module("LSTM", bidirectional=True)), Bidirectional)


def test_stacked_layers_are_taken_one_by_one() -> None:
    theirs = nn.GRU(INPUT, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
    found: Any = inputs()
    for layer in range(2):
        found = built(from_torch(theirs, layer=layer))(found)
    assert_close(found, theirs(torch.from_numpy(inputs()))[0].detach().numpy(), np.float32, terms=2 * HIDDEN)


def test_states_of_a_stateful_layer_go_on() -> None:
    theirs = module("LSTM", batch_first=True)
    mine = built(from_torch(theirs, stateful=True, batch_size=BATCH))
    expected = theirs(torch.from_numpy(inputs()))[0].detach().numpy()
    found = [np.array(mine(inputs()[:, part])) for part in (slice(0, 2), slice(2, STEPS))]
    assert_close(np.concatenate(found, axis=1), expected, np.float32, terms=HIDDEN)


def test_other_types_become_float32() -> None:
    theirs = module("GRU", batch_first=True, dtype=torch.float64)
    expected = theirs(torch.from_numpy(inputs()).double())[0].detach().numpy()
    assert_close(trained(built(from_torch(theirs)), inputs(), None).output, expected, np.float32, terms=HIDDEN)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_module_without_biases_has_biases_of_zeros(kind: str, bidirectional: bool) -> None:
    theirs = module(kind, batch_first=True, bias=False, bidirectional=bidirectional)
    mine = built(from_torch(theirs))
    assert_close(mine(inputs()), theirs(torch.from_numpy(inputs()))[0].detach().numpy(), np.float32, terms=HIDDEN)
    assert [weight.value.any() for weight in mine.weights if weight.name.endswith("b")] == [False] * (1 + bidirectional)


def without(theirs: nn.Module, name: str) -> dict[str, Any]:
    """A state dict that lacks an entry."""
    return {key: value for key, value in theirs.state_dict().items() if key != name}


@pytest.mark.parametrize(
    ("make", "problems"),
    [
        (lambda: from_torch(nn.GRU(4, 6, num_layers=3)), [("num_layers", "import.option")]),
        (lambda: from_torch(nn.GRU(4, 6, num_layers=2), layer=2), [("layer", "field.form")]),
        (lambda: from_torch(nn.LSTM(4, 6, proj_size=2)), [("weight_hr_l0", "import.option")]),
        (lambda: from_torch(without(nn.GRU(4, 6), "bias_hh_l0")), [("bias_hh_l0", "import.missing")]),
        (lambda: from_torch(without(nn.GRU(4, 6), "weight_hh_l0")), [("weight_hh_l0", "import.missing")]),
        (lambda: from_torch(nn.Linear(4, 6)), [("source", "import.kind")]),
        (lambda: from_torch(nn.GRU(4, 6).state_dict(), prefix="encoder."), [("source", "import.missing")]),
        (lambda: from_torch(nn.RNN(4, 6).state_dict(), nonlinearity="elu"), [("nonlinearity", "field.form")]),
        (lambda: from_torch(3), [("source", "import.kind")]),
    ],
)
def test_refused_by_name(make: Any, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(dml.DescError) as caught:
        make()
    assert [(problem.path, problem.code) for problem in caught.value.problems] == problems
