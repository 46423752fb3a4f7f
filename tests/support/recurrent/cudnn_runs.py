"""cuDNN's recurrent operators compared with PyTorch's results."""

from __future__ import annotations

import dmlpy as dml
from tests.support.recurrent.networks import (
    check,
    gradients,
    torch_case,
)


def check_torch(any_device: dml.Device, name: str) -> None:
    case = torch_case(name)
    check(gradients(any_device, case.network, case.upstream), case.outputs, case.network.layout)
