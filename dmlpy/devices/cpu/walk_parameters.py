"""What the plan of a recurrent layer and its compiled walk agree on: the parameters, the states and the meetings."""

from __future__ import annotations

import numpy as np

_INTEGERS = (
    *("steps", "batch", "inputs", "hidden", "blocks", "chunk", "backward", "turn", "time"),
    *("input", "input_row", "weights", "recurrence", "candidate", "bias", "hidden_bias", "peephole", "couple"),
    *("parts", "state", "state_size", "state_row", "memory", "update", "reset", "sums", "sums_size", "lengths"),
    *("output", "output_step", "output_row"),
)
STATES = 3
"""Buffers for h that steps use in turn. With two, a step would write what the other cores have just read: measured a sixth slower."""

PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), ("clip", np.float64)])
"""What a walk reads: numbers, addresses (0 for none), and distances in bytes.

A walk takes `steps` steps at the times from `time` on, the last one first if `backward`, in chunks of `chunk` steps that share an input
product. `turn` is the number of the state that is read first, of STATES [batch, blocks * lanes] that are `state_size` apart; `memory`,
`update` and `reset` lie like one. `input` is that of `time`, its rows (samples, then steps) `input_row` apart. Constants are packed by
blocks: weights [blocks, inputs, gates, lanes], recurrence likewise, with `candidate` [blocks, hidden, 1, lanes] apart where it waits for
the reset gate. `parts` holds a chunk's input products [blocks, chunk * batch, gates, lanes]; `sums` a part for each thread; `lengths` is
int64 [batch]. `clip` is 0 for none.
"""

NUMBERS = 3
"""The number of meetings in a step: after the input product, the gates, and h."""
