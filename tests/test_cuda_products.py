"""Resident products and exchanges between blocks, each alone: x <- A x again and again, against the same in float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import scalar_type, struct
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Fma, Product, TensorCores
from dmlpy.problems import DeviceError
from tests.cpu_seam import H100, CpuSeam, rounded_to_tf32
from tests.tools import require

Array = np.ndarray[Any, Any]

FILE = str(Path(__file__).parent / "kernels" / "products.cu")
HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
PARAMETERS = struct(
    *((name, np.uint64) for name in ("matrix", "vectors", "arrangements", "operands", "flags")),
    *((name, np.int32) for name in ("size", "rows", "samples", "times")),
    ("most_polls", np.uint32),
)


def rounded(values: Array, product: Product) -> Array:
    """As the product takes them: halves, TF32 or floats."""
    if isinstance(product, Fma):
        return values.astype(np.float32).astype(np.float64)
    if product.data_type == HALF:
        return values.astype(np.float16).astype(np.float64)
    return rounded_to_tf32(values.astype(np.float32)).astype(np.float64)


def iterate(
    seam: CpuSeam,
    product: Product,
    size: int,
    samples: int,
    times: int,
    blocks: int = 1,
    *,
    scaled: bool = False,
    most_polls: int = 1 << 28,
    missing: int = 0,
) -> tuple[Array, Array]:
    """What the kernel makes of random numbers in `blocks` blocks, of which `missing` are not launched, and what it should make."""
    random = np.random.default_rng(size + samples)
    matrix = random.uniform(-1, 1, (size, size)).astype(np.float32) * np.float32(2 / size**0.5)
    vectors = random.uniform(-1, 1, (size, samples)).astype(np.float32)
    expected = vectors.astype(np.float64)
    for _ in range(times):
        expected = rounded(matrix, product) @ rounded(expected, product)

    alone = blocks == 1
    data_type = FLOAT if isinstance(product, Fma) else product.data_type
    operand = -(-samples // product.samples) * product.samples * product.padded_depth(size) * data_type.itemsize
    memory = {
        "matrix": seam.to_device(0, matrix, 0),
        "vectors": seam.to_device(0, vectors, 0),
        "arrangements": seam.to_device(0, np.zeros(blocks * product.arranged_bytes(size), np.uint8), 0),
        "operands": seam.to_device(0, np.zeros(1 if alone else 2 * operand, np.uint8), 0),
        "flags": seam.to_device(0, np.zeros(blocks, np.uint32), 0),
    }
    argument = np.zeros(1, PARAMETERS)
    for name, array in memory.items():
        argument[name] = array.pointer
    argument["size"], argument["rows"], argument["samples"], argument["times"] = size, -(-size // blocks), samples, times
    argument["most_polls"] = most_polls
    shared_bytes = product.shared_bytes(size, alone) + operand * alone
    scalar = scalar_type(data_type)
    entry = f"iterate<{scalar}, {product.type_name}, {str(alone).lower()}, {str(scaled).lower()}>"
    function = seam.load(0, *seam.compile(sources.read(FILE), entry, 90), shared_bytes)
    seam.launch(function, (blocks - missing, 1, 1), PRODUCT_THREADS, shared_bytes, argument, 0, cooperative=not alone)
    seam.check_guards()
    return memory["vectors"].get(), expected


def check(product: Product, found: Array, expected: Array) -> None:
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < (1e-6 if isinstance(product, Fma) else 1e-3), error


PRODUCTS: list[tuple[Product, int, int, int]] = [
    # size and samples leave remainders in tiles, steps and passes; blocks take unequal shares
    (TensorCores(HALF, 1, 1, 0, 1), 13, 5, 1),
    (TensorCores(HALF, 1, 1, 1, 1), 37, 8, 3),
    (TensorCores(HALF, 3, 1, 0, 2), 37, 19, 1),
    (TensorCores(HALF, 1, 2, 2, 3), 130, 30, 5),
    (TensorCores(HALF, 2, 4, 1, 4), 100, 33, 1),
    (TensorCores(HALF, 1, 8, 3, 1), 100, 9, 1),
    (TensorCores(FLOAT, 1, 1, 1, 1), 37, 5, 3),
    (TensorCores(FLOAT, 2, 2, 1, 2), 61, 20, 1),
    (TensorCores(FLOAT, 1, 4, 0, 1), 97, 8, 2),
    (Fma(32, 1, 0, 1), 13, 3, 1),
    (Fma(32, 1, 2, 2), 75, 5, 3),
    (Fma(8, 1, 1, 2), 75, 3, 10),
    (Fma(16, 2, 0, 1), 75, 2, 3),
    (Fma(32, 2, 1, 4), 61, 6, 1),
    (Fma(32, 3, 3, 1), 150, 1, 2),
]


@pytest.mark.parametrize(("product", "size", "samples", "blocks"), PRODUCTS, ids=lambda value: getattr(value, "type_name", None))
@pytest.mark.parametrize("times", [1, 3])
def test_products(product: Product, size: int, samples: int, blocks: int, times: int) -> None:
    require("g++")
    check(product, *iterate(CpuSeam(), product, size, samples, times, blocks))


def test_scaled_products() -> None:
    require("g++")
    product = TensorCores(HALF, 1, 2, 1, 2)
    check(product, *iterate(CpuSeam(), product, 70, 9, 3, 3, scaled=True))


def test_a_wait_without_end_fails_the_launch() -> None:
    require("g++")
    with pytest.raises(DeviceError, match=r"trap at common/exchange\.cuh"):
        iterate(CpuSeam(), TensorCores(HALF, 1, 1, 1, 1), 37, 8, 2, 3, most_polls=1000, missing=1)


@pytest.mark.parametrize("product", [TensorCores(HALF, 1, 1, 1, 1), Fma(16, 1, 1, 2)], ids=lambda product: product.type_name)
def test_delays_change_nothing(product: Product) -> None:
    require("g++")
    results = [iterate(CpuSeam(seed=seed, delay_us=30 * seed), product, 37, 3, 50, 3)[0] for seed in range(3)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("fault", [None, ("load_acquire", 1, "load_relaxed"), ("store_release", 1, "store_relaxed")])
def test_the_thread_sanitizer_finds_a_missing_release_or_acquire(fault: Any) -> None:
    require("g++")
    seam, product = CpuSeam(replace(H100, multiprocessors=2), sanitize="thread", fault=fault), TensorCores(HALF, 1, 1, 0, 1)
    if fault is None:
        check(product, *iterate(seam, product, 20, 3, 3, 2))
    else:
        with pytest.raises(DeviceError, match="data race"):
            iterate(seam, product, 20, 3, 3, 2)
