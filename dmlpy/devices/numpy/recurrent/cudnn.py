"""Stacked recurrent networks and their gradients in NumPy: the layers' plans in sequence, and the work between them.

`dmlpy.operators.recurrent.stack` describes the layers and where their tensors lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlpy.description.arrays import array_at
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.host.floating_point import in_order
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, arrays_of
from dmlpy.operators.recurrent.cudnn import RESERVE_HEADER, CudnnRNNDesc, CudnnRNNV3Desc
from dmlpy.operators.recurrent.stack import GateMove, Mask, Place, StackLayer, stack_of
from dmlpy.reference.philox import dropout_multipliers, dropout_scratch, round_keys

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.gradient import ReserveDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]
Memory = Mapping[str, tuple[int, int]]
"""Address and element size of each array, by name."""

_ALIGNMENT = 64
_MASK_ELEMENTS = 1 << 14
"""Multipliers that are computed before they are used: few enough for a cache, enough to hide the overhead of the calls."""
_WORD = 0xFFFFFFFF


class LayerPlan(Protocol):
    """A plan of one layer."""

    temporary_size: int
    persistent_size: int
    leaves_packed: bool

    def describe(self) -> str: ...

    def load(self) -> None: ...

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch: ...


class NetworkPlan(PlanWithoutConstants):
    """A network of stacked layers, or its gradient, on the host.

    Args:
        desc: a checked desc.
        layer_plan: makes the plan of a layer.
        library: the name of what runs it.
        reserve_layout: that of the layers' plans.
    """

    def __init__(
        self,
        desc: CudnnRNNDesc,
        layer_plan: Callable[[ReserveDesc], LayerPlan] = DefinitionPlan,
        library: str = "NumPy",
        reserve_layout: str = PlanWithoutConstants.reserve_layout,
    ) -> None:
        self._desc, self._library, self.reserve_layout = desc, library, reserve_layout
        self._packs = True
        self._tensors = desc.tensors()
        self._stack = stack_of(desc)
        self._plans = [layer_plan(layer.desc) for layer in self._stack.layers]
        shared = [(name, tensor.sizes, tensor.data_type.numpy) for name, tensor in self._stack.scratch.items()]
        masked = max((layer.mask.place.tensor.element_count for layer in self._stack.layers if layer.mask is not None), default=0)
        if masked:
            room = min(masked, _MASK_ELEMENTS)
            shared += [("multipliers", (room,), COMPUTE), *dropout_scratch(room)]
        self._shared = Layout(shared, _ALIGNMENT)
        self._layouts = [self._layer_layout(layer, plan) for layer, plan in zip(self._stack.layers, self._plans, strict=True)]
        self.temporary_size = self._shared.size + max((layout.size for layout in self._layouts), default=0)

    @property
    def reusing(self) -> NetworkPlan | None:
        if len(self._plans) != 1 or not self._plans[0].leaves_packed:  # the next layer packs in the same scratch
            return None
        plan = copy(self)
        plan._packs = False
        return plan

    def load(self) -> None:
        for plan in self._plans:
            plan.load()

    def describe(self) -> str:
        lines = [f"{self._library}, {COMPUTE} arithmetic; {len(self._plans)} layer(s), one after the other, in the same scratch"]
        for layer, work in zip(self._stack.layers, self._plans, strict=True):
            lines.append(f"layer {layer.number}:")
            lines += [f"    {line}" for line in (*layer.describe(), *work.describe().splitlines())]
        return "\n".join(lines)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes, strides and types."""
        memory = {name: (array.ctypes.data, array.itemsize) for name, array in arrays.items()} | self._shared.typed_pointers(temporary)
        calls = [*self._prologue(arrays, memory)]
        for layer, work, layout in zip(self._stack.layers, self._plans, self._layouts, strict=True):
            calls += self._layer(layer, work, layout, arrays, memory, temporary)
        return in_order(calls)

    # memory

    def _layer_layout(self, layer: StackLayer, plan: LayerPlan) -> Layout:
        scratch = [(name, tensor.sizes, tensor.data_type.numpy) for name, tensor in layer.scratch.items()]
        return Layout([*scratch, ("work", (plan.temporary_size,), np.dtype(np.uint8))], _ALIGNMENT)

    def _view(self, place: Place, memory: Memory) -> Array:
        address, itemsize = memory[place.memory]
        tensor: TensorDesc = place.tensor
        return array_at(address + place.offset * itemsize, tensor.sizes, tensor.data_type.numpy, tensor.element_strides)

    # work

    def _prologue(self, arrays: Arrays, memory: Memory) -> list[Call]:
        """The work before the layers: clamps lengths, clears what no layer writes in the reserve, prepares TensorFlow's inputs."""
        calls: list[Call] = []
        if "lengths" in self._stack.scratch:
            given, steps = arrays["sequence_lengths"], self._desc.sizes()["seq_length"]
            lengths = self._view(Place("lengths", 0, self._stack.scratch["lengths"]), memory)[0, 0, 0]
            calls.append(lambda: np.clip(given, 0, steps, out=lengths, casting="unsafe"))
        if not isinstance(self._desc, CudnnRNNV3Desc):
            return calls
        if "host_reserved" in arrays:
            reserved = arrays["host_reserved"]
            calls.append(lambda: reserved.fill(0))
        if "reserve_space" in arrays:
            header, offset = _words(arrays["reserve_space"])[:RESERVE_HEADER], self._offset(arrays)

            def write_header() -> None:
                header.fill(0)
                header[0], header[1] = offset() & _WORD, offset() >> 32

            calls.append(write_header)
            reserve = arrays["reserve_space"].view(np.uint8)
            calls += [partial(reserve[begin:end].fill, 0) for begin, end in self._stack.gaps(arrays["reserve_space"].size)]
        return calls

    def _offset(self, arrays: Arrays) -> Callable[[], int]:
        """A function that reads the dropout's offset when called, from the network's input or the reserve."""
        if not isinstance(self._desc, CudnnRNNV3Desc):
            header = _words(arrays["reserve_space"])
            return lambda: int(header[0]) | int(header[1]) << 32
        given = arrays.get("dropout_offset")
        return (lambda: 0) if given is None else (lambda: int(given[0]))

    def _layer(self, layer: StackLayer, plan: LayerPlan, layout: Layout, arrays: Arrays, memory: Memory, temporary: int) -> list[Call]:
        """The work of one layer."""
        scratch = layout.typed_pointers(temporary + self._shared.size)
        memory = {**memory, **scratch}
        calls: list[Call] = []
        views, (work, _) = {name: self._view(place, memory) for name, place in layer.places.items()}, scratch["work"]
        if self._packs:
            if layer.identity is not None:
                calls.append(_identity(self._view(layer.identity, memory)))
            calls += [self._move(move, memory) for move in layer.loads]
            launch = plan.bind_arrays(views, work, None)
        else:
            launch = plan.bind_arrays(views, work + plan.persistent_size, work)
        calls.append(lambda: launch(0))
        calls += [self._move(move, memory) for move in layer.stores]
        if layer.mask is not None:
            calls.append(self._drop(layer.mask, arrays, memory))
        return calls

    def _move(self, move: GateMove, memory: Memory) -> Call:
        source, target = self._view(move.source, memory), self._view(move.target, memory)

        def work() -> None:
            for gate, given in enumerate(move.order):
                target[:, gate] = source[:, given]

        return work

    def _drop(self, mask: Mask, arrays: Arrays, memory: Memory) -> Call:
        """Multiplies an array by its dropout's multipliers."""
        desc, offset = self._desc, self._offset(arrays)
        values = self._view(mask.place, memory).reshape(-1)
        scratch = {
            name: array_at(memory[name][0], sizes, dtype, packed_strides(sizes))
            for name, (_, sizes, dtype) in self._shared.arrays.items()
            if name not in self._stack.scratch
        }
        multipliers = scratch["multipliers"]
        room, keys = multipliers.size, round_keys((desc.seed & _WORD, desc.seed2 & _WORD))

        def work() -> None:
            now = offset()
            for first in range(0, values.size, room):
                part = values[first : first + room]
                factors = multipliers[: part.size]
                dropout_multipliers(first, mask.layer, keys, now, desc.dropout, factors, scratch)
                np.multiply(part, factors, out=part, casting="same_kind")

        return work


def _words(reserve: Array) -> Array:
    """The reserve's elements as bit patterns."""
    return reserve.view(f"u{reserve.itemsize}")


def _identity(matrices: Array) -> Call:
    """Sets every gate's square of [1, D, G H, H] to the identity."""
    columns = matrices.shape[-1]
    squares = matrices.reshape(-1, columns * columns)
    diagonals = squares[:, :: columns + 1]

    def work() -> None:
        squares.fill(0.0)
        diagonals.fill(1.0)

    return work
