"""What dmlpy.thinc refuses, and its messages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tools import require

require("thinc")

import thinc.api as thinc
from thinc.types import Padded, Ragged

import dmlpy.thinc as dt
from dmlpy.thinc import layers

X = [np.zeros((4, 3), np.float32), np.zeros((2, 3), np.float32)]
FLAT, COUNTS = np.concatenate(X), np.array([4, 2], "i")
CUBE = np.zeros((4, 2, 3), np.float32)
OPS = thinc.NumpyOps()


def lstm(**given: Any) -> Any:
    return dt.LSTM(6, 3, **given).initialize()


def with_param(name: str, shape: tuple[int, ...]) -> Any:
    model = lstm()
    model.set_param(name, np.zeros(shape, np.float32))
    return model


def of_other_ops() -> Any:
    class OtherOps(thinc.NumpyOps):
        xp = SimpleNamespace(__name__="jax.numpy")

    model = lstm()
    model.ops = OtherOps()
    return model


def after(value: Any, upstream: Any) -> Any:
    """A backward pass: what is refused is known without a device's results."""
    return lstm()(value, True)[1](upstream)


LOADED = thinc.LSTM(8, 3).initialize().to_bytes()
CALLS: list[tuple[str, Callable[[], Any], str]] = [
    (
        "another layout",
        lambda: with_param("LSTM", (100,)).predict(X),
        r"LSTM is \[100\], expected \[264\].*\n.*nI is 3, nO is 6.*\n.*LSTM\.v1",
    ),
    ("other states", lambda: with_param("HC0", (2, 1, 6)).predict(X), r"HC0 is \[2, 1, 6\], expected \[2, 1, 1, 6\]"),
    ("a GRU's weights", lambda: dt.LSTM(6, 3).from_bytes(dt.GRU(6, 3).initialize().to_bytes()).predict(X), "LSTM is missing.*\n.*load"),
    ("not initialized", lambda: dt.LSTM(6, 3).predict(X), r"LSTM is missing, expected an array \[264\].*\n.*initialize"),
    ("other ops", lambda: of_other_ops().predict(X), "model.ops is OtherOps, expected ops of NumPy or CuPy"),
    ("another width", lambda: lstm().predict([np.zeros((4, 5), np.float32)]), r"X\[0\] is \[4, 5\], expected \[4, 3\]"),
    ("float64", lambda: lstm().predict([np.zeros((4, 3))]), r"X\[0\] is float64, expected float32.*\n.*X\[0\]\.astype"),
    ("lists in a list", lambda: lstm().predict([[1.0, 2.0]]), r"X\[0\] is \[1.0, 2.0\], expected an array \[steps, width\]"),
    ("a width of 0", lambda: dt.LSTM(0, 3), "nO is 0, expected an integer of at least 1"),
    ("widths that are not integers", lambda: dt.GRU(8.0, "3"), r"nO is 8.0, (.|\n)*nI is '3', expected an integer of at least 1"),
    ("a text for bi", lambda: dt.LSTM(8, 3, bi="no"), "bi is 'no', expected True or False"),
    ("a text for dropout", lambda: dt.LSTM(8, 3, dropout="0.1"), "dropout is '0.1', expected a number from 0 to 1"),
    ("unknown widths", lambda: dt.LSTM().initialize(), r"nO is unknown(.|\n)*nI is unknown(.|\n)*give nO and nI, or call model.initialize"),
    ("an unknown width in a call", lambda: dt.LSTM(8).predict(X), "nI is unknown, expected a width(.|\n)*give nI"),
    ("a tuple", lambda: lstm().predict((*X,)), r"X is .*\n.*make it a list: list\(X\)"),
    ("one sequence", lambda: thinc.with_array(lstm()).predict(X), r"X is .*\n.*a list of one array: \[X\]"),
    ("no model of PyTorch's", lambda: dt.from_pytorch(None), "model is None, expected with_padded"),
    ("a number", lambda: lstm().predict(3), "X is 3, expected a Padded, a Ragged, a list of arrays"),
    ("a matrix", lambda: lstm().predict(FLAT), r"X is .*, expected a Padded, a Ragged"),
    ("lengths of other rows", lambda: lstm().predict(Ragged(FLAT, np.array([4, 3], "i"))), "X.data is 6 rows, expected 7 rows"),
    (
        "negative lengths",
        lambda: lstm().predict(Ragged(FLAT, np.array([7, -1], "i"))),
        "X.lengths is int32.*expected integers of at least 0",
    ),
    ("lengths that are not integers", lambda: lstm().predict(Ragged(FLAT, np.array([4.0, 2.0]))), "X.lengths is float64"),
    ("too long", lambda: lstm().predict(Padded(CUBE, np.array([2] * 4), np.array([5, 3]), np.arange(2))), r"X\.lengths is \[5, 3\]"),
    (
        "other sizes",
        lambda: lstm().predict(Padded(CUBE, np.array([2] * 4), np.array([4, 2]), np.arange(2))),
        "size_at_t is sum 8, expected sum 6",
    ),
    ("another form of gradient", lambda: after(X, FLAT), "dY is .*, expected a list of 2 arrays, as X is"),
    ("too few gradients", lambda: after(X, X[:1]), "dY is a list of 1, expected a list of 2 arrays"),
    ("a gradient of X's width", lambda: after(X, X), r"dY\[0\] is \[4, 3\], expected \[4, 6\]"),
    ("a list for a Ragged", lambda: after(Ragged(FLAT, COUNTS), X), "dY is .*, expected a Ragged, as X is"),
    ("other lengths", lambda: after(Ragged(FLAT, COUNTS), Ragged(FLAT, COUNTS[::-1])), r"dY.lengths is \[2, 4\], expected \[4, 2\]"),
    ("no training pass", lambda: lstm()(X, False)[1](X), "is_train is False.*\n.*begin_update"),
    ("depth", lambda: dt.LSTM(6, 3, depth=0), "depth is 0, expected an integer of at least 1"),
    ("an odd width", lambda: dt.GRU(5, 3, bi=True), "nO is 5, expected an even number"),
    ("an odd width of the data", lambda: dt.GRU(bi=True).initialize(X, [np.zeros((4, 5), "f")]), "nO is 5, expected an even number"),
    ("dropout", lambda: dt.RNN(5, 3, dropout=1.5), "dropout is 1.5, expected a number from 0 to 1"),
    ("activation", lambda: dt.RNN(5, 3, activation="gelu"), "activation is 'gelu', expected 'tanh' or 'relu'"),
    (
        "torch.nn's names",
        lambda: cast(Any, dt.LSTM)(input_size=3, hidden_size=6, num_layers=2, bidirectional=True, batch_first=True),
        r"LSTM: 5 problems(.|\n)*input_size(.|\n)*nI(.|\n)*hidden_size(.|\n)*nO(.|\n)*depth(.|\n)*bi(.|\n)*\[steps, batch, width\]",
    ),
    ("a GRU's nonlinearity", lambda: cast(Any, dt.GRU)(6, 3, nonlinearity="relu"), "nonlinearity.*not an argument(.|\n)*only RNN"),
    ("an RNN's", lambda: cast(Any, dt.RNN)(6, 3, nonlinearity="relu"), "nonlinearity.*not an argument(.|\n)*did you mean activation"),
    ("a misspelt name", lambda: cast(Any, dt.RNN)(6, 3, dropuot=0.1), "dropuot(.|\n)*dropout"),
    ("an encoder's width", lambda: dt.BiLSTMEncoder(5, 1, 0.0), "nO is 5, expected an even number"),
    ("nothing of PyTorch", lambda: dt.from_pytorch(lstm()), "model is 'lstm', expected with_padded"),
    ("no recurrent model", lambda: dt.to_pytorch(thinc.Linear(3, 3).initialize()), "model is 'linear', expected an initialized LSTM"),
]


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device without compiled kernels."""
    monkeypatch.setattr(layers, "find_device", lambda name: dml.device("numpy"))


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_refused(call: Callable[[], Any], message: str) -> None:
    if "PyTorch" in message or "with_padded" in message:
        require("torch")
    with pytest.raises(dml.DescError, match=message):
        call()


def test_weights_of_other_sizes_are_not_loaded_silently() -> None:
    with pytest.raises((dml.DescError, ValueError), match="nO"):
        dt.LSTM(6, 3).from_bytes(LOADED).predict(X)


def test_first_states_that_pytorch_lacks() -> None:
    require("torch")
    model = lstm()
    model.set_param("HC0", np.ones((2, 1, 1, 6), np.float32))
    with pytest.raises(dml.DescError, match="one whose first states are not zero"):
        dt.to_pytorch(model)
