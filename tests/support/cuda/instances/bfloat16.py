"""Instances of the kernels that read and write BFLOAT16 beside the element engine: those of operators of every family."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.plans import STRATEGIES
from tests.support.cuda.plan_kernels import H100, RecordingLibrary
from tests.support.operators.bfloat16_cases import BFLOAT16, CELLS, OTHERS, USUAL, block_cell_gradient, tensor, training
from tests.support.recurrent.networks import network


def bfloat16_instances() -> Iterator[Kernel]:
    """Those of layers and their gradients in each strategy, with units for several blocks; `per_step` also with all that it alone takes."""
    library = RecordingLibrary(H100)

    def record(desc: dml.OperatorDesc, strategy: str | None = None) -> None:
        device = CudaDevice(library.runtime, strategy=strategy)
        device.library = library
        plan = device.plan(desc)
        assert plan is not None
        plan.load()

    for desc in (*USUAL.values(), *OTHERS.values(), block_cell_gradient()):
        record(desc)
    for strategy in STRATEGIES:
        for cell in CELLS:
            layer = training(cell, units=64, inputs=32, batch=17)
            record(layer, strategy)
            record(layer.gradient(), strategy)
    stack = network(np.random.default_rng(0), dtype=BFLOAT16, dropout=0.5, offset=0).desc
    added = training(
        "LSTM",
        projection_tensor=tensor(1, 1, 5, 5),
        peephole_tensor=tensor(1, 1, 1, 15),
        input_dropout_tensor=tensor(1, 4, 3, 11),
        state_dropout_tensor=tensor(1, 4, 3, 5),
        step_mask_tensor=dml.TensorDesc(data_type="UINT8", sizes=(1, 1, 7, 3)),
    )
    for desc in (stack, added):
        record(desc, "per_step")
        record(desc.gradient(), "per_step")
    yield from library.kernels
