"""What dmlpy.nn refuses, and its messages."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import nn, x
from dmlpy.nn.argument_names import NAMES
from tests.support.tools import require

X, W, R, B = (np.zeros(shape, np.float32) for shape in ((5, 3, 4), (24, 4), (24, 6), (24,)))
H0 = np.zeros((3, 6), np.float32)
IMAGE = np.zeros((2, 3, 4), np.float32)
C = np.zeros(3, np.float32)


class OnGpu:
    """An array on a GPU, of which there is none here."""

    shape, dtype = (5, 3, 4), np.dtype(np.float32)

    def __init__(self, place: tuple[int, int] = (2, 0)) -> None:
        self.place = place

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no memory")

    def __dlpack_device__(self) -> Any:
        return self.place


class Odd:
    """What has an element type of its own, which cannot be compared with others."""

    shape, dtype = (5, 3, 4), ["float32"]


CALLS: list[tuple[str, Callable[[], Any], str]] = [
    ("one number too many", lambda: nn.lstm(X, W, R, lengths=[5, 3, 1, 1]), r"lengths is \[4\], expected \[3\]"),
    ("too long", lambda: nn.lstm(X, W, R, lengths=[5, 6, 1]), r"lengths\[1\] is 6, expected 0 to 5.*\n.*number of steps of x is 5"),
    ("negative", lambda: nn.lstm(X, W, R, lengths=np.array([5, -1, 1])), r"lengths\[1\] is -1, expected 0 to 5"),
    ("no integers", lambda: nn.lstm(X, W, R, lengths=[1.0, 2.0, 3.0]), "lengths is float64, expected 3 integers from 0 to 5"),
    ("no lengths", lambda: nn.lstm(X, W, R, lengths=[[1], [2, 3]]), "lengths is .*expected 3 integers"),
    (
        "float64",
        lambda: nn.lstm(X.astype(float), W, R),
        r"x is float64, expected float32, float16 or.*\n.*x\.astype\(numpy\.float32\)",
    ),
    (
        "two types",
        lambda: nn.lstm(X, W.astype(np.float16), R),
        r"w is float16, expected float32.*\n.*x is float32.*\n.*w\.astype\(x\.dtype\)",
    ),
    ("bits", lambda: nn.lstm(X.astype(np.uint16), W, R), r"x is uint16, expected float32.*\n.*x\.view\(ml_dtypes\.bfloat16\)"),
    ("integers", lambda: nn.lstm(X.astype(int), W, R), "x is int64, expected float32, float16 or bfloat16"),
    ("a list", lambda: nn.lstm(X.tolist(), W, R), r"x is \[\[\[.*expected an array of NumPy, CuPy.*\n.*make it an array: numpy\.asarray"),
    ("nothing", lambda: nn.lstm(None, W, R), "x is None, expected an array of NumPy"),
    ("an odd type", lambda: nn.lstm(Odd(), W, R), "x is .*expected an array of NumPy"),
    ("masked", lambda: nn.lstm(np.ma.masked_array(X), W, R), "x is .*expected an array of NumPy"),
    ("no steps' axis", lambda: nn.lstm(X[0], W, R), r"x is 2-D \[3, 4\], expected \[steps, batch, input size\]"),
    ("transposed", lambda: nn.lstm(X, W.T, R), r"w is \[4, 24\], expected \[24, 4\].*\n.*4 gates of H = 6.*\n.*w\.T"),
    (
        "Keras's matrices",
        lambda: nn.lstm(X, W.T, R.T),
        r"w is \[4, 24\], expected \[24, 4\]\s.*\n.*H = 6 rows.*transposed\n.*w\.T, .*gates='keras'\n.*r is \[6, 24\](.*\n){2}.*pass r\.T",
    ),
    (
        "Keras's matrices of two directions",
        lambda: nn.lstm(X, W[None].repeat(2, 0), R.T[None].repeat(2, 0), direction="bidirectional"),
        r"1 problem\n.*r is \[2, 6, 24\], expected \[2, 24, 6\](.*\n){3}.*pass r\.swapaxes\(1, 2\)",
    ),
    (
        "Keras's two biases",
        lambda: nn.gru(X, W[:18], R[:18], np.zeros((2, 18), np.float32)),
        r"expected \[18\] or \[36\](.*\n){2}.*b\.reshape\(36\)",
    ),
    (
        "PyTorch's state",
        lambda: nn.lstm(X, W, R, h0=H0[None]),
        r"h0 is \[1, 3, 6\].*\n.*B is the batch of x, H = 6 .*\n.*h0\.reshape\(3, 6\)",
    ),
    ("another input size", lambda: nn.gru(X, np.zeros((18, 5), np.float32), R[:18]), r"w is \[18, 5\], expected \[18, 4\]"),
    ("gates of another cell", lambda: nn.gru(X, W, R), r"w is \[24, 4\], expected \[18, 4\].*\n.*3 gates of H = 6 rows"),
    ("a bias of three parts", lambda: nn.lstm(X, W, R, np.zeros(72, np.float32)), r"b is \[72\], expected \[24\] or \[48\]"),
    ("no axis of directions", lambda: nn.lstm(X, W, R, direction="bidirectional"), r"w is \[24, 4\], expected \[2, 24, 4\]"),
    ("an axis of directions", lambda: nn.lstm(X, W[None], R[None]), r"w is \[1, 24, 4\], expected \[24, 4\](.*\n){2}.*w\.reshape\(24, 4\)"),
    ("states of another batch", lambda: nn.lstm(X, W, R, B, h0=H0[:2], c0=H0), r"h0 is \[2, 6\], expected \[3, 6\]"),
    ("no units", lambda: nn.rnn(X, np.zeros((0, 4), np.float32), np.zeros((0, 0), np.float32)), "expected at least one unit"),
    (
        "a direction",
        lambda: nn.lstm(X, W, R, direction="both"),
        "direction is 'both', expected one of forward, backward, bidirectional.*\n.*bidirectional",
    ),
    ("an order of gates", lambda: nn.lstm(X, W, R, gates="cuddn"), "gates is 'cuddn', expected one of cudnn.*\n.*cudnn"),
    (
        "PyTorch's order of gates",
        lambda: nn.lstm(X, W, R, gates="torch"),
        "gates is 'torch', expected one of cudnn.*\n.*PyTorch's order is 'cudnn'",
    ),
    ("an activation", lambda: nn.rnn(X, W[:6], R[:6], activation="gelu"), "activation is 'gelu', expected one of tanh, relu"),
    ("a text for a truth", lambda: nn.gru(X, W[:18], R[:18], reset_after="no"), "reset_after is 'no', expected True or False"),
    ("a step", lambda: nn.lstm_cell(X, H0, H0, W, R), r"x is 3-D \[5, 3, 4\], expected \[batch, input size\]"),
    ("a bias by another name", lambda: nn.lstm(X, W, R, bias=B), r"lstm: 1 problem\n.*bias is not an argument of this.*\n.*mean b\?"),
    ("only other names", lambda: nn.gru_vjp(input=X, W=W, R=R), r"gru_vjp: 3 problems(.|\n)*mean x\?(.|\n)*mean w\?(.|\n)*mean r\?"),
    ("a state of a step", lambda: nn.lstm_cell(X[0], hx=H0, cx=H0, w=W, r=R), r"2 problems(.|\n)*mean h\?(.|\n)*mean c\?"),
    ("a state", lambda: nn.gru(X, W[:18], R[:18], hx=H0), r"hx is not an argument(.|\n)*mean h0\?"),
    ("a mask", lambda: nn.rnn(X, W[:6], R[:6], mask=[1]), r"mask is not an argument.*\n.*pass lengths"),
    ("a misspelt name", lambda: nn.rnn(X, W[:6], R[:6], activatoin="relu"), r"mean activation\?"),
    ("a name like no other", lambda: nn.rnn(X, W[:6], R[:6], qqqqqq=1), r"qqqqqq is not an argument.*\[field\.unknown\]$"),
    (
        "names of PyTorch's normalization",
        lambda: nn.batch_norm(IMAGE, weight=C, bias=C, eps=1e-3, running_mean=C),
        r"3 problems(.|\n)*mean scale\?(.|\n)*mean epsilon\?(.|\n)*mean mean\?",
    ),
    ("two devices", lambda: nn.lstm(X, OnGpu(), R), "w is on cuda:0, expected on the CPU.*\n.*x is there"),
    ("another kind of memory", lambda: nn.lstm(OnGpu((10, 0)), OnGpu((10, 0)), OnGpu((10, 0))), "x is on a DLPack device of type 10"),
    ("dy's sizes", lambda: nn.lstm_vjp(X, W, R, device="numpy")[1](X), r"dy is \[5, 3, 4\], expected \[5, 3, 6\]"),
    (
        "dc of a GRU",
        lambda: nn.gru_vjp(X, W[:18], R[:18], device="numpy")[1](None, None, H0),
        "dc is given, expected None.*\n.*gru has no cell state",
    ),
    ("channels", lambda: nn.batch_norm(IMAGE, C[:2], C), r"scale is \[2\], expected \[3\].*\n.*x has 3 channels"),
    ("one statistic", lambda: nn.batch_norm(IMAGE, C, C, mean=C), r"variance is None, expected an array \[3\]"),
    ("no channels", lambda: nn.batch_norm(C, C, C), r"x is 1-D \[3\], expected \[N, C, \.\.\.\]"),
    ("epsilon", lambda: nn.batch_norm(IMAGE, C, C, epsilon=-1), "epsilon is -1, expected a number of at least 0"),
    (
        "dy of another type",
        lambda: nn.batch_norm_vjp(IMAGE, C, C, device="numpy")[1](IMAGE.astype(np.float16)),
        r"dy is float16 \[2, 3, 4\], expected float32",
    ),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()


def test_arguments_that_have_to_be_named() -> None:
    named = "takes x, w, r, b by position, but 5 values were passed; by name: h0, lengths, direction, activation, device"
    with pytest.raises(TypeError, match=f"^rnn {named}$"):
        nn.rnn(X, W[:6], R[:6], B[:6], H0)  # type: ignore[call-overload, misc, unused-ignore]
    with pytest.raises(TypeError, match=r"^input at .*test_errors.py:\d+ takes name, tensor, data_type by position, but 4 values"):
        x.input("x", [2], "FLOAT32", True)


def test_the_arguments_that_remedies_name_exist() -> None:
    arguments = {name for function in nn.__all__ if function[0].islower() for name in signature(getattr(nn, function)).parameters}
    assert {argument for meant in NAMES._meanings.values() for argument in meant} <= arguments


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(dml.DescError, match="3 problems"):
        nn.lstm(X, W[:, :3], R, B[:3], h0=H0[:1])


def test_sizes_that_were_refused_are_refused_again() -> None:
    """Checks of sizes are remembered, with and without problems."""
    messages = set()
    for _ in range(2):
        assert nn.lstm(X, W, R).y.shape == (5, 3, 6)
        with pytest.raises(dml.DescError, match=r"w is \[24, 3\], expected \[24, 4\]") as error:
            nn.lstm(X, W[:, :3], R)
        messages.add(str(error.value))
    assert len(messages) == 1


def test_arrays_on_a_gpu_that_is_not_there() -> None:
    if any(device.name.startswith("cuda:") for device in dml.list_devices()):
        pytest.skip("there is a GPU")
    with pytest.raises(dml.DeviceError, match="cuda"):
        nn.lstm(OnGpu(), OnGpu(), OnGpu())


def test_a_device_of_other_memory() -> None:
    require("g++")
    with pytest.raises(dml.DescError, match="device is cuda-emulated, expected a device for"):
        nn.lstm(X, W, R, device="cuda-emulated")


def test_tensors_that_autograd_tracks() -> None:
    require("torch")
    import torch

    given = [torch.from_numpy(array) for array in (X, W, R)]
    with pytest.raises(dml.DescError, match=r"w is a Tensor whose memory cannot be shared.*(\n.*)*w\.detach\(\), or use dmlpy\.torch"):
        nn.lstm(given[0], given[1].clone().requires_grad_(), given[2])
