"""The operations of reductions and scans."""

from __future__ import annotations

from typing import Any

from dmlpy.description.enums import ReduceFunction
from dmlpy.devices.flops import elements, flops
from dmlpy.operators.reduction import CumulativeDesc, IndexReductionDesc, ReduceDesc, TopKDesc

_OF_ENTRIES = {ReduceFunction.L1: 1, ReduceFunction.L2: 1, ReduceFunction.LOG_SUM_EXP: 1, ReduceFunction.SUM_SQUARE: 1}
"""Operations on each entry before the reduction: a magnitude, a square, an exponential."""

_OF_RESULTS = {ReduceFunction.AVERAGE: 1, ReduceFunction.L2: 1, ReduceFunction.LOG_SUM: 1, ReduceFunction.LOG_SUM_EXP: 1}
"""Operations on each result: a quotient, a root, a logarithm."""


@flops(ReduceDesc)
def reduction(desc: Any) -> int:
    """n - 1 operations reduce n entries."""
    entries, results = int(desc.input_tensor.element_count), elements(desc)
    return entries * (1 + _OF_ENTRIES.get(desc.function, 0)) + results * (_OF_RESULTS.get(desc.function, 0) - 1)


@flops(IndexReductionDesc)
def index_reduction(desc: Any) -> int:
    return int(desc.input_tensor.element_count) - elements(desc)


@flops(CumulativeDesc)
def scan(desc: Any) -> int:
    """n - 1 operations for a line of n entries."""
    count = elements(desc)
    return count - count // int(desc.input_tensor.sizes[desc.axis])


@flops(TopKDesc)
def top_k(desc: TopKDesc) -> None:
    """How many comparisons it takes depends on the elements."""
