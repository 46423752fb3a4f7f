"""Instances of the gradients' kernels, such that each cell, flag, activation, element type and slice occurs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.gradient import SLICES
from dmlpy.devices.cuda.recurrent.gradient_kernels import (
    CLEAR_SKIPPED,
    FIND_UNMASKED,
    find_largest_kernel,
    gradient_kernel,
    narrow_kernel,
    operand_kernel,
    persistent_block_kernel,
)
from tests.support.operators.bfloat16_cases import BFLOAT16

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
LSTMS = tuple(f"Lstm<{', '.join(flags)}>" for flags in product(("false", "true"), repeat=3))
CELLS = {"Rnn": ("Tanh",), "Gru<false>": ("Sigmoid", "Tanh"), "Gru<true>": ("Sigmoid", "Tanh")} | dict.fromkeys(
    LSTMS, ("Sigmoid", "Tanh", "Tanh")
)
"""Each cell with its usual functors."""


def activations(*functors: str) -> str:
    return f"Activations<{', '.join(functors)}>"


def gradient_instances() -> Iterator[Kernel]:
    """As the forward kernels have it, every activation where it saves its value, its argument or a clipped sum; all others."""
    shapes = [(data_type, samples) for data_type in (FLOAT, HALF) for samples in SLICES]
    for (data_type, samples), cell in product(shapes, ("Rnn", "Gru<false>", "Gru<true>", LSTMS[5])):
        yield persistent_block_kernel(data_type, samples, cell, *[activations(*CELLS[cell])] * 2)
    for samples in SLICES:
        yield persistent_block_kernel(BFLOAT16, samples, LSTMS[5], *[activations(*CELLS[LSTMS[5]])] * 2)
    turns = cycle(shapes)
    for cell in LSTMS:
        yield persistent_block_kernel(*next(turns), cell, *[activations(*CELLS[cell])] * 2)
    functors = [activation.__name__.removeprefix("Activation").removesuffix("Desc") for activation in ATTRIBUTES]
    yield persistent_block_kernel(FLOAT, 2, "Rnn", activations("Relu"), activations("Gelu"))
    for number, functor in enumerate(functors):
        three = activations(functors[number - 1], functor, functors[number - 2])
        yield persistent_block_kernel(*next(turns), LSTMS[number % 8], three, three)
    yield CLEAR_SKIPPED
    yield FIND_UNMASKED
    for width in (1, 4):
        yield find_largest_kernel(width)
        yield narrow_kernel(HALF, width)
    yield operand_kernel(FLOAT, HALF)
    for data_type in (FLOAT, HALF):
        yield operand_kernel(data_type, data_type)
        for cell in ("Rnn", "Gru<false>", "Gru<true>", LSTMS[0], LSTMS[7]):
            yield gradient_kernel("step", data_type, cell, *[activations(*CELLS[cell])] * 2)
        yield gradient_kernel("step", data_type, "Rnn", activations("Relu"), activations("Elu"))
        yield gradient_kernel("reset", data_type, "Gru<false>", activations("Sigmoid", "Tanh"), activations("HardSigmoid", "Softsign"))
        for cell in ("Gru<false>", LSTMS[0], LSTMS[7]):
            yield gradient_kernel("rebuild", data_type, cell, activations(*CELLS[cell]))
        for name in ("collect", "finish", "sum_products", "unpack"):
            yield gradient_kernel(name, data_type)
        for name, sums in product(("sum_rows", "sum_chunks"), ("OfBias", "OfPeephole")):
            yield gradient_kernel(name, data_type, sums)
