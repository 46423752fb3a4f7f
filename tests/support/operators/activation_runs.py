"""Activations as operators of their own: descs, inputs in every layout, runs on a device, and the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.activation_cases import definition
from tests.support.recurrent.layer_runs import GUARD, Placed

Array = np.ndarray[Any, Any]


Arrays = Mapping[str, Array]


DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])


ACTIVATIONS: list[dml.ActivationDesc] = [
    dml.ActivationIdentityDesc(),
    dml.ActivationReluDesc(),
    dml.ActivationSigmoidDesc(),
    dml.ActivationTanhDesc(),
    dml.ActivationSoftsignDesc(),
    dml.ActivationGeluDesc(),
    dml.ActivationEluDesc(),
    dml.ActivationEluDesc(alpha=-0.7),
    dml.ActivationCeluDesc(),
    dml.ActivationCeluDesc(alpha=-2.5),
    dml.ActivationLeakyReluDesc(),
    dml.ActivationLeakyReluDesc(alpha=-1.5),
    dml.ActivationThresholdedReluDesc(),
    dml.ActivationThresholdedReluDesc(alpha=-0.5),
    dml.ActivationScaledEluDesc(),
    dml.ActivationScaledEluDesc(alpha=-0.5, gamma=-1.25),
    dml.ActivationLinearDesc(),
    dml.ActivationLinearDesc(alpha=-1.75, beta=0.3),
    dml.ActivationHardSigmoidDesc(),
    dml.ActivationHardSigmoidDesc(alpha=-0.3, beta=0.4),
    dml.ActivationScaledTanhDesc(),
    dml.ActivationScaledTanhDesc(alpha=-1.7, beta=-0.66),
    dml.ActivationParametricSoftplusDesc(),
    dml.ActivationParametricSoftplusDesc(alpha=-0.6, beta=-0.9),
    dml.ActivationSoftplusDesc(),
    dml.ActivationSoftplusDesc(steepness=3.5),
    dml.ActivationShrinkDesc(),
    dml.ActivationShrinkDesc(bias=-0.3, threshold=0.8),
    dml.ActivationShrinkDesc(bias=0.3, threshold=-0.8),
    dml.ActivationSwishDesc(),
    dml.ActivationSwishDesc(sigmoid_input_scale=-0.8),
    dml.ActivationHardSwishDesc(),
    dml.ActivationHardSwishDesc(alpha=-0.3, beta=0.4),
    dml.ActivationParameterizedReluDesc(),
    dml.ActivationReluGradDesc(),
]
"""Each operator with its defaults and with other attributes, negative ones where a sign means something."""


EACH = list({type(desc): desc for desc in ACTIVATIONS}.values())


INPUTS_OF = {type(desc): [field.name for field in desc.inputs()] for desc in EACH}


def described(desc: dml.ActivationDesc, arrays: Arrays) -> Any:
    """The operator for packed inputs of these sizes and this type."""
    return desc.replace(**{name: dml.TensorDesc.of(np.ascontiguousarray(array)) for name, array in arrays.items()}).with_outputs()


def output_of(desc: dml.ActivationDesc) -> str:
    return desc.outputs()[0].name


def inputs(desc: dml.ActivationDesc, *values: Array) -> dict[str, Array]:
    """The values by field name; a second input is the first one backwards if none is given."""
    names = INPUTS_OF[type(desc)]
    return dict(zip(names, (*values, values[0][..., ::-1].copy())[: len(names)], strict=True))


def run(device: dml.Device, desc: dml.ActivationDesc, arrays: Arrays) -> Array:
    """The output of one run, on the host. Memory for it held other values before."""
    operator = dml.compile(described(desc, arrays), device=device)
    first = next(iter(arrays.values()))
    poison = np.full(first.shape, np.nan if first.dtype.kind == "f" else 85, first.dtype)
    given = {name: device.from_host(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return device.to_host(next(iter(operator(**given, **{output_of(desc): device.from_host(poison)}))))


def oracle(desc: dml.ActivationDesc, arrays: Arrays) -> Array:
    """The definition, element by element in float64."""
    first, *rest = (array.astype(np.float64) for array in arrays.values())
    if isinstance(desc, dml.ActivationParameterizedReluDesc):
        return np.where(first >= 0, first, rest[0] * first)
    if isinstance(desc, dml.ActivationReluGradDesc):
        return np.where(first > 0, rest[0], 0.0)
    return np.vectorize(lambda value: definition(desc, float(value)), otypes=[np.float64])(first)


def laid_out(values: Array, strides: Iterable[int], start: int = 0) -> Placed:
    """The values in guarded memory, `start` elements behind an address that is a multiple of 64 bytes."""
    strides, item = tuple(strides), values.itemsize
    desc = dml.TensorDesc(data_type=values.dtype.name.upper(), sizes=values.shape, strides=strides)
    memory = np.full((desc.span + start) * item + 128, GUARD, np.uint8)
    first = start * item + 64
    flat = memory[first : first + desc.span * item].view(values.dtype)
    tensor = np.lib.stride_tricks.as_strided(flat, values.shape, [stride * item for stride in strides])
    tensor[...] = values
    return Placed(desc, memory, tensor)


def in_order(sizes: tuple[int, ...], order: Iterable[int], gap: int = 0) -> list[int]:
    """Strides of dimensions in this order of memory, outermost first, with `gap` elements left out after each inner part."""
    strides, reach = [0] * len(sizes), 1
    for axis in reversed(tuple(order)):
        strides[axis] = reach
        reach = reach * sizes[axis] + gap
    return strides


SIZES = (2, 3, 5, 8)


LAYOUTS: dict[str, tuple[list[int], int]] = {
    "packed": (in_order(SIZES, range(4)), 0),
    "packed, one element further": (in_order(SIZES, range(4)), 1),
    "padded": (in_order(SIZES, range(4), gap=3), 0),
    "slice of wider rows": (in_order((2, 3, 5, 16), range(4)), 0),
    "slice of wider rows, half a pack further": (in_order((2, 3, 5, 16), range(4)), 4),
    "every second of a row": ([240, 80, 16, 2], 1),
    "channels innermost": (in_order(SIZES, (0, 2, 3, 1)), 0),
    "reversed": (in_order(SIZES, (3, 2, 1, 0)), 2),
    "permuted with gaps": (in_order(SIZES, (2, 0, 3, 1), gap=1), 0),
}


SAMPLE: list[tuple[dml.ActivationDesc, Any]] = [
    (dml.ActivationGeluDesc(), np.float32),
    (dml.ActivationSigmoidDesc(), np.float16),
    (dml.ActivationParameterizedReluDesc(), np.float32),
    (dml.ActivationReluGradDesc(), np.float16),
    (dml.ActivationShrinkDesc(bias=1.7), np.int8),
]


def random_values(rng: np.random.Generator, sizes: tuple[int, ...], dtype: Any) -> Array:
    return rng.normal(0.0, 3.0, sizes).astype(dtype) if np.dtype(dtype).kind == "f" else rng.integers(-100, 100, sizes).astype(dtype)
