"""Random values of an operator's inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml

Array = np.ndarray[Any, Any]


def random_inputs(rng: np.random.Generator, desc: dml.OperatorDesc) -> dict[str, Any]:
    """Values of every described input; integers are small, and lengths no larger than they may be."""
    known, found = desc.sizes(), dict[str, Any]()
    for field in desc.inputs():
        described = getattr(desc, field.name)
        if described is None:
            continue
        limit = 3 if field.marker.at_most is None else known[field.marker.at_most]
        arrays = [random_values(rng, tensor, limit) for tensor in (described if field.listed else [described])]
        found[field.name] = arrays if field.listed else arrays[0]
    return found


def random_values(rng: np.random.Generator, tensor: dml.TensorDesc, limit: int) -> Array:
    dtype = tensor.data_type.numpy
    if dtype.kind == "f":
        # Of both signs, and with no pole of TAN in what the samples' scale and bias, 2 and -1, make of them.
        return rng.uniform(-0.2, 0.8, tensor.sizes).astype(dtype)
    return rng.integers(0, limit, tensor.sizes, endpoint=True).astype(dtype)
