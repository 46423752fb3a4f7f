"""The items of a walk's steps, some blocks of units for some samples: how many there are, and how long a thread leaves one to another."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.phased import patience_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Registers
    from dmlpy.operators.recurrent.layer import RecurrentGeometry

_ITEM = 1 << 16
"""Multiplications of an item, at least, unless the threads would have too few: half a microsecond or more."""
_ITEM_ROWS = 64
"""Samples of an item, at most."""
_ITEM_BYTES = 1 << 14
"""Bytes of the sums of an item, at most, unless a block has more: they stay in the first-level cache."""
_ITEMS = 8
"""Items of a thread, about, that are enough to share what a thread leaves that is put aside: each must be looked at by all."""


def item_groups(sizes: RecurrentGeometry, blocks: int, threads: int, registers: Registers) -> tuple[int, int]:
    """The parts of the blocks and of the samples that items are for. Those of the samples do not depend on the threads."""
    sample_groups = -(-sizes.batch_size // _ITEM_ROWS)
    if threads == 1:
        return blocks, sample_groups
    rows = -(-sizes.batch_size // sample_groups)
    sums = FLOAT_BYTES * registers.lanes * sizes.gates * rows * blocks
    enough = min(sizes.gates * sizes.hidden_size * sizes.state_size * rows // _ITEM, _ITEMS * threads)
    return min(blocks, max(enough, threads, -(-sums // _ITEM_BYTES))), sample_groups


def item_size(sizes: RecurrentGeometry, blocks: int, groups: tuple[int, int]) -> int:
    """The sums of one gate of an item of a phase over so many blocks, at most, each of them a vector."""
    block_groups, sample_groups = groups
    return -(-blocks // block_groups) * -(-sizes.batch_size // sample_groups)


def walk_patience(sizes: RecurrentGeometry, groups: tuple[int, int], chunk_rows: int, registers: Registers) -> int:
    """The nanoseconds that a thread waits before it does again what another has begun: a few times what an item takes.

    Args:
        sizes: those of the layer.
        groups: what `item_groups` gives.
        chunk_rows: rows of an input product, whose items are blocks; 0 where there is none.
        registers: the registers that the walk is compiled for.
    """
    step = sizes.gates * sizes.hidden_size * sizes.state_size * sizes.batch_size // prod(groups)
    product = sizes.gates * registers.lanes * sizes.input_size * chunk_rows
    return patience_of(max(step, product) // registers.lanes)
