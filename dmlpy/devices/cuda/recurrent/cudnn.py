"""Stacked recurrent networks and their gradients on CUDA: the layers' plans in sequence, and the work between them.

`dmlpy.operators.recurrent.stack` describes the layers and their tensors; raw_kernels/recurrent/cudnn.cu describes the work
around them. Kernels read the dropout's offset, so a dispatch can be captured and its offset changed between replays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.matrix_products import headline, supported_flags
from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, in_range, scalar_type, strided, struct
from dmlpy.devices.cuda.plans import Target
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS
from dmlpy.devices.cuda.recurrent.gradient_plan import gradient_plan
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.devices.plan import Launch, Layout, Plan, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.recurrent.cudnn import RESERVE_HEADER, CudnnRNNDesc, CudnnRNNV3Desc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.stack import GateMove, Mask, Place, StackLayer, stack_of

if TYPE_CHECKING:
    from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
    from dmlpy.devices.cuda.recurrent.layer import RecurrentPlan

MOVE_GATES = struct(("source", STRIDED), ("target", STRIDED), ("sizes", np.int64, (4,)), ("order", np.int32, (4,)))
IDENTITY = struct(("target", np.uint64), ("matrices", np.int64), ("units", np.int64))
DROPOUT = struct(("key", np.uint32, (2,)), ("threshold", np.uint32), ("scale", np.float32))
"""`Dropout` of raw_kernels/common/philox.cuh."""
DROP = struct(("values", np.uint64), ("offset", np.uint64), ("count", np.int64), ("dropout", DROPOUT), ("layer", np.uint32))
CLAMP_LENGTHS = struct(
    ("given", np.uint64), ("lengths", np.uint64), ("stride", np.int64), ("batch_size", np.int32), ("seq_length", np.int32)
)
WRITE_HEADER = struct(("header", np.uint64), ("offset", np.uint64), ("count", np.int32))

Memory = Mapping[str, tuple[int, int]]
"""Address and element size of each tensor and scratch array, by name."""

_FILE = "recurrent/cudnn.cu"
_WORD = 0xFFFFFFFF

CLAMP_LENGTHS_KERNEL = Kernel(_FILE, "clamp_lengths<>", CLAMP_LENGTHS, "ClampLengthsParameters")
WRITE_HEADER_KERNEL = Kernel(_FILE, "write_header<>", WRITE_HEADER, "WriteHeaderParameters")


def move_gates_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `move_gates` for matrices or biases of this element type."""
    scalar = scalar_type(data_type)
    return Kernel(_FILE, f"move_gates<{scalar}>", MOVE_GATES, f"MoveGatesParameters<{scalar}>")


def identity_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `identity` of this element type."""
    scalar = scalar_type(data_type)
    return Kernel(_FILE, f"identity<{scalar}>", IDENTITY, f"IdentityParameters<{scalar}>")


def drop_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `drop` for values of this element type."""
    scalar = scalar_type(data_type)
    return Kernel(_FILE, f"drop<{scalar}>", DROP, f"DropParameters<{scalar}>")


class NetworkPlan(PlanWithoutConstants):
    """A network of stacked layers, or its gradient.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        tf32: whether factors of float32 matrix products may be rounded to TF32.
        strategy: the strategy of every layer; None leaves the choice to `strategies`.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    def __init__(self, desc: CudnnRNNDesc, library: KernelLibrary, tf32: bool = False, strategy: str | None = None) -> None:
        self._desc = desc
        self._library = library
        self._tensors = desc.tensors()
        self._type = desc.input.data_type.numpy
        self._known = desc.sizes()
        self._stack = stack_of(desc)
        self._plans = [self._layer_plan(layer, tf32, strategy) for layer in self._stack.layers]
        self._tf32 = any(plan.supported_flags for plan in self._plans)
        self.supported_flags = supported_flags(self._tf32)
        self._shared = Layout([(name, tensor.sizes, tensor.data_type.numpy) for name, tensor in self._stack.scratch.items()], ALIGNMENT)
        self._layouts = [_layer_layout(layer, plan) for layer, plan in zip(self._stack.layers, self._plans, strict=True)]
        self.temporary_size = self._shared.size + max((layout.size for layout in self._layouts), default=0)
        self.capturable = sum(plan.steps_apart for plan in self._plans) <= MOST_CAPTURED_STEPS

    def load(self) -> None:
        for plan in self._plans:
            plan.load()
        self._library.functions(self.kernels())

    def _layer_plan(self, layer: StackLayer, tf32: bool, strategy: str | None) -> RecurrentPlan | RecurrentGradientPlan:
        desc, library = layer.desc, self._library
        plan: RecurrentPlan | RecurrentGradientPlan
        if isinstance(desc, RecurrentGradDesc):
            plan = gradient_plan(desc, Target(library, tf32, strategy))
        else:
            plan = recurrent_plan(desc, Target(library, tf32, strategy))
        plan.label = f"layer {layer.number} of {self._desc.c_name}"
        return plan

    def kernels(self) -> list[Kernel]:
        """The kernels that this plan launches itself, without those of its layers."""
        layers = self._stack.layers
        needed = [CLAMP_LENGTHS_KERNEL] if "lengths" in self._stack.scratch else []
        if isinstance(self._desc, CudnnRNNV3Desc) and "reserve_space" in self._tensors:
            needed.append(WRITE_HEADER_KERNEL)
        if any(layer.loads or layer.stores for layer in layers):
            needed.append(move_gates_kernel(self._type))
        if any(layer.identity is not None for layer in layers):
            needed.append(identity_kernel(self._type))
        if any(layer.mask is not None for layer in layers):
            needed.append(drop_kernel(self._type))
        return needed

    def describe(self) -> str:
        count = f"{len(self._plans)} layer(s), one after the other, in the same scratch of {self.temporary_size} bytes"
        lines = [f"{headline(self._library, self._type, tf32=self._tf32)}; {count}"]
        for layer, plan in zip(self._stack.layers, self._plans, strict=True):
            lines.append(f"layer {layer.number}:")
            lines += [f"    {line}" for line in (*layer.describe(), *plan.describe().splitlines())]
        return "\n".join(lines)

    def cost(self) -> Cost:
        return Cost(layers=tuple(plan.cost() for plan in self._plans))

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        memory = {name: (pointer, self._tensors[name].data_type.numpy.itemsize) for name, pointer in tensors.items()}
        memory |= self._shared.typed_pointers(temporary)
        work = self._prologue(memory)
        for layer, plan, layout in zip(self._stack.layers, self._plans, self._layouts, strict=True):
            of_layer = in_order(self._layer(layer, plan, memory | layout.typed_pointers(temporary + self._shared.size)))
            work.append(in_range(self._library.runtime, f"layer {layer.number}", of_layer))
        return in_order(work)

    # work

    def _prologue(self, memory: Memory) -> list[Launch]:
        """The work before the layers: clamps lengths, clears what no layer writes in the reserve, prepares TensorFlow's inputs."""
        library, work = self._library, list[Launch]()
        if "lengths" in self._stack.scratch:
            clamp = np.zeros(1, CLAMP_LENGTHS)
            clamp["given"], clamp["lengths"] = memory["sequence_lengths"][0], memory["lengths"][0]
            (clamp["stride"],) = self._tensors["sequence_lengths"].element_strides
            clamp["batch_size"], clamp["seq_length"] = self._known["batch_size"], self._known["seq_length"]
            work.append(library.launch_elements(CLAMP_LENGTHS_KERNEL, self._known["batch_size"], clamp))
        if not isinstance(self._desc, CudnnRNNV3Desc):
            return work
        if "host_reserved" in memory:
            (reserved, itemsize), runtime = memory["host_reserved"], library.runtime
            work.append(lambda stream: runtime.memset(reserved, 0, itemsize, stream))
        if "reserve_space" in memory:
            header = np.zeros(1, WRITE_HEADER)
            header["header"], header["offset"], header["count"] = memory["reserve_space"][0], self._offset(memory), RESERVE_HEADER
            work.append(library.launch_elements(WRITE_HEADER_KERNEL, RESERVE_HEADER, header))
            gaps = self._stack.gaps(self._known["reserve_size"])
            work += [partial(library.runtime.memset, memory["reserve_space"][0] + begin, 0, end - begin) for begin, end in gaps]
        return work

    def _offset(self, memory: Memory) -> int:
        """The address of the dropout's offset, in the network's input or as the reserve recorded it; 0 without one."""
        name = "dropout_offset" if isinstance(self._desc, CudnnRNNV3Desc) else "reserve_space"
        return memory[name][0] if name in memory else 0

    def _layer(self, layer: StackLayer, plan: Plan, memory: Memory) -> list[Launch]:
        """The work of one layer."""
        work: list[Launch] = [] if layer.identity is None else [self._identity(layer.identity, memory)]
        work += [self._move(move, memory) for move in layer.loads]
        pointers = {name: _address(place, memory) for name, place in layer.places.items()}
        work.append(plan.bind(pointers, memory["work"][0], None))
        work += [self._move(move, memory) for move in layer.stores]
        return work if layer.mask is None else [*work, self._drop(layer.mask, memory)]

    def _move(self, move: GateMove, memory: Memory) -> Launch:
        argument = np.zeros(1, MOVE_GATES)
        for name, place in (("source", move.source), ("target", move.target)):
            argument[name] = strided(place.tensor, _address(place, memory))
        argument["sizes"] = move.target.tensor.sizes
        argument["order"][0, : len(move.order)] = move.order
        return self._library.launch_elements(move_gates_kernel(self._type), move.target.tensor.element_count, argument)

    def _identity(self, place: Place, memory: Memory) -> Launch:
        units = place.tensor.sizes[-1]
        argument = np.zeros(1, IDENTITY)
        argument["target"] = _address(place, memory)
        argument["matrices"], argument["units"] = prod(place.tensor.sizes[:-1]) // units, units
        return self._library.launch_elements(identity_kernel(self._type), place.tensor.element_count, argument)

    def _drop(self, mask: Mask, memory: Memory) -> Launch:
        desc, count = self._desc, mask.place.tensor.element_count
        argument = np.zeros(1, DROP)
        argument["values"], argument["offset"] = _address(mask.place, memory), self._offset(memory)
        argument["count"], argument["layer"] = count, mask.layer
        dropout = argument["dropout"]
        dropout["key"] = desc.seed & _WORD, desc.seed2 & _WORD
        dropout["threshold"], dropout["scale"] = int(desc.dropout * 2.0**32), 1.0 / (1.0 - desc.dropout)
        return self._library.launch_elements(drop_kernel(self._type), count, argument)


def _layer_layout(layer: StackLayer, plan: Plan) -> Layout:
    scratch = [(name, tensor.sizes, tensor.data_type.numpy) for name, tensor in layer.scratch.items()]
    return Layout([*scratch, ("work", (plan.temporary_size,), np.dtype(np.uint8))], ALIGNMENT)


def _address(place: Place, memory: Memory) -> int:
    pointer, itemsize = memory[place.memory]
    return pointer + place.offset * itemsize


def network_plan(desc: CudnnRNNDesc, target: Target) -> NetworkPlan:
    return NetworkPlan(desc, target.library, target.tf32, target.strategy)
