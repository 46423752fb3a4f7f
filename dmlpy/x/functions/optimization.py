# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.optimization`."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import floating

from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, several



class AdamOptimizerOutputs(NamedTuple):
    """The outputs of `adam_optimizer`."""

    parameters: Expression
    """The parameters X' after the step."""
    first_moment: Expression
    """The running mean M' after the step."""
    second_moment: Expression
    """The running mean V' after the step."""


@refuse_others
def adam_optimizer(
    input_parameters: Expression | Array,
    input_first_moment: Expression | Array,
    input_second_moment: Expression | Array,
    gradient: Expression | Array,
    training_step: Expression | Array,
    *,
    learning_rate: float | str | floating[Any],
    beta1: float | str | floating[Any] = 0.9,
    beta2: float | str | floating[Any] = 0.999,
    epsilon: float | str | floating[Any] = 1e-08,
) -> AdamOptimizerOutputs:
    """ADAM_OPTIMIZER: one step of Adam: new parameters and moments from the old ones and the gradient.

    The reference's table gives the training step a float type, its text UINT32, which is what holds here. A step of 0
    divides 0 by 0: the first is 1. The operator does not advance it. Each output may use the memory of any input but
    the training step.

    ::

        M' = beta1 * M + (1 - beta1) * G, V' = beta2 * V + (1 - beta2) * G^2
        X' = X - learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * M' / (sqrt(V') + epsilon)

    Args:
        input_parameters: `[*sizes]`. The parameters X before the step.
        input_first_moment: `[*sizes]`. The running mean M of the gradient before the step.
        input_second_moment: `[*sizes]`. The running mean V of the gradient's square before the step.
        gradient: `[*sizes]`. The gradient G of the loss by the parameters.
        training_step: `[1, 1, 1, 1]`. The number t of this step.
        learning_rate: How far a step goes.
        beta1: The weight of the old first moment in the new one. 0 to 1.
        beta2: The weight of the old second moment in the new one. 0 to 1.
        epsilon: The number added to the divisor.

    Returns:
        The named tuple `AdamOptimizerOutputs` of these fields.

        - `parameters`: `[*sizes]`. The parameters X' after the step.
        - `first_moment`: `[*sizes]`. The running mean M' after the step.
        - `second_moment`: `[*sizes]`. The running mean V' after the step.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return AdamOptimizerOutputs(*several(
        "ADAM_OPTIMIZER",
        input_parameters_tensor=input_parameters,
        input_first_moment_tensor=input_first_moment,
        input_second_moment_tensor=input_second_moment,
        gradient_tensor=gradient,
        training_step_tensor=training_step,
        learning_rate=learning_rate,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
    ))

