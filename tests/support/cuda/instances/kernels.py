"""Instances of every kernel that a plan can name, such that each cell, flag, activation, element type and slice occurs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.common.functors import ATTRIBUTES, functor
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.block_shapes import pack_vector4_kernel
from dmlpy.devices.cuda.recurrent.common import copy_kernel, pack_bias_kernel, scale_kernel
from dmlpy.devices.cuda.recurrent.layer import SLICES, Pass, persistent_block_kernel, project_kernel, step_kernel
from tests.support.cuda.instances.attention import attention_instances
from tests.support.cuda.instances.bfloat16 import bfloat16_instances
from tests.support.cuda.instances.block_cell import block_cell_instances
from tests.support.cuda.instances.blocks import blocks_instances
from tests.support.cuda.instances.chains import chain_instances
from tests.support.cuda.instances.convolution import convolution_instances
from tests.support.cuda.instances.cudnn import cudnn_instances
from tests.support.cuda.instances.elementwise import element_instances
from tests.support.cuda.instances.gradient import gradient_instances
from tests.support.cuda.instances.groups import groups_instances
from tests.support.cuda.instances.matrix import matrix_instances
from tests.support.cuda.instances.normalization import normalization_instances
from tests.support.cuda.instances.persistent_grid import grid_instances
from tests.support.cuda.instances.persistent_grid_gradient import grid_gradient_instances
from tests.support.cuda.instances.pooling import pooling_instances
from tests.support.cuda.instances.quantized import quantized_instances
from tests.support.cuda.instances.reduction import reduction_instances
from tests.support.cuda.instances.resampling import resampling_instances
from tests.support.cuda.instances.vectorized_copy import vectorized_copy_instances
from tests.support.operators.bfloat16_cases import BFLOAT16

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
PASSES: tuple[Pass, ...] = ("Inference", "Training")
LSTMS = tuple(f"Lstm<{', '.join(flags)}>" for flags in product(("false", "true"), repeat=3))
CELLS = {"Rnn": 1, "Gru<false>": 2, "Gru<true>": 2} | dict.fromkeys(LSTMS, 3)
"""Each cell with the number of its activation functions."""
DEFAULTS = {1: "Activations<Tanh>", 2: "Activations<Sigmoid, Tanh>", 3: "Activations<Sigmoid, Tanh, Tanh>"}


@functools.cache
def instances() -> tuple[Kernel, ...]:
    """All of them, each once. To list those of the element engine takes more than a second."""
    families = (
        layer_instances,
        pack_instances,
        block_cell_instances,
        chain_instances,
        convolution_instances,
        cudnn_instances,
        element_instances,
        gradient_instances,
        grid_gradient_instances,
        grid_instances,
        groups_instances,
        normalization_instances,
        pooling_instances,
        resampling_instances,
        blocks_instances,
        vectorized_copy_instances,
        quantized_instances,
        reduction_instances,
        matrix_instances,
        attention_instances,
        bfloat16_instances,
    )
    return tuple(dict.fromkeys(kernel for family in families for kernel in family()))


def pack_instances() -> Iterator[Kernel]:
    """`copy`, `scale`, `pack_bias` and `pack_vector4`, from both element types."""
    for data_type in (FLOAT, HALF):
        yield copy_kernel(data_type, FLOAT)
        yield scale_kernel(data_type)
        yield pack_bias_kernel(data_type)
        yield pack_vector4_kernel(data_type)
    yield copy_kernel(HALF, HALF)


def layer_instances() -> Iterator[Kernel]:
    """Every pair of element type and slice with four cells, every cell, every activation in every place, directions that differ.

    Each of the two passes has all of the first; of the others they have every second one.
    """
    shapes: list[tuple[np.dtype[Any], int]] = [(data_type, samples) for data_type in (FLOAT, HALF) for samples in SLICES]
    for (data_type, samples), run, cell in product(shapes, PASSES, ("Rnn", "Gru<false>", "Gru<true>", LSTMS[5])):
        yield persistent_block_kernel(data_type, samples, run, cell, DEFAULTS[CELLS[cell]], DEFAULTS[CELLS[cell]])
    for samples in SLICES:
        yield persistent_block_kernel(BFLOAT16, samples, "Training", LSTMS[5], DEFAULTS[3], DEFAULTS[3])
    turns = cycle(shapes)
    for run, cell in product(PASSES, LSTMS):
        yield persistent_block_kernel(*next(turns), run, cell, DEFAULTS[3], DEFAULTS[3])
    functors = [functor(activation) for activation in ATTRIBUTES]
    passes = cycle(PASSES)
    for number, forward in enumerate(functors):
        backward = functors[number - 1]
        yield persistent_block_kernel(*next(turns), next(passes), "Rnn", f"Activations<{forward}>", f"Activations<{backward}>")
    for number, g in enumerate(functors):
        three = f"Activations<{functors[number - 1]}, {g}, {functors[number - 2]}>"
        yield persistent_block_kernel(*next(turns), next(passes), LSTMS[number % 8], three, three)
    for data_type, run in product((FLOAT, HALF), PASSES):
        for cell in ("Rnn", "Gru<false>", "Gru<true>", LSTMS[0], LSTMS[7]):
            yield step_kernel("step", data_type, run, cell, DEFAULTS[CELLS[cell]], DEFAULTS[CELLS[cell]])
        yield step_kernel("step", data_type, run, "Rnn", "Activations<Relu>", "Activations<Elu>")
        yield step_kernel("reset", data_type, run, "Gru<false>", DEFAULTS[2], "Activations<HardSigmoid, Softsign>")
    for data_type in (FLOAT, HALF):
        yield project_kernel(data_type)
