"""GatherBlockQuantized (com.microsoft): rows of a table whose blocks are quantized, such as an embedding of 4-bit numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_DATA, _INDICES, _SCALES, _ZEROS = range(4)
_BYTE = 8


def _bits(node: Node) -> int:
    """The bits of a number that is packed into bytes; numbers of other types have an element each."""
    if node.value(_DATA).element != TensorProto.UINT8:
        return _BYTE
    bits = int(node.attribute("bits", 4))
    if bits not in (2, 4, 8):
        raise node.invalid("bits", 2, 4, 8)
    return bits


def _axes(node: Node) -> tuple[int, int]:
    """The axis along which rows are gathered, and the one along which blocks lie."""
    rank = node.rank(_DATA)
    gathered, quantized = (node.axis(int(node.attribute(name, at)), rank) for at, name in enumerate(("gather_axis", "quantize_axis")))
    if gathered == quantized:
        raise node.refusal("onnx.invalid", "quantize_axis", str(quantized), "another axis than gather_axis")
    if _bits(node) < _BYTE and gathered == rank - 1:
        raise node.refusal(
            "onnx.invalid", "gather_axis", str(gathered), "another axis than the last, along which bytes hold several numbers"
        )
    return gathered, quantized


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    data, indices, element = node.value(_DATA), node.value(_INDICES), node.value(_SCALES).element
    if not data.is_static or indices.sizes is None:
        return [(element, None)]
    axis, _ = _axes(node)
    sizes = [*data.static_sizes]
    sizes[-1] *= _BYTE // _bits(node)
    return [(element, (*sizes[:axis], *indices.sizes, *sizes[axis + 1 :]))]


@register_host_operator("GatherBlockQuantized", _describe_outputs)
def gather_blocks(node: Node) -> Sequence[Array]:
    """Dequantizes the rows at the indices: less their zero points, times the scales of their blocks; an index out of range gives zeros."""
    axis, quantized = _axes(node)
    bits, data, scales = _bits(node), node.array(_DATA), node.array(_SCALES)
    count, indices = data.shape[axis], node.array(_INDICES).astype(np.int64)
    inside = (indices >= -count) & (indices < count)
    places = np.where(inside, indices, 0)

    def rows(table: Array) -> Array:
        gathered: Array = np.take(table, places if table.shape[axis] == count else np.zeros_like(places), axis)
        return gathered

    numbers = _unpack(rows(data), bits).astype(np.float32)
    place = quantized if quantized < axis else quantized - 1 + indices.ndim
    size = numbers.shape[place]
    block = int(node.attribute("block_size", 128)) or size
    blocks = -(-size // block)
    if scales.ndim != data.ndim or scales.shape[quantized] != blocks:
        expected = f"{data.ndim} dimensions, of which axis {quantized} has {blocks}: a scale for every {block} of {size} numbers"
        raise node.refusal("onnx.invalid", f"input {_SCALES} 'scales'", listed(scales.shape), expected)

    def spread(parameters: Array) -> Array:
        repeated: Array = np.take(parameters, np.arange(size) // block, place).astype(np.float32)
        return repeated

    if node.has(_ZEROS):
        numbers -= spread(_unpack(rows(node.array(_ZEROS)), bits))
    elif node.value(_DATA).element == TensorProto.UINT8:
        numbers -= np.float32(1 << (bits - 1))
    gathered = (numbers * spread(rows(scales))).astype(scales.dtype)
    if not inside.all():
        outside = np.reshape(~inside, (*[1] * axis, *inside.shape, *[1] * (data.ndim - axis - 1)))
        gathered = np.where(outside, np.zeros((), gathered.dtype), gathered)
    return [gathered]


def _unpack(table: Array, bits: int) -> Array:
    """Unpacks the numbers in bytes along the last axis, the low bits first."""
    if bits == _BYTE:
        return table
    shifts = np.arange(0, _BYTE, bits, dtype=np.uint8)
    parts = (table[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*table.shape[:-1], -1)
