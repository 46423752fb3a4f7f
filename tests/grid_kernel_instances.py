"""Instances of the kernels of the family `grid`, such that each cell, flag, kind of product, residency and way of exchange occurs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.grid import GridShape, arrange_kernel, grid_kernel
from dmlpy.devices.cuda.recurrent.products import Fma, Product, TensorCores

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
LSTMS = tuple(f"Lstm<{', '.join(flags)}>" for flags in product(("false", "true"), repeat=3))
CELLS = {"Rnn": "Tanh", "Gru<false>": "Sigmoid, Tanh", "Gru<true>": "Sigmoid, Tanh"} | dict.fromkeys(LSTMS, "Sigmoid, Tanh, Tanh")
"""Each cell with its usual functors."""

PRODUCTS: tuple[tuple[np.dtype[Any], Product, Product], ...] = (
    # the element type, a product, and another of as many samples for a late gate
    (HALF, TensorCores(HALF, 1, 1, 8, 1), TensorCores(HALF, 1, 1, 4, 1)),
    (HALF, TensorCores(HALF, 2, 4, 0, 2), TensorCores(HALF, 1, 2, 1, 2)),
    (FLOAT, TensorCores(FLOAT, 2, 2, 6, 1), TensorCores(FLOAT, 1, 1, 6, 1)),
    (FLOAT, Fma(32, 1, 16, 2), Fma(8, 1, 4, 2)),
    (FLOAT, Fma(32, 3, 0, 1), Fma(16, 1, 0, 1)),
)


def kernel(
    cell: str, run: str, data_type: np.dtype[Any], first: Product, late: Product, *, alone: bool, pairs: int, backward: str = ""
) -> Kernel:
    """The instance of these products; `late` counts only where the cell resets before its product."""
    functors = f"Activations<{CELLS[cell]}>"
    shape = GridShape(
        units=32,
        unit_groups=1 if alone else 2,
        samples=first.samples,
        batch_groups=1,
        directions=1,
        pairs=pairs,
        product=first,
        late_product=late if cell == "Gru<false>" else None,
        shared_bytes=0,
    )
    return grid_kernel(data_type, shape, run, cell, functors, backward or functors)


def grid_instances() -> Iterator[Kernel]:
    """Four cells with each product in turns of pass and exchange, all of an LSTM's flags, directions that differ."""
    turns = tuple(product(("Inference", "Training"), (False, True)))
    for (place, products), (number, cell) in product(enumerate(PRODUCTS), enumerate(("Rnn", "Gru<false>", "Gru<true>", LSTMS[5]))):
        if place == 4 and number % 2 == 0:
            continue
        run, alone = turns[(place + number) % len(turns)]
        yield kernel(cell, run, *products, alone=alone, pairs=1)
    for number, cell in enumerate(LSTMS[:5] + LSTMS[6:]):
        data_type, first, late = PRODUCTS[number % len(PRODUCTS)]
        yield kernel(cell, "Training", data_type, first, late, alone=number % 2 == 0, pairs=1 + number % 3)
    yield kernel("Rnn", "Inference", *PRODUCTS[0], alone=False, pairs=2, backward="Activations<Elu>")
    for data_type, first, _ in PRODUCTS[1:4]:
        yield arrange_kernel(data_type, first)
