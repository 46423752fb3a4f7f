"""`Indices` of raw_kernels/common/indices.cuh: tuples of indices as kernels take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.axes import MOST_AXES
from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc

INDICES = struct(
    ("data", np.uint64),
    ("step", np.int64),
    ("sizes", np.int64, (MOST_AXES,)),
    ("count", np.int32),
    ("bytes", np.int32),
    ("is_signed", np.int32),
)


def indices_value(tensor: TensorDesc, pointer: int, sizes: Sequence[int], step: int = 0) -> np.ndarray[Any, Any]:
    """One element of `INDICES`.

    Args:
        tensor: the indices, of 32 or 64 bits.
        pointer: their address.
        sizes: of the dimensions that a tuple indexes, one for each of its indices.
        step: elements from one index of a tuple to the next.
    """
    value = np.zeros((), INDICES)
    data_type = tensor.data_type.numpy
    value["data"], value["step"], value["count"] = pointer, step, len(sizes)
    value["sizes"][: len(sizes)] = sizes
    value["bytes"], value["is_signed"] = data_type.itemsize, data_type.kind == "i"
    return value
