"""A dispatch of each kind of operator that CUDA runs, in each strategy of its kernels: what holds for all dispatches is tested on these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from tests.support.recurrent.networks import network
from tests.support.tensors import tensor

T, B, I, H = 6, 3, 4, 8  # noqa: E741  (the field's letters)

SIGMOID, TANH = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()


class Case(NamedTuple):
    """How to get a dispatch.

    Attributes:
        describe: makes the desc for an element type.
        strategy: of the recurrence's kernels; None leaves the choice to the device.
        prepared: whether its constants are packed before.
    """

    describe: Callable[[str], dml.OperatorDesc]
    strategy: str | None = None
    prepared: bool = False

    def bound(self, runtime: CudaRuntime, data_type: str, flags: Any = dml.ExecutionFlags.NONE) -> dml.Dispatch:
        """On the runtime's first device."""
        return bound(CudaDevice(runtime, strategy=self.strategy), self.describe(data_type), prepared=self.prepared, flags=flags)


ACTIVATIONS: dict[int, list[dml.ActivationDesc]] = {1: [TANH], 3: [SIGMOID, TANH], 4: [SIGMOID, TANH, TANH]}
"""Of one direction, by the number of gates."""


def layer(kind: type[Any], data_type: str, **members: Any) -> Any:
    """A layer of both directions with lengths, biases and initial states."""
    gates = len(kind.gate_names)
    activations = ACTIVATIONS[gates]
    sizes = {
        "input_tensor": (1, T, B, I),
        "weight_tensor": (1, 2, gates * H, I),
        "recurrence_tensor": (1, 2, gates * H, H),
        "bias_tensor": (1, 1, 2, 2 * gates * H),
        "hidden_init_tensor": (1, 2, B, H),
    }
    return kind(
        **{name: tensor(*size, data_type=data_type) for name, size in sizes.items()},
        sequence_lengths_tensor=tensor(1, 1, 1, B, data_type="UINT32"),
        activation_descs=2 * activations,
        direction="BIDIRECTIONAL",
        **members,
    ).with_outputs()


def lstm(data_type: str) -> dml.OperatorDesc:
    return layer(dml.LSTMDesc, data_type)


def gru(data_type: str) -> dml.OperatorDesc:
    """One that resets before the product."""
    return layer(dml.GRUDesc, data_type)


def training(data_type: str) -> Any:
    """A layer that drops inputs and states, and skips steps."""
    return layer(
        dml.LSTMTrainingDesc,
        data_type,
        step_mask_tensor=tensor(1, 1, T, B, data_type="UINT8"),
        input_dropout_tensor=tensor(2, 4, B, I, data_type=data_type),
        state_dropout_tensor=tensor(2, 4, B, H, data_type=data_type),
    )


def stack(data_type: str) -> dml.CudnnRNNV3Desc:
    """Layers with dropout between them."""
    rng, dtype = np.random.default_rng(0), data_type.lower()
    return network(rng, "lstm", layers=3, units=H, lengths=(5, 3, 1), offset=0, dtype=dtype, dropout=0.5, seed=1).desc


def step(data_type: str) -> dml.GRUBlockCellDesc:
    sizes = {"x": (B, I), "h_prev": (B, H), "w_ru": (I + H, 2 * H), "w_c": (I + H, H), "b_ru": (2 * H,), "b_c": (H,)}
    return dml.GRUBlockCellDesc(**{name: tensor(*size, data_type=data_type) for name, size in sizes.items()}).with_outputs()


def step_gradient(data_type: str) -> dml.OperatorDesc:
    given = step(data_type).tensors()
    names = {
        "x": "x",
        "h_prev": "h_prev",
        "w_ru": "w_ru",
        "w_c": "w_c",
        "b_ru": "b_ru",
        "b_c": "b_c",
        "r": "r",
        "u": "u",
        "c": "c",
        "d_h": "h",
    }
    return dml.GRUBlockCellGradDesc(**{name: given[like] for name, like in names.items()}).with_outputs()


def softmax(data_type: str) -> dml.OperatorDesc:
    return dml.ActivationSoftmax1Desc(input_tensor=tensor(4, 5, 6, data_type=data_type), axes=[1]).with_outputs()


def relu(data_type: str) -> dml.OperatorDesc:
    return dml.ActivationReluDesc(input_tensor=tensor(4, 5, 6, data_type=data_type)).with_outputs()


def normalization(kind: type[Any], data_type: str, **members: Any) -> Any:
    given = {
        field.name: tensor(*((4, 3, 64, 64) if "input" in field.name else (1, 3, 1, 1)), data_type=data_type) for field in kind.inputs()
    }
    return kind(**{name: item for name, item in given.items() if name != "fused_add_tensor"}, **members).with_outputs()


def of_recurrence(strategy: str) -> dict[str, Case]:
    """The cases whose recurrence this strategy of kernels runs."""
    return {
        f"{strategy}, LSTM": Case(lstm, strategy),
        f"{strategy}, LSTM, prepared": Case(lstm, strategy, prepared=True),
        f"{strategy}, GRU": Case(gru, strategy),
        f"{strategy}, gradient of a GRU": Case(lambda data_type: layer(dml.GRUTrainingDesc, data_type).gradient(), strategy),
        f"{strategy}, network": Case(stack, strategy),
        f"{strategy}, gradient of a network": Case(lambda data_type: stack(data_type).gradient(), strategy),
    }


CASES: Mapping[str, Case] = {
    **{name: case for strategy in STRATEGIES for name, case in of_recurrence(strategy).items()},
    "LSTM with dropout": Case(training),
    "GRU step": Case(step),
    "gradient of a GRU step": Case(step_gradient),
    "activation": Case(relu),
    "softmax": Case(softmax),
    "normalization": Case(lambda data_type: normalization(dml.BatchNormalizationDesc, data_type, spatial=True)),
    "normalization of a batch": Case(lambda data_type: normalization(dml.BatchNormalizationTrainingDesc, data_type)),
    "gradient of a normalization": Case(lambda data_type: normalization(dml.BatchNormalizationTrainingGradDesc, data_type)),
}


def bound(device: dml.Device, desc: dml.OperatorDesc, *, prepared: bool = False, flags: Any = dml.ExecutionFlags.NONE) -> dml.Dispatch:
    """The operator with separate memory for every tensor: zeros, and lengths of one step."""
    op = dml.compile(desc, device, flags=flags)
    outputs = {slot.place for slot in desc.output_slots()}
    fill = {"sequence_lengths_tensor": 1, "sequence_lengths": 1}
    memory = {name: device.from_host(np.full(item.sizes, fill.get(name, 0), item.data_type.numpy)) for name, item in desc.tensors().items()}
    written = {name: memory.pop(name) for name in outputs & memory.keys()}
    if not prepared:
        return op.bind(memory, written)
    constants = {name: memory.pop(name) for name in op._plan.constants}
    return op.prepare(**constants).bind(memory, written)
