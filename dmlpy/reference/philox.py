"""Philox-4x32-10, and the dropout between the layers of a stacked network.

Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter of four 32-bit words
and a key of two give four random words, without any state. So every element of a mask is computed alone, in any order and on any
device, and the backward pass computes it again instead of keeping it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = np.ndarray[Any, np.dtype[Any]]

ROUNDS = 10
_WORD = 0xFFFFFFFF
_FACTORS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)  # of the counter's words 0 and 2
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the key's words
_MASK, _HALF = np.uint64(_WORD), np.uint64(32)


def round_keys(key: Sequence[int]) -> Array:
    """The keys of all rounds, uint64 [rounds, 2, 1], each word below 2^32."""
    words = [[(word + turn * step) & _WORD for word, step in zip(key, _KEY_STEPS, strict=True)] for turn in range(ROUNDS)]
    return np.array(words, np.uint64)[..., None]


def philox4x32(counters: Array, key: Sequence[int]) -> Array:
    """The random words of counters, uint64 [4, n], each below 2^32.

    Args:
        counters: [4, n], in each column the four words of a counter, each below 2^32.
        key: two words below 2^32.
    """
    words = np.array(counters, np.uint64)
    randomize(words, round_keys(key), np.empty((2, words.shape[1]), np.uint64))
    return words


def randomize(words: Array, keys: Array, products: Array) -> None:
    """Replaces counters with their random words, and allocates nothing.

    Args:
        words: uint64 [4, n], in each column the four words of a counter, each below 2^32.
        keys: the result of `round_keys` for the key.
        products: scratch, uint64 [2, n].
    """
    even, odd, crossed = words[0::2], words[1::2], products[::-1]
    for key in keys:
        np.multiply(even, _FACTORS, out=products)
        np.right_shift(crossed, _HALF, out=even)
        np.bitwise_xor(even, odd, out=even)
        np.bitwise_xor(even, key, out=even)
        np.bitwise_and(crossed, _MASK, out=odd)


def dropout_scratch(count: int) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """The names, sizes and types of the arrays in which `dropout_multipliers` computes this many elements."""
    word = np.dtype(np.uint64)
    return [("words", (4, count), word), ("products", (2, count), word), ("kept", (count,), np.dtype(np.bool_))]


def dropout_multipliers(
    first: int, layer: int, keys: Array, offset: int, dropout: float, out: Array, scratch: Mapping[str, Array] | None = None
) -> None:
    """The multipliers of some elements of a layer's output on its way to the next layer: 1 / (1 - dropout), or 0 for a dropped one.

    With W values of a layer's output for each step and sample, `unit` of sample b at step t is element (t * B + b) * W + unit. It is kept
    where the first word that Philox-4x32-10 gives for the counter (element, layer, low word of `offset`, high word of `offset`) is at
    least floor(dropout * 2^32). Any split of the elements into calls gives the same bits.

    Args:
        first: the first element's number; the last one's is below 2^32, as a counter's word holds no more.
        layer: the layer whose output it is, from 0.
        keys: the result of `round_keys` for the low 32 bits of `seed` and of `seed2`.
        offset: below 2^64, another one for each training step.
        dropout: the probability that an element is dropped, in [0, 1).
        out: float32 or float64, is overwritten: one multiplier for each element.
        scratch: the arrays that `dropout_scratch` names for at least as many elements; None allocates them.
    """
    if scratch is None:
        scratch = {name: np.empty(sizes, dtype) for name, sizes, dtype in dropout_scratch(out.size)}
    words, products, kept = (scratch[name][..., : out.size] for name in ("words", "products", "kept"))
    elements = words[0]
    elements.fill(1)
    elements[:1] = first
    np.add.accumulate(elements, out=elements)
    words[1], words[2], words[3] = layer, offset & _WORD, offset >> 32
    randomize(words, keys, products)
    np.greater_equal(elements, np.uint64(int(dropout * 2.0**32)), out=kept)
    out.fill(0.0)
    np.copyto(out, out.dtype.type(1.0 / (1.0 - dropout)), where=kept)
