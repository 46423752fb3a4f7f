"""Diagonal matrices and random words on every device: against NumPy's own functions and known answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

import dmlpy as dml
from tests.support.operators.generated_values import FLOATS, INTEGERS, KNOWN, ends
from tests.support.operators.layout_runs import Array, compute, failures_in_layouts, packed, results_of, same, tensor

WORD = 0xFFFFFFFF


def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device) -> None:
    found = failures_in_layouts("DIAGONAL_MATRIX", "DIAGONAL_MATRIX1", "RANDOM_GENERATOR", device=any_device)
    assert not found, "\n".join(found)


def test_diagonals(any_device: dml.Device) -> None:
    shapes: list[tuple[int, ...]] = [(1, 1), (3, 5), (4, 2), (2, 3, 4), (1, 2, 5, 1)]
    rng = np.random.default_rng(1)
    for number, dtype in enumerate((*FLOATS, *INTEGERS)):
        sizes = shapes[number % len(shapes)]
        height, width = sizes[-2:]
        values = rng.integers(0, 100, sizes).astype(dtype)
        for offset in (-(2**31), -height, -1, 0, 1, width, 2**31 - 1):
            what = f"{np.dtype(dtype)} {sizes} at {offset}"
            desc = dml.DiagonalMatrixDesc(output_tensor=packed(dtype, *sizes), offset=offset, value=10.6)
            eye = np.eye(height, width, max(min(offset, width), -height), dtype=np.bool_)
            expected = np.where(eye, np.array(np.float32(10.6)).astype(dtype), 0).astype(dtype)
            same(compute(desc, device=any_device), np.broadcast_to(expected, sizes), what)
        value = ends(dtype)[0]
        # A third of the pairs with each type, in turn.
        for begin, end in list(itertools.product((-(2**31), -2, 0, 1, 4, 2**31 - 1), repeat=2))[number % 3 :: 3]:
            what = f"{np.dtype(dtype)} {sizes} in {begin} to {end}"
            members = {"value_data_type": np.dtype(dtype).name.upper(), "value": value}
            band = {"diagonal_fill_begin": begin, "diagonal_fill_end": end}
            # np.tri marks what is left of a diagonal.
            left = [np.tri(height, width, max(min(own, width), -height) - 1, np.bool_) for own in (begin, end)]
            inside = left[1] & ~left[0] if begin <= end else left[1] | ~left[0]
            filled = dml.DiagonalMatrix1Desc(input_tensor=tensor(values), **members, **band).with_outputs()
            same(compute(filled, device=any_device, input_tensor=values), np.where(inside, np.array(value, dtype), values), what)
            bare = dml.DiagonalMatrix1Desc(output_tensor=packed(dtype, *sizes), **members, **band)
            same(compute(bare, device=any_device), np.broadcast_to(np.where(inside, np.array(value, dtype), dtype(0)), sizes), what)
    for dtype, value, cut in [(np.uint8, -1.5, 0), (np.int8, 1000.0, 127), (np.int16, math.nan, 0), (np.float16, 1e9, math.inf)]:
        desc = dml.DiagonalMatrixDesc(output_tensor=packed(dtype, 1, 2), value=value)
        same(compute(desc, device=any_device), np.array([[cut, 0]], dtype), f"{value} as {np.dtype(dtype)}")


def philox(counter: int, key: tuple[int, int]) -> Iterator[int]:
    """Philox-4x32-10 by Python's integers."""
    words = [counter >> 32 * place & WORD for place in range(4)]
    for turn in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        own = [(key[0] + turn * 0x9E3779B9) & WORD, (key[1] + turn * 0xBB67AE85) & WORD]
        words = [(second >> 32) ^ words[1] ^ own[0], second & WORD, (first >> 32) ^ words[3] ^ own[1], first & WORD]
    yield from words


def random_words(device: dml.Device, state: list[int], sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """The output and the new state of RANDOM_GENERATOR."""
    given = np.array([[state]], np.uint32)
    desc = dml.RandomGeneratorDesc(input_state_tensor=tensor(given), output_tensor=packed(np.uint32, *sizes))
    results = results_of(desc.with_outputs("output_state_tensor"), {"input_state_tensor": given}, device)
    same(compute(desc, device=device, input_state_tensor=given), results["output_tensor"], "without the new state")
    return results["output_tensor"], results["output_state_tensor"]


def test_random_words_are_the_published_ones(any_device: dml.Device) -> None:
    for counter, key, words in KNOWN:
        same(random_words(any_device, [*counter, *key], (4,))[0], np.array(words, np.uint32), f"{counter} {key}")


def test_random_words_go_on_from_the_new_state(any_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    for sizes in [(1,), (3,), (4,), (2, 5), (1, 2, 3, 7)]:
        for low in ((5, 6, 7, 8), (WORD, 0, 0, 0), (WORD - 1, WORD, WORD, 3), (WORD, WORD, WORD, WORD)):
            key = (int(rng.integers(WORD)), int(rng.integers(WORD)))
            count, start = math.prod(sizes), sum(word << 32 * place for place, word in enumerate(low))
            blocks = -(-count // 4)
            expected = list(itertools.chain.from_iterable(philox((start + own) % 2**128, key) for own in range(blocks)))
            found, state = random_words(any_device, [*low, *key], sizes)
            what = f"{sizes} from {low}"
            same(found, np.array(expected[:count], np.uint32).reshape(sizes), what)
            after = (start + blocks) % 2**128
            same(state, np.array([[[*(after >> 32 * place & WORD for place in range(4)), *key]]], np.uint32), what)
