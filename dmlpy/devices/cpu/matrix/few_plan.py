"""The plan of small matrix products of few rows or columns: B is read in place, by one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.matrix.plan import b_strides, fused_function
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Float32, KernelStruct, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.operators.matrix import GEMMDesc

FEW_ROWS = Kernel("dmlpy.devices.cpu.matrix.few_kernels:build_few_rows", 5)
"""The small matrix product: the instruction set."""

_TENSORS = {"a": "a_tensor", "b": "b_tensor", "c": "c_tensor", "output": "output_tensor"}


class FewRowsParameters(KernelStruct):
    """The parameters of a small product: clip(alpha * sum + beta * c, low, high), for matrices along two dimensions of the batch.

    Rows of A and of the output are contiguous, and of B rows or columns.
    """

    outer: Count = field("entries along the outer dimension of the batch")
    batch: Count = field("entries along the inner dimension")
    rows: Count = field("rows of A and the output")
    terms: Count = field("columns of A and rows of B")
    columns: Count = field("columns of B and the output")
    a: Address = field("A")
    a_outer: Bytes = field("from an entry of A along the outer dimension of the batch to the next")
    a_batch: Bytes = field("from an entry of A along the inner dimension to the next")
    a_row: Bytes = field("from a row of A to the next")
    b: Address = field("B")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_term: Bytes = field("from a term of B to the next")
    b_column: Bytes = field("from a column of B to the next")
    c: Address = field("C, if there is one")
    c_outer: Bytes = field("from an entry of C along the outer dimension of the batch to the next")
    c_batch: Bytes = field("from an entry of C along the inner dimension to the next")
    c_row: Bytes = field("from a row of C to the next")
    c_column: Bytes = field("from a column of C to the next; 0 if it is broadcast")
    output: Address = field("the output")
    output_outer: Bytes = field("from an entry of the output along the outer dimension of the batch to the next")
    output_batch: Bytes = field("from an entry of the output along the inner dimension to the next")
    output_row: Bytes = field("from a row of the output to the next")
    alpha: Float32 = field("the factor of the sums")
    beta: Float32 = field("the factor of C")
    low: Float32 = field("the lower bound of the results")
    high: Float32 = field("the upper bound of the results")


class FewRowsPlan(PlanWithoutConstants):
    """A small GEMM of FLOAT32.

    Args:
        desc: a checked desc without a transposed A. The rows of A and of the output are contiguous, of B rows or columns, and those of C
            are contiguous or one element.
    """

    def __init__(self, desc: GEMMDesc) -> None:
        output = desc.output_tensor
        assert output is not None  # guaranteed by the check
        *batch, rows, columns = output.sizes
        outer, inner = (1, 1, *batch)[-2:]
        low, high, self._activation_plan = fused_function(desc)
        self._sizes = rows, desc.a_tensor.sizes[-1], columns
        self._names = {name: place for name, place in _TENSORS.items() if place in desc.tensors()}
        term, column = b_strides(desc)
        values: dict[str, Any] = {
            **{"outer": outer, "batch": inner, "rows": rows, "terms": self._sizes[1], "columns": columns},
            **{"alpha": desc.alpha, "beta": desc.beta, "low": low, "high": high},
            **{"b_term": term * FLOAT_BYTES, "b_column": column * FLOAT_BYTES},
        }
        for name, place in self._names.items():
            outer, inner, row, column = (0, 0, *(stride * FLOAT_BYTES for stride in desc.tensors()[place].element_strides))[-4:]
            values |= {f"{name}_outer": outer, f"{name}_batch": inner}
            values |= {} if name == "b" else {f"{name}_row": row}
            values |= {"c_column": column} if name == "c" else {}
        self._values = values
        self.temporary_size = 0 if self._activation_plan is None else self._activation_plan.temporary_size

    def load(self) -> None:
        FEW_ROWS(host_isa())
        if self._activation_plan is not None:
            self._activation_plan.load()

    def describe(self) -> str:
        rows, terms, columns = self._sizes
        line = f"compiled by LLVM, {COMPUTE} arithmetic on 1 thread; {rows} row(s) of {columns} sums of {terms} terms, B read in place"
        return line if self._activation_plan is None else f"{line}\nfused function: {self._activation_plan.describe()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = self._values | {name: tensors[place] for name, place in self._names.items()}
        launch = TaskLaunch.of(FEW_ROWS(host_isa()), FewRowsParameters.bound(values), 1)
        if self._activation_plan is None:
            return launch
        output = tensors["output_tensor"]
        following = self._activation_plan.bind({"input_tensor": output, "output_tensor": output}, temporary, None)
        return in_order([launch, following])
