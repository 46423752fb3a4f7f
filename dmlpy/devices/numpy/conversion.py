"""Conversions of whole arrays to another floating-point type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.plan import ArrayPlan, arrays_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.plan import Launch, Pointers


class ConversionPlan(ArrayPlan):
    """The conversion of a tensor to another of the same sizes; their places are those of CAST.

    Args:
        source: the tensor that is read.
        target: the tensor that is written.
    """

    def __init__(self, source: TensorDesc, target: TensorDesc) -> None:
        self._tensors = {"input_tensor": source, "output_tensor": target}

    def describe(self) -> str:
        return f"NumPy, converted to {self._tensors['output_tensor'].data_type}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors))

    def bind_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Launch:
        source, target = arrays["input_tensor"], arrays["output_tensor"]

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):  # of signalling NaN
                np.copyto(target, source, casting="unsafe")

        return launch
