"""Instances of the kernels of `persistent_grid`, such that each cell, flag, kind of product, residency and way of exchange occurs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.grid_shapes import GridShape
from dmlpy.devices.cuda.recurrent.model import Protocol
from dmlpy.devices.cuda.recurrent.persistent_grid import arrange_kernel, persistent_grid_kernel
from dmlpy.devices.cuda.recurrent.products import Fma, Product, TensorCores

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
LSTMS = tuple(f"Lstm<{', '.join(flags)}>" for flags in product(("false", "true"), repeat=3))
CELLS = {"Rnn": "Tanh", "Gru<false>": "Sigmoid, Tanh", "Gru<true>": "Sigmoid, Tanh"} | dict.fromkeys(LSTMS, "Sigmoid, Tanh, Tanh")
"""Each cell with its usual functors."""
PROTOCOLS: tuple[Protocol, ...] = ("flags", "data", "alone")


def fma(row_lanes: int, row_slots: int, register_steps: int, samples: int, loads: int = 4) -> Fma:
    return Fma(tiles=row_slots, register_steps=register_steps, samples=samples, loads=loads, row_lanes=row_lanes)


PRODUCTS: tuple[tuple[np.dtype[Any], Product, Product], ...] = (
    # the element type, a product, and another of as many samples for a late gate
    (HALF, TensorCores(HALF, 1, 1, 8, 8, 4, 8), TensorCores(HALF, 1, 1, 4, 8, 2, 8)),
    (HALF, TensorCores(HALF, 1, 1, 8, 8, 4, 1), TensorCores(HALF, 1, 1, 4, 8, 2, 1)),
    (HALF, TensorCores(HALF, 2, 4, 0, 16, 4, 16), TensorCores(HALF, 1, 2, 1, 16, 2, 16)),
    (FLOAT, TensorCores(FLOAT, 2, 2, 6, 8, 4, 4), TensorCores(FLOAT, 1, 1, 6, 8, 2, 4)),
    (FLOAT, fma(32, 1, 16, 2), fma(8, 1, 4, 2)),
    (FLOAT, fma(8, 4, 4, 8), fma(8, 1, 1, 8)),
    (FLOAT, fma(32, 3, 0, 1), fma(16, 1, 0, 1)),
)


def kernel(
    cell: str,
    run: str,
    data_type: np.dtype[Any],
    first: Product,
    late: Product,
    *,
    protocol: Protocol,
    pairs: int,
    passes: int = 1,
    backward: str = "",
) -> Kernel:
    """The instance of these products; `late` counts only where the cell resets before its product."""
    functors = f"Activations<{CELLS[cell]}>"
    shape = GridShape(
        units=32,
        unit_groups={"alone": 1, "cluster": 4}.get(protocol, 2),
        samples=passes * first.samples,
        batch_groups=1,
        directions=1,
        pairs=pairs,
        protocol=protocol,
        product=first,
        late_product=late if cell == "Gru<false>" else None,
        shared_bytes=0,
    )
    return persistent_grid_kernel(data_type, shape, run, cell, functors, backward or functors)


def grid_instances() -> Iterator[Kernel]:
    """Four cells with each product in turns of pass, exchange and passes over samples, all of an LSTM's flags, directions that differ."""
    turns = cycle(product(("Inference", "Training"), PROTOCOLS))
    for (place, products), (number, cell) in product(enumerate(PRODUCTS), enumerate(("Rnn", "Gru<false>", "Gru<true>", LSTMS[5]))):
        run, protocol = next(turns)
        if place != 6 or number % 2:
            yield kernel(cell, run, *products, protocol=protocol, pairs=1, passes=1 + (place + number) % 2)
    for number, cell in enumerate(LSTMS[:5] + LSTMS[6:]):
        data_type, first, late = PRODUCTS[number % len(PRODUCTS)]
        pairs = 1 + number % 5 % 3  # one where a thread has four rows of eight samples: no shape has more with so many registers of R
        yield kernel(cell, "Training", data_type, first, late, protocol=PROTOCOLS[number % 3], pairs=pairs, passes=1 + number % 2)
    yield kernel("Rnn", "Inference", *PRODUCTS[0], protocol="flags", pairs=2, backward="Activations<Elu>")
    cells = cycle(("Lstm<false, false, true>", "Gru<false>", "Rnn", "Gru<true>"))
    for number, products in enumerate(PRODUCTS):
        run = ("Training", "Inference")[number % 2]
        yield kernel(next(cells), run, *products, protocol="cluster", pairs=1, passes=1 + number // 2 % 2)
    for data_type, first, _ in PRODUCTS[2:6]:
        yield arrange_kernel(data_type, first)
