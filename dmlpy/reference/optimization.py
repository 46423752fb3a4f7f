"""The definition of the optimizer, on whole arrays."""

from __future__ import annotations

import numpy as np

from dmlpy.operators.optimization import AdamOptimizerDesc
from dmlpy.reference.registry import Array, Inputs, defines


def corrected_rate(desc: AdamOptimizerDesc, step: Array) -> Array:
    """The learning rate with both moments' corrections: one number, in double precision: 1 - beta2^t cancels in the first steps."""
    step = step.astype(np.float64)
    return np.asarray(desc.learning_rate * np.sqrt(1 - desc.beta2**step) / (1 - desc.beta1**step))


@defines(AdamOptimizerDesc)
def adam_optimizer(desc: AdamOptimizerDesc, inputs: Inputs) -> dict[str, Array]:
    gradient: Array = inputs["gradient_tensor"]
    first = desc.beta1 * inputs["input_first_moment_tensor"] + (1 - desc.beta1) * gradient
    second = desc.beta2 * inputs["input_second_moment_tensor"] + (1 - desc.beta2) * gradient**2
    rate = corrected_rate(desc, inputs["training_step_tensor"])
    return {
        "output_parameters_tensor": inputs["input_parameters_tensor"] - rate.astype(first.dtype) * first / (np.sqrt(second) + desc.epsilon),
        "output_first_moment_tensor": first,
        "output_second_moment_tensor": second,
    }
