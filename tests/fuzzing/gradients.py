"""Fuzzes definitions of gradients: each against central differences of its forward operator's definition, in float64.

    python -m tests.fuzzing.gradients --seconds 60 --seed 1

Descs are drawn as in `tests.fuzzing.differences`, which holds the devices to the definitions. Those of recurrent layers are held to
differences in `tests/devices/test_gradient_differences.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.conformance.values import random_inputs
from dmlpy.description.registry import OPERATORS
from tests.fuzzing import tally
from tests.fuzzing.differences import random_desc
from tests.fuzzing.tally import FuzzRun

Arrays = dict[str, Any]
FORWARD = {
    "ACTIVATION_RELU_GRAD": "ACTIVATION_RELU",
    "AVERAGE_POOLING_GRAD": "AVERAGE_POOLING",
    "BATCH_NORMALIZATION_GRAD": "BATCH_NORMALIZATION",
    "BATCH_NORMALIZATION_TRAINING_GRAD": "BATCH_NORMALIZATION_TRAINING",
    "ELEMENT_WISE_CLIP_GRAD": "ELEMENT_WISE_CLIP",
    "ELEMENT_WISE_CLIP_GRAD1": "ELEMENT_WISE_CLIP1",
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": "LOCAL_RESPONSE_NORMALIZATION",
    "MAX_POOLING_GRAD": "MAX_POOLING2",
    "RESAMPLE_GRAD": "RESAMPLE1",
    "RESAMPLE_GRAD1": "RESAMPLE2",
    "ROI_ALIGN_GRAD": "ROI_ALIGN1",
    "SLICE_GRAD": "SLICE1",
}
STEP = 1e-6
TOLERANCE = 1e-6
"""Of the sum of the magnitudes of gradient times direction."""


@cache
def kinds() -> Mapping[str, type[dml.OperatorDesc]]:
    return {kind.short_name(): kind for kind in OPERATORS.values()}


def forward_of(desc: Any) -> Any:
    """The forward operator: packed tensors of the gradient's sizes, and the attributes that both have."""
    kind = kinds()[FORWARD[desc.short_name()]]
    common = {name: getattr(desc, name) for name in kind.model_fields.keys() & type(desc).model_fields.keys()}
    attributes = {name: value for name, value in common.items() if not name.endswith("_tensor")}
    tensors = {name: value for name, value in common.items() if name.endswith("_tensor") and name != "output_tensor"}
    tensors["input_tensor"], tensors["output_tensor"] = desc.output_gradient_tensor, desc.input_gradient_tensor
    if "scale_tensor" in tensors:
        tensors["bias_tensor"] = desc.scale_tensor
    if "NORMALIZATION_TRAINING" in kind.type_name:
        tensors |= {"output_mean_tensor": desc.mean_tensor, "output_variance_tensor": desc.variance_tensor}
    if kind.short_name() == "BATCH_NORMALIZATION":
        attributes["spatial"] = False  # as broadcast by their strides
    if kind.short_name() == "ROI_ALIGN1":
        attributes["out_of_bounds_input_value"] = 0.0
    wide = {name: dml.TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes) for name, tensor in tensors.items() if tensor is not None}
    return kind(**wide, **attributes)


def gradient(fuzz: FuzzRun, name: str) -> str:
    """One desc: its gradient times a direction, and the difference along that."""
    desc: Any = random_desc(fuzz.chance, name)
    if desc.input_gradient_tensor.data_type.numpy.kind != "f":
        return "of integers"
    try:
        forward = forward_of(desc)
    except dml.DmlError:
        return "no forward desc"
    if desc.output_gradient_tensor is None or dml.check(forward):
        return "no forward desc"
    rng = np.random.default_rng(fuzz.chance.randrange(1 << 30))
    given: Arrays = {
        place: np.array(array, np.float64) if array.dtype.kind == "f" else array for place, array in random_inputs(rng, desc).items()
    }
    x = given.get("input_tensor", rng.uniform(-1, 1, desc.output_gradient_tensor.sizes))
    x = np.asarray(rng.uniform(-1, 1, x.shape))
    if "input_tensor" in given:
        given["input_tensor"] = x
    if "variance_tensor" in given:
        given["variance_tensor"] = np.abs(given["variance_tensor"])
    others = {place: array for place, array in given.items() if place in forward.tensors() and place != "input_tensor"}
    if "bias_tensor" in forward.tensors():
        others["bias_tensor"] = np.zeros(forward.bias_tensor.sizes)

    def outputs(at: Any) -> Any:
        return dml.reference(forward, others | {"input_tensor": at})

    if "output_mean_tensor" in forward.tensors():
        found = outputs(x)
        given |= {"mean_tensor": found.output_mean_tensor, "variance_tensor": found.output_variance_tensor}
    upstream, direction = given["input_gradient_tensor"], rng.uniform(-1, 1, x.shape)
    products = dml.reference(desc, given).output_gradient_tensor * direction
    ends = [float(np.sum(outputs(x + step * direction).output_tensor * upstream)) for step in (STEP, -STEP)]
    difference, expected = (ends[0] - ends[1]) / (2 * STEP), float(products.sum())
    if not np.isfinite(difference) and not np.isfinite(expected):
        return "not finite"
    allowed = TOLERANCE * (1 + float(np.abs(products).sum()))
    fuzz.promise(abs(difference - expected) <= allowed, f"{difference} and {expected}\n{json.dumps(desc.to_dict())}\n{name}")
    return "agrees"


def main(arguments: Sequence[str] | None = None) -> int:
    return tally.run(arguments, __doc__, {name: partial(gradient, name=name) for name in FORWARD})


if __name__ == "__main__":
    sys.exit(main())
