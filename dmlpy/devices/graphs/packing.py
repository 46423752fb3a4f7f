"""`Packing`: fills the persistent memory of a graph with copies of its owned inputs and with packed constants."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.device import Device, Memory, no_memory
from dmlpy.devices.graphs.memory_planner import aligned
from dmlpy.devices.pickling import Bytes, layout_fingerprint, packed_bytes
from dmlpy.devices.plan import Launch, in_order
from dmlpy.messages.problems import PickleError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from dmlpy.devices.binding import BoundTensor
    from dmlpy.devices.graphs.ir import Source
    from dmlpy.devices.graphs.program import GraphProgram

_ALLOCATED_ALIGNMENT = 64
"""Every device's allocations are aligned to this many bytes."""


class Packing:
    """The initialisation of one graph.

    Attributes:
        staged_size: bytes of the constants that are only packed, and are in the device's memory meanwhile.

    Args:
        program: the graph's.
        device: where it runs.
        name: the graph's, for messages.
    """

    def __init__(self, program: GraphProgram, device: Device, name: str) -> None:
        self._program, self._device, self._name = program, device, name
        self._places: dict[Source, int] = {}
        self.staged_size = 0
        for source in program.staged_constants:
            self._places[source] = self.staged_size
            self.staged_size += aligned(len(self._data(source)))

    def allocate(self, size: int, stream: int, purpose: str) -> Memory:
        """Memory that is aligned as the descs of the graph promise."""
        alignment = self._program.alignment
        if not size or alignment <= _ALLOCATED_ALIGNMENT:
            return self._device.allocate(size, stream, purpose)
        block = self._device.allocate(size + alignment, stream, purpose)
        return Memory(block.pointer + -block.pointer % alignment, size, block, block.used_in)

    def pack(self, owned: Sequence[BoundTensor], persistent: Memory | None, stream: int, temporary: Memory | None = None) -> Memory:
        """Enqueues the initialisation.

        Args:
            owned: the owned inputs.
            persistent: memory to fill; None allocates it.
            stream: where the work is ordered.
            temporary: `staged_size` bytes to use meanwhile; None allocates them.

        Returns:
            The filled memory.
        """
        device, program = self._device, self._program
        memory = persistent or self.allocate(program.persistent_size, stream, f"packed constants of {self._name}")
        if not program.persistent_size:
            return memory
        scratch = temporary or device.allocate(self.staged_size, stream, f"constants of {self._name} while they are packed")
        bases = {program.ir.inputs[item.name][0]: item.pointer for item in owned}
        stage = [self._stage(source, scratch.pointer + place, stream) for source, place in self._places.items()]
        bases |= {source: scratch.pointer + place for source, place in self._places.items()}
        raw = {source: device.upload(self._data(source), stream) for source in self._packed_and_read()}
        bases |= {source: item.pointer for source, item in raw.items()}
        work = self._copies(bases, memory.pointer) + self._packs(bases, memory.pointer)
        used = [memory, scratch, *stage, *raw.values()]
        try:
            device.dispatched(in_order(work), f"{self._name} prepare", used)(stream)
        except MemoryError as error:
            raise no_memory(f"{self._name}.prepare", error) from None
        return memory

    def _data(self, source: Source) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        node = self._program.ir.constant(source)
        assert node is not None
        return np.frombuffer(node.data, np.uint8)

    def _stage(self, source: Source, pointer: int, stream: int) -> Memory:
        uploaded = self._device.upload(self._data(source), stream)
        self._device.copy(pointer, uploaded.pointer, uploaded.size, stream)
        return uploaded

    def _packed_and_read(self) -> tuple[Source, ...]:
        """Constants that one node packs and another one reads as they are."""
        packed = {root for step in self._program.steps for root, _ in step.constants.values()}
        return tuple(source for source in self._program.raw_constants if source in packed)

    def _copies(self, bases: Mapping[Source, int], persistent: int) -> list[Launch]:
        """The launches that copy owned inputs."""
        ir, device = self._program.ir, self._device
        sizes = {source: tensor.extent_in_bytes for source, tensor in map(ir.inputs.__getitem__, ir.owned)}

        def copy(source: Source, offset: int) -> Launch:
            return lambda stream: device.copy(persistent + offset, bases[source], sizes[source], stream)

        return [copy(source, offset) for source, offset in self._program.owned.items()]

    def _packs(self, bases: Mapping[Source, int], persistent: int) -> list[Launch]:
        """The launches that pack the constants of nodes."""
        return [
            step.operator._plan.pack(
                {place: bases[root] + byte for place, (root, byte) in step.constants.items()}, persistent + step.packed
            )
            for step in self._program.steps
            if step.packed is not None
        ]

    @cached_property
    def layout(self) -> Hashable:
        """A key of how owned inputs and constants are packed: graphs with equal keys pack alike. None if unknown.

        Constants are identified by the objects that hold their bytes.
        """
        program, inputs = self._program, self._program.ir.inputs
        packed = [step for step in program.steps if step.packed is not None]
        if any(step.operator._plan.packing is None for step in packed):
            return None
        plans = [(step.node, step.packed, type(step.operator._plan), step.operator._plan.packing) for step in packed]
        places = [(place, *location) for step in packed for place, location in step.constants.items()]
        constants = [id(node.data) for _, root, _ in places if (node := program.ir.constant(root)) is not None]
        owned = [(name, inputs[name]) for name in program.ir.owned]
        return program.persistent_size, tuple(program.owned.items()), tuple(owned), tuple(plans), tuple(places), tuple(constants)

    # pickles

    def packed_bytes(self, memory: Memory) -> Bytes:
        """The filled memory in host memory; waits for the work on the current stream."""
        return packed_bytes(self._device, memory, self._program.persistent_size)

    def fingerprint(self) -> bytes:
        """A hash of how the plans of all nodes pack: equal hashes pack alike."""
        digest = blake2b(str(self._program.persistent_size).encode(), digest_size=16)
        for step in self._program.steps:
            if step.packed is not None:
                digest.update(f"{step.node} {step.packed} ".encode() + layout_fingerprint(step.operator))
        for source, offset in self._program.owned.items():
            digest.update(f"{source} {offset} ".encode())
        return digest.digest()

    def restore(self, packed: Bytes, fingerprint: bytes) -> Memory:
        """Allocates memory of the device and fills it with the bytes of a pickle.

        Raises:
            PickleError: they were packed for another layout.
        """
        if fingerprint != self.fingerprint():
            raise PickleError(
                f"a pickle of a prepared graph {self._name} does not fit this machine: the plans here pack constants in another layout. "
                "With prepare(portable=True, ...) it is packed anew where it is loaded"
            )
        device, stream = self._device, self._device.current_stream()
        memory = self.allocate(len(packed), stream, f"packed constants of {self._name}")
        if len(packed):
            stage = device.upload(packed, stream)
            device.copy(memory.pointer, stage.pointer, len(packed), stream)
            device.synchronize(stream)  # dispatches may go into other streams
        return memory
