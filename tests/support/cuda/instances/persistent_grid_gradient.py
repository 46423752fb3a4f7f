"""Instances of the kernels that take gradients in the strategy `persistent_grid`, with as much of R in registers as any shape has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import resident_registers
from dmlpy.devices.cuda.recurrent.grid_shapes import GridShape
from dmlpy.devices.cuda.recurrent.model import Protocol
from dmlpy.devices.cuda.recurrent.persistent_grid_gradient import arrange_gradient_kernel, persistent_grid_gradient_kernel
from dmlpy.devices.cuda.recurrent.products import PRODUCT_THREADS, Product, TensorCores, divide_up
from tests.support.cuda.instances.gradient import CELLS, LSTMS, activations
from tests.support.cuda.instances.persistent_grid import fma
from tests.support.operators.bfloat16_cases import BFLOAT16

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)

PRODUCTS: tuple[tuple[np.dtype[Any], Product, Protocol], ...] = (
    # the element type, a product, how blocks exchange what they make
    (HALF, TensorCores(HALF, 1, 1, 0, 8, 4, 8), "flags"),
    (HALF, TensorCores(HALF, 1, 1, 0, 8, 2, 1), "data"),
    (HALF, TensorCores(HALF, 2, 1, 0, 16, 4, 16), "flags"),
    (HALF, TensorCores(HALF, 1, 1, 0, 32, 2, 32), "data"),
    (HALF, TensorCores(HALF, 4, 1, 0, 8, 4, 4), "flags"),
    (HALF, TensorCores(HALF, 3, 2, 0, 8, 2, 8), "alone"),
    (HALF, TensorCores(HALF, 4, 2, 0, 8, 4, 8), "alone"),
    (FLOAT, TensorCores(FLOAT, 1, 1, 0, 8, 2, 8), "flags"),
    (FLOAT, TensorCores(FLOAT, 1, 2, 0, 32, 4, 32), "data"),
    (FLOAT, TensorCores(FLOAT, 4, 2, 0, 8, 2, 8), "alone"),
    (FLOAT, fma(8, 1, 0, 1), "data"),
    (FLOAT, fma(8, 1, 0, 8), "flags"),
    (FLOAT, fma(8, 2, 0, 4), "flags"),
    (FLOAT, fma(16, 4, 0, 8), "data"),
    (FLOAT, fma(32, 4, 0, 2), "alone"),
    (FLOAT, fma(32, 4, 0, 8), "alone"),
)

BFLOAT16_PRODUCTS: tuple[tuple[np.dtype[Any], Product, Protocol], ...] = (
    (BFLOAT16, TensorCores(BFLOAT16, 1, 1, 0, 8, 4, 8), "flags"),
    (BFLOAT16, TensorCores(BFLOAT16, 1, 1, 0, 32, 2, 32), "data"),
    (BFLOAT16, TensorCores(BFLOAT16, 4, 2, 0, 8, 4, 8), "alone"),
)
"""As those of halves, but without scales."""

MOST_REGISTERS: tuple[Product, ...] = tuple(TensorCores(FLOAT, tiles, warps, 0, 8, 4, 8) for tiles, warps in ((2, 2), (3, 1), (4, 1)))
"""Those of floats that leave an LSTM whose blocks exchange data the fewest registers."""


def kernel(
    cell: str,
    data_type: np.dtype[Any],
    product: Product,
    protocol: Protocol,
    *,
    passes: int = 1,
    parts_are_whole: bool = True,
    backward: str = "",
) -> Kernel:
    """The instance of a product with all the registers that it may have; a Gru that resets first shares them out."""
    pairs = divide_up(product.rows * product.samples, PRODUCT_THREADS)
    resets = cell == "Gru<false>"
    steps = resident_registers(product, pairs, alone=protocol == "alone", resets_first=resets) // (4 * product.tiles)
    shape = GridShape(
        units=product.rows,
        unit_groups=1 if protocol == "alone" else 2,
        samples=passes * product.samples,
        batch_groups=1,
        directions=1,
        pairs=pairs,
        protocol=protocol,
        product=product.with_registers(steps * 2 // 3 if resets else steps),
        late_product=product.with_registers(steps - steps * 2 // 3) if resets else None,
        shared_bytes=0,
    )
    functors = activations(*CELLS[cell])
    return persistent_grid_gradient_kernel(data_type, shape, cell, functors, backward or functors, parts_are_whole=parts_are_whole)


def grid_gradient_instances() -> Iterator[Kernel]:
    """Each product with the cell of two products and with another, all of an LSTM's flags, directions that differ.

    The former in one pass and in several by turns, the latter the other way round; of halves one of them has parts that are not whole.
    """
    cells = cycle(("Rnn", *LSTMS, "Gru<true>"))
    for place, row in enumerate(PRODUCTS):
        whole = row[0] == FLOAT or place % 2 == 0
        yield kernel("Gru<false>", *row, passes=1 + place % 2, parts_are_whole=whole)
        yield kernel(next(cells), *row, passes=2 - place % 2, parts_are_whole=not whole or row[0] == FLOAT)
    yield kernel("Gru<true>", *PRODUCTS[0])
    yield kernel("Rnn", *PRODUCTS[11], backward=activations("Elu"))
    for place, row in enumerate(BFLOAT16_PRODUCTS):
        yield kernel("Gru<false>", *row, passes=1 + place % 2)
        yield kernel(LSTMS[7], *row, passes=2 - place % 2)
    for product in MOST_REGISTERS:
        yield kernel(LSTMS[0], FLOAT, product, "data")
    yield kernel(LSTMS[0], HALF, TensorCores(HALF, 1, 2, 0, 8, 4, 4), "flags")
    for (data_type, product, _), gates in zip(PRODUCTS[2::4], ((0, 4), (0, 1), (0, 2), (2, 1)), strict=True):
        yield arrange_gradient_kernel(data_type, product, *gates)
