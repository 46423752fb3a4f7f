"""The inputs of a compiled model: arrays of any library, lists of them, and problems of those that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import resolved
from dmlpy.description.coercion import brief
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import MAX_REPORTED, Problem
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.onnx.loading.values import value_from_proto

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import TypeProto

    from dmlpy.devices import Device
    from dmlpy.onnx.loading.values import Value

_CPU = 1
"""DLPack's number for the host's memory."""


class _DlpackArray:
    """An array known only by DLPack: a device wraps it as an array of its library, without a copy."""

    def __init__(self, array: Any) -> None:
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


def to_array(array: Any, device: Device) -> Any:
    """An input as an array of NumPy or of the device: DLPack arrays are viewed in place, others are converted."""
    if isinstance(array, np.ndarray):
        return array
    array = resolved(array)
    own = isinstance(getattr(array, "dtype", None), np.dtype)
    if device.memory_kind == "cuda" and own and hasattr(array, "__cuda_array_interface__"):
        return array
    if hasattr(array, "__dlpack_device__"):
        try:
            if int(array.__dlpack_device__()[0]) == _CPU:
                return np.from_dlpack(array)
            return device.view(_DlpackArray(array)).owner
        except (BufferError, RuntimeError, TypeError):
            pass  # read-only memory, types that NumPy has under other names, memory of another device
    return np.asarray(device.to_host(array))


def fit_problems(name: str, value: Value, dtype: np.dtype[Any] | None, sizes: Sequence[int]) -> list[Problem]:
    """Why an array does not fit an input.

    Args:
        name: the input's name.
        value: the input.
        dtype: the array's type; None if it does not matter.
        sizes: the array's sizes.
    """
    problems = []
    if value.element is not None and dtype is not None and dtype != dtype_of(value.element):
        wanted = dtype_of(value.element)
        remedy = f"convert it: .astype({str(wanted)!r})"
        problems.append(Problem("onnx.inputs", name, f"of type {dtype}", f"of type {wanted}", (), remedy))
    own = value.sizes
    if own is not None and (len(own) != len(sizes) or any(isinstance(a, int) and a != b for a, b in zip(own, sizes, strict=True))):
        problems.append(Problem("onnx.inputs", name, f"of sizes {listed(sizes)}", value.summary()))
    return problems


def to_sequence(name: str, value: Value, given: Any, device: Device) -> tuple[Any, list[Problem]]:
    """A sequence or an optional, with its tensors on the host, where the nodes that read it run; and why it does not fit.

    Args:
        name: the input's name.
        value: the input.
        given: a list of arrays for a sequence; None for an optional that holds nothing.
        device: where the arrays may lie.
    """
    return (given, []) if value.described is None else _to_typed(name, value.described, given, device)


def _to_typed(path: str, proto: TypeProto, given: Any, device: Device) -> tuple[Any, list[Problem]]:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        array = device.to_host(to_array(given, device))
        return array, fit_problems(path, value_from_proto(path, proto), array.dtype, array.shape)
    if kind == "optional_type":
        return (None, []) if given is None else _to_typed(path, proto.optional_type.elem_type, given, device)
    if kind != "sequence_type":
        return given, []
    if not isinstance(given, list | tuple):
        return given, [Problem("onnx.inputs", path, brief(given), "a list: the input is a sequence")]
    items, problems = [], []
    for index, item in enumerate(given):
        array, wrong = _to_typed(f"{path}[{index}]", proto.sequence_type.elem_type, item, device)
        items.append(array)
        problems += wrong
        if len(problems) >= MAX_REPORTED:
            break
    return items, problems
