"""The compiled reversal of the first elements of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.movement.kernels import block_copy, long_at, word_at
from dmlpy.devices.cpu.movement.reversal import ReversalParameters
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD_BYTES, _WORD = 4, 0xFFFFFFFF


def build_reversal() -> TaskBody:
    """Builds a thread's part of a reversal, to be compiled."""
    copy = block_copy()

    @jit
    def length_at(p: ReversalParameters, address: Any) -> Any:
        length = word_at(address) & _WORD if p.length_bytes == _WORD_BYTES else long_at(address)
        return p.size if length < 0 else min(length, p.size)  # lengths are unsigned

    @jit
    def reverse(p: ReversalParameters, output: Any, source: Any, lengths: Any) -> None:
        column = 0
        while column < p.columns:
            length, last = length_at(p, lengths + column * p.length_step), column + 1
            if p.length_step == 0:
                last = p.columns
            while last < p.columns and length_at(p, lengths + last * p.length_step) == length:
                last += 1
            to, of, run = output + column * p.width, source + column * p.width, (last - column) * p.width
            for place in range(length):
                copy(to + place * p.output_step, of + (length - 1 - place) * p.input_step, run)
            for place in range(length, p.size):
                copy(to + place * p.output_step, of + place * p.input_step, run)
            column = last

    @jit
    def run(p: ReversalParameters, first: Any, last: Any, own: Any) -> None:
        for group in range(first, last):
            rest, output, source, lengths = group, p.output, p.input, p.lengths
            for axis in range(p.axes):
                row = p.table + 32 * axis
                size = long_at(row)
                index = rest % size
                rest //= size
                output += index * long_at(row + 8)
                source += index * long_at(row + 16)
                lengths += index * long_at(row + 24)
            reverse(p, output, source, lengths)

    return share_units(ReversalParameters, run)
