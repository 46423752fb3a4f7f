"""Remedies for arguments that the modules' constructors do not have, and for devices and types that are not PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dmlpy.description.coercion import brief
from dmlpy.messages.argument_names import ArgumentNames
from dmlpy.messages.problems import Problem
from dmlpy.torch.operators import FLOATS

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ArgumentNames(
    "module",
    {
        **dict.fromkeys(("nI", "input_dim"), ("input_size",)),
        **dict.fromkeys(("nO", "units", "output_dim"), ("hidden_size",)),
        **dict.fromkeys(("depth", "layers"), ("num_layers",)),
        **dict.fromkeys(("b", "use_bias"), ("bias",)),
        "bi": ("bidirectional",),
        "activation": ("nonlinearity",),
    },
    {
        **dict.fromkeys(("nonlinearity", "activation"), "leave it out: only RNN has a choice of activations"),
        "proj_size": "leave it out: only LSTM has a projection",
        **dict.fromkeys(("return_sequences", "return_state"), "leave it out: a call returns the output of every step and the last state"),
    },
)


def device_problems(device: Any) -> Iterator[Problem]:
    """The problem of a constructor's device that PyTorch does not know."""
    if device is None or isinstance(device, torch.device):
        return
    try:
        torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        remedy = "a module runs where its tensors are: leave it out, or pass 'cuda' for a GPU"
        yield Problem("field.form", "device", brief(device), "a torch.device, or a name of one, such as 'cpu' or 'cuda:0'", remedy=remedy)


def same_float(given: Any) -> torch.dtype:
    """The type of modules that has the name of another library's type, such as NumPy's float16; float32 if there is none."""
    name = getattr(given, "__name__", None) or str(given)
    return next((dtype for dtype in FLOATS if str(dtype) == f"torch.{name}"), torch.float32)
