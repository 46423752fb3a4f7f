"""The operations of activations: one function of each element, and those of softmax over groups."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import elements, flops
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationHardmax1Desc,
    ActivationHardmaxDesc,
    ActivationIdentityDesc,
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    ActivationSoftmax1Desc,
    ActivationSoftmaxDesc,
)


@flops(ActivationDesc, ActivationHardmaxDesc, ActivationHardmax1Desc)
def of_one(desc: Any) -> int:
    return elements(desc)


@flops(ActivationIdentityDesc)
def of_none(desc: ActivationIdentityDesc) -> int:
    return 0


@flops(ActivationSoftmaxDesc, ActivationSoftmax1Desc, ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc)
def softmax(desc: Any) -> int:
    """The maximum, x - maximum, its exponential, their sum, and the quotient or the second difference."""
    return 5 * elements(desc)
