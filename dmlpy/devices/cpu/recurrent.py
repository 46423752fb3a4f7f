"""The compiled plan of RNN, LSTM and GRU forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.plans import plan
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.plan import RecurrentPlan


# The training forms derive from these, but keep a reserve, may mask steps and project.
@plan(RNNDesc, LSTMDesc, GRUDesc, derived=False)
def recurrent_plan(desc: RecurrentDesc) -> RecurrentPlan | str:
    """The plan for a checked desc, or which of its activations has no compiled form."""
    from dmlpy.devices.cpu.plan import FUNCTIONS, RecurrentPlan

    for activation in desc.activation_descs:
        if type(activation) not in FUNCTIONS:
            return f"{activation.short_name()} has no compiled form in a recurrent layer"
    return RecurrentPlan(desc)
