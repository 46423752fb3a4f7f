"""The plans of one step of a GRU and of its gradient: scratch, and the parameters of their kernels."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Function, Kernel, make_struct
from dmlpy.devices.cpu.matrix.parameters import VECTORS
from dmlpy.devices.cpu.recurrent.block_cell_parameters import BLOCK_TERMS, GRADIENT_PARAMETERS, STEP_PARAMETERS
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    import numpy as np

    from dmlpy.operators.recurrent.block_cell import GRUBlockDesc

STEP = Kernel("dmlpy.devices.cpu.recurrent.block_cell_kernels:build_step", 5)
"""The step: the vectors of a panel, whether of FLOAT16, and the instruction set."""
GRADIENT = Kernel("dmlpy.devices.cpu.recurrent.block_cell_gradient_kernels:gradient_of", 5)
"""The gradient: whether of FLOAT16, and the instruction set."""

_WIDE = 4
"""Vectors of a panel for so few samples that it is read once, where it lies: more of each row is then read at a time."""
_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""


class _CellPlan(PlanWithoutConstants):
    """What both plans share.

    Args:
        desc: a checked desc; the elements of its tensors' rows lie side by side.
    """

    parameters: ClassVar[np.dtype[np.void]]

    def __init__(self, desc: GRUBlockDesc) -> None:
        known = desc.sizes()
        self._tensors, self._isa = desc.tensors(), host_isa()
        self._batch, self._inputs, self._units = (known[name] for name in ("batch_size", "input_size", "cell_size"))
        self._halves = desc.x.data_type is DataType.FLOAT16
        work = 3 * self._batch * (self._inputs + self._units) * self._units
        self._threads = max(1, min(available_threads(), self._most_items(), work // _WORK_OF_A_THREAD))
        arrays = [(name, sizes, COMPUTE) for name, sizes in self._scratch_shapes().items()]
        self._scratch = Layout(arrays, _ALIGNMENT)
        self.temporary_size = self._scratch.size

    @property
    @abstractmethod
    def kernel(self) -> Function:
        """The compiled function."""

    @abstractmethod
    def _most_items(self) -> int:
        """The parts that the samples can be divided in."""

    @abstractmethod
    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a launch; `scratch` is one for each thread."""

    def _padded(self, count: int, vectors: int = 1) -> int:
        """Rounds a number of floats up to whole groups of vectors."""
        return ceil(count / (vectors * self._isa.lanes)) * vectors * self._isa.lanes

    def load(self) -> None:
        _ = self.kernel

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        work = f"{self._batch} samples, {self._units} units"
        return f"compiled by Numba, {COMPUTE} arithmetic on {threads}; {work}; weights are read as they lie"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values = {"tiles": self._threads, "batch": self._batch, "inputs": self._inputs, "units": self._units, **self._choices()}
        for name, array in self._scratch.arrays_at(temporary).items():
            values |= {name: array.ctypes.data, "scratch_size" if name == "scratch" else f"{name}_row": array.strides[0]}
        for name, address in tensors.items():
            tensor = self._tensors[name]
            values |= {name: address, f"{name}_row": tensor.element_strides[0] * tensor.data_type.numpy.itemsize}
        parameters = make_struct(self.parameters, values)
        return TaskLaunch(self.kernel, parameters.ctypes.data, self._threads, parameters)

    def _choices(self) -> dict[str, int]:
        """Parameters that tell what is computed."""
        return {}


class StepPlan(_CellPlan):
    """GRUBlockCell by one compiled kernel, which reads the weights where they are."""

    parameters = STEP_PARAMETERS

    @property
    def kernel(self) -> Function:
        return STEP(self._width, self._halves, self._isa)

    @property
    def _width(self) -> int:
        copies = self._halves or self._batch > self._isa.columns(_WIDE)
        return VECTORS if copies else _WIDE

    def _most_items(self) -> int:
        return ceil(self._batch / self._isa.columns(self._width))

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        terms, rows = self._inputs + self._units, 1 + self._isa.columns(self._width)
        own = (self._threads, rows + terms, self._width * self._isa.lanes)
        return {"joined": (self._batch, terms), "gates": (self._batch, 2 * self._padded(self._units, self._width)), "scratch": own}

    def _choices(self) -> dict[str, int]:
        needed = [any(name in self._tensors for name in names) for names in ("rch", "uh", "ch")]
        return {"wanted": sum(1 << gate for gate, is_needed in enumerate(needed) if is_needed)}


class StepGradientPlan(_CellPlan):
    """GRUBlockCellGrad by one compiled kernel, which reads the weights where they are."""

    parameters = GRADIENT_PARAMETERS

    @property
    def kernel(self) -> Function:
        return GRADIENT(self._halves, self._isa)

    def _most_items(self) -> int:
        return self._batch

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        batch, units, lanes = self._batch, self._padded(self._units), self._isa.lanes
        return {
            "candidate_bar": (batch, units),
            "gates_bar": (batch, 2 * self._units + lanes),
            "from_candidate": (batch, self._padded(self._inputs) + units),
            "sums": (batch, lanes),
            "scratch": (self._threads, lanes, BLOCK_TERMS),
        }
