"""The producers of expressions' tensors: inputs, constants and operators. Their graph is built on request."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

_SERIAL = itertools.count()


@dataclass(frozen=True, eq=False, kw_only=True)
class Producer:
    """The base of what makes tensors.

    Attributes:
        name: the name in the graph.
        origin: the line that made it: `at net.py:12`.
        serial: its place in the order in which all were made, which is an order in which they can run.
    """

    name: str
    origin: str
    serial: int = field(default_factory=_SERIAL.__next__)


@dataclass(frozen=True, eq=False, kw_only=True)
class InputProducer(Producer):
    """An input of the graph."""

    tensor: TensorDesc


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstantProducer(Producer):
    """An array that the graph holds."""

    data: bytes
    tensor: TensorDesc


@dataclass(frozen=True, eq=False, kw_only=True)
class OperatorProducer(Producer):
    """An operator with the values that its inputs read, by place (`input_tensor`, `input_tensors[0]`)."""

    desc: OperatorDesc
    inputs: Mapping[str, TensorRef]


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberProducer(Producer):
    """A number among the operands of a call, until the others determine its type."""

    value: float


@dataclass(frozen=True, eq=False)
class TensorRef:
    """One output of a producer, with the layout in which it is read.

    Attributes:
        producer: what makes it.
        index: which output of an operator, counted as edges count them.
        tensor: its desc, which may be a view.
    """

    producer: Producer
    index: int
    tensor: TensorDesc


class TensorOperand:
    """The base of expressions: what functions take for a tensor."""

    __slots__ = ("_ref",)

    def __init__(self, ref: TensorRef) -> None:
        self._ref = ref

    def __repr__(self) -> str:
        return f"<array {self._ref.tensor.summary()}>"
