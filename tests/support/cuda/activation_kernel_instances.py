"""Instances of the activations' kernels, such that each functor, element type and width of access occurs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import dmlpy as dml
from dmlpy.devices.cuda.activation.elements import elements_kernel
from dmlpy.devices.cuda.functors import ATTRIBUTES
from dmlpy.devices.cuda.kernels import Kernel

WIDTHS = {
    "float32": (4, 2, 1),
    "float16": (8, 4, 2, 1),
    **dict.fromkeys(("int32", "uint32"), (4, 2, 1)),
    **dict.fromkeys(("int16", "uint16"), (8, 4, 2, 1)),
    **dict.fromkeys(("int8", "uint8"), (16, 8, 4, 2, 1)),
}
"""Elements that one access may take, of each element type."""


def activation_instances() -> Iterator[Kernel]:
    """Each functor with each type that it takes, and each type in every width."""
    turns = {data_type: cycle(widths) for data_type, widths in WIDTHS.items()}
    floats, signed = ("float32", "float16"), ("int32", "int16", "int8")
    unary = dict.fromkeys((*ATTRIBUTES, dml.ActivationSwishDesc, dml.ActivationHardSwishDesc), floats)
    unary[dml.ActivationReluDesc] = unary[dml.ActivationReluDesc] + signed
    unary[dml.ActivationShrinkDesc] = tuple(WIDTHS)
    for kind, data_types in unary.items():
        for data_type in data_types:
            yield elements_kernel(kind, data_type, next(turns[data_type]))
    for data_type in floats + signed:
        for width in WIDTHS[data_type]:
            yield elements_kernel(dml.ActivationParameterizedReluDesc, data_type, width)
        yield elements_kernel(dml.ActivationReluGradDesc, data_type, next(turns[data_type]))
    for data_type in ("uint32", "uint16", "uint8"):
        for width in WIDTHS[data_type][1:]:
            yield elements_kernel(dml.ActivationShrinkDesc, data_type, width)
