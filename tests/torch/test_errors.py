"""What dmlpy.torch refuses, and its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tools import require

require("torch")

import torch
from torch.nn.utils.rnn import pack_padded_sequence

import dmlpy.torch as dt

X, H = torch.zeros(5, 3, 4), torch.zeros(1, 3, 6)
PACKED = pack_padded_sequence(torch.zeros(5, 3, 7), torch.tensor([5, 4, 1]))
FLOATS = r"expected torch\.float32, torch\.float16 or torch\.bfloat16"

CALLS: list[tuple[str, Callable[[], Any], str]] = [
    ("double input", lambda: dt.LSTM(4, 6)(X.double()), rf"input is torch\.float64, {FLOATS}.*\n.*input\.to\(torch\.float32\)"),
    ("bfloat16 input", lambda: dt.LSTM(4, 6)(X.bfloat16()), r"input is torch\.bfloat16, expected torch\.float32"),
    ("integers", lambda: dt.LSTM(4, 6)(X.long()), rf"input is torch\.int64, {FLOATS}"),
    ("complex", lambda: dt.LSTM(4, 6)(X.to(torch.complex64)), rf"input is torch\.complex64, {FLOATS}"),
    ("double module", lambda: dt.LSTM(4, 6).double()(X), rf"the parameter is torch\.float64, {FLOATS}"),
    (
        "two types",
        lambda: dt.LSTM(4, 6).half()(X),
        r"input is torch\.float32, expected torch\.float16.*\n.*\n.*input\.to\(torch\.float16\)",
    ),
    ("types of the states", lambda: dt.GRU(4, 6)(X, H.half()), r"hx is torch\.float16, expected torch\.float32"),
    ("no tensor", lambda: dt.GRU(4, 6)(X.numpy()), r"input is an ndarray, expected a torch\.Tensor.*\n.*torch\.as_tensor\(input\)"),
    ("no input", lambda: dt.GRU(4, 6)(None), "input is a NoneType"),
    ("another device", lambda: dt.GRU(4, 6)(X.to("meta")), "input is on meta, expected a tensor on cpu"),
    ("no memory", lambda: dt.GRU(4, 6, device="meta")(X.to("meta")), "the parameter is on meta, expected a tensor on the CPU"),
    ("sparse input", lambda: dt.LSTM(4, 6)(X.to_sparse()), r"input is of layout torch\.sparse_coo, .*\n.*input\.to_dense\(\)"),
    ("sparse rows", lambda: dt.GRU(4, 6)(X[0].to_sparse_csr()), r"input is of layout torch\.sparse_csr, expected a dense torch\.Tensor"),
    ("sparse state", lambda: dt.GRU(4, 6)(X, H.to_sparse()), r"hx is of layout torch\.sparse_coo"),
    ("nested input", lambda: dt.GRU(4, 6)(torch.nested.nested_tensor([X[0], X[1]])), r"input is a nested tensor.*\n.*pack_sequence\("),
    ("sparse params", lambda: function_call(params=torch.zeros(624).to_sparse()), r"params is of layout torch\.sparse_coo"),
    ("short parameter", lambda: replaced(dt.GRU(4, 6), 7)(X), r"the parameter is \[7\], expected \[216\]"),
    ("short matrices", lambda: replaced(dt.GRU(4, 6, bias=False), 7)(X, H), r"the parameter is \[7\], expected \[180\]"),
    ("one dimension", lambda: dt.GRU(4, 6)(X[0, 0]), r"input is 1-D \[4\], expected \[T, B, input_size\] or \[T, input_size\]"),
    ("four dimensions", lambda: dt.GRU(4, 6, batch_first=True)(X[None]), r"input is 4-D .* expected \[B, T, input_size\]"),
    ("input size", lambda: dt.GRU(4, 6)(torch.zeros(5, 3, 7)), r"input\.shape\[2\] is 7, expected 4"),
    ("packed input size", lambda: dt.GRU(4, 6)(PACKED), r"input\.shape\[1\] is 7, expected 4"),
    ("packed batch", lambda: dt.GRU(7, 6)(PACKED, H[:, :2]), r"hx is \[1, 2, 6\], expected \[1, 3, 6\]"),
    ("batch of the state", lambda: dt.GRU(4, 6)(X, H[:, :2]), r"hx is \[1, 2, 6\], expected \[1, 3, 6\]"),
    ("2-D state", lambda: dt.GRU(4, 6)(X, H[:, 0]), r"hx is \[1, 6\], expected \[1, 3, 6\]"),
    ("3-D state of one sample", lambda: dt.GRU(4, 6)(X[:, 0], H[:, :1]), r"hx is \[1, 1, 6\], expected \[1, 6\]"),
    ("cell state", lambda: dt.LSTM(4, 6, proj_size=2)(X, (H[:, :, :2],) * 2), r"hx\[1\] is \[1, 3, 2\], expected \[1, 3, 6\]"),
    ("one state of two", lambda: dt.LSTM(4, 6)(X, H), "hx is .*expected two tensors"),
    ("three states", lambda: dt.LSTM(4, 6)(X, (H, H, H)), "hx is a tuple of 3 tensors, expected two tensors"),
    ("two problems", lambda: dt.GRU(4, 6)(torch.zeros(5, 3, 7), H[:, :2]), "GRU: 2 problems"),
    ("no inputs", lambda: dt.GRU(0, 6), "input_size is 0, expected an integer of at least 1"),
    ("hidden_size text", lambda: dt.GRU(4, "6"), "hidden_size is '6', expected an integer"),
    ("no layers", lambda: dt.GRU(4, 6, num_layers=0), "num_layers is 0"),
    ("large projection", lambda: dt.LSTM(4, 6, proj_size=6), "proj_size is 6, expected less than hidden_size = 6"),
    ("dropout of all", lambda: dt.LSTM(4, 6, 2, dropout=1.0), "dropout is 1.0, expected a number of at least 0, below 1"),
    ("dropout NaN", lambda: dt.LSTM(4, 6, 2, dropout=float("nan")), "dropout is nan"),
    ("bias number", lambda: dt.LSTM(4, 6, bias=1), "bias is 1, expected True or False"),
    ("double", lambda: dt.LSTM(4, 6, dtype=torch.float64), rf"dtype is torch\.float64, {FLOATS}"),
    ("NumPy's type", lambda: dt.LSTM(4, 6, dtype=np.float16), r"dtype is <class 'numpy\.float16'>(.|\n)*pass dtype=torch\.float16"),
    ("a type's name", lambda: dt.LSTM(4, 6, dtype="bfloat16"), r"dtype is bfloat16, (.|\n)*pass dtype=torch\.bfloat16"),
    ("dmlpy's device", lambda: dt.GRU(4, 6, device=dml.device("cpu")), r"device is <dmlpy device cpu>, expected a torch\.device"),
    ("a device's name", lambda: dt.GRU(0, 6, device="numpy"), r"2 problems(.|\n)*device is 'numpy', (.|\n)*a module runs where"),
    ("no argument", lambda: dt.LSTM(4, 6, b=True, layers=2), r"LSTM: 2 problems(.|\n)*mean bias\?(.|\n)*mean num_layers\?"),
    ("Keras's name", lambda: dt.GRU(4, units=6), r"units is not an argument of this module(.|\n)*mean hidden_size\?"),
    ("a GRU's projection", lambda: dt.GRU(4, 6, proj_size=2), r"proj_size is not an argument(.|\n)*only LSTM has"),
    ("an RNN's activation", lambda: dt.RNN(4, 6, activation="relu"), r"mean nonlinearity\?"),
    ("a GRU's activation", lambda: dt.GRU(4, 6, activation="relu"), "only RNN has"),
    ("nonlinearity", lambda: dt.RNN(4, 6, nonlinearity="sigmoid"), "nonlinearity is 'sigmoid', expected 'tanh' or 'relu'"),
    (
        "lengths of floats",
        lambda: function_call(sequence_lengths=torch.ones(3)),
        r"sequence_lengths is torch\.float32, expected a tensor of",
    ),
    ("lengths listed", lambda: function_call(sequence_lengths=[5, 5, 5]), "sequence_lengths is list"),
    ("params double", lambda: function_call(params=torch.zeros(624).double()), rf"params is torch\.float64, {FLOATS}"),
    ("params listed", lambda: function_call(params=[1.0]), "params is a list"),
    ("mode", lambda: function_call(rnn_mode="gru2"), "rnn_mode is 'gru2'"),
]


def replaced(module: Any, entries: int) -> Any:
    module.params = torch.nn.Parameter(torch.zeros(entries))
    return module


def function_call(**changed: Any) -> Any:
    arguments: dict[str, Any] = {"input": torch.zeros(5, 3, 4), "input_h": torch.zeros(2, 3, 6), "input_c": torch.zeros(2, 3, 6)}
    return dt.cudnn_rnn(**arguments | {"params": torch.zeros(624)} | changed)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("call", "message"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_what_does_not_fit_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()


COMPILES: list[tuple[str, dict[str, Any], str]] = [
    ("params size", {"params": torch.zeros(11)}, r"params\.sizes\[0\] is 11, expected params_size = 624"),
    ("lengths", {"sequence_lengths": torch.zeros(2, dtype=torch.int32)}, r"sequence_lengths\.sizes\[0\] is 2, expected batch_size = 3"),
    ("dropout", {"dropout": 1.0}, "dropout is 1, expected a number of at least 0, below 1"),
    ("projection", {"num_proj": 9}, "num_proj is 9"),
    ("no samples", {"input": torch.zeros(5, 0, 4)}, r"input\.sizes\[1\] is 0"),
]


@pytest.mark.parametrize(("changed", "message"), [row[1:] for row in COMPILES], ids=[row[0] for row in COMPILES])
def test_a_network_that_breaks_rules_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.CompileError, match=message):
        function_call(**changed)


@pytest.mark.parametrize("length", [-1, 6])
def test_lengths_on_the_host_are_checked(length: int) -> None:
    with pytest.raises(dml.BindError, match=rf"sequence_lengths\[2\] is {length}, expected 0 to 5"):
        function_call(sequence_lengths=torch.tensor([1, 5, length]))
