"""Layers of given sizes, without memory behind them."""

from __future__ import annotations

from typing import Any

from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.cuda import training_layers as training
from tests.support.recurrent import layer_runs as recurrent_runs
from tests.support.recurrent.layer_runs import CELLS, USUAL, sizes_of
from tests.support.recurrent.training_runs import training_sizes


def forward_desc(cell: str, data_type: str, hidden: int, batch: int, steps: int = 100, directions: int = 1) -> RecurrentDesc:
    """A layer with as many inputs as hidden units, whose only output is its last state."""
    sizes = sizes_of(cell, steps, batch, hidden, hidden, directions)
    names = ("input_tensor", "weight_tensor", "recurrence_tensor", "output_single_tensor")
    tensors = {name: TensorDesc(data_type=data_type, sizes=sizes[name]) for name in names}
    direction = "FORWARD" if directions == 1 else "BIDIRECTIONAL"
    return CELLS[cell](**tensors, activation_descs=list(USUAL[cell]) * directions, direction=direction)


def described(
    cell: str, data_type: str, hidden: int, batch: int, *, trains: bool = False, both: bool = False, **flags: Any
) -> RecurrentDesc:
    """A layer or its training form, without memory behind it; `both` directions."""
    t, d, peephole = 20, 1 + both, flags.pop("peephole", False)
    sizes = training_sizes(cell, t, batch, 8, hidden, hidden, d)
    names = ["input_tensor", "weight_tensor", "recurrence_tensor", "output_sequence_tensor", *(["peephole_tensor"] if peephole else [])]
    tensors = {name: TensorDesc(data_type=data_type, sizes=sizes[name]) for name in names}
    if trains:
        kept = len(recurrent_runs.CELLS[cell].gate_names) + bool(flags.get("linear_before_reset"))
        count = d * batch * (t * kept * hidden + (t + 1) * hidden * (1 + (cell == "LSTM")))
        tensors["reserve_tensor"] = TensorDesc(data_type="FLOAT32", sizes=(1, 1, 1, count))
    direction = "BIDIRECTIONAL" if both else "FORWARD"
    desc: RecurrentDesc = training.TRAINING[cell](**tensors, activation_descs=USUAL[cell] * d, direction=direction, **flags)
    return desc
