"""`lstm`, `gru`, `rnn` and single steps of them, over arrays, each with a function that returns the gradients too.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates (LSTM 4, GRU 3, RNN 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.flags import option_problems
from dmlpy.description.gate_order import GateOrder
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem
from dmlpy.nn.argument_names import NAMES
from dmlpy.nn.calls import Call, RecurrentGradients
from dmlpy.nn.layers import ACTIVATIONS, Layer

if TYPE_CHECKING:
    from dmlpy.devices import Device
    from dmlpy.nn.arrays import Array

Direction = Literal["forward", "backward", "bidirectional"]
Gates = Literal["cudnn", "onnx", "keras", "thinc"]

_DIRECTIONS: Mapping[str, RecurrentDirection] = {direction.name.lower(): direction for direction in RecurrentDirection}
_ORDERS: Mapping[str, GateOrder] = {
    "cudnn": GateOrder.CUDNN,
    "onnx": GateOrder.DIRECTML,
    "keras": GateOrder.KERAS,
    "thinc": GateOrder.THINC,
}
_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("torch", "pytorch"), "PyTorch's order is 'cudnn'"),
    **dict.fromkeys(("directml", "dml"), "DirectML's order is 'onnx'"),
    **dict.fromkeys(("tensorflow", "tf"), "the order of tf.keras is 'keras'"),
    "both": "did you mean bidirectional?",
    "reverse": "did you mean backward?",
}
"""Remedies for names that other libraries give to the choices."""


class LSTMResult(NamedTuple):
    """The result of `lstm`.

    Attributes:
        y: h of every step, [T, B, D H], the forward direction's units first; zero past a sequence's end.
        h: h after each sequence's last step, [B, H], with both directions [2, B, H].
        c: the same for the cell state.
    """

    y: Array
    h: Array
    c: Array


class RecurrentResult(NamedTuple):
    """The result of `gru` and `rnn`.

    Attributes:
        y: h of every step, [T, B, D H], the forward direction's units first; zero past a sequence's end.
        h: h after each sequence's last step, [B, H], with both directions [2, B, H].
    """

    y: Array
    h: Array


Backward = Callable[..., RecurrentGradients]
"""Takes the gradients of the results, in their order; None, or what is left out, counts as zeros."""


@NAMES.refuse_others
def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    gates: Gates = "cudnn",
    device: Device | str | None = None,
) -> LSTMResult:
    """Runs a long short-term memory layer.

    Args:
        x: the input of every step, [T, B, I], float32, float16 or bfloat16, like all arrays.
        w: the matrices that multiply x, [4 H, I]; with both directions [2, 4 H, I], the forward one first, likewise below.
        r: the matrices that multiply h, [4 H, H].
        b: the biases, [4 H], or [8 H] for those added to the products of w, then of r. None: zeros.
        h0: h before the first step, [B, H]; with both directions [2, B, H]. None: zeros.
        c0: the same for the cell state.
        lengths: how many steps of each sequence count, B integers from 0 to T. None: T. On a GPU, numbers outside count as T.
        direction: `forward`, `backward` or `bidirectional`. A backward direction begins at each sequence's own end.
        gates: the order of the gates in w, r and b: `cudnn` (also PyTorch: i, f, g, o), `onnx` (i, o, f, c), `keras` (i, f, c, o)
            or `thinc` (f, i, o, c).
        device: the device that runs it; None: the GPU that holds the arrays, in CuPy's current stream, or `cpu` for host memory.

    Returns:
        LSTMResult: y, h and c, arrays of x's library.

    Raises:
        DescError: arrays of wrong sizes or types, or on several devices; all problems at once.
        DeviceError: there is no such device.
    """
    return _lstm(x, w, r, b, h0, c0, lengths, direction, gates, device, keep=False)[0]


@NAMES.refuse_others
def lstm_vjp(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    gates: Gates = "cudnn",
    device: Device | str | None = None,
) -> tuple[LSTMResult, Backward]:
    """Runs `lstm`, and returns its result and the function `backward(dy, dh, dc)`, which computes the gradients.

    `backward` may be called several times, by one thread at a time, also after the arguments have changed.

    Returns:
        What `lstm` returns, and the function, which returns `RecurrentGradients`.
    """
    result, run = _lstm(x, w, r, b, h0, c0, lengths, direction, gates, device, keep=True)
    return result, run.backward


def _lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h0: Array | None,
    c0: Array | None,
    lengths: Any,
    direction: str,
    gates: str,
    device: Device | str | None,
    *,
    keep: bool,
) -> tuple[LSTMResult, Call]:
    arrays = {"x": x, "w": w, "r": r, "b": b, "h0": h0, "c0": c0}
    run = Call("lstm", _layer("lstm", "LSTM", direction), arrays, lengths, _order("lstm", gates), device, keep=keep)
    return LSTMResult(*run.results), run


@NAMES.refuse_others
def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    gates: Gates = "cudnn",
    reset_after: bool = True,
    device: Device | str | None = None,
) -> RecurrentResult:
    """Runs a layer of gated recurrent units.

    Args:
        x: the input of every step, [T, B, I], float32, float16 or bfloat16, like all arrays.
        w: the matrices that multiply x, [3 H, I]; with both directions [2, 3 H, I], the forward one first, likewise below.
        r: the matrices that multiply h, [3 H, H].
        b: the biases, [3 H], or [6 H] for those added to the products of w, then of r. None: zeros.
        h0: as for `lstm`, like `lengths`, `direction` and `device`.
        lengths: how many steps of each sequence count.
        direction: `forward`, `backward` or `bidirectional`.
        gates: the order of the gates: `cudnn` (also PyTorch: r, z, n); `onnx`, `keras` and `thinc` are z, r, h.
        reset_after: whether the reset gate multiplies the recurrent product, as in cuDNN, PyTorch and Keras, or h before it.
        device: the device that runs it.

    Returns:
        RecurrentResult: y and h, arrays of x's library.

    Raises:
        DescError: arrays of wrong sizes or types, or on several devices; all problems at once.
        DeviceError: there is no such device.
    """
    return _gru(x, w, r, b, h0, lengths, direction, gates, reset_after, device, keep=False)[0]


@NAMES.refuse_others
def gru_vjp(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    gates: Gates = "cudnn",
    reset_after: bool = True,
    device: Device | str | None = None,
) -> tuple[RecurrentResult, Backward]:
    """Runs `gru`, and returns its result and the function `backward(dy, dh)`, as `lstm_vjp` does."""
    result, run = _gru(x, w, r, b, h0, lengths, direction, gates, reset_after, device, keep=True)
    return result, run.backward


def _gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h0: Array | None,
    lengths: Any,
    direction: str,
    gates: str,
    reset_after: bool,
    device: Device | str | None,
    *,
    keep: bool,
) -> tuple[RecurrentResult, Call]:
    if problems := option_problems(reset_after=reset_after):
        raise DescError("gru", problems)
    layer = _layer("gru", "GRU", direction)._replace(reset_after=bool(reset_after))
    run = Call("gru", layer, {"x": x, "w": w, "r": r, "b": b, "h0": h0}, lengths, _order("gru", gates), device, keep=keep)
    return RecurrentResult(*run.results), run


@NAMES.refuse_others
def rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    activation: Literal["tanh", "relu"] = "tanh",
    device: Device | str | None = None,
) -> RecurrentResult:
    """Runs a simple recurrent layer: h[t] = activation(x[t] w^T + h[t-1] r^T + b).

    Args:
        x: the input of every step, [T, B, I], float32, float16 or bfloat16, like all arrays.
        w: the matrix that multiplies x, [H, I]; with both directions [2, H, I], the forward one first, likewise below.
        r: the matrix that multiplies h, [H, H].
        b: the bias, [H], or [2 H] for two that are added. None: zeros.
        h0: as for `lstm`, like `lengths`, `direction` and `device`.
        lengths: how many steps of each sequence count.
        direction: `forward`, `backward` or `bidirectional`.
        activation: `tanh` or `relu`.
        device: the device that runs it.

    Returns:
        RecurrentResult: y and h, arrays of x's library.

    Raises:
        DescError: arrays of wrong sizes or types, or on several devices; all problems at once.
        DeviceError: there is no such device.
    """
    return _rnn(x, w, r, b, h0, lengths, direction, activation, device, keep=False)[0]


@NAMES.refuse_others
def rnn_vjp(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    h0: Array | None = None,
    lengths: Sequence[int] | Array | None = None,
    direction: Direction = "forward",
    activation: Literal["tanh", "relu"] = "tanh",
    device: Device | str | None = None,
) -> tuple[RecurrentResult, Backward]:
    """Runs `rnn`, and returns its result and the function `backward(dy, dh)`, as `lstm_vjp` does."""
    result, run = _rnn(x, w, r, b, h0, lengths, direction, activation, device, keep=True)
    return result, run.backward


def _rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    h0: Array | None,
    lengths: Any,
    direction: str,
    activation: str,
    device: Device | str | None,
    *,
    keep: bool,
) -> tuple[RecurrentResult, Call]:
    layer = _layer("rnn", "RNN", direction)._replace(activation=_choice("rnn", "activation", activation, ACTIVATIONS))
    arrays = {"x": x, "w": w, "r": r, "b": b, "h0": h0}
    run = Call("rnn", layer, arrays, lengths, GateOrder.DIRECTML, device, keep=keep)
    return RecurrentResult(*run.results), run


def _layer(subject: str, cell: Literal["RNN", "GRU", "LSTM"], direction: str) -> Layer:
    return Layer(cell, _DIRECTIONS[_choice(subject, "direction", direction, _DIRECTIONS)])


def _order(subject: str, gates: str) -> GateOrder:
    return _ORDERS[_choice(subject, "gates", gates, _ORDERS)]


def _choice(subject: str, name: str, value: Any, choices: Any) -> str:
    if not isinstance(value, str) or value not in choices:
        expected = f"one of {', '.join(choices)}"
        remedy = _MEANT.get(str(value)) or did_you_mean(str(value), choices)
        problem = Problem("field.form", name, brief(value), expected, remedy=remedy)
        raise DescError(subject, [problem])
    return value


@NAMES.refuse_others
def lstm_cell(
    x: Array, h: Array, c: Array, w: Array, r: Array, b: Array | None = None, *, gates: Gates = "cudnn", device: Device | str | None = None
) -> tuple[Array, Array]:
    """Computes one step of `lstm`: the next h and c, [B, H] each, from x [B, I], h and c. The other arguments are those of `lstm`."""
    result = lstm(_of_one_step("lstm_cell", x), w, r, b, h0=h, c0=c, gates=gates, device=device)
    return result.h, result.c


@NAMES.refuse_others
def gru_cell(
    x: Array,
    h: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    *,
    gates: Gates = "cudnn",
    reset_after: bool = True,
    device: Device | str | None = None,
) -> Array:
    """Computes one step of `gru`: the next h, [B, H], from x [B, I] and h. The other arguments are those of `gru`."""
    return gru(_of_one_step("gru_cell", x), w, r, b, h0=h, gates=gates, reset_after=reset_after, device=device).h


def _of_one_step(subject: str, x: Array) -> Array:
    if len(getattr(x, "shape", (0, 0))) != 2:
        raise DescError(subject, [Problem("dims.support", "x", f"{len(x.shape)}-D {list(x.shape)}", "[batch, input size]")])
    return x[None] if hasattr(x, "shape") else x
