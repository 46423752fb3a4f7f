"""Philox-4x32-10, a counter-based generator of random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

A counter of four 32-bit words and a key of two give four random words, without any state: each is computed alone, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.reference.registry import Array

_ROUNDS = 10
_WORD, _WORD_BITS = np.uint64(0xFFFFFFFF), np.uint64(32)
_FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85


def philox4x32(counters: Array, key: Sequence[int]) -> Array:
    """The random words of counters, uint64 [4, n], each below 2^32.

    Args:
        counters: uint64 [4, n], in each column the four words of a counter, each below 2^32.
        key: two words below 2^32.
    """
    first, second, third, fourth = counters
    low, high = key
    for _ in range(_ROUNDS):
        of_first, of_third = first * _FACTORS[0], third * _FACTORS[1]
        first, second = (of_third >> _WORD_BITS) ^ second ^ np.uint64(low), of_third & _WORD
        third, fourth = (of_first >> _WORD_BITS) ^ fourth ^ np.uint64(high), of_first & _WORD
        low, high = (low + _KEY_STEPS[0]) & int(_WORD), (high + _KEY_STEPS[1]) & int(_WORD)
    return np.stack([first, second, third, fourth])
