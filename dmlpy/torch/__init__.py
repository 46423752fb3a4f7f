"""Recurrent networks for PyTorch: `LSTM`, `GRU` and `RNN` in place of torch.nn's, and `cudnn_rnn`, the function below them.

    pip install 'dmlpy[torch]'

Tensors on the CPU are handled by the device `cpu`, tensors on a GPU by the CUDA device of their index, on PyTorch's current stream.
Tensors are passed without copies, strides included, but for small calls on the CPU, where copies take less time.

Differences from torch.nn:

- float32, float16 and bfloat16 only; the last two are summed in float32. Within torch.autocast for bfloat16 the network runs in float32,
  and the input and the results are bfloat16.
- A module has one parameter, `params`, in the layout that `ParamsLayout` describes. `weight_ih_l0` and the rest are views of it, and
  `state_dict` has torch.nn's entries. Gradients are in `params.grad`; `module.views(module.params.grad)` names its parts.
- Dropout draws its masks from PyTorch's generator, so `torch.manual_seed` repeats them, but they are not the masks of torch.nn.
  A dropout of 1 is rejected.
- The gradient can be taken in evaluation mode on a GPU too; it cannot itself be differentiated, here not on the CPU either.
- A module sharded by `fully_shard` has the one entry `params` in its `state_dict`, a DTensor; a module that is not sharded loads it.
- torch.compile and torch.export see a network as one operator, `torch.ops.dmlpy.cudnn_rnn`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from dmlpy.system.packages import packages_of as _packages_of

with _packages_of("torch", "torch"):
    from dmlpy.torch.function import DerivativeError, cudnn_rnn
    from dmlpy.torch.modules import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN", "DerivativeError", "cudnn_rnn"]

if not _TYPE_CHECKING:  # a type checker would take every name to exist

    def __getattr__(name: str) -> object:
        from dmlpy.messages.naming import unknown_attribute

        raise AttributeError(unknown_attribute(__name__, name, __all__), name=name)
