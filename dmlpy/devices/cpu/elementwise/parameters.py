"""What the plan of an element-wise program and its compiled kernel agree on: the parameters, the instructions, and the size of blocks."""

from __future__ import annotations

import numpy as np

BLOCK = 1024
"""Elements of a block, at most: the registers of a usual chain stay in a core's first cache."""

ALIGNMENT = 64
"""Bytes that registers are aligned to."""

_INTEGERS = (
    *("ticket", "done", "items", "blocks", "axes", "sizes", "strides", "rows", "columns", "cut_rows", "cut_size"),
    *("tensors", "bases", "registers", "register_size", "instructions", "once", "count", "scratch", "scratch_size"),
)
PARAMETERS = np.dtype([(name, np.int64) for name in _INTEGERS])
"""What a program reads: numbers, addresses, and distances in bytes.

The first two are the state of `thread_pool_kernels`. An item is a share of the `blocks`, which are counted along `axes` axes, the innermost
first; `sizes` are the blocks along each, int64. A block spans `rows` and `columns` of the elements; one of the two, which `cut_rows` tells,
is cut from `cut_size` elements, so the last block has fewer. Operands are `tensors` tensors and behind them `registers` registers of
`register_size` bytes. The tensors begin at `bases`, int64; `strides` are those from one block to the next, int64 [tensors, axes]. The first
`once` of the `count` instructions give the same in each block. Each thread has `scratch_size` bytes for the addresses of the operands and,
behind them, the registers.
"""

INSTRUCTION = np.dtype(
    [*((name, np.int64) for name in ("code", "result", "x", "y", "row", "column")), ("a", np.float32), ("b", np.float32), ("_", np.int64)]
)
"""An instruction: its code, the numbers of its operands, and its constants.

LOAD and STORE copy from or to a tensor whose elements are `row` and `column` bytes apart along the two axes of a block.
"""
