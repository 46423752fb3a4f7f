"""Random values of an operator's inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.conformance.values import random_values

Array = np.ndarray[Any, Any]


def random_inputs(rng: np.random.Generator, desc: dml.OperatorDesc) -> dict[str, Any]:
    """Values of every described input; integers are small, and lengths no larger than they may be."""
    symbols, found = desc.sizes(), dict[str, Any]()
    for field in desc.inputs():
        described = getattr(desc, field.name)
        if described is None:
            continue
        limit = 3 if field.marker.at_most is None else symbols[field.marker.at_most]
        arrays = [random_values(rng, tensor, limit) for tensor in (described if field.listed else [described])]
        found[field.name] = arrays if field.listed else arrays[0]
    return found
