"""pydirectml's descs of tensors, and the data that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlpy.description import tensors
from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType, TensorFlags
from dmlpy.messages.problems import DescError, Problem
from dmlpy.x.policies import TensorPolicy

Sizes = Sequence[int]


class TensorDesc:
    """A tensor's layout, with each of pydirectml's signatures.

    `TensorDesc(data_type, sizes, tensor_policy)`, `TensorDesc(data_type, flags, sizes, tensor_policy)`,
    `TensorDesc(data_type, sizes, strides)`, and `TensorDesc(data_type, flags, sizes, strides, total_tensor_size_in_bytes,
    guaranteed_base_offset_alignment)`.

    Raises:
        DescError: the arguments match no signature.
    """

    def __init__(self, data_type: Any, *arguments: Any, **named: Any) -> None:
        forms = [("flags", "sizes"), ("sizes",)] if arguments and isinstance(arguments[0], TensorFlags) else [("sizes",)]
        members = dict(zip((*forms[0], *_last(arguments[len(forms[0]) :])), arguments, strict=False)) | named
        members["data_type"] = data_type
        policy = members.pop("tensor_policy", None) or TensorPolicy.default
        if not members.get("strides") and isinstance(policy, TensorPolicy) and "sizes" in members:
            members["strides"] = policy.strides(members["sizes"])
        self.desc = tensors.TensorDesc(**{name: value for name, value in members.items() if value is not None})
        if problems := self.desc.problems(output=False):
            raise DescError("TensorDesc", problems)

    @classmethod
    def of(cls, desc: tensors.TensorDesc) -> TensorDesc:
        """The desc of dmlpy in pydirectml's form."""
        wrapped = cls.__new__(cls)
        wrapped.desc = desc
        return wrapped

    @property
    def data_type(self) -> DataType:
        return self.desc.data_type

    @property
    def flags(self) -> TensorFlags:
        return self.desc.flags

    @property
    def sizes(self) -> list[int]:
        return list(self.desc.sizes)

    @property
    def strides(self) -> list[int] | None:
        """The strides in elements; None for a packed tensor."""
        return None if self.desc.strides is None else list(self.desc.strides)

    @property
    def total_tensor_size_in_bytes(self) -> int:
        return self.desc.size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        return self.desc.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {int(self.data_type)} and shape [{sizes}] with flags {int(self.flags)}"


def _last(rest: Sequence[Any]) -> tuple[str, ...]:
    """The names of the arguments behind the sizes."""
    if rest and isinstance(rest[0], TensorPolicy):
        return ("tensor_policy",)
    return ("strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment")


class TensorData(np.ndarray[Any, Any]):
    """The elements of a tensor, as an array that other libraries read by the buffer protocol.

    An array's elements are cast to float32 in C order. A result of `Device.compute` has the sizes and strides of the output's desc,
    and its bytes as float32; elements that are not 4 bytes large keep their type.
    """

    def __new__(cls, data: Any) -> TensorData:
        """Casts an array."""
        return as_float32(data, "TensorData").view(cls)

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> TensorData:
        """The result of `Device.compute` for an array that the graph wrote."""
        return (array.view(np.float32) if array.dtype.itemsize == 4 else array).view(cls)


def as_float32(data: Any, what: str) -> np.ndarray[Any, Any]:
    """Converts any array as pydirectml does: elements cast to float32, in C order.

    Raises:
        DescError: the value is not an array of numbers.
    """
    try:
        return np.array(data, np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise DescError(what, [Problem("array.kind", "data", brief(data), "an array of numbers", (str(error),))]) from None
