"""The plans of compiled matrix products: with B packed in panels, of small matrices, of pairs of BFLOAT16, and with a transposed A."""

from __future__ import annotations

from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.description.enums import ExecutionFlags, MatrixTransform
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.matrix.blocked import VECTORS, BlockedProduct, load_products, scratch_bytes
from dmlpy.devices.cpu.plans import best_plan
from dmlpy.devices.cpu.structs import ALIGNMENT, Address, Bytes, Count, CountedParameters, Flag, Float32, KernelStruct, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, PlanWithoutConstants, Pointers, arrays_of, in_order, packing_of
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.isa import Storage
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.operators.matrix import GEMMDesc


class ProductParameters(CountedParameters):
    """The parameters of a product: clip(alpha * sum + beta * c, low, high), for matrices along two dimensions of the batch.

    A tile is one split of the rows with one split of the panels of B, for an entry of the batch.
    """

    rows: Count = field("rows of A and the output")
    terms: Count = field("columns of A and rows of B")
    columns: Count = field("columns of B and the output")
    panels: Count = field("panels of columns")
    row_splits: Count = field("splits of the rows")
    panel_splits: Count = field("splits of the panels")
    batch: Count = field("entries along the inner dimension of the batch")
    a: Address = field("A, whose rows are contiguous")
    a_outer: Bytes = field("from an entry of A along the outer dimension of the batch to the next")
    a_batch: Bytes = field("from an entry of A along the inner dimension to the next")
    a_row: Bytes = field("from a row of A to the next")
    b: Address = field("B, packed in panels [outer, batch, panels, terms, VECTORS, lanes] or in place")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    panel_size: Bytes = field("from a panel of B to the next")
    panel_row: Bytes = field("from a term of a panel to the next")
    c: Address = field("C, if there is one")
    c_outer: Bytes = field("from an entry of C along the outer dimension of the batch to the next")
    c_batch: Bytes = field("from an entry of C along the inner dimension to the next")
    c_row: Bytes = field("from a row of C to the next")
    c_column: Bytes = field("from a column of C to the next; 0 if it is broadcast")
    output: Address = field("the output, whose rows are contiguous")
    output_outer: Bytes = field("from an entry of the output along the outer dimension of the batch to the next")
    output_batch: Bytes = field("from an entry of the output along the inner dimension to the next")
    output_row: Bytes = field("from a row of the output to the next")
    copied_groups: Count = field("groups of A's rows whose floats are in scratch at once, where elements have 2 bytes; else all")
    scratch: Address = field("for each thread a row of zeros, sums, and some rows of A where they have 2 bytes")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    alpha: Float32 = field("the factor of the sums")
    beta: Float32 = field("the factor of C")
    low: Float32 = field("the lower bound of the results")
    high: Float32 = field("the upper bound of the results")


class PanelPackingParameters(CountedParameters):
    """The parameters of the packing of B in panels. A tile is a panel of an entry of the batch."""

    terms: Count = field("rows of B as it is multiplied")
    columns: Count = field("columns of B as it is multiplied")
    panels: Count = field("panels of an entry")
    batch: Count = field("entries along the inner dimension of the batch")
    transposed: Flag = field("whether B is [columns, terms]; else it is [terms, columns]")
    b: Address = field("B, whose rows are contiguous")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_row: Bytes = field("from a row of B to the next")
    packed: Address = field("the panels [outer, batch, panels, terms, VECTORS, lanes]")
    packed_outer: Bytes = field("from an entry's panels along the outer dimension of the batch to the next")
    packed_batch: Bytes = field("from an entry's panels along the inner dimension to the next")
    panel_size: Bytes = field("from a panel to the next")


PRODUCT = Kernel("dmlpy.devices.cpu.matrix.kernels:build_product", 5)
"""The matrix product: the type of tensors, whether terms are pairs of BFLOAT16, and the instruction set."""
PACKING = Kernel("dmlpy.devices.cpu.matrix.kernels:build_packing", 5)
"""The packing of B: the type of tensors, and the instruction set."""
SMALL_PRODUCT = Kernel("dmlpy.devices.cpu.matrix.kernels:build_small_product", 5)
"""The small matrix product: the type of tensors, and the instruction set."""
PAIRS = Kernel("dmlpy.devices.cpu.matrix.kernels:build_pairs", 5)
"""The conversion to pairs of BFLOAT16: the type of the elements, and the instruction set."""

_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_FLOATS_OF_A_THREAD = 1 << 17
"""Floats to pack that are worth waking another thread for."""
_JOINED_PANELS = 8
"""Panels whose rows are read side by side: a processor fetches what follows in memory."""
_PAIRS_OF_A_THREAD = 1 << 17
"""Pairs to convert that are worth it."""
_COPIED_FLOATS = 1 << 16
"""Floats of A in scratch, at most: with a panel of B they stay in the second-level cache."""
_LEAST_COPIED_GROUPS = 4
"""Groups of A's rows in scratch however long they are, so that B, which is read once for them, is not read too often."""
_TENSORS = {"a": "a_tensor", "b": "b_tensor", "c": "c_tensor", "output": "output_tensor"}


class ProductPlan(Plan):
    """GEMM by compiled kernels.

    B is packed in panels of columns. A fused RELU or CLIP is applied to the sums; any other fused function follows in a separate pass.

    Args:
        desc: a checked desc.
    """

    constants = ("b_tensor",)
    adds_in_same_pass = True

    def __init__(self, desc: GEMMDesc) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._desc, self._tensors, self._isa = desc, desc.tensors(), host_isa()
        *batch, rows, columns = desc.output_tensor.sizes
        self._batch, self._rows, self._columns = (1, *batch)[-2:] if batch else (1, 1), rows, columns
        self._terms, self._element = desc.a_tensor.sizes[-1], desc.a_tensor.data_type.numpy.itemsize
        self._storage = storage_of(desc.a_tensor.data_type)
        self._low, self._high, self._activation_plan = fused_function(desc)
        width = VECTORS * self._isa.lanes
        self._panels = ceil(columns / width)
        # A matrix B that is broadcast over the batch is packed once.
        self._broadcasts = tuple(step == 0 or size == 1 for size, step in zip(self._batch, matrix_strides(desc.b_tensor)[:2], strict=True))
        entries = [1 if broadcasts else size for size, broadcasts in zip(self._batch, self._broadcasts, strict=True)]
        self._packed = Layout([("panels", (*entries, self._panels, self._terms, width), COMPUTE)], ALIGNMENT)
        self.persistent_size = self._packed.size
        multiplications = prod(self._batch) * rows * columns * self._terms
        self._threads = Threads.of(available_threads(), multiplications, _WORK_OF_A_THREAD)
        wanted = ceil(self._threads.tiles() / prod(self._batch))
        most = self._isa.columns(VECTORS)
        self._panel_splits = min(self._panels, wanted)
        self._row_splits = min(ceil(rows / most), ceil(wanted / self._panel_splits))
        self._tiles = prod(self._batch) * self._panel_splits * self._row_splits
        groups, size = ceil(rows / most), most * self._terms
        some = max(_LEAST_COPIED_GROUPS, _COPIED_FLOATS // size)
        self._copied_groups = groups if self._storage == "float32" else min(ceil(groups / self._row_splits), some)
        floats = (1 + most) * width + (0 if self._storage == "float32" else self._copied_groups * size)
        self._scratch_size = aligned(floats * FLOAT_BYTES)
        self.prepared_temporary_size = self._threads.most * self._scratch_size + (
            0 if self._activation_plan is None else self._activation_plan.temporary_size
        )
        # If A is a single group of rows, B is read once, so packing it does not pay.
        self._in_place = self._storage == "float32" and rows <= most and columns % width == 0 and b_strides(desc)[1] == 1
        self.temporary_size = self.prepared_temporary_size + (0 if self._in_place else self.persistent_size)

    def load(self) -> None:
        _ = PRODUCT(self._storage, False, self._isa), PACKING(self._storage, self._isa)
        if self._activation_plan is not None:
            self._activation_plan.load()

    def describe(self) -> str:
        lines = [
            f"compiled by LLVM, {COMPUTE} arithmetic on {self._threads}; {self._tiles} tile(s)",
            f"sums in registers: {self._isa.columns(VECTORS)} rows of {VECTORS} vectors of {self._isa.lanes} columns",
            f"b_tensor: {self._panels} panel(s), " + ("read in address unless it is prepared" if self._in_place else "packed"),
        ]
        return "\n".join(lines if self._activation_plan is None else [*lines, f"fused function: {self._activation_plan.describe()}"])

    @property
    def packing(self) -> Hashable:
        return packing_of(self._desc, self.constants, self._packed)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        panels = self._packed.arrays_at(persistent)["panels"]
        outer, inner, _, _ = matrix_strides(self._desc.b_tensor)
        term, column = b_strides(self._desc)
        threads = Threads.of(available_threads(), panels.size, _FLOATS_OF_A_THREAD)
        parameters = PanelPackingParameters.bound(
            {
                "tiles": prod(panels.shape[:3]),
                "terms": self._terms,
                "columns": self._columns,
                "panels": self._panels,
                "batch": panels.shape[1],
                "transposed": column != 1,
                "b": constants["b_tensor"],
                "b_outer": outer,
                "b_batch": inner,
                "b_row": (term if column == 1 else column) * self._element,
                "packed": persistent,
                "packed_outer": panels.strides[0],
                "packed_batch": panels.strides[1],
                "panel_size": panels.strides[2],
            },
        )
        return TaskLaunch.of(PACKING(self._storage, self._isa), parameters, threads)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        if persistent is None and self._in_place:
            b = self._b_parameters_in_place(tensors["b_tensor"])
        else:
            address = temporary + self.prepared_temporary_size if persistent is None else persistent
            b = self._packed_b_parameters(address)
            if persistent is None:
                work.append(self.pack(tensors, address))
        parameters, kernel, threads = self._parameters(tensors, temporary, b), PRODUCT(self._storage, False, self._isa), self._threads
        work.append(TaskLaunch.of(kernel, parameters, threads))
        return in_order(work + self._following(tensors, temporary))

    def _following(self, tensors: Pointers, temporary: int) -> list[Launch]:
        """The work behind the product."""
        if self._activation_plan is None:
            return []
        output, scratch = tensors["output_tensor"], temporary + self._threads.most * self._scratch_size
        return [self._activation_plan.bind({"input_tensor": output, "output_tensor": output}, scratch, None)]

    def _b_parameters_in_place(self, address: int) -> dict[str, int]:
        """The parameters of B in place."""
        outer, inner, _, _ = matrix_strides(self._desc.b_tensor)
        row, size = b_strides(self._desc)[0] * self._element, VECTORS * self._isa.lanes * self._element
        return {"b": address, "b_outer": outer, "b_batch": inner, "panel_size": size, "panel_row": row}

    def _packed_b_parameters(self, address: int) -> dict[str, int]:
        """The parameters of packed B."""
        outer, inner, size, row = self._packed.arrays_at(address)["panels"].strides[:4]
        outer, inner = (0 if broadcasts else step for broadcasts, step in zip(self._broadcasts, (outer, inner), strict=True))
        return {"b": address, "b_outer": outer, "b_batch": inner, "panel_size": size, "panel_row": row}

    def _parameters(self, tensors: Pointers, temporary: int, packed: Mapping[str, int]) -> Parameters:
        """The parameters, of which `packed` has those of B, and perhaps others of A."""
        values: dict[str, Any] = {
            "tiles": self._tiles,
            "rows": self._rows,
            "terms": self._terms,
            "columns": self._columns,
            "panels": self._panels,
            "row_splits": self._row_splits,
            "panel_splits": self._panel_splits,
            "batch": self._batch[1],
            "copied_groups": self._copied_groups,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
            "alpha": self._desc.alpha,
            "beta": self._desc.beta,
            "low": self._low,
            "high": self._high,
        }
        for name, place in _TENSORS.items():
            if name != "b" and place in self._tensors:
                values |= {name: tensors[place], **_steps_of(name, self._tensors[place])}
        return ProductParameters.bound(values | dict(packed))


def fused_function(desc: GEMMDesc) -> tuple[float, float, Plan | None]:
    """The bounds of a product's results, and the plan of a fused function that is not a bound, over the output."""
    function = desc.fused_activation
    if isinstance(function, ActivationReluDesc):
        return 0.0, inf, None
    if isinstance(function, ElementWiseClipDesc) and function.scale_bias is None:
        return function.min, function.max, None
    if function is None:
        return -inf, inf, None
    return -inf, inf, best_plan(function.replace(input_tensor=desc.output_tensor, output_tensor=desc.output_tensor))


def b_strides(desc: GEMMDesc) -> tuple[int, int]:
    """The elements from one of B's terms to the next, and from one of its columns to the next, as the product reads them."""
    term, column = desc.b_tensor.element_strides[-2:]
    return (column, term) if desc.trans_b is MatrixTransform.TRANSPOSE else (term, column)


def matrix_strides(tensor: TensorDesc) -> tuple[int, int, int, int]:
    """A tensor's strides in bytes, along two dimensions of the batch, the rows and the columns; 0 along dimensions that it lacks."""
    missing, size = (0,) * (4 - len(tensor.sizes)), tensor.data_type.numpy.itemsize
    outer, inner, row, column = (stride * size for stride in (*missing, *tensor.element_strides))
    return outer, inner, row, column


def _steps_of(name: str, tensor: TensorDesc) -> dict[str, int]:
    """The fields of `ProductParameters` and `SmallProductParameters` with the strides of an operand that is read, or written, in place."""
    outer, inner, row, column = matrix_strides(tensor)
    steps = {f"{name}_outer": outer, f"{name}_batch": inner}
    if name != "b":
        steps[f"{name}_row"] = row
    return steps | ({"c_column": column} if name == "c" else {})


class TransposedProductPlan(PlanWithoutConstants):
    """GEMM of FLOAT32 with a transposed A, as the gradient of a dense layer's weights is.

    Args:
        desc: a checked desc of one matrix, without C, alpha and a fused function, whose rows are contiguous.
    """

    def __init__(self, desc: GEMMDesc) -> None:
        self._tensors, self._threads = desc.tensors(), available_threads()
        self.temporary_size = scratch_bytes(self._threads)

    def load(self) -> None:
        load_products(transposed=True)

    def describe(self) -> str:
        return f"compiled by LLVM, {COMPUTE} arithmetic on up to {self._threads} thread(s); A and B are read in address"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        matrices = {name: array.reshape(array.shape[-2:]) for name, array in arrays_of(self._tensors, tensors).items()}
        a, scratch = matrices["a_tensor"], array_at(temporary, (self.temporary_size,), np.uint8, (1,))
        multiply = BlockedProduct(a, matrices["b_tensor"], matrices["output_tensor"], scratch, self._threads, transposed=True)
        return lambda stream: multiply()


class SmallProductParameters(KernelStruct):
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


class SmallProductPlan(PlanWithoutConstants):
    """A small GEMM.

    Args:
        desc: a checked desc without a transposed A. The rows of A and of the output are contiguous, of B rows or columns, and those of C
            are contiguous or one element.
        swaps: whether the desc's A is bound as B, and its B as A.
    """

    adds_in_same_pass = True

    def __init__(self, desc: GEMMDesc, *, swaps: bool = False) -> None:
        output = desc.output_tensor
        assert output is not None  # guaranteed by the check
        *batch, rows, columns = output.sizes
        outer, inner = (1, 1, *batch)[-2:]
        low, high, self._activation_plan = fused_function(desc)
        self._sizes = rows, desc.a_tensor.sizes[-1], columns
        self._names = {name: place for name, place in _TENSORS.items() if place in desc.tensors()}
        (term, column), element = b_strides(desc), desc.a_tensor.data_type.numpy.itemsize
        self._kernel_choices = storage_of(desc.a_tensor.data_type), host_isa()
        values: dict[str, Any] = {
            **{"outer": outer, "batch": inner, "rows": rows, "terms": self._sizes[1], "columns": columns},
            **{"alpha": desc.alpha, "beta": desc.beta, "low": low, "high": high},
            **{"b_term": term * element, "b_column": column * element},
        }
        for name, place in self._names.items():
            values |= _steps_of(name, desc.tensors()[place])
        if swaps:
            self._names |= {"a": "b_tensor", "b": "a_tensor"}
        self._values = values
        self.temporary_size = 0 if self._activation_plan is None else self._activation_plan.temporary_size

    def load(self) -> None:
        SMALL_PRODUCT(*self._kernel_choices)
        if self._activation_plan is not None:
            self._activation_plan.load()

    def describe(self) -> str:
        rows, terms, columns = self._sizes
        line = f"compiled by LLVM, {COMPUTE} arithmetic on 1 thread; {rows} row(s) of {columns} sums of {terms} terms, B read in place"
        return line if self._activation_plan is None else f"{line}\nfused function: {self._activation_plan.describe()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = self._values | {name: tensors[place] for name, place in self._names.items()}
        launch = TaskLaunch.of(SMALL_PRODUCT(*self._kernel_choices), SmallProductParameters.bound(values), 1)
        if self._activation_plan is None:
            return launch
        output = tensors["output_tensor"]
        following = self._activation_plan.bind({"input_tensor": output, "output_tensor": output}, temporary, None)
        return in_order([launch, following])


class PairParameters(CountedParameters):
    """The parameters of the conversion. A tile is some of the rows of all entries."""

    entries: Count = field("matrices")
    rows: Count = field("rows of pairs of a matrix")
    columns: Count = field("pairs of a row")
    terms: Count = field("floats of a row, or rows of floats, that exist")
    batch: Count = field("matrices along the inner dimension of the batch")
    joined: Count = field("matrices of one inner dimension whose rows are read side by side, before the next row of each")
    source: Address = field("the floats")
    source_outer: Bytes = field("from a matrix of floats along the outer dimension of the batch to the next")
    source_inner: Bytes = field("from a matrix of floats along the inner dimension to the next")
    source_row: Bytes = field("from the floats of a row of pairs to those of the next")
    second: Bytes = field("from the first float of a pair to the second; 0 if they are neighbours in a row")
    target: Address = field("the pairs, packed")


class PairProductPlan(ProductPlan):
    """GEMM of FLOAT32 or BFLOAT16 by pairs of BFLOAT16: 7 bits of mantissa, and numbers below 2^-126 count as 0.

    Args:
        desc: a checked desc that `ProductPlan` computes.
    """

    supported_flags = ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION

    def __init__(self, desc: GEMMDesc) -> None:
        super().__init__(desc)
        self._in_place, self._copied_groups = False, ceil(self._rows / self._isa.columns(VECTORS))
        self._pair_terms, self._width = ceil(self._terms / 2), VECTORS * self._isa.lanes
        entries = prod(1 if broadcasts else size for size, broadcasts in zip(self._batch, self._broadcasts, strict=True))
        self._panel_count = entries * self._panels
        # Whole panels of one B are read where they are; others are packed as floats first.
        self._reads_b = entries == 1 and self._columns % self._width == 0 and b_strides(desc)[1] == 1
        self._floats = 0 if self._reads_b else self._packed.size
        self._pair_panel = self._pair_terms * self._width * FLOAT_BYTES
        self.persistent_size = aligned(self._panel_count * self._pair_panel)
        self._a_size = aligned(prod(self._batch) * self._rows * self._pair_terms * FLOAT_BYTES)
        self._product_scratch = self.prepared_temporary_size
        self.prepared_temporary_size += self._a_size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size + self._floats

    def load(self) -> None:
        super().load()
        _ = PRODUCT(self._storage, True, self._isa), PAIRS(self._storage, self._isa), PAIRS("float32", self._isa)

    def describe(self) -> str:
        factors = "rounded to BFLOAT16" if self._storage == "float32" else "multiplied as they are"
        return f"{super().describe()}\nfactors are {factors} (ALLOW_HALF_PRECISION_COMPUTATION); sums are float32"

    @property
    def packing(self) -> tuple[Any, ...]:
        return "pairs", super().packing

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        floats = np.empty(self._floats // FLOAT_BYTES + ALIGNMENT, np.float32)
        address = floats.ctypes.data + -floats.ctypes.data % ALIGNMENT
        work = self._pack_through(constants, persistent, address)

        def launch(stream: int) -> None:
            assert floats.size  # the work writes it
            work(stream)

        return launch

    def _pack_through(self, constants: Pointers, target: int, floats: int) -> Launch:
        """Packs B in panels of pairs, of floats that are packed first if it has no whole panels."""
        source, panel, row = floats, self._terms * self._width * FLOAT_BYTES, self._width * FLOAT_BYTES
        if self._reads_b:
            source, panel, row = constants["b_tensor"], self._width * self._element, b_strides(self._desc)[0] * self._element
        values = {
            "entries": self._panel_count,
            "rows": self._pair_terms,
            "columns": self._width,
            "terms": self._terms,
            "batch": self._panel_count,
            "joined": _JOINED_PANELS if self._reads_b else 1,
            "source": source,
            "source_inner": panel,
            "source_row": 2 * row,
            "second": row,
            "target": target,
        }
        if self._reads_b:
            return self._conversion(values, self._storage)
        return in_order([super().pack(constants, floats), self._conversion(values, "float32")])

    def _conversion(self, values: dict[str, Any], stored: Storage) -> Launch:
        rows = ceil(values["entries"] / values["joined"]) * values["rows"]
        threads = Threads.of(available_threads(), values["entries"] * values["rows"] * values["columns"], _PAIRS_OF_A_THREAD)
        parameters = PairParameters.bound({**values, "tiles": min(rows, threads.tiles())})
        return TaskLaunch.of(PAIRS(stored, self._isa), parameters, threads)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pairs_of_a, work = temporary + self._product_scratch, list[Launch]()
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self._pack_through(tensors, address, address + self.persistent_size))
        outer, inner, row, _ = matrix_strides(self._desc.a_tensor)
        values = {
            "entries": prod(self._batch),
            "rows": self._rows,
            "columns": self._pair_terms,
            "terms": self._terms,
            "batch": self._batch[1],
            "joined": 1,
            "source": tensors["a_tensor"],
            "source_outer": outer,
            "source_inner": inner,
            "source_row": row,
            "target": pairs_of_a,
        }
        work.append(self._conversion(values, self._storage))
        panels = self._panels * self._pair_panel
        of_entries = panels * (1 if self._broadcasts[1] else self._batch[1]), panels
        b_outer, b_inner = (0 if broadcasts else step for broadcasts, step in zip(self._broadcasts, of_entries, strict=True))
        b = {"b": address, "b_outer": b_outer, "b_batch": b_inner, "panel_size": self._pair_panel, "panel_row": self._width * FLOAT_BYTES}
        row_of_pairs = self._pair_terms * FLOAT_BYTES
        matrix = self._rows * row_of_pairs
        of_a = {"a": pairs_of_a, "a_row": row_of_pairs, "a_batch": matrix, "a_outer": matrix * self._batch[1], "terms": self._pair_terms}
        parameters = self._parameters(tensors, temporary, b | of_a)
        work.append(TaskLaunch.of(PRODUCT(self._storage, True, self._isa), parameters, self._threads))
        return in_order(work + self._following(tensors, temporary))
