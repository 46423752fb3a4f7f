"""Lp normalization: divides elements by the norm of their group."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.reference.norms import lp_norm
from dmlpy.reference.registry import Array, Inputs, defines


@defines(LPNormalizationDesc)
def _lp(desc: Any, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    norm = lp_norm(x, desc.p, (desc.axis,))
    result: Array = x / np.where(norm < desc.epsilon, norm.dtype.type(desc.epsilon), norm)
    return result
