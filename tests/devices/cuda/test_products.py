"""Resident products and exchanges between blocks, each alone: x <- A x again and again, against the same in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.arithmetic import rounded_to_tf32
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.kernels import scalar_type, struct
from dmlpy.devices.cuda.recurrent.model import Protocol
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Fma, Product, TensorCores, whole_pieces
from dmlpy.devices.cuda.timeouts import TIMEOUT
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.changed_waits import RELAXED_POLL
from tests.support.folders import TESTS
from tests.support.tools import require

Array = np.ndarray[Any, Any]

FILE = str(TESTS / "kernels" / "products.cu")
HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
IN_VAIN_S = 0.002
"""The limit of waits in vain: 2 ms. A kernel counts the time between two readings of the clock, 32 looks, as at most 1 ms. So a limit is
also a number of looks, and under load each thread gives way to other processes after each: of 50 ms those took more than a minute."""
PARAMETERS = struct(
    *((name, np.uint64) for name in ("matrix", "vectors", "arrangements", "operands", "flags")),
    *((name, np.int32) for name in ("size", "rows", "samples", "times")),
    ("timeout", TIMEOUT),
)


def rounded(values: Array, product: Product) -> Array:
    """As the product takes them: halves, TF32 or floats."""
    if isinstance(product, Fma):
        return values.astype(np.float32).astype(np.float64)
    if product.data_type == HALF:
        return values.astype(np.float16).astype(np.float64)
    return rounded_to_tf32(values.astype(np.float32)).astype(np.float64)


def iterate(
    runtime: EmulatedRuntime,
    product: Product,
    size: int,
    samples: int,
    times: int,
    blocks: int = 1,
    protocol: Protocol = "flags",
    *,
    scaled: bool = False,
    limit_s: float = 100.0,
    missing: int = 0,
    reports: tuple[int, int] = (0, 0),
    left: dict[str, Array] | None = None,
) -> tuple[Array, Array]:
    """What the kernel makes of random numbers in `blocks` blocks, of which `missing` are not launched, and what it should make.

    Blocks exchange values by `protocol`; one block is alone. `reports`: the addresses where a wait of more than `limit_s` is reported.
    `left` becomes what the kernel leaves in its other memory, by name.
    """
    protocol = "alone" if blocks == 1 else protocol
    rows = -(-size // blocks)
    if protocol != "alone":  # halves are written in pairs, and a load of 16 bytes of data has no part that nobody writes
        whole = 8 if protocol == "data" else 2
        rows = -(-rows // whole) * whole
    random = np.random.default_rng(size + samples)
    matrix = random.uniform(-1, 1, (size, size)).astype(np.float32) * np.float32(2 / size**0.5)
    vectors = random.uniform(-1, 1, (size, samples)).astype(np.float32)
    expected = vectors.astype(np.float64)
    for _ in range(times):
        expected = rounded(matrix, product) @ rounded(expected, product)

    alone = protocol == "alone"
    operand = -(-samples // product.samples) * product.samples * product.row(size, protocol) * product.data_type.itemsize
    turns = {"alone": 0, "flags": 2, "data": times + 1}[protocol]
    before = 0xFF if protocol == "data" else 0
    memory = {
        "matrix": runtime.to_device(0, matrix, 0),
        "vectors": runtime.to_device(0, vectors, 0),
        "arrangements": runtime.to_device(0, np.zeros(blocks * product.arranged_bytes(size), np.uint8), 0),
        "operands": runtime.to_device(0, np.full(max(1, turns * operand), before, np.uint8), 0),
        "flags": runtime.to_device(0, np.zeros(blocks, np.uint32), 0),
    }
    expired = runtime.to_device(0, np.full(4, before, np.uint8), 0)
    argument = np.zeros(1, PARAMETERS)
    for name, array in memory.items():
        argument[name] = array.pointer
    argument["size"], argument["rows"], argument["samples"], argument["times"] = size, rows, samples, times
    argument["timeout"] = (expired.pointer, *reports, int(limit_s * 1e9 / 1024))
    shared_bytes = whole_pieces(product.shared_bytes(size), operand if alone else product.staged_bytes(size))
    entry = f"iterate<{scalar_type(product.data_type)}, {product.type_name}, Protocol::{protocol}, {str(scaled).lower()}>"
    function = runtime.load(0, *runtime.compile(sources.read(FILE), [entry], 90)[0], runtime.limits(0).shared_memory_per_block)
    runtime.launch(function, (blocks - missing, 1, 1), PRODUCT_THREADS, shared_bytes, argument, 0, cooperative=not alone)
    runtime.check_guards()
    if left is not None:
        left |= {name: array.get() for name, array in memory.items()}
    return memory["vectors"].get(), expected


def check(product: Product, found: Array, expected: Array) -> None:
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < (1e-6 if isinstance(product, Fma) else 1e-3), error


def fma(row_lanes: int, row_slots: int, register_steps: int, samples: int, loads: int = 4) -> Fma:
    return Fma(tiles=row_slots, register_steps=register_steps, samples=samples, loads=loads, row_lanes=row_lanes)


PRODUCTS: list[tuple[Product, int, int, int]] = [
    # size and samples leave remainders in tiles, steps and passes; blocks take unequal shares
    (TensorCores(HALF, 1, 1, 0, 8, 4, 8), 13, 5, 1),
    (TensorCores(HALF, 1, 1, 1, 8, 2, 8), 37, 8, 3),
    (TensorCores(HALF, 1, 1, 1, 8, 4, 1), 400, 1, 25),
    (TensorCores(HALF, 2, 1, 2, 8, 2, 2), 300, 2, 10),
    (TensorCores(HALF, 1, 1, 7, 8, 4, 4), 1100, 3, 70),
    (TensorCores(HALF, 3, 1, 0, 16, 2, 8), 37, 19, 1),
    (TensorCores(HALF, 1, 2, 2, 24, 4, 24), 130, 30, 5),
    (TensorCores(HALF, 2, 4, 1, 32, 2, 32), 100, 33, 1),
    (TensorCores(HALF, 1, 4, 3, 32, 4, 32), 300, 40, 5),
    (TensorCores(HALF, 1, 8, 3, 8, 2, 8), 100, 9, 1),
    (TensorCores(HALF, 1, 8, 3, 16, 4, 16), 200, 18, 2),
    (TensorCores(FLOAT, 1, 1, 1, 8, 2, 8), 37, 5, 3),
    (TensorCores(FLOAT, 2, 2, 1, 16, 4, 8), 61, 20, 1),
    (TensorCores(FLOAT, 1, 4, 0, 8, 2, 8), 97, 8, 2),
    (TensorCores(FLOAT, 1, 2, 2, 16, 4, 16), 200, 30, 7),
    (fma(32, 1, 0, 1), 13, 3, 1),
    (fma(32, 1, 2, 2), 75, 5, 3),
    (fma(8, 1, 1, 2), 75, 3, 10),
    (fma(8, 4, 1, 8), 75, 19, 3),
    (fma(8, 3, 0, 2), 75, 3, 4),
    (fma(8, 6, 0, 1), 90, 2, 2),
    (fma(16, 2, 0, 1), 75, 2, 3),
    (fma(16, 1, 5, 4), 700, 5, 45),
    (fma(32, 2, 1, 4), 61, 6, 1),
    (fma(32, 3, 3, 1), 150, 1, 2),
]
PROTOCOLS: tuple[Protocol, ...] = ("flags", "data")


def rows() -> list[Any]:
    """Each product with each protocol, one of which is slow, in turn, three times, and every third one once.

    A block alone exchanges nothing and has one protocol.
    """
    found = []
    for number, row in enumerate(PRODUCTS):
        usual = PROTOCOLS[number % 2] if row[-1] > 1 else "flags"
        found += [
            pytest.param(*row, protocol, times, marks=[pytest.mark.slow] * (protocol != usual or (times == 1 and number % 3 > 0)))
            for protocol in PROTOCOLS
            if protocol == "flags" or row[-1] > 1
            for times in (1, 3)
        ]
    return found


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("product", "size", "samples", "blocks", "protocol", "times"), rows(), ids=lambda value: getattr(value, "type_name", None)
)
def test_products(product: Product, size: int, samples: int, blocks: int, protocol: Protocol, times: int) -> None:
    require("g++")
    check(product, *iterate(EmulatedRuntime(), product, size, samples, times, blocks, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scaled_products(protocol: Protocol) -> None:
    require("g++")
    product = TensorCores(HALF, 1, 2, 1, 16, 2, 16)
    check(product, *iterate(EmulatedRuntime(), product, 70, 9, 3, 3, protocol, scaled=True))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_in_vain_comes_to_an_end_and_is_reported(protocol: Protocol) -> None:
    require("g++")
    runtime = EmulatedRuntime()
    address, words = runtime.host_words(0, 3)
    product = TensorCores(HALF, 1, 1, 1, 8, 4, 8)
    iterate(runtime, product, 37, 8, 2, 3, protocol, limit_s=IN_VAIN_S, missing=1, reports=(address + 8, address))
    assert [*words] == [1, 0, 1]
    check(product, *iterate(runtime, product, 37, 8, 2, 3, protocol, reports=(address + 8, address)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_in_vain_that_cannot_be_reported_fails_the_launch(protocol: Protocol) -> None:
    require("g++")
    with pytest.raises(DeviceError, match=r"trap at common/block_exchange\.cuh"):
        iterate(EmulatedRuntime(), TensorCores(HALF, 1, 1, 1, 8, 4, 8), 37, 8, 2, 3, protocol, limit_s=IN_VAIN_S, missing=1)


def test_who_has_waited_for_a_flag_in_vain_hands_nothing_on() -> None:
    """Others may still be reading what it would write over. The first exchange is that of all, before anybody waits."""
    require("g++")
    runtime, left = EmulatedRuntime(), dict[str, Array]()
    address, words = runtime.host_words(0, 2)
    product = TensorCores(HALF, 1, 1, 0, 8, 2, 4)
    iterate(runtime, product, 28, 3, 12, 4, limit_s=IN_VAIN_S, missing=1, reports=(address + 4, address), left=left)
    assert [*words] == [1, 1]
    assert left["flags"].tolist() == [1, 1, 1, 0]
    first, second = np.split(left["operands"], 2)
    assert first.any()
    assert not second.any()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_in_vain_has_no_races(protocol: Protocol) -> None:
    """Behind flags, a block that has given up reads nothing that others may be writing, and writes nothing that they may be reading."""
    require("g++")
    runtime = EmulatedRuntime(replace(H100, multiprocessors=4), sanitize="thread", delay_us=100)
    address, words = runtime.host_words(0, 2)
    iterate(
        runtime, TensorCores(HALF, 1, 1, 0, 8, 2, 4), 28, 3, 12, 4, protocol, limit_s=IN_VAIN_S, missing=1, reports=(address + 4, address)
    )
    assert [*words] == [1, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("product", [TensorCores(HALF, 1, 1, 1, 8, 2, 4), fma(16, 1, 1, 2)], ids=lambda product: product.type_name)
def test_delays_change_nothing(product: Product, protocol: Protocol) -> None:
    require("g++")
    results = [iterate(EmulatedRuntime(seed=seed, delay_us=30 * seed), product, 37, 3, 50, 3, protocol)[0] for seed in range(3)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("fault", [None, RELAXED_POLL, ("store_release", 1, "store_relaxed")])
def test_the_thread_sanitizer_finds_a_missing_release_or_acquire(fault: Any) -> None:
    require("g++")
    runtime, product = (
        EmulatedRuntime(replace(H100, multiprocessors=2), sanitize="thread", fault=fault),
        TensorCores(HALF, 1, 1, 0, 8, 4, 4),
    )
    if fault is None:
        check(product, *iterate(runtime, product, 20, 3, 3, 2))
    else:
        with pytest.raises(DeviceError, match="data race"):
            iterate(runtime, product, 20, 3, 3, 2)


def test_the_thread_sanitizer_is_silent_on_words_that_signal_their_arrival() -> None:
    require("g++")
    runtime, product = EmulatedRuntime(replace(H100, multiprocessors=2), sanitize="thread"), TensorCores(HALF, 1, 1, 0, 8, 2, 4)
    check(product, *iterate(runtime, product, 20, 3, 3, 2, "data"))
