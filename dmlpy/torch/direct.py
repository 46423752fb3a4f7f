"""Calls that go straight to a compiled operator: PyTorch's dispatcher takes longer than a step of a small network.

Such a call is on the host, and nothing follows, traces or transforms what it runs. Its operator is known from an earlier call with tensors
of the same sizes and type, which all checks have passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors that have no behaviour of their own."""


def _private(name: str, otherwise: Callable[[], Any]) -> Callable[[], Any]:
    """A private function of PyTorch; the other one in a version that lacks it."""
    function: Callable[[], Any] = getattr(torch._C, name, otherwise)
    return function


transforms_are_active = _private("_are_functorch_transforms_active", lambda: True)
"""Whether torch.func or torch.vmap are at work."""
_count_dispatch_modes = _private("_len_torch_dispatch_stack", lambda: 1)
_has_function_mode = _private("_is_torch_function_mode_enabled", lambda: True)
_tracing_state = _private("_get_tracing_state", lambda: "unknown")
_profiles = getattr(torch.autograd, "_profiler_enabled", lambda: True)


def dual_level() -> int:
    """The level of forward-mode differentiation; negative outside of it, where no tensor has to be searched for a tangent."""
    return getattr(forward_ad, "_current_level", 0)


def is_followed() -> bool:
    """Whether something traces, transforms, converts or records what is run, and so must see operators of PyTorch's dispatcher."""
    return bool(
        torch.compiler.is_compiling()
        or _count_dispatch_modes()
        or _has_function_mode()
        or transforms_are_active()
        or _tracing_state() is not None
        or _profiles()
        or torch.is_autocast_enabled("cpu")
        or dual_level() >= 0
    )


def are_plain(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether the elements of all tensors, of which some may be absent, lie at strides in host memory as they are read."""
    for tensor in tensors:
        if tensor is None:
            continue
        if (
            type(tensor) not in _PLAIN
            or not tensor.is_cpu
            or tensor.layout is not torch.strided
            or tensor.is_neg()
            or not _has_memory(tensor)
        ):
            return False
    return True


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor has memory: zeros may have none, and `is_grads_batched` makes tensors that refuse to be asked for it."""
    try:
        return bool(tensor.data_ptr())
    except RuntimeError:
        return False


def key_of(params: Any, sizes: tuple[int, ...], input: Any, states: tuple[Any, ...]) -> Hashable | None:
    """The key of a module's call, on which its checks and operator depend besides the module; None if the call cannot be direct.

    Args:
        params: the module's parameter.
        sizes: those that it must have.
        input: the input as it is given.
        states: the initial states; none for zeros.
    """
    if type(input) is not torch.Tensor or type(params) not in _PLAIN or is_followed():
        return None
    dtype = input.dtype
    if (
        not (input.is_cpu and params.is_cpu and params.dtype is dtype and params.shape == sizes and params.is_contiguous())
        or not (input.layout is params.layout is torch.strided)
        or input.is_nested
        or params.is_nested
        or params.is_neg()  # it is read where it lies: without what is done to elements as they are read, or zeros without memory
        or not params.data_ptr()
    ):
        return None
    for state in states:
        if type(state) not in _PLAIN or not (state.is_cpu and state.dtype is dtype and state.layout is torch.strided) or state.is_nested:
            return None
    return (input.shape, dtype, *[state.shape for state in states])


def is_differentiated(*tensors: torch.Tensor) -> bool:
    """Whether autograd follows a call with these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
