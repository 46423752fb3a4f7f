"""The plan of products of matrices of bytes."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.matrix.plan import matrix_strides
from dmlpy.devices.cpu.quantized.products import (
    FLIP,
    TERMS,
    ResultParameters,
    host_byte_isa,
    is_signed,
    limits_of,
    output_of,
    term_addresses,
    term_arrays,
    term_operands,
    terms_launch,
)
from dmlpy.devices.cpu.structs import ALIGNMENT, Address, Bytes, Count, CountedParameters, FixedArray, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order, packing_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.quantized.products import QuantizedProductDesc


class ByteMatrixParameters(ResultParameters):
    """The parameters of a product of matrices. A tile is a chunk of rows and a split of the panels, for an entry of the batch."""

    rows: Count = field("rows of A")
    terms: Count = field("columns of A")
    quads: Count = field("quads of a row")
    columns: Count = field("columns of B")
    panels: Count = field("panels of columns")
    row_chunks: Count = field("chunks of rows")
    panel_splits: Count = field("splits of the panels")
    chunk_rows: Count = field("rows of a chunk, at most")
    batch: Count = field("entries along the inner dimension of the batch")
    a: Address = field("A")
    a_outer: Bytes = field("from an entry of A along the outer dimension of the batch to the next")
    a_batch: Bytes = field("from an entry of A along the inner dimension to the next")
    a_row: Bytes = field("from a row of A to the next")
    a_column: Bytes = field("from a column of A to the next")
    a_flip: Count = field("what makes the bytes of A signed")
    b: Address = field("the packed panels")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_panel: Bytes = field("from a panel to the next")
    sums_outer: Bytes = field("from the columns' first terms of an entry along the outer dimension to the next")
    sums_batch: Bytes = field("from the columns' first terms of an entry along the inner dimension to the next")
    bias: Address = field("what is added to the results, float32; 0 for none")
    bias_outer: Bytes = field("from an entry of the bias along the outer dimension of the batch to the next")
    bias_batch: Bytes = field("from an entry of the bias along the inner dimension to the next")
    bias_row: Bytes = field("from a row of the bias to the next")
    bias_column: Bytes = field("from a column of the bias to the next")
    output_outer: Bytes = field("from an entry of the output along the outer dimension of the batch to the next")
    output_batch: Bytes = field("from an entry of the output along the inner dimension to the next")
    output_row: Bytes = field("from a row of the output to the next")


class BytePackingParameters(CountedParameters):
    """The parameters of the packing of B. A tile is a panel of an entry of the batch."""

    terms: Count = field("rows of B")
    quads: Count = field("quads of a column")
    columns: Count = field("columns of B")
    panels: Count = field("panels of an entry")
    batch: Count = field("entries along the inner dimension of the batch")
    b: Address = field("B")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_row: Bytes = field("from a row of B to the next")
    b_column: Bytes = field("from a column of B to the next")
    b_flip: Count = field("what makes the bytes of B unsigned")
    packed: Address = field("the panels [entries, panels, quads, vectors, lanes]")
    sums: Address = field("the sums of each column's bytes [entries, panels, vectors, lanes]")
    offsets: Address = field("an int64 of 0")


PRODUCT = Kernel("dmlpy.devices.cpu.quantized.matrix_kernels:build_product", 5)
"""The product: what becomes of the sums, and the instruction set."""
PACKING = Kernel("dmlpy.devices.cpu.quantized.matrix_kernels:build_packing", 5)
"""The packing of B: the instruction set."""
_CHUNK_ROWS = 64
"""Rows of A, at most, that are copied at once and multiplied by all panels."""
_BYTES_OF_A_THREAD = 1 << 18
"""Bytes to pack that are worth waking another thread for."""
_WORK_OF_A_THREAD = 1 << 23
"""Multiplications that are worth waking another thread for."""
_NO_OFFSET = FixedArray(np.zeros(1, np.int64))


class ByteProductPlan(Plan):
    """A product of matrices of 8 bits by compiled kernels.

    B is packed in panels of columns with the sums of its columns. Rows of A are copied as signed bytes, with their sums.

    Args:
        desc: a checked desc.
    """

    constants = ("b_tensor",)

    def __init__(self, desc: QuantizedProductDesc) -> None:
        output: TensorDesc | None = getattr(desc, "output_tensor")  # noqa: B009  (each subclass declares it)
        assert output is not None  # guaranteed by the check
        self._desc, self._tensors, self._isa = desc, desc.tensors(), host_byte_isa()
        self._output = output_of(output.data_type)
        *batch, rows, columns = output.sizes
        self._batch, self._rows, self._columns = (1, *batch)[-2:] if batch else (1, 1), rows, columns
        self._terms = desc.a_tensor.sizes[-1]
        self._quads = ceil(self._terms / 4)
        block, vectors = self._isa.block
        width = vectors * self._isa.lanes
        self._width, self._panels = width, ceil(columns / width)
        strides = matrix_strides(desc.b_tensor)[:2]
        self._broadcasts = tuple(step == 0 or size == 1 for size, step in zip(self._batch, strides, strict=True))
        self._entries = tuple(1 if once else size for size, once in zip(self._batch, self._broadcasts, strict=True))
        self._packed = Layout(
            [
                ("panels", (*self._entries, self._panels, self._quads, width, 4), np.dtype(np.uint8)),
                ("sums", (*self._entries, self._panels, width), np.dtype(np.int32)),
            ],
            ALIGNMENT,
        )
        self.persistent_size = self._packed.size
        multiplications = prod(self._batch) * rows * columns * self._terms
        self._threads = Threads.of(available_threads(), multiplications, _WORK_OF_A_THREAD)
        wanted = ceil(self._threads.tiles() / prod(self._batch))
        self._chunk_rows = max(block, min(_CHUNK_ROWS, ceil(rows / wanted / block) * block))
        self._row_chunks = ceil(rows / self._chunk_rows)
        self._panel_splits = min(self._panels, ceil(wanted / self._row_chunks))
        self._terms_of = Layout(term_arrays(rows, self._panels * width), ALIGNMENT)
        self._scratch_size = aligned((block + 2) * width * 4 + self._chunk_rows * (8 + self._quads * self._isa.factor_bytes))
        self.prepared_temporary_size = self._terms_of.size + self._threads.most * self._scratch_size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    def load(self) -> None:
        _ = PRODUCT(self._output, self._isa), PACKING(self._isa), TERMS()

    def describe(self) -> str:
        tiles = prod(self._batch) * self._row_chunks * self._panel_splits
        block, vectors = self._isa.block
        return "\n".join(
            [
                f"compiled by LLVM, sums of 32 bits by {self._isa.dot} on {self._threads}; {tiles} tile(s)",
                f"sums in registers: {block} rows of {vectors} vectors of {self._isa.lanes} columns",
                f"b_tensor: {self._panels} panel(s), packed",
            ]
        )

    @property
    def packing(self) -> Hashable:
        return packing_of(self._desc, self.constants, self._packed)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        outer, inner, row, column = matrix_strides(self._desc.b_tensor)
        pointers, tiles = self._packed.pointers(persistent), prod(self._entries) * self._panels
        threads = Threads.of(available_threads(), self.persistent_size, _BYTES_OF_A_THREAD)
        parameters = BytePackingParameters.bound(
            {
                "tiles": tiles,
                "terms": self._terms,
                "quads": self._quads,
                "columns": self._columns,
                "panels": self._panels,
                "batch": self._entries[1],
                "b": constants["b_tensor"],
                "b_outer": outer,
                "b_batch": inner,
                "b_row": row,
                "b_column": column,
                "b_flip": FLIP if is_signed(self._desc.b_tensor) else 0,
                "packed": pointers["panels"],
                "sums": pointers["sums"],
                "offsets": _NO_OFFSET,
            }
        )
        return TaskLaunch.of(PACKING(self._isa), parameters, threads)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        work: list[Launch] = []
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self.pack(tensors, address))
        packed, terms = self._packed.pointers(address), self._terms_of.pointers(temporary)
        work.append(terms_launch(self._term_values(tensors, terms)))
        parameters = ByteMatrixParameters.bound(self._values(tensors, packed, terms, temporary + self._terms_of.size))
        work.append(TaskLaunch.of(PRODUCT(self._output, self._isa), parameters, self._threads))
        return in_order(work)

    def _term_values(self, tensors: Pointers, terms: Mapping[str, int]) -> dict[str, Any]:
        """The values of `TermParameters`."""
        values: dict[str, Any] = {
            "rows": self._rows,
            "columns": self._panels * self._width,
            "valid_columns": self._columns,
            "terms": self._terms,
            "left_signed": is_signed(self._desc.a_tensor),
            "left_shift": 0 if is_signed(self._desc.a_tensor) else -128,
            "right_signed": is_signed(self._desc.b_tensor),
            "right_shift": 128 if is_signed(self._desc.b_tensor) else 0,
            "output_signed": is_signed(self._tensors["output_tensor"]),
            **term_addresses(terms),
        }
        places = {
            "left_zero": "a_zero_point_tensor",
            "right_zero": "b_zero_point_tensor",
            "left_scale": "a_scale_tensor",
            "right_scale": "b_scale_tensor",
            "output_scale": "output_scale_tensor",
            "output_zero": "output_zero_point_tensor",
        }
        return values | term_operands(places, self._tensors, tensors)

    def _values(self, tensors: Pointers, packed: Mapping[str, int], terms: Mapping[str, int], scratch: int) -> dict[str, Any]:
        """The values of `ByteMatrixParameters`."""
        panel, output = self._quads * self._width * 4, self._tensors["output_tensor"]
        of_entry = self._entries[1] * self._panels, self._panels
        steps = [0 if once else count for once, count in zip(self._broadcasts, of_entry, strict=True)]
        values: dict[str, Any] = {
            "tiles": prod(self._batch) * self._row_chunks * self._panel_splits,
            **term_addresses(terms),
            "column_first": packed["sums"],
            **limits_of(output.data_type),
            "scratch": scratch,
            "scratch_size": self._scratch_size,
            "offsets": _NO_OFFSET,
            "rows": self._rows,
            "terms": self._terms,
            "quads": self._quads,
            "columns": self._columns,
            "panels": self._panels,
            "row_chunks": self._row_chunks,
            "panel_splits": self._panel_splits,
            "chunk_rows": self._chunk_rows,
            "batch": self._batch[1],
            "a_flip": 0 if is_signed(self._desc.a_tensor) else FLIP,
            "b": packed["panels"],
            "b_outer": steps[0] * panel,
            "b_batch": steps[1] * panel,
            "b_panel": panel,
            "sums_outer": steps[0] * self._width * 4,
            "sums_batch": steps[1] * self._width * 4,
        }
        for name, place in (("a", "a_tensor"), ("bias", "bias_tensor"), ("output", "output_tensor")):
            if place in self._tensors:
                outer, inner, row, column = matrix_strides(self._tensors[place])
                step = {"a": "a_column", "bias": "bias_column", "output": "output_element"}[name]
                values |= {name: tensors[place], f"{name}_outer": outer, f"{name}_batch": inner, f"{name}_row": row, step: column}
        return values
