"""Rows of shapes and options for the strategy persistent_grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.grid_shapes import grid_shape
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.cuda import training_layers as training
from tests.support.cuda.layer_plans import MakePlan
from tests.support.recurrent import layer_runs as plain
from tests.support.recurrent.layer_runs import Run

HALF, FLOAT = np.float16, np.float32


RESETS_FIRST, RESETS_LAST = {"linear_before_reset": False}, {"linear_before_reset": True}


CLIPPED = {"use_clip_threshold": True, "clip_threshold": 0.3}


def grid(units: int, samples: int, pass_samples: int, *, tf32: bool = False, **options: Any) -> MakePlan:
    """Plans whose blocks have so many units and samples; `options` as for `grid_shape`."""

    def plan(desc: RecurrentDesc, library: KernelLibrary) -> PersistentGridPlan:
        shape = grid_shape(desc, library.limits, units, samples, pass_samples, tf32=tf32, **options)
        assert shape is not None
        return PersistentGridPlan(desc, library, shape, "as the test asks", tf32)

    return plan


@dataclass(frozen=True)
class Row:
    """A cell and how its work is spread.

    Attributes:
        cell: and `flags`: of the desc.
        dtype: of the tensors.
        shape: units of a block, samples of a block, samples of a pass.
        sizes: hidden units and samples.
        direction: of the layer.
        tf32: whether products are on tensor cores in TF32.
        options: for `grid_shape`.
        peephole: whether an LSTM has peepholes.
    """

    cell: str
    dtype: Any
    shape: tuple[int, int, int]
    sizes: tuple[int, int] = (37, 5)
    direction: str = "BIDIRECTIONAL"
    flags: dict[str, Any] = field(default_factory=dict)
    tf32: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    peephole: bool = False

    def __str__(self) -> str:
        kind = "tf32" if self.tf32 else np.dtype(self.dtype).name
        flags = "".join(f", {name}={value}" for name, value in self.flags.items()) + ", peephole" * self.peephole
        return f"{self.cell}{flags}, {kind}, {self.shape} of {self.sizes}, {self.direction.lower()}" + "".join(
            f", {name} {value}" for name, value in self.options.items()
        )

    @property
    def plan(self) -> MakePlan:
        return grid(*self.shape, tf32=self.tf32, **self.options)

    def build(self, *, trains: bool, seed: int = 1, **options: Any) -> Run:
        """Ragged lengths from 0 on; with training a mask with holes and a reserve."""
        random = np.random.default_rng(seed)
        (h, b), t = self.sizes, options.pop("t", 4)
        optional = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor", *(["peephole_tensor"] if self.peephole else []))
        lengths = [int(length) for length in random.integers(0, t + 1, b)]
        lengths[:2] = [0, t]
        common: dict[str, Any] = {"t": t, "b": b, "h": h, "dtype": self.dtype, "direction": self.direction, "lengths": lengths}
        common |= {"optional": optional} | self.flags | options
        if trains:
            common["optional"] = (*optional, *(["input_dropout_tensor"] if seed == 2 else []))
            run = training.build(self.cell, random, mask=random.integers(0, 4, (t, b)), **common)
        else:
            run = plain.build(self.cell, random, **common)
        run.tf32 = self.tf32
        return run


FEW: dict[str, Row] = {
    "RNN": Row("RNN", FLOAT, (3, 2, 1), (7, 5)),
    "GRU": Row("GRU", HALF, (8, 3, 8), (20, 5), flags=RESETS_FIRST),
    "LSTM": Row("LSTM", HALF, (12, 3, 8), (20, 5)),
}
"""A small row of each cell, in several groups of units and of the batch."""
