"""Batch normalization in float64: the tests' reference, by the plans of the NumPy device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.numpy.plans import plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.numpy.normalization.common import Array
    from dmlpy.operators.normalization.batch import NormalizationDesc
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc


def reference(desc: NormalizationDesc | FusedBatchNormDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The described outputs in float64, unrounded, computed in float64 from the arrays as they are.

    Args:
        desc: a checked desc.
        arrays: every described input, by field name and of its described sizes.
    """
    described = desc.tensors()
    packed = {name: TensorDesc(data_type="FLOAT64", sizes=tensor.sizes) for name, tensor in described.items()}
    plan = plan_of(desc.replace(**packed), np.float64)
    assert plan is not None
    outputs = {field.name: np.full(described[field.name].sizes, np.nan) for field in desc.outputs() if field.name in described}
    inputs = {name: np.array(array, np.float64, order="C") for name, array in arrays.items()}
    scratch = np.empty(plan.temporary_size, np.uint8)
    plan.bind({name: array.ctypes.data for name, array in {**inputs, **outputs}.items()}, scratch.ctypes.data, None)(0)
    return outputs
