"""Operators of batch normalization with random inputs, run on a device and held to their definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.reference.normalization.batch import CHANNELS, statistics
from tests.support.operators.exact import exact
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
Kind = type[Any]
NormalizationDesc = (
    dml.BatchNormalizationDesc
    | dml.BatchNormalizationTrainingDesc
    | dml.BatchNormalizationGradDesc
    | dml.BatchNormalizationTrainingGradDesc
    | dml.FusedBatchNormV3Desc
    | dml.FusedBatchNormGradV3Desc
)

GIVEN = {"mean_tensor": "mean", "variance_tensor": "variance", "scale_tensor": "scale"}
OF_GRADIENT = {"input_tensor": "x", "input_gradient_tensor": "dy", **GIVEN}
INPUTS: dict[Kind, dict[str, str]] = {
    dml.BatchNormalizationDesc: {"input_tensor": "x", **GIVEN, "bias_tensor": "bias"},
    dml.BatchNormalizationTrainingDesc: {"input_tensor": "x", "scale_tensor": "scale", "bias_tensor": "bias", "fused_add_tensor": "add"},
    dml.BatchNormalizationGradDesc: OF_GRADIENT,
    dml.BatchNormalizationTrainingGradDesc: OF_GRADIENT,
    dml.FusedBatchNormV3Desc: {"x": "x", "scale": "scale", "offset": "bias", "mean": "mean", "variance": "variance"},
    dml.FusedBatchNormGradV3Desc: {
        "y_backprop": "dy",
        "x": "x",
        "scale": "scale",
        "reserve_space_1": "mean",
        "reserve_space_2": "variance",
    },
}
"""The inputs of each operator and what each of them is."""

FUSED = (dml.FusedBatchNormV3Desc, dml.FusedBatchNormGradV3Desc)
MODES: dict[str, tuple[Kind, bool]] = {
    "BATCH_NORMALIZATION": (dml.BatchNormalizationDesc, False),
    "BATCH_NORMALIZATION_TRAINING": (dml.BatchNormalizationTrainingDesc, True),
    "BATCH_NORMALIZATION_GRAD": (dml.BatchNormalizationGradDesc, False),
    "BATCH_NORMALIZATION_TRAINING_GRAD": (dml.BatchNormalizationTrainingGradDesc, True),
    "FUSED_BATCH_NORM_V3 training": (dml.FusedBatchNormV3Desc, True),
    "FUSED_BATCH_NORM_V3 inference": (dml.FusedBatchNormV3Desc, False),
    "FUSED_BATCH_NORM_GRAD_V3 training": (dml.FusedBatchNormGradV3Desc, True),
    "FUSED_BATCH_NORM_GRAD_V3 inference": (dml.FusedBatchNormGradV3Desc, False),
}
"""Every operator, and whether its statistics are those of the batch."""

IMAGE_SIZED = {
    *("input_tensor", "input_gradient_tensor", "fused_add_tensor", "output_tensor", "output_gradient_tensor"),
    *("x", "y_backprop", "y", "x_backprop"),
}
"""The tensors of the input's sizes."""


def random_values(rng: np.random.Generator, sizes: Sequence[int], kept: Collection[int]) -> dict[str, Array]:
    """Float64 values in every role. The statistics repeat along all dimensions but those of `kept`.

    Each group has a different mean and scale.
    """
    of_group = [size if axis in kept else 1 for axis, size in enumerate(sizes)]
    values = {name: rng.standard_normal(sizes) for name in ("x", "dy", "add")}
    values["x"] = rng.uniform(0.5, 2, of_group) * values["x"] + rng.normal(0, 2, of_group)
    values |= {name: rng.normal(0, 1, of_group) for name in ("mean", "bias")}
    return values | {name: rng.uniform(0.5, 2, of_group) for name in ("variance", "scale")}


def case(
    mode: str, rng: np.random.Generator, sizes: Sequence[int], kept: Collection[int], dtype: Any = np.float32, **members: Any
) -> tuple[Any, dict[str, Array]]:
    """A desc with all its outputs, and its inputs, in the type; in the gradient of training the statistics are the batch's.

    TensorFlow's operators keep the dimension of the channels.
    """
    kind, training = MODES[mode]
    values = random_values(rng, sizes, kept)
    values["x"] = values["x"].astype(dtype)
    if kind in FUSED:
        members = {"is_training": training, "data_format": data_format(sizes, kept)} | members
    if training and "dy" in INPUTS[kind].values():
        repeated = tuple(axis for axis in range(len(sizes)) if axis not in kept)
        values["mean"], values["variance"] = statistics(values["x"].astype(np.float64), repeated)
    left_out = {"mean", "variance"} if mode == "FUSED_BATCH_NORM_V3 training" and members.get("exponential_avg_factor", 1) == 1 else set()
    arrays = {}
    for name, role in INPUTS[kind].items():
        if role not in left_out:
            one_dimension = kind in FUSED and name not in IMAGE_SIZED
            arrays[name] = values[role].reshape(-1).astype(np.float32) if one_dimension else values[role].astype(dtype)
    return described(kind, arrays, **members), arrays


def epsilon_for(sizes: Sequence[int], kept: Collection[int]) -> float:
    """Of two entries dx keeps only what epsilon leaves: a small one would leave rounding errors."""
    return 0.25 if prod(size for axis, size in enumerate(sizes) if axis not in kept) == 2 else 1e-3


def data_format(sizes: Sequence[int], kept: Collection[int]) -> str:
    """TensorFlow's name of so many dimensions with the channels there."""
    (channels,) = kept
    return next(name for name, axis in CHANNELS.items() if axis == channels and len(name) == len(sizes))


def described(kind: Kind, arrays: Arrays, *outputs: str, **members: Any) -> Any:
    return kind(**{name: dml.TensorDesc.of(array) for name, array in arrays.items()}, **members).with_outputs(*outputs)


def poisons(desc: NormalizationDesc) -> dict[str, Array]:
    """Arrays of NaN for the described outputs."""
    outputs = {field.name for field in desc.outputs()}
    return {name: np.full(tensor.sizes, np.nan, tensor.data_type.numpy) for name, tensor in desc.tensors().items() if name in outputs}


def run(device: dml.Device, desc: NormalizationDesc, arrays: Arrays) -> dict[str, Array]:
    """The described outputs, on the host. Memory for them held NaN before."""
    given = {name: device.from_host(array) for name, array in {**arrays, **poisons(desc)}.items()}
    outputs = dml.compile(desc, device=device)(**given).as_dict()
    return {name: device.to_host(array) for name, array in outputs.items()}


def entries(desc: NormalizationDesc) -> int:
    """Entries of a group."""
    tensors = desc.tensors()
    (x,) = (tensor for name, tensor in tensors.items() if name in ("input_tensor", "x"))
    return prod(x.sizes) // max(prod(tensor.sizes) for name, tensor in tensors.items() if name not in IMAGE_SIZED)


def check(found: Arrays, desc: NormalizationDesc, arrays: Arrays, what: str = "") -> None:
    """Every output of a run against float64."""
    expected = exact(desc, arrays)
    assert set(found) == set(poisons(desc))
    for name, values in found.items():
        assert_close(values, expected[name], values.dtype, terms=entries(desc), what=f"{what}{name}")
