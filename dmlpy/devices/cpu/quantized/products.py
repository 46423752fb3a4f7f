"""What the plans of products of bytes share: the kernels, the terms of rows and columns, and the limits of 32-bit sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.parameters import Output, RowTerms, TermParameters
from dmlpy.devices.cpu.thread_pool import TaskLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.plan import Launch

ALIGNMENT = 64
MOST_TERMS = 2**31 // 255**2
"""Terms of a sum that is sure to fit in 32 bits."""
BYTES = (DataType.UINT8, DataType.INT8)
FLIP = 0x80808080
TERMS = Kernel("dmlpy.devices.cpu.quantized.result_kernels:build_terms", 5)
"""The terms of rows and columns."""


def term_arrays(rows: int, columns: int) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """The arrays that `TERMS` writes."""
    return [
        ("rows", (rows,), RowTerms.dtype),
        ("column second", (columns,), np.dtype(np.int32)),
        ("column factor", (columns,), np.dtype(np.float32)),
        ("column scale", (columns,), np.dtype(np.float64)),
    ]


def terms_launch(values: Mapping[str, Any]) -> Launch:
    """The launch that computes the terms, with the values of `TermParameters`."""
    return TaskLaunch.of(TERMS(), TermParameters.bound({**values, "tiles": 1}), 1)


def step_of(tensor: TensorDesc | None) -> int:
    """The bytes from an element of a scale or zero point to the next one; 0 for a single one."""
    if tensor is None or tensor.element_count == 1:
        return 0
    (stride,) = (stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1)
    return stride * tensor.data_type.numpy.itemsize


def output_of(data_type: DataType) -> Output:
    """What sums become in an output of a type."""
    return {DataType.INT32: Output.INT32, DataType.FLOAT32: Output.FLOAT32}.get(data_type, Output.BYTES)


def is_signed(tensor: TensorDesc) -> bool:
    """Whether a tensor's bytes are signed."""
    return tensor.data_type is DataType.INT8


def limits_of(data_type: DataType) -> dict[str, int]:
    """The least and the largest result of a type, for `ResultParameters`."""
    low, high = data_type.limits if data_type in BYTES else (0, 0)
    return {"low": int(low), "high": int(high)}
