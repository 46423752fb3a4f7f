"""`count_messages`: how many messages a file has, before it is parsed: an empty one takes two bytes there, and two hundred in memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor
from onnx import ModelProto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor

FIELDS_FOR_EACH = 8
"""So many fields of numbers and texts, each with a tag of its own, count as a message: they take some 20 bytes in memory."""
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_MOST_DEPTH = 100
"""Protobuf's own limit on messages within messages."""


def count_messages(data: bytes, most: int) -> int:
    """How many messages a serialized ModelProto has, with a share for fields beside messages; more than `most` are not counted on.

    What is no protobuf is not refused here: the count ends where it cannot be read.

    Args:
        data: the file.
        most: the number from which on nobody needs to know more.
    """
    limit = most * FIELDS_FOR_EACH
    seen = 0
    at, end, kind = 0, len(data), _messages_of(ModelProto.DESCRIPTOR)
    around: list[tuple[int, Mapping[int, Descriptor]]] = []
    while seen <= limit:
        while at >= end:
            if not around:
                return -(-seen // FIELDS_FOR_EACH)
            end, kind = around.pop()
        tag, at = _varint(data, at)
        seen += 1
        form = tag & 7
        if form == _LENGTH:
            length, at = _varint(data, at)
            below = kind.get(tag >> 3)
            if below is None:
                at += length
                continue
            seen += FIELDS_FOR_EACH - 1
            if len(around) == _MOST_DEPTH or at + length > end:
                break
            around.append((end, kind))
            end, kind = at + length, _messages_of(below)
        elif form == _VARINT:
            _, at = _varint(data, at)
        elif form in (_FIXED64, _FIXED32):
            at += 8 if form == _FIXED64 else 4
        elif form not in (_START, _END):
            break
    return -(-seen // FIELDS_FOR_EACH)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends; beyond the data it is 0."""
    found = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        found |= (byte & 127) << shift
        if byte < 128:
            return found, place + 1
        shift += 7
    return 0, len(data)


@cache
def _messages_of(kind: Descriptor) -> Mapping[int, Descriptor]:
    """The fields of a message that hold messages, by number."""
    return {item.number: item.message_type for item in kind.fields if item.type == FieldDescriptor.TYPE_MESSAGE}
