"""Activations by Keras's names, as the descs that compute them."""

from __future__ import annotations

from functools import lru_cache

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationEluDesc,
    ActivationHardSigmoidDesc,
    ActivationIdentityDesc,
    ActivationReluDesc,
    ActivationScaledEluDesc,
    ActivationSigmoidDesc,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationTanhDesc,
)

ACTIVATIONS: dict[str, ActivationDesc] = {
    "linear": ActivationIdentityDesc(),
    "tanh": ActivationTanhDesc(),
    "sigmoid": ActivationSigmoidDesc(),
    # Keras 1's and 2's; Keras 3 has clip(x / 6 + 0.5, 0, 1), an ActivationHardSigmoidDesc(alpha=1 / 6, beta=0.5).
    "hard_sigmoid": ActivationHardSigmoidDesc(alpha=0.2, beta=0.5),
    "relu": ActivationReluDesc(),
    "elu": ActivationEluDesc(),
    "selu": ActivationScaledEluDesc(),
    "softplus": ActivationSoftplusDesc(),
    "softsign": ActivationSoftsignDesc(),
    "softmax": ActivationSoftmaxDesc(),
}
"""Activation descs by Keras's names."""


def activation(value: ActivationDesc | str | None) -> ActivationDesc:
    """An activation desc, or the one of Keras's name; None is `linear`.

    Any element-wise activation desc can stand in a name's place: `ActivationLeakyReluDesc(alpha=0.1)`.

    Raises:
        DescError: no such name.
    """
    if isinstance(value, ActivationDesc):
        return value
    name = "linear" if value is None else value
    if not isinstance(name, str) or name not in ACTIVATIONS:
        expected = f"an activation desc, or one of {', '.join(ACTIVATIONS)}"
        problem = Problem("field.form", "", brief(value), expected, remedy=did_you_mean(name, ACTIVATIONS))
        raise DescError("activation", [problem])
    return ACTIVATIONS[name]


@lru_cache(maxsize=256)
def of_rows(desc: ActivationDesc, sizes: tuple[int, ...]) -> ActivationDesc:
    """An activation with its tensors, packed float32 of these sizes. A training step asks for the same ones again and again."""
    return desc.replace(input_tensor=TensorDesc(data_type=DataType.FLOAT32, sizes=sizes)).with_outputs()
