"""Converts unexpected exceptions while a node is processed to an error of dmlpy that names the node.

Models are untrusted, so attributes and constants may be inconsistent in ways that no check covers. A specific check says more, and is
better wherever one is easy; this is for the rest. `ErrorPolicy` disables it for dmlpy's tests.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from onnx import AttributeProto, helper

from dmlpy.description.coercion import brief
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import listed, with_article
from dmlpy.messages.problems import DescError, DmlError, Problem
from dmlpy.onnx.nodes.error_policy import ErrorPolicy
from dmlpy.onnx.nodes.node import NotLowered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx import NodeProto

    from dmlpy.onnx.loading.values import Value

_MOST_ATTRIBUTES = 12
"""The most attributes that a message shows."""


_PLAIN = (AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.FLOATS, AttributeProto.INTS)
"""The types of attributes whose values messages show."""


@contextmanager
def refuse_unexpected(proto: NodeProto, inputs: Sequence[Value | None] = ()) -> Iterator[None]:
    """Converts an unexpected exception to the reason why a node is not lowered.

    Args:
        proto: the node.
        inputs: its inputs, as far as they are known.

    Raises:
        NotLowered: an exception other than it and dmlpy's errors was raised.
    """
    try:
        yield
    except (DmlError, NotLowered):
        raise
    except Exception as error:
        if ErrorPolicy.propagate_unexpected and not isinstance(error, MemoryError):
            raise
        raise NotLowered([unexpected_problem(error, proto, inputs)]) from error


@contextmanager
def report_unexpected(subject: str, name: str, proto: NodeProto, kind: type[DmlError] = DescError) -> Iterator[None]:
    """Converts an unexpected exception to dmlpy's error, which names the node; NotLowered passes through.

    Args:
        subject: the model that is processed or run.
        name: the node's name.
        proto: the node.
        kind: the class of the error.

    Raises:
        DmlError: another exception was raised.
    """
    try:
        yield
    except (DmlError, NotLowered):
        raise
    except MemoryError as error:
        raise kind(subject, [unexpected_problem(error, proto).under(name)], HResult.E_OUTOFMEMORY) from error
    except Exception as error:
        if ErrorPolicy.propagate_unexpected:
            raise
        raise kind(subject, [unexpected_problem(error, proto).under(name)]) from error


def unexpected_problem(error: Exception, proto: NodeProto, inputs: Sequence[Value | None] = ()) -> Problem:
    """The problem of a node that raised an unexpected exception or ran out of memory."""
    facts = tuple(_facts(proto, inputs))
    if isinstance(error, MemoryError):
        return Problem("onnx.size", "", f"{proto.op_type} that takes more memory than there is", "sizes that fit into memory", facts)
    text = str(error).splitlines()[0] if str(error) else ""
    found = f"attributes or inputs that {proto.op_type} does not allow: {type(error).__name__}: {text}"
    return Problem("onnx.unforeseen", "", found, f"what ONNX says of {proto.op_type}", facts)


def _facts(proto: NodeProto, inputs: Sequence[Value | None]) -> Iterator[str]:
    """The attributes and the inputs of a node."""
    if proto.attribute:
        shown = ", ".join(f"{item.name} = {_format_attribute(item)}" for item in proto.attribute[:_MOST_ATTRIBUTES])
        yield f"attributes: {shown}" + (", ..." if len(proto.attribute) > _MOST_ATTRIBUTES else "")
    given = [value.summary() for value in inputs if value is not None]
    if given:
        yield f"inputs: {', '.join(given[:_MOST_ATTRIBUTES])}" + (", ..." if len(given) > _MOST_ATTRIBUTES else "")


def _format_attribute(item: AttributeProto) -> str:
    if item.type not in _PLAIN:
        return with_article(AttributeProto.AttributeType.Name(item.type))
    value = helper.get_attribute_value(item)
    return brief(value) if isinstance(value, bytes | float | int) else listed(value)
