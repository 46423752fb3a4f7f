"""Operators with tensors of BFLOAT16: their samples, and random numbers for them."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import dmlpy as dml
from dmlpy.description.bfloat16 import with_bfloat16
from dmlpy.description.enums import DataType
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.support.operators.random_inputs import random_inputs

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Array = np.ndarray[Any, Any]


def tensor(*sizes: int, **members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type="BFLOAT16", sizes=sizes, **members)


_POOLED: dict[str, Any] = {"strides": [2, 1], "window_size": [3, 2], "start_padding": [1, 0], "end_padding": [1, 1]}
_CONVOLVED: dict[str, Any] = {
    "strides": [1, 2],
    "dilations": [1, 1],
    "start_padding": [1, 1],
    "end_padding": [1, 1],
    "output_padding": [0, 0],
}
_SIGMOID, _TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()

USUAL: dict[str, dml.OperatorDesc] = {
    "product": dml.GEMMDesc(
        a_tensor=tensor(2, 1, 7, 37), b_tensor=tensor(2, 1, 37, 19), c_tensor=tensor(2, 1, 7, 19), alpha=0.5, beta=2.0
    ).with_outputs(),
    "convolution": dml.ConvolutionDesc(
        input_tensor=tensor(2, 5, 9, 11),
        filter_tensor=tensor(18, 5, 3, 3),
        bias_tensor=tensor(1, 18, 1, 1),
        fused_activation=dml.ActivationReluDesc(),
        **_CONVOLVED,
    ).with_outputs(),
    "softmax": dml.ActivationSoftmax1Desc(input_tensor=tensor(3, 2, 5, 67), axes=[3]).with_outputs(),
    "normalization of groups": dml.MeanVarianceNormalization1Desc(
        input_tensor=tensor(2, 3, 5, 7),
        scale_tensor=tensor(1, 3, 1, 1),
        bias_tensor=tensor(1, 3, 1, 1),
        axes=[2, 3],
        normalize_variance=True,
        epsilon=1e-3,
    ).with_outputs(),
    "sum": dml.ReduceDesc(function="SUM", input_tensor=tensor(3, 2, 5, 67), axes=[3]).with_outputs(),
    "maxima of windows": dml.MaxPoolingDesc(input_tensor=tensor(2, 3, 9, 12), **_POOLED).with_outputs(),
    "attention": dml.MultiheadAttentionDesc(
        query_tensor=tensor(2, 33, 48),
        key_tensor=tensor(2, 40, 48),
        value_tensor=tensor(2, 40, 48),
        bias_tensor=tensor(144),
        head_count=2,
        scale=0.2,
        mask_filter_value=-1e4,
        mask_type="NONE",
    ).with_outputs("output_tensor"),
}
"""Operators of odd sizes, for which devices have kernels of BFLOAT16."""

OTHERS: dict[str, dml.OperatorDesc] = {
    "depthwise": dml.ConvolutionDesc(
        input_tensor=tensor(2, 5, 9, 33), filter_tensor=tensor(5, 1, 3, 3), group_count=5, **_CONVOLVED
    ).with_outputs(),
    "softmax of columns": dml.ActivationSoftmax1Desc(input_tensor=tensor(3, 13, 5, 19), axes=[1]).with_outputs(),
    "hardmax": dml.ActivationHardmax1Desc(input_tensor=tensor(3, 2, 5, 67), axes=[3]).with_outputs(),
    "normalization of a batch": dml.BatchNormalizationDesc(
        input_tensor=tensor(2, 5, 3, 7),
        **{f"{name}_tensor": tensor(1, 5, 1, 1) for name in ("mean", "variance", "scale", "bias")},
        spatial=True,
        epsilon=1e-3,
    ).with_outputs(),
    "largest elements": dml.TopK1Desc(input_tensor=tensor(3, 2, 5, 67), axis=3, k=7, axis_direction="DECREASING").with_outputs(),
    "running sums": dml.CumulativeSummationDesc(
        input_tensor=tensor(3, 2, 5, 67), axis=3, axis_direction="INCREASING", has_exclusive_sum=False
    ).with_outputs(),
    "means of windows": dml.AveragePoolingDesc(input_tensor=tensor(2, 3, 9, 12), include_padding=False, **_POOLED).with_outputs(),
    "resampling": dml.Resample1Desc(
        input_tensor=tensor(1, 2, 5, 7),
        output_tensor=tensor(1, 2, 11, 13),
        interpolation_mode="LINEAR",
        scales=[1, 1, 11 / 5, 13 / 7],
        input_pixel_offsets=[0.5] * 4,
        output_pixel_offsets=[-0.5] * 4,
    ),
    "attention of a query": dml.MultiheadAttentionDesc(
        query_tensor=tensor(1, 1, 128),
        key_tensor=tensor(1, 70, 128),
        value_tensor=tensor(1, 70, 128),
        head_count=1,
        scale=0.1,
        mask_filter_value=-1e4,
        mask_type="NONE",
    ).with_outputs("output_tensor"),
    "recurrent layer": dml.LSTMDesc(
        input_tensor=tensor(1, 7, 3, 11),
        weight_tensor=tensor(1, 2, 20, 11),
        recurrence_tensor=tensor(1, 2, 20, 5),
        bias_tensor=tensor(1, 1, 2, 40),
        activation_descs=[_SIGMOID, _TANH, _TANH] * 2,
        direction="BIDIRECTIONAL",
    ).with_outputs(),
}
"""More of them, of which each has kernels of its own."""

ON_COPIES = {"cpu": {"attention", "attention of a query", "largest elements", "recurrent layer"}, "cuda": set[str]()}
"""Those that a device computes on copies in FLOAT32, which cost little there."""


CELLS: dict[str, tuple[Any, int, list[dml.ActivationDesc]]] = {
    "LSTM": (dml.LSTMTrainingDesc, 4, [_SIGMOID, _TANH, _TANH]),
    "GRU": (partial(dml.GRUTrainingDesc, linear_before_reset=True), 3, [_SIGMOID, _TANH]),
    "GRU, resets first": (partial(dml.GRUTrainingDesc, linear_before_reset=False), 3, [_SIGMOID, _TANH]),
    "RNN": (dml.RNNTrainingDesc, 1, [_TANH]),
}
"""The training form of each cell, its gates and its activations."""


def training(cell: str, *, units: int = 5, inputs: int = 11, batch: int = 3, **members: Any) -> Any:
    """The training form of a layer that runs backward over 7 steps."""
    kind, gates, activations = CELLS[cell]
    return kind(
        input_tensor=tensor(1, 7, batch, inputs),
        weight_tensor=tensor(1, 1, gates * units, inputs),
        recurrence_tensor=tensor(1, 1, gates * units, units),
        bias_tensor=tensor(1, 1, 1, gates * 2 * units),
        activation_descs=activations,
        direction="BACKWARD",
        **members,
    ).with_outputs()


def block_cell_gradient() -> dml.GRUBlockCellGradDesc:
    """The gradient of one step of a GRU, 3 samples, 4 inputs and 5 units."""
    sizes = {"x": (3, 4), "w_ru": (9, 10), "w_c": (9, 5), "b_ru": (10,), "b_c": (5,)}
    tensors = {name: tensor(*sizes.get(name, (3, 5))) for name in ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "r", "u", "c", "d_h")}
    return dml.GRUBlockCellGradDesc(**tensors).with_outputs()


def takes_both(desc: dml.OperatorDesc, types: Any) -> bool:
    """Whether a tensor of a type variable, or of a set of types, may be of FLOAT32 and of FLOAT16."""
    allowed = desc.support[-1].types[types] if isinstance(types, str) else types
    return with_bfloat16(allowed) != allowed


def of_bfloat16(desc: dml.OperatorDesc) -> dml.OperatorDesc | None:
    """A desc with BFLOAT16 in the place of FLOAT32 where tensors may be of FLOAT16, too; None if none may."""
    members: dict[str, Any] = {}
    changed = False

    def other(tensor: dml.TensorDesc) -> dml.TensorDesc:
        nonlocal changed
        if tensor.data_type is not DataType.FLOAT32:
            return tensor
        changed = True
        return tensor.replace(data_type="BFLOAT16")

    for field in desc.tensor_fields():
        given = getattr(desc, field.name)
        if given is not None and takes_both(desc, desc.type_variable(field)):
            members[field.name] = tuple(map(other, given)) if field.listed else other(given)
    for name in type(desc).attribute_names():
        if getattr(desc, name) is DataType.FLOAT32:
            members[name] = "BFLOAT16"
    return desc.replace(**members) if changed else None


def samples(family: str) -> dict[str, dml.OperatorDesc]:
    """The sample of each operator of a family that may have tensors of BFLOAT16, by its short name."""
    kinds = [kind for kind in OPERATORS.values() if kind.family() == family and not kind.combines_bits]
    found = {kind.short_name(): of_bfloat16(sample(kind)) for kind in kinds}
    return {name: desc for name, desc in found.items() if desc is not None}


def inputs_of(desc: dml.OperatorDesc, wide: dml.OperatorDesc, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random inputs of a desc, and the same numbers for that of FLOAT32."""
    given, same = dict[str, Any](), dict[str, Any]()
    for name, arrays in random_inputs(np.random.default_rng(seed), wide).items():
        listed = isinstance(arrays, list)
        tensors = getattr(desc, name)
        pairs = list(zip(arrays, tensors, strict=True)) if listed else [(arrays, tensors)]
        own = [array.astype(BFLOAT16) if tensor.data_type is DataType.BFLOAT16 else array for array, tensor in pairs]
        other = [array.astype(np.float32) if array.dtype == BFLOAT16 else array for array in own]
        given[name], same[name] = (own, other) if listed else (own[0], other[0])
    return given, same
