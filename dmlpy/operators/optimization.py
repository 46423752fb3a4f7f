"""The optimizer that updates parameters by their gradients: ADAM_OPTIMIZER."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import Float, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.support import FLOATS, UINT32, SupportRow
from dmlpy.description.tensors import TensorDesc


class AdamOptimizerDesc(OperatorDesc, dml="ADAM_OPTIMIZER"):
    """DML_ADAM_OPTIMIZER_OPERATOR_DESC: one step of Adam: new parameters and moments from the old ones and the gradient.

    The reference's table gives the training step a float type, its text UINT32, which is what holds here. A step of 0 divides 0 by 0:
    the first is 1. The operator does not advance it. Each output may use the memory of any input but the training step.
    """

    formula = """\
M' = beta1 * M + (1 - beta1) * G, V' = beta2 * V + (1 - beta2) * G^2
X' = X - learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * M' / (sqrt(V') + epsilon)"""
    support = (SupportRow("3_0", dims=4, T=FLOATS),)
    in_place = True

    input_parameters_tensor: Annotated[TensorDesc, In("*sizes")]
    """The parameters X before the step."""

    input_first_moment_tensor: Annotated[TensorDesc, In("*sizes")]
    """The running mean M of the gradient before the step."""

    input_second_moment_tensor: Annotated[TensorDesc, In("*sizes")]
    """The running mean V of the gradient's square before the step."""

    gradient_tensor: Annotated[TensorDesc, In("*sizes")]
    """The gradient G of the loss by the parameters."""

    training_step_tensor: Annotated[TensorDesc, In("1 1 1 1", UINT32)]
    """The number t of this step."""

    output_parameters_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The parameters X' after the step."""

    output_first_moment_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The running mean M' after the step."""

    output_second_moment_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The running mean V' after the step."""

    learning_rate: Float
    """How far a step goes."""

    beta1: Annotated[Float, Limits(least=0, most=1)] = default(0.9)
    """The weight of the old first moment in the new one."""

    beta2: Annotated[Float, Limits(least=0, most=1)] = default(0.999)
    """The weight of the old second moment in the new one."""

    epsilon: Float = default(1e-8)
    """The number added to the divisor."""
