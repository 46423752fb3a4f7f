"""The definitions of `dmlpy.reference`, called with arrays of a test: also with those that `dml.reference` would refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.operators.recurrent.layer import RecurrentDesc
from dmlpy.reference.recurrent.layer import Trace, trace
from dmlpy.reference.registry import definition

Array = np.ndarray[Any, Any]


def widened(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, those of floating point in float64."""
    return {name: array.astype(np.float64) if is_float(array.dtype) else array for name, array in arrays.items()}


def exact(desc: dml.OperatorDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Every output by field name in float64, described or not, from the described inputs."""
    function = definition(type(desc))
    assert function is not None
    with np.errstate(all="ignore"):
        results = function(desc, dict.fromkeys(field.name for field in desc.inputs()) | widened(arrays))
    return dict(results) if isinstance(results, Mapping) else {desc.outputs()[0].name: results}


def traced(desc: RecurrentDesc, arrays: Mapping[str, Array]) -> Trace:
    """All that happens in a recurrent layer, in float64."""
    with np.errstate(all="ignore"):
        return trace(desc, widened(arrays))
