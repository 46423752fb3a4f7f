"""MurmurHash3 (com.microsoft): 32 bits of each element, as scikit-learn's `murmurhash3_32`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_WORD = 4
"""The bytes that are mixed at once."""
_BITS = 0xFFFFFFFF
_FACTORS = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_LAST_FACTORS = (13, np.uint32(0x85EBCA6B)), (16, np.uint32(0xC2B2AE35))
"""A factor, and by how many bits the hash is shifted afterwards."""
_NUMBERS = ("int32", "uint32", "int64", "uint64", "float32", "float64")
"""The types of numbers that the operator takes, beside texts."""


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    return [(TensorProto.UINT32 if node.attribute("positive", 1) else TensorProto.INT32, node.value(0).sizes)]


@register_host_operator("MurmurHash3", _describe_outputs)
def murmur_hash(node: Node) -> Sequence[Array]:
    """MurmurHash3_x86_32 of each number's bytes, or of each text's in UTF-8."""
    keys, seed = node.array(0), int(node.attribute("seed", 0)) & _BITS
    if keys.dtype.kind not in "OU" and keys.dtype.name not in _NUMBERS:
        raise node.refusal("onnx.type", node.input_label(0), keys.dtype.name, f"texts, or one of {listed(_NUMBERS)}")
    if keys.dtype.kind in "OU":
        hashes = [_hash(np.frombuffer(str(text).encode("utf-8", "surrogatepass"), np.uint8)[None], seed)[0] for text in keys.ravel()]
        hashed = np.array(hashes, np.uint32)
    else:
        hashed = _hash(np.ascontiguousarray(keys).reshape(-1, 1).view(np.uint8), seed)
    return [hashed.reshape(keys.shape).view(np.uint32 if node.attribute("positive", 1) else np.int32)]


def _hash(rows: Array, seed: int) -> Array:
    """The hash of each row of bytes."""
    count, length = rows.shape
    padded = np.zeros((count, -(-length // _WORD) * _WORD), np.uint8)
    padded[:, :length] = rows
    words = (_rotated(padded.view("<u4").astype(np.uint32) * _FACTORS[0], 15) * _FACTORS[1]).T
    mixed: Any = seed if count == 1 else np.full(count, seed, np.uint32)
    for index, word in enumerate(words[:, 0].tolist() if count == 1 else words):  # of one text Python's numbers are faster
        mixed = mixed ^ word
        if (index + 1) * _WORD <= length:  # what is left at the end is not stirred
            mixed = ((mixed << 13 | mixed >> 19) * 5 + 0xE6546B64) & _BITS
    hashed = np.array(mixed, np.uint32).reshape(count) ^ np.uint32(length & _BITS)
    hashed ^= hashed >> np.uint32(16)
    for shift, factor in _LAST_FACTORS:
        hashed *= factor
        hashed ^= hashed >> np.uint32(shift)
    return hashed


def _rotated(words: Array, bits: int) -> Array:
    rotated: Array = words << np.uint32(bits) | words >> np.uint32(32 - bits)
    return rotated
