"""The plan of RNN, LSTM and GRU forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import HResult
from dmlpy.devices.numba.plans import plan
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc
from dmlpy.validation.problems import CompileError, Problem

if TYPE_CHECKING:
    from dmlpy.devices.numba.plan import RecurrentPlan


# The training forms derive from these, but keep a reserve, may mask steps and project.
@plan(RNNDesc, LSTMDesc, GRUDesc, derived=False)
def recurrent_plan(desc: RecurrentDesc) -> RecurrentPlan:
    """The plan for a checked desc.

    Raises:
        CompileError: one of its activations has no kernel.
    """
    from dmlpy.devices.numba.plan import FUNCTIONS, RecurrentPlan

    expected = f"one that runs on numba: {', '.join(kind.type_name for kind in FUNCTIONS)}"
    remedy = "compile it for the device 'numpy'"
    problems = [
        Problem("operator.not_built", f"activation_descs[{index}]", activation.type_name, expected, remedy=remedy)
        for index, activation in enumerate(desc.activation_descs)
        if type(activation) not in FUNCTIONS
    ]
    if problems:
        raise CompileError(desc.c_name, problems, HResult.E_NOTIMPL, desc)
    return RecurrentPlan(desc)
