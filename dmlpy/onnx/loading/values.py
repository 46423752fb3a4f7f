"""`Value`: a tensor of a model, as far as it is known before the model runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TypeProto, helper

from dmlpy.description.sized_arrays import example_array
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.elements import data_type_of, dtype_of, element_name, element_of_array

Array = np.ndarray[Any, Any]
Sizes = tuple[int | str | None, ...]
"""Sizes, some of which may be unknown: a name is the model's symbol, None is unnamed."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the model.

    Attributes:
        name: unique in the model, after control flow was unrolled and functions were inlined.
        element: ONNX's element type; None if unknown.
        sizes: ONNX's sizes, `()` for a scalar; None if the rank is unknown.
        array: its elements, if they are known before the model runs.
        stage: the stage that computes it; None for an input of the model and for known values.
        kind: `sequence`, `optional` or `sparse` for a value that is not a tensor.
        items: the tensors of a sequence or an optional, if they are known individually.
        described: ONNX's type of a value that is not a tensor; None if unknown.
    """

    name: str
    element: int | None
    sizes: Sizes | None
    array: Array | None = None
    stage: int | None = None
    kind: str = "tensor"
    items: tuple[Value, ...] | None = None
    described: TypeProto | None = None

    @classmethod
    def known(cls, name: str, array: Array) -> Value:
        """A value whose elements are known."""
        return cls(name, element_of_array(example_array(array)), tuple(array.shape), array)

    @classmethod
    def empty(cls, name: str, row: Value, axis: int) -> Value:
        """An empty stack of rows: a value without elements.

        Args:
            name: its name.
            row: a value with the type and the sizes of a row, which are known.
            axis: the dimension of the rows.
        """
        sizes = list(row.static_sizes)
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 0)
        return cls.known(name, np.empty(sizes, dtype_of(row.element or 0)))

    def named(self, name: str) -> Value:
        """The value with another name."""
        return replace(self, name=name)

    @cached_property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return self.sizes is not None and all(isinstance(size, int) for size in self.sizes)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no elements."""
        return self.sizes is not None and 0 in self.sizes

    @property
    def is_expressible(self) -> bool:
        """Whether a DirectML tensor can hold it: its type exists, its sizes are known, and it has elements."""
        known = self.kind == "tensor" and self.element is not None and data_type_of(self.element) is not None
        return known and self.is_static and 0 not in (self.sizes or ())

    @cached_property
    def static_sizes(self) -> tuple[int, ...]:
        """ONNX's sizes, all of which are known."""
        assert self.sizes is not None
        known = tuple(size for size in self.sizes if isinstance(size, int))
        assert len(known) == len(self.sizes)
        return known

    @property
    def tensor_sizes(self) -> tuple[int, ...]:
        """The sizes of the DirectML tensor that holds it: a scalar has one dimension there."""
        return self.static_sizes or (1,)

    @property
    def proto(self) -> TypeProto:
        """The type as ONNX describes it."""
        if self.described is not None:
            return self.described
        if self.kind == "sequence":
            element = self.element or (self.items[0].element if self.items else None)
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element or 0, None))
        sizes = None if self.sizes is None else list(self.sizes)
        return helper.make_tensor_type_proto(self.element or 0, sizes)

    def summary(self) -> str:
        """The type and the sizes on one line: `float32 [batch, 3]`."""
        if self.kind != "tensor":
            return self.kind
        sizes = "of unknown rank" if self.sizes is None else listed_sizes(self.sizes)
        return f"{element_name(self.element)} {sizes}"


def listed_sizes(sizes: Sizes) -> str:
    """Sizes as messages show them: `[?, 3]`."""
    return listed(["?" if size is None else size for size in sizes])


def can_be_equal(first: Sizes, second: Sizes) -> bool:
    """Whether the sizes that both know are equal."""
    differ = (isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(first, second, strict=False))
    return len(first) == len(second) and not any(differ)


def value_from_proto(name: str, proto: TypeProto, stage: int | None = None) -> Value:
    """The value that a type in the model describes."""
    kind = proto.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        known = proto if proto.WhichOneof("value") else None
        return Value(name, None, None, None, stage, kind.removesuffix("_type").removesuffix("_tensor"), described=known)
    tensor = proto.tensor_type
    sizes = None
    if tensor.HasField("shape"):
        forms = [(dim.WhichOneof("value"), dim) for dim in tensor.shape.dim]
        # Some exporters write -1 for a dynamic size.
        sizes = tuple(dim.dim_value if form == "dim_value" and dim.dim_value >= 0 else (dim.dim_param or None) for form, dim in forms)
    return Value(name, tensor.elem_type or None, sizes, None, stage)
