"""The activations of compiled time loops: their names, and the constants that a time loop reads.

The usual ones have a name of their own, by which a time loop is compiled. All others share the name `other`: one function finds out by a
number which activation it is, so that a time loop is not compiled again for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators import activation as descs

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc

COMPILED: dict[type[ActivationDesc], str] = {
    descs.ActivationSigmoidDesc: "sigmoid",
    descs.ActivationTanhDesc: "tanh",
    descs.ActivationReluDesc: "relu",
    descs.ActivationHardSigmoidDesc: "hard_sigmoid",
}
"""The activations that have a name of their own."""

IDENTITY, LINEAR, LEAKY, THRESHOLDED, ELU, CELU, SCALED_ELU, SCALED_TANH = range(8)
SOFTSIGN, SOFTPLUS, PARAMETRIC_SOFTPLUS, SHRINK, GELU = range(8, 13)

_OTHERS: dict[type[ActivationDesc], tuple[int, tuple[str, ...]]] = {
    descs.ActivationIdentityDesc: (IDENTITY, ()),
    descs.ActivationLinearDesc: (LINEAR, ("alpha", "beta")),
    descs.ActivationLeakyReluDesc: (LEAKY, ("alpha",)),
    descs.ActivationThresholdedReluDesc: (THRESHOLDED, ("alpha",)),
    descs.ActivationEluDesc: (ELU, ("alpha",)),
    descs.ActivationCeluDesc: (CELU, ("alpha",)),
    descs.ActivationScaledEluDesc: (SCALED_ELU, ("alpha", "gamma")),
    descs.ActivationScaledTanhDesc: (SCALED_TANH, ("alpha", "beta")),
    descs.ActivationSoftsignDesc: (SOFTSIGN, ()),
    descs.ActivationSoftplusDesc: (SOFTPLUS, ("steepness",)),
    descs.ActivationParametricSoftplusDesc: (PARAMETRIC_SOFTPLUS, ("alpha", "beta")),
    descs.ActivationShrinkDesc: (SHRINK, ("bias", "threshold")),
    descs.ActivationGeluDesc: (GELU, ()),
}
"""The number of each other activation, and its constants."""

OF_A_ROLE = 3
CONSTANTS = 3 * OF_A_ROLE
"""Floats in the constants of a time loop's activations."""


def names_of(activations: tuple[ActivationDesc, ...]) -> tuple[str, ...]:
    """The names by which time loops are compiled with these activations."""
    return tuple(COMPILED.get(type(activation), "other") for activation in activations)


def constants_of(activations: tuple[ActivationDesc, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The constants of a time loop's activations, which are its parameter `functions`: for each role a number, and two of its own."""
    found = np.zeros((CONSTANTS // OF_A_ROLE, OF_A_ROLE), np.float32)
    for role, activation in enumerate(activations):
        number, names = _OTHERS.get(type(activation), (0, ()))
        if isinstance(activation, descs.ActivationHardSigmoidDesc):
            names = ("alpha", "beta")
        with np.errstate(over="ignore"):
            found[role, : 1 + len(names)] = (number, *(getattr(activation, name) for name in names))
    return found.reshape(-1)
