"""Recurrent layers on CUDA: rows of shapes and options, plans, launches and the comparison with the definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from dmlpy.description.arrays import view
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.block_shapes import block_shape
from dmlpy.devices.cuda.recurrent.layer import (
    SLICES,
    PersistentBlockPlan,
    RecurrentPlan,
    block_shared_bytes,
)
from dmlpy.devices.cuda.recurrent.per_step import PerStepPlan
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import Layout, Run
from tests.support.tolerance import CANCELED_HALF_SUM

MakePlan = Callable[[RecurrentDesc, KernelLibrary], RecurrentPlan]


LAYOUTS: tuple[Layout, ...] = ("packed", "padded", "permuted", "broadcast")


def persistent_block(samples: int) -> MakePlan:
    def plan(desc: RecurrentDesc, library: KernelLibrary) -> RecurrentPlan:
        return PersistentBlockPlan(desc, library, block_shape(desc, samples, block_shared_bytes(desc, samples)), "as the test asks")

    return plan


def per_step(desc: RecurrentDesc, library: KernelLibrary) -> RecurrentPlan:
    return PerStepPlan(desc, library, "as the test asks")


STRATEGIES: dict[str, MakePlan] = {f"persistent_block {samples}": persistent_block(samples) for samples in SLICES} | {"per_step": per_step}


def poisoned(runtime: CudaRuntime, size: int) -> Any:
    """Memory in which every float is a NaN."""
    memory = runtime.allocate(0, size, 0)
    runtime.memset(memory.pointer, 0xFF, size, 0)
    return memory


def launch(run: Run, make: MakePlan, runtime: CudaRuntime, *, prepared: bool = False) -> RecurrentPlan:
    """Runs a plan over copies of the run's memory on the runtime's device, with scratch of exactly the size that it asks for."""
    plan = make(run.desc, KernelLibrary(runtime, 0))
    placed_tensors = run.inputs | run.outputs
    copies = {name: runtime.to_device(0, placed.memory, 0) for name, placed in placed_tensors.items()}
    starts = {name: view(copy).pointer for name, copy in copies.items()}
    pointers = {name: starts[name] + placed.pointer - placed.memory.ctypes.data for name, placed in placed_tensors.items()}
    if prepared:
        persistent = poisoned(runtime, plan.persistent_size)
        plan.pack({name: pointers.pop(name) for name in plan.constants}, persistent.pointer)(0)
        temporary = poisoned(runtime, plan.prepared_temporary_size)
        plan.bind(pointers, temporary.pointer, persistent.pointer)(0)
    else:
        temporary = poisoned(runtime, plan.temporary_size)
        plan.bind(pointers, temporary.pointer, None)(0)
    for name, placed in placed_tensors.items():
        before = placed.memory.copy()
        placed.memory[...] = np.frombuffer(runtime.read(starts[name], placed.memory.size, 0), np.uint8)
        assert name in run.outputs or (placed.memory == before).all(), f"{name} is an input and was written"
    return plan


def check(run: Run, what: str = "", *, least: float = 0.0) -> None:
    arrays = {name: np.array(array) for name, array in run.arrays.items()}
    run.check(exact(run.desc, arrays), what, least=least)


def least_of(dtype: Any) -> float:
    """What no element of a random layer's results counts less than.

    A layer of FLOAT16 or BFLOAT16 rounds the input product, inputs with dropout and states before a projection. Of a layer with one unit
    that takes one step a result is a single number, and where X W^T and H R^T cancel it may be little but that rounding, whatever the cell.
    """
    return 0.0 if dtype == np.float32 else CANCELED_HALF_SUM


PLAIN_ROWS = [
    (cell, flags, strategy, dtype)
    for (cell, flags), (place_of_strategy, strategy) in product(
        [("RNN", {}), ("GRU", {"linear_before_reset": False}), ("GRU", {"linear_before_reset": True})], enumerate(STRATEGIES)
    )
    for dtype in [(np.float32, np.float16)[(place_of_strategy + len(flags) + bool(flags.get("linear_before_reset"))) % 2]]
]


LSTM_ROWS = [
    ("LSTM", {"use_clip_threshold": clip, "couple_input_forget": clip ^ couple, "peephole": clip ^ peephole}, strategy, dtype)
    for strategy, (couple, peephole), dtypes in zip(
        STRATEGIES, [(0, 0), (0, 1), (1, 0), (1, 1), (0, 1)], [(0, 1), (1, 0), (1, 0), (0, 1), (0, 1)], strict=True
    )
    for clip, dtype in zip((0, 1), ((np.float32, np.float16)[index] for index in dtypes), strict=True)
]
"""Each strategy with both values of each flag and both types, and each pair of two flags, or a flag and a type, in all four ways."""


BFLOAT16_ROWS = [
    ("RNN", {}, "persistent_block 4", BFLOAT16),
    ("GRU", {"linear_before_reset": False}, "per_step", BFLOAT16),
    ("LSTM", {"use_clip_threshold": 1, "couple_input_forget": 0, "peephole": 1}, "per_step", BFLOAT16),
]


ALL_ROWS = [
    (cell, flags, strategy, dtype)
    for (cell, flags), strategy, dtype in product(
        [
            ("RNN", {}),
            ("GRU", {"linear_before_reset": False}),
            ("GRU", {"linear_before_reset": True}),
            *(
                ("LSTM", {"use_clip_threshold": clip, "couple_input_forget": couple, "peephole": peephole})
                for clip, couple, peephole in product((0, 1), repeat=3)
            ),
        ],
        STRATEGIES,
        (np.float32, np.float16, BFLOAT16),
    )
]


def named(rows: list[Any]) -> list[Any]:
    return [
        pytest.param(*row, id=f"{row[0]}{''.join(f', {flag}' for flag, on in row[1].items() if on)}, {row[2]}, {np.dtype(row[3])}")
        for row in rows
    ]
