"""What the benchmarks on a GPU share: its clock, and PyTorch beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlpy as dml

REPEATS, ROUNDS = 10, 15


def torch_on_gpu() -> Any:
    """PyTorch with TF32 off, or None where it has no GPU."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def milliseconds(run: Callable[[], object]) -> float:
    """Of one run of `REPEATS`, by events on the default stream."""
    device = dml.device("cuda")
    stop = device.start_timer(device.current_stream())
    for _ in range(REPEATS):
        run()
    assert stop is not None
    return stop() / REPEATS
