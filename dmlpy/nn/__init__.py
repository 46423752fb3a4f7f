"""Layers as functions on arrays of NumPy, CuPy, PyTorch, JAX, or of any library with DLPack.

    y, h, c = dmlpy.nn.lstm(x, w, r, b, lengths=[40, 37, 12], direction="bidirectional")
    (y, h, c), backward = dmlpy.nn.lstm_vjp(x, w, r, b)
    gradients = backward(dy)  # gradients.x, gradients.w, ...

The device that holds the arrays runs a function: the device `cpu` for host memory, CUDA for a GPU, in CuPy's current stream. Results are
arrays of the library of x. Equal sizes are compiled once; the buffers of a call serve the next one of the same sizes, and `free_buffers`
frees them.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from dmlpy.nn.calls import RecurrentGradients
from dmlpy.nn.layers import free_buffers, idle_bytes
from dmlpy.nn.normalization import BatchNormGradients, BatchNormResult, batch_norm, batch_norm_vjp
from dmlpy.nn.recurrent import (
    LSTMResult,
    RecurrentResult,
    gru,
    gru_cell,
    gru_vjp,
    lstm,
    lstm_cell,
    lstm_vjp,
    rnn,
    rnn_vjp,
)

__all__ = [
    "BatchNormGradients",
    "BatchNormResult",
    "LSTMResult",
    "RecurrentGradients",
    "RecurrentResult",
    "batch_norm",
    "batch_norm_vjp",
    "free_buffers",
    "gru",
    "gru_cell",
    "gru_vjp",
    "idle_bytes",
    "lstm",
    "lstm_cell",
    "lstm_vjp",
    "rnn",
    "rnn_vjp",
]

if not _TYPE_CHECKING:  # a type checker would take every name to exist

    def __getattr__(name: str) -> object:
        from dmlpy.messages.naming import unknown_attribute

        raise AttributeError(unknown_attribute(__name__, name, __all__), name=name)
