"""Philox-4x32-10 and the dropout between layers: known answers, NumPy's words and the kernels' alike, and what the mask promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlpy.description.arrays import view
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import struct
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.reference.philox import dropout_multipliers, dropout_scratch, philox4x32, round_keys
from tests.support.operators.generated_values import KNOWN, ONES

Array = np.ndarray[Any, np.dtype[Any]]

KEY = (0x9E2F11C4, 0x0B5A7D31)
OFFSET = 0xFEDC_BA98_7654_3210

RANDOM = struct(("counters", np.uint64), ("words", np.uint64), ("key", np.uint32, (2,)), ("count", np.int32))
MULTIPLY = struct(
    ("multipliers", np.uint64),
    ("offset", np.uint64),
    ("key", np.uint32, (2,)),
    ("threshold", np.uint32),
    ("scale", np.float32),
    ("first", np.uint32),
    ("layer", np.uint32),
    ("count", np.int32),
)
SOURCE = (
    sources.read("common/philox.cuh")
    + """
struct RandomParameters {
    Philox const* counters;  // [count]
    Philox* words;           // [count]
    unsigned key[2];
    int count;
};

__global__ void random_words(RandomParameters parameters) {
    for (int i = 0; i < parameters.count; ++i) {
        parameters.words[i] = parameters.counters[i].random(parameters.key[0], parameters.key[1]);
    }
}

struct MultiplyParameters {
    float* multipliers;  // [count]
    unsigned long long offset;
    Dropout dropout;
    unsigned first;
    unsigned layer;
    int count;
};

__global__ void multiply(MultiplyParameters parameters) {
    for (int i = 0; i < parameters.count; ++i) {
        parameters.multipliers[i] = parameters.dropout.multiplier(parameters.first + i, parameters.layer, parameters.offset);
    }
}
"""
)


@pytest.fixture
def runtime(cuda_device: Any) -> CudaRuntime:
    """The runtime of either device: the emulated one, and CuPy's where a GPU answers."""
    found: CudaRuntime = cuda_device.runtime
    return found


def launch(runtime: CudaRuntime, kernel: str, argument: Array) -> None:
    ((image, symbol),) = runtime.compile(SOURCE, [kernel], runtime.limits(0).compute_capability)
    runtime.launch(runtime.load(0, image, symbol, 0), (1, 1, 1), 1, 0, argument, 0)


def words_of(counters: Array, key: tuple[int, int]) -> Array:
    """The random words [n, 4] of counters [n, 4] in NumPy."""
    return philox4x32(counters.T, key).T


def words_of_kernel(runtime: CudaRuntime, counters: Array, key: tuple[int, int]) -> Array:
    """The same by the device function."""
    given, found = runtime.to_device(0, counters, 0), runtime.to_device(0, np.zeros_like(counters), 0)
    argument = np.zeros(1, RANDOM)
    argument["counters"], argument["words"], argument["count"] = view(given).pointer, view(found).pointer, len(counters)
    argument["key"] = key
    launch(runtime, "random_words", argument)
    result: Array = runtime.to_host(found, 0)
    return result


def scratch(count: int) -> dict[str, Array]:
    """Junk of the sizes that so many elements need."""
    return {name: np.full(sizes, 0xA5, dtype) for name, sizes, dtype in dropout_scratch(count)}


def multipliers(
    count: int,
    first: int = 0,
    layer: int = 0,
    key: tuple[int, int] = KEY,
    offset: int = OFFSET,
    dropout: float = 0.3,
    dtype: Any = np.float32,
) -> Array:
    out = np.full(count, np.nan, dtype)
    dropout_multipliers(first, layer, round_keys(key), offset, dropout, out, scratch(count))
    return out


# words


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    # Between other counters, as each column is computed alone.
    counters = np.array([(1, 2, 3, 4), counter, (ONES, 0, ONES, 0)], np.uint32)
    assert tuple(words_of(counters, key)[1]) == words


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers_of_the_kernel(runtime: CudaRuntime, counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    assert tuple(words_of_kernel(runtime, np.array([counter], np.uint32), key)[0]) == words


def test_both_give_the_same_words(runtime: CudaRuntime) -> None:
    rng = np.random.default_rng(1)
    counters = rng.integers(0, 2**32, (1000, 4), np.uint32)
    np.testing.assert_array_equal(words_of_kernel(runtime, counters, KEY), words_of(counters, KEY))


# dropout


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("layer", [0, 3])
def test_an_element_is_kept_by_its_first_word(dropout: float, layer: int) -> None:
    first, count = 2**32 - 300, 300
    counters = np.zeros((count, 4), np.uint64)
    counters[:, 0] = np.arange(first, first + count)
    counters[:, 1:] = layer, OFFSET % 2**32, OFFSET >> 32
    kept = words_of(counters, KEY)[:, 0] >= int(dropout * 2**32)
    np.testing.assert_array_equal(multipliers(count, first, layer, dropout=dropout), np.where(kept, np.float32(1 / (1 - dropout)), 0))


@pytest.mark.parametrize("dropout", [0.0, 1e-12, 0.05, 0.3, 0.999, np.nextafter(1.0, 0.0)])
def test_both_devices_drop_the_same(runtime: CudaRuntime, dropout: float) -> None:
    count, first, layer = 700, 2**32 - 700, 2
    found = runtime.to_device(0, np.full(count, np.nan, np.float32), 0)
    argument = np.zeros(1, MULTIPLY)
    argument["multipliers"], argument["count"] = view(found).pointer, count
    argument["offset"], argument["key"], argument["first"], argument["layer"] = OFFSET, KEY, first, layer
    argument["threshold"], argument["scale"] = int(dropout * 2**32), 1 / (1 - dropout)
    launch(runtime, "multiply", argument)
    np.testing.assert_array_equal(runtime.to_host(found, 0), multipliers(count, first, layer, dropout=dropout))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dropout", [0.01, 0.3, 0.5, 0.99])
def test_rate_and_scale(dropout: float, dtype: Any) -> None:
    count = 200_000
    found = multipliers(count, dropout=dropout, dtype=dtype)
    assert set(found.tolist()) == {0.0, float(dtype(1 / (1 - dropout)))}
    # A binomial count is within six standard deviations but once in 10^9.
    assert abs(np.count_nonzero(found) - count * (1 - dropout)) < 6 * np.sqrt(count * dropout * (1 - dropout))


def test_nothing_is_dropped_at_zero() -> None:
    assert (multipliers(50_000, dropout=0.0) == 1.0).all()


@pytest.mark.parametrize("dropout", [1e-300, 2.0**-33])
def test_less_than_one_word_in_all_drops_nothing(dropout: float) -> None:
    assert (multipliers(50_000, dropout=dropout) == 1.0).all()


def test_almost_one_drops_almost_all() -> None:
    # The threshold is the last word: an element is kept once in 2^32.
    assert not multipliers(50_000, dropout=float(np.nextafter(1.0, 0.0))).any()


@settings(deadline=None, max_examples=30)
@given(
    pieces=st.lists(st.integers(0, 700), min_size=1, max_size=5),
    first=st.sampled_from([0, 1, 12345, 2**32 - 5 * 700]),
    dropout=st.floats(0.0, 1.0, exclude_max=True),
)
def test_pieces_give_the_same_bits_as_the_whole(pieces: list[int], first: int, dropout: float) -> None:
    whole = multipliers(sum(pieces), first, dropout=dropout)
    begins = np.cumsum([0, *pieces])
    parts = [multipliers(count, first + int(begin), dropout=dropout) for begin, count in zip(begins, pieces, strict=False)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_every_word_of_counter_and_key_matters() -> None:
    usual: dict[str, Any] = {"first": 77, "layer": 1, "key": KEY, "offset": OFFSET}
    others: list[dict[str, Any]] = [
        {},
        {"first": 78},
        {"layer": 0},
        {"key": (KEY[0] ^ 1, KEY[1])},
        {"key": (KEY[0], KEY[1] ^ 1)},
        {"key": (KEY[1], KEY[0])},
        {"offset": OFFSET + 1},
        {"offset": OFFSET ^ (1 << 32)},
    ]
    masks = np.array([multipliers(4000, dropout=0.5, **(usual | other)) > 0 for other in others])
    # Independent masks agree in half of the elements.
    agreement = (masks[:, None] == masks[None]).mean(axis=2)
    assert np.abs(agreement[~np.eye(len(masks), dtype=bool)] - 0.5).max() < 0.05


def test_only_what_is_asked_for_is_written() -> None:
    memory = np.full(101, np.nan, np.float32)
    keys, arrays = round_keys(KEY), scratch(60)
    dropout_multipliers(0, 0, keys, 0, 0.5, memory[1:101:2], arrays)
    assert np.isnan(memory[0::2]).all()
    np.testing.assert_array_equal(memory[1::2], multipliers(50, offset=0, dropout=0.5))
    dropout_multipliers(0, 0, keys, 0, 0.5, memory[:0], arrays)
    assert all((array[..., 50:] == array.dtype.type(0xA5)).all() for array in arrays.values())
