"""Recurrent layers for Thinc and spaCy: `LSTM`, `GRU` and `RNN` in place of Thinc's `LSTM` and `PyTorchLSTM`.

    pip install 'dmlpy[thinc]'

In a config they are `dmlpy.LSTM.v1`, `dmlpy.GRU.v1` and `dmlpy.RNN.v1` of `@layers`, and `dmlpy.BiLSTMEncoder.v1` of spaCy's
`@architectures`. They take Padded, Ragged, lists of arrays and [steps, batch, width] arrays, and return the same. NumPyOps runs them on the
device `cpu`, CupyOps on its GPU, in CuPy's current stream.

Weights have the layout of Thinc's `LSTM.v1`: `from_bytes` and `from_disk` load its models. Differences from `LSTM.v1`:

- The gradient is the derivative of what the layer computes. That of `LSTM.v1` in Thinc 8.3 and 9.1 is not: see the README.
- Both biases have gradients.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from dmlpy.system.packages import packages_of as _packages_of

with _packages_of("thinc", "thinc", "catalogue"):
    from dmlpy.thinc.encoders import BiLSTMEncoder
    from dmlpy.thinc.layers import GRU, LSTM, RNN
    from dmlpy.thinc.pytorch import from_pytorch, to_pytorch

__all__ = ["GRU", "LSTM", "RNN", "BiLSTMEncoder", "from_pytorch", "to_pytorch"]

if not _TYPE_CHECKING:  # a type checker would take every name to exist

    def __getattr__(name: str) -> object:
        from dmlpy.messages.naming import unknown_attribute

        raise AttributeError(unknown_attribute(__name__, name, __all__), name=name)
