"""The definitions of the operators that generate tensors, on whole arrays."""

from __future__ import annotations

import math

import numpy as np

from dmlpy.operators.generation import (
    DiagonalMatrix1Desc,
    DiagonalMatrixDesc,
    FillValueConstantDesc,
    FillValueSequenceDesc,
    RandomGeneratorDesc,
)
from dmlpy.reference.conversion import of_float, of_scalar
from dmlpy.reference.philox import philox4x32
from dmlpy.reference.registry import Array, Inputs, defines

_WORD_BITS, _WORD = 32, 0xFFFFFFFF
_COUNTER_WORDS = 4  # each counter yields as many random words


@defines(DiagonalMatrixDesc)
def diagonal_matrix(desc: DiagonalMatrixDesc, inputs: Inputs) -> Array:
    *_, height, width = sizes = desc.output_tensor.sizes
    value = of_float(desc.value, desc.output_tensor.data_type)
    result = np.zeros((height, width), value.dtype)
    column, row = max(desc.offset, 0), max(-desc.offset, 0)
    count = min(width - column, height - row)
    if count > 0:
        result.reshape(-1)[row * width + column :: width + 1][:count] = value
    return np.broadcast_to(result, sizes)


@defines(DiagonalMatrix1Desc)
def diagonal_matrix1(desc: DiagonalMatrix1Desc, inputs: Inputs) -> Array:
    assert desc.output_tensor is not None
    *_, height, width = sizes = desc.output_tensor.sizes
    value = of_scalar(desc.value, desc.value_data_type)
    others: Array | None = inputs["input_tensor"]
    result = np.zeros((height, width), value.dtype) if others is None else others.copy()
    begin, end = (min(max(diagonal, -height), width) for diagonal in (desc.diagonal_fill_begin, desc.diagonal_fill_end))
    # Filled from `begin` on up to `end`; if they are the other way round, all but what is between them.
    for first, last in [(begin, end)] if desc.diagonal_fill_begin <= desc.diagonal_fill_end else [(begin, width), (-height, end)]:
        np.copyto(result, value, where=_band(height, width, first, last))
    return np.broadcast_to(result, sizes)


def _band(height: int, width: int, first: int, last: int) -> Array:
    """A mask of a matrix's elements on or right of a diagonal and left of another: 0 is the main one, those right of it are positive."""
    dtype = np.int32 if height + width < np.iinfo(np.int32).max else np.int64
    rows: Array = np.arange(height, dtype=dtype)[:, np.newaxis]
    columns: Array = np.arange(width, dtype=dtype)
    if first <= -height:
        return columns < rows + last
    from_first = columns >= rows + first
    return from_first if last >= width else from_first & (columns < rows + last)


@defines(FillValueConstantDesc)
def fill_value_constant(desc: FillValueConstantDesc, inputs: Inputs) -> Array:
    return np.broadcast_to(of_scalar(desc.value, desc.value_data_type), desc.output_tensor.sizes)


@defines(FillValueSequenceDesc)
def fill_value_sequence(desc: FillValueSequenceDesc, inputs: Inputs) -> Array:
    sizes = desc.output_tensor.sizes
    start, delta = of_scalar(desc.value_start, desc.value_data_type), of_scalar(desc.value_delta, desc.value_data_type)
    if start.dtype.kind == "f":
        # In double precision, so that each element is rounded once.
        values = float(start) + np.arange(math.prod(sizes)) * float(delta)
    else:
        values = start + np.arange(math.prod(sizes)).astype(start.dtype) * delta
    return values.reshape(sizes)


@defines(RandomGeneratorDesc)
def random_generator(desc: RandomGeneratorDesc, inputs: Inputs) -> dict[str, Array]:
    state: Array = inputs["input_state_tensor"]
    words = [int(word) for word in state.reshape(-1)]
    sizes = desc.output_tensor.sizes
    blocks = -(-math.prod(sizes) // _COUNTER_WORDS)
    random = philox4x32(_counters(words[:_COUNTER_WORDS], blocks), words[_COUNTER_WORDS:])
    number = sum(word << _WORD_BITS * place for place, word in enumerate(words[:_COUNTER_WORDS])) + blocks
    advanced = [number >> _WORD_BITS * place & _WORD for place in range(_COUNTER_WORDS)]
    return {
        "output_tensor": random.T.reshape(-1)[: math.prod(sizes)].reshape(sizes),
        "output_state_tensor": np.array([*advanced, *words[_COUNTER_WORDS:]], state.dtype).reshape(state.shape),
    }


def _counters(first: list[int], count: int) -> Array:
    """Consecutive counters, uint64 [4, count]: each column holds one counter's words, the lowest first."""
    counters = np.empty((_COUNTER_WORDS, count), np.uint64)
    carried = np.arange(count, dtype=np.uint64)
    for place, word in enumerate(first):
        total = carried + np.uint64(word)
        counters[place], carried = total & np.uint64(_WORD), total >> np.uint64(_WORD_BITS)
    return counters
