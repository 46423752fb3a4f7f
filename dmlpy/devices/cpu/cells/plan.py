"""The plans of one step of a GRU and of its gradient: scratch, and the parameters of their kernels."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.cells.parameters import STEP_PARAMETERS
from dmlpy.devices.cpu.gemm.parameters import VECTORS
from dmlpy.devices.cpu.kernels import Function, Kernel
from dmlpy.devices.cpu.registers import host_registers
from dmlpy.devices.cpu.team import launch
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.block_cell import GRUBlockDesc

STEP = Kernel("dmlpy.devices.cpu.cells.step_kernels:step_of", 5)
"""The step: the vectors of a panel, whether of FLOAT16, and the registers."""

_WIDE = 4
"""Vectors of a panel for so few samples that it is read once, where it lies: more of each row is then read at a time."""
_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""


class StepPlan(PlanWithoutConstants):
    """GRUBlockCell by one compiled kernel, which reads the weights where they are.

    Args:
        desc: a checked desc whose rows lie densely.
    """

    def __init__(self, desc: GRUBlockDesc) -> None:
        known = desc.sizes()
        self._tensors, self._registers = desc.tensors(), host_registers()
        self._batch, self._inputs, self._units = (known[name] for name in ("batch_size", "input_size", "cell_size"))
        self._halves = desc.x.data_type is DataType.FLOAT16
        copies = self._halves or self._batch > self._registers.columns(_WIDE)
        self._width = VECTORS if copies else _WIDE
        panel, most = self._width * self._registers.lanes, self._registers.columns(self._width)
        terms = self._inputs + self._units
        groups = ceil(self._batch / most)
        self._threads = max(1, min(available_threads(), groups, 3 * self._batch * terms * self._units // _WORK_OF_A_THREAD))
        padded = ceil(self._units / panel) * panel
        own = (self._threads, 1 + most + terms, panel)
        arrays = {"joined": (self._batch, terms), "gates": (self._batch, 2 * padded), "scratch": own}
        self._scratch = Layout([(name, sizes, COMPUTE) for name, sizes in arrays.items()], _ALIGNMENT)
        self.temporary_size = self._scratch.size

    @property
    def _kernel(self) -> Function:
        return STEP(self._width, self._halves, self._registers)

    def load(self) -> None:
        _ = self._kernel

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        work = f"{self._batch} samples, {self._units} units"
        return f"compiled by Numba, {COMPUTE} arithmetic on {threads}; {work}; weights are read as they lie"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        needed = [bool({"r", "c", "h"} & set(tensors)), bool({"u", "h"} & set(tensors)), bool({"c", "h"} & set(tensors))]
        values: dict[str, Any] = {
            "items": self._threads,
            "batch": self._batch,
            "inputs": self._inputs,
            "units": self._units,
            "wanted": sum(1 << gate for gate, is_needed in enumerate(needed) if is_needed),
        }
        for name, array in self._scratch.arrays_at(temporary).items():
            values |= {name: array.ctypes.data}
            values |= {"scratch_size": array.strides[0]} if name == "scratch" else {f"{name}_row": array.strides[0]}
        for name, address in tensors.items():
            tensor = self._tensors[name]
            values |= {name: address, f"{name}_row": tensor.element_strides[0] * tensor.data_type.numpy.itemsize}
        parameters = np.zeros(1, STEP_PARAMETERS)
        for name, value in values.items():
            parameters[name] = value
        return launch(self._kernel, parameters.ctypes.data, self._threads, 1, parameters)
