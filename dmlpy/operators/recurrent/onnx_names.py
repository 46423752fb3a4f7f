"""ONNX's names of the activations of recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationEluDesc,
    ActivationHardSigmoidDesc,
    ActivationLeakyReluDesc,
    ActivationLinearDesc,
    ActivationReluDesc,
    ActivationScaledTanhDesc,
    ActivationSigmoidDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
)

ONNX_ACTIVATIONS: Mapping[str, tuple[type[ActivationDesc], Mapping[str, float]]] = {
    "Relu": (ActivationReluDesc, {}),
    "Tanh": (ActivationTanhDesc, {}),
    "Sigmoid": (ActivationSigmoidDesc, {}),
    "Softsign": (ActivationSoftsignDesc, {}),
    "Softplus": (ActivationSoftplusDesc, {}),
    "Elu": (ActivationEluDesc, {"alpha": 1.0}),
    "LeakyRelu": (ActivationLeakyReluDesc, {"alpha": 0.01}),
    "ThresholdedRelu": (ActivationThresholdedReluDesc, {"alpha": 0.0}),
    "HardSigmoid": (ActivationHardSigmoidDesc, {"alpha": 0.2, "beta": 0.5}),
    "ScaledTanh": (ActivationScaledTanhDesc, {"alpha": 0.0, "beta": 0.0}),
    "Affine": (ActivationLinearDesc, {"alpha": 0.0, "beta": 0.0}),
}
"""The activations, with the attributes that take a node's activation_alpha and activation_beta, and the defaults of ONNX Runtime 1.32.0.

ONNX points to the operators of these names. It has no ScaledTanh and no Affine any more; its ThresholdedRelu has an alpha of 1."""
ONNX_DEFAULTS: Mapping[str, tuple[str, ...]] = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""The activations of one direction of a node that names none."""


def onnx_activations(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[ActivationDesc]:
    """The activations of a node; its lists of alphas and betas have entries only for functions that use them, in order.

    Args:
        names: the names, in ONNX's spelling.
        alphas: the node's activation_alpha.
        betas: the node's activation_beta.

    Raises:
        KeyError: no activation has the name.
    """
    left = {"alpha": list(alphas), "beta": list(betas)}
    descs = []
    for name in names:
        kind, defaults = ONNX_ACTIVATIONS[name]
        descs.append(kind(**{item: left[item].pop(0) if left[item] else value for item, value in defaults.items()}))
    return descs
