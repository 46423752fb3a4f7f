"""Stacked recurrent networks and their gradients: the layers in sequence, with dropout between them.

Letters as in `dmlpy.operators.recurrent.cudnn`: T steps, B batch, I input size, L layers, D directions, H units, S entries of h, W = D S.
Here time (or the stacked directions) comes first in all arrays, whatever the desc's layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType, RecurrentDirection, RnnMode
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc, ActivationSigmoidDesc, ActivationTanhDesc
from dmlpy.operators.recurrent.cudnn import RESERVE_HEADER, CudnnRNNBackpropV3Desc, CudnnRNNDesc, CudnnRNNV3Desc, aligned
from dmlpy.operators.recurrent.gradient import GRUGradDesc, LSTMGradDesc, RecurrentGradDesc, RNNGradDesc
from dmlpy.operators.recurrent.params import canonical_to_params, params_to_canonical
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc
from dmlpy.reference.philox import dropout_multipliers, round_keys
from dmlpy.reference.recurrent.gradient import gradient
from dmlpy.reference.recurrent.layer import layer
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAYERS: Mapping[Cell, type[RNNTrainingDesc | LSTMTrainingDesc | GRUTrainingDesc]] = {
    "RNN": RNNTrainingDesc,
    "LSTM": LSTMTrainingDesc,
    "GRU": GRUTrainingDesc,
}
_GRADIENTS: Mapping[Cell, type[RecurrentGradDesc]] = {"RNN": RNNGradDesc, "LSTM": LSTMGradDesc, "GRU": GRUGradDesc}
_ACTIVATIONS: Mapping[RnnMode, tuple[ActivationDesc, ...]] = {
    RnnMode.RNN_RELU: (ActivationReluDesc(),),
    RnnMode.RNN_TANH: (ActivationTanhDesc(),),
    RnnMode.LSTM: (ActivationSigmoidDesc(), ActivationTanhDesc(), ActivationTanhDesc()),
    RnnMode.GRU: (ActivationSigmoidDesc(), ActivationTanhDesc()),
}
_BLOCKS = {"weight_tensor": "weight_ih", "recurrence_tensor": "weight_hh", "projection_tensor": "weight_hr"}
_WORD, _WORD_BITS = 0xFFFFFFFF, 32


class Network:
    """A network's sizes, parameters and reserve.

    Args:
        desc: a checked desc of the network or of its gradient.
        inputs: its inputs.
    """

    def __init__(self, desc: CudnnRNNDesc, inputs: Inputs) -> None:
        known = desc.sizes()
        self.desc, self.inputs = desc, inputs
        self.dtype = inputs["input"].dtype
        self.layout = desc.params_layout()
        self.cell = self.layout.cell
        self.steps, self.batch, self.units = known["seq_length"], known["batch_size"], known["num_units"]
        self.layers, self.directions, self.state = known["num_layers"], known["num_directions"], known["state_size"]
        self.layer_reserve_size = desc.layer_reserve_size(known)
        self.reserve_size = known["reserve_size"]
        self._blocks = params_to_canonical(inputs["params"], self.layout)

    def time_first(self, name: str) -> Array | None:
        """An input as [T, B, ...] or [L D, B, ...]; None if it is absent."""
        given = self.inputs.get(name)
        return None if given is None else self.swapped(given)

    def swapped(self, array: Array) -> Array:
        """Exchanges time and batch between the desc's dimension order and time first."""
        return array if self.desc.time_major else array.swapaxes(0, 1)

    def of_layer(self, number: int, stacked: str, field: str) -> dict[str, Array]:
        """A layer's part [1, D, B, width] of stacked states, keyed by the field of the layer's operator; none if they are absent."""
        states = self.time_first(stacked)
        return {} if states is None else {field: states.reshape(self.layers, 1, self.directions, self.batch, -1)[number]}

    def parameters(self, number: int) -> dict[str, Array]:
        """A layer's matrices and biases, as its operator takes them."""
        arrays = {field: self._both(number, kind) for field, kind in _BLOCKS.items() if f"{kind}_l{number}" in self._blocks}
        if number == 0 and self.layout.skip_input:
            identity = np.tile(np.eye(self.units, dtype=self.dtype), (self.layout.gates, 1))
            arrays["weight_tensor"] = np.stack([identity] * self.directions)[None]
        biases = [self._both(number, kind)[0] for kind in ("bias_ih", "bias_hh")]
        return arrays | {"bias_tensor": np.concatenate(biases, axis=1)[None, None]}

    def _both(self, number: int, kind: str) -> Array:
        """A block of all directions, [1, D, ...], with its gates in DirectML's order."""
        blocks = [self._blocks[f"{kind}_l{number}{suffix}"] for suffix in ("", "_reverse")[: self.directions]]
        if kind != "weight_hr":
            blocks = [reorder(block, self.cell, GateOrder.CUDNN, GateOrder.DIRECTML, axis=0) for block in blocks]
        return np.stack(blocks)[None]

    def lengths(self) -> dict[str, Array]:
        given = self.inputs.get("sequence_lengths")
        return {} if given is None else {"sequence_lengths_tensor": np.clip(given, 0, self.steps).astype(np.uint32).reshape(1, 1, 1, -1)}

    def attributes(self) -> dict[str, Any]:
        """The attributes of a layer's operator."""
        direction = RecurrentDirection.BIDIRECTIONAL if self.directions == 2 else RecurrentDirection.FORWARD
        functions = _ACTIVATIONS[self.desc.rnn_mode] * self.directions
        return {"direction": direction, "activation_descs": functions} | ({"linear_before_reset": True} if self.cell == "GRU" else {})

    def multipliers(self, number: int, offset: int) -> Array:
        """The dropout multipliers of a layer's output, [T, B, W]: 0, or 1 / (1 - dropout) for kept values."""
        multipliers = np.empty((self.steps, self.batch, self.directions * self.state), self.dtype)
        keys = round_keys((self.desc.seed & _WORD, self.desc.seed2 & _WORD))
        dropout_multipliers(0, number, keys, offset, self.desc.dropout, multipliers.reshape(-1))
        return multipliers


@dataclass(frozen=True)
class ReservePlaces:
    """The places of the parts of a network's reserve.

    The header comes first, with the two words of the dropout's offset, then the layers' reserves, then the inputs of all layers but
    the first.
    """

    network: Network

    def layer(self, number: int) -> slice:
        begin = RESERVE_HEADER + number * aligned(self.network.layer_reserve_size)
        return slice(begin, begin + self.network.layer_reserve_size)

    def input_of(self, number: int) -> slice:
        size = self.network.steps * self.network.batch * self.network.directions * self.network.state
        begin = self.layer(self.network.layers).start + (number - 1) * aligned(size)
        return slice(begin, begin + size)

    def header(self, reserve: Array) -> Array:
        """The first elements, as unsigned integers."""
        return reserve[:RESERVE_HEADER].view(f"u{reserve.itemsize}")


def _described(arrays: Mapping[str, Array]) -> dict[str, Any]:
    types = {"u": DataType.UINT32, "f": DataType.FLOAT32}
    return {name: TensorDesc(data_type=types[array.dtype.kind], sizes=array.shape) for name, array in arrays.items()}


@defines(CudnnRNNV3Desc)
def network(desc: CudnnRNNV3Desc, inputs: Inputs) -> dict[str, Array]:
    """Computes the network's outputs."""
    net, given_offset = Network(desc, inputs), inputs.get("dropout_offset")
    offset = 0 if given_offset is None else int(given_offset[0])
    places, reserve = ReservePlaces(net), np.zeros(net.reserve_size, net.dtype)
    places.header(reserve)[:2] = offset & _WORD, offset >> _WORD_BITS
    x = net.swapped(inputs["input"])
    last_h, last_c = [], []
    for number in range(net.layers):
        if number:
            if desc.is_training and desc.dropout > 0:
                x = x * net.multipliers(number - 1, offset)
            reserve[places.input_of(number)] = x.reshape(-1)
        arrays = {"input_tensor": x[None], **net.parameters(number), **net.lengths()}
        arrays |= net.of_layer(number, "input_h", "hidden_init_tensor") | net.of_layer(number, "input_c", "cell_mem_init_tensor")
        results = layer(_LAYERS[net.cell](**_described(arrays), **net.attributes()).with_outputs("reserve_tensor"), arrays)
        reserve[places.layer(number)] = results["reserve_tensor"].reshape(-1)
        x = results["output_sequence_tensor"].swapaxes(1, 2).reshape(net.steps, net.batch, -1)
        last_h.append(results["output_single_tensor"][0])
        last_c.append(results["output_cell_single_tensor"][0])
    return {
        "output": net.swapped(x),
        "output_h": net.swapped(np.concatenate(last_h)),
        "output_c": net.swapped(np.concatenate(last_c)),
        "reserve_space": reserve,
        "host_reserved": np.zeros(1, np.int8),
    }


@defines(CudnnRNNBackpropV3Desc)
def network_gradient(desc: CudnnRNNBackpropV3Desc, inputs: Inputs) -> dict[str, Array]:
    """Computes the gradient of the network, from the reserve of its definition."""
    net, reserve = Network(desc, inputs), inputs["reserve_space"]
    places = ReservePlaces(net)
    low, high = places.header(reserve)[:2]
    offset = int(low) | int(high) << _WORD_BITS
    upstream = net.time_first("output_backprop")
    blocks: dict[str, Array] = {}
    dh_init: list[Array] = []
    dc_init: list[Array] = []
    for number in reversed(range(net.layers)):
        x = reserve[places.input_of(number)].reshape(net.steps, net.batch, -1) if number else net.swapped(inputs["input"])
        arrays = {"input_tensor": x[None], **net.parameters(number), **net.lengths()}
        del arrays["bias_tensor"]
        arrays["reserve_tensor"] = reserve[places.layer(number)].reshape(1, 1, 1, -1)
        if upstream is not None:
            arrays["output_sequence_gradient_tensor"] = upstream.reshape(net.steps, net.batch, net.directions, -1).swapaxes(1, 2)
        arrays |= net.of_layer(number, "output_h_backprop", "output_single_gradient_tensor")
        arrays |= net.of_layer(number, "output_c_backprop", "output_cell_single_gradient_tensor")
        gradients = gradient(_GRADIENTS[net.cell](**_described(arrays), **net.attributes()), arrays)
        upstream = gradients["input_gradient_tensor"][0]
        if number and desc.dropout > 0:
            upstream = upstream * net.multipliers(number - 1, offset)
        blocks |= _parameter_gradients(net, number, gradients)
        dh_init.insert(0, gradients["hidden_init_gradient_tensor"][0])
        dc_init.insert(0, gradients["cell_mem_init_gradient_tensor"][0])
    assert upstream is not None  # the first layer's
    return {
        "input_backprop": net.swapped(upstream),
        "input_h_backprop": net.swapped(np.concatenate(dh_init)),
        "input_c_backprop": net.swapped(np.concatenate(dc_init)),
        "params_backprop": canonical_to_params(blocks, net.layout),
    }


def _parameter_gradients(net: Network, number: int, gradients: Mapping[str, Array]) -> dict[str, Array]:
    """A layer's gradients as the blocks of `params`, by name."""
    wanted = {block.name for block in net.layout.blocks()}
    blocks = {}
    for d, suffix in enumerate(("", "_reverse")[: net.directions]):
        biases = gradients["bias_gradient_tensor"][0, 0, d].reshape(2, -1)
        of_layer = {kind: gradients[f"{field.removesuffix('_tensor')}_gradient_tensor"][0, d] for field, kind in _BLOCKS.items()}
        of_layer |= {"bias_ih": biases[0], "bias_hh": biases[1]}
        for kind, array in of_layer.items():
            if (name := f"{kind}_l{number}{suffix}") in wanted:
                ordered = array if kind == "weight_hr" else reorder(array, net.cell, GateOrder.DIRECTML, GateOrder.CUDNN, axis=0)
                blocks[name] = ordered
    return blocks
