"""`count_messages`: counts a file's messages before it is parsed: an empty one takes two bytes there, and two hundred in memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor
from onnx import ModelProto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor

FIELDS_FOR_EACH = 8
"""This many tagged fields of numbers and texts count as one message: each takes some 20 bytes in memory."""
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_MOST_DEPTH = 100
"""Protobuf's limit on nested messages."""


def count_messages(data: bytes, most: int) -> int:
    """Counts the messages of a serialized ModelProto, with a share for other fields; stops beyond `most`.

    Invalid protobuf is not rejected here: the count ends where it cannot be read.

    Args:
        data: the file.
        most: the number at which counting may stop.
    """
    limit = most * FIELDS_FOR_EACH
    seen = 0
    size = len(data)
    at, end, kind = 0, size, _messages_of(ModelProto.DESCRIPTOR)
    around: list[tuple[int, Mapping[int, Descriptor]]] = []
    while seen <= limit:
        while at >= end:
            if not around:
                return -(-seen // FIELDS_FOR_EACH)
            end, kind = around.pop()
        if (tag := data[at]) < 128:  # most numbers are one byte
            at += 1
        else:
            tag, at = _varint(data, at)
        seen += 1
        form = tag & 7
        if form == _LENGTH:
            if at < size and (length := data[at]) < 128:
                at += 1
            else:
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
    """A number and its end offset; 0 beyond the data."""
    number = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place + 1
        shift += 7
    return 0, len(data)


@cache
def _messages_of(kind: Descriptor) -> Mapping[int, Descriptor]:
    """The fields of a message that hold messages, by number."""
    return {item.number: item.message_type for item in kind.fields if item.type == FieldDescriptor.TYPE_MESSAGE}
