"""Valid descs of dmlpy's own operators, with every tensor that they can have together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from tests.support.tensors import tensor

OWN = tuple(name for name, kind in OPERATORS.items() if kind.is_extension)
STEPS, BATCH, INPUTS, HIDDEN, PROJECTED = 7, 3, 11, 5, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ROLES = {"RNN": 1, "GRU": 2, "LSTM": 3}
TRAINING: dict[str, type[Any]] = {"RNN": dml.RNNTrainingDesc, "GRU": dml.GRUTrainingDesc, "LSTM": dml.LSTMTrainingDesc}


def training(cell: str, direction: str = "BIDIRECTIONAL", *, projected: bool = False, data_type: str = "FLOAT32", **members: Any) -> Any:
    """A training form that describes every tensor; without a projection unless asked."""
    directions, gates = 2 if direction == "BIDIRECTIONAL" else 1, GATES[cell]
    state = PROJECTED if projected else HIDDEN

    def of(*sizes: int) -> dml.TensorDesc:
        return tensor(*sizes, data_type=data_type)

    given: dict[str, Any] = {
        "input_tensor": of(1, STEPS, BATCH, INPUTS),
        "weight_tensor": of(1, directions, gates * HIDDEN, INPUTS),
        "recurrence_tensor": of(1, directions, gates * HIDDEN, state),
        "bias_tensor": of(1, 1, directions, 2 * gates * HIDDEN),
        "hidden_init_tensor": of(1, directions, BATCH, state),
        "sequence_lengths_tensor": tensor(1, 1, 1, BATCH, data_type="UINT32"),
        "step_mask_tensor": tensor(1, 1, STEPS, BATCH, data_type="UINT8"),
        "input_dropout_tensor": of(directions, gates, BATCH, INPUTS),
        "state_dropout_tensor": of(directions, gates, BATCH, state),
        "activation_descs": [dml.ActivationTanhDesc()] * (ROLES[cell] * directions),
        "direction": direction,
    }
    if cell == "LSTM":
        given["cell_mem_init_tensor"] = of(1, directions, BATCH, HIDDEN)
        given["peephole_tensor"] = of(1, 1, directions, 3 * HIDDEN)
        given["projection_tensor"] = of(1, directions, PROJECTED, HIDDEN) if projected else None
    return TRAINING[cell](**given | members).with_outputs()


def network(**members: Any) -> dml.CudnnRNNV3Desc:
    """A network of two bidirectional LSTM layers with a projection and every tensor; members replace the desc's."""
    given: dict[str, Any] = {
        "input": tensor(STEPS, BATCH, INPUTS),
        "input_h": tensor(4, BATCH, PROJECTED),
        "input_c": tensor(4, BATCH, HIDDEN),
        "params": tensor(1),
        "sequence_lengths": tensor(BATCH, data_type="INT32"),
        "dropout_offset": tensor(1, data_type="UINT64"),
        "rnn_mode": "lstm",
        "direction": "bidirectional",
        "dropout": 0.25,
        "seed": 7,
        "num_proj": PROJECTED,
    }
    desc = dml.CudnnRNNV3Desc(**given | members)
    if "params" not in members:
        desc = desc.replace(params=tensor(desc.sizes()["params_size"]))
    return desc.with_outputs()


def block_cell(**members: Any) -> dml.GRUBlockCellDesc:
    given: dict[str, Any] = {
        "x": tensor(BATCH, INPUTS),
        "h_prev": tensor(BATCH, HIDDEN),
        "w_ru": tensor(INPUTS + HIDDEN, 2 * HIDDEN),
        "w_c": tensor(INPUTS + HIDDEN, HIDDEN),
        "b_ru": tensor(2 * HIDDEN),
        "b_c": tensor(HIDDEN),
    }
    return dml.GRUBlockCellDesc(**given | members).with_outputs()


def block_cell_gradient(**members: Any) -> dml.GRUBlockCellGradDesc:
    step = block_cell()
    given: dict[str, Any] = {name: getattr(step, name) for name in ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "r", "u", "c")}
    return dml.GRUBlockCellGradDesc(**given | {"d_h": step.h} | members).with_outputs()


def batch_norm(**members: Any) -> dml.FusedBatchNormV3Desc:
    """A training step whose running statistics are averages."""
    given: dict[str, Any] = {"x": tensor(2, 3, 4, 5), "exponential_avg_factor": 0.25}
    given |= {name: tensor(5) for name in ("scale", "offset", "mean", "variance")}
    return dml.FusedBatchNormV3Desc(**given | members).with_outputs()


@cache
def own_desc(type_name: str) -> OperatorDesc:
    """A valid desc of one of dmlpy's own operators."""
    name = OPERATORS[type_name].short_name()
    cell, _, form = name.partition("_")
    if form == "TRAINING":
        return training(cell, projected=cell == "LSTM")
    if form == "GRAD":
        return training(cell, projected=cell == "LSTM").gradient()
    given: dict[str, Callable[[], OperatorDesc]] = {
        "CUDNN_RNN_V3": network,
        "CUDNN_RNN_BACKPROP_V3": lambda: network().gradient(),
        "FUSED_BATCH_NORM_V3": batch_norm,
        "FUSED_BATCH_NORM_GRAD_V3": lambda: batch_norm().gradient(),
        "GRU_BLOCK_CELL": block_cell,
        "GRU_BLOCK_CELL_GRAD": block_cell_gradient,
    }
    return given[name]()
