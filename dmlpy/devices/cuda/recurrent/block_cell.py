"""GRUBlockCell and GRUBlockCellGrad on CUDA: matrix products and, between them, the kernels of raw_kernels/recurrent/block_cell.cu.

Products read tensors in place if these are matrices of the products' element type: the storage type in the step, float32 in
the gradient. Others are copied first by each launch. It computes only what the described outputs need.
"""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.matrix_products import FLOAT, MOST_ROWS, gemm, headline, supported_flags, workspace
from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, Struct, scalar_type, strided, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.cuda.recurrent.common import copy, copy_kernel, rounds_to_tf32, row_stride
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct
from dmlpy.devices.flops import flops_of
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.performance.gpu_model import Arithmetic
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc, GRUBlockCellGradDesc, GRUBlockDesc

_SIZES = (("batch_size", np.int64), ("cell_size", np.int64))
_SIZES_WITH_INPUT = (("batch_size", np.int64), ("input_size", np.int64), ("cell_size", np.int64))

PARAMETERS: Mapping[str, np.dtype[Any]] = {
    "gates": struct(
        ("sums", np.uint64),
        ("b_ru", STRIDED),
        ("h_prev", STRIDED),
        ("r", STRIDED),
        ("u", STRIDED),
        ("reset_state", np.uint64),
        ("update", np.uint64),
        *_SIZES,
    ),
    "candidate": struct(
        ("sums", np.uint64),
        ("update", np.uint64),
        ("b_c", STRIDED),
        ("h_prev", STRIDED),
        ("c", STRIDED),
        ("h", STRIDED),
        *_SIZES,
    ),
    "candidate_gradient": struct(
        ("h_prev", STRIDED),
        ("u", STRIDED),
        ("c", STRIDED),
        ("d_h", STRIDED),
        ("d_c_bar", STRIDED),
        ("d_r_bar_u_bar", STRIDED),
        ("candidate_sums", np.uint64),
        ("gate_sums", np.uint64),
        *_SIZES,
    ),
    "gates_gradient": struct(
        ("h_prev", STRIDED),
        ("r", STRIDED),
        ("u", STRIDED),
        ("d_h", STRIDED),
        ("d_r_bar_u_bar", STRIDED),
        ("product", np.uint64),
        ("gate_sums", np.uint64),
        *_SIZES_WITH_INPUT,
    ),
    "gather": struct(("product", np.uint64), ("d_x", STRIDED), ("d_h_prev", STRIDED), *_SIZES_WITH_INPUT),
}
"""The struct of each kernel, by the kernel's name."""


def block_kernel(name: str, data_type: np.dtype[Any]) -> Kernel:
    """The kernel of a name in `PARAMETERS`, for tensors of an element type."""
    scalar = scalar_type(data_type)
    parameter_struct = "".join(part.capitalize() for part in name.split("_")) + f"Parameters<{scalar}>"
    return Kernel("recurrent/block_cell.cu", f"{name}<{scalar}>", PARAMETERS[name], parameter_struct)


class GRUBlockPlan(PlanWithoutConstants):
    """The base of the plans of the step and of its gradient: operands of matrix products, and the launches of kernels.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    def __init__(self, desc: GRUBlockDesc, library: KernelLibrary, tf32: bool = False) -> None:
        known = desc.sizes()
        self._library = library
        self._batch, self._inputs, self._units = (known[name] for name in ("batch_size", "input_size", "cell_size"))
        self._tensors = {name: _of_four_dimensions(tensor) for name, tensor in desc.tensors().items()}
        self._desc, self._type = desc, self._tensors["x"].data_type.numpy
        multiplies_floats = bool(self._operands()) and self._operand_type == FLOAT
        self._tf32 = multiplies_floats and rounds_to_tf32(library.limits, self._type, tf32)
        self.supported_flags = supported_flags(tf32 and multiplies_floats and self._type == FLOAT)
        if max(self._batch, self._inputs + self._units, 2 * self._units) > MOST_ROWS:
            sizes = f"B = {self._batch}, I + H = {self._inputs + self._units}, 2H = {2 * self._units}"
            raise DeviceError(f"matrices of {sizes} rows or columns: at most {MOST_ROWS} of each")
        self._strides: dict[str, int] = {}
        self._copied: list[str] = []
        for name in self._operands():
            stride = row_stride(self._tensors[name]) if self._type == self._operand_type else None
            if stride is None:
                self._copied.append(name)
            self._strides[name] = self._tensors[name].sizes[-1] if stride is None else stride
        copies = [(name, self._tensors[name].sizes, self._operand_type) for name in self._copied]
        self._scratch = Layout([*copies, *self._scratch_arrays(), *([workspace(library)] if self._products() else [])], ALIGNMENT)
        self.temporary_size = self._scratch.size
        library.functions(self.kernels())

    @property
    @abstractmethod
    def _operand_type(self) -> np.dtype[Any]:
        """The element type of the products' operands."""

    @abstractmethod
    def _operands(self) -> list[str]:
        """The tensors that matrix products read."""

    @abstractmethod
    def _kernels(self) -> list[str]:
        """The kernels between the products, in order."""

    @abstractmethod
    def _products(self) -> list[str]:
        """Names the products in order, for `describe`."""

    @abstractmethod
    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The scratch arrays of a launch, without the copies of operands."""

    @abstractmethod
    def _work(self, tensors: Pointers, scratch: Mapping[str, int]) -> list[Launch]:
        """The launch's work, without the copies of operands."""

    def kernels(self) -> list[Kernel]:
        """All kernels that this plan launches."""
        copies = [copy_kernel(self._type, self._operand_type)] if self._copied else []
        return [*copies, *(block_kernel(name, self._type) for name in self._kernels())]

    def cost(self) -> Cost:
        gpu, flops = GpuModel.of(self._library.limits), flops_of(self._desc) or 0
        memory_us = gpu.memory_us(sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in self._tensors.values()))
        between = sum(prod(sizes) * kind.itemsize for name, (_, sizes, kind) in self._scratch.arrays.items() if name != "workspace")
        factors: Arithmetic = "tf32" if self._tf32 else "float" if self._operand_type == FLOAT else "half"
        launches = len(self._copied) + len(self._kernels()) + len(self._products())
        return Cost(
            traffic={"scratch": 2 * between} if between else {},
            floor_us=max(memory_us, gpu.product_us(flops, factors)),
            estimate_us=max(memory_us, gpu.gemm_us(flops, 0, factors)) + gpu.memory_us(2 * between) + launches * CAPTURED_LAUNCH_US,
        )

    def describe(self) -> str:
        return "\n".join(
            [
                headline(self._library, self._type, tf32=self._tf32 and self._type == FLOAT),
                *(f"{name}: copied to packed {self._operand_type} by each launch" for name in self._copied),
                *self._products(),
                f"kernels: {', '.join(block_kernel(name, self._type).entry for name in self._kernels())}",
            ]
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        scratch = self._scratch.pointers(temporary)
        copies = [copy(self._library, self._tensors[name], tensors[name], scratch[name], self._operand_type) for name in self._copied]
        return in_order([*copies, *self._work(tensors, scratch)])

    def _needs(self, *names: str) -> bool:
        """Returns whether any of these outputs is described."""
        return any(name in self._tensors for name in names)

    def _operand(
        self,
        name: str,
        tensors: Pointers,
        scratch: Mapping[str, int],
        rows: slice,
        columns: slice,
        transposed: bool = False,
    ) -> Matrix:
        """Some rows and columns of an operand, or with `transposed` their transpose."""
        pointer, stride = scratch[name] if name in self._copied else tensors[name], self._strides[name]
        pointer += (rows.start * stride + columns.start) * self._operand_type.itemsize
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if transposed:
            height, width = width, height
        return Matrix(pointer, height, width, stride, self._operand_type, transposed)

    def _kernel(self, name: str, columns: int, tensors: Pointers, **addresses: int) -> Launch:
        """A launch of a kernel over [B, columns] elements. The struct's fields are sizes, `addresses` and tensors, by name."""
        argument: Struct = np.zeros(1, PARAMETERS[name])
        known = {"batch_size": self._batch, "input_size": self._inputs, "cell_size": self._units} | addresses
        for field in PARAMETERS[name].names or ():
            argument[field] = known[field] if field in known else strided(self._tensors.get(field), tensors.get(field))
        return self._library.launch_elements(block_kernel(name, self._type), self._batch * columns, argument)


class GRUBlockCellPlan(GRUBlockPlan):
    """The step: two products and a kernel for the gates, and again for the candidate."""

    @property
    def _operand_type(self) -> np.dtype[Any]:
        return self._type

    @property
    def _gates(self) -> slice:
        """The gates that are computed, as the columns of r and u in w_ru."""
        first = 0 if self._needs("r", "c", "h") else self._units
        return slice(first, 2 * self._units if self._needs("u", "h") else self._units)

    def _operands(self) -> list[str]:
        return ["x", "h_prev", "w_ru", *(["w_c"] if self._needs("c", "h") else [])]

    def _kernels(self) -> list[str]:
        return ["gates", *(["candidate"] if self._needs("c", "h") else [])]

    def _products(self) -> list[str]:
        first = f"products: x w_ru and h_prev w_ru, {self._gates.stop - self._gates.start} columns"
        return [first, *([f"products: x w_c and (r h_prev) w_c, {self._units} columns"] if self._needs("c", "h") else [])]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        batch, units = self._batch, self._units
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [("gate_sums", (batch, 2 * units), FLOAT)]
        if self._needs("c", "h"):
            arrays += [("reset_state", (batch, units), self._type), ("candidate_sums", (batch, units), FLOAT)]
        if self._needs("h"):
            arrays.append(("update", (batch, units), FLOAT))
        return arrays

    def _work(self, tensors: Pointers, scratch: Mapping[str, int]) -> list[Launch]:
        batch, inputs, units, gates = self._batch, self._inputs, self._units, self._gates
        samples, of_x, of_h = slice(0, batch), slice(0, inputs), slice(inputs, inputs + units)
        x = self._operand("x", tensors, scratch, samples, slice(0, inputs))
        h_prev = self._operand("h_prev", tensors, scratch, samples, slice(0, units))

        def weight(name: str, rows: slice, columns: slice) -> Matrix:
            return self._operand(name, tensors, scratch, rows, columns, transposed=True)

        width = gates.stop - gates.start
        gate_sums = Matrix(scratch["gate_sums"] + gates.start * FLOAT.itemsize, batch, width, 2 * units, FLOAT)
        kept = {name: scratch.get(name, 0) for name in ("reset_state", "update")}
        work = [
            gemm(self._library, scratch, MatrixProduct(x, weight("w_ru", of_x, gates), gate_sums, tf32=self._tf32)),
            gemm(self._library, scratch, MatrixProduct(h_prev, weight("w_ru", of_h, gates), gate_sums, accumulate=True, tf32=self._tf32)),
            self._kernel("gates", units, tensors, sums=scratch["gate_sums"], **kept),
        ]
        if not self._needs("c", "h"):
            return work
        columns = slice(0, units)
        reset_state = Matrix(scratch["reset_state"], batch, units, units, self._type)
        sums = Matrix(scratch["candidate_sums"], batch, units, units, FLOAT)
        return [
            *work,
            gemm(self._library, scratch, MatrixProduct(x, weight("w_c", of_x, columns), sums, tf32=self._tf32)),
            gemm(self._library, scratch, MatrixProduct(reset_state, weight("w_c", of_h, columns), sums, accumulate=True, tf32=self._tf32)),
            self._kernel("candidate", units, tensors, sums=sums.pointer, update=kept["update"]),
        ]


class GRUBlockCellGradPlan(GRUBlockPlan):
    """The gradient: one product with each weight's transpose, and kernels before, between and after them."""

    @property
    def _operand_type(self) -> np.dtype[Any]:
        # Intermediate gradients can be too small for FLOAT16.
        return FLOAT

    @property
    def _needs_gates(self) -> bool:
        """Whether any output besides d_c_bar, from which the others follow, is described."""
        return self._needs("d_x", "d_h_prev", "d_r_bar_u_bar")

    @property
    def _needs_states(self) -> bool:
        """Whether a gradient of x or h_prev is described."""
        return self._needs("d_x", "d_h_prev")

    def _operands(self) -> list[str]:
        return ["w_c"] * self._needs_gates + ["w_ru"] * self._needs_states

    def _kernels(self) -> list[str]:
        return ["candidate_gradient"] + ["gates_gradient"] * self._needs_gates + ["gather"] * self._needs_states

    def _columns(self, name: str) -> slice:
        """The columns of [d_x, d_h_prev] that the product with this weight's transpose computes, as rows of the weight."""
        first = 0 if self._needs("d_x") else self._inputs
        return slice(first, self._inputs + self._units if name == "w_c" or self._needs("d_h_prev") else self._inputs)

    def _products(self) -> list[str]:
        of = {"w_c": "d_c_bar", "w_ru": "d_r_bar_u_bar"}
        counts = {name: self._columns(name).stop - self._columns(name).start for name in self._operands()}
        factors = ", in TF32" if self._tf32 else ""
        return [f"product: {of[name]} {name}^T, {count} columns{factors}" for name, count in counts.items()]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        batch, units = self._batch, self._units
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if self._needs_gates:
            arrays += [("candidate_sums", (batch, units), FLOAT), ("product", (batch, self._inputs + units), FLOAT)]
        if self._needs_states:
            arrays.append(("gate_sums", (batch, 2 * units), FLOAT))
        return arrays

    def _work(self, tensors: Pointers, scratch: Mapping[str, int]) -> list[Launch]:
        units, width = self._units, self._inputs + self._units
        candidate_sums, gate_sums, product = (scratch.get(name, 0) for name in ("candidate_sums", "gate_sums", "product"))

        def multiply(name: str, sums: int, count: int, accumulate: bool = False) -> Launch:
            columns = self._columns(name)
            left = Matrix(sums, self._batch, count, count, FLOAT)
            right = self._operand(name, tensors, scratch, columns, slice(0, count))
            result = Matrix(product + columns.start * FLOAT.itemsize, self._batch, columns.stop - columns.start, width, FLOAT)
            return gemm(self._library, scratch, MatrixProduct(left, right, result, accumulate, tf32=self._tf32))

        work = [self._kernel("candidate_gradient", units, tensors, candidate_sums=candidate_sums, gate_sums=gate_sums)]
        if self._needs_gates:
            work.append(multiply("w_c", candidate_sums, units))
            work.append(self._kernel("gates_gradient", units, tensors, product=product, gate_sums=gate_sums))
        if self._needs_states:
            work.append(multiply("w_ru", gate_sums, 2 * units, accumulate=True))
            work.append(self._kernel("gather", width, tensors, product=product))
        return work


def _of_four_dimensions(tensor: TensorDesc) -> TensorDesc:
    """The tensor with leading axes of size 1, so that it has the four dimensions that kernels expect."""
    missing = 4 - tensor.dimension_count
    return tensor.replace(sizes=(1,) * missing + tensor.sizes, strides=(0,) * missing + tensor.element_strides)


def block_cell_plan(desc: GRUBlockCellDesc, target: Target) -> GRUBlockCellPlan:
    return GRUBlockCellPlan(desc, target.library, target.tf32)


def block_cell_gradient_plan(desc: GRUBlockCellGradDesc, target: Target) -> GRUBlockCellGradPlan:
    return GRUBlockCellGradPlan(desc, target.library, target.tf32)
