"""The plans of one step of a GRU and of its gradient: scratch, and the parameters of their kernels."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from dmlpy.devices.cpu.isa import host_isa, storage_of
from dmlpy.devices.cpu.jit import Function, Kernel
from dmlpy.devices.cpu.matrix.blocked import VECTORS
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.block_cell import GRUBlockDesc


class CellParameters(CountedParameters):
    """The parameters of a step and of its gradient. A tensor that is absent has the address 0. A tile is a part of the samples."""

    batch: Count = field("samples")
    inputs: Count = field("entries of x")
    units: Count = field("units of the cell")
    scratch: Address = field("memory of each thread's own")
    scratch_size: Bytes = field("from a thread's to the next")
    x: Address = field("x [batch, inputs]")
    x_row: Bytes = field("from a row of it to the next")
    h_prev: Address = field("the state before [batch, units]")
    h_prev_row: Bytes = field("from a row of it to the next")
    w_ru: Address = field("the weights of r and u [inputs + units, 2 * units]")
    w_ru_row: Bytes = field("from a row of it to the next")
    w_c: Address = field("those of c [inputs + units, units]")
    w_c_row: Bytes = field("from a row of it to the next")
    b_ru: Address = field("the biases of r and u")
    b_c: Address = field("that of c")
    r: Address = field("r [batch, units]")
    r_row: Bytes = field("from a row of it to the next")
    u: Address = field("u [batch, units]")
    u_row: Bytes = field("from a row of it to the next")
    c: Address = field("c [batch, units]")
    c_row: Bytes = field("from a row of it to the next")


class StepParameters(CellParameters):
    """The parameters of a step. Each thread's scratch has room for a panel's biases, some rows' sums, and the panel."""

    h: Address = field("the state after [batch, units]")
    h_row: Bytes = field("from a row of it to the next")
    wanted: Count = field("a bit for each of r, u and c, in this order, that is computed")
    joined: Address = field("[x, h_prev] [batch, inputs + units]")
    joined_row: Bytes = field("from a row of it to the next")
    gates: Address = field("r and u [batch, 2, units rounded up to whole panels]")
    gates_row: Bytes = field("from a row of it to the next")


class StepGradientParameters(CellParameters):
    """The parameters of a step's gradient. Each thread's scratch has `BLOCK_TERMS` terms of a vector's lanes of rows of weights."""

    d_h: Address = field("the gradient of the state after")
    d_h_row: Bytes = field("from a row of it to the next")
    d_x: Address = field("that of x")
    d_x_row: Bytes = field("from a row of it to the next")
    d_h_prev: Address = field("that of the state before")
    d_h_prev_row: Bytes = field("from a row of it to the next")
    d_c_bar: Address = field("that of the sum of c")
    d_c_bar_row: Bytes = field("from a row of it to the next")
    d_r_bar_u_bar: Address = field("those of the sums of r and u [batch, 2 * units]")
    d_r_bar_u_bar_row: Bytes = field("from a row of it to the next")
    candidate_bar: Address = field("d_c_bar [batch, units], with zeros up to a whole vector behind each row")
    candidate_bar_row: Bytes = field("from a row of it to the next")
    gates_bar: Address = field("d_r_bar_u_bar [batch, 2 * units], with zeros likewise")
    gates_bar_row: Bytes = field("from a row of it to the next")
    from_candidate: Address = field("[d_x2, d_h_prevr], both parts rounded up to whole vectors")
    from_candidate_row: Bytes = field("from a row of it to the next")
    sums: Address = field("a vector for each sample")
    sums_row: Bytes = field("from a sample's to the next")


BLOCK_TERMS = 256
"""Terms that are summed for all samples before the next ones: the rows' weights then stay in the first-level cache."""


STEP = Kernel("dmlpy.devices.cpu.recurrent.block_cell_kernels:build_step", 5)
"""The step: the vectors of a panel, the type of tensors, and the instruction set."""
GRADIENT = Kernel("dmlpy.devices.cpu.recurrent.block_cell_kernels:build_gradient", 5)
"""The gradient: the type of tensors, and the instruction set."""

_WIDE = 4
"""Vectors of a panel for few samples, which read it once and in place: more of each row is then read at a time."""
_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""


class _CellPlan(PlanWithoutConstants):
    """The base of both plans.

    Args:
        desc: a checked desc; the elements of its tensors' rows are contiguous.
    """

    parameters: ClassVar[type[CellParameters]]

    def __init__(self, desc: GRUBlockDesc) -> None:
        known = desc.sizes()
        self._tensors, self._isa = desc.tensors(), host_isa()
        self._batch, self._inputs, self._units = (known[name] for name in ("batch_size", "input_size", "cell_size"))
        self._storage = storage_of(desc.x.data_type)
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
        """The parts into which the samples can be divided."""

    @abstractmethod
    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a launch; `scratch` is one for each thread."""

    def _padded(self, count: int, vectors: int = 1) -> int:
        """Rounds a number of floats up to whole groups of vectors."""
        return ceil(count / (vectors * self._isa.lanes)) * vectors * self._isa.lanes

    def load(self) -> None:
        _ = self.kernel

    def describe(self) -> str:
        threads = plural(self._threads, "thread")
        work = f"{self._batch} samples, {self._units} units"
        return f"compiled by LLVM, {COMPUTE} arithmetic on {threads}; {work}; weights are read as they lie"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values = {"tiles": self._threads, "batch": self._batch, "inputs": self._inputs, "units": self._units, **self._choices()}
        addresses = self._scratch.pointers(temporary)
        for name, array in self._scratch.arrays_at(temporary).items():
            values |= {name: addresses[name], "scratch_size" if name == "scratch" else f"{name}_row": array.strides[0]}
        for name, address in tensors.items():
            tensor = self._tensors[name]
            values[name] = address
            if f"{name}_row" in self.parameters.texts:  # biases have one row
                values[f"{name}_row"] = tensor.element_strides[0] * tensor.data_type.numpy.itemsize
        return TaskLaunch.of(self.kernel, self.parameters.bound(values), self._threads)

    def _choices(self) -> dict[str, int]:
        """Parameters that select what is computed."""
        return {}


class StepPlan(_CellPlan):
    """GRUBlockCell by one compiled kernel, which reads the weights in place."""

    parameters = StepParameters

    @property
    def kernel(self) -> Function:
        return STEP(self._width, self._storage, self._isa)

    @property
    def _width(self) -> int:
        copies = self._storage != "float32" or self._batch > self._isa.columns(_WIDE)
        return VECTORS if copies else _WIDE

    def _most_items(self) -> int:
        return ceil(self._batch / self._isa.columns(self._width))

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        terms, rows = self._inputs + self._units, 1 + self._isa.columns(self._width)
        scratch = (self._threads, rows + terms, self._width * self._isa.lanes)
        return {"joined": (self._batch, terms), "gates": (self._batch, 2 * self._padded(self._units, self._width)), "scratch": scratch}

    def _choices(self) -> dict[str, int]:
        needed = [any(name in self._tensors for name in names) for names in ("rch", "uh", "ch")]
        return {"wanted": sum(1 << gate for gate, is_needed in enumerate(needed) if is_needed)}


class StepGradientPlan(_CellPlan):
    """GRUBlockCellGrad by one compiled kernel, which reads the weights in place."""

    parameters = StepGradientParameters

    @property
    def kernel(self) -> Function:
        return GRADIENT(self._storage, self._isa)

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
