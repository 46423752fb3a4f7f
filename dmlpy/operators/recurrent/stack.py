"""The layers of a stacked network: which single-layer operators run in which order, and where their tensors lie.

A network is no more than its layers, each the training form or the gradient of RNN, LSTM or GRU over the network's memory, and what
lies between them: dropout, and matrices whose gates cuDNN and DirectML concatenate in different orders. Nothing is copied that strides can
express: the first layer reads the caller's input and the last one writes the caller's output in place, be time or the batch first; states
are slices of the stacked states; a simple RNN's matrices, and projections, are read and written within `params`.

The devices run it; here memory is known by name only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dmlpy.description.enums import DataType, RecurrentDirection, RnnMode
from dmlpy.description.gate_order import Cell, GateOrder
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc, ActivationSigmoidDesc, ActivationTanhDesc
from dmlpy.operators.recurrent.cudnn import RESERVE_HEADER, CudnnRNNBackpropV3Desc, CudnnRNNDesc, CudnnRNNV3Desc, aligned
from dmlpy.operators.recurrent.gradient import GRUGradDesc, LSTMGradDesc, ReserveDesc, RNNGradDesc
from dmlpy.operators.recurrent.params import BlockKind
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc

_TRAINING: Mapping[Cell, type[ReserveDesc]] = {"RNN": RNNTrainingDesc, "LSTM": LSTMTrainingDesc, "GRU": GRUTrainingDesc}
_GRADIENTS: Mapping[Cell, type[ReserveDesc]] = {"RNN": RNNGradDesc, "LSTM": LSTMGradDesc, "GRU": GRUGradDesc}
_ACTIVATIONS: Mapping[RnnMode, tuple[ActivationDesc, ...]] = {
    RnnMode.RNN_RELU: (ActivationReluDesc(),),
    RnnMode.RNN_TANH: (ActivationTanhDesc(),),
    RnnMode.LSTM: (ActivationSigmoidDesc(), ActivationTanhDesc(), ActivationTanhDesc()),
    RnnMode.GRU: (ActivationSigmoidDesc(), ActivationTanhDesc()),
}
_BLOCKS: Mapping[str, BlockKind] = {"weight": "weight_ih", "recurrence": "weight_hh", "bias": "bias_ih", "projection": "weight_hr"}
"""The blocks of `params` that a layer's tensors begin with; a bias's second half follows its first."""


@dataclass(frozen=True)
class Place:
    """A four-dimensional tensor in memory that a device knows by name.

    Attributes:
        memory: a tensor of the network's desc, one of the stack's scratch arrays, or one of the layer's.
        offset: the tensor's start in it, in elements of that memory (of the reserve: float32).
        tensor: type, sizes and strides.
    """

    memory: str
    offset: int
    tensor: TensorDesc


@dataclass(frozen=True)
class GateMove:
    """A copy that permutes gates: gate g of the target is gate order[g] of the source.

    Both places have the sizes [blocks, gates, units, columns] and one type, and do not overlap.
    """

    source: Place
    target: Place
    order: tuple[int, ...]


@dataclass(frozen=True)
class Mask:
    """Dropout that multiplies a packed array [1, T, B, D S] in place: a layer's output, or the next layer's input gradient.

    Attributes:
        place: the array.
        layer: the layer whose output it is, or is the gradient of, from 0.
    """

    place: Place
    layer: int


@dataclass(frozen=True)
class StackLayer:
    """One layer's work, in execution order of the attributes.

    Attributes:
        number: the layer's number, from 0.
        identity: matrices [1, D, G H, I] that are to be the identity for every gate, in place of input matrices; or None.
        loads: the moves that bring matrices and biases into the layer's order of gates.
        desc: the operator.
        places: the places of the operator's described tensors, by field.
        stores: the moves that bring gradients into cuDNN's order of gates.
        mask: dropout; or None.
        scratch: the layer's packed arrays, by name.
    """

    number: int
    identity: Place | None
    loads: tuple[GateMove, ...]
    desc: ReserveDesc
    places: Mapping[str, Place]
    stores: tuple[GateMove, ...]
    mask: Mask | None
    scratch: Mapping[str, TensorDesc]

    def describe(self) -> list[str]:
        """Describes the work around the operator, as lines of text."""
        lines = ["input matrices: the identity"] if self.identity is not None else []
        if self.loads:
            lines.append(f"gates brought into DirectML's order: {', '.join(move.target.memory for move in self.loads)}")
        if self.stores:
            lines.append(f"gates brought back into cuDNN's order: {', '.join(move.source.memory for move in self.stores)}")
        if self.mask is not None:
            lines.append(f"then dropout of layer {self.mask.layer}'s output")
        return lines


@dataclass(frozen=True)
class Stack:
    """The layers of a network.

    Attributes:
        layers: the layers in execution order; none where no described output needs them.
        scratch: packed arrays that layers share, by name; `lengths` [1, 1, 1, B] is to hold the sequence lengths clamped to [0, T].
        reserve: the parts of the reserve that a network writes, as they lie in it after its header; none for a gradient.
    """

    layers: tuple[StackLayer, ...]
    scratch: Mapping[str, TensorDesc]
    reserve: tuple[Place, ...] = ()

    def gaps(self, reserve_size: int) -> list[tuple[int, int]]:
        """The gaps of the reserve, between and after its parts: first byte and end of each.

        Args:
            reserve_size: elements of the reserve.
        """
        if not self.reserve:
            return []
        itemsize, gaps = DataType.FLOAT32.numpy.itemsize, list[tuple[int, int]]()
        end = RESERVE_HEADER * itemsize
        for place in self.reserve:
            begin = place.offset * itemsize
            gaps.append((end, begin))
            end = begin + place.tensor.element_count * place.tensor.data_type.numpy.itemsize
        return [(begin, end) for begin, end in [*gaps, (end, reserve_size * itemsize)] if begin < end]


def stack_of(desc: CudnnRNNDesc) -> Stack:
    """The layers of a checked desc of a network or of its gradient."""
    return _Gradient(desc).stack() if isinstance(desc, CudnnRNNBackpropV3Desc) else _Network(desc).stack()


class _Builder:
    """The sizes of a network and the places of its tensors."""

    def __init__(self, desc: CudnnRNNDesc) -> None:
        self.symbols = symbols = desc.sizes()
        self.desc = desc
        self.described = desc.tensors()
        self.type = desc.input.data_type
        self.steps, self.batch, self.inputs = symbols["seq_length"], symbols["batch_size"], symbols["input_size"]
        self.directions, self.layers = symbols["num_directions"], symbols["num_layers"]
        self.units, self.state = symbols["num_units"], symbols["state_size"]
        self.layout = desc.params_layout()
        self.cell = self.layout.cell
        self.gates = self.layout.gates
        self.skips = self.layout.skip_input
        self.reorders = GateOrder.CUDNN.gates(self.cell) != GateOrder.DIRECTML.gates(self.cell)
        trains = desc.is_training if isinstance(desc, CudnnRNNV3Desc) else True
        self.drops = trains and desc.dropout > 0
        self.blocks = {(block.layer, block.direction, block.kind): block for block in self.layout.blocks()}
        self.scratch: dict[str, TensorDesc] = {}

    def has(self, name: str) -> bool:
        return name in self.described

    # places

    def _packed_desc(self, *sizes: int) -> TensorDesc:
        return TensorDesc(data_type=self.type, sizes=sizes)

    def _strides(self, name: str) -> tuple[int, int, int]:
        """The strides of time or stacked directions, of the batch, and of the last axis, in a caller's tensor."""
        first, second, last = self.described[name].element_strides
        return (first, second, last) if self.desc.time_major else (second, first, last)

    def times(self, name: str) -> Place:
        """The caller's [T, B, I] as [1, T, B, I]."""
        sizes, strides = (1, self.steps, self.batch, self.inputs), (0, *self._strides(name))
        return Place(name, 0, TensorDesc(data_type=self.type, sizes=sizes, strides=strides))

    def by_direction(self, name: str) -> Place:
        """The caller's [T, B, D S] as [T, D, B, S]."""
        time, batch, last = self._strides(name)
        sizes, strides = (self.steps, self.directions, self.batch, self.state), (time, self.state * last, batch, last)
        return Place(name, 0, TensorDesc(data_type=self.type, sizes=sizes, strides=strides))

    def states_of(self, layer: int, fields: Mapping[str, str]) -> dict[str, Place]:
        """A layer's parts [1, D, B, width] of the caller's described stacked states [L D, B, width].

        Args:
            layer: the layer's number, from 0.
            fields: names of stacked states, each with the layer's field.
        """
        places = {}
        for name, field in fields.items():
            if self.has(name):
                (stacked, batch, last), width = self._strides(name), self.described[name].sizes[-1]
                tensor = TensorDesc(data_type=self.type, sizes=(1, self.directions, self.batch, width), strides=(0, stacked, batch, last))
                places[field] = Place(name, layer * self.directions * stacked, tensor)
        return places

    def between_times(self, memory: str, offset: int) -> Place:
        """A packed array between layers, [1, T, B, D S]."""
        return Place(memory, offset, self._packed_desc(1, self.steps, self.batch, self.directions * self.state))

    def between_by_direction(self, memory: str, offset: int) -> Place:
        """A packed array between layers, viewed as [T, D, B, S]."""
        sizes = (self.steps, self.directions, self.batch, self.state)
        row = self.directions * self.state
        strides = (self.batch * row, self.state, row, 1)
        return Place(memory, offset, TensorDesc(data_type=self.type, sizes=sizes, strides=strides))

    def turn(self, layer: int) -> tuple[str, int]:
        """The scratch between a layer and the one below. Two arrays alternate, so that a layer never reads what it writes."""
        name = f"between_{layer % 2}"
        self.scratch[name] = self._packed_desc(1, self.steps, self.batch, self.directions * self.state)
        return name, 0

    def lengths(self) -> dict[str, Place]:
        if not self.has("sequence_lengths"):
            return {}
        self.scratch["lengths"] = TensorDesc(data_type=DataType.UINT32, sizes=(1, 1, 1, self.batch))
        return {"sequence_lengths_tensor": Place("lengths", 0, self.scratch["lengths"])}

    # the reserve

    def reserve_of(self, layer: int) -> Place:
        """One layer's reserve within the network's."""
        elements = self.desc.layer_reserve_size(self.symbols)
        tensor = TensorDesc(data_type=DataType.FLOAT32, sizes=(1, 1, 1, elements))
        return Place("reserve_space", RESERVE_HEADER + layer * aligned(elements), tensor)

    def saved_input(self, layer: int) -> tuple[str, int]:
        """The place in the reserve of a layer's input, for all layers but the first: after the layers' reserves."""
        begin = self.reserve_of(self.layers).offset
        return "reserve_space", begin + (layer - 1) * aligned(self.steps * self.batch * self.directions * self.state)

    # params

    def block(self, memory: str, layer: int, name: str) -> Place:
        """A layer's matrices, biases or projections of both directions, in place in `params` or its gradient."""
        kind = _BLOCKS[name]
        first = self.blocks[layer, 0, kind]
        apart = self.blocks[layer, 1, kind].offset - first.offset if self.directions == 2 else 0
        (element,) = self.described[memory].element_strides
        if name == "bias":
            sizes, strides = (1, 1, self.directions, 2 * first.size), (0, 0, apart, 1)
        else:
            rows, columns = first.shape
            sizes, strides = (1, self.directions, rows, columns), (0, apart, columns, 1)
        tensor = TensorDesc(data_type=self.type, sizes=sizes, strides=[element * stride for stride in strides])
        return Place(memory, element * first.offset, tensor)

    def by_gate(self, name: str, place: Place) -> Place:
        """Matrices [1, D, G H, columns] or biases [1, 1, D, 2 G H] as [blocks, G, H, columns]."""
        _, directions, _, columns = place.tensor.sizes
        _, apart, row, column = place.tensor.element_strides
        if name == "bias":  # all directions' halves follow each other at one distance
            rows = self.gates * self.units
            sizes, strides = (2 * self.directions, self.gates, self.units, 1), (rows * column, self.units * column, column, 0)
        else:
            sizes, strides = (directions, self.gates, self.units, columns), (apart, self.units * row, row, column)
        return Place(place.memory, place.offset, TensorDesc(data_type=self.type, sizes=sizes, strides=strides))

    def names_in(self, layer: int) -> tuple[str, ...]:
        """The names of the tensors that `params` holds for a layer."""
        return tuple(name for name, kind in _BLOCKS.items() if (layer, 0, kind) in self.blocks)

    def reordered(self, name: str) -> bool:
        """Returns whether a layer's tensor orders its gates differently from `params`."""
        return self.reorders and name != "projection"

    def order(self, source: GateOrder, target: GateOrder) -> tuple[int, ...]:
        gates = source.gates(self.cell)
        return tuple(gates.index(gate) for gate in target.gates(self.cell))

    def layer(
        self, number: int, kind: type[ReserveDesc], places: Mapping[str, Place], stores: Mapping[str, GateMove], mask: Mask | None
    ) -> StackLayer:
        """A layer with its parameters.

        Args:
            number: the layer's number, from 0.
            kind: the operator.
            places: the places of all its tensors but the parameters, by field.
            stores: moves of gradients, by the name of the parameter.
            mask: the dropout that follows.
        """
        layer_places: dict[str, Place] = dict(places)
        scratch = {move.source.memory: layer_places[f"{name}_gradient_tensor"].tensor for name, move in stores.items()}
        loads = []
        fields = {field.name for field in kind.inputs()}
        for name in self.names_in(number):
            field, block = f"{name}_tensor", self.block("params", number, name)
            if field not in fields:  # a gradient needs no bias
                continue
            if self.reordered(name):
                layer_places[field] = Place(name, 0, self._packed_desc(*block.tensor.sizes))
                scratch[name] = layer_places[field].tensor
                order = self.order(GateOrder.CUDNN, GateOrder.DIRECTML)
                loads.append(GateMove(self.by_gate(name, block), self.by_gate(name, layer_places[field]), order))
            else:
                layer_places[field] = block
        identity = None
        if number == 0 and self.skips:
            scratch["weight"] = self._packed_desc(1, self.directions, self.gates * self.units, self.inputs)
            identity = layer_places["weight_tensor"] = Place("weight", 0, scratch["weight"])
        members: dict[str, Any] = {field: place.tensor for field, place in layer_places.items()}
        desc = kind(**members, **self.attributes())
        return StackLayer(number, identity, tuple(loads), desc, layer_places, tuple(stores.values()), mask, scratch)

    def attributes(self) -> dict[str, Any]:
        """The attributes that describe the cell, without its tensors."""
        direction = RecurrentDirection.BIDIRECTIONAL if self.directions == 2 else RecurrentDirection.FORWARD
        attributes: dict[str, Any] = {"direction": direction, "activation_descs": _ACTIVATIONS[self.desc.rnn_mode] * self.directions}
        return attributes | {"linear_before_reset": True} if self.cell == "GRU" else attributes


class _Network(_Builder):
    """The forward network."""

    def stack(self) -> Stack:
        if not any(self.has(name) for name in ("output", "output_h", "output_c", "reserve_space")):
            return Stack((), {})
        places = self.lengths()
        layers = []
        for number in range(self.layers):
            last = number == self.layers - 1
            layer_places = dict(places)
            layer_places["input_tensor"] = self.between_times(*self._input(number)) if number else self.times("input")
            if not last:
                layer_places["output_sequence_tensor"] = self.between_by_direction(*self._input(number + 1))
            elif self.has("output"):
                layer_places["output_sequence_tensor"] = self.by_direction("output")
            layer_places |= self.states_of(number, {"input_h": "hidden_init_tensor", "input_c": "cell_mem_init_tensor"})
            layer_places |= self.states_of(number, {"output_h": "output_single_tensor", "output_c": "output_cell_single_tensor"})
            if self.has("reserve_space"):
                layer_places["reserve_tensor"] = self.reserve_of(number)
            mask = Mask(self.between_times(*self._input(number + 1)), number) if self.drops and not last else None
            layers.append(self.layer(number, _TRAINING[self.cell], layer_places, {}, mask))
        reserve = [*map(self.reserve_of, range(self.layers)), *(self.between_times(*self.saved_input(at)) for at in range(1, self.layers))]
        return Stack(tuple(layers), self.scratch, tuple(reserve) if self.has("reserve_space") else ())

    def _input(self, layer: int) -> tuple[str, int]:
        """The array between a layer and the one below, in the reserve or in scratch."""
        return self.saved_input(layer) if self.has("reserve_space") else self.turn(layer)


class _Gradient(_Builder):
    """The gradient: the same layers from the last to the first."""

    def stack(self) -> Stack:
        places = self.lengths()
        layers = []
        for number in reversed(range(self.layers)):
            layer_places = dict(places)
            layer_places["input_tensor"] = self.between_times(*self.saved_input(number)) if number else self.times("input")
            layer_places["reserve_tensor"] = self.reserve_of(number)
            if number < self.layers - 1:
                layer_places["output_sequence_gradient_tensor"] = self.between_by_direction(*self.turn(number + 1))
            elif self.has("output_backprop"):
                layer_places["output_sequence_gradient_tensor"] = self.by_direction("output_backprop")
            upstream = {"output_h_backprop": "output_single_gradient_tensor", "output_c_backprop": "output_cell_single_gradient_tensor"}
            results = {"input_h_backprop": "hidden_init_gradient_tensor", "input_c_backprop": "cell_mem_init_gradient_tensor"}
            layer_places |= self.states_of(number, upstream | results)
            mask = None
            if number:
                layer_places["input_gradient_tensor"] = self.between_times(*self.turn(number))
                mask = Mask(layer_places["input_gradient_tensor"], number - 1) if self.drops else None
            elif self.has("input_backprop"):
                layer_places["input_gradient_tensor"] = self.times("input_backprop")
            stores = self._gradients(number, layer_places) if self.has("params_backprop") else {}
            layers.append(self.layer(number, _GRADIENTS[self.cell], layer_places, stores, mask))
        return Stack(tuple(layers), self.scratch)

    def _gradients(self, number: int, layer_places: dict[str, Place]) -> dict[str, GateMove]:
        """Adds the parameters' gradients to a layer's places, and returns the moves that copy them to `params`."""
        stores = {}
        for name in self.names_in(number):
            home = self.block("params_backprop", number, name)
            if not self.reordered(name):
                layer_places[f"{name}_gradient_tensor"] = home
                continue
            place = layer_places[f"{name}_gradient_tensor"] = Place(f"{name}_gradient", 0, self._packed_desc(*home.tensor.sizes))
            order = self.order(GateOrder.DIRECTML, GateOrder.CUDNN)
            stores[name] = GateMove(self.by_gate(name, place), self.by_gate(name, home), order)
        return stores
