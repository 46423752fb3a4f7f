"""`Node`: a node of a graph, as export rules read it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from onnx import helper

from dmlpy.messages.problems import Problem
from dmlpy.onnx.exporting.values import Refusal, Value, Writer
from dmlpy.onnx.exporting.views import once

if TYPE_CHECKING:
    import numpy as np

    from dmlpy.description.tensors import TensorDesc

Read = Callable[[str], Value]
"""Reads the value at an input of a node, with size 1 along the dimensions that its strides repeat."""


class Node:
    """A node of a graph.

    Args:
        desc: its operator.
        writer: writes the model.
        read: reads its inputs.
        constant: the elements of its constant inputs, by place, as `read` returns them.
        wide: whether to read FLOAT16 and BFLOAT16 as FLOAT32.
    """

    def __init__(
        self, desc: Any, writer: Writer, read: Read, constant: Callable[[str], np.ndarray[Any, Any] | None], *, wide: bool
    ) -> None:
        self.desc = desc
        self.writer = writer
        self.constant = constant
        self._read = read
        self._wide = wide
        self._tensors: dict[str, TensorDesc] = desc.tensors()

    @property
    def name(self) -> str:
        """The operator's short name."""
        return str(self.desc.short_name())

    def number(self, member: str) -> float:
        """A member that is a number."""
        return float(getattr(self.desc, member))

    def has(self, place: str) -> bool:
        """Whether a tensor is described."""
        return place in self._tensors

    def tensor(self, place: str) -> TensorDesc:
        """A described tensor."""
        return self._tensors[place]

    def sizes(self, place: str) -> tuple[int, ...]:
        """The sizes of a described tensor."""
        return self._tensors[place].sizes

    def once(self, place: str) -> Value:
        """An input with size 1 along the dimensions that its strides repeat, for nodes that broadcast."""
        value = self._read(place)
        return value.wide() if self._wide else value

    def x(self, place: str) -> Value:
        """An input in its described sizes."""
        value = self.once(place)
        return value if tuple(once(self._tensors[place])) == self.sizes(place) else value.expand(self.sizes(place))

    def maybe(self, place: str) -> Value | None:
        """An input in its described sizes, if it is described."""
        return self.x(place) if self.has(place) else None

    def together(self, *places: str) -> list[Value]:
        """Inputs of equal described sizes, for a node that broadcasts them to these."""
        kept = [once(self._tensors[place]) for place in places]
        whole = list(self.sizes(places[0]))
        fills = [max(sizes) for sizes in zip(*kept, strict=True)] == whole
        return [self.once(place) if fills or at else self.x(place) for at, place in enumerate(places)]

    def vector(self, place: str) -> Value:
        """All elements of an input in one dimension."""
        return self.x(place).reshape([prod(self.sizes(place))])

    def add(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Writes a node of ONNX; see `Writer.add`."""
        return self.writer.add(op_type, *inputs, **attributes)

    def zeros(self, sizes: Any, like: Value) -> Value:
        """Zeros of a value's type."""
        nothing = helper.make_tensor("value", like.element, [1], [0])
        return self.add("ConstantOfShape", self.writer.integers(sizes), element=like.element, value=nothing)

    def rejection(self, field: str, value: object, expected: str) -> Refusal:
        """The error for a member that ONNX does not have."""
        return Refusal(Problem("onnx.export", field, str(value), expected))
