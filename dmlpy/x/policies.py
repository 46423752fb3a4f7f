"""`TensorPolicy`: how the tensors that operators write lie in memory."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from dmlpy.description.tensors import TensorDesc, packed_strides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class TensorPolicy:
    """The strides of a tensor by its sizes, for inputs that give none and for what operators write.

    Args:
        strides_of: gives the strides, in elements, of a tensor of these sizes, or None for a packed one.
        name: the policy's name, for messages.
    """

    default: ClassVar[TensorPolicy]
    """Packed tensors: NCHW."""
    interleaved_channel: ClassVar[TensorPolicy]
    """Dimension 1, the channels, innermost: NWC, NHWC, NDHWC in memory, with sizes in the order N, C, H, W."""

    def __init__(self, strides_of: Callable[[Sequence[int]], Sequence[int] | None], name: str = "") -> None:
        self._strides_of = strides_of
        self._name = name

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The strides of a tensor of these sizes; None if it is packed."""
        strides = self._strides_of(sizes)
        return None if strides is None else tuple(strides)

    def laid_out(self, tensor: TensorDesc) -> TensorDesc:
        """The tensor with the policy's strides."""
        strides = self.strides(tensor.sizes)
        laid = tensor if strides == tensor.strides else tensor.replace(strides=strides)
        return laid.replace(strides=None) if laid.strides is not None and laid.is_packed else laid

    def __repr__(self) -> str:
        return f"TensorPolicy.{self._name}" if self._name else super().__repr__()


def _interleaved_strides(sizes: Sequence[int]) -> tuple[int, ...] | None:
    if len(sizes) < 3:
        return None
    order = (0, *range(2, len(sizes)), 1)
    strides = dict(zip(order, packed_strides([sizes[axis] for axis in order]), strict=True))
    return tuple(strides[axis] for axis in range(len(sizes)))


TensorPolicy.default = TensorPolicy(lambda sizes: None, "default")
TensorPolicy.interleaved_channel = TensorPolicy(_interleaved_strides, "interleaved_channel")

_CURRENT: ContextVar[TensorPolicy] = ContextVar("dmlpy.x policy", default=TensorPolicy.default)


def current_policy() -> TensorPolicy:
    """The policy that holds here."""
    return _CURRENT.get()


@contextmanager
def tensor_policy(policy: TensorPolicy) -> Iterator[TensorPolicy]:
    """Lays out the inputs and the operators' outputs that are made within the block by a policy.

    with x.tensor_policy(x.TensorPolicy.interleaved_channel):
        y = x.convolution(image, filters)
    """
    token = _CURRENT.set(policy)
    try:
        yield policy
    finally:
        _CURRENT.reset(token)
