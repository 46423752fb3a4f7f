"""One recurrent layer over buffers of its own: operators that were compiled and bound once for each size, and used again.

A call copies its arrays into the buffers of a `Workspace` and its results out of them, which costs far less than binding new memory. A
workspace belongs to one call at a time, and one whose gradient may follow to that call until nobody can ask for the gradient any more.

Where no gradient follows, weights are usually those of the call before. On a processor they are compared with a copy, bit by bit, and
only copied and packed again if something has changed: that takes a fraction of the time, and a caller may change them in place.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates. Gates are in DirectML's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.compiler import compile as compile_desc
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.constant_reuse import bind_with_reuse
from dmlpy.devices.host.memory import no_memory
from dmlpy.nn.idle_pool import DISPATCH_BYTES, IDLE
from dmlpy.nn.kept_weights import KeptWeights
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc, ActivationSigmoidDesc, ActivationTanhDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RecurrentTrainingDesc, RNNTrainingDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.gate_order import Cell, GateOrder
    from dmlpy.devices.device import Device
    from dmlpy.devices.dispatch import Dispatch
    from dmlpy.devices.operator import CompiledOperator
    from dmlpy.nn.arrays import Home, Native

_PLAIN: Mapping[Cell, type[RecurrentDesc]] = {"RNN": RNNDesc, "GRU": GRUDesc, "LSTM": LSTMDesc}
_TRAINING: Mapping[Cell, type[RecurrentTrainingDesc]] = {"RNN": RNNTrainingDesc, "GRU": GRUTrainingDesc, "LSTM": LSTMTrainingDesc}
_GATES: tuple[ActivationDesc, ...] = (ActivationSigmoidDesc(), ActivationTanhDesc())
_ACTIVATIONS: Mapping[str, ActivationDesc] = {"tanh": ActivationTanhDesc(), "relu": ActivationReluDesc()}
ACTIVATIONS = tuple(_ACTIVATIONS)
"""The activations of a simple recurrent layer."""


class Layer(NamedTuple):
    """A recurrent layer without its sizes.

    Attributes:
        cell: `RNN`, `GRU` or `LSTM`.
        direction: in which the steps are processed.
        activation: of a simple recurrent layer: `tanh` or `relu`.
        reset_after: whether a GRU's reset gate multiplies the recurrent product, as in cuDNN, or h before it.
    """

    cell: Cell
    direction: RecurrentDirection = RecurrentDirection.FORWARD
    activation: str = "tanh"
    reset_after: bool = True

    @property
    def gates(self) -> int:
        """The number of gates, G."""
        return len(_PLAIN[self.cell].gate_names)

    @property
    def directions(self) -> int:
        """The number of directions, D."""
        return self.direction.count

    def attributes(self) -> dict[str, Any]:
        """The attributes of its desc."""
        of_cell = {"LSTM": (*_GATES, _GATES[1]), "GRU": _GATES, "RNN": (_ACTIVATIONS[self.activation],)}[self.cell]
        attributes: dict[str, Any] = {"direction": self.direction, "activation_descs": of_cell * self.directions}
        return attributes | {"linear_before_reset": self.reset_after} if self.cell == "GRU" else attributes


class Sizes(NamedTuple):
    """The sizes of a pass: T, B, I and H."""

    steps: int
    batch: int
    inputs: int
    units: int


class _Key(NamedTuple):
    """The key of a workspace: those of equal keys can replace each other.

    Attributes:
        layer: the layer.
        sizes: its sizes.
        dtype: the type of all arrays.
        ragged: whether sequences may end before the last step.
        trains: whether the gradient may follow.
        device: the device's name.
        stream: the identity of the stream in which its last work is ordered; 0 on a CPU.
    """

    layer: Layer
    sizes: Sizes
    dtype: np.dtype[Any]
    ragged: bool
    trains: bool
    device: str
    stream: int


class Workspace:
    """The buffers of a layer, and the operators that are bound to them.

    Attributes:
        x: the input, [T, B, I].
        w: [D, G H, I].
        r: [D, G H, H].
        b: [D, 2 G H], Wb then Rb.
        h0: h before the first step, [D, B, H].
        c0: the same for an LSTM's cell state; None for other cells.
        lengths: uint32 [B]; None where all sequences have T steps.
        y: h of every step, [T, B, D H].
        h: h after each sequence's last step, [D, B, H].
        c: the same for an LSTM's cell state.
        upstream: the gradients of `y`, `h` and `c`, by name, of the same shapes.
        gradients: the gradients of `x`, `w`, `r`, `b`, `h0` and `c0`, by name.

    Args:
        home: the device with its array library.
        key: what it is for.
    """

    def __init__(self, home: Home, key: _Key) -> None:
        layer, (steps, batch, inputs, units) = key.layer, key.sizes
        directions, rows = layer.directions, layer.gates * units
        self._xp, self._dtype, self._bytes = home.xp, key.dtype, 0
        self._device, self._stream = home.device, key.stream
        self._uses: list[Callable[[int], None]] = []
        self.x = self._zeros(steps, batch, inputs)
        self.w = self._zeros(directions, rows, inputs)
        self.r = self._zeros(directions, rows, units)
        self.b = self._zeros(directions, 2 * rows)
        self.h0 = self._zeros(directions, batch, units)
        self.c0 = self._zeros(directions, batch, units) if layer.cell == "LSTM" else None
        self.lengths = self._zeros(batch, dtype=np.uint32) if key.ragged else None
        self.y = self._zeros(steps, batch, directions * units)
        self.h = self._zeros(directions, batch, units)
        self.c = self._zeros(directions, batch, units) if layer.cell == "LSTM" else None
        self.upstream: dict[str, Native] = {}
        self.gradients: dict[str, Native] = {}
        self._directions = directions
        self._reads: Dispatch | None = None
        self._weights = KeptWeights()
        self._is_packed = False
        self._forward, self._backward = self._bind(home, key)

    def _zeros(self, *shape: int, dtype: Any = None) -> Native:
        array = self._xp.zeros(shape, dtype or self._dtype)
        self._bytes += array.nbytes
        memory = self._device.memory_of(array, self._device.current_stream())
        if memory.used_in is not None:
            self._uses.append(memory.used_in)
        return array

    @property
    def bytes(self) -> int:
        """The size of all buffers and scratch, and about that of the dispatches."""
        return self._bytes + self._weights.bytes

    def set_weights(self, order: GateOrder, sources: Sequence[Native], fill: Callable[[], None]) -> None:
        """Sets `w`, `r` and `b` for the next run, unless they are those of the last one.

        Args:
            order: the order of the gates in the arrays.
            sources: all arrays that they depend on.
            fill: copies the arrays into the buffers.
        """
        self._is_packed = self._weights.are(order, sources)
        if not self._is_packed:
            fill()
            if self._reads is not None:
                self._weights.note(order, sources)

    def run(self) -> None:
        """Computes `y`, `h` and `c`."""
        if self._is_packed and self._reads is not None:
            self._reads()
            return
        self._forward()
        self._weights.settle()

    def note_use(self) -> None:
        """Notes that work in the current stream uses the buffers: they are not freed before it is done, or its CUDA graph is destroyed."""
        if self._uses:
            stream = self._device.current_stream()
            if self._device.stream_identity(stream) == self._stream and not self._device.is_capturing(stream):
                return  # as those for which they were allocated
            for used_in in self._uses:
                used_in(stream)

    def differentiate(self) -> None:
        """Computes `gradients` from `upstream`; the buffers must hold what they held in `run`."""
        assert self._backward is not None
        self._backward()

    def _bind(self, home: Home, key: _Key) -> tuple[Dispatch, Dispatch | None]:
        layer = key.layer
        inputs = {"input_tensor": self.x[None], "weight_tensor": self.w[None], "recurrence_tensor": self.r[None]}
        inputs |= {"bias_tensor": self.b[None, None], "hidden_init_tensor": self.h0[None]}
        outputs = {"output_sequence_tensor": self._by_direction(self.y), "output_single_tensor": self.h[None]}
        if self.c0 is not None and self.c is not None:
            inputs["cell_mem_init_tensor"], outputs["output_cell_single_tensor"] = self.c0[None], self.c[None]
        if self.lengths is not None:
            inputs["sequence_lengths_tensor"] = self.lengths[None, None, None]
        kind = _TRAINING[layer.cell] if key.trains else _PLAIN[layer.cell]
        described: dict[str, Any] = {name: TensorDesc.of(array) for name, array in (inputs | outputs).items()}
        desc = kind(**described, **layer.attributes())
        if not isinstance(desc, RecurrentTrainingDesc):
            return self._bind_inference(self._compiled(home, desc), inputs, outputs), None
        desc = desc.with_outputs("reserve_tensor")
        assert desc.reserve_tensor is not None
        reserve = self._zeros(*desc.reserve_tensor.sizes, dtype=np.float32)
        forward = self._compiled(home, desc).bind(inputs, outputs | {"reserve_tensor": reserve})
        return forward, self._bind_gradient(home, desc, inputs | {"reserve_tensor": reserve})

    def _bind_inference(self, operator: CompiledOperator, inputs: Mapping[str, Native], outputs: Mapping[str, Native]) -> Dispatch:
        repeated = bind_with_reuse(operator, inputs, outputs)
        if repeated is None:
            return operator.bind(inputs, outputs)
        self._reads = repeated.reads
        self._bytes += DISPATCH_BYTES  # of the second one, in the same scratch
        return repeated.packs

    def _bind_gradient(self, home: Home, desc: RecurrentTrainingDesc, read: Mapping[str, Native]) -> Dispatch:
        self.upstream = {"y": self._zeros(*self.y.shape), "h": self._zeros(*self.h.shape)}
        self.gradients = {name: self._zeros(*getattr(self, name).shape) for name in ("x", "w", "r", "b", "h0")}
        given = {
            "output_sequence_gradient_tensor": self._by_direction(self.upstream["y"]),
            "output_single_gradient_tensor": self.upstream["h"][None],
        }
        gradients = {
            "input_gradient_tensor": self.gradients["x"][None],
            "weight_gradient_tensor": self.gradients["w"][None],
            "recurrence_gradient_tensor": self.gradients["r"][None],
            "bias_gradient_tensor": self.gradients["b"][None, None],
            "hidden_init_gradient_tensor": self.gradients["h0"][None],
        }
        if self.c is not None:
            self.upstream["c"], self.gradients["c0"] = self._zeros(*self.c.shape), self._zeros(*self.c.shape)
            given["output_cell_single_gradient_tensor"] = self.upstream["c"][None]
            gradients["cell_mem_init_gradient_tensor"] = self.gradients["c0"][None]
        described: dict[str, Any] = {name: TensorDesc.of(array) for name, array in (given | gradients).items()}
        gradient = desc.gradient(*gradients).replace(**described)
        needed = gradient.tensors()
        inputs = {name: array for name, array in read.items() if name in needed}
        return self._compiled(home, gradient).bind(inputs | given, gradients)

    def _compiled(self, home: Home, desc: OperatorDesc) -> CompiledOperator:
        """The operator, of which a dispatch and its scratch are counted."""
        operator = compile_desc(desc, home.device)
        self._bytes += DISPATCH_BYTES + operator.binding_properties.temporary_resource_size
        return operator

    def _by_direction(self, array: Native) -> Native:
        """Views [T, B, D H] as [T, D, B, H]."""
        steps, batch, entries = array.shape
        return array.reshape(steps, batch, self._directions, entries // self._directions).transpose(0, 2, 1, 3)


class Lease:
    """The use of a workspace by one call: it goes back when the lease is closed, or when nothing refers to it any more.

    Attributes:
        space: the workspace.

    Args:
        space: the workspace.
        key: what it is for; None if there is to be no other lease of it.
    """

    def __init__(self, space: Workspace, key: _Key | None) -> None:
        self.space = space
        self._key = key

    def lend(self, array: Native) -> Native:
        """An array of the workspace that keeps the lease for as long as anybody refers to it. Elsewhere than in NumPy's memory: a copy."""
        return np.asarray(_Lent(self, array)) if type(array) is np.ndarray else array.copy()

    def follow(self, device: Device) -> None:
        """Notes that from now on the workspace is used in the current stream: the next lease has to come after that work.

        A CUDA graph that captures the work uses the workspace whenever it is launched: then there is no other lease.
        """
        if self._key is not None:
            stream = device.current_stream()
            self._key = None if device.is_capturing(stream) else self._key._replace(stream=device.stream_identity(stream))

    def close(self) -> None:
        """Gives the workspace back."""
        key, self._key = self._key, None
        if key is not None:
            IDLE.put(key, self.space)

    def __del__(self) -> None:
        self.close()


class _Lent:
    """The base of a lent array: NumPy keeps it while a view of the array lives."""

    def __init__(self, lease: Lease, array: np.ndarray[Any, Any]) -> None:
        self._lease = lease
        self.__array_interface__ = array.__array_interface__


def lease(home: Home, layer: Layer, sizes: Sizes, dtype: Any, *, ragged: bool, trains: bool) -> Lease:
    """A workspace for one call, in the device's current stream.

    Args:
        home: the device with its array library.
        layer: the layer.
        sizes: T, B, I and H, all at least 1.
        dtype: float32, float16 or bfloat16.
        ragged: whether the call has sequence lengths.
        trains: whether the gradient may follow.
    """
    stream = home.device.current_stream()
    key = _Key(layer, sizes, np.dtype(dtype), ragged, trains, home.device.name, home.device.stream_identity(stream))
    is_captured = home.device.is_capturing(stream)
    space: Workspace | None = None if is_captured else IDLE.take(key)
    if space is None:
        try:
            space = Workspace(home, key)
        except MemoryError as error:  # CuPy's too
            raise no_memory("dmlpy.nn's buffers", error) from None
    return Lease(space, None if is_captured else key)


def free_buffers() -> None:
    """Frees the buffers that calls of `dmlpy.nn`, `dmlpy.thinc` and `dmlpy.torch` keep for the next ones of the same sizes."""
    IDLE.clear()


def idle_bytes() -> int:
    """The memory of the buffers that `free_buffers` would free."""
    return IDLE.bytes
