"""What the plans of recurrent layers and their gradients agree on with the compiled time loops: parameters, states and stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.devices.cpu.recurrent.activations import CONSTANTS

_INTEGERS = (
    *("steps", "batch", "inputs", "hidden", "entries", "blocks", "entry_blocks", "block_groups", "sample_groups", "steal_timeout"),
    *("chunk", "backward", "turn", "time"),
    *("input", "input_row", "weights", "recurrence", "candidate", "projection", "bias", "hidden_bias", "peephole", "couple", "zeros"),
    *("parts", "state", "state_size", "state_row", "memory", "memory_row", "update", "reset", "cell_output", "own", "own_size"),
    *("output", "output_step", "output_row", "order", "bases", "rows", "skips", "gathered", "gathered_size", "gathered_row"),
    *("input_dropout", "input_gate", "state_dropout", "state_gate", "state_gates", "candidate_dropout"),
    *("saved", "saved_values", "saved_hidden", "saved_memory"),
    *("acquire", "input_stage", "step_stage", "second_stage", "input_product", "step_product", "second_product"),
)
STATES = 3
"""Buffers for h that steps use in turn. With two, a step would write what the other cores have just read: measured a sixth slower."""

_OTHERS = (("clip", np.float64), ("functions", np.int64), ("constants", np.float32, (CONSTANTS,)))

PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *_OTHERS])
"""What a time loop reads: numbers, addresses (0 for none), and distances in bytes.

A time loop takes `steps` steps at the times from `time` on, the last one first if `backward`, in chunks of `chunk` steps that share an
input product. h has `entries` entries in `entry_blocks` blocks: as many as there are `hidden` units in `blocks` blocks, or with a
projection its own. Samples may skip steps: a state's row r is that of sample order[r], such that those that take a step are among the first
rows; step t has bases[t + 1] - bases[t] of them. `skips` [T, batch], where steps are masked, says of each sample whether it takes the step,
and what its output shows if not: see `rows.ActiveRows`. A tile of a step is one of `block_groups` parts of the blocks for one of
`sample_groups` parts of the rows, which a thread leaves to another for `steal timeout` nanoseconds. `turn` is the number of the state that
is read first, of STATES that are `state_size` apart, with rows of `state_row`; `memory`, `update`, `reset` and `cell_output` are [batch,
blocks * lanes]. `input` is that of time 0, its rows (samples, then steps) `input_row` apart; `rows`, where samples skip steps, has for each
row of the input products the number of its row, and `gathered`, where rows are copied first, room for a chunk's, for each thread. Constants
are packed by blocks: weights [blocks, parts, inputs, together, lanes], where a part has the gates that are summed together, recurrence
likewise, with `candidate` [blocks, hidden, lanes] apart where it waits for the reset gate, and `projection` [entry_blocks, hidden, lanes];
each product is that of `products.build_gate_products`; `zeros` is a vector of them. `parts` holds a chunk's input products [blocks, chunk *
batch, gates, lanes]; each thread has `own_size` bytes of its own for the products of a tile. `output` is that of time 0. `saved` is the
reserve's part of this direction [T, kept_values, batch, hidden], `saved_hidden` and `saved_memory` the states after each step [T, batch,
entries or hidden]. `functions` is the address of `constants`, which `activations.constants_of` gives. `clip` is 0 for none.

With dropout each gate's product takes a copy of its own of x or h, and is a part by itself.
`input_dropout` has the multipliers of x by sample [batch, gates, ...], laid out like the `gathered` rows, in which a gate's copy is
`input_gate` behind the one before. A state's row goes on with the copies for `state_gates` gates, each `state_gate` long, and
`state_dropout` has their multipliers; `candidate_dropout` has those of r * h [batch, blocks * lanes].
"""


def count_stages(steps: int, chunk: int, *, two: bool) -> int:
    """The stages of a time loop: one for each chunk's input product, and one for each step, or two."""
    return -(-steps // chunk) + (1 + two) * steps


_GRADIENT_INTEGERS = (
    *(
        "steps",
        "batch",
        "hidden",
        "entries",
        "blocks",
        "entry_blocks",
        "block_groups",
        "sample_groups",
        "steal_timeout",
        "backward",
        "time",
    ),
    *("order", "bases", "skips", "couple", "peephole"),
    *("saved", "saved_values", "hidden_before", "memory_before", "memory_after", "upstream", "upstream_step", "upstream_row"),
    *("carry", "memory_carry", "gates", "gates_row", "state_gradient", "recurrence", "terms", "candidate", "projection"),
    *("panel", "columns", "zeros"),
    *("state_dropout", "candidate_dropout", "dropout_row", "own", "own_size", "operand"),
    *("acquire", "step_stage", "second_stage", "product"),
)

GRADIENT_PARAMETERS = np.dtype([*((name, np.int64) for name in _GRADIENT_INTEGERS), *_OTHERS])
"""What a backward recurrence reads: numbers, addresses (0 for none), and distances in bytes.

The names that `PARAMETERS` has mean the same. Steps are those of the forward recurrence, and taken in the opposite order: the first one
first if `backward`. `hidden_before`, `memory_before` and `memory_after` are slots [T, batch, entries or hidden] of the states around each
step. Matrices are packed in panels of `panel` blocks, whose sums of up to `columns` samples stay in registers; `zeros` is a row of one.
`carry` and `memory_carry` are dh [entry_blocks, batch, lanes] and dc [blocks, batch, lanes]. `gates` are the gates' gradients of the first
row of `time`, `gates_row` apart; the first `terms` of them enter the product with `recurrence`, [panels, terms, panel, lanes]; for a GRU
that resets first the last `hidden` enter that with `candidate`, and `operand` gets rows of r * h[t-1]. With a projection dh of each row
lies `state_gradient` behind its gates' gradients, to enter the product with `projection` [panels, entries, panel, lanes], and `operand`
gets rows of what is projected. `state_dropout` has the multipliers of h for each gate of `terms`, `candidate_dropout` those of r * h:
[batch], rows of `dropout_row`. Each thread has `own_size` bytes of its own for the products of a tile.
"""


def count_gradient_stages(steps: int, *, two: bool) -> int:
    """The stages of a backward recurrence: one for each step, or two, and one for the first dh."""
    return 1 + (1 + two) * steps


PACKING_PARAMETERS = np.dtype([(name, np.int64) for name in ("tiles", "blocks", "matrices", "acquire", "steal_timeout")])
"""What the packing of matrices reads: `matrices` is the address of records `PACKED_MATRIX`. A tile is a block of units of one of them,
each of which has `blocks` blocks at most.
"""

_PACKED_INTEGERS = ("transposed", "units", "terms", "gates", "vectors", "source", "source_gate", "source_row", "target", "target_block")
PACKED_MATRIX = np.dtype([(name, np.int64) for name in _PACKED_INTEGERS])
"""A matrix [gates, units, terms] if `transposed`, else [terms, units] of one gate, that is packed to [blocks, terms, gates, lanes], or to
[blocks, terms, vectors, lanes] with the units of as many vectors in a block. Gates, rows and the target's blocks are apart by so many
bytes.
"""


def copied(parameters: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """A copy of a time loop's parameters, which knows where its own constants are."""
    copy = parameters.copy()
    copy["functions"] = copy["constants"].ctypes.data
    return copy
