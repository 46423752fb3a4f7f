"""Keras's activation names and the descs that compute them."""

from __future__ import annotations

from functools import lru_cache

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.registry import OPERATORS
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
    """Returns the activation desc for a Keras name, or the given desc; None means `linear`.

    Any element-wise activation desc can be given instead of a name: `ActivationLeakyReluDesc(alpha=0.1)`.

    Raises:
        DescError: the name is unknown.
    """
    if isinstance(value, ActivationDesc):
        return value
    name = "linear" if value is None else value
    if not isinstance(name, str) or name not in ACTIVATIONS:
        expected = f"an activation desc, or one of {', '.join(ACTIVATIONS)}"
        remedy = _desc_remedy(name) or did_you_mean(name, ACTIVATIONS)
        problem = Problem("field.form", "", brief(value), expected, remedy=remedy)
        raise DescError("activation", [problem])
    return ACTIVATIONS[name]


def _desc_remedy(name: object) -> str | None:
    """The remedy for an activation that recurrent layers run and Keras 1 has no name for: its desc."""
    descs = [kind for kind in OPERATORS.values() if issubclass(kind, ActivationDesc) and kind.fusable]
    kinds = {kind.__name__.removeprefix("Activation").lower(): kind for kind in descs}
    kind = kinds.get(f"{name.replace('_', '').lower()}desc") if isinstance(name, str) else None
    return f"give its desc: dmlpy.{kind.__name__}(...)" if kind else None


@lru_cache(maxsize=256)
def of_rows(desc: ActivationDesc, sizes: tuple[int, ...]) -> ActivationDesc:
    """An activation with packed float32 tensors of these sizes. Cached, since every training step needs the same ones."""
    return desc.replace(input_tensor=TensorDesc(data_type=DataType.FLOAT32, sizes=sizes)).with_outputs()
