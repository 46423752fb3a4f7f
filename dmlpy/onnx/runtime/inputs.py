"""The inputs of a compiled model: arrays of any library, lists of them, and problems of those that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.description.arrays import dlpack_device, layout_of, refuse_mask, resolved
from dmlpy.description.bfloat16_numbers import holds_bfloat16
from dmlpy.description.coercion import brief
from dmlpy.description.dlpack import bfloat16_array
from dmlpy.messages.problems import MAX_REPORTED, DmlError, Problem
from dmlpy.onnx.loading.elements import dtype_of, element_name
from dmlpy.onnx.loading.input_sizes import fit_problems
from dmlpy.onnx.loading.values import value_from_proto

if TYPE_CHECKING:
    from onnx import TypeProto

    from dmlpy.devices import Device
    from dmlpy.onnx.loading.values import Array, Value

_INTEGERS, _NUMBERS = (int, np.integer), (int, float, np.integer, np.floating)
"""The types of Python's and NumPy's integers, and of all real numbers."""
_CPU = 1
"""DLPack's number for the host's memory."""


class _DlpackArray:
    """An array known only by DLPack: a device wraps it as an array of its library, without a copy."""

    def __init__(self, array: Any) -> None:
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


def receive(name: str, value: Value, given: Any, device: Device) -> tuple[Any, list[Problem]]:
    """An input as an array of NumPy or of the device, or why it is none.

    Args:
        name: the input's name.
        value: the input.
        given: an array of any library.
        device: where it is read.
    """
    try:
        array = to_array(given, device)
    except DmlError:
        raise
    except Exception as error:  # other libraries' code
        found = f"a {brief(type(given))} whose memory cannot be read"
        return None, [Problem("onnx.inputs", name, found, value.summary(), (f"{type(error).__name__}: {error}",))]
    if not isinstance(given, np.ndarray) and isinstance(array, np.ndarray) and array.dtype == object and not array.ndim:
        return None, [Problem("onnx.inputs", name, brief(given), value.summary(), _unreadable(given))]
    if value.sizes == () and array.shape and prod(array.shape) == 1:
        array = array.reshape(())  # ONNX Runtime, too, takes a list of one number for a scalar
    if value.element == TensorProto.STRING and isinstance(array, np.ndarray) and array.dtype.kind == "U":
        array = array.astype(object)
    if value.element == TensorProto.STRING and isinstance(array, np.ndarray) and array.dtype.hasobject:
        for index, element in enumerate(array.flat):
            if not isinstance(element, str):
                return None, [Problem("onnx.inputs", name, f"{brief(element)} at element {index}", "texts")]
    return array, []


def _unreadable(given: Any) -> tuple[str, ...]:
    """Why the memory of another library's array cannot be read, as operators say it; nothing of an object that is no array."""
    if hasattr(given, "__dlpack__"):
        try:
            layout_of(given)
        except TypeError as error:
            return (str(error),)
    return ()


def to_array(array: Any, device: Device) -> Any:
    """An input as an array of NumPy or of the device: DLPack arrays are viewed in place, others are converted."""
    if isinstance(array, np.ndarray):
        refuse_mask(array)
        return _aligned(np.asarray(array))  # of a subclass, whose rows or products are others, the plain array
    array = resolved(array)
    has_dtype = isinstance(getattr(array, "dtype", None), np.dtype)
    if device.memory_kind == "cuda" and has_dtype and hasattr(array, "__cuda_array_interface__"):
        return array
    if (place := dlpack_device(array)) is not None:
        try:
            if place[0] == _CPU:
                return _aligned(bfloat16_array(array) if holds_bfloat16(array) else np.from_dlpack(array))
            return device.view(_DlpackArray(array)).owner
        except (BufferError, RuntimeError, TypeError):
            pass  # read-only memory, types that NumPy has under other names, memory of another device
    return np.asarray(device.to_host(array))


def _aligned(array: Array) -> Array:
    """The array, or a copy if its elements lie at addresses where kernels do not read them, as those of a field in a file may."""
    return array if array.flags.aligned else array.copy()


def to_sequence(name: str, value: Value, given: Any, device: Device) -> tuple[Any, list[Problem]]:
    """A sequence, an optional or a map, with its tensors on the host, where the nodes that read it run; and why it does not fit.

    Args:
        name: the input's name.
        value: the input.
        given: a list of arrays for a sequence; None for an optional that holds nothing; a dict for a map.
        device: where the arrays may lie.
    """
    return (given, []) if value.described is None else _to_typed(name, value.described, given, device)


def _to_typed(path: str, proto: TypeProto, given: Any, device: Device) -> tuple[Any, list[Problem]]:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        value = value_from_proto(path, proto)
        array, problems = receive(path, value, given, device)
        if not problems:
            array = device.to_host(array)
            problems = fit_problems(path, value, array.dtype, array.shape)
        return array, problems
    if kind == "optional_type":
        return (None, []) if given is None else _to_typed(path, proto.optional_type.elem_type, given, device)
    if kind == "map_type":
        return _to_map(path, proto.map_type, given)
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


def _to_map(path: str, proto: TypeProto.Map, given: Any) -> tuple[Any, list[Problem]]:
    """A dict with Python's keys and values of NumPy's type, or texts, and why it does not fit."""
    if not isinstance(given, Mapping):
        return given, [Problem("onnx.inputs", path, brief(given), "a dict: the input is a map")]
    element = proto.value_type.tensor_type.elem_type
    made: dict[Any, Any] = {}
    for key, value in given.items():
        if (key_element := _element(proto.key_type, key)) is None:
            return given, [Problem("onnx.inputs", path, f"the key {brief(key)}", f"keys of {element_name(proto.key_type)}")]
        if element and (value := _element(element, given_value := value)) is None:
            return given, [
                Problem("onnx.inputs", path, f"the value {brief(given_value)} of {brief(key)}", f"values of {element_name(element)}")
            ]
        made[key_element.item() if isinstance(key_element, np.generic) else key_element] = value
    return made, []


def _element(element: int, given: Any) -> Any:
    """A text or a number in the type of a map's elements; None if it is not such a text or number."""
    if element == TensorProto.STRING:
        return given if isinstance(given, str) else None
    dtype = np.dtype(dtype_of(element))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type(given) if isinstance(given, _INTEGERS) and limits.min <= given <= limits.max else None
    if not isinstance(given, _NUMBERS):
        return None
    try:
        with np.errstate(over="ignore"):
            made = dtype.type(given)
    except OverflowError:  # of integers beyond all floats
        return None
    return None if np.isinf(made) and not np.isinf(given) else made
