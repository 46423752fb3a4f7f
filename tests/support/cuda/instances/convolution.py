"""Instances of the kernels of convolutions: each arithmetic, both directions, each fused function."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.description.descs import FusableDesc
from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.devices.cuda.convolution.plan import each_kernel, float_arithmetic, tiles_kernel
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.quantized.convolution import integer_arithmetic
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

FLOATS: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float16))
BYTES: tuple[np.dtype[Any], ...] = (np.dtype(np.int8), np.dtype(np.uint8))
INT32 = np.dtype(np.int32)
TILES = ((FLOATS[0], False, 2), (FLOATS[0], True, 2), (FLOATS[1], False, 2))
"""Of each element type, with TF32 or without, the number of tiles."""


def convolution_instances() -> Iterator[Kernel]:
    """Each of them once."""
    yield from dict.fromkeys(_all_instances())


def _all_instances() -> Iterator[Kernel]:
    """All of them but for fused functions, which take turns with the tiles, and with the element types and directions without."""
    for data_type, tf32, count in TILES:
        arithmetic = float_arithmetic(data_type, None, None, tf32=tf32)
        yield from (tiles_kernel(arithmetic, arithmetic.tiles[number]) for number in range(count))
    for data_type, backward in product(FLOATS, (True, False)):
        yield each_kernel(float_arithmetic(data_type, None, None), backward=backward)
    makers = cycle(
        [
            *(partial(_of_tile, data_type, number, tf32) for data_type, tf32, tiles in TILES for number in range(tiles)),
            *(partial(_of_each, data_type, backward) for data_type, backward in product(FLOATS, (True, False))),
        ]
    )
    for function in (ElementWiseClipDesc(min=0.0, max=1.0), *(activation() for activation in ATTRIBUTES)):
        yield next(makers)(function)
    for x, w, y in product(BYTES, BYTES, (INT32, *BYTES)):
        arithmetic = integer_arithmetic(x, w, y)
        yield tiles_kernel(arithmetic, *arithmetic.tiles)
        yield each_kernel(arithmetic, backward=False)


def _of_tile(data_type: np.dtype[Any], number: int, tf32: bool, function: FusableDesc) -> Kernel:
    arithmetic = float_arithmetic(data_type, function, None, tf32=tf32)
    return tiles_kernel(arithmetic, arithmetic.tiles[number])


def _of_each(data_type: np.dtype[Any], backward: bool, function: FusableDesc) -> Kernel:
    return each_kernel(float_arithmetic(data_type, function, None), backward=backward)
