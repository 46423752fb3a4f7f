"""The plan of sums of weighted gathers, and the parameters of its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.graphs.weighted_gather_desc import WeightedGatherDesc

WEIGHTED_GATHER = Kernel("dmlpy.devices.cpu.indexing.weighted_gather_kernels:build_weighted_gather", 5)
"""Sums of weighted gathers: their terms, whether channels are contiguous, and the instruction set."""
CHANNELS_OF_BLOCK = 4
"""Channels, of those that are not contiguous, that a place's indices are loaded for."""
_PLACES_OF_PIECE = 1024
"""Places of a unit, at most."""
_WORK_OF_A_THREAD = 1 << 17
"""Products that are worth waking another thread for."""


class WeightedGatherParameters(UnitParameters):
    """The parameters of the kernel. A unit is a piece of the places of a block of channels of a batch."""

    places: Count = field("places of a batch")
    piece: Count = field("places of a piece")
    pieces: Count = field("pieces of a batch")
    channels: Count = field("channels")
    block: Count = field("channels of a block")
    blocks: Count = field("blocks of channels")
    elements: Count = field("elements that indices choose from")
    indices: Address = field("the addresses of the indices of each term, int64 [terms]")
    weights: Address = field("the addresses of the weights of each term, int64 [terms]")
    input: Address = field("the input")
    input_batch: Bytes = field("from a batch of the input to the next")
    input_element: Bytes = field("from an element of the input to the next")
    input_channel: Bytes = field("from a channel of the input to the next")
    output: Address = field("the output")
    output_batch: Bytes = field("from a batch of the output to the next")
    output_place: Bytes = field("from a place of the output to the next")
    output_channel: Bytes = field("from a channel of the output to the next")


class WeightedGatherPlan(PlanWithoutConstants):
    """Sums of weighted gathers by a compiled kernel.

    Args:
        desc: a checked desc with packed indices and weights.
    """

    temporary_size = 0

    def __init__(self, desc: WeightedGatherDesc) -> None:
        source, target, self._terms = desc.input_tensor, desc.output_tensor, len(desc.indices_tensors)
        (batches, places, channels), elements = target.sizes, source.sizes[1]
        self._contiguous = source.element_strides[2] == 1 and target.element_strides[2] == 1 and channels > 1
        block = channels if self._contiguous else CHANNELS_OF_BLOCK
        pieces, blocks = -(-places // _PLACES_OF_PIECE), -(-channels // block)
        self._values: dict[str, Any] = {
            "places": places,
            "piece": min(places, _PLACES_OF_PIECE),
            "pieces": pieces,
            "channels": channels,
            "block": block,
            "blocks": blocks,
            "elements": elements,
        }
        for name, tensor, along in (("input", source, "element"), ("output", target, "place")):
            names = (f"{name}_batch", f"{name}_{along}", f"{name}_channel")
            self._values |= {step_name: stride * FLOAT_BYTES for step_name, stride in zip(names, tensor.element_strides, strict=True)}
        threads = Threads.of(available_threads(), target.element_count * self._terms, _WORK_OF_A_THREAD)
        self._shares = WorkShares(batches * pieces * blocks, threads)

    def _kernel(self) -> Function:
        return WEIGHTED_GATHER(self._terms, self._contiguous, host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        along = "channels" if self._contiguous else "places"
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; sums of {self._terms} gathers along {along}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            **self._values,
            "indices": [tensors[f"indices_tensors[{term}]"] for term in range(self._terms)],
            "weights": [tensors[f"weight_tensors[{term}]"] for term in range(self._terms)],
            "input": tensors["input_tensor"],
            "output": tensors["output_tensor"],
        }
        return TaskLaunch.of(self._kernel(), WeightedGatherParameters.bound(values), self._shares.threads)
