"""The plan of products whose factors are rounded to BFLOAT16, or are such numbers, where ALLOW_HALF_PRECISION_COMPUTATION allows it.

Products of pairs are added to FLOAT32 sums by one instruction, which takes as long as the addition of one FLOAT32 product.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.matrix.blocked import VECTORS
from dmlpy.devices.cpu.matrix.plan import PRODUCT, ProductPlan
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, Pointers, in_order
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Storage
    from dmlpy.operators.matrix import GEMMDesc

PAIRS = Kernel("dmlpy.devices.cpu.matrix.pair_kernels:build_pairs", 5)
"""The conversion to pairs of BFLOAT16: the type of the elements, and the instruction set."""

_ALIGNMENT = 64
_FLOATS_OF_A_THREAD = 1 << 17
"""Floats to convert that are worth waking another thread for."""


class PairParameters(CountedParameters):
    """The parameters of the conversion. A tile is some of the rows of all entries."""

    entries: Count = field("matrices")
    rows: Count = field("rows of pairs of a matrix")
    columns: Count = field("pairs of a row")
    terms: Count = field("floats of a row, or rows of floats, that exist")
    batch: Count = field("matrices along the inner dimension of the batch")
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
        self._in_place = False
        self._floats = self._packed.size
        self._pair_terms, self._width = ceil(self._terms / 2), VECTORS * self._isa.lanes
        entries = prod(1 if broadcasts else size for size, broadcasts in zip(self._batch, self._broadcasts, strict=True))
        self._panel_count = entries * self._panels
        self._pair_panel = self._pair_terms * self._width * FLOAT_BYTES
        self.persistent_size = _aligned(self._panel_count * self._pair_panel)
        self._a_size = _aligned(prod(self._batch) * self._rows * self._pair_terms * FLOAT_BYTES)
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
        floats = np.empty(self._floats // FLOAT_BYTES + _ALIGNMENT, np.float32)
        address = floats.ctypes.data + -floats.ctypes.data % _ALIGNMENT
        work = self._pack_through(constants, persistent, address)

        def launch(stream: int) -> None:
            assert floats.size  # the work writes it
            work(stream)

        return launch

    def _pack_through(self, constants: Pointers, target: int, floats: int) -> Launch:
        """Packs B in panels of floats, and then of pairs."""
        row = self._width * FLOAT_BYTES
        values = {
            "entries": self._panel_count,
            "rows": self._pair_terms,
            "columns": self._width,
            "terms": self._terms,
            "batch": self._panel_count,
            "source": floats,
            "source_inner": self._terms * row,
            "source_row": 2 * row,
            "second": row,
            "target": target,
        }
        return in_order([super().pack(constants, floats), self._conversion(values, "float32")])

    def _conversion(self, values: dict[str, Any], stored: Storage) -> Launch:
        rows = values["entries"] * values["rows"]
        threads = max(1, min(available_threads(), rows * values["columns"] // _FLOATS_OF_A_THREAD, rows))
        parameters = PairParameters.bound({**values, "tiles": 4 * threads if threads > 1 and rows >= 4 * threads else threads})
        return TaskLaunch.of(PAIRS(stored, self._isa), parameters, threads)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pairs_of_a, work = temporary + self._product_scratch, list[Launch]()
        address = temporary + self.prepared_temporary_size if persistent is None else persistent
        if persistent is None:
            work.append(self._pack_through(tensors, address, address + self.persistent_size))
        outer, inner, row, _ = self._byte_strides(self._desc.a_tensor)
        values = {
            "entries": prod(self._batch),
            "rows": self._rows,
            "columns": self._pair_terms,
            "terms": self._terms,
            "batch": self._batch[1],
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


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
